"""Numbers from elsewhere: a pasted or uploaded block of text is read as one matrix, or refused at a place it names."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn

from attention import grid
from attention.experiment import LIMITS, Matrix

MOST_BYTES = 2**20
"""1 MB, the size of the largest file or text that is looked at."""

MOST_SIGNS = 20_000
"""Commas, tabs, line breaks and so on, of each kind: more than the largest table with the longest labels can hold."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60

Unit = Literal["column", "character"]


class PasteError(ValueError):
    """What is wrong with a text, and where: `line` and `column` (from 1), `rule`, the `value` received.

    unit  what `column` counts: "column" is a field of a table, the labels' column included; "character" is a place in
          a line of brackets or JSON

        >>> read("1,5;1_000")
        Traceback (most recent call last):
        attention.paste.PasteError: line 1, column 2: is not a number; write 1000; received '1_000'
    """

    def __init__(self, line: int, column: int, rule: str, value: object, unit: Unit = "column") -> None:
        self.line, self.column, self.rule, self.value, self.unit = line, column, rule, value, unit
        super().__init__(f"line {line}, {unit} {column}: {rule}; received {_short.repr(value)}")


@dataclass(frozen=True)
class Pasted:
    """A matrix as it was read: a label for each row, or None; rows of equal length; and in words what it was.

    1 to 64 rows of 1 to 64 finite numbers, |x| <= 1e6; labels of up to 64 characters.
    kind is such as "tab-separated, 3 rows × 2 numbers, labels in the first column".
    """

    labels: tuple[str, ...] | None
    rows: Matrix
    kind: str


def read(text: str) -> Pasted:
    """Read a block of numbers: a spreadsheet's cells, CSV, nested lists, or a tensor or array as it is printed.

    table     fields between tabs, semicolons or commas, quoted as in CSV. A first column of text is the labels; a
              first row of words is a header and left out. Where fields are apart by tabs or semicolons, or quoted, a
              decimal comma is understood if the whole block has one meaning, and refused otherwise: `1,234` alone may
              be 1.234 or 1234
    brackets  [[1, 2], [3, 4]], tensor([[1., 2.]], device='cuda:0', grad_fn=<...>), array([[1., 2.]]), and what NumPy's
              print shows, [[1. 2.] [3. 4.]]. A flat list is one row. Summarised ones ("...") are refused

    Numbers follow `grid.number`'s grammar. At most 1 MB; sizes are counted before anything is parsed.
    Raises PasteError.

        >>> read("a\\t1,5\\t2\\nb\\t3\\t-4")
        Pasted(labels=('a', 'b'), rows=((1.5, 2.0), (3.0, -4.0)), \
kind='tab-separated, 2 rows × 2 numbers, labels in the first column, decimal commas')
    """
    check_size(text)
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise PasteError(1, 1, "must hold numbers", "nothing")
    if call := _CALL.match(text):
        return _brackets(text, call.end(), call[1])
    if is_object(text):
        raise PasteError(1, 1, "must be a table or a matrix, not a JSON object", text.strip())
    if bare := _LIST.match(text):
        return _brackets(text, bare.end(), None)
    return _table(text)


def read_bytes(data: bytes) -> Pasted:
    """Read an uploaded file of text as `read` does. Raises PasteError."""
    return read(decode(data))


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, or UTF-16 with a byte order mark; at most 1 MB. Nothing in it is ever executed.

    Raises PasteError for anything else, and says what to do about workbooks, archives and pickles.
    """
    if len(data) > MOST_BYTES:
        raise PasteError(1, 1, "must be at most 1 MB", f"{len(data):,} bytes")
    for magic, rule in _FOREIGN:
        if data.startswith(magic):
            raise PasteError(1, 1, rule, data[:8])
    codec = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise PasteError(
            line, column, "must be text; save the file as UTF-8", data[error.start : error.start + 1], "character"
        ) from None
    if "\0" in text:
        _refuse(text, text.index("\0"), "must be text, which has no zero bytes", "\0")
    return text


def is_object(text: str) -> bool:
    """Is it a JSON object, such as `files.to_json` writes, rather than a block of numbers?"""
    return bool(_OBJECT.match(text))


# what a file begins with, if it is no text
_FOREIGN = (
    (b"PK", "is an Excel workbook or a zip; save it as CSV"),
    (b"\xd0\xcf\x11\xe0", "is an old Excel workbook; save it as CSV"),
    (b"\x80", "is a Python pickle, which may run programs; save the numbers as CSV or .safetensors"),
    (b"\x93NUMPY", "is NumPy's own format; save it as CSV with numpy.savetxt"),
    (b"\x1f\x8b", "is compressed; unpack it first"),
    (b"%PDF", "is a PDF; copy the table out of it"),
)


def check_size(text: str) -> None:
    """Refuse a text of more than 1 MB. Raises PasteError."""
    size = len(text) if len(text) > MOST_BYTES else len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise PasteError(1, 1, "must be at most 1 MB", f"{size:,} bytes")


def _refuse(text: str, at: int, rule: str, value: object) -> NoReturn:
    """Raise the error that names the line and the character of a place in the text."""
    line, column = place(text, at)
    raise PasteError(line, column, rule, value, "character")


def place(text: str, at: int) -> tuple[int, int]:
    """Line and character, from 1, of a position in a text."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _size_words(rows: Matrix) -> str:
    n, m = len(rows), len(rows[0])
    return f"{n} {'row' if n == 1 else 'rows'} × {m} {'number' if m == 1 else 'numbers'}"


# --- tables ---------------------------------------------------------------------------------------------------------

_NAMES = {"\t": "tab-separated", ";": "semicolon-separated", ",": "comma-separated", "": "one number a line"}
_SIGN_WORDS = {"\n": "line breaks", "\r": "line breaks", "\t": "tabs", ";": "semicolons", ",": "commas", '"': "quotes"}
_LABEL_HEADS = ("", "token", "tokens", "label", "labels")

# what a person meant as a number, right or wrong: it must never pass for a label or a header
_NUMBER_LIKE = re.compile(r"[+-]?([.,]?\d|(nan|inf|infinity)$)", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")


class _Cell(NamedTuple):
    line: int
    column: int
    text: str


def _table(text: str) -> Pasted:
    _count_signs(text)
    delimiter = _delimiter(text)
    # a header, 64 rows, and one too many: the rest need not be read to be refused
    records = itertools.islice(_records(text, delimiter or ","), LIMITS.tokens + 2)
    table = [[_Cell(line, j, field) for j, field in enumerate(fields, start=1)] for line, fields in records]
    if not table:
        raise PasteError(1, 1, "must hold numbers", "empty fields")
    header = _has_header(table)
    body = table[1:] if header else table
    labelled = _has_labels(body, _plain(table[0][0].text).casefold() if header else None)
    _check_shape(body, labelled)
    cells = [row[1:] if labelled else row for row in body]
    if delimiter == ",":
        _check_spaces(body)
    decimal_commas = _has_decimal_commas(cells)
    rows = tuple(tuple(_number(cell, delimiter, decimal_commas) for cell in row) for row in cells)
    labels = tuple(_label(row[0]) for row in body) if labelled else None
    words = [_NAMES[delimiter], _size_words(rows)]
    words += ["labels in the first column"] * labelled + ["header left out"] * header
    words += ["decimal commas"] * decimal_commas
    return Pasted(labels, rows, ", ".join(words))


def _count_signs(text: str) -> None:
    """Refuse a text with more fields or lines than any table within the limits, before anything is split."""
    for sign, noun in _SIGN_WORDS.items():
        count = text.count(sign)
        if count <= MOST_SIGNS:
            continue
        if noun == "line breaks":
            raise PasteError(LIMITS.tokens + 1, 1, f"must have at most {LIMITS.tokens} rows", f"{count:,} {noun}")
        # most such files have one line that is too wide: name it
        lines = enumerate(io.StringIO(text), start=1)
        line = next((i for i, words in lines if words.count(sign) > LIMITS.dimensions), 1)
        rule = f"must have at most {LIMITS.dimensions} numbers in a row"
        raise PasteError(line, LIMITS.dimensions + 1, rule, f"{count:,} {noun}")


def _delimiter(text: str) -> str:
    """What lies between the fields: a tab if there is one, else a semicolon, else a comma; "" for a single column."""
    unquoted = re.sub(r'"[^"]*"', "", text)
    # a lone quotation mark in a field can hide everything after it: look there, too, before giving up
    return next((sign for where in (unquoted, text) for sign in "\t;," if sign in where), "")


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The line on which each record begins, and its fields; records without any text are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        rule = "must have a quotation mark at each end of a quoted field, and doubled ones within"
        if "limit" in str(error):
            rule = "must not have a field that long"
        record = next(itertools.islice(io.StringIO(text, newline=""), line - 1, None), "")
        column = next((j for j, field in enumerate(record.split(delimiter), start=1) if field.startswith('"')), 1)
        raise PasteError(line, column, rule, record.rstrip("\r\n")) from None


def _plain(text: str) -> str:
    return text.strip(" \t\r\n\u00a0").replace("\u2212", "-")


def _is_number_like(text: str) -> bool:
    return bool(_NUMBER_LIKE.match(_plain(text)))


def _has_header(table: list[list[_Cell]]) -> bool:
    """Is the first row a header? It is if a word begins each field (the first may be empty) and a row follows."""
    names = [_plain(cell.text) for cell in table[0]]
    needed = names if names[0] else names[1:]
    return (
        len(table) > 1
        and bool(needed)
        and all((name[:1].isalpha() or name[:1] == "_") and not _is_number_like(name) for name in needed)
    )


def _has_labels(body: list[list[_Cell]], head: str | None) -> bool:
    """Is the first column labels? The header says so, or no field of it looks like a number; never a mixture."""
    firsts = [row[0] for row in body]
    if max(map(len, body)) == 1:
        return False
    if head in _LABEL_HEADS:
        return True
    numbers = [cell for cell in firsts if _is_number_like(cell.text)]
    texts = [cell for cell in firsts if cell.text.strip() and not _is_number_like(cell.text)]
    if numbers and texts:
        rule = f"must be a number, as on line {numbers[0].line}, or the first column be labels with the heading `token`"
        raise PasteError(texts[0].line, 1, rule, texts[0].text)
    return not numbers


def _check_shape(body: list[list[_Cell]], labelled: bool) -> None:
    if len(body) > LIMITS.tokens:
        raise PasteError(body[LIMITS.tokens][0].line, 1, f"must have at most {LIMITS.tokens} rows", "more rows")
    first = body[0]
    for row in body:
        line, count = row[0].line, len(row) - labelled
        if count > LIMITS.dimensions:
            rule = f"must have at most {LIMITS.dimensions} numbers in a row"
            raise PasteError(line, LIMITS.dimensions + labelled + 1, rule, count)
        if count == 0:
            raise PasteError(line, 2, "must have numbers beside the label", "none")
        if len(row) != len(first):
            rule = f"must have {len(first)} columns, as line {first[0].line} has"
            raise PasteError(line, min(len(row), len(first) + 1), rule, len(row))


def _check_spaces(body: list[list[_Cell]]) -> None:
    """Refuse `1,4, 3,5`, where some commas may divide numbers and others be part of one."""
    for row in body:
        spaced = [cell for cell in row[1:] if cell.text.startswith(" ")]
        if 0 < len(spaced) < len(row) - 1 and not any("." in c.text for c in row if _is_number_like(c.text)):
            rule = "is unclear, with a space after some commas only; put tabs or semicolons between numbers"
            raise PasteError(spaced[0].line, spaced[0].column, rule, ",".join(cell.text for cell in row))


def _has_decimal_commas(cells: list[list[_Cell]]) -> bool:
    """Are decimal commas meant? Only where no number has a point, and one cannot be read in another way."""
    numbers = [(cell, _plain(cell.text)) for row in cells for cell in row]
    point = next((cell for cell, text in numbers if "." in text and "," not in text), None)
    certain = False
    for cell, text in numbers:
        if "," not in text:
            continue
        if "." in text:
            raise PasteError(cell.line, cell.column, f"has both a point and a comma; {_one_sign(text)}", cell.text)
        if _DECIMAL_COMMA.fullmatch(text):
            if point:
                rule = f"has a comma, but line {point.line}, column {point.column} a point; use points alone"
                raise PasteError(cell.line, cell.column, rule, cell.text)
            certain = certain or not _PERHAPS_THOUSANDS.fullmatch(text)
    return certain


def _one_sign(text: str) -> str:
    """What to write for a number with thousands signs: the last sign is the decimal one."""
    comma, point = text.rfind(","), text.rfind(".")
    written = text.replace(".", "").replace(",", ".") if comma > point else text.replace(",", "")
    try:
        grid.number(written)
    except ValueError:
        return "write digits with a point, such as 1.5"
    return f"write {written}"


def _number(cell: _Cell, delimiter: str, decimal_commas: bool) -> float:
    text = _plain(cell.text)
    try:
        if decimal_commas and _DECIMAL_COMMA.fullmatch(text):
            return grid.number(text.replace(",", "."))
        return grid.number(cell.text)
    except ValueError as error:
        rule = str(error)
        if delimiter in ("", ",") and re.search(r"\S\s+\S", text[:100]):
            rule = "is not a number; put tabs, semicolons or commas between numbers"
        raise PasteError(cell.line, cell.column, rule, cell.text) from None


def _label(cell: _Cell) -> str:
    label = as_typed(cell.text)
    if len(label) > LIMITS.label_characters:
        raise PasteError(cell.line, 1, f"must have at most {LIMITS.label_characters} characters", label)
    return label


# --- labels in a table ----------------------------------------------------------------------------------------------

# what a spreadsheet takes for a formula, also after blanks, and also in full width; with the apostrophes before it
_FORMULA = re.compile(r"'*(\s*[=+\-@＝＋－＠]|[\t\r\n])")


def harmless(text: str) -> str:
    """A text as a table may hold it: an apostrophe goes before one that a spreadsheet would take for a formula.

        >>> harmless("=1+1"), harmless("a=b"), as_typed(harmless("=1+1"))
        ("'=1+1", 'a=b', '=1+1')

    One more goes before a text that has apostrophes already, so that `as_typed` undoes it for every text.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def as_typed(text: str) -> str:
    """The text that `harmless` made harmless; any other as it is."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


# --- brackets -------------------------------------------------------------------------------------------------------

_NAME = r"\s*+(?:[^\W\d]\w{0,63} ?= ?)?"
_CALL = re.compile(_NAME + r"(?:Parameter containing:\s*+)?(?:(?:torch|np|numpy)\.)?(tensor|array)\(")
# a label such as [CLS] also begins with a bracket
_LIST = re.compile(_NAME + r"(?=\[\s*+[\[\]+\-−.\d])")
_OBJECT = re.compile(r'\ufeff?\s*+\{\s*+["}]')
_TOKEN = re.compile(r"\s+|[\[\],()]|[^\s\[\],()]+")
_KEYWORDS = re.compile(
    r"(, *(dtype|device|requires_grad|grad_fn) *= *(<[^<>]*>|'[^']*'|[\w.]+))*,?\)", re.ASCII | re.DOTALL
)


def _brackets(text: str, start: int, call: str | None) -> Pasted:
    """Read the brackets from `start` on; call is the function around them, "tensor" or "array", or None."""
    nested = _Nested(text)
    end = len(text)
    for token in _TOKEN.finditer(text, start):
        nested.take(token.group(), token.start())
        if nested.done:
            end = token.end()
            break
    if not nested.done:
        _refuse(text, end, "must have a closing bracket for each opening one", "the end")
    rest = text[end:].strip()
    if rest and not (call and len(rest) < 200 and _KEYWORDS.fullmatch(" ".join(rest.split()))):
        _refuse(text, end + len(text[end:]) - len(text[end:].lstrip()), "must end with the last bracket", rest)
    if call and not rest:
        _refuse(text, end, f"must have a closing bracket for {call}(", "the end")
    kind = {"tensor": "PyTorch tensor", "array": "NumPy array"}.get(
        call or "", "NumPy array" if nested.divider == " " else "nested lists"
    )
    rows = nested.rows()
    return Pasted(None, rows, f"{kind}, {_size_words(rows)}")


class _Nested:
    """Lists within a list, read token by token; sizes are checked as they grow."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lists: list[list[float]] = []
        self._flat: list[float] = []
        self._depth = 0
        # what came since the last number or closed list: "[", " ", ",", or "" for nothing
        self._gap = "["
        self.divider: str | None = None
        self.done = False

    def rows(self) -> Matrix:
        """The rows; a flat list is one."""
        return tuple(map(tuple, self._lists)) or (tuple(self._flat),)

    def take(self, sign: str, at: int) -> None:
        """Read the next sign, which stands at this position. Raises PasteError."""
        if sign.isspace():
            self._gap = self._gap or " "
        elif sign == ",":
            if self._gap in ("[", ","):
                self._refuse(at, "must have a number before each comma", sign)
            self._gap = ","
        elif sign == "]":
            self._close(at)
        elif sign == "[":
            self._open(at)
        else:
            self._number(sign, at)

    def _open(self, at: int) -> None:
        self._divide(at)
        if self._depth == 2:
            self._refuse(at, "must have two levels of brackets, as a matrix has; paste one matrix", "a third level")
        if self._depth == 1:
            if self._flat:
                self._refuse(at, "must hold rows or numbers, not both", "[")
            if len(self._lists) == LIMITS.tokens:
                self._refuse(at, f"must have at most {LIMITS.tokens} rows", "one more")
            self._lists.append([])
        self._depth += 1
        self._gap = "["

    def _close(self, at: int) -> None:
        row = self._lists[-1] if self._lists else self._flat
        if not row:
            self._refuse(at, "must hold a number", "[]")
        if len(row) != (expected := len(self._lists[0] if self._lists else row)):
            self._refuse(at, f"must have {expected} numbers, as the first row has", len(row))
        self._depth -= 1
        self._gap = ""
        self.done = self._depth == 0

    def _number(self, token: str, at: int) -> None:
        if token.startswith("..."):
            self._refuse(
                at,
                "is shortened; print all of it, after torch.set_printoptions(threshold=10_000) or numpy's",
                token,
            )
        if self._depth == 0:
            self._refuse(at, "must begin with a bracket", token)
        if self._depth == 1 and self._lists:
            self._refuse(at, "must hold rows or numbers, not both", token)
        self._divide(at)
        row = self._flat if self._depth == 1 else self._lists[-1]
        if len(row) == LIMITS.dimensions:
            self._refuse(at, f"must have at most {LIMITS.dimensions} numbers in a row", "one more")
        try:
            row.append(grid.number(token))
        except ValueError as error:
            self._refuse(at, str(error), token)
        self._gap = ""

    def _divide(self, at: int) -> None:
        """A number or list begins: check that a divider came before it, and everywhere the same."""
        if self._gap == "[":
            return
        if not self._gap or self._gap != (self.divider or self._gap):
            self._refuse(at, "must have commas between all numbers, or spaces between all", self._text[at : at + 20])
        self.divider = self._gap

    def _refuse(self, at: int, rule: str, value: object) -> NoReturn:
        _refuse(self._text, at, rule, value)
