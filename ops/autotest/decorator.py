"""``@autotest``: a function of the user, run with drawn arguments in both frameworks.

Where a framework is wrong, the error says what is, and holds a program that shows it.
"""

from __future__ import annotations

import atexit
import functools
import inspect
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ConfigError
from padiff.ops.cases import HeldTensor, signs
from padiff.ops.judging import Bucket, Kind
from padiff.ops.reporting import array_text, call_text, literal, made_lines, said_lines
from padiff.ops.searching import HypothesisDraw, Pair, hypothesis, read_known
from padiff.ops.workers import Worker

from .drawing import Drawing
from .judge import Judged, judge_trace
from .proxies import Framework, Traced
from .trace import Built, StoppedError, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.ops.cases import Tensor
    from padiff.ops.searching import Known

    from .trace import Named, Step


_COTANGENTS = 7
"""Different gradients that arrive at what the function returns."""


def autotest(  # noqa: PLR0913 -- one per setting
    *,
    n: int = 20,
    seed: int = 0,
    reference: str = "torch",
    candidate: str = "paddle",
    python_reference: str | None = None,
    python_candidate: str | None = None,
    device: str = "cpu",
    time_limit: float = 20.0,
    known: str | Path | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Turn a function into a test of all operators that it calls.

    The function is called with what stands for ``torch``, and with a ``Drawing``; it returns the
    tensors at which gradients arrive. Each of its calls runs in a process per framework, through
    the table of operators. All values, gradients and gradients of parameters are judged by
    float64, each from what the same framework made before, so that errors do not add up.

    Args:
        n: How often it is called with other arguments.
        seed: Another number draws others.
        reference: The framework held to be right.
        candidate: The one that is judged.
        python_reference: Interpreter of the reference's environment; None: this one.
        python_candidate: Interpreter of the candidate's environment; None: this one.
        device: Of all tensors: ``cpu``, ``gpu``.
        time_limit: Of one call, in seconds.
        known: TOML file with known differences and the reason of each.

    Returns:
        A decorator. The test takes no argument but ``self``. It raises an ``AssertionError`` with
        a program to run where the candidate is wrong, and a ``ConfigError`` where it cannot be
        tested.
    """
    sides = (reference, python_reference), (candidate, python_candidate)

    def decorated(function: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(function)
        def test(*owner: Any) -> None:  # noqa: ANN401 -- self, of a method
            accepted = read_known(Path(known)) if known is not None else []
            pair = _pair(sides, device, time_limit)
            _Test(functools.partial(function, *owner), pair, accepted).run(n, seed)

        parameters = list(inspect.signature(function).parameters.values())[:-2]
        test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        del test.__wrapped__  # pytest would ask for fixtures
        return test

    return decorated


@functools.cache
def _pair(
    sides: tuple[tuple[str, str | None], tuple[str, str | None]], device: str, time_limit: float
) -> Pair:
    """Start a worker for each side, once for all tests of this process: it takes seconds."""
    stack = ExitStack()
    started = [
        Worker(name, python=python, device=device, limit_s=time_limit) for name, python in sides
    ]
    workers = {one.framework: stack.enter_context(one) for one in started}
    atexit.register(stack.close)
    return Pair(reference=sides[0][0], candidate=sides[1][0], workers=workers)


class _DefectError(Exception):
    """Tells Hypothesis that a run shows a defect; there is a class for each bucket."""


@dataclass(slots=True, kw_only=True)
class _Count:
    runs: int = 0
    refused: int = 0
    """By both frameworks."""
    found: dict[Bucket, tuple[Trace, Judged]] = field(default_factory=dict)
    """The smallest of each."""


class _Test:
    def __init__(self, function: Callable[..., Any], pair: Pair, known: Sequence[Known]) -> None:
        self._function, self._pair, self._known = function, pair, known
        self._count = _Count()
        self._classes: dict[Bucket, Any] = {}

    def run(self, n: int, seed: int) -> None:
        """Call the function n times, and shrink what is found."""
        library: Any = hypothesis()
        settings = library.settings(
            max_examples=n,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            phases=(library.Phase.generate, library.Phase.shrink),
            suppress_health_check=list(library.HealthCheck),
            verbosity=library.Verbosity.quiet,
        )

        def each(data: Any) -> None:  # noqa: ANN401 -- Hypothesis is an extra
            self._look(HypothesisDraw(data.draw))

        with suppress(_DefectError, library.errors.Flaky):
            library.seed(seed)(settings(library.given(library.strategies.data())(each)))()
        count = self._count
        if count.runs == count.refused:
            raise ConfigError(
                f"cannot test {_name(self._function)}: both frameworks refuse 100 % of its runs",
                hint="print the drawn arguments: a call of it is wrong for all of them",
            )
        if count.found:
            trace, judged = min(count.found.values(), key=lambda one: one[0].size)
            raise AssertionError(report(trace, judged))

    def _look(self, draw: HypothesisDraw) -> None:
        """Call the function once; raises where it shows a defect."""
        trace = Trace(self._pair)
        with suppress(StoppedError):
            drawing = Drawing(draw, trace)
            ends = _tensors(self._function(Framework(trace), drawing))
            trace.finish(ends, drawing.integer(0, _COTANGENTS))
        judged = judge_trace(trace)
        self._count.runs += 1
        finding = judged.finding
        if finding is None or not finding.is_candidates:
            self._count.refused += finding is not None and finding.bucket.kind is Kind.BOTH_REJECT
            return
        bucket = finding.bucket
        if any(one.covers(bucket) for one in self._known):
            return
        smallest = self._count.found.get(bucket)
        if smallest is None or trace.size <= smallest[0].size:
            self._count.found[bucket] = trace, judged
        if bucket not in self._classes:
            self._classes[bucket] = type("Defect", (_DefectError,), {})
        raise self._classes[bucket]


def _name(function: Any) -> str:  # noqa: ANN401
    return str(getattr(function, "func", function).__qualname__)


def _tensors(out: Any) -> list[int]:  # noqa: ANN401 -- whatever a function returns
    """Return the values that a function returns."""
    if isinstance(out, Traced):
        return [out.value]
    if isinstance(out, list | tuple):
        return [one for each in out for one in _tensors(each)]
    raise ConfigError(
        f"cannot test a function that returns {type(out).__name__}: expected tensors",
        hint="return what gradients should arrive at",
    )


_ASSIGNED = {
    "torch": "{0}.data.copy_(torch.tensor({1}).reshape({0}.shape))",
    "paddle": "{0}.set_value(paddle.to_tensor({1}).astype({0}.dtype).reshape({0}.shape))",
}
_BACKWARD = {
    "torch": (
        "ends = [one for one in ends if one.requires_grad]",
        "arriving = [torch.tensor(one).to(end.dtype) for one, end in zip(arriving, ends)]",
        "found = torch.autograd.grad(ends, list(taking.values()), arriving, allow_unused=True)",
    ),
    "paddle": (
        "ends = [one for one in ends if not one.stop_gradient]",
        "arriving = [paddle.to_tensor(one).astype(end.dtype) for one, end in zip(arriving, ends)]",
        "found = paddle.grad(ends, list(taking.values()), arriving, allow_unused=True)",
    ),
}


def report(trace: Trace, judged: Judged) -> str:
    """Return what is wrong, and a program of both frameworks that shows it."""
    assert judged.finding is not None
    lines = said_lines(judged.finding)
    if judged.value is not None:
        lines[0] += f", v{judged.value} of this program"
    return "\n".join([*lines, "", *_program(trace)])


def _program(trace: Trace) -> list[str]:
    sides = [trace.pair.reference, trace.pair.candidate]
    lines = ["import sys", "", "import numpy as np", "", "nan, inf = float('nan'), float('inf')"]
    for leaf in trace.leaves.values():
        where = f"{leaf.layer}.{leaf.name}" if leaf.layer else leaf.name
        lines.append(f"v{leaf.value} = {literal(leaf.tensor)}  # {where}")
    for side in sides:
        body = [f"import {side}", "", *_body(trace, side)]
        lines += ["", "", f"def with_{side}():", *(f"    {one}" if one else "" for one in body)]
    functions = ", ".join(f"{one!r}: with_{one}" for one in sides)
    return [
        *lines,
        "",
        "",
        f"for name in sys.argv[1:] or {sides!r}:",
        f"    {{{functions}}}[name]()",
    ]


def _body(trace: Trace, side: str) -> list[str]:
    lines = []
    own = (leaf for leaf in trace.leaves.values() if not leaf.layer)
    for leaf in own:
        lines += made_lines(side, leaf.tensor, f"v{leaf.value}", f"v{leaf.value}_")
    for step in trace.steps:
        lines += _built(trace, step, side) if isinstance(step, Built) else _called(step, side)
    values = [one for step in trace.steps for one in step.outputs if one not in trace.ends]
    lines += [f"print({side!r}, 'v{one}', v{one}_)" for one in values]
    if not trace.ends:
        return lines
    taking = sorted(trace.gradients[side])
    named = ", ".join(f"'v{one}': {_variable(trace, one, side)}" for one in taking)
    arriving = [
        array_text(signs(trace.elements[side][one].size, trace.seed + at), trace.values[one].shape)
        for at, one in enumerate(trace.ends)
    ]
    return [
        *lines,
        f"taking = {{{named}}}",
        f"ends = [{', '.join(f'v{one}_' for one in trace.ends)}]",
        f"arriving = [{', '.join(arriving)}]",
        *_BACKWARD[side],
        "for name, one in zip(taking, found):",
        f"    print('{side} gradient', name, one)",
    ]


def _variable(trace: Trace, value: int, side: str) -> str:
    leaf = trace.leaves.get(value)
    return f"v{value}_" if leaf is None or not leaf.layer else _attribute(trace, leaf, side)


def _attribute(trace: Trace, leaf: Named, side: str) -> str:
    state = trace.layers[leaf.layer].state
    return f"{leaf.layer}.{leaf.name if side == 'torch' else state[leaf.name]}"


def _built(trace: Trace, built: Built, side: str) -> list[str]:
    """Return the lines that build a layer and give it its weights."""
    lines = [f"{built.name} = {call_text(side, built.calls[side], _held)}"]
    for leaf in trace.leaves.values():
        if leaf.layer == built.name:
            is_turned = side == "paddle" and leaf.name in built.row.transposed
            elements = f"v{leaf.value}.T" if is_turned else f"v{leaf.value}"
            lines.append(_ASSIGNED[side].format(_attribute(trace, leaf, side), elements))
    return lines


def _called(step: Step, side: str) -> list[str]:
    call = step.calls[side]
    text = call_text(side, call, _held)
    if step.index:
        [tensor] = call.positional
        text = f"{_held(tensor)}[{step.index}]"  # type: ignore[arg-type]
    if call.taken:
        text = f"(lambda out: {call.taken})({text})"
    if call.slots is not None:
        text = f"[{text}[slot] for slot in {list(call.slots)}]"
    if not step.outputs:
        return [text]
    names = ", ".join(f"v{one}_" for one in step.outputs)
    is_one = step.is_one[side] and call.slots is None
    return [f"{names} = {text}" if is_one else f"[{names}] = {text}"]


def _held(one: Tensor) -> str:
    assert isinstance(one, HeldTensor)
    return f"v{one.value}_"
