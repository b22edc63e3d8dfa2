"""What is drawn can be read: contrast, colour vision, and never colour alone."""

import itertools

import numpy as np
import pytest

from fedeas_app.figures.style import (
    THEMES,
    canvas,
    fitted,
    legend_columns,
    look,
    plain_logarithm,
    whole_numbers,
)

# Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
VISION = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "no green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "no blue cones": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(color):
    value = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG 2: (L1 + 0.05) / (L2 + 0.05)."""
    low, high = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(color, vision):
    xyz = TO_XYZ @ np.clip(vision @ linear(color), 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_the_contrast_of_black_on_white_is_known():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_and_lines_stand_out_from_the_background(theme):
    assert contrast(theme.text, theme.background) >= 4.5
    assert contrast(theme.neutral, theme.background) >= 3
    for color in theme.palette:
        assert contrast(color, theme.background) >= 3


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("vision", VISION)
def test_colours_differ_whatever_the_colour_vision(theme, vision):
    spots = [lab(color, VISION[vision]) for color in theme.palette]
    nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(spots, 2))
    assert nearest > 20  # 2.3 is just noticeable


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_no_two_arms_look_alike_and_neighbours_differ_in_more_than_colour(theme):
    looks = [look(theme, index) for index in range(80)]
    assert len(set(looks)) == 80
    for one, other in itertools.pairwise(looks):
        assert one.color != other.color
        assert one.marker != other.marker
        assert one.linestyle != other.linestyle
    for index in range(72):  # eight places on the colour is the same again
        assert looks[index].linestyle != looks[index + 8].linestyle


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_canvas_takes_all_its_colours_from_the_theme(theme):
    figure, axes = canvas(theme, 3.0, rows=2, columns=2)
    assert figure.get_facecolor() == pytest.approx((*_rgb(theme.background), 1))
    assert len(axes) == 4
    for each in axes:
        assert each.get_facecolor() == pytest.approx((*_rgb(theme.background), 1))
        assert each.xaxis.label.get_color() == theme.text
        assert all(label.get_color() == theme.text for label in each.get_xticklabels())


def _rgb(color):
    return [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def test_rounds_have_ticks_at_whole_numbers_only():
    _, (axes,) = canvas(THEMES[0], 3.0)
    axes.plot([1, 2, 3], [0, 1, 2])
    whole_numbers(axes)
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


@pytest.mark.parametrize(
    ("values", "expected"), [((0.5, 900.0), {"1", "10", "100"}), ((0.9, 12.0), {"1", "2", "5"})]
)
def test_a_logarithmic_axis_has_plain_numbers(values, expected):
    figure, (axes,) = canvas(THEMES[0], 3.0)
    axes.plot([1, 2], values)
    axes.set_yscale("log")
    plain_logarithm(axes.yaxis)
    figure.draw_without_rendering()
    assert expected <= {label.get_text() for label in axes.get_yticklabels()}


@pytest.mark.parametrize(
    ("labels", "columns"), [([], 1), (["a"], 1), (["a"] * 9, 4), (["a" * 30] * 9, 1)]
)
def test_a_legend_has_the_columns_that_fit(labels, columns):
    assert legend_columns(labels) == columns


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("melanoma", "melanoma"),
        ("fourteen_signs", "fourteen_signs"),
        ("melanocytic_nevus", "melanoc…_nevus"),
        ("a name with spaces", "a name …spaces"),
    ],
)
def test_a_long_name_is_cut_in_its_middle(text, shown):
    assert fitted(text, 14) == shown


@pytest.mark.parametrize(("last", "ticks"), [(1, {"1"}), (2, {"1", "2"}), (3, {"1", "2", "3"})])
def test_few_rounds_have_ticks_at_whole_numbers_alone(last, ticks):
    figure, (axes,) = canvas(THEMES[0], 3.0)
    axes.plot(range(1, last + 1), range(last), marker="o")
    whole_numbers(axes)
    figure.draw_without_rendering()
    low, high = axes.get_xlim()
    shown = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    assert {label.get_text() for place, label in shown if low <= place <= high} == ticks
