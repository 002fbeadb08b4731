"""How buffers and constants were computed while the models were built, and what is other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.auditing import Answers, KnownProgram, Measured, measure_value
from padiff.dumpfile import DumpFormatError, ProgramError
from padiff.program import lower

from .cause import find_cause
from .executed import Runs, Sink
from .leaves import Leaves
from .numbering import Numbering
from .side import Side

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .leaves import LeafPair
    from .result import Edit

__all__ = ["prove_construction", "with_tables"]


def with_tables(side: Side, leaves: Iterable[int]) -> Side:
    """Return a side that computes leaves as its constructor did, where the dump says how.

    One port keeps the tables of a rotary embedding, the other one computes them in each call. What
    the constructor computes must be what the leaf holds, but for rounding.

    Args:
        side: Its program.
        leaves: Ids of leaves.
    """
    built = side.construction
    if built is None:
        return side
    known, answers = KnownProgram(built.recorded, built.lowered), Answers[Measured]()
    made = {leaf: value for leaf in sorted(leaves) if (value := _made(side, leaf)) is not None}
    made = {leaf: value for leaf, value in made.items() if _is_computed(known, value, answers)}
    if not made:
        return side
    wanted, needed = set(made.values()), list[int]()
    for operator in reversed(built.program.operators):
        if not wanted.isdisjoint(operator.outputs):
            needed.append(operator.id)
            wanted.update(operator.taken)
    needed.reverse()
    recorded = side.recorded.with_built(made, needed)
    lowered = lower(recorded.program, side.table, contents=recorded.elements)
    return Side(side.file, recorded, lowered, tuple(needed))


def _is_computed(known: KnownProgram, value: int, answers: Answers[Measured]) -> bool:
    """Return whether operators compute what a value of a construction holds, from what is known."""
    lowered = known.lowered
    terms = {lowered.terms[value]}
    for place in lowered.behind(terms):
        terms.update(lowered.nodes[place].operands)
    ends = [lowered.leaves[term] for term in terms if term in lowered.leaves]
    if not all(map(known.recorded.has_elements, ends)):
        return False
    try:
        found = measure_value(known, known.program.values[value], answers)
    except (ProgramError, DumpFormatError):
        return False
    return found is not None and found.is_sound


def prove_construction(pair: LeafPair, reference: Side, candidate: Side) -> tuple[Edit, ...]:
    """Prove why a leaf is no copy, by the operators that made it on both sides.

    Returns:
        The edits with which the candidate's operators make what the reference's make; none where
        a dump does not say how the leaf was made, or no proof is found.
    """
    known, found = reference.construction, candidate.construction
    if known is None or found is None or pair.rule.steps or len(pair.reference) != 1:
        return ()
    made = _made(reference, pair.reference[0]), _made(candidate, pair.candidate)
    if made[0] is None or made[1] is None:
        return ()
    sides, sink = (known, found), Sink(made[0], made[1], None)
    numbering = Numbering(known, found, Leaves({}))
    return find_cause(sides, ({}, {}), numbering, [sink], Runs.agree).edits


def _made(side: Side, leaf: int) -> int | None:
    """Return the value of the construction that became a leaf: both hold the same elements."""
    built, row = side.recorded.construction, side.recorded.row(leaf)
    if built is None or row is None:
        return None
    shape = side.program.values[leaf].shape
    same = (one for one in built.program.values if built.row(one.id) == row and one.shape == shape)
    return next((one.id for one in same), None)
