"""Pictures become files: the same bits every time, with text as text and no global state."""

import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from fedeas_app.errors import UserError
from fedeas_app.figures.picture import Picture, save_all, to_png, to_svg
from fedeas_app.figures.style import DARK, LIGHT, canvas


def paint(theme):
    figure, (axes,) = canvas(theme, 3.0)
    axes.plot([1, 2, 3], [2, 1, 3], marker="o")
    axes.set_xlabel("rounds β")
    return figure


@pytest.fixture
def picture():
    return Picture("lines", "Lines", "What lines are.", "Two lines.", paint)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_same_picture_gives_the_same_bits(picture, theme):
    assert to_svg(picture.draw(theme)) == to_svg(picture.draw(theme))
    assert to_png(picture.draw(theme)) == to_png(picture.draw(theme))


def test_an_svg_is_one_element_with_text_as_text_and_no_date(picture):
    svg = to_svg(picture.draw())
    assert svg.startswith("<svg ")
    assert svg.endswith("</svg>\n")
    assert re.search(r"<text [^>]*>rounds β</text>", svg)
    assert "date" not in svg
    assert "Matplotlib v" not in svg


def test_names_inside_an_svg_are_its_own(picture):
    light, dark = (to_svg(picture.draw(theme)) for theme in (LIGHT, DARK))
    names = [set(re.findall(r'<clipPath id="(.+?)"', svg)) for svg in (light, dark)]
    assert names[0]
    assert names[1]
    assert not names[0] & names[1]


def test_the_settings_of_the_user_neither_matter_nor_change(picture):
    expected = to_svg(picture.draw())
    with mpl.rc_context({"lines.linewidth": 9.0, "font.size": 30.0, "axes.grid": False}):
        before = dict(mpl.rcParams)
        assert to_svg(picture.draw()) == expected
        assert dict(mpl.rcParams) == before


def test_no_random_number_is_drawn(picture):
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the global state is what is tested
    to_svg(picture.draw())
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002 - as above


def test_each_picture_becomes_a_png_and_an_svg_in_the_light_theme(picture, tmp_path):
    paths = save_all([picture], tmp_path / "figures")
    assert [path.name for path in paths] == ["lines.png", "lines.svg"]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "lines.png",
        "lines.svg",
    ]
    assert paths[0].read_bytes() == to_png(picture.draw(LIGHT))
    assert paths[1].read_text(encoding="utf-8") == to_svg(picture.draw(LIGHT))


def test_a_directory_that_cannot_be_made_is_named(picture, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="figures"):
        save_all([picture], tmp_path / "file" / "figures")


def test_drawing_gives_a_figure_of_its_own_every_time(picture):
    one, other = picture.draw(), picture.draw()
    assert isinstance(one, Figure)
    assert one is not other
