"""A likely cause of a divergence, with the numbers that support it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.dumpfile import JSON

__all__ = ["LIKELY", "Cause", "CauseName"]

LIKELY = "likely cause"
"""How a line of evidence begins that names one."""


class CauseName(StrEnum):
    """What the numbers look like."""

    FACTOR = "factor"
    SIGN = "sign"
    OFFSET = "offset"
    BIAS = "bias"
    FEATURE_FACTOR = "feature_factor"
    """One factor for each entry of an axis."""
    TRANSPOSED = "transposed"
    TRANSPOSED_WEIGHT = "transposed_weight"
    PERMUTED = "permuted"
    SHIFTED = "shifted"
    """Off by one along an axis."""
    BORDER = "border"
    TAIL = "tail"
    """From some index on."""
    HEAD = "head"
    """Up to some index."""
    HEADS = "heads"
    SOME = "some_indices"
    OTHER_WEIGHT = "other_weight"
    """A weight that belongs elsewhere."""
    PRECISION = "precision"
    BATCH_STATISTICS = "batch_statistics"
    """BatchNorm in the other mode."""
    DROPOUT = "dropout"
    FUNCTION = "function"
    """Another function of the same input: an activation, the axis of a softmax, an epsilon."""
    COMBINATION = "combination"
    """Another sum of what was at hand: a residual left out, a factor."""
    ATTENTION = "attention"
    """Another attention of the same queries, keys and values."""
    ORDER = "order"
    """A norm before a layer on one side, behind it on the other."""
    CUT = "cut"
    """A gradient that lacks a branch."""
    RUNNING_VARIANCE = "running_variance"
    """Biased against unbiased."""
    OPTIMIZER = "optimizer"
    """Another optimizer, or other options."""
    EPSILON = "epsilon"
    """An epsilon of another size or in another place."""
    WEIGHT_DECAY = "weight_decay"
    UPDATE = "update"
    """Another mixture of gradient and momentum."""
    CLIP = "clip"
    """Gradients clipped otherwise."""
    ACCUMULATED = "accumulated"
    """Gradients of an earlier step that were not cleared."""
    SCALED = "scaled"
    """All gradients scaled by one factor."""
    RATE_SHIFT = "rate_shift"
    """The learning rates of another step."""
    LOSS = "loss"
    """Another reduction, smoothing or scale of the loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One explanation that fits the numbers."""

    name: CauseName
    text: str
    """One line."""
    numbers: Mapping[str, JSON] = field(default_factory=dict)
    """What it rests on."""

    def __str__(self) -> str:
        """Give one line of evidence."""
        return f"{LIKELY}: {self.text}"
