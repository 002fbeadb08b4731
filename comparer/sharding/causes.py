"""What went wrong between ranks where something diverged first: another reading that fits says so.

The verdict is that of the expected layout. Here the others are tried, one row of a table each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.comparer.facts.draws import draws_random_numbers
from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.judging.metrics import measure
from padiff.comparer.judging.unmeasured import arrays_of
from padiff.comparer.result import Kind, Verdict
from padiff.dumpfile import Role
from padiff.pairing.rule import Rule

from .assembling import (
    PARTIAL_MEAN,
    PARTIAL_SUM,
    REPLICATE,
    assembled,
    coordinates,
    own_region,
    split_axis,
)
from .knownlayout import LayoutEvidence
from .logicalstep import LogicalStep
from .verdicts import replicas_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from padiff.comparer.judging.judge import Judgement
    from padiff.comparer.locating.locate import Located
    from padiff.comparer.result import Divergence, JudgedPair, Tolerance
    from padiff.dumpfile import Layout, RecordInfo, StepReader

    from .knownlayout import KnownLayout

Array = npt.NDArray[Any]
_GRADIENTS = frozenset({Role.WEIGHT_GRAD, Role.GRAD_INPUT, Role.GRAD_OUTPUT})
_TABLE = 2
"""Axes of a table of words."""
_MOST_RECORDS = 4
"""Records of one module that are looked at."""
_MOST_ORDERS = 5
"""Shards that are tried in all orders."""
_MOST_RUNS = 8
"""Runs in which a split axis is tried to be cut."""


def add_rank_causes(
    located: Located, judgement: Judgement, sides: tuple[StepReader, StepReader]
) -> Located:
    """Return for each origin what another reading of the ranks' parts explains."""
    if not any(isinstance(side, LogicalStep) for side in sides):
        return located
    bad: dict[tuple[int, object], list[int]] = {}
    for place, pair in remarkable(judgement.pairs):
        end = pair.candidate
        if pair.verdict is Verdict.DIVERGED and end is not None and pair.reference is not None:
            bad.setdefault((end.module, end.address.phase), []).append(place)

    def explained(divergence: Divergence) -> Divergence:
        end = divergence.pair.candidate
        if divergence.kind is not Kind.ORIGIN or end is None:
            return divergence
        places = bad.get((end.module, divergence.phase), [])[:_MOST_RECORDS]
        lines = [
            line
            for place in places
            for which, side in enumerate(sides)
            if isinstance(side, LogicalStep)
            for line in _lines(place, judgement, sides, which)
        ]
        ends = divergence.pair.reference, divergence.pair.candidate
        lines += [
            line
            for side, one in zip(sides, ends, strict=True)
            if isinstance(side, LogicalStep) and one is not None
            for line in side.terms_used_in(one.address.module)
        ]
        return replace(divergence, evidence=(*dict.fromkeys(lines), *divergence.evidence))

    return replace(located, divergences=tuple(map(explained, located.divergences)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A record that diverged, as its ranks have it."""

    side: LogicalStep
    record: RecordInfo
    known: KnownLayout
    parts: dict[int, Array]
    other: str
    """Name of the other side, in words."""
    expected: Array
    """The whole, as the other side has it."""
    tolerance: Tolerance

    @property
    def layout(self) -> Layout:
        return self.known.layout

    def whole(self, placements: tuple[str, ...]) -> Array:
        """Put the parts together by other placements."""
        return assembled(
            replace(self.layout, placements=placements),
            lambda rank: self.parts[rank],
            next(iter(self.parts.values())).dtype,
            divisor=self.known.divisor,
        )

    def distance(self, found: Array) -> float | None:
        """Return how far a whole is from the expected one; None if they do not agree."""
        metrics = measure(self.expected, found, self.tolerance)
        return None if metrics.mismatched else metrics.max_abs or 0.0

    def off(self, found: Array) -> float:
        """Return how far a whole is from the expected one."""
        return measure(self.expected, found, self.tolerance).max_abs or 0.0

    def instead(self, place: int, placement: str) -> tuple[str, ...]:
        """Return the placements with another one along a dimension."""
        placements = self.layout.placements
        return (*placements[:place], placement, *placements[place + 1 :])

    @property
    def is_gradient(self) -> bool:
        return self.record.role in _GRADIENTS

    def is_of_rows(self, dim: str) -> bool:
        return dim in self.side.layouts.rows


def _lines(
    place: int, judgement: Judgement, sides: tuple[StepReader, StepReader], which: int
) -> Iterator[str]:
    """Yield what is to be said of one record of one side."""
    case = _case(judgement.pairs[place], judgement.records[place], sides, which)
    if case is None:
        return
    name = f"{case.record.role}{case.record.slot}: "
    for at, (dim, size) in enumerate(
        zip(case.layout.mesh.dims, case.layout.mesh.sizes, strict=True)
    ):
        for read in _READINGS:
            found = read(case, at, dim, size)
            if found:
                yield name + found
                break
        if dim in case.known.differing:
            yield name + _differing(case, dim)
    offset = _offset(case)
    if offset:
        yield name + offset


def _case(
    pair: JudgedPair,
    records: tuple[tuple[int, ...], int | None],
    sides: tuple[StepReader, StepReader],
    which: int,
) -> _Case | None:
    """Read what a side's ranks have of a record, and what the other side has; None if it cannot."""
    wanted, found = records
    side, tolerance = sides[which], pair.tolerance
    own = wanted if which == 0 else (() if found is None else (found,))
    if len(own) != 1 or not isinstance(side, LogicalStep) or tolerance is None or found is None:
        return None
    known, parts = side.layout_of(own[0]), side.parts_of(own[0])
    if known is None or not parts or pair.candidate_layout not in {"", "identity"}:
        return None
    rule = Rule.parse(pair.layout)
    if which == 0:
        if not rule.is_identity:
            return None
        expected = sides[1].array(sides[1].index.records[found])
    else:
        references = [sides[0].index.records[one] for one in wanted]
        if any(one.value is None for one in references):
            return None
        expected = rule.apply(arrays_of(references, sides[0]), known.layout.shape)
    return _Case(
        side=side,
        record=side.index.records[own[0]],
        known=known,
        parts=parts,
        other=("the candidate", "the reference")[which],
        expected=expected.reshape(known.layout.shape),
        tolerance=tolerance,
    )


def _not_reduced(case: _Case, at: int, dim: str, size: int) -> str:
    """Report that terms were taken for the whole: their sum, or mean, is what is expected."""
    if case.layout.placements[at] != REPLICATE or dim not in case.known.differing:
        return ""
    one = case.whole(case.layout.placements)
    for placement, word in ((PARTIAL_SUM, "sum"), (PARTIAL_MEAN, "mean")):
        whole = case.whole(case.instead(at, placement))
        found, note = case.distance(whole), ""
        bias = _bias(case) if found is None and word == "sum" else None
        if bias is not None:
            found = case.distance((whole - (size - 1) * bias).astype(whole.dtype))
            note = ", with the bias counted once,"
        if found is None:
            continue
        agrees = f"the {word} of the {size} ranks{note} agrees with {case.other} ({found:.1e})"
        if case.is_gradient:
            return f"not reduced over {dim}: {agrees}"
        return (
            f"Partial({word}) over {dim}, not reduced: {agrees}; one rank alone is off by "
            f"{case.off(one):.2g}; expected R ({case.known.told})"
        )
    return ""


def _bias(case: _Case) -> Array | None:
    """Return the bias that each rank adds to an output."""
    if case.record.role is not Role.OUTPUT:
        return None
    for record in case.side.index.records:
        if (record.module, record.role, record.slot) == (case.record.module, Role.WEIGHT, ".bias"):
            bias = case.side.array(record)
            return bias if bias.shape == case.expected.shape[-1:] else None
    return None


def _counted_again(case: _Case, at: int, dim: str, size: int) -> str:
    """Report that all ranks have a multiple of what is expected, or a part of it."""
    if dim in case.known.differing or split_axis(case.layout.placements[at]) is not None:
        return ""
    whole = case.whole(case.layout.placements).astype(np.float64)
    dtype = case.expected.dtype
    if case.distance((whole / size).astype(dtype)) is not None:
        is_summed = case.is_gradient and case.is_of_rows(dim)
        how = f"summed, not averaged over {dim}" if is_summed else "reduced twice"
        return f"{size} times {case.other} on all {size} ranks of {dim}: {how}"
    if case.distance((whole * size).astype(dtype)) is not None:
        return (
            f"1/{size} of {case.other} on all {size} ranks of {dim}: averaged over {dim}, "
            "where a sum is expected"
        )
    bias = _bias(case)
    if bias is not None and case.distance(((whole - bias) / size + bias).astype(dtype)) is not None:
        return (
            f"{size} times {case.other} on all {size} ranks of {dim}, but for the bias: reduced "
            "twice"
        )
    return ""


def _in_another_order(case: _Case, at: int, dim: str, size: int) -> str:
    """Report that the shards are the expected ones, on other ranks or cut in runs."""
    axis = split_axis(case.layout.placements[at])
    if axis is None:
        return ""
    if size <= _MOST_ORDERS:
        for order in permutations(range(size)):
            if (
                order != tuple(range(size))
                and case.distance(_reordered(case, at, order)) is not None
            ):
                return f"shards of axis {axis} lie in another order on the ranks of {dim}"
    for runs in range(2, _MOST_RUNS + 1):
        placements = case.instead(at, f"S({axis};{runs})")
        is_even = case.expected.shape[axis] % (runs * size) == 0
        if is_even and case.distance(case.whole(placements)) is not None:
            return (
                f"each rank of {dim} has its part of each of {runs} runs of axis {axis}: "
                f"S({axis};{runs}) over {dim} agrees with {case.other}; if it is meant to lie "
                "like that, say so by --layout"
            )
    return ""


def _reordered(case: _Case, at: int, order: tuple[int, ...]) -> Array:
    """Put the shards together as if the ranks along a dimension stood in another order."""
    ranks = {coordinate: rank for rank, coordinate in coordinates(case.layout)}
    whole = np.zeros_like(case.expected, dtype=next(iter(case.parts.values())).dtype)
    for coordinate in ranks:
        other = (*coordinate[:at], order[coordinate[at]], *coordinate[at + 1 :])
        where = own_region(case.layout, coordinate)
        part = case.parts[ranks[other]]
        if whole[where].shape == part.shape:
            whole[where] = part
    return whole


_READINGS: tuple[Callable[[_Case, int, str, int], str], ...] = (
    _not_reduced,
    _counted_again,
    _in_another_order,
)
"""What is tried along each dimension of a mesh, the first that fits is said."""


def _differing(case: _Case, dim: str) -> str:
    """Describe how far replicas are apart, and why where randomness tells."""
    wholes = replicas_of(replace(case.known, differing=(dim,)), case.parts)
    (first, base), *others = wholes.items()
    rank, apart = max(
        ((rank, measure(base, whole, case.tolerance).max_abs or 0.0) for rank, whole in others),
        key=lambda one: one[1],
    )
    span = case.side.span
    line = f"replicas over {dim} differ: rank {rank % span} from rank {first % span} by {apart:.2g}"
    is_drawn = draws_random_numbers(case.side.index, case.record)
    if case.record.role is Role.OUTPUT and case.known.told is LayoutEvidence.MADE and is_drawn:
        line += "; what went in is equal: they drew other random numbers, from other seeds"
    return line


def _offset(case: _Case) -> str:
    """Report that words were looked up some rows beside their own."""
    index, record = case.side.index, case.record
    if record.role is not Role.OUTPUT or record.call is None:
        return ""
    weight = next(
        (
            one
            for one in index.records
            if (one.module, one.role, one.slot) == (record.module, Role.WEIGHT, ".weight")
        ),
        None,
    )
    words = next(
        (one for one in index.records if one.call == record.call and one.role is Role.INPUT), None
    )
    if weight is None or words is None or words.value is None or len(weight.shape) != _TABLE:
        return ""
    if not index.values[words.value].dtype.startswith("int"):
        return ""
    table, asked = case.side.array(weight), case.side.array(words).reshape(-1)
    found = case.whole(case.layout.placements)
    if found.shape[-1:] != table.shape[1:] or found.size != asked.size * table.shape[1]:
        return ""
    return _shifted(table, asked, found.reshape(asked.size, -1))


def _shifted(table: Array, asked: Array, found: Array) -> str:
    """Compare rows that were found with those beside the ones that were asked for."""
    if asked.min(initial=0) < 0 or asked.max(initial=0) >= len(table):
        return ""
    wrong = ~(found == table[asked]).all(axis=1)
    for shift in (1, -1, 2, -2):
        beside = asked[wrong] + shift
        is_there = (beside >= 0) & (beside < len(table))
        hit = (found[wrong] == table[np.clip(beside, 0, len(table) - 1)]).all(axis=1) & is_there
        is_lost = ~found[wrong].any(axis=1)
        if hit.any() and (hit | is_lost).all():
            return (
                f"{int(wrong.sum())} of {len(asked)} words got the row {shift:+d} beside their "
                "own, or none: the offset of a rank's part of the vocabulary is wrong"
            )
    return ""
