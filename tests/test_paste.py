"""Pasted and uploaded numbers: read as they were meant, or refused at a place that is named; never misread."""

from __future__ import annotations

import csv
import io
import json
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention import LIMITS, grid, paste
from attention.paste import Pasted, PasteError
from tests.strategies import law

NUMBERS = st.floats(-LIMITS.magnitude, LIMITS.magnitude)
LABELS = st.text(max_size=12)
ROWS = st.integers(1, 6).flatmap(lambda m: st.lists(st.lists(NUMBERS, min_size=m, max_size=m), min_size=1, max_size=6))


def refusal(text: str | bytes) -> PasteError:
    with pytest.raises(PasteError) as caught:
        paste.read(text) if isinstance(text, str) else paste.read_bytes(text)
    return caught.value


def outcome(read, source) -> Pasted | PasteError:
    try:
        return read(source)
    except PasteError as error:
        return error


def is_sane(pasted: Pasted) -> bool:
    """Within all limits, and rectangular."""
    width = len(pasted.rows[0])
    labels = pasted.labels
    return (
        1 <= len(pasted.rows) <= LIMITS.tokens
        and 1 <= width <= LIMITS.dimensions
        and all(len(row) == width for row in pasted.rows)
        and all(abs(x) <= LIMITS.magnitude for row in pasted.rows for x in row)
        and (labels is None or len(labels) == len(pasted.rows))
        and all(len(label) <= LIMITS.label_characters for label in labels or ())
    )


def block(rows, labels=None, delimiter="\t", decimal=".", quoting=csv.QUOTE_MINIMAL) -> str:
    """What a spreadsheet writes to the clipboard or to a file."""
    table = io.StringIO()
    writer = csv.writer(table, delimiter=delimiter, quoting=quoting)
    for i, row in enumerate(rows):
        cells = [repr(x).replace(".", decimal) for x in row]
        writer.writerow(cells if labels is None else [labels[i], *cells])
    return table.getvalue()


# --- tables ---------------------------------------------------------------------------------------------------------

SQUARE = ((1.0, 2.0), (3.0, 4.0))


@pytest.mark.parametrize(
    ("text", "labels", "rows", "kind"),
    [
        ("1\t2\n3\t4", None, SQUARE, "tab-separated, 2 rows × 2 numbers"),
        ("1\t2\r\n3\t4\r\n", None, SQUARE, "tab-separated, 2 rows × 2 numbers"),
        ("1\t2\r3\t4\r", None, SQUARE, "tab-separated, 2 rows × 2 numbers"),
        ("\ufeff1,2\n3,4", None, SQUARE, "comma-separated, 2 rows × 2 numbers"),
        ("1;2\n3;4", None, SQUARE, "semicolon-separated, 2 rows × 2 numbers"),
        ("1, 2\n3, 4", None, SQUARE, "comma-separated, 2 rows × 2 numbers"),
        ("\n1,2\n\n3,4\n,\n", None, SQUARE, "comma-separated, 2 rows × 2 numbers"),
        ('"1","2"\n"3","4"', None, SQUARE, "comma-separated, 2 rows × 2 numbers"),
        ("1\n3", None, ((1.0,), (3.0,)), "one number a line, 2 rows × 1 number"),
        ("7", None, ((7.0,),), "one number a line, 1 row × 1 number"),
        ("−1.5\t1e-3\t.01\t-0", None, ((-1.5, 0.001, 0.01, -0.0),), "tab-separated, 1 row × 4 numbers"),
        ("a\t1\t2", ("a",), ((1.0, 2.0),), "tab-separated, 1 row × 2 numbers, labels in the first column"),
        ("the,1\ncat,2\nthe,3", ("the", "cat", "the"), ((1.0,), (2.0,), (3.0,)), None),
        ('"a,b",1\n"c\nd",2\n"e""f",3', ("a,b", "c\nd", 'e"f'), ((1.0,), (2.0,), (3.0,)), None),
        ("[CLS]\t1\t2\n##ing\t3\t4", ("[CLS]", "##ing"), SQUARE, None),
        (' \t1\n"",2'.replace(",", "\t"), (" ", ""), ((1.0,), (2.0,)), None),
        ("d1,d2\n1,2\n3,4", None, SQUARE, "comma-separated, 2 rows × 2 numbers, header left out"),
        (
            "token;d1;d2\n1;1;2\n2;3;4",
            ("1", "2"),
            SQUARE,
            "semicolon-separated, 2 rows × 2 numbers, labels in the first column, header left out",
        ),
        ("\tx\ty\n7\t1\t2\n8\t3\t4", ("7", "8"), SQUARE, None),
        ("x\n1\n3", None, ((1.0,), (3.0,)), "one number a line, 2 rows × 1 number, header left out"),
    ],
)
def test_a_table_is_read_with_its_labels_and_without_its_header(text, labels, rows, kind):
    pasted = paste.read(text)
    assert (pasted.labels, pasted.rows) == (labels, rows)
    assert kind in (None, pasted.kind)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1,4\t3,5", ((1.4, 3.5),)),
        ("1,4;3,5", ((1.4, 3.5),)),
        ('"1,4","3,5"', ((1.4, 3.5),)),
        ("−0,25\t,5\t1,5E+02\t7", ((-0.25, 0.5, 150.0, 7.0),)),
        ("0,123\t4", ((0.123, 4.0),)),
        ("1,5\t1,234", ((1.5, 1.234),)),
        ("1234,567;2", ((1234.567, 2.0),)),
    ],
)
def test_a_decimal_comma_is_understood_where_it_has_one_meaning(text, rows):
    pasted = paste.read(text)
    assert pasted.rows == rows
    assert pasted.kind.endswith(", decimal commas")


def test_a_comma_between_fields_divides_them():
    assert paste.read("1,4").rows == ((1.0, 4.0),)
    assert paste.read("1,4\n3,5").rows == ((1.0, 4.0), (3.0, 5.0))


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        # decimal commas with two meanings
        ("1,234\t2,345", 1, 1, "is not a number; write 1.234 or 1234"),
        ("1\t2\n3\t-12,500", 2, 2, "is not a number; write -12.500 or -12500"),
        ("1.234,5\t1", 1, 1, "has both a point and a comma; write 1234.5"),
        ("1;1,234.5", 1, 2, "has both a point and a comma; write 1234.5"),
        ("1,5\t2.5", 1, 1, "has a comma, but line 1, column 2 a point; use points alone"),
        ("a;1.5;2\nb;3;4,25", 2, 3, "has a comma, but line 1, column 2 a point; use points alone"),
        ("1,234,567\t1", 1, 1, "is not a number; write digits with a point, such as 1.5"),
        ("1,4, 3,5", 1, 3, "is unclear, with a space after some commas only; put tabs or semicolons between numbers"),
        # what is no number
        ("1\t1_000", 1, 2, "is not a number; write 1000"),
        ("１２;1", 1, 1, "is not a number; write 12"),
        ("5%\t1", 1, 1, "is not a number; write 0.05"),
        ("1 000\t1", 1, 1, "is not a number; write 1000"),
        ("1\tnan", 1, 2, "is not a number"),
        ("nan\t1", 1, 1, "is not a number"),
        ("inf\tnan\n1\t2", 1, 1, "is not a number"),
        ("a,1\nb,inf", 2, 2, "is not a number"),
        ("1;1e400", 1, 2, "must lie between -1,000,000 and 1,000,000"),
        ("1,2\n3,", 2, 2, "is empty; write a number"),
        ("1.16 0.23\n0.57 1.36", 1, 1, "is not a number; put tabs, semicolons or commas between numbers"),
        ("write a poem", 1, 1, "is not a number; put tabs, semicolons or commas between numbers"),
        ("$5\t$6\n1\t2", 1, 1, "must be a number, as on line 2"),
        # labels or numbers
        ("1,2\nabc,3", 2, 1, "must be a number, as on line 1, or the first column be labels with the heading `token`"),
        ("a\t" * 64, 1, 2, "is not a number"),
        ("a\t" * 65, 1, 66, "must have at most 64 numbers in a row"),
        ("[,1]", 1, 2, "is not a number"),
        (f"{'x' * 65}\t1", 1, 1, "must have at most 64 characters"),
        ("token,d1\na", 2, 1, "is not a number"),
        ("token,d1\na\nb,1", 2, 2, "must have numbers beside the label"),
        # shapes and sizes
        ("1,2\n3,4,5", 2, 3, "must have 2 columns, as line 1 has"),
        ("1,2,3\n4", 2, 1, "must have 3 columns, as line 1 has"),
        ("1\n" * 65, 65, 1, "must have at most 64 rows"),
        ("1," * 64 + "1", 1, 65, "must have at most 64 numbers in a row"),
        ("a," + "1," * 64 + "1", 1, 66, "must have at most 64 numbers in a row"),
        ("", 1, 1, "must hold numbers"),
        (" \n\t\n", 1, 1, "must hold numbers"),
        (",\n,", 1, 1, "must hold numbers"),
        # quotation marks
        ('1,2\n"3,4', 2, 1, "must have a quotation mark at each end"),
        ('1,"2"x', 1, 2, "must have a quotation mark at each end"),
        pytest.param("x" * 200_000 + "\t1", 1, 1, "must not have a field that long", id="long field"),
        ('{"tokens": []}', 1, 1, "must be a table or a matrix, not a JSON object"),
    ],
)
def test_whatever_is_no_table_of_numbers_is_refused_at_its_place(text, line, column, said):
    error = refusal(text)
    assert (error.line, error.column, error.unit) == (line, column, "column")
    assert error.rule.startswith(said)
    assert str(error).startswith(f"line {line}, column {column}: {said}")


def test_a_refusal_shows_what_it_received_and_shortens_it():
    error = refusal("1\n2\nhello" + "o" * 1000)
    assert error.value == "hello" + "o" * 1000
    assert len(str(error)) < 200
    assert "received 'hello" in str(error)


@law
@given(ROWS, st.data(), st.sampled_from("\t,;"))
def test_a_table_reads_back_as_it_was_written(rows, data, delimiter):
    labels = tuple(f"w{label}" for label in data.draw(st.lists(LABELS, min_size=len(rows), max_size=len(rows))))
    for given_labels in (None, labels):
        pasted = paste.read(block(rows, given_labels, delimiter, quoting=csv.QUOTE_ALL))
        assert repr(pasted.rows) == repr(tuple(map(tuple, rows)))
        assert pasted.labels == given_labels


@law
@given(ROWS, st.sampled_from("\t;"))
def test_decimal_commas_are_read_as_they_were_written_or_refused(rows, delimiter):
    rows = [[*row, 7.0] for row in rows]  # with one column alone, a comma would divide two
    result = outcome(paste.read, block(rows, None, delimiter, decimal=","))
    if isinstance(result, PasteError):
        assert "; write " in result.rule
    else:
        assert repr(result.rows) == repr(tuple(map(tuple, rows)))


@law
@given(st.lists(st.from_regex(r"[0-9]{0,4}[.,]?[0-9]{0,4}", fullmatch=True), min_size=1, max_size=4))
def test_a_number_with_a_comma_is_its_decimal_or_refused(fields):
    result = outcome(paste.read, "\t".join(("0", *fields)))
    if isinstance(result, Pasted):
        assert result.rows == ((0.0, *(float(field.replace(",", ".")) for field in fields)),)


# --- labels that a spreadsheet would take for formulas --------------------------------------------------------------


@pytest.mark.parametrize(
    "label", ["=1+1", "+1", "-x", "@x", "\t=1", "\rx", " =1", "＝1+1", "'=1", "''@x", "=cmd|'/C x'!A"]
)
def test_a_formula_gets_an_apostrophe_and_loses_it_again(label):
    assert paste.harmless(label) == f"'{label}"
    assert paste.as_typed(paste.harmless(label)) == label


@pytest.mark.parametrize("label", ["", "a", "a=1", "'", "'a", "1", "−1", "<b>"])
def test_other_text_stays_as_it_is(label):
    assert paste.harmless(label) == label == paste.as_typed(label)


@law
@given(st.text("'=+-@\t\r\n a＝", max_size=8))
def test_no_harmless_text_begins_a_formula_and_each_is_undone(label):
    safe = paste.harmless(label)
    assert safe[:1] not in set("=+-@\t\r\n＝")
    assert paste.as_typed(safe) == label


# --- brackets -------------------------------------------------------------------------------------------------------

TENSOR = torch.tensor([[1.16, 0.23], [0.57, 1.36], [4.41, -2.16]])
LESSON = ((1.16, 0.23), (0.57, 1.36), (4.41, -2.16))


@pytest.mark.parametrize(
    ("text", "rows", "kind"),
    [
        (str(TENSOR), LESSON, "PyTorch tensor, 3 rows × 2 numbers"),
        (str(torch.nn.Parameter(TENSOR)), LESSON, "PyTorch tensor, 3 rows × 2 numbers"),
        (str(TENSOR.double()), LESSON, "PyTorch tensor, 3 rows × 2 numbers"),
        (str(TENSOR.requires_grad_() * 1), LESSON, "PyTorch tensor, 3 rows × 2 numbers"),
        (repr(np.array(LESSON)), LESSON, "NumPy array, 3 rows × 2 numbers"),
        (repr(np.array(LESSON, dtype=np.float32)), LESSON, "NumPy array, 3 rows × 2 numbers"),
        (str(np.array(LESSON)), LESSON, "NumPy array, 3 rows × 2 numbers"),
        (repr([list(row) for row in LESSON]), LESSON, "nested lists, 3 rows × 2 numbers"),
        (json.dumps(LESSON, indent=2), LESSON, "nested lists, 3 rows × 2 numbers"),
        (
            "tensor([[1., 2.],\n        [3., 4.]], device='cuda:0', dtype=torch.float64,\n     grad_fn=<MmBackward0>)",
            SQUARE,
            "PyTorch tensor, 2 rows × 2 numbers",
        ),
        ("tensor([[ 1.0000e+00, -2.5000e-03]])", ((1.0, -0.0025),), "PyTorch tensor, 1 row × 2 numbers"),
        ("encodings_matrix = torch.tensor([[1, 2],\r\n [3, 4]])\n", SQUARE, "PyTorch tensor, 2 rows × 2 numbers"),
        ("np.array([[1, 2,], [3, 4,],])", SQUARE, "NumPy array, 2 rows × 2 numbers"),
        ("array([[1.e+00, 2.e+00],\n       [3.e+00, 4.e+00]])", SQUARE, "NumPy array, 2 rows × 2 numbers"),
        ("[[1. 2.]\n [3. 4.]]", SQUARE, "NumPy array, 2 rows × 2 numbers"),
        ("[1, 2]", ((1.0, 2.0),), "nested lists, 1 row × 2 numbers"),
        ("  [ [1] ,\n[ 2 ] ]  ", ((1.0,), (2.0,)), "nested lists, 2 rows × 1 number"),
    ],
)
def test_a_printed_matrix_is_read(text, rows, kind):
    assert paste.read(text) == Pasted(None, rows, kind)


@pytest.mark.parametrize(
    ("text", "line", "character", "said"),
    [
        pytest.param(str(torch.zeros(64, 64)), 1, 23, "is shortened; print all of it", id="shortened"),
        ("[[0. 0. ... 0. 0.]]", 1, 9, "is shortened; print all of it"),
        ("tensor([[1., nan]])", 1, 14, "is not a number"),
        ("[[1, 2],\n [3, inf]]", 2, 6, "is not a number"),
        ("[[1, 1e400]]", 1, 6, "must lie between"),
        ("[[1, None]]", 1, 6, "is not a number"),
        ("[[1, 'a']]", 1, 6, "is not a number"),
        ("[[1, (2)]]", 1, 6, "is not a number"),
        ("[[1,5 2,5]]", 1, 7, "must have commas between all numbers, or spaces between all"),
        ("[[1, 2] [3, 4]]", 1, 9, "must have commas between all numbers, or spaces between all"),
        ("[[1][2]]", 1, 5, "must have commas between all numbers, or spaces between all"),
        ("[[1,, 2]]", 1, 5, "must have a number before each comma"),
        ("[[,1]]", 1, 3, "must have a number before each comma"),
        ("[[1, 2],\n [3]]", 2, 4, "must have 2 numbers, as the first row has"),
        ("[[1], 2]", 1, 7, "must hold rows or numbers, not both"),
        ("[1, [2]]", 1, 5, "must hold rows or numbers, not both"),
        ("[[[1]]]", 1, 3, "must have two levels of brackets"),
        pytest.param("[" * 100_000, 1, 3, "must have two levels of brackets", id="deep"),
        ("[]", 1, 2, "must hold a number"),
        ("tensor([], size=(0, 2))", 1, 9, "must hold a number"),
        ("tensor(3.)", 1, 8, "must begin with a bracket"),
        ("[[1, 2]", 1, 8, "must have a closing bracket"),
        ("tensor([[1, 2]]", 1, 16, "must have a closing bracket for tensor("),
        ("[[1, 2]] + 1", 1, 10, "must end with the last bracket"),
        ("tensor([[1, 2]]) + 1", 1, 16, "must end with the last bracket"),
        ("[[1, 2]]\n[[3, 4]]", 2, 1, "must end with the last bracket"),
        ("[" + "[1]," * 65 + "]", 1, 258, "must have at most 64 rows"),
        ("[[" + "1," * 65 + "]]", 1, 131, "must have at most 64 numbers in a row"),
    ],
)
def test_whatever_is_no_matrix_in_brackets_is_refused_at_its_place(text, line, character, said):
    error = refusal(text)
    assert (error.line, error.column, error.unit) == (line, character, "character")
    assert error.rule.startswith(said)
    assert str(error).startswith(f"line {line}, character {character}: {said}")


@law
@given(ROWS)
def test_lists_and_exactly_printed_arrays_read_back_exactly(rows):
    exact = tuple(map(tuple, rows))
    array = np.array(rows)
    with np.printoptions(floatmode="unique", threshold=10_000, linewidth=200):
        texts = [repr(rows), json.dumps(rows), repr(array), str(array)]
    for text in texts:
        assert paste.read(text).rows == exact, text


@law
@given(ROWS.map(lambda rows: [[x / 7 for x in row] for row in rows]))
def test_a_tensor_reads_back_to_the_digits_that_pytorch_prints(rows):
    tensor = torch.tensor(rows, dtype=torch.float64)
    read = torch.tensor(paste.read(str(tensor)).rows, dtype=torch.float64)
    torch.testing.assert_close(read, tensor, rtol=0.5e-4, atol=0.5e-4)


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_of_text_is_read_in_every_encoding_that_says_which_it_is(codec):
    text = "שלום\t1\t2\n家\t3\t4\n"
    assert paste.read_bytes(text.encode(codec)).labels == ("שלום", "家")
    assert paste.read_bytes(text.encode(codec)).rows == SQUARE


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return content.getvalue()


def saved(save) -> bytes:
    content = io.BytesIO()
    save(content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("data", "line", "character", "said"),
    [
        (zipped(), 1, 1, "is an Excel workbook or a zip; save it as CSV"),
        (saved(lambda into: torch.save(TENSOR, into)), 1, 1, "is an Excel workbook or a zip; save it as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 1, 1, "is an old Excel workbook; save it as CSV"),
        *((pickle.dumps([[1.0]], protocol), 1, 1, "is a Python pickle") for protocol in (2, 3, 4, 5)),
        (saved(lambda into: np.save(into, np.eye(2))), 1, 1, "is NumPy's own format"),
        (b"\x1f\x8b\x08", 1, 1, "is compressed"),
        (b"%PDF-1.7", 1, 1, "is a PDF"),
        ("1;2\ncaf\u00e9;3".encode("latin-1"), 2, 4, "must be text; save the file as UTF-8"),
        ("1;2".encode("utf-16-le"), 1, 2, "must be text, which has no zero bytes"),
        (b"\xff\xfe1", 1, 3, "must be text"),
    ],
)
def test_a_file_that_is_no_text_is_refused_in_words_that_help(data, line, character, said):
    error = refusal(data)
    assert (error.line, error.column) == (line, character)
    assert error.rule.startswith(said)


def test_a_pickle_of_the_old_kind_is_read_as_text_and_refused():
    refusal(pickle.dumps([[1.0]], 0))


# --- sizes ----------------------------------------------------------------------------------------------------------

MB = paste.MOST_BYTES

HUGE = {
    "2 MB in one line, a million columns": "1," * 10**6,
    "one line of commas": "," * MB,
    "1 MB in one line": "1," * (MB // 2),
    "tabs after a label": "a" + "\t1" * (MB // 2 - 1),
    "wide fields": "12345;" * (MB // 6),
    "letters of another script": "é\t" * (MB // 3),
    "rows": "1\n" * (MB // 2),
    "line breaks": "\n" * MB,
    "carriage returns": "\r" * MB,
    "blanks": " " * MB,
    "quotation marks": '"' * MB,
    "quoted fields": '"1",' * (MB // 4),
    "a quotation mark that never closes": '"' + "1," * 9000 + "x" * (MB - 20_000),
    "half-open quotation marks": ',"""' * 4000,
    "one field": "1" * MB,
    "words": "ab " * (MB // 3),
    "emoji": "👍" * (MB // 4),
    "brackets": "[" * MB,
    "pairs of brackets": "[]," * (MB // 3),
    "nested lists": "[" + "[1]," * (MB // 4 - 1) + "]",
    "a long list": "[" + "1," * (MB // 2 - 1) + "]",
    "a long list with blanks": "[" + "1 " * (MB // 2 - 1) + "]",
    "blanks in a list": "[[1" + " " * (MB - 10) + "]]",
    "blanks after a tensor": "tensor([[1]]" + " " * (MB - 20),
    "commas after a tensor": "tensor([[1]]" + ", " * (MB // 2 - 10),
    "a long name": "x" * (MB - 1),
    "a long name, then brackets": "x" * (MB - 10) + " = [[1]]",
    "apostrophes": "'" * (MB - 3) + "\t1",
    "blanks before an object": " " * (MB - 2) + "{x",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_no_text_needs_more_than_20_mib(text):
    paste.read("1,2")  # what is loaded once is not counted
    tracemalloc.start()
    try:
        result = outcome(paste.read, text)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()
    assert isinstance(result, PasteError) or text == HUGE["blanks in a list"]


def test_a_file_too_large_is_refused_before_it_is_decoded():
    assert refusal(b"\xff" * (MB + 1)).rule == "must be at most 1 MB"
    assert refusal("1" * (MB + 1)).rule == "must be at most 1 MB"
    assert refusal("é" * (MB // 2 + 1)).rule == "must be at most 1 MB"


def test_a_million_columns_are_counted_and_not_parsed():
    error = refusal("1,2\n" + "1," * (MB // 2 - 2))
    assert (error.line, error.column, error.value) == (2, 65, "524,287 commas")


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize(("n", "m"), [(64, 64), (65, 64), (64, 65)])
def test_the_largest_table_is_read_and_the_next_is_not(n, m, labelled):
    labels = ["x" * 64] * n if labelled else None
    result = outcome(paste.read, block([[-123456.789] * m] * n, labels))
    assert isinstance(result, Pasted) == (n <= LIMITS.tokens and m <= LIMITS.dimensions)


# --- fuzzing --------------------------------------------------------------------------------------------------------

TABLE_LIKE = st.text("0123456789.,;\t\n\r \"'+-−eEanifd_%[](){}=", max_size=60)
PIECES = ["tensor(", "array(", "torch.", "x=", "[", "[[", "]", "]]", ",", "1", "2.", "-3e1", "...", ")", "(", "nan"]
PIECES += [" ", "\n", "\ufeff", "dtype=float32", "grad_fn=<M>", "Parameter containing:"]
MATRIX_LIKE = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)


def check(result: Pasted | PasteError) -> None:
    if isinstance(result, Pasted):
        assert is_sane(result)
        return
    assert result.line >= 1
    assert result.column >= 1
    place = f"line {result.line}, {result.unit} {result.column}"
    assert str(result).startswith(f"{place}: {result.rule}; received ")


@law
@given(st.one_of(st.text(), TABLE_LIKE, MATRIX_LIKE))
def test_any_text_is_read_within_the_limits_or_refused_at_its_place(text):
    check(outcome(paste.read, text))


@law
@given(st.one_of(st.binary(), TABLE_LIKE.map(str.encode), st.text().map(lambda text: text.encode("utf-16"))))
def test_any_bytes_are_read_within_the_limits_or_refused_at_their_place(data):
    check(outcome(paste.read_bytes, data))


@law
@given(st.text("0123456789+-.eE−_ %'１２nainfx", max_size=12))
def test_a_field_is_a_number_exactly_if_the_grid_takes_it(text):
    try:
        expected = repr(grid.number(text))
    except ValueError:
        expected = None
    result = outcome(paste.read, f"0\t{text}")
    assert (repr(result.rows[0][1]) if isinstance(result, Pasted) else None) == expected
