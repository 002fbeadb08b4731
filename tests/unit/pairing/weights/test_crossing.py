"""What the order of two runs suggests, and the containers or the strides of both sides deny."""

from __future__ import annotations

import numpy as np

from padiff.dumpfile import Role
from padiff.pairing.result import ModulePair, PairedBy
from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder, MemorySide

RNG = np.random.default_rng(8)


def _norms(*paths: str) -> MemorySide:
    builder = DumpBuilder().module("", "Net", class_path="user.Net")
    for block in ("first", "second"):
        builder.module(block, "Block", class_path="user.Block")
    for path in paths:
        builder.module(path, "LayerNorm")
        builder.tensor(path, "weight", RNG.normal(size=4), role=Role.WEIGHT)
    return builder.side()


def _convs(**strides: int) -> MemorySide:
    builder = DumpBuilder().module("", "Net", class_path="user.Net")
    for path, stride in strides.items():
        builder.module(path, "Conv2d", attributes={"stride": [stride, stride]})
        builder.tensor(path, "weight", RNG.normal(size=(4, 3, 1, 1)), role=Role.WEIGHT)
    return builder.side()


def _run(one: MemorySide, two: MemorySide, pairs: dict[str, str]) -> list[ModulePair]:
    ids = [{module.path: module.id for module in side.index.modules} for side in (one, two)]
    return [
        ModulePair(reference=ids[0][a], candidate=ids[1][b], paired_by=PairedBy.STRUCTURE)
        for a, b in pairs.items()
    ]


def _sure(one: MemorySide, two: MemorySide, modules: list[ModulePair]) -> dict[str, str]:
    return {
        names_of(one, pair.reference): names_of(two, [pair.candidate])
        for pair in plan_weights(one, two, modules=modules).pairs
        if not pair.is_ambiguous
    }


def test_pairs_that_leave_partner_blocks_are_not_believed_nor_what_shifted_with_them() -> None:
    paths = "start", "first.norm1", "first.norm2", "second.norm1", "second.norm2"
    one, two = _norms(*paths), _norms(*paths[1:], "start")
    shifted = {"": "", "first": "first", "second": "second"}
    shifted |= {"start": "first.norm1", "first.norm1": "first.norm2", "first.norm2": "second.norm1"}

    found = _sure(one, two, _run(one, two, shifted))

    assert found == {f"{path}.weight": f"{path}.weight" for path in paths}


def test_a_norm_of_a_wrapper_may_lie_outside_of_it() -> None:
    one, two = _norms("first.norm", "second.norm"), _norms("first.norm", "norm")
    modules = _run(one, two, {"": "", "first": "first", "second.norm": "norm"})

    assert _sure(one, two, modules)["second.norm.weight"] == "norm.weight"


def test_strides_tell_convolutions_of_one_size_apart() -> None:
    one, two = _convs(main=1, side=2), _convs(b=2, a=1)

    assert _sure(one, two, []) == {"main.weight": "a.weight", "side.weight": "b.weight"}


def test_strides_are_stronger_than_the_order_of_the_runs() -> None:
    one, two = _convs(main=1, side=2), _convs(a=2, b=1)
    modules = _run(one, two, {"main": "a", "side": "b"})

    assert _sure(one, two, modules) == {"main.weight": "b.weight", "side.weight": "a.weight"}


def test_a_wrong_stride_of_the_candidate_decides_nothing() -> None:
    one, two = _convs(main=1, side=2), _convs(a=1, b=1)

    assert _sure(one, two, []) == {}


def _blocks(**sizes: tuple[str, int]) -> MemorySide:
    """Build blocks, each with a matrix that only its partner has, and one that both have."""
    builder = DumpBuilder().module("", "Net", class_path="user.Net")
    for block, (path, _) in sizes.items():
        builder.module(f"up.{path}" if path.isdigit() else block, "Block", class_path="user.Block")
    for block, (path, width) in sizes.items():
        outer = f"up.{path}" if path.isdigit() else block
        for name, shape in (("enter", (4, width)), ("leave", (4, 4))):
            builder.module(f"{outer}.{name}", "Linear")
            builder.tensor(f"{outer}.{name}", "weight", RNG.normal(size=shape), role=Role.WEIGHT)
    return builder.side()


def test_sizes_that_tell_blocks_come_before_the_order_of_their_numbers() -> None:
    one = _blocks(u2=("u2", 7), u1=("u1", 5))
    two = _blocks(first=("0", 7), second=("1", 5))

    found = {
        names_of(one, pair.reference): names_of(two, [pair.candidate])
        for pair in plan_weights(one, two).pairs
    }

    assert found["u2.leave.weight"] == "up.0.leave.weight"
    assert found["u1.leave.weight"] == "up.1.leave.weight"
