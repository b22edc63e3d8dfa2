"""Runs that train their generator first: real clients and server in one process."""

import json
import logging
import re
import shutil
from collections import Counter

import numpy as np
import pytest
import torch
from fake_grid import FakeGrid, failed
from flwr.app import Array, ArrayRecord, Context, RecordDict
from safetensors.torch import load_file, save_file

import server_app
from fedeas_app.errors import UserError
from fedeas_app.generators import open_generator
from fedeas_app.generators.federated.journal import Journal, begun
from fedeas_app.generators.sampling import NotFiniteError
from fedeas_app.privacy.accounting import epsilon_of
from fedeas_app.settings import Settings
from fedeas_app.strategies.report import RoundReport

WEIGHTS = "generator/unet/diffusion_pytorch_model.safetensors"


def start(settings, tamper=None, grid=None):
    grid = grid or FakeGrid(settings, settings.num_clients, tamper=tamper)
    server_app.main(grid, Context(1, 0, {}, RecordDict(), settings.to_flat()))
    return settings.output_path / settings.run_name


def lines(run, drop=("seconds",)):
    text = (run / "generator.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in drop} for line in text]


def read(run, name):
    return json.loads((run / name).read_text(encoding="utf-8"))


def broken_off(settings, server_round, kind="train.generator"):
    """Break a run off when the first client of a round has answered."""

    def tamper(partition, request, reply):
        config = request.content["config"]
        if request.metadata.message_type == kind and config["server-round"] == server_round:
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        start(settings, tamper)
    return settings.output_path / settings.run_name


def same_weights(first, second, file=WEIGHTS):
    return (first / file).read_bytes() == (second / file).read_bytes()


def test_the_clients_train_it_and_then_use_it(whole):
    settings = whole(generator_samples_every=2, generator_checked=8)
    grid = FakeGrid(settings, 3)
    run = start(settings, grid=grid)
    asked = Counter(msg.metadata.message_type for msg in grid.requests)
    assert asked == {
        "query.presence": 3, "train.generator": 9, "query.generator": 3, "query.prepare": 3,
        "train": 3,
    }  # fmt: skip
    assert [line["round"] for line in lines(run)] == [1, 2, 3]
    for line in lines(run):
        assert sum(line["weights"].values()) == pytest.approx(1)
        assert line["failures"] == {}
    assert not (run / "generator.training").exists()
    pictures = sorted(path.name for path in (run / "generator/samples").iterdir())
    assert pictures == ["round-00002.png", "round-00003.png"]
    card = read(run, "generator/card.json")
    assert card["data"] == {"dataset": "digits", "revision": None, "split": "train", "images": 120}
    assert card["federated"]["clients"] == 3
    assert card["federated"]["generator-rounds"] == 3
    found = read(run, "generator-copies.json")
    assert (found["checked"], len(found["clients"])) == (3 * 8, 3)
    assert set(read(run, "summary.json")["seconds"]) == {"load", "generator", "prepare", "train"}
    assert read(run, "plan.json")["synthetic"] > 0

    plain = {"generator": str(run / "generator"), "generation-precision": "float32"}
    found = open_generator(Settings.parse(settings.to_flat() | plain))
    assert found.digest == read(run, "plan.json")["generator-digest"]
    assert found.image_shape == (8, 8, 1)
    assert found.class_names == tuple("0123456789")


def test_the_network_travels_in_one_piece(job):
    """A SuperLink serves each array for itself, which costs far more than the bytes."""
    settings = job(generator_rounds=1)
    grid = FakeGrid(settings, 3)
    start(settings, grid=grid)
    sent = [m for m in grid.requests if m.metadata.message_type == "train.generator"]
    back = [m for m in grid.replies if m.metadata.message_type == "train.generator"]
    assert [len(msg.content["arrays"]) for msg in sent + back] == [1] * 6


def test_a_network_of_another_length_does_not_count(job):
    def tamper(partition, request, reply):
        if request.metadata.message_type == "train.generator" and partition == 1:
            reply.content["arrays"] = ArrayRecord({"network": Array(np.zeros(3, np.float32))})
        return reply

    (line,) = lines(start(job(generator_rounds=1), tamper))
    assert list(line["weights"]) == ["0", "2"]
    assert re.fullmatch(r"network is of shape \[3\], not \[\d+\]", line["failures"]["1"])


def test_a_seed_gives_the_same_bits(job):
    first = start(job("first", generator_fraction=0.5))
    second = start(job("second", generator_fraction=0.5), None)
    other = start(job("other", generator_fraction=0.5, seed=1))
    assert same_weights(first, second)
    assert lines(first) == lines(second)
    assert not same_weights(first, other)


def test_half_of_the_clients_a_round(job):
    run = start(job(generator_fraction=0.5, generator_rounds=5))
    took_part = [tuple(line["weights"]) for line in lines(run)]
    assert {len(who) for who in took_part} == {2}
    assert len(set(took_part)) > 1


@pytest.mark.parametrize(
    "keys",
    [
        {"generator_transfer": "float16"},
        {"generator_strategy": "fedadam", "generator_embeddings": "movers", "generator_mu": 0.1},
    ],
)
def test_an_interrupted_one_goes_on_to_the_same_bits(job, keys):
    whole = start(job("whole", **keys))
    broken = broken_off(job(**keys), 3)
    assert (broken / "generator.training/checkpoint.safetensors").is_file()
    assert len(lines(broken)) == 2
    grid = FakeGrid(job(**keys, resume=True), 3)
    start(job(**keys, resume=True), grid=grid)
    rounds = [m for m in grid.requests if m.metadata.message_type == "train.generator"]
    assert len(rounds) == 3
    assert same_weights(broken, whole)
    assert lines(broken) == lines(whole)


def test_what_was_written_after_the_checkpoint_is_dropped(job):
    broken = broken_off(job(checkpoint_every=2), 3)
    with (broken / "generator.jsonl").open("a") as stream:
        stream.write('{"round": 3}\n')
    start(job(checkpoint_every=2, resume=True))
    assert [line["round"] for line in lines(broken)] == [1, 2, 3]


def test_it_does_not_go_on_with_other_data(job):
    broken = broken_off(job(), 2)
    manifest = read(broken, "manifest.json")
    manifest["digests"]["train"] = "another"
    (broken / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="was begun with another train"):
        start(job(resume=True))


def test_a_finished_one_is_not_trained_again(whole):
    keys = {"rounds": 2, "generator_rounds": 1}
    broken = broken_off(whole(**keys), 2, kind="train")
    before = (broken / WEIGHTS).read_bytes()
    grid = FakeGrid(whole(**keys, resume=True), 3)
    start(whole(**keys, resume=True), grid=grid)
    assert "train.generator" not in {msg.metadata.message_type for msg in grid.requests}
    assert (broken / WEIGHTS).read_bytes() == before


def test_one_that_became_another_meanwhile_is_not_taken(whole):
    keys = {"rounds": 2, "generator_rounds": 1}
    broken = broken_off(whole(**keys), 2, kind="train")
    before = read(broken, "manifest.json")["digests"]["generator"]
    assert before == read(broken, "plan.json")["generator-digest"]
    tensors = load_file(broken / WEIGHTS)
    tensors["conv_in.weight"] += 0.1
    save_file(tensors, broken / WEIGHTS)
    with pytest.raises(UserError, match=f"was {before} when its clients had trained it, but is"):
        start(whole(**keys, resume=True))


def test_what_a_killed_process_left_of_it_is_removed(job):
    broken = broken_off(job(), 3)
    left = broken / f".generator.{'0a' * 16}"
    left.mkdir()
    start(job(resume=True))
    assert not left.exists()


def test_a_client_that_fails_does_not_stop_it(job):
    def tamper(partition, request, reply):
        is_first = request.content["config"].get("server-round") == 1
        fail = partition == 1 and request.metadata.message_type == "train.generator" and is_first
        return failed("no")(partition, _as_train(request), reply) if fail else reply

    run = start(job(), tamper)
    assert list(lines(run)[0]["failures"].values()) == ["no"]
    assert list(lines(run)[0]["weights"]) == ["0", "2"]
    assert list(lines(run)[1]["weights"]) == ["0", "1", "2"]


def test_who_has_lost_it_gets_it_again(whole):
    settings = whole(rounds=4, beta=12.0)  # everybody makes images

    def tamper(partition, request, reply):
        config = request.content["config"]
        if (partition, config.get("server-round")) == (0, 2) and kind(request) == "train":
            shutil.rmtree(settings.cache_path / "generators")  # before the others are asked
        return reply

    grid = FakeGrid(settings, 3, tamper=tamper)
    run = start(settings, grid=grid)
    text = (run / "rounds.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    took_part = [[p["partition"] for p in json.loads(line)["participants"]] for line in text]
    assert took_part == [[0, 1, 2], [0], [0, 1, 2], [0, 1, 2]]
    prepared = [m.metadata.dst_node_id for m in grid.requests if kind(m) == "query.prepare"]
    assert sorted(grid.partitions[node] for node in prepared[3:]) == [1, 2]


def test_who_fails_otherwise_does_not_get_it_again(whole):
    settings = whole(rounds=3)
    grid = FakeGrid(settings, 3, tamper=failed_in(2))
    start(settings, grid=grid)
    assert sum(kind(m) == "query.prepare" for m in grid.requests) == 3


def failed_in(server_round):
    """Return a fault: partition 1 answers this round with an error."""

    def tamper(partition, request, reply):
        now = request.content["config"].get("server-round") == server_round
        return failed("no")(partition, request, reply) if now and partition == 1 else reply

    return tamper


def kind(message):
    return message.metadata.message_type


def _as_train(request):
    request.metadata.message_type = "train"
    return request


def test_when_all_fail_the_run_says_why(job):
    def tamper(partition, request, reply):
        if request.metadata.message_type != "train.generator":
            return reply
        return failed("out of paper")(partition, _as_train(request), reply)

    with pytest.raises(UserError, match=r"Round 1 has no usable reply: out of paper"):
        start(job(), tamper)


def test_without_synthesis_there_is_nothing_to_train(whole):
    run = start(whole(policy="none"))
    assert not (run / "generator").exists()
    assert not (run / "generator.jsonl").exists()


def test_alone_it_ends_with_the_generator(job):
    run = start(job(policy="none", generator_rounds=1))
    assert (run / WEIGHTS).is_file()
    assert read(run, "summary.json")["status"] == "completed"
    assert not (run / "rounds.jsonl").exists()


def test_a_digest_that_was_promised_is_held_against_it(job):
    with pytest.raises(UserError, match="the clients have trained is ") as told:
        start(job("first", generator_rounds=1, generator_digest="0" * 64))
    digest = re.search(r"trained is (\w{64});", str(told.value))[1]
    start(job("second", generator_rounds=1, generator_digest=digest))


@pytest.fixture
def _half_are_copies(monkeypatch):
    monkeypatch.setattr(
        "fedeas_app.generators.federated.copies.copies_among", lambda made, own: len(made) // 2
    )


@pytest.mark.usefixtures("_half_are_copies")
def test_copies_stop_the_run_where_the_configuration_says_so(job):
    keys = {"generator_rounds": 1, "generator_checked": 8}
    run = start(job("allowed", **keys, generator_max_copies=0.5))
    generator = run.with_name("run") / "generator"
    words = (
        r"^4 of 8 images .* of partition 0, but generator-max-copies is 0\.4 .*"
        rf" --set generator={generator}\.$"
    )
    with pytest.raises(UserError, match=words):
        start(job(**keys, generator_max_copies=0.4))


@pytest.mark.usefixtures("_half_are_copies")
def test_copies_may_be_allowed_when_they_were_found(job):
    keys = {"generator_rounds": 1, "generator_checked": 8}
    with pytest.raises(UserError, match="resume with a larger generator-max-copies"):
        start(job(**keys, generator_max_copies=0.4))
    settings = job(**keys, generator_max_copies=0.5, resume=True)
    grid = FakeGrid(settings, 3)
    run = start(settings, grid=grid)
    assert "train.generator" not in {msg.metadata.message_type for msg in grid.requests}
    assert read(run, "summary.json")["status"] == "completed"


def finding(**answers):
    """Return a fault: partitions, as p0 and so on, find so many copies among so many images."""

    def tamper(partition, request, reply):
        if kind(request) == "query.generator" and f"p{partition}" in answers:
            metrics = reply.content["metrics"]
            metrics["checked"], metrics["copies"] = answers[f"p{partition}"]
        return reply

    return tamper


COPIES = {"generator_rounds": 1, "generator_checked": 8, "generator_max_copies": 0.4}


def test_many_clients_do_not_hide_the_copies_of_one(job):
    """2 of 24 in all, but half of those at partition 1."""
    with pytest.raises(UserError, match=r"^2 of 4 images of the generator .* of partition 1, but"):
        start(job(**COPIES), finding(p0=(8, 0), p1=(4, 2), p2=(8, 0)))


def test_many_copies_at_a_client_are_a_warning(job, caplog):
    caplog.set_level(logging.INFO, "flwr")
    start(job(**COPIES), finding(p0=(8, 0), p1=(0, 0), p2=(8, 1)))
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["At partition 2 1 of 8 do"]
    assert "Of 16 images of the generator, 1 copy one that they were held against" in caplog.text


@pytest.mark.parametrize("answer", [(9, 0), (2**53, 0), (8, 9), (8, -1)])
def test_an_answer_that_makes_no_sense_is_left_out(job, answer):
    keys = COPIES | {"generator_max_copies": 1.0}
    found = read(start(job(**keys), finding(p1=answer)), "generator-copies.json")
    assert [one["partition_id"] for one in found["clients"]] == [0, 2]
    ((why, count),) = found["failures"].items()
    assert re.search(r"\((checked|copies) is -?\d+, not a whole number from 0 to 8\)", why)
    assert count == 1


def test_who_has_not_looked_stops_a_run_that_has_a_limit(job):
    with pytest.raises(UserError, match=r"0\.4, but 1 client has not looked .*checked is 9, not"):
        start(job(**COPIES), finding(p1=(9, 0)))
    run = start(job(**COPIES, resume=True))
    assert len(read(run, "generator-copies.json")["clients"]) == 3


def test_who_is_gone_has_not_looked_either(job):
    settings = job(**COPIES)

    def tamper(partition, request, reply):
        if kind(request) == "train.generator" and partition == 2:
            grid.leave(next(n for n, k in grid.partitions.items() if k == 2))
        return reply

    grid = FakeGrid(settings, 3, tamper=tamper)
    with pytest.raises(UserError, match=r"not looked .*: Its SuperNode is not there any more\."):
        start(settings, grid=grid)


@pytest.mark.parametrize("who", ["central", "local"])
def test_its_updates_get_noise_as_the_classifiers_do_and_are_counted(whole, job, who):
    keys = {
        "privacy": who, "clip_norm": 0.5, "noise_multiplier": 1e-3, "noise_source": "seed",
        "strategy": "fedavg", "generator_rounds": 1, "generator_clip_norm": 2.0,
    }  # fmt: skip
    private, plain = start(whole("private", **keys)), start(job("plain", generator_rounds=1))
    ledger = read(private, "privacy.json")
    assert ledger["releases"] == {"0": 2, "1": 2, "2": 2}
    assert (ledger["clip-norm"], ledger["generator-clip-norm"]) == (0.5, 2.0)
    told = read(private, "generator/card.json")["privacy"]
    assert (told["privacy"], told["noise-multiplier"], told["epsilon"]) == (who, 1e-3, None)
    assert not same_weights(private, plain)


def foretold(caplog):
    """Return what the log has said by now of what the run will cost."""
    return [text for text in caplog.messages if text.startswith("Privacy (")]


def test_alone_it_says_what_it_will_cost_before_it_asks_anybody(job, caplog):
    """The classifier's rule and limit, which privacy would refuse, are not used then."""
    seen = []

    def tamper(partition, request, reply):
        if request.metadata.message_type == "train.generator":
            seen.append(foretold(caplog))
        return reply

    keys = {"privacy": "central", "generator_clip_norm": 2.0, "noise_multiplier": 1e-3}
    settings = job(**keys, generator_rounds=2, strategy="fedoui", clip_norm="off")
    with caplog.at_level(logging.INFO, logger="flwr"):
        run = start(settings, tamper)
    one, both = epsilon_of(1, 1e-3, 1e-5), epsilon_of(2, 1e-3, 1e-5)
    text = f"ε = {one:.2f} a round, {both:.2f} for who takes part in 2 rounds, at δ = 1e-05."
    assert [text in line for line in seen[0]] == [True]
    assert foretold(caplog) == seen[0]
    told = read(run, "summary.json")["privacy"]
    assert (told["generator-clip-norm"], told["epsilon"]) == (2.0, pytest.approx(both))


def test_what_a_finished_one_has_told_must_be_known_to_go_on(whole, caplog):
    keys = {
        "privacy": "central", "strategy": "fedavg", "clip_norm": 1.0, "generator_clip_norm": 2.0,
        "generator_rounds": 1, "rounds": 2, "noise_multiplier": 1e-3,
    }  # fmt: skip
    with caplog.at_level(logging.INFO, logger="flwr"):
        broken = broken_off(whole(**keys), 1, kind="train")
    assert [re.findall(r"in (\d+) rounds", line) for line in foretold(caplog)] == [["3"], ["3"]]
    (broken / "privacy.json").unlink()
    with pytest.raises(UserError, match=r"privacy\.json cannot be read .*; begin a new run\.$"):
        start(whole(**keys, resume=True))


def test_a_generator_from_elsewhere_has_told_nothing_here(tmp_path):
    (tmp_path / "generator").mkdir()
    assert not begun(tmp_path)
    Journal(tmp_path, 0).add(1, RoundReport((), {}))
    assert begun(tmp_path)


def test_its_updates_have_a_limit_of_their_own(job):
    limited = start(
        job("limited", generator_rounds=1, generator_clip_norm="median", clip_norm=1e-9)
    )
    plain = start(job("plain", generator_rounds=1))
    (line,) = lines(limited)
    norms = line["norms"]
    middle = sorted(norms.values())[1]
    assert line["clipped-by"] == pytest.approx({k: min(1, middle / n) for k, n in norms.items()})
    assert "norms" not in lines(plain)[0]
    assert not same_weights(limited, plain)


def test_a_node_that_comes_back_under_another_id_takes_part_again(job):
    settings = job(generator_rounds=4)
    grid = FakeGrid(settings, {10: 0, 11: 1, 12: 2})

    def tamper(partition, request, reply):
        if request.metadata.message_type == "train.generator" and partition == 0:
            if request.content["config"]["server-round"] == 1:
                grid.leave(12)
            if request.content["config"]["server-round"] == 2:
                grid.join(99, 2, {"partition-id": 2, "num-partitions": 3})
        return reply

    grid.tamper = tamper
    run = start(settings, grid=grid)
    took_part = [list(line["weights"]) for line in lines(run)]
    assert took_part[0] == took_part[1] == ["0", "1"]
    assert took_part[-1] == ["0", "1", "2"]
    assert read(run, "summary.json")["status"] == "completed"


def test_a_node_that_is_gone_for_good_is_named_and_the_run_goes_on(whole):
    settings = whole(generator_checked=4, num_clients=3)
    grid = FakeGrid(settings, {10: 0, 11: 1, 12: 2})

    def tamper(partition, request, reply):
        config = request.content["config"]
        if (partition, config.get("server-round")) == (0, 2) and 12 in grid.get_node_ids():
            grid.leave(12)
        return reply

    grid.tamper = tamper
    run = start(settings, grid=grid)
    assert [list(line["failures"]) for line in lines(run)] == [[], ["2"], ["2"]]
    assert [one["partition_id"] for one in read(run, "generator-copies.json")["clients"]] == [0, 1]
    assert [one["partition-id"] for one in read(run, "plan.json")["clients"]] == [0, 1]
    assert "num-clients = 3" in (run / "config.toml").read_text(encoding="utf-8")
    assert read(run, "summary.json")["status"] == "completed"


def without_generator(partition, request, reply):
    """Let partition 1 fail when it is handed the generator, though not when it prepares."""
    if request.metadata.message_type != "query.generator" or partition != 1:
        return reply
    return failed("no room")(partition, _as_train(request), reply)


def test_a_client_that_cannot_take_it_is_asked_again_before_the_rounds(whole):
    run = start(whole(rounds=2), without_generator)
    found = read(run, "generator-copies.json")
    assert found["failures"] == {"no room": 1}
    assert [one["partition_id"] for one in found["clients"]] == [0, 2]
    text = (run / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    took_part = [[p["partition"] for p in json.loads(line)["participants"]] for line in text[1:]]
    assert took_part == [[0, 2], [0, 1, 2]]


def test_too_few_that_can_take_it_end_the_run(whole):
    with pytest.raises(UserError, match=r"^query\.generator failed: no room$"):
        start(whole(min_replies=3), without_generator)


TOLD = {
    "query.presence": {"partition-id", "num-examples"},
    "train.generator": {"partition-id", "num-examples", "oui", "loss"},
    "query.generator": {"partition-id", "checked", "copies"},
}


def test_nodes_with_images_of_their_own_tell_no_more_than_is_documented(configure, tmp_path):
    from own_data import OWN_KEYS, write_site

    sites = {
        k: {"partition-id": k, "data-path": str(write_site(tmp_path / f"site-{k}", digits))}
        for k, digits in {0: [0, 1, 2], 1: [3, 4, 5, 6, 7, 8, 9]}.items()
    }
    keys = {
        "generator": "federated", "policy": "fedeas", "generator_rounds": 2, "sampler_steps": 2,
        "generator_epochs": 1, "generator_samples_every": 0, "rounds": 1, "beta": 1.0,
        "cache_dir": str(tmp_path / "cache"),
    }  # fmt: skip
    settings = configure(**OWN_KEYS | keys)
    grid = FakeGrid(settings, dict(enumerate(sites, 100)), node_configs=sites)
    run = start(settings, grid=grid)
    assert read(run, "generator/card.json")["data"]["dataset"] == "own"
    for kind, metrics in TOLD.items():
        replies = [r.content for r in grid.replies if r.metadata.message_type == kind]
        assert replies
        for content in replies:
            assert set(content["metrics"]) == metrics
            assert set(content) == {"metrics"} | (
                {"arrays"} if kind == "train.generator" else set()
            )
    model = load_file(run / "model.safetensors")
    assert all(torch.isfinite(w).all() for w in model.values())


@pytest.mark.parametrize(
    ("strategy", "also"), [("fedavg", ""), ("fedavgm", ", or server-learning-rate, which is 1")]
)
def test_a_generator_that_cannot_draw_any_more_names_the_keys(job, monkeypatch, strategy, also):
    def diverged(*_):
        raise NotFiniteError(7)

    monkeypatch.setattr("fedeas_app.generators.federated.rounds.write_picture", diverged)
    settings = job(generator_rounds=1, generator_samples_every=1, generator_strategy=strategy)
    with pytest.raises(
        UserError, match=f"before round 1: .*; lower generator-learning-rate{also}\\.$"
    ):
        start(settings)
