"""Plan which parameter of the candidate is made of which of the reference, by which rule."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError, Role
from padiff.dumpfile.bulk import collector_paused
from padiff.pairing.kinds import KINDS, public_name
from padiff.pairing.maps.mapfile import MapFile
from padiff.pairing.maps.mapped import Mapped, apply_map
from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import ModulePair, PairedBy, SideName
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.side import folded_weights

from .apart import with_vectors_apart
from .entry_pairs import SQUARE, EntryPairs, bare_matrices
from .entry_rules import TURNS, is_magnitude
from .fused import Fused, pair_fused
from .inventory import Entry, Inventory, Unit, UnitPair, inventory_of
from .lone import choose_within, pair_copies, pair_lone, pair_moved
from .members import pair_members
from .settled import unneeded_weights, without_own_tables
from .stacked import pair_stacked
from .standing import unnumbered
from .unit_pairs import UnitSearch
from .weight_plan import (
    SURE,
    TIED,
    UNNEEDED,
    WeightAlone,
    WeightChoice,
    WeightPair,
    WeightPlan,
    WeightWay,
)
from .weight_rules import is_passive, registered_classes, unused_rules
from .weight_text import weight_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.maps.mapfile import WeightEntry
    from padiff.pairing.maps.pattern import PathPattern
    from padiff.pairing.side import Side


_MAX_CLOSEST = 3
_MAX_LOOKS = 200_000
"""So many parameters are looked at in all, about; of more, those at about the same place."""
_LEAST = 8
_NAMES = SideName.REFERENCE, SideName.CANDIDATE
Shape = tuple[int, ...]


def nearest_names(entries: Sequence[Entry], others: Sequence[Entry]) -> Iterator[tuple[int, ...]]:
    """Yield for each parameter up to three of the other side: by lengths first, then by name."""
    width = max(_LEAST, _MAX_LOOKS // max(1, len(entries)))
    words, forms = [words_of(one.name) for one in others], [_form(one) for one in others]
    by_form: dict[Shape, list[int]] = defaultdict(list)
    for place, form in enumerate(forms):
        by_form[form].append(place)
    for at, entry in enumerate(entries):
        said, form, middle = words_of(entry.name), _form(entry), at * len(others) // len(entries)
        looks = {
            place
            for places in (by_form.get(form, []), range(len(others)))
            for place in _around(places, middle, width)
        }
        ranked = [(forms[place] != form, -likeness(said, words[place]), place) for place in looks]
        yield tuple(others[place].record.id for *_, place in nsmallest(_MAX_CLOSEST, ranked))


def _around(places: Sequence[int], middle: int, width: int) -> Sequence[int]:
    """Return the places, of too many those around the middle; they ascend."""
    start = min(max(0, bisect_left(places, middle) - width // 2), max(0, len(places) - width))
    return places[start : start + width]


def _form(entry: Entry) -> Shape:
    return tuple(sorted(entry.neutral_shape))


def tie_notes(reference: Side, candidate: Side, pairs: Iterable[WeightPair]) -> Iterator[str]:
    """Describe which weights are tied on one side only: their gradients add up there.

    Outputs agree as long as the values do; gradients do not, and the next update parts them.
    """
    sides = reference, candidate
    tensors: dict[tuple[int, int], tuple[RecordInfo, RecordInfo]] = {}
    for pair in pairs:
        mine = reference.index.records[pair.reference[0]]
        theirs = candidate.index.records[pair.candidate]
        is_whole = len(pair.reference) == 1 and prod(mine.shape) == prod(theirs.shape)
        is_whole = is_whole and mine.role is Role.WEIGHT
        if is_whole and mine.tensor is not None and theirs.tensor is not None:
            tensors.setdefault((mine.tensor, theirs.tensor), (mine, theirs))
    for tied, untied in ((0, 1), (1, 0)):
        names: dict[int, list[str]] = defaultdict(list)
        for tensor, records in tensors.items():
            names[tensor[tied]].append(repr(weight_name(sides[untied], records[untied])))
        for found in names.values():
            if len(found) > 1:
                yield (
                    f"{' and '.join(found)} of the {_NAMES[untied]} are one tensor on the "
                    f"{_NAMES[tied]}: gradients add up there, and only there"
                )


@collector_paused()
def plan_weights(
    reference: Side,
    candidate: Side,
    *,
    modules: Sequence[ModulePair] | None = None,
    map_file: MapFile | None = None,
) -> WeightPlan:
    """Pair the parameters and buffers of two sides.

    Works on dumps and on bare inventories (a live model that has not run, a checkpoint file): only
    module tables and records of roles ``weight`` and ``buffer`` are read, and values where both
    sides have them.

    Args:
        reference: Where the values come from.
        candidate: What should hold them.
        modules: Modules that are known to be partners, from the pairing of the runs.
        map_file: What the user decided; it comes before everything else.

    Returns:
        Every parameter and buffer of both sides, paired or with the reason why not.

    Raises:
        ConfigError: Entries of the map file match nothing, or their rules do not fit.
    """
    map_file = map_file or MapFile()
    stated = map_file.rules
    rules = (*stated, *registered_classes())
    sides = (
        inventory_of(reference, SideName.REFERENCE, rules),
        inventory_of(candidate, SideName.CANDIDATE, rules),
    )
    mapped = apply_weight_map(sides, map_file)
    search, stacked, fused = _searched(sides, mapped, modules or ())
    pairs = [*mapped.pairs, *stacked, *fused.pairs, *_entries_of(sides, search.pairs)]
    pairs += pair_moved(sides, (*search.pairs, *fused.units), pairs)
    lone = pair_lone(sides, search.pairs, search.scopes, pairs)
    pairs, within = choose_within(sides, pairs)
    pairs += lone.pairs
    pairs += pair_members(sides, pairs)
    pairs += list(pair_copies(sides, pairs))
    pairs, told = without_own_tables(sides, turned_alike(sides, _with_tied(sides, pairs)))
    joined = {record for choice in fused.choices for record in choice.candidates}
    open_rules = [pair for pair in pairs if pair.candidate not in joined]
    alone = tuple(_alone(sides, pairs, mapped, fused.refused))
    records = reference.index.records
    idle = [weight_name(reference, records[one.record]) for one in alone if one.is_unneeded]
    return WeightPlan(
        pairs=tuple(sorted(pairs, key=lambda pair: pair.candidate)),
        alone=alone,
        notes=(
            *mapped.notes,
            *fused.notes,
            *unused_rules(stated, (*reference.index.modules, *candidate.index.modules)),
            *tie_notes(reference, candidate, pairs),
            *told,
            *([f"no partner, and {UNNEEDED}: {', '.join(idle)}"] if idle else ()),
        ),
        choices=(*fused.choices, *lone.choices, *within, *turn_choices(sides[1], open_rules)),
    )


def _searched(
    sides: tuple[Inventory, Inventory], mapped: MappedWeights, modules: Sequence[ModulePair]
) -> tuple[UnitSearch, list[WeightPair], Fused]:
    """Pair the units of both sides, and what is stacked or fused on one side only."""
    used = frozenset(record for pair in mapped.pairs for record in pair.reference)
    made = frozenset(pair.candidate for pair in mapped.pairs)
    search = UnitSearch(*with_vectors_apart(without(sides[0], used), without(sides[1], made)))
    firm = [pair for pair in modules if pair.confidence >= SURE]
    search.know((*mapped.modules, *firm))
    search.free(bare_matrices(sides, search.pairs))
    search.find()
    search.explode()
    search.find()
    search.free(bare_matrices(sides, search.pairs))
    search.find()
    stacked = pair_stacked(search)
    fused = pair_fused(search)
    search.find()
    search.suppose([pair for pair in modules if pair.confidence < SURE])
    search.guess()
    return search, stacked, fused


def _entries_of(
    sides: tuple[Inventory, Inventory], found: Iterable[UnitPair]
) -> Iterable[WeightPair]:
    entries = EntryPairs(sides)
    for pair in found:
        yield from entries.of(pair)


def _entries(side: Inventory) -> list[Entry]:
    return [entry for unit in side.units for entry in unit.entries]


def _with_tied(sides: tuple[Inventory, Inventory], pairs: Sequence[WeightPair]) -> list[WeightPair]:
    """Pair further names of a paired candidate tensor with the same partner."""
    by_record = {pair.candidate: pair for pair in pairs}
    entries = _entries(sides[1])
    if all(entry.record.id in by_record for entry in entries):
        return list(pairs)
    by_tensor = {
        entry.record.tensor: by_record[entry.record.id]
        for entry in entries
        if entry.record.tensor is not None and entry.record.id in by_record
    }
    found = list(pairs)
    for entry in entries:
        tensor = entry.record.tensor
        same = None if tensor is None else by_tensor.get(tensor)
        if entry.record.id not in by_record and same is not None:
            found.append(replace(same, candidate=entry.record.id, note=TIED))
    return found


def _alone(
    sides: tuple[Inventory, Inventory],
    pairs: Sequence[WeightPair],
    mapped: MappedWeights,
    refused: Mapping[int, str],
) -> Iterable[WeightAlone]:
    used = (
        {record for pair in pairs for record in pair.reference},
        {pair.candidate for pair in pairs},
    )
    lone = [_without(side, taken) for side, taken in zip(sides, used, strict=True)]
    shapes = [
        {weight_name(side.side, entry.record): entry.record.shape for entry, _ in entries}
        for side, entries in zip(sides, lone, strict=True)
    ]
    unneeded = unneeded_weights(sides[0].side) if lone[0] else frozenset()
    for place, side in enumerate(sides):
        records = side.side.index.records
        folded = folded_weights(sides[1 - place].side)
        tensors = {records[record].tensor for record in used[place]} if lone[place] else set()
        near = nearest_names(
            [entry for entry, _ in lone[place]], [entry for entry, _ in lone[1 - place]]
        )
        for (entry, kind), closest in zip(lone[place], near, strict=True):
            is_tied = entry.record.tensor is not None and entry.record.tensor in tensors
            shape = shapes[1 - place].get(weight_name(side.side, entry.record))
            reason, is_missing = _reason(entry, kind, shape, is_tied=is_tied)
            ignored = mapped.ignored[place].get(entry.record.module)
            if ignored is not None:
                reason, is_missing = ignored, False
            elif weight_name(side.side, entry.record) in folded:
                other = sides[1 - place].name
                reason, is_missing = f"the exporter of the {other} folded it or left it out", False
            elif place == 0 and entry.record.id in refused:
                reason = refused[entry.record.id]
            is_unneeded = is_missing and place == 0
            is_unneeded = is_unneeded and weight_name(side.side, entry.record) in unneeded
            if is_unneeded:
                reason, is_missing = UNNEEDED, False
            yield WeightAlone(
                side=side.name,
                record=entry.record.id,
                is_missing=is_missing,
                reason=reason,
                closest=closest if is_missing else (),
                is_unneeded=is_unneeded,
            )


def _without(side: Inventory, taken: Container[int]) -> list[tuple[Entry, str | None]]:
    """Return what has no partner of a side, each with the kind of layer whose buffers matter."""
    lone = (
        (entry, _buffering(unit))
        for unit in side.units
        for entry in unit.entries
        if entry.record.id not in taken
    )
    return sorted(lone, key=lambda one: one[0].record.id)


def _buffering(unit: Unit) -> str | None:
    """Return the kind of layer whose buffers matter; None for what an author keeps in a class.

    A class that derives from an embedding may keep a scale beside the table, as Gemma's does; of
    what derives from a norm, the statistics are what the norm keeps.
    """
    is_own = public_name(unit.module.class_path) not in KINDS
    return None if is_own and "norm" not in (unit.kind or "") else unit.kind


def _reason(
    entry: Entry, kind: str | None, other: tuple[int, ...] | None, *, is_tied: bool
) -> tuple[str, bool]:
    """Return why a weight is alone, and whether it is missed.

    Args:
        entry: The weight or buffer.
        kind: Of its layer, if its buffers matter.
        other: The shape of what has its name on the other side, and no partner either.
        is_tied: Whether a partner has another name of the same tensor.
    """
    if is_tied or entry.is_alias:
        return "another name of a tensor that is paired", False
    if entry.held.may_stay_alone:
        return f"the other side keeps no {entry.atoms[0].rpartition('.')[2]}", False
    if entry.is_buffer and (kind is None or is_passive(entry.local)):
        is_there = other not in (None, entry.record.shape)
        where = f"has the shape {list(other or ())} on the other side"
        return f"a buffer that {where if is_there else 'the other side does not have'}", False
    if is_magnitude(entry):
        return "no partner along the same axis of weight_norm: another function", True
    return "no partner of this kind and shape", True


Holder = tuple[str, str]
"""Class, and the name of a parameter in it."""
_CUBE = 3
_TOLD = 0.7


def turn_choices(candidate: Inventory, pairs: Iterable[WeightPair]) -> Iterator[WeightChoice]:
    """Yield a choice for each pair of which only the rule is open."""
    entries: dict[int, tuple[Unit, Entry]] = {}
    for pair in pairs:
        rules = [pair.rule, *(one.rule for one in pair.alternatives)]
        is_open = (pair.is_ambiguous or pair.note == SQUARE) and len(rules) > 1
        if not is_open or not _is_own_doubt(pair) or not all(map(_only_turns, rules)):
            continue
        if not entries:
            entries = {e.record.id: (unit, e) for unit in candidate.units for e in unit.entries}
        unit, entry = entries[pair.candidate]
        if entry.is_alias:
            continue
        is_stack = len(entry.shape) == _CUBE  # all stacks of all blocks are decided together
        name = unit.path or unit.module.class_name if is_stack else entry.name
        ways = (
            WeightWay(label=str(rule), pairs=(replace(pair, rule=rule),), is_usual=True)
            for rule in rules
        )
        yield WeightChoice(name=unnumbered(name), ways=tuple(ways))


def turned_alike(
    sides: tuple[Inventory, Inventory], pairs: Sequence[WeightPair]
) -> list[WeightPair]:
    """Lay square matrices of users' own classes as others lie that have this name there.

    Of stacks of matrices, all of a class lie alike, whatever their names.
    """
    if not any(pair.note == SQUARE for pair in pairs):
        return list(pairs)
    tables = [_holders(side) for side in sides]
    lain: dict[tuple[Holder, ...], set[Rule]] = {}
    for pair in pairs:
        if _is_matrix(sides[1], pair) and pair.note != SQUARE:
            lain.setdefault(_of(sides[1], tables, pair), set()).add(pair.rule)
    found = []
    for pair in pairs:
        rules = lain.get(_of(sides[1], tables, pair), set()) if pair.note == SQUARE else set()
        rule = next(iter(rules)) if len(rules) == 1 else None
        is_told = rule in {pair.rule, *(one.rule for one in pair.alternatives)}
        sure = max(pair.confidence, _TOLD)
        told = replace(pair, rule=rule or pair.rule, confidence=sure, alternatives=(), note="")
        found.append(told if is_told and _is_own_doubt(pair) else pair)
    return found


def _is_own_doubt(pair: WeightPair) -> bool:
    """Return whether nothing but its rule is open."""
    return all(other.reference == pair.reference for other in pair.alternatives)


def _holders(side: Inventory) -> dict[int, Holder]:
    """Return the class of the module that holds each parameter, and the name there."""
    return {
        entry.record.id: (unit.module.class_path, entry.local)
        for unit in side.units
        for entry in unit.entries
    }


def _of(
    candidate: Inventory, tables: Sequence[Mapping[int, Holder]], pair: WeightPair
) -> tuple[Holder, ...]:
    """Return what matrices that lie alike have in common."""
    holders = tables[0][pair.reference[0]], tables[1][pair.candidate]
    axes = len(candidate.side.index.records[pair.candidate].shape)
    return tuple((kind, "" if axes == _CUBE else name) for kind, name in holders)


def _is_matrix(candidate: Inventory, pair: WeightPair) -> bool:
    """Return whether the shape of a matrix or of a stack of them says which way it lies."""
    shape = candidate.side.index.records[pair.candidate].shape
    return len(shape) in TURNS and len(pair.reference) == 1 and len(set(shape[-2:])) > 1


def _only_turns(rule: Rule) -> bool:
    return rule.is_identity or rule in TURNS.values()


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
