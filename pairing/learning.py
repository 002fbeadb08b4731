"""What the steps of a run learn of partners from each other, and where one contradicts them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .calls.likeweights import content_of
from .calls.proof import own_evidence
from .result import PairedBy
from .run import Alignment, KnownAlignment, RunPartners

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from padiff.dumpfile import RecordInfo

    from .calls.calls import CallPairs
    from .view import View

__all__ = ["doubts_of", "known_alignment", "prepare", "remember"]

_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_NEAR = 1e-2
"""How far the limits of a loaded weight may be apart, in shares of their width: rounding to
bfloat16 moves them by 4e-3."""
_MAX_SHOWN = 2

Views = tuple["View", "View"]


def known_alignment(run: RunPartners, views: Views) -> KnownAlignment | None:
    """Return the alignment of an earlier step or rank of the same structure."""
    if not run.known:
        return None
    structure = _structure(views)
    return next((known for known in run.known if known.structure == structure), None)


def prepare(run: RunPartners, views: Views) -> None:
    """Enter into two sides what earlier steps and the loading of weights say of their weights.

    What updates have moved says nothing by itself.
    """
    partners = run.sure or dict(_loaded(views, run.loaded))
    if run.first_update is not None and views[0].index.step > run.first_update:
        for view in views:
            view.contents.update(dict.fromkeys(range(len(view.modules))))
    ids = [{module.path: module.id for module in view.modules} for view in views]
    for reference, candidate in partners.items():
        if reference in ids[0] and candidate in ids[1]:
            key = "partners", reference
            views[0].contents[ids[0][reference]] = views[1].contents[ids[1][candidate]] = key


def remember(run: RunPartners, views: Views, alignment: Alignment) -> None:
    """Remember how a step was aligned."""
    index = views[0].index
    if run.first_update is None and any(_has_update(view) for view in views):
        run.first_update = index.step
    for pair in alignment.modules:
        if pair.confidence >= 1.0:
            one, two = views[0].modules[pair.reference], views[1].modules[pair.candidate]
            run.sure.setdefault(one.path, two.path)
    run.known.append(
        KnownAlignment(
            place=f"step {index.step}" + (f" rank {index.rank}" if index.rank else ""),
            structure=_structure(views),
            alignment=alignment,
            overruled=frozenset(_otherwise(views, alignment.calls)),
        )
    )


def doubts_of(known: KnownAlignment, views: Views) -> tuple[str, ...]:
    """Name the layers that a step would pair otherwise by its own values, in one note."""
    found = sorted(_otherwise(views, known.alignment.calls) - known.overruled)
    if not found:
        return ()
    shown = [
        f"{views[0].path(one)!r} with {views[1].path(two)!r}" for one, two in found[:_MAX_SHOWN]
    ]
    more = f" and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    note = (
        f"the values of this step alone would pair otherwise: {', '.join(shown)}{more}; "
        f"the partners of {known.place} were kept"
    )
    return (note,)


def _structure(views: Views) -> Hashable:
    """Return what has to be equal in two steps for the partners of one to hold in the other."""
    return tuple(
        (
            tuple(module.path for module in view.modules),
            tuple(module.parent for module in view.modules),
            view.kinds,
            tuple([(call.module, call.parent, call.index) for call in view.calls]),
            view.hidden,
            tuple(
                [(record.id, record.module, record.slot, record.shape) for record in _held(view)]
            ),
        )
        for view in views
    )


def _held(view: View) -> Iterator[RecordInfo]:
    """Yield the weights and buffers as they were before the step."""
    for record in view.of_modules:
        if record.role in _OWNED and record.phase is Phase.FORWARD:
            yield record


def _has_update(view: View) -> bool:
    return any(
        record.phase is Phase.UPDATE and record.role is Role.WEIGHT for record in view.of_modules
    )


def _otherwise(views: Views, calls: CallPairs) -> set[tuple[int, int]]:
    """Return the calls of layers that the step's own values would pair, and that are not paired."""
    evidence = own_evidence(views, calls)
    told = [
        (evidence.layers[0][one], evidence.layers[1][two]) for one, two in evidence.told.items()
    ]
    return {
        (one, two)
        for one, two in told
        if not calls.has(one, two)
        and (one in calls.ahead or two in calls.back)
        and PairedBy.MAP not in (calls.by.get(one), calls.by.get(calls.back.get(two, -1)))
    }


def _loaded(views: Views, names: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the paths of modules all of whose loaded weights went from one to the other.

    The weights must still be the same, but for rounding; constants are alike in too many modules.
    """
    owners = [
        {f"{view.modules[r.module].path}{r.slot}".lstrip("."): r.module for r in _held(view)}
        for view in views
    ]
    links = {
        (owners[0][one], owners[1][two])
        for one, two in names
        if one in owners[0] and two in owners[1]
    }
    counts = Counter(one for one, _ in links), Counter(two for _, two in links)
    for one, two in sorted(links):
        if counts[0][one] == counts[1][two] == 1 and _may_be_equal(views, one, two):
            yield views[0].modules[one].path, views[1].modules[two].path


def _may_be_equal(views: Views, one: int, two: int) -> bool:
    held, loaded = content_of(views[0], one), content_of(views[1], two)
    if held is None or loaded is None:
        return False
    (size, low, high), (other_size, other_low, other_high) = held, loaded
    limit = _NEAR * (high - low)
    return size == other_size and abs(low - other_low) <= limit and abs(high - other_high) <= limit
