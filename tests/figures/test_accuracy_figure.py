"""Accuracy over rounds: the right curves, with seeds, of few arms and of many."""

import sys

import numpy as np
import pytest
from made_up_runs import make_comparison, make_run
from matplotlib.axes import Axes
from matplotlib.image import imread

from fedeas_app.figures import accuracy
from fedeas_app.figures.picture import Missing
from fedeas_app.figures.style import LIGHT, look


def test_a_run_is_one_line_in_per_cent_over_rounds_from_one():
    picture = accuracy.of_run(make_run((0.3, 0.5, 0.6)))
    (axes,) = picture.draw().axes
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
    np.testing.assert_allclose(line.get_ydata(), [30, 50, 60])
    assert axes.get_xlabel() == "round"
    assert axes.get_ylabel() == "test accuracy (%)"
    assert "60.0" in picture.alt


def test_arms_are_means_with_the_range_of_their_seeds(grid):
    figure = accuracy.of_comparison(grid).draw()
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == [arm.label for arm in grid.arms]
    assert axes.lines[1].get_ydata()[-1] == pytest.approx(50)
    band = axes.collections[1].get_paths()[0].vertices
    last = band[band[:, 0] == 3, 1]
    assert (last.min(), last.max()) == pytest.approx((40, 60))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        arm.label for arm in grid.arms
    ]
    assert [line.get_color() for line in axes.lines] == [look(LIGHT, n).color for n in range(4)]


def test_words_tell_mean_and_deviation_of_every_arm(grid):
    alt = accuracy.of_comparison(grid).alt
    assert "fedeas β=12: 60.0 ± 10.0" in alt
    assert alt.index("full") < alt.index("none")


def test_many_arms_get_a_panel_each():
    many = make_comparison([(f"arm {n}", {}, [make_run((0.1, n / 20))]) for n in range(11)])
    picture = accuracy.of_comparison(many)
    panels = [axes for axes in picture.draw().axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == [arm.label for arm in many.arms]
    for n, axes in enumerate(panels):
        first, own = axes.lines
        assert first.get_ydata()[-1] == 0
        assert own.get_ydata()[-1] == pytest.approx(5 * n)
    assert "dashed line is arm 0" in picture.caption


def test_a_run_without_rounds_has_no_curve():
    assert isinstance(accuracy.of_run(make_run(())), Missing)


@pytest.mark.parametrize("accuracies", [[0.5], [0.1, 0.35, 0.2], [0.0] * 50])
def test_the_record_s_file_holds_the_curve(tmp_path, monkeypatch, accuracies):
    drawn = []
    real = Axes.plot

    def spy(self, x, y, **keys):
        drawn.append((list(x), list(y)))
        return real(self, x, y, **keys)

    monkeypatch.setattr(Axes, "plot", spy)
    accuracy.plot_accuracy(accuracies, tmp_path / "accuracy.png")
    ((rounds, percent),) = drawn
    assert rounds == list(range(1, len(accuracies) + 1))
    assert percent == pytest.approx([100 * a for a in accuracies])
    pixels = imread(tmp_path / "accuracy.png")
    assert pixels.shape[1] == 1040  # 5.2 inches at 200 dots
    assert pixels.min() < 0.5 < pixels.max()  # something is drawn
    assert [p.name for p in tmp_path.iterdir()] == ["accuracy.png"]


def test_no_global_state_is_involved(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it would fail
    accuracy.plot_accuracy([0.5], tmp_path / "accuracy.png")
