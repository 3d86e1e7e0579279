"""The page "Step by step": from the first line to the last, by button, key and clock, on the worksheet's experiment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from attention import Experiment, lines, link, run
from attention.watch import RETURNED
from tests import server
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import findings
from tests.browser.test_explain import assert_pinned

# what stands there: marked lines, words, and every card as [name, changed?, rows of [value, text], what is printed]
SHOWN = """stepper => {
  const card = (made) => [
    made.dataset.variable ?? made.querySelector('h5').firstChild.textContent,
    made.classList.contains('changed'),
    [...made.querySelectorAll('tr')].map((row) => [...row.cells].map((td) => [+td.dataset.value, td.textContent])),
    made.querySelector('pre').textContent,
  ];
  const marked = [...stepper.querySelectorAll('[aria-current]')];
  const cards = [...stepper.querySelectorAll('.card')];
  return {
    marked: marked.map((line) => [line.getAttribute('aria-current'), line.textContent.trim()]),
    words: stepper.querySelector('.words').textContent,
    variables: cards.filter((made) => made.dataset.variable).map(card),
    pictures: cards.filter((made) => !made.dataset.variable).map(card),
  };
}"""


class Card(NamedTuple):
    """One variable, or one picture, as it stands on the page."""

    name: str
    changed: bool
    cells: list[list[list[Any]]]
    printed: str

    @property
    def values(self) -> list[list[float]]:
        return [[value for value, _ in row] for row in self.cells]


def stepper(page: Page) -> Locator:
    return page.locator(".stepper")


def open(page: Page, query: str = "") -> None:
    """Come from the worksheet, as a person does."""
    drive.open(page, f"/{query}")
    page.get_by_role("link", name="Step by step").click()
    stepper(page).wait_for()
    page.locator(drive.FINISHED).wait_for(state="attached")


def button(page: Page, name: str) -> Locator:
    return stepper(page).get_by_role("button", name=name, exact=True)


def at(page: Page, line: int, of: int = 12) -> None:
    """The page stands at this line, counted from 1."""
    expect(stepper(page).locator(".count")).to_have_text(f"line {line} of {of}")


def cards(page: Page, kind: str) -> list[Card]:
    return [Card(*one) for one in stepper(page).evaluate(SHOWN)[kind]]


# ---- what stands there -----------------------------------------------------------------------------------------------


def assert_shows(page: Page, experiment: Experiment, number: int) -> None:
    """The page stands at this line, with the line, its words, its variables and its pictures as they really were."""
    at(page, number)
    trace = run(experiment)
    line = lines.of(trace)[number - 1]
    shown = stepper(page).evaluate(SHOWN)
    assert shown["marked"] == [["step", line.text]]
    assert shown["words"] == lines.words(line, trace).replace("`", "")
    variables = {card.name: card for card in cards(page, "variables")}
    assert {name for name, card in variables.items() if card.changed} == set(line.changed)
    assert {name: card.values for name, card in variables.items()} == {
        name: value.double().tolist() for name, value in line.values.items()
    }
    assert {name: card.printed for name, card in variables.items()} == {
        name: str(value) for name, value in line.values.items()
    }
    pictures = [(card.name, card.values) for card in cards(page, "pictures")]
    assert pictures == [(picture.title, picture.matrix.double().tolist()) for picture in lines.pictures(line, trace)]


@pytest.mark.parametrize("mask", ["causal", "none"])
def test_from_the_first_line_to_the_last_which_returns_the_worksheets_output(page: Page, mask: str):
    experiment = replace(engine.LESSON, seed=7, mask=mask)
    drive.open(page, f"/?seed=7&mask={mask}")
    engine.assert_shows(page, experiment)
    output = drive.matrix(page, "output")
    page.get_by_role("link", name="Step by step").click()
    for number in range(1, 13):
        assert_shows(page, experiment, number)
        button(page, "Next").click() if number < 12 else expect(button(page, "Next")).to_be_disabled()
    (last,) = (card for card in cards(page, "variables") if card.name == RETURNED)
    for row, expected in zip(last.values, output, strict=True):
        assert row == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_mask_step_shows_what_is_added_and_what_is_replaced(page: Page):
    open(page)
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    at(page, 8)
    added, _, replaced = ([[text for _, text in row] for row in card.cells] for card in cards(page, "pictures"))
    assert added == [["0.0000", "−1e9", "−1e9"], ["0.0000", "0.0000", "−1e9"], ["0.0000", "0.0000", "0.0000"]]
    assert replaced == [["−0.0700", "−1e9", "−1e9"], ["−0.2844", "0.2883", "−1e9"], ["0.3424", "−0.4725", "2.8610"]]


def test_scores_of_any_size_are_read_as_what_they_are(page: Page):
    open(page, f"?{link.write(Experiment(('a', 'b'), [[1e6, -1e6], [1e6, 1e6]], mask='none'))}")
    button(page, "Last").click()
    at(page, 12)
    button(page, "Previous").click()
    at(page, 11)
    for card in cards(page, "variables"):
        for value, text in (cell for row in card.cells for cell in row):
            assert float(text.replace("−", "-")) == pytest.approx(value, rel=1e-6, abs=1e-4), card.name


def test_what_was_typed_on_the_worksheet_is_what_runs(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, 2, 0, "2.5")
    edited = engine.with_cell(0, 0, 2.5)
    engine.assert_shows(page, edited)
    page.get_by_role("link", name="Step by step").click()
    assert_shows(page, edited, 1)


def test_another_seed_keeps_the_line_and_changes_its_numbers(page: Page):
    open(page)
    button(page, "Last").click()
    seed = page.get_by_role("spinbutton", name="Seed")
    seed.fill("7")
    seed.press("Enter")
    expect(stepper(page).locator("[data-variable=returned] pre")).not_to_contain_text("3.4989")
    assert_shows(page, replace(engine.LESSON, seed=7), 12)


def test_sixty_four_tokens_run_too(page: Page):
    experiment = Experiment(("",) * 64, [[(i % 8) / 4 - 1] for i in range(64)])
    open(page, f"?{link.write(experiment)}")
    button(page, "Last").click()
    assert_shows(page, experiment, 12)


# ---- walking ---------------------------------------------------------------------------------------------------------


def test_the_buttons_walk_the_lines_and_are_off_where_there_is_nowhere_to_go(page: Page):
    open(page)
    at(page, 1)
    for name, line in (("Next", 2), ("Next", 3), ("Previous", 2), ("Last", 12), ("Previous", 11), ("First", 1)):
        button(page, name).click()
        at(page, line)
        off = {1: {"First", "Previous"}, 12: {"Next", "Last"}}.get(line, set())
        assert {name for name in ("First", "Previous", "Next", "Last") if button(page, name).is_disabled()} == off


def test_the_keys_walk_the_lines_and_stop_at_the_ends(page: Page):
    open(page)
    for key, line in (
        *(("ArrowLeft", 1), ("ArrowRight", 2), ("ArrowDown", 3), ("ArrowUp", 2), ("ArrowLeft", 1), ("ArrowUp", 1)),
        *(("End", 12), ("ArrowRight", 12), ("ArrowDown", 12), ("ArrowLeft", 11), ("Home", 1)),
    ):
        page.keyboard.press(key)
        at(page, line)


def test_keys_that_belong_to_a_field_or_to_the_browser_walk_no_lines(page: Page):
    open(page)
    for key in ("Control+ArrowRight", "Meta+ArrowDown"):
        page.keyboard.press(key)
    page.get_by_role("spinbutton", name="Seed").focus()
    for key in ("ArrowRight", "End"):
        page.keyboard.press(key)
    button(page, "Next").click()
    at(page, 2)


# ---- playing, by a clock that the test turns -------------------------------------------------------------------------


@pytest.fixture
def playable(page: Page) -> Page:
    open(page)
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
    return page


def pass_by(page: Page, milliseconds: int) -> None:
    page.clock.run_for(milliseconds)


def test_space_plays_line_by_line_until_it_is_pressed_again(playable: Page):
    playable.get_by_role("heading", name="Attention Workbench").click()
    playable.keyboard.press("Space")
    expect(button(playable, "Pause")).to_be_visible()
    pass_by(playable, 1400)
    at(playable, 1)
    pass_by(playable, 200)
    at(playable, 2)
    pass_by(playable, 3000)
    at(playable, 4)
    playable.keyboard.press("Space")
    expect(button(playable, "Play")).to_be_visible()
    pass_by(playable, 10_000)
    at(playable, 4)


def test_space_plays_for_one_who_has_just_come_by_a_link_to_this_page(playable: Page):
    playable.keyboard.press("Space")
    pass_by(playable, 1600)
    at(playable, 2)


def test_playing_ends_at_the_last_line_and_begins_anew_from_there(playable: Page):
    button(playable, "Play").click()
    pass_by(playable, 60_000)
    at(playable, 12)
    button(playable, "Play").click()
    at(playable, 1)
    pass_by(playable, 1600)
    at(playable, 2)


def test_a_step_by_hand_stops_the_play(playable: Page):
    button(playable, "Play").click()
    pass_by(playable, 1600)
    playable.keyboard.press("ArrowLeft")
    at(playable, 1)
    expect(button(playable, "Play")).to_be_visible()
    pass_by(playable, 10_000)
    at(playable, 1)


def test_the_speed_can_be_chosen_even_while_it_plays(playable: Page):
    for speed, line in (("slow", 3), ("normal", 5), ("fast", 11)):
        button(playable, "Play").click()
        stepper(playable).get_by_label("Speed").select_option(speed)
        pass_by(playable, 6050)
        at(playable, line)
        button(playable, "First").click()
        at(playable, 1)


# ---- there and back --------------------------------------------------------------------------------------------------


def test_the_way_back_keeps_the_pinned_cell_the_seed_and_the_mask(page: Page):
    open(page, "?cell=weights.1.0&seed=7&mask=none")
    expect(page).to_have_url(re.compile(r"/step_by_step\?.*cell=weights\.1\.0"))
    page.get_by_role("link", name="Back to the worksheet").click()
    drive.settled(page)
    assert_pinned(page, ("weights", 1, 0))
    engine.assert_shows(page, replace(engine.LESSON, seed=7, mask="none"))


# ---- by its own address ----------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_server() -> Iterator[server.Server]:
    """A server that nobody has visited yet."""
    with server.app() as running:
        yield running


def test_the_first_visitor_of_a_server_can_come_by_this_pages_address(browser: Browser, fresh_server: server.Server):
    context = browser.new_context(base_url=fresh_server.url)
    page = context.new_page()
    complaints: list[str] = []
    # below a page's address Streamlit looks for its server first, and does not find it there; and it says that there is
    # no such page before the app has named it, in a dialog that closes by itself
    harmless = ("404", "page that you have requested does not seem to exist")
    page.on(
        "console",
        lambda m: complaints.append(m.text) if m.type == "error" and not any(h in m.text for h in harmless) else None,
    )
    page.goto("/step_by_step?seed=7&cell=weights.1.0")
    at(page, 1)
    page.locator(drive.FINISHED).wait_for(state="attached")
    assert_shows(page, replace(engine.LESSON, seed=7), 1)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("link", name="Back to the worksheet").click()
    drive.settled(page)
    assert_pinned(page, ("weights", 1, 0))
    context.close()
    assert "Traceback" not in fresh_server.log()
    assert complaints == []


# ---- for everybody ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_at_the_first_line_at_the_mask_and_at_the_last(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    open(page)
    drive.at_rest(page)
    for keys, line in (("Home",), 1), (("ArrowRight",) * 7, 8), (("End",), 12):
        for key in keys:
            page.keyboard.press(key)
        at(page, line)
        assert findings(page) == []
