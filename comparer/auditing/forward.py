"""Audits values: are recorded elements what their operators make of recorded elements?

Whether y is x W is seen, with all but certainty, by whether y R is x (W R) for a few random
columns R of ones and minus ones (Freivalds, Probabilistic machines can use less running time, IFIP
1977): that costs next to nothing beside the product. The rounding of the elements of one row of y
adds up as that of independent errors. Columns of R are divided by the size of those of W, so that
all elements of a row weigh as much as they round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ProgramError
from padiff.program import (
    EXACT,
    VOCABULARY,
    KnownErrors,
    execute,
    execute_with_spread,
    in_blocks,
    of_elements,
    own_errors,
    unit_of_terms,
)

from .limits import BRIEF_RUNS, LARGEST_ELEMENT, LARGEST_ERROR, MORE_RUNS, RUNS, UNDERFLOW
from .result import Check, Reason
from .sharing import share_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.program import Leaf, Lowered, Node, Value
    from padiff.program.primitives import Array

    from .sharing import Answers
    from .slices import KnownProgram, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How far a recorded value is from its program."""

    error: float
    """Root mean square over the elements, each in units of its own rounding."""
    worst: float
    """The largest of them."""
    largest: float
    """The largest absolute error."""
    operators: int
    """How many operators were executed."""
    reason: Reason = Reason.NONE
    factor: float | None = None

    @property
    def is_sound(self) -> bool:
        """Whether rounding explains the error."""
        return self.is_within(1.0)

    def is_within(self, share: float) -> bool:
        """Return whether the error is within a share of what rounding explains."""
        return self.error <= share * LARGEST_ERROR and self.worst <= share * LARGEST_ELEMENT


@np.errstate(all="ignore")  # elements may be anything: infinity is an answer
def measure_value(known: KnownProgram, value: Value, answers: Answers[Measured]) -> Measured | None:
    """Measure a recorded value against its program.

    Args:
        known: The program.
        value: Of it.
        answers: To the same question, asked before.

    Returns:
        None if no primitive makes it: an operator only handed elements on.

    Raises:
        ProgramError: Elements lack on the way, or the program cannot be executed.
        DumpFormatError: Elements are damaged.
    """
    part = known.part_behind(value.id)
    if not part.nodes:
        return None
    key = share_key(known, Check.FORWARD, value.id, [part])
    return answers.get(key, lambda: _measure(known, part, value.dtype, answers))


def _measure(known: KnownProgram, part: Part, dtype: str, answers: Answers[Measured]) -> Measured:
    projected = project(known, part) if answers.is_brief else None
    if projected is not None and projected.is_sound:
        return Measured(
            error=projected.error,
            worst=projected.worst,
            largest=projected.largest,
            operators=part.operators,
        )
    form = tuple(node.primitive for node in part.nodes)
    is_late = form in answers.unexplained
    expected = None if is_late else _with_expected_errors(known, part, dtype, answers)
    if expected is not None and expected.is_sound:
        return expected
    found = _with_random_errors(known, part, dtype, answers)
    if found.is_sound:
        if answers.is_brief:
            answers.unexplained.add(form)
        return found
    expected = _with_expected_errors(known, part, dtype, answers) if is_late else None
    return found if expected is None or not expected.is_sound else expected


def _with_expected_errors(
    known: KnownProgram, part: Part, dtype: str, answers: Answers[Measured]
) -> Measured | None:
    """Measure in units of the expected errors; None where they are not all of them.

    The least that rounding does is enough to call a value sound, where only that is asked for.
    """
    is_brief = answers.is_brief
    found = _measure_in_pieces(known, part, dtype, is_brief=is_brief)
    if found is not None:
        return found
    expected = execute_with_spread(known.lowered, known.leaves(part), part.wanted, known.units)
    if not (is_brief or expected.is_complete):
        return None
    recorded = known.elements(part.wanted)
    return _measured(recorded, expected.result, expected.errors, dtype, part.operators)


def _with_random_errors(
    known: KnownProgram, part: Part, dtype: str, answers: Answers[Measured]
) -> Measured:
    """Measure in units of what random errors do, and say what the error looks like."""
    recorded, exact = known.elements(part.wanted), known.compute(part)
    squares, done = np.zeros(exact.shape), 0
    alike: KnownErrors | None = None
    for runs in (*((BRIEF_RUNS,) if answers.is_brief else ()), RUNS, MORE_RUNS):
        if runs == MORE_RUNS:  # equal elements round alike, and their errors add up
            squares, done, alike = np.zeros(exact.shape), 0, KnownErrors()
        for seed in range(done, runs):
            squares += _squares_apart(known.compute(part, seed=seed, alike=alike), exact)
        done = runs
        spread = np.sqrt(squares / runs)
        found = _measured(recorded, exact, spread, dtype, part.operators)
        # More runs may say that the unit is smaller, but not by more than this.
        if found.is_within(math.sqrt(min(runs / RUNS, 1.0))):
            return found
    if known.rests_on_ties(part):
        return replace(found, reason=Reason.TIED)
    wide = _wide(recorded)
    goal = exact.astype(wide.dtype, copy=False)
    reason, factor = _reason(wide, goal, _unit(goal, spread, recorded, dtype), dtype)
    return replace(found, reason=reason, factor=factor)


def _measure_in_pieces(
    known: KnownProgram, part: Part, dtype: str, *, is_brief: bool
) -> Measured | None:
    """Measure a value piece by piece; None where it is not cut, or its spread is not known whole.

    Where only soundness is asked for, and each element follows from one of each operand, writing
    the result is all the rounding that most elements need; that of the others is computed.
    """
    pieces = known.pieces(part)
    if pieces is None or dtype not in _FORMATS:
        return None
    recorded, leaves = known.as_recorded([part.wanted]), known.as_recorded(pieces.taken)
    if recorded is None or leaves is None or "complex" in dtype:
        return None
    sums = _Sums()
    for lowered, own, places in pieces.over(leaves):
        wide = recorded[part.wanted][places[part.wanted]].astype(np.float64)
        if is_brief and _measure_elements(sums, known, lowered, own, part.wanted, wide, dtype):
            continue
        expected = execute_with_spread(lowered, own, part.wanted, known.units)
        if not (is_brief or expected.is_complete):
            return None
        for found, goal, moved in in_blocks(wide, expected.result, expected.errors):
            sums.add(*_ratios(found, goal, np.maximum(moved, _written(goal, dtype)), dtype))
    return sums.measured(part.operators)


def _measure_elements(
    sums: _Sums,
    known: KnownProgram,
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    wanted: int,
    recorded: Array,
    dtype: str,
) -> bool:
    """Add up the errors of a piece, each at most as large as it is.

    Returns:
        Whether each element follows from one of each operand; else nothing is added.
    """
    if of_elements(lowered, leaves, wanted, 1) is None:
        return False
    goal = execute(lowered, leaves, [wanted])[wanted]
    error, ratio = _ratios(recorded, goal, _written(goal, dtype), dtype)
    doubtful = ratio > LARGEST_ERROR
    count = int(np.count_nonzero(doubtful))
    program = of_elements(lowered, leaves, wanted, count) if count else None
    if program is not None:
        arrays = {value: one() if callable(one) else one for value, one in leaves.items()}
        own = {value: one[doubtful] if one.ndim else one for value, one in arrays.items()}
        spread = execute_with_spread(program, own, wanted, known.units).errors
        units = np.maximum(spread, _written(goal[doubtful], dtype))
        ratio[doubtful] = _ratios(recorded[doubtful], goal[doubtful], units, dtype)[1]
    sums.add(error, ratio)
    return True


def _squares_apart(one: Array, other: Array) -> Array:
    with np.errstate(all="ignore"):
        # Whole numbers count as the floats that they are compared as.
        apart = one - other if one.dtype.kind in "fc" else one.astype(float) - other.astype(float)
        if apart.dtype.kind == "c":
            apart = np.abs(apart)
        return np.asarray(np.square(apart))


def _measured(recorded: Array, exact: Array, spread: Array, dtype: str, operators: int) -> Measured:
    """Compare recorded elements with computed ones, in units of what rounding does to each.

    Args:
        recorded: Any dtype.
        exact: The same in float64, or exact integers.
        spread: How far random errors move each element.
        dtype: The recorded dtype.
        operators: How many operators were executed.
    """
    wide = _wide(recorded)
    exact = exact.astype(wide.dtype, copy=False)
    sums = _Sums()
    for found, goal, moved in in_blocks(wide, exact, spread):
        sums.add(*_ratios(found, goal, _unit(goal, moved, recorded, dtype), dtype))
    return sums.measured(operators)


def _ratios(found: Array, goal: Array, unit: Array, dtype: str) -> tuple[Array, Array]:
    """Return the absolute errors of recorded elements, and the same in units of their rounding."""
    with np.errstate(all="ignore"):
        error = np.abs(found - goal)
        ratio = error / unit
    ratio[error == 0] = 0.0
    if not np.isfinite(error.max(initial=0.0)):  # then all elements of both are finite
        trouble = ~np.isfinite(found) | ~np.isfinite(goal)
        same = (found == goal) | (np.isnan(found) & np.isnan(goal))
        same |= np.abs(goal) > _largest(dtype)
        ratio[trouble] = np.where(same[trouble], 0.0, np.inf)
        error[trouble] = 0.0
    return error, ratio


@dataclass(slots=True)
class _Sums:
    """The errors of some elements, added up."""

    count: int = 0
    squares: float = 0.0
    worst: float = 0.0
    largest: float = 0.0

    def add(self, error: Array, ratio: Array) -> None:
        """Add elements, by what ``_ratios`` returns of them."""
        self.count += ratio.size
        self.squares += float(np.vdot(ratio, ratio))
        self.worst = float(np.maximum(self.worst, ratio.max(initial=0.0)))
        self.largest = float(np.maximum(self.largest, error.max(initial=0.0)))

    def measured(self, operators: int) -> Measured:
        """Return what they amount to."""
        return Measured(
            error=math.sqrt(self.squares / self.count) if self.count else 0.0,
            worst=self.worst,
            largest=self.largest,
            operators=operators,
        )


def _unit(goal: Array, spread: Array, recorded: Array, dtype: str) -> Array:
    """Return what rounding does to each element.

    What does not round at all still rounds when it is written; and numbers near zero may be
    flushed to it.
    """
    return np.maximum(spread, _written(goal, dtype)) if recorded.dtype.kind in "fc" else spread


def _wide(recorded: Array) -> Array:
    """Return recorded elements as they are compared."""
    dtype = np.complex128 if recorded.dtype.kind == "c" else np.float64
    return recorded.astype(dtype, copy=False)


_FORMATS = {  # largest number, unit roundoff
    "float64": (1.8e308, 2.0**-53),
    "float32": (3.4028235677973366e38, 2.0**-24),
    "float16": (65520.0, 2.0**-11),
    "bfloat16": (3.3961775292304957e38, 2.0**-8),
    "float8_e4m3fn": (464.0, 2.0**-4),
    "float8_e5m2": (61440.0, 2.0**-3),
    "complex64": (3.4028235677973366e38, 2.0**-24),
    "complex128": (1.8e308, 2.0**-53),
}
"""IEEE 754-2019 and its relatives; what is above the first number rounds to infinity."""


def _written(goal: Array, dtype: str) -> Array:
    """Return what writing numbers in a dtype rounds at most.

    Raises:
        ProgramError: Nothing is known of the dtype.
    """
    if dtype not in _FORMATS:
        raise ProgramError(f"cannot audit: expected a dtype of {list(_FORMATS)}, found {dtype!r}")
    return np.abs(goal) * _FORMATS[dtype][1] + UNDERFLOW[dtype]


def _largest(dtype: str) -> float:
    return _FORMATS[dtype][0] if dtype in _FORMATS else np.inf


def _reason(wide: Array, goal: Array, unit: Array, dtype: str) -> tuple[Reason, float | None]:
    """Return what an error looks like, and the factor if it is one."""
    finite = np.isfinite(wide) & np.isfinite(goal)
    if (~np.isfinite(wide) & np.isfinite(goal)).any():
        return Reason.NONFINITE, None
    have, want, unit = wide[finite], goal[finite], unit[finite]
    if not have.any():
        return Reason.ZERO, None
    square = float(np.vdot(want, want).real)
    factor = float(np.vdot(want, have).real) / max(square, 1e-300)
    with np.errstate(all="ignore"):
        left = np.sqrt(np.mean((np.abs(have - factor * want) / np.maximum(unit, 1e-300)) ** 2))
    if left <= LARGEST_ERROR * max(1.0, abs(factor)):
        doubt = float(np.linalg.norm(np.abs(want) * unit)) / max(square, 1e-300)
        is_opposite = abs(factor + 1) < _NEAR
        return (Reason.OPPOSITE if is_opposite else Reason.SCALED), meaningful(factor, doubt)
    if dtype in ("float32", "float64") and _is_coarse(have):
        return Reason.COARSE, None
    size = float(np.linalg.norm(want))
    relative = float(np.linalg.norm(have - want)) / max(size, 1e-300)
    low = UNIT_TF32 / 32 <= relative <= UNIT_BFLOAT16 * 4
    return (Reason.LOW_PRECISION if low else Reason.OTHER), None


def meaningful(factor: float, doubt: float) -> float:
    """Return a factor without the digits that rounding makes.

    Args:
        factor: As it was measured.
        doubt: Its standard deviation; what lies within four of them is no digit.

    >>> meaningful(1.24996, 0.0016), meaningful(1.0000312, 4e-8)
    (1.25, 1.000031)
    """
    doubtful = 4 * doubt
    if not (math.isfinite(factor) and 0 < doubtful < 1):
        return factor
    return round(factor, math.floor(-math.log10(doubtful)))


_NEAR = 1e-3
UNIT_TF32 = 2.0**-11
UNIT_BFLOAT16 = 2.0**-8


def _is_coarse(array: Array) -> bool:
    """Return whether all numbers have no more bits than bfloat16 keeps."""
    bits = array.astype(np.float32).view(np.uint32)
    return bool(array.size > 1 and not (bits & 0xFFFF).any() and (bits & 0x7F0000).any())


_DIRECTIONS = 4
_BLOCK = 1 << 16
"""Elements that are summed at a time."""
_MATRIX = 2


@dataclass(frozen=True, slots=True)
class Projected:
    """How far the sums over the features of a recorded value are from its program's."""

    error: float
    """Root mean square, in units of the rounding of each sum."""
    worst: float
    """What the largest of them would be if one element of its row had made it."""
    largest: float
    """The largest absolute difference of a sum."""

    @property
    def is_sound(self) -> bool:
        """Whether rounding explains what was seen."""
        return self.error <= LARGEST_ERROR and self.worst <= LARGEST_ELEMENT


@dataclass(frozen=True, slots=True)
class _Product:
    """A product, and what is added to it."""

    node: Node
    added: tuple[int, ...]
    """Terms."""


def project(known: KnownProgram, part: Part) -> Projected | None:
    """Hold a recorded value against its program, along a few directions of its features.

    Returns:
        None if that is no product with what is added to it, or not everything is finite.

    Raises:
        ProgramError: Elements lack on the way, or the program cannot be executed.
        DumpFormatError: Elements are damaged.
    """
    product = _product_of(known, part)
    if product is None:
        return None
    node, unit = product.node, known.units[product.node.operator]
    terms = [*node.operands, *product.added]
    taken = known.terms_as_recorded(part, terms) or known.compute_terms(part, terms)
    value = known.narrow(part.wanted)
    if not unit or any(each.dtype.kind != "f" for each in (value, *taken)):
        return None
    one, two, added = taken[0].astype(np.float64, copy=False), taken[1], taken[2:]
    with np.errstate(all="ignore"):
        rows = _Rows(node, one, two, seed=part.wanted)
        made, sizes = rows.of(value)
        off = made - rows.product() - sum(rows.of(each)[0] for each in added)
        squares = rows.errors(unit) + unit**2 * (1 + len(added)) * sizes
        ratio = np.abs(off) / np.sqrt(squares)
        ratio = np.where(off == 0, 0.0, ratio)
        worst = float(ratio.max(initial=0.0))
        if not math.isfinite(worst):
            return None
        return Projected(
            error=float(np.sqrt(np.mean(np.square(ratio)))) if ratio.size else 0.0,
            worst=worst * math.sqrt(rows.features),
            largest=float(np.abs(off).max(initial=0.0)),
        )


def _product_of(known: KnownProgram, part: Part) -> _Product | None:
    """Return the product that makes a value by itself, with what is added; None if it is more."""
    producers = {term: node for node in part.nodes for term in node.outputs}
    lowered = known.lowered
    added: list[int] = []
    node = producers.get(lowered.terms[part.wanted])
    while node is not None and node.primitive == "add":
        sums = [one for one in node.operands if _is_product(producers.get(one))]
        sums = sums or [one for one in node.operands if one in producers]
        if len(sums) != 1 or len(node.operands) != _MATRIX:
            return None
        added += [one for one in node.operands if one != sums[0]]
        node = producers.get(sums[0])
    if not _is_product(node) or node is None:
        return None
    shapes = [lowered.specs[one].shape for one in (*node.operands, *node.outputs)]
    axis = _feature_axis(node, len(shapes[2]))
    is_wide = all(
        len(lowered.specs[one].shape) >= -axis and lowered.specs[one].shape[axis] == shapes[2][axis]
        for one in added
    )
    is_plain = min(len(shapes[0]), len(shapes[1])) >= _MATRIX and is_wide and shapes[2][axis] > 0
    if node.primitive == "convolution":
        is_plain &= dict(node.attributes)["groups"] == 1
    behind = lowered.behind([*node.operands, *added], known=part.taken)
    is_exact = all(lowered.nodes[place].primitive in EXACT for place in behind)
    return _Product(node, tuple(added)) if is_plain and is_exact else None


def _is_product(node: Node | None) -> bool:
    return node is not None and node.primitive in ("matmul", "convolution")


def _feature_axis(node: Node, ndim: int) -> int:
    """Return the axis along which the second operand's columns or filters make elements."""
    return -1 if node.primitive == "matmul" else 1 - ndim


class _Rows:
    """Sums over the features of what a product makes, with random signs; they lie last."""

    def __init__(self, node: Node, one: Array, two: Array, *, seed: int) -> None:
        """Draw the directions."""
        self._node, self._one, self._two = node, one, two
        self._is_matrix = node.primitive == "matmul"
        self._axis = _feature_axis(node, one.ndim)
        columns = self._filters(two)
        self.features = columns.shape[-1]
        rows = columns.reshape(-1, self.features)
        sizes, largest = np.zeros(self.features), 0.0
        for at, place in _blocks(rows):
            block = rows[at, place].astype(np.float64)
            np.square(block, out=block)
            sizes[place] += block.sum(0)
            largest = max(largest, float(block.max(initial=0.0)))
        self._largest = math.sqrt(largest)
        self._squares = 1 / np.where(sizes > 0, sizes, float(sizes.max(initial=0.0)) or 1.0)
        signs = np.random.default_rng(seed).choice((-1.0, 1.0), (self.features, _DIRECTIONS))
        self._directions = signs * np.sqrt(self._squares)[:, None]
        self._columns, self._weighted = self._summed(columns)

    def of(self, array: Array) -> tuple[Array, Array]:
        """Return the sums over the features of what was made, or of what is added to it.

        And the sums of the squares, as they weigh in any of these sums.
        """
        return self._summed(self._featured(array))

    def product(self) -> Array:
        """Return the sums over the features of the product, without making it."""
        return self._run(self._one, self._columns)

    def errors(self, unit: float) -> Array:
        """Return the squares of what rounding does to the sums, inside the product."""
        unit = unit_of_terms(self._node, (self._one, self._two), unit)
        scale = float(np.maximum(self._one.max(initial=0.0), -self._one.min(initial=0.0))) or 1.0
        square = np.square(self._one / scale, dtype=np.float32)
        own = own_errors(self._one, square, scale, None, unit)
        weighted, own_weighted = self._weighted, self._weighted
        if self._largest >= 1:  # there may be whole numbers, which have no errors
            squares = np.square(self._two, dtype=np.float64)
            found = own_errors(self._two, squares, self._largest, None, unit)
            own_weighted = self._filters(found) @ self._squares[:, None]
        weighted, own_weighted = (
            each.astype(np.float32, copy=False) for each in (weighted, own_weighted)
        )
        total = self._run(own, weighted) + self._run(square, own_weighted)
        return np.asarray(total * np.square(unit * scale), dtype=np.float64)

    def _summed(self, array: Array) -> tuple[Array, Array]:
        """Return the sums over the last axis along all directions, and those of the squares."""
        rows = array.reshape(-1, self.features)
        sums, squares = np.zeros((len(rows), _DIRECTIONS)), np.zeros((len(rows), 1))
        for at, place in _blocks(rows):
            block = rows[at, place].astype(np.float64)
            sums[at] += block @ self._directions[place]
            np.square(block, out=block)
            squares[at] += block @ self._squares[place, None]
        shape = array.shape[:-1]
        return sums.reshape(*shape, _DIRECTIONS), squares.reshape(*shape, 1)

    def _run(self, one: Array, columns: Array) -> Array:
        """Run the product with other columns, or filters, that lie last."""
        run, attributes = VOCABULARY[self._node.primitive].run, dict(self._node.attributes)
        two = columns if self._is_matrix else np.moveaxis(columns, -1, 0)
        return self._featured(np.asarray(run(one, two, **attributes)))

    def _featured(self, array: Array) -> Array:
        """Return what is made, or added to it, with its features last."""
        return array if self._is_matrix else np.moveaxis(array, self._axis, -1)

    def _filters(self, array: Array) -> Array:
        """Return columns or filters with the features that they make last."""
        return array if self._is_matrix else np.moveaxis(array, 0, -1)


def _blocks(rows: Array) -> Iterator[tuple[slice, slice]]:
    """Yield the places of blocks that lie together, each small enough for the processor's cache."""
    is_turned = rows.flags.f_contiguous and not rows.flags.c_contiguous
    count, size = rows.shape[::-1] if is_turned else rows.shape
    step = max(_BLOCK // max(size, 1), 1)
    for start in range(0, count, step):
        place = slice(start, start + step)
        yield (slice(None), place) if is_turned else (place, slice(None))
