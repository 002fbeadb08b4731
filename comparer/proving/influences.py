"""How far each fault alone moves the model's results.

Of an edit that is one of several the candidate is executed with all others repaired, of a leaf with
all edits repaired and all other leaves the reference's. An edit that is the only one needs no
execution: the candidate is the reference with that fault. One that changes shapes is made in the
reference instead, since the others were repaired in programs of its shapes; where the reference's
operators refuse it, it is repaired alone in the candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError, DumpFormatError, LeafKind, Phase, ProgramError
from padiff.program import Limits, execute

from .executed import disturbing, size_of
from .repaired import Repaired
from .result import Influence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Leaf, Lowered
    from padiff.program.primitives import Array

    from .by_weights import Regiven
    from .cause import Cause
    from .executed import Runs, Sink
    from .leaves import Leaves
    from .result import Edit, LeafDifference
    from .side import Side

_LIMITS = Limits(total_bytes=4 << 30, work=10**11, counts_anew=True)
"""Of each execution: ten seconds of one core. What takes more is not measured."""
_MOST = 5
"""Edits, and leaves, that are executed for: as many as a terminal shows."""
_EXECUTED = frozenset({LeafKind.PARAMETER.value, LeafKind.BUFFER.value, LeafKind.INPUT.value})
"""Kinds of leaf differences that a forward pass takes."""
_FORM = 1e-12
"""What moves a result by less of its size is another form of the same, and no fault: float64 rounds
by some 1e-16 in each operator, and functions that differ do so by 1e-9 at least."""
_UNMEASURED = Influence(relative_l2=None, max_abs=None)


def influences_of_edits(
    sides: tuple[Side, Side],
    cause: Cause,
    runs: Runs,
    results: Sequence[Sink],
    rounding: float = 0.0,
) -> tuple[Edit, ...]:
    """Return the edits of a proof with their influence on results; without those that have none.

    A repair may turn one form into another before it mends what is wrong, or make up for what was
    recorded of one side alone.

    Args:
        sides: The reference and the candidate.
        cause: The proof.
        runs: Executions of both programs.
        results: What they give.
        rounding: Within which all of these agree, of their size.
    """
    repaired = cause.repaired
    if repaired is None:
        return cause.edits
    measured = []
    for place, (edit, group) in enumerate(zip(cause.edits, cause.groups, strict=True)):
        found = _UNMEASURED
        if results and place < _MOST:
            found = _tried(partial(_influence_of, sides, repaired, group, runs, results))
        measured.append((replace(edit, influence=found), group))
    most = max(_FORM, rounding)
    needed = [one for one in measured if not _is_form(one[0].influence, most)]
    return tuple(edit for edit, _ in needed or measured)


def _is_form(influence: Influence | None, most: float) -> bool:
    moved = None if influence is None else influence.relative_l2
    return moved is not None and moved <= most


def _influence_of(
    sides: tuple[Side, Side],
    repaired: Repaired | Regiven,
    group: Sequence[int],
    runs: Runs,
    results: Sequence[Sink],
) -> Influence:
    """Measure what some exchanges do that are left open while all others are made."""
    is_whole = len(group) == len(repaired.made)
    if isinstance(repaired, Repaired) and repaired.is_reshaped(group) and not is_whole:
        try:
            return _influence_on_reference(sides[0], repaired, group, runs, results)
        except ProgramError:
            return _influence_on_candidate(repaired, group, runs, results)
    program, given = repaired.program(group)
    wanted = [sink.candidate for sink in results]
    if _is_cut_off(sides[1], program, _made_by(program, repaired.operators(group)), wanted):
        return _UNMEASURED
    made = None if is_whole else execute(program, given, wanted, limits=_LIMITS)
    moves = []
    for sink in results:
        known, found = runs.pair(sink, found=made)
        moves.append(_Move(known, found, partial(runs.scale, sink), sink.is_loss))
    return _influence(moves)


def _influence_on_reference(
    reference: Side, repaired: Repaired, group: Sequence[int], runs: Runs, results: Sequence[Sink]
) -> Influence:
    """Measure what a fault that changes shapes does in the reference's program."""
    if len(group) > 1:
        return _UNMEASURED
    program, given, readers = repaired.reference_with(group[0])
    ends = [(value, sink) for sink in results for value in (sink.reference, *sink.others)]
    wanted = [value for value, _ in ends]
    if _is_cut_off(reference, program, _made_by(program, readers), wanted):
        return _UNMEASURED
    found = execute(program, given, wanted, limits=_LIMITS)
    return _influence(
        _Move(runs.arrays[0][value], found[value], partial(runs.scale, sink), sink.is_loss)
        for value, sink in ends
    )


def _influence_on_candidate(
    repaired: Repaired, group: Sequence[int], runs: Runs, results: Sequence[Sink]
) -> Influence:
    """Measure what repairing a fault that changes shapes does, while all others stay."""
    others = [place for place in range(len(repaired.made)) if place not in group]
    program, given = repaired.program(others)
    made = execute(program, given, [sink.candidate for sink in results], limits=_LIMITS)
    moves = []
    for sink in results:
        (_, before), (_, after) = runs.pair(sink), runs.pair(sink, found=made)
        moves.append(_Move(before, after, partial(runs.scale, sink), sink.is_loss))
    return _influence(moves)


def _made_by(program: Lowered, operators: Collection[int]) -> set[int]:
    """Return the terms that operators make of others."""
    nodes = (node for node in program.nodes if node.operator in operators and node.operands)
    return {term for node in nodes for term in node.outputs}


def with_influences(
    differences: Iterable[LeafDifference],
    sides: tuple[Side, Side],
    leaves: Leaves,
    repaired: Repaired | Regiven | None,
    results: Sequence[Sink],
) -> Iterator[LeafDifference]:
    """Yield leaves that differ, those that a forward pass takes with their influence on results.

    Args:
        differences: The leaves.
        sides: The reference and the candidate.
        leaves: Of both.
        repaired: The candidate without faults of its function; None where there is no proof of
            them.
        results: The results of the model.
    """
    wanted = {sink.candidate: sink.is_loss for sink in results}
    measured = _Leaves(sides[1], leaves, repaired, wanted) if repaired and wanted else None
    count = 0
    for one in differences:
        if one.kind not in _EXECUTED:
            yield one
            continue
        count += 1
        found = _UNMEASURED
        if measured is not None and count <= _MOST:
            found = _tried(partial(measured.influence, one))
        yield replace(one, influence=found)


@dataclass(frozen=True, slots=True)
class _Move:
    """What a fault does to one result."""

    known: Array
    found: Array
    scale: Callable[[Array, Array], float]
    """Gives the size of the result by the magnitudes of the differences and its elements."""
    is_loss: bool


class _Leaves:
    """The repaired candidate, executed with leaves of its own."""

    def __init__(
        self,
        candidate: Side,
        leaves: Leaves,
        repaired: Repaired | Regiven,
        wanted: Mapping[int, bool],
    ) -> None:
        self._candidate, self._leaves, self._wanted = candidate, leaves, wanted
        self._repaired = repaired

    @cached_property
    def _program(self) -> tuple[Lowered, dict[int, Leaf]]:
        return self._repaired.program()

    @cached_property
    def _known(self) -> dict[int, Array]:
        return execute(*self._program, [*self._wanted], limits=_LIMITS)

    @cached_property
    def _disturbed(self) -> dict[int, Array]:
        operators = len(self._candidate.program.operators)
        errors = disturbing(operators, seed=1)
        return execute(*self._program, [*self._wanted], limits=_LIMITS, rounding=errors)

    def influence(self, difference: LeafDifference) -> Influence:
        """Execute with what the candidate holds of one leaf."""
        values = self._candidate.program.values
        own = [
            value
            for value in self._leaves.pairs
            if (values[value].name, values[value].kind) == (difference.candidate, difference.kind)
        ]
        program, given = self._program
        changed = {program.terms[value] for value in own}
        if not own or _is_cut_off(self._candidate, program, changed, [*self._wanted]):
            return _UNMEASURED
        given = {**given, **{value: self._candidate.recorded_leaf(value) for value in own}}
        known, found = self._known, execute(program, given, [*self._wanted], limits=_LIMITS)
        return _influence(
            _Move(known[value], found[value], partial(self._scale, value), is_loss)
            for value, is_loss in self._wanted.items()
        )

    def _scale(self, value: int, off: Array, known: Array) -> float:
        """Return the size that differences of a result are measured by."""
        return size_of(off, known, lambda: np.abs(self._disturbed[value] - known))


def _tried(measure: Callable[[], Influence]) -> Influence:
    """Return what is measured, if the execution is within its limits."""
    try:
        return measure()
    except (ProgramError, DumpFormatError, ConfigError):
        return _UNMEASURED


def _is_cut_off(
    side: Side, program: Lowered, changed: Collection[int], wanted: Sequence[int]
) -> bool:
    """Return whether results rest on recorded outcomes of what changed.

    Those of operators that are drawn or have no rule stay as they are, whatever goes into them.
    """
    moved = program.ahead(changed)
    behind = program.behind(program.terms[value] for value in wanted)
    needed = {term for place in behind for term in program.nodes[place].operands}
    needed.update(program.terms[value] for value in wanted)
    return any(
        not moved.isdisjoint(program.terms[value] for value in one.taken)
        and not needed.isdisjoint(program.terms[value] for value in one.outputs)
        for one in side.cuts
        if one.phase is not Phase.UPDATE
    )


def _influence(moves: Iterable[_Move]) -> Influence:
    """Return the most that any of the results is off, of its own size.

    A loss counts where nothing else moves: a mean of logits is small by chance.
    """
    largest = {False: (0.0, 0.0), True: (0.0, 0.0)}
    for move in moves:
        if move.known.shape != move.found.shape:
            return _UNMEASURED
        both = zip(largest[move.is_loss], _moved(move), strict=True)
        relative, maximum = map(max, both)
        largest[move.is_loss] = relative, maximum
    relative, maximum = largest[False] if largest[False][0] > _FORM else largest[True]
    return Influence(relative_l2=relative, max_abs=maximum)


def _moved(move: _Move) -> tuple[float, float]:
    """Return how far a result is off: of its own size, and the largest difference."""
    with np.errstate(all="ignore"):
        one, two = (array.astype(np.complex128) for array in (move.known, move.found))
        is_alike = (one == two) | (np.isnan(one) & np.isnan(two))
        off = np.where(is_alike, 0.0, np.abs(one - two))
        off = np.where(np.isnan(off), np.inf, off)
        finite = np.count_nonzero(np.isfinite(one))
        size = move.scale(off, move.known) * np.sqrt(finite) if one.any() else 0.0
        moved = float(np.linalg.norm(off))
    relative = moved / size if size else np.inf if moved else 0.0
    return float(relative), float(np.max(off, initial=0.0))
