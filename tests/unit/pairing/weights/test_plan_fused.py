"""What the plan of weights makes of fused layers, and of what could be parts of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.pairing.weights.plan import plan_weights
from tests.support.planning import shown, side_of

if TYPE_CHECKING:
    from tests.support.dumps import MemorySide

Array = npt.NDArray[Any]
RNG = np.random.default_rng(7)


def _random(*shape: int) -> Array:
    return RNG.normal(size=shape)


def test_gate_and_up_in_the_order_of_the_name_are_not_ambiguous() -> None:
    names = ("gate_proj", "up_proj")
    one = side_of("torch", {n: ("torch.nn.Linear", {"weight": _random(5, 3)}) for n in names})
    two = side_of("torch", {"gate_up_proj": ("torch.nn.Linear", {"weight": _random(10, 3)})})

    plan = plan_weights(one, two)

    assert str(plan.pairs[0].rule) == "concat 0"
    assert not plan.ambiguous


def test_fused_projection_without_values_is_ambiguous_and_lists_interleaving() -> None:
    sizes = {"q_proj": 8, "k_proj": 4, "v_proj": 4}
    one = side_of(
        "torch", {n: ("torch.nn.Linear", {"weight": _random(k, 3)}) for n, k in sizes.items()}
    )
    two = side_of("paddle", {"qkv_proj": ("paddle.nn.Linear", {"weight": _random(3, 16)})})

    (pair,) = plan_weights(one, two).ambiguous

    options = {str(option.rule) for option in pair.alternatives}
    assert "interleave 2 | transpose" in options


def test_layers_that_both_sides_have_as_many_of_are_no_parts_of_a_larger_one() -> None:
    """Two convolutions of half the channels would fill a third one, which has a partner too."""
    small, large = (4, 8, 3, 3), (8, 8, 3, 3)

    def side(framework: str, name: str, paths: tuple[str, ...]) -> MemorySide:
        shapes = (large, large, small, small)
        return side_of(
            framework,
            {
                path: (name, {"weight": _random(*shape)})
                for path, shape in zip(paths, shapes, strict=True)
            },
        )

    one = side("torch", "torch.nn.Conv2d", ("up.first", "down.second", "left", "right"))
    two = side("paddle", "paddle.nn.Conv2D", ("a.0", "a.1", "c.x", "c.y"))

    plan = plan_weights(one, two)

    assert (plan.missing, plan.choices) == ((), ())
    assert {str(pair.rule) for pair in plan.pairs} == {"identity"}


def test_spare_copies_of_a_layer_are_no_partners_for_what_a_fused_one_is_made_of() -> None:
    """One instance of four layers with four copies of it, and q, k, v of its size beside it."""
    shared, parts = _random(6, 6), [_random(6, 6) for _ in "qkv"]
    one = side_of(
        "torch",
        {
            "shared": ("torch.nn.Linear", {"weight": shared}),
            **{n: ("torch.nn.Linear", {"weight": p}) for n, p in zip("qkv", parts, strict=True)},
        },
    )
    two = side_of(
        "paddle",
        {
            **{n: ("paddle.nn.Linear", {"weight": shared.T}) for n in ("a", "b", "c", "d")},
            "all": ("paddle.nn.Linear", {"weight": np.concatenate(parts).T}),
        },
    )

    found = shown(plan_weights(one, two), one, two)

    assert found["all.weight"] == "q.weight + k.weight + v.weight: concat 0 | transpose"
    assert set(found) - {"all.weight"} <= {"a.weight", "b.weight", "c.weight", "d.weight"}


def test_values_of_fused_layers_say_more_than_where_their_parts_lie() -> None:
    """Each fused layer lies in the container of the other one's parts."""
    parts = {place: [_random(6, 6) for _ in "qkv"] for place in ("block", "mix")}
    known = _random(5, 6)
    one = side_of(
        "torch",
        {
            "block": ("user.Block", {}),
            "mix": ("user.Block", {}),
            "block.out": ("torch.nn.Linear", {"weight": known}),
            **{
                f"{place}.{name}": ("torch.nn.Linear", {"weight": part})
                for place, own in parts.items()
                for name, part in zip("qkv", own, strict=True)
            },
        },
    )
    two = side_of(
        "paddle",
        {
            "a": ("user.Part", {}),
            "b": ("user.Part", {}),
            "a.x": ("paddle.nn.Linear", {"weight": known.T}),
            "a.y": ("paddle.nn.Linear", {"weight": np.concatenate(parts["mix"]).T}),
            "b.z": ("paddle.nn.Linear", {"weight": np.concatenate(parts["block"]).T}),
        },
    )

    found = shown(plan_weights(one, two), one, two)

    assert found["a.y.weight"].startswith("mix.q.weight + mix.k.weight + mix.v.weight")
    assert found["b.z.weight"].startswith("block.q.weight + block.k.weight + block.v.weight")
