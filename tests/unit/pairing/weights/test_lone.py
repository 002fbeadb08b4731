"""Parameters that are left in two partner containers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder, MemorySide

Array = npt.NDArray[Any]
RNG = np.random.default_rng(19)


def _side(own: list[str], inner: list[str], *, blocks: int = 2, size: int = 6) -> MemorySide:
    """Make blocks with a layer that tells them, and vectors in a block and in a module inside."""
    built = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    for block in range(blocks):
        path = f"blocks.{block}"
        built.module(path, "Block", class_path="user.Block")
        built.module(f"{path}.key", "Linear", class_path="torch.nn.Linear")
        built.tensor(f"{path}.key", "weight", RNG.normal(size=(size, size)))
        if inner:
            built.module(f"{path}.scan", "Scan", class_path="user.Scan")
        for names, holder in ((own, path), (inner, f"{path}.scan")):
            for name in names:
                built.tensor(holder, name, RNG.normal(size=size))
    return built.side()


def _shown(one: MemorySide, two: MemorySide) -> dict[str, tuple[str, bool]]:
    return {
        names_of(two, (pair.candidate,)): (names_of(one, pair.reference), pair.is_ambiguous)
        for pair in plan_weights(one, two).pairs
    }


def test_the_only_one_of_its_size_in_a_block_has_the_only_one_there() -> None:
    one, two = _side(["decay"], []), _side([], ["w"])

    shown = _shown(one, two)

    assert shown["blocks.1.scan.w"] == ("blocks.1.decay", False)


def test_initials_of_a_name_tell() -> None:
    one, two = _side(["time_mix_k", "time_mix_v"], []), _side([], ["mv", "mk"])

    shown = _shown(one, two)

    assert shown["blocks.0.scan.mk"] == ("blocks.0.time_mix_k", False)
    assert shown["blocks.1.scan.mv"] == ("blocks.1.time_mix_v", False)


def test_what_no_name_tells_is_for_a_run_to_tell_in_all_blocks_alike() -> None:
    one, two = _side(["decay", "first"], []), _side([], ["w", "u"])

    choices = plan_weights(one, two).choices

    assert [way.label for way in choices[0].ways] == [
        "w = decay, u = first",
        "w = first, u = decay",
    ]
    assert len(choices) == 2
    assert choices[0].is_like(choices[1])
    assert not choices[0].is_fused
    assert all(ambiguous for _, ambiguous in _shown(one, two).values() if "scan" in _)


@pytest.mark.parametrize(
    ("own", "inner"),
    [(["a", "b"], ["w"]), (["pa", "pe", "pi", "po", "pu"], ["ka", "ke", "ki", "ko", "ku"])],
)
def test_unequal_numbers_and_more_than_four_stay_missing(own: list[str], inner: list[str]) -> None:
    plan = plan_weights(_side(own, []), _side([], inner))

    assert len(plan.missing) == 2 * (len(own) + len(inner))


def _holding(**held: dict[str, Array]) -> MemorySide:
    built = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    for kind, tensors in held.items():
        name = kind.rpartition("_")[2]
        built.module(name, name, class_path=f"{kind.replace('_', '.')}")
        for one, value in tensors.items():
            built.tensor(name, one, value)
    return built.side()


def test_what_nothing_else_tells_is_paired_by_what_only_one_of_each_side_holds() -> None:
    (scale, shift), fresh = RNG.normal(size=(2, 6)), np.zeros(6)
    wide = {"w": RNG.normal(size=(12, 6))}
    other = _holding(user_Own={"first": shift, "other": scale, "third": fresh, **wide})
    twice = _holding(user_Own={"first": scale, "other": scale, "third": fresh, **wide})
    linear = {"weight": RNG.normal(size=(6, 6)), "bias": fresh}
    norm = {"weight": scale, "bias": shift}

    one = _holding(torch_nn_LayerNorm=norm, torch_nn_Linear=linear)

    assert _shown(one, other) == {
        "Own.first": ("LayerNorm.bias", False),
        "Own.other": ("LayerNorm.weight", False),
    }
    assert _shown(one, twice) == {}
