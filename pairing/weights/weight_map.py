"""The weights of a map file: what the user says a parameter is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing.maps.mapped import Mapped, apply_map
from padiff.pairing.result import ModulePair, PairedBy
from padiff.pairing.rule import IDENTITY, Rule

from .weight_plan import WeightPair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.maps.mapfile import MapFile, WeightEntry
    from padiff.pairing.maps.pattern import PathPattern

    from .inventory import Entry, Inventory

_TRANSPOSE = Rule.parse("transpose")
_RESHAPE = Rule.parse("reshape")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedWeights:
    """What a map file settles about weights."""

    pairs: tuple[WeightPair, ...] = ()
    modules: tuple[ModulePair, ...] = ()
    ignored: tuple[dict[int, str], dict[int, str]] = ({}, {})
    """Reasons why a weight may stay alone, by module id, of the reference and of the candidate."""
    notes: tuple[str, ...] = ()
    """Entries that had no effect."""


def apply_weight_map(sides: tuple[Inventory, Inventory], map_file: MapFile) -> MappedWeights:
    """Find the parameters and modules that a map file means.

    Raises:
        ConfigError: Entries match nothing, several, or have rules that do not fit; all are listed.
    """
    modules = (sides[0].side.index.modules, sides[1].side.index.modules)
    problems: list[str] = []
    notes: list[str] = []
    hint: str | None = (
        "padiff show DUMP prints the paths; a weight's name is its module's path, a dot and its "
        "own name"
    )
    try:
        mapped = apply_map(map_file, *modules)
    except ConfigError as error:
        problems += error.details
        hint = error.hint
        mapped = Mapped()
    pairs: dict[int, WeightPair] = {}
    for entry in map_file.weights:
        try:
            found = _pairs(sides, entry)
        except ConfigError as error:
            problems.append(f"{entry.name}: {error.message}")
            continue
        if all(pair.candidate in pairs for pair in found):
            notes.append(f"map entry {entry.name} is unused: earlier entries make these weights")
        for pair in found:
            pairs.setdefault(pair.candidate, pair)
    if problems:
        raise ConfigError(
            f"cannot apply map file {map_file.source!r}",
            details=tuple(problems),
            hint=hint,
        )
    return MappedWeights(
        pairs=tuple(pairs.values()),
        modules=tuple(
            ModulePair(reference=one, candidate=two, paired_by=PairedBy.MAP)
            for one, two in mapped.pairs
        ),
        ignored=(
            {**mapped.inside[0], **mapped.ignored[0]},
            {**mapped.inside[1], **mapped.ignored[1]},
        ),
        notes=(*mapped.notes, *notes),
    )


def without(side: Inventory, records: frozenset[int]) -> Inventory:
    """Return the inventory without some entries, and without the units that they leave empty."""
    if not records:
        return side
    units = [
        replace(unit, entries=tuple(e for e in unit.entries if e.record.id not in records))
        for unit in side.units
    ]
    return replace(side, units=tuple(unit for unit in units if unit.entries))


def _pairs(sides: tuple[Inventory, Inventory], entry: WeightEntry) -> list[WeightPair]:
    targets = _matching(sides[1], entry.candidate)
    found = []
    for target, captured in targets:
        sources = []
        for pattern in entry.reference:
            fitting = [one for one, other in _matching(sides[0], pattern) if other == captured]
            if len(fitting) != 1:
                raise ConfigError(
                    f"{pattern.text!r} matches {len(fitting)} weights of the reference for "
                    f"{target.name!r}, expected one"
                )
            sources.append(fitting[0])
        found.append(
            WeightPair(
                reference=tuple(one.record.id for one in sources),
                candidate=target.record.id,
                rule=_rule(entry, sources, target),
                paired_by=PairedBy.MAP,
            )
        )
    return found


def _matching(side: Inventory, pattern: PathPattern) -> list[tuple[Entry, dict[str, str]]]:
    found = []
    for unit in side.units:
        for entry in unit.entries:
            captured = pattern.match(entry.name)
            if captured is not None:
                found.append((entry, captured))
    if not found:
        raise ConfigError(f"no weight of the {side.name} matches {pattern.text!r}")
    return found


def _rule(entry: WeightEntry, sources: Sequence[Entry], target: Entry) -> Rule:
    """Take the user's rule; without one, that of the classes, or what the shapes demand."""
    shapes = [one.shape for one in sources]
    if entry.rule is not None:
        found = entry.rule.shape_of(shapes, target.shape)
        if found != target.shape:
            others = _fitting(sources, target, (*filter(None, [entry.rule.inverse]),))
            raise ConfigError(
                f"the rule {str(entry.rule)!r} makes {found} of "
                f"{' and '.join(map(str, shapes))}, expected {target.shape} for {target.name!r}"
                + (f"; {str(others[0])!r} would fit" if others else "")
            )
        return entry.rule
    options = _fitting(sources, target)
    if options:
        return options[0]
    raise ConfigError(
        f"{' and '.join(map(str, shapes))} does not fit {target.shape} for {target.name!r}: "
        "write a rule"
    )


def _fitting(sources: Sequence[Entry], target: Entry, first: Sequence[Rule] = ()) -> list[Rule]:
    """List the usual rules that make the target's shape, that of the classes first."""
    inverse = sources[0].rule.inverse
    known = [] if inverse is None else [inverse.then(target.rule)]
    options = [*known, *first, IDENTITY, _TRANSPOSE, _RESHAPE]
    shapes = [one.shape for one in sources]
    return [option for option in options if option.fits(shapes, target.shape)]
