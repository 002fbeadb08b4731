"""Pair the records of paired calls and modules, and say of all others why they stayed alone."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import CALL_ROLES, RecordInfo, Role, is_floating
from padiff.dumpfile.bulk import build_all
from padiff.pairing.calls.activations import has_activations, output_call, values_before
from padiff.pairing.calls.expressed import moved_from
from padiff.pairing.calls.onesided import hidden_reason
from padiff.pairing.names import words_of
from padiff.pairing.result import Absence, PairedBy, RecordPair, SideName, UnmatchedRecord
from padiff.pairing.weights.folded import Absorbed

from .sketch import alikeness
from .slots import arguments_of, by_argument, pair_slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.calls.calls import CallPairs
    from padiff.pairing.result import ModulePair
    from padiff.pairing.view import View

_OUTPUTS = frozenset({Role.OUTPUT, Role.GRAD_OUTPUT})
_CALL_ROLES = tuple(sorted(CALL_ROLES))
_TENSOR_OF = {Role.GRAD_INPUT: Role.INPUT, Role.GRAD_OUTPUT: Role.OUTPUT}
_Makers = dict[int | None, list[int]]
_SAME = 0.9
"""Values whose statistics are this near count as the same, where structure leaves it open."""


@dataclass(frozen=True, slots=True)
class Partners:
    """What is known of the calls of one side."""

    of: Mapping[int, int]
    """Partner of each paired call."""
    hidden: Mapping[int, str]
    """Why the other side does not make a call, for calls that its weights explain."""
    absorbed: Absorbed
    """Calls whose partner goes on to do what another does here."""


def pair_call_records(
    reference: View,
    candidate: View,
    calls: CallPairs,
    ends: tuple[Absorbed, Absorbed] = (Absorbed(), Absorbed()),
) -> list[RecordPair]:
    """Pair inputs, outputs and their gradients of all paired calls.

    The records of two containers are paired if both do the same with the same content; where one
    holds more than the other (a projection, a residual addition), a record is paired only if its
    statistics say that it is the same value. What stays out is judged at the calls inside.
    """
    found: list[tuple[int, int]] = []
    by: list[PairedBy] = []
    open_ones: list[tuple[int, int, int]] = []
    handed = _Handed(reference, candidate, calls)
    slots = _Slots((reference, candidate), calls, ends)
    for one, two in calls:
        pairs = slots.of(one, two)
        if _is_same_job(reference, one, candidate, two, calls, handed):
            found += pairs
            by += repeat(calls.by[one], len(pairs))
        else:
            open_ones += [(one, first, second) for first, second in pairs]
    near = _same_values(reference, candidate, open_ones)
    # A value that is judged anyway needs no second pair, which a fault could take away again.
    judged = (
        {reference.records[first].value for first, _ in found},
        {candidate.records[second].value for _, second in found},
    )
    for first, second in near:
        values = reference.records[first].value, candidate.records[second].value
        if values[0] not in judged[0] or values[1] not in judged[1]:
            found.append((first, second))
            by.append(PairedBy.VALUE)
    return build_all(
        RecordPair,
        len(found),
        reference=[(first,) for first, _ in found],
        candidate=[second for _, second in found],
        paired_by=by,
    )


def pair_container_outputs(
    views: tuple[View, View],
    calls: CallPairs,
    modules: Iterable[ModulePair],
    ends: tuple[Absorbed, Absorbed],
    found: Sequence[RecordPair],
) -> list[RecordPair]:
    """Pair what is left of the outputs of containers that hold other things, without their values.

    Equal slots, shapes and names of two partners suffice: a fault inside would unpair them if
    their values had to be equal, and then be blamed on what comes behind.

    Args:
        views: Both sides.
        calls: The paired calls.
        modules: The paired modules: where both run equally often, their calls go by number.
        ends: Calls of each side whose outputs are not their partners'.
        found: What is paired already: those records are left alone, and a value that is judged
            anyway on both sides needs no further pair.
    """
    slots = _Slots(views, calls, ends)
    taken = {one for pair in found for one in pair.reference}, {pair.candidate for pair in found}
    judged = [
        {view.records[one].value for one in side} for view, side in zip(views, taken, strict=True)
    ]
    made = []
    for one, two in _container_calls(views, calls, modules):
        if _own_words(views[0], one) != _own_words(views[1], two):
            continue
        for first, second in slots.of(one, two):
            known, other = views[0].records[first], views[1].records[second]
            is_free = first not in taken[0] and second not in taken[1]
            is_judged = known.value in judged[0] and other.value in judged[1]
            is_alike = (known.slot, known.shape) == (other.slot, other.shape)
            if known.role is Role.OUTPUT and is_free and is_alike and not is_judged:
                made.append(
                    RecordPair(reference=(first,), candidate=second, paired_by=PairedBy.NAME)
                )
    return made


def _container_calls(
    views: tuple[View, View], calls: CallPairs, modules: Iterable[ModulePair]
) -> Iterator[tuple[int, int]]:
    """Yield the calls of containers that are paired, or that their modules make partners."""
    yield from ((one, calls.ahead[one]) for one in calls.share)
    for pair in modules:
        mine, theirs = views[0].executed[pair.reference], views[1].executed[pair.candidate]
        is_free = not (calls.ahead.keys() & mine or calls.back.keys() & theirs)
        if is_free and len(mine) == len(theirs):
            yield from zip(mine, theirs, strict=True)


def _own_words(view: View, call: int) -> tuple[frozenset[str], str]:
    """Return the words, and the number if any, of the last component of a call's path."""
    name = (view.path(call) or "").rpartition(".")[2]
    return words_of(name), name if name.isdigit() else ""


class _Slots:
    """Finds the records of two paired calls that stand at the same place."""

    def __init__(
        self, views: tuple[View, View], calls: CallPairs, ends: tuple[Absorbed, Absorbed]
    ) -> None:
        self._views = views
        self._partners = calls.ahead, calls.back
        self._ends = ends[0].ends, ends[1].ends
        self._activate = has_activations(views[0]), has_activations(views[1])
        self._tables = [
            (role in _OUTPUTS, views[0].of_role[role], views[1].of_role[role])
            for role in _CALL_ROLES
            if role in views[0].of_role and role in views[1].of_role
        ]
        """Of each role that both sides have: whether it is of outputs, and the records by call."""

    def of(self, one: int, two: int) -> list[tuple[int, int]]:
        """Return the ids of the records of two paired calls that are partners."""
        outputs = self._output(0, one, two), self._output(1, two, one)
        found: list[tuple[int, int]] = []
        arguments = arguments_of(self._views[0], one, self._views[1], two)
        for is_output, known, others in self._tables:
            first, second = outputs if is_output else (one, two)
            if first is None or second is None or not (known[first] and others[second]):
                continue
            if arguments is not None and not is_output:
                found += by_argument(arguments, known[first], others[second])
            else:
                found += pair_slots(self._views[0], known[first], self._views[1], others[second])
        return found

    def _output(self, side: int, call: int, partner: int) -> int | None:
        """Return the call whose output does the job of the partner's output."""
        if call in self._ends[side]:
            return self._ends[side][call]
        if not self._activate[1 - side]:
            return call
        view, other = self._views[side], self._views[1 - side]
        return output_call(view, call, other, partner, self._partners[side])


def _same_values(
    reference: View, candidate: View, pairs: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int]]:
    """Keep the pairs of the same value, and of the gradients of such, which may have diverged."""
    kept: list[tuple[int, int]] = []
    same: set[tuple[int, Role, str, str]] = set()
    for is_gradient in (False, True):
        for call, first, second in pairs:
            one, two = reference.records[first], candidate.records[second]
            if (one.role in _TENSOR_OF) != is_gradient:
                continue
            place = call, _TENSOR_OF.get(one.role, one.role), one.slot, two.slot
            if place in same or _is_near(reference, one, candidate, two):
                kept.append((first, second))
                same.add(place)
    return kept


def pair_root_records(reference: View, candidate: View) -> list[RecordPair]:
    """Pair what belongs to the step: losses, learning rates, values that the user named."""
    found = []
    for role in (Role.LOSS, Role.LR, Role.NAMED, Role.RESULT):
        mine = [record for record in reference.of_modules if record.role is role]
        theirs = {record.slot: record for record in candidate.of_modules if record.role is role}
        for record in mine:
            other = theirs.get(record.slot)
            if other is None and len(mine) == len(theirs) == 1:
                other = next(iter(theirs.values()))
            is_result = role is Role.RESULT
            if other is not None and not (
                is_result and _is_other(reference, record, candidate, other)
            ):
                found.append(
                    RecordPair(reference=(record.id,), candidate=other.id, paired_by=PairedBy.NAME)
                )
    return found


def _is_other(reference: View, record: RecordInfo, candidate: View, other: RecordInfo) -> bool:
    """Return whether attributes of objects of two classes only happen to have one name.

    Tensors of one shape are taken for the same: the classes may be two authors' for one thing.
    """
    classes = _class_around(reference, record), _class_around(candidate, other)
    if classes[0] == classes[1]:
        return False
    are_floats = all(
        is_floating(view.values[one.value or 0].dtype)
        for view, one in ((reference, record), (candidate, other))
    )
    return not (are_floats and record.shape == other.shape and record.shape)


def _class_around(view: View, record: RecordInfo) -> str:
    """Return the class of the object that a part of a result is an attribute of; empty for none."""
    place = f"{Role.OUTPUT}{record.slot}"
    return next(
        (
            value.rpartition(".")[2]
            for call in view.calls
            if call.parent is None
            for name, value in call.literals.items()
            if isinstance(value, str) and value.startswith("<") and place.startswith(name)
        ),
        "",
    )


def unmatched_records(
    view: View,
    other: View,
    paired: set[int],
    partners: Partners,
    explained: dict[int, UnmatchedRecord],
) -> list[UnmatchedRecord]:
    """Return for each record without pair why it has none."""
    judged = _judged(view, paired)
    before = {**values_before(view, other, partners.of), **partners.absorbed.reasons}
    alone = [record for record in view.records if record.id not in paired]
    told: list[tuple[Absence, str]] = []
    elsewhere: list[str] = []
    missing = Absence.MISSING
    for record in alone:
        elsewhere.append(_judged_inside(view, record, judged))
        known = explained.get(record.id)
        if known is not None:
            told.append((known.absence, known.reason))
            continue
        absence, reason = _explain(view, other, record, judged, partners)
        if absence is not missing:
            told.append((absence, reason))
            continue
        is_inner = record.call is not None and view.parents[record.call] is not None
        if is_inner and record.value in before:
            absence, reason = Absence.SKIPPED, before[record.value]
        told.append((absence, reason))
    return build_all(
        UnmatchedRecord,
        len(alone),
        same={"side": view.name},
        record=[record.id for record in alone],
        absence=[absence for absence, _ in told],
        reason=[reason for _, reason in told],
        elsewhere=elsewhere,
    )


def _judged_inside(view: View, record: RecordInfo, judged: Mapping[int, int]) -> str:
    """Describe where else the elements of an output of the whole model are judged, if they are."""
    is_root = record.call is not None and view.parents[record.call] is None
    if not is_root or record.role not in _OUTPUTS or record.value is None:
        return ""
    if record.value in judged:
        return f"value judged at {view.name_of(judged[record.value])}"
    sources = moved_from(view, record.id, judged.values())
    names = " and ".join(map(view.name_of, sources))
    return f"elements judged at {names}" if names else ""


def _judged(view: View, paired: Iterable[int]) -> dict[int, int]:
    """Return for each judged value of calls the first record at which it is judged."""
    found: dict[int, int] = {}
    for place in sorted(paired):
        record = view.records[place]
        if record.value is not None and record.call is not None:
            found.setdefault(record.value, place)
    return found


def _explain(
    view: View,
    other: View,
    record: RecordInfo,
    judged: dict[int, int],
    partners: Partners,
) -> tuple[Absence, str]:
    there = "reference" if view.name is SideName.CANDIDATE else "candidate"
    if record.call is None:
        path = view.modules[record.module].path or "(root)"
        return Absence.MISSING, f"no counterpart of {path + record.slot!r} on the {there}"
    if record.value is None:
        return Absence.SKIPPED, "it holds no tensor"
    if record.role in CALL_ROLES and 0 in record.shape:
        return Absence.SKIPPED, "it holds no element"
    is_root = view.calls[record.call].parent is None
    if record.value in judged and not (is_root and record.role is Role.OUTPUT):
        return Absence.COVERED, f"value judged at {view.name_of(judged[record.value])}"
    partner = partners.of.get(record.call)
    known = hidden_reason(view, record.call, partners.of, other) or partners.hidden.get(record.call)
    if partner is not None and not is_root and _is_none(other, partner, record):
        known = f"None on the {there}"
    elif partner is not None and not is_root and _is_empty(other, partner, record):
        known = f"without elements on the {there}"
    if known is not None:
        return Absence.SKIPPED, known
    path = view.path(record.call) or "(root)"
    what = f"no call of {path!r}" if partner is None else f"no such {record.role}"
    return Absence.MISSING, f"{what} on the {there}"


def _is_none(other: View, call: int, record: RecordInfo) -> bool:
    """Return whether the other side's call has None where this one has the record's tensor.

    One attention hands a mask to its kernel where another needs none, and one returns its weights.
    Whether that changes anything shows in what the call returns.
    """
    forward = str(record.role).removeprefix("grad_")
    literals = other.calls[call].literals
    place = f"{forward}{record.slot}"
    return place in literals and literals[place] is None


def _is_empty(other: View, call: int, record: RecordInfo) -> bool:
    """Return whether the other side's call has an empty tensor there: a state to begin with."""
    found = other.select(call, record.role)
    return any(one.slot == record.slot and 0 in one.shape for one in found)


def _is_near(reference: View, one: RecordInfo, candidate: View, two: RecordInfo) -> bool:
    near = alikeness(reference, one, candidate, two)
    return near is not None and near >= _SAME and prod(one.shape) == prod(two.shape)


def _is_same_job(
    reference: View, one: int, candidate: View, two: int, calls: CallPairs, handed: _Handed
) -> bool:
    """Return whether two paired calls do the same with the same content."""
    if one not in calls.share or calls.by[one] is PairedBy.MAP:
        return True
    if _is_root(reference, one) and _is_root(candidate, two):
        return True
    mine, theirs = reference.inner[one], candidate.inner[two]
    if len(mine) == len(theirs) and set(theirs).issuperset(map(calls.ahead.get, mine)):
        return True
    return calls.share[one] >= 1.0 and handed.is_same(one, two)


def _is_root(view: View, call: int) -> bool:
    return view.calls[call].module == 0


class _Handed:
    """What calls hand on: outputs that are those of calls inside, which have partners."""

    def __init__(self, reference: View, candidate: View, calls: CallPairs) -> None:
        self._views = reference, candidate
        self._calls = calls

    @cached_property
    def _makers(self) -> tuple[_Makers, _Makers]:
        """The paired calls of each side by their outputs, ascending."""
        found: tuple[_Makers, _Makers] = {}, {}
        partners = self._calls.ahead, self._calls.back
        for view, paired, makers in zip(self._views, partners, found, strict=True):
            for call in sorted(paired):
                for value in _outputs(view, call):
                    if value in makers:
                        makers[value].append(call)
                    else:
                        makers[value] = [call]
        return found

    def is_same(self, one: int, two: int) -> bool:
        """Return whether two calls hand on the output of a pair of calls inside, or neither."""
        mine, theirs = self._inside(0, one), self._inside(1, two)
        if not (mine and theirs):
            return not (mine or theirs)
        other = self._views[1]
        last, outputs = other.last[two], _outputs(other, two)
        for makers, span in mine:
            for at in reversed(span):  # the innermost of many levels that hand on one value first
                partner = self._calls.ahead[makers[at]]
                if two < partner <= last and not outputs.isdisjoint(_outputs(other, partner)):
                    return True
        return False

    def _inside(self, side: int, call: int) -> list[tuple[Sequence[int], range]]:
        """Return for the outputs of a call which calls inside have them, if there are any."""
        view = self._views[side]
        found: list[tuple[Sequence[int], range]] = []
        for value in _outputs(view, call):
            makers = self._makers[side].get(value, [])
            span = range(bisect_right(makers, call), bisect_right(makers, view.last[call]))
            if span:
                found.append((makers, span))
        return found


def _outputs(view: View, call: int) -> set[int | None]:
    return {record.value for record in view.select(call, Role.OUTPUT)}
