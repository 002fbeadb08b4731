"""Whether both sides are norms of the same input, and which: another epsilon, kind or weight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName
from .contrast import NEAR, SOME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import JSON

    from .contrast import Contrast

__all__ = ["epsilon_cause", "epsilon_of", "is_other_epsilon", "normalisation"]

PASSES = 3
"""Work for each element to try one norm."""
ROUND = 1e-3
"""Relative distance within which an epsilon is the one that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Norm:
    """One way to normalise."""

    is_centred: bool = True
    """Whether the mean is taken off, as LayerNorm does and RMSNorm does not."""
    weight: str = "its weight"
    bias: str = "its bias"

    def __str__(self) -> str:
        """Name it as people do."""
        kind = "LayerNorm" if self.is_centred else "RMSNorm"
        parts = [part for part in (self.weight, self.bias) if part]
        return f"{kind} with {' and '.join(parts)}" if parts else f"{kind} without weight or bias"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """What a norm is made of."""

    source: Array
    weight: Array | None
    bias: Array | None

    @property
    def axes(self) -> tuple[int, ...]:
        """Give the axes that it runs over: as many, from the last, as its weight has."""
        return tuple(range(-1 if self.weight is None else -self.weight.ndim, 0))

    def parts(self, norm: _Norm) -> tuple[Array, Array, Array | float]:
        """Give the numerator, its mean square, and the shift."""
        source = self.source
        given = source - source.mean(axis=self.axes, keepdims=True) if norm.is_centred else source
        power = (given * given).mean(axis=self.axes, keepdims=True)
        scales = {"": 1.0, "its weight": self.weight}
        if self.weight is not None:
            scales["1 + its weight"] = 1 + self.weight
        scale = scales[norm.weight]
        shift = self.bias if norm.bias and self.bias is not None else 0.0
        return given * (1.0 if scale is None else scale), power, shift

    def apply(self, norm: _Norm, eps: float) -> Array:
        """Compute it."""
        scaled, power, shift = self.parts(norm)
        result: Array = scaled / np.sqrt(np.maximum(power + eps, 1e-300)) + shift
        return result

    def norms(self) -> Iterator[_Norm]:
        """Yield the ways to use the weights that there are, the usual ones first."""
        weights = ("",) if self.weight is None else ("its weight", "1 + its weight", "")
        biases = ("",) if self.bias is None else ("its bias", "")
        for weight in weights:
            for bias in biases:
                for is_centred in (True, False):
                    yield _Norm(is_centred=is_centred, weight=weight, bias=bias)


def normalisation(
    sides: Contrast, source: Array, weight: Array | None, bias: Array | None, eps: JSON
) -> Cause | None:
    """See whether the candidate is another norm of the input than the reference.

    Args:
        sides: What diverged.
        source: The layer's input, float64.
        weight: The layer's, None if it has none.
        bias: The layer's, None if it has none.
        eps: The reference's, as its attributes say.
    """
    is_like = source.shape == sides.reference.shape and not isinstance(eps, bool)
    if not is_like or any(
        state is not None and (not state.ndim or state.shape != source.shape[-state.ndim :])
        for state in (weight, bias)
    ):
        return None
    known = float(eps) if isinstance(eps, int | float) else 1e-5
    layer = _Layer(source=source, weight=weight, bias=bias)
    right = _first(sides, layer, known)
    if right is None or not sides.budget.grants(3 * PASSES * sides.size):
        return None
    if sides.fits(source):
        text = f"the reference is {right}, the candidate its input unchanged: the norm is left out"
        return Cause(
            name=CauseName.FUNCTION, text=text, numbers={"reference": str(right), "candidate": ""}
        )
    scaled, power, shift = layer.parts(right)
    found = epsilon_of(sides.candidate - shift, scaled, power, layer.axes)
    if is_other_epsilon(found, known) and sides.fits(layer.apply(right, found)):
        return epsilon_cause("LayerNorm" if right.is_centred else "RMSNorm", found, known)
    made = _likely(sides, sides.candidate, layer, known)
    fitting = [(sides.left(array), norm) for norm, array in made if sides.fits(array)]
    wrong = min(fitting, key=lambda one: one[0], default=(0.0, None))[1]
    if wrong is None or wrong == right:
        return None
    text = f"the reference is {right}, the candidate {_difference(right, wrong)}"
    numbers: dict[str, JSON] = {"reference": str(right), "candidate": str(wrong)}
    return Cause(name=CauseName.FUNCTION, text=text, numbers=numbers)


def _difference(right: _Norm, wrong: _Norm) -> str:
    """Name the wrong norm, and in words the one thing that is wrong with it."""
    if replace(wrong, is_centred=right.is_centred) == right:
        how = "taken off" if wrong.is_centred else "not taken off"
        return f"{wrong}: the mean is {how}"
    if replace(wrong, bias=right.bias) == right:
        return f"{wrong}: its bias is left out"
    if replace(wrong, weight=right.weight) == right and not wrong.weight:
        return f"{wrong}: its weight is left out"
    return str(wrong)


def _first(sides: Contrast, layer: _Layer, eps: float) -> _Norm | None:
    made = _likely(sides, sides.reference, layer, eps)
    return next((norm for norm, array in made if sides.is_reference(array)), None)


def _likely(
    sides: Contrast, side: Array, layer: _Layer, eps: float
) -> Iterator[tuple[_Norm, Array]]:
    """Yield the norms that may be a side by some of its rows, with what they make of all."""
    step = max(1, sides.size // SOME)
    form = (-1, *layer.source.shape[len(layer.source.shape) - len(layer.axes) :])
    few = replace(layer, source=layer.source.reshape(form)[::step])
    wanted = side.reshape(form)[::step]
    for norm in sides.budget.tries(layer.norms(), PASSES * few.source.size):
        off = float(np.linalg.norm((few.apply(norm, eps) - wanted).ravel()))
        if off > sides.limit * NEAR:
            continue  # what is off there is off in all
        if not sides.budget.grants(PASSES * sides.size):
            return
        yield norm, layer.apply(norm, eps)


def epsilon_of(made: Array, scaled: Array, power: Array, axes: tuple[int, ...]) -> float:
    """Return the epsilon by which rows were scaled, the median over rows.

    Args:
        made: What the norm gave, less its bias.
        scaled: What it takes the root of ``power`` plus epsilon from, times its weight.
        power: The variance, or mean square, of each row.
        axes: Along which a row has one epsilon.
    """
    squares = (scaled * scaled).sum(axis=axes, keepdims=True)
    with np.errstate(all="ignore"):
        scale = (made * scaled).sum(axis=axes, keepdims=True) / squares
        each = 1 / (scale * scale) - power
    finite = each[np.isfinite(each)]
    return float(np.median(finite)) if finite.size else 0.0


def is_other_epsilon(found: float, known: float) -> bool:
    """Return whether an epsilon is not the one that the settings say."""
    return abs(found - known) > ROUND * known


def epsilon_cause(kind: str, found: float, known: float) -> Cause:
    """Say that the candidate is the same norm with another epsilon."""
    text = f"the candidate is what this {kind} gives with eps {found:.3g}, not {known:.3g}"
    numbers: dict[str, JSON] = {"eps": found, "expected": known}
    return Cause(name=CauseName.FUNCTION, text=text, numbers=numbers)
