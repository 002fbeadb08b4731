"""Ask of two programs whether they compute the same function, and where they part if not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

from padiff.dumpfile import DumpFormatError, LeafKind, Phase, ProgramError, Role
from padiff.program import read_lowered

from .alignment import align
from .borders import other_borders
from .cause import Cause, find_cause
from .coincidence import refuted
from .construction import with_tables
from .copies import (
    find_changed_gradients,
    find_differences,
    find_differing_buffers,
    find_lost_gradients,
    find_ties,
)
from .detached import find_detached, find_held
from .drawn import differing_draws, follow_draws, settle_draws
from .executed import Runs, Sink
from .forms import form_for_causes
from .hidden import Agreement
from .influences import influences_of_edits, with_influences
from .joining import joined
from .kinks import Followed, follow_gradients
from .leaves import pair_leaves
from .losses import are_other_losses
from .numbering import Numbering
from .precision import find_coarser
from .readings import with_numbers_read
from .repaired import Repaired
from .result import Answer, FunctionComparison, Unknown
from .results import pair_results
from .side import read_side
from .updates import compare_updates

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from padiff.dumpfile import StepFile
    from padiff.pairing import Pairing
    from padiff.program import Leaf, Operator, Read

    from .by_weights import Regiven
    from .earlier import Earlier
    from .leaves import Leaves
    from .result import Effect, LeafDifference, Place, UpdateComparison
    from .side import Side

C = TypeVar("C", "FunctionComparison", "UpdateComparison")

_TAKEN = frozenset({LeafKind.GRADIENT, LeafKind.STATE})
"""Leaves of an update alone."""


def compare_functions(
    known: StepFile,
    found: StepFile,
    pairing: Pairing,
    earlier: Earlier | None = None,
    *,
    read: Read = read_lowered,
    differing: Container[int] = (),
) -> FunctionComparison:
    """Compare the functions of one step's forward pass, loss and update.

    Args:
        known: The reference's step.
        found: The candidate's.
        pairing: Of their records.
        earlier: What the step before left; None in the first step.
        read: How to read and lower a program.
        differing: The candidate's records that are not what their partners hold.
    """
    try:
        reference, candidate = read_side(known, read), read_side(found, read)
    except LookupError as error:
        return _unknown(Unknown.NO_TABLE, str(error))
    except (ProgramError, DumpFormatError) as error:
        return _unknown(Unknown.FAILED, str(error))
    if reference is None or candidate is None:
        return _unknown(Unknown.NO_PROGRAM)
    return _Comparison(reference, candidate, pairing, earlier).run(differing)


def _unknown(why: Unknown, detail: str = "") -> FunctionComparison:
    return FunctionComparison(answer=Answer.UNKNOWN, unknown=why, detail=detail)


class _Comparison:
    def __init__(
        self, reference: Side, candidate: Side, pairing: Pairing, earlier: Earlier | None
    ) -> None:
        self.pairing, self.earlier = pairing, earlier
        self.leaves: Leaves = pair_leaves(pairing, reference, candidate)
        buffers = find_differing_buffers(self.leaves, reference, candidate)
        self.sides = with_tables((reference, candidate), self.leaves.unequal, buffers)
        if any(side.built for side in self.sides):
            self.leaves = pair_leaves(pairing, *self.sides)
        self.given = pair_results(pairing, *self.sides)
        self.results = self.given.sinks
        self.rounded = self.given.rounded(self.sides[1])
        self.numbering = settle_draws(self.leaves, self.sides)
        candidate = with_numbers_read(self.sides, self.leaves)
        if candidate is not self.sides[1]:
            self.sides = self.sides[0], candidate
            self.numbering = Numbering(*self.sides, self.leaves)
        self.numbers = self.numbering.both
        self.alike: Sequence[int] = self.numbering.candidate
        """The numbers of the candidate's terms, with what was joined."""
        self.repaired: Repaired | Regiven | None = None
        """The candidate without the faults of its function; None unless they are proved."""

    def run(self, differing: Container[int]) -> FunctionComparison:
        """Answer both questions; of records that differ, say which are other functions."""
        found = self._functions()
        unjudged: list[str] = []
        followed = Followed()
        try:
            differences = self._differences(unjudged)
            if found.answer in (Answer.SAME, Answer.HIDDEN) and not differences:
                followed = self._followed(differing)
                differences = followed.differences
        except (ProgramError, DumpFormatError) as error:
            differences = ()
            found = replace(found, detail=found.detail or str(error))
        update = compare_updates(self.sides, self.leaves, self.pairing, self.numbering)
        found = _in_files(self.sides, self._with_draws(found))
        return replace(
            found,
            opaque=(_opaque(self.sides[0]), _opaque(self.sides[1])),
            alike=frozenset() if differences or unjudged else frozenset(self._alike()),
            other=self._other(found, differing),
            remade=(self._names_of_remade(0), self._names_of_remade(1)),
            leaves=self._count_leaves(),
            lone=(self._count_lone(0), self._count_lone(1)),
            differences=differences,
            is_followed=followed.is_known,
            coarser=find_coarser(
                self.sides,
                (self.numbers[0], self.alike),
                self.leaves,
                [sink.candidate for sink in self.results],
            ),
            update=None if update is None else _in_files(self.sides, update),
            unjudged=tuple(name for name in unjudged if name in self._needed()),
            are_losses_other=are_other_losses(
                self.sides, self.leaves, (self.numbers[0], self.alike)
            ),
        )

    def _differences(self, unjudged: list[str]) -> tuple[LeafDifference, ...]:
        """Return all differences of leaves, with what each does to the results.

        Args:
            unjudged: Gets the names of leaves that nothing is known of.

        Raises:
            ProgramError: Elements lack, or a limit is passed.
            DumpFormatError: Elements are damaged.
        """
        alike = self.numbers[0], self.alike
        results = (
            [sink.reference for sink in self.results],
            [sink.candidate for sink in self.results],
        )
        leaves = find_differences(self.leaves, *self.sides, self.earlier, unjudged)
        return (
            *with_influences(leaves, self.sides, self.leaves, self.repaired, self.results),
            *find_changed_gradients(self.leaves, *self.sides, unjudged),
            *find_detached(self.sides, alike, results),
            *find_held(self.sides, alike),
            *find_lost_gradients(self.leaves, *self.sides, unjudged),
            *find_ties(self.leaves, *self.sides),
            *self.given.differences(*self.sides),
        )

    def _with_draws(self, found: FunctionComparison) -> FunctionComparison:
        """Return the answer with what partners draw otherwise."""
        edits = tuple(differing_draws(self.leaves, self.sides))
        if not edits:
            return found
        return replace(
            found,
            answer=Answer.DIFFERENT,
            reference=found.reference or edits[0].reference,
            candidate=found.candidate or edits[0].candidate,
            edits=(*edits, *found.edits),
        )

    def _needed(self) -> set[str]:
        """Return the names of the leaves that the candidate's results and weights depend on.

        Running statistics do not count where those of the batch are used.
        """
        side = self.sides[1]
        late = (
            value
            for record, value in side.recorded.borders.items()
            if side.file.index.records[record].role is not Role.BUFFER
        )
        ends = {side.lowered.terms[value] for value in late}
        nodes = (side.lowered.nodes[place] for place in side.lowered.behind(ends))
        needed = ends.union(*(node.operands for node in nodes))
        leaves = side.lowered.leaves
        return {side.program.values[leaves[term]].name for term in needed if term in leaves}

    def _alike(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of records that are the same expression, where all leaves are copies."""
        known, found = self.sides
        if known.cuts or found.cuts or known.draws or found.draws:
            return  # what was drawn is no copy, nor is what was taken as recorded
        for pair in self.pairing.records:
            if pair.rule.steps or pair.candidate_rule.steps or len(pair.reference) != 1:
                continue
            one = known.recorded.borders.get(pair.reference[0])
            two = found.recorded.borders.get(pair.candidate)
            if one is None or two is None:
                continue
            terms = known.lowered.terms, found.lowered.terms
            if one not in terms[0] or two not in terms[1]:
                continue
            if self.numbers[0][terms[0][one]] == self.alike[terms[1][two]]:
                yield pair.reference[0], pair.candidate

    def _other(
        self, found: FunctionComparison, differing: Container[int]
    ) -> frozenset[tuple[int, int]]:
        """Return what is another function on the way to the same results, by rows of both sides."""
        if found.answer not in (Answer.SAME, Answer.HIDDEN):
            return frozenset()
        given = self.leaves.of_reference(*self.sides), self.leaves.of_candidate(*self.sides)
        pairs = [pair for pair in self.pairing.records if pair.candidate in differing]
        return other_borders(self.sides, given, pairs, (self.numbers[0], self.alike))

    def _followed(self, differing: Container[int]) -> Followed:
        """Return what both programs say of gradients of weights that differ."""
        index = self.sides[1].file.index
        records = [
            index.records[pair.candidate]
            for pair in self.pairing.records
            if pair.candidate in differing
        ]
        names = {index.address(one).name for one in records if one.role is Role.WEIGHT_GRAD}
        try:
            return follow_gradients(self.sides, self.leaves, self.results, names)
        except ProgramError:
            return Followed()  # too large: rounding is taken at its word

    def _count_leaves(self) -> int:
        """Count the pairs of leaves that the forward pass takes, or could."""
        values = self.sides[1].program.values
        return sum(values[one].kind not in _TAKEN for one in self.leaves.pairs)

    def _names_of_remade(self, which: int) -> frozenset[str]:
        """Return the names of what one side holds and the other one computes, and of what from."""
        values = self.sides[which].program.values
        return frozenset(values[one].name for one in self.leaves.remade[which])

    def _count_lone(self, which: int) -> int:
        """Count the leaves without a partner that the forward pass takes."""
        side = self.sides[which]
        return sum(side.lowered.terms[one] in side.read_forward for one in self.leaves.lone[which])

    def _functions(self) -> FunctionComparison:
        """Answer for all sinks."""
        if not self.results and not self.given.facts:
            return _unknown(Unknown.NO_RESULT)
        sinks = [*self._taken_by_cuts(), *self.results]
        left = [sink for sink in sinks if not self.numbering.is_same(self.sides, sink)]
        joining = joined(self.sides, self.leaves, self.pairing, self.numbering) if left else None
        self.alike = self.numbering.candidate if joining is None else joining.numbers
        given = self.leaves.of_reference(*self.sides), self.leaves.of_candidate(*self.sides)
        is_same = joining is not None and all(map(joining.is_same, left))
        if left and not is_same and self._follows_draws():
            return self._functions()
        if joining is not None and is_same:
            self.repaired = Repaired(self.sides, given, self.numbering)
            return FunctionComparison(
                answer=self._answer(None, is_different=False, is_refuted=False),
                constructed=len(sinks) - len(left),
                executed=len(left),
                tolerated=self.rounded,
                facts=len(self.given.facts) - self.rounded,
                largest=max(joining.errors, default=None),
            )
        try:
            is_refuted = joining is not None and joining.is_refuted
            return self._execute(sinks, left, given, is_refuted=is_refuted)
        except (ProgramError, DumpFormatError) as error:
            found = _unknown(Unknown.FAILED, str(error))
            return replace(found, constructed=len(sinks) - len(left))

    def _follows_draws(self) -> bool:
        """Return whether draws have other partners now, for the same elements elsewhere."""
        try:
            is_changed = follow_draws(self.leaves, self.sides, self.numbering)
        except (ProgramError, DumpFormatError):
            return False
        if is_changed:
            self.numbering = Numbering(*self.sides, self.leaves)
            self.numbers = self.numbering.both
        return is_changed

    def _execute(
        self,
        sinks: list[Sink],
        left: list[Sink],
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        *,
        is_refuted: bool,
    ) -> FunctionComparison:
        """Execute what is not equal by construction, and see where it parts.

        Args:
            sinks: All results.
            left: Those that are not.
            given: What the leaves of both programs hold.
            is_refuted: Whether a piece differs: so will they, and one execution of each program
                does for the search for the cause, too.
        """
        form = cache(partial(form_for_causes, self.sides, self.leaves, self.numbering, left))
        aligned = align(form()[0], given, form()[1], left) if is_refuted else None
        is_plain = aligned is not None and form()[0] is self.sides  # the verdict is theirs
        executed = (aligned[0].executed, aligned[1].executed) if aligned and is_plain else ({}, {})
        runs = Runs(self.sides, given, left, executed)
        agreement = Agreement(self.sides, self.leaves, left, runs)
        differing, exact = agreement.differing(), agreement.exact
        cause, effect = Cause(), None
        self.repaired = Repaired(self.sides, given, self.numbering)
        if differing:
            sides, numbering = form()
            aligned = aligned if differing == left else None
            cause = find_cause(sides, given, numbering, differing, agreement.agree, aligned)
            self.repaired = cause.repaired
            is_recorded = not self.leaves.invented  # else nobody knows how far a fault moves it
            shown = [sink for sink in self.results if sink in left and is_recorded]
            rounding = agreement.rounding(shown)
            cause = replace(cause, edits=influences_of_edits(sides, cause, runs, shown, rounding))
            effect = agreement.effect(differing)
        is_hidden = effect is not None and effect.is_hidden
        is_open = exact and (is_hidden or not differing)
        other = refuted(self.sides, self.leaves, exact, is_hidden=is_hidden) if is_open else None
        if other is not None and not differing:
            sides, numbering = form()
            cause = find_cause(sides, other[0], numbering, other[1], agreement.agree)
        answer = self._answer(effect, is_different=bool(differing), is_refuted=other is not None)
        return FunctionComparison(
            answer=answer,
            unknown=Unknown.BEHIND if answer is Answer.UNKNOWN else Unknown.NONE,
            constructed=len(sinks) - len(left),
            executed=len(exact),
            tolerated=len(left) - len(exact) + self.rounded,
            facts=len(self.given.facts) - self.rounded,
            is_coincidence=other is not None,
            largest=agreement.largest,
            effect=effect,
            reference=cause.places[0],
            candidate=cause.places[1],
            edits=cause.edits,
        )

    def _answer(self, effect: Effect | None, *, is_different: bool, is_refuted: bool) -> Answer:
        if is_different and (effect is None or not effect.is_hidden):
            return Answer.DIFFERENT
        if self._is_open():
            return Answer.UNKNOWN
        return Answer.HIDDEN if is_different or is_refuted else Answer.SAME

    def _taken_by_cuts(self) -> Iterator[Sink]:
        """Yield what paired operators without a rule take."""
        for one, two in self.leaves.cuts:
            if len(one.taken) == len(two.taken) and _is_forward(one) and _is_forward(two):
                yield from (Sink(a, b, None) for a, b in zip(one.taken, two.taken, strict=True))

    def _is_open(self) -> bool:
        """Return whether operators without a rule and without a partner hide something.

        They do where something that has to agree is computed from their outcomes.
        """
        sinks = [*self._taken_by_cuts(), *self.results]
        ends = (
            {one for sink in sinks for one in (sink.reference, *sink.others)},
            {sink.candidate for sink in sinks},
        )
        cuts = zip(self.leaves.lone_cuts(*self.sides), self.leaves.drawn, strict=True)
        for side, (those, drawn), values in zip(self.sides, cuts, ends, strict=True):
            terms = side.lowered.terms
            made = [
                terms[value]
                for one in those
                if _is_forward(one) and not drawn.issuperset(one.outputs)
                for value in one.outputs
            ]
            if made and not side.lowered.ahead(made).isdisjoint(terms[value] for value in values):
                return True
        return False


def _in_files(sides: tuple[Side, Side], found: C) -> C:
    """Return an answer whose places name operators as the files do."""
    known, own = sides
    edits = (
        replace(
            one, reference=_in_file(known, one.reference), candidate=_in_file(own, one.candidate)
        )
        for one in found.edits
    )
    return replace(
        found,
        reference=_in_file(known, found.reference),
        candidate=_in_file(own, found.candidate),
        edits=tuple(edits),
    )


def _in_file(side: Side, place: Place | None) -> Place | None:
    """Return a place whose operators have the ids that they have in the file."""
    if place is None or not side.built:
        return place
    return replace(place, slice=tuple(map(side.id_in_file, place.slice)))


def _is_forward(operator: Operator) -> bool:
    """Return whether an operator belongs to the forward pass or the loss."""
    return operator.phase is not Phase.UPDATE


def _opaque(side: Side) -> int:
    """Count the operators of the forward pass that have no rule."""
    return sum(_is_forward(side.program.operators[one]) for one in side.lowered.opaque)
