"""A run in which a framework is wrong: what is wrong, and a program that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.ops.cases import HeldTensor, signs
from padiff.ops.reporting import array_text, call_text, literal, made_lines, said_lines

from .step import Built

if TYPE_CHECKING:
    from padiff.ops.cases import Tensor

    from .judge import Judged
    from .step import Named, Step
    from .trace import Trace

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
