"""Operators of torch that move, join, cut or make elements."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from padiff.program.graph import Dtype
from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import channels
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.matrices import diagonal_matrix
from padiff.program.lowering.rules import Arguments, Row, Rule, row
from padiff.program.primitives import Kind


def _flat(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return sizes that were given one by one or as one sequence."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes


def _reshape(b: Builder, a: Arguments) -> Term:
    sizes = _flat(a.shape)
    if len(sizes) == 1 and isinstance(sizes[0], Dtype):
        raise NotLoweredError("bits read as another dtype")
    return s.reshape(b, a.input, sizes)


def _permute(b: Builder, a: Arguments) -> Term:
    return s.transpose(b, a.input, s.integers(b, _flat(a.dims)))


def _transposed(b: Builder, a: Arguments) -> Term:
    return s.swap(b, a.input, a.dim0, a.dim1)


def _reversed_axes(b: Builder, a: Arguments) -> Term:
    return s.transpose(b, a.input, range(a.input.ndim)[::-1])


def _matrix_transposed(b: Builder, a: Arguments) -> Term:
    return s.swap(b, a.input, -1, -2)


def _adjoint(b: Builder, a: Arguments) -> Term:
    x = s.swap(b, a.input, -1, -2)
    return b("conj", x) if x.kind is Kind.COMPLEX else x


def _squeeze(b: Builder, a: Arguments) -> Term:
    axes = None if a.dim is None else s.axes_of(b, a.dim, a.input.ndim)
    return s.squeeze(b, a.input, axes)


def _expand(b: Builder, a: Arguments) -> Term:
    return s.expand(b, a.input, _flat(a.size))


def _cat(b: Builder, a: Arguments) -> Term:
    parts = [part for part in a.tensors if part.shape != (0,)] or list(a.tensors)
    axis = s.axis_of(b, a.dim, parts[0].ndim)
    return b("concat", *parts, axis=axis)


def _stack_along(axis: int, least: int) -> Rule:
    """Join values of at least that many axes, as hstack, vstack and dstack do."""

    def rule(b: Builder, a: Arguments) -> Term:
        parts = [_at_least(b, part, least) for part in _flat(a.tensors)]
        return b("concat", *parts, axis=0 if parts[0].ndim == 1 else axis)

    return rule


def _at_least(b: Builder, x: Term, ndim: int) -> Term:
    if x.ndim >= ndim:
        return x
    if ndim == 3:  # noqa: PLR2004
        shape = {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim]
        return s.reshape(b, x, shape)
    return s.reshape(b, x, (1,) * (ndim - x.ndim) + x.shape)


def _column_stack(b: Builder, a: Arguments) -> Term:
    parts = [s.reshape(b, x, (-1, 1)) if x.ndim < 2 else x for x in a.tensors]  # noqa: PLR2004
    return b("concat", *parts, axis=1)


def _split(b: Builder, a: Arguments) -> list[Term]:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    sizes = a.split_size
    if not isinstance(sizes, tuple | list):
        return _in_parts(b, a.input, axis, s.integer(b, sizes))
    return s.split(b, a.input, axis, s.integers(b, sizes))


def _in_parts(b: Builder, x: Term, axis: int, size: int) -> list[Term]:
    whole = x.shape[axis]
    if size <= 0:
        raise NotLoweredError("parts of no size")
    sizes = [min(size, whole - start) for start in range(0, whole, size)] or [0]
    return s.split(b, x, axis, sizes)


def _chunk(b: Builder, a: Arguments) -> list[Term]:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    return _in_parts(b, a.input, axis, max(1, -(-a.input.shape[axis] // a.chunks)))


def _tensor_split(b: Builder, a: Arguments) -> list[Term]:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    return _split_at(b, a.input, axis, a.indices_or_sections)


def _split_at(b: Builder, x: Term, axis: int, where: Any) -> list[Term]:
    size = x.shape[axis]
    if isinstance(where, int):
        base, extra = divmod(size, where)
        return s.split(b, x, axis, [base + (part < extra) for part in range(where)])
    borders = [0, *(min(place % size if place < 0 else place, size) for place in where), size]
    return [
        s.narrow(b, x, axis, start, max(start, stop)) for start, stop in itertools.pairwise(borders)
    ]


def _split_axis(axis: int) -> Rule:
    def rule(b: Builder, a: Arguments) -> list[Term]:
        where = a.indices_or_sections
        return _split_at(b, a.input, 0 if a.input.ndim == 1 and axis == 1 else axis, where)

    return rule


def _unflatten(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    sizes = s.integers(b, a.sizes)
    shape = a.input.shape
    if -1 in sizes:
        rest = -math.prod(sizes)
        sizes = tuple(shape[axis] // rest if size == -1 else size for size in sizes)
    return s.reshape(b, a.input, (*shape[:axis], *sizes, *shape[axis + 1 :]))


def _repeat_each(b: Builder, a: Arguments) -> Term:
    x = a.input if a.dim is not None else s.reshape(b, a.input, (-1,))
    axis = s.axis_of(b, a.dim or 0, x.ndim)
    counts = a.repeats
    if isinstance(counts, Term) and counts.spec.count != 1:
        places = np.repeat(np.arange(x.shape[axis]), b.static(counts))
        return b("take", x, b.literal(places), axis=axis)
    return s.repeat_each(b, x, s.integer(b, counts), axis)


def _flip(b: Builder, a: Arguments) -> Term:
    axes = s.axes_of(b, _flat(a.dims), a.input.ndim)
    return b("flip", a.input, axes=axes)


def _flip_axis(axis: int) -> Rule:
    return lambda b, a: b("flip", a.input, axes=(axis,))


def _roll(b: Builder, a: Arguments) -> Term:
    shifts = s.integers(b, a.shifts)
    if a.dims is None or a.dims == ():
        flat = s.reshape(b, a.input, (-1,))
        return s.reshape(b, b("roll", flat, axis=0, shift=shifts[0]), a.input.shape)
    x = a.input
    for shift, axis in zip(shifts, s.integers(b, a.dims), strict=True):
        x = b("roll", x, axis=s.axis_of(b, axis, x.ndim), shift=shift)
    return x


def _rot90(b: Builder, a: Arguments) -> Term:
    x, (first, second) = a.input, s.integers(b, a.dims)
    for _ in range(a.k % 4):
        x = s.swap(b, b("flip", x, axes=(s.axis_of(b, second, x.ndim),)), first, second)
    return x


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _pad(b: Builder, a: Arguments) -> Term:
    pairs = s.integers(b, a.pad)
    widths = [(0, 0)] * a.input.ndim
    for place in range(len(pairs) // 2):
        widths[-1 - place] = (pairs[2 * place], pairs[2 * place + 1])
    value = 0 if a.value is None else a.value
    value = float(value) if a.input.kind is Kind.FLOAT else value
    return b("pad", a.input, widths=tuple(widths), mode=_MODES[a.mode], value=value)


def _unfold_axis(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dimension, a.input.ndim)
    return b("windows", a.input, axis=axis, size=a.size, step=a.step, dilation=1)


def _as_strided(b: Builder, a: Arguments) -> Term:
    start = 0 if a.storage_offset is None else a.storage_offset - a.operand_offset
    held, strides = s.integers(b, a.operand_stride), s.integers(b, a.stride)
    return s.by_strides(b, a.input, held, s.integers(b, a.size), strides, start)


def _diagonal(b: Builder, a: Arguments) -> Term:
    x = s.move_axis(b, a.input, [a.dim1, a.dim2], [a.input.ndim - 2, a.input.ndim - 1])
    return b("diagonal", x, offset=a.offset)


def _diag(b: Builder, a: Arguments) -> Term:
    if a.input.ndim == 1:
        return diagonal_matrix(b, a.input, a.diagonal)
    return b("diagonal", a.input, offset=a.diagonal)


def _flat_diagonal(b: Builder, a: Arguments) -> Term:
    return diagonal_matrix(b, s.reshape(b, a.input, (-1,)), a.offset)


def _diag_embed(b: Builder, a: Arguments) -> Term:
    x = diagonal_matrix(b, a.input, a.offset)
    return s.move_axis(b, x, [x.ndim - 2, x.ndim - 1], [a.dim1, a.dim2])


def _triangle_indices(upper: bool) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        make = np.triu_indices if upper else np.tril_indices
        return b.literal(np.stack(make(a.row, a.offset, a.col)))

    return rule


def _narrow(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    start = s.integer(b, a.start) % max(a.input.shape[axis], 1)
    return s.narrow(b, a.input, axis, start, start + s.integer(b, a.length))


def _meshgrid(b: Builder, a: Arguments) -> list[Term]:
    parts = _flat(a.tensors)
    shape = [part.spec.count for part in parts]
    if a.indexing == "xy" and len(parts) > 1:
        shape[:2] = shape[1], shape[0]
    result = []
    for place, part in enumerate(parts):
        axis = {0: 1, 1: 0}.get(place, place) if a.indexing == "xy" and len(parts) > 1 else place
        sizes = [1] * len(parts)
        sizes[axis] = part.spec.count
        result.append(s.expand(b, s.reshape(b, part, sizes), shape))
    return result


def _broadcast_all(b: Builder, a: Arguments) -> list[Term]:
    shape = np.broadcast_shapes(*(part.shape for part in _flat(a.tensors)))
    return [s.expand(b, part, shape) for part in _flat(a.tensors)]


def _as_complex(b: Builder, a: Arguments) -> Term:
    last = a.input.ndim - 1
    real, imag = s.unbind(b, a.input, last)
    return b("complex", real, imag)


def _as_real(b: Builder, a: Arguments) -> Term:
    return s.stack(b, [b("real", a.input), b("imag", a.input)], a.input.ndim)


def _kind(b: Builder, dtype: Any, default: Kind | None = None) -> Kind:
    if isinstance(dtype, Dtype):
        return Kind.of_dtype(dtype.name)
    if default is not None:
        return default
    return b.expected[0].kind


def _full(value: Any = None) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        number = a.fill_value if value is None else value
        return s.filled(b, _flat(a.size), number, _kind(b, a.dtype))

    return rule


def _full_like(value: Any = None) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        number = a.fill_value if value is None else value
        return s.filled(b, a.input.shape, number, _kind(b, a.dtype, a.input.kind))

    return rule


def _arange(b: Builder, a: Arguments) -> Term:
    given = [each for each in a.range if each is not None]
    start, stop, step = a.start, a.end, a.step
    if len(given) == 1:
        stop = given[0]
    elif given:
        start, stop, step = (*given, step)[:3]
    return s.ranged(b, start, stop, step, _kind(b, a.dtype))


def _linspace(b: Builder, a: Arguments) -> Term:
    start, stop, count = s.number(b, a.start), s.number(b, a.end), s.integer(b, a.steps)
    places = s.as_kind(b, b("iota", size=count), Kind.FLOAT)
    if count < 2:  # noqa: PLR2004
        return places + float(start)
    step = (stop - start) / (count - 1)
    near = places * step + float(start)
    far = float(stop) - (float(count - 1) - places) * step
    return b("where", places < count / 2, near, far)


def _cosines(b: Builder, a: Arguments, *weights: float) -> Term:
    """Return a window that is a sum of cosines: each has its weight, with alternating signs.

    The sums are those of the pages of ``torch.hann_window`` and its like.
    """
    angles = _angles(b, a)
    found = angles * 0.0 + weights[0]
    for order, weight in enumerate(weights[1:], start=1):
        found = found + b("cos", angles * float(order)) * ((-1) ** order * weight)
    return found


def _angles(b: Builder, a: Arguments) -> Term:
    """Return the angles of a window's elements: a turn, which ends behind the last or with it."""
    size = s.integer(b, a.window_length)
    if size < 2:  # noqa: PLR2004
        raise NotLoweredError("a window of one element")
    turn = size if a.periodic else size - 1
    return s.as_kind(b, b("iota", size=size), Kind.FLOAT) * (2 * math.pi) / float(turn)


def _bartlett(b: Builder, a: Arguments) -> Term:
    return 1.0 - b("abs", _angles(b, a) * (1 / math.pi) - 1.0)


def _eye(b: Builder, a: Arguments) -> Term:
    columns = a.n if a.m is None else a.m
    same = b("equal", s.positions(b, a.n, 2, 0), s.positions(b, columns, 2, 1))
    return s.as_kind(b, same, _kind(b, a.dtype))


def _tensor(b: Builder, a: Arguments) -> Term:
    own = a.data.kind if isinstance(a.data, Term) else None
    return s.written_down(b, a.data, _kind(b, a.dtype, own))


def _fill_diagonal(b: Builder, a: Arguments) -> Term:
    """Write one number where all places are equal; with ``wrap`` again behind each square."""
    first, last = a.input.shape[0], min(a.input.shape)
    if a.wrap and a.input.ndim == 2 and first > last + 1:  # noqa: PLR2004 -- matrices alone wrap
        raise NotLoweredError("a diagonal that begins again")
    places = [s.positions(b, size, a.input.ndim, at) for at, size in enumerate(a.input.shape)]
    same = b("equal", places[0], places[1])
    for each in places[2:]:
        same = b("and", same, b("equal", places[0], each))
    value = s.as_kind(b, b.term(a.fill_value), a.input.kind)
    return b("where", same, value, a.input)


def _combinations(b: Builder, a: Arguments) -> Term:
    """Return elements by two or more, each place with those behind it."""
    choose = (
        itertools.combinations_with_replacement if a.with_replacement else itertools.combinations
    )
    places = list(choose(range(a.input.shape[0]), a.r))
    return b("take", a.input, b.literal(np.array(places, np.int64).reshape(-1, a.r)), axis=0)


def _cartesian(b: Builder, a: Arguments) -> Term:
    grids = _meshgrid(b, Arguments({"tensors": a.tensors, "indexing": "ij"}))
    if len(grids) == 1:
        return grids[0]
    return s.stack(b, [s.reshape(b, grid, (-1,)) for grid in grids], 1)


def _vander(b: Builder, a: Arguments) -> Term:
    count = a.input.shape[-1] if a.N is None else a.N
    powers = b("iota", size=count)
    if not a.increasing:
        powers = b("flip", powers, axes=(0,))
    return b("pow", s.unsqueeze(b, a.input, -1), powers)


_NEW = "dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False"
_WINDOW = "window_length, periodic=True"
_LIKE = f"input, *, {_NEW}, memory_format=None"

ROWS: tuple[Row, ...] = (
    row(
        "reshape .reshape .view view_copy aten._unsafe_view aten._reshape_copy",
        "input, *shape",
        _reshape,
    ),
    row(".reshape_as .view_as", "input, other", lambda b, a: s.reshape(b, a.input, a.other.shape)),
    row("permute .permute permute_copy", "input, *dims", _permute),
    row(
        "transpose .transpose .transpose_ transpose_copy swapaxes .swapaxes .swapaxes_ "
        "swapdims .swapdims .swapdims_",
        "input, dim0, dim1",
        _transposed,
    ),
    row("t .t .t_ .T t_copy aten.numpy_T", "input", _reversed_axes),
    row(".mT aten.mT", "input", _matrix_transposed),
    row("adjoint .adjoint .mH .H aten.mH", "input", _adjoint),
    row(
        "movedim .movedim moveaxis .moveaxis",
        "input, source, destination",
        lambda b, a: s.move_axis(b, a.input, s.integers(b, a.source), s.integers(b, a.destination)),
    ),
    row("squeeze .squeeze .squeeze_ squeeze_copy", "input, dim=None", _squeeze),
    row(
        "unsqueeze .unsqueeze .unsqueeze_ unsqueeze_copy",
        "input, dim",
        lambda b, a: s.unsqueeze(b, a.input, s.integer(b, a.dim)),
    ),
    row(
        "flatten .flatten",
        "input, start_dim=0, end_dim=-1",
        lambda b, a: s.flatten(b, a.input, a.start_dim, a.end_dim),
    ),
    row("ravel .ravel", "input", lambda b, a: s.reshape(b, a.input, (-1,))),
    row("unflatten .unflatten", "input, dim, sizes", _unflatten),
    row(".expand expand_copy broadcast_to .broadcast_to", "input, *size, implicit=False", _expand),
    row(".expand_as", "input, other", lambda b, a: s.expand(b, a.input, a.other.shape)),
    row("broadcast_tensors aten.broadcast_tensors", "*tensors", _broadcast_all),
    row("cat concat concatenate", "tensors, dim=0", _cat),
    row("stack", "tensors, dim=0", lambda b, a: s.stack(b, a.tensors, a.dim)),
    row("hstack", "*tensors", _stack_along(1, 1)),
    row("vstack row_stack", "*tensors", _stack_along(0, 2)),
    row("dstack", "*tensors", _stack_along(2, 3)),
    row("column_stack", "tensors", _column_stack),
    row(
        "split .split aten.split split_with_sizes .split_with_sizes split_with_sizes_copy "
        "unsafe_split unsafe_split_with_sizes",
        "input, split_size, dim=0",
        _split,
    ),
    row("chunk .chunk unsafe_chunk .unsafe_chunk", "input, chunks, dim=0", _chunk),
    row("tensor_split .tensor_split", "input, indices_or_sections, dim=0", _tensor_split),
    row("hsplit .hsplit", "input, indices_or_sections", _split_axis(1)),
    row("vsplit .vsplit", "input, indices_or_sections", _split_axis(0)),
    row(
        "unbind .unbind .__iter__ unbind_copy",
        "input, dim=0",
        lambda b, a: s.unbind(b, a.input, s.axis_of(b, a.dim, a.input.ndim)),
    ),
    row(
        "tile .tile", "input, *dims", lambda b, a: s.tile(b, a.input, s.integers(b, _flat(a.dims)))
    ),
    row(
        ".repeat",
        "input, *repeats",
        lambda b, a: s.tile(b, a.input, s.integers(b, _flat(a.repeats))),
    ),
    row(
        "repeat_interleave .repeat_interleave",
        "input, repeats, dim=None, *, output_size=None",
        _repeat_each,
    ),
    row("flip .flip", "input, *dims", _flip),
    row("fliplr .fliplr", "input", _flip_axis(1)),
    row("flipud .flipud", "input", _flip_axis(0)),
    row("roll .roll", "input, shifts, dims=None", _roll),
    row("rot90 .rot90", "input, k=1, dims=(0, 1)", _rot90),
    row("F.pad aten.pad", "input, pad, mode='constant', value=None", _pad),
    row("constant_pad_nd", "input, pad, value=0, *, mode='constant'", _pad),
    *(
        row(
            " ".join(f"aten.{name}_pad{n}d" for n in axes),
            f"input, pad, *, mode='{mode}', value=None",
            _pad,
        )
        for name, mode, axes in (
            ("reflection", "reflect", (1, 2, 3)),
            ("replication", "replicate", (1, 2, 3)),
        )
    ),
    row(".unfold unfold_copy", "input, dimension, size, step", _unfold_axis),
    row(
        "as_strided .as_strided",
        "input, size, stride, storage_offset=None, *, operand_stride=(), operand_offset=0",
        _as_strided,
    ),
    row("diagonal .diagonal diagonal_copy", "input, offset=0, dim1=0, dim2=1", _diagonal),
    row("diag .diag", "input, diagonal=0", _diag),
    row("diagflat .diagflat", "input, offset=0", _flat_diagonal),
    row(".fill_diagonal_", "input, fill_value, wrap=False", _fill_diagonal),
    row("combinations", "input, r=2, with_replacement=False", _combinations),
    row("diag_embed .diag_embed", "input, offset=0, dim1=-2, dim2=-1", _diag_embed),
    row(
        "tril .tril .tril_", "input, diagonal=0", lambda b, a: b("tril", a.input, offset=a.diagonal)
    ),
    row(
        "triu .triu .triu_", "input, diagonal=0", lambda b, a: b("triu", a.input, offset=a.diagonal)
    ),
    row("tril_indices", f"row, col, offset=0, *, {_NEW}", _triangle_indices(upper=False)),
    row("triu_indices", f"row, col, offset=0, *, {_NEW}", _triangle_indices(upper=True)),
    row("narrow .narrow narrow_copy .narrow_copy", "input, dim, start, length", _narrow),
    row("meshgrid aten.meshgrid", "*tensors, indexing='ij'", _meshgrid),
    row("cartesian_prod aten.cartesian_prod", "*tensors", _cartesian),
    row("atleast_1d aten.atleast_1d", "input", lambda b, a: _at_least(b, a.input, 1)),
    row("atleast_2d aten.atleast_2d", "input", lambda b, a: _at_least(b, a.input, 2)),
    row("atleast_3d aten.atleast_3d", "input", lambda b, a: _at_least(b, a.input, 3)),
    row(
        "F.pixel_shuffle pixel_shuffle",
        "input, upscale_factor",
        lambda b, a: channels.pixel_shuffle(b, a.input, a.upscale_factor),
    ),
    row(
        "F.pixel_unshuffle pixel_unshuffle",
        "input, downscale_factor",
        lambda b, a: channels.pixel_unshuffle(b, a.input, a.downscale_factor),
    ),
    row(
        "F.channel_shuffle channel_shuffle",
        "input, groups",
        lambda b, a: channels.shuffle(b, a.input, a.groups),
    ),
    row("view_as_complex view_as_complex_copy", "input", _as_complex),
    row("view_as_real view_as_real_copy", "input", _as_real),
    row("zeros", f"*size, {_NEW}", _full(0)),
    row("ones", f"*size, {_NEW}", _full(1)),
    row(
        "full",
        f"size, fill_value, *, {_NEW}",
        lambda b, a: s.filled(b, a.size, a.fill_value, _kind(b, a.dtype)),
    ),
    row(".new_zeros", f"input, *size, {_NEW}", _full(0)),
    row(".new_ones", f"input, *size, {_NEW}", _full(1)),
    row(
        ".new_full",
        f"input, size, fill_value, *, {_NEW}",
        lambda b, a: s.filled(b, a.size, a.fill_value, _kind(b, a.dtype)),
    ),
    row("zeros_like", _LIKE, _full_like(0)),
    row("ones_like", _LIKE, _full_like(1)),
    row("full_like", f"input, fill_value, *, {_NEW}, memory_format=None", _full_like()),
    # What nobody wrote counts as zero: a program that reads it computes nothing in particular.
    row("empty", f"*size, {_NEW}, memory_format=None", _full(0)),
    row(".new_empty", f"input, *size, {_NEW}", _full(0)),
    row("empty_strided empty_permuted", f"size, stride, *, {_NEW}", _full(0)),
    row(".new_empty_strided", f"input, size, stride, *, {_NEW}", _full(0)),
    row("empty_like", _LIKE, _full_like(0)),
    row("arange", f"*range, start=0, end=None, step=1, {_NEW}", _arange),
    row("linspace", f"start, end, steps, *, {_NEW}", _linspace),
    row(
        "logspace",
        f"start, end, steps, base=10.0, *, {_NEW}",
        lambda b, a: b("pow", float(a.base), _linspace(b, a)),
    ),
    row("eye", f"n, m=None, *, {_NEW}", _eye),
    row("hann_window", f"{_WINDOW}, *, {_NEW}", lambda b, a: _cosines(b, a, 0.5, 0.5)),
    row(
        "hamming_window",
        f"{_WINDOW}, alpha=0.54, beta=0.46, *, {_NEW}",
        lambda b, a: _cosines(b, a, s.number(b, a.alpha), s.number(b, a.beta)),
    ),
    row("blackman_window", f"{_WINDOW}, *, {_NEW}", lambda b, a: _cosines(b, a, 0.42, 0.5, 0.08)),
    row("bartlett_window", f"{_WINDOW}, *, {_NEW}", _bartlett),
    row("tensor as_tensor asarray scalar_tensor", f"data, *, {_NEW}, copy=None", _tensor),
    row(".new_tensor", f"input, data, *, {_NEW}", _tensor),
    row("linalg.vander", "input, *, N=None, increasing=True", _vander),
    row("vander", "input, N=None, increasing=False", _vander),
)
