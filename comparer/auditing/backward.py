"""Audits gradients by the adjoint identity.

For a value x with the total gradient g, and values y that are computed from x and have the total
gradients h: ``<g, v> = sum <h, J v>`` for every direction v, where J is the derivative of y by x
along the operators between them. J v is a central difference in float64, so that no derivative
of any operator need be known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import referenced_values
from padiff.program import UNIT_ROUNDOFF

from .forward import Measured
from .limits import LARGEST_GRADIENT_ERROR, STEP
from .result import Reason

if TYPE_CHECKING:
    from padiff.program import Operator, Value
    from padiff.program.primitives import Array

    from .slices import KnownProgram

__all__ = ["Readers", "measure_gradient"]

Reached = dict[int, int]


class Readers:
    """Which values with a gradient are the first to be reached from a value."""

    def __init__(self, known: KnownProgram) -> None:
        """Look through all primitives once."""
        self._known = known
        lowered, recorded = known.lowered, known.recorded
        self._nodes: dict[int, list[int]] = {}
        for at, node in enumerate(lowered.nodes):
            for operand in node.operands:
                self._nodes.setdefault(operand, []).append(at)
        self._opaque: set[int] = set()
        carrying = _carrying(known)
        for operator in known.program.operators:
            is_unknown = operator.id in lowered.opaque or operator.random
            if is_unknown or _cuts(operator) or (operator.no_grad and operator.id not in carrying):
                self._opaque.update(_terms_taken(known, operator))
        self._with_gradient = {
            lowered.terms[value.id]: value.id
            for value in known.program.values
            if value.id in lowered.terms
            and recorded.has_gradient(value.id)
            and recorded.has_elements(value.id)
        }
        self._got_gradient = {
            lowered.terms[value.id]
            for value in known.program.values
            if value.id in lowered.terms and recorded.got_gradient(value.id)
        }

    def of(self, value: int) -> list[int] | None:
        """Return the nearest values with gradients on all ways from a value.

        Returns:
            None where a way leads into an opaque operator, or ends where a backward pass began
            with a gradient that was not recorded, so that not all are known.
        """
        lowered = self._known.lowered
        own = lowered.terms[value]
        seen, rest, found = {own}, [own], []
        while rest:
            term = rest.pop()
            if term != own and term in self._with_gradient:
                found.append(self._with_gradient[term])
                continue
            readers = self._nodes.get(term, ())
            if term in self._opaque or (not readers and term in self._got_gradient - {own}):
                return None
            for at in readers:
                fresh = [one for one in lowered.nodes[at].outputs if one not in seen]
                seen.update(fresh)
                rest.extend(fresh)
        return found


def _taken(operator: Operator) -> list[int]:
    """Return the values that an operator takes."""
    arguments = (*operator.positional, *operator.keywords.values())
    return [value for argument in arguments for value in referenced_values(argument)]


def _terms_taken(known: KnownProgram, operator: Operator) -> set[int]:
    terms = known.lowered.terms
    return {terms[value] for value in _taken(operator) if value in terms}


def _cuts(operator: Operator) -> bool:
    """Return whether an operator hands elements on and no gradient back."""
    return operator.name.rpartition(".")[2] in ("detach", "detach_", "data")


def _carrying(known: KnownProgram) -> set[int]:
    """Return the operators run without a graph through which gradients flow all the same.

    They are inside a function that has a backward pass of its own: one of them, or one behind it
    that runs without a graph, makes a value for which a gradient arrived.
    """
    found: set[int] = set()
    carrying: set[int] = set()
    for operator in reversed(known.program.operators):
        arrived = any(map(known.recorded.got_gradient, operator.outputs))
        if operator.no_grad and (arrived or carrying.intersection(operator.outputs)):
            found.add(operator.id)
            carrying.update(_taken(operator))
    return found


def measure_gradient(known: KnownProgram, readers: Readers, value: Value) -> Measured | None:
    """Measure a recorded gradient against those of the values that are computed from it.

    Returns:
        None where nothing with a recorded gradient reads it, or not all readers are known.

    Raises:
        ProgramError: Elements lack on the way, or the program cannot be executed.
        DumpFormatError: Elements are damaged.
    """
    reached = readers.of(value.id)
    gradient = known.recorded.gradient(value.id)
    if not reached or gradient is None or not known.recorded.has_elements(value.id):
        return None
    point, wide = known.elements(value.id), gradient.astype(np.float64)
    if not np.isfinite(wide).all():
        return Measured(error=np.inf, worst=np.inf, largest=np.inf, operators=1,
                        reason=Reason.NONFINITE)  # fmt: skip
    direction = np.random.default_rng(value.id).choice([-1.0, 1.0], point.shape)
    terms, kinks = _terms(known, value.id, point, direction, reached)
    own = (wide * direction).reshape(-1)
    defect = float(own.sum() - sum(float(one.sum()) for one in terms))
    unit = UNIT_ROUNDOFF[value.dtype]
    size = np.sqrt(float((own**2).sum()) + sum(float((one**2).sum()) for one in terms))
    sums = [float(np.abs(one).sum()) for one in (own, *terms)]
    floor = kinks + _DIFFERENCE * max(sums)
    ratio = 0.0 if not defect else max(abs(defect) - floor, 0.0) / max(unit * size, 1e-300)
    error = ratio / LARGEST_GRADIENT_ERROR * _SCALE
    reason, factor = Reason.NONE, None
    if ratio > LARGEST_GRADIENT_ERROR:
        reason, factor = _reason(own, terms)
    return Measured(
        error=error, worst=error, largest=abs(defect), operators=1, reason=reason, factor=factor
    )


_DIFFERENCE = 1e-8
"""Of the sum of the magnitudes of all terms: what a central difference may be off, at worst."""
_SCALE = 8.0
"""A defect at its limit counts as much as an element's error at its own."""


def _terms(
    known: KnownProgram, value: int, point: Array, direction: Array, reached: list[int]
) -> tuple[list[Array], float]:
    """Return the products of gradients and changes, element by element, of each reader.

    Returns:
        Them, and how much of their sum is uncertain: at the kink of a ReLU or of a maximum the
        derivative is another to either side, and any between is right.
    """
    rms = float(np.sqrt(np.mean(point**2))) if point.size else 0.0
    step = STEP * (rms or 1.0)
    found, kinks = [], 0.0
    for one in reached:
        gradient = known.recorded.gradient(one)
        if gradient is None:
            continue
        wide = gradient.astype(np.float64)
        # By itself: the others hold what was recorded, so that no way through them counts twice.
        above, here, below = (
            known.changed(one, value, point + factor * step * direction, reached)
            for factor in (1, 0, -1)
        )
        rise, fall = (above - here) / step, (here - below) / step
        found.append((wide * (rise + fall) / 2).reshape(-1))
        gap = np.abs(rise - fall)
        is_kink = gap > _KINK * (np.abs(rise) + np.abs(fall))
        kinks += float(np.abs(wide * gap)[is_kink].sum())
    return found, kinks


_KINK = 1e-2
"""Of one-sided differences that belong to one derivative, how far they may be apart, relatively."""


def _reason(own: Array, terms: list[Array]) -> tuple[Reason, float | None]:
    if not own.any():
        return Reason.ZERO, None
    expected = sum(float(one.sum()) for one in terms)
    factor = float(own.sum()) / expected if expected else 0.0
    return (Reason.OPPOSITE if abs(factor + 1) < _NEAR else Reason.OTHER), factor


_NEAR = 1e-2
