"""``fedeas plan`` as a user sees it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from own_data import NAMES, write_site
from typer.testing import CliRunner

from fedeas_app.budget import POLICIES
from fedeas_app.commands import app
from fedeas_app.wording import duration

FEDEAS = Path(sys.executable).with_name("fedeas")


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def invoke(*arguments):
        return CliRunner().invoke(app, ["plan", *map(str, arguments)])

    return invoke


@pytest.fixture
def counts(tmp_path):
    """Return a table whose plan is known: 70 images at β = 12, all at the first client."""
    path = tmp_path / "counts.csv"
    path.write_text("cat,dog\n50,0\n7,7\n")
    return path


def test_a_table_of_counts_is_planned(plan, counts):
    result = plan("--counts", counts)
    assert result.exit_code == 0
    assert "Policy fedeas, β = 12: 70 synthetic for 64 real images (52.2% of all)" in result.stdout
    assert "imbalance 0.781 → 0.000" in result.stdout
    for policy in POLICIES:
        assert policy in result.stdout


def test_json_is_json_alone(plan, counts):
    result = plan("--counts", counts, "--json")
    assert result.exit_code == 0
    plain = json.loads(result.stdout)
    assert plain["synthetic"] == 70
    assert [client["synthetic-counts"] for client in plain["clients"]] == [[10, 60], [0, 0]]
    assert plain["totals"]["full"] == 50


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_planned(plan, counts, policy):
    result = plan("--counts", counts, "--set", f"policy={policy}", "--json")
    plain = json.loads(result.stdout)
    assert plain["policy"] == policy
    assert plain["synthetic"] == plain["totals"][policy]


def test_beta_by_option(plan, counts):
    def beta(*arguments):
        return json.loads(plan("--counts", counts, "--json", *arguments).stdout)["beta"]

    assert beta("--beta", "4") == 4.0
    assert beta("--beta", "auto") == 2.0
    assert beta("--set", "beta=3", "--beta", "0.5") == 0.5


def test_nothing_to_make_is_said(plan, tmp_path):
    path = tmp_path / "even.csv"
    path.write_text("5,5\n3,3\n")
    result = plan("--counts", path)
    assert result.exit_code == 0
    assert "No synthetic image at all" in result.stdout


def test_many_clients_are_cut_short_but_not_in_json(plan, tmp_path):
    path = tmp_path / "many.csv"
    path.write_text("9,0\n" * 45)
    assert "... and 5 more clients" in plan("--counts", path).stdout
    assert len(json.loads(plan("--counts", path, "--json").stdout)["clients"]) == 45


def test_the_digits_are_planned(plan, tmp_path):
    result = plan("digits", "--set", f"cache-dir={tmp_path}", "--set", "num-clients=3", "--json")
    assert result.exit_code == 0
    plain = json.loads(result.stdout)
    assert len(plain["clients"]) == 3
    assert all(len(client["counts"]) == 10 for client in plain["clients"])
    assert 1_000 < plain["real"] == sum(client["num-examples"] for client in plain["clients"])
    assert list(tmp_path.glob("synthetic*")) == []  # planned, not made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--beta", "-1"], "beta is -1.0"),
        (["--beta", "nan"], "beta is nan"),
        (["--beta", "lots"], "beta is 'lots'"),
        (["--set", "polcy=full"], "did you mean 'policy'"),
        (["--set", "policy"], "--set takes KEY=VALUE, not 'policy'"),
        (["nowhere.toml"], "There is no configuration file nowhere.toml and no preset"),
    ],
)
def test_a_mistake_is_one_sentence(plan, counts, arguments, words):
    result = plan("--counts", counts, *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("content", "words"), [("", "no client"), ("1,2\n3\n", "line 2")])
def test_a_bad_table_is_one_sentence(plan, tmp_path, content, words):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    result = plan("--counts", path)
    assert result.exit_code == 1
    assert words in result.stderr


def test_the_installed_command(counts):
    done = subprocess.run(
        [FEDEAS, "plan", "--counts", counts, "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["synthetic"] == 70
    wrong = subprocess.run(
        [FEDEAS, "plan", "--counts", "none.csv"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 1
    assert wrong.stdout == ""
    assert "Error: The counts table none.csv cannot be read" in wrong.stderr
    assert "Traceback" not in wrong.stderr


OWN = [
    f"--set={key}={value}"
    for key, value in {
        "dataset": "own", "classes": ",".join(NAMES), "image-size": 8, "image-channels": 1
    }.items()
]  # fmt: skip


def test_a_site_plans_for_its_own_images(plan, tmp_path, monkeypatch):
    """Of 10 images of each class, 2 are held out; the other classes are absent."""
    write_site(tmp_path / "scans", [3, 5], count=10)
    monkeypatch.chdir(tmp_path)
    cache = f"--set=cache-dir={tmp_path / 'cache'}"
    found = json.loads(plan(*OWN, cache, "--data-path", "scans", "--json").stdout)
    (site,) = found["clients"]
    assert site["counts"] == [0, 0, 0, 8, 0, 8, 0, 0, 0, 0]
    b = int((16 / 10) ** 0.5 * (1 - math.log(2) / math.log(10)) * 12)
    assert site["synthetic-counts"] == [b, b, b, max(0, b - 8), b, max(0, b - 8), b, b, b, b]


def test_a_site_sees_which_of_its_folders_are_empty(plan, tmp_path):
    site = write_site(tmp_path / "scans", [3, 5], count=10)
    (site / NAMES[0]).mkdir()
    cache = f"--set=cache-dir={tmp_path / 'cache'}"
    said = plan(*OWN, cache, "--data-path", site).stdout
    assert f"The folder 'kind-nought' of {site} has no image: this class is absent.\n" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (OWN, "the images are at the SuperNodes"),
        ([*OWN, "--data-path=x", "--beta=auto"], "depends on all others"),
        ([*OWN, "--data-path=x", "--set=policy=uniform"], "depends on all others"),
        (["--data-path=x"], "--data-path is for dataset 'own', but it is 'digits'"),
        ([*OWN, "--data-path=nowhere"], "nowhere does not exist"),
    ],
)
def test_what_a_site_cannot_plan_is_said(plan, arguments, words):
    result = plan(*arguments)
    assert result.exit_code == 1
    assert words in result.stderr


def test_the_price_of_a_generator_that_the_clients_train(plan, cache_dir, monkeypatch):
    from fedeas_app.generators.federated import cost

    asked = []

    def estimate(settings, shape, classes, sizes):
        asked.append((shape, classes, sum(sizes)))
        return cost.Cost(702_625, 60.0, 2_810_500, 340_000_000, 0.5, 90.0, 3700.0, 91_968, 0.5, 320)

    monkeypatch.setattr(cost, "estimate", estimate)
    words = ("digits", "--set", f"cache-dir={cache_dir}", "--set", "generator=federated")
    shown = " ".join(plan(*words).stdout.split())
    assert "(702,625 parameters) is trained first, in 60 rounds: 340 MB" in shown
    assert "about 1 min 30 s at the client with the most images" in shown
    assert "1 h 1 min for all in turn" in shown
    assert "Pooling the clients' images would move 0.1 MB once" in shown
    assert "The search for copies draws 320 images: about 2 min 40 s, all in turn." in shown
    made = json.loads(plan(*words, "--json").stdout)["totals"]
    assert f"{duration(made['fedeas'] / 2)} for the {made['fedeas']:,} of policy fedeas" in shown
    assert f"{duration(made['full'] / 2)} for the {made['full']:,} of policy full, all" in shown
    assert json.loads(plan(*words, "--json").stdout)["generator"]["client-bytes"] == 340_000_000
    assert asked == [((8, 8, 1), 10, 1437)] * 3
    assert "trained first" not in plan(*words, "--set", "policy=none").stdout


def test_a_site_sees_its_own_part_of_the_price(plan, tmp_path, monkeypatch):
    from fedeas_app.generators.federated import cost

    price = cost.Cost(702_625, 60.0, 2_810_500, 340_000_000, 0.5, 90.0, 90.0, 1_024_000, 0.5, 0)
    monkeypatch.setattr(cost, "estimate", lambda *_: price)
    site = write_site(tmp_path / "scans", [3, 5], count=10)
    cache = f"--set=cache-dir={tmp_path / 'cache'}"
    result = plan(*OWN, cache, "--data-path", site, "--set=generator=federated")
    shown = " ".join(result.stdout.split())
    assert "340 MB to and from each client; about 1 min 30 s at this site with this" in shown
    assert "would move 1.0 MB once, of this site alone:" in shown
    assert "of policy full, at this site." in shown
    assert "in turn" not in shown
    assert "search for copies" not in shown  # of none here
    assert "all clients together" not in shown
