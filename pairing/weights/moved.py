"""Vectors that one author keeps beside the layer that they belong to, or in another class.

A Linear without bias and a parameter that the block adds, or a layer of its own that only adds an
offset, against a Linear with bias.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.pairing.names import words_of
from padiff.pairing.result import PairedBy
from padiff.pairing.rule import IDENTITY, Rule

from .weight_plan import WeightPair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .inventory import Entry, Inventory, Unit, UnitPair

__all__ = ["MOVED", "pair_moved"]

MOVED = "kept beside the layer that it belongs to"
"""Note of such a pair."""
_LIKELY = 0.6
_RESHAPE = Rule.parse("reshape")
_MOST = 8
"""Of more vectors of a size in one place, none is told by its words."""
Lone = dict[tuple[int | None, tuple[int, ...]], list[tuple["Unit", "Entry"]]]
"""Vectors by the module that holds them, or that holds their module, and by shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    reference: Entry
    candidate: Entry


def pair_moved(
    sides: tuple[Inventory, Inventory], units: Sequence[UnitPair], pairs: Iterable[WeightPair]
) -> list[WeightPair]:
    """Pair a lone vector of a paired layer with the only lone one of its size beside the partner.

    Args:
        sides: Both sides.
        units: The paired layers; a fused one with each of its parts.
        pairs: The parameters that are paired already.

    Returns:
        Further pairs; nothing where more than one vector comes into question, and no name tells
        which (``q_bias`` beside a fused projection is that of ``q_proj``).
    """
    known = list(pairs)
    taken = (
        {record for pair in known for record in pair.reference},
        {pair.candidate for pair in known},
    )
    lone = [_lone(side, used) for side, used in zip(sides, taken, strict=True)]
    found: list[_Found] = []
    for pair in units:
        for entry in _of(pair.reference, taken[0]):
            found += [
                _Found(reference=entry, candidate=o)
                for o in _beside(pair.reference, entry, pair.candidate, lone[1])
            ]
        for entry in _of(pair.candidate, taken[1]):
            found += [
                _Found(reference=o, candidate=entry)
                for o in _beside(pair.candidate, entry, pair.reference, lone[0])
            ]
    return list(_single(found))


def _of(unit: Unit, taken: set[int]) -> list[Entry]:
    return [entry for entry in unit.needed if entry.record.id not in taken and _is_vector(entry)]


def _is_vector(entry: Entry) -> bool:
    return len(entry.neutral_shape) == 1 and len(entry.atoms) == 1 and not entry.is_buffer


def _lone(side: Inventory, taken: set[int]) -> Lone:
    """List the vectors of users' own classes that have no partner, by holder and shape."""
    found: Lone = defaultdict(list)
    for unit in side.units:
        if not unit.is_laid_out:
            for entry in _of(unit, taken):
                for holder in dict.fromkeys((unit.module.id, unit.module.parent)):
                    found[holder, entry.neutral_shape].append((unit, entry))
    return found


def _beside(owner: Unit, entry: Entry, partner: Unit, lone: Lone) -> list[Entry]:
    """Give the lone vector that a layer's vector can be, kept right beside its partner.

    Nothing where there are several, unless the words of one alone are the layer's.

    Args:
        owner: The layer.
        entry: Its vector.
        partner: The other side's layer.
        lone: Vectors of the other side.
    """
    found: list[Entry] = []
    for other, vector in lone.get((partner.holder, entry.neutral_shape), ()):
        if partner.is_part or other.module.id != partner.module.id:
            found.append(vector)
            if len(found) > _MOST:
                return []
    if len(found) > 1:
        said = words_of(owner.path.rpartition(".")[2])
        found = [vector for vector in found if said & words_of(vector.local)]
    return found if len(found) == 1 else []


def _single(found: Sequence[_Found]) -> Iterator[WeightPair]:
    uses: dict[tuple[int, int], set[int]] = defaultdict(set)
    for one in found:
        ids = one.reference.record.id, one.candidate.record.id
        uses[0, ids[0]].add(ids[1])
        uses[1, ids[1]].add(ids[0])
    done: set[int] = set()
    for one in found:
        ids = one.reference.record.id, one.candidate.record.id
        is_clear = len(uses[0, ids[0]]) == len(uses[1, ids[1]]) == 1
        if not is_clear or ids[1] in done:
            continue
        done.add(ids[1])
        is_same = one.reference.shape == one.candidate.shape
        yield WeightPair(
            reference=(ids[0],),
            candidate=ids[1],
            rule=IDENTITY if is_same else _RESHAPE,
            paired_by=PairedBy.STRUCTURE,
            confidence=_LIKELY,
            note=MOVED,
        )
