import itertools
import re
import tracemalloc
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from fedeas_app.data import decode
from fedeas_app.errors import UserError


def encoded(image: Image.Image, kind: str = "png", **keys: object) -> bytes:
    stream = BytesIO()
    image.save(stream, format=kind, **keys)
    return stream.getvalue()


def written(tmp_path, images, size=0, count=None, channels=0):
    path = tmp_path / "key" / "images.npy"
    path.parent.mkdir(exist_ok=True)
    names = (str(number) for number in itertools.count())
    images = list(images)
    named = zip(names, images, strict=False)
    decode.write_images(path, named, count or len(images), size, channels)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def test_colour_stays_as_it_is(tmp_path, pixels, png):
    arrays = pixels(3)
    found = written(tmp_path, map(png, arrays))
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, arrays)


def test_grey_has_one_channel(tmp_path, pixels, png):
    arrays = pixels(3, (6, 5))
    np.testing.assert_array_equal(written(tmp_path, map(png, arrays))[..., 0], arrays)


def test_arrays_files_and_bytes_are_read(tmp_path, pixels, png):
    arrays = pixels(3, (6, 5))
    (tmp_path / "x.png").write_bytes(png(arrays[1]))
    found = written(tmp_path, [arrays[0], tmp_path / "x.png", png(arrays[2])])
    np.testing.assert_array_equal(found[..., 0], arrays)


def test_black_and_white_becomes_0_and_255(tmp_path):
    bits = np.array([[True, False], [False, True]])
    found = written(tmp_path, [encoded(Image.fromarray(bits))])
    np.testing.assert_array_equal(found[0, ..., 0], bits * 255)


def test_sixteen_bits_are_scaled_not_cut_off(tmp_path):
    wide = np.array([[0, 257, 65_535], [32_896, 128, 129]], dtype=np.uint16)
    found = written(tmp_path, [encoded(Image.fromarray(wide))])
    np.testing.assert_array_equal(found[0, ..., 0], [[0, 1, 255], [128, 0, 1]])


def test_all_sixteen_bit_values_are_rounded(tmp_path):
    wide = np.arange(65_536, dtype=np.uint16).reshape(256, 256)
    found = written(tmp_path, [encoded(Image.fromarray(wide))])
    np.testing.assert_array_equal(found[0, ..., 0], np.rint(wide / 257))


def test_sixteen_bits_take_little_memory(tmp_path):
    rows = encoded(Image.fromarray(np.zeros((4_000, 4_000), np.uint16)))
    tracemalloc.start()
    try:
        written(tmp_path, [rows], size=8)
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20  # of numpy; Pillow has its own
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "CMYK"])
def test_the_first_image_decides_for_colour(tmp_path, mode):
    kind = "tiff" if mode == "CMYK" else "png"
    first = encoded(Image.new(mode, (3, 2)), kind)
    assert written(tmp_path, [first, encoded(Image.new("L", (3, 2), 7))]).shape == (2, 2, 3, 3)


def test_the_first_image_decides_for_grey(tmp_path):
    stored_as_colour = encoded(Image.new("RGB", (3, 2), (76, 76, 76)))
    found = written(tmp_path, [encoded(Image.new("L", (3, 2))), stored_as_colour])
    assert found.shape == (2, 2, 3, 1)
    assert set(found[1].ravel()) == {76}


def test_colour_is_not_lost_because_the_first_image_is_grey(tmp_path):
    red = encoded(Image.new("RGB", (3, 2), (255, 0, 0)))
    with pytest.raises(UserError, match="is in colour, but the first one is grey"):
        written(tmp_path, [encoded(Image.new("L", (3, 2))), red])


def test_photographs_are_turned_upright(tmp_path):
    image = Image.new("RGB", (4, 2))
    exif = image.getexif()
    exif[0x0112] = 6  # turn by 90°
    assert written(tmp_path, [encoded(image, "jpeg", exif=exif)]).shape == (1, 4, 2, 3)


def test_image_size_resizes_everything(tmp_path, pixels, png):
    arrays = [*pixels(1, (6, 5, 3)), *pixels(1, (40, 20, 3))]
    found = written(tmp_path, map(png, arrays), size=8)
    expected = [Image.fromarray(a).resize((8, 8), Image.Resampling.BILINEAR) for a in arrays]
    np.testing.assert_array_equal(found, np.stack([np.asarray(image) for image in expected]))


def test_other_sizes_are_refused(tmp_path, pixels, png):
    images = map(png, [*pixels(2, (6, 5, 3)), *pixels(1, (7, 5, 3))])
    message = "Image 2 has 5×7 pixels, the first one 5×6; set image-size to bring all to one size."
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        written(tmp_path, images)


@pytest.mark.parametrize("broken", [b"", b"nothing like an image", "half"])
def test_unreadable_images_are_named(tmp_path, pixels, png, broken):
    good = png(pixels(1, (64, 64, 3))[0])
    bad = good[: len(good) // 2] if broken == "half" else broken
    with pytest.raises(UserError, match=r"^Image 1 cannot be read \(.*\); repair or remove it\.$"):
        written(tmp_path, [good, bad])


def test_absent_images_are_named(tmp_path, pixels, png):
    with pytest.raises(UserError, match=r"^Image 1 is empty; remove that row or give it an image"):
        written(tmp_path, [png(pixels(1)[0]), None])


@pytest.mark.parametrize(("side", "found"), [(8_001, "8001×8001"), (14_000, "more")])
def test_enormous_images_are_refused_undecoded(tmp_path, side, found):
    bomb = encoded(Image.new("1", (side, side)))
    with pytest.raises(UserError, match=f"^Image 0 has {found}.*at most 64 megapixels are allowed"):
        written(tmp_path, [bomb])


def test_fractions_are_refused(tmp_path):
    image = encoded(Image.fromarray(np.ones((2, 2), np.float32)), "tiff")
    with pytest.raises(UserError, match=r"^Image 0 holds fractions; store its values with 8 or 16"):
        written(tmp_path, [image])


def test_too_little_space_is_said_beforehand(tmp_path, pixels, png):
    count = 10**12
    message = (
        r"^The decoded images need 90,000,000\.0 MB, but the disk of .* has .* MB free; choose a "
    )
    with pytest.raises(UserError, match=message + r"smaller image-size or another cache-dir\.$"):
        written(tmp_path, map(png, pixels(1)), count=count)


def test_a_disk_that_fills_up_is_said(tmp_path, pixels, png, monkeypatch):
    def full(path, needed):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decode, "_check_space", full)
    message = r"cannot be written to .* \(No space left on device\); free space there or name anoth"
    with pytest.raises(UserError, match=message):
        written(tmp_path, map(png, pixels(1)))


@pytest.mark.parametrize("first", ["L", "RGB"])
def test_channels_decide_in_the_place_of_the_first_image(tmp_path, first):
    red = Image.new("RGB", (3, 2), (255, 0, 0))
    images = [encoded(image) for image in (red.convert(first), red, red.convert("L"))]
    grey = written(tmp_path, images, channels=1)
    assert grey.shape == (3, 2, 3, 1)
    assert set(grey.ravel()) == {76}  # 0.299 of 255
    colour = written(tmp_path, images[1:], channels=3)
    assert colour.shape == (2, 2, 3, 3)
    assert colour[0, 0, 0].tolist() == [255, 0, 0]
    assert colour[1, 0, 0].tolist() == [76, 76, 76]


def test_no_image_at_all_has_a_shape_too(tmp_path):
    assert written(tmp_path, [], size=5, channels=3).shape == (0, 5, 5, 3)
