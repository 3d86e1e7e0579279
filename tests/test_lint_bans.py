"""What no line of the app may do: run what it reads, draw from or set what all sessions share, keep without an end."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [
    *sorted(path for folder in ("attention", "pages", "deploy") for path in (ROOT / folder).rglob("*.py")),
    ROOT / "app.py",
]

CODE_IN_DATA = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle"}
RUNS = {"eval", "exec", "compile", "__import__"}
"""Built-in functions that make code of text."""

LOADS = {"torch.load", "torch.jit.load", "torch.hub.load", "torch.package.PackageImporter", "numpy.load", "np.load"}
LOADS |= {"pandas.read_pickle", "pd.read_pickle", "yaml.load", "yaml.unsafe_load", "runpy.run_path", "runpy.run_module"}
SHELLS = {"os.system", "os.popen"}

SEEDS = {f"torch.{name}" for name in ("manual_seed", "seed", "set_rng_state", "initial_seed")}
SEEDS |= {
    f"torch.{part}.{name}" for part in ("random", "cuda", "mps", "xpu") for name in ("manual_seed", "seed", "fork_rng")
}
SEEDS |= {"torch.cuda.manual_seed_all", "random.seed", "np.random.seed", "numpy.random.seed"}
SETTINGS = {f"torch.set_{name}" for name in ("default_dtype", "default_device", "num_threads", "num_interop_threads")}
SETTINGS |= {
    f"torch.set_{name}" for name in ("grad_enabled", "printoptions", "float32_matmul_precision", "flush_denormal")
}
SETTINGS |= {"torch.use_deterministic_algorithms", "torch.set_deterministic_debug_mode"}
SETTINGS_AT = ROOT / "attention" / "ui" / "process.py"
"""Where the settings of the whole process are made, once."""


def banned(source: str, settings: bool = False) -> list[str]:
    """What of a module's source is banned: "line: what". `settings` allows those of the process."""
    return [
        f"{getattr(node, 'lineno', 0)}: {words}"
        for node in ast.walk(ast.parse(source))
        for words in _of(node, settings)
    ]


def _of(node: ast.AST, settings: bool) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        names = [f"{module}.{alias.name}" for module in modules for alias in node.names]
        yield from (module for module in modules if module.partition(".")[0] in CODE_IN_DATA)
        # under another name it could not be found where it is called
        yield from (name for name in names if name in LOADS | SEEDS | SETTINGS | SHELLS | {"functools.cache"})
    elif isinstance(node, ast.Call):
        yield from _of_call(node, settings)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (f"@{_name(each)}" for each in node.decorator_list if _name(each) in ("functools.cache", "cache"))
        yield from (f"@{_name(each)}" for each in node.decorator_list if _streamlit_cache(_name(each)))


def _of_call(call: ast.Call, settings: bool) -> Iterator[str]:
    name = _name(call.func)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if name in RUNS | LOADS | SHELLS | SEEDS or (name in SETTINGS and not settings):
        yield name
    for argument in ("unsafe_allow_html", "unsafe_allow_javascript", "allow_pickle", "shell"):
        if argument in given and not _is(given[argument], False):
            yield argument
    if name.rpartition(".")[2] == "lru_cache":
        size = given.get("maxsize", call.args[0] if call.args else ast.Constant(128))
        if _is(size, None):
            yield "lru_cache without an end"
    if name in ("functools.cache", "cache"):
        yield name
    if _streamlit_cache(name) and ("max_entries" not in given or _is(given["max_entries"], None)):
        yield f"{name} without max_entries"


def _streamlit_cache(name: str) -> bool:
    return name.rpartition(".")[2] in ("cache_data", "cache_resource")


def _name(node: ast.AST) -> str:
    """torch.random.manual_seed, for a chain of names; what begins with a call, as Generator().manual_seed, has none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _name(node.value)):
        return f"{before}.{node.attr}"
    return ""


def _is(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_does_what_is_banned(path: Path):
    assert banned(path.read_text(encoding="utf-8"), settings=path == SETTINGS_AT) == []


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("import pickle", "pickle"),
        ("import os, marshal", "marshal"),
        ("from pickle import loads", "pickle"),
        ("from joblib.numpy_pickle import load", "joblib.numpy_pickle"),
        ("from torch import load", "torch.load"),
        ("from torch import load as l", "torch.load"),
        ("from functools import cache", "functools.cache"),
        ("torch.load(f)", "torch.load"),
        ("torch.load(f, weights_only=True)", "torch.load"),
        ("np.load(f, allow_pickle=True)", "np.load"),
        ("eval('1')", "eval"),
        ("x = [exec(y) for y in z]", "exec"),
        ("getattr(m, '__import__'); __import__('os')", "__import__"),
        ("os.system(x)", "os.system"),
        ("subprocess.run(x, shell=True)", "shell"),
        ("st.markdown(x, unsafe_allow_html=True)", "unsafe_allow_html"),
        ("st.markdown(x, unsafe_allow_html=y)", "unsafe_allow_html"),
        ("st.html(x, unsafe_allow_javascript=True)", "unsafe_allow_javascript"),
        ("torch.manual_seed(42)", "torch.manual_seed"),
        ("torch.random.fork_rng()", "torch.random.fork_rng"),
        ("random.seed(1)", "random.seed"),
        ("torch.set_default_dtype(torch.float64)", "torch.set_default_dtype"),
        ("torch.set_num_threads(1)", "torch.set_num_threads"),
        ("@functools.lru_cache(maxsize=None)\ndef f(): ...", "lru_cache without an end"),
        ("@lru_cache(None)\ndef f(): ...", "lru_cache without an end"),
        ("@functools.cache\ndef f(): ...", "@functools.cache"),
        ("@cache\ndef f(): ...", "@cache"),
        ("f = functools.cache(g)", "functools.cache"),
        ("@st.cache_data\ndef f(): ...", "@st.cache_data"),
        ("@st.cache_data(ttl=60)\ndef f(): ...", "st.cache_data without max_entries"),
        ("@st.cache_resource(max_entries=None)\ndef f(): ...", "st.cache_resource without max_entries"),
    ],
)
def test_each_ban_finds_what_it_is_for(planted: str, found: str):
    assert next(each.partition(": ")[2] for each in banned(planted)) == found


@pytest.mark.parametrize(
    "allowed",
    [
        "torch.Generator().manual_seed(seed)",
        "g.manual_seed(seed)",
        "code = 'torch.manual_seed(42)'",
        "@functools.lru_cache(maxsize=8)\ndef f(): ...",
        "@functools.lru_cache\ndef f(): ...",
        "@st.cache_data(max_entries=8)\ndef f(): ...",
        "st.markdown(x, unsafe_allow_html=False)",
        "re.compile(x)",
        "model.eval()",
    ],
)
def test_what_looks_alike_is_allowed(allowed: str):
    assert banned(allowed) == []


def test_the_settings_of_the_process_are_allowed_in_one_place():
    assert banned("torch.set_num_threads(1)", settings=True) == []
    assert banned("torch.manual_seed(1)", settings=True) != []
    assert "torch.set_num_threads(1)" in SETTINGS_AT.read_text(encoding="utf-8")
