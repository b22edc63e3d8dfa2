"""From pictures to what a page embeds."""

import base64
import io
import re
from collections.abc import Iterable
from math import sqrt

from matplotlib.figure import Figure
from PIL import Image

from fedeas_app.errors import first_line
from fedeas_app.figures import DARK, LIGHT, Missing, Picture, to_png, to_svg
from fedeas_app.report.parts import Drawing

_LARGEST_SVG = 270_000  # characters of its address: thousands of marks are smaller as pixels
_LARGEST_AREA = 80.0  # square inches
_COLORS = 32
_MOST_PIXELS = 3_000_000
_LEAST_SCALE = 0.5
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_PIXELS = 128  # an inch: a figure's 9 points come out at the size of a page's small print


def data_uri(content: bytes, kind: str) -> str:
    """Return the address of a content that needs no request."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def embed_all(pictures: Iterable[Picture]) -> tuple[list[Drawing], list[Missing]]:
    """Draw pictures; a class name that cannot be drawn costs its figure and not the page."""
    drawings: list[Drawing] = []
    missing: list[Missing] = []
    for picture in pictures:
        try:
            drawings.append(embed(picture))
        except (TypeError, ValueError) as error:
            missing.append(Missing(picture.title, f"it cannot be drawn ({first_line(error)})."))
    return drawings, missing


def embed(picture: Picture) -> Drawing:
    """Draw a picture for both themes, in the same format."""
    figure, other = picture.draw(LIGHT), picture.draw(DARK)
    width, height = (round(_PIXELS * float(side)) for side in figure.get_size_inches())
    light = _drawn(figure)
    images = (light, _svg(other)) if light else (_pixels(figure), _pixels(other))
    return Drawing(picture.title, picture.caption, picture.alt, *images, width, height)


def _drawn(figure: Figure) -> str:
    """Return the address of a figure as a drawing; empty where pixels take less."""
    if float(figure.get_size_inches().prod()) > _LARGEST_AREA:
        return ""  # it has dozens of panels: spare the try
    address = _svg(figure)
    return address if len(address) <= _LARGEST_SVG else ""


def _svg(figure: Figure) -> str:
    text = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", to_svg(figure))
    return data_uri(text.encode(), "image/svg+xml")


def _pixels(figure: Figure) -> str:
    return data_uri(_small(to_png(figure)), "image/png")


def _small(png: bytes) -> bytes:
    """Return a PNG file with a palette, as figures have few colours, and with fewer pixels.

    A comparison of a hundred arms draws figures of several metres.
    """
    target = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        factor = max(_LEAST_SCALE, min(1.0, sqrt(_MOST_PIXELS / (image.width * image.height))))
        size = (round(image.width * factor), round(image.height * factor))
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        small.quantize(_COLORS).save(target, "png", optimize=True)
    return target.getvalue()
