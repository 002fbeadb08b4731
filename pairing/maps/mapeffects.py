"""What the entries of a map file do to calls and records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Index, Role
from padiff.pairing.result import Absence, PairedBy, RecordPair, UnmatchedRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.pairing.rule import Rule
    from padiff.pairing.view import View

    from .mapped import Mapped

FROM_MAP = "layout from the map file"
"""What is noted at a pair whose layout the user stated."""
_INPUTS = frozenset({Role.INPUT, Role.GRAD_INPUT})
_OUTPUTS = frozenset({Role.OUTPUT, Role.GRAD_OUTPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Records that the user took out of the comparison."""

    reference: dict[int, str]
    """Reason by record id."""
    candidate: dict[int, str]
    alone: tuple[UnmatchedRecord, ...]
    """The same, as results."""

    def reason(self, pair: RecordPair) -> str | None:
        """Explain why a pair is not compared, None if none of its records is ignored."""
        reasons = [self.reference[one] for one in pair.reference if one in self.reference]
        return reasons[0] if reasons else self.candidate.get(pair.candidate)


def hidden_calls(index: Index, mapped: Mapped, side: int) -> frozenset[int]:
    """Return the calls that are not to be paired: ignored ones, and those inside a closed pair."""
    closed = {pair[side] for pair in mapped.pairs if pair[0] in mapped.closed}
    hidden: set[int] = set()
    for call in index.calls:
        parent = call.parent
        is_inside = parent is not None and (
            index.calls[parent].module in closed or parent in hidden
        )
        if is_inside or call.module in mapped.ignored[side]:
            hidden.add(call.id)
    return frozenset(hidden)


def ignored_records(views: tuple[View, View], mapped: Mapped) -> Ignored:
    """List the records of ignored modules, and of calls that a closed pair hides."""
    reasons: list[dict[int, str]] = []
    for view, modules in zip(views, mapped.ignored, strict=True):
        found = {}
        for record in view.records:
            if record.module in modules:
                found[record.id] = modules[record.module]
            elif record.call is not None and record.call in view.hidden:
                found[record.id] = _hidden_by(view, record.call, modules)
        reasons.append(found)
    alone = [
        UnmatchedRecord(side=view.name, record=record, absence=Absence.SKIPPED, reason=reason)
        for view, found in zip(views, reasons, strict=True)
        for record, reason in found.items()
    ]
    return Ignored(reference=reasons[0], candidate=reasons[1], alone=tuple(alone))


def without_ignored(
    views: tuple[View, View], pairs: Iterable[RecordPair], ignored: Ignored
) -> tuple[list[RecordPair], list[UnmatchedRecord]]:
    """Take out the pairs with an ignored record; the partners share its reason.

    A weight that the map file itself states stays.
    """
    if not ignored.reference and not ignored.candidate:
        return list(pairs), []
    kept: list[RecordPair] = []
    alone: list[UnmatchedRecord] = []
    for pair in pairs:
        reason = ignored.reason(pair)
        is_owned = views[1].records[pair.candidate].call is None
        if reason is None or (is_owned and pair.paired_by is PairedBy.MAP):
            kept.append(pair)
            continue
        ends = ((views[0], pair.reference), (views[1], (pair.candidate,)))
        alone += [
            UnmatchedRecord(side=view.name, record=one, absence=Absence.SKIPPED, reason=reason)
            for view, records in ends
            for one in records
        ]
    return kept, alone


def _hidden_by(view: View, call: int, ignored: dict[int, str]) -> str:
    for outer in view.ancestors(call):
        module = view.calls[outer].module
        if module in ignored:
            return ignored[module]
        if outer not in view.hidden:
            return f"inside {view.path(outer) or '(root)'!r}, paired as a whole"
    return "inside a pair of the map file with 'children = false'"


def unused_entries(
    views: tuple[View, View], mapped: Mapped, pairs: Iterable[RecordPair], ignored: Ignored
) -> list[str]:
    """Name the entries that took nothing out and laid nothing out."""
    if not mapped.means and not mapped.lays:
        return []
    hidden = [
        {view.records[record].module for record in found}
        for view, found in zip(views, (ignored.reference, ignored.candidate), strict=True)
    ]
    laid = {views[0].records[pair.reference[0]].module for pair in pairs if pair.note == FROM_MAP}
    unused = [
        name
        for name, (mine, theirs) in mapped.means.items()
        if not (mine & hidden[0] or theirs & hidden[1])
    ]
    unused += [name for name, modules in mapped.lays.items() if not modules & laid]
    return [
        f"map entry {name} is unused: it means no record that no earlier entry means"
        for name in unused
    ]


def mapped_layouts(view: View, pairs: Iterable[RecordPair], mapped: Mapped) -> list[RecordPair]:
    """Return the pairs the layouts that the map file states."""
    if not mapped.inputs and not mapped.outputs:
        return list(pairs)
    found = []
    for pair in pairs:
        record = view.records[pair.reference[0]]
        rule: Rule | None = None
        if record.role in _INPUTS:
            rule = mapped.inputs.get(record.module)
        elif record.role in _OUTPUTS:
            rule = mapped.outputs.get(record.module)
        if rule is None or record.value is None:
            found.append(pair)
        else:
            found.append(replace(pair, rule=rule, note=FROM_MAP))
    return found
