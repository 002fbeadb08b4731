"""A map file applied to two sides: which modules its entries mean.

And what the entries do to calls and records.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError, Index, ModuleInfo, Role
from padiff.pairing.result import Absence, PairedBy, RecordPair, SideName, UnmatchedRecord

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from padiff.pairing.rule import Rule
    from padiff.pairing.view import View

    from .mapfile import IgnoreEntry, LayoutEntry, MapFile, PairEntry
    from .pattern import PathPattern


Captured = tuple[tuple[str, str], ...]
"""What a pattern captured, by name."""
_MAX_SHOWN = 3
_SIDES = (SideName.REFERENCE, SideName.CANDIDATE)


@dataclass(slots=True, kw_only=True)
class Mapped:
    """What a map file says about the modules of two sides, by module id."""

    pairs: list[tuple[int, int]] = field(default_factory=list)
    closed: set[int] = field(default_factory=set)
    """Reference modules of pairs whose inside is not paired."""
    inside: tuple[dict[int, str], dict[int, str]] = field(default_factory=lambda: ({}, {}))
    """The modules inside such pairs with a reason, of the reference and of the candidate."""
    ignored: tuple[dict[int, str], dict[int, str]] = field(default_factory=lambda: ({}, {}))
    """Reasons by module id, of the reference and of the candidate."""
    inputs: dict[int, Rule] = field(default_factory=dict)
    """Layout of inputs by reference module."""
    outputs: dict[int, Rule] = field(default_factory=dict)
    means: dict[str, tuple[frozenset[int], frozenset[int]]] = field(default_factory=dict)
    """The modules of both sides on which an entry that ignores has the say, by its name."""
    lays: dict[str, frozenset[int]] = field(default_factory=dict)
    """The reference modules on which an entry that states a layout has the say, by its name."""
    notes: list[str] = field(default_factory=list)
    """Entries that had no effect, and members that stayed without partner."""


def apply_map(
    map_file: MapFile, reference: Sequence[ModuleInfo], candidate: Sequence[ModuleInfo]
) -> Mapped:
    """Find the modules that a map file means.

    Raises:
        ConfigError: Entries match nothing, or one side's match has no single partner; all such
            entries are listed.
    """
    return _Application((ModuleLookup(reference), ModuleLookup(candidate))).apply(map_file)


class ModuleLookup:
    """The modules of one side, to look up by pattern."""

    def __init__(self, modules: Sequence[ModuleInfo]) -> None:
        self.modules = modules
        self.is_file = bool(modules) and not modules[0].class_path
        """Whether only names of weights are known: a checkpoint tells of no activation."""

    @cached_property
    def _by_path(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for module in self.modules:
            for path in (module.path, *module.aliases):
                found.setdefault(path, module.id)
        return found

    def matching(self, pattern: PathPattern) -> dict[int, Captured]:
        """Return the modules that a pattern means, with what it captured."""
        if pattern.is_literal:
            found = self._by_path.get(pattern.path)
            return {} if found is None else {found: ()}
        return {
            module.id: captured
            for module in self.modules
            if (captured := _captured(pattern, module)) is not None
        }

    @cached_property
    def _children(self) -> dict[int | None, list[int]]:
        found: dict[int | None, list[int]] = defaultdict(list)
        for module in self.modules:
            found[module.parent].append(module.id)
        return found

    def with_inside(self, ids: Iterable[int], known: Container[int]) -> list[int]:
        """Return modules and all that is inside them, ascending.

        Args:
            ids: The modules.
            known: What is left out with all that is inside, so that of many entries none looks at
                what another has looked at.
        """
        found: set[int] = set()
        todo = list(ids)
        while todo:
            module = todo.pop()
            if module not in found and module not in known:
                found.add(module)
                todo += self._children.get(module, ())
        return sorted(found)

    def nearest(self, outer: Container[int]) -> dict[int, int]:
        """Return for each module inside some others the innermost one of these around it."""
        found: dict[int, int] = {}
        for module in self.modules:
            parent = module.parent
            if parent is not None and parent in outer:
                found[module.id] = parent
            elif parent in found:
                found[module.id] = found[parent]
        return found


def _captured(pattern: PathPattern, module: ModuleInfo) -> Captured | None:
    for path in (module.path, *module.aliases):
        captured = pattern.match(path)
        if captured is not None:
            return tuple(sorted(captured.items()))
    return None


class _Application:
    """One map file on its way onto two sides; collects what does not fit."""

    def __init__(self, sides: tuple[ModuleLookup, ModuleLookup]) -> None:
        self.sides = sides
        self.found = Mapped()
        self.taken: tuple[set[int], set[int]] = (set(), set())
        self.problems: list[str] = []
        self.turned = 0

    def apply(self, map_file: MapFile) -> Mapped:
        for pair in map_file.pairs:
            self._pair(pair)
        for ignore in map_file.ignores:
            self._ignore(ignore)
        for layout in map_file.layouts:
            self._layout(layout)
        if self.problems:
            raise ConfigError(
                f"cannot apply map file {map_file.source!r}",
                details=tuple(self.problems),
                hint="exchange 'reference' and 'candidate' in the file, or the order of the sides"
                if self.turned
                else "padiff show DUMP prints the module paths",
            )
        closed = {pair for pair in self.found.pairs if pair[0] in self.found.closed}
        for place, side in enumerate(self.sides):
            reasons = {
                outer: f"inside {side.modules[outer].path or '(root)'!r}, paired as a whole"
                for outer in (pair[place] for pair in closed)
            }
            for module, outer in side.nearest(reasons).items():
                self.found.inside[place][module] = reasons[outer]
        return self.found

    def _pair(self, entry: PairEntry) -> None:
        matches = self._matches(entry)
        if matches is None:
            return
        partners = self._partners(entry, matches)
        fresh = [
            (one, two)
            for one, two in partners
            if one not in self.taken[0] and two not in self.taken[1]
        ]
        if partners and not fresh:
            self.found.notes.append(
                f"map entry {entry.name} ({entry.reference.text!r} = {entry.candidate.text!r}) is "
                "unused: earlier entries pair these modules"
            )
        self.taken[0].update(one for one, _ in fresh)
        self.taken[1].update(two for _, two in fresh)
        self.found.pairs += fresh
        self.found.closed.update(() if entry.children else (one for one, _ in fresh))

    def _matches(self, entry: PairEntry) -> list[dict[int, Captured]] | None:
        """Return what the two patterns match; None and a problem if one matches nothing."""
        patterns = entry.reference, entry.candidate
        found = [side.matching(one) for side, one in zip(self.sides, patterns, strict=True)]
        if all(found):
            return found
        turned = [side.matching(one) for side, one in zip(self.sides, patterns[::-1], strict=True)]
        if all(turned):
            self.turned += 1
            self.problems.append(
                f"{entry.name}: the sides are exchanged: {patterns[0].text!r} is a module of the "
                f"candidate and {patterns[1].text!r} one of the reference"
            )
            return None
        for place, pattern in enumerate(patterns):
            if not found[place]:
                self._nothing(entry.name, pattern, place)
        return None

    def _nothing(self, entry: str, pattern: PathPattern, place: int, remark: str = "") -> None:
        """Take down that a pattern matches nothing on a side."""
        where = _SIDES[place]
        if self.sides[place].is_file:
            self.found.notes.append(
                f"map entry {entry} is unused: no weight of the {where} lies in {pattern.text!r}"
            )
        else:
            self.problems.append(f"{entry}: no module of the {where} is {pattern.text!r}{remark}")

    def _partners(
        self, entry: PairEntry, matches: Sequence[dict[int, Captured]]
    ) -> list[tuple[int, int]]:
        groups: list[dict[Captured, list[int]]] = []
        for matched in matches:
            group: dict[Captured, list[int]] = defaultdict(list)
            for module, captured in matched.items():
                group[captured].append(module)
            groups.append(group)
        pairs: list[tuple[int, int]] = []
        for key in groups[0].keys() & groups[1].keys():
            mine, theirs = groups[0][key], groups[1][key]
            if len(mine) != len(theirs):
                self.problems.append(
                    f"{entry.name}: {entry.reference.text!r} matches {len(mine)} modules where "
                    f"{entry.candidate.text!r} matches {len(theirs)}; capture the parts that "
                    "differ, as in layers.{i}"
                )
                return []
            pairs += zip(mine, theirs, strict=True)
        if not pairs:
            self.problems.append(
                f"{entry.name}: {entry.reference.text!r} and {entry.candidate.text!r} capture "
                "nothing in common"
            )
            return []
        self._note_alone(entry, groups)
        return sorted(pairs)

    def _note_alone(self, entry: PairEntry, groups: Sequence[dict[Captured, list[int]]]) -> None:
        for place, name in enumerate(_SIDES):
            alone = [
                repr(self.sides[place].modules[module].path)
                for key, modules in groups[place].items()
                if key not in groups[1 - place]
                for module in modules
            ]
            if alone:
                more = f" and {len(alone) - _MAX_SHOWN} more" if len(alone) > _MAX_SHOWN else ""
                self.found.notes.append(
                    f"map entry {entry.name} has no partner for {', '.join(alone[:_MAX_SHOWN])}"
                    f"{more} of the {name}"
                )

    def _ignore(self, entry: IgnoreEntry) -> None:
        means: list[frozenset[int]] = []
        for place, pattern in enumerate((entry.reference, entry.candidate)):
            reasons = self.found.ignored[place]
            fresh = self.sides[place].with_inside(self._some(entry.name, pattern, place), reasons)
            means.append(frozenset(fresh))
            reasons.update(dict.fromkeys(fresh, entry.reason))
        self.found.means[entry.name] = means[0], means[1]

    def _layout(self, entry: LayoutEntry) -> None:
        means: set[int] = set()
        for module in self._some(entry.name, entry.reference, 0):
            tables = (entry.input, self.found.inputs), (entry.output, self.found.outputs)
            for rule, table in tables:
                if rule is not None and table.setdefault(module, rule) is rule:
                    means.add(module)
        self.found.lays[entry.name] = frozenset(means)

    def _some(self, name: str, pattern: PathPattern | None, place: int) -> list[int]:
        """Return what a pattern matches on one side; a problem if that is nothing."""
        if pattern is None:
            return []
        found = list(self.sides[place].matching(pattern))
        if not found:
            is_turned = bool(self.sides[1 - place].matching(pattern))
            self.turned += is_turned
            remark = f", but one of the {_SIDES[1 - place]} is" if is_turned else ""
            self._nothing(name, pattern, place, remark)
        return found


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
