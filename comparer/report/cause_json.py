"""Likely causes and error profiles as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .json_values import strict

if TYPE_CHECKING:
    from padiff.comparer.causes.cause import Cause
    from padiff.comparer.causes.profile import AxisProfile
    from padiff.dumpfile import JSON

__all__ = ["cause_to_json", "profile_to_json"]


def cause_to_json(cause: Cause) -> dict[str, JSON]:
    """Give a cause with its numbers."""
    numbers = {name: strict(value) for name, value in cause.numbers.items()}
    return {"name": str(cause.name), "text": cause.text, "numbers": numbers}


def profile_to_json(axis: AxisProfile) -> dict[str, JSON]:
    """Give the error along one axis."""
    return {
        "axis": axis.axis,
        "name": axis.name,
        "size": axis.size,
        "mismatched": list(axis.mismatched),
        "max_abs": [strict(value) for value in axis.max_abs],
    }
