"""The report as a real browser shows it: light and dark, narrow and wide."""

import pytest
from headless import CHROMIUM, Browser
from written import LONG, add_generator, add_samples, write_comparison, write_run

from fedeas_app.figures import DARK, LIGHT
from fedeas_app.report.page import render

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")

SIGHTS = [(scheme, width) for scheme in ("light", "dark") for width in (360, 1440)]

IMAGES = "Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true })"
WIDEST = "[document.documentElement.scrollWidth, window.innerWidth]"

# The lowest contrast (WCAG 2: relative luminance) of any text with the ground it stands on.
CONTRAST = """(() => {
  const channels = color => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (let each = element; each; each = each.parentElement) {
      const color = channels(getComputedStyle(each).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const worst = { contrast: 21, text: "" };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), element = walker.currentNode.parentElement;
    if (!text || !element.getClientRects().length) continue;
    const [a, b] = [channels(getComputedStyle(element).color), ground(element)].map(light);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst.contrast) Object.assign(worst, { contrast, text });
  }
  return worst;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    place = tmp_path_factory.mktemp("reports")
    add_samples(write_run(place / "run"))
    add_samples(write_comparison(place / "comparison") / "cells" / "fedoui-s0")
    keys = {"generator": "federated", "generator_rounds": 3}
    add_generator(write_run(place / "generator", **keys))
    for name in ("run", "comparison", "generator"):
        (place / f"{name}.html").write_text(render(place / name), encoding="utf-8")
    return place


@pytest.fixture(params=["run", "comparison", "generator"])
def shown(request, browser, pages):
    def show(scheme, width):
        browser.open(pages / f"{request.param}.html", width, scheme)
        browser.ask(OPEN_ALL)
        return browser

    return show


@pytest.mark.parametrize(("scheme", "width"), SIGHTS)
def test_it_can_be_read_everywhere(shown, scheme, width):
    browser = shown(scheme, width)
    widths = browser.ask(IMAGES)
    assert len(widths) >= 4
    assert min(widths) > 0
    assert browser.ask(WIDEST) == [width, width]
    worst = browser.ask(CONTRAST)
    assert worst["contrast"] >= 4.5, worst
    assert browser.complaints() == []
    asked = [each for each in browser.requests() if not each.startswith("data:")]
    assert asked == [browser.ask("location.href")]


def color(theme):
    return "rgb({}, {}, {})".format(*bytes.fromhex(theme.background[1:]))


@pytest.mark.parametrize(("scheme", "theme"), [("light", LIGHT), ("dark", DARK)])
def test_figures_stand_on_ground_of_their_theme(shown, scheme, theme):
    browser = shown(scheme, 1440)
    ground = "getComputedStyle(document.querySelector('figure')).backgroundColor"
    assert browser.ask(ground) == color(theme)
    body = browser.ask("getComputedStyle(document.body).backgroundColor")
    red = int(body.removeprefix("rgb(").split(",")[0])
    assert red < 64 if scheme == "dark" else red > 192
    chosen = browser.ask(
        "[...document.querySelectorAll('picture')].map(p => ["
        "p.querySelector('img').currentSrc === p.querySelector('source').srcset,"
        "p.querySelector('img').currentSrc === p.querySelector('img').src])"
    )
    assert chosen == [[scheme == "dark", scheme == "light"]] * len(chosen)
    assert chosen


def test_wide_tables_scroll_in_their_own_box(shown):
    browser = shown("light", 360)
    boxes = browser.ask(
        "[...document.querySelectorAll('.scroll')].map(b => [b.clientWidth, b.scrollWidth])"
    )
    assert any(inside > box for box, inside in boxes)
    assert all(box <= 360 for box, _ in boxes)
    assert max(inside for _, inside in boxes) < 3000  # a word of 3,000 letters is broken


def test_rows_of_samples_stand_beside_their_names(browser, pages):
    browser.open(pages / "run.html", 1440, "light")
    middle = "(e => { const r = e.getBoundingClientRect(); return (r.top + r.bottom) / 2 })"
    names = browser.ask(f"[...document.querySelectorAll('.sheet li')].map({middle})")
    top, height = browser.ask(
        "(r => [r.top, r.height])(document.querySelector('.sheet img').getBoundingClientRect())"
    )
    rows = [top + height * (2 * row + 1) / 8 for row in range(4)]
    assert names == pytest.approx(rows, abs=0.05 * height)


def test_words_of_others_are_shown_and_not_obeyed(shown):
    browser = shown("dark", 360)
    assert browser.ask("document.scripts.length") == 0
    assert browser.ask(f"document.body.innerText.includes({LONG[:1000]!r})")


def test_everything_is_open_on_paper(browser, pages):
    browser.open(pages / "run.html", 1440, "light")
    seen = "document.querySelector('details:not([open]) td').checkVisibility()"
    assert not browser.ask(seen)
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.ask(seen)
    browser.call("Emulation.setEmulatedMedia", media="")
