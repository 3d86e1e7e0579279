"""The numbers on the screen are the engine's, to the last bit, and a person reads them as Python would write them."""

from __future__ import annotations

import random
import re
import struct
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from attention import steps
from tests import server
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage

# the text of the document and of every shadow root in it, drawings included
ALL_TEXT = """() => {
  const text = (root) => [root.textContent, ...[...root.querySelectorAll('*')].filter((e) => e.shadowRoot)
    .map((e) => text(e.shadowRoot))].join(' ');
  return text(document.body);
}"""


@pytest.mark.parametrize("mask", ["causal", "none"])
def test_every_number_on_the_screen_is_the_engines_to_the_last_bit(page: Page, mask: str):
    experiment = replace(engine.LESSON, mask=mask)
    drive.open(page, f"/?mask={mask}")
    engine.assert_shows(page, experiment)
    drive.drawn(page)

    hides = engine.hidden(experiment)
    for step in steps.PLAIN:
        marked = step.name in ("mask", "masked_scores", "weights")
        assert drive.hidden(page, step.name) == (hides if marked else set()), step.name
    for i, j in hides:  # a hidden weight is exactly zero on the screen
        assert drive.matrix(page, "weights")[i][j] == 0.0
        assert "hidden" in drive.texts(page, "weights")[i][j]
    assert not re.search(r"1e\+?0?9|1\.0+e|1,?000,?000,?000|Infinity|NaN|nan", page.evaluate(ALL_TEXT))


def test_each_table_says_what_it_is_and_the_output_is_on_the_first_screen_of_a_projector(new_page: OpenPage):
    page = new_page(width=1920, height=1080)
    drive.open(page, "/")
    expect(drive.table(page, "output")).to_be_in_viewport()
    for step in steps.PLAIN:
        table = drive.table(page, step.name)
        caption = table.evaluate("t => t.getRootNode().getElementById(t.getAttribute('aria-labelledby')).textContent")
        size = "3 × 3" if step.columns == "keys" else "2 × 2" if step.rows == "dimensions" else "3 × 2"
        for words in (step.title, step.course, size):
            assert words in caption
        heads = {"queries": ["1 write", "2 a", "3 poem"], "dimensions": ["d1", "d2"]}
        heads |= {"keys": heads["queries"], "head": heads["dimensions"]}
        assert table.locator("th[scope=row]").all_inner_texts() == heads[step.rows]
        assert table.locator("th[scope=col]").all_inner_texts() == heads[step.columns]


def test_large_tiny_and_lopsided_numbers_are_plain_digits(page: Page):
    drive.open(page, "/?mask=none")
    drive.type_cell(page, 2, 0, "1e6")
    large = engine.with_cell(0, 0, 1e6, replace(engine.LESSON, mask="none"))
    engine.assert_shows(page, large)
    for step in steps.PLAIN:
        assert not any(re.search(r"\d[eE]", text) for row in drive.texts(page, step.name) for text in row)
    drive.type_cell(page, 2, 0, "1.16")
    drive.type_cell(page, 3, 0, "8")
    lopsided = engine.with_cell(0, 1, 8.0, replace(engine.LESSON, mask="none"))
    engine.assert_shows(page, lopsided)
    shown = {text for row in drive.texts(page, "weights") for text in row}
    assert {"<0.01 %", ">99.99 %"} <= shown


@pytest.fixture
def module(page: Page, url: str) -> Page:
    """A blank page in which the worksheet's own module is loaded as `sheet`."""
    page.goto(f"{url}/_stcore/health")
    source = (server.ROOT / "attention" / "ui" / "worksheet.js").read_text(encoding="utf-8")
    page.evaluate(
        """async (source) => {
          const address = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
          window.sheet = await import(address);
        }""",
        source,
    )
    return page


def awkward_numbers() -> list[float]:
    """Of every size, and many exactly half way between two texts, where rules of rounding differ."""
    draw = random.Random(7)  # noqa: S311  (nothing secret hangs on it)
    found = [0.0, -0.0, 1e15, -1e15, 1e-45, -1e-45, 0.5, 1e6, 99.995, 0.00005, 4.35, 1.005]
    found += [draw.choice((-1, 1)) * (2 * draw.randrange(4000) + 1) / 32 for _ in range(1000)]  # half of 1/10^4
    found += [draw.choice((-1, 1)) * (2 * draw.randrange(4000) + 1) / 8 for _ in range(500)]  # half of 1/10^2
    found += [draw.choice((-1, 1)) * 10 ** draw.uniform(-12, 15) for _ in range(1500)]
    found += [round(draw.uniform(-10, 10), 4) + draw.choice((-1, 1)) * 5e-5 for _ in range(1000)]
    single = [struct.unpack("f", struct.pack("f", x))[0] for x in found]  # what a float32 makes of it
    return found + single


@pytest.mark.parametrize("decimals", [4, 2])
def test_numbers_are_rounded_for_the_eye_as_python_and_pytorch_round_them(module: Page, decimals: int):
    values = awkward_numbers()
    found = module.evaluate("([values, n]) => values.map((x) => sheet.fixed(x, n))", [values, decimals])
    wrong = [
        (x, f"{x:.{decimals}f}", text) for x, text in zip(values, found, strict=True) if f"{x:.{decimals}f}" != text
    ]
    assert wrong == []


def test_a_percentage_says_0_or_100_only_where_it_is_exactly_that(module: Page):
    values = [min(abs(x), 1.0) for x in awkward_numbers()]
    values += [1 - 10.0**-k for k in range(1, 17)] + [10.0**-k for k in range(1, 46)] + [0.00005, 0.99995, 0.0, 1.0]
    found = module.evaluate("values => values.map((x) => sheet.percent(x))", values)
    wrong = [(x, engine.percent(x), text) for x, text in zip(values, found, strict=True) if engine.percent(x) != text]
    assert wrong == []
    assert dict(zip(values, found, strict=True))[1e-7] == "<0.01 %"
    assert dict(zip(values, found, strict=True))[1 - 1e-7] == ">99.99 %"
