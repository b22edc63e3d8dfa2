"""Letters that matplotlib's own font has not."""

import warnings

import pytest
from made_up_runs import make_run
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from fedeas_app.figures import budget_map, fonts
from fedeas_app.figures.picture import Picture, to_png, to_svg
from fedeas_app.runs.reading import ClassCounts

CAT = "\N{CJK UNIFIED IDEOGRAPH-732B}"
STIX = "STIXGeneral"  # comes with matplotlib, and has letters that its usual font has not


@pytest.fixture
def no_other_font(monkeypatch):
    """Pretend that only the usual font is installed."""
    monkeypatch.setattr(fonts, "installed", lambda: iter(()))
    fonts._other_font.cache_clear()
    yield
    fonts._other_font.cache_clear()


@pytest.fixture
def rare():
    """A printable letter that STIX has and the usual font has not."""
    theirs, usual = (
        get_font(findfont(FontProperties(family=name))).get_charmap()
        for name in (STIX, "DejaVu Sans")
    )
    return chr(min(code for code in theirs.keys() - usual.keys() if chr(code).isalpha()))


def text_picture(text):
    def paint(theme):
        figure = Figure(figsize=(2, 1))
        figure.text(0.1, 0.5, text)
        return figure

    return Picture("text", "", "", "", paint)


def with_classes(*names):
    run = make_run(real=[[4, 0, 2], [3, 5, 0]])
    counts = ClassCounts(names, run.counts.real, run.counts.synthetic)
    return type(run)(**(run.__dict__ | {"counts": counts}))


@pytest.mark.parametrize("text", ["class 0", "β ± 1", "собака", "two\nlines"])
def test_what_the_usual_font_has_is_left_alone(text):
    assert fonts.can_draw(text)
    (drawn,) = text_picture(text).draw().texts
    assert drawn.get_text() == text
    assert drawn.get_fontfamily() == ["sans-serif"]


def test_another_installed_font_with_the_letters_is_taken(rare):
    assert fonts.can_draw(rare)
    (drawn,) = text_picture(rare).draw().texts
    usual, other = drawn.get_fontfamily()
    assert usual == "DejaVu Sans"
    assert ord(rare) in get_font(findfont(FontProperties(family=other))).get_charmap()


@pytest.mark.usefixtures("no_other_font")
def test_an_unknown_letter_is_a_sign_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = text_picture(f"a {CAT}").draw()
        to_png(figure)
        assert "a \N{REPLACEMENT CHARACTER}" in to_svg(figure)


@pytest.mark.usefixtures("no_other_font")
def test_a_class_whose_name_cannot_be_drawn_has_its_number_and_the_axis_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = budget_map.of_run(with_classes("dog", CAT, "cat")).draw()
    names = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert names == ["dog", "1", "cat"]
    assert figure.get_supxlabel() == "class, by its number where no installed font has its letters"
    plain = budget_map.of_run(with_classes("dog", "cow", "cat")).draw()
    assert plain.get_supxlabel() == "class"


def test_fonts_that_stand_for_any_letter_are_no_help(monkeypatch):
    class Font:
        name, fname, style, weight = "Last Resort High-Efficiency", "x.otf", "normal", 400

    monkeypatch.setattr(fonts.fontManager, "ttflist", [Font])
    assert list(fonts.installed()) == []
