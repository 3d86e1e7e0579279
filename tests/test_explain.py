"""A derivation: the operands that a number really came from, and arithmetic that gives it again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attention import Derivation, Experiment, ExperimentError, Trace, explain, lessons, run, steps
from attention.explain import Cell as NamedCell
from attention.explain import name, named
from tests import oracle
from tests.strategies import SEEDS, any_experiments, experiments, global_seed, law

few = settings(law, max_examples=25)  # for examples of which each is hundreds of derivations

LESSON = run(lessons.masked_self_attention())
STEPS = [step.name for step in steps.PLAIN]
DRAWN = ("w_q", "w_k", "w_v")

Cell = tuple[str, int, int]
Cells = set[Cell]


def cells(trace: Trace, step: str) -> Iterator[Cell]:
    rows, columns = steps.matrix(trace, step).shape
    return ((step, i, j) for i in range(rows) for j in range(columns))


def derivations(trace: Trace) -> Iterator[Derivation]:
    """Every cell of every step, explained."""
    return (explain(trace, *cell) for step in STEPS for cell in cells(trace, step))


@st.composite
def traces_and_cells(draw: st.DrawFn, experiments: st.SearchStrategy[Experiment]) -> tuple[Trace, list[Cell]]:
    """An experiment that was run, and one cell of each of its steps."""
    trace, row, col = run(draw(experiments)), draw(st.integers(0, 63)), draw(st.integers(0, 63))
    shapes = ((step, steps.matrix(trace, step).shape) for step in STEPS)
    return trace, [(step, row % n, col % m) for step, (n, m) in shapes]


def given_weights(experiment: Experiment, weights: list[list[list[float]]] | None = None) -> Experiment:
    """The same experiment with its weights written out, as if a person had typed them."""
    head = run(experiment).heads[0]
    return replace(experiment, weights=weights or [w.tolist() for w in (head.w_q, head.w_k, head.w_v)])


# ---- the result comes from the operands ----------------------------------------------------------------------------


def allowed(derivation: Derivation) -> float:
    """1e-6 of the size of the numbers that went into the arithmetic; 0 where nothing is computed."""
    match derivation.operation:
        case "dot" | "scaled dot":
            size = math.fsum(abs(a.value * b.value) for a, b in derivation.pairs()) / (
                derivation.divisor if derivation.operation == "scaled dot" else 1
            )
        case "softmax":
            # the error of x - largest, which is as large as itself, is the relative error of e to the power of it
            largest = max(operand.value for operand in derivation.operands)
            own = derivation.operands[derivation.col].value
            size = derivation.result * (1 + largest - own) if own > -math.inf else 0
        case "draw":
            size = 1 / derivation.divisor
        case _:
            return 0
    tiny = torch.finfo(torch.float32).tiny  # below it float32 keeps fewer digits
    return 1e-6 * max(abs(derivation.result), size) + tiny


def assert_recomputed(derivation: Derivation) -> None:
    again, shown = derivation.recomputed(), derivation.result
    assert again == shown or abs(again - shown) <= allowed(derivation), derivation


@law
@given(experiments())
def test_every_cell_of_every_step_is_recomputed_from_its_operands(experiment):
    for derivation in derivations(run(experiment)):
        assert_recomputed(derivation)


@law
@given(traces_and_cells(any_experiments()))
def test_cells_of_the_largest_experiments_are_recomputed_too(trace_and_cells):
    trace, chosen = trace_and_cells
    for cell in chosen:
        assert_recomputed(explain(trace, *cell))


@pytest.mark.parametrize(("n", "d_model"), [(24, 3), (3, 24), (17, 16)])
def test_every_cell_of_a_large_experiment_is_recomputed_from_its_operands(n, d_model):
    encodings = [[math.sin(i * d_model + j) * 10 ** (i % 4) for j in range(d_model)] for i in range(n)]
    for derivation in derivations(run(Experiment(("",) * n, encodings, seed=7))):
        assert_recomputed(derivation)


@few
@given(experiments())
def test_results_and_operands_are_exactly_the_cells_of_the_trace(experiment):
    trace = run(experiment)
    for derivation in derivations(trace):
        assert derivation.result == steps.matrix(trace, derivation.step)[derivation.row, derivation.col].item()
        for step, row, col, value, head in derivation.operands:
            assert head == derivation.head == 0
            assert step == "draw" or value == steps.matrix(trace, step)[row, col].item()


def test_a_wrong_operand_is_noticed():
    derivation = explain(LESSON, "scores", 1, 0)
    first, *others = derivation.operands
    changed = (first._replace(value=first.value + 0.001), *others)
    with pytest.raises(AssertionError):
        assert_recomputed(replace(derivation, operands=changed))


def test_a_derivation_says_what_it_explains():
    derivation = explain(LESSON, "scores", 1, 0)
    assert (derivation.step, derivation.row, derivation.col) == ("scores", 1, 0)
    assert [operand[:3] for operand in derivation.operands] == [("q", 1, 0), ("k", 0, 0), ("q", 1, 1), ("k", 0, 1)]
    assert round(derivation.result, 4) == -0.2844


@pytest.mark.parametrize(
    ("step", "operation"),
    [
        ("encodings", "given"),
        *((step, "draw") for step in DRAWN),
        *((step, "dot") for step in ("q", "k", "v", "similarities", "output")),
        ("scores", "scaled dot"),
        ("mask", "compare"),
        ("masked_scores", "replace"),
        ("weights", "softmax"),
    ],
)
def test_every_step_has_its_operation(step, operation):
    assert explain(LESSON, step, 0, 0).operation == operation


# ---- the operands are what a number depends on ---------------------------------------------------------------------

# every step once more, from the matrices as they are shown
RECIPES: dict[str, Callable[[dict[str, Tensor]], Tensor]] = {
    "q": lambda m: m["encodings"] @ m["w_q"],
    "k": lambda m: m["encodings"] @ m["w_k"],
    "v": lambda m: m["encodings"] @ m["w_v"],
    "similarities": lambda m: m["q"] @ m["k"].T,
    "scores": lambda m: m["q"] @ m["k"].T / math.sqrt(m["k"].shape[1]),
    "masked_scores": lambda m: m["scores"].masked_fill(m["mask"] == 1, -math.inf),
    "weights": lambda m: torch.softmax(m["masked_scores"], dim=1),
    "output": lambda m: m["weights"] @ m["v"],
}

# 4 tokens x 3 dimensions, so that no two axes are of the same length by chance; without a mask every score counts
OPEN = run(given_weights(Experiment(tuple("abcd"), [[i - j / 4 + 0.3 for j in range(3)] for i in range(4)], 5, "none")))


def shown(trace: Trace) -> dict[str, Tensor]:
    return {step: steps.matrix(trace, step).double() for step in STEPS}


def influences(step: str) -> dict[Cell, Cells]:
    """For every cell of a step: the cells of other steps that change it when they change."""
    matrices = shown(OPEN)
    before = RECIPES[step](matrices)
    found: dict[Cell, Cells] = {cell: set() for cell in cells(OPEN, step)}
    for other in STEPS:
        for _, i, j in cells(OPEN, other):
            changed = matrices[other].clone()
            changed[i, j] = 1 - changed[i, j] if other == "mask" else changed[i, j] + 0.5
            after = RECIPES[step](matrices | {other: changed})
            for row, col in (before != after).nonzero().tolist():
                found[step, row, col].add((other, i, j))
    return found


def operands(cell: Cell, trace: Trace = OPEN) -> Cells:
    return {(step, row, col) for step, row, col, _, _ in explain(trace, *cell).operands}


@pytest.mark.parametrize("step", RECIPES)
def test_the_recipes_give_the_traces_numbers(step):
    torch.testing.assert_close(RECIPES[step](shown(OPEN)), shown(OPEN)[step], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("step", RECIPES)
def test_the_operands_of_a_cell_are_exactly_the_cells_that_change_it(step):
    assert influences(step) == {cell: operands(cell) for cell in cells(OPEN, step)}


@pytest.mark.parametrize("step", [step for step in STEPS if step not in RECIPES])
def test_a_step_that_nothing_is_computed_into_has_no_operands(step):
    assert all(operands(cell) == set() for cell in cells(OPEN, step))


def ancestors(cell: Cell) -> Cells:
    """The operands of a cell, theirs, and so on, back to what was given."""
    found: Cells = set()
    todo = {cell}
    while todo:
        todo = set().union(*(operands(one) for one in todo)) - found
        found |= todo
    return found


def with_one_changed(experiment: Experiment, cell: Cell) -> Experiment:
    """The same experiment with one encoding or one weight, as they are shown, a little larger."""
    step, row, col = cell
    if step == "encodings":
        rows = [list(r) for r in experiment.encodings]
        rows[row][col] += 0.5
        return replace(experiment, encodings=rows)
    matrices = [[list(r) for r in w] for w in experiment.weights]
    matrices[DRAWN.index(step)][col][row] += 0.5  # shown transposed
    return replace(experiment, weights=matrices)


def test_the_way_back_from_a_cell_ends_at_exactly_the_given_numbers_that_change_it():
    reached: dict[Cell, Cells] = {cell: set() for step in RECIPES for cell in cells(OPEN, step)}
    for origin in [cell for step in ("encodings", *DRAWN) for cell in cells(OPEN, step)]:
        after = run(with_one_changed(OPEN.experiment, origin))
        for cell in reached:
            step, row, col = cell
            if steps.matrix(after, step)[row, col] != steps.matrix(OPEN, step)[row, col]:
                reached[cell].add(origin)
    assert reached == {cell: {a for a in ancestors(cell) if a[0] in ("encodings", *DRAWN)} for cell in reached}


# ---- weights -------------------------------------------------------------------------------------------------------


@law
@given(seed=SEEDS, d_model=st.integers(1, 4))
def test_a_weight_names_its_draw_and_the_generators_number(seed, d_model):
    trace = run(Experiment(("a",), [[1.0] * d_model], seed))
    generator = torch.Generator().manual_seed(seed)
    one_by_one = [torch.rand((), generator=generator).item() for _ in range(3 * d_model**2)]
    seen = []
    for step in DRAWN:
        for cell in cells(trace, step):
            ((source, row, number, uniform, head),) = explain(trace, *cell).operands
            assert (source, row, uniform, head) == ("draw", 0, one_by_one[number], 0)
            seen.append(number)
    assert sorted(seen) == list(range(3 * d_model**2))


@pytest.mark.parametrize("d_model", [1, 2, 3, 7, 64])
def test_the_draws_give_the_weights_of_three_linear_layers_in_the_order_of_the_draws(d_model):
    with global_seed(42):
        layers = [nn.Linear(d_model, d_model, bias=False).weight.detach() for _ in DRAWN]
    in_order = torch.cat([layer.flatten() for layer in layers])
    trace = run(Experiment(("a",), [[1.0] * d_model]))
    for cell in [*cells(trace, "w_q"), *cells(trace, "w_v")]:
        derivation = explain(trace, *cell)
        (draw,) = derivation.operands
        assert derivation.result == in_order[draw.col].item()
        assert math.isclose((2 * draw.value - 1) / math.sqrt(d_model), derivation.result, abs_tol=1e-7)


@pytest.mark.parametrize("step", DRAWN)
def test_a_given_weight_was_not_drawn(step):
    trace = run(given_weights(LESSON.experiment))
    for cell in cells(trace, step):
        derivation = explain(trace, *cell)
        assert (derivation.operation, derivation.operands) == ("given", ())
        assert derivation.recomputed() == derivation.result


@few
@given(experiments())
def test_given_weights_explain_all_other_steps_as_drawn_ones_do(experiment):
    drawn, typed = run(experiment), run(given_weights(experiment))
    for step in STEPS:
        if step not in DRAWN:
            for cell in cells(drawn, step):
                assert explain(drawn, *cell) == explain(typed, *cell)


# ---- hidden cells --------------------------------------------------------------------------------------------------


@few
@given(experiments())
def test_exactly_the_cells_that_the_mask_hides_say_so(experiment):
    hides = oracle.hidden(experiment.mask, experiment.n)
    for derivation in derivations(run(experiment)):
        masked = derivation.step in ("mask", "masked_scores", "weights")
        assert derivation.hidden is (masked and hides[derivation.row][derivation.col])


def test_a_hidden_weight_is_0_because_the_mask_hides_its_key():
    derivation = explain(LESSON, "weights", 1, 2)
    assert derivation.result == derivation.recomputed() == 0
    assert "because the mask hides this key" in derivation.text()
    assert derivation.operands[2].value == -math.inf


def test_a_hidden_score_is_minus_infinity_because_the_mask_is_true():
    derivation = explain(LESSON, "masked_scores", 1, 2)
    score, mask = derivation.operands
    assert (score.step, mask.step, mask.value) == ("scores", "mask", 1)
    assert derivation.result == derivation.recomputed() == -math.inf


@pytest.mark.parametrize("step", ["scores", "output", "v"])
def test_a_cell_of_a_step_without_a_mask_is_never_hidden(step):
    assert not explain(LESSON, step, 0, 1).hidden


# ---- by hand -------------------------------------------------------------------------------------------------------


def pencil(x: float, decimals: int) -> float:
    """Rounded as at school, a half away from zero, from the twelve digits that a person would write down."""
    if not math.isfinite(x):
        return x
    return float(Decimal(f"{x:.12g}").quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP))


def by_hand(trace: Trace, decimals: int) -> dict[str, oracle.Matrix]:
    """Every step computed on paper: what a step starts from was rounded, its own result not yet."""

    def paper(matrix: oracle.Matrix) -> oracle.Matrix:
        return [[pencil(x, decimals) for x in row] for row in matrix]

    x = [list(row) for row in trace.experiment.encodings]
    done = {"encodings": x} | {w: steps.matrix(trace, w).tolist() for w in DRAWN}
    for letter in "qkv":
        done[letter] = oracle.matmul(x, done[f"w_{letter}"])
    done["similarities"] = oracle.matmul(paper(done["q"]), oracle.transpose(paper(done["k"])))
    root = math.sqrt(trace.experiment.d_model)
    done["scores"] = [[s / root for s in row] for row in paper(done["similarities"])]
    hides = oracle.hidden(trace.experiment.mask, trace.experiment.n)
    done["mask"] = [[float(hide) for hide in row] for row in hides]

    def masked(scores: oracle.Matrix) -> oracle.Matrix:
        return [[-math.inf if h else s for s, h in zip(*pair, strict=True)] for pair in zip(scores, hides, strict=True)]

    done["masked_scores"] = masked(done["scores"])
    done["weights"] = [oracle.softmax(row) for row in masked(paper(done["scores"]))]
    done["output"] = oracle.matmul(paper(done["weights"]), paper(done["v"]))
    return done


def test_the_lesson_by_hand_with_two_decimals_drifts_as_the_course_would():
    last_row = [explain(LESSON, "output", 2, j).by_hand(2) for j in range(2)]
    assert [round(x, 4) for x in last_row] == [3.5145, 2.2457]


@pytest.mark.parametrize("step", STEPS)
def test_the_lesson_by_hand_with_six_decimals_is_close_to_pytorch(step):
    for cell in cells(LESSON, step):
        derivation = explain(LESSON, *cell)
        assert derivation.by_hand(6) == pytest.approx(derivation.result, abs=1e-5)


@law
@given(traces_and_cells(experiments()), st.integers(0, 6))
def test_by_hand_is_what_a_pencil_gives(trace_and_cells, decimals):
    trace, chosen = trace_and_cells
    on_paper = by_hand(trace, decimals)
    for step, row, col in chosen:
        value = explain(trace, step, row, col).by_hand(decimals)
        assert value == pytest.approx(on_paper[step][row][col], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "decimals", "rounded"),
    [
        (0.125, 2, 0.13),
        (-0.125, 2, -0.13),
        (0.1249, 2, 0.12),
        (0.5, 0, 1),
        (-0.5, 0, -1),
        (2.5, 0, 3),
        (0.4999, 0, 0),
        # in binary these lie a little below the half that a person sees
        (1.005, 2, 1.01),
        (-2.675, 2, -2.68),
    ],
)
def test_by_hand_a_half_is_rounded_away_from_zero(x, decimals, rounded):
    one = [[1.0]]
    trace = run(given_weights(Experiment(("x", "one"), [[x], [1.0]]), [one, one, one]))
    assert explain(trace, "similarities", 0, 1).by_hand(decimals) == rounded  # the rounded query x times the key 1


def test_by_hand_leaves_the_step_itself_its_encodings_and_its_weights_unrounded():
    encodings = ((0.123456,), (1.0,))
    trace = run(Experiment(("a", "b"), encodings, weights=([[0.987654]], [[1.0]], [[1.0]])))
    assert explain(trace, "q", 0, 0).by_hand(0) == pytest.approx(0.123456 * 0.987654, rel=1e-6)


@pytest.mark.parametrize("decimals", [-1, 7, 2.0, True, "2", None])
def test_by_hand_takes_0_to_6_decimals_alone(decimals):
    with pytest.raises(ExperimentError, match="whole number from 0 to 6") as refused:
        explain(LESSON, "q", 0, 0).by_hand(decimals)
    assert refused.value.field == "decimals"
    assert refused.value.value is decimals


# ---- which cell ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["", "queries", "Q", "draw", "w_q.weight", None, 3])
def test_an_unknown_step_is_refused_with_all_that_there_are(step):
    with pytest.raises(ExperimentError, match=r"must be one of encodings, .*, output") as refused:
        explain(LESSON, step, 0, 0)
    assert refused.value.field == "step"


@pytest.mark.parametrize("index", [-1, 3, 64, 1.0, True, "0", None, math.nan])
@pytest.mark.parametrize("field", ["row", "col"])
def test_a_row_or_column_that_is_not_there_is_refused_by_name(field, index):
    with pytest.raises(ExperimentError, match="must be a whole number from 0 to 2") as refused:
        explain(LESSON, "scores", **({"row": 0, "col": 0} | {field: index}))
    assert refused.value.field == field


def test_rows_and_columns_each_have_their_own_limit():
    assert explain(LESSON, "output", 2, 1).result == LESSON.output[2, 1].item()
    with pytest.raises(ExperimentError, match="col: must be a whole number from 0 to 1"):
        explain(LESSON, "output", 1, 2)
    with pytest.raises(ExperimentError, match="row: must be a whole number from 0 to 1"):
        explain(LESSON, "w_q", 2, 1)


@few
@given(experiments())
def test_every_cells_name_reads_back_as_that_cell(experiment):
    trace = run(experiment)
    for cell in [cell for step in STEPS for cell in cells(trace, step)]:
        assert named(trace, name(*cell)) == (*cell, 0)


PARTS = st.one_of(
    st.integers(-3, 1000).map(str),
    st.text(max_size=4),
    st.sampled_from(["１", "²", "+1", " 1", "1 ", "1e0", "0x1", "1_0", "٣", "-0", "", "9" * 5000, "<b>", "NaN"]),
)
TEXTS = st.one_of(
    st.text(),
    st.builds("{}.{}.{}".format, st.sampled_from([*STEPS, "draw", "Q"]), PARTS, PARTS),
    st.builds("{}.{}.{}.{}".format, st.sampled_from(STEPS), PARTS, PARTS, PARTS),
)


def read(text: str) -> NamedCell | ExperimentError:
    try:
        return named(LESSON, text)
    except ExperimentError as error:
        return error


@law
@given(TEXTS)
def test_any_text_is_a_cell_of_the_trace_or_refused(text):
    result = read(text)
    if isinstance(result, ExperimentError):
        assert result.field == "cell"
        assert len(str(result)) < 250
    else:
        assert result[:3] in set(cells(LESSON, result.step))
        assert result.head == 0
        assert [part.lstrip("0") or "0" for part in text.split(".")] == [str(part) for part in result[:3]]


@pytest.mark.parametrize(
    "text", ["weights", "weights.1", "weights.1.", "weights.1.3", "weights.3.0", "output.0.2", "weights.1.0.0"]
)
def test_text_that_almost_names_a_cell_is_refused_with_what_there_is(text):
    with pytest.raises(ExperimentError, match=r"must be a cell of the 3 × [23] (weights|output)"):
        named(LESSON, text)
