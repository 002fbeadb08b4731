"""Values that only hold elements of judged ones: slices, transposes, repetitions, joins.

A module that one side alone calls is handed the queries cut out of a fused projection, or heads
repeated for groups. Nothing was computed: what it holds was judged where it was made.
"""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import CALL_ROLES, Content, DumpError, RecordInfo, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from padiff.pairing.view import View

Keys = npt.NDArray[np.unsignedinteger[Any]]

MOST_ELEMENTS = 1 << 22
"""Larger tensors are not looked into."""
MOST_SOURCES = 24
"""Judged values around that are looked into for each, the nearest."""
MOST_WORK = 1 << 29
"""Elements that are read and sorted for a whole side; what is left then stays alone."""
KEPT_KEYS = 1 << 23
"""Of what was looked into, so many are kept for the calls around, the latest; 64 MiB at most."""
SAMPLED_KEYS = 64
"""So many keys of a value are looked for before all of them: most values fail by the first."""
LEAST_TELLING = 16
"""Different elements from which on it is no accident that another tensor has them all.

Of two unrelated tensors of 2^22 elements half of the elements may be common (float32 has 2^23
numbers between two powers of two), all of 16 are with a probability of 2^-16.
"""
_KEY_BYTES = 4
"""What is looked for at least: one float32, two or more neighbours of smaller elements."""
_WIDE_KEY_BYTES = 8
"""Two neighbours of 16 bits are not telling enough: there are few numbers of usual size."""
_BACKWARD = (Role.GRAD_OUTPUT, Role.GRAD_INPUT)
_FORWARD = (Role.OUTPUT, Role.INPUT)


class Parts:
    """Finds, for the values of one side, the judged values that hold all their elements."""

    def __init__(self, view: View, judged: Mapping[int, int]) -> None:
        """Keep what is judged.

        Args:
            view: The side.
            judged: The first record at which each judged value of calls is judged.
        """
        self._view = view
        self._judged = judged
        self._found: dict[int, str] = {}
        self._kept: dict[tuple[int, int], Keys] = {}
        """Latest last."""
        self._left = MOST_WORK

    def reason(self, record: RecordInfo) -> str:
        """Describe where the elements of a record are judged; empty where they are not."""
        value = record.value
        if value is None or record.call is None or record.role not in CALL_ROLES:
            return ""
        if value not in self._found:
            self._found[value] = self._reason(record)
        return self._found[value]

    def _reason(self, record: RecordInfo) -> str:
        if not self._is_readable(record) or not self._view.telling[record.value or 0]:
            return ""
        width = self._width(record)
        keys = self._own_keys(record, width)
        if keys is None:
            return ""
        sample = _distinct(keys[:: max(keys.size // SAMPLED_KEYS, 1)])
        if sample.size < LEAST_TELLING:
            sample = keys = _distinct(keys)
        if sample.size < LEAST_TELLING:
            return ""
        sources, read = self._read_sources(record, width), []
        while sample.size:
            source = next(sources, None)
            if source is None:
                return ""
            read.append(source)
            sample = sample[~_is_in(sample, source[1])]
        return _covering(_distinct(keys), chain(read, sources), self._view)

    def _read_sources(self, record: RecordInfo, width: int) -> Iterator[tuple[RecordInfo, Keys]]:
        """Yield the judged records around with their keys, as far as the work allows."""
        for source in self._sources(record):
            there = self._source_keys(source, width)
            if there is not None:
                yield source, there

    def _width(self, record: RecordInfo) -> int:
        """Return how many neighbours are looked for together: several of few bits."""
        size = np.dtype(self._view.side.array(record).dtype).itemsize
        return 1 if size >= _KEY_BYTES else _WIDE_KEY_BYTES // size

    def _is_readable(self, record: RecordInfo) -> bool:
        if record.value is None or not 0 < prod(record.shape) <= MOST_ELEMENTS:
            return False
        info = self._view.values[record.value]
        return info.content is Content.FULL and "float" in info.dtype

    def _sources(self, record: RecordInfo) -> Iterator[RecordInfo]:
        """Yield the judged records around that may hold its elements, the nearest first."""
        assert record.value is not None
        assert record.call is not None
        view = self._view
        known = _BACKWARD if record.role in _BACKWARD else _FORWARD
        left, parent = MOST_SOURCES, view.parents[record.call]
        room = MOST_ELEMENTS
        near: list[RecordInfo] = []
        for around in (record.call, *view.ancestors(record.call)):
            inside = view.inner[around] if around in {parent, record.call} else ()
            for call in (around, *inside):
                near += [one for role in known for one in view.select(call, role)]
        near.sort(key=lambda one: (abs(one.order - record.order), one.id))
        dtype, tried = view.values[record.value].dtype, {record.value}
        for one in near:
            value = one.value
            if value is None or value in tried or value not in self._judged or not left:
                continue
            tried.add(value)
            room -= prod(one.shape)
            if room < 0:
                return
            if self._is_readable(one) and view.values[value].dtype == dtype:
                left -= 1
                yield one

    def _own_keys(self, record: RecordInfo, width: int) -> Keys | None:
        """Read the elements of a record, or runs of neighbours along its last axis, as they lie."""
        array = self._read(record)
        if array is None or (width > 1 and (not array.ndim or array.shape[-1] < width)):
            return None
        return _keys(array, width, is_part=True)

    def _source_keys(self, record: RecordInfo, width: int) -> Keys | None:
        """Read the different elements of a record, or runs of neighbours, as ascending keys."""
        assert record.value is not None
        key = record.value, width
        if key in self._kept:
            self._kept[key] = self._kept.pop(key)
            return self._kept[key]
        array = self._read(record)
        if array is None:
            return None
        self._kept[key] = _distinct(_keys(array, width, is_part=False))
        self._forget()
        return self._kept[key]

    def _read(self, record: RecordInfo) -> npt.NDArray[Any] | None:
        """Read a record's elements; None where the work is used up or they cannot be read."""
        self._left -= prod(record.shape)
        if self._left < 0:
            return None
        try:
            return self._view.side.array(record)
        except DumpError:
            return None

    def _forget(self) -> None:
        """Let go of the keys that were asked for longest ago."""
        kept = sum(keys.size for keys in self._kept.values())
        for key in list(self._kept)[:-1]:
            if kept <= KEPT_KEYS:
                break
            kept -= self._kept.pop(key).size


def _covering(own: Keys, sources: Iterable[tuple[RecordInfo, Keys]], view: View) -> str:
    """Return which sources hold all keys together; empty where some key is in none."""
    names: list[str] = []
    for source, there in sources:
        left = own[~_is_in(own, there)]
        if left.size < own.size:
            names.append(view.name_of(source.id))
        own = left
        if not own.size:
            return "elements judged at " + " and ".join(names)
    return ""


def _distinct(keys: Keys) -> Keys:
    """Return the different keys, ascending.

    ``np.unique`` hashes from numpy 2.3 on, which takes a hundred times as long as sorting here.
    """
    found = np.sort(keys)
    is_first = np.empty(found.size, np.bool_)
    is_first[:1] = True
    np.not_equal(found[1:], found[:-1], out=is_first[1:])
    return found[is_first]


def _is_in(own: Keys, there: Keys) -> npt.NDArray[np.bool_]:
    """Return for each key whether it is among other ascending ones."""
    if not there.size:
        return np.zeros(own.size, np.bool_)
    spots = np.searchsorted(there, own)
    spots[spots == there.size] = 0
    found: npt.NDArray[np.bool_] = there[spots] == own
    return found


def _keys(array: npt.NDArray[Any], width: int, *, is_part: bool) -> Keys:
    """Return bit patterns: of single elements, or of runs of neighbours of the last axis."""
    kinds = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    bits: Keys = np.ascontiguousarray(array).view(kinds[array.dtype.itemsize])
    if width == 1:
        return bits.reshape(-1)
    bits = bits.astype(np.uint64)
    if not is_part:
        bits = bits.reshape(-1)
    runs = np.zeros((*bits.shape[:-1], max(bits.shape[-1] - width + 1, 0)), np.uint64)
    for place in range(width):
        runs |= bits[..., place : place + runs.shape[-1]] << np.uint64(
            8 * array.dtype.itemsize * place
        )
    return runs.reshape(-1)
