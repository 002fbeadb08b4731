"""The precision that a model computes in, as its weights and what is made with them tell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.dumpfile import Role, is_floating

from .dtypebounds import epsilon_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumpfile import Index, RecordInfo

__all__ = ["model_dtype"]

_MATRIX = 2
"""Axes of a weight that a product is taken with, at least."""


def model_dtype(index: Index) -> str:
    """Name the most frequent floating dtype of the weights; ``""`` without any.

    A float32 loss or a norm that computes in float32 inside a bfloat16 model is no more precise
    than what is fed to it: its tolerance is that of the model's dtype. Under autocast the weights
    are float32, and half or more of the products are taken in a narrower dtype: that is then the
    model's.
    """
    weight, output = Role.WEIGHT, Role.OUTPUT
    weights = [record for record in index.records if record.role is weight]
    matrices = {record.module for record in weights if len(record.shape) >= _MATRIX}
    products = [
        record for record in index.records if record.role is output and record.module in matrices
    ]
    own, made = _floating(index, weights), _floating(index, products)
    if not own:
        return ""
    name = own.most_common(1)[0][0]
    narrow = [dtype for dtype in made if epsilon_of(dtype) > epsilon_of(name)]
    if 2 * sum(made[dtype] for dtype in narrow) >= sum(made.values()) > 0:
        return max(narrow, key=lambda dtype: made[dtype])
    return name


def _floating(index: Index, records: Iterable[RecordInfo]) -> Counter[str]:
    """Count the floating dtypes of records."""
    values = index.values
    names = Counter([values[one.value].dtype for one in records if one.value is not None])
    return Counter({name: count for name, count in names.items() if is_floating(name)})
