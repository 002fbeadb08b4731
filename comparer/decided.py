"""What execution decides of a step: whether it is asked, and what rounding explains."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress, zip_longest
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Argument, Dtype, Phase, Role, renumbered
from padiff.program import read_program

from .auditing import Check, Soundness
from .auditing.slices import carrying_gradients, cuts
from .judgedpairs import remarkable, replaced
from .proving import Answer
from .result import JudgedPair, Looked, Verdict
from .settings import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.dumpfile import StepFile
    from padiff.program import Operator, RecordedProgram

    from .judging.judge import Judgement
    from .proving import Execution, UpdateComparison
    from .result import Scope, StepComparison
    from .settings import CompareSettings


ROUNDING = "rounding: both programs compute the same, and each value is what its program says"
"""The reason of a pair that differs by more than a tolerance where execution finds no fault."""
RECOMPUTED = (
    "computed again: both programs compute the same, and the candidate's value is what they say"
)
"""The reason of a pair whose elements the reference does not keep."""
OTHERWISE = "another form on the way: both programs compute the same"
"""The reason of a pair inside a model that cannot be compared, or is another function of the same
leaves, where execution finds no fault."""
ON_THE_WAY = "on the way to another update: judged by the weights and moments that it leaves"
"""The reason of a gradient that clipping changed, where that change is not at fault."""
COMPUTED = "the other side computes it: it does not train, and both programs compute the same"
"""The reason of a weight without partner, where execution finds no fault."""
_TAKEN = frozenset({Role.INPUT, Role.GRAD_INPUT})
"""Roles of what comes into a call, and of its gradient."""
REMADE = "one side computes what the other one holds, and both programs compute the same"
"""The reason of a weight of another parametrization, and of its gradient."""
_NUMBERS = frozenset({Role.RESULT, Role.LR, Role.NAMED, Role.LOSS})
"""Roles of what no program need have made."""


def is_asked(settings: CompareSettings) -> bool:
    """Return whether both programs are to be executed: all of a model was asked for.

    Its first phases are enough, since a program has no later ones to explain.
    """
    order = list(Phase)
    phases = sorted(map(order.index, settings.phases or order))
    is_narrow = settings.include or settings.exclude or phases != list(range(len(phases)))
    return settings.execute and not is_narrow


def may_diverge(settings: CompareSettings) -> bool:
    """Return whether a fault that execution finds is a divergence whatever the numbers say.

    A tolerance, a share or a measured floor that the user gives loosens: a difference of the
    programs whose numbers lie within it is a note. An atol alone below the defaults has no effect.
    """
    atol = None if settings.is_below_defaults else settings.atol
    given = atol, settings.rtol, settings.max_mismatched, settings.quantile
    scales = settings.floor, settings.golden
    is_plain = not settings.rules and settings.mode is Mode.STRICT
    return is_plain and all(one is None for one in (*given, *scales))


def rests_on_execution(step: StepComparison, settings: CompareSettings) -> bool:
    """Return whether a step matches because all three questions were answered with yes."""
    return _answer(step, settings) is Answer.SAME and not settings.is_literal


def _answer(step: StepComparison, settings: CompareSettings) -> Answer | None:
    return None if step.executed is None else step.executed.answer_with(strict=settings.strict)


def with_execution(
    scope: Scope, steps: Sequence[StepComparison], settings: CompareSettings
) -> Scope:
    """Return what was looked at, with how many steps execution has answered."""
    answers = [_answer(step, settings) for step in steps]
    hidden = [step.executed is not None and step.executed.is_hidden for step in steps]
    proven = [rests_on_execution(step, settings) for step in steps]
    again = [step.executed is not None and step.executed.is_recomputed for step in steps]
    is_nothing = scope.looked_at is Looked.NOTHING
    return replace(
        scope,
        looked_at=Looked.RESULT if is_nothing and any(proven) else scope.looked_at,
        by_statistics=scope.by_statistics and not all(proven),
        steps=len(steps),
        proven=sum(proven),
        tolerated=sum(map(_tolerated, compress(steps, proven))),
        recomputed=sum(again),
        not_run=_not_run(steps),
        hidden=0 if settings.strict else sum(hidden),
        loosened=answers.count(Answer.DIFFERENT),
    )


def _tolerated(step: StepComparison) -> int:
    return 0 if step.executed is None else step.executed.function.tolerated


def _not_run(steps: Sequence[StepComparison]) -> tuple[str, ...]:
    """Return the sides that no framework ran in any step."""
    soundness = [step.executed.soundness for step in steps if step.executed is not None]
    return tuple(
        side
        for which, side in enumerate(("reference", "candidate"))
        if any(one[which] is Soundness.NOT_RUN for one in soundness)
    )


def differing_records(judgement: Judgement) -> frozenset[int]:
    """Return the candidate's records that are not what their partners hold."""
    return frozenset(
        record
        for place, pair in remarkable(judgement.pairs)
        if pair.fatal and pair.verdict is Verdict.DIVERGED
        for record in judgement.records[place][1:]
        if record is not None
    )


def explain_by_rounding(
    judgement: Judgement,
    sides: tuple[StepFile, StepFile],
    executed: Execution,
    settings: CompareSettings,
) -> Judgement:
    """Let match what only rounding made of it.

    Pairs that differ agree where both programs compute the same function of the same leaves, and
    each of the two values is what its own program says, within the rounding of its operators. Where
    the reference keeps no elements, its values are those that its program says.
    Where only what comes after the forward or the backward passes differs, those are explained
    alone, and where these differ, what comes before that. Where the user gave both tolerances,
    nothing is explained.
    """
    if settings.is_literal:
        return judgement
    is_same = executed.answer_with(strict=settings.strict) is Answer.SAME
    is_port = sides[0].framework != sides[1].framework
    way = _blameless(executed, judgement, is_same=is_same, is_port=is_port)
    open_ = list(_open_pairs(judgement, executed, way, is_same=is_same))
    if not open_:
        return judgement
    is_plain = all(one.end.address.role is not Role.WEIGHT_GRAD for _, one in open_)
    explanation = _Explanation(sides, executed, way, is_same=is_same, is_plain=is_plain)
    found = ((place, explanation.of(pair, judgement.records[place])) for place, pair in open_)
    explained = {place: one for place, one in found if one is not None}
    return replace(judgement, pairs=replaced(judgement.pairs, explained))


def _blameless(
    executed: Execution, judgement: Judgement, *, is_same: bool, is_port: bool
) -> UpdateComparison | None:
    """Return the update if what it does to gradients before it uses them is not at fault."""
    update = executed.function.update
    if update is None:
        return None
    if is_same and update.answer in (Answer.SAME, Answer.HIDDEN):
        return update
    is_rule = update.answer is Answer.DIFFERENT and update.is_of_rule
    is_other = is_rule or (is_port and _leaves_alike(judgement))
    return update if executed.is_backward_same and is_other else None


class _Explanation:
    """Why pairs that differ are no divergence, each by itself."""

    def __init__(
        self,
        sides: tuple[StepFile, StepFile],
        executed: Execution,
        way: UpdateComparison | None,
        *,
        is_same: bool,
        is_plain: bool,
    ) -> None:
        """Ask what of both sides is sound.

        Args:
            sides: The reference's and the candidate's step.
            executed: The three answers.
            way: The update, where what it does to gradients is not at fault.
            is_same: Whether all three answers are yes.
            is_plain: Whether no gradient of a weight differs.
        """
        self._executed, self._way, self._is_same = executed, way, is_same
        self._known, self._found = (
            _Sound(file, which, executed, is_trusted=executed.is_trusted(which))
            for which, file in enumerate(sides)
        )
        is_cut_alike = self._known.runs_like(self._found)
        both = self._known, self._found
        function = executed.function
        self._is_whole = function.is_followed or all(
            one.is_whole(is_cut_alike=is_cut_alike) for one in both
        )
        self._is_plain = is_plain and self._is_whole
        self._proven = frozenset() if function.update is None else function.update.proven
        self._is_other_backward = function.is_coincidence or function.are_losses_other
        self._reason = RECOMPUTED if any(map(executed.is_trusted, (0, 1))) else ROUNDING

    def of(self, pair: JudgedPair, ends: tuple[tuple[int, ...], int | None]) -> JudgedPair | None:
        """Return a pair with the reason why it is no divergence; None where there is none.

        Args:
            pair: That differs.
            ends: The reference's records, and the candidate's.
        """
        if self._is_same and _is_remade(pair, self._executed):
            return _explained(pair, Verdict.SKIPPED, REMADE)
        if _is_lone_weight(pair):
            is_computed = self._is_same and self._reads_frozen(*ends)
            return _explained(pair, Verdict.SKIPPED, COMPUTED) if is_computed else None
        is_judged = pair.end.address.phase is not Phase.BACKWARD or self._is_whole
        is_way = _is_on_the_way(pair, self._way)
        is_open = (is_judged and _is_left_out(pair)) or self._is_off_the_way(pair, *ends)
        if is_way or is_open or _is_inside(pair):
            reason = ON_THE_WAY if is_way and not self._is_same else OTHERWISE
            return _explained(pair, Verdict.SKIPPED, reason)
        is_sound = is_judged and self._is_sound(pair, *ends)
        if is_sound and self._is_other(*ends):
            return _explained(pair, Verdict.SKIPPED, OTHERWISE)
        if is_sound or _left_alike(pair, self._proven):
            return _explained(pair, Verdict.MATCH, self._reason)
        return None

    def _is_other(self, records: tuple[int, ...], record: int | None) -> bool:
        """Return whether a pair is two functions of the same leaves, on the way to the results."""
        row = None if record is None else self._found.row(record)
        other = self._executed.function.other
        return any((self._known.row(one), row) in other for one in records)

    def _is_sound(self, pair: JudgedPair, records: tuple[int, ...], record: int | None) -> bool:
        """Return whether both ends hold what their programs say."""
        is_other = self._is_other_backward and pair.end.address.phase is Phase.BACKWARD
        is_held = record is not None and self._found.holds(record)
        return is_held and all(map(self._known.holds, records)) and not is_other

    def _is_off_the_way(
        self, pair: JudgedPair, records: tuple[int, ...], record: int | None
    ) -> bool:
        """Return whether a loss that is compared rests on an output of one side's model alone.

        One form makes its loss of the logarithms that it returns, another one of what these are
        made of. That side's gradient follows from its program, and the other side has none.
        """
        address = pair.end.address
        if record is None or address.module or address.role is not Role.GRAD_OUTPUT:
            return False
        if not (self._is_plain and self._known.has_loss and self._found.has_loss):
            return False  # the gradients say what it is
        ends = (self._known, records), (self._found, (record,))
        lacking = [side.lacks(ids) for side, ids in ends]
        return sorted(lacking) == [False, True] and all(
            is_lacking or all(map(side.holds, ids))
            for is_lacking, (side, ids) in zip(lacking, ends, strict=True)
        )

    def _reads_frozen(self, records: tuple[int, ...], record: int | None) -> bool:
        """Return whether the side that has a weight alone reads it, and does not train it."""
        side, lone = (self._known, records[0]) if record is None else (self._found, record)
        return side.reads_frozen(lone)


def _open_pairs(
    judgement: Judgement, executed: Execution, way: UpdateComparison | None, *, is_same: bool
) -> Iterator[tuple[int, JudgedPair]]:
    """Yield (place, pair) of what differs, or cannot be compared, and may be explained."""
    update = executed.function.update
    phases = {Phase.FORWARD} if executed.is_forward_same else set()
    phases |= {Phase.BACKWARD} if executed.is_backward_same else set()
    for place, pair in remarkable(judgement.pairs):
        is_asked = (
            is_same
            or _phase_that_made(pair, update) in phases
            or _is_alike(judgement.records[place], executed)
        )
        if _is_on_the_way(pair, way) or (
            is_asked
            and (
                (pair.fatal and (pair.verdict is Verdict.DIVERGED or _is_inside(pair)))
                or _is_lone_weight(pair)
                or _is_left_out(pair)
                or _is_remade(pair, executed)
                or (executed.is_recomputed and pair.is_partial)
            )
        ):
            yield place, pair


def _phase_that_made(pair: JudgedPair, update: UpdateComparison | None) -> Phase:
    """Return the phase that made what a pair holds: gradients may be what the update left."""
    end = pair.candidate or pair.end
    is_gradient = end.address.role is Role.WEIGHT_GRAD
    if is_gradient and update is not None and end.address.name in update.gradients:
        return Phase.UPDATE
    return pair.end.address.phase


def _explained(pair: JudgedPair, verdict: Verdict, reason: str) -> JudgedPair:
    return replace(pair, verdict=verdict, fatal=False, by_execution=True, reason=reason)


class _Sound:
    """What of a side was audited and found to be sound, or is taken at its program's word."""

    def __init__(
        self, file: StepFile, which: int, executed: Execution, *, is_trusted: bool
    ) -> None:
        self._is_trusted = is_trusted
        self._records = file.index.records
        self._recorded = recorded = read_program(file)
        self._audited = executed.sound[which]
        self._rows: set[int | None] = set()
        if recorded is not None:
            leaves = (one.id for one in recorded.program.values if one.kind is not None)
            self._rows.update(map(recorded.row, leaves))
            self._rows.update(
                recorded.gradient_row(value) if check is Check.GRADIENT else recorded.row(value)
                for value, check in self._audited
            )

    def holds(self, record: int) -> bool:
        """Return whether a record holds a leaf of the program, or what was found to be sound."""
        info = self._records[record]
        borders = {} if self._recorded is None else self._recorded.borders
        is_made = info.role not in _NUMBERS or record in borders
        is_of_program = is_made and info.phase is not Phase.UPDATE
        is_sound = self._is_trusted or info.value in self._rows
        return is_of_program and info.value is not None and is_sound

    def row(self, record: int) -> int | None:
        """Return the row of the stored values that a record has."""
        return self._records[record].value

    @property
    def has_loss(self) -> bool:
        """Return whether the program goes on to a loss."""
        borders = {} if self._recorded is None else self._recorded.borders
        return any(self._records[one].role is Role.LOSS for one in borders)

    def lacks(self, records: Iterable[int]) -> bool:
        """Return whether there is nothing in any of some records: no gradient arrived."""
        return all(self._records[record].value is None for record in records)

    def reads_frozen(self, record: int) -> bool:
        """Return whether a record is of a weight that does not train, and that an operator reads.

        What no operator read, as an expert that no token went to, says nothing of the function.
        """
        recorded = self._recorded
        if recorded is None or self._records[record].requires_grad:
            return False
        value = recorded.borders.get(record)
        run = (one for one in recorded.program.operators if one.phase is not Phase.UPDATE)
        return any(value in one.taken for one in run)

    def runs_like(self, other: _Sound) -> bool:
        """Return whether two sides ran the same operators on the same values in the same order.

        What one of them cuts off the other one does, too.
        """
        if self._recorded is None or other._recorded is None:
            return False
        sides = self._recorded, other._recorded
        partners: dict[int, int] = {}
        for one, found in zip_longest(*(each.program.operators for each in sides)):
            if one is None or found is None or _kind_of(one) != _kind_of(found):
                return False
            for pair in zip(one.taken, found.taken, strict=False):
                if pair[0] not in partners and not _are_copies(sides, pair):
                    return False
                partners.setdefault(*pair)
            own = renumbered(_arguments(one), lambda value: partners.get(value, -1))
            if own != _arguments(found):
                return False
            partners.update(zip(one.outputs, found.outputs, strict=False))
        return True

    def is_whole(self, *, is_cut_alike: bool) -> bool:
        """Return whether all gradients are sound from the results back, and none is cut off.

        A gradient that nobody audited, or that a side does not hand on, changes all behind it,
        each of which is sound by itself.

        Args:
            is_cut_alike: Whether the other side cuts off the same.
        """
        if self._recorded is None:
            return False
        recorded = self._recorded
        run = [one for one in recorded.program.operators if one.phase is not Phase.UPDATE]
        carrying, going_on = carrying_gradients(recorded), self._going_on(run)
        on = [one for one in run if not going_on.isdisjoint(one.outputs)]
        apart = (one for one in on if one.no_grad and one.id not in carrying)
        late = (value for one in apart for value in one.taken)
        is_cut = any(map(self._cuts_off, filter(cuts, on)))
        if not is_cut_alike and (is_cut or any(map(recorded.got_gradient, late))):
            return False
        if self._is_trusted:
            return True
        begun = self._model_outputs()
        return all(
            (value, Check.GRADIENT) in self._audited
            for one in run
            for value in one.taken
            if one.call is not None
            and value not in begun
            and recorded.has_gradient(value)
            and recorded.has_elements(value)
        )

    def _going_on(self, run: Sequence[Operator]) -> set[int]:
        """Return the values that a gradient might come back to, none that Python alone reads."""
        assert self._recorded is not None
        read = {value for one in run for value in one.taken}
        values = (one.id for one in self._recorded.program.values)
        ends = (one for one in values if one not in read or self._recorded.got_gradient(one))
        return self._recorded.program.behind(ends)

    def _cuts_off(self, operator: Operator) -> bool:
        """Return whether a gradient might flow on behind an operator that hands none back.

        What comes of buffers and constants alone has none to hand on.
        """
        assert self._recorded is not None
        program, got_gradient = self._recorded.program, self._recorded.got_gradient
        seen, open_ = set(), list(operator.taken)
        while open_:
            value = open_.pop()
            if value not in seen:
                seen.add(value)
                if got_gradient(value):
                    return True
                maker = program.values[value].producer
                open_ += () if maker is None else program.operators[maker].taken
        return False

    def _model_outputs(self) -> set[int]:
        """Return what the model gives: nobody saw where its gradients come from."""
        borders = {} if self._recorded is None else self._recorded.borders
        return {
            value
            for record, value in borders.items()
            if self._records[record].role is Role.OUTPUT and not self._records[record].module
        }


def _kind_of(operator: Operator) -> tuple[object, ...]:
    """Return what tells an operator apart beside its arguments."""
    return operator.name, operator.phase, operator.no_grad, operator.in_place, operator.random


def _arguments(operator: Operator) -> tuple[Argument, ...]:
    """Return all arguments of an operator but for dtypes, which only round."""
    given = (*operator.positional, *operator.keywords, *operator.keywords.values())
    return tuple("dtype" if isinstance(one, Dtype) else one for one in given)


def _are_copies(sides: tuple[RecordedProgram, RecordedProgram], pair: tuple[int, int]) -> bool:
    """Return whether two leaves have one name, or hold the same but for another dtype."""
    known, found = (each.program.values[value] for each, value in zip(sides, pair, strict=True))
    if known.kind is None or known.kind is not found.kind or known.shape != found.shape:
        return False
    if known.name or found.name:
        return known.name == found.name
    one, two = (each.elements(value) for each, value in zip(sides, pair, strict=True))
    if one is None or two is None:
        return False
    return any(
        np.array_equal(one.astype(dtype), two.astype(dtype)) for dtype in (one.dtype, two.dtype)
    )


def _is_alike(ends: tuple[tuple[int, ...], int | None], executed: Execution) -> bool:
    """Return whether a pair is the same expression of the same leaves, whatever differs else."""
    records, record = ends
    return len(records) == 1 and (records[0], record) in executed.function.alike


def _is_inside(pair: JudgedPair) -> bool:
    """Return whether a pair that cannot be compared is on the way to what the model gives."""
    is_call = pair.end.call is not None and bool(pair.end.address.module)
    return pair.verdict is Verdict.INCOMPARABLE and is_call


def _is_left_out(pair: JudgedPair) -> bool:
    """Return whether only one side has what a call inside the model takes or gives.

    Or what the model takes: a mask that the other one makes itself, what it does not read.
    """
    address = pair.end.address
    is_way = pair.end.call is not None and (bool(address.module) or address.role in _TAKEN)
    return pair.verdict is Verdict.MISSING and is_way


def _is_remade(pair: JudgedPair, executed: Execution) -> bool:
    """Return whether a side computes what the other one holds, or what that is computed from."""
    ends = pair.reference, pair.candidate
    return pair.end.address.role in {Role.WEIGHT, Role.WEIGHT_GRAD} and any(
        end is not None and end.address.phase is not Phase.UPDATE and end.address.name in names
        for end, names in zip(ends, executed.function.remade, strict=True)
    )


def _is_lone_weight(pair: JudgedPair) -> bool:
    """Return whether only one side has a weight."""
    is_weight = pair.end.address.role is Role.WEIGHT
    return is_weight and pair.fatal and pair.verdict is Verdict.MISSING


def _is_on_the_way(pair: JudgedPair, update: UpdateComparison | None) -> bool:
    """Return whether what differs lies between the gradients that arrive and what an update leaves.

    So do gradients that were clipped, and their norm, which another form may not have.

    Args:
        pair: Of records.
        update: What was found of it; None where it leaves something else.
    """
    end = pair.candidate or pair.end
    is_open = pair.fatal and pair.verdict in {Verdict.DIVERGED, Verdict.MISSING}
    if update is None or not is_open:
        return False
    is_update = end.address.phase is Phase.UPDATE
    if end.address.role is Role.WEIGHT_GRAD:
        return is_update or end.address.name in update.gradients
    return is_update and end.address.role is Role.NAMED


def _leaves_alike(judgement: Judgement) -> bool:
    """Return whether weights and moments agree behind an update."""
    return not any(
        pair.fatal
        and pair.verdict in {Verdict.DIVERGED, Verdict.MISSING}
        and pair.end.address.phase is Phase.UPDATE
        and pair.end.address.role in {Role.WEIGHT, Role.BUFFER, Role.OPTIMIZER_STATE}
        for _, pair in remarkable(judgement.pairs)
    )


def _left_alike(pair: JudgedPair, proven: frozenset[str]) -> bool:
    """Return whether a pair is what updates leave that were proven to be the same."""
    end = pair.candidate
    if end is None or end.address.phase is not Phase.UPDATE or end.address.role in _NUMBERS:
        return False
    return end.address.name in proven
