"""Two sites with images of their own, on real processes."""

import json
from pathlib import Path

import pytest
import tomli_w
from deployed import Federation, Loopback
from own_data import write_site

RUN = {
    "dataset": "own", "classes": "0,1,2,3,4,5,6,7,8,9", "image-size": 8, "image-channels": 1,
    "rounds": 2, "local-epochs": 1, "policy": "fedeas", "sampler-steps": 4,
}  # fmt: skip


@pytest.fixture
def sites(tmp_path: Path, marked_environment: dict[str, str]) -> Federation:
    """Two sites with different classes; only the first says where its cache is."""
    (tmp_path / "federation").mkdir()
    made = Federation(tmp_path / "federation", marked_environment, Loopback())
    made.make_certificates("site-0", "site-1")
    made.start_server()
    made.register("site-0", "site-1")
    for k, digits in enumerate((range(5), range(4, 10))):
        images = write_site(tmp_path / f"scans-{k}", digits, first=20 * k, names="0123456789")
        cache = f'cache-dir="{tmp_path}/cache-0"' if k == 0 else ""
        made.start_node(f"site-{k}", f'partition-id={k} data-path="{images}" device="cpu" {cache}')
    return made


def test_two_sites_train_on_what_only_they_have(sites: Federation, tmp_path: Path) -> None:
    config, of_the_run = tmp_path / "run.toml", tmp_path / "cache-of-the-run"
    places = {"cache-dir": str(of_the_run), "output-dir": str(tmp_path / "runs")}
    config.write_text(tomli_w.dumps(RUN | places))
    words = ["fedeas", "run", str(config), "--superlink", "site", "--set=num-clients=2"]
    done = sites.command(*words, "--set=run-name=own", timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    record = tmp_path / "runs/own"
    plan = json.loads((record / "plan.json").read_text())
    assert [client["num-examples"] for client in plan["clients"]] == [5 * 10, 6 * 10]
    assert plan["made"] == plan["synthetic"] > 0
    assert json.loads((record / "manifest.json").read_text())["evaluated-on"] == "clients"
    lines = [json.loads(line) for line in (record / "rounds.jsonl").read_text().splitlines()]
    assert [line["held-out"] for line in lines] == [2 * 11] * 3
    assert all(len(line["participants"]) == 2 for line in lines[1:])

    # Images are where each site's operator said, or at the site's home; never where the run says.
    for cache in (tmp_path / "cache-0", tmp_path / "federation/state/site-1/.cache/fedeas"):
        assert list(cache.glob("datasets/*/images.npy"))
        assert list(cache.glob("synthetic/*/*/*.safetensors"))
    assert {path.name for path in of_the_run.iterdir()} == {"generators", "schedulers"}  # its

    # Nor is a path of the run's read, though it is there and the server reads it.
    (generator,) = (of_the_run / "generators").glob("digits-*")
    done = sites.command(*words, f"--set=generator={generator}", timeout=900)
    assert done.returncode == 1
    assert "a SuperNode reads no path that its operator did not name" in done.stderr
