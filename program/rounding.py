"""What rounding does to an operator: its float64 program with small random errors in each step.

A dtype rounds the result of each primitive by up to its unit roundoff u, relative to that result,
and the products and partial sums of a contraction by u relative to themselves (Higham, Accuracy
and Stability of Numerical Algorithms, 2nd ed., sections 2.2 and 3.1). Executing with random signs
in place of the real errors shows, element by element, how far that moves the outcome; what is
large in one element says nothing of its neighbours.

The partial sums of a long sum are rounded, too. A kernel may add terms one after the other. Each
addition rounds the partial sum S by up to u of it, and no addition loses more than the smaller of
its two operands (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2).
Errors of rounding are independent of each other and of both signs, so that they grow as the root of
the sum of the squares of S; a term that is too small to change S is lost, and what is lost so adds
up.

Kernels add in orders of their own, in lanes and blocks. Where the order in which terms lie keeps
partial sums small by chance, as rows do that a norm made, those of a random order count: of n terms
with the sum T and the variance v, the k-th has the mean square (k T / n)**2 + v k (n - k) / (n - 1)
(sampling without replacement).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .lowering import Node
    from .primitives import Array


UNIT_ROUNDOFF: dict[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e4m3fnuz": 2.0**-4,
    "float8_e5m2": 2.0**-3,
    "float8_e5m2fnuz": 2.0**-3,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}
"""Half the distance from 1 to the next number: 2**-p for p bits of mantissa."""

EXACT = frozenset({
    "abs", "all", "amax", "amin", "and", "any", "argmax", "argmin", "bincount", "cast", "ceil",
    "complex", "concat", "conj", "copysign", "cummax", "cummin", "diagonal", "equal", "expand",
    "flip", "floor", "full", "gather", "imag", "iota", "isinf", "isnan", "less", "less_equal",
    "literal", "masked_put", "maximum", "minimum", "neg", "nonzero", "not", "or", "pad", "pick",
    "put", "real", "reshape", "roll", "round", "search", "shift_left", "shift_right", "sign",
    "slice", "sort", "take", "transpose", "tril", "triu", "trunc", "unique", "where", "windows",
    "xor",
})  # fmt: skip
"""Primitives that move, choose, compare or count: they round nothing."""

CHOOSING = frozenset({
    "argmax", "argmin", "cast", "ceil", "cummax", "cummin", "equal", "floor", "less", "less_equal",
    "nonzero", "round", "search", "sign", "sort", "trunc", "unique",
})  # fmt: skip
"""Exact primitives whose results jump: where numbers are equal, the least error turns them."""

SUMMING = frozenset({
    "cholesky", "convolution", "convolution_transposed", "cumprod", "cumsum", "determinant",
    "floor_divide", "fourier", "fourier_real_inverse", "grouped_matmul", "inverse", "log_softmax",
    "logaddexp", "logcumsumexp", "logsumexp", "matmul", "modulo", "overlap", "prod", "recurrent",
    "remainder", "scatter", "sign_determinant", "singular_values", "softmax", "solve", "sum",
    "symmetric_values",
})  # fmt: skip
"""Primitives that round inside: each of their terms is off, not only their result."""

_REPEATING = frozenset({
    "add", "copysign", "div", "expand", "gather", "maximum", "minimum", "mul", "pick", "pow", "sub",
    "take", "where", "windows",
})  # fmt: skip
"""Primitives that may take an element several times, so that its gradient is a sum."""

_FROM_THE_LARGEST = frozenset({"log_softmax", "logsumexp", "softmax"})
"""Of those, what takes the largest element off all others first: equal ones stay equal."""

LANES = 8
"""How many partial sums a kernel keeps side by side: float32 numbers in a vector register."""


def summing_growth(terms: int) -> float:
    """Return how far a sum's rounding is from that of its terms, as root mean squares.

    Each term is in half of the partial sums of its lane, and each of those is rounded (Higham,
    section 3.1, with errors that are independent of each other).

    >>> summing_growth(1)
    1.0
    >>> summing_growth(48)
    2.0
    """
    return float(np.sqrt(1 + (terms // 2 // LANES)))


Shape = tuple[int, ...]

_COUNTED: dict[str, Callable[[Shape, Shape], int]] = {
    "grouped_matmul": lambda taken, _: taken[-1],
    "matmul": lambda taken, _: taken[-1],
    "convolution": lambda _, weight: math.prod(weight[1:]),
    "convolution_transposed": lambda _, weight: math.prod((weight[0], *weight[2:])),
}
"""How many products each element is the sum of, by the shapes of what is multiplied."""


def count_products(node: Node, shapes: Sequence[Shape]) -> int:
    """Return how many products each element that a primitive makes is the sum of.

    Args:
        node: Any primitive; one that adds no products counts as one.
        shapes: Of its operands.
    """
    counted = _COUNTED.get(node.primitive)
    return 1 if counted is None else counted(*shapes[:2])


@dataclass(frozen=True, slots=True)
class KnownErrors:
    """What is the same in all executions of one program with errors of its dtypes."""

    sizes: dict[tuple[int, tuple[int, ...]], Array] = field(default_factory=dict)
    """How large the errors of adding are, by the term that is a long sum and its shape."""
    fractional: set[tuple[int, int]] = field(default_factory=set)
    """The places of operands and results, by term, in which no element is a whole number."""
    in_order: dict[tuple[int, tuple[int, ...]], Array | None] = field(default_factory=dict)
    """By how much adding one after another makes products of matrices off, by term and shape."""


class Rounding:
    """Random errors of one execution."""

    def __init__(
        self,
        units: Mapping[int, float],
        *,
        seed: int,
        known: KnownErrors | None = None,
        by_value: bool = False,
        sums_back: bool = False,
    ) -> None:
        """Draw the errors from a seed.

        Args:
            units: Unit roundoff of each operator by its id; 0 for operators that are exact.
            seed: Another seed gives other signs.
            known: What other executions of the program found; this one adds to it. None knows
                nothing yet.
            by_value: Whether equal elements of an array get equal errors, and products of matrices
                those of adding in order, as in a kernel: where tokens are all the same, their
                errors are, too, and add up. It takes several times as long.
            sums_back: Whether to make the errors of a backward pass, too: the gradient of what is
                broadcast is a sum, which rounds however much of it another operand takes off.
        """
        self.units, self.seed, self.known = units, seed, known or KnownErrors()
        self.held: Mapping[int, Array] = {}
        """Results of choices that no error turns, by term."""
        self._by_value, self._sums_back = by_value, sums_back

    def disturb_operands(self, node: Node, operands: Sequence[Array]) -> list[Array]:
        """Return what a primitive takes, with errors where it rounds its terms."""
        if node.primitive not in SUMMING:
            return self._disturb_repeated(node, operands) if self._sums_back else list(operands)
        unit = unit_of_terms(node, operands, self.units.get(node.operator, 0.0))
        if node.primitive in _FROM_THE_LARGEST:
            told: dict[str, Any] = dict(node.attributes)
            axes = tuple(told["axes"] if "axes" in told else (told["axis"],))
            with np.errstate(invalid="ignore"):  # -inf is as far from itself as it is
                largest = np.max(operands[0], axes, keepdims=True, initial=-np.inf)
                off = self._disturbed(node, 0, operands[0] - largest, unit)
                return [np.where(np.isfinite(largest), largest + off, operands[0])]
        return [self._disturbed(node, at, each, unit) for at, each in enumerate(operands)]

    def _disturb_repeated(self, node: Node, operands: Sequence[Array]) -> list[Array]:
        """Return operands, with errors where an element may be taken several times."""
        if node.primitive not in _REPEATING:
            return list(operands)
        unit = self.units.get(node.operator, 0.0)
        return [self._disturbed(node, at, each, unit) for at, each in enumerate(operands)]

    def disturb_results(
        self, node: Node, operands: Sequence[Array], results: Sequence[Array]
    ) -> list[Array]:
        """Return what a primitive makes, with errors where it rounds."""
        unit = self.units.get(node.operator, 0.0)
        if node.primitive == "full" and not is_held(results[0], unit):
            return [self._disturbed(node, -1, results[0], UNIT_ROUNDOFF["float32"])]
        if node.primitive in EXACT:
            made = zip(node.outputs, results, strict=True)
            return [self.held.get(term, one) for term, one in made]
        found = [self._disturbed(node, -1 - at, each, unit) for at, each in enumerate(results)]
        if unit and node.primitive in ADDING and operands[0].dtype.kind == "f":
            sizes = self._errors_of_adding(node, operands[0], results[0].shape, unit)
            # Of what one sum is in, all elements are off together.
            errors = sizes * self._signs(node, sizes)
            if node.primitive == "softmax":
                least = dict(node.attributes).get("least", -np.inf)
                errors = errors * np.abs(results[0]) + _OF_THE_LEAST * np.exp(least)
            errors = np.where(is_whole(results[0], unit), 0.0, errors)
            found[0] += errors
        if unit and self._by_value and node.primitive == "matmul":
            key = node.outputs[0], results[0].shape
            if key not in self.known.in_order:
                self.known.in_order[key] = error_in_order(operands[0], operands[1])
            added = self.known.in_order[key]
            found[0] = found[0] if added is None else found[0] + added
        return found

    def _errors_of_adding(
        self, node: Node, taken: Array, made: tuple[int, ...], unit: float
    ) -> Array:
        """Return how far additions move the elements of a result, as ``error_of_adding`` does."""
        key = node.outputs[0], made
        if (sizes := self.known.sizes.get(key)) is None:
            adding = min(unit, UNIT_ROUNDOFF["float32"])  # kernels of coarser dtypes add in float32
            sizes = error_of_adding(node, taken, made, adding)
            if taken.size >= _MANY * sizes.size:
                self.known.sizes[key] = sizes
        return sizes

    def _signs(self, node: Node, sizes: Array) -> Array:
        """Return random signs for errors of some sizes."""
        generator = self._generator(node, _ADDED)
        if self._by_value:
            return signs_alike(sizes, _salt(generator))
        return 2.0 * generator.integers(0, 2, sizes.shape) - 1.0

    def _generator(self, node: Node, place: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, node.outputs[0], place % 64))

    def _disturbed(self, node: Node, at: int, array: Array, unit: float) -> Array:
        if not unit or array.dtype.kind not in "fc":
            return array
        is_turned = array.flags.f_contiguous
        taken = array.T if is_turned else np.ascontiguousarray(array)
        made = np.empty_like(taken)
        flat, result = taken.reshape(-1), made.reshape(-1)
        factors = _factors(unit)
        salt = _salt(self._generator(node, at)) if self._by_value else None
        places = _places(self.seed, node.outputs[0], at % 64, flat.size // _BLOCK + 1)
        is_fractional = (node.outputs[0], at) in self.known.fractional
        has_whole = False
        with np.errstate(invalid="ignore"):
            for place, start in zip(places, range(0, flat.size, _BLOCK), strict=False):
                block = flat[start : start + _BLOCK]
                drawn = factors[place : place + block.size]
                if salt is not None:
                    drawn = 1 + unit * signs_alike(block, salt)
                changed = np.multiply(block, drawn, out=result[start : start + _BLOCK])
                if is_fractional:
                    continue
                whole = np.rint(block) == block
                if np.count_nonzero(whole):  # seldom, and looked at more closely only then
                    has_whole = True
                    whole = is_whole(block, unit)
                    changed[whole] = block[whole]
        if not has_whole:
            self.known.fractional.add((node.outputs[0], at))
        return made.T if is_turned else made


_OF_THE_LEAST = 1e-5
"""Of the smallest exponential that a softmax knows, as Paddle's on a CPU: it stands for any smaller
one. A million times this share, by which two forms may differ, is more than all of it."""
_ADDED = 32
"""Stands for a place of its own where errors are drawn; primitives have fewer operands."""

_MANY = 64
"""Terms of a sum for each number that is kept of it: so much less memory than they take."""

_BLOCK = 1 << 15
"""Elements at a time: what is made on the way stays in the processor's cache."""
_DRAWN = 1 << 16
"""Random signs that are drawn once; each block of elements begins at another one of them."""


@lru_cache(maxsize=1 << 14)
def _places(seed: int, term: int, place: int, count: int) -> tuple[int, ...]:
    """Return at which of the signs that were drawn once some blocks begin.

    Trials of edits ask for the same again and again, and making a generator takes longer than
    disturbing a thousand elements.
    """
    return tuple(np.random.default_rng((seed, term, place)).integers(0, _DRAWN, count).tolist())


@cache
def _factors(unit: float) -> npt.NDArray[np.float64]:
    """Return one plus or minus a unit roundoff, at random, for a block from any of the places."""
    signs = np.random.default_rng(_DRAWN).choice((-1.0, 1.0), _DRAWN + _BLOCK)
    found = 1 + unit * signs
    found.flags.writeable = False
    return found


_ODD = np.uint64(1)
_UNSIGNED = np.uint64((1 << 63) - 1)
_SPREADING = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio: its multiples lie evenly (Knuth, The Art of Computer Programming,
volume 3, 2nd ed., section 6.4)."""


def _salt(generator: np.random.Generator) -> int:
    return int(generator.integers(1 << 63))


def signs_alike(array: Array, salt: int) -> npt.NDArray[np.float64]:
    """Return 1 or -1 for each number, at random, and the same for numbers of one magnitude.

    Args:
        array: Real or complex, of which the real part decides.
        salt: Below 2**63; another one gives other signs.
    """
    real = array.real if array.dtype.kind == "c" else array
    bits = np.array(real, np.float64, order="C").view(np.uint64)
    bits &= _UNSIGNED
    bits *= np.uint64(salt) | _ODD
    bits ^= bits >> np.uint64(32)
    bits *= _SPREADING
    return np.asarray(1.0 - 2.0 * (bits >> np.uint64(63)), np.float64)


def in_blocks(*arrays: Array, out: Array | None = None) -> Iterator[tuple[Array, ...]]:
    """Yield the elements of arrays that broadcast, block by block, each block in one dimension.

    Args:
        arrays: Of numbers; blocks of real ones are float64.
        out: Array of all elements to write to, whose blocks come last.
    """
    written = [] if out is None else [out]
    flags: Any = [["readonly"]] * len(arrays) + [["writeonly"]] * len(written)
    dtypes = [np.complex128 if one.dtype.kind == "c" else np.float64 for one in (*arrays, *written)]
    with np.nditer(
        [*arrays, *written],
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=flags,
        op_dtypes=dtypes,
        casting="same_kind",
        buffersize=_BLOCK,
    ) as blocks:
        block: Any  # a tuple, or an array where there is one operand
        for block in blocks:
            yield block if isinstance(block, tuple) else (block,)


def is_whole(array: Array, unit: float) -> npt.NDArray[np.bool_]:
    """Return which elements are whole numbers that a dtype holds.

    They were counted or cast, and are as they should be: half a unit less of one that becomes an
    index would be another index.
    """
    with np.errstate(invalid="ignore"):
        found: npt.NDArray[np.bool_] = np.rint(array) == array
        if found.any():
            found &= np.abs(array) <= 0.5 / unit
    return found


def is_held(number: Array, unit: float) -> bool:
    """Return whether kernels take a number as it is: those of coarser dtypes take it in float32."""
    if number.dtype.kind != "f" or unit < UNIT_ROUNDOFF["float32"]:
        return True
    one = number[(slice(1),) * number.ndim]  # all elements are the same
    return np.array_equal(one, one.astype(np.float32), equal_nan=True)


def unit_of_terms(node: Node, operands: Sequence[Array], unit: float) -> float:
    """Return by how much the terms that a primitive adds are off, relative to themselves.

    Args:
        node: One of ``SUMMING``.
        operands: What it takes.
        unit: Unit roundoff of its operator.
    """
    if node.primitive not in _COUNTED:
        return unit
    # Kernels of coarser dtypes add in float32.
    growth = summing_growth(count_products(node, [one.shape for one in operands[:2]]))
    added = min(unit, UNIT_ROUNDOFF["float32"]) * np.sqrt(growth**2 - 1)
    return float(np.hypot(unit, added))


ADDING = frozenset({"cumsum", "log_softmax", "logcumsumexp", "logsumexp", "softmax", "sum"})
"""Primitives that add all elements along axes, or their exponentials."""

_SCANS = frozenset({"cumsum", "logcumsumexp"})
_PER_ROUNDING = 1 / math.sqrt(3)
"""Root mean square of an error that is anywhere between -1 and 1."""


def error_of_adding(node: Node, taken: Array, made: tuple[int, ...], unit: float) -> Array:
    """Return how far the additions of a primitive may move each element of its result.

    Args:
        node: One of ``ADDING``.
        taken: What it takes, float64.
        made: The shape of its result.
        unit: Unit roundoff of the dtype that the kernel adds in.

    Returns:
        Root mean squares of rounding plus what is lost, >= 0, that broadcast to the result; of a
        softmax relative to it.
    """
    attributes: dict[str, Any] = dict(node.attributes)
    axes = attributes["axes"] if "axes" in attributes else (attributes["axis"],)
    axes = [axis % taken.ndim for axis in axes] if taken.ndim else []
    rows, shape = _along(taken, axes)
    if node.primitive in {"sum", "cumsum"}:
        return _placed(_errors(rows, unit, node), shape, axes, made)
    with np.errstate(all="ignore"):
        powers = np.exp(rows - rows.max(axis=-1, keepdims=True, initial=-np.inf))
        total = np.cumsum(powers, -1) if node.primitive in _SCANS else powers.sum(-1, keepdims=True)
        return _placed(_errors(powers, unit, node) / total, shape, axes, made)


def error_in_order(left: Array, right: Array) -> Array | None:
    """Return how far a product of matrices is off where its terms are added one after another.

    Errors of equal terms are equal as long as the sum stays between two powers of two, so that they
    grow with the number of terms and not with its root: tokens may be all the same. Of large
    products some rows are computed, and stand for their neighbours.

    Args:
        left: Shape (..., M, K), float64; the product is added in float32.
        right: Shape (..., K, N), float64.

    Returns:
        Shape (..., M, N), float64; None for vectors.
    """
    if min(left.ndim, right.ndim) <= 1:
        return None
    high, count = left.shape[-2:]
    work = math.prod(np.broadcast_shapes(left.shape[:-2], right.shape[:-2])) * right.shape[-1]
    every = max(math.ceil(work * high * count / _MOST_IN_ORDER), 1)
    left = left[..., ::every, :]
    exact = np.matmul(left, right)
    rows = np.moveaxis(left.astype(np.float32), -1, 0)[..., None]
    columns = np.moveaxis(right.astype(np.float32), -2, 0)[..., None, :]
    added = np.zeros(exact.shape, np.float32)
    for row, column in zip(rows, columns, strict=True):
        added += row * column
    return np.asarray(np.repeat(added - exact, every, axis=-2)[..., :high, :])


_MOST_IN_ORDER = 1 << 28
"""Products that are added one after another: half a second."""


def _along(taken: Array, axes: Sequence[int]) -> tuple[Array, tuple[int, ...]]:
    """Return the elements as rows along some axes, and the shape of the others."""
    last = range(taken.ndim - len(axes), taken.ndim)
    moved = np.moveaxis(taken, axes, last)
    shape = moved.shape[: taken.ndim - len(axes)]
    return moved.reshape(*shape, math.prod(moved.shape[len(shape) :])), shape


def _errors(rows: Array, unit: float, node: Node) -> Array:
    """Return the errors of the sums along the last axis, or of each partial sum of a scan."""
    count = rows.shape[-1]
    flat = rows.reshape(math.prod(rows.shape[:-1]), count)
    is_scan = node.primitive in _SCANS
    errors = np.empty((len(flat), count if is_scan else 1))
    high = max(_SUMMED // max(count, 1), 1)
    for row in range(0, len(flat), high):
        errors[row : row + high] = _errors_of(flat[row : row + high], unit, is_scan=is_scan)
    return errors.reshape(*rows.shape[:-1], errors.shape[-1])


_SUMMED = 1 << 15
"""Elements at a time: what is made on the way stays in the processor's cache."""


def _errors_of(rows: Array, unit: float, *, is_scan: bool) -> Array:
    with np.errstate(all="ignore"):
        sizes, partial = np.abs(rows), np.cumsum(rows, axis=-1, dtype=np.float64)
        np.abs(partial, out=partial)
        partial *= unit
        lost = np.where(sizes < partial, sizes, 0.0)
        np.square(partial, out=partial)
        if is_scan:
            squares, lost = np.cumsum(partial, axis=-1), np.cumsum(lost, axis=-1)
        else:
            squares, lost = partial.sum(-1, keepdims=True), lost.sum(-1, keepdims=True)
            squares = np.fmax(squares, _in_any_order(rows) * unit**2)
        return np.asarray(np.sqrt(squares) * _PER_ROUNDING + lost)


def _in_any_order(rows: Array) -> Array:
    """Return the expected sums of the squares of all partial sums in a random order."""
    count = rows.shape[-1]
    total = rows.sum(-1, keepdims=True)
    squares = np.einsum("ij,ij->i", rows, rows)[:, None]
    variance = np.fmax(squares / max(count, 1) - np.square(total / max(count, 1)), 0.0)
    growing = (count + 1) * (2 * count + 1) / (6 * max(count, 1))
    return np.asarray(np.square(total) * growing + variance * (count * (count + 1) / 6))


def _placed(
    errors: Array, shape: tuple[int, ...], axes: Sequence[int], made: tuple[int, ...]
) -> Array:
    """Return errors of rows where their elements lie in the result."""
    if errors.shape[-1] == 1 and math.prod(shape) == math.prod(made):
        return errors.reshape(made)
    ndim = len(shape) + len(axes)
    wide = errors.reshape(*shape, *(1,) * (len(axes) - 1), errors.shape[-1])
    return np.moveaxis(wide, range(len(shape), ndim), axes) if ndim else wide
