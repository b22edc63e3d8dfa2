"""From pictures to what a page embeds."""

import base64
import io
import re
from collections.abc import Iterable
from math import sqrt

from PIL import Image

from fedeas_app.errors import first_line
from fedeas_app.figures import DARK, LIGHT, Missing, Picture, Theme, to_png, to_svg
from fedeas_app.report.parts import Drawing

_LARGEST_SVG = 200_000  # bytes: thousands of marks are smaller as pixels
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
    """Draw a picture for both themes."""
    light, width, height = _image(picture, LIGHT)
    dark, _, _ = _image(picture, DARK)
    return Drawing(picture.title, picture.caption, picture.alt, light, dark, width, height)


def _image(picture: Picture, theme: Theme) -> tuple[str, int, int]:
    figure = picture.draw(theme)
    inches = figure.get_size_inches()
    width, height = (round(_PIXELS * float(side)) for side in inches)
    if float(inches.prod()) <= _LARGEST_AREA:  # a larger one has dozens of panels: spare the try
        svg = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", to_svg(figure)).encode()
        if len(svg) <= _LARGEST_SVG:
            return data_uri(svg, "image/svg+xml"), width, height
    return data_uri(_small(to_png(figure)), "image/png"), width, height


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
