"""A module run line by line: the lines that really ran, in their order, with what each of them made."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
import torch
from torch import Tensor, nn

from attention import MaskedSelfAttention, SelfAttention, WatchedLine, core, lessons, run, watch
from attention.modules import COURSE_FILL, module_of
from attention.watch import RETURNED, watched
from tests import oracle
from tests.strategies import global_seed

TRACE = run(lessons.masked_self_attention())
ENCODINGS, MASK = TRACE.encodings, TRACE.heads[0].mask
X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def masked() -> MaskedSelfAttention:
    return module_of(TRACE)


def unmasked() -> SelfAttention:
    module = SelfAttention(d_model=2)
    module.load_state_dict(masked().state_dict())
    return module


def texts(lines: list[WatchedLine]) -> list[str]:
    return [line.text for line in lines]


def changes(lines: list[WatchedLine]) -> list[tuple[str, ...]]:
    return [line.changed for line in lines]


# ---- the course's modules ------------------------------------------------------------------------------------------

OF_ATTEND = [(name,) for name in ("similarities", "scores", "biased_scores", "capped_scores", "masked_scores")]
OF_ATTEND += [("weights",), ("output",), ()]


@pytest.mark.parametrize(("module", "inputs"), [(masked, (ENCODINGS, MASK)), (unmasked, (ENCODINGS,))])
def test_every_line_of_the_course_is_there_in_the_order_in_which_it_ran(module, inputs):
    lines = watch(module(), *inputs)
    assert [line.depth for line in lines] == [0] * 3 + [1] * len(OF_ATTEND) + [0]
    assert changes(lines) == [("q",), ("k",), ("v",), *OF_ATTEND, (RETURNED,)]
    name = f"{type(module()).__name__}.forward"
    assert [line.function for line in lines] == [name] * 3 + ["attend"] * len(OF_ATTEND) + [name]


@pytest.mark.parametrize(("module", "inputs"), [(masked, (ENCODINGS, MASK)), (unmasked, (ENCODINGS,))])
def test_the_source_is_the_real_one_and_the_text_is_the_line_that_ran(module, inputs):
    function = type(module()).forward
    for line in watch(module(), *inputs):
        real = core.attend if line.function == "attend" else function
        assert line.source == inspect.getsource(real)
        assert line.text == inspect.getsource(real).split("\n")[line.line - 1].strip()
    assert texts(watch(module(), *inputs))[:3] == [f"{x} = self.W_{x}(token_encodings)" for x in "qkv"]


@pytest.mark.parametrize("mode", oracle.MODES)
def test_the_values_are_those_of_attention_in_plain_python(mode):
    module, inputs = (unmasked(), (ENCODINGS,)) if mode == "self_attention" else (masked(), (ENCODINGS, MASK))
    weights = [layer.weight.tolist() for layer in (module.W_q, module.W_k, module.W_v)]
    mask = oracle.hidden(oracle.MODES[mode], 3)
    expected = oracle.attention(ENCODINGS.tolist(), *weights, mask)
    # the lesson has neither a cost of distance nor a soft cap: these two lines leave the scores as they are
    expected |= {"biased_scores": expected["scores"], "capped_scores": expected["scores"]}
    expected["masked_scores"] = torch.tensor(expected["masked_scores"]).nan_to_num(neginf=COURSE_FILL).tolist()
    lines = watch(module, *inputs)
    made = {name: line.values[name] for line in lines for name in line.changed if name != RETURNED}
    assert set(made) == set(expected)
    for name, value in made.items():
        torch.testing.assert_close(value, torch.tensor(expected[name]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("module", "inputs"), [(masked, (ENCODINGS, MASK)), (unmasked, (ENCODINGS,))])
def test_what_is_returned_last_is_what_the_module_gives_unwatched(module, inputs):
    assert torch.equal(watch(module(), *inputs)[-1].values[RETURNED], module()(*inputs))


def test_a_line_has_all_variables_so_far_and_none_of_the_lines_after_it():
    lines = watch(masked(), ENCODINGS, MASK)
    assert set(lines[0].values) == {"token_encodings", "mask", "q"}
    assert set(lines[2].values) == {"token_encodings", "mask", "q", "k", "v"}
    assert set(lines[4].values) == {"q", "k", "v", "mask", "similarities", "scores"}
    assert set(lines[-1].values) == {"token_encodings", "mask", "q", "k", "v", RETURNED}


def test_named_arguments_are_passed_on():
    lines = watch(masked(), ENCODINGS, mask=MASK)
    assert torch.equal(lines[-1].values[RETURNED], TRACE.output)


# ---- a class of one's own ------------------------------------------------------------------------------------------


class Loop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for _ in range(3):
            total = total + x
        return total


def test_a_line_in_a_loop_is_there_each_time_with_what_it_made_then():
    lines = watch(Loop(), X)
    rounds = [line for line in lines if line.text == "total = total + x"]
    assert changes(rounds) == [("total",)] * 3
    assert [line.values["total"].tolist() for line in rounds] == [X.tolist(), (2 * X).tolist(), (3 * X).tolist()]
    assert texts(lines).count("for _ in range(3):") == 4
    assert lines[-1].values[RETURNED].tolist() == (3 * X).tolist()


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        y += 1
        y[0, 0] = 50
        return y.mul_(2)


def test_a_change_in_place_is_marked_and_does_not_reach_earlier_lines():
    lines = watch(InPlace(), X)
    assert changes(lines) == [("y",), ("y",), ("y",), ("y", RETURNED)]
    assert [line.values["y"].tolist() for line in lines] == [
        [[1, 2], [3, 4]],
        [[2, 3], [4, 5]],
        [[50, 3], [4, 5]],
        [[100, 6], [8, 10]],
    ]
    assert all(torch.equal(line.values["x"], X) for line in lines)


def test_later_changes_of_inputs_and_results_do_not_reach_what_was_kept():
    x = X.clone()
    lines = watch(Loop(), x)
    x += 100
    lines[-1].values[RETURNED].zero_()
    assert torch.equal(lines[0].values["x"], X)
    assert torch.equal(lines[-1].values["total"], 3 * X)


class Changing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x / 0
        y = x / 0
        y = y - y
        y = y * 1
        y = y.reshape(1, 4)
        y = y.double()
        y = y == 1
        return y


def test_changed_is_what_has_other_values_another_shape_or_another_type():
    # infinity again, then NaN, and NaN again
    assert changes(watch(Changing(), X)) == [("y",), (), ("y",), (), ("y",), ("y",), ("y",), (RETURNED,)]


class Branching(nn.Module):
    def forward(self, x: Tensor, double: bool) -> Tensor:
        if double:
            return x * 2
        return x


@pytest.mark.parametrize(("double", "ran"), [(True, "return x * 2"), (False, "return x")])
def test_only_the_branch_that_ran_is_there(double, ran):
    assert texts(watch(Branching(), X, double)) == ["if double:", ran]


class Calling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = self.helper(x)
        return outside(y)

    def helper(self, x: Tensor) -> Tensor:
        z = x + 1
        return z


def outside(y: Tensor) -> Tensor:
    w = y * 2
    return w


def test_a_method_that_is_called_stands_before_the_line_that_called_it_and_other_functions_do_not():
    lines = watch(Calling(), X)
    assert [(line.depth, line.function.split(".")[-1], line.changed) for line in lines] == [
        (1, "helper", ("z",)),
        (1, "helper", (RETURNED,)),
        (0, "forward", ("y",)),
        (0, "forward", (RETURNED,)),
    ]


class Recursive(nn.Module):
    def forward(self, x: Tensor, times: int = 2) -> Tensor:
        if times:
            return self.forward(x + 1, times - 1)
        return x


def test_a_function_that_calls_itself_keeps_the_variables_of_each_call_apart():
    lines = watch(Recursive(), X)
    assert [line.depth for line in lines] == [0, 1, 2, 2, 1, 0]
    assert [line.values["x"][0, 0].item() for line in lines] == [1, 2, 3, 3, 2, 1]


class Inheriting(Loop):
    pass


def test_a_forward_that_is_inherited_is_watched():
    assert watch(Inheriting(), X)[-1].function == "Loop.forward"


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def test_a_result_that_is_no_tensor_is_not_among_the_values():
    assert [set(line.values) for line in watch(Pair(), X)] == [{"x"}]


class Catching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            y = x @ torch.ones(3, 3)
        except RuntimeError:
            y = x
        return y


def test_a_line_whose_error_is_caught_ran_too():
    assert texts(watch(Catching(), X)) == [
        "try:",
        "y = x @ torch.ones(3, 3)",
        "except RuntimeError:",
        "y = x",
        "return y",
    ]


class Decorated(nn.Module):
    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        return y * 2


def test_a_decorated_forward_is_watched_itself_and_not_its_decorator():
    lines = watch(Decorated(), X)
    assert texts(lines) == ["y = x + 1", "return y * 2"]
    assert torch.equal(lines[0].values["y"], X + 1)


def test_a_class_without_source_is_refused():
    namespace: dict[str, type[nn.Module]] = {"Module": nn.Module}
    exec("class Typed(Module):\n    def forward(self, x): return x", namespace)  # noqa: S102  (our own line)
    with pytest.raises(OSError, match="source"):
        watch(namespace["Typed"](), X)


# ---- what it leaves as it was --------------------------------------------------------------------------------------


def silent(*_: object) -> None:
    """A tracer that follows nothing."""


@contextmanager
def traced_by(tracer: object) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)


class Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        raise LookupError("deep inside", y)


def test_the_tracer_from_before_is_set_again():
    with traced_by(silent):
        watch(Loop(), X)
        assert sys.gettrace() is silent
    with traced_by(None):
        watch(Loop(), X)
        assert sys.gettrace() is None


def test_what_the_module_raises_comes_through_and_the_tracer_from_before_is_set_again():
    with traced_by(silent):
        with pytest.raises(LookupError, match="deep inside"):
            watch(Failing(), X)
        assert sys.gettrace() is silent


def test_a_module_without_source_leaves_the_tracer_alone():
    with traced_by(silent):
        test_a_class_without_source_is_refused()
        assert sys.gettrace() is silent


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("module", [Loop, Failing])
def test_gradients_are_on_or_off_as_before(module, enabled):
    with torch.set_grad_enabled(enabled):
        with suppress(LookupError):
            watch(module(), X)
        assert torch.is_grad_enabled() is enabled


def test_nothing_that_is_kept_needs_a_gradient_and_the_module_still_learns():
    module = masked()
    lines = watch(module, ENCODINGS.clone().requires_grad_(), MASK)
    assert not any(value.requires_grad for line in lines for value in line.values.values())
    for layer in (module.W_q, module.W_k, module.W_v):
        assert layer.weight.requires_grad
        assert layer.weight.grad is None


class Threading(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(self.helper(x)))
        thread.start()
        thread.join()
        return found[0]

    def helper(self, x: Tensor) -> Tensor:
        return x + 1


def test_a_thread_that_the_module_starts_is_not_watched():
    lines = watch(Threading(), X)
    assert {line.function for line in lines} == {"Threading.forward"}
    assert torch.equal(lines[-1].values[RETURNED], X + 1)


def test_two_threads_that_watch_at_once_each_get_their_own_lines():
    start, found = threading.Barrier(2), {}

    def work(factor: float) -> None:
        start.wait()
        found[factor] = [watch(Loop(), factor * X) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (1.0, -5.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for factor, (first, *others) in found.items():
        assert torch.equal(first[-1].values[RETURNED], 3 * factor * X)
        assert all(texts(lines) == texts(first) for lines in others)


def test_watching_draws_nothing_from_the_global_random_state():
    with global_seed(1):
        before = torch.get_rng_state()
        watch(masked(), ENCODINGS, MASK)
        assert torch.equal(torch.get_rng_state(), before)


class Spread(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for _ in range(
            2,
        ):
            total = torch.add(
                total,
                # a comment in the middle
                x,
            )
        return total.mul(
            2,
        )


def test_a_statement_of_several_lines_is_one_at_its_first_line():
    lines = watch(Spread(), X)
    head, add = "for _ in range(", "total = torch.add("
    assert texts(lines) == ["total = torch.zeros_like(x)", head, add, head, add, head, "return total.mul("]
    assert [line.values["total"].tolist() for line in lines if line.text == add] == [X.tolist(), (2 * X).tolist()]


def test_functions_can_be_watched_without_a_module():
    lines = watched(lambda: Calling()(X), [outside])
    assert [(line.function, line.depth, line.changed) for line in lines] == [
        ("outside", 0, ("w",)),
        ("outside", 0, (RETURNED,)),
    ]
    assert lines[-1].values[RETURNED].tolist() == (2 * (X + 1)).tolist()
