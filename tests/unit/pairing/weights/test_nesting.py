"""Containers are paired by what they share, which all leaves of one container share alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.pairing.calls import modules as nesting
from padiff.pairing.calls.modules import Nested, Nesting, pair_nesting
from padiff.pairing.result import Matching

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


def tree(groups: int, leaves: int, *, wrappers: int = 0) -> Nesting:
    """Make a root with wrappers around groups of leaves."""
    parents: list[int | None] = [None, *range(wrappers)]
    found: list[int] = []
    for _ in range(groups):
        group = len(parents)
        parents.append(wrappers)
        found += range(group + 1, group + 1 + leaves)
        parents += [group] * leaves
    return Nesting(parents=parents, leaves=found)


def paired(one: Nesting, two: Nesting) -> list[Nested]:
    both = zip(one.leaves, two.leaves, strict=True)
    return pair_nesting(one, two, both, Matching(), lambda rows, _: np.ones(len(rows)))


def test_groups_of_the_same_leaves_are_partners() -> None:
    one, two = tree(3, 4), tree(3, 4, wrappers=1)

    found = {(pair.reference, pair.candidate): pair.share for pair in paired(one, two)}

    outer = {(one.parents[a], two.parents[b]) for a, b in zip(one.leaves, two.leaves, strict=True)}
    assert outer <= found.keys()
    assert set(found.values()) == {1.0}
    assert len(found) == 4


def test_leaves_of_one_container_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    around = nesting._Chains.around

    def counting(self: nesting._Chains, innermost: int, levels: int) -> Iterator[int]:
        walked.append(innermost)
        return around(self, innermost, levels)

    monkeypatch.setattr(nesting._Chains, "around", counting)

    paired(tree(5, 400), tree(5, 400))

    assert len(walked) == 4 * 5
