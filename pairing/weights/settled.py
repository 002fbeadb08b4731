"""Weights that need no choice: all that could be meant hold the same, or no checkpoint holds them.

The norms of a model that was just built hold ones and zeros: any way to pair them is right.

Buffers that a constructor computes stay as the model made them: frequencies of a rotary embedding,
an index of relative positions. What a port computes wrongly would be repaired if the reference's
took its place.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError, DumpError, LeafKind, Phase, Role
from padiff.pairing.names import words_of
from padiff.pairing.result import PairedBy, SideName
from padiff.pairing.side import unsaved_records
from padiff.program import UNIT_ROUNDOFF, Image, made_of, program_of

from .standing import unnumbered
from .unit_keys import value_key
from .weight_plan import SURE
from .weight_text import kinds_of, weight_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from padiff.pairing.side import Side

    from .inventory import Entry, Inventory
    from .weight_plan import WeightPair, WeightPlan

_TOLD = frozenset({PairedBy.VALUE, PairedBy.MAP})
"""What says of two buffers that they are the same thing, whatever they hold."""


def settled_by_content(plan: WeightPlan, reference: Side, candidate: Side) -> WeightPlan:
    """Return the plan without the doubts in which every way gives the same numbers.

    A choice names some of the others that it is between, not all: so it counts only if the same
    is true of all choices that it shares a weight with.
    """
    settled = [
        pair
        for group in _connected(plan.ambiguous)
        if all(_is_same_anyway(pair, reference, candidate) for pair in group)
        for pair in group
    ]
    if not settled:
        return plan
    names = ", ".join(kind.name for kind in kinds_of(settled, candidate))
    note = f"weights that could be made of several, which hold the same: {names}"
    sure = (replace(pair, confidence=SURE, alternatives=()) for pair in settled)
    made = plan.with_pairs(sure)
    return replace(made, notes=(*made.notes, note))


def _connected(pairs: Iterable[WeightPair]) -> list[list[WeightPair]]:
    """Group the pairs that could be made of a weight in common."""
    groups: list[tuple[set[int], list[WeightPair]]] = []
    for pair in pairs:
        sources = {
            *pair.reference,
            *(one for other in pair.alternatives for one in other.reference),
        }
        members = [pair]
        apart = []
        for known, held in groups:
            if known.isdisjoint(sources):
                apart.append((known, held))
            else:
                sources |= known
                members = [*held, *members]
        groups = [*apart, (sources, members)]
    return [members for _, members in groups]


def _is_same_anyway(pair: WeightPair, reference: Side, candidate: Side) -> bool:
    """Return whether all ways of a choice give the same numbers."""
    ways = [(pair.reference, pair.rule), *((one.reference, one.rule) for one in pair.alternatives)]
    shape = candidate.index.records[pair.candidate].shape
    first: npt.NDArray[Any] | None = None
    try:
        for sources, rule in ways:
            parts = [reference.array(reference.index.records[one]) for one in sources]
            made = rule.apply(parts, shape)
            if first is None:
                first = made
            elif made.shape != first.shape or not np.array_equal(first, made):
                return False
    except (ConfigError, DumpError):  # a way that does not fit, or whose values are not there
        return False
    return len(ways) > 1


def without_unsaved(plan: WeightPlan, reference: Side, candidate: Side) -> WeightPlan:
    """Return the plan without buffers that either framework does not save with weights.

    A parameter of the candidate that is made of such a buffer stays: nothing else makes it.
    """
    unsaved = unsaved_records(reference), unsaved_records(candidate)
    if not any(unsaved):
        return plan
    records = candidate.index.records
    left = [
        pair for pair in plan.pairs
        if pair.candidate in unsaved[1]
        or (records[pair.candidate].role is Role.BUFFER and unsaved[0].issuperset(pair.reference))
    ]  # fmt: skip
    alone = tuple(
        replace(one, is_missing=False)
        if one.record in unsaved[one.side is SideName.CANDIDATE]
        else one
        for one in plan.alone
    )
    if not left:
        return replace(plan, alone=alone)
    gone = {pair.candidate for pair in left}
    names = ", ".join(kind.name for kind in kinds_of(left, candidate))
    return replace(
        plan,
        alone=alone,
        pairs=tuple(pair for pair in plan.pairs if pair.candidate not in gone),
        notes=(*plan.notes, f"left as the model made them, not saved with weights: {names}"),
    )


def without_own_tables(
    sides: tuple[Inventory, Inventory], pairs: Sequence[WeightPair]
) -> tuple[list[WeightPair], list[str]]:
    """Leave out pairs of tables that have nothing but their size in common, and say so.

    One author keeps the logarithm of a decay, another the decay: a size does not tell that they are
    the same thing, as it may of the codes of two codebooks. A table that the reference's
    constructor computed, or that a formula makes of the reference's, is the candidate's own.

    Returns:
        The other pairs, and notes.
    """
    records = sides[1].side.index.records
    open_ = [
        pair for pair in pairs
        if records[pair.candidate].role is Role.BUFFER
        if pair.paired_by not in _TOLD and len(pair.reference) == 1
    ]  # fmt: skip
    if not open_:
        return list(pairs), []
    ours, theirs = (_of_own_classes(side) for side in sides)
    tables = _Tables(sides)
    kept, given, apart = dict[str, None](), dict[str, None](), set[int]()
    for pair in open_:
        one, two = ours.get(pair.reference[0]), theirs.get(pair.candidate)
        if one is None or two is None or words_of(one.local) & words_of(two.local):
            continue
        values = value_key(sides[0], one), value_key(sides[1], two)
        if None not in values and values[0] == values[1]:
            continue
        names = f"{unnumbered(two.name)} by {unnumbered(one.name)}"
        if tables.is_own(one, two):
            apart.add(pair.candidate)
            kept[names] = None
        else:
            given[names] = None
    notes = []
    if kept:
        notes.append(f"buffers that the model computes are not overwritten: {', '.join(kept)}")
    if given:
        said = f"and no name says so: {', '.join(given)}"
        notes.append(f"buffers are overwritten by others of their size, {said}")
    return [pair for pair in pairs if pair.candidate not in apart], notes


def _of_own_classes(side: Inventory) -> dict[int, Entry]:
    """Return the entries of users' own classes by record."""
    return {
        entry.record.id: entry
        for unit in side.units
        if not unit.is_laid_out
        for entry in unit.entries
    }


def unneeded_weights(side: Side) -> frozenset[str]:
    """Return the full names of the parameters that nothing needs which the model gave or learned.

    Such as the head of another task. None of them where no program was recorded.
    """
    recorded = program_of(side)
    if recorded is None:
        return frozenset()
    program, borders = recorded.program, recorded.borders
    losses = {one.id for one in side.index.records if one.role is Role.LOSS}
    needed = {*program.outputs, *(borders[one] for one in losses & borders.keys())}
    if not needed:
        return frozenset()
    needed = program.behind(needed)
    parameters = [one for one in program.values if one.kind is LeafKind.PARAMETER]
    known = {one.name for one in parameters if one.id in needed}
    weights = [(weight_name(side, one), one.tensor) for one in side.index.records
               if one.role is Role.WEIGHT and one.phase is not Phase.UPDATE]  # fmt: skip
    tensors = {tensor for name, tensor in weights if name in known and tensor is not None}
    return frozenset(
        name for name, tensor in weights if name not in known and tensor not in tensors
    )


class _Tables:
    """Tells the tables that a model computes from those that only a checkpoint holds."""

    def __init__(self, sides: tuple[Inventory, Inventory]) -> None:
        self._sides = sides

    @cached_property
    def _computed(self) -> frozenset[str]:
        """The names of what the reference's constructor computed."""
        recorded = program_of(self._sides[0].side)
        return frozenset() if recorded is None else recorded.computed_names

    def is_own(self, one: Entry, two: Entry) -> bool:
        """Return whether the candidate's buffer is its own table beside one of the reference."""
        if one.name in self._computed:
            return True
        ends = []
        for side, entry in zip(self._sides, (one, two), strict=True):
            value = side.value(entry)
            if value is None or "complex" in value.dtype or value.dtype not in UNIT_ROUNDOFF:
                return False
            try:
                elements = side.side.array(entry.record).astype(np.float64)
            except DumpError:
                return False
            ends.append((elements, UNIT_ROUNDOFF[value.dtype]))
        (table, own), wanted = ends
        image = next(made_of(wanted, [(0, table, own)]), Image(0))
        return image != Image(0)
