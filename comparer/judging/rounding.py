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

import bisect
import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from padiff.dumpfile import Role, is_floating
from padiff.dumpfile.bulk import build_all
from padiff.pairing import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import Index, RecordInfo

__all__ = ["CONTRACTIONS", "Rounding", "Sums"]

_MATRIX = 2
"""Axes of a weight from which on it multiplies."""
_ENTRY = {Role.OUTPUT: Role.INPUT, Role.GRAD_INPUT: Role.GRAD_OUTPUT}
"""What went in of what came out."""
CONTRACTIONS = (
    "adaptive_", "avg_pool", "celu", "dropout", "elu", "flatten", "gelu", "hard", "identity",
    "leaky_relu", "log_sigmoid", "max_pool", "mish", "relu", "sigmoid", "silu", "softmax",
    "softplus", "softshrink", "softsign", "tanh",
)  # fmt: skip
"""Kinds of layers without weights whose slope is about 1 at most: an absolute error passes as it is
or shrinks, also where the result is small (a ReLU6 of 40 is 6, as far off as the 40 were)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a record is the sum of."""

    size: float = 0.0
    """What its elements are about, before anything cancels, at least the largest one's size."""
    calls: int = 0
    """How many layers had been computed before it, each of which rounds its result; those of the
    backward pass count twice. Not all of them need to have led to it: it is an upper bound."""
    terms: int = 0
    """How many terms the sums in all those layers and in itself have, one element of each."""


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
        self._first: dict[tuple[int, Role], RecordInfo] = {}
        self._calls: dict[int, list[int]] = defaultdict(list)
        self._matrix: dict[int, RecordInfo] = {}
        self._maker: dict[int, RecordInfo] = {}
        self._behind: dict[int, float] = {}
        self._of_values: dict[int | None, _Own] = {}
        self._passing: dict[int, bool] = {}
        told = [value.statistics for value in index.values]
        self._largest_of = [max(abs(s.minimum or 0.0), abs(s.maximum or 0.0)) for s in told]
        self._given: dict[tuple[int, str], dict[Role, RecordInfo]] = defaultdict(dict)
        parents = {module.parent for module in index.modules}
        self._is_layer = [module.id not in parents for module in index.modules]
        for call in index.calls:
            self._calls[call.module].append(call.id)
        for record in index.records:
            if record.value is None or not is_floating(index.values[record.value].dtype):
                continue
            if record.call is not None:
                self._first.setdefault((record.call, record.role), record)
                if record.role in _ENTRY and self._is_layer[record.module]:
                    self._maker.setdefault(record.value, record)
                if index.calls[record.call].parent is None:
                    self._given[record.call, record.slot].setdefault(record.role, record)
            elif record.role is Role.WEIGHT and len(record.shape) >= _MATRIX:
                self._matrix.setdefault(record.module, record)
        orders, before = self._add_up()
        places = [bisect.bisect_right(orders, record.order) for record in index.records]
        self._before = [before[place] for place in places]

    def of(self, records: Sequence[RecordInfo]) -> list[Sums]:
        """Find what each record is the sum of.

        Args:
            records: Some of the index's, of any role, with a value.
        """
        own = [self._own(record) for record in records]
        before = [self._before[record.id] for record in records]
        return build_all(
            Sums,
            len(records),
            size=[one.size for one in own],
            calls=[calls for calls, _ in before],
            terms=[one.terms + terms for one, (_, terms) in zip(own, before, strict=True)],
        )

    def _own(self, record: RecordInfo) -> _Own:
        """Find what the layer itself adds up for a record."""
        if record.role is Role.WEIGHT_GRAD:
            return self._of_weight_gradient(record, self._largest(record))
        if record.role is Role.LOSS:
            return self._of_loss(self._largest(record))
        own = self._of_values.get(record.value)
        if own is None:
            own = _Own(max(self._of_value(record.value), self._largest(record)), 0)
            self._of_values[record.value] = own
        return own

    def _of_value(self, value: int | None) -> float:
        """Give what was added up for a value, wherever it is recorded; 0 where no layer made it.

        An activation or a pooling passes on the error of what it was given, whatever its result is.
        """
        if value is None or value not in self._maker:
            return 0.0
        if value not in self._behind:
            size, seen, current = 0.0, set[int](), value
            while current in self._maker and current not in seen:
                seen.add(current)
                record = self._maker[current]
                size = max(size, self._of_product(record))
                entry = self._first.get((record.call or 0, _ENTRY[record.role]))
                if entry is None or entry.value is None or not self._passes_on(record.module):
                    break
                size, current = max(size, self._largest(entry)), entry.value
            self._behind[value] = size
        return self._behind[value]

    def _passes_on(self, module: int) -> bool:
        if module not in self._passing:
            kind = kind_of(self._index.modules[module])
            self._passing[module] = kind is not None and kind.startswith(CONTRACTIONS)
        return self._passing[module]

    def _add_up(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Give the execution orders at which layers were done, and what they come to until then."""
        events = []
        for call in self._index.calls:
            if self._is_layer[call.module] and call.end is not None:
                terms = self._terms(call.id, call.module)
                events.append((call.end, 1, terms))
                gradient = self._first.get((call.id, Role.GRAD_OUTPUT))
                if gradient is not None:
                    events.append((gradient.order, 2, 2 * terms))
        events.sort()
        counts = accumulate(
            events, lambda sums, event: (sums[0] + event[1], sums[1] + event[2]), initial=(0, 0)
        )
        return [order for order, _, _ in events], list(counts)

    def _terms(self, call: int, module: int) -> int:
        """Give how many terms each element of a layer's product is the sum of, 0 without one."""
        matrix = self._matrix.get(module)
        output = self._first.get((call, Role.OUTPUT))
        width = None if matrix is None or output is None else _width(output, matrix)
        return 0 if matrix is None or width is None else math.prod(matrix.shape) // width

    def _of_product(self, record: RecordInfo) -> float:
        """Take an output or input gradient as the product of a weight with what went in."""
        matrix = self._matrix.get(record.module)
        entry = self._first.get((record.call or 0, _ENTRY[record.role]))
        if matrix is None or entry is None:
            return 0.0
        width = _width(record, matrix)
        if width is None:
            return 0.0
        return math.sqrt(math.prod(matrix.shape) / width) * self._rms(entry) * self._rms(matrix)

    def _of_weight_gradient(self, record: RecordInfo, largest: float) -> _Own:
        """Add what every position of every call of the layer gives to its weight's gradient."""
        square, count = 0.0, 0
        is_vector = len(record.shape) < _MATRIX
        for flow in self._flows(record.module):
            gradient = flow.leaving
            width = math.prod(record.shape) if is_vector else _width(gradient, record)
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
        for call in self._calls[module]:
            entry = self._first.get((call, Role.INPUT))
            leaving = self._first.get((call, Role.GRAD_OUTPUT))
            if entry is not None and leaving is not None:
                yield _Flow(entry=entry, leaving=leaving)

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
