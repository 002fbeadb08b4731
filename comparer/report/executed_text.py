"""What executing both programs says, at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.auditing import Soundness
from padiff.comparer.proving import Answer

from .edit_words import worded_edit
from .numbers import count, number, plural
from .style import DIM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.proving import (
        Edit,
        Execution,
        FunctionComparison,
        LeafDifference,
        Place,
        UpdateComparison,
        UpdateDifference,
    )
    from padiff.comparer.result import Comparison

    from .style import Canvas

__all__ = ["draw_executed"]

_MOST_LEAVES = 5
_MOST_EDITS = 5


def draw_executed(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the answers of the first step that is not answered with yes, or of the first."""
    steps = [step for step in comparison.steps if step.executed is not None]
    if not steps:
        return
    step = next((one for one in steps if _answer(one.executed) is not Answer.SAME), steps[0])
    if step.executed is None:
        return
    where = (
        "" if len(steps) == 1 else f", step {step.step}" + f" rank {step.rank}" * bool(step.rank)
    )
    canvas.heading("BY EXECUTION", f"both programs in float64{where}; no verdict rests on it")
    for line in _lines(step.executed):
        canvas.line(f"  {canvas.safe(line)}")
    others = sum(_answer(one.executed) is Answer.DIFFERENT for one in steps if one is not step)
    if others:
        canvas.line(f"  and {plural(others, 'more step')} that differ", DIM)


def _answer(executed: Execution | None) -> Answer:
    return Answer.SAME if executed is None else executed.answer


def _lines(executed: Execution) -> Iterator[str]:
    yield from _function(executed.function)
    yield from _leaves(executed.function)
    if executed.function.update is not None:
        yield from _update(executed.function.update)
    yield from _soundness(executed)


def _function(found: FunctionComparison) -> Iterator[str]:
    """Yield the first answer, and where the functions part."""
    if found.answer is Answer.UNKNOWN:
        detail = f": {found.detail}" if found.detail else ""
        yield f"same function?    unknown: {found.unknown.value}{detail}"
        return
    parts = []
    if found.constructed:
        parts.append(f"{count(found.constructed)} the same by construction")
    if found.executed:
        parts.append(f"{count(found.executed)} executed")
    if found.tolerated:
        parts.append(f"{count(found.tolerated)} behind recorded values, by tolerance")
    error = "" if found.largest is None else f"; largest error {number(found.largest)} of its size"
    word = "yes" if found.answer is Answer.SAME else "no"
    yield f"same function?    {word}: {', '.join(parts)}{error}"
    if found.edits:
        yield from _proof(found.edits)
    else:
        yield from _ends(found.reference, found.candidate, "first ")


def _proof(edits: Sequence[Edit]) -> Iterator[str]:
    """Yield the edits that make the candidate's results those of the reference."""
    what = "without this" if len(edits) == 1 else f"without these {len(edits)} differences"
    yield f"  proved: {what} the candidate computes what the reference computes"
    for edit in edits[:_MOST_EDITS]:
        times = f" ({count(edit.times)} times)" if edit.times > 1 else ""
        yield f"  - {worded_edit(edit)}{times}"
        for line in _ends(edit.reference, edit.candidate):
            yield f"  {line}"
    if len(edits) > _MOST_EDITS:
        yield f"  and {count(len(edits) - _MOST_EDITS)} more"


def _ends(reference: Place | None, candidate: Place | None, word: str = "") -> Iterator[str]:
    for side, place in (("reference", reference), ("candidate", candidate)):
        if place is not None:
            yield f"  {side} {word}at {_place(place)}"


def _place(place: Place) -> str:
    module = f"{place.module or '(root)'} ({place.class_name})" if place.class_name else "the loss"
    site = "" if place.site is None else f", {place.site.file}:{place.site.line}"
    return f"{place.operator} of {module}{site}"


def _leaves(found: FunctionComparison) -> Iterator[str]:
    lone = sum(found.lone)
    without = f", {count(lone)} without a partner" if lone else ""
    if not found.differences:
        if found.unjudged:
            many = plural(len(found.unjudged), "result")
            yield f"same leaves?      unknown: {many} of an earlier update that was not proven"
        elif found.leaves:
            yield f"same leaves?      yes: {count(found.leaves)}{without}"
        return
    yield f"same leaves?      no: {plural(len(found.differences), 'difference')}{without}"
    for one in found.differences[:_MOST_LEAVES]:
        yield f"  {_leaf(one)}"
    if len(found.differences) > _MOST_LEAVES:
        yield f"  and {count(len(found.differences) - _MOST_LEAVES)} more"


def _update(found: UpdateComparison) -> Iterator[str]:
    """Yield whether the updates are the same, and the weights that they change otherwise."""
    if found.answer is Answer.UNKNOWN:
        detail = f": {found.detail}" if found.detail else ""
        yield f"same update?      unknown: {found.unknown.value}{detail}"
        return
    parts = []
    if found.constructed:
        parts.append(f"{count(found.constructed)} the same by construction")
    if found.executed:
        parts.append(f"{count(found.executed)} executed")
    word = "yes" if found.answer is Answer.SAME else "no"
    yield f"same update?      {word}: {', '.join(parts)}"
    for one in found.differences[:_MOST_LEAVES]:
        yield f"  {_changed(one)}"
    if len(found.differences) > _MOST_LEAVES:
        yield f"  and {count(len(found.differences) - _MOST_LEAVES)} more"


def _changed(one: UpdateDifference) -> str:
    """Say of a weight how its updates differ."""
    by = f"{one.candidate}: by up to {number(one.error)} of its size"
    if one.arguments:
        first = one.arguments[0]
        return (
            f"{by}; {first.operator} takes {first.candidate!r} where the reference takes "
            f"{first.reference!r}"
        )
    names = [place.operator for place in one.places if place is not None]
    return f"{by}; they part at {' and '.join(names)}" if names else by


def _leaf(one: LeafDifference) -> str:
    name = one.candidate or one.reference
    if one.largest is None:
        place = "" if one.place is None else f", cut off by {_place(one.place)}"
        return f"{one.kind} of {name}: on one side only{place}"
    return (
        f"{one.kind} {name}: {count(one.elements)} of {count(one.of)} elements, "
        f"by up to {number(one.largest)} of its size"
    )


def _soundness(executed: Execution) -> Iterator[str]:
    said = {Soundness.SOUND: "yes", Soundness.UNSOUND: "no", Soundness.NOT_AUDITED: "not audited"}
    sides = ("reference", "candidate")
    each = [f"{said[one]} ({side})" for one, side in zip(executed.soundness, sides, strict=True)]
    yield f"sound execution?  {', '.join(each)}"
    coarser = executed.function.coarser
    if coarser is not None:
        what = f"{coarser.candidate} where the reference has {coarser.reference}"
        yield f"  lost precision: {what}, at {_place(coarser.place)}"
    for side, one in zip(sides, executed.unsound, strict=True):
        if one is not None:
            what = f"{one.check} of {one.operator}" if one.check == "gradient" else one.operator
            yield f"  {side} first at {what} of {one.module or '(root)'}: {one.reason}"
