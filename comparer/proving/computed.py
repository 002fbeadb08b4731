"""Constants of one side that the other computes, or that are the rounding of a number.

An exporter folds what follows from weights alone, such as embeddings of positions and tables of a
rotary embedding, and writes numbers as tensors of few bits. Such a constant is no difference of
function: the other side's elements stand for it where they are the same but for rounding.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from padiff.dumpfile import DumpFormatError, LeafKind, ProgramError
from padiff.program import UNIT_ROUNDOFF, Image, Limits, execute, is_near_table, made_of
from padiff.program.primitives import Kind

from .affine import FIXED, fixed_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from padiff.program import Leaf
    from padiff.program.primitives import Array, Spec

    from .side import Side

_LIMITS = Limits(total_bytes=1 << 30, work=10**10)
_MOST_NUMBERS = 4
"""Elements of a constant that is taken for so many settings, such as a range and two factors."""
_WEIGHTS = frozenset({LeafKind.PARAMETER})
"""Those that are no tables."""


def exact_constants(side: Side, values: Iterable[int], other: Side) -> dict[int, Array]:
    """Return the numbers that the elements of small constants are the rounding of.

    A number of the other program, its reciprocal, its root, or one of few decimal digits. None of
    them is off by more than the rounding of the constant's dtype. A constant of which any element
    is no such rounding is left out. A buffer of one number without partner, such as the scale of an
    embedding, is one, too.
    """
    pool: list[float] | None = None
    found: dict[int, Array] = {}
    for value in values:
        end = side.program.values[value]
        if end.kind not in (LeafKind.CONSTANT, LeafKind.BUFFER):
            continue
        most = _MOST_NUMBERS if end.kind is LeafKind.CONSTANT else 1
        if not 1 <= math.prod(end.shape) <= most:
            continue
        elements = side.recorded.elements(value)
        unit = UNIT_ROUNDOFF.get(end.dtype)
        if elements is None or unit is None or "complex" in end.dtype:
            continue
        pool = list(_numbers(other)) if pool is None else pool
        exact = [_exact_number(float(one), unit, pool) for one in elements.flat]
        if None not in exact:
            found[value] = np.array(exact).reshape(end.shape)
    return found


def _exact_number(rounded: float, unit: float, pool: Iterable[float]) -> float | None:
    """Return the number that another one is the rounding of, if one is known."""
    if not math.isfinite(rounded) or not rounded:
        return None
    near = [one for one in pool if abs(one - rounded) <= unit * abs(rounded)]
    near = near or _written(rounded, unit)
    return min(near, key=lambda one: abs(one - rounded), default=None)


def _written(rounded: float, unit: float) -> list[float]:
    """Return the number of few digits that another one is the rounding of, if there is one.

    Of a dtype's decimal digits one less is asked for: a number that was computed has them all.
    """
    digits = int(-math.log10(unit)) - 1
    written = float(f"{rounded:.{max(digits, 1)}g}")
    return [written] if abs(written - rounded) <= unit * abs(rounded) else []


def is_unrounded(side: Side, value: int) -> bool:
    """Return whether a constant holds only numbers that no dtype rounds.

    Whole numbers, infinities, and the largest numbers of its dtype: a mask.
    """
    end, info = side.program.values[value], side.recorded.info(value)
    if info is not None and info.statistics.l2 == 0:
        return True
    elements = side.recorded.elements(value) if end.kind is LeafKind.CONSTANT else None
    if elements is None or end.dtype not in UNIT_ROUNDOFF or "complex" in end.dtype:
        return False
    largest = float(ml_dtypes.finfo(elements.dtype).max)  # type: ignore[no-untyped-call]
    wide = np.abs(elements.astype(np.float64))
    whole = (wide == np.rint(wide)) & (wide * UNIT_ROUNDOFF[end.dtype] < 1)
    return bool(np.all(whole | ~np.isfinite(wide) | (wide == largest)))


def _numbers(side: Side) -> Iterator[float]:
    """Yield the numbers of a program, and what is made of one alone."""
    for node in side.lowered.nodes:
        number = dict(node.attributes).get("value") if node.primitive == "full" else None
        if isinstance(number, float) and math.isfinite(number) and number:
            root = math.sqrt(abs(number))
            yield from (number, 1 / number, root, 1 / root)


@dataclass(frozen=True, slots=True)
class Computed:
    """What one side computes from fixed leaves, where the other holds the outcome."""

    values: dict[int, Image]
    """Of what of the reference values of the candidate are made, by their ids."""
    open: tuple[set[int], set[int]]
    """The leaves without a partner that something else is computed from, of both sides."""
    unequal: tuple[set[int], set[int]]
    """Those and the ones that only a formula makes of something of the other side."""


def computed_values(
    sides: tuple[Side, Side],
    alone: tuple[set[int], set[int]],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
) -> Computed:
    """Find where one side computes what the other holds in a leaf, or in a part of one.

    One port computes the tables of a rotary embedding in each call, another one takes rows of a
    buffer. Only what follows from weights, buffers and constants is looked at, whatever the inputs
    are, and only behind leaves without a partner.
    """
    known, found = (_Fixed(side, own) for side, own in zip(sides, alone, strict=True))
    specs = known.specs_of_open() | found.specs_of_open()
    tables = known.tables() if specs else []
    pool: dict[Spec, list[int]] = defaultdict(list)
    # What is computed comes first: where both hold the same but for rounding, it is what is meant.
    for term in sorted(known.terms_of(specs), key=known.side.lowered.leaves.__contains__):
        pool[known.specs[term]].append(term)
    wanted = [*found.terms_of(specs)]
    images: dict[int, Image] = {}
    if wanted and (pool or tables):
        try:
            known.execute([*{*chain(*pool.values()), *tables}], given[0])
            found.execute(wanted, given[1])
        except (ProgramError, DumpFormatError):
            return Computed({}, alone, alone)
        units = known.unit, found.unit

        def find_image(term: int) -> bool:
            is_open = bool(found.rests[term])
            others = (one for one in pool[found.specs[term]] if is_open or known.rests[one])
            image = next((one for one in others if _is_same(known, one, found, term)), None)
            if image is not None:
                images[term] = Image(image)
                return True
            others = (one for one in tables if is_open or known.rests[one])
            made = made_of(
                (found.arrays[term], units[1](term)),
                ((one, known.arrays[one], units[0](one)) for one in others),
            )
            first = next(made, None)
            if first is not None:
                images[term] = first
            return first is not None

        found.follow(cut=frozenset(wanted), is_settled=find_image)
        equal = {term: one for term, one in images.items() if one == Image(one.value)}
        cuts = frozenset(chain(*pool.values(), tables)), frozenset(wanted)
        unequal = _left_open(known, found, equal, cuts)
        left = _left_open(known, found, images, cuts)
    else:
        left = unequal = known.leaking(), found.leaking()
    values = {
        found.values[term]: replace(one, value=known.values[one.value])
        for term, one in images.items()
    }
    return Computed(values, left, unequal)


def _left_open(
    known: _Fixed,
    found: _Fixed,
    images: Mapping[int, Image],
    cuts: tuple[frozenset[int], frozenset[int]],
) -> tuple[set[int], set[int]]:
    """Return the leaves without a partner that no image stands for, of both sides."""
    settled = {one.value for one in images.values()}
    known.follow(
        cut=cuts[0],
        is_settled=lambda term: any(
            known.specs[term] == known.specs[one] and _is_same(known, one, known, term)
            for one in settled
        ),
    )
    found.follow(cut=cuts[1], is_settled=images.__contains__)
    return known.leaking(), found.leaking()


class _Fixed:
    """What one side computes before it takes any input."""

    def __init__(self, side: Side, alone: set[int]) -> None:
        """Follow the leaves without a partner."""
        self.side, self.specs = side, side.lowered.specs
        lowered = side.lowered
        self._alone = {lowered.terms[value]: value for value in alone}
        self._fixed = fixed_terms(side, FIXED)
        self.values = lowered.values
        self.rests: dict[int, frozenset[int]] = {}
        """The leaves without a partner that each term rests on, by their terms."""
        self.arrays: dict[int, Array] = {}
        """What was computed, by term."""
        self.follow()

    def follow(
        self,
        *,
        cut: frozenset[int] = frozenset(),
        is_settled: Callable[[int], bool] = lambda _term: True,
    ) -> None:
        """Find what each term rests on.

        Args:
            cut: Terms that may be known.
            is_settled: Asked of them in order; nothing behind one that is settled rests on what is
                before it.
        """
        nothing: frozenset[int] = frozenset()

        def note(term: int, rests: frozenset[int]) -> None:
            self.rests[term] = rests
            if term in cut and is_settled(term):
                self.rests[term] = nothing

        for term in self.side.lowered.leaves:
            note(term, frozenset({term}) if term in self._alone else nothing)
        for node in self.side.lowered.nodes:
            rests = nothing.union(*(self.rests[term] for term in node.operands))
            for term in node.outputs:
                note(term, rests if term in self._fixed else nothing)

    def terms_of(self, specs: set[Spec]) -> list[int]:
        """Return the terms of some kinds and shapes that were computed, or have no partner."""
        leaves = self.side.lowered.leaves
        return [
            term
            for term in self.values
            if term in self._fixed
            and self.specs[term] in specs
            and (term not in leaves or term in self._alone)
        ]

    def tables(self) -> list[int]:
        """Return the terms of real numbers that rest on no weights."""
        made = fixed_terms(self.side, FIXED - _WEIGHTS)
        return [
            term
            for term in self.values
            if term in made and self.specs[term].count > 1 and self.specs[term].kind is Kind.FLOAT
        ]

    def unit(self, term: int) -> float:
        """Return the unit roundoff of the dtype of a term; zero of whole numbers."""
        return UNIT_ROUNDOFF.get(self.side.program.values[self.values[term]].dtype, 0.0)

    def specs_of_open(self) -> set[Spec]:
        """Return kinds and shapes of what rests on leaves without a partner; numbers are none."""
        return {
            self.specs[term]
            for term, rests in self.rests.items()
            if rests and self.specs[term].count > 1 and self.specs[term].kind is not Kind.COMPLEX
        }

    def execute(self, terms: list[int], given: Mapping[int, Leaf]) -> None:
        """Compute terms from what the leaves hold."""
        ids = [self.values[term] for term in terms]
        made = execute(self.side.lowered, given, ids, limits=_LIMITS)
        self.arrays = {term: made[value] for term, value in zip(terms, ids, strict=True)}

    def leaking(self) -> set[int]:
        """Return the leaves without a partner that results, or what takes inputs, rest on."""
        lowered = self.side.lowered
        taken = {lowered.terms[one] for one in self.side.program.outputs}
        taken.update(lowered.terms[value] for one in self.side.cuts for value in one.taken)
        for node in lowered.nodes:
            if not self._fixed.issuperset(node.outputs):
                taken.update(node.operands)
        return {self._alone[leaf] for term in taken for leaf in self.rests.get(term, ())}


def _is_same(known: _Fixed, one: int, found: _Fixed, two: int) -> bool:
    """Return whether two terms hold the same: as recorded, or as computed but for rounding."""
    ends = (known, known.values[one]), (found, found.values[two])
    infos = [fixed.side.recorded.info(value) for fixed, value in ends]
    contents = [None if info is None else (info.digest, info.dtype) for info in infos]
    if contents[0] is not None and contents[0] == contents[1]:
        return True
    dtypes = (fixed.side.program.values[value].dtype for fixed, value in ends)
    unit = max(UNIT_ROUNDOFF.get(dtype, 0.0) for dtype in dtypes)
    return is_near_table(found.arrays[two], known.arrays[one], unit)
