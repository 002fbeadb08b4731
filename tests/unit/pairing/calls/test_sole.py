"""Which layers can only be one layer of the other side, by what runs before them."""

from __future__ import annotations

import numpy as np

from padiff.pairing.calls.forced import sole_partners

POINTWISE, DEPTHWISE = 0, 1


def numbers(*kinds: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(kinds, np.int64)


def test_a_layer_before_which_nothing_ran_is_no_partner_of_one_that_needs_a_layer() -> None:
    # Depthwise; then pointwise and depthwise: the last one is fed by the one before.
    kinds = numbers(DEPTHWISE, POINTWISE, DEPTHWISE)
    ancestors = [(0, 0), (0, 0), (0, 0b10)]

    found = sole_partners((ancestors, ancestors), (kinds, kinds), [([0, 2], [0, 2])])

    assert sorted(found) == [(0, 0), (2, 2)]


def test_the_order_of_the_branches_does_not_matter_where_one_side_runs_the_shorter_first() -> None:
    mine, theirs = (
        numbers(DEPTHWISE, POINTWISE, DEPTHWISE),
        numbers(POINTWISE, DEPTHWISE, DEPTHWISE),
    )
    ancestors = [(0, 0), (0, 0), (0, 0b10)], [(0, 0), (1, 0), (0, 0)]

    found = sole_partners(ancestors, (mine, theirs), [([0, 2], [1, 2])])

    assert sorted(found) == [(0, 2), (2, 1)]


def test_both_stay_possible_where_the_longer_branch_runs_first_on_both_sides() -> None:
    kinds = numbers(POINTWISE, DEPTHWISE, DEPTHWISE)
    ancestors = [(0, 0), (1, 0), (0, 0)]

    assert list(sole_partners((ancestors, ancestors), (kinds, kinds), [([1, 2], [1, 2])])) == []


def test_nothing_is_said_of_groups_in_which_a_layer_has_no_possible_partner() -> None:
    mine = numbers(DEPTHWISE, POINTWISE, DEPTHWISE)
    theirs = numbers(DEPTHWISE, DEPTHWISE, POINTWISE)
    ancestors = [(0, 0), (0, 0), (0, 0b10)], [(0, 0), (0, 0), (0, 0)]

    assert list(sole_partners(ancestors, (mine, theirs), [([0, 2], [0, 1])])) == []
