"""w1, w2 and w3 of a gated network: two conventions, told by the sizes."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.dumpfile import Role
from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder, MemorySide

UP, DOWN = (6, 4), (4, 6)
RNG = np.random.default_rng(8)
NAMED = {"up_proj": UP, "down_proj": DOWN, "gate_proj": UP}


def _net(shapes: dict[str, tuple[int, int]]) -> MemorySide:
    builder = DumpBuilder().module("", "Net", class_path="user.Net")
    for name, shape in shapes.items():
        builder.module(name, "Linear")
        builder.tensor(name, "weight", RNG.normal(size=shape), role=Role.WEIGHT)
    return builder.side()


@pytest.mark.parametrize(
    ("numbered", "expected"),
    [
        ({"w1": UP, "w2": DOWN, "w3": UP}, {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}),
        ({"w1": UP, "w2": UP, "w3": DOWN}, {"gate_proj": "w1", "up_proj": "w2", "down_proj": "w3"}),
    ],
)
def test_the_way_down_is_the_one_of_another_shape(
    numbered: dict[str, tuple[int, int]], expected: dict[str, str]
) -> None:
    one, two = _net(NAMED), _net(numbered)

    plan = plan_weights(one, two)

    assert not plan.ambiguous
    found = {names_of(one, pair.reference): names_of(two, [pair.candidate]) for pair in plan.pairs}
    assert found == {f"{name}.weight": f"{other}.weight" for name, other in expected.items()}


def test_square_ones_are_ambiguous() -> None:
    square = dict.fromkeys(("w1", "w2", "w3"), (4, 4))

    plan = plan_weights(_net(dict.fromkeys(NAMED, (4, 4))), _net(square))

    assert len(plan.ambiguous) == 3
