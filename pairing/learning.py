"""What the steps and ranks of a run learn of partners, and where one contradicts another.

An update moves weights so that layers of a kind look alike: after Adam's first step each norm is
ones and zeros plus or minus one rate. What a step says of partners is therefore taken from the
first one, where values prove it, and not asked anew of each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .calls.expressed import content_of
from .calls.proof import own_evidence
from .result import PairedBy

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import RecordInfo

    from .calls.calls import CallPairs
    from .calls.proof import Proofs
    from .result import ModulePair
    from .view import View
    from .weights.weight_plan import WeightPlan

_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_NEAR = 1e-2
"""How far the limits of a loaded weight may be apart, in shares of their width: rounding to
bfloat16 moves them by 4e-3."""
_MAX_SHOWN = 2

Views = tuple["View", "View"]
Content = tuple[int, float, float]
"""Size and limits of weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Partners that hold for all steps and ranks of the same structure."""

    calls: CallPairs
    modules: tuple[ModulePair, ...]
    proofs: Proofs
    hidden: tuple[Mapping[int, str], Mapping[int, str]]
    """Calls of each side that the other does without calling a module."""
    plan: WeightPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAlignment:
    """An alignment with where it was made."""

    place: str
    structure: Hashable
    alignment: Alignment
    overruled: frozenset[tuple[int, int]]
    """Calls that values would pair otherwise, and that other evidence did not there."""


@dataclass(slots=True, kw_only=True)
class RunPartners:
    """What is known of the partners of two runs, from the steps that were paired so far."""

    loaded: Sequence[tuple[str, str]] = ()
    """Names of weights of the reference and of those of the candidate that were made of them."""
    known: list[KnownAlignment] = field(default_factory=list)
    sure: dict[str, str] = field(default_factory=dict)
    """Paths of modules whose partner is in no doubt."""
    first_update: int | None = None
    """The first step that ended with an update."""


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

    The weights must still be the same, but for rounding, and no other module's: of several with
    equal weights, or constant ones, any could be loaded from any.
    """
    owners = [
        {f"{view.modules[r.module].path}{r.slot}".lstrip("."): r.module for r in _held(view)}
        for view in views
    ]
    both = [(owners[0].get(one), owners[1].get(two)) for one, two in names]
    links = {(one, two) for one, two in both if one is not None and two is not None}
    counts = Counter(one for one, _ in links), Counter(two for _, two in links)
    contents = [
        {module: content_of(view, module) for module in side}
        for view, side in zip(views, counts, strict=True)
    ]
    shared = [Counter(side.values()) for side in contents]
    for one, two in sorted(links):
        known, found = contents[0][one], contents[1][two]
        is_own = counts[0][one] == counts[1][two] == shared[0][known] == shared[1][found] == 1
        if is_own and known is not None and found is not None and _are_near(known, found):
            yield views[0].modules[one].path, views[1].modules[two].path


def _are_near(one: Content, two: Content) -> bool:
    """Return whether two contents have the same size, and limits equal up to rounding."""
    limit = _NEAR * (one[2] - one[1])
    return one[0] == two[0] and abs(one[1] - two[1]) <= limit and abs(one[2] - two[2]) <= limit
