"""A limit is kept by removing what was not used for longest, and never what a run needs."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_generator import FakeGenerator
from full_cache import age
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app import files, inventory
from fedeas_app.errors import UserError
from fedeas_app.generators import eviction
from fedeas_app.generators.cache import Drawer
from fedeas_app.inventory import removing

NEED = np.array([4])
WANTED = 4 * (8 * 8 + 16)  # pixels, and 8 bytes each for label and index


@pytest.fixture
def old(tmp_path):
    """Three drawers of one size, last used 5, 3 and 4 days ago."""
    drawers = [Drawer(tmp_path, FakeGenerator(), seed) for seed in range(3)]
    for drawer, days in zip(drawers, (5, 3, 4), strict=True):
        drawer.fetch(NEED)
        age(drawer.directory, days)
    return drawers


def held(cache):
    return sum(entry.size for entry in inventory.take_drawers(cache))


def fetch(cache, seed, limit, need=NEED):
    return Drawer(cache, FakeGenerator(batch_size=2), seed, limit_gb=limit / 1e9).fetch(need)


def there(drawers):
    return [drawer.directory.is_dir() for drawer in drawers]


def test_without_a_limit_everything_stays(tmp_path, old):
    fetch(tmp_path, 9, 0)
    assert there(old) == [True, True, True]


def test_what_fits_costs_nothing(tmp_path, old):
    fetch(tmp_path, 9, held(tmp_path) + 2 * WANTED)
    assert there(old) == [True, True, True]


@pytest.mark.parametrize(("spare", "left"), [(1, [False, True, True]), (2, [False, True, False])])
def test_the_least_recently_used_go_and_no_more_than_need_be(tmp_path, old, spare, left):
    one = held(tmp_path) // 3
    limit = held(tmp_path) + WANTED - (spare - 1) * one - 1  # `spare` drawers have to go
    assert fetch(tmp_path, 9, limit)[2] == 4
    assert there(old) == left
    assert held(tmp_path) <= limit


def test_a_use_counts_also_when_nothing_had_to_be_made(tmp_path, old):
    assert old[0].fetch(NEED)[2] == 0
    fetch(tmp_path, 9, held(tmp_path) + WANTED - 1)
    assert there(old) == [True, True, False]


def test_what_was_used_within_a_day_stays_and_nothing_goes_in_vain(tmp_path, old):
    for drawer in old[:2]:
        age(drawer.directory, 0.9)
    before = held(tmp_path)
    with pytest.raises(UserError) as caught:
        fetch(tmp_path, 9, 1000)
    assert there(old) == [True, True, True]
    assert held(tmp_path) == before
    assert str(caught.value) == (
        "The synthetic images do not fit under cache-limit-gb = 1e-06: "
        f"{before * 2 // 3 / 1e9:.3g} GB of those in {tmp_path} are in use and stay, and 3.2e-07 "
        "GB more are wanted; raise cache-limit-gb, or free some with fedeas cache clear --kind "
        "synthetic."
    )


def test_a_full_cache_is_told_before_any_work(tmp_path):
    generator = FakeGenerator()
    with pytest.raises(UserError, match="cache-limit-gb = 1e-09"):
        Drawer(tmp_path, generator, 5, limit_gb=1e-9).fetch(NEED)
    assert generator.asked == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_served_whatever_the_limit(tmp_path, old):
    images, _, made = fetch(tmp_path, 1, 1)
    assert made == 0
    assert np.array_equal(images, old[1].fetch(NEED)[0])
    assert there(old) == [True, True, True]


def test_the_drawer_being_filled_stays_however_old(tmp_path, old):
    limit = held(tmp_path) + WANTED - 1
    eviction.make_room(tmp_path, limit, WANTED, old[0].directory)
    assert there(old) == [True, True, False]


def test_what_interrupted_removals_left_goes_first(tmp_path, old):
    directory = old[1].directory
    grave = directory.with_name(f".{directory.name}.abcd1234")
    shutil.copytree(old[0].directory, grave / "entry")
    fetch(tmp_path, 9, held(tmp_path) + WANTED - 1)
    assert not grave.exists()
    assert there(old) == [True, True, True]


def test_foreign_files_and_links_stay(tmp_path, old):
    shutil.move(old[0].directory, tmp_path / "elsewhere")
    old[0].directory.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "synthetic" / "mine").mkdir()
    fetch(tmp_path, 9, held(tmp_path) + WANTED - 1)
    assert there(old) == [True, True, False]
    assert (tmp_path / "synthetic" / "mine").is_dir()


def test_a_drawer_used_at_the_last_moment_stays(tmp_path, old, monkeypatch):
    real, listed = eviction.take_drawers, []

    def late(cache):
        drawers = real(cache)
        if not listed:
            files.stamp(old[0].directory)
        listed.append(cache)
        return drawers

    monkeypatch.setattr(eviction, "take_drawers", late)
    fetch(tmp_path, 9, held(tmp_path) + WANTED - 1)
    assert there(old) == [True, True, False]  # the next in line went instead


def test_a_drawer_that_cannot_be_removed_is_a_sentence(tmp_path, old, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(removing.tempfile, "mkdtemp", refuse)
    with pytest.raises(UserError) as caught:
        fetch(tmp_path, 9, held(tmp_path))
    assert f"{old[0].directory} should make room" in str(caught.value)
    assert "(Permission denied); let this user write there" in str(caught.value)


def test_what_others_fill_meanwhile_counts(tmp_path):
    limit = 5 * WANTED
    drawer = Drawer(tmp_path, FakeGenerator(batch_size=2), 9, limit_gb=limit / 1e9)
    with pytest.raises(UserError, match="do not fit"):
        drawer.fetch(NEED, lambda _: fetch(tmp_path, 1, 0, np.array([9])))
    assert len(list(drawer.directory.glob("*.safetensors"))) == 1  # kept for the next attempt
    assert Drawer(tmp_path, FakeGenerator(), 9).fetch(NEED)[2] == 2


entries = st.lists(
    st.builds(
        inventory.Entry,
        st.just(inventory.Kind.SYNTHETIC),
        st.uuids().map(str),
        st.just(Path("drawer")),
        st.integers(1, 100),
        st.floats(0, 10),
    )
)


@given(entries, st.integers(1, 300))
def test_as_few_as_will_do_and_the_oldest(idle, excess):
    going = eviction._least_recently_used(idle, excess)
    sizes = [entry.size for entry in going]
    staying = [entry for entry in idle if entry not in going]
    assert sum(sizes[:-1]) < excess  # the last one was needed
    assert sum(sizes) >= excess or not staying
    assert all(one.used <= other.used for one in going for other in staying)


CROWD = """
import sys
from pathlib import Path
import numpy as np
from fake_generator import FakeGenerator
from fedeas_app.generators import eviction
from fedeas_app.generators.cache import Drawer

eviction.LIVE = 0.0
cache, number = Path(sys.argv[1]), int(sys.argv[2])
need = np.array([4, 5])
rng = np.random.default_rng(number)
plain = {}
made = 0
print("ready", flush=True)
sys.stdin.readline()
for seed in rng.integers(0, 6, 80):
    drawer = Drawer(cache, FakeGenerator(batch_size=3), seed, limit_gb=6e-6)
    images, labels, new = drawer.fetch(need)
    made += new
    expected = [FakeGenerator().image(*pair) for pair in zip(labels, drawer._seeds(
        [(c, i) for c, n in enumerate(need) for i in range(n)]))]
    assert np.array_equal(images, expected)
print(made)
"""


def test_processes_that_evict_from_each_other_get_the_right_images(tmp_path):
    helpers = Path(__file__).parents[1]
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, tmp_path, str(number)],
            cwd=helpers,
            env={"PYTHONPATH": f"{helpers}:{helpers.parent}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    for one in crowd:
        assert one.stdout.readline() == "ready\n"
    outputs = [one.communicate("\n", timeout=60)[0] for one in crowd]
    assert [one.returncode for one in crowd] == [0, 0, 0]
    assert all(int(made) > 9 * 6 for made in outputs)  # drawers did go, and were made again
