"""The workbook of a model other than the lesson's: a sheet for what goes in, one for each head, one for what follows.

Each step is a live formula, as in `attention.spreadsheet`; formulas reach from sheet to sheet, so that a number that is
changed in the encodings changes every head and the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from attention import labels, steps
from attention.core import Trace
from attention.experiment import LIMITS
from attention.positions import alibi_slopes
from attention.spreadsheet_parts import (
    LONGEST_SUM,
    NO_KEY,
    POWERS,
    Look,
    Place,
    add_sheet,
    hatch,
    write_cells,
    write_headings,
)

INPUTS, JOINED = "Encodings", "Heads joined"

Formula = Callable[[int, int], str]

_INPUT_BANDS = (
    ("encodings", "positions", "positioned"),
    ("key_encodings", "key_positions", "key_positioned"),
    ("mask",),
)
_HEAD_BANDS = (
    ("w_q", "q", "rotated_q"),
    ("w_k", "k", "rotated_k"),
    ("w_v", "v"),
    ("similarities", "scores", "distances"),
    ("biased_scores", "capped_scores"),
    ("masked_scores", "powers", "weights"),
    ("output",),
)
_JOINED_BANDS = (("joined",), ("w_o", "projected"))
_FACTORS = ("w_q", "w_k", "w_v", "v", "w_o")
"""What stands at the right of a product; long ones stand once more, their columns as rows, under what is below."""
_EXCHANGED = " exchanged"


class _Sheet(NamedTuple):
    """A sheet to be written: the trace that shows its head, and where its matrices stand, by their steps' names."""

    name: str
    view: Trace
    places: dict[str, Place]
    values: dict[str, list[list[Any]]]


def fill(book: Any, trace: Trace) -> None:
    """Write all sheets of a trace into an empty workbook."""
    inputs = _sheet(INPUTS, trace, _INPUT_BANDS)
    heads = [_sheet(_name(trace, h), trace.of_head(h), _HEAD_BANDS) for h in range(len(trace.heads))]
    for made in (inputs, *heads):
        _write(book, made, _formulas(made, inputs, heads))
    if trace.joined is not None:
        last = _sheet(JOINED, trace, _JOINED_BANDS)
        _write(book, last, _formulas(last, inputs, heads))


def defined_name(trace: Trace, step: str) -> str:
    """What a step's matrix is called in the workbook: h2_weights, or weights where there is one head."""
    # the mask is the same for all, and stands once
    of_its_own = (step in steps.OF_A_HEAD or step == "powers") and step != "mask"
    return f"h{trace.shown + 1}_{step}" if len(trace.heads) > 1 and of_its_own else step


def _name(trace: Trace, head: int) -> str:
    return f"Head {head + 1}" if len(trace.heads) > 1 else "Head"


# --- what stands where ----------------------------------------------------------------------------------------------


def _sheet(name: str, view: Trace, bands: tuple[tuple[str, ...], ...]) -> _Sheet:
    present = {step.name for step in steps.of(view)} | {"powers"}
    bands = tuple(tuple(step for step in band if step in present) for band in bands)
    values = {step: _values(view, step) for band in bands for step in band}
    long = [s for s in values if s in _FACTORS and len(values[s]) > LONGEST_SUM]
    exchanged = {s + _EXCHANGED: [list(row) for row in zip(*values[s], strict=True)] for s in long}
    values |= exchanged
    places, row = {}, 3
    for band in (*bands, *((s,) for s in exchanged)):
        column = 0
        for place, step in enumerate(band):
            # a heading, the formula in words and the columns' names above; the rows' names to the left
            places[step] = Place(row + 3, column + 1, len(values[step]), len(values[step][0]), name)
            column += max(len(values[b[place]][0]) for b in bands if place < len(b)) + 2 if step in present else 0
        row += 3 + max((len(values[step]) for step in band), default=-4) + 1
    return _Sheet(name, view, places, values)


def _values(view: Trace, step: str) -> list[list[Any]]:
    """Numbers, and words for a hidden score and for a row that sees no key."""
    experiment = view.experiment
    if step in ("encodings", "key_encodings"):
        typed = experiment.encodings if step == "encodings" else experiment.key_encodings
        return [list(row) for row in typed]
    if step == "powers":
        sink = experiment.model.sink
        least = -math.inf if sink is None else sink
        rows = view.head.masked_scores.tolist()
        return [[math.exp(x - max(*row, least)) if x > -math.inf else 0.0 for x in row] for row in rows]
    rows = steps.matrix(view, step).tolist()
    if step == "mask":
        return [[int(hidden) for hidden in row] for row in rows]
    return [["hidden" if x == -math.inf else NO_KEY if math.isnan(x) else x for x in row] for row in rows]


# --- formulas -------------------------------------------------------------------------------------------------------


def _formulas(on: _Sheet, inputs: _Sheet, heads: list[_Sheet]) -> dict[str, Formula]:
    """The formula of a cell, from 0, for each matrix of a sheet that is computed."""
    if on is inputs:
        return _of_inputs(on)
    return _of_the_rest(on, heads) if on.name == JOINED else _of_a_head(on, inputs, heads)


def _of_inputs(on: _Sheet) -> dict[str, Formula]:
    d = on.view.experiment.d_model
    found: dict[str, Formula] = {}
    for of in ("", "key_"):
        if f"{of}positions" not in on.places:
            continue
        if on.view.experiment.model.positions == "sinusoidal":
            found[f"{of}positions"] = lambda i, j: f"={'COS' if j % 2 else 'SIN'}({i}*10000^(-{2 * (j // 2)}/{d}))"
        one, other = on.places[f"{of}encodings"], on.places[f"{of}positions"]
        found[f"{of}positioned"] = _sum(on.name, one, other)
    return found


def _sum(sheet: str, one: Place, other: Place) -> Formula:
    return lambda i, j: f"={one.cell(sheet, i, j)}+{other.cell(sheet, i, j)}"


def _of_a_head(on: _Sheet, inputs: _Sheet, heads: list[_Sheet]) -> dict[str, Formula]:
    experiment, model, at = on.view.experiment, on.view.experiment.model, on.places
    x = inputs.places.get("positioned", inputs.places["encodings"])
    keys = "key_" if experiment.crosses else ""
    y = inputs.places.get(f"{keys}positioned", inputs.places[f"{keys}encodings"])
    mask, sheet = inputs.places["mask"], on.name
    found = {"q": _product(on, x, "w_q"), "k": _product(on, y, "w_k"), "v": _product(on, y, "w_v")}
    first = heads[model.group(on.view.shown) * (model.heads // model.groups)]
    if first is not on:  # which has the keys and values that this head shares
        for name in ("w_k", "w_v"):
            found[name] = _same(sheet, first.places[name])
    if model.is_rotary:
        found |= {f"rotated_{name}": _rotation(on, name) for name in "qk"}
    q, k = (at[f"rotated_{name}"] if model.is_rotary else at[name] for name in "qk")
    last = at[steps.before_the_mask(on.view)]
    powers, scores = at["powers"], at["masked_scores"]
    slope, apart = alibi_slopes(model.heads)[on.view.shown], experiment.n_keys - experiment.n
    cap, sink = model.soft_cap, model.sink

    def largest(i: int) -> str:
        return f"MAX({scores.line(sheet, i)}{'' if sink is None else f',{sink!r}'})"

    def total(i: int) -> str:
        of_the_sink = "" if sink is None else f"+EXP({sink!r}-{largest(i)})"
        return f"SUM({powers.line(sheet, i)}){of_the_sink}"

    def unless_empty(formula: Formula) -> Formula:
        if sink is not None:
            return formula
        # the largest power of a row is 1, so the sum is 0 only where every key is hidden
        return lambda i, j: f'=IF(SUM({powers.line(sheet, i)})=0,"{NO_KEY}",{formula(i, j).removeprefix("=")})'

    found |= {
        "similarities": lambda i, j: f"=SUMPRODUCT({q.line(sheet, i)},{k.line(sheet, j)})",
        "scores": lambda i, j: f"={at['similarities'].cell(sheet, i, j)}{_scale(on.view)}",
        "masked_scores": lambda i, j: f'=IF({mask.cell(sheet, i, j)}=1,"hidden",{last.cell(sheet, i, j)})',
        "powers": lambda i, j: f"=IF({mask.cell(sheet, i, j)}=1,0,EXP({scores.cell(sheet, i, j)}-{largest(i)}))",
        "weights": unless_empty(lambda i, j: f"={powers.cell(sheet, i, j)}/({total(i)})"),
        "output": unless_empty(_product(on, at["weights"], "v")),
    }
    if "distances" in at:
        found["distances"] = lambda i, j: f"=-{slope!r}*ABS({i + 1 + apart}-{j + 1})"
        found["biased_scores"] = _sum(sheet, at["scores"], at["distances"])
    if cap is not None:
        before = at.get("biased_scores", at["scores"])
        found["capped_scores"] = lambda i, j: f"={cap!r}*TANH({before.cell(sheet, i, j)}/{cap!r})"
    return found | _exchanges(on)


def _of_the_rest(on: _Sheet, heads: list[_Sheet]) -> dict[str, Formula]:
    d_head, sheet = heads[0].places["output"].m, on.name
    joined = on.places["joined"]
    found: dict[str, Formula] = {
        "joined": lambda i, j: f"={heads[j // d_head].places['output'].cell(sheet, i, j % d_head)}"
    }
    if "projected" in on.places:
        product = _product(on, joined, "w_o")
        found["projected"] = lambda i, j: (
            f'=IF(ISTEXT({joined.cell(sheet, i, 0)}),"{NO_KEY}",{product(i, j).removeprefix("=")})'
        )
    return found | _exchanges(on)


def _same(sheet: str, place: Place) -> Formula:
    return lambda i, j: f"={place.cell(sheet, i, j)}"


def _exchanges(on: _Sheet) -> dict[str, Formula]:
    def exchanged(place: Place) -> Formula:
        return lambda i, j: f"={place.cell(on.name, j, i)}"

    return {name + _EXCHANGED: exchanged(place) for name, place in on.places.items() if name + _EXCHANGED in on.places}


def _product(on: _Sheet, left: Place, right: str) -> Formula:
    """Rows of the left times columns of the right one, which stands on the same sheet."""
    sheet = on.name
    other = on.places.get(right + _EXCHANGED)
    if other is not None:
        return lambda i, j: f"=SUMPRODUCT({left.line(sheet, i)},{other.line(sheet, j)})"
    factor = on.places[right]
    return lambda i, j: "=" + "+".join(f"{left.cell(sheet, i, m)}*{factor.cell(sheet, m, j)}" for m in range(left.m))


def _rotation(on: _Sheet, name: str) -> Formula:
    """Each pair turned by position times 10000^(-2t / d), the first of a pair and the second in their own ways."""
    place, half = on.places[name], on.places[name].m // 2
    by_half = on.view.experiment.model.positions == "rotary.half"

    def turned(i: int, j: int) -> str:
        t = j % half if by_half else j // 2
        first, second = (t, t + half) if by_half else (2 * t, 2 * t + 1)
        a, b = place.cell(on.name, i, first), place.cell(on.name, i, second)
        angle = f"{i}*10000^(-{2 * t}/{place.m})"
        return f"={a}*COS({angle})-{b}*SIN({angle})" if j == first else f"={a}*SIN({angle})+{b}*COS({angle})"

    return turned


def _scale(view: Trace) -> str:
    model, d_model = view.experiment.model, view.experiment.d_model
    if isinstance(model.scale, float):
        return f"*{model.scale!r}"
    return {"none": "", "d_model": f"/SQRT({d_model})", "d_k": f"/SQRT({view.head.k.shape[-1]})"}[model.scale]


# --- writing --------------------------------------------------------------------------------------------------------


def _write(book: Any, made: _Sheet, formulas: dict[str, Formula]) -> None:
    sheet = add_sheet(book, made.name)
    sheet.hide_gridlines(2)
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)
    sheet.set_column(0, max(place.corners[3] for place in made.places.values()), 9)
    title = "Attention, every number" if made.name == INPUTS else made.name
    sheet.write_string(0, 0, title, book.add_format({"bold": True, "font_size": 14}))
    sheet.write_string(1, 0, "Change a blue number: every step follows.", book.add_format({"font_color": "#0B5394"}))
    names = _names(made.view)
    look = Look(book)
    for name, place in made.places.items():
        step = POWERS if name == "powers" else steps.BY_NAME[name.removesuffix(_EXCHANGED)]
        rows, columns, title, formula = names[step.rows], names[step.columns], step.title, _words(made.view, name)
        if name.endswith(_EXCHANGED):
            rows, columns, title = columns, rows, f"{step.title}, rows and columns exchanged"
        write_headings(look, sheet, place, f"{title} ({step.course})" if step.course else title, formula, rows, columns)
        write_cells(look, sheet, place, name, made.values[name], formulas.get(name))
        if not name.endswith(_EXCHANGED):
            from xlsxwriter.utility import xl_range_abs  # type: ignore[import-untyped]

            cells = f"='{made.name}'!{xl_range_abs(*place.corners)}"
            book.define_name(defined_name(made.view, name), cells)
    _style(look, sheet, made)


def _names(view: Trace) -> dict[steps.Axis, list[str]]:
    experiment = view.experiment
    most = LIMITS.label_characters
    queries = [labels.shown(label, i, most) for i, label in enumerate(experiment.tokens)]
    keys = [labels.shown(label, i, most) for i, label in enumerate(experiment.key_tokens or experiment.tokens)]
    return steps.headings(view) | {"queries": queries, "keys": keys}


def _words(view: Trace, name: str) -> str:
    if name.endswith(_EXCHANGED):
        return "for SUMPRODUCT, which pairs a row with a row"
    sink = view.experiment.model.sink
    beside = "" if sink is None else ", the sink's among them"
    own = {
        "mask": "1 = hidden",
        "powers": f"e^(masked score − the row's largest{beside})",
        "weights": "powers ÷ sum of the row; a row with no key to see has none"
        if sink is None
        else "powers ÷ sum of the row and of the sink's power",
    }
    return own.get(name) or steps.formula(view, name)


def _style(look: Look, sheet: Any, made: _Sheet) -> None:
    """Hatch what the mask hides, by a rule, so that the look follows the mask."""
    if "mask" in made.places:
        mask = made.places["mask"]
        hatch(look, sheet, mask, mask.cell(made.name, 0, 0))
        sheet.data_validation(*mask.corners, {"validate": "list", "source": ["0", "1"]})
    else:
        for name in ("masked_scores", "powers", "weights"):
            if name in made.places:
                # the words "hidden" stand where the mask hides
                scores = made.places["masked_scores"]
                hatch(look, sheet, made.places[name], scores.cell(made.name, 0, 0), '"hidden"')
