"""How far two records are apart under a layout rule, by their elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError, DumpError, RecordInfo

from .sampled import Elements, elements_of, match_elements

if TYPE_CHECKING:
    from padiff.pairing.rule import Rule
    from padiff.pairing.side import Side

__all__ = ["EQUAL", "distance", "elements_of_both"]

Array = npt.NDArray[np.generic]
EQUAL = 1e-2
"""Relative distance up to which two tensors count as the same under a layout."""


def elements_of_both(
    sides: tuple[Side, Side], one: RecordInfo, two: RecordInfo
) -> tuple[Elements, Elements] | None:
    """Give all elements of both, or what a sampled dump holds of them; None if that is nothing."""
    try:
        known = elements_of(sides[0], one)
        found = elements_of(sides[1], two)
    except DumpError:
        return None
    return None if known is None or found is None else (known, found)


def distance(rule: Rule, one: Elements, two: Elements) -> float:
    """Give the distance relative to the reference's size, over what is finite on both sides."""
    try:
        made, found = _both(rule, one, two)
    except ConfigError:
        return float("inf")
    if np.iscomplexobj(made) or np.iscomplexobj(found):
        made, found = np.abs(made), np.abs(found)
    mine, theirs = made.astype(np.float64), found.astype(np.float64)
    both = np.isfinite(mine) & np.isfinite(theirs)
    size = float(np.linalg.norm(mine[both]))
    gap = float(np.linalg.norm(theirs[both] - mine[both]))
    return gap / size if size else float("inf")


def _both(rule: Rule, one: Elements, two: Elements) -> tuple[Array, Array]:
    """Give the reference in the candidate's layout, and the candidate; of samples, what both hold.

    Raises:
        ConfigError: The rule does not fit, or the samples have too little in common.
    """
    if one.positions is None and two.positions is None:
        made = rule.apply([one.values.reshape(one.shape)], two.shape)
        return np.asarray(made), two.values.reshape(two.shape)
    matched = match_elements(rule, [one], two)
    if matched is None:
        raise ConfigError("the samples have too little in common")
    return matched.reference, matched.candidate
