"""Causes that only make sense for one kind of layer, recomputed from its inputs and weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .attributes import are_equal
from .cause import Cause, CauseName
from .contrast import EXPLAINED
from .normcauses import epsilon_cause, epsilon_of, is_other_epsilon

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import JSON

    from .contrast import Contrast

__all__ = [
    "Layer",
    "batch_statistics",
    "dropout",
    "moved_state",
    "other_epsilon",
    "running_variance",
    "transposed_weight",
]

ENOUGH = 16
"""Elements from which a share of zeros means something."""
PASSES = 2
"""Work for each element to try one thing."""
PRODUCTS = 16
"""Products of a matrix that take as long as going through an element."""
LEAST_TOKENS = 4
"""Positions from which on a move can be told."""
LEAST_SHARE = 0.01
"""Smallest share of elements left out that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What is known of a diverged module."""

    class_name: str
    """Of the reference, in lower case."""
    kind: str
    """As in ``padiff.pairing.kind_of``, empty if unknown."""
    reference: Mapping[str, JSON]
    """Canonical attributes."""
    candidate: Mapping[str, JSON]
    training: tuple[bool, bool]
    """Of the reference, of the candidate."""
    source: Array | None
    """The call's first input on the reference, float64."""
    states: Mapping[str, Array]
    """The reference's weights and buffers by plain name, float64."""

    @property
    def heads(self) -> int | None:
        """Give the number of attention heads, None if it has none."""
        value = self.reference.get("num_heads")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def eps(self) -> float:
        """Return the reference's epsilon, the usual one if it states none."""
        value = self.reference.get("eps")
        return value if isinstance(value, float) else 1e-5

    @property
    def running(self) -> tuple[Array, Array] | None:
        """Return the running mean and variance, None if it keeps none."""
        mean, variance = self.state("running_mean", "mean"), self.state("running_var", "variance")
        return None if mean is None or variance is None else (mean, variance)

    def is_set_alike(self, name: str) -> bool:
        """Return whether both sides say the same of a setting, or one says nothing."""
        sides = self.reference.get(name), self.candidate.get(name)
        return None in sides or are_equal(*sides)

    def state(self, *names: str) -> Array | None:
        """Give the first weight or buffer that is there under one of the names."""
        return next((self.states[name] for name in names if name in self.states), None)


def batch_statistics(sides: Contrast, layer: Layer) -> Cause | None:
    """See whether the candidate is what BatchNorm gives in the other mode."""
    source = layer.source
    if layer.kind != "batch_norm" or source is None or source.shape != sides.reference.shape:
        return None
    if layer.running is None or not sides.budget.grants(PASSES * sides.size):
        return None
    modes = _modes(source, layer)
    for mode, (mean, variance) in modes.items():
        explained = _normalised(source, mean, variance, layer, layer.eps)
        if sides.fits(explained):
            numbers: dict[str, JSON] = {"mode": mode}
            text = f"the candidate is what this BatchNorm gives in {mode} mode"
            return Cause(name=CauseName.BATCH_STATISTICS, text=text, numbers=numbers)
    return None


def other_epsilon(sides: Contrast, layer: Layer) -> Cause | None:
    """See whether the candidate is what BatchNorm gives with another epsilon, in either mode."""
    source = layer.source
    if layer.kind != "batch_norm" or source is None or source.shape != sides.reference.shape:
        return None
    if not sides.budget.grants(2 * PASSES * sides.size):
        return None
    shape = (1, -1) + (1,) * (source.ndim - 2)
    weight, bias = layer.state("weight"), layer.state("bias")
    for mean, variance in _modes(source, layer).values():
        if not sides.is_reference(_normalised(source, mean, variance, layer, layer.eps)):
            continue
        scaled = source - mean.reshape(shape)
        scaled = scaled if weight is None else scaled * weight.reshape(shape)
        made = sides.candidate if bias is None else sides.candidate - bias.reshape(shape)
        axes = (0, *range(2, source.ndim))
        found = epsilon_of(made, scaled, variance.reshape(shape), axes)
        is_other = is_other_epsilon(found, layer.eps) and (variance + found > 0).all()
        if is_other and sides.fits(_normalised(source, mean, variance, layer, found)):
            return epsilon_cause("BatchNorm", found, layer.eps)
    return None


def _modes(source: Array, layer: Layer) -> dict[str, tuple[Array, Array]]:
    """Return the mean and the variance by which each mode normalises."""
    axes = (0, *range(2, source.ndim))
    modes = {"training": (source.mean(axis=axes), source.var(axis=axes))}
    return modes if layer.running is None else modes | {"eval": layer.running}


def _normalised(source: Array, mean: Array, variance: Array, layer: Layer, eps: float) -> Array:
    shape = (1, -1) + (1,) * (source.ndim - 2)
    given = (source - mean.reshape(shape)) / np.sqrt(variance + eps).reshape(shape)
    weight, bias = layer.state("weight"), layer.state("bias")
    given = given if weight is None else given * weight.reshape(shape)
    result: Array = given if bias is None else given + bias.reshape(shape)
    return result


def dropout(sides: Contrast) -> Cause | None:
    """See whether one side left elements out at random and scaled the others up."""
    reference, candidate = sides.reference, sides.candidate
    if reference.size < ENOUGH or not sides.budget.grants(PASSES * sides.size):
        return None
    for side, dropped, whole in (
        ("candidate", candidate, reference),
        ("reference", reference, candidate),
    ):
        kept = (dropped != 0) & (whole != 0)
        lost = (dropped == 0) & (whole != 0)
        share = np.count_nonzero(lost) / dropped.size
        if np.count_nonzero(kept) < ENOUGH // 4 or not LEAST_SHARE < share < 1:
            continue
        ratio = dropped[kept] / whole[kept]
        scale = float(np.median(ratio))
        if (
            scale > 1 + LEAST_SHARE
            and np.abs(ratio / scale - 1).max() <= EXPLAINED + 4 * sides.unit
        ):
            alone = int(np.count_nonzero((whole == 0) & (dropped != 0)))
            is_both = alone > LEAST_SHARE * dropped.size
            return _dropped(side, share, 1 - 1 / scale, is_both=is_both)
    return None


def _dropped(side: str, share: float, p: float, *, is_both: bool) -> Cause:
    """Say on which side elements are left out at random, and how the others are scaled."""
    text = f"dropout is active on the {side}: {share:.1%} are zero, the others 1/(1-{p:.3g})"
    if is_both:
        text = (
            "dropout is active on both sides, and leaves other elements out; what both keep is "
            f"1/(1-{p:.3g}) times as large on the {side}"
        )
    numbers: dict[str, JSON] = {
        "p": p,
        "zero_share": share,
        "side": "both" if is_both else side,
    }
    return Cause(name=CauseName.DROPOUT, text=text, numbers=numbers)


def transposed_weight(sides: Contrast, layer: Layer) -> Cause | None:
    """See whether the candidate is what a square Linear gives with its weight transposed."""
    weight, source = layer.state("weight"), layer.source
    if weight is None or source is None or layer.kind not in {"linear", ""} or not source.ndim:
        return None
    if weight.ndim != 2 or len({*weight.shape, source.shape[-1]}) != 1:  # noqa: PLR2004
        return None
    bias = layer.state("bias")
    for used, right in sides.tries(
        ((weight, weight.T), (weight.T, weight)), PASSES + len(weight) // PRODUCTS
    ):
        given, expected = source @ used, source @ right
        if bias is not None and bias.shape == given.shape[-1:]:
            given, expected = given + bias, expected + bias
        if sides.fits(given) and sides.is_reference(expected):
            return Cause(
                name=CauseName.TRANSPOSED_WEIGHT,
                text="the candidate is what the transposed weight gives",
            )
    return None


def moved_state(sides: Contrast, states: Mapping[str, Array]) -> Cause | None:
    """See whether the sides differ as a weight and the same moved by one do: learnt positions.

    Args:
        sides: What the code of a module made: shape (..., token, feature).
        states: The weights and buffers of that module, shape (..., token, feature).
    """
    shape = sides.reference.shape
    for name, state in states.items():
        is_same = state.ndim >= 2 and len(shape) >= state.ndim and state.shape[-2:] == shape[-2:]  # noqa: PLR2004
        if not is_same or state.size != math.prod(shape[-2:]) or shape[-2] < LEAST_TOKENS:
            continue
        table = state.reshape(shape[-2:])
        for by in sides.tries((1, -1), PASSES):
            change = np.roll(table, by, axis=0) - table
            inner = replace(  # without the ends, where it depends on what came in
                sides,
                reference=sides.reference[..., 1:-1, :],
                candidate=sides.candidate[..., 1:-1, :],
            )
            if inner.error and inner.fits(inner.reference + change[1:-1]):
                text = f"the difference is that of {name!r} and the same moved by {by:+d} along "
                return Cause(
                    name=CauseName.SHIFTED,
                    text=f"{text}its first axis: positions are off by one",
                    numbers={"state": name, "by": by},
                )
    return None


def running_variance(sides: Contrast, layer: Layer) -> Cause | None:
    """See whether the sides differ as the biased and the unbiased batch variance do.

    The ratio of the two is n / (n - 1) of the batch's part, so that the difference has one sign
    and is at most 1 / (n - 1) of the value.
    """
    source, reference, candidate = layer.source, sides.reference, sides.candidate
    if layer.kind != "batch_norm" or not (reference > 0).all():
        return None
    share = (reference - candidate) / candidate
    if not ((share >= 0).all() or (share <= 0).all()):
        return None
    count = None if source is None else source.size // source.shape[1]
    largest = float(np.abs(share).max())
    if count is not None and largest > (1 + EXPLAINED) / max(count - 1, 1):
        return None
    if count is None and largest > EXPLAINED:
        return None
    return Cause(
        name=CauseName.RUNNING_VARIANCE,
        text="one side updates with the biased, the other with the unbiased batch variance",
        numbers={"largest_share": largest, "count": count},
    )
