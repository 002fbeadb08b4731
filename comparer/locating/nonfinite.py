"""Find the calls, and the code between calls, that make nan or inf out of finite values.

Within one side. A mask of 0 and -inf is no trouble: what code between modules makes of -inf
alone is called a mask, and only what comes out as nan or +inf counts against a call that got it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .between import describe_feed
from .dataflow import Flow, Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumpfile import Index, RecordInfo


FROM_FINITE = "from finite inputs"
MASK = "only -inf, made between modules: a mask, it seems"
FORWARD_ROLES = frozenset({Role.INPUT, Role.OUTPUT})
_ENTERING = {
    Role.OUTPUT: Role.INPUT,
    Role.GRAD_INPUT: Role.GRAD_OUTPUT,
    Role.WEIGHT_GRAD: Role.GRAD_OUTPUT,
}
"""What goes into what comes out of a call."""


class _Level(IntEnum):
    """How bad the worst elements are."""

    FINITE = 0
    MASKED = 1
    """-inf alone."""
    INFINITE = 2
    NAN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonfinite:
    """One record with nan or inf."""

    record: int
    """Id."""
    is_source: bool
    """Whether all that it was made of is finite, or it is the first nan made of an inf."""
    remark: str
    """How it came about, empty where it was passed on."""


def find_nonfinite(index: Index) -> tuple[Nonfinite, ...]:
    """List the records with nan or inf in execution order, the source of each flow marked."""
    return _Search(index).run()


def nonfinite_notes(reference: Index, candidate: Index) -> tuple[str, ...]:
    """Describe where each side makes its first nan or inf, if it does."""
    notes = []
    for side, index in (("reference", reference), ("candidate", candidate)):
        if not any(value.statistics.nan or value.statistics.posinf for value in index.values):
            continue
        source = next((one for one in find_nonfinite(index) if one.is_source), None)
        if source is not None:
            address = index.address(index.records[source.record])
            notes.append(f"the {side} makes its first nan or inf at {address}: {source.remark}")
    return tuple(notes)


class _Search:
    """One pass over the records of a step."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._flow = Flow(index)
        self._worst: dict[tuple[int, Role], _Level] = defaultdict(lambda: _Level.FINITE)
        self._calls_of: dict[int, list[int]] = defaultdict(list)
        for call in index.calls:
            self._calls_of[call.module].append(call.id)
        self._found = []
        for record in index.records:
            level = self._level(record)
            if level is not _Level.FINITE:
                self._found.append(record)
                if record.call is not None:
                    key = record.call, record.role
                    self._worst[key] = max(self._worst[key], level)

    def run(self) -> tuple[Nonfinite, ...]:
        """Remark on every record."""
        made = []
        for record in sorted(self._found, key=lambda record: record.order):
            remark = self._remark(record)
            is_source = bool(remark) and remark != MASK
            made.append(Nonfinite(record=record.id, is_source=is_source, remark=remark))
        return tuple(made)

    def _level(self, record: RecordInfo) -> _Level:
        if record.value is None:
            return _Level.FINITE
        counts = self._index.values[record.value].statistics
        if counts.nan:
            return _Level.NAN
        if counts.posinf:
            return _Level.INFINITE
        return _Level.MASKED if counts.neginf else _Level.FINITE

    def _remark(self, record: RecordInfo) -> str:
        if record.phase is Phase.UPDATE:
            return ""
        if record.role in FORWARD_ROLES:
            is_leaf = record.role is Role.OUTPUT and record.call not in self._flow.inside
            return self._of_leaf(record) if is_leaf else self._of_glue(record)
        if record.role is Role.GRAD_OUTPUT:
            return self._of_backward_glue(record)
        return self._of_backward(record)

    def _of_leaf(self, record: RecordInfo) -> str:
        """Remark on what a call without calls inside gave."""
        assert record.call is not None
        return _changed(self._level(record), self._worst[record.call, Role.INPUT])

    def _of_glue(self, record: RecordInfo) -> str:
        """Remark on what code between modules made: for a call, or to return it."""
        feed = self._flow.feed(record)
        if feed.made is Source.GIVEN:
            return "given from outside"
        if feed.made is not Source.GLUE or feed.around is None:
            return ""
        given = self._flow.ingredients(feed.around, record.order)
        worst = self._worst_of(one for one in given if one.id != record.id)
        level = self._level(record)
        if level is _Level.MASKED and worst is _Level.FINITE:
            return MASK
        remark = _changed(level, worst)
        return f"{describe_feed(self._flow, feed)} {remark}" if remark else ""

    def _of_backward(self, record: RecordInfo) -> str:
        """Remark on the gradient of an input or of a weight."""
        if record.role not in _ENTERING:
            return ""
        calls = self._calls_of[record.module] if record.call is None else [record.call]
        worst = max((self._worst[call, Role.GRAD_OUTPUT] for call in calls), default=_Level.FINITE)
        inside = (child for call in calls for child in self._flow.inside.get(call, ()))
        if any(
            self._worst[child, role]
            for child in inside
            for role in (Role.GRAD_INPUT, Role.GRAD_OUTPUT)
        ):
            return ""
        remark = _changed(self._level(record), worst)
        return remark.replace("inputs", "output gradients")

    def _of_backward_glue(self, record: RecordInfo) -> str:
        """Remark on an output's gradient that the code after it made."""
        assert record.call is not None
        call = self._index.calls[record.call]
        around = call.parent
        if around is None or self._worst[around, Role.GRAD_OUTPUT]:
            return ""
        later = [other for other in self._flow.inside[around] if other > call.id]
        if any(self._worst[other, Role.GRAD_INPUT] for other in later):
            return ""
        name = self._index.modules[self._index.calls[around].module].path or "(root)"
        return f"made by the backward of the code of {name}, from finite gradients"

    def _worst_of(self, records: Iterable[RecordInfo]) -> _Level:
        return max((self._level(record) for record in records), default=_Level.FINITE)


def _changed(level: _Level, before: _Level) -> str:
    """Describe what a call did that was given values of one level and gave those of another."""
    if level <= before or level is _Level.FINITE:
        return ""
    if before is _Level.FINITE:
        return FROM_FINITE
    return "nan from -inf" if before is _Level.MASKED else "nan from inf"
