"""One side of a pairing, prepared: who contains whom, which records belong to which call."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import CallInfo, Index, ModuleInfo, Phase, RecordInfo, Role, ValueInfo

from .kinds import kind_of
from .tensors.sketch import is_telling

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Lowered, RecordedProgram

    from .calls.likeness import Token
    from .calls.needs import Ranks
    from .result import SideName
    from .side import Side
    from .tensors.sketch import Sketches

_MAIN = frozenset({Role.INPUT, Role.OUTPUT})
_WEIGHT, _FORWARD = Role.WEIGHT, Phase.FORWARD
"""Looking up a member of an enumeration takes ten times as long as a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Lookups over one side's index; positions in the tuples are ids of the index."""

    name: SideName
    side: Side
    modules: tuple[ModuleInfo, ...]
    calls: tuple[CallInfo, ...]
    records: tuple[RecordInfo, ...]
    values: tuple[ValueInfo, ...]
    kinds: tuple[str | None, ...]
    """Canonical kind of each module, None for a class that no table knows."""
    children: tuple[tuple[int, ...], ...]
    """Child modules of each module, in definition order."""
    parents: tuple[int | None, ...]
    """The call around each call."""
    inner: tuple[tuple[int, ...], ...]
    """Calls that ran directly inside each call, in execution order."""
    last: tuple[int, ...]
    """The last call inside each call at any depth; itself where there is none."""
    top: tuple[int, ...]
    """Calls that ran inside no other."""
    executed: tuple[tuple[int, ...], ...]
    """Calls of each module, in execution order."""
    of_role: Mapping[Role, Sequence[Sequence[RecordInfo]]]
    """By role, if any call has it, the records of each call, in the order of recording."""
    of_modules: Sequence[RecordInfo]
    """Records that belong to modules or to the step, and to no call, in the order of recording."""
    largest: Mapping[Role, Sequence[RecordInfo | None]]
    """The record with most elements among the inputs, and among the outputs, of each call."""
    given: tuple[int | None, ...]
    """Value of the largest input of each call, None where there is none."""
    made: tuple[int | None, ...]
    """Value of the largest output of each call."""
    told_given: tuple[int | None, ...]
    """As ``given``, but None for a constant too, which anything could make."""
    told_made: tuple[int | None, ...]
    """As ``made``, but None for a constant too."""
    telling: Sequence[bool]
    """Of each value whether it is no constant."""
    weights: tuple[tuple[int, ...], ...]
    """Records of role ``weight`` that each module itself owns, or the parts it is made of."""
    hidden: frozenset[int] = frozenset()
    """Calls that the user does not want to be paired."""
    needs: list[tuple[dict[int, int], list[Ranks]]] = field(default_factory=list)
    """What each layer needs, once it was worked out (``calls/needs.py``)."""
    tokens: dict[int, Token] = field(default_factory=dict)
    """Kind and sizes of each module, once they were worked out (``calls/anchors.py``)."""
    contents: dict[int, Hashable | None] = field(default_factory=dict)
    """Keys of the weights in each module, once worked out (``calls/expressed.py``)."""
    sketches: dict[Role, Sketches] = field(default_factory=dict)
    """Of the largest record of a role of each call, once they were made (``tensors/sketch.py``)."""
    program: list[tuple[RecordedProgram, Lowered] | None] = field(default_factory=list)
    """What ran in primitives, once it was asked for (``calls/expressed.py``)."""

    @property
    def index(self) -> Index:
        """All tables as they are in the dump."""
        return self.side.index

    def kind(self, call: int) -> str | None:
        """Return the kind of the module that ran in this call."""
        return self.kinds[self.calls[call].module]

    def path(self, call: int) -> str:
        """Return the path of the module that ran in this call."""
        return self.modules[self.calls[call].module].path

    def ancestors(self, call: int) -> Iterator[int]:
        """Yield the calls around this one, the innermost first."""
        parent = self.calls[call].parent
        while parent is not None:
            yield parent
            parent = self.calls[parent].parent

    def inside(self, call: int) -> range:
        """Return all calls that ran inside this one, at any depth, in execution order."""
        return range(call + 1, self.last[call] + 1)

    def select(self, call: int, role: Role) -> Sequence[RecordInfo]:
        """Return the records of one role of a call, in the order of recording."""
        found = self.of_role.get(role)
        return () if found is None else found[call]

    def main(self, call: int, role: Role) -> RecordInfo | None:
        """Return the largest of a call's inputs or outputs; None if there is none."""
        found = self.largest.get(role)
        return None if found is None else found[call]

    def name_of(self, record: int) -> str:
        """Name a record for a reader: module, call, role and slot."""
        info = self.records[record]
        path = self.modules[info.module].path or "(root)"
        times = "" if info.call is None else f"#{self.calls[info.call].index}"
        return f"{path}{times} {info.role}{info.slot}"


def view_of(side: Side, name: SideName, hidden: frozenset[int] = frozenset()) -> View:
    """Prepare one side, in one pass over its tables."""
    index = side.index
    of_role, of_modules = _by_call(index)
    largest = {role: [*map(_largest, of_role[role])] for role in _MAIN if role in of_role}
    given, made = (
        tuple([None if one is None else one.value for one in largest[role]])
        if role in largest
        else (None,) * len(index.calls)
        for role in (Role.INPUT, Role.OUTPUT)
    )
    told = [is_telling(value.statistics) for value in index.values]
    inner = _grouped([call.parent for call in index.calls], len(index.calls))
    return View(
        name=name,
        side=side,
        modules=index.modules,
        calls=index.calls,
        records=index.records,
        values=index.values,
        kinds=tuple(kind_of(module) for module in index.modules),
        children=_grouped([module.parent for module in index.modules], len(index.modules)),
        parents=tuple(call.parent for call in index.calls),
        inner=inner,
        last=_last(inner),
        top=tuple(call.id for call in index.calls if call.parent is None),
        executed=_grouped([call.module for call in index.calls], len(index.modules)),
        of_role=of_role,
        of_modules=of_modules,
        largest=largest,
        given=given,
        made=made,
        telling=told,
        told_given=tuple(v if v is not None and told[v] else None for v in given),
        told_made=tuple(v if v is not None and told[v] else None for v in made),
        weights=_weights(index, of_modules),
        hidden=hidden,
    )


def _hosts(index: Index) -> dict[int, int]:
    """Return the module whose weight is made by each of torch's parametrizations."""
    found: dict[int, int] = {}
    for module in index.modules:
        if kind_of(module) == "parametrizations" and module.parent is not None:
            around = index.modules[module.parent].parent  # in a ModuleDict by parameter
            found[module.id] = module.parent if around is None else around
    return found


def _last(inner: Sequence[Sequence[int]]) -> tuple[int, ...]:
    found = list(range(len(inner)))
    for call in reversed(range(len(inner))):
        if inner[call]:
            found[call] = found[inner[call][-1]]
    return tuple(found)


def _weights(index: Index, records: Iterable[RecordInfo]) -> tuple[tuple[int, ...], ...]:
    """Return the weights that each module owns, or the parts that they are made of."""
    hosts = _hosts(index)
    groups: dict[int, list[int]] = {}
    for record in records:
        if record.role is _WEIGHT and record.phase is _FORWARD:
            owner = hosts.get(record.module, record.module)
            groups.setdefault(owner, []).append(record.id)
    return _filled(groups, len(index.modules))


def _by_call(index: Index) -> tuple[dict[Role, list[tuple[RecordInfo, ...]]], list[RecordInfo]]:
    """Sort the records: by role those of each call, and apart those of no call."""
    count = len(index.calls)
    found: dict[Role, list[tuple[RecordInfo, ...]]] = {}
    several: dict[tuple[int, Role], list[RecordInfo]] = {}
    rest: list[RecordInfo] = []
    for record in index.records:
        call, role = record.call, record.role
        if call is None:
            rest.append(record)
            continue
        if role not in found:
            found[role] = [()] * count
        if found[role][call]:
            several.setdefault((call, role), [*found[role][call]]).append(record)
        else:
            found[role][call] = (record,)
    for (call, role), records in several.items():
        found[role][call] = tuple(records)
    return found, rest


def _largest(records: Sequence[RecordInfo]) -> RecordInfo | None:
    if len(records) <= 1:
        return records[0] if records else None
    return max(records, key=lambda record: (prod(record.shape), -record.id))


def _grouped(owners: Sequence[int | None], count: int) -> tuple[tuple[int, ...], ...]:
    groups: dict[int, list[int]] = {}
    for place, owner in enumerate(owners):
        if owner is not None:
            groups.setdefault(owner, []).append(place)
    return _filled(groups, count)


def _filled(groups: Mapping[int, Sequence[int]], count: int) -> tuple[tuple[int, ...], ...]:
    found: list[tuple[int, ...]] = [()] * count
    for owner, places in groups.items():
        found[owner] = tuple(places)
    return tuple(found)
