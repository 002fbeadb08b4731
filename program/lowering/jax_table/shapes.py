"""Shapes, indexing and sorting of JAX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, row
from padiff.program.primitives import Kind

_IN_BOUNDS = frozenset({"CLIP", "PROMISE_IN_BOUNDS"})


def _reshape(b: Builder, a: Arguments) -> Term:
    if a.dimensions is not None:
        raise NotLoweredError("an order of axes of its own")
    return s.reshape(b, b.term(a.x), a.new_sizes)


def _broadcast(b: Builder, a: Arguments) -> Term:
    x = b.term(a.x)
    sizes = [1] * len(a.shape)
    for axis, place in enumerate(a.broadcast_dimensions):
        sizes[place] = x.shape[axis]
    return s.expand(b, s.reshape(b, x, sizes), a.shape)


def with_gaps(b: Builder, x: Term, axis: int, count: int) -> Term:
    """Put zeros between the elements of an axis."""
    size = x.shape[axis]
    if not count or size < 2:  # noqa: PLR2004
        return x
    wide = s.unsqueeze(b, x, axis + 1)
    widths = tuple((0, count) if each == axis + 1 else (0, 0) for each in range(wide.ndim))
    zero: Any = 0 if x.kind is Kind.INT else 0.0
    wide = b("pad", wide, widths=widths, mode="constant", value=zero)
    shape = (*x.shape[:axis], size * (count + 1), *x.shape[axis + 1 :])
    return s.narrow(b, s.reshape(b, wide, shape), axis, 0, shape[axis] - count)


def _pad(b: Builder, a: Arguments) -> Term:
    x, value = b.term(a.x), s.number(b, a.value)
    if any(inner for _, _, inner in a.padding_config):
        if value:
            raise NotLoweredError("gaps that are not zero")
        for axis, (_, _, inner) in enumerate(a.padding_config):
            x = with_gaps(b, x, axis, inner)
    widths = tuple((low, high) for low, high, _ in a.padding_config)
    return b("pad", x, widths=widths, mode="constant", value=value)


def _slice(b: Builder, a: Arguments) -> Term:
    x = a.x
    steps = a.strides or (1,) * x.ndim
    for axis, (start, stop, step) in enumerate(
        zip(a.start_indices, a.limit_indices, steps, strict=True)
    ):
        x = s.narrow(b, x, axis, start, stop, step)
    return x


def _starts(b: Builder, a: Arguments, sizes: Sequence[int]) -> list[int]:
    """Return where a part begins: JAX moves it inside."""
    return [
        min(max(s.integer(b, start), 0), whole - size)
        for start, whole, size in zip(a.starts, a.x.shape, sizes, strict=True)
    ]


def _dynamic_slice(b: Builder, a: Arguments) -> Term:
    x = a.x
    for axis, (start, size) in enumerate(
        zip(_starts(b, a, a.slice_sizes), a.slice_sizes, strict=True)
    ):
        x = s.narrow(b, x, axis, start, start + size)
    return x


def _dynamic_update(b: Builder, a: Arguments) -> Term:
    update = b.term(a.update)
    starts = _starts(b, a, update.shape)
    places = [
        s.positions(b, size, update.ndim, axis) + start
        for axis, (start, size) in enumerate(zip(starts, update.shape, strict=True))
    ]
    return b("put", a.x, update, *places, reduce="set") if places else update


def _iota(b: Builder, a: Arguments) -> Term:
    place = s.positions(b, a.shape[a.dimension], len(a.shape), a.dimension)
    return s.as_kind(b, s.expand(b, place, a.shape), b.expected[0].kind)


class _Lookup:
    """The coordinates of each element that ``gather`` reads or ``scatter`` writes.

    Axes of a result are *batch* axes, those of the indices, and *window* axes, those of a part.
    """

    def __init__(
        self,
        b: Builder,
        x: Term,
        indices: Term,
        ndim: int,
        numbers: Sequence[Sequence[int]],
    ) -> None:
        self.b, self.x, self.indices, self.ndim = b, x, indices, ndim
        self.window, self.collapsed, self.map, self.batching, self.of_batch = map(tuple, numbers)
        self.batch = [axis for axis in range(ndim) if axis not in self.window]

    def along(self, term: Term, axes: Sequence[int]) -> Term:
        """Lay a term's axes at those of the result."""
        shape = [1] * self.ndim
        for axis, size in zip(axes, term.shape, strict=True):
            shape[axis] = size
        return s.reshape(self.b, term, shape)

    def starts(self) -> list[Term]:
        """Return where the parts begin, for each axis that is looked up."""
        last = self.indices.ndim - 1
        parts = s.unbind(self.b, self.indices, last)
        return [self.along(part, self.batch) for part in parts]

    def coordinates(self, sizes: Sequence[int], *, clips: bool) -> list[Term]:
        """Return a coordinate for each axis of what is read or written."""
        b, window = self.b, iter(self.window)
        found = []
        starts = dict(zip(self.map, self.starts(), strict=True))
        for axis, size in enumerate(self.x.shape):
            if axis in self.batching:
                place = self.of_batch[self.batching.index(axis)]
                found.append(s.positions(b, size, self.ndim, self.batch[place]))
                continue
            start = starts.get(axis)
            if start is not None and clips:
                start = b("minimum", b("maximum", start, 0), size - sizes[axis])
            if axis in self.collapsed:
                found.append(b.term(0) if start is None else start)
                continue
            inside = s.positions(b, sizes[axis], self.ndim, next(window))
            found.append(inside if start is None else inside + start)
        return found

    def fits(self, sizes: Sequence[int]) -> Term | None:
        """Return which parts lie inside; None if all are known to."""
        b = self.b
        every: Term | None = None
        for axis, start in zip(self.map, self.starts(), strict=True):
            most = self.x.shape[axis] - sizes[axis]
            try:
                known = b.static(start)
                if known.size and known.min() >= 0 and known.max() <= most:
                    continue
            except NotLoweredError:
                pass
            inside = b("and", b("less_equal", 0, start), b("less_equal", start, most))
            every = inside if every is None else b("and", every, inside)
        return every


def _gather(b: Builder, a: Arguments) -> Term:
    x, indices = b.term(a.x), b.term(a.indices)
    look = _Lookup(b, x, indices, b.expected[0].ndim, a.dimension_numbers[:5])
    inside = None if a.mode in _IN_BOUNDS else look.fits(a.slice_sizes)
    taken = _taken(b, x, indices, look, a.slice_sizes) if inside is None else None
    clips = inside is not None or a.mode == "CLIP"
    if taken is None or (clips and look.fits(a.slice_sizes) is not None):
        taken = b("pick", x, *look.coordinates(a.slice_sizes, clips=clips))
    if inside is None:
        return taken
    kind = taken.kind
    fill: Any = math.nan if kind is Kind.FLOAT else 0
    fill = a.fill_value if a.fill_value is not None else fill
    return b("where", inside, taken, fill)


def _taken(b: Builder, x: Term, indices: Term, look: _Lookup, sizes: Sequence[int]) -> Term | None:
    """Return rows that are taken along one axis, if that is all: an embedding."""
    if len(look.collapsed) != 1 or look.map != look.collapsed or look.batching:
        return None
    (axis,) = look.collapsed
    whole = all(size == x.shape[each] for each, size in enumerate(sizes) if each != axis)
    if not whole or look.batch != list(range(axis, axis + len(look.batch))):
        return None
    return b("take", x, s.squeeze(b, indices, (indices.ndim - 1,)), axis=axis)


def _scatter(reduce: str) -> Any:
    def rule(b: Builder, a: Arguments) -> Term:
        x, indices, updates = b.term(a.x), b.term(a.indices), b.term(a.updates)
        look = _Lookup(b, x, indices, updates.ndim, a.dimension_numbers[:5])
        kept = [axis for axis in range(x.ndim) if axis not in (*look.collapsed, *look.batching)]
        sizes = [1] * x.ndim
        for axis, place in zip(kept, look.window, strict=True):
            sizes[axis] = updates.shape[place]
        if a.mode != "PROMISE_IN_BOUNDS" and look.fits(sizes) is not None:
            raise NotLoweredError("places that may lie outside")
        return b("put", x, updates, *look.coordinates(sizes, clips=False), reduce=reduce)

    return rule


def _sort(b: Builder, a: Arguments) -> Result:
    if a.num_keys != 1:
        raise NotLoweredError("several keys")
    values, order = b.many("sort", a.operands[0], axis=a.dimension, descending=False)
    others = [b("gather", b.term(one), order, axis=a.dimension) for one in a.operands[1:]]
    return [values, *others]


def _top(b: Builder, a: Arguments) -> Result:
    axis = a.x.ndim - 1 if a.axis is None else a.axis
    values, order = b.many("sort", a.x, axis=axis, descending=True)
    return [s.narrow(b, one, axis, 0, a.k) for one in (values, order)]


_LOOKED_UP = (
    "x, indices, updates, *, dimension_numbers, indices_are_sorted=False, unique_indices=False, "
    "mode=None, update_jaxpr=None, update_consts=()"
)

ROWS: tuple[Row, ...] = (
    row("reshape", "x, *, new_sizes, dimensions=None", _reshape),
    row("broadcast_in_dim", "x, *, shape, broadcast_dimensions", _broadcast),
    row("squeeze", "x, *, dimensions", lambda b, a: s.squeeze(b, b.term(a.x), a.dimensions)),
    row("transpose", "x, *, permutation", lambda b, a: s.transpose(b, a.x, a.permutation)),
    row("rev", "x, *, dimensions", lambda b, a: b("flip", a.x, axes=tuple(a.dimensions))),
    row(
        "concatenate",
        "*parts, dimension",
        lambda b, a: b("concat", *a.parts, axis=a.dimension),
    ),
    row(
        "stack",
        "*parts, axis",
        lambda b, a: s.stack(b, [b.term(one) for one in a.parts], a.axis),
    ),
    row("tile", "x, *, reps", lambda b, a: s.tile(b, a.x, a.reps)),
    row("split", "x, *, sizes, axis", lambda b, a: s.split(b, a.x, a.axis, a.sizes)),
    row("pad", "x, value, *, padding_config", _pad),
    row("slice", "x, *, start_indices, limit_indices, strides=None", _slice),
    row("dynamic_slice", "x, *starts, slice_sizes", _dynamic_slice),
    row("dynamic_update_slice", "x, update, *starts", _dynamic_update),
    row("iota", "*, dtype, shape, dimension", _iota),
    row(
        "gather",
        "x, indices, *, dimension_numbers, slice_sizes, indices_are_sorted=False, "
        "unique_indices=False, mode=None, fill_value=None",
        _gather,
    ),
    row("scatter", _LOOKED_UP, _scatter("set")),
    row("scatter-add", _LOOKED_UP, _scatter("add")),
    row("scatter-mul", _LOOKED_UP, _scatter("mul")),
    row("scatter-max", _LOOKED_UP, _scatter("amax")),
    row("scatter-min", _LOOKED_UP, _scatter("amin")),
    row("sort", "*operands, dimension, is_stable=True, num_keys=1", _sort),
    row("top_k", "x, *, k, axis=None", _top),
)
