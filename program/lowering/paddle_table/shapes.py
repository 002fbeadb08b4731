"""Operators of Paddle that make, reshape, join or cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind

from .reductions import kind_of

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term

__all__ = ["ROWS"]


def _reshape(b: Builder, a: Arguments) -> Term:
    """Reshape; a zero keeps the size of its axis."""
    shape = s.integers(b, a.shape)
    kept = [a.x.shape[axis] if size == 0 and a.x.spec.count else size
            for axis, size in enumerate(shape)]  # fmt: skip
    return s.reshape(b, a.x, kept)


def _concat(b: Builder, a: Arguments) -> Term:
    return b("concat", *a.x, axis=s.axis_of(b, a.axis, a.x[0].ndim))


def _split(b: Builder, a: Arguments) -> Result:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    sizes = list(s.integers(b, a.sections))
    if -1 in sizes:
        sizes[sizes.index(-1)] = a.x.shape[axis] - sum(sizes) - 1
    return s.split(b, a.x, axis, sizes)


def _split_evenly(b: Builder, a: Arguments) -> Result:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    return s.split(b, a.x, axis, [a.x.shape[axis] // a.num] * a.num)


def _slice(b: Builder, a: Arguments) -> Term:
    x = a.input
    for axis, start, stop in zip(
        a.axes, s.integers(b, a.starts), s.integers(b, a.ends), strict=True
    ):
        first, last, _ = slice(start, stop).indices(x.shape[axis])
        x = s.narrow(b, x, axis, first, last)
    return s.squeeze(b, x, tuple(a.decrease_axis)) if a.decrease_axis else x


def _squeeze(b: Builder, a: Arguments) -> Term:
    """Remove axes of size one; named axes of other sizes stay."""
    axes = s.axes_of(b, a.axis, a.x.ndim)
    shape = [size for axis, size in enumerate(a.x.shape) if size != 1 or axis not in axes]
    return s.reshape(b, a.x, shape)


def _unsqueeze(b: Builder, a: Arguments) -> Term:
    return s.unsqueeze(b, a.x, *s.integers(b, a.axis))


def _flatten(b: Builder, a: Arguments) -> Term:
    if not a.x.ndim:
        return s.reshape(b, a.x, (1,))
    first, last = (s.axis_of(b, each, a.x.ndim) for each in (a.start_axis, a.stop_axis))
    return s.reshape(b, a.x, (*a.x.shape[:first], -1, *a.x.shape[last + 1 :]))


def _expand(b: Builder, a: Arguments) -> Term:
    shape = s.integers(b, a.shape)
    before = len(shape) - a.x.ndim
    sizes = [a.x.shape[axis - before] if size == -1 else size for axis, size in enumerate(shape)]
    return s.expand(b, a.x, sizes)


def _expand_as(b: Builder, a: Arguments) -> Term:
    return s.expand(b, a.x, a.target_shape if a.y is None else a.y.shape)


def _unbind(b: Builder, a: Arguments) -> Result:
    return s.unbind(b, a.x, s.axis_of(b, a.axis, a.x.ndim))


def _full(b: Builder, a: Arguments) -> Term:
    return s.filled(b, s.integers(b, a.shape), a.value, kind_of(a.dtype, Kind.FLOAT))


def _full_like(b: Builder, a: Arguments) -> Term:
    return s.filled(b, a.x.shape, a.value, kind_of(a.dtype, a.x.kind))


def _constant(value: int) -> Rule:
    return lambda b, a: s.filled(b, s.integers(b, a.shape), value, kind_of(a.dtype, Kind.FLOAT))


def _constant_like(value: int) -> Rule:
    return lambda b, a: s.filled(b, a.x.shape, value, kind_of(a.dtype, a.x.kind))


def _arange(b: Builder, a: Arguments) -> Term:
    kind = kind_of(a.dtype, Kind.INT)
    return s.ranged(b, a.start, a.end, a.step, kind)


def _meshgrid(b: Builder, a: Arguments) -> Result:
    shape = [each.spec.count for each in a.inputs]
    result = []
    for axis, each in enumerate(a.inputs):
        sizes = [-1 if place == axis else 1 for place in range(len(shape))]
        result.append(s.expand(b, s.reshape(b, each, sizes), shape))
    return result


def _roll(b: Builder, a: Arguments) -> Term:
    shifts = s.integers(b, a.shifts)
    if not a.axis:
        flat = b("roll", s.reshape(b, a.x, (-1,)), axis=0, shift=shifts[0])
        return s.reshape(b, flat, a.x.shape)
    x: Term = a.x
    for shift, axis in zip(shifts, a.axis, strict=True):
        x = b("roll", x, axis=s.axis_of(b, axis, x.ndim), shift=shift)
    return x


def _pad(b: Builder, a: Arguments) -> Term:
    widths = tuple(zip(a.paddings[::2], a.paddings[1::2], strict=True))
    value = float(s.number(b, a.pad_value))
    return b("pad", a.x, widths=widths, mode="constant", value=value)


_PADDINGS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad_volume(b: Builder, a: Arguments) -> Term:
    """Pad the last three axes; widths begin with the last one."""
    sizes: Any = s.integers(b, a.paddings)
    pairs = list(zip(sizes[::2], sizes[1::2], strict=True))[::-1]
    first = a.data_format.startswith("NC")
    widths = ((0, 0), (0, 0), *pairs) if first else ((0, 0), *pairs, (0, 0))
    value = float(a.pad_value) if a.mode == "constant" else 0.0
    return b("pad", a.x, widths=widths, mode=_PADDINGS[a.mode], value=value)


def _triangle(name: str) -> Rule:
    return lambda b, a: b(name, a.x, offset=a.diagonal)


def _in_place(name: str) -> str:
    return f"{name} {name}_"


ROWS: tuple[Row, ...] = (
    row(_in_place("reshape"), "x, shape", _reshape),
    row("transpose", "x, perm", lambda b, a: s.transpose(b, a.x, a.perm)),
    row("concat", "x, axis=0", _concat),
    row("split", "x, sections, axis=0", _split),
    row("split_with_num", "x, num, axis=0", _split_evenly),
    row("slice", "input, axes, starts, ends, infer_flags=(), decrease_axis=()", _slice),
    row(_in_place("squeeze"), "x, axis=()", _squeeze),
    row(_in_place("unsqueeze"), "x, axis=()", _unsqueeze),
    row(_in_place("flatten"), "x, start_axis=1, stop_axis=1", _flatten),
    row("expand", "x, shape=()", _expand),
    row("expand_as", "x, y, target_shape=()", _expand_as),
    row("tile", "x, repeat_times=()", lambda b, a: s.tile(b, a.x, s.integers(b, a.repeat_times))),
    row("stack", "x, axis=0", lambda b, a: s.stack(b, a.x, a.axis)),
    row("unbind", "x, axis=0", _unbind),
    row("unstack", "x, axis=0, num=0", _unbind),
    row("full", "shape, value, dtype=None, place=None", _full),
    row("full_like", "x, value, dtype=None, place=None", _full_like),
    *(row(name, "shape, dtype=None, place=None", _constant(value))
      for name, value in (("zeros", 0), ("ones", 1))),
    *(row(f"{name}_like", "x, dtype=None, place=None", _constant_like(value))
      for name, value in (("zeros", 0), ("ones", 1))),
    row("arange", "start, end, step, dtype=None, place=None", _arange),
    row("meshgrid", "inputs", _meshgrid),
    row("flip", "x, axis", lambda b, a: b("flip", a.x, axes=s.axes_of(b, a.axis, a.x.ndim))),
    row("roll", "x, shifts=(), axis=()", _roll),
    *(row(_in_place(name), "x, diagonal=0", _triangle(name)) for name in ("tril", "triu")),
    row("pad", "x, paddings, pad_value", _pad),
    row("pad3d", "x, paddings, mode='constant', pad_value=0.0, data_format='NCDHW'", _pad_volume),
)  # fmt: skip
