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

from .numbered import numbered
from .sums import SumColumns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import Index, RecordInfo

    from .blocks import Array
    from .sums import Sums

__all__ = ["Rounding"]

_MATRIX = 2
"""Axes of a weight from which on it multiplies."""
_ENTRY = {Role.OUTPUT: Role.INPUT, Role.GRAD_INPUT: Role.GRAD_OUTPUT}
"""What went in of what came out."""
_ALONE = frozenset({Role.WEIGHT_GRAD, Role.LOSS})
"""What is no product of one call."""
_CODES = {role: code for code, role in enumerate(Role)}
_MANY = 1 << 62
"""Sums below this fit 64 bits. Lengths in a dump from anyone may be larger."""
_CONTRACTIONS = (
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


class _Flow(NamedTuple):
    """What went through one call of a layer."""

    entry: RecordInfo
    """Its first floating input."""
    leaving: RecordInfo
    """Its first output, or the gradient of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The records of an index as columns; -1 where there is none."""

    value: Array
    call: Array
    module: Array
    role: Array
    """By ``_CODES``."""
    is_float: Array
    """Whether it holds a value of a floating dtype."""

    @classmethod
    def of(cls, index: Index) -> _Table:
        """Take all records of an index."""
        records = index.records
        names = [value.dtype for value in index.values]
        floating = {name: is_floating(name) for name in set(names)}
        is_float = np.array([*map(floating.__getitem__, names), False], np.bool_)
        value = np.array([-1 if one.value is None else one.value for one in records], np.int64)
        return cls(
            value=value,
            call=np.array([-1 if one.call is None else one.call for one in records], np.int64),
            module=np.array([one.module for one in records], np.int64),
            role=numbered([one.role for one in records], Role),
            is_float=is_float[value],
        )


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
        lengths = np.array([one.l2 or 0.0 for one in told], np.float64)
        counts = np.array([value.size for value in index.values], np.float64)
        self._rms_of = lengths / np.sqrt(np.maximum(counts, 1.0))
        parents = {module.parent for module in index.modules}
        self._is_layer = [module.id not in parents for module in index.modules]
        for call in index.calls:
            self._calls[call.module].append(call.id)
        self._behind = self._sort()
        self._through = self._first[Role.INPUT], self._first[Role.GRAD_OUTPUT]
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
            if record.role in _ALONE:
                own = self._alone(record)
                size[at] = own.size
                terms[at] += own.terms
        return SumColumns(size=size, calls=self._done[places], terms=_integers(terms))

    def _sort(self) -> Array:
        """Sort the records, and give what was added up for each value, wherever it is recorded.

        At least its largest element. An activation or a pooling passes on the error of what it was
        given, whatever its result is.
        """
        index, table = self._index, _Table.of(self._index)
        is_kept = table.is_float & (table.call < 0) & (table.role == _CODES[Role.WEIGHT])
        for place in np.flatnonzero(is_kept).tolist():
            record = index.records[place]
            if len(record.shape) >= _MATRIX:
                self._matrix.setdefault(record.module, record)
        is_called = table.is_float & (table.call >= 0)
        for role in (*_ENTRY, *_ENTRY.values()):
            at = np.flatnonzero(is_called & (table.role == _CODES[role]))
            calls, firsts = np.unique(table.call[at], return_index=True)
            first = np.full(len(index.calls), -1)
            first[calls] = at[firsts]
            self._first[role] = first.tolist()
        is_root = np.array([call.parent is None for call in index.calls], np.bool_)
        at = np.flatnonzero(is_called)
        for place in at[is_root[table.call[at]]].tolist():
            record = index.records[place]
            self._given[record.call or 0, record.slot].setdefault(record.role, record)
        is_made = (table.role == _CODES[Role.OUTPUT]) | (table.role == _CODES[Role.GRAD_INPUT])
        at = np.flatnonzero(is_called & is_made)
        at = at[np.array(self._is_layer, np.bool_)[table.module[at]]]
        return np.fmax(self._passed_on(table, at), np.array(self._largest_of, np.float64))

    def _passed_on(self, table: _Table, made: Array) -> Array:
        """Give for each value what the layers added up that it came through without a product.

        Args:
            table: All records.
            made: What layers gave, in order; the first of a value made it.
        """
        count = len(self._index.values)
        values, firsts = np.unique(table.value[made], return_index=True)
        made = made[firsts]
        is_output = table.role[made] == _CODES[Role.OUTPUT]
        inputs, gradients = (
            np.array(self._first[role], np.int64) for role in (Role.INPUT, Role.GRAD_OUTPUT)
        )
        calls = table.call[made]
        entry = np.where(is_output, inputs[calls], gradients[calls])
        is_fed = entry >= 0  # of others it is not known what went in
        values, made, entry = values[is_fed], made[is_fed], entry[is_fed]
        own = self._of_products(made.tolist(), entry.tolist())
        is_passed = np.array(self._passes_on, np.bool_)[table.module[made]]
        given = table.value[entry]
        own = np.where(is_passed, np.fmax(own, np.array(self._largest_of)[given]), own)
        size, source = np.zeros(count), np.full(count, -1, np.int64)
        size[values], source[values] = own, np.where(is_passed, given, -1)
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
        return [kind is not None and kind.startswith(_CONTRACTIONS) for kind in kinds]

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

    def _of_products(self, made: Sequence[int], entries: Sequence[int]) -> Array:
        """Take outputs or input gradients as the products of a weight with what went in.

        Args:
            made: Records of layers.
            entries: Of each, the record of what went in.
        """
        records, factors = self._index.records, np.zeros(len(made))
        values = np.zeros((2, len(made)), np.int64)
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
        for at, place in enumerate(made):
            record = records[place]
            matrix = self._matrix.get(record.module)
            if matrix is None:
                continue
            key = record.shape, matrix.shape
            if key not in known:
                width = self._width(record, matrix)
                known[key] = math.sqrt(math.prod(matrix.shape) / width) if width else 0.0
            factors[at] = known[key]
            values[:, at] = records[entries[at]].value or 0, matrix.value or 0
        with np.errstate(all="ignore"):
            sizes = factors * self._rms_of[values[0]] * self._rms_of[values[1]]
        return np.where(factors == 0, 0.0, np.fmax(sizes, 0.0))

    def _width(self, record: RecordInfo, matrix: RecordInfo) -> int | None:
        key = record.shape, matrix.shape
        if key not in self._widths:
            self._widths[key] = _width(record, matrix)
        return self._widths[key]

    def _of_weight_gradient(self, record: RecordInfo, largest: float) -> _Own:
        """Add what every position of every call of the layer gives to its weight's gradient."""
        norm, count = 0.0, 0
        is_vector = len(record.shape) < _MATRIX
        for flow in self._flows(record.module):
            gradient = flow.leaving
            width = math.prod(record.shape) if is_vector else self._width(gradient, record)
            if not width:
                return _Own(largest, 0)
            positions = max(math.prod(gradient.shape) // width, 1)
            other = 1.0 if is_vector else self._rms(flow.entry)
            norm = math.hypot(norm, math.sqrt(positions) * self._rms(gradient) * other)
            count += positions
        return _Own(max(norm, largest), count)

    def _of_loss(self, largest: float) -> _Own:
        """Add what each element of the root's outputs is worth to the loss, as its gradient says.

        At most the largest of them, as of a mean: gradients may be those of a loss scaled up.
        """
        norm, most, count = 0.0, 0.0, 0
        for found in self._given.values():
            output, gradient = found.get(Role.OUTPUT), found.get(Role.GRAD_OUTPUT)
            if output is not None and gradient is not None:
                count += math.prod(output.shape)
                own = self._rms(gradient) * self._rms(output)
                norm = math.hypot(norm, math.sqrt(math.prod(gradient.shape)) * own)
                most = max(most, self._largest(output))
        size = max(min(norm, most), largest)
        return _Own(size, count)

    def _flows(self, module: int) -> Iterator[_Flow]:
        if not self._is_layer[module]:
            return
        records, (inputs, gradients) = self._index.records, self._through
        for call in self._calls[module]:
            entry, leaving = inputs[call], gradients[call]
            if entry >= 0 and leaving >= 0:
                yield _Flow(records[entry], records[leaving])

    def _rms(self, record: RecordInfo) -> float:
        return float(self._rms_of[record.value or 0])

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
