"""What executing both programs says, at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.auditing import Soundness
from padiff.comparer.proving import Answer, FunctionComparison

from .equal_ranks import fold_ranks
from .fault_words import (
    worded_edit,
    worded_ends,
    worded_influence,
    worded_leaf,
    worded_place,
    worded_unsound,
)
from .numbers import count, number, plural
from .style import DIM
from .wording import folded, place, step_of_first

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from padiff.comparer.proving import Edit, Effect, Execution, UpdateComparison
    from padiff.comparer.result import Comparison, StepComparison

    from .style import Canvas


_MOST_LEAVES = 5
_MOST_EDITS = 5


def draw_executed(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the answers of the first step that is not answered with yes, or of the first."""
    steps = [step for step in comparison.steps if step.executed is not None]
    if not steps:
        return
    least = min(_rank(step.executed) for step in steps)
    step = step_of_first(comparison, [one for one in steps if _rank(one.executed) == least])
    if step.executed is None:
        return
    alike = fold_ranks(steps, _answers, lambda one: one.rank)
    ranks = next(told.ranks for told in alike if _answers(told.first) == _answers(step))
    where = "" if len(steps) == 1 else f", {place(step.step, (step.rank,))}"
    where += f", as on {folded(ranks)}" if len(ranks) > 1 else ""
    canvas.heading("BY EXECUTION", f"both programs in float64{where}")
    is_told = any(found.faults for found in step.divergences)
    for line in _lines(step.executed, is_told=is_told):
        canvas.hanging(f"  {canvas.safe(line)}")
    others = sum(
        _answer(told.first.executed) is Answer.DIFFERENT and _answers(told.first) != _answers(step)
        for told in alike
    )
    if others:
        canvas.line(f"  and {plural(others, 'more step')} that differ{'s' * (others == 1)}", DIM)


def _answers(step: StepComparison) -> tuple[Hashable, ...]:
    """Return the step and what its questions are answered with, whatever the rank."""
    executed = step.executed
    if executed is None:
        return (step.step,)
    function, update = executed.function, executed.function.update
    leaves = bool(function.differences), bool(function.unjudged), bool(function.coarser)
    update_answer = None if update is None else update.answer
    return (step.step, function.answer, *leaves, update_answer, executed.soundness)


def _answer(executed: Execution | None) -> Answer:
    return Answer.SAME if executed is None else executed.answer


def _rank(executed: Execution | None) -> int:
    """Return 0 for a step that is not answered with yes, 1 for one with a finding, 2 for others."""
    if _answer(executed) is not Answer.SAME:
        return 0
    return 1 if executed is not None and executed.is_hidden else 2


def _lines(executed: Execution, *, is_told: bool) -> Iterator[str]:
    """Yield the answers; with causes and places, unless the origins tell them.

    What rounding hides is no origin beside others.
    """
    function = executed.function
    yield from _function(function)
    is_told_there = is_told and function.answer is not Answer.HIDDEN
    yield from () if is_told_there else _causes(function)
    yield from _leaves(function, is_recomputed=executed.is_recomputed)
    if function.update is not None:
        yield from _update(function.update)
        yield from () if is_told else _causes(function.update)
    yield from _soundness(executed)


def _function(found: FunctionComparison) -> Iterator[str]:
    """Yield the first answer."""
    tolerated = f"{count(found.tolerated)} behind recorded values, by tolerance"
    error = "" if found.largest is None else f"; largest error {number(found.largest)} of its size"
    if found.effect is not None:
        error = f"; largest error {_effect(found.effect, 'size')}"
    facts = f"{count(found.facts)} flags, whole numbers or text"
    more = [tolerated] * bool(found.tolerated) + [facts] * bool(found.facts)
    yield from _asked("same function?    ", found, ", ".join(more), error)


def _asked(
    question: str, found: FunctionComparison | UpdateComparison, more: str = "", error: str = ""
) -> Iterator[str]:
    """Yield an answer, and how many results it rests on."""
    if found.answer is Answer.UNKNOWN:
        detail = f": {found.detail}" if found.detail else ""
        yield f"{question}unknown: {found.unknown.value}{detail}"
        return
    parts = []
    if found.constructed:
        parts.append(f"{count(found.constructed)} the same by construction")
    if found.executed:
        parts.append(f"{count(found.executed)} executed")
    if more:
        parts.append(more)
    is_coincidence = isinstance(found, FunctionComparison) and found.is_coincidence
    answer = (
        "no, but only with other weights and inputs" if is_coincidence else _WORDS[found.answer]
    )
    yield f"{question}{answer}: {', '.join(parts)}{error}"
    if found.answer is Answer.HIDDEN and found.effect is not None:
        yield f"  in each element at most {number(found.effect.share)} of what rounding makes there"


_WORDS = {
    Answer.SAME: "yes",
    Answer.HIDDEN: "no, but rounding hides it",
    Answer.DIFFERENT: "no",
}


def _effect(effect: Effect, unit: str) -> str:
    """Word a difference with the rounding of the same element."""
    size = f"{number(effect.difference)} of its {unit}"
    return f"{size}, where rounding makes {number(effect.rounding)}"


def _causes(found: FunctionComparison | UpdateComparison) -> Iterator[str]:
    """Yield the proof of a cause, or where the programs part."""
    if found.edits:
        yield from _proof(found.edits)
    else:
        yield from (f"  {line}" for line in worded_ends(found.reference, found.candidate))


def _proof(edits: Sequence[Edit]) -> Iterator[str]:
    """Yield the edits that make the candidate's results those of the reference."""
    what = "without this" if len(edits) == 1 else f"without these {len(edits)} differences"
    yield f"  proved: {what} the candidate computes what the reference computes"
    for edit in edits[:_MOST_EDITS]:
        times = f" ({count(edit.times)} times)" if edit.times > 1 else ""
        yield f"  - {worded_edit(edit)}{times}{worded_influence(edit.influence)}"
        for line in worded_ends(edit.reference, edit.candidate):
            yield f"    {line}"
    if len(edits) > _MOST_EDITS:
        yield f"  and {count(len(edits) - _MOST_EDITS)} more"


def _leaves(found: FunctionComparison, *, is_recomputed: bool) -> Iterator[str]:
    lone = sum(found.lone)
    without = f", {count(lone)} without a partner" if lone else ""
    if not found.differences:
        if found.unjudged:
            why = "rest on an earlier update that was not proven"
            if is_recomputed:
                why = "are not bit-equal, and the reference keeps no elements that tell by how much"
            yield f"same leaves?      unknown: {count(len(found.unjudged))} {why}"
        elif found.leaves:
            yield f"same leaves?      yes: {count(found.leaves)}{without}"
        return
    yield f"same leaves?      no: {plural(len(found.differences), 'difference')}{without}"
    for one in found.differences[:_MOST_LEAVES]:
        yield f"  {worded_leaf(one)}{worded_influence(one.influence)}"
    if len(found.differences) > _MOST_LEAVES:
        yield f"  and {count(len(found.differences) - _MOST_LEAVES)} more"


def _update(found: UpdateComparison) -> Iterator[str]:
    """Yield whether the updates are the same, and the weights that they change otherwise."""
    yield from _asked("same update?      ", found)
    for one in found.differences[:_MOST_LEAVES]:
        size = f"{number(one.error)} of its size"
        size = size if one.effect is None else _effect(one.effect, "update")
        yield f"  {one.candidate}: by up to {size}"
    if len(found.differences) > _MOST_LEAVES:
        yield f"  and {count(len(found.differences) - _MOST_LEAVES)} more"


_SAID = {
    Soundness.SOUND: "yes",
    Soundness.UNSOUND: "no",
    Soundness.NOT_AUDITED: "not audited",
    Soundness.NOT_RUN: "not run",
}


def _soundness(executed: Execution) -> Iterator[str]:
    sides = ("reference", "candidate")
    said = [_SAID[one] for one in executed.soundness]
    if executed.is_recomputed and executed.soundness[0] is not Soundness.UNSOUND:
        said[0] = "computed again"
    each = [f"{word} ({side})" for word, side in zip(said, sides, strict=True)]
    yield f"sound execution?  {', '.join(each)}"
    coarser = executed.function.coarser
    if coarser is not None:
        what = f"{coarser.candidate} where the reference has {coarser.reference}"
        yield f"  lost precision: {what}, at {worded_place(coarser.place)}"
    for side, one in zip(sides, executed.unsound, strict=True):
        if one is not None:
            yield f"  {side} first at {worded_unsound(one)}"
