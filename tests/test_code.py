"""Generated code is run as a student runs it, in a process of its own, and gives the page's numbers."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import subprocess
import sys
import unicodedata
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nbclient import NotebookClient

from attention import Experiment, lessons, masks, run
from attention.code import DIALECTS, SHORTENED, WIDTH, DialectError, dialects, notebook, script, why_not
from attention.core import Trace
from attention.model import Model
from attention.printed import printed
from tests import models
from tests.strategies import MASKS, SEEDS, law
from tests.test_imports import clean_process

LESSON = lessons.masked_self_attention()
GIVEN = (((1.0, 0.1), (-0.25, 1 / 3)), ((0.5, -1e-7), (2.0, 0.0)), ((1e-300, 7.0), (-0.0, 0.3)))
HOSTILE = (
    "'",
    '"',
    "'\"",
    "\\",
    "\\'",
    "a\nb",
    '"""',
    "'''; import os",
    '"]; import os  #',
    "\r\u2028\x0c\x00",
    "\ud800",
    "\u202eabc\u202c",
    "שלום",
    "١٢",
    "$fill ${seed} {tokens} %s",
    "",
    "寫",
    "👩‍👩‍👧",
    "x" * 64,
    "\U000e0001" * 64,
)


def made(n: int, d_model: int, **changes: Any) -> Experiment:
    """An experiment of some size; its numbers are moderate and have no short decimal form."""
    rows = [[((3 * i - 2 * j + i * j) % 11 - 5) / 7 for j in range(d_model)] for i in range(n)]
    return Experiment(tuple(f"token {i}" for i in range(n)), rows, **changes)


EXPERIMENTS = {
    "lesson": LESSON,
    "lesson without a mask": replace(LESSON, mask="none"),
    "another seed": replace(LESSON, seed=2**32 - 1),
    "given weights": replace(LESSON, weights=GIVEN),
    "given weights without a mask": replace(LESSON, weights=GIVEN, mask="none"),
    "hostile labels": replace(made(len(HOSTILE), 3), tokens=HOSTILE),
    "one token": Experiment(("a",), ((0.1,),)),
    "one token without a mask": Experiment(("a",), ((0.1, 1e-300, -0.0),), mask="none"),
    "20 x 30": made(20, 30, seed=7),
    "64 x 64": made(64, 64, seed=7),
    "64 x 64 given": made(64, 64, weights=(made(64, 64).encodings,) * 3),
    "other mask": made(5, 2, mask="causal+window.2"),
    "a row sees no key": replace(LESSON, mask="causal.-1"),
    "no row sees a key": replace(LESSON, mask="padding.left.3"),
    "other mask 64 x 3": made(64, 3, mask=masks.paint("causal+window.2", [(0, 1), (63, 0)])),
    # visible scores far below -1e9, so that the course's fill would leave the hidden ones the largest
    "-1e9 would not hide": Experiment(("a", "b"), ((1e6,), (2e5,)), weights=(((1e3,),), ((-1e3,),), ((0.7,),))),
}
COURSE_NAMES = {
    "encodings": "encodings_matrix",
    "w_q": "W_q",
    "q": "q",
    "w_k": "W_k",
    "k": "k",
    "w_v": "W_v",
    "v": "v",
    "similarities": "sims",
    "mask": "mask",
    "weights": "attention_percents",
    "output": "attention_scores",
}
EMPTY = {"a row sees no key": [0], "no row sees a key": [0, 1, 2]}
"""The rows, from 0, that see no key."""
PROJECTIONS = ("W_q", "W_k", "W_v", "q", "k", "v", "encodings_matrix", "mask")


def expected(trace: Trace) -> dict[str, torch.Tensor]:
    """What the trace holds, by the course's names."""
    head = vars(trace.heads[0]) | {"encodings": trace.encodings}
    return {
        theirs: head[ours] for ours, theirs in COURSE_NAMES.items() if ours != "mask" or trace.experiment.mask != "none"
    }


# --- scripts ---------------------------------------------------------------------------------------------------------

RUN_FILES = """
import contextlib, io, json, runpy, sys
import torch

def read(value):
    return value.weight.tolist() if isinstance(value, torch.nn.Linear) else value.tolist()

for path in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        names = runpy.run_path(path)
    kept = {n: read(v) for n, v in names.items() if isinstance(v, (torch.Tensor, torch.nn.Linear))}
    print(json.dumps({"printed": out.getvalue(), "tokens": names["tokens"], "values": kept}))
"""


@dataclass(frozen=True)
class Ran:
    """What a script printed, and the tensors that it left."""

    printed: str
    tokens: list[str]
    values: dict[str, list[list[float]]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Ran]:
    """Every experiment in every dialect, run as files by one Python that has nothing of ours; torch loads once."""
    folder = tmp_path_factory.mktemp("scripts")
    texts = {(name, dialect): script(EXPERIMENTS[name], dialect) for name in EXPERIMENTS for dialect in DIALECTS}
    texts |= {(name, "notebook"): "\n".join(cells(notebook(EXPERIMENTS[name]), "code")) for name in EMPTY}
    files = [folder / f"{i}.py" for i in range(len(texts))]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text, encoding="utf-8")
    lines = python("-c", RUN_FILES, *map(str, files)).splitlines()
    return {key: Ran(**json.loads(line)) for key, line in zip(texts, lines, strict=True)}


def python(*arguments: str) -> str:
    """What a Python prints that sees neither this package nor the environment, and takes warnings for errors."""
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", *arguments], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_script_by_itself_ends_with_the_lessons_output(dialect, tmp_path):
    file = tmp_path / "lesson.py"
    file.write_text(script(LESSON, dialect) + "import json\nprint(json.dumps(attention_scores.tolist()))\n", "utf-8")
    *lines, numbers = python(str(file)).splitlines()
    assert "\n".join(lines[-4:-1]) == str(run(LESSON).output)
    torch.testing.assert_close(torch.tensor(json.loads(numbers)), run(LESSON).output, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_courses_dialect_computes_the_trace_bit_for_bit(ran, name):
    found = ran[name, "course"]
    assert found.tokens == list(EXPERIMENTS[name].tokens)
    for course, value in expected(run(EXPERIMENTS[name])).items():
        assert repr(found.values[course]) == repr(value.tolist()), course  # in which NaN is NaN


@pytest.mark.parametrize("dialect", ["sdpa", "mha"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_kernels_compute_the_traces_output_from_its_weights(ran, name, dialect):
    found, wanted = ran[name, dialect], expected(run(EXPERIMENTS[name]))
    assert found.tokens == list(EXPERIMENTS[name].tokens)
    for exact in wanted.keys() & found.values.keys() & set(PROJECTIONS):
        assert found.values[exact] == wanted[exact].tolist(), exact
    assert ("attention_percents" in found.values) == (dialect == "mha")
    for close in ("attention_percents", "attention_scores"):
        if close in found.values:
            actual, right = torch.tensor(found.values[close]), wanted[close].clone()
            if dialect == "sdpa":
                right[EMPTY.get(name, [])] = 0  # as the script says
            torch.testing.assert_close(actual, right, rtol=1e-6, atol=1e-6, equal_nan=True)


def comments(text: str) -> str:
    return " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))


def test_each_dialect_says_what_it_makes_of_a_row_that_sees_no_key():
    course, sdpa, mha = (comments(script(EXPERIMENTS["a row sees no key"], dialect)) for dialect in DIALECTS)
    assert "Query 1 sees no key: with -1e9 every key would get the same share there." in course
    assert "Query 1 sees no key: the softmax gives 0 / 0, which is NaN, and so is the output." in course
    assert "Query 1 sees no key: this kernel gives 0 there, where softmax gives NaN." in sdpa
    assert "Query 1 sees no key: called like this it gives NaN there; with need_weights=False, 0." in mha
    assert "Queries 1, 2 and 3 see no key" in comments(script(EXPERIMENTS["no row sees a key"]))
    assert "no key" not in comments(script(LESSON) + script(LESSON, "sdpa") + script(LESSON, "mha"))


def test_the_notebook_compares_only_rows_that_see_a_key(ran):
    found = ran["a row sees no key", "notebook"]
    assert found.printed.count("largest difference to attention_scores\ntensor(") == 2
    assert "tensor(nan)" not in found.printed
    assert found.values["difference"] <= 1e-6
    assert found.values["by_sdpa"][0] == [0, 0]
    none = ran["no row sees a key", "notebook"]
    assert "largest difference" not in none.printed
    assert none.values["by_sdpa"] == [[0, 0]] * 3


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_courses_dialect_prints_every_step_as_the_page_does(ran, name):
    out = ran[name, "course"].printed
    for expression, value in blocks(EXPERIMENTS[name]).items():
        assert f"{expression}\n{value}\n\n" in out, expression


def blocks(experiment: Experiment) -> dict[str, str]:
    """The steps as the page prints them, in full, under what the script calls them; the mask's only if there is one."""
    torch.set_printoptions(profile="full")
    try:
        text = printed(run(experiment))
    finally:
        torch.set_printoptions(profile="default")
    found = {}
    for block in text.split("\n\n"):
        _, expression, value = block.split("\n", 2)
        found[expression.removeprefix(">>> ")] = value
    (hidden,) = [expression for expression in found if "masked_fill" in expression]
    found["scaled_sims, masked"] = found.pop(hidden)
    if experiment.mask == "none":
        del found["mask"], found["scaled_sims, masked"]
    if experiment is EXPERIMENTS["-1e9 would not hide"]:
        del found["scaled_sims, masked"]  # this script has minus infinity there, and says why
    return found


def test_all_numbers_of_a_large_experiment_are_printed(ran):
    assert SHORTENED < 64 * 64
    for dialect in DIALECTS:
        assert "..." not in ran["64 x 64", dialect].printed
        assert "set_printoptions" not in script(made(31, 31), dialect)
        assert "set_printoptions" in script(made(32, 1), dialect)


def test_minus_infinity_hides_where_the_courses_fill_would_not(ran):
    text = script(EXPERIMENTS["-1e9 would not hide"])
    assert text.count("value=-torch.inf") == 2
    assert "value=-1e9" not in text
    assert ran["-1e9 would not hide", "course"].values["attention_percents"][0] == [1, 0]
    assert script(LESSON).count("value=-1e9") == 2


def test_the_mask_is_written_the_courses_way_or_as_zeros_and_ones_or_not_at_all():
    for dialect in DIALECTS:
        assert "torch.tril(torch.ones(3, 3)) == 0" in script(LESSON, dialect)
        assert "mask" not in script(replace(LESSON, mask="none"), dialect)
        rows = [[0, 1, 1], [0, 0, 1], [1, 0, 0]]
        assert literal(script(replace(LESSON, mask="causal+window.2"), dialect), "mask") == rows


def test_given_weights_stand_in_the_script_and_no_seed_does():
    for dialect in DIALECTS:
        text = script(replace(LESSON, weights=GIVEN), dialect)
        assert "manual_seed" not in text
        assert "no seed decides" in text
        assert "torch.manual_seed(42)" in script(LESSON, dialect)


def test_the_device_is_written_and_weights_are_drawn_before_they_move():
    for dialect in DIALECTS:
        text = script(replace(LESSON, device="mps"), dialect)
        assert 'device = "mps"\n' in text
        assert text == script(LESSON, dialect).replace('"cpu"', '"mps"')
        assert text.index("torch.manual_seed(42)") < text.index(".to(device).requires_grad_(False)")


def test_another_dialect_is_refused():
    with pytest.raises(ValueError, match=r"^dialect: must be one of course, sdpa, mha; received 'jax'$"):
        script(LESSON, "jax")  # type: ignore[arg-type]


def test_a_script_reads_as_handwritten_code(tmp_path):
    for name in ("lesson", "lesson without a mask", "given weights", "other mask", "one token", "-1e9 would not hide"):
        for dialect in DIALECTS:
            (tmp_path / f"{name} {dialect}.py").write_text(script(EXPERIMENTS[name], dialect), "utf-8")
    assert_handwritten(tmp_path)


def assert_handwritten(folder: Path) -> None:
    """Ruff finds nothing to say about the scripts in a folder, and nothing to format."""
    for command in (["check", "--select", "E,F,W,I,B,C4,UP,SIM,PERF,RUF", "--ignore", "E501"], ["format", "--diff"]):
        ruff = [Path(sys.executable).parent / "ruff", *command, "--isolated", "--no-cache", "--line-length", str(WIDTH)]
        done = subprocess.run([*ruff, folder], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_every_field_of_an_experiment_is_written():
    """A field added later must reach the generated code, which would else print other numbers than the page."""
    written = {"tokens", "encodings", "seed", "mask", "device", "weights", "model", "key_tokens", "key_encodings"}
    assert {field.name for field in fields(Experiment)} == written
    changed = {
        "heads": (Model(2), Model(4)),
        "kv_heads": (Model(4, 2, "paper"), Model(4, 1, "paper")),
        "style": (Model(2), Model(2, style="paper")),
        "positions": (Model(positions="rotary.half"), Model(positions="rotary.interleaved")),
        "scale": (Model(scale=0.5), Model(scale=0.25)),
        "soft_cap": (Model(soft_cap=0.5), Model(soft_cap=0.25)),
        "sink": (Model(sink=0.5), Model(sink=0.0)),
    }
    assert set(changed) == {field.name for field in fields(Model)}
    for one, other in changed.values():
        assert len({script(replace(made(2, 4), model=model)) for model in (one, other)}) == 2


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_code_of_a_plain_experiment_does_not_change_by_a_byte(name):
    kept = json.loads((Path(__file__).parent / "facts" / "plain_code.json").read_text(encoding="utf-8"))["code"][name]
    texts = {dialect: script(EXPERIMENTS[name], dialect) for dialect in DIALECTS}
    texts["notebook"] = notebook(EXPERIMENTS[name])
    assert {key: hashlib.sha256(text.encode()).hexdigest()[:16] for key, text in texts.items()} == kept


# --- other models ----------------------------------------------------------------------------------------------------

OF_A_HEAD = {"q": "q", "k": "k", "v": "v", "similarities": "sims", "weights": "attention_percents"}
OF_A_HEAD |= {"output": "attention_scores", "distances": "distances", "rotated_q": "rotated_q"}
OF_ALL = {"positions": "positions", "key_positions": "key_positions", "positioned": "x", "key_positioned": "y"}
OF_ALL |= {"w_o": "W_o", "output": "output", "mask": "mask"}


def assert_computes(experiment: Experiment, dialect: str, values: dict[str, Any]) -> None:
    """The tensors that a script left are those of the trace, under the course's names, within float32's rounding."""
    trace = run(experiment)
    model = experiment.model
    wanted: dict[str, Any] = {theirs: getattr(trace, ours, None) for ours, theirs in OF_ALL.items()}
    wanted["mask"] = trace.heads[0].mask if experiment.mask != "none" else None
    for ours, theirs in OF_A_HEAD.items():
        of_heads = [getattr(head, ours) for head in trace.heads]
        if of_heads[0] is not None:
            served = of_heads[:: model.heads // model.groups] if ours in ("k", "v") else of_heads
            wanted[theirs] = torch.stack(served) if model.heads > 1 or model.style == "paper" else of_heads[0]
    wanted |= {"by_class": trace.output, "by_sdpa": trace.output, "by_mha": trace.output}
    if model.heads == 1 and model.style == "course" and dialect != "course":
        wanted["output"] = trace.output  # which is the head's in the course's dialect
    elif model.heads == 1 and model.style == "course":
        wanted["attention_scores"] = trace.output
    scale = max(1.0, *(head.scores.abs().max().item() for head in trace.heads))
    compared = {name for name, right in wanted.items() if name in values and right is not None}
    for name in compared:
        actual, right = torch.as_tensor(values[name]).float(), wanted[name].float().clone()
        if name == "by_sdpa" or (dialect == "sdpa" and name == "output"):
            right[trace.blind] = 0  # as the script says
        close = 2e-6 * max(scale, right.nan_to_num().abs().max().item())
        assert torch.allclose(actual, right, rtol=2e-6, atol=close, equal_nan=True), (name, actual, right)
    if dialect == "course":
        assert compared >= {"q", "k", "v", "sims", "attention_percents", "attention_scores"}
        assert not {"distances", "rotated_q"} & (wanted.keys() - compared)
    assert compared & {"output", "attention_scores"}


MODELS = {(name, dialect): e for name, e in models.EXPERIMENTS.items() for dialect in dialects(e)}


@pytest.fixture(scope="module")
def ran_models(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Ran]:
    """Every model in every dialect that can compute it, and its notebook, run by one Python that has torch alone."""
    folder = tmp_path_factory.mktemp("models")
    texts = {(name, dialect): script(e, dialect) for (name, dialect), e in MODELS.items()}
    texts |= {(n, "notebook"): "\n".join(cells(notebook(e), "code")) for n, e in models.EXPERIMENTS.items()}
    files = [folder / f"{i}.py" for i in range(len(texts))]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text, encoding="utf-8")
    lines = python("-c", RUN_FILES, *map(str, files)).splitlines()
    return {key: Ran(**json.loads(line)) for key, line in zip(texts, lines, strict=True)}


@pytest.mark.parametrize("key", MODELS, ids=" by ".join)
def test_a_script_of_any_model_computes_the_trace(ran_models, key):
    assert_computes(MODELS[key], key[1], ran_models[key].values)
    assert ran_models[key].tokens == list(MODELS[key].tokens)


@pytest.mark.parametrize("name", models.EXPERIMENTS)
def test_the_notebook_of_any_model_computes_the_trace_and_checks_it_by_the_kernels_that_can(ran_models, name):
    found, experiment = ran_models[name, "notebook"], models.EXPERIMENTS[name]
    assert_computes(experiment, "course", found.values)
    kernels = [dialect for dialect in dialects(experiment) if dialect != "course"]
    assert [dialect for dialect in ("sdpa", "mha") if f"by_{dialect}" in found.values] == kernels
    assert found.printed.count("largest difference to ") == len(kernels)
    assert "tensor(nan)" not in found.printed
    assert_visible(notebook(experiment))


@st.composite
def any_model(draw: st.DrawFn) -> Experiment:
    n, d, m = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(0, 4))
    experiment = replace(made(n, d), model=draw(models.models(d)), seed=draw(SEEDS), mask=draw(st.sampled_from(MASKS)))
    other = made(7, d)
    return replace(experiment, key_tokens=other.tokens[:m], key_encodings=other.encodings[7 - m :])


@law
@given(any_model(), st.sampled_from(DIALECTS))
def test_whatever_the_model_its_script_computes_the_trace(experiment, dialect):
    if experiment.is_plain:
        return
    if why_not(experiment, dialect):
        with pytest.raises(DialectError):
            script(experiment, dialect)
        return
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng(devices=[]):
        exec(script(experiment, dialect), names)  # noqa: S102
    tensors = {name: value for name, value in names.items() if isinstance(value, torch.Tensor)}
    assert_computes(experiment, dialect, tensors)


def test_a_dialect_is_offered_only_where_its_kernel_can_compute_the_model():
    def offered(**changes: Any) -> tuple[str, ...]:
        return dialects(replace(made(4, 8), model=Model(**changes)))

    assert dialects(LESSON) == offered(heads=2) == offered(heads=2, style="paper") == DIALECTS
    assert offered(positions="alibi") == offered(positions="learned") == DIALECTS
    assert offered(positions="rotary.half") == offered(scale="none") == ("course", "sdpa")
    assert offered(heads=4, kv_heads=2, style="paper") == offered(scale=0.5) == ("course", "sdpa")
    assert offered(soft_cap=1.0) == offered(sink=0.0) == ("course",)
    experiment = replace(made(4, 8), model=Model(4, 2, "paper", "rotary.half", sink=1.0))
    assert why_not(experiment, "sdpa") == "scaled_dot_product_attention has no sink."
    assert why_not(experiment, "mha") == "nn.MultiheadAttention has no shared keys and no rotation and no sink."
    with pytest.raises(DialectError, match=r"^dialect: must be one of course here: scaled_dot_product_attention has"):
        script(experiment, "sdpa")


def test_the_scripts_of_models_read_as_handwritten_code(tmp_path):
    for i, ((_, dialect), experiment) in enumerate(MODELS.items()):
        short = replace(
            experiment, encodings=((0.5,) * experiment.d_model,) * experiment.n, tokens=("a",) * experiment.n
        )
        if experiment.crosses:
            m = experiment.n_keys
            short = replace(short, key_encodings=((0.5,) * experiment.d_model,) * m, key_tokens=("b",) * m)
        (tmp_path / f"{i} {dialect}.py").write_text(script(short, dialect), "utf-8")
    assert_handwritten(tmp_path)


def test_a_model_with_given_weights_has_them_in_its_code():
    experiment = replace(LESSON, weights=GIVEN, model=Model(sink=0.5))
    text = script(experiment)
    assert "manual_seed" not in text
    assert literal(text, "W_v.weight[:]") == [list(row) for row in GIVEN[2]]
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(text, names)  # noqa: S102
    torch.testing.assert_close(names["attention_scores"], run(experiment).output, rtol=1e-6, atol=1e-6)


def test_labels_of_the_second_sequence_are_data_too():
    experiment = replace(LESSON, key_tokens=HOSTILE, key_encodings=((1.0, 2.0),) * len(HOSTILE))
    for dialect in DIALECTS:
        text = script(experiment, dialect)
        assert literal(text, "key_tokens") == list(HOSTILE)
        assert_visible(text)


def test_all_numbers_of_a_large_model_are_printed():
    large = replace(made(16, 8), model=Model(8))
    assert "set_printoptions" in script(large)
    assert "set_printoptions" not in script(replace(large, model=Model(2)))


# --- what comes from outside is data ---------------------------------------------------------------------------------

LABELS = st.one_of(st.text(st.characters(exclude_categories=()), max_size=64), st.sampled_from(HOSTILE))
NUMBERS = st.floats(-1e6, 1e6)
few = settings(law, max_examples=25)  # a notebook is validated against a schema, which takes its time


@st.composite
def labelled(draw: st.DrawFn) -> Experiment:
    n, d_model = draw(st.integers(1, 5)), draw(st.integers(1, 4))

    def matrix(rows: int) -> list[list[float]]:
        return [[draw(NUMBERS) for _ in range(d_model)] for _ in range(rows)]

    given_weights = draw(st.booleans())
    return Experiment(
        tokens=[draw(LABELS) for _ in range(n)],  # type: ignore[arg-type]
        encodings=matrix(n),  # type: ignore[arg-type]
        seed=draw(SEEDS),
        mask=draw(st.sampled_from(MASKS)),
        weights=tuple(matrix(d_model) for _ in "qkv") if given_weights else None,  # type: ignore[arg-type]
    )


def statement(text: str, target: str) -> ast.Assign:
    (found,) = [
        node for node in ast.parse(text).body if isinstance(node, ast.Assign) and ast.unparse(node.targets) == target
    ]
    return found


def literal(text: str, target: str) -> Any:
    """The value of `target = <literal>` or `target = torch.tensor(<literal>)`."""
    value = statement(text, target).value
    return ast.literal_eval(value.args[0] if isinstance(value, ast.Call) else value)


def without_labels(text: str) -> str:
    """The text without the one statement that holds the labels."""
    held, lines = statement(text, "tokens"), text.split("\n")
    return "\n".join(lines[: held.lineno - 1] + lines[held.end_lineno :])


def assert_visible(text: str) -> None:
    """Nothing breaks a line, is invisible, cannot be saved, or turns the direction of reading."""
    text.encode("utf-8")
    for character in set(text) - {"\n"}:
        assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"), hex(ord(character))
        assert unicodedata.bidirectional(character) not in ("R", "AL", "AN"), hex(ord(character))


@law
@given(experiment=labelled(), dialect=st.sampled_from(DIALECTS))
def test_whatever_an_experiment_holds_reads_back_from_the_script_exactly(experiment, dialect):
    text = script(experiment, dialect)
    assert literal(text, "tokens") == list(experiment.tokens)
    # as text, so that -0.0 is not taken for 0.0
    assert repr(literal(text, "encodings_matrix")) == repr([list(row) for row in experiment.encodings])
    for name, matrix in zip(("W_q", "W_k", "W_v"), experiment.weights or (), strict=False):
        assert repr(literal(text, f"{name}.weight[:]")) == repr([list(row) for row in matrix])
    assert_visible(text)
    assert max(map(len, without_labels(text).split("\n"))) <= WIDTH


@law
@given(experiment=labelled(), dialect=st.sampled_from(DIALECTS))
def test_labels_stand_in_one_list_and_change_nothing_else(experiment, dialect):
    plain = replace(experiment, tokens=("a",) * experiment.n)
    assert without_labels(script(experiment, dialect)) == without_labels(script(plain, dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_script_imports_torch_and_nothing_else(dialect):
    tree = ast.parse(script(EXPERIMENTS["hostile labels"], dialect))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {m for node in imports for m in ([node.module] if isinstance(node, ast.ImportFrom) else _names(node))}
    assert modules <= {"torch", "torch.nn"}


def _names(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


# --- the notebook ----------------------------------------------------------------------------------------------------


def cells(text: str, kind: str) -> list[str]:
    return [cell.source for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == kind]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_notebook_is_valid_and_always_the_same(name):
    text = notebook(EXPERIMENTS[name])
    nbformat.validate(nbformat.reads(text, as_version=4))
    assert text == notebook(EXPERIMENTS[name])
    assert_visible(text)


@pytest.mark.parametrize("name", ["lesson", "lesson without a mask", "given weights", "hostile labels"])
def test_the_notebook_is_the_courses_script_with_the_kernels_as_checks(name):
    experiment = EXPERIMENTS[name]
    text, code = script(experiment), cells(notebook(experiment), "code")
    assert all(f"{cell}\n" in text for cell in code[:-2])
    assert "F.scaled_dot_product_attention" in code[-2]
    assert "nn.MultiheadAttention" in code[-1]


def test_each_step_of_the_notebook_has_its_words():
    words, code = (cells(notebook(LESSON), kind) for kind in ("markdown", "code"))
    assert len(words) == len(code)
    assert words[0].startswith("# ")
    assert all(text.startswith("## ") for text in words[1:])
    assert len(set(words)) == len(words)


@few
@given(experiment=labelled())
def test_labels_stand_in_one_cell_of_the_notebook(experiment):
    plain = replace(experiment, tokens=("a",) * experiment.n)
    assert cells(notebook(experiment), "markdown") == cells(notebook(plain), "markdown")
    ours, theirs = (cells(notebook(e), "code") for e in (experiment, plain))
    (different,) = [i for i, cell in enumerate(theirs) if "tokens = " in cell]
    assert literal(ours[different], "tokens") == list(experiment.tokens)
    assert [without_labels(c) if i == different else c for i, c in enumerate(ours)] == [
        without_labels(c) if i == different else c for i, c in enumerate(theirs)
    ]


KEPT = """\
import json
print(json.dumps({"course": attention_scores.tolist(), "sdpa": by_sdpa.tolist(), "mha": by_mha.tolist()}))"""


@pytest.fixture
def jupyter(tmp_path, monkeypatch):
    """Jupyter with folders of its own, so that nobody's settings, kernels and history are read or written."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    return tmp_path


@pytest.mark.parametrize("name", ["lesson", "hostile labels, given weights, no mask"])
def test_the_notebook_runs_and_prints_what_the_page_does(name, jupyter):
    experiment = EXPERIMENTS.get(name) or Experiment(HOSTILE[:9], made(9, 2).encodings, mask="none", weights=GIVEN)
    document = nbformat.reads(notebook(experiment), as_version=4)
    document.cells.append(nbformat.v4.new_code_cell(KEPT))
    # a busy machine may take long to start a kernel, which says nothing about the notebook
    client = NotebookClient(
        document, kernel_name="python3", startup_timeout=600, resources={"metadata": {"path": jupyter}}
    )
    client.execute()
    outputs = [output for cell in document.cells if cell.cell_type == "code" for output in cell.outputs]
    assert {(output.output_type, output.get("name")) for output in outputs} == {("stream", "stdout")}
    text = "".join(output.text for output in outputs)
    for expression, value in blocks(experiment).items():
        assert f"{expression}\n{value}\n\n" in text, expression
    assert text.count("largest difference to attention_scores\ntensor(") == 2
    trace, kept = run(experiment), json.loads(text.splitlines()[-1])
    assert kept["course"] == trace.output.tolist()
    for kernel in ("sdpa", "mha"):
        torch.testing.assert_close(torch.tensor(kept[kernel]), trace.output, rtol=1e-6, atol=1e-6)


def test_scripts_need_no_nbformat():
    code = (
        "import sys; sys.modules['nbformat'] = None; import attention; from attention import code; "
        "print(len(code.script(attention.lessons.masked_self_attention())) > 0)"
    )
    assert clean_process(code) == "True"
