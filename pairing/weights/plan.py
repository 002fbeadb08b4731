"""Plan which parameter of the candidate is made of which of the reference, by which rule."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace
from heapq import nsmallest
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.dumpfile.bulk import collector_paused
from padiff.pairing.kinds import KINDS, public_name
from padiff.pairing.maps.mapfile import MapFile
from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import ModulePair, SideName
from padiff.pairing.side import folded_weights

from .apart import with_vectors_apart
from .entry_pairs import EntryPairs, bare_matrices
from .entry_rules import is_magnitude
from .fused import Fused, pair_fused
from .inventory import Entry, Inventory, Unit, UnitPair, inventory_of
from .lone import choose_within, pair_lone, pair_moved
from .settled import unneeded_weights, without_own_tables
from .stacked import pair_stacked
from .turned import turn_choices, turned_alike
from .unit_pairs import UnitSearch
from .weight_map import MappedWeights, apply_weight_map, without
from .weight_plan import SURE, TIED, UNNEEDED, WeightAlone, WeightPair, WeightPlan
from .weight_rules import is_passive, registered_classes, unused_rules
from .weight_text import weight_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.side import Side

_MAX_CLOSEST = 3
_MAX_LOOKS = 200_000
"""So many parameters are looked at in all, about; of more, those at about the same place."""
_LEAST = 8
_NAMES = SideName.REFERENCE, SideName.CANDIDATE
Shape = tuple[int, ...]


def nearest_names(entries: Sequence[Entry], others: Sequence[Entry]) -> Iterator[tuple[int, ...]]:
    """Yield for each parameter up to three of the other side: of its lengths first, then by name.

    Args:
        entries: In definition order.
        others: Those of the other side that are alone, in definition order.
    """
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
    lone = [
        sorted(
            (
                (entry, _buffering(unit))
                for unit in side.units
                for entry in unit.entries
                if entry.record.id not in taken
            ),
            key=lambda one: one[0].record.id,
        )
        for side, taken in zip(sides, used, strict=True)
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
            reason, is_missing = _reason(entry, kind, is_tied=is_tied)
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


def _buffering(unit: Unit) -> str | None:
    """Return the kind of layer whose buffers matter; None for what an author keeps in a class.

    A class that derives from an embedding may keep a scale beside the table, as Gemma's does; of
    what derives from a norm, the statistics are what the norm keeps.
    """
    is_own = public_name(unit.module.class_path) not in KINDS
    return None if is_own and "norm" not in (unit.kind or "") else unit.kind


def _reason(entry: Entry, kind: str | None, *, is_tied: bool) -> tuple[str, bool]:
    if is_tied or entry.is_alias:
        return "another name of a tensor that is paired", False
    if entry.held.may_stay_alone:
        return f"the other side keeps no {entry.atoms[0].rpartition('.')[2]}", False
    if entry.is_buffer and (kind is None or is_passive(entry.local)):
        return "a buffer that the other side does not have", False
    if is_magnitude(entry):
        return "no partner along the same axis of weight_norm: another function", True
    return "no partner of this kind and shape", True
