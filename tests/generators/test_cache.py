"""The drawer: nothing made twice, nothing lost, nothing replaced."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_generator import FakeGenerator
from safetensors.numpy import save

from fedeas_app import seeds
from fedeas_app.errors import UserError
from fedeas_app.generators.cache import Drawer, read_shard, write_shard

SHAPE = FakeGenerator.image_shape


@pytest.fixture
def generator():
    return FakeGenerator(batch_size=4)


def shards(drawer):
    return sorted(drawer.directory.glob("*.safetensors"))


def test_images_come_in_order_of_class_and_number(tmp_path, generator):
    images, labels, made = Drawer(tmp_path, generator, 5).fetch(np.array([2, 0, 3]))
    assert labels.tolist() == [0, 0, 2, 2, 2]
    assert labels.dtype == np.int64
    assert images.dtype == np.uint8
    assert made == 5
    places = [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]
    expected = [generator.image(place[0], seeds.derive("image", 5, *place)) for place in places]
    assert np.array_equal(images, expected)


def test_a_second_fetch_makes_nothing(tmp_path, generator):
    need = np.array([3, 4])
    first = Drawer(tmp_path, generator, 5).fetch(need)
    untouched = FakeGenerator()
    untouched.error = AssertionError("nothing is missing")
    images, labels, made = Drawer(tmp_path, untouched, 5).fetch(need)
    assert made == 0
    assert np.array_equal(images, first[0])
    assert np.array_equal(labels, first[1])


def test_a_larger_budget_makes_the_missing_ones_alone(tmp_path, generator):
    drawer = Drawer(tmp_path, generator, 5)
    small, _, _ = drawer.fetch(np.array([2, 0, 1]))
    before = {path: path.read_bytes() for path in shards(drawer)}
    images, labels, made = drawer.fetch(np.array([3, 2, 1]))
    assert made == 3
    assert generator.asked[1][0].tolist() == [0, 1, 1]
    assert labels.tolist() == [0, 0, 0, 1, 1, 2]
    assert np.array_equal(images[[0, 1, 5]], small)
    assert {path: path.read_bytes() for path in before} == before
    whole, _, _ = Drawer(tmp_path / "other", generator, 5).fetch(np.array([3, 2, 1]))
    assert np.array_equal(images, whole)  # the way there does not matter


def test_a_smaller_budget_is_a_subset(tmp_path, generator):
    drawer = Drawer(tmp_path, generator, 5)
    whole, _, _ = drawer.fetch(np.array([3, 2, 4]))
    part, labels, made = drawer.fetch(np.array([1, 0, 2]))
    assert made == 0
    assert labels.tolist() == [0, 2, 2]
    assert np.array_equal(part, whole[[0, 5, 6]])


def test_what_is_there_can_be_looked_up_and_nothing_is_made(tmp_path, generator):
    drawer = Drawer(tmp_path, generator, 5)
    assert drawer.look_up([(0, 0)]) == {}
    assert not drawer.directory.exists()
    drawer.fetch(np.array([2, 0, 3]))
    generator.error = AssertionError("nothing is to be made")
    found = drawer.look_up([(2, 1), (0, 0), (0, 2), (1, 0)])
    assert found.keys() == {(0, 0), (2, 1)}
    for place, image in found.items():
        expected = generator.image(place[0], seeds.derive("image", 5, *place))
        assert np.array_equal(image, expected)


def test_nothing_needed_touches_nothing(tmp_path, generator):
    images, labels, made = Drawer(tmp_path, generator, 5).fetch(np.array([0, 0]))
    assert images.shape == (0, *SHAPE)
    assert labels.shape == (0,)
    assert made == 0
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told_after_every_batch(tmp_path, generator):
    seen = []
    Drawer(tmp_path, generator, 5).fetch(np.array([9]), seen.append)
    assert seen == [4, 4, 1]


def test_every_client_and_generator_has_a_drawer_of_its_own(tmp_path, generator):
    need = np.array([4])
    one = Drawer(tmp_path, generator, 5)
    images, _, _ = one.fetch(need)
    other_client, _, made = Drawer(tmp_path, generator, 6).fetch(need)
    assert made == 4
    assert not any((a == b).all() for a in images for b in other_client)
    other_generator = Drawer(tmp_path, FakeGenerator("another digest"), 5)
    assert other_generator.fetch(need)[2] == 4
    assert other_generator.directory != one.directory


def test_the_batch_size_leaves_the_drawer_where_it_is(tmp_path):
    Drawer(tmp_path, FakeGenerator(batch_size=3), 5).fetch(np.array([7]))
    assert Drawer(tmp_path, FakeGenerator(batch_size=2), 5).fetch(np.array([7]))[2] == 0


# --- damage and interruption ---


def _cut(path):
    path.write_bytes(path.read_bytes()[:-10])


def _flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage", [_cut, _flip, lambda path: path.write_bytes(b""), lambda path: path.unlink()],
    ids=["cut off", "one bit", "empty", "gone"],
)  # fmt: skip
def test_a_damaged_shard_is_made_anew(tmp_path, generator, damage):
    drawer = Drawer(tmp_path, generator, 5)
    images, _, _ = drawer.fetch(np.array([6, 6]))
    whole = {path.name: path.read_bytes() for path in shards(drawer)}
    assert len(whole) == 3
    damage(shards(drawer)[1])
    again, _, made = drawer.fetch(np.array([6, 6]))
    assert made == 4
    assert np.array_equal(again, images)
    assert drawer.fetch(np.array([6, 6]))[2] == 0
    assert {path.name: path.read_bytes() for path in shards(drawer)} == whole


def test_a_shard_under_another_name_is_not_believed(tmp_path, generator):
    drawer = Drawer(tmp_path, generator, 5)
    drawer.fetch(np.array([4]))
    (path,) = shards(drawer)
    path.rename(path.with_stem("0" * 32))
    assert drawer.fetch(np.array([4]))[2] == 4
    assert shards(drawer) == [path]


def test_a_foreign_file_is_left_alone(tmp_path, generator):
    drawer = Drawer(tmp_path, generator, 5)
    drawer.fetch(np.array([4]))
    foreign = drawer.directory / "mine.safetensors"
    foreign.write_text("keep")
    (drawer.directory / f"{'0' * 32}.safetensors").mkdir()
    assert drawer.fetch(np.array([5]))[2] == 1
    assert foreign.read_text() == "keep"


def test_a_shard_that_cannot_be_read_now_is_not_removed(tmp_path, generator, monkeypatch):
    drawer = Drawer(tmp_path, generator, 5)
    images, _, _ = drawer.fetch(np.array([6]))
    before = shards(drawer)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda _: (_ for _ in ()).throw(OSError(24, "Too many")))
        again, _, made = drawer.fetch(np.array([6]))
    assert made == 6
    assert np.array_equal(again, images)
    assert shards(drawer) == before


@pytest.mark.parametrize(
    ("name", "array"),
    [("labels", np.zeros((4, 1), np.int64)), ("labels", np.zeros(4)), ("labels", np.int64(3)),
     ("indices", np.zeros(3, np.int64)), ("images", np.zeros((4, *SHAPE))),
     ("images", np.zeros((3, *SHAPE), np.uint8)), ("images", np.uint8(0))],
)  # fmt: skip
def test_arrays_of_another_kind_are_not_believed(tmp_path, generator, name, array):
    drawer = Drawer(tmp_path, generator, 5)
    arrays = {
        "labels": np.zeros(4, np.int64),
        "indices": np.arange(4),
        "images": np.ones((4, *SHAPE), np.uint8),
    }
    data = save(arrays | {name: np.asarray(array)})
    drawer.directory.mkdir(parents=True)
    name = hashlib.sha256(data).hexdigest()[:32]
    (drawer.directory / f"{name}.safetensors").write_bytes(data)
    images, _, made = drawer.fetch(np.array([4]))
    assert made == 4
    assert np.array_equal(images, Drawer(tmp_path / "other", generator, 5).fetch(np.array([4]))[0])


def test_a_foreign_file_under_its_right_name_is_not_believed(tmp_path, generator):
    drawer = Drawer(tmp_path, generator, 5)
    drawer.directory.mkdir(parents=True)
    data = b"not a shard"
    name = hashlib.sha256(data).hexdigest()[:32]
    (drawer.directory / f"{name}.safetensors").write_bytes(data)
    assert drawer.fetch(np.array([4]))[2] == 4


def test_images_of_another_size_are_not_believed(tmp_path):
    labels = np.zeros(2, np.int64)
    path = write_shard(tmp_path, labels, np.arange(2), np.zeros((2, 4, 4, 1), np.uint8))
    assert read_shard(path, (4, 4, 1)) is not None
    assert read_shard(path, (8, 8, 1)) is None


def test_a_shard_keeps_what_it_is_given(tmp_path):
    rng = np.random.default_rng(0)
    labels, indices = np.array([2, 0]), np.array([7, 3])
    planes = rng.integers(0, 256, (2, 3, 8, 6), dtype=np.uint8)
    images = planes.transpose(0, 2, 3, 1)  # not contiguous
    back = read_shard(write_shard(tmp_path, labels, indices, images), (8, 6, 3))
    assert [part.tolist() for part in back] == [part.tolist() for part in (labels, indices, images)]
    assert write_shard(tmp_path, labels, indices, images.copy()) in tmp_path.iterdir()
    assert len(list(tmp_path.iterdir())) == 1  # one content, one name


class Killed(FakeGenerator):
    """Stops after its first batch, as if the process had died."""

    def generate(self, labels, seeds, on_batch=None):
        def once(batch, images):
            on_batch(batch, images)
            raise KeyboardInterrupt

        return super().generate(labels, seeds, once)


def test_a_killed_generation_resumes_after_its_last_batch(tmp_path, generator):
    need = np.array([5, 5])
    with pytest.raises(KeyboardInterrupt):
        Drawer(tmp_path, Killed(batch_size=4), 5).fetch(need)
    images, _, made = Drawer(tmp_path, generator, 5).fetch(need)
    assert made == 6
    whole, _, _ = Drawer(tmp_path / "other", generator, 5).fetch(need)
    assert np.array_equal(images, whole)


SCRIPT = """
import os
import sys
import time
from pathlib import Path
import numpy as np
from fake_generator import FakeGenerator
from fedeas_app.generators.cache import Drawer


def hang(*_):
    print("busy", flush=True)
    time.sleep(600)


class Slow(FakeGenerator):
    "Hangs in its third batch: before it is kept, or while it is written."

    def generate(self, labels, seeds, on_batch=None):
        def slowly(batch, images):
            if batch.start == 2 * self.batch_size:
                hang() if sys.argv[2] == "drawn" else setattr(os, "fsync", hang)
            on_batch(batch, images)

        return super().generate(labels, seeds, slowly)


Drawer(Path(sys.argv[1]), Slow(batch_size=3), 5).fetch(np.array([4, 0, 5]))
"""


def python(code, *arguments):
    helpers = Path(__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=helpers,
        env={"PYTHONPATH": f"{helpers}:{helpers.parent}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("moment", ["drawn", "written"])
def test_a_process_killed_in_a_batch_loses_that_batch_alone(tmp_path, moment):
    process = python(SCRIPT, tmp_path / "cache", moment)
    assert process.stdout.readline() == "busy\n"
    process.kill()
    process.communicate()
    generator, need = FakeGenerator(batch_size=3), np.array([4, 0, 5])
    images, labels, made = Drawer(tmp_path / "cache", generator, 5).fetch(need)
    assert made == 3
    ((asked, streams),) = generator.asked
    assert asked.tolist() == [2, 2, 2]
    assert streams.tolist() == [seeds.derive("image", 5, 2, index) for index in (2, 3, 4)]
    whole = Drawer(tmp_path / "other", FakeGenerator(), 5).fetch(need)
    assert np.array_equal(images, whole[0])
    assert np.array_equal(labels, whole[1])


FILLER = """
import sys
from pathlib import Path
import numpy as np
from fake_generator import FakeGenerator
from fedeas_app.generators.cache import Drawer

drawer = Drawer(Path(sys.argv[1]), FakeGenerator(batch_size=3), 5)
print("ready", flush=True)
sys.stdin.readline()
images, labels, _ = drawer.fetch(np.array([40, 0, 41]))
np.save(sys.argv[2], images)
"""


def test_two_processes_fill_a_drawer_at_once(tmp_path):
    cache = tmp_path / "cache"
    fillers = [python(FILLER, cache, tmp_path / f"{number}.npy") for number in range(2)]
    for filler in fillers:
        assert filler.stdout.readline() == "ready\n"
    for filler in fillers:
        filler.stdin.write("\n")
        filler.stdin.flush()
    for filler in fillers:
        filler.communicate(timeout=60)
    assert [filler.returncode for filler in fillers] == [0, 0]
    one, other = (np.load(tmp_path / f"{number}.npy") for number in range(2))
    assert np.array_equal(one, other)
    drawer = Drawer(cache, FakeGenerator(), 5)
    images, _, made = drawer.fetch(np.array([40, 0, 41]))
    assert made == 0
    assert np.array_equal(images, one)
    assert {path.suffix for path in drawer.directory.iterdir()} == {".safetensors", ".json", ""}


# --- what is refused ---


class Flat(FakeGenerator):
    """Every third image is black."""

    def image(self, label, seed):
        image = super().image(label, seed)
        Flat.count += 1
        return image if Flat.count % 3 else image * 0

    count = 0


def test_images_of_a_single_colour_never_enter(tmp_path):
    drawer = Drawer(tmp_path, Flat(batch_size=6), 5)
    with pytest.raises(UserError) as caught:
        drawer.fetch(np.array([6]))
    assert str(caught.value) == (
        "The generator 'fake' made 2 images of a single colour in a batch of 6; use another "
        "generator, or other images where it draws from a pool."
    )
    assert shards(drawer) == []


def test_how_they_were_drawn_is_told_where_it_is_known(tmp_path):
    class Sampled(Flat):
        how = "ddim, 3 steps, bfloat16"

    with pytest.raises(UserError) as caught:
        Drawer(tmp_path, Sampled(batch_size=6), 5).fetch(np.array([6]))
    text = str(caught.value)
    assert "in a batch of 6 (ddim, 3 steps, bfloat16); use another sampler, more steps" in text


@pytest.mark.parametrize(
    ("change", "told"),
    [(lambda images: images / 255, "made float64 of shape (2, 8, 8, 1)"),
     (lambda images: images[:1], "made uint8 of shape (1, 8, 8, 1)"),
     (lambda images: images[..., 0], "made uint8 of shape (2, 8, 8)")],
)  # fmt: skip
def test_what_is_no_image_never_enters(tmp_path, change, told):
    class Odd(FakeGenerator):
        def generate(self, labels, seeds, on_batch=None):
            images = super().generate(labels, seeds)
            on_batch(slice(0, 2), change(images))

    drawer = Drawer(tmp_path, Odd(), 5)
    with pytest.raises(UserError) as caught:
        drawer.fetch(np.array([2]))
    assert f"'fake' {told} where uint8 of shape (2, 8, 8, 1) was wanted" in str(caught.value)
    assert shards(drawer) == []


def test_an_error_of_the_generator_passes(tmp_path, generator):
    generator.error = UserError("not finite")
    drawer = Drawer(tmp_path, generator, 5)
    with pytest.raises(UserError, match="not finite"):
        drawer.fetch(np.array([1]))
    assert shards(drawer) == []


def test_a_cache_that_cannot_be_written(tmp_path, generator):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        Drawer(tmp_path / "file", generator, 5).fetch(np.array([1]))
    assert generator.asked == []  # told before any work


def test_a_full_disk_is_a_sentence(tmp_path, generator, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedeas_app.files.os.fsync", full)
    drawer = Drawer(tmp_path, generator, 5)
    with pytest.raises(UserError, match=r"cannot be written \(No space left on device\); free"):
        drawer.fetch(np.array([1]))
    assert list(drawer.directory.iterdir()) == []


def test_a_disk_that_is_full_in_the_middle_keeps_what_was_written(tmp_path, generator, monkeypatch):
    drawer, need = Drawer(tmp_path, generator, 5), np.array([9])
    real, kept = os.replace, []

    def fill_up(source, target):
        if len(kept) == 3:  # what it says about itself, and two batches of four
            raise OSError(28, "No space left on device")
        kept.append(target)
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("fedeas_app.files.os.replace", fill_up)
        with pytest.raises(
            UserError, match=r"\(No space left on device\); free some space there or"
        ):
            drawer.fetch(need)
    assert len(shards(drawer)) == 2
    assert not list(drawer.directory.glob(".*"))
    images, _, made = drawer.fetch(need)
    assert made == 1
    assert np.array_equal(images, Drawer(tmp_path / "other", generator, 5).fetch(need)[0])


def test_a_drawer_that_vanishes_while_it_is_written_is_made_again(tmp_path, generator, monkeypatch):
    drawer, need = Drawer(tmp_path, generator, 5), np.array([9])
    real, renamed = os.replace, []

    def vanish(source, target):
        renamed.append(target)
        if len(renamed) == 3:
            shutil.rmtree(drawer.directory)
        real(source, target)

    monkeypatch.setattr("fedeas_app.files.os.replace", vanish)
    images, _, made = drawer.fetch(need)
    assert made == 9
    assert np.array_equal(images, Drawer(tmp_path / "other", generator, 5).fetch(need)[0])
    assert drawer.fetch(need)[2] == 4  # the first batch went with the drawer


def test_a_drawer_that_vanishes_again_and_again_is_a_sentence(tmp_path, generator, monkeypatch):
    drawer = Drawer(tmp_path, generator, 5)

    def vanished(*_):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("fedeas_app.files.os.replace", vanished)
    with pytest.raises(UserError, match="vanishes whenever it is made; end what removes it"):
        drawer.fetch(np.array([1]))


def test_a_file_in_a_drawers_place_is_a_sentence(tmp_path, generator):
    drawer = Drawer(tmp_path, generator, 5)
    drawer.directory.parent.mkdir(parents=True)
    drawer.directory.write_text("keep")
    with pytest.raises(
        UserError, match=r"\(File exists\); remove the file that is in its place or"
    ):
        drawer.fetch(np.array([1]))
    assert drawer.directory.read_text() == "keep"
    assert generator.asked == []


def test_a_drawer_may_be_a_link(tmp_path, generator):
    drawer, elsewhere = Drawer(tmp_path, generator, 5), tmp_path / "elsewhere"
    drawer.directory.parent.mkdir(parents=True)
    drawer.directory.symlink_to(elsewhere)
    with pytest.raises(UserError, match="File exists"):  # it leads nowhere
        drawer.fetch(np.array([4]))
    elsewhere.mkdir()
    assert drawer.fetch(np.array([4]))[2] == 4
    assert drawer.fetch(np.array([4]))[2] == 0
    assert len(list(elsewhere.glob("*.safetensors"))) == 1


def test_a_finished_drawer_is_read_where_nothing_can_be_written(tmp_path, generator, monkeypatch):
    drawer = Drawer(tmp_path, generator, 5)
    drawer.fetch(np.array([3]))

    def refuse(*_):
        raise AssertionError("nothing is to be written")

    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("fedeas_app.generators.cache.Path.mkdir", refuse)
    monkeypatch.setattr("fedeas_app.generators.cache.write_bytes", refuse)
    monkeypatch.setattr("fedeas_app.generators.eviction.Path.touch", read_only)
    assert drawer.fetch(np.array([3]))[2] == 0


# --- with a network behind it ---


def test_images_of_a_network_are_kept_bit_for_bit(tmp_path, trained, ddpm):
    first, _, made = Drawer(tmp_path, ddpm(trained), 5).fetch(np.array([3, 0, 3]))
    assert made == 6
    grown, labels, made = Drawer(tmp_path, ddpm(trained, batch_size=1), 5).fetch(
        np.array([3, 1, 4])
    )
    assert made == 2
    assert labels.tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    assert np.array_equal(grown[[0, 1, 2, 4, 5, 6]], first)
    direct = ddpm(trained).generate(np.array([1]), np.array([seeds.derive("image", 5, 1, 0)]))
    assert np.abs(grown[3].astype(int) - direct[0].astype(int)).max() <= 1  # another batch size
