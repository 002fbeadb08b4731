"""One side of a pairing, prepared: who contains whom, which records belong to which call."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import CallInfo, Index, ModuleInfo, Phase, RecordInfo, Role, ValueInfo

from .kinds import kind_of
from .tensors.sketch import is_telling

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from .calls.forced import LayerFlow
    from .calls.groups import Token
    from .result import SideName
    from .side import Side
    from .tensors.sketch import Sketches

__all__ = ["View", "view_of"]

_MAIN = frozenset({Role.INPUT, Role.OUTPUT})


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
    of_call: Mapping[tuple[int, Role], Sequence[RecordInfo]]
    """Records of each call and role, in the order of recording."""
    largest: Mapping[tuple[int, Role], RecordInfo]
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
    before: dict[tuple[int, ...], list[tuple[int, int]]] = field(default_factory=dict)
    """What ran before each of some layers, once it was worked out (``calls/order.py``)."""
    flows: dict[tuple[int, ...], LayerFlow] = field(default_factory=dict)
    """What is known of some layers, once it was gathered (``calls/forced.py``)."""
    told: dict[Role, Sequence[Sequence[int]]] = field(default_factory=dict)
    """Values of a role of each call, once they were gathered (``calls/order.py``)."""
    met: list[int] = field(default_factory=list)
    """When each value was first taken or made, once it was worked out (``calls/order.py``)."""
    tokens: dict[int, Token] = field(default_factory=dict)
    """Kind and sizes of each module, once they were worked out (``calls/anchors.py``)."""
    contents: dict[int, Hashable | None] = field(default_factory=dict)
    """Keys of the weights in each module, once worked out (``calls/likeweights.py``)."""
    sketches: dict[Role, Sketches] = field(default_factory=dict)
    """Of the largest record of a role of each call, once they were made (``tensors/sketch.py``)."""
    takers: list[int] = field(default_factory=list)
    """What takes the output of each call, once it was found (``calls/anchors.py``)."""

    @property
    def index(self) -> Index:
        """All tables as they are in the dump."""
        return self.side.index

    def kind(self, call: int) -> str | None:
        """Give the kind of the module that ran in this call."""
        return self.kinds[self.calls[call].module]

    def path(self, call: int) -> str:
        """Give the path of the module that ran in this call."""
        return self.modules[self.calls[call].module].path

    def ancestors(self, call: int) -> Iterator[int]:
        """Give the calls around this one, the innermost first."""
        parent = self.calls[call].parent
        while parent is not None:
            yield parent
            parent = self.calls[parent].parent

    def inside(self, call: int) -> range:
        """Give all calls that ran inside this one, at any depth, in execution order."""
        return range(call + 1, self.last[call] + 1)

    def select(self, call: int, role: Role) -> Sequence[RecordInfo]:
        """Give the records of one role of a call, in the order of recording."""
        return self.of_call.get((call, role), ())

    def main(self, call: int, role: Role) -> RecordInfo | None:
        """Give the largest of a call's inputs or outputs; None if there is none."""
        return self.largest.get((call, role))

    def name_of(self, record: int) -> str:
        """Name a record for a reader: module, call, role and slot."""
        info = self.records[record]
        path = self.modules[info.module].path or "(root)"
        times = "" if info.call is None else f"#{self.calls[info.call].index}"
        return f"{path}{times} {info.role}{info.slot}"


def view_of(side: Side, name: SideName, hidden: frozenset[int] = frozenset()) -> View:
    """Prepare one side, in one pass over its tables."""
    index = side.index
    weights = [
        record.role is Role.WEIGHT and record.phase is Phase.FORWARD for record in index.records
    ]
    hosts = _hosts(index)
    owners = [
        hosts.get(record.module, record.module) if is_weight else None
        for record, is_weight in zip(index.records, weights, strict=True)
    ]
    of_call = _by_call(index)
    largest = {key: _largest(found) for key, found in of_call.items() if key[1] in _MAIN}
    given, made = (_values(largest, role, len(index.calls)) for role in (Role.INPUT, Role.OUTPUT))
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
        of_call=of_call,
        largest=largest,
        given=given,
        made=made,
        telling=told,
        told_given=tuple(v if v is not None and told[v] else None for v in given),
        told_made=tuple(v if v is not None and told[v] else None for v in made),
        weights=_grouped(owners, len(index.modules)),
        hidden=hidden,
    )


def _hosts(index: Index) -> dict[int, int]:
    """Give the module whose weight is made by each of torch's parametrizations."""
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


def _by_call(index: Index) -> dict[tuple[int, Role], list[RecordInfo]]:
    found: dict[tuple[int, Role], list[RecordInfo]] = {}
    for record in index.records:
        if record.call is not None:
            key = record.call, record.role
            if key in found:
                found[key].append(record)
            else:
                found[key] = [record]
    return found


def _largest(records: Sequence[RecordInfo]) -> RecordInfo:
    if len(records) == 1:
        return records[0]
    return max(records, key=lambda record: (prod(record.shape), -record.id))


def _values(
    largest: Mapping[tuple[int, Role], RecordInfo], role: Role, count: int
) -> tuple[int | None, ...]:
    found = (largest.get((call, role)) for call in range(count))
    return tuple(None if record is None else record.value for record in found)


def _grouped(owners: Sequence[int | None], count: int) -> tuple[tuple[int, ...], ...]:
    groups: dict[int, list[int]] = {}
    for place, owner in enumerate(owners):
        if owner is not None:
            groups.setdefault(owner, []).append(place)
    found: list[tuple[int, ...]] = [()] * count
    for owner, places in groups.items():
        found[owner] = tuple(places)
    return tuple(found)
