"""The program of the tiny network, with one operator of every habit behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import (
    Dtype,
    LeafKind,
    Mode,
    Opaque,
    ProgramBuilder,
    Role,
    Slice,
    SourceLine,
    ValueRef,
)

from .tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumpfile import Argument, StepWriter

    from .dumps import DumpBuilder

__all__ = ["tiny_program"]

ROOT, FC1, NORM, FC2 = range(4)
"""Calls of the tiny network."""


def tiny_program(*, is_plain: bool = False, **changes: Any) -> DumpBuilder:  # noqa: ANN401
    """Run the tiny network and state its program.

    Args:
        is_plain: Whether to leave away all that the network's result does not need.
        changes: As for ``tiny_net``.
    """
    built = tiny_net(**changes)
    built.program = lambda step: _Program(built, step, is_plain=is_plain).builder
    return built


class _Program:
    def __init__(self, built: DumpBuilder, step: StepWriter, *, is_plain: bool) -> None:
        self.built, self.step, self.builder = built, step, ProgramBuilder()
        x = self.recorded("", Role.INPUT, LeafKind.INPUT)
        first = self.recorded("fc1", Role.WEIGHT, LeafKind.PARAMETER, "fc1.weight")
        second = self.recorded("fc2", Role.WEIGHT, LeafKind.PARAMETER, "fc2.weight")
        eps = next(module.attributes["eps"] for module in built.modules if module.path == "norm")
        hidden = self.recorded("fc1", Role.OUTPUT)
        linear = "torch.nn.functional.linear"
        self.operator(linear, [x, first, None], hidden, FC1, line=10)
        scaled = self.recorded("norm", Role.OUTPUT)
        assert isinstance(eps, float)
        divisor = float(np.float32(1 + eps))
        self.operator("torch.Tensor.__truediv__", [hidden, divisor], scaled, NORM, line=11)
        out = self.recorded("fc2", Role.OUTPUT)
        self.operator(linear, [scaled, second, None], out, FC2, line=12)
        self.border("", Role.OUTPUT, out)
        if not is_plain:
            self.add_habits(out, scaled)
        loss = self.recorded("", Role.LOSS)
        self.operator("torch.Tensor.mean", [out], loss, None, line=20)

    def add_habits(self, out: ValueRef, scaled: ValueRef) -> None:
        """Add operators that nothing else reads."""
        hole = self.value((4, 5), LeafKind.HOLE)
        drawn = self.value((4, 5), LeafKind.RANDOM)
        constant = self.value((), LeafKind.CONSTANT)
        self.operator("torch.rand_like", [scaled], drawn, NORM, mode=Mode.RANDOM)
        moved, summed, fused, part = (self.value((4, 5)) for _ in range(4))
        self.operator("torch.Tensor.add_", [scaled, hole], summed, NORM, mode=Mode.IN_PLACE)
        keywords: dict[str, Argument] = {
            "alpha": 2,
            "mode": 'a"b',
            "device": Opaque("cpu"),
            "dtype": Dtype("float16"),
            "options": {"size": (3, -1, None)},
            "shift": complex(1, -2),
        }
        taken = [drawn, constant]
        self.operator("mylib.fuse", taken, fused, NORM, mode=Mode.BFLOAT16, keywords=keywords)
        index = (Slice(0, 3), ..., Slice(None, None, 2))
        self.operator("torch.Tensor.__getitem__", [summed, index], part, NORM, mode=Mode.NO_GRAD)
        self.operator("torch.Tensor.clone", [fused], moved, ROOT)
        switched = {"p": 0.5, "training": False}
        self.operator("torch.nn.functional.dropout", [out], out, ROOT, keywords=switched)
        self.operator("torch.Tensor.item", [constant], None, ROOT, keywords={"->": 0.5})

    def recorded(
        self, module: str, role: Role, kind: LeafKind | None = None, name: str = ""
    ) -> ValueRef:
        """Add a value with the elements of a record."""
        record, array = next(
            pair
            for pair in self.built.records
            if self.built.modules[pair[0].module].path == module and pair[0].role is role
        )
        assert array is not None
        value = self.builder.add_value(
            dtype=str(array.dtype),
            shape=array.shape,
            content=self.step.store(array),
            kind=kind,
            name=name,
        )
        self.builder.add_border(record.id, value)
        return ValueRef(value)

    def border(self, module: str, role: Role, value: ValueRef) -> None:
        """State that another record holds a value, too."""
        for record, _ in self.built.records:
            if self.built.modules[record.module].path == module and record.role is role:
                self.builder.add_border(record.id, value.id)

    def value(self, shape: tuple[int, ...], kind: LeafKind | None = None) -> ValueRef:
        """Add a value of which nothing was stored."""
        return ValueRef(
            self.builder.add_value(dtype="float32", shape=shape, content=None, kind=kind)
        )

    def operator(
        self,
        name: str,
        positional: Sequence[Argument],
        output: ValueRef | None,
        call: int | None,
        *,
        keywords: Mapping[str, Argument] | None = None,
        mode: int = 0,
        line: int = 15,
    ) -> None:
        """Add an operator of one output or none."""
        arguments: list[tuple[str | None, Argument]] = [(None, one) for one in positional]
        site = SourceLine(file="models/net.py", line=line, function="Net.forward")
        outputs = [] if output is None else [output.id]
        arguments += (keywords or {}).items()
        self.builder.add_operator(name, arguments, outputs, call=call, mode=mode, site=site)
