"""What is known of a scheduler is told again, and never believed where it does not hold."""

import json

import pytest

from fedeas_app.generators import sampling, schedulers
from fedeas_app.generators.sampling import Recipe, describe_sampler
from fedeas_app.generators.scheduler_memo import FILE, read_description, remembered
from fedeas_app.generators.schedulers import TooManyStepsError
from fedeas_app.store import DamagedError

ORIGIN = {"config": {"beta_end": 0.1 + 0.2, "trained_betas": None}, "steps": 3}
DESCRIPTION = ["DDIMScheduler", {"beta_end": 0.1 + 0.2, "trained_betas": None, "clip": True}]


class Describe:
    """Tells the description, and how often it was asked."""

    def __init__(self, error=None):
        self.asked = 0
        self.error = error

    def __call__(self):
        self.asked += 1
        if self.error is not None:
            raise self.error
        return DESCRIPTION


@pytest.fixture
def known(tmp_path):
    """The file of a description that is known."""
    remembered(tmp_path, ORIGIN, Describe())
    (file,) = tmp_path.glob(f"schedulers/*/{FILE}")
    return file


@pytest.mark.usefixtures("known")
def test_what_is_known_is_not_made_again(tmp_path):
    describe = Describe()
    assert remembered(tmp_path, ORIGIN, describe) == DESCRIPTION
    assert describe.asked == 0


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("change", [{"steps": 4}, {"config": {}}, {"more": None}])
def test_another_origin_is_another_description(tmp_path, change):
    describe = Describe()
    remembered(tmp_path, ORIGIN | change, describe)
    assert describe.asked == 1
    assert len(list((tmp_path / "schedulers").glob("[0-9a-f]*"))) == 2


def _forge(content, **changes):
    return json.dumps(json.loads(content) | changes).encode()


@pytest.mark.parametrize(
    "harm",
    [
        lambda content: content.replace(b"true", b"false"),
        lambda content: content[:-20],
        lambda _: b"",
        lambda _: b"\xff\x00",
        lambda _: b"[1]",
        lambda _: b"{}",
        lambda _: b"[" * 100_000,
        lambda content: _forge(content, origin={**ORIGIN, "steps": 4}),  # of somewhere else
        lambda content: _forge(content, description=["PixelSolver", {}]),
        lambda content: _forge(content, sha256=None),
    ],
)
def test_damage_is_never_believed_and_is_mended(tmp_path, known, harm):
    whole = known.read_bytes()
    known.write_bytes(harm(whole))
    with pytest.raises(DamagedError):
        read_description(known.parent)
    describe = Describe()
    assert remembered(tmp_path, ORIGIN, describe) == DESCRIPTION
    assert describe.asked == 1
    assert known.read_bytes() == whole


def test_one_under_anothers_name_is_not_believed(tmp_path, known):
    whole = known.read_bytes()
    remembered(tmp_path, ORIGIN | {"steps": 4}, Describe())
    (other,) = (p for p in tmp_path.glob(f"schedulers/*/{FILE}") if p != known)
    known.write_bytes(other.read_bytes())
    remembered(tmp_path, ORIGIN, Describe())
    assert known.read_bytes() == whole


@pytest.mark.parametrize("in_the_way", ["schedulers", ""])
def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, in_the_way):
    cache = tmp_path / "cache"
    (cache / in_the_way).parent.mkdir(exist_ok=True)
    (cache / in_the_way).write_text("mine")
    describe = Describe()
    assert remembered(cache, ORIGIN, describe) == DESCRIPTION
    assert describe.asked == 1


def test_what_cannot_be_made_is_not_kept(tmp_path):
    for _ in range(2):
        failing = Describe(TooManyStepsError())
        with pytest.raises(TooManyStepsError):
            remembered(tmp_path, ORIGIN, failing)
        assert failing.asked == 1
    assert remembered(tmp_path, ORIGIN, Describe()) == DESCRIPTION


# --- what a scheduler follows from ---


@pytest.fixture
def made(monkeypatch):
    """Count how often diffusers is asked for a scheduler."""
    calls = []
    real = sampling.make_sampler

    def make(*arguments):
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(sampling, "make_sampler", make)
    return calls


CONFIG = {"beta_schedule": "squaredcos_cap_v2", "num_train_timesteps": 100}
SOLVER = Recipe("dpm-solver++", 5)


@pytest.mark.parametrize(
    ("config", "recipe", "again"),
    [
        (CONFIG, Recipe("dpm-solver++", 5, 3.0, 10), 0),  # guidance is none of its business
        (CONFIG | {"num_train_timesteps": 99}, SOLVER, 1),
        (CONFIG, Recipe("dpm-solver++", 6), 1),
        (CONFIG, Recipe("ddim", 5), 1),
    ],
)
def test_a_scheduler_follows_from_its_configuration_and_recipe(
    tmp_path, made, config, recipe, again
):
    describe_sampler(CONFIG, SOLVER, tmp_path)
    assert len(made) == 1
    assert describe_sampler(config, recipe, tmp_path) == describe_sampler(config, recipe)
    assert len(made) == 1 + again + 1  # the last one without a cache


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (schedulers, ("_LAMBDA_MIN", -5.0)),
        (sampling, ("_CODE", ("sampling.py",))),
        (sampling, ("_libraries", lambda: {"diffusers": "0.0"})),
    ],
)
def test_a_scheduler_follows_from_our_code_and_the_libraries(
    tmp_path, made, monkeypatch, place, value
):
    describe_sampler(CONFIG, SOLVER, tmp_path)
    monkeypatch.setattr(place, *value)
    describe_sampler(CONFIG, SOLVER, tmp_path)
    assert len(made) == 2
