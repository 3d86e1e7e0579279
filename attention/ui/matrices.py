"""Small matrices side by side as tables of text, in groups with a title: a Streamlit v2 component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attention.ui import components

_component = components.made("matrices")


class Cell(NamedTuple):
    """A cell's text and how it stands out: "hidden" hatched, "apart" with a ≠ before it, "picked" framed."""

    text: str
    look: str = ""


class Table(NamedTuple):
    """A titled table; `note` stands under the title. All of it is text, never read as HTML or Markdown."""

    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[str]
    cells: Sequence[Sequence[Cell]]


class Group(NamedTuple):
    """Tables that belong together, under a title."""

    title: str
    tables: Sequence[Table]


def show(groups: Sequence[Group], key: str) -> None:
    """Put the groups on the page, each on a line of its own."""
    # in a list, because Streamlit would import pandas to look for data frames in a dict
    _component(key=key, data=[[[group.title, [table._asdict() for table in group.tables]] for group in groups]])
