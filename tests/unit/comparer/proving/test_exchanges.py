"""Sizes of what may be exchanged, and the order in which it is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.proving.exchanges import Region
from tests.support.small_programs import lowered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.program.lowering.builder import Term


def _diamond(leaves: Mapping[str, Term]) -> Term:
    """Read one value twice, and what is made of both in one sum."""
    shared = leaves["x"] * 2.0
    return (shared + leaves["x"]) + (shared - leaves["x"])


def test_the_size_of_a_term_counts_each_primitive_behind_it_once() -> None:
    program, _ = lowered({"x": (4,)}, _diamond)
    result = len(program.specs) - 1
    numbers = range(len(program.specs))

    region = Region(program, numbers, {0}, [result])

    assert region.sizes[0] == 0
    for term in region.sizes.keys() - {0}:
        assert region.sizes[term] == len(program.behind([term], known={0}))
