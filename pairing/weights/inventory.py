"""The parameters and buffers of one side, gathered into units that are paired as a whole.

A unit is a module with the parameters that its class lays out: a Linear with weight and bias, a
MultiheadAttention with those of its projections, an LSTM with those of its cells, a Conv with the
parts into which weight_norm took its weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import ModuleInfo, Phase, RecordInfo, Role, ValueInfo
from padiff.pairing.calls.places import Place, places_of
from padiff.pairing.kinds import kind_of
from padiff.pairing.names import words_of
from padiff.pairing.rule import IDENTITY, Rule

from .class_rule import ClassRule, rule_for
from .gates import with_gates
from .weight_rules import Form, form_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.pairing.result import PairedBy, SideName
    from padiff.pairing.side import Side

__all__ = ["Entry", "Inventory", "Unit", "UnitPair", "exploded", "freed", "inventory_of"]

_PLAIN = Form(class_name="", exact={})
_MAX_LEVELS = 64
"""So many modules around a unit are looked at."""
_MAX_NESTED = 8
"""Names of the parameters that a class lays out inside itself have fewer components than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One parameter or buffer, and what it holds."""

    record: RecordInfo
    name: str
    """Full dotted name."""
    local: str
    """Name below the unit's module."""
    atoms: tuple[str, ...]
    """Neutral names of what it holds."""
    rule: Rule
    """Makes the entry of its atoms."""
    may_stay_alone: bool
    is_alias: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the shape as recorded."""
        return self.record.shape

    @property
    def is_buffer(self) -> bool:
        """Tell whether it is a buffer, or a parameter used as one."""
        return self.record.role is Role.BUFFER

    @property
    def neutral_shape(self) -> tuple[int, ...]:
        """Give the shape in the neutral layout, without axes of length 1."""
        return _neutral(self.rule, self.shape, is_join=len(self.atoms) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A module and the entries that are paired together."""

    id: int
    """Position in ``Inventory.units``."""
    module: ModuleInfo
    path: str
    """Path of the module; of a part of it for an exploded unit."""
    kind: str | None
    """Canonical kind; None for a class of the user's own, whose layout is not known."""
    entries: tuple[Entry, ...]
    place: Place
    """Where it stands, in terms that survive renaming."""
    is_laid_out: bool = False
    """Whether the class says how its parameters lie, by the table or by a user's rule."""
    is_part: bool = False
    """Whether other units hold the rest of what the module lays out."""

    @property
    def main(self) -> Entry:
        """Give the largest entry."""
        return max(self.entries, key=lambda entry: (prod(entry.shape), -entry.record.id))

    @property
    def needed(self) -> tuple[Entry, ...]:
        """Give the entries that must have a partner."""
        return tuple(
            entry for entry in self.entries if not (entry.may_stay_alone or entry.is_alias)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPair:
    """Two units that hold the same parameters."""

    reference: Unit
    candidate: Unit
    paired_by: PairedBy
    confidence: float = 1.0
    alternatives: tuple[Unit, ...] = ()
    """Other units of the reference that it could be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All units of one side."""

    name: SideName
    side: Side
    units: tuple[Unit, ...]
    """In definition order."""
    values: tuple[ValueInfo, ...]

    def value(self, entry: Entry) -> ValueInfo | None:
        """Give an entry's value with digest and statistics, None if it is not known."""
        if entry.record.value is None:
            return None
        value = self.values[entry.record.value]
        return value if value.digest else None

    def around(self, unit: Unit) -> Iterator[int]:
        """Give the modules around a unit, the innermost first and at most 64."""
        modules = self.side.index.modules
        outer = unit.module.id if unit.is_part else unit.module.parent
        for _ in range(_MAX_LEVELS):
            if outer is None:
                break
            yield outer
            outer = modules[outer].parent

    @property
    def framework(self) -> str:
        """Give the framework's name."""
        return self.side.framework


def inventory_of(side: Side, name: SideName, rules: Sequence[ClassRule] = ()) -> Inventory:
    """Gather the units of a side, in one pass over its tables; users' rules go first."""
    index = side.index
    owned = [
        record
        for record in index.records
        if record.role in {Role.WEIGHT, Role.BUFFER} and record.phase is not Phase.UPDATE
    ]
    own_rules = {m.id: found for m in index.modules if (found := rule_for(m, rules))}
    forms = [
        own_rules[module.id].form if module.id in own_rules else form_of(module)
        for module in index.modules
    ]
    owners: dict[int, list[tuple[str, RecordInfo]]] = {}
    for record in owned:
        owner, local = _owner_of(record, index.modules, forms)
        owners.setdefault(owner, []).append((local, record))
    places = places_of(index.modules, frozenset(owners))
    units = tuple(
        _unit(place, index.modules[owner], forms[owner], places[owner], owners[owner])
        for place, owner in enumerate(sorted(owners))
    )
    units = tuple(
        replace(unit, kind=own_rules[unit.module.id].kind, is_laid_out=True)
        if unit.module.id in own_rules
        else unit
        for unit in units
    )
    return Inventory(name=name, side=side, units=with_gates(units), values=index.values)


def exploded(unit: Unit, first: int) -> tuple[Unit, ...]:
    """Take a unit apart into one for each of its projections.

    A framework's attention against a user's own: ``in_proj_weight`` and ``in_proj_bias`` become
    a Linear ``in_proj``, ``out_proj.weight`` and ``out_proj.bias`` another.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in unit.entries:
        whole = entry.atoms[0].partition(":")[0] if _is_part(entry) else entry.local
        stem = whole.removesuffix("weight").removesuffix("bias").rstrip("._")
        groups.setdefault(stem, []).append(entry)
    if len(groups) < 2:  # noqa: PLR2004
        return (unit,)
    return tuple(
        replace(
            unit,
            id=first + place,
            path=f"{unit.path}.{stem}".strip("."),
            is_part=True,
            kind="linear" if unit.kind == "attention" else unit.kind,
            entries=tuple(_alone(entry, stem) for entry in entries),
            place=replace(unit.place, words=unit.place.words | words_of(stem)),
        )
        for place, (stem, entries) in enumerate(groups.items())
    )


def freed(unit: Unit, surplus: Sequence[Entry], first: int) -> list[Unit]:
    """Take single entries out of a unit, each a unit of its own; what is left comes first.

    A user's own class that holds matrices and multiplies by them: each may be a layer elsewhere.

    Args:
        unit: What holds them.
        surplus: Some of its entries, not all.
        first: Ids from here on are free.
    """
    gone = {entry.record.id for entry in surplus}
    rest = tuple(entry for entry in unit.entries if entry.record.id not in gone)
    return [
        replace(unit, entries=rest),
        *(
            replace(
                unit,
                id=first + entry.record.id,
                path=f"{unit.path}.{entry.local}".strip("."),
                is_part=True,
                entries=(entry,),
                place=replace(unit.place, words=unit.place.words | words_of(entry.local)),
            )
            for entry in surplus
        ),
    ]


@lru_cache(maxsize=65536)
def _neutral(rule: Rule, stored: tuple[int, ...], *, is_join: bool) -> tuple[int, ...]:
    inverse = Rule(rule.steps[1:]).inverse if is_join else rule.inverse
    shape = stored if inverse is None else inverse.shape_of([stored], stored)
    return tuple(length for length in shape if length != 1)


def _is_part(entry: Entry) -> bool:
    """Tell whether an entry is one of several that a reparametrised weight is made of."""
    is_moved = entry.local.startswith("parametrizations.")
    return len(entry.atoms) == 1 and (is_moved or ":" in entry.atoms[0])


def _alone(entry: Entry, stem: str) -> Entry:
    if _is_part(entry):
        return entry
    atom = entry.local.removeprefix(stem).strip("._") or entry.local
    return replace(entry, atoms=(atom,), rule=IDENTITY if len(entry.atoms) > 1 else entry.rule)


def _owner_of(
    record: RecordInfo, modules: Sequence[ModuleInfo], forms: Sequence[Form | None]
) -> tuple[int, str]:
    """Find the module whose class lays the record out: its own, or one around it."""
    local = record.slot.removeprefix(".")
    best, current, relative = (record.module, local), modules[record.module], local
    for _ in range(_MAX_NESTED):
        if current.parent is None:
            break
        own_name = current.path.rpartition(".")[2]
        relative = f"{own_name}.{relative}"
        current = modules[current.parent]
        form = forms[current.id]
        if relative.startswith("parametrizations."):
            return current.id, relative
        if form is not None and form.is_nested and form.find(relative, ()) is not None:
            best = current.id, relative
    return best


def _unit(
    number: int,
    module: ModuleInfo,
    form: Form | None,
    place: Place,
    members: Sequence[tuple[str, RecordInfo]],
) -> Unit:
    siblings = frozenset(local for local, _ in members)
    shown: Mapping[str, str] = {local: f"{module.path}.{local}".strip(".") for local in siblings}
    entries = []
    for local, record in members:
        held = (form or _PLAIN).find(local, siblings)
        entries.append(
            Entry(
                record=record,
                name=shown[local],
                local=local,
                atoms=(local,) if held is None else held.atoms,
                rule=IDENTITY if held is None else held.rule,
                may_stay_alone=held is not None and held.may_stay_alone,
                is_alias=held is not None and held.is_alias,
            )
        )
    return Unit(
        id=number,
        module=module,
        path=module.path,
        kind=kind_of(module),
        entries=tuple(entries),
        place=place,
        is_laid_out=form is not None,
    )
