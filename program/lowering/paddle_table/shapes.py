"""Operators of Paddle that make, reshape, join or cut."""

from __future__ import annotations

from typing import Any

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import channels
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.matrices import diagonal_matrix
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind, broadcast

from .layout import as_before, channels_first
from .reductions import kind_of


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


def _to_tensor(b: Builder, a: Arguments) -> Term:
    """Write numbers down, or copy a tensor."""
    own = a.data.kind if isinstance(a.data, Term) else b.expected[0].kind
    return s.written_down(b, a.data, kind_of(a.dtype, own))


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
    if a.axis is None or a.axis == ():
        flat = b("roll", s.reshape(b, a.x, (-1,)), axis=0, shift=shifts[0])
        return s.reshape(b, flat, a.x.shape)
    x: Term = a.x
    for shift, axis in zip(shifts, s.integers(b, a.axis), strict=True):
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


def _strided(b: Builder, a: Arguments) -> Term:
    """Cut with steps; steps back are taken forward and turned round."""
    x = a.x
    bounds = zip(
        a.axes, s.integers(b, a.starts), s.integers(b, a.ends), s.integers(b, a.strides),
        strict=True,
    )  # fmt: skip
    for axis, start, stop, step in bounds:
        places = range(*slice(start, stop, step).indices(x.shape[axis]))
        if step < 0:
            places = places[::-1]
        x = s.narrow(b, x, axis, places.start, max(places.stop, places.start), abs(step))
        x = b("flip", x, axes=(s.axis_of(b, axis, x.ndim),)) if step < 0 else x
    return x


def _crop(b: Builder, a: Arguments) -> Term:
    x: Term = a.x
    for axis, (start, size) in enumerate(
        zip(s.integers(b, a.offsets), s.integers(b, a.shape), strict=True)
    ):
        stop = x.shape[axis] if size == -1 else start + size
        x = s.narrow(b, x, axis, start, stop)
    return x


def _diag(b: Builder, a: Arguments) -> Term:
    if a.x.ndim == 1:
        fill = float(a.padding_value) if a.x.kind is Kind.FLOAT else int(a.padding_value)
        return diagonal_matrix(b, a.x, a.offset, fill)
    return b("diagonal", a.x, offset=a.offset)


def _diag_embed(b: Builder, a: Arguments) -> Term:
    x = diagonal_matrix(b, a.input, a.offset)
    return s.move_axis(b, x, [x.ndim - 2, x.ndim - 1], [a.dim1, a.dim2])


def _diagonal(b: Builder, a: Arguments) -> Term:
    last = [a.x.ndim - 2, a.x.ndim - 1]
    return b("diagonal", s.move_axis(b, a.x, [a.axis1, a.axis2], last), offset=a.offset)


def _trace(b: Builder, a: Arguments) -> Term:
    x = _diagonal(b, a)
    return b("sum", x, axes=(x.ndim - 1,), keepdims=False)


def _fill_diagonal(b: Builder, a: Arguments) -> Term:
    if a.x.ndim != 2 or a.wrap:  # noqa: PLR2004
        raise NotLoweredError("more axes, or a diagonal that begins anew")
    rows, columns = a.x.shape
    on = b("equal", s.positions(b, columns, 2, 1), s.positions(b, rows, 2, 0) + a.offset)
    value = float(a.value) if a.x.kind is Kind.FLOAT else int(a.value)
    return b("where", on, value, a.x)


def _put_diagonal(b: Builder, a: Arguments) -> Term:
    """Write along the diagonal of two axes; its places are the last axis of what is written."""
    first, second = (s.axis_of(b, each, a.x.ndim) for each in (a.dim1, a.dim2))
    moved = s.move_axis(b, a.x, [first, second], [0, 1])
    before, behind = max(-a.offset, 0), max(a.offset, 0)
    count = max(0, min(moved.shape[0] - before, moved.shape[1] - behind))
    places = b("iota", size=count)
    source = s.move_axis(b, a.y, [a.y.ndim - 1], [0]) if a.y.ndim else a.y
    if source.shape == (count, 1) and moved.ndim == 2:  # noqa: PLR2004 -- Paddle adds an axis
        source = s.reshape(b, source, (count,))
    result = b("put", moved, source, places + before, places + behind, reduce="set")
    return s.move_axis(b, result, [0, 1], [first, second])


def _broadcast_all(b: Builder, a: Arguments) -> Result:
    shape = broadcast(*(each.shape for each in a.input))
    return [s.expand(b, each, shape) for each in a.input]


def _repeated(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    if isinstance(a.repeats, int) or a.repeats.spec.count == 1:
        return s.repeat_each(b, a.x, s.integer(b, a.repeats), axis)
    places = np.repeat(np.arange(a.x.shape[axis]), b.static(a.repeats))
    return b("take", a.x, b.literal(places), axis=axis)


def _frame(b: Builder, a: Arguments) -> Term:
    """Cut a signal into windows: (…, place, window), or (window, place, …) along the first axis."""
    axis = s.axis_of(b, a.axis, a.x.ndim)
    x = b("windows", a.x, axis=axis, size=a.frame_length, step=a.hop_length, dilation=1)
    if a.axis == 0 and a.x.ndim > 1:
        return s.move_axis(b, x, [x.ndim - 1], [1])
    return x if a.axis == 0 else s.swap(b, x, -1, -2)


def _overlap_add(b: Builder, a: Arguments) -> Term:
    """Add windows up where they overlap: the reverse of ``frame``."""
    axis = 0 if a.axis == 0 else a.x.ndim - 2
    x = s.swap(b, a.x, -1, -2) if axis else s.move_axis(b, a.x, [1], [a.x.ndim - 1])
    if a.axis != 0 and a.x.ndim == 2:  # noqa: PLR2004
        x = s.swap(b, a.x, 0, 1)
    size = (x.shape[axis] - 1) * a.hop_length + x.shape[-1]
    return b("overlap", x, axis=axis, size=size, step=a.hop_length, dilation=1)


def _eye(b: Builder, a: Arguments) -> Term:
    rows, columns = s.integer(b, a.num_rows), s.integer(b, a.num_columns)
    same = b("equal", s.positions(b, rows, 2, 0), s.positions(b, columns, 2, 1))
    return s.as_kind(b, same, kind_of(a.dtype, Kind.FLOAT))


def _triangle_indices(*, upper: bool) -> Rule:
    make = np.triu_indices if upper else np.tril_indices
    return lambda b, a: b.literal(np.stack(make(a.rows, a.offset, a.columns)))


def _linspace(b: Builder, a: Arguments) -> Term:
    start, stop, count = s.number(b, a.start), s.number(b, a.stop), s.integer(b, a.number)
    if kind_of(a.dtype, Kind.FLOAT) is not Kind.FLOAT:
        raise NotLoweredError("integers")
    step = (stop - start) / (count - 1) if count > 1 else 0.0
    return s.as_kind(b, b("iota", size=count), Kind.FLOAT) * float(step) + float(start)


def _logspace(b: Builder, a: Arguments) -> Term:
    return b("pow", b.term(float(s.number(b, a.base))), _linspace(b, a))


def _full_like_batch(b: Builder, a: Arguments) -> Term:
    shape = list(a.shape)
    shape[a.output_dim_idx] = a.input.shape[a.input_dim_idx]
    return s.filled(b, shape, a.value, kind_of(a.dtype, Kind.FLOAT))


def _listed(b: Builder, values: Any, shape: Any, dtype: Any) -> Term:
    kind = kind_of(dtype, Kind.FLOAT)
    return b.literal(np.array(values, kind.dtype).reshape(tuple(shape)))


def _size(b: Builder, a: Arguments) -> Term:
    return b.term(a.x.spec.count)


def _shape(b: Builder, a: Arguments) -> Term:
    return b.literal(np.array(a.input.shape, np.int64))


def _part(b: Builder, x: Term, start: int, length: int) -> Term:
    start = start % x.shape[1]
    return s.narrow(b, x, 1, start, x.shape[1] if length < 0 else start + length)


def _partial_concat(b: Builder, a: Arguments) -> Term:
    return b("concat", *(_part(b, x, a.start_index, a.length) for x in a.x), axis=1)


def _partial_sum(b: Builder, a: Arguments) -> Term:
    result, *rest = (_part(b, x, a.start_index, a.length) for x in a.x)
    for each in rest:
        result = result + each
    return result


def _by_channel(function: Any, factor: str) -> Rule:
    """Rearrange channels in the layout of the format."""

    def rule(b: Builder, a: Arguments) -> Term:
        x = channels_first(b, a.x, a.data_format)
        return as_before(b, function(b, x, getattr(a, factor)), a.data_format)

    return rule


def _as_complex(b: Builder, a: Arguments) -> Term:
    return b("complex", *s.unbind(b, a.x, a.x.ndim - 1))


def _as_real(b: Builder, a: Arguments) -> Term:
    return s.stack(b, [b("real", a.x), b("imag", a.x)], a.x.ndim)


def _rows(b: Builder, a: Arguments) -> Term:
    return s.narrow(b, a.x, 0, a.begin, a.end)


def _select(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    place = a.index % a.x.shape[axis]
    return s.squeeze(b, s.narrow(b, a.x, axis, place, place + 1), (axis,))


def _in_place(name: str) -> str:
    return f"{name} {name}_"


ROWS: tuple[Row, ...] = (
    row(_in_place("reshape"), "x, shape", _reshape),
    row("transpose transpose_ trans_layout", "x, perm", lambda b, a: s.transpose(b, a.x, a.perm)),
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
    row("paddle.to_tensor", "data, dtype=None, place=None, stop_gradient=True", _to_tensor),
    row("full_", "output, shape, value, dtype=None, place=None", _full),
    row("full", "shape, value, dtype=None, place=None", _full),
    row("full_like", "x, value, dtype=None, place=None", _full_like),
    *(row(name, "shape, dtype=None, place=None", _constant(value))
      for name, value in (("zeros", 0), ("ones", 1), ("empty", 0))),
    *(row(f"{name}_like", "x, dtype=None, place=None", _constant_like(value))
      for name, value in (("zeros", 0), ("ones", 1), ("empty", 0))),
    row("arange", "start, end, step, dtype=None, place=None", _arange),
    row("meshgrid", "inputs", _meshgrid),
    row("flip reverse", "x, axis",
        lambda b, a: b("flip", a.x, axes=s.axes_of(b, a.axis, a.x.ndim))),
    row("roll", "x, shifts=(), axis=()", _roll),
    *(row(_in_place(name), "x, diagonal=0", _triangle(name)) for name in ("tril", "triu")),
    row("strided_slice", "x, axes, starts, ends, strides", _strided),
    row("crop", "x, shape=(), offsets=()", _crop),
    row("diag", "x, offset=0, padding_value=0.0", _diag),
    row("diag_embed", "input, offset=0, dim1=-2, dim2=-1", _diag_embed),
    row("diagonal", "x, offset=0, axis1=0, axis2=1", _diagonal),
    row("trace", "x, offset=0, axis1=0, axis2=1", _trace),
    row(_in_place("fill_diagonal"), "x, value=0, offset=0, wrap=False", _fill_diagonal),
    row(_in_place("fill_diagonal_tensor"), "x, y, offset=0, dim1=0, dim2=1", _put_diagonal),
    row("broadcast_tensors", "input", _broadcast_all),
    row("repeat_interleave repeat_interleave_with_tensor_index",
        "x, repeats, axis, output_size=-1", _repeated),
    row("frame", "x, frame_length, hop_length, axis=-1", _frame),
    row("overlap_add", "x, hop_length, axis=-1", _overlap_add),
    row("view_shape", "x, shape", _reshape),
    row("tensor_unfold", "x, axis, size, step",
        lambda b, a: b("windows", a.x, axis=s.axis_of(b, a.axis, a.x.ndim), size=a.size,
                       step=a.step, dilation=1)),
    row("._slice", "x, begin, end", _rows),
    row("index_select_strided", "x, index, axis=0", _select),
    row("eye", "num_rows, num_columns, dtype=None, place=None", _eye),
    row("tril_indices", "rows, columns, offset, dtype, place=None", _triangle_indices(upper=False)),
    row("triu_indices", "rows, columns, offset, dtype, place=None", _triangle_indices(upper=True)),
    row("linspace", "start, stop, number, dtype, place=None", _linspace),
    row("logspace", "start, stop, number, base, dtype, place=None", _logspace),
    row("full_with_tensor", "value, shape, dtype=None", _full),
    row("full_batch_size_like",
        "input, shape, dtype, value, input_dim_idx, output_dim_idx, place=None", _full_like_batch),
    row("full_int_array", "value, dtype=None, place=None",
        lambda b, a: _listed(b, a.value, (-1,), a.dtype)),
    row("assign_value_", "output, shape, dtype, values, place=None",
        lambda b, a: _listed(b, a.values, a.shape, a.dtype)),
    row("numel", "x", _size),
    row("shape shape64", "input", _shape),
    row("is_empty", "x", lambda b, a: b.term(not a.x.spec.count)),
    row("partial_concat", "x, start_index=0, length=-1", _partial_concat),
    row("partial_sum", "x, start_index=0, length=-1", _partial_sum),
    row("pixel_shuffle", "x, upscale_factor=1, data_format='NCHW'",
        _by_channel(channels.pixel_shuffle, "upscale_factor")),
    row("pixel_unshuffle", "x, downscale_factor=1, data_format='NCHW'",
        _by_channel(channels.pixel_unshuffle, "downscale_factor")),
    row("channel_shuffle", "x, groups, data_format='NCHW'",
        _by_channel(channels.shuffle, "groups")),
    row("as_complex", "x", _as_complex),
    row("as_real", "x", _as_real),
    row("pad", "x, paddings, pad_value", _pad),
    row("pad3d", "x, paddings, mode='constant', pad_value=0.0, data_format='NCDHW'", _pad_volume),
)  # fmt: skip
