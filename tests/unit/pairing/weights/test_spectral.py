"""Spectral norm kept in the layer itself on one side, in a layer beside it on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import Role
from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from tests.support.dumps import MemorySide

CONVS = {"first": (4, 3, 3, 3), "second": (4, 4, 3, 3), "third": (4, 4, 3, 3)}
RNG = np.random.default_rng(1)


def _inside() -> MemorySide:
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    for name, shape in CONVS.items():
        builder.module(name, "Conv2d")
        rows, columns = shape[0], int(np.prod(shape[1:]))
        builder.tensor(name, "bias", RNG.normal(size=4), role=Role.WEIGHT)
        builder.tensor(name, "weight_orig", RNG.normal(size=shape), role=Role.WEIGHT)
        builder.tensor(name, "weight_u", RNG.normal(size=rows), role=Role.BUFFER)
        builder.tensor(name, "weight_v", RNG.normal(size=columns), role=Role.BUFFER)
    return builder.side()


def _beside(*, has_convs: bool) -> MemorySide:
    builder = DumpBuilder(framework="paddle").module("", "Net", class_path="user.Net")
    for name, shape in CONVS.items():
        owner = f"{name}.conv" if has_convs else name
        builder.module(name, "Normed", class_path="user.Normed")
        if has_convs:
            builder.module(owner, "Conv2D")
        builder.module(f"{name}.norm", "SpectralNorm")
        rows, columns = shape[0], int(np.prod(shape[1:]))
        builder.tensor(f"{name}.norm", "weight_u", RNG.normal(size=rows), role=Role.BUFFER)
        builder.tensor(f"{name}.norm", "weight_v", RNG.normal(size=columns), role=Role.BUFFER)
        builder.tensor(owner, "weight", RNG.normal(size=shape), role=Role.WEIGHT)
        builder.tensor(owner, "bias", RNG.normal(size=4), role=Role.WEIGHT)
    return builder.side()


@pytest.mark.parametrize("has_convs", [True, False])
@pytest.mark.parametrize("is_forward", [True, False])
def test_vectors_go_to_the_layer_beside_their_weight(*, has_convs: bool, is_forward: bool) -> None:
    inside, beside = _inside(), _beside(has_convs=has_convs)
    sides = (inside, beside) if is_forward else (beside, inside)

    plan = plan_weights(*sides)

    assert not plan.missing
    assert not plan.ambiguous
    found = {
        names_of(sides[0], pair.reference): names_of(sides[1], [pair.candidate])
        for pair in plan.pairs
    }
    inner = ".conv" if has_convs else ""
    expected = {
        f"{name}.{one}": f"{name}{two}"
        for name in CONVS
        for one, two in (
            ("bias", f"{inner}.bias"),
            ("weight_orig", f"{inner}.weight"),
            ("weight_u", ".norm.weight_u"),
            ("weight_v", ".norm.weight_v"),
        )
    }
    assert found == (expected if is_forward else {two: one for one, two in expected.items()})
