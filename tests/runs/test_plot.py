"""The plot: the right curve in a readable PNG, without pyplot."""

import sys

import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread

from fedeas_app.runs.plot import plot_accuracy


@pytest.mark.parametrize("accuracies", [[0.5], [0.1, 0.35, 0.2], [0.0] * 50])
def test_accuracy_is_drawn_in_percent_over_rounds_from_one(tmp_path, monkeypatch, accuracies):
    drawn = []
    real = Axes.plot

    def spy(self, x, y, **keys):
        drawn.append((list(x), list(y)))
        return real(self, x, y, **keys)

    monkeypatch.setattr(Axes, "plot", spy)
    plot_accuracy(accuracies, tmp_path / "accuracy.png")
    ((rounds, percent),) = drawn
    assert rounds == list(range(1, len(accuracies) + 1))
    assert percent == pytest.approx([100 * a for a in accuracies])
    pixels = imread(tmp_path / "accuracy.png")
    assert pixels.shape[:2] == (480, 768)  # 4 and 6.4 inches at 120 dots
    assert pixels.min() < 0.5 < pixels.max()  # something is drawn
    assert [p.name for p in tmp_path.iterdir()] == ["accuracy.png"]


def test_no_global_state_is_involved(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it would fail
    plot_accuracy([0.5], tmp_path / "accuracy.png")
