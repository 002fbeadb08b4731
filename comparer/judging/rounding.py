"""How much rounding a record may hold, to first order, from the sums that it is the result of.

A rounding error is relative to what was added up, not to what is left of it. What a layer adds up
is known from recorded norms alone: a product with weights of K terms, each of about ``rms(x) *
rms(w)``, gives elements of about ``sqrt(K) * rms(x) * rms(w)`` where the terms are independent,
whatever cancels in them; a bias's gradient adds the gradients of T positions, and is of about
``sqrt(T) * rms(g)`` even where it is zero mathematically; a loss adds its outputs, each times its
gradient.

What the layers before it have rounded is in it too. Through a product with independent weights a
relative error stays about what it is, so that n roundings before come to ``sqrt(n)`` of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from padiff.dumpfile import Role, is_floating
from padiff.pairing import kind_of

from .sums import SumColumns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import Index, RecordInfo

    from .blocks import Array
    from .sums import Sums

__all__ = ["CONTRACTIONS", "Rounding"]

_MATRIX = 2
"""Axes of a weight from which on it multiplies."""
_ENTRY = {Role.OUTPUT: Role.INPUT, Role.GRAD_INPUT: Role.GRAD_OUTPUT}
"""What went in of what came out."""
_MANY = 1 << 62
"""Sums below this fit 64 bits. Lengths in a dump from anyone may be larger."""
CONTRACTIONS = (
    "adaptive_", "avg_pool", "celu", "dropout", "elu", "flatten", "gelu", "hard", "identity",
    "leaky_relu", "log_sigmoid", "max_pool", "mish", "relu", "sigmoid", "silu", "softmax",
    "softplus", "softshrink", "softsign", "tanh",
)  # fmt: skip
"""Kinds of layers without weights whose slope is about 1 at most: an absolute error passes as it is
or shrinks, also where the result is small (a ReLU6 of 40 is 6, as far off as the 40 were)."""


class _Own(NamedTuple):
    """What one layer adds up; a plain tuple, as there is one for each record."""

    size: float
    terms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """What went through one call of a layer."""

    entry: RecordInfo
    """Its first floating input."""
    leaving: RecordInfo
    """Its first output, or the gradient of that."""


class Rounding:
    """The sums behind the records of one step of the reference."""

    def __init__(self, index: Index) -> None:
        """Sort the records by what they belong to.

        Args:
            index: The reference's.
        """
        self._index = index
        self._first: dict[Role, list[int]] = {}
        """By role the first record of each call, -1 where there is none."""
        self._calls: dict[int, list[int]] = defaultdict(list)
        self._matrix: dict[int, RecordInfo] = {}
        self._widths: dict[tuple[tuple[int, ...], tuple[int, ...]], int | None] = {}
        self._given: dict[tuple[int, str], dict[Role, RecordInfo]] = defaultdict(dict)
        told = [value.statistics for value in index.values]
        self._largest_of = [max(abs(s.minimum or 0.0), abs(s.maximum or 0.0)) for s in told]
        parents = {module.parent for module in index.modules}
        self._is_layer = [module.id not in parents for module in index.modules]
        for call in index.calls:
            self._calls[call.module].append(call.id)
        self._behind = self._sort()
        self._orders, self._done, self._terms_done = self._add_up()

    def of(self, records: Sequence[RecordInfo]) -> list[Sums]:
        """Find what each record is the sum of.

        Args:
            records: Some of the index's, of any role, with a value.
        """
        return self.columns(records).rows(slice(None))

    def columns(self, records: Sequence[RecordInfo]) -> SumColumns:
        """Find what each record is the sum of.

        Args:
            records: Some of the index's, of any role, with a value.
        """
        places = np.searchsorted(self._orders, [record.order for record in records], side="right")
        size = self._behind[[record.value or 0 for record in records]]
        terms = self._terms_done[places].tolist()
        for at, record in enumerate(records):
            if record.role is Role.WEIGHT_GRAD or record.role is Role.LOSS:
                own = self._alone(record)
                size[at] = own.size
                terms[at] += own.terms
        return SumColumns(size=size, calls=self._done[places], terms=_integers(terms))

    def _sort(self) -> Array:
        """Sort the records, and give what was added up for each value, wherever it is recorded.

        At least its largest element. An activation or a pooling passes on the error of what it was
        given, whatever its result is.
        """
        index = self._index
        is_float = [is_floating(value.dtype) for value in index.values]
        held = [one for one in index.records if one.value is not None and is_float[one.value]]
        for record in held:
            if record.role is Role.WEIGHT and record.call is None and len(record.shape) >= _MATRIX:
                self._matrix.setdefault(record.module, record)
        called = [record for record in held if record.call is not None]
        for role in (*_ENTRY, *_ENTRY.values()):
            first = self._first[role] = [-1] * len(index.calls)
            for record in reversed(called):
                if record.role is role:
                    first[record.call or 0] = record.id
        roots = {call.id for call in index.calls if call.parent is None}
        for record in called:
            if record.call in roots:
                self._given[record.call or 0, record.slot].setdefault(record.role, record)
        of_layers = [record for record in called if self._is_layer[record.module]]
        made = [one for one in of_layers if one.role is Role.OUTPUT or one.role is Role.GRAD_INPUT]
        return np.fmax(self._passed_on(made), np.array(self._largest_of, np.float64))

    def _passed_on(self, made: Sequence[RecordInfo]) -> Array:
        """Give for each value what the layers added up that it came through without a product.

        Args:
            made: What layers gave, in order; the first of a value made it.
        """
        count = len(self._index.values)
        sizes, sources = [0.0] * count, [-1] * count
        first = {record.value: record for record in reversed(made)}
        inputs, gradients = self._first[Role.INPUT], self._first[Role.GRAD_OUTPUT]
        for value, record in first.items():
            place = (inputs if record.role is Role.OUTPUT else gradients)[record.call or 0]
            if place < 0:
                continue  # of what went in nothing is known
            entry = self._index.records[place]
            own = self._of_product(record, entry)
            if self._passes_on[record.module]:
                own, sources[value or 0] = max(own, self._largest(entry)), entry.value or 0
            sizes[value or 0] = own
        size, source = np.array(sizes), np.array(sources, np.int64)
        # Each round looks twice as far back; more rounds than bits are only needed by a cycle.
        for _ in range(count.bit_length()):
            at = np.flatnonzero(source >= 0)
            if not at.size:
                break
            behind = source[at]
            size[at] = np.fmax(size[at], size[behind])
            source[at] = source[behind]
        return size

    @cached_property
    def _passes_on(self) -> list[bool]:
        """Tell of each module whether it passes an error on as it is."""
        kinds = map(kind_of, self._index.modules)
        return [kind is not None and kind.startswith(CONTRACTIONS) for kind in kinds]

    def _alone(self, record: RecordInfo) -> _Own:
        """Find what is added up for a record that is no product of one call."""
        largest = self._largest(record)
        if record.role is Role.LOSS:
            return self._of_loss(largest)
        return self._of_weight_gradient(record, largest)

    def _add_up(self) -> tuple[Array, Array, Array]:
        """Give the execution orders at which layers were done, and what they come to until then."""
        outputs, gradients = self._first[Role.OUTPUT], self._first[Role.GRAD_OUTPUT]
        events = []
        for call in self._index.calls:
            if self._is_layer[call.module] and call.end is not None:
                has_terms = call.module in self._matrix
                terms = self._terms(outputs[call.id], call.module) if has_terms else 0
                events.append((call.end, 1, terms))
                if gradients[call.id] >= 0:
                    order = self._index.records[gradients[call.id]].order
                    events.append((order, 2, 2 * terms))
        events.sort()
        orders, counts, terms_of = zip(*events, strict=True) if events else ((), (), ())
        done, added = (_integers(list(accumulate(one, initial=0))) for one in (counts, terms_of))
        return np.array(orders, np.int64), done, added

    def _terms(self, output: int, module: int) -> int:
        """Give how many terms each element of a layer's product is the sum of, 0 without one."""
        matrix = self._matrix.get(module)
        if matrix is None or output < 0:
            return 0
        width = self._width(self._index.records[output], matrix)
        return 0 if width is None else math.prod(matrix.shape) // width

    def _of_product(self, record: RecordInfo, entry: RecordInfo) -> float:
        """Take an output or input gradient as the product of a weight with what went in."""
        matrix = self._matrix.get(record.module)
        width = None if matrix is None else self._width(record, matrix)
        if matrix is None or width is None:
            return 0.0
        size = math.sqrt(math.prod(matrix.shape) / width) * self._rms(entry) * self._rms(matrix)
        return max(0.0, size)

    def _width(self, record: RecordInfo, matrix: RecordInfo) -> int | None:
        key = record.shape, matrix.shape
        if key not in self._widths:
            self._widths[key] = _width(record, matrix)
        return self._widths[key]

    def _of_weight_gradient(self, record: RecordInfo, largest: float) -> _Own:
        """Add what every position of every call of the layer gives to its weight's gradient."""
        square, count = 0.0, 0
        is_vector = len(record.shape) < _MATRIX
        for flow in self._flows(record.module):
            gradient = flow.leaving
            width = math.prod(record.shape) if is_vector else self._width(gradient, record)
            if not width:
                return _Own(largest, 0)
            positions = max(math.prod(gradient.shape) // width, 1)
            other = 1.0 if is_vector else self._rms(flow.entry)
            square += positions * (self._rms(gradient) * other) ** 2
            count += positions
        return _Own(max(math.sqrt(square), largest), count)

    def _of_loss(self, largest: float) -> _Own:
        """Add what each element of the root's outputs is worth to the loss, as its gradient says.

        At most the largest of them, as of a mean: gradients may be those of a loss scaled up.
        """
        square, most, count = 0.0, 0.0, 0
        for found in self._given.values():
            output, gradient = found.get(Role.OUTPUT), found.get(Role.GRAD_OUTPUT)
            if output is not None and gradient is not None:
                count += math.prod(output.shape)
                square += math.prod(gradient.shape) * (self._rms(gradient) * self._rms(output)) ** 2
                most = max(most, self._largest(output))
        size = max(min(math.sqrt(square), most), largest)
        return _Own(size, count)

    def _flows(self, module: int) -> Iterator[_Flow]:
        if not self._is_layer[module]:
            return
        records = self._index.records
        for call in self._calls[module]:
            entry, leaving = (self._first[role][call] for role in (Role.INPUT, Role.GRAD_OUTPUT))
            if entry >= 0 and leaving >= 0:
                yield _Flow(entry=records[entry], leaving=records[leaving])

    def _rms(self, record: RecordInfo) -> float:
        found = self._index.values[record.value or 0].statistics
        return (found.l2 or 0.0) / math.sqrt(max(math.prod(record.shape), 1))

    def _largest(self, record: RecordInfo) -> float:
        return self._largest_of[record.value or 0]


def _width(record: RecordInfo, matrix: RecordInfo) -> int | None:
    """Give the axis of a weight along which a tensor lies: features last, or channels second.

    None where no axis of the weight has that length: the layer is no product that is known.
    """
    axis = -1 if len(matrix.shape) == _MATRIX else 1
    if len(record.shape) < _MATRIX:
        axis = -1
    width = record.shape[axis] if record.shape else None
    return width if width in matrix.shape[:_MATRIX] and width else None


def _integers(numbers: Sequence[int]) -> Array:
    """Give integers >= 0 as int64, or as they are where one does not fit."""
    return np.array(numbers, np.int64 if max(numbers, default=0) < _MANY else object)
