"""Where execution found something wrong: origins with a proof, at the operators' modules."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role
from padiff.program import UNIT_ROUNDOFF

from .auditing import Check
from .decided import may_diverge
from .judgedpairs import remarkable, replaced
from .judging.updates import SHARE_OF_EPSILON
from .locating.locate import Located
from .proving import TIED, Answer, Edit, EditKind, LeafDifference, Parting, UnsoundValue
from .result import Divergence, Kind, Verdict
from .steps import inherited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from padiff.dumpfile import Address

    from .proving import Execution, Fault, Place, UpdateComparison
    from .result import JudgedPair
    from .settings import CompareSettings


_TOLD_APART = "executing both programs tells them apart"
"""The reason of an origin that was not measured here."""
_WITHIN = f"within the tolerance, but {_TOLD_APART}"
"""The reason of one that no tolerance sees."""

_ROLES = {
    Phase.FORWARD: (Role.OUTPUT, Role.LOSS, Role.RESULT, Role.INPUT),
    Phase.BACKWARD: (Role.GRAD_INPUT, Role.GRAD_OUTPUT, Role.WEIGHT_GRAD),
    Phase.UPDATE: (Role.WEIGHT, Role.BUFFER, Role.OPTIMIZER_STATE),
}
"""What shows a fault of each phase, the first that there is."""
_LEAVES = {
    "parameter": (Role.WEIGHT,),
    "buffer": (Role.BUFFER,),
    "input": (Role.INPUT,),
    "state": (Role.OPTIMIZER_STATE,),
    "gradient": (Role.WEIGHT_GRAD,),
    TIED: (Role.WEIGHT_GRAD,),
    "tie": (Role.WEIGHT_GRAD,),
    "result": (Role.RESULT,),
}
"""The roles of leaves, by what they are called."""
_LARGE = SHARE_OF_EPSILON * 2 * UNIT_ROUNDOFF["float32"]
"""Of an update: what weights are allowed after it, in float32."""
_GRADIENTS = frozenset({"gradient", "tie", TIED})
"""Those that show in the backward pass."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A fault, and where to show it."""

    fault: Fault
    phase: Phase
    modules: tuple[str | None, str | None] = (None, None)
    """Paths on the reference and on the candidate; None where a side has no part in it."""
    name: str = ""
    """The candidate's name of a weight, buffer or input, if it is of one."""
    roles: tuple[Role, ...] = ()
    """Of the records that show it, the first that there is."""


def locate_by_execution(
    located: Located, executed: Execution, settings: CompareSettings, *, is_port: bool
) -> Located:
    """Make origins of what execution found; what diverged by tolerance follows from it.

    Args:
        located: What diverged by tolerance.
        executed: The three answers.
        settings: What the user asked for.
        is_port: Whether the frameworks differ. Their optimizers and clippings do by design, in
            where an epsilon stands: another update diverges there only if the weights show it, or
            if other settings of the optimizer alone make it the reference's.
    """
    answer = executed.answer_with(strict=settings.strict)
    is_shown = executed.function.is_coincidence and any(
        one.phase is Phase.BACKWARD for one in located.divergences
    )
    if not (answer is Answer.DIFFERENT or is_shown) or settings.is_literal:
        return located
    if not (located.divergences or may_diverge(settings)):
        return located
    update = executed.function.update
    shown = _Shown(located, frozenset() if update is None else update.gradients)
    faults: dict[int, list[_Found]] = defaultdict(list)
    alone: dict[tuple[object, ...], list[_Found]] = defaultdict(list)
    is_other = executed.function.answer is Answer.DIFFERENT
    is_rough = bool(executed.function.tolerated and located.divergences)
    has_updates = update is not None and (shown.shows(update) or _is_set_otherwise(update))
    for found in _all_found(executed, _others(is_hidden=settings.strict or is_shown)):
        place = shown.place_of(found)
        if is_rough and isinstance(found.fault, Edit):
            near = shown.diverging(found)  # else two right forms differ by rounding there
            if isinstance(near, Divergence):
                alone[shown.owner(near.pair, near.phase)].append(found)
                continue
            place = near
        if place is None or (is_other and _is_made_forward(found, located.pairs[place])):
            continue
        if not (is_port and found.phase is Phase.UPDATE) or has_updates:
            faults[place].append(found)
    before = {shown.owner(one.pair, one.phase): one for one in located.divergences}
    origins: list[Divergence] = []
    pairs: dict[int, JudgedPair] = {}
    for place, those in faults.items():
        pair = pairs[place] = _as_origin(located.pairs[place])
        known = before.pop(shown.owner(pair, those[0].phase), None)
        origins.append(_origin(pair, those, known))
    for owner, those in alone.items():
        known = before.pop(owner, None)
        origins += [_origin(known.pair, those, known)] if known is not None else []
    phases = {one.phase for one in origins}
    is_told = bool(origins) and _is_proved(executed)
    has_update = any(one.phase is Phase.UPDATE for those in faults.values() for one in those)
    behind = {
        owner
        for owner, one in before.items()
        if (is_told and _is_behind(one, phases)) or (has_update and shown.is_left(one))
    }
    others = [inherited(one) if owner in behind else one for owner, one in before.items()]
    pairs = {**shown.inherited(behind), **pairs}
    divergences = sorted((*origins, *others), key=_when)
    return Located(divergences=tuple(divergences), pairs=replaced(located.pairs, pairs))


def _others(*, is_hidden: bool) -> frozenset[Answer]:
    """Return the answers that mean that something is wrong.

    Args:
        is_hidden: Whether what the outputs do not show does: gradients may show it, or all counts.
    """
    return frozenset({Answer.DIFFERENT, *([Answer.HIDDEN] if is_hidden else [])})


def _all_found(executed: Execution, others: frozenset[Answer]) -> Iterator[_Found]:
    """Yield what was found, in the order in which a step runs."""
    function = executed.function
    is_other = function.answer is Answer.DIFFERENT
    is_cut = any(one.place is not None for one in function.differences)
    for one in function.differences:
        if not ((is_cut or is_other) and _is_lost_gradient(one)):
            yield _of_leaf(one)
    if function.answer in others:
        edits = function.edits
        ends = function.reference, function.candidate
        for fault in edits:
            yield _at(fault, _places(fault))
        if not edits:
            yield _at(Parting(reference=ends[0], candidate=ends[1]), _outer(ends))
    if function.coarser is not None:
        place = function.coarser.place
        yield _at(function.coarser, (None, place))
    for which, value in enumerate(executed.unsound):
        if value is not None:
            yield _of_audit(UnsoundValue(is_candidate=bool(which), value=value))
    if function.update is not None and function.update.answer in others:
        yield from _of_update(function.update)


def _at(fault: Fault, places: tuple[Place | None, Place | None]) -> _Found:
    """Return a fault of the forward pass or the loss, at its operators."""
    is_loss = all(place is None or not place.class_name for place in places)
    roles = (Role.LOSS, Role.OUTPUT) if is_loss else _ROLES[Phase.FORWARD]
    return _Found(fault, Phase.FORWARD, _paths(places), roles=roles)


def _places(edit: Edit) -> tuple[Place | None, Place | None]:
    """Return where an edit is; what the candidate lacks is where the reference has it."""
    lacking, own = edit.operators
    is_missing = edit.kind is EditKind.MISSING or (lacking and not own)
    is_lone = is_missing and edit.reference is not None
    return edit.reference, None if is_lone else edit.candidate


def _paths(places: tuple[Place | None, Place | None]) -> tuple[str | None, str | None]:
    one, two = (None if place is None else place.module for place in places)
    return one, two


def _outer(places: tuple[Place | None, Place | None]) -> tuple[Place | None, Place | None]:
    """Return where programs part; if one module is inside the other, the outer one alone.

    There the code around a module does something that the other side does not.
    """
    one, two = places
    if one is not None and two is not None and one.module != two.module:
        if _is_inside(two.module, one.module):
            return one, None
        if _is_inside(one.module, two.module):
            return None, two
    return one, two


def _is_inside(path: str, other: str) -> bool:
    return not other or path.startswith(f"{other}.")


def _of_leaf(found: LeafDifference) -> _Found:
    is_gradient = found.kind in _GRADIENTS
    if is_gradient and found.place is not None:
        return _Found(found, Phase.BACKWARD, (found.place.module, found.place.module))
    phase = Phase.BACKWARD if is_gradient else Phase.FORWARD
    name = found.candidate or found.reference
    path = "" if found.kind == "result" else name.rpartition(".")[0]
    return _Found(found, phase, (path, path), name, _LEAVES.get(found.kind, ()))


def _of_audit(found: UnsoundValue) -> _Found:
    value = found.value
    readers = {reader.module for reader in value.readers}
    path = readers.pop() if len(readers) == 1 else value.module
    phase = Phase.BACKWARD if value.check is Check.GRADIENT else Phase.FORWARD
    return _Found(found, phase, (None, path) if found.is_candidate else (path, None))


def _of_update(found: UpdateComparison) -> Iterator[_Found]:
    """Yield the proof of why the first weight is left otherwise, and by how much it is."""
    first = next(iter(found.differences), None)
    if first is None:
        return
    roles = _ROLES[Phase.UPDATE]
    path = first.candidate.rpartition(".")[0]
    ends = found.reference, found.candidate
    begins = () if found.edits else (Parting(reference=ends[0], candidate=ends[1]),)
    for fault in (*found.edits, first, *begins):
        yield _Found(fault, Phase.UPDATE, (path, path), first.candidate, roles)


def _is_set_otherwise(update: UpdateComparison) -> bool:
    """Return whether an update is the reference's but for arguments of its operators."""
    kinds = {one.kind for one in update.edits}
    return update.answer is Answer.DIFFERENT and kinds == {EditKind.ARGUMENT}


class _Shown:
    """The pairs that can show a fault."""

    def __init__(self, located: Located, updated: frozenset[str]) -> None:
        self._pairs, self._divergences = located.pairs, located.divergences
        self._updated = updated
        """Weights whose gradients are what the update left, by the candidate's names."""
        self._of: dict[tuple[int, Phase, Role, str], list[int]] = defaultdict(list)
        """By side, phase, role and module path."""
        self._named: dict[tuple[int, Role, Phase, str], int] = {}
        """By side and full name of a weight, buffer, or other leaf."""
        self._at: dict[tuple[Address | None, Address | None], int] = {}
        self._origins = [one for one in located.divergences if one.kind is Kind.ORIGIN]
        """What is an origin by tolerance."""
        for place, pair in enumerate(located.pairs):
            self._at[_addresses(pair)] = place
            for side, end in enumerate((pair.reference, pair.candidate)):
                if end is None:
                    continue
                address = end.address
                self._of[side, address.phase, address.role, address.module].append(place)
                self._named.setdefault((side, address.role, address.phase, end.address.name), place)

    def phase_of(self, pair: JudgedPair, phase: Phase) -> Phase:
        """Return the phase that made what a pair holds: gradients may be what the update left."""
        end = pair.candidate
        is_gradient = end is not None and end.address.role is Role.WEIGHT_GRAD
        if end is not None and is_gradient and end.address.name in self._updated:
            return Phase.UPDATE
        return phase

    def shows(self, update: UpdateComparison) -> bool:
        """Return whether weights show another update.

        Those that follow from another gradient do if the update alone moves them so far apart.
        """
        is_large = any(one.error > _LARGE for one in update.differences)
        return any(
            self.phase_of(one.pair, one.phase) is Phase.UPDATE
            for one in self._divergences
            if one.kind is Kind.ORIGIN or is_large
        )

    def is_left(self, found: Divergence) -> bool:
        """Return whether a divergence is of a gradient that is what the update left."""
        return self.phase_of(found.pair, found.phase) is not found.phase

    def owner(self, pair: JudgedPair, phase: Phase) -> tuple[object, ...]:
        """Return the call, or the record of a module, that a pair belongs to."""
        end = pair.end
        record = (end.address.role, end.address.slot) if end.call is None else ()
        made = self.phase_of(pair, phase)
        return pair.reference is None, made, end.module, end.call, *record

    def inherited(self, owners: set[tuple[object, ...]]) -> dict[int, JudgedPair]:
        """Return the pairs of calls that were origins, as what follows from others."""
        return {
            place: replace(pair, kind=Kind.INHERITED)
            for place, pair in remarkable(self._pairs)
            if pair.kind is Kind.ORIGIN and self.owner(pair, pair.end.address.phase) in owners
        }

    def place_of(self, found: _Found) -> int | None:
        """Return the pair at a leaf, or at the innermost module around an operator.

        Where the numbers begin to differ tells more if that is among what was exchanged: there
        in the update, or in one of the modules of the operators.
        """
        begins = self._begin_of(found)
        if begins is not None:
            return begins
        for role in found.roles if found.name else ():
            for side in (1, 0):
                place = self._named.get((side, role, found.phase, found.name))
                if place is not None:
                    return place
        near = next((places for side in (1, 0) for _, places in self._near(found, side)), None)
        if near is not None:
            return next((place for place in near if self._pairs[place].fatal), near[0])
        return 0 if self._at else None  # nothing is near; it must not be lost

    def diverging(self, found: _Found) -> int | Divergence | None:
        """Return where the numbers begin to differ in the innermost module that has pairs.

        That is an origin by tolerance, itself if it is of no single pair, or a pair that diverged.
        """
        begins = self._begin_of(found)
        if begins is not None:
            return begins
        origins = {
            (side, one.phase, end.address.module): self._at.get(_addresses(one.pair), one)
            for one in reversed(self._origins)
            for side, end in enumerate((one.pair.reference, one.pair.candidate))
            if end is not None
        }
        for side in (1, 0):
            for module, places in self._near(found, side):
                if (side, found.phase, module) in origins:
                    return origins[side, found.phase, module]
                paired = [place for place in places if len(self._pairs[place].ends) > 1]
                fatal = [place for place in paired if self._pairs[place].fatal]
                if fatal:
                    return fatal[0]
                if paired:
                    break
        return None

    def _near(self, found: _Found, side: int) -> Iterator[tuple[str, list[int]]]:
        """Yield each module around an operator and its pairs, the innermost first."""
        path = found.modules[side]
        for module in () if path is None else _around(path):
            for role in found.roles or _ROLES[found.phase]:
                if places := self._of.get((side, found.phase, role, module)):
                    yield module, places

    def _begin_of(self, found: _Found) -> int | None:
        """Return the first origin by tolerance that is part of what was found."""
        modules = _modules_of(found.fault)
        for one in self._origins:
            if found.phase in {one.phase, self.phase_of(one.pair, one.phase)} and (
                _is_anywhere(found)
                or any(
                    end.address.module in modules[end is one.pair.candidate]
                    for end in one.pair.ends
                )
            ):
                return self._at.get(_addresses(one.pair))
        return None


def _addresses(pair: JudgedPair) -> tuple[Address | None, Address | None]:
    known, found = pair.reference, pair.candidate
    return None if known is None else known.address, None if found is None else found.address


def _is_anywhere(found: _Found) -> bool:
    """Return whether a fault is of a phase rather than of an operator.

    So are those of all weights; and where nothing is proved, the numbers tell more.
    """
    if isinstance(found.fault, LeafDifference):
        return _is_lost_gradient(found.fault)
    return found.phase is Phase.UPDATE or isinstance(found.fault, Parting)


def _is_lost_gradient(found: LeafDifference) -> bool:
    return found.kind in _GRADIENTS and found.place is None


def _is_made_forward(found: _Found, pair: JudgedPair) -> bool:
    """Return whether a step left something that its forward pass made, as running statistics."""
    return found.phase is Phase.UPDATE and pair.end.address.role is Role.BUFFER


def _modules_of(fault: Fault) -> tuple[set[str], set[str]]:
    """Return the modules of the operators that are exchanged, if they are several."""
    if not isinstance(fault, Edit):
        return set(), set()
    known, found = ({one.module for one in those} for those in fault.operators)
    return (known, found) if len(known | found) > 1 else (set(), set())


def _around(path: str) -> Iterator[str]:
    """Yield the path of a module, and those of the modules around it."""
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield path


def _as_origin(pair: JudgedPair) -> JudgedPair:
    told = replace(pair, verdict=Verdict.DIVERGED, kind=Kind.ORIGIN, fatal=True, covered=False)
    if pair.verdict is Verdict.DIVERGED:
        return told
    reason = _WITHIN if pair.verdict is Verdict.MATCH else _TOLD_APART
    return replace(told, by_execution=True, reason=reason)


def _origin(pair: JudgedPair, found: Iterable[_Found], known: Divergence | None) -> Divergence:
    """Return a divergence; what is known of the same call stays."""
    those = tuple(found)
    faults = tuple(one.fault for one in those)
    if known is None:
        phase = those[0].phase
        return Divergence(
            pair=pair, phase=phase, kind=Kind.ORIGIN, inputs_agree=None, faults=faults
        )
    return replace(
        known,
        pair=replace(known.pair, verdict=Verdict.DIVERGED, kind=Kind.ORIGIN, fatal=True),
        kind=Kind.ORIGIN,
        faults=faults,
    )


def _is_proved(executed: Execution) -> bool:
    """Return whether all that differs is told: no program parts from the other without a proof."""
    function, update = executed.function, executed.function.update
    is_told = bool(function.edits) or function.answer is not Answer.DIFFERENT
    if update is None or update.answer is not Answer.DIFFERENT:
        return is_told
    return is_told and bool(update.edits)


def _is_behind(found: Divergence, phases: set[Phase]) -> bool:
    """Return whether what was found explains a divergence; an update explains no other weight."""
    order = list(Phase)
    before = phases - {Phase.UPDATE}
    return any(order.index(one) <= order.index(found.phase) for one in before)


def _when(found: Divergence) -> tuple[int, bool, int]:
    return list(Phase).index(found.phase), found.kind is Kind.INHERITED, found.pair.end.order
