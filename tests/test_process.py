"""What all sessions share: set once, changed by none of them, and no larger for what they do."""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import inspect
import locale
import os
import pkgutil
import signal
import socket
import sys
import warnings
from types import ModuleType

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

import attention
from attention import lessons, link, run
from attention.ui import process
from tests.load import scene
from tests.server import HOST, ROOT

PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "pages").rglob("*.py"))
HOSTILE = {
    "seed": "7",
    "mask": "none",
    "device": "cuda",
    "x": "1e6,nan_1,2",
    "t": "<b>",
    "cell": "weights.9.9",
    "v": "1",
}
LARGEST_CACHE = 1_000


def settings() -> dict[str, object]:
    """Everything that one session could change for all others."""
    return {
        "PyTorch's threads": torch.get_num_threads(),
        "PyTorch's type of numbers": torch.get_default_dtype(),
        "PyTorch's device": torch.get_default_device(),
        "PyTorch's generator": torch.get_rng_state().tolist(),
        "PyTorch's algorithms": (
            torch.are_deterministic_algorithms_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.mha.get_fastpath_enabled(),
        ),
        "numbers near zero": torch.tensor([1e-40]).mul(1).item(),
        "how tensors are printed": str(torch.tensor([1 / 3, 1e-7, 1e7])),
        "NumPy's generator": str(np.random.get_state()),
        "NumPy's errors": np.geterr(),
        "how arrays are printed": np.get_printoptions(),
        "garbage collection": (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
        "warnings": [str(f) for f in warnings.filters],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "modules' places": list(sys.path),
        "locale": locale.setlocale(locale.LC_ALL),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()),
        "tracing": (sys.gettrace(), sys.getprofile(), sys.excepthook),
        "signals": [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)],
        "patience of sockets": socket.getdefaulttimeout(),
    }


def visited(page: str, **query: str) -> AppTest:
    """A page as it opens for a visitor."""
    visitor = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    visitor.query_params.update(query)
    visitor.run()
    return visitor.switch_page(page).run()


def used(visitor: AppTest) -> int:
    """Press every button and change every control that the page shows at first; how many there were."""
    keys = [(kind, widget.key) for kind in ("button", "selectbox", "button_group") for widget in visitor.get(kind)]
    for kind, key in keys:
        found = [widget for widget in visitor.get(kind) if widget.key == key and not widget.disabled]
        if found and kind == "button":
            found[0].click().run()
        elif found and kind == "selectbox":
            found[0].select_index(len(found[0].options) - 1).run()
        elif found:
            found[0].set_value(found[0].options[-1]).run()
    return len(keys)


def test_no_session_changes_what_all_sessions_share():
    for page in PAGES:
        visited(page)  # what is imported at the first visit belongs to no session
    before = settings()
    assert sum(used(visited(page, **HOSTILE)) for page in PAGES) > 20
    after = settings()
    assert {name for name in before if after[name] != before[name]} == set()


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.manual_seed(7),
        lambda: torch.rand(1),
        lambda: torch.set_printoptions(precision=2),
        lambda: np.random.seed(7),
        lambda: os.environ.update(ATTENTION_X="1"),
        lambda: torch.backends.mha.set_fastpath_enabled(not torch.backends.mha.get_fastpath_enabled()),
    ],
    ids=["a seed", "a draw", "printing", "NumPy's seed", "environment", "algorithms"],
)
def test_a_change_would_be_noticed(change):
    state, numpy_state, fast = torch.get_rng_state(), np.random.get_state(), torch.backends.mha.get_fastpath_enabled()
    before = settings()
    change()
    try:
        assert settings() != before
    finally:
        torch.set_rng_state(state)
        np.random.set_state(numpy_state)
        torch.set_printoptions(profile="default")
        torch.backends.mha.set_fastpath_enabled(fast)
        os.environ.pop("ATTENTION_X", None)
    assert settings() == before


# ---- caches --------------------------------------------------------------------------------------------------------


def modules() -> list[ModuleType]:
    """Every module of the package."""
    return [importlib.import_module(found.name) for found in pkgutil.walk_packages(attention.__path__, "attention.")]


def sizes() -> dict[str, int]:
    """How much every container and cache of every module holds."""
    found = {}
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, dict | list | set) and not name.startswith("__"):
                found[f"{module.__name__}.{name}"] = len(value)
    return found


def test_nothing_that_modules_hold_grows_with_sessions():
    def visit(i: int) -> None:
        query = dict(part.split("=") for part in link.write(lessons.masked_self_attention()).split("&"))
        visitor = visited(PAGES[i % len(PAGES)], **query, seed=str(i))
        assert [exception.message for exception in visitor.exception] == []
        run(scene.experiment(i))

    for i in range(0, 6, 2):
        visit(i)
    before = sizes()
    for i in range(0, 6, 2):
        visit(i + 7 * len(PAGES))
    assert sizes() == before
    assert len(before) > 10


def test_functions_keep_no_more_results_than_they_say():
    modules()
    kept = [f for f in gc.get_objects() if type(f) is functools._lru_cache_wrapper and _is_ours(f)]
    for function in kept:
        most = function.cache_parameters()["maxsize"]
        has_one_result = not inspect.signature(function).parameters
        assert has_one_result or (most is not None and most <= LARGEST_CACHE), function.__qualname__


def _is_ours(function: object) -> bool:
    return str(getattr(function, "__module__", "")).startswith("attention")


def test_streamlits_caches_say_how_much_they_keep():
    found = []
    for path in [ROOT / "app.py", *ROOT.glob("pages/**/*.py"), *ROOT.glob("attention/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            decorators = [d if isinstance(d, ast.Call) else ast.Call(d, [], []) for d in _decorators(node)]
            for called in (d for d in decorators if ast.unparse(d.func).startswith("st.cache_")):
                most = {k.arg: ast.literal_eval(k.value) for k in called.keywords if k.arg == "max_entries"}
                assert 1 <= most.get("max_entries", 0) <= LARGEST_CACHE, f"{path}: {ast.unparse(node)[:60]}"
                found.append(path.name)
    assert "process.py" in found


def _decorators(node: ast.AST) -> list[ast.expr]:
    found: list[ast.expr] = getattr(node, "decorator_list", [])
    return found


# ---- connections and files -----------------------------------------------------------------------------------------


def sends_at_once(found: socket.socket) -> bool:
    return bool(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def test_connections_of_before_and_after_send_every_message_at_once():
    with socket.create_server((HOST, 0)) as listening, socket.socket(socket.AF_UNIX) as unlike:
        address = listening.getsockname()
        with socket.create_connection(address) as early, listening.accept()[0] as accepted:
            assert not sends_at_once(accepted)
            process.send_at_once()
            assert sends_at_once(accepted)
            assert sends_at_once(listening)
            accepted.sendall(b"still open")
            assert early.recv(100) == b"still open"
        with socket.create_connection(address), listening.accept()[0] as later:
            assert sends_at_once(later)
        assert unlike.fileno() >= 0


@pytest.mark.parametrize(
    ("soft", "hard", "becomes"), [(64, 128, 128), (64, 10**6, process.FILES), (128, 128, None), (10**6, 10**6, None)]
)
def test_as_many_files_as_there_may_be(monkeypatch, soft, hard, becomes):
    import resource

    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    process.allow_many_sessions()
    assert asked == ([] if becomes is None else [(becomes, hard)])


def test_all_of_it_is_done_at_the_first_visit(monkeypatch):
    done: list[str] = []
    for name in ("send_at_once", "allow_many_sessions"):
        monkeypatch.setattr(process, name, lambda name=name: done.append(name))
    process.start.clear()
    visited(PAGES[0])
    visited(PAGES[0])
    process.start.clear()
    assert done == ["send_at_once", "allow_many_sessions"]
