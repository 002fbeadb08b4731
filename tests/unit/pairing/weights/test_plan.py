"""Weight plans on tiny trees: what is paired, what stays ambiguous, what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.pairing.maps.mapfile import MapFile
from padiff.pairing.result import PairedBy, SideName
from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.weight_text import names_of, plan_to_toml, problems_of
from tests.support.dumps import DumpBuilder, MemorySide
from tests.support.planning import shown, side_of

Array = npt.NDArray[Any]
RNG = np.random.default_rng(7)


def _random(*shape: int) -> Array:
    return RNG.normal(size=shape)


def test_square_linear_is_transposed_by_its_class() -> None:
    one = side_of("torch", {"fc": ("torch.nn.Linear", {"weight": _random(4, 4)})})
    two = side_of("paddle", {"fc": ("paddle.nn.Linear", {"weight": _random(4, 4)})})
    three = side_of("paddle", {"fc": ("paddle.compat.nn.Linear", {"weight": _random(4, 4)})})

    assert shown(plan_weights(one, two), one, two) == {"fc.weight": "fc.weight: transpose"}
    assert shown(plan_weights(one, three), one, three) == {"fc.weight": "fc.weight: identity"}


def test_linear_of_swapped_sizes_is_missing_although_it_would_fit_as_it_lies() -> None:
    one = side_of("torch", {"fc": ("torch.nn.Linear", {"weight": _random(7, 4)})})
    two = side_of("paddle", {"fc": ("paddle.nn.Linear", {"weight": _random(7, 4)})})

    plan = plan_weights(one, two)

    assert not plan.pairs
    assert [alone.side for alone in plan.missing] == [SideName.REFERENCE, SideName.CANDIDATE]
    assert "fc.weight" in "".join(problems_of(plan, one, two))


def test_matrix_of_unknown_class_lies_as_its_shape_demands() -> None:
    one = side_of("torch", {"lm_head": ("torch.nn.Linear", {"weight": _random(9, 4)})})
    two = side_of("paddle", {"lm_head": ("user.LMHead", {"weight": _random(9, 4)})})
    three = side_of("paddle", {"lm_head": ("user.LMHead", {"weight": _random(4, 9)})})

    assert shown(plan_weights(one, two), one, two)["lm_head.weight"].endswith("identity")
    assert shown(plan_weights(one, three), one, three)["lm_head.weight"].endswith("transpose")


def test_square_matrix_of_unknown_class_is_ambiguous_with_both_layouts() -> None:
    one = side_of("torch", {"head": ("torch.nn.Linear", {"weight": _random(4, 4)})})
    two = side_of("paddle", {"head": ("user.Head", {"weight": _random(4, 4)})})

    (pair,) = plan_weights(one, two).ambiguous

    assert {str(pair.rule), *(str(option.rule) for option in pair.alternatives)} == {
        "identity",
        "transpose",
    }


def test_equal_values_settle_a_square_matrix_of_unknown_class() -> None:
    values = _random(4, 4)
    one = side_of("torch", {"head": ("torch.nn.Linear", {"weight": values})})
    for array, rule in ((values, "identity"), (np.array(values.T, order="C"), "transpose")):
        two = side_of("paddle", {"head": ("user.Head", {"weight": array})})

        (pair,) = plan_weights(one, two).pairs

        assert str(pair.rule) == rule
        assert pair.paired_by is PairedBy.VALUE
        assert not pair.is_ambiguous


def test_names_tell_modules_apart_whatever_their_order() -> None:
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    one = side_of("torch", {n: ("torch.nn.Linear", {"weight": _random(4, 4)}) for n in names})
    others = {"value": "v_proj", "query": "q_proj", "out": "o_proj", "key": "k_proj"}
    two = side_of("paddle", {n: ("paddle.nn.Linear", {"weight": _random(4, 4)}) for n in others})

    found = shown(plan_weights(one, two), one, two)

    assert found == {f"{n}.weight": f"{m}.weight: transpose" for n, m in others.items()}


def test_equal_numbers_are_no_names_where_one_side_counts_activations_too() -> None:
    def stack(framework: str, numbers: tuple[int, ...]) -> MemorySide:
        kind = f"{framework}.nn.Linear"
        return side_of(
            framework, {f"net.{one}": (kind, {"weight": _random(4, 4)}) for one in numbers}
        )

    one, two = stack("torch", (0, 2, 4)), stack("paddle", (0, 1, 2))

    assert shown(plan_weights(one, two), one, two) == {
        f"net.{found}.weight": f"net.{2 * found}.weight: transpose" for found in range(3)
    }


def test_what_nothing_tells_apart_is_ambiguous_and_names_the_others() -> None:
    one = side_of(
        "torch", {n: ("torch.nn.Linear", {"weight": _random(4, 4)}) for n in ("aa", "bb")}
    )
    two = side_of(
        "paddle", {n: ("paddle.nn.Linear", {"weight": _random(4, 4)}) for n in ("x", "y")}
    )

    plan = plan_weights(one, two)

    assert len(plan.ambiguous) == 2
    assert all(pair.alternatives for pair in plan.pairs)


def test_values_see_through_names_that_cross() -> None:
    first, second = _random(4, 4), _random(4, 4)
    one = side_of(
        "torch",
        {
            "a": ("torch.nn.Linear", {"weight": first}),
            "b": ("torch.nn.Linear", {"weight": second}),
        },
    )
    two = side_of(
        "torch",
        {
            "a": ("torch.nn.Linear", {"weight": second}),
            "b": ("torch.nn.Linear", {"weight": first}),
        },
    )

    found = shown(plan_weights(one, two), one, two)

    assert found == {"a.weight": "b.weight: identity", "b.weight": "a.weight: identity"}


def test_rotary_and_mask_buffers_may_stay_alone() -> None:
    arrays = {"inv_freq": _random(4), "causal_mask": _random(3, 3)}
    one = side_of("torch", {"rope": ("user.Rope", arrays)}, buffers=frozenset(arrays))
    two = side_of("paddle", {"fc": ("paddle.nn.Linear", {"weight": _random(2, 3)})})

    missing = [alone.side for alone in plan_weights(one, two).missing]

    assert missing == [SideName.CANDIDATE]


def test_a_buffer_of_another_shape_is_told_with_that_shape() -> None:
    one, two = (
        side_of(
            name, {"grid": ("user.Grid", {"steps": _random(size)})}, buffers=frozenset({"steps"})
        )
        for name, size in (("torch", 5), ("paddle", 6))
    )

    reasons = [alone.reason for alone in plan_weights(one, two).alone]

    assert reasons == [
        "a buffer that has the shape [6] on the other side",
        "a buffer that has the shape [5] on the other side",
    ]


def test_parameter_that_is_a_buffer_on_the_other_side_is_paired() -> None:
    one = side_of("torch", {"pos": ("user.Pos", {"table": _random(5, 3)})})
    two = side_of(
        "paddle", {"pos": ("user.Pos", {"table": _random(5, 3)})}, buffers=frozenset({"table"})
    )

    assert len(plan_weights(one, two).pairs) == 1


def test_tied_weights_of_the_candidate_share_the_partner() -> None:
    table, head = _random(6, 4), _random(6, 4)
    one = side_of("torch", {"embed": ("torch.nn.Embedding", {"weight": table})})
    builder = DumpBuilder(framework="paddle").module("", "Net", class_path="user.Net")
    builder.module("embed", "Embedding").module("head", "Head", class_path="user.Head")
    builder.tensor("embed", "weight", head, tensor=0).tensor("head", "weight", head, tensor=0)
    two = builder.side()

    plan = plan_weights(one, two)

    assert [pair.reference for pair in plan.pairs] == [(0,), (0,)]
    assert not plan.missing


def test_written_plan_is_a_map_that_gives_the_same_plan() -> None:
    names = ("aa", "bb")
    one = side_of("torch", {n: ("torch.nn.Linear", {"weight": _random(4, 4)}) for n in names})
    two = side_of(
        "paddle", {n: ("paddle.nn.Linear", {"weight": _random(4, 4)}) for n in ("x", "y")}
    )
    plan = plan_weights(one, two)

    again = plan_weights(one, two, map_file=MapFile.parse(plan_to_toml(plan, one, two)))

    assert shown(again, one, two) == shown(plan, one, two)
    assert {pair.paired_by for pair in again.pairs} == {PairedBy.MAP}
    assert not again.ambiguous


def test_kinds_of_one_size_that_cannot_stand_in_for_each_other_are_missing() -> None:
    one = side_of("torch", {"a": ("torch.nn.Embedding", {"weight": _random(4, 3)})})
    two = side_of("paddle", {"b": ("paddle.nn.Bilinear", {"weight": _random(3, 4)})})

    assert len(plan_weights(one, two).missing) == 2


def test_projections_of_a_users_attention_are_told_by_name_from_those_of_a_framework() -> None:
    """Two layers of split projections with other names, as BERT's, against paddle's attention."""
    names = {"self.query": "q", "self.key": "k", "self.value": "v", "output.dense": "out"}
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    builder.module("layer", "ModuleList", class_path="torch.nn.ModuleList")
    for layer in range(2):
        builder.module(f"layer.{layer}", "Layer", class_path="user.Layer")
        for path in ("", ".self", ".output"):
            builder.module(f"layer.{layer}.attention{path}", "Own", class_path="user.Own")
        for name in names:
            child = f"layer.{layer}.attention.{name}"
            builder.module(child, "Linear", class_path="torch.nn.Linear")
            builder.tensor(child, "weight", _random(4, 4))
    one = builder.side()
    builder = DumpBuilder(framework="paddle").module("", "Net", class_path="user.Net")
    builder.module("layers", "LayerList", class_path="paddle.nn.LayerList")
    for layer in range(2):
        path = f"layers.{layer}.self_attn"
        builder.module(f"layers.{layer}", "Layer", class_path="user.Layer")
        builder.module(path, "MultiHeadAttention", class_path="paddle.nn.MultiHeadAttention")
        for name in names.values():
            child = f"{path}.{name}_proj"
            builder.module(child, "Linear", class_path="paddle.nn.Linear")
            builder.tensor(child, "weight", _random(4, 4))
    two = builder.side()

    plan = plan_weights(one, two)

    assert not plan.ambiguous
    assert shown(plan, one, two) == {
        f"layers.{layer}.self_attn.{other}_proj.weight": (
            f"layer.{layer}.attention.{name}.weight: transpose"
        )
        for layer in range(2)
        for name, other in names.items()
    }


def _normed(framework: str, shape: tuple[int, ...], dim: int | None) -> MemorySide:
    attributes: dict[str, Any] = {} if dim is None else {"weight_norm_dim": dim}
    builder = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    name = f"{framework}.nn.Linear"
    builder.module("fc", "Linear", class_path=name, attributes=attributes)
    builder.tensor("fc", "weight_g", _random(*shape))
    return builder.tensor("fc", "weight_v", _random(4, 4)).side()


def test_weight_norm_along_the_same_axis_is_paired_also_when_square() -> None:
    one, two = _normed("torch", (4, 1), 0), _normed("paddle", (4,), 1)

    for sides in ((one, two), (two, one)):
        plan = plan_weights(*sides)

        assert len(plan.pairs) == 2
        assert not plan.ambiguous


def test_weight_norm_along_another_axis_is_refused_as_another_function() -> None:
    one, two = _normed("torch", (4, 1), 0), _normed("paddle", (4,), 0)

    missing = plan_weights(one, two).missing

    assert len(missing) == 2
    assert all("another function" in alone.reason for alone in missing)


def test_weight_norm_of_a_square_matrix_is_ambiguous_where_nothing_states_the_axis() -> None:
    one, two = _normed("torch", (4, 1), None), _normed("paddle", (4,), None)

    (pair,) = plan_weights(one, two).ambiguous

    assert "dim=1 is torch's dim=0" in pair.note


def test_a_layer_outside_the_numbered_ones_has_no_place_in_their_order() -> None:
    """MobileNetV3: the last convolution is ``features.16`` to one, and defined first by another."""

    def convolution(rows: int, columns: int) -> dict[str, Array]:
        return {"weight": _random(rows, columns, 1, 1)}

    ours = {"features.0.up": (9, 3), "features.0.down": (4, 9), "features.1.up": (9, 3)}
    ours |= {"features.1.down": (5, 9), "features.2.0": (9, 3)}
    theirs = {"last.0": (9, 3), "blocks.0.expand": (9, 3), "blocks.0.reduce": (4, 9)}
    theirs |= {"blocks.1.expand": (9, 3), "blocks.1.reduce": (5, 9)}
    one = side_of("torch", {n: ("torch.nn.Conv2d", convolution(*s)) for n, s in ours.items()})
    two = side_of("paddle", {n: ("paddle.nn.Conv2D", convolution(*s)) for n, s in theirs.items()})

    plan = plan_weights(one, two)

    right = {"last.0": "features.2.0", "blocks.0.expand": "features.0.up"}
    right |= {"blocks.0.reduce": "features.0.down", "blocks.1.expand": "features.1.up"}
    right |= {"blocks.1.reduce": "features.1.down"}
    sure = {
        names_of(two, [pair.candidate]): names_of(one, pair.reference)
        for pair in plan.pairs
        if not pair.is_ambiguous
    }
    assert sure
    assert sure.items() <= {(f"{n}.weight", f"{m}.weight") for n, m in right.items()}


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 3)])
@pytest.mark.parametrize("is_turned", [True, False])
def test_a_linear_that_lies_the_other_way_is_turned_for_a_convolution_of_one(
    rows: int, columns: int, *, is_turned: bool
) -> None:
    weight = _random(rows, columns)
    linear = side_of("paddle", {"fc": ("paddle.nn.Linear", {"weight": weight.T})})
    conv = side_of("torch", {"c": ("torch.nn.Conv2d", {"weight": weight[:, :, None, None]})})
    sides = (linear, conv) if is_turned else (conv, linear)

    (pair,) = plan_weights(*sides).pairs

    source, target = (side.index.records[0] for side in sides)
    made = pair.rule.apply([sides[0].array(source)], target.shape)
    np.testing.assert_array_equal(made, sides[1].array(target))
    assert not pair.is_ambiguous
