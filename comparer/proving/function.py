"""Ask of two programs whether they compute the same function, and where they part if not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpFormatError, ProgramError, Role
from padiff.program import UNIT_ROUNDOFF

from .cause import Cause, find_cause
from .copies import find_differences, find_lost_gradients
from .detached import find_detached
from .executed import Runs, Sink
from .leaves import pair_leaves
from .numbering import Numbering
from .precision import find_coarser
from .result import Answer, FunctionComparison, Unknown
from .side import read_side

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.dumpfile import StepFile
    from padiff.pairing import Pairing

    from .leaves import Leaves
    from .side import Side

__all__ = ["compare_functions"]


def compare_functions(known: StepFile, found: StepFile, pairing: Pairing) -> FunctionComparison:
    """Compare the functions of one step's forward pass and loss.

    Args:
        known: The reference's step.
        found: The candidate's.
        pairing: Of their records.
    """
    try:
        reference, candidate = read_side(known), read_side(found)
    except LookupError as error:
        return _unknown(Unknown.NO_TABLE, str(error))
    except (ProgramError, DumpFormatError) as error:
        return _unknown(Unknown.FAILED, str(error))
    if reference is None or candidate is None:
        return _unknown(Unknown.NO_PROGRAM)
    return _Comparison(reference, candidate, pairing).run()


def _unknown(why: Unknown, detail: str = "") -> FunctionComparison:
    return FunctionComparison(answer=Answer.UNKNOWN, unknown=why, detail=detail)


class _Comparison:
    def __init__(self, reference: Side, candidate: Side, pairing: Pairing) -> None:
        self.sides = reference, candidate
        self.leaves: Leaves = pair_leaves(pairing, reference, candidate)
        self.results = list(_results(pairing, reference, candidate))
        self.numbering = Numbering(reference, candidate, self.leaves)
        self.numbers = self.numbering.both

    def run(self) -> FunctionComparison:
        """Answer both questions."""
        found = self._functions()
        try:
            differences = (
                *find_differences(self.leaves, *self.sides),
                *find_detached(
                    self.sides,
                    self.numbers,
                    (
                        [sink.reference for sink in self.results],
                        [sink.candidate for sink in self.results],
                    ),
                ),
                *find_lost_gradients(self.leaves, *self.sides),
            )
        except (ProgramError, DumpFormatError) as error:
            differences = ()
            found = replace(found, detail=found.detail or str(error))
        return replace(
            found,
            opaque=(len(self.sides[0].lowered.opaque), len(self.sides[1].lowered.opaque)),
            leaves=len(self.leaves.pairs),
            lone=(len(self.leaves.lone[0]), len(self.leaves.lone[1])),
            differences=differences,
            coarser=find_coarser(
                self.sides, self.numbers, self.leaves, [sink.candidate for sink in self.results]
            ),
        )

    def _functions(self) -> FunctionComparison:
        """Answer for all sinks."""
        if not self.results:
            return _unknown(Unknown.NO_RESULT)
        sinks = [*self._taken_by_cuts(), *self.results]
        left = [sink for sink in sinks if not self._is_constructed(sink)]
        try:
            return self._execute(sinks, left)
        except (ProgramError, DumpFormatError) as error:
            found = _unknown(Unknown.FAILED, str(error))
            return replace(found, constructed=len(sinks) - len(left))

    def _execute(self, sinks: list[Sink], left: list[Sink]) -> FunctionComparison:
        """Execute what is not equal by construction, and see where it parts."""
        reference, candidate = self.sides
        given = self.leaves.of_reference(reference), self.leaves.of_candidate(reference, candidate)
        runs = Runs(self.sides, given, left)
        coarse = self._coarse_terms()
        units = {sink: self._unit(sink, coarse) for sink in left}
        errors = [runs.error(sink) for sink in left]

        def agree(runs: Runs, sink: Sink) -> bool:
            unit = units[sink]
            return runs.agree(sink) if unit is None else runs.agree_within(sink, unit)

        differing = [sink for sink in left if not agree(runs, sink)]
        cause = Cause()
        if differing:
            cause = find_cause(self.sides, given, self.numbering, differing, agree)
        is_behind = bool(self._lone_cuts())
        answer = Answer.DIFFERENT if differing else Answer.UNKNOWN if is_behind else Answer.SAME
        exact = sum(units[sink] is None for sink in left)
        return FunctionComparison(
            answer=answer,
            unknown=Unknown.BEHIND if answer is Answer.UNKNOWN else Unknown.NONE,
            constructed=len(sinks) - len(left),
            executed=exact,
            tolerated=len(left) - exact,
            largest=max(errors, default=None),
            reference=cause.places[0],
            candidate=cause.places[1],
            edits=cause.edits,
        )

    def _taken_by_cuts(self) -> Iterator[Sink]:
        """Yield what paired operators without a rule take."""
        for one, two in self.leaves.cuts:
            if len(one.taken) == len(two.taken):
                yield from (Sink(a, b, None) for a, b in zip(one.taken, two.taken, strict=True))

    def _is_constructed(self, sink: Sink) -> bool:
        """Return whether both values are the same expression."""
        if sink.rule is not None and sink.rule.steps:
            return False
        terms = [
            side.lowered.terms[value]
            for side, value in zip(self.sides, (sink.reference, sink.candidate), strict=True)
        ]
        return self.numbers[0][terms[0]] == self.numbers[1][terms[1]]

    def _coarse_terms(self) -> tuple[set[int], set[int]]:
        """Return the terms behind recorded values, of both sides."""
        found = []
        for side, lone in zip(self.sides, self.leaves.lone, strict=True):
            coarse = {side.lowered.terms[value] for value in lone}
            for node in side.lowered.nodes:
                if coarse.intersection(node.operands):
                    coarse.update(node.outputs)
            found.append(coarse)
        return found[0], found[1]

    def _unit(self, sink: Sink, coarse: tuple[set[int], set[int]]) -> float | None:
        """Return the unit roundoff of what lies behind recorded values, None for all else."""
        units = [
            UNIT_ROUNDOFF.get(side.program.values[value].dtype, 0.0)
            for side, value, terms in zip(
                self.sides, (sink.reference, sink.candidate), coarse, strict=True
            )
            if side.lowered.terms[value] in terms
        ]
        return max(units, default=None)

    def _lone_cuts(self) -> set[int]:
        """Return the operators without a rule, or drawn, that have no partner, of both sides.

        Those that take nothing hide nothing: what they make is a leaf like others.
        """
        known = {one.id for one, _ in self.leaves.cuts}, {two.id for _, two in self.leaves.cuts}
        return {
            one.id
            for side, paired in zip(self.sides, known, strict=True)
            for one in side.cuts
            if one.id not in paired and one.taken
        }


def _results(pairing: Pairing, reference: Side, candidate: Side) -> Iterator[Sink]:
    """Yield the paired results: what the root gives, and losses."""
    known, found = reference.recorded.borders, candidate.recorded.borders
    records = candidate.file.index.records
    for pair in pairing.records:
        info = records[pair.candidate]
        is_root = info.role is Role.OUTPUT and info.call is not None and not info.module
        if not (is_root or info.role is Role.LOSS) or pair.candidate_rule.steps:
            continue
        if len(pair.reference) == 1 and pair.reference[0] in known and pair.candidate in found:
            yield Sink(known[pair.reference[0]], found[pair.candidate], pair.rule)
