"""Pair two sides of a comparison: at once where they are equal, else stage by stage.

Of an archived dump and a new one, with the same modules, calls and records, each record has its own
partner, and the stages that look for partners would find just these. What the elements say is not
looked at, but for the order in which they stand.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from padiff.dumpfile import DumpError, Index, Phase, RecordInfo, Role
from padiff.dumpfile.bulk import build_all, collector_paused
from padiff.pairing.maps.mapfile import MapFile
from padiff.pairing.tensors.reordered import Reorders, is_promised
from padiff.pairing.tensors.slots import plain_slot, split_slot
from padiff.pairing.weights.equal import is_equal_plan
from padiff.pairing.weights.weight_rules import registered_classes

from .result import CallPair, ModulePair, PairedBy, Pairing, RecordPair
from .run import RunPartners

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from .side import Side

    Place = tuple[int, int]

__all__ = ["learn_partners", "pair", "pair_equal"]

Pair = TypeVar("Pair", ModulePair, CallPair)
_STEP_ROLES = frozenset({Role.LOSS, Role.LR, Role.NAMED, Role.RESULT})
_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})


def pair_equal(reference: Side, candidate: Side) -> Pairing | None:
    """Pair each module, call and record with the one of the same address.

    Returns:
        What ``pair`` gives without a map file. None where anything differs but elements, values
        of settings and execution order, or where names alone do not tell one from the other.
    """
    sides = reference.index, candidate.index
    if not (_are_same_modules(*sides) and _are_same_calls(*sides) and _are_same_records(*sides)):
        return None
    records = sides[0].records
    modules = _partners(ModulePair, len(sides[0].modules))
    if not is_equal_plan(*sides, modules) or not _are_told_apart(records):
        return None
    orders = [record.order for record in records]
    order = sorted(range(len(records)), key=orders.__getitem__)  # and by id, as it is stable
    pairs = build_all(
        RecordPair,
        len(order),
        same={"paired_by": PairedBy.NAME},
        reference=[(one,) for one in order],
        candidate=order,
    )
    return Pairing(
        modules=tuple(modules),
        calls=tuple(_partners(CallPair, len(sides[0].calls))),
        records=tuple(_laid_out((reference, candidate), pairs)),
        unmatched=(),
        same_structure=True,
    )


def _partners(kind: type[Pair], count: int) -> list[Pair]:
    numbers = range(count)
    return build_all(
        kind, count, same={"paired_by": PairedBy.NAME}, reference=numbers, candidate=numbers
    )


def _are_same_modules(one: Index, two: Index) -> bool:
    """Tell whether the trees are the same; the plan of weights tells of classes."""
    if one.modules is two.modules:
        return True
    if [module.path for module in one.modules] != [module.path for module in two.modules]:
        return False
    both = zip(one.modules, two.modules, strict=True)
    return all(  # a layer with ``act`` of its own ends where the other's goes on
        known.attributes == found.attributes
        or known.attributes.get("act") == found.attributes.get("act")
        for known, found in both
    )


def _are_same_calls(one: Index, two: Index) -> bool:
    if one.calls is two.calls:
        return True
    known, found = (
        [(call.module, call.parent, call.index) for call in side.calls] for side in (one, two)
    )
    return known == found


def _are_same_records(one: Index, two: Index) -> bool:
    """Tell whether both have tensors of the same shapes at the same addresses."""
    if one.records is two.records:
        return True
    for name in ("module", "call", "phase", "role", "slot", "shape"):
        known, found = (list(map(attrgetter(name), side.records)) for side in (one, two))
        if known != found:
            return False
    absent = ([record.value is None for record in side.records] for side in (one, two))
    return next(absent) == next(absent)


def _are_told_apart(records: Sequence[RecordInfo]) -> bool:
    """Tell whether each record's role, place and name are its own.

    Containers of another kind have other slots at the same place, and what an optimizer keeps goes
    by the weight and its own name. What belongs to no weight that is recorded stays alone.
    """
    plain = {slot: plain_slot(slot) for slot in {record.slot for record in records}}
    places = [(r.call, r.role, plain[r.slot]) for r in records if r.call is not None]
    others = [record for record in records if record.call is None]
    step = [(record.role, record.slot) for record in others if record.role in _STEP_ROLES]
    owners = {
        (r.module, r.slot) for r in others if r.role in _OWNED and r.phase is not Phase.UPDATE
    }
    following = list(_following(others))
    return all(_are_distinct(names) for names in (places, step, following)) and owners.issuperset(
        (module, slot) for module, slot, *_ in following
    )


def _following(records: Iterable[RecordInfo]) -> Iterator[tuple[int, str, Role, Phase, str]]:
    """Give the weight that each gradient, update and state of an optimizer belongs to."""
    parts: dict[str, tuple[str, str]] = {}
    for record in records:
        slot, name = record.slot, ""
        if record.role is Role.OPTIMIZER_STATE:
            if slot not in parts:
                parts[slot] = split_slot(slot)
            slot, name = parts[slot]
        is_loaded = record.role in _OWNED and record.phase is not Phase.UPDATE
        if not is_loaded and record.role not in _STEP_ROLES:
            yield record.module, slot, record.role, record.phase, name


def _are_distinct(names: Sequence[Hashable]) -> bool:
    return len(set(names)) == len(names)


def _laid_out(sides: tuple[Side, Side], pairs: Sequence[RecordPair]) -> list[RecordPair]:
    """Give the pairs with the orders of their elements."""
    tables = sides[0].index.records, sides[1].index.records
    ends = [(tables[0][pair.candidate], tables[1][pair.candidate]) for pair in pairs]
    reorders = Reorders(sides)
    is_open = [one.call is not None and not is_promised(sides, one, two) for one, two in ends]
    reorders.look(compress(ends, is_open))
    if not reorders:
        return list(pairs)
    return [
        reorders.settle(pair, *both) if may_be else pair
        for pair, both, may_be in zip(pairs, ends, is_open, strict=True)
    ]


def pair(
    reference: Side,
    candidate: Side,
    *,
    map_file: MapFile | None = None,
    explains_unmatched: bool = True,
    run: RunPartners | None = None,
) -> Pairing:
    """Find what of the candidate should equal what of the reference.

    Args:
        reference: One step and rank of the dump held to be right.
        candidate: The same step and rank of the dump to judge.
        map_file: What the user decided; it goes before everything else.
        explains_unmatched: Whether records without a pair are listed, each with the reason. It is
            looked for in their elements, which takes long where two runs have little in common.
        run: What other steps and ranks of the same two runs say of partners; learns from these.

    Returns:
        Every record of both sides, paired or with the reason why not. Deterministic; the
        pairs of a dump with itself are the identity; exchanging the sides exchanges the result.

    Raises:
        ConfigError: An entry of the map file matches nothing.
    """
    with collector_paused():
        chosen = map_file or MapFile()
        is_free = chosen == MapFile() and not registered_classes()
        equal = pair_equal(reference, candidate) if is_free else None
        if equal is not None:
            return equal
        from .stages import pair_by_stages  # noqa: PLC0415 -- four fifths of this package

        return pair_by_stages(
            reference, candidate, chosen, run, explains_unmatched=explains_unmatched
        )


def learn_partners(
    opened: Callable[[Place], AbstractContextManager[tuple[Side, Side]]],
    both: Collection[Place],
    places: Collection[Place],
    *,
    loaded: Sequence[tuple[str, str]] = (),
    map_file: MapFile | None = None,
) -> RunPartners:
    """Learn partners from the first step of each rank, unless that is paired anyway.

    Args:
        opened: Opens a step and rank of both dumps.
        both: The steps and ranks that both dumps have.
        places: The steps and ranks that will be paired with what this returns, the first first.
        loaded: Names of weights of the reference, and of those of the candidate made of them.
        map_file: What the user decided.

    Returns:
        The partners; what cannot be read teaches nothing.
    """
    run = RunPartners(loaded=loaded)
    firsts = {rank: min(step for step, other in both if other == rank) for _, rank in places}
    for place in sorted((step, rank) for rank, step in firsts.items()):
        if place in places:
            continue
        with suppress(DumpError), opened(place) as (one, two):
            pair(one, two, map_file=map_file, run=run, explains_unmatched=False)
    return run
