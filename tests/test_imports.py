"""The engine needs torch alone, and what its docstrings show is what it does."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import attention

ROOT = Path(__file__).parent.parent
VIEWS = {"drawings", "figures", "ui"}
"""What may import plotly (figures for heatmaps, drawings for arrows and lines) or streamlit; all else is the engine."""

ENGINE = [
    "attention",
    *(f"attention.{m.name}" for m in pkgutil.iter_modules(attention.__path__) if m.name not in VIEWS),
]


def clean_process(code: str) -> str:
    """What the code prints in a Python that has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_engine_loads_no_streamlit_plotly_or_pandas():
    imports = "".join(f"import {name}; " for name in ENGINE)
    code = f"import sys; {imports}print([m for m in ('streamlit', 'plotly', 'pandas') if m in sys.modules])"
    assert clean_process(code) == "[]"


def test_the_engine_computes_where_streamlit_plotly_and_pandas_cannot_be_imported():
    code = (
        "import sys; sys.modules.update(streamlit=None, plotly=None, pandas=None); import attention; "
        "trace = attention.run(attention.lessons.masked_self_attention()); print(round(trace.output[2, 0].item(), 4))"
    )
    assert clean_process(code) == "3.4989"


@pytest.mark.parametrize("name", ENGINE)
def test_docstrings_show_what_happens(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", ["attention", "attention.limits", "attention.masks"])
def test_there_are_examples_to_check(name):
    assert doctest.testmod(importlib.import_module(name)).attempted > 0


def test_every_public_name_is_there():
    assert all(hasattr(attention, name) for name in attention.__all__)
    assert len(set(attention.__all__)) == len(attention.__all__)
