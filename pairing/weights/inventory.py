"""The parameters and buffers of one side, gathered into units that are paired as a whole.

A unit is a module with the parameters that its class lays out: a Linear with weight and bias, a
MultiheadAttention with those of its projections, an LSTM with those of its cells, a Conv with the
parts into which weight_norm took its weight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import ModuleInfo, RecordInfo, Role, ValueInfo
from padiff.dumpfile.bulk import build_all
from padiff.pairing.kinds import kind_of
from padiff.pairing.rule import Rule

from .standing import Standing, by_host, owned_by, with_gates
from .weight_rules import ClassRule, Form, Held, form_of, rule_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.pairing.result import PairedBy, SideName
    from padiff.pairing.side import Side

_PLAIN = Form(class_name="", exact={})
_MAX_LEVELS = 64
"""So many modules around a unit are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One parameter or buffer, and what it holds."""

    record: RecordInfo
    name: str
    """Full dotted name."""
    local: str
    """Name below the unit's module."""
    held: Held
    """What it holds: one object for all entries of this name of like modules."""

    @property
    def atoms(self) -> tuple[str, ...]:
        """Return the neutral names of what it holds."""
        return self.held.atoms

    @property
    def rule(self) -> Rule:
        """Return the rule that makes the entry of its atoms."""
        return self.held.rule

    @property
    def is_alias(self) -> bool:
        """Return whether it is another name of what is listed too."""
        return self.held.is_alias

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape as recorded."""
        return self.record.shape

    @property
    def is_buffer(self) -> bool:
        """Return whether it is a buffer, or a parameter used as one."""
        return self.record.role is Role.BUFFER

    @property
    def neutral_shape(self) -> tuple[int, ...]:
        """Return the shape in the neutral layout, without axes of length 1."""
        held, shape = self.held, self.record.shape
        if held.rule.is_identity and 1 not in shape:
            return shape
        return _neutral(held.rule, shape, is_join=len(held.atoms) > 1)

    def holding(self, *atoms: str, rule: Rule | None = None) -> Entry:
        """Return the same entry as one that holds something else.

        Args:
            atoms: What it holds.
            rule: What makes the entry of it; None for the same.
        """
        known = self.rule if rule is None else rule
        return replace(self, held=replace(self.held, atoms=atoms, rule=known))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A module and the entries that are paired together."""

    module: ModuleInfo
    path: str
    """Path of the module; of a part of it for an exploded unit."""
    kind: str | None
    """Canonical kind; None for a class of the user's own, whose layout is not known."""
    entries: tuple[Entry, ...]
    standing: Standing
    """Where the units of its side stand."""
    own_ranks: tuple[int, ...] = ()
    """Ranks that it has below its module."""
    own_words: frozenset[str] = frozenset()
    """Words that it has besides those of its module's path."""
    is_laid_out: bool = False
    """Whether the class says how its parameters lie, by the table or by a user's rule."""
    is_part: bool = False
    """Whether other units hold the rest of what the module lays out."""

    @property
    def leaf(self) -> str:
        """Return the last name of its path."""
        return self.path.rpartition(".")[2]

    @property
    def main(self) -> Entry:
        """Return the largest entry."""
        if len(self.entries) == 1:
            return self.entries[0]
        found, most = self.entries[0], -1
        for entry in self.entries:
            size = prod(entry.record.shape)
            if size > most or (size == most and entry.record.id < found.record.id):
                found, most = entry, size
        return found

    @property
    def needed(self) -> tuple[Entry, ...]:
        """Return the entries that must have a partner."""
        return tuple(entry for entry in self.entries if entry.held.is_needed)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks of the numbers on its path."""
        ranks = self.standing.ranks(self.module.id)
        return (*ranks, *self.own_ranks) if self.own_ranks else ranks

    @property
    def words(self) -> frozenset[str]:
        """Return the words of its path, synonyms made one."""
        words = self.standing.words(self.module.id)
        return words | self.own_words if self.own_words else words

    @property
    def holder(self) -> int | None:
        """Return the innermost module around it."""
        return self.module.id if self.is_part else self.module.parent

    def with_words(self, words: frozenset[str]) -> Unit:
        """Return the same unit with more words."""
        return replace(self, own_words=self.own_words | words)


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
        """Return an entry's value with digest and statistics, None if it is not known."""
        if entry.record.value is None:
            return None
        value = self.values[entry.record.value]
        return value if value.digest else None

    def around(self, unit: Unit) -> Iterator[int]:
        """Return the modules around a unit, the innermost first and at most 64."""
        return self.outward(unit.holder)

    def outward(self, holder: int | None) -> Iterator[int]:
        """Yield a module and those around it, the innermost first and at most 64."""
        modules = self.side.index.modules
        for _ in range(_MAX_LEVELS):
            if holder is None:
                break
            yield holder
            holder = modules[holder].parent

    @property
    def framework(self) -> str:
        """Return the framework's name."""
        return self.side.framework


def inventory_of(side: Side, name: SideName, rules: Sequence[ClassRule] = ()) -> Inventory:
    """Gather the units of a side, in one pass over its tables; users' rules go first."""
    index = side.index
    own_rules = {m.id: own for m in index.modules if (own := rule_for(m, rules))} if rules else {}
    forms = [form_of(module) for module in index.modules]
    for number, own in own_rules.items():
        forms[number] = own.form
    owners = by_host(owned_by(index), index.modules, forms)
    modules = [index.modules[owner] for owner in owners]
    kinds = [own_rules[m.id].kind if m.id in own_rules else kind_of(m) for m in modules]
    entries = _entries(owners, modules, forms)
    units = build_all(
        Unit,
        len(owners),
        same={"standing": Standing(index.modules, owners.keys())},
        module=modules,
        path=[module.path for module in modules],
        kind=kinds,
        entries=entries,
        is_laid_out=[forms[owner] is not None for owner in owners],
    )
    return Inventory(name=name, side=side, units=with_gates(tuple(units)), values=index.values)


@lru_cache(maxsize=65536)
def _neutral(rule: Rule, stored: tuple[int, ...], *, is_join: bool) -> tuple[int, ...]:
    inverse = Rule(rule.steps[1:]).inverse if is_join else rule.inverse
    shape = stored if inverse is None else inverse.shape_of([stored], stored)
    return tuple(length for length in shape if length != 1)


def _entries(
    owners: Mapping[int, Sequence[tuple[str, RecordInfo]]],
    modules: Sequence[ModuleInfo],
    forms: Sequence[Form | None],
) -> list[tuple[Entry, ...]]:
    """Make the entries of each module; those of like modules hold one and the same."""
    known: dict[tuple[int, tuple[str, ...]], list[Held]] = {}
    held: list[Held] = []
    for owner, members in owners.items():
        form = forms[owner] or _PLAIN
        names = tuple(local for local, _ in members)
        key = id(form), names
        if key not in known:
            siblings = frozenset(names)
            known[key] = [form.find(one, siblings) or Held(atoms=(one,)) for one in names]
        held += known[key]
    paths = [f"{module.path}." if module.path else "" for module in modules]
    found = build_all(
        Entry,
        len(held),
        record=[record for members in owners.values() for _, record in members],
        name=[
            (path + local).strip(".")
            for path, members in zip(paths, owners.values(), strict=True)
            for local, _ in members
        ],
        local=[local for members in owners.values() for local, _ in members],
        held=held,
    )
    ends = accumulate(map(len, owners.values()), initial=0)
    return [tuple(found[start:end]) for start, end in pairwise(ends)]
