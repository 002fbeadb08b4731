"""What diverged in a step explains the steps after it, in all that is said of them."""

from __future__ import annotations

from dataclasses import replace

from padiff.comparer import Kind, StepComparison, Verdict
from padiff.comparer.steps import inherit_across
from padiff.dumpfile import Phase, Role
from tests.support.comparisons import comparison, divergence, endpoint, metrics, pair, tree


def diverged(number: int) -> StepComparison:
    """Make a step in which a layer is an origin by itself, and then the update of its weight."""
    output = endpoint("fc")
    weight = replace(endpoint("fc", role=Role.WEIGHT, phase=Phase.UPDATE), module=1)
    found = [
        pair(end, end, Verdict.DIVERGED, kind=Kind.ORIGIN, measured=metrics())
        for end in (output, weight)
    ]
    rows = tree(["", "fc"], {"fc": Verdict.DIVERGED}, origins=["fc"])
    whole = comparison(found, rows, [divergence(one) for one in found])
    return replace(whole.steps[0], step=number)


def test_pairs_and_tree_of_later_steps_are_inherited_as_their_divergences_are() -> None:
    first, second = inherit_across([diverged(0), diverged(1)])

    assert first == diverged(0)
    assert {one.kind for one in second.divergences} == {Kind.INHERITED}
    assert {one.kind for one in second.pairs} == {Kind.INHERITED}
    assert [(row.origin, row.inherited) for row in second.tree] == [(False, False), (False, True)]


def test_what_stays_an_origin_stays_one_in_pairs_and_tree() -> None:
    first, second = inherit_across([diverged(0), diverged(1)], frozenset({Phase.FORWARD}))

    assert first == diverged(0)
    assert [one.kind for one in second.divergences] == [Kind.ORIGIN, Kind.INHERITED]
    assert [one.kind for one in second.pairs] == [Kind.ORIGIN, Kind.INHERITED]
    assert [row.origin for row in second.tree] == [False, True]
