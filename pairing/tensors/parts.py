"""Values that only hold elements of judged ones: slices, transposes, repetitions, joins.

A module that one side alone calls is handed the queries cut out of a fused projection, or heads
repeated for groups. Nothing was computed: what it holds was judged where it was made.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import CALL_ROLES, Content, DumpError, RecordInfo, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.pairing.view import View

__all__ = ["Parts"]

Keys = npt.NDArray[np.uint64]

MOST_ELEMENTS = 1 << 22
"""Larger tensors are not looked into."""
MOST_SOURCES = 24
"""Judged values around that are looked into for each, the nearest."""
MOST_WORK = 1 << 29
"""Elements that are read and sorted for a whole side; what is left then stays alone."""
KEPT_BYTES = 1 << 26
"""Of the keys of what was looked into, so many are kept for the calls around, the latest."""
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
        self._keys: dict[tuple[int, int], Keys] = {}
        """Latest last."""
        self._left = MOST_WORK

    def reason(self, record: RecordInfo) -> str:
        """Say where the elements of a record are judged; empty where they are not."""
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
        own = self._read(record, width, is_part=True)
        if own is None or own.size < LEAST_TELLING:
            return ""
        names: list[str] = []
        for source in self._sources(record):
            there = self._read(source, width, is_part=False)
            if there is None:
                continue
            left = own[~_is_in(own, there)]
            if left.size < own.size:
                names.append(self._view.name_of(source.id))
            own = left
            if not own.size:
                return "elements judged at " + " and ".join(names)
        return ""

    def _width(self, record: RecordInfo) -> int:
        """Give how many neighbours are looked for together: several of few bits."""
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

    def _read(self, record: RecordInfo, width: int, *, is_part: bool) -> Keys | None:
        """Read the different elements of a record, or runs of neighbours, as ascending keys."""
        assert record.value is not None
        key = record.value, width
        if not is_part and key in self._keys:
            self._keys[key] = self._keys.pop(key)
            return self._keys[key]
        self._left -= prod(record.shape)
        if self._left < 0:
            return None
        try:
            array = self._view.side.array(record)
        except DumpError:
            return None
        if width > 1 and is_part and (not array.ndim or array.shape[-1] < width):
            return None
        found = np.unique(_keys(array, width, is_part=is_part))
        if not is_part:
            self._keys[key] = found
            self._forget()
        return found

    def _forget(self) -> None:
        """Let go of the keys that were asked for longest ago."""
        kept = sum(keys.nbytes for keys in self._keys.values())
        for key in list(self._keys)[:-1]:
            if kept <= KEPT_BYTES:
                break
            kept -= self._keys.pop(key).nbytes


def _is_in(own: Keys, there: Keys) -> npt.NDArray[np.bool_]:
    """Tell of each key whether it is among other ascending ones."""
    if not there.size:
        return np.zeros(own.size, np.bool_)
    spots = np.searchsorted(there, own)
    spots[spots == there.size] = 0
    found: npt.NDArray[np.bool_] = there[spots] == own
    return found


def _keys(array: npt.NDArray[Any], width: int, *, is_part: bool) -> Keys:
    """Give bit patterns: of single elements, or of runs of neighbours of the last axis."""
    kinds = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    bits = np.ascontiguousarray(array).view(kinds[array.dtype.itemsize]).astype(np.uint64)
    if width == 1:
        return bits.reshape(-1)
    if not is_part:
        bits = bits.reshape(-1)
    runs = np.zeros((*bits.shape[:-1], max(bits.shape[-1] - width + 1, 0)), np.uint64)
    for place in range(width):
        runs |= bits[..., place : place + runs.shape[-1]] << np.uint64(
            8 * array.dtype.itemsize * place
        )
    return runs.reshape(-1)
