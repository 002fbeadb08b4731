"""The stages in which two sides are paired: modules, calls, records and weights."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpError
from padiff.dumpfile.bulk import collector_paused
from padiff.pairing.calls.calls import CallPairs, pair_around, pair_calls
from padiff.pairing.calls.confidence import rate, rate_calls
from padiff.pairing.calls.modules import pair_modules
from padiff.pairing.calls.onesided import hidden_by_weights, pair_wholes, stack_notes, weight_makers
from padiff.pairing.calls.proof import Proofs
from padiff.pairing.maps.mapfile import MapFile
from padiff.pairing.maps.mapped import (
    Mapped,
    apply_map,
    hidden_calls,
    ignored_records,
    mapped_layouts,
    unused_entries,
    without_ignored,
)
from padiff.pairing.tensors.batches import with_batches
from padiff.pairing.tensors.fusedoutputs import pair_joined, pair_packed
from padiff.pairing.tensors.layout import with_layouts
from padiff.pairing.tensors.records import (
    Partners,
    pair_call_records,
    pair_container_outputs,
    pair_root_records,
    unmatched_records,
)
from padiff.pairing.tensors.slots import order_notes
from padiff.pairing.weights.folded import absorbed, find_folds, without_folded
from padiff.pairing.weights.owned import pair_owned, with_copies
from padiff.pairing.weights.plan import plan_weights

from .learning import (
    Alignment,
    RunPartners,
    doubts_of,
    known_alignment,
    prepare,
    remember,
)
from .result import Matching, ModulePair, PairedBy, Pairing, RecordPair, SideName, UnmatchedRecord
from .view import View, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager

    from .side import Side

    Place = tuple[int, int]


def is_same_by_name(reference: View, candidate: View) -> bool:
    """Return whether both sides have the same structure and every module the same path."""
    paths = [[module.path for module in view.modules] for view in (reference, candidate)]
    return paths[0] == paths[1] and is_same_structure(reference, candidate)


def identity(view: View) -> tuple[CallPairs, Matching]:
    """Pair every call and every module with the one of the same id.

    Where names, kinds and the order of all calls agree there is nothing to align: an archived dump
    against a new one, or a port that kept its names.
    """
    calls, modules = CallPairs(), Matching()
    for call in view.calls:
        calls.add(call.id, call.id, PairedBy.NAME)
        if view.inner[call.id]:
            calls.share[call.id] = 1.0
    for module in view.modules:
        modules.add(module.id, module.id, PairedBy.NAME)
    return calls, modules


def certain(modules: Matching) -> tuple[ModulePair, ...]:
    """Rate the pairs of ``identity``: of equal paths nothing is in doubt, nor of what is inside.

    What ``calls/confidence.py`` gives for them, without looking for what else there might be.
    """
    return tuple(
        ModulePair(reference=one, candidate=two, paired_by=modules.by[one]) for one, two in modules
    )


def is_same_structure(reference: View, candidate: View) -> bool:
    """Return whether both sides have the same modules and calls up to names and equal kinds.

    The module trees must agree node by node in definition order, the calls one by one in
    execution order, each inside the same one and of the module at the same place.
    """
    if len(reference.modules) != len(candidate.modules):
        return False
    if len(reference.calls) != len(candidate.calls):
        return False
    modules = zip(reference.modules, candidate.modules, strict=True)
    if any(one.parent != two.parent for one, two in modules):
        return False
    if reference.kinds != candidate.kinds:
        return False
    calls = zip(reference.calls, candidate.calls, strict=True)
    return all(
        (one.module, one.parent, one.index) == (two.module, two.parent, two.index)
        for one, two in calls
    )


@collector_paused()
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
    map_file = map_file or MapFile()
    indices = reference.index, candidate.index
    mapped = apply_map(map_file, indices[0].modules, indices[1].modules)
    made = weight_makers(indices)
    views = (
        view_of(reference, SideName.REFERENCE, hidden_calls(indices[0], mapped, 0) | made[0]),
        view_of(candidate, SideName.CANDIDATE, hidden_calls(indices[1], mapped, 1) | made[1]),
    )
    run = RunPartners() if run is None else run
    known = known_alignment(run, views)
    if known is not None:
        aligned, doubts = known.alignment, doubts_of(known, views)
    else:
        prepare(run, views)
        aligned, doubts = _align(views, mapped.pairs, map_file), ()
        remember(run, views, aligned)
    return _with_records(views, mapped, aligned, doubts, explains_unmatched=explains_unmatched)


def _with_records(
    views: tuple[View, View],
    mapped: Mapped,
    aligned: Alignment,
    doubts: Sequence[str],
    *,
    explains_unmatched: bool,
) -> Pairing:
    """Pair the records of partners, and say of the others why they have none."""
    calls, partners, hidden = aligned.calls, aligned.modules, aligned.hidden
    owned = pair_owned(*views, aligned.plan)
    owned = with_copies(views, calls, owned)
    folds = find_folds(views, calls, owned)
    ends = absorbed(views, calls, folds, owned.pairs)
    owned = without_folded(views, owned, folds)
    found = pair_call_records(views[0], views[1], calls, ends)
    found = with_batches(views[0], views[1], partners, calls, found)
    found = with_layouts(views[0], views[1], mapped_layouts(views[0], found, mapped))
    found += pair_joined(*views, calls, owned.pairs)
    found += pair_packed(*views, calls, owned.pairs)
    found += pair_container_outputs(views, calls, partners, ends, found)
    records = [*found, *pair_root_records(*views), *owned.pairs]
    ignored = ignored_records(views, mapped)
    records, dropped = without_ignored(views, records, ignored)
    unused = unused_entries(views, mapped, records, ignored)
    stacks = (*stack_notes(*views, owned.pairs), *order_notes(*views, calls))
    records.sort(key=lambda pair: _order(views[0], pair))
    unmatched: tuple[UnmatchedRecord, ...] = ()
    if explains_unmatched:
        unmatched = _unmatched(
            views,
            records,
            (
                Partners(calls.ahead, hidden[0], ends[0]),
                Partners(calls.back, hidden[1], ends[1]),
            ),
            (*owned.alone, *dropped, *ignored.alone),
        )
    return Pairing(
        modules=partners,
        calls=tuple(rate_calls(*views, calls, partners, aligned.proofs)),
        records=tuple(records),
        unmatched=unmatched,
        same_structure=is_same_structure(*views),
        notes=tuple(dict.fromkeys((*mapped.notes, *unused, *owned.notes, *stacks, *doubts))),
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


def _align(
    views: tuple[View, View], fixed: Sequence[tuple[int, int]], map_file: MapFile
) -> Alignment:
    """Find the partners of calls, modules and weights."""
    calls, partners, proofs = _aligned(views, fixed)
    plan = plan_weights(views[0].side, views[1].side, modules=partners, map_file=map_file)
    weights = pair_owned(*views, plan).pairs
    is_wider = pair_wholes(views, calls, weights)
    hidden = (
        hidden_by_weights(views[0], views[1], calls.ahead, weights),
        hidden_by_weights(views[1], views[0], calls.back, weights),
    )
    if any(hidden):
        pair_around(*views, calls, hidden)
    if any(hidden) or is_wider:
        partners, proofs = rate(*views, _modules_of(views, calls, fixed), calls)
    return Alignment(calls=calls, modules=partners, proofs=proofs, hidden=hidden, plan=plan)


def _aligned(
    views: tuple[View, View], fixed: Sequence[tuple[int, int]]
) -> tuple[CallPairs, tuple[ModulePair, ...], Proofs]:
    """Pair calls and modules, and say how sure that is."""
    is_free = not (fixed or views[0].hidden or views[1].hidden)
    if is_free and is_same_by_name(*views):
        calls, modules = identity(views[0])
        return calls, certain(modules), Proofs()
    calls = _calls_of(views, fixed)
    return calls, *rate(*views, _modules_of(views, calls, fixed), calls)


def _calls_of(views: tuple[View, View], fixed: Sequence[tuple[int, int]]) -> CallPairs:
    """Pair calls with the sides in an order that does not depend on their roles."""
    if _is_in_order(views):
        return pair_calls(*views, fixed)
    turned = [(two, one) for one, two in fixed]
    return pair_calls(views[1], views[0], turned).reversed()


def _modules_of(
    views: tuple[View, View], calls: CallPairs, fixed: Sequence[tuple[int, int]]
) -> Matching:
    if _is_in_order(views):
        return pair_modules(*views, calls, fixed)
    turned = [(two, one) for one, two in fixed]
    return pair_modules(views[1], views[0], calls.reversed(), turned).reversed()


def _is_in_order(views: tuple[View, View]) -> bool:
    return _orientation(views[0]) <= _orientation(views[1])


def _orientation(view: View) -> tuple[int, int, str, tuple[str, ...], tuple[str, ...]]:
    return (
        len(view.calls),
        len(view.modules),
        view.side.framework,
        tuple(module.path for module in view.modules),
        tuple(value.digest for value in view.values),
    )


def _order(view: View, found: RecordPair) -> tuple[int, int, int]:
    first = view.records[found.reference[0]]
    return first.order, first.id, found.candidate


def _unmatched(
    views: tuple[View, View],
    records: Sequence[RecordPair],
    partners: tuple[Partners, Partners],
    alone: Sequence[UnmatchedRecord],
) -> tuple[UnmatchedRecord, ...]:
    reference, candidate = views
    paired = {record for found in records for record in found.reference}
    judged = {found.candidate for found in records}
    known: dict[SideName, dict[int, UnmatchedRecord]] = {name: {} for name in SideName}
    for one in alone:
        known[one.side][one.record] = one
    return (
        *unmatched_records(reference, candidate, paired, partners[0], known[reference.name]),
        *unmatched_records(candidate, reference, judged, partners[1], known[candidate.name]),
    )
