"""Files: what is written reads back as the same experiment, to the last bit, and whatever else is refused in words."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import tracemalloc
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from attention import LIMITS, Experiment, ExperimentError, files, lessons, paste, run, steps
from attention.model import Model
from attention.paste import Pasted, PasteError
from tests.models import EXPERIMENTS, models
from tests.strategies import SEEDS, law

LESSON = lessons.masked_self_attention()
TRACE = run(LESSON)
HANDMADE = replace(LESSON, weights=(((0.1, 0.2), (0.3, -0.0)), ((1, 0), (0, 1)), ((1e-300, 5), (6, 1e6))))
TEXT = files.to_json(LESSON, TRACE)

NUMBERS = st.floats(-LIMITS.magnitude, LIMITS.magnitude)
LABELS = st.text(max_size=LIMITS.label_characters)
FORMULAS = st.text("=+-@'\t\r\n \"a;,1\0", max_size=6)


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """Any experiment with any labels, and numbers that float32 need not hold."""
    n, d = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    numbers = st.lists(st.lists(NUMBERS, min_size=d, max_size=d), min_size=n, max_size=n)
    square = st.lists(st.lists(NUMBERS, min_size=d, max_size=d), min_size=d, max_size=d)
    plain = Experiment(
        tokens=draw(st.lists(st.one_of(LABELS, FORMULAS), min_size=n, max_size=n)),
        encodings=draw(numbers),
        seed=draw(SEEDS),
        mask=draw(st.sampled_from(["none", "causal"])),
        weights=draw(st.none() | st.tuples(square, square, square)),
    )
    if draw(st.booleans()):
        return plain
    m = draw(st.integers(0, 4))
    model = draw(models(d, NUMBERS))
    return replace(
        plain,
        weights=plain.weights if (model.heads, model.style) == (1, "course") else None,
        model=model,
        key_tokens=draw(st.lists(st.one_of(LABELS, FORMULAS), min_size=m, max_size=m)),
        key_encodings=draw(st.lists(st.lists(NUMBERS, min_size=d, max_size=d), min_size=m, max_size=m)),
    )


def refusal(text: str) -> ExperimentError | PasteError:
    with pytest.raises((ExperimentError, PasteError)) as caught:
        files.read_json(text)
    return caught.value


def changed(key: str, value: object, within: str | None = "experiment") -> str:
    """The lesson's JSON with one value changed."""
    document = json.loads(TEXT)
    (document[within] if within else document)[key] = value
    return json.dumps(document)


# --- JSON -----------------------------------------------------------------------------------------------------------


@law
@given(experiments())
def test_json_reads_back_as_the_same_experiment(experiment):
    text = files.to_json(experiment, run(experiment))
    assert repr(files.read_json(text)) == repr(experiment)
    assert repr(files.read(text)) == repr(experiment)
    assert repr(files.read(text.encode())) == repr(experiment)


def test_the_lessons_json_says_what_it_is():
    document = json.loads(files.to_json(LESSON, TRACE, "K3F9-9QZ2"))
    assert document == {
        "format": "attention-workbench experiment",
        "version": 1,
        "torch": torch.__version__,
        "fingerprint": "K3F9-9QZ2",
        "experiment": {
            "tokens": ["write", "a", "poem"],
            "encodings": [[1.16, 0.23], [0.57, 1.36], [4.41, -2.16]],
            "seed": 42,
            "mask": "causal",
            "device": "cpu",
            "weights": None,
        },
        "output": TRACE.output.tolist(),
    }


def test_every_field_of_an_experiment_is_in_the_json():
    everything = replace(LESSON, model=Model(2), key_tokens=("a",), key_encodings=((1, 2),))
    written = json.loads(files.to_json(everything, run(everything)))["experiment"]
    assert set(written) == {field.name for field in fields(Experiment)}
    assert set(written["model"]) == {field.name for field in fields(Model)}
    assert set(json.loads(TEXT)["experiment"]) == set(written) - {"model", "key_tokens", "key_encodings"}


def test_given_weights_are_in_the_json():
    text = files.to_json(HANDMADE, run(HANDMADE))
    assert repr(files.read_json(text).weights) == repr(HANDMADE.weights)


def test_json_is_ascii_and_has_a_line_for_each_field():
    experiment = replace(LESSON, tokens=("שלום", "👍", "\u2028"))
    text = files.to_json(experiment, run(experiment))
    assert text.isascii()
    assert '    "encodings": [[1.16, 0.23], [0.57, 1.36], [4.41, -2.16]],\n' in text


def test_a_models_json_is_its_fields_and_a_second_sequence_stands_beside_the_first():
    model = Model(2, None, "paper", "rotary.half", 0.25, 30, -0.0)
    experiment = replace(
        made := EXPERIMENTS["rotary, two sequences"], model=model, key_tokens=("=1", *made.key_tokens[1:])
    )
    written = json.loads(files.to_json(experiment, run(experiment)))["experiment"]
    assert written["model"] == {
        "heads": 2,
        "kv_heads": None,
        "style": "paper",
        "positions": "rotary.half",
        "scale": 0.25,
        "soft_cap": 30.0,
        "sink": -0.0,
    }
    assert written["key_tokens"] == list(experiment.key_tokens)
    assert written["key_encodings"] == [list(row) for row in experiment.key_encodings]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_output_in_the_json_is_the_same_float32(name):
    trace = run(EXPERIMENTS[name])
    written = json.loads(files.to_json(EXPERIMENTS[name], trace))["output"]
    output = torch.tensor([[math.nan if x is None else x for x in row] for row in written])
    assert torch.equal(output.nan_to_num(nan=1e30), trace.output.nan_to_num(nan=1e30))


def test_the_largest_experiment_can_be_read_back():
    rows = [[-(1 + 1 / (3 + 64 * i + j)) * 1e-300 for j in range(64)] for i in range(64)]
    labels = ["😀" * 64] * 64
    experiment = Experiment(labels, rows, 2**32 - 1, model=Model(8), key_tokens=labels, key_encodings=rows)
    trace = run(experiment)
    trace = replace(trace, output=torch.full_like(trace.output, -1.23456789e-38))
    assert repr(files.read_json(files.to_json(experiment, trace))) == repr(experiment)


def test_an_output_that_is_not_finite_is_null():
    trace = replace(TRACE, output=torch.tensor([[math.nan, math.inf]]))
    assert json.loads(files.to_json(LESSON, trace))["output"] == [[None, None]]


def test_fields_with_a_default_may_be_left_out_and_the_order_is_free():
    document = {"experiment": {"encodings": [[1]], "tokens": ["a"]}, "version": 1, "format": files.FORMAT}
    assert files.read_json(json.dumps(document)) == Experiment(("a",), ((1.0,),))


GOLDEN = Path(__file__).parent / "facts" / "experiment-1.json"


def test_a_file_of_version_1_keeps_opening():
    assert files.read(GOLDEN.read_bytes()) == replace(LESSON, tokens=("=1+1", "</s>", "שלום"), mask="none", seed=7)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed("version", 2, None), "version: must be 1, which this program reads; received 2"),
        (changed("version", True, None), "version: must be 1, which this program reads; received True"),
        (changed("version", 1.0, None), "version: must be 1, which this program reads; received 1.0"),
        (changed("version", [], None), "version: must be 1"),
        (changed("format", "other", None), "format: must be"),
        ("{}", "format: must be"),
        (changed("experiment", [], None), "experiment: must be an object"),
        (changed("more", 1, None), "file: must have no other keys than"),
        (changed("heads", 2), "experiment: must have no other keys than"),
        (changed("model", 2), "model: must be an object with the fields of a model"),
        (changed("model", None), "model: must be an object with the fields of a model"),
        (changed("model", {"head": 2}), "model: must have no other keys than heads, kv_heads, style"),
        (changed("model", {"heads": 9}), "heads: must be a whole number from 1 to 8; received 9"),
        (changed("model", {"heads": 2.0}), "heads: must be a whole number from 1 to 8; received 2.0"),
        (changed("model", {"heads": 3, "style": "paper"}), "heads: must divide the 2 dimensions"),
        (changed("model", {"positions": ["alibi"]}), "positions: must be one of none, sinusoidal"),
        (changed("model", {"soft_cap": "30"}), "soft_cap: must be a number"),
        (changed("model", {"scale": None}), "scale: must be a number"),
        (changed("key_tokens", ["a"]), "key_encodings: must hold 1 to 64 rows; received 0"),
        (changed("key_encodings", [[1, 2]]), "key_tokens: must hold 1 to 64 tokens; received 0"),
        (changed("key_tokens", None), "key_tokens: must be a list of tokens"),
        (changed("tokens", None), "tokens: must be a list"),
        (changed("tokens", ["a", "b", 3]), "tokens, token 3: must be text"),
        (changed("tokens", ["a", "b", "\ud83d"]), "tokens, token 3: must be text, without halves"),
        (changed("tokens", ["a"] * 65), "tokens: must hold 1 to 64 tokens"),
        (changed("encodings", [[1, 2], [3, "4"], [5, 6]]), "encodings, token 2, d2: must be a number"),
        (changed("encodings", [[1, 2], [3, True], [5, 6]]), "encodings, token 2, d2: must be a number"),
        (changed("encodings", [[1, 2], [3, None], [5, 6]]), "encodings, token 2, d2: must be a number"),
        (changed("encodings", [[1, 2], [3], [5, 6]]), "encodings, token 2: must have 2 numbers"),
        (changed("encodings", [[10**9, 2], [3, 4], [5, 6]]), "encodings, token 1, d1: must lie between"),
        (changed("seed", -1), "seed: must lie between"),
        (changed("seed", 2**32), "seed: must lie between"),
        (changed("seed", 1.5), "seed: must be a whole number"),
        (changed("seed", "abc"), "seed: must be a whole number"),
        (changed("mask", {"a": []}), "mask: must be text"),
        (changed("device", ["cpu"]), "device: must be one of"),
        (changed("weights", [[[1]]]), "weights: must hold w_q, w_k and w_v"),
        (TEXT.replace('"encodings"', '"encodinks"'), "experiment: must have no other keys"),
        (TEXT.replace('"tokens": ["write", "a", "poem"],', ""), "tokens: must be there"),
    ],
    ids=itertools.count(),
)
def test_json_of_no_experiment_is_refused_by_the_name_of_the_field(text, said):
    error = refusal(text)
    assert isinstance(error, ExperimentError)
    assert str(error).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, character 1: must be JSON (Expecting value); received 'the end'"),
        ('{"a": 1,\n "b" 2}', "line 2, character 6: must be JSON (Expecting ':' delimiter); received '2}'"),
        ("[]", "line 1, character 1: must be a JSON object"),
        ("3", "line 1, character 1: must be a JSON object"),
        (TEXT + "{}", "line 16, character 1: must be JSON (Extra data)"),
        (TEXT.replace("4.41", "NaN"), "line 8, character 48: must be finite; received 'NaN'"),
        (TEXT.replace("4.41", "-Infinity"), "line 8, character 48: must be finite; received '-Infinity'"),
        (TEXT.replace("4.41", "1e999"), "line 8, character 48: must be finite; received '1e999'"),
        (TEXT.replace("4.41", "9" * 5000), "line 8, character 48: must not have that many digits"),
        (TEXT.replace(": 42", ": " + "9" * 31), "line 9, character 13: must not have that many digits"),
        (TEXT.replace('"mask"', '"seed"'), "line 10, character 5: must stand once; received '\"seed\"'"),
        ('{"a":' * 10_000, "line 1, character 1: must not have that many levels of brackets"),
        ('{"a":' + "[" * 10_000, "line 1, character 1: must not have that many levels of brackets"),
        ("[" * 30_000, "line 1, character 1: must have at most 20,000 times ["),
        ("{" * 30_000, "line 1, character 1: must have at most 20,000 times {"),
        ('{"a": [' + "1," * 200_000, "line 1, character 1: must have at most 100,000 times ,"),
        ('{"a": "' + "x" * 2**20, "line 1, column 1: must be at most 1 MB"),
    ],
    ids=itertools.count(),
)
def test_what_is_no_json_is_refused_at_its_place(text, said):
    error = refusal(text)
    assert isinstance(error, PasteError)
    assert str(error).startswith(said)


def test_the_places_in_these_tests_are_those_of_the_text():
    lines = TEXT.splitlines()
    assert lines[7][47:51] == "4.41"
    assert lines[8][12:14] == "42"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [' + "[]," * 19_000 + "[]]}",
        '{"a": [' + "{}," * 19_000 + "{}]}",
        '{"a": [' + "1.5," * 99_000 + "1]}",
        '{"a": [' + '"ab",' * 99_000 + "1]}",
        "{" + ",".join(f'"{i}":{i}' for i in range(19_000)) + "}",
        '{"a": "' + "\\u00e9" * 170_000 + '"}',
        '{"a": "' + "x" * 1_000_000,
        '{"a": ' + " " * 1_000_000,
        '{"a": 1.' + "1" * 1_000_000 + "}",
    ],
    ids=itertools.count(),
)
def test_no_json_needs_more_than_20_mib(text):
    refusal("{}")  # what is loaded once is not counted
    tracemalloc.start()
    try:
        refusal(text)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@law
@given(st.sampled_from([field.name for field in fields(Experiment)]), JSON)
def test_any_value_in_a_field_is_read_or_refused(name, value):
    check(changed(name, value))


@law
@given(st.one_of(st.text(), JSON.map(json.dumps)), st.integers(0, len(TEXT)), st.integers(0, 20))
def test_any_text_is_read_or_refused(garbage, position, removed):
    check(garbage)
    check("{" + garbage)
    check(TEXT[:position] + garbage + TEXT[position + removed :])


@law
@given(st.binary())
def test_any_file_is_read_or_refused(data):
    check(data)
    check(b'{"' + data)


def check(source: str | bytes) -> None:
    try:
        what = files.read(source)
    except (ExperimentError, PasteError):
        return
    assert isinstance(what, Experiment | Pasted)


# --- CSV ------------------------------------------------------------------------------------------------------------


def test_the_lessons_output_as_csv():
    assert files.csv(TRACE, "output").splitlines() == [
        '"token","d1","d2"',
        '"write",0.6037668585777283,0.7433913350105286',
        '"a",-0.0061960965394973755,0.6071507930755615',
        '"poem",3.498917818069458,2.24271821975708',
    ]


def test_the_encodings_are_the_typed_ones():
    assert files.csv(TRACE, "encodings").splitlines()[1] == '"write",1.16,0.23'


def test_hidden_cells_and_the_mask_as_csv():
    assert files.csv(TRACE, "masked_scores").splitlines()[:2] == [
        '"token","key 1 write","key 2 a","key 3 poem"',
        '"write",-0.06997502595186234,"hidden","hidden"',
    ]
    assert files.csv(TRACE, "mask").splitlines()[2] == '"a",False,False,True'
    assert files.csv(TRACE, "weights").splitlines()[1] == '"write",1.0,0.0,0.0'


@pytest.mark.parametrize("step", ["w_q", "w_k", "w_v"])
def test_a_projection_is_written_transposed_as_it_is_shown(step):
    rows = paste.read(files.csv(TRACE, step)).rows
    assert torch.equal(torch.tensor(rows), getattr(TRACE.heads[0], step).T)


def test_an_unknown_step_is_a_key_error():
    with pytest.raises(KeyError):
        files.csv(TRACE, "sims")


@law
@given(experiments())
def test_encodings_as_csv_read_back_with_their_labels(experiment):
    pasted = paste.read(files.csv(run(experiment), "encodings"))
    assert repr(pasted.rows) == repr(experiment.encodings)
    assert pasted.labels == experiment.tokens


@law
@given(experiments(), st.data())
def test_every_number_of_every_step_is_exact_and_no_text_is_a_formula(experiment, data):
    trace = run(experiment).of_head(data.draw(st.integers(0, experiment.model.heads - 1)))
    name = data.draw(st.sampled_from([step.name for step in steps.of(trace)]))
    heading, *table = csv.reader(io.StringIO(files.csv(trace, name), newline=""), strict=True)
    typed = {"encodings": experiment.encodings, "key_encodings": experiment.key_encodings}
    values = typed.get(name) or steps.matrix(trace, name).tolist()
    for written, row in zip(table, values, strict=True):
        assert written[1:] == ["hidden" if x == -math.inf else str(x).replace("nan", "NaN") for x in row]
        assert len(written) == len(heading)
    for text in (*heading, *(row[0] for row in table)):
        assert not text.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_half_a_character_in_a_label_becomes_a_question_mark():
    trace = run(replace(LESSON, tokens=("\ud83d", "a", "b")))
    assert paste.read(files.csv(trace, "encodings")).labels == ("?", "a", "b")
    assert files.read_json(files.to_json(LESSON, trace)) == LESSON
    files.zip_of_steps(trace)


CROSSING = Experiment(
    ("a", "=b"), ((1, 2), (3, 4)), model=Model(2), key_tokens=("x", "", "+y"), key_encodings=((1, 0), (0, 1), (0.1, -1))
)


def test_keys_have_the_second_sequences_labels_and_numbers():
    trace = run(CROSSING)
    assert files.csv(trace, "scores").splitlines()[0] == '"token","key 1 x","key 2","key 3 +y"'
    assert [line.split(",")[0] for line in files.csv(trace, "scores").splitlines()[1:]] == ['"a"', '"\'=b"']
    assert files.csv(trace, "key_encodings").splitlines()[3] == '"\'+y",0.1,-1.0'
    assert paste.read(files.csv(trace, "key_encodings")).labels == CROSSING.key_tokens


def test_each_head_has_its_own_numbers_and_what_all_share_is_written_once():
    trace = run(CROSSING)
    first, second = (files.csv(trace.of_head(h), "weights") for h in range(2))
    assert first != second
    rows = paste.read(second).rows
    assert rows == tuple(map(tuple, trace.heads[1].weights.tolist()))
    assert files.csv(trace, "joined") == files.csv(trace.of_head(1), "joined")
    assert files.csv(trace, "joined").splitlines()[0] == '"token","h1 d1","h1 d2","h2 d1","h2 d2"'


def test_a_step_that_the_trace_does_not_have_is_a_key_error():
    with pytest.raises(KeyError):
        files.csv(TRACE, "joined")


# --- zip ------------------------------------------------------------------------------------------------------------


def test_the_zip_holds_every_step_in_order_and_the_experiment():
    with zipfile.ZipFile(io.BytesIO(files.zip_of_steps(TRACE, "K3F9-9QZ2"))) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names[0] == "01_encodings.csv"
        assert [name[3:-4] for name in names[:-1]] == [step.name for step in steps.PLAIN]
        for name in names[:-1]:
            assert archive.read(name).decode("utf-8-sig") == files.csv(TRACE, name[3:-4])
        assert archive.read("experiment.json").decode() == files.to_json(LESSON, TRACE, "K3F9-9QZ2")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_zip_holds_every_step_of_every_head(name):
    trace = run(EXPERIMENTS[name])
    names = [step.name for step in steps.of(trace)]
    with zipfile.ZipFile(io.BytesIO(files.zip_of_steps(trace))) as archive:
        found = {name: archive.read(name).decode("utf-8-sig") for name in archive.namelist()}
    assert files.read_json(found.pop("experiment.json")) == EXPERIMENTS[name]
    expected = {}
    for i, step in enumerate(names, 1):
        if len(trace.heads) > 1 and step in steps.OF_A_HEAD:
            for h in range(len(trace.heads)):
                expected[f"h{h + 1}/{i:02}_{step}.csv"] = files.csv(trace.of_head(h), step)
        else:
            expected[f"{i:02}_{step}.csv"] = files.csv(trace, step)
    assert found == expected


def test_the_zip_is_the_same_for_the_same_trace():
    assert files.zip_of_steps(TRACE) == files.zip_of_steps(run(LESSON))


def test_a_csv_of_the_zip_is_read_as_an_upload():
    with zipfile.ZipFile(io.BytesIO(files.zip_of_steps(TRACE))) as archive:
        pasted = files.read(archive.read("01_encodings.csv"))
    assert isinstance(pasted, Pasted)
    assert (pasted.labels, pasted.rows) == (LESSON.tokens, LESSON.encodings)


# --- safetensors ----------------------------------------------------------------------------------------------------

MATRICES = {name: getattr(TRACE.heads[0], name).contiguous() for name in ("w_q", "w_k", "w_v")}
EXPECTED = tuple(tuple(map(tuple, matrix.tolist())) for matrix in MATRICES.values())
LETTERS = "qkv"


def named(pattern: str, **more: torch.Tensor) -> bytes:
    """The lesson's weights under other names, and more."""
    return save({pattern.format(name[-1]): matrix for name, matrix in MATRICES.items()} | more)


def weights_refusal(data: bytes, d_model: int = 2) -> str:
    with pytest.raises(ExperimentError) as caught:
        files.read_safetensors(data, d_model)
    return str(caught.value)


def test_weights_read_back_and_give_the_same_numbers():
    weights = files.read_safetensors(files.to_safetensors(TRACE), 2)
    assert weights == EXPECTED
    assert torch.equal(run(replace(LESSON, weights=weights)).output, TRACE.output)


def test_weights_are_written_as_linear_stores_them():
    written = load(files.to_safetensors(TRACE))
    assert {name: matrix.tolist() for name, matrix in written.items()} == {
        name: matrix.tolist() for name, matrix in MATRICES.items()
    }


def test_the_weights_of_several_heads_are_written_with_w_o():
    trace = run(EXPERIMENTS["shared keys"])
    written = load(files.to_safetensors(trace))
    assert set(written) == {f"heads.{h}.w_{letter}" for h in range(4) for letter in "qkv"} | {"w_o"}
    assert torch.equal(written["w_o"], trace.w_o)
    for h, head in enumerate(trace.heads):
        assert torch.equal(written[f"heads.{h}.w_v"], head.w_v)
    assert torch.equal(written["heads.0.w_k"], written["heads.1.w_k"])
    assert not torch.equal(written["heads.1.w_k"], written["heads.2.w_k"])


def test_the_weights_of_one_head_with_w_o_can_be_brought_in_again():
    trace = run(replace(LESSON, model=Model(style="paper")))
    data = files.to_safetensors(trace)
    assert set(load(data)) == {"w_q", "w_k", "w_v", "w_o"}
    assert files.read_safetensors(data, 2) == EXPECTED


@pytest.mark.parametrize("pattern", ["w_{}", "W_{}", "w_{}.weight", "W_{}.weight", "{}_proj.weight"])
def test_weights_are_found_by_each_spelling(pattern):
    assert files.read_safetensors(named(pattern, other=torch.ones(3, dtype=torch.int64)), 2) == EXPECTED


def test_the_weights_of_a_multihead_attention_are_unpacked():
    module = torch.nn.MultiheadAttention(2, 1)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat(list(MATRICES.values())))
    assert files.read_safetensors(save(dict(module.state_dict())), 2) == EXPECTED


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_dtype_is_read_exactly(dtype):
    weights = {name: torch.tensor([[0.1, -3.0], [1e-5, 0.0]], dtype=dtype) for name in MATRICES}
    read = files.read_safetensors(save(weights), 2)
    assert all(torch.equal(torch.tensor(matrix, dtype=dtype), weights["w_q"]) for matrix in read)


ONES = torch.ones(2, 2)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (save({}), "must hold w_q, w_k and w_v, or in_proj_weight, each once; received 'an empty file'"),
        (
            save({"w_q": ONES, "w_k": ONES.clone()}),
            "must hold w_q, w_k and w_v, or in_proj_weight, each once; received 'w_",
        ),
        (named("w_{}", **{"W_q.weight": ONES}), "must hold w_q, w_k and w_v, or in_proj_weight, each once"),
        (named("w_{}", in_proj_weight=torch.ones(6, 2)), "must hold w_q, w_k and w_v, or in_proj_weight, each once"),
        (
            named("W_{}.weight", **{"W_k.bias": torch.tensor([0, 0.5])}),
            "must come without a bias, or with one of zeros",
        ),
        (named("w_{}", w_v=torch.ones(2, 3)), "must be 2 x 2 in w_v; received '2 x 3'"),
        (named("w_{}", w_v=torch.tensor(1.0)), "must be 2 x 2 in w_v; received 'one number'"),
        (named("w_{}", w_v=torch.ones(0, 2)), "must be 2 x 2 in w_v; received '0 x 2'"),
        (named("w_{}", w_v=torch.ones(2, 2, 1)), "must be 2 x 2 in w_v; received '2 x 2 x 1'"),
        (save({"in_proj_weight": torch.ones(2, 6)}), "must be 6 x 2 in in_proj_weight; received '2 x 6'"),
        (named("w_{}", w_k=ONES.int()), "must be float16, bfloat16, float32 or float64 in w_k; received 'I32'"),
        (named("w_{}", w_k=ONES.to(torch.float8_e4m3fn)), "must be float16, bfloat16, float32 or float64 in w_k"),
        (b"", "must be in a .safetensors file of a few tensors"),
        (b"\xff" * 100, "must be in a .safetensors file of a few tensors"),
        ((2**16 + 1).to_bytes(8, "little") + b" " * 70_000, "must be in a .safetensors file of a few tensors"),
        ((5).to_bytes(8, "little") + b"{{{{{", "must be in a .safetensors file"),
        (named("w_{}")[:-1], "must be in a .safetensors file"),
        (named("w_{}") + b"\0", "must be in a .safetensors file"),
        (b"\0" * (2**20 + 1), "must be in a file of at most 1 MB; received '1,048,577 bytes'"),
    ],
    ids=itertools.count(),
)
def test_a_file_without_usable_weights_is_refused(data, said):
    assert weights_refusal(data).startswith(f"weights: {said}")


@pytest.mark.parametrize(
    ("value", "said"),
    [(math.nan, "must be finite"), (math.inf, "must be finite"), (2e6, "must lie between -1,000,000 and 1,000,000")],
)
def test_a_weight_out_of_bounds_is_refused_by_its_place(value, said):
    data = named("w_{}", w_k=torch.tensor([[0, 0], [0, value]]))
    assert weights_refusal(data).startswith(f"w_k, row 2, d2: {said}")


def test_weights_for_another_size_are_refused():
    assert weights_refusal(named("w_{}"), 3) == "weights: must be 3 x 3 in w_q; received '2 x 2'"


def test_biases_of_zeros_and_what_else_is_in_the_file_change_nothing():
    more = {"W_q.bias": torch.zeros(2), "w_k.bias": torch.empty(0), "out_proj.bias": torch.ones(2)}
    assert files.read_safetensors(named("w_{}", **more), 2) == EXPECTED


@law
@given(st.binary(), st.integers(0, 300), st.integers(0, 20))
def test_any_bytes_are_weights_or_refused(garbage, position, removed):
    sound = named("w_{}")
    for data in (garbage, sound[:position] + garbage + sound[position + removed :], sound[:8] + garbage):
        try:
            weights = files.read_safetensors(data, 2)
        except ExperimentError:
            continue
        assert replace(LESSON, weights=weights).weights == weights


def test_no_weights_need_more_than_20_mib():
    tensors = {f"{i}": torch.empty(0) for i in range(1000)} | {"w_q": torch.ones(400, 600)}
    data = save(tensors)
    files.read_safetensors(named("w_{}"), 2)  # what is loaded once is not counted
    tracemalloc.start()
    try:
        weights_refusal(data)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()
