"""Pictures as a page embeds them: few bytes, both themes, the same every time."""

import base64
import io
from xml.etree import ElementTree as ET  # our own drawings

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from fedeas_app.figures import Picture, to_svg
from fedeas_app.report.drawings import embed, embed_all


def picture(width, height, points):
    """A figure with as many marks, at places that no other has."""

    def paint(theme):
        figure = Figure(figsize=(width, height), facecolor=theme.background)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        at = np.random.default_rng(0).random((2, points))
        axes.plot(*at, linestyle="", marker="o", color=theme.text)
        return figure

    return Picture("dots", "Dots", "What to see.", "Many dots.", paint)


def content(address):
    kind, data = address.split(";base64,")
    return kind, base64.b64decode(data)


def test_a_small_figure_is_embedded_as_a_drawing():
    drawing = embed(picture(2, 1, 50))
    kind, light = content(drawing.light)
    assert kind == "data:image/svg+xml"
    assert light.startswith(b"<svg")
    assert b"#ffffff" in light
    assert b"#15181d" in content(drawing.dark)[1]
    assert (drawing.width, drawing.height) == (256, 128)  # 128 pixels an inch
    assert (drawing.title, drawing.caption, drawing.alt) == ("Dots", "What to see.", "Many dots.")


def test_thousands_of_marks_are_embedded_as_pixels():
    drawing = embed(picture(2, 1, 5000))
    for address, ground in ((drawing.light, (255, 255, 255)), (drawing.dark, (0x15, 0x18, 0x1D))):
        kind, png = content(address)
        assert kind == "data:image/png"
        with Image.open(io.BytesIO(png)) as image:
            assert image.size == (400, 200)  # 200 dots an inch
            pixels = image.convert("RGB").getcolors(100)
        _, often = max(pixels)
        assert any(np.abs(np.subtract(color, ground)).max() <= 3 for _, color in pixels), often


def test_a_very_long_figure_keeps_its_shape_with_fewer_pixels():
    drawing = embed(picture(5, 40, 5000))  # 1,000 by 8,000 pixels
    with Image.open(io.BytesIO(content(drawing.light)[1])) as image:
        width, height = image.size
    assert width * height <= 3_010_000
    assert abs(height / width - 8) < 0.05
    assert (drawing.width, drawing.height) == (640, 5120)


def test_the_same_picture_gives_the_same_bytes():
    for points in (50, 5000):
        assert embed(picture(2, 1, points)) == embed(picture(2, 1, points))


@pytest.mark.parametrize(("points", "tried"), [(50, ["dots-light", "dots-dark"]),
                                               (5000, ["dots-light"])])  # fmt: skip
def test_a_large_drawing_is_tried_once(monkeypatch, points, tried):
    seen = []

    def spy(figure):
        seen.append(figure.get_label())
        return to_svg(figure)

    monkeypatch.setattr("fedeas_app.report.drawings.to_svg", spy)
    embed(picture(2, 1, points))
    assert seen == tried


def titled(words):
    def paint(theme):
        figure = Figure(figsize=(2, 1))
        figure.text(0.1, 0.5, words)
        return figure

    return Picture("titled", "A title", "", "", paint)


def test_a_control_character_does_not_break_a_drawing():
    _, svg = content(embed(titled("a\x01b\uffff")).light)
    root = ET.fromstring(svg)  # noqa: S314 - made just now
    assert "a\ufffdb\ufffd" in "".join(root.itertext())


def test_what_cannot_be_drawn_costs_its_figure_alone():
    def fail(theme):
        raise ValueError("no such letter\nand more")

    broken = Picture("broken", "Broken", "", "", fail)
    drawings, missing = embed_all([titled("one"), broken, titled("two")])
    assert len(drawings) == 2
    assert [(m.title, m.reason) for m in missing] == [
        ("Broken", "it cannot be drawn (no such letter).")
    ]
