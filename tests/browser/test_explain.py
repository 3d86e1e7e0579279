"""Point at a number and see where it comes from; pin it, follow it back, and by the keyboard alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from attention import Experiment, explain, link, run, steps
from attention.explain import sources
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.test_keyboard import focused, go, into_the_worksheet
from tests.browser.test_looks import COLOURS, contrast

Cell = tuple[str, int, int]

# every cell that is lit: [step, row, column, style, width and colour of its ring, weight of its digits]
LIT = """cells => cells.map((cell) => {
  const look = getComputedStyle(cell);
  const place = [cell.closest('table').dataset.step, +cell.dataset.row, +cell.dataset.col];
  return [...place, look.outlineStyle, parseFloat(look.outlineWidth), look.outlineColor, +look.fontWeight];
})"""

# a colour of any notation as sRGB bytes
PAINTED = """colour => {
  const context = new OffscreenCanvas(1, 1).getContext('2d');
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


class Lit(NamedTuple):
    """A cell that stands out as an operand."""

    step: str
    row: int
    column: int
    ring: str
    width: float
    colour: str
    weight: int


def cell(page: Page, step: str, row: int, column: int) -> Locator:
    return drive.table(page, step).locator(f"td[data-row='{row}'][data-col='{column}']")


def lit(page: Page, number: int) -> list[Lit]:
    """The lit cells, once there are as many."""
    found = page.locator("td[data-operand]")
    expect(found).to_have_count(number)
    return [Lit(*one) for one in found.evaluate_all(LIT)]


def places(found: list[Lit]) -> set[Cell]:
    return {one[:3] for one in found}


def operands(experiment: Experiment, place: Cell) -> set[Cell]:
    found = explain(run(experiment), *place).operands
    return {(step, row, column) for step, row, column, *_ in found if step != "draw"}


def assert_pinned(page: Page, place: Cell | None) -> None:
    """On which cell worksheet, address and panel agree."""
    selected = page.locator("table[data-step] td[aria-selected=true]")
    if place is None:
        expect(page.get_by_text("Where does a number come from?")).to_be_visible()
        expect(selected).to_have_count(0)
        expect(page).not_to_have_url(re.compile("cell="))
        return
    step, row, column = place
    expect(page).to_have_url(re.compile(rf"[?&]cell={step}\.{row}\.{column}(&|$)"))
    expect(selected).to_have_count(1)
    expect(cell(page, *place)).to_have_attribute("aria-selected", "true")
    expect(panel(page)).to_contain_text(title(place))


def title(place: Cell) -> str:
    step, row, column = place
    words = steps.BY_NAME[step]
    if words.columns == "keys":
        return f"{words.title}: query {row + 1}, key {column + 1}"
    return f"{words.title}: {'token ' if words.rows in ('queries', 'keys') else 'd'}{row + 1}, d{column + 1}"


def panel(page: Page) -> Locator:
    return page.locator(".st-key-why")


# ---- pointing --------------------------------------------------------------------------------------------------------


def cells_of(step: str, rows: list[int], columns: list[int]) -> set[Cell]:
    return {(step, i, j) for i in rows for j in columns}


def test_pointing_at_a_cell_of_every_step_lights_exactly_the_cells_that_it_was_computed_from(page: Page):
    # 4 tokens x 3 dimensions, so that no two axes are alike
    experiment = Experiment(tuple("abcd"), [[i - j / 4 for j in range(3)] for i in range(4)])
    drive.open(page, f"/?{link.write(experiment)}")
    engine.assert_shows(page, experiment)
    tokens, dimensions = [0, 1, 2, 3], [0, 1, 2]
    expected = {step.name: set() for step in steps.PLAIN} | {
        **{x: cells_of("encodings", [2], dimensions) | cells_of(f"w_{x}", dimensions, [1]) for x in "qkv"},
        **{x: cells_of("q", [2], dimensions) | cells_of("k", [1], dimensions) for x in ("similarities", "scores")},
        "masked_scores": {("scores", 2, 1), ("mask", 2, 1)},
        "weights": cells_of("masked_scores", [2], tokens),
        "output": cells_of("weights", [2], tokens) | cells_of("v", tokens, [1]),
    }
    for step, wanted in expected.items():
        cell(page, step, 2, 1).hover()
        assert places(lit(page, len(wanted))) == wanted == operands(experiment, (step, 2, 1))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lit_cells_stand_out_and_the_two_kinds_differ_without_their_colour(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    drive.open(page, "/")
    _, (background,) = page.get_by_test_id("stApp").evaluate(COLOURS)
    for place in (("output", 2, 0), ("scores", 1, 0), ("q", 0, 1)):
        cell(page, *place).hover()
        found = lit(page, len(operands(engine.LESSON, place)))
        first, second = (source.step for source in sources(run(engine.LESSON))[place[0]])
        assert {one.ring for one in found if one.step == first} == {"solid"}
        assert {one.ring for one in found if one.step == second} == {"dashed"}
        for one in found:
            assert one.width >= 2
            assert one.weight >= 600
            assert contrast(page.evaluate(PAINTED, one.colour), background) >= 3  # WCAG 1.4.11
    others = page.locator("table[data-step] td[data-row]:not([data-operand]):not(:hover)").evaluate_all(LIT)
    assert len(others) > 40
    assert {(one[3], one[6]) for one in others} == {("none", 400)}


def test_leaving_the_worksheet_puts_the_lights_out(page: Page):
    drive.open(page, "/")
    cell(page, "q", 1, 1).hover()
    lit(page, 4)
    page.get_by_role("heading", name="Attention Workbench").hover()
    assert lit(page, 0) == []


def test_pointing_at_one_of_many_cells_lights_its_row_and_its_column(page: Page):
    experiment = Experiment(("x",) * 16, [[i / 8, 1 - i / 8] for i in range(16)])
    drive.open(page, f"/?{link.write(experiment)}")
    engine.assert_shows(page, experiment)
    for place, number in ((("output", 15, 1), 32), (("scores", 15, 0), 4), (("weights", 8, 3), 16)):
        cell(page, *place).hover()
        assert places(lit(page, number)) == operands(experiment, place)


def test_pointing_asks_the_server_for_nothing_and_pinning_does(page: Page):
    said: list[str] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda _: said.append("")))
    drive.open(page, "/")
    drive.drawn(page)
    before = len(said)
    assert before > 0
    for step in steps.PLAIN:
        cell(page, step.name, 1, 1).hover()
        lit(page, len(operands(engine.LESSON, (step.name, 1, 1))))
    assert len(said) == before
    cell(page, "scores", 1, 1).click()
    assert_pinned(page, ("scores", 1, 1))
    assert len(said) > before


# ---- pinning ---------------------------------------------------------------------------------------------------------


def test_a_click_pins_a_cell_of_every_step_and_its_arithmetic_is_drawn(page: Page):
    drive.open(page, "/")
    for step in steps.PLAIN:
        place = (step.name, 1, 0)
        if step.name == "mask":  # a click paints it
            cell(page, *place).press("Enter")
        else:
            cell(page, *place).click()
        assert_pinned(page, place)
        expect(panel(page).locator(".katex-display")).to_have_count(1)
        expect(panel(page).locator(".katex-error")).to_have_count(0)
    expect(panel(page)).to_contain_text("By hand")


def test_a_pinned_cell_stays_lit_when_the_pointer_leaves_and_gives_way_while_it_points_elsewhere(page: Page):
    drive.open(page, "/")
    cell(page, "weights", 2, 0).click()
    assert_pinned(page, ("weights", 2, 0))
    page.get_by_role("heading", name="Attention Workbench").hover()
    assert places(lit(page, 3)) == operands(engine.LESSON, ("weights", 2, 0))
    cell(page, "q", 0, 0).hover()
    assert places(lit(page, 4)) == operands(engine.LESSON, ("q", 0, 0))
    page.get_by_role("heading", name="Attention Workbench").hover()
    assert places(lit(page, 3)) == operands(engine.LESSON, ("weights", 2, 0))
    assert_pinned(page, ("weights", 2, 0))


def test_a_pin_survives_an_edit_another_seed_and_another_mask_and_its_arithmetic_follows(page: Page):
    place = ("scores", 1, 0)
    drive.open(page, "/")
    cell(page, *place).press("Enter")
    assert_pinned(page, place)

    drive.type_cell(page, 2, 0, "2.5")
    edited = engine.with_cell(0, 0, 2.5)
    engine.assert_shows(page, edited)
    assert_pinned(page, place)
    expect(panel(page)).to_contain_text(value(edited, place))

    seed = page.get_by_role("spinbutton", name="Seed")
    seed.fill("7")
    seed.press("Enter")
    seeded = replace(edited, seed=7)
    engine.assert_shows(page, seeded)
    assert_pinned(page, place)
    expect(panel(page)).to_contain_text(value(seeded, place))

    page.get_by_role("radio", name="none").click()
    engine.assert_shows(page, replace(seeded, mask="none"))
    assert_pinned(page, place)


def test_a_link_and_a_reload_open_with_the_cell_pinned_and_lit(new_page: OpenPage):
    first = new_page()
    drive.open(first, "/?seed=7")
    cell(first, "output", 1, 1).click()
    assert_pinned(first, ("output", 1, 1))

    second = new_page()
    drive.open(second, first.url)
    assert_pinned(second, ("output", 1, 1))
    seeded = replace(engine.LESSON, seed=7)
    assert places(lit(second, 6)) == operands(seeded, ("output", 1, 1))
    expect(panel(second)).to_contain_text(value(seeded, ("output", 1, 1)))
    second.reload()
    drive.settled(second)
    assert_pinned(second, ("output", 1, 1))


def test_escape_and_the_button_unpin(page: Page):
    drive.open(page, "/")
    for unpin in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.get_by_role("button", name="Unpin").click(),
    ):
        cell(page, "weights", 1, 0).click()
        assert_pinned(page, ("weights", 1, 0))
        unpin()
        assert_pinned(page, None)


# ---- the panel -------------------------------------------------------------------------------------------------------


def value(experiment: Experiment, place: Cell) -> str:
    return f"{explain(run(experiment), *place).result:.4f}".replace("-", "−")


def test_the_trail_leads_from_an_output_back_to_a_draw_and_forth_again(page: Page):
    drive.open(page, "/")
    cell(page, "output", 2, 0).click()
    assert_pinned(page, ("output", 2, 0))
    for words, place in (
        ("percentage 3,3: 0.8959", ("weights", 2, 2)),
        ("masked score 3,1: 0.3424", ("masked_scores", 2, 0)),
        ("score 3,1: 0.3424", ("scores", 2, 0)),
        ("q 3,2: −2.1336", ("q", 2, 1)),
        ("W_q 1,2: −0.1657", ("w_q", 0, 1)),
    ):
        panel(page).get_by_role("radio", name=words, exact=True).click()
        assert_pinned(page, place)
    expect(panel(page)).to_contain_text("drawn from seed 42")
    for place in (("masked_scores", 2, 0), ("output", 2, 0)):
        panel(page).get_by_role("radio", name=title(place), exact=True).click()
        assert_pinned(page, place)
    expect(panel(page).get_by_text("The way here")).to_have_count(0)


def test_by_hand_the_lesson_drifts_and_more_decimals_bring_it_back(page: Page):
    drive.open(page, "/?cell=output.2.0")
    expect(panel(page)).to_contain_text("By hand 3.5145, in PyTorch 3.4989: 0.0156 apart.")
    panel(page).get_by_role("radio", name="6", exact=True).click()
    expect(panel(page)).to_contain_text("By hand 3.4989, in PyTorch 3.4989: 0.0000 apart.")
    cell(page, "output", 2, 1).click()
    assert_pinned(page, ("output", 2, 1))
    panel(page).get_by_role("radio", name="2", exact=True).click()
    expect(panel(page)).to_contain_text("By hand 2.2457, in PyTorch 2.2427")


# ---- by the keyboard alone -------------------------------------------------------------------------------------------


def test_the_keyboard_alone_leads_from_the_grid_to_an_explained_output(page: Page):
    drive.open(page, "/")
    drive.select_cell(page, 2, 0)
    into_the_worksheet(page)
    for step in steps.PLAIN[1:]:
        assert go(page, "Tab").place == (step.name, 0, 0)
    assert places(lit(page, 6)) == operands(engine.LESSON, ("output", 0, 0))
    assert go(page, "ArrowDown", "ArrowDown").place == ("output", 2, 0)
    assert places(lit(page, 6)) == operands(engine.LESSON, ("output", 2, 0))
    page.keyboard.press("Enter")
    assert_pinned(page, ("output", 2, 0))
    expect(panel(page)).to_contain_text("3.5145")
    assert focused(page).place == ("output", 2, 0)  # the answer takes nothing away from the walker
    page.keyboard.press("Escape")
    assert_pinned(page, None)
    assert focused(page).place == ("output", 2, 0)


def test_arrows_and_enter_pin_one_cell_after_another_and_space_does_as_enter(page: Page):
    drive.open(page, "/")
    into_the_worksheet(page)
    assert go(page, "ArrowRight", "ArrowRight").place == ("w_q", 0, 0)
    page.keyboard.press("Enter")
    assert_pinned(page, ("w_q", 0, 0))
    assert go(page, "ArrowRight", "ArrowDown", "ArrowRight").place == ("q", 1, 0)
    assert places(lit(page, 4)) == operands(engine.LESSON, ("q", 1, 0))
    page.keyboard.press("Space")
    assert_pinned(page, ("q", 1, 0))
