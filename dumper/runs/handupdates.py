"""Whether a script changes weights itself, without an optimizer that could be watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumper.adapter import Adapter, Array, Tensor

WATCHED_BYTES = 1 << 20
"""Copied after a backward pass, of the smallest weights; one at least."""
_LARGEST_ITEM = 8


class HandUpdates:
    """Compares weights with what they were after the last backward pass.

    By their elements: ``p.data -= ...`` and Paddle's ``set_value`` move no version counter. The
    smallest weights are enough, since an update changes nearly all of them.
    """

    def __init__(self, adapter: Adapter, weights: Sequence[Tensor]) -> None:
        """Choose what to look at.

        Args:
            adapter: The framework.
            weights: All that are trained.
        """
        self._adapter = adapter
        self._watched: list[Tensor] = []
        size_bytes = 0
        for weight in sorted(weights, key=_size):
            size_bytes += _LARGEST_ITEM * _size(weight)
            if size_bytes <= WATCHED_BYTES or not self._watched:
                self._watched.append(weight)
        self._before: list[Array] = []

    def backward_ended(self) -> None:
        """Copy the weights as they are, if some have a gradient."""
        if any(self._adapter.gradient(weight) is not None for weight in self._watched):
            self._before = [self._adapter.snapshot(weight) for weight in self._watched]

    def happened(self) -> bool:
        """Return whether a weight has changed since; if so, wait for the next backward pass."""
        if not self._before:
            return False
        is_changed = any(
            not np.array_equal(before, self._adapter.snapshot(weight))
            for before, weight in zip(self._before, self._watched, strict=True)
        )
        if is_changed:
            self._before = []
        return is_changed


def _size(weight: Tensor) -> int:
    return int(np.prod(tuple(weight.shape), dtype=np.int64))
