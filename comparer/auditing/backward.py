"""Audits gradients by the adjoint identity.

For a value x with the total gradient g, and values y that are computed from x and have the total
gradients h: ``<g, v> = sum <h, J v>`` for every direction v, where J is the derivative of y by x
along the operators between them. J v is put together in float64 from the derivatives of primitives
(``program.derivative``), or is a central difference, where no derivative need be known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import Phase
from padiff.program import UNIT_ROUNDOFF, count_products, signs_alike, summing_growth

from .adjoint import apart, lean_signs, look, summed
from .forward import Measured, meaningful
from .limits import LARGEST_GRADIENT_ERROR, NOTHING, RUNS, STEP, STEP_FACTORS, UNDERFLOW
from .result import Check, Reason
from .sharing import share_key
from .slices import MOVES, carrying_gradients, cuts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.program import Node, Operator, Value
    from padiff.program.primitives import Array

    from .adjoint import Products
    from .sharing import Answers
    from .slices import KnownProgram, Part


class Readers:
    """Which values with a gradient are the first to be reached from a value."""

    def __init__(self, known: KnownProgram) -> None:
        """Look through all primitives once."""
        self._known = known
        lowered, recorded = known.lowered, known.recorded
        late = {one.id for one in known.program.operators if one.phase is Phase.UPDATE}
        self._opaque: set[int] = set()
        carrying = carrying_gradients(known.recorded)
        for operator in known.program.operators:
            is_lost = _derives(operator) and not any(map(recorded.got_gradient, operator.outputs))
            if is_lost or operator.id in late or operator.id in known.walls:
                continue  # no gradient comes from there
            is_shaped = operator.name.endswith("_like")  # what it draws learns nothing
            is_drawn = operator.id in lowered.random and not is_shaped
            is_unknown = operator.id in lowered.opaque or is_drawn
            if is_unknown or cuts(operator) or (operator.no_grad and operator.id not in carrying):
                self._opaque.update(_terms_taken(known, operator))
        self._with_gradient = {
            lowered.terms[value.id]: value.id
            for value in known.program.values
            if value.id in lowered.terms
            and known.has_gradient(value.id)
            and recorded.has_elements(value.id)
        }
        made = (one for each in known.program.operators if _derives(each) for one in each.outputs)
        self._unseen = max(filter(recorded.got_gradient, made), default=-1)
        """The last value that gradients flow back through nobody saw where to."""
        self._got_gradient = {
            lowered.terms[value.id]
            for value in known.program.values
            if value.id in lowered.terms
            and recorded.got_gradient(value.id)
            and not recorded.has_zero_gradient(value.id)
            and value.id not in known.shared
        }

    def of(self, value: int) -> list[int] | None:
        """Return the nearest values with gradients on all ways from a value.

        Returns:
            None where a way leads into an opaque operator, or may lead into what was not recorded,
            as the gradients that a penalty is made of, or ends where a backward pass began
            with a gradient that was not recorded, so that not all are known.
        """
        lowered = self._known.lowered
        if value < self._unseen:
            return None
        own = lowered.terms[value]
        seen, rest, found = {own}, [own], []
        while rest:
            term = rest.pop()
            if term != own and term in self._with_gradient:
                found.append(self._with_gradient[term])
                continue
            readers = self._known.takers.get(term, ())
            if term in self._opaque or (not readers and term in self._got_gradient - {own}):
                return None
            for at in readers:
                fresh = [one for one in lowered.nodes[at].outputs if one not in seen]
                seen.update(fresh)
                rest.extend(fresh)
        return found


def _terms_taken(known: KnownProgram, operator: Operator) -> set[int]:
    terms = known.lowered.terms
    return {terms[value] for value in operator.taken if value in terms}


def _derives(operator: Operator) -> bool:
    """Return whether an operator gives derivatives: what they are made of was not recorded."""
    return operator.name.rpartition(".")[2] in ("grad", "vjp", "jvp")


@np.errstate(all="ignore")  # elements may be anything: infinity is an answer
def measure_gradient(
    known: KnownProgram, readers: Readers, value: Value, answers: Answers[Measured]
) -> Measured | None:
    """Measure a recorded gradient against those of the values that are computed from it.

    Args:
        known: The program.
        readers: Of its values.
        value: Of it.
        answers: To the same question, asked before.

    Returns:
        None where nothing with a recorded gradient reads it, or not all readers are known, or nan
        or inf came back from them.

    Raises:
        ProgramError: Elements lack on the way, or the program cannot be executed.
        DumpFormatError: Elements are damaged.
    """
    reached = readers.of(value.id)
    if not (reached and known.has_gradient(value.id)):
        return None
    if not known.recorded.has_elements(value.id):
        return None
    if "complex" in "".join(known.program.values[one].dtype for one in (value.id, *reached)):
        return None  # a direction of complex numbers has two parts
    is_finite = partial(known.recorded.is_finite, gradient=True)
    if not (is_finite(value.id) or all(map(is_finite, reached))):
        return None  # nan or inf came back from there
    parts = [known.part_between(value.id, one, reached) for one in reached]
    key = share_key(known, Check.GRADIENT, value.id, parts)
    return answers.get(key, lambda: _measure(known, value, parts))


def _measure(known: KnownProgram, value: Value, parts: Sequence[Part]) -> Measured:
    recorded = known.recorded
    if not recorded.is_finite(value.id, gradient=True):
        return Measured(error=np.inf, worst=np.inf, largest=np.inf, operators=1,
                        reason=Reason.NONFINITE)  # fmt: skip
    unit = UNIT_ROUNDOFF[value.dtype]
    if value.dtype in UNIT_ROUNDOFF and recorded.is_finite(value.id):
        one, others = look(known, value.id, parts)
        ratio = _ratio(one, others, unit, _Doubt())
        if ratio <= LARGEST_GRADIENT_ERROR:
            return _answer(ratio, one, others)
    wide = known.gradient(value.id)
    assert wide is not None
    way = _Way(known, value.id, parts, wide)
    own, terms = (wide * way.direction).reshape(-1), way.products(STEP * way.size)
    ratio = _ratio(summed(own), [*map(summed, terms)], unit, _Doubt())
    if not ratio <= LARGEST_GRADIENT_ERROR:
        terms, doubt = _look_closer(way)
        ratio = _ratio(summed(own), [*map(summed, terms)], unit, doubt)
    found = _answer(ratio, summed(own), [*map(summed, terms)])
    if ratio <= LARGEST_GRADIENT_ERROR:
        return found
    if any(map(known.leaves_draws_open, parts)):
        return replace(found, reason=Reason.DRAWN)
    if any(known.rests_on_ties(part, value.id) for part in parts):
        return replace(found, reason=Reason.TIED)
    ways = (_Way(known, value.id, parts, wide, turn=turn) for turn in _TURNS)
    reason, factor = _reason(own, [_factor(own, terms), *(one.factor(wide) for one in ways)])
    if factor is not None:
        expected = sum(float(one.sum()) for one in terms)
        size = math.sqrt(sum(float(np.vdot(one, one)) for one in (own, *terms)))
        factor = meaningful(factor, unit * size / max(abs(expected), 1e-300))
    return replace(found, reason=reason, factor=factor)


def _answer(ratio: float, own: Products, terms: Sequence[Products]) -> Measured:
    error = ratio / LARGEST_GRADIENT_ERROR * _SCALE
    return Measured(error=error, worst=error, largest=abs(_defect(own, terms)), operators=1)


_DIFFERENCE = 1e-8
"""Of the sum of the magnitudes of all terms: what a central difference may be off, at worst."""
_SCALE = 8.0
"""A defect at its limit counts as much as an element's error at its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    """What a defect may be although the gradient is right."""

    difference: float = 0.0
    """How far the differences are from derivatives: at a kink, any between two sides is right.
    And what numbers so near to zero that kernels flush them may add."""
    rounding: float = 0.0
    """Root mean square of what errors of one unit roundoff in each primitive do to the sum, with
    those of equal terms, which add up."""
    addends: float = 0.0
    """How many products each element of the gradient is the sum of, where more is known than how
    many elements were made of it."""


def _defect(own: Products, terms: Sequence[Products]) -> float:
    return own.total - sum(one.total for one in terms)


def _ratio(own: Products, terms: Sequence[Products], unit: float, doubt: _Doubt) -> float:
    """Return the defect that is not in doubt, in units of the rounding of its terms."""
    growth = summing_growth(sum(one.count for one in terms) // max(own.count, 1))
    adding = _unit_of_sums(unit) * summing_growth(int(doubt.addends))
    size = math.sqrt(own.squares + sum(one.squares for one in terms))
    largest = max(one.magnitudes for one in (own, *terms))
    left = abs(_defect(own, terms)) - doubt.difference - _DIFFERENCE * largest
    rounding = math.hypot(max(unit * growth, adding) * size, doubt.rounding)
    return max(left, 0.0) / max(rounding, 1e-300)


def _unit_of_sums(unit: float) -> float:
    """Return the unit roundoff of partial sums: kernels of coarser dtypes add in float32."""
    return min(unit, UNIT_ROUNDOFF["float32"])


class _Way:
    """The operators from one value to its readers, executed beside the recorded elements."""

    def __init__(
        self,
        known: KnownProgram,
        value: int,
        parts: Sequence[Part],
        own: Array,
        *,
        turn: int = 0,
    ) -> None:
        """Draw a direction."""
        self._known, self._value = known, value
        self._point = known.elements(value)
        is_finite = np.isfinite(self._point)
        self.direction = np.where(is_finite, lean_signs(own, seed=[value, turn]), 0.0)
        held = _held(known.lowered.terms[value], parts)
        if held:
            self.direction[list(held)] = 0.0
        place = known.lowered.producers.get(known.lowered.terms[value])
        maker = None if place is None else known.lowered.nodes[place]
        if maker is not None and maker.primitive in _TRIANGLES:  # the rest goes nowhere
            offset = dict(maker.attributes).get("offset", 0)
            self.direction = _TRIANGLES[maker.primitive](self.direction, offset)
        if _is_factorised(known.lowered.terms[value], parts):
            # One half is read, and both get half of its gradient.
            self.direction = (self.direction + np.swapaxes(self.direction, -1, -2)) / 2
        self._sizes = np.abs(self._point[is_finite & (np.abs(self._point) > NOTHING)])
        self.size = float(np.sqrt(np.mean(self._sizes**2))) if self._sizes.size else 1.0
        """Root mean square of the elements."""
        found = [(part, known.gradient(part.wanted)) for part in parts]
        self._gradients = [(part, gradient) for part, gradient in found if gradient is not None]

    @cached_property
    def smallest(self) -> float:
        """What most elements are larger than, though some be huge, as masked scores are."""
        return float(np.quantile(self._sizes, 0.1)) if self._sizes.size else 1.0

    def factor(self, own: Array) -> float:
        """Return the product of the value's gradient and the direction over what it should be."""
        return _factor(own * self.direction, self.products(STEP * self.size))

    def products(self, step: float, *, seed: int | None = None) -> list[Array]:
        """Return the products of gradients and central differences, of each reader.

        Args:
            step: How far each element moves.
            seed: Of random errors, the same to either side, so that they change the derivatives
                as those in a backward pass do; None makes none.
        """
        return self.weighted(self.slopes(step, seed=seed))

    def slopes(self, step: float, *, seed: int | None = None) -> list[Array]:
        """Return the central differences of each reader, by the arguments of ``products``."""
        return [apart(*self._sides(one, step, seed)) / (2 * step) for one, _ in self._gradients]

    def weighted(self, slopes: Sequence[Array]) -> list[Array]:
        """Return the products of gradients and central differences."""
        pairs = zip(self._gradients, slopes, strict=True)
        return [(gradient * slope).reshape(-1) for (_, gradient), slope in pairs]

    def underflow(self, slopes: Sequence[Array]) -> float:
        """Return what the products change by if kernels take numbers near zero for zero."""
        moved = sum(float(np.abs(_finite(slope)).sum()) for slope in slopes)
        dtype = self._known.program.values[self._value].dtype
        return UNDERFLOW.get(dtype, 0.0) * (moved + float(np.abs(self.direction).sum()))

    def addends(self, products: Sequence[Array]) -> float:
        """Return how many products each element of the gradient is the sum of."""
        lowered = self._known.lowered
        total = 0.0
        for (part, _), one in zip(self._gradients, products, strict=True):
            own = {lowered.terms[self._value]}
            for node in part.nodes:
                if node.primitive in MOVES and node.operands[0] in own:
                    own.update(node.outputs)
            readers = [node for node in part.nodes if own.intersection(node.operands[:2])]
            shapes = [[lowered.specs[term].shape for term in node.operands] for node in readers]
            each = [count_products(*pair) for pair in zip(readers, shapes, strict=True)]
            total += one.size * max(each, default=1)
        return total / max(self.direction.size, 1)

    def in_order(self, slopes: Sequence[Array]) -> float:
        """Return what adding the products one after another in float32 rounds.

        Errors of equal products are equal, as those of tokens that are all the same, or of the
        gradient of a mean: they grow with their number, not with its root (Higham and Mary, A new
        approach to probabilistic rounding error analysis, 2019, section 3.2). What a weight gets
        is a sum over all tokens for each feature, what a query gets one over the keys.
        """
        squares = 0.0
        for (one, gradient), slope in zip(self._gradients, slopes, strict=True):
            products = gradient * _finite(slope)
            names = {node.primitive for node in one.nodes}
            is_summed = products.size > self._point.size or "matmul" in names
            if is_summed and products.ndim > 1:
                is_convolved = any("convolution" in name for name in names)
                rows = np.moveaxis(products, 1 if is_convolved else -1, -1)
                rows = rows.reshape(-1, rows.shape[-1])
                squares += max(_off_in_order(rows), _off_in_order(rows.T))
        return math.sqrt(squares)

    @cached_property
    def unresolved(self) -> float:
        """What float64 does to the products, times the step: below it all steps find the same.

        The sigmoid of a number far below one is a half, however it moves.
        """
        ends = [(gradient, self._at(one, 0.0, None)) for one, gradient in self._gradients]
        squares = sum(float(np.square(gradient * _finite(end)).sum()) for gradient, end in ends)
        return math.sqrt(squares) * _EPSILON

    def cancelled(self, step: float, *, seed: int) -> float:
        """Return what rounding inside the backward pass of a softmax may add to the products.

        That pass takes from each gradient the mean of all, and both round: with one element, or
        where one has all the weight, next to nothing is left of them. The same is done here to
        the directions that arrive at the softmax, with random signs, equal ones of equal weights.
        """
        salt = int(np.random.default_rng([self._value, seed]).integers(1 << 63))
        total = 0.0
        for one, gradient in self._gradients:
            nodes = [node for node in one.nodes if node.primitive in _NORMALIZING]
            terms = {term for node in nodes for term in (node.operands[0], node.outputs[0])}
            above, below = (
                self._known.compute_seen(one, self._shifted(way * step), terms) if nodes else {}
                for way in (1.0, -1.0)
            )
            for node in nodes:
                taken = node.operands[0]
                if taken == self._known.lowered.terms[self._value]:
                    tangent = self.direction
                elif taken in above:
                    tangent = apart(above[taken], below[taken]) / (2 * step)
                else:
                    continue  # it is recorded: nothing moves there
                made = above[node.outputs[0]]
                errors = _cancelling(node, made, np.abs(tangent))
                errors = errors * signs_alike(errors, salt)
                # A mask may be looked for in what the softmax takes.
                moved = [
                    self._known.compute_behind(
                        one, node.outputs[0], made + way * step * errors, self._shifted(0.0)
                    )
                    for way in (1.0, -1.0)
                ]
                products = gradient * apart(*moved) / (2 * step)
                total += self._known.units[node.operator] * float(products.sum())
        return total

    def bends(self, step: float) -> float:
        """Return how much of the products is uncertain, since there is a kink within a step.

        Of a smooth function, rise less fall is proportional to the step, up to its third power.
        """
        total = 0.0
        for one, gradient in self._gradients:
            here = self._at(one, 0.0, None)
            gaps = []
            for part in (step, step / 2):
                above, below = self._sides(one, part, None)
                rise, fall = apart(above, here), apart(here, below)
                gaps.append((rise - fall) / part)
            total += float(np.abs(gradient * (gaps[0] - 2 * gaps[1])).sum())
        return total

    def _sides(self, one: Part, step: float, seed: int | None) -> tuple[Array, Array]:
        return self._at(one, step, seed), self._at(one, -step, seed)

    def _at(self, one: Part, step: float, seed: int | None) -> Array:
        # By itself: the others hold what was recorded, so that no way through them counts twice.
        return self._known.compute(one, changed=self._shifted(step), seed=seed)

    def _shifted(self, step: float) -> dict[int, Array]:
        return {self._value: self._point + step * self.direction}


_EPSILON = float(np.finfo(np.float64).eps)


_CHANCE = 4.0
"""Standard deviations: errors that are independent of each other go so far by chance."""


def _off_in_order(rows: Array) -> float:
    """Return the sum of the squares of the errors of the sums over rows, added in float32.

    Without those of independent errors: these are in the unit already.
    """
    partial = np.cumsum(rows, 0)
    off = np.cumsum(rows, 0, np.float32)[-1:] - partial[-1:]  # of no rows there is no sum
    chance = float(np.vdot(partial, partial)) * UNIT_ROUNDOFF["float32"] ** 2 / 3
    return max(float(np.vdot(off, off)) - _CHANCE**2 * chance, 0.0)


def _finite(elements: Array) -> Array:
    return np.where(np.isfinite(elements), elements, 0.0)


_NORMALIZING = frozenset({"softmax", "log_softmax"})


def _cancelling(node: Node, made: Array, tangent: Array) -> Array:
    """Return what is added up and taken off again for each element, by magnitude.

    A kernel may add one after another: what that rounds counts in units of rounding.
    """
    axis: int = dict(node.attributes)["axis"]
    weights = made if node.primitive == "softmax" else np.exp(made)
    terms = weights * tangent
    mean = terms.sum(axis, keepdims=True)
    added = np.cumsum(terms, axis, np.float32).take([-1], axis)
    total = tangent + mean + np.abs(added - mean) / UNIT_ROUNDOFF["float32"]
    return np.asarray(weights * total if node.primitive == "softmax" else total)


_TRIANGLES: dict[str, Callable[[Array, Any], Array]] = {
    "cholesky": np.tril,
    "tril": np.tril,
    "triu": np.triu,
}
"""What keeps the elements that a primitive makes, and makes others zero."""


def _held(term: int, parts: Sequence[Part]) -> set[int]:
    """Return the rows of a value through which a reader hands no gradient back."""
    nodes = (node for part in parts for node in part.nodes if term in node.operands[:1])
    rows = (dict(node.attributes).get("held") for node in nodes if node.primitive == "take")
    return {int(one) for one in rows if isinstance(one, int)}


def _is_factorised(term: int, parts: Sequence[Part]) -> bool:
    """Return whether a reader takes a value for a symmetric matrix, as it lies or turned."""
    nodes = [node for part in parts for node in part.nodes]
    turned = (one for one in nodes if one.primitive == "transpose" and one.operands == (term,))
    ends = {term, *(output for node in turned for output in node.outputs)}
    return any(one.primitive == "cholesky" and one.operands[0] in ends for one in nodes)


def _look_closer(way: _Way) -> tuple[list[Array], _Doubt]:
    """Measure with the step that suits the value, and say how much is in doubt.

    A step may be too large, over a kink, or too small for what is added to the value. At the best,
    the next one finds the same (Ridders, Accurate computation of F'(x) and F'(x)F''(x), 1982), who
    stops where results change much more again, too.
    """
    steps = [STEP * factor * way.smallest for factor in STEP_FACTORS]
    slopes: list[list[Array]] = []
    found: list[list[Array]] = []
    changes: list[float] = []
    for step in steps:
        slopes.append(way.slopes(step))
        found.append(way.weighted(slopes[-1]))
        if len(found) > 1:
            changes.append(_change(*found[-2:]) + way.unresolved / steps[len(changes)])
            if changes[-1] > _GROWN * min(changes):
                break  # a function that is bounded, as the sine is, has no slope over longer steps
    best = changes.index(min(changes))
    terms, step = found[best], steps[best]
    moved = [
        sum(float((off - one).sum()) for off, one in zip(each, terms, strict=True))
        for each in (way.products(step, seed=seed) for seed in range(RUNS))
    ]
    # Where nothing is left, all steps find that; over long ones slopes on the way are zero, too.
    near = min(step, STEP * way.size)
    cancelled = [way.cancelled(near, seed=seed) for seed in range(RUNS)]
    rounding = float(np.sqrt(np.mean(np.square(moved) + np.square(cancelled))))
    return terms, _Doubt(
        difference=changes[best] + way.bends(step) + way.underflow(slopes[best]),
        rounding=math.hypot(rounding, way.in_order(slopes[best])),
        addends=way.addends(terms),
    )


_GROWN = 1e3
"""Times the least change so far: more than what is left of float64's rounding varies by."""


def _change(fine: list[Array], coarse: list[Array]) -> float:
    """Return how far products with two steps are apart, infinite where a step overflows."""
    if not all(np.isfinite(one).all() for one in (*fine, *coarse)):
        return np.inf
    gaps = [one - other for one, other in zip(fine, coarse, strict=True)]
    norm = float(np.sqrt(sum(float((one**2).sum()) for one in gaps)))
    return max(norm, abs(sum(float(one.sum()) for one in gaps)))


def _reason(own: Array, factors: Sequence[float]) -> tuple[Reason, float | None]:
    """Return what a wrong gradient looks like, by its products with some directions.

    Args:
        own: The first of them, before it is summed.
        factors: Each of them over what it should be.
    """
    if not own.any():
        return Reason.ZERO, None
    factor = factors[0]
    if not all(abs(one - factor) <= _NEAR * abs(factor) for one in factors):
        return Reason.OTHER, None
    return (Reason.OPPOSITE if abs(factor + 1) < _NEAR else Reason.SCALED), factor


def _factor(own: Array, terms: Sequence[Array]) -> float:
    expected = sum(float(one.sum()) for one in terms)
    return float(own.sum()) / expected if expected else np.inf


_TURNS = (1, 2)
"""Further directions that a gradient which is a constant times the right one is tried in."""
_NEAR = 1e-2
