"""Undo and redo through the app: whatever a person does, in any order, the app shows what a plain model says."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from streamlit.testing.v1 import AppTest

import attention
from attention import Experiment, masks
from tests.strategies import MASKS
from tests.test_app import LESSON, assert_shows, click, edit, editor, opened, paint, ran, sent, with_cell

WORKSHEET, BRING_IN = "pages/learn/worksheet.py", "pages/share/bring_in.py"
LAST = "Last change: "

# good ones from several ways of writing a number, and bad ones
TEXTS = {"2": 2.0, "-0.5": -0.5, "1e-3": 0.001, " .25": 0.25, "−3": -3.0, "1,5": None, "": None, "x": None}
LABELS = ("ode", "", "the", "x" * 65)
BLOCKS = {
    "the\t1.5\t-2\ncat\t1e-3\t.5": (("the", "cat"), ((1.5, -2.0), (0.001, 0.5))),
    "[[1, 2, 3]]": (("",), ((1.0, 2.0, 3.0),)),
    "tensor([[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]])": (("", "", ""), ((0.5, 1.0), (2.0, 3.0), (4.0, 5.0))),
}
IDENTITY = [[1.0, 0.0], [0.0, 1.0]]


def plain(x: float) -> str:
    return str(int(x)) if x == int(x) else repr(x)


@dataclass
class Screen:
    """All that a person can change, in plain lists; a text that is no number here is one that the app must refuse."""

    labels: list[str] = field(default_factory=lambda: list(LESSON.tokens))
    cells: list[list[str]] = field(default_factory=lambda: [[plain(x) for x in row] for row in LESSON.encodings])
    seed: int = 42
    mask: str = "causal"
    weights: list[Any] | None = None
    heads: int = 1
    positions: str = "none"
    keys: tuple[tuple[str, ...], list[list[str]]] | None = None

    def encodings(self) -> list[list[float]] | None:
        if any(len(label) > 64 for label in self.labels):
            return None
        numbers = [[TEXTS[text] if text in TEXTS else float(text) for text in row] for row in self.cells]
        return None if any(x is None for row in numbers for x in row) else numbers


class Model:
    """Every screen so far, and which of them is shown; the numbers stay the last good ones while a cell is bad."""

    def __init__(self) -> None:
        self.screens, self.at = [Screen()], 0
        self.experiment = LESSON

    @property
    def now(self) -> Screen:
        return self.screens[self.at]

    @property
    def stale(self) -> bool:
        return self.now.encodings() is None

    def change(self, screen: Screen) -> None:
        if screen != self.now:
            self.screens[self.at + 1 :] = [screen]
            self.at += 1
            self._follow()

    def move(self, by: int) -> None:
        self.at += by
        self._follow()

    def _follow(self) -> None:
        now, encodings, keys = self.now, self.now.encodings(), None
        labels, key_labels = now.labels, ()
        if now.keys is not None:
            key_labels, keys = now.keys[0], Screen(list(now.keys[0]), now.keys[1]).encodings()
        if encodings is None or (now.keys is not None and keys is None):
            labels, encodings = self.experiment.tokens, self.experiment.encodings
            key_labels, keys = self.experiment.key_tokens, self.experiment.key_encodings
        d_model = len(encodings[0])
        fits = now.weights is not None and len(now.weights[0]) == d_model and now.heads == 1
        rotary = now.positions.startswith("rotary")
        model = attention.Model(heads=now.heads, positions="none" if rotary and d_model % 2 else now.positions)
        self.experiment = Experiment(
            labels, encodings, now.seed, now.mask, "cpu", now.weights if fits else None, model, key_labels, keys or ()
        )


class Typing:
    """The editor on screen as Streamlit keeps it: each report holds all edits since it was mounted."""

    def __init__(self, visitor: AppTest) -> None:
        self.visitor, self.key, self.edits = visitor, "", {}

    def __call__(self, *edits: tuple[int, str, str]) -> None:
        if editor(self.visitor).key != self.key:
            self.key, self.edits = editor(self.visitor).key, {}
        for row, column, text in edits:
            self.edits.setdefault(row, {})[column] = text or None
        edit(self.visitor, deepcopy(self.edits))

    def forget(self) -> None:
        """The page was left: an editor that comes back has no edits."""
        self.key = ""


def go(visitor: AppTest, page: str) -> None:
    visitor.switch_page(page)
    ran(visitor)


def bring_in(visitor: AppTest, block: str) -> None:
    """Paste a block, take it, and go back to the worksheet."""
    go(visitor, BRING_IN)
    visitor.text_area(key="pasted").set_value(block)
    ran(visitor)
    click(visitor, "replace")
    go(visitor, WORKSHEET)


def give_weights(visitor: AppTest, weights: list[list[list[float]]]) -> None:
    """Type every weight of the three projections, in which the screen's rows are PyTorch's columns."""
    go(visitor, BRING_IN)
    for frame, matrix in zip(visitor.dataframe, weights, strict=True):
        rows = {i: {f"d{j + 1}": plain(x) for j, x in enumerate(column)} for i, column in enumerate(zip(*matrix))}  # noqa: B905
        visitor.session_state[frame.key] = {"edited_rows": rows, "added_rows": [], "deleted_rows": []}
    click(visitor, "use_weights")
    go(visitor, WORKSHEET)


def last_change(visitor: AppTest) -> str | None:
    """What the page says that undo would take back."""
    return next((text.value.removeprefix(LAST) for text in visitor.text if text.value.startswith(LAST)), None)


class Undo(RuleBasedStateMachine):
    """A person at the worksheet, and the model beside them."""

    @initialize()
    def open(self) -> None:
        self.visitor, self.model = opened(), Model()
        self.type = Typing(self.visitor)

    def changed(self, **values: Any) -> None:
        self.model.change(replace(deepcopy(self.model.now), **values))

    def typed(self, edits: list[tuple[int, str, str]]) -> None:
        screen = deepcopy(self.model.now)
        for row, column, text in edits:
            if column == "token":
                screen.labels[row] = text
            else:
                screen.cells[row][int(column[1:]) - 1] = text
        self.type(*edits)
        self.model.change(screen)

    @rule(data=st.data(), count=st.sampled_from((1, 1, 1, 2)))
    def type_numbers(self, data: st.DataObject, count: int) -> None:
        now = self.model.now
        places = st.tuples(st.integers(0, len(now.cells) - 1), st.integers(1, len(now.cells[0])))
        texts = st.sampled_from(list(TEXTS))
        self.typed([(row, f"d{j}", data.draw(texts)) for row, j in [data.draw(places) for _ in range(count)]])

    @rule(data=st.data(), label=st.sampled_from(LABELS))
    def type_a_label(self, data: st.DataObject, label: str) -> None:
        self.typed([(data.draw(st.integers(0, len(self.model.now.labels) - 1)), "token", label)])

    @rule()
    def add_a_token(self) -> None:
        click(self.visitor, "add_token")
        now = self.model.now
        self.changed(labels=[*now.labels, ""], cells=[*now.cells, ["0"] * len(now.cells[0])])

    @precondition(lambda self: len(self.model.now.labels) > 1)
    @rule()
    def remove_a_token(self) -> None:
        click(self.visitor, "remove_token")
        self.changed(labels=self.model.now.labels[:-1], cells=self.model.now.cells[:-1])

    @rule()
    def add_a_dimension(self) -> None:
        click(self.visitor, "add_dimension")
        now = self.model.now
        keys = now.keys and (now.keys[0], [[*row, "0"] for row in now.keys[1]])
        self.changed(cells=[[*row, "0"] for row in now.cells], keys=keys)

    @precondition(lambda self: len(self.model.now.cells[0]) > 1)
    @rule()
    def remove_a_dimension(self) -> None:
        click(self.visitor, "remove_dimension")
        now = self.model.now
        keys = now.keys and (now.keys[0], [row[:-1] for row in now.keys[1]])
        self.changed(cells=[row[:-1] for row in now.cells], keys=keys)

    def unfold(self) -> None:
        """The model's controls, which another page has folded up, are on screen."""
        if not self.visitor.toggle:
            self.visitor.session_state["model_controls"] = True
            ran(self.visitor)

    @rule(heads=st.sampled_from((1, 2, 3)))
    def set_the_heads(self, heads: int) -> None:
        self.unfold()
        self.visitor.selectbox(key="model-heads").select(heads)
        ran(self.visitor)
        self.changed(heads=heads)

    @rule(data=st.data())
    def set_the_positions(self, data: st.DataObject) -> None:
        odd = len(self.model.now.cells[0]) % 2
        offered = ("none", "learned", "alibi") if odd else ("none", "sinusoidal", "rotary.half")
        positions = data.draw(st.sampled_from(offered))
        self.unfold()
        self.visitor.selectbox(key="model-positions").select(positions)
        ran(self.visitor)
        self.changed(positions=positions)

    @rule()
    def begin_or_end_a_second_sequence(self) -> None:
        now = self.model.now
        self.unfold()
        self.visitor.toggle(key="model-second").set_value(now.keys is None)
        ran(self.visitor)
        self.changed(keys=(tuple(now.labels), deepcopy(now.cells)) if now.keys is None else None)

    @precondition(lambda self: self.model.now.keys is not None)
    @rule()
    def add_a_token_to_the_second_sequence(self) -> None:
        labels, cells = self.model.now.keys
        if len(labels) < 4:
            click(self.visitor, "add_token_of_keys")
            self.changed(keys=((*labels, ""), [*cells, ["0"] * len(cells[0])]))

    @rule(seed=st.sampled_from((0, 7, 42, 4294967295)))
    def set_the_seed(self, seed: int) -> None:
        self.visitor.number_input(key="seed").set_value(seed)
        ran(self.visitor)
        self.changed(seed=seed)

    @rule(mask=st.sampled_from(masks.NAMES))
    def set_the_mask(self, mask: str) -> None:
        self.visitor.button_group(key="mask").set_value(mask)
        ran(self.visitor)
        self.changed(mask=mask)

    @rule(mask=st.sampled_from((*MASKS, "causal.-1", "padding.left.9")))
    def take_a_mask_from_the_library(self, mask: str) -> None:
        visitor = self.visitor
        visitor.session_state["mask_library"] = True
        ran(visitor)
        visitor.text_input(key=f"mask_text-{self.model.now.mask}").set_value(mask)
        ran(visitor)
        visitor.session_state["mask_library"] = False
        ran(visitor)
        self.changed(mask=mask)

    @rule(data=st.data())
    def paint_the_mask(self, data: st.DataObject) -> None:
        queries, keys = (st.integers(0, n - 1) for n in (self.model.experiment.n, self.model.experiment.n_keys))
        cells = data.draw(st.lists(st.tuples(queries, keys), max_size=4, unique=True))
        paint(self.visitor, *cells)
        self.changed(mask=masks.paint(self.model.now.mask, cells))

    @rule(block=st.sampled_from(list(BLOCKS)))
    def bring_in_a_block(self, block: str) -> None:
        labels, rows = BLOCKS[block]
        bring_in(self.visitor, block)
        self.type.forget()
        shown = self.model.experiment  # what cannot be read yet is left behind
        fits = shown.d_model == len(rows[0])
        weights, positions = shown.weights, shown.model.positions
        keys = (shown.key_tokens, [[plain(x) for x in row] for row in shown.key_encodings])
        self.changed(
            keys=keys if fits and shown.crosses else None,
            positions="none" if positions.startswith("rotary") and len(rows[0]) % 2 else positions,
            labels=list(labels),
            cells=[[plain(x) for x in row] for row in rows],
            weights=[list(map(list, w)) for w in weights] if weights and fits else None,
        )

    @precondition(lambda self: self.model.experiment.d_model == 2 and self.model.experiment.model.heads == 1)
    @rule(first=st.sampled_from((1.0, 0.5)))
    def give_weights_by_hand(self, first: float) -> None:
        weights = [[[first, 0.0], [0.25, 1.0]], IDENTITY, IDENTITY]
        give_weights(self.visitor, weights)
        self.type.forget()
        self.changed(weights=weights)

    @precondition(lambda self: self.model.experiment.weights is not None)
    @rule()
    def go_back_to_the_seed(self) -> None:
        click(self.visitor, "back_to_seed")
        self.changed(weights=None)

    @rule()
    def look_at_another_page(self) -> None:
        go(self.visitor, "pages/share/take_away.py")
        go(self.visitor, WORKSHEET)
        self.type.forget()

    @rule()
    def reset(self) -> None:
        click(self.visitor, "reset")
        self.model.change(Screen())

    @precondition(lambda self: self.model.at > 0)
    @rule(times=st.integers(1, 3))
    def undo(self, times: int) -> None:
        for _ in range(min(times, self.model.at)):
            click(self.visitor, "undo")
            self.model.move(-1)

    @precondition(lambda self: self.model.at < len(self.model.screens) - 1)
    @rule(times=st.integers(1, 3))
    def redo(self, times: int) -> None:
        for _ in range(min(times, len(self.model.screens) - 1 - self.model.at)):
            click(self.visitor, "redo")
            self.model.move(1)

    @invariant()
    def the_app_shows_what_the_model_says(self) -> None:
        model, visitor = self.model, self.visitor
        assert visitor.session_state["good"] == model.experiment
        assert_shows(visitor, model.experiment, stale=model.stale)
        controls = (visitor.number_input(key="seed").value, visitor.button_group(key="mask").value)
        assert controls == (model.now.seed, masks.title(model.now.mask))
        assert visitor.button(key="undo").disabled == (model.at == 0)
        assert visitor.button(key="redo").disabled == (model.at == len(model.screens) - 1)
        assert (last_change(visitor) is None) == (model.at == 0)


TestUndo = Undo.TestCase
TestUndo.settings = settings(
    max_examples=15,
    stateful_step_count=18,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


# ---- what a machine seldom finds ------------------------------------------------------------------------------------


def test_several_edits_of_one_editor_are_undone_one_by_one_and_redone():
    visitor = opened()
    type_ = Typing(visitor)
    type_((0, "d1", "2"))
    type_((0, "d1", "3"))
    type_((1, "d2", "4"))
    both = with_cell(1, 1, 4, with_cell(0, 0, 3))
    assert_shows(visitor, both)
    for before in (with_cell(0, 0, 3), with_cell(0, 0, 2), LESSON):
        click(visitor, "undo")
        assert_shows(visitor, before)
    for _ in range(3):
        click(visitor, "redo")
    assert_shows(visitor, both)


def test_the_last_change_is_told_in_words_and_undo_goes_to_the_one_before():
    visitor = opened()
    Typing(visitor)((1, "d2", "2"))
    visitor.number_input(key="seed").set_value(7)
    ran(visitor)
    assert last_change(visitor) == "seed 42 to 7"
    click(visitor, "undo")
    assert last_change(visitor) == "cell token 2, d2: 1.36 to 2"
    click(visitor, "undo")
    assert last_change(visitor) is None


def test_a_reset_and_an_import_can_be_undone():
    visitor = opened(seed="7", mask="none")
    bring_in(visitor, "a\t1\t2")
    taken = Experiment(("a",), ((1.0, 2.0),), seed=7, mask="none")
    assert_shows(visitor, taken)
    click(visitor, "reset")
    assert_shows(visitor, LESSON)
    click(visitor, "undo")
    assert_shows(visitor, taken)
    click(visitor, "undo")
    assert_shows(visitor, replace(LESSON, seed=7, mask="none"))
    assert visitor.button(key="undo").disabled


def test_undo_is_there_again_after_another_page_was_looked_at():
    visitor = opened()
    Typing(visitor)((0, "d1", "2"))
    go(visitor, BRING_IN)
    go(visitor, WORKSHEET)
    click(visitor, "undo")
    assert_shows(visitor, LESSON)
    click(visitor, "redo")
    assert_shows(visitor, with_cell(0, 0, 2))


def pressed_together(visitor: AppTest, button: str, edits: dict[int, dict[str, str]]) -> None:
    """An edit and a click that reach the server at once."""
    visitor.session_state[editor(visitor).key] = {"edited_rows": edits, "added_rows": [], "deleted_rows": []}
    click(visitor, button)


def test_an_edit_that_arrives_together_with_the_click_on_undo_is_what_is_undone():
    visitor = opened()
    edit(visitor, {0: {"d1": "2"}})
    pressed_together(visitor, "undo", {0: {"d1": "2"}, 1: {"d2": "3"}})
    assert_shows(visitor, with_cell(0, 0, 2))
    click(visitor, "redo")
    assert_shows(visitor, with_cell(1, 1, 3, with_cell(0, 0, 2)))


def test_an_edit_that_arrives_together_with_the_click_on_redo_is_kept():
    visitor = opened()
    edit(visitor, {0: {"d1": "2"}})
    click(visitor, "undo")
    pressed_together(visitor, "redo", {1: {"d2": "3"}})
    assert_shows(visitor, with_cell(1, 1, 3))


@pytest.mark.parametrize(
    ("button", "seed"), [("undo", 42), ("reset", 42), ("add_token", 7)], ids=["undo", "reset", "more room"]
)
def test_a_seed_that_arrives_together_with_a_click_is_a_step_of_its_own(button, seed):
    visitor = opened()
    edit(visitor, {0: {"d1": "2"}})
    visitor.number_input(key="seed").set_value(7)
    click(visitor, button)
    assert visitor.session_state["good"].seed == seed
    if button == "undo":
        assert_shows(visitor, with_cell(0, 0, 2))
    else:
        click(visitor, "undo")
        assert_shows(visitor, with_cell(0, 0, 2, replace(LESSON, seed=7)))


def test_a_pinned_cell_that_an_undo_takes_away_is_pinned_no_more():
    visitor = opened()
    click(visitor, "add_token")
    visitor.session_state["trail"] = ("weights.3.3",)
    ran(visitor)
    assert sent(visitor)["pinned"] == "weights.3.3"
    click(visitor, "undo")
    assert sent(visitor)["pinned"] is None
    assert_shows(visitor, LESSON)
