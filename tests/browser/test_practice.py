"""The practice page in a browser: solved by keyboard alone, opened from a teacher's link, kept through a reload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from attention import practice, results, steps
from attention.exercises import Exercise, PracticeSet
from attention.practice import Round
from attention.progress import AT_ONCE, HELPED, OPEN
from attention.spot import Spot
from tests.browser import drive
from tests.browser.conftest import PATIENCE
from tests.browser.pages import findings

# below a page's address Streamlit looks for its server first, and does not find it there; and it says that there is no
# such page before the app has named it, in a dialog that closes by itself
HARMLESS = ("404", "page that you have requested does not seem to exist")

SCORES = PracticeSet("scores", 1, 3, 11)
TEXTS = "root => [...root.querySelectorAll('.term')].map((term) => term.innerText)"


NewPerson = Callable[..., BrowserContext]


# what is in the clipboard, once something is
COPIED = """async () => {
  for (;;) {
    const text = await navigator.clipboard.readText();
    if (text) return text;
    await new Promise(requestAnimationFrame);
  }
}"""


@pytest.fixture
def new_person(browser: Browser, url: str) -> Iterator[NewPerson]:
    """Makes browsers that know nothing yet; fails the test if a page complained of anything but a page's address."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def make(scheme: str = "light") -> BrowserContext:
        context = browser.new_context(
            base_url=url, color_scheme=scheme, permissions=["clipboard-read", "clipboard-write"]
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.on("weberror", lambda e: complaints.append(f"page error: {e.error}"))
        context.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        return context

    yield make
    for context in contexts:
        context.close()
    assert [text for text in complaints if not any(harmless in text for harmless in HARMLESS)] == []


def opened(context: BrowserContext, which: PracticeSet | None = None) -> Page:
    page = context.new_page()
    page.goto(f"/practice?{practice.write(which)}" if which else "/practice")
    stands(page, 1)
    return page


def stands(page: Page, question: int) -> None:
    """The page is at this question, counted from 1, at rest, and its answer can be typed."""
    expect(page.get_by_role("heading", name=f"Question {question} of ")).to_be_visible()
    page.locator(f"[class*='st-key-answer-0-{question - 1}-'] input").first.wait_for()
    page.locator(drive.FINISHED).wait_for(state="attached")


def shown(page: Page) -> list[str]:
    """Every matrix that the question shows, and the signs between them, as a person reads them."""
    texts: list[str] = page.locator(".exercise").evaluate(TEXTS)
    return texts


def solution(which: PracticeSet, place: int) -> str:
    question = Round(which, at=place).question()
    assert isinstance(question, Exercise)
    return f"{steps.matrix(question.trace(), question.step)[question.cells[0]].item():.0f}"


def focused(page: Page) -> Locator:
    return page.locator("*:focus")


def test_questions_are_solved_by_keyboard_alone_and_progress_survives_a_reload(new_person: NewPerson):
    context = new_person()
    page = opened(context, SCORES)
    page.get_by_label("Your answer").focus()
    page.keyboard.type(solution(SCORES, 0))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Right, at once.")).to_be_visible()
    # the keyboard stands at the next question, and then in its field
    expect(focused(page)).to_contain_text("Next question")
    page.keyboard.press("Enter")
    stands(page, 2)
    expect(focused(page)).to_have_attribute("aria-label", "Your answer")
    page.keyboard.type("1,5")
    page.keyboard.press("Enter")
    expect(page.get_by_text("“1,5” is not a number; write 1.5")).to_be_visible()
    expect(focused(page)).to_have_value("1,5")
    page.keyboard.press("Control+A")
    page.keyboard.type(str(int(solution(SCORES, 1)) + 1))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Not yet.")).to_be_visible()
    expect(focused(page)).to_have_attribute("aria-label", "Your answer")
    page.keyboard.press("Tab")  # Check
    page.keyboard.press("Tab")
    expect(focused(page)).to_contain_text("Hint 1 of 4")
    page.keyboard.press("Enter")
    expect(page.locator(".exercise td[data-operand]").first).to_be_visible()
    field = page.get_by_label("Your answer")
    field.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type(solution(SCORES, 1))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Right.", exact=True)).to_be_visible()
    expect(page.get_by_text("streak 0, longest 1", exact=True)).to_be_visible()
    expect(focused(page)).to_contain_text("Next question")

    page.reload()
    stands(page, 3)
    expect(page.get_by_text("streak 0, longest 1", exact=True)).to_be_visible()

    # another tab of this browser goes on with the same questions, and this one learns what happened there
    other = context.new_page()
    other.goto("/practice")
    stands(other, 3)
    assert shown(other) == shown(page)
    other.get_by_label("Your answer").fill(solution(SCORES, 2))
    other.keyboard.press("Enter")
    expect(page.get_by_text("streak 1, longest 1", exact=True)).to_be_visible()
    expect(focused(other)).to_contain_text("See the result")
    other.keyboard.press("Enter")
    code = results.code(SCORES, (AT_ONCE, HELPED, AT_ONCE))
    expect(other.get_by_text(code)).to_be_visible()

    other.reload()
    expect(other.get_by_text(code)).to_be_visible()
    other.locator(drive.FINISHED).wait_for(state="attached")
    other.get_by_text("Your progress").click()
    drive.at_rest(other)  # a button that still moves would miss the click
    other.get_by_role("button", name="Forget it").click()
    expect(page.get_by_text("streak 0, longest 0", exact=True)).to_be_visible()


def test_a_teachers_link_gives_everyone_the_same_questions_and_reads_their_results(new_person: NewPerson):
    teacher = opened(new_person())
    teacher.get_by_text("For teachers").click()
    teacher.get_by_role("button", name="Copy link").click()
    expect(teacher.get_by_text("Copied, where your browser allows it")).to_be_visible()
    # the words stand there a moment before the browser has copied
    address = teacher.evaluate(COPIED)
    assert address == teacher.locator(".st-key-practice_teacher [data-testid=stCode]").inner_text()

    seen = []
    for _ in range(2):
        page = new_person().new_page()
        page.goto(address)
        stands(page, 1)
        expect(page.get_by_text("These questions come from a link")).to_be_visible()
        first = shown(page)
        page.get_by_role("button", name="Next question").click()
        stands(page, 2)
        seen.append((first, shown(page)))
    assert seen[0] == seen[1]
    assert seen[0][0] == shown(teacher)
    assert seen[0][0] != seen[0][1]

    which, _ = practice.read(parse_qs(urlsplit(address).query))
    assert which is not None
    codes = teacher.get_by_label("Results, one a line")
    codes.fill(f"Ada {results.code(which, (OPEN,) * which.questions)}\nBob 4GSG-E115-38C1")
    teacher.keyboard.press("Control+Enter")
    expect(teacher.get_by_text("1 of 2 codes cannot be read.")).to_be_visible()
    expect(teacher.get_by_text("line 2: “4GSG-E115-38C1” does not fit its checksum")).to_be_visible()
    table = teacher.locator(".st-key-practice_teacher [data-testid=data-grid-canvas]")
    expect(table.locator("td", has_text="Ada")).to_be_attached()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_planted_mistake_is_found_and_axe_finds_nothing_serious(new_person: NewPerson, scheme: str):
    which = PracticeSet("mistake", 1, 1, 7)
    question = Round(which).question()
    assert isinstance(question, Spot)
    page = opened(new_person(scheme), which)
    drive.at_rest(page)
    assert findings(page) == []
    step = steps.BY_NAME[question.wrong_step() or ""].title.lower()
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("the step: is not chosen yet")).to_be_visible()
    page.get_by_role("radiogroup", name="The first wrong step").get_by_text(step, exact=True).click()
    page.locator("[class*='st-key-answer-1-'] label").nth(1 + question.choices.index(question.mistake)).click()
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("Right, at once.")).to_be_visible()
    expect(page.locator(".exercise td[data-kind=wrong]")).to_have_count(1)
    page.get_by_text("For teachers").click()
    page.get_by_text("Your progress").click()
    drive.at_rest(page)
    assert findings(page) == []
    page.get_by_role("button", name="See the result").click()
    expect(page.get_by_role("heading", name="1 of 1 right at once")).to_be_visible()
    drive.at_rest(page)
    assert findings(page) == []
