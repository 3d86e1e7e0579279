"""The current experiment of a session: the only place that touches st.session_state.

The truth is a History of Documents (what stands in the grid, right or wrong, and the small controls). The editor on
screen is mounted from a grid once for each version; its edits are laid over the mounted grid whenever the grid is asked
for, so none is lost, and whatever replaces the grid mounts a fresh editor under the next version.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, overload
from urllib.parse import urlencode

import streamlit as st

from attention import devices, files, grid, history, lessons, link, masks
from attention.core import Trace
from attention.experiment import Experiment, ExperimentError, Matrix
from attention.explain import head_of, named, of_head
from attention.grid import Grid
from attention.history import Document, History
from attention.model import PLAIN, Model
from attention.paste import PasteError

if TYPE_CHECKING:
    import pandas as pd

LESSON = lessons.masked_self_attention()
CONTROLS = ("seed", "device")
"""Controls whose keys are parameters of the address, which Streamlit keeps; the mask's is kept here."""
PAGES = (
    "step_by_step",
    "practice",
    "heads",
    "positions",
    "decode",
    "take_away",
    "bring_in",
    "side_by_side",
    "diagnose",
    "what_can_go_wrong",
)
"""The pages' names in the address, but for the first one's, which is empty."""


class Current(NamedTuple):
    """What a page shows: the last good experiment, and the problems of the grid that keep it from being today's."""

    experiment: Experiment
    problems: tuple[ExperimentError, ...]


# --- the session ----------------------------------------------------------------------------------------------------


def start() -> None:
    """Begin a session with what the address holds: a link's experiment, else the lesson; a notice for each problem.

    It is called whenever all of the app is drawn, whose controls and grids show what is there.
    """
    st.session_state.frame_is_behind = False
    if "version" in st.session_state:
        return
    address = [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
    experiment, problems = link.read(urlencode(address, errors="surrogatepass"))
    st.session_state.notices = [problem.words() for problem in problems]
    experiment = _computable(experiment)
    st.session_state.trail = tuple(st.query_params.get_all("cell")[-1:])
    for cell in trail():
        _show_head_of(cell)
    st.session_state.cell_from_link = True
    # not the same for every session: a browser that comes back from an earlier one may still hold edits of its editors
    st.session_state.version = random.randrange(10**6)  # noqa: S311
    st.session_state.opened = experiment
    st.session_state.mask_outdated = None
    st.session_state.stroke = 0
    _keep(History(history.of(experiment)), experiment)
    nonsense = {problem.field for problem in problems} & set(CONTROLS)
    for name in nonsense:
        del st.query_params[name]
    if nonsense:
        st.rerun()  # so that the controls never see it: they would make a sense of their own of it


def current() -> Current:
    """The experiment of now; a change since the last time that anyone asked becomes a step that can be undone."""
    good: Experiment = st.session_state.good
    # a control that was emptied is None until it has a value again
    seed, device = (getattr(good, n) if st.session_state[n] is None else st.session_state[n] for n in CONTROLS)
    now = Document(
        current_grid(), seed, mask(), device, st.session_state.weights, past().now.model, current_grid(of_keys=True)
    )
    st.session_state.history = past().changed_to(now)
    _take_stroke()
    st.session_state.good, problems = past().now.read(good)
    return Current(st.session_state.good, problems)


def note_edit() -> None:
    """There may be an edit in the grid or the mask: it is kept, even if the page that would show it is being left."""
    current()


def past() -> History:
    """What can be undone and redone."""
    found: History = st.session_state.history
    return found


def undo() -> None:
    """Take the last change back."""
    current()  # what came together with the click is a change of its own
    _restore(past().undone())


def redo() -> None:
    """Make the change that was undone last again."""
    current()
    _restore(past().redone())


def open_experiment(experiment: Experiment) -> None:
    """Replace everything by another experiment; what was there can be undone."""
    current()  # an edit that nobody asked for yet is a step of its own
    _restore(past().changed_to(history.of(_computable(experiment))))


def open_example(experiment: Experiment) -> None:
    """Show a ready experiment, and close the menu that it was picked from."""
    open_experiment(experiment)
    st.session_state.examples = False


def _computable(experiment: Experiment) -> Experiment:
    """The experiment on a device that this machine has: its own, else the CPU, with a notice."""
    if experiment.device in devices.available():
        return experiment
    words = f"This machine lacks the device {experiment.device} that was asked for; the CPU computes."
    st.session_state.notices = [*notices(), words]
    return replace(experiment, device="cpu")


def reset() -> None:
    """Back to the lesson."""
    open_experiment(LESSON)


def is_first_drawing() -> bool:
    """True once: the first time that this session's worksheet is drawn."""
    first: bool = not st.session_state.get("drawn", False)
    st.session_state.drawn = True
    return first


def tried() -> tuple[bool, ...]:
    """What of the tour was done in this session: a number edited, a cell pinned, the mask changed."""
    now = past().now
    first = past().past[0] if past().past else now
    before: tuple[bool, ...] = st.session_state.get("tried", (False,) * 3)
    here = (now.grid != first.grid, bool(trail()), now.mask != first.mask)
    st.session_state.tried = done = tuple(a or b for a, b in zip(before, here, strict=True))
    return done


def is_fresh() -> bool:
    """Has nothing been done in this session yet?"""
    return not past().past and not past().future


def restore_kept() -> None:
    """The browser had another experiment for this session: it is read as strictly as any file, and shown."""
    try:
        kept = files.read_json(str(st.session_state.keeper["restore"] or ""))
    except (ExperimentError, PasteError):
        return  # nothing that can be shown was kept
    current()
    if is_fresh():  # else something was done since the browser offered it
        open_experiment(kept)


def is_frame_behind() -> bool:
    """Do the controls and grids, which stand outside of a page's fragment, still show another experiment?"""
    found: bool = st.session_state.frame_is_behind
    return found


def _restore(new: History) -> None:
    document = new.now
    st.session_state.frame_is_behind = True
    good, _ = document.read(st.session_state.good)
    _keep(new, good)
    st.session_state.seed, st.session_state.device = document.seed, document.device
    _compare_mask_control()


def _keep(new: History, good: Experiment) -> None:
    st.session_state.history, st.session_state.good, st.session_state.weights = new, good, new.now.weights
    _mount(new.now)


# --- the grids, of the tokens and of a second sequence ---------------------------------------------------------------


@overload
def current_grid() -> Grid: ...
@overload
def current_grid(*, of_keys: bool) -> Grid | None: ...
def current_grid(*, of_keys: bool = False) -> Grid | None:
    """What stands in a grid now: the mounted one with the editor's edits laid over it."""
    if editor_key(of_keys=of_keys) not in st.session_state:
        return _in(past().now, of_keys=of_keys)  # no editor is on screen
    changes: Any = st.session_state[editor_key(of_keys=of_keys)].get("edited_rows", {})
    mounted = _in(st.session_state.mounted, of_keys=of_keys)
    return None if mounted is None else grid.edited(mounted, changes)


def editor_key(*, of_keys: bool = False) -> str:
    """An editor's key, which starts with "encodings" and changes with the version."""
    return f"encodings{'_of_keys' if of_keys else ''}-{st.session_state.version}"


def editor_frame(*, of_keys: bool = False) -> pd.DataFrame:
    """What an editor is mounted from: the same object for as long as it stays mounted."""
    mounted, now = st.session_state.mounted, past().now
    if editor_key() not in st.session_state and (mounted.grid, mounted.key_grid) != (now.grid, now.key_grid):
        _mount(now)  # the page was left, and with it the editors' edits
    frames: dict[bool, pd.DataFrame] = st.session_state.frames
    if of_keys not in frames:
        import pandas as pd  # takes a third of a second, for which a first visitor's numbers need not wait

        shown = _in(st.session_state.mounted, of_keys=of_keys) or now.grid
        frames[of_keys] = pd.DataFrame(
            {"position": range(1, shown.n + 1), "token": list(shown.labels)}
            | {grid.column(j): [row[j] for row in shown.cells] for j in range(shown.d_model)}
        )
    return frames[of_keys]


def change_grid(change: Callable[[Grid], Grid], *, of_keys: bool = False) -> None:
    """Change the shape of a grid, with all that was typed in it, and mount fresh editors.

    Both sequences have as many dimensions, so a change of them is one of both.
    """
    current()
    now = past().now
    both = change in (grid.add_dimension, grid.remove_dimension)
    first = change(now.grid) if both or not of_keys else now.grid
    second = now.key_grid if now.key_grid is None or not (both or of_keys) else change(now.key_grid)
    _restore(past().changed_to(replace(now, grid=first, key_grid=second)))


def set_second_sequence(wanted: bool) -> None:
    """Begin a second sequence, with what stands in the grid, or take it away."""
    current()
    now = past().now
    if wanted != (now.key_grid is not None):
        _restore(past().changed_to(replace(now, key_grid=now.grid if wanted else None)))


def _in(document: Document, *, of_keys: bool) -> Grid | None:
    return document.key_grid if of_keys else document.grid


def _mount(new: Document) -> None:
    st.session_state.version += 1
    st.session_state.mounted = new
    st.session_state.frames = {}


# --- seed and weights -----------------------------------------------------------------------------------------------


def new_seed() -> None:
    """Another seed, small enough to be read out in a class."""
    st.session_state.seed = random.randrange(10_000)  # noqa: S311  (nothing secret hangs on it)


def given_weights() -> tuple[Matrix, Matrix, Matrix] | None:
    """The weights given by hand, also while the experiment has another number of dimensions and cannot use them."""
    given: tuple[Matrix, Matrix, Matrix] | None = st.session_state.weights
    return given


def give_weights(weights: tuple[Matrix, Matrix, Matrix] | None) -> None:
    """Weights given by hand from now on, or None for those that the seed draws."""
    st.session_state.weights = weights


# --- the model ------------------------------------------------------------------------------------------------------


def model() -> Model:
    """The model that was asked for, also while the experiment has a number of dimensions that it does not fit."""
    return past().now.model


def set_model(**changes: Any) -> None:
    """Change something of the model; what cannot be together is said, and nothing is changed."""
    current()
    try:
        new = replace(model(), **changes)
        new.check(past().now.grid.d_model)
    except ExperimentError as error:
        st.session_state.notices = [*notices(), f"The model was not changed: {error}."]
        return
    st.session_state.history = past().changed_to(replace(past().now, model=new))


def make_plain() -> None:
    """Plain attention of the first sequence, as in the lesson."""
    current()
    _restore(past().changed_to(replace(past().now, model=PLAIN, key_grid=None)))


def head(trace: Trace) -> int:
    """The head, from 0, that the pages show."""
    chosen = st.session_state.get("head")
    return chosen if isinstance(chosen, int) and chosen < len(trace.heads) else 0


# --- the mask -------------------------------------------------------------------------------------------------------
# The history has it, and not the control, which shows its title. What the browser reports of the control may be older
# than a stroke of the brush, because it is drawn after the numbers; a person's click on it always runs the whole app.


def mask() -> str:
    """The mask of now, as text."""
    return past().now.mask


def mask_control() -> tuple[str, ...]:
    """Take what a person chose in the control; what it offers and shows from now on, as titles.

    To be called before the control is drawn, which is in runs of the whole app alone.
    """
    chosen = st.session_state.get("mask")
    if chosen in masks.NAMES and chosen != mask():
        current()  # a stroke of the brush that came together with it counts more
        if chosen != st.session_state.mask_outdated:
            set_mask(chosen)
    st.session_state.mask_outdated = None
    st.session_state.mask_in_sidebar = mask()
    st.session_state.mask = masks.title(mask())
    return tuple(dict.fromkeys((*masks.NAMES, st.session_state.mask)))


def is_sidebar_behind() -> bool:
    """Does the sidebar, which stands outside of a page's fragment, still show an older mask?"""
    in_library = st.session_state.get("mask_library") and st.session_state.mask_in_sidebar != mask()
    return st.session_state.mask_outdated is not None or bool(in_library)


def set_mask(text: str) -> None:
    """Another mask, whatever the control says."""
    current()  # what came with it is a step of its own
    st.session_state.history = past().changed_to(replace(past().now, mask=text))
    _compare_mask_control()


def _take_stroke() -> None:
    """A stroke of the brush that came from the worksheet: the mask that it was sent, and all cells flipped since."""
    sent = st.session_state.get("worksheet", {}).get("paint")
    if not sent or sent["stroke"] <= stroke():
        return  # taken already: the browser sends it again where the answer is long in coming
    st.session_state.stroke = sent["stroke"]
    try:
        text = masks.paint(sent["mask"], [(query, key) for query, key in sent["cells"]])
        masks.read(text)  # the cells may have made it too long
    except masks.MaskError as error:
        st.session_state.notices = [*notices(), f"The mask was not painted: {error}."]
        return
    st.session_state.history = past().changed_to(replace(past().now, mask=text))
    _compare_mask_control()


def _compare_mask_control() -> None:
    reported = st.session_state.get("mask")
    st.session_state.mask_outdated = None if reported == masks.title(mask()) else reported


def stroke() -> int:
    """The number of the last stroke of the brush that is in the mask."""
    last: int = st.session_state.stroke
    return last


# --- the address ----------------------------------------------------------------------------------------------------


def made_link() -> str | None:
    """The link that was asked for, as long as it is the link of what is on screen."""
    made: tuple[Document, str | None, str] | None = st.session_state.get("made_link")
    return made[2] if made and made[:2] == (past().now, _last_of_trail()) else None


def make_link(page: str = "") -> None:
    """Make the link of the experiment and the pinned cell, to a page; one that would be too long says so.

    page is the page's name in the address, "" for the first one.
    """
    try:
        experiment = current().experiment
        root = (st.context.url or "").partition("?")[0].rstrip("/")
        here = root.rpartition("/")[2]
        root = root.removesuffix(f"/{here}") if here in PAGES else root
        text = f"{root}/{page}?{link.write(experiment, _last_of_trail())}"
    except link.LinkTooLong as error:
        st.session_state.notices = [*notices(), f"No link was made: {error}."]
        return
    st.session_state.made_link = (past().now, _last_of_trail(), text)


def notices() -> list[str]:
    """What the person should know: what was wrong with the link that opened this session, and the like."""
    found: list[str] = st.session_state.notices
    return found


def dismiss_notices() -> None:
    """The person has read them."""
    st.session_state.notices = []


def tidy_address() -> None:
    """The mask stands in the address; what else a link brought does for as long as it is what is on screen.

    Another address is work for the browser, which the numbers on screen need not wait for.
    """
    now: Experiment = st.session_state.good
    # an address writes a space as "+"
    _put_into_address("mask", None if now.mask == LESSON.mask else now.mask.replace("+", " "))
    opened: Experiment = st.session_state.opened
    if _content(now) != _content(opened):
        for name in {"v", *link.CONTENT} & set(st.query_params):
            del st.query_params[name]


def _content(of: Experiment) -> tuple[object, ...]:
    """All but what small controls keep in the address."""
    return of.tokens, of.encodings, of.weights, of.model, of.key_tokens, of.key_encodings


def _put_into_address(name: str, value: str | None) -> None:
    if st.query_params.get(name) == value:
        return
    if value is None:
        del st.query_params[name]
    else:
        st.query_params[name] = value


# --- the pinned cell ------------------------------------------------------------------------------------------------


def pinned(trace: Trace) -> str | None:
    """The cell whose arithmetic is shown, as "weights.1.0"; none when the experiment has no such cell (any more)."""
    cell = _last_of_trail()
    try:
        if cell is not None:
            named(trace, cell)
        st.session_state.trail = tuple(each for each in trail() if _exists(trace, each))
    except ExperimentError as error:
        st.session_state.trail, cell = (), None
        if st.session_state.cell_from_link:
            st.session_state.notices = [*notices(), f"The link's cell {error.rule}; nothing is pinned."]
    st.session_state.cell_from_link = False
    _put_into_address("cell", cell)
    return cell


def trail() -> tuple[str, ...]:
    """The cells on the way back from where the person began, the pinned one last."""
    found: tuple[str, ...] = st.session_state.trail
    return found


def pin_from_worksheet() -> None:
    """A person pinned another cell on the worksheet, or unpinned the one that was."""
    cell = st.session_state.worksheet["pin"]
    st.session_state.trail = (of_head(str(cell), st.session_state.get("head") or 0),) if cell else ()


def follow() -> None:
    """One step further back: the operand that was picked is pinned, and the trail grows by it."""
    cell = st.session_state.pop("operand", None)
    if cell:
        st.session_state.trail = (*trail(), cell)
        _show_head_of(cell)


def go_back() -> None:
    """Back along the trail to the cell that was picked."""
    place = st.session_state.pop("back", None)
    if place is not None:
        st.session_state.trail = trail()[: place + 1]
        _show_head_of(trail()[-1])


def unpin() -> None:
    """No cell's arithmetic is shown."""
    st.session_state.trail = ()


def pin(cell: str) -> None:
    """Pin a cell from elsewhere than the worksheet."""
    st.session_state.trail = (cell,)
    _show_head_of(cell)


def _show_head_of(cell: str) -> None:
    """A cell of a head is shown on that head's worksheet."""
    head = head_of(cell)
    if head is not None:
        st.session_state.head = head


def _exists(trace: Trace, cell: str) -> bool:
    try:
        named(trace, cell)
    except ExperimentError:
        return False
    return True


def _last_of_trail() -> str | None:
    return trail()[-1] if trail() else None


# --- what a page keeps for itself -----------------------------------------------------------------------------------


def kept(name: str) -> Any:
    """What a page kept for this session under a name, or what its widget of that key holds; None without one."""
    return st.session_state.get(name)


def keep(name: str, value: object) -> None:
    """Keep something for this session under a name, or set the widget of that key."""
    st.session_state[name] = value
