"""Equal trees are paired without looking at what there is to doubt; looking gives the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff.pairing import SideName, pair
from padiff.pairing.calls.confidence import rate, rate_calls
from padiff.pairing.calls.onesided import hidden_by_weights
from padiff.pairing.calls.proof import Proofs
from padiff.pairing.stages import certain, identity, is_same_by_name
from padiff.pairing.view import view_of
from padiff.pairing.weights.owned import pair_owned
from padiff.pairing.weights.plan import plan_weights
from tests.support import treegen

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.pairing.view import View
    from tests.support.treelayers import Node

SEEDS = st.integers(min_value=0, max_value=10**6)
CHANGES: dict[str, Callable[[Node, random.Random], Node]] = {
    "nothing": lambda node, _: node,
    "other weights": lambda node, _: treegen.reseeded(node),
    "an output scaled": treegen.faulty,
    "an epsilon changed or a weight transposed": treegen.skewed,
}


def equal_trees(
    seed: int, change: str, *, is_rich: bool, framework: str = "paddle"
) -> tuple[View, View]:
    """Run a model with ties and repeated calls, and the same tree with other values."""
    generator = random.Random(seed)
    reference = treegen.plant(generator, 5, is_activated_first=not is_rich, is_rich=is_rich)
    candidate = CHANGES[change](reference, generator)
    sides = treegen.run(reference, "torch").side, treegen.run(candidate, framework).side
    return view_of(sides[0], SideName.REFERENCE), view_of(sides[1], SideName.CANDIDATE)


@pytest.mark.parametrize("is_rich", [False, True])
@pytest.mark.parametrize("change", sorted(CHANGES))
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_rating_equal_trees_finds_no_doubt(seed: int, change: str, *, is_rich: bool) -> None:
    views = equal_trees(seed, change, is_rich=is_rich)
    assert is_same_by_name(*views)
    calls, modules = identity(views[0])

    partners, proofs = rate(*views, modules, calls)

    assert partners == certain(modules)
    known = rate_calls(*views, calls, partners, proofs)
    assert list(known) == list(rate_calls(*views, calls, partners, Proofs()))


@pytest.mark.parametrize("change", sorted(CHANGES))
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS)
def test_no_call_of_equal_trees_is_hidden_by_weights(seed: int, change: str) -> None:
    views = equal_trees(seed, change, is_rich=True)
    calls, modules = identity(views[0])
    plan = plan_weights(views[0].side, views[1].side, modules=certain(modules))
    owned = pair_owned(*views, plan)

    assert hidden_by_weights(*views, calls.ahead, owned.pairs) == {}
    assert hidden_by_weights(views[1], views[0], calls.back, owned.pairs) == {}


@pytest.mark.parametrize("change", sorted(CHANGES))
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_equal_trees_are_paired_as_their_names_say(seed: int, change: str) -> None:
    views = equal_trees(seed, change, is_rich=False, framework="torch")

    found = pair(views[0].side, views[1].side)

    assert all(one.reference == (one.candidate,) for one in found.records)
    assert [(one.reference, one.candidate) for one in found.modules] == [
        (module.id, module.id) for module in views[0].modules
    ]
    assert all(one.reference == one.candidate for one in found.calls)
    assert {one.confidence for one in found.modules} == {1.0}
    assert {one.confidence for one in found.calls} <= {1.0}
    assert (found.unmatched, found.notes, found.same_structure) == ((), (), True)
