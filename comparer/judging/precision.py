"""The precision that a model computes in, as its weights tell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.dumpfile import Role, is_floating

if TYPE_CHECKING:
    from padiff.dumpfile import Index

__all__ = ["model_dtype"]


def model_dtype(index: Index) -> str:
    """Name the most frequent floating dtype of the weights; ``""`` without any.

    A float32 loss or a norm that computes in float32 inside a bfloat16 model is no more precise
    than what is fed to it: its tolerance is that of the model's dtype.
    """
    dtypes = Counter(
        index.values[record.value].dtype
        for record in index.records
        if record.role is Role.WEIGHT and record.value is not None
    )
    names = [name for name, _ in dtypes.most_common() if is_floating(name)]
    return names[0] if names else ""
