"""Where an unfinished training lies, and that it is one training's alone."""

import pytest

from fedeas_app.errors import UserError
from fedeas_app.generators.workshop import CHECKPOINT, RUN, workshop, workshop_of


def test_it_stays_until_the_target_is_there(tmp_path):
    target = tmp_path / "a"
    with workshop(target, RUN) as place:
        (place / RUN).mkdir()
    assert place == workshop_of(target) == tmp_path / "a.training"
    with workshop(target, RUN):
        assert (place / RUN).is_dir()
        (place / RUN).rename(target)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_it_stays_when_the_training_breaks_off(tmp_path):
    def train():
        with workshop(tmp_path / "a", CHECKPOINT) as place:
            (place / CHECKPOINT).touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    assert (tmp_path / "a.training" / CHECKPOINT).is_file()


def test_one_training_at_a_time_has_it(tmp_path):
    with (
        workshop(tmp_path / "a", RUN),
        pytest.raises(UserError, match="Another process is training"),
        workshop(tmp_path / "a", CHECKPOINT),
    ):
        pass
    with workshop(tmp_path / "a", CHECKPOINT):
        pass


@pytest.mark.parametrize(
    ("left", "kind", "words"),
    [(RUN, CHECKPOINT, "with --federated"), (CHECKPOINT, RUN, "on pooled images")],
)
def test_a_training_of_the_other_kind_keeps_it(tmp_path, left, kind, words):
    (tmp_path / "a.training" / left).mkdir(parents=True)
    with (
        pytest.raises(UserError, match=f"unfinished training {words}; repeat its command"),
        workshop(tmp_path / "a", kind),
    ):
        pass
    assert (tmp_path / "a.training" / left).is_dir()
