"""Figures of runs and comparisons: pure functions of their records, in a light and a dark theme."""

from fedeas_app.figures.picture import Missing, Picture, save_all, to_png, to_svg
from fedeas_app.figures.registry import (
    comparison_figures,
    comparison_missing,
    run_figures,
    run_missing,
)
from fedeas_app.figures.style import DARK, LIGHT, THEMES, Theme

__all__ = [
    "DARK",
    "LIGHT",
    "THEMES",
    "Missing",
    "Picture",
    "Theme",
    "comparison_figures",
    "comparison_missing",
    "run_figures",
    "run_missing",
    "save_all",
    "to_png",
    "to_svg",
]
