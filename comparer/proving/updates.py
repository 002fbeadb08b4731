"""Same update? What optimizers and clipping leave, as functions of what they took.

Both programs get the reference's weights, gradients and moments of before the update; what is left
has to agree as the results of forward passes do. So a weight of the next step is the result of an
update that was proven, and no copy.

Its errors are measured in units of how far it moves what it is given. A weight of 1 that a step
moves by 1e-5 is written with an error of 6e-8, and hides a rate that is off by half a percent. So
the weight's own rounding does not count: what carries a weight on is off by as much of what it adds
to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpFormatError, LeafKind, Phase, ProgramError, Role
from padiff.program import SUMMING, UNIT_ROUNDOFF, Rounding, ValueRef
from padiff.program.primitives import Kind

from .cause import Cause, find_cause, merged
from .executed import ROUNDINGS, Runs, Sink
from .hidden import Errors, Rounded, largest_effect
from .influences import influences_of_edits
from .pool import settings_of
from .result import Answer, Unknown, UpdateComparison, UpdateDifference
from .settings import Rates, is_of_rate

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from padiff.pairing import Pairing, RecordPair
    from padiff.program import Leaf, Node
    from padiff.program.primitives import Array

    from .leaves import Leaves
    from .numbering import Numbering
    from .result import Edit, Effect
    from .side import Side


_LEFT = frozenset({Role.WEIGHT, Role.OPTIMIZER_STATE, Role.BUFFER})
_NORMS = frozenset({"torch.nn.functional.batch_norm", "paddle._C_ops.batch_norm"})
"""Operators whose running statistics differ by design: torch's takes the unbiased variance of a
batch, Paddle's the biased one, and a momentum that is a float32."""
_TORCH, _PADDLE = "running_var", "variance"
"""What they call the running variance that they take."""
_MOST_KINDS = 8
"""Results of updates that are made in different ways, and looked into for the cause."""
_VARIANCE = 2
"""Where the running variance is among their outputs; or it is the last one."""


@dataclass(frozen=True, slots=True)
class _Left:
    """What an update left, on both sides."""

    reference: str
    candidate: str
    sink: Sink


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a running variance was made of, beside the variance of the batch."""

    reference: Array
    """What the reference held before."""
    candidate: Array
    share: float
    """Of that what stays."""
    factor: float
    """From the variance that the reference takes in to that of the candidate: with n elements,
    n / (n - 1) to torch's."""


def compare_updates(
    sides: tuple[Side, Side],
    leaves: Leaves,
    pairing: Pairing,
    numbering: Numbering,
) -> UpdateComparison | None:
    """Compare what the updates of one step leave.

    Returns:
        None where neither side recorded an update.
    """
    return _Updates(sides, leaves, pairing, numbering).run()


class _Updates:
    def __init__(
        self, sides: tuple[Side, Side], leaves: Leaves, pairing: Pairing, numbering: Numbering
    ) -> None:
        self.sides, self.leaves, self.numbering = sides, leaves, numbering
        self.pairing = pairing
        self.unseen: list[str] = []
        """What changed without an operator that was recorded, by the candidate's name."""
        self.left = list(self._left_of(pairing))
        self.changes = _changes(sides[0]), _changes(sides[1])
        """The operators of each update that made what records of gradients hold, by record."""

    def run(self) -> UpdateComparison | None:
        """Answer for all that is left."""
        if not self.left and not self.unseen:
            return None
        behind = self._behind_lone_cuts()
        known = [one for one in self.left if not self.numbering.is_same(self.sides, one.sink)]
        asked = [one for one in known if one.candidate not in behind]
        try:
            found = self._execute(asked)
        except (ProgramError, DumpFormatError) as error:
            unknown = Unknown.FAILED
            return UpdateComparison(answer=Answer.UNKNOWN, unknown=unknown, detail=str(error))
        differing = {one.candidate for one in found.differences}
        proven = {one.candidate for one in self.left} - behind - differing
        found = replace(
            found,
            constructed=len(self.left) - len(known),
            proven=frozenset(proven),
            gradients=frozenset(self._changed_gradients()),
            is_of_rule=bool(found.edits) and not self._changes_gradients(found.edits[0]),
        )
        if found.answer in {Answer.SAME, Answer.HIDDEN} and (behind or self.unseen):
            unknown = Unknown.BEHIND if behind else Unknown.UNSEEN
            detail = min(behind or self.unseen)
            found = replace(found, answer=Answer.UNKNOWN, unknown=unknown, detail=detail)
        return found

    def _execute(self, asked: list[_Left]) -> UpdateComparison:
        given = (
            self.leaves.of_reference(*self.sides),
            self.leaves.of_candidate(*self.sides),
        )
        sinks = [one.sink for one in asked]
        runs = Runs(self.sides, given, sinks)
        differing = [one for one in asked if not self._agree(runs, one.sink)]
        if not differing:
            largest = max(map(runs.error, sinks), default=None)
            return UpdateComparison(answer=Answer.SAME, executed=len(asked), largest=largest)
        effects = self._effects(runs, given, differing)
        seen = [
            one
            for one, effect in zip(differing, effects, strict=True)
            if effect is None or not effect.is_hidden
        ]
        told = self._telling(seen or differing)
        cause, edits = self._cause(given, runs, told)
        return UpdateComparison(
            answer=Answer.DIFFERENT if seen else Answer.HIDDEN,
            executed=len(asked),
            largest=max(map(runs.error, sinks), default=None),
            effect=largest_effect(effects),
            differences=tuple(
                UpdateDifference(
                    reference=one.reference,
                    candidate=one.candidate,
                    error=runs.error(one.sink),
                    effect=effect,
                )
                for one, effect in zip(differing, effects, strict=True)
            ),
            reference=cause.places[0],
            candidate=cause.places[1],
            edits=edits,
        )

    def _cause(
        self,
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        runs: Runs,
        told: list[Sink],
    ) -> tuple[Cause, tuple[Edit, ...]]:
        """Return where updates part, and the edits of the proof: of rates first."""
        rates = Rates.read(self.pairing, self.sides)
        repaired = rates.repaired(given, told)
        if repaired is not None:
            again = Runs(self.sides, repaired[0], told)
            left = [one for one in told if not self._agree(again, one)]
            cause = self._found(repaired[0], left) if left else Cause()
            if cause.edits or not left:
                return cause, (repaired[1], *self._largest_first(cause, again, left))
        cause = self._found(given, told)
        edits = map(rates.named, self._largest_first(cause, runs, told))
        return cause, tuple(sorted(merged(edits), key=lambda one: not is_of_rate(one)))

    def _found(
        self, given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]], told: list[Sink]
    ) -> Cause:
        cause = find_cause(self.sides, given, self.numbering, told, self._agree)
        if len(told) > 1 and not cause.edits:
            cause = find_cause(self.sides, given, self.numbering, told[:1], self._agree)
        return cause

    def _largest_first(self, cause: Cause, runs: Runs, told: Sequence[Sink]) -> tuple[Edit, ...]:
        """Return the edits of a proof, those first that move most of what the update leaves.

        An epsilon of another framework is an edit beside what is wrong.
        """
        if len(cause.edits) < 2:  # noqa: PLR2004
            return cause.edits
        measured = influences_of_edits(self.sides, cause, runs, told)

        def moved(edit: Edit) -> float:
            same = (one.influence for one in measured if replace(one, influence=None) == edit)
            return next((one.relative_l2 or 0.0 for one in same if one is not None), 0.0)

        return tuple(sorted(cause.edits, key=moved, reverse=True))

    def _telling(self, differing: Sequence[_Left]) -> list[Sink]:
        """Return one of each kind of what differs, moments and weights alike.

        What is wrong is mostly wrong for all that the same operators make with the same numbers.
        What lies otherwise in the candidate has no value of the shape that one of the reference
        has.
        """
        plain = [one.sink for one in differing if one.sink.is_plain]
        found: dict[Hashable, Sink] = {}
        for sink in plain or [differing[0].sink]:
            if len(found) < _MOST_KINDS:
                found.setdefault(self._kind_of(sink), sink)
        return [*found.values()]

    def _kind_of(self, sink: Sink) -> Hashable:
        """Return the operators that update a weight on both sides, with all but their operands."""
        ends = zip(self.sides, (sink.reference, sink.candidate), strict=True)
        return tuple(
            frozenset(
                (one.name, settings_of(one))
                for one in (side.program.operators[id_] for id_ in _behind(side, value))
                if one.phase is Phase.UPDATE
            )
            for side, value in ends
        )

    def _effects(
        self,
        runs: Runs,
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        differing: Sequence[_Left],
    ) -> list[Effect | None]:
        """Measure what differs beside what rounding does to it; None of statistics of norms."""
        names = {one.sink: one.candidate for one in differing}
        rounded = Rounded(runs, UpdateErrors(self.sides, given, names), [*names])
        return [
            rounded.effect(one.sink) if self._of_norms(one.sink) is None else None
            for one in differing
        ]

    def _left_of(self, pairing: Pairing) -> Iterator[_Left]:
        """Yield the pairs of what the update left."""
        reference, candidate = self.sides
        for pair in pairing.records:
            info = candidate.file.index.records[pair.candidate]
            if info.phase is not Phase.UPDATE or info.role not in _LEFT:
                continue
            name = candidate.name_of_record(pair.candidate)
            sink = self._sink(pair)
            if sink is not None and self._is_variance(sink) and self._kept(sink) is None:
                continue
            if sink is not None:
                yield _Left(reference.name_of_record(pair.reference[0]), name, sink)
            elif info.role is Role.WEIGHT:
                self.unseen.append(name)

    def _changes_gradients(self, edit: Edit) -> bool:
        """Return whether an edit is of what made the gradients that were recorded."""
        places = edit.reference, edit.candidate
        return any(
            place is not None
            and not (set().union(*changes.values()) or _of_clip(side)).isdisjoint(place.slice)
            for side, changes, place in zip(self.sides, self.changes, places, strict=True)
        )

    def _changed_gradients(self) -> Iterator[str]:
        """Yield the weights whose recorded gradient is not the one that arrived on its side."""
        (known, found), records = self.changes, self.sides[1].file.index.records
        for pair in self.pairing.records:
            is_changed = pair.candidate in found or not known.keys().isdisjoint(pair.reference)
            if is_changed and records[pair.candidate].phase is Phase.BACKWARD:
                yield self.sides[1].name_of_record(pair.candidate)

    def _agree(self, runs: Runs, sink: Sink) -> bool:
        kept = self._kept(sink) if self._is_variance(sink) else None
        if kept is not None:
            return self._is_same_variance(runs, sink, kept)
        if self._of_norms(sink) is not None:
            return runs.agree_within(sink, UNIT_ROUNDOFF["float32"])
        return runs.agree(sink)

    def _is_variance(self, sink: Sink) -> bool:
        return self._of_norms(sink) == _VARIANCE

    def _is_same_variance(self, runs: Runs, sink: Sink, kept: _Kept) -> bool:
        """Return whether two running variances took in the same, each in its framework's way."""
        one, two = runs.pair(sink)
        share = kept.share
        wanted = share * kept.candidate + (one - share * kept.reference) * kept.factor
        size = float(np.sqrt(np.mean(np.square(wanted))))
        return bool(np.all(np.abs(two - wanted) <= ROUNDINGS * UNIT_ROUNDOFF["float32"] * size))

    def _kept(self, sink: Sink) -> _Kept | None:
        """Return what a running variance was before; None where that is no buffer in the dump."""
        named = []
        for side, value in zip(self.sides, (sink.reference, sink.candidate), strict=True):
            operator = side.program.operators[side.program.values[value].producer or 0]
            arguments = side.table.named(operator.name, operator.positional, operator.keywords)
            named.append(dict(arguments))
        which = int("running_var" not in named[0])
        given = self.leaves.of_reference(*self.sides), self.leaves.of_candidate(*self.sides)
        before = [
            None if not isinstance(value, ValueRef) else leaves.get(value.id)
            for value, leaves in zip(
                (one.get(_TORCH if place == which else _PADDLE) for place, one in enumerate(named)),
                given,
                strict=True,
            )
        ]
        taken, momentum = named[which].get("input"), named[which].get("momentum")
        if None in before or not isinstance(taken, ValueRef) or not isinstance(momentum, float):
            return None
        shape = self.sides[which].program.values[taken.id].shape
        count = prod(shape) // shape[1]
        known, found = (
            np.asarray(one() if callable(one) else one, np.float64)
            for one in before
            if one is not None
        )
        return _Kept(
            reference=known,
            candidate=found,
            share=1.0 - momentum,
            factor=count / (count - 1) if which else (count - 1) / count,
        )

    def _of_norms(self, sink: Sink) -> int | None:
        """Return which output of both frameworks' batch norms is meant; None for all else."""
        made, places = set(), set()
        for side, value in zip(self.sides, (sink.reference, sink.candidate), strict=True):
            one = side.program.values[value]
            if one.producer is None:
                return None
            operator = side.program.operators[one.producer]
            made.add(operator.name)
            count = len(operator.outputs)
            places.add(one.slot if one.slot <= _VARIANCE else one.slot - count + _VARIANCE + 1)
        return places.pop() if made == _NORMS and len(places) == 1 else None

    def _sink(self, pair: RecordPair) -> Sink | None:
        known, found = (side.recorded.borders for side in self.sides)
        values = [known.get(record) for record in pair.reference]
        value = found.get(pair.candidate)
        ids = [one for one in values if one is not None]
        if value is None or len(ids) < len(values) or pair.candidate_rule.steps:
            return None
        return Sink(ids[0], value, pair.rule, tuple(ids[1:]))

    def _behind_lone_cuts(self) -> set[str]:
        """Return what rests on the outcomes of operators that only one side recorded, or drew."""
        behind = [
            side.lowered.ahead(side.lowered.terms[value] for one in cuts for value in one.outputs)
            for side, cuts in zip(self.sides, self.leaves.lone_cuts(*self.sides), strict=True)
        ]
        found = set()
        for one in self.left:
            values = (one.sink.reference, *one.sink.others), (one.sink.candidate,)
            if any(
                side.lowered.terms[value] in terms
                for side, those, terms in zip(self.sides, values, behind, strict=True)
                for value in those
            ):
                found.add(one.candidate)
        return found


def _behind(side: Side, value: int) -> set[int]:
    """Return the operators that a value is made by."""
    nodes = side.lowered.behind([side.lowered.terms[value]])
    return {side.lowered.nodes[place].operator for place in nodes}


def _of_clip(side: Side) -> set[int]:
    """Return the operators of an optimizer's own clip: they take nothing of weights or moments.

    Empty where no gradient was recorded as the optimizer clips it.
    """
    records = side.file.index.records
    if all(one.role is not Role.WEIGHT_GRAD or one.phase is not Phase.UPDATE for one in records):
        return set()
    values, found = side.program.values, set[int]()
    told = {one.id for one in values if one.kind is LeafKind.GRADIENT}
    plain = {one.id for one in values if one.kind is LeafKind.CONSTANT}
    for one in side.program.operators:
        if one.phase is Phase.UPDATE and (told | plain).issuperset(one.taken):
            is_told = not told.isdisjoint(one.taken)
            (told if is_told else plain).update(one.outputs)
            found.update([one.id] * is_told)
    return found


def _changes(side: Side) -> dict[int, set[int]]:
    """Return the operators of the update that made what each record of a changed gradient holds."""
    records, operators = side.file.index.records, side.program.operators
    made = {
        record: {one for one in _behind(side, value) if operators[one].phase is Phase.UPDATE}
        for record, value in side.recorded.borders.items()
        if records[record].role is Role.WEIGHT_GRAD
    }
    return {record: those for record, those in made.items() if those}


_CARRIED = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER, LeafKind.STATE})
"""Leaves that an update leaves moved."""
_ROUNDED = frozenset({Kind.FLOAT, Kind.COMPLEX})


class UpdateErrors(Errors):
    """The errors of two updates."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        names: Mapping[Sink, str],
    ) -> None:
        """Look what each update carries on."""
        super().__init__(sides)
        self._given, self._names = given, names
        self._carried = tuple(
            _carried(side, those) for side, those in zip(sides, given, strict=True)
        )
        values = sides[1].program.values
        self._taken = {
            values[one].name: one
            for one in sides[1].lowered.leaves.values()
            if values[one].kind in _CARRIED
        }

    def rounding(self, which: int, seed: int) -> Rounding:
        """Return the errors of one execution of the reference (0) or the candidate (1)."""
        return _RoundingOfMoves(super().rounding(which, seed), self._carried[which])

    def unit_of(self, sink: Sink, known: Array) -> Array:
        """Return what differences are relative to: by how much the update moved each element."""
        taken = self._taken.get(self._names[sink])
        with np.errstate(all="ignore"):
            before = 0.0 if taken is None else _elements(self._given[1][taken])
            return np.abs(known - before)


class _RoundingOfMoves(Rounding):
    """Random errors, of what is carried on in units of what is added to it."""

    def __init__(self, errors: Rounding, carried: Mapping[int, Sequence[Leaf]]) -> None:
        super().__init__(errors.units, seed=errors.seed, known=errors.known)
        self._carried = carried

    def disturb_results(
        self, node: Node, operands: Sequence[Array], results: Sequence[Array]
    ) -> list[Array]:
        """Return what a primitive makes, with errors where it rounds."""
        disturbed = super().disturb_results(node, operands, results)
        for leaf in self._carried.get(node.outputs[0], ()):
            exact, before = results[0], _elements(leaf)
            with np.errstate(all="ignore"):
                share = np.minimum(1.0, np.abs(exact - before) / np.abs(exact))
                moved = exact + np.where(exact == 0, 1.0, share) * (disturbed[0] - exact)
            disturbed[0] = np.where(np.isfinite(moved), moved, disturbed[0])
        return disturbed


def _carried(side: Side, given: Mapping[int, Leaf]) -> dict[int, list[Leaf]]:
    """Return which leaves the elementwise primitives carry on, by the term that they make."""
    lowered, values = side.lowered, side.program.values
    found = {
        term: {term} for term, value in lowered.leaves.items() if values[value].kind in _CARRIED
    }
    for node in lowered.nodes:
        spec = lowered.specs[node.outputs[0]]
        if node.primitive in SUMMING or len(node.outputs) > 1 or spec.kind not in _ROUNDED:
            continue
        taken = {leaf for term in node.operands for leaf in found.get(term, ())}
        taken = {leaf for leaf in taken if lowered.specs[leaf] == spec}
        if taken:
            found[node.outputs[0]] = taken
    made = {term: those for term, those in found.items() if term not in lowered.leaves}
    return {term: [given[lowered.leaves[one]] for one in those] for term, those in made.items()}


def _elements(leaf: Leaf) -> Array:
    return leaf() if callable(leaf) else leaf
