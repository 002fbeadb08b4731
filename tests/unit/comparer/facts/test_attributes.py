"""Settings of two frameworks in one vocabulary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from padiff.comparer.facts.attributes import attribute_differences, known_differences
from padiff.dumpfile import ModuleInfo

if TYPE_CHECKING:
    from padiff.dumpfile import JSON


def module(attributes: dict[str, JSON] | None = None, *, training: bool = False) -> ModuleInfo:
    return ModuleInfo(
        id=0,
        path="m",
        class_name="Norm",
        class_path="x.Norm",
        parent=None,
        training=training,
        attributes=attributes or {},
    )


def names(torch: ModuleInfo, paddle: ModuleInfo) -> list[str]:
    found = attribute_differences(torch, paddle, frameworks=("torch", "paddle"))
    return [difference.name for difference in found]


@pytest.mark.parametrize(
    ("torch", "paddle"),
    [
        ({"eps": 1e-5}, {"epsilon": 1e-5}),
        ({"momentum": 0.1}, {"momentum": 0.9}),
        ({"approximate": "tanh"}, {"approximate": True}),
        ({"approximate": "none"}, {"approximate": False}),
        ({"count_include_pad": True}, {"exclusive": False}),
        ({"stride": [2, 2]}, {"stride": 2}),
        ({"only here": 1}, {}),
        ({"bias": False}, {"bias": None}),
        ({"momentum": 0.1}, {"momentum": 0.8999999761581421}),
        ({"ksize": [3, 3], "padding": [1, 2]}, {"ksize": 3, "padding": [1, 1, 2, 2]}),
        ({"kernel_size": [3, 3], "padding": "same"}, {"kernel_size": 3, "padding": 1}),
        ({"padding": "same"}, {"padding": "SAME"}),
        ({"padding": 0}, {"padding": "VALID"}),
        ({"padding": 0, "count_include_pad": True}, {"padding": 0, "exclusive": True}),
        ({"kernel_size": 2, "stride": 2}, {"ksize": 2, "stride": None}),
        ({"output_size": [1, 1]}, {"output_size": 1}),
        ({"batch_first": True, "bidirectional": True}, {"time_major": False, "num_directions": 2}),
        ({"activation": "<torch.nn.functional.relu>"}, {"activation": "<paddle.nn.relu>"}),
        ({"dim": 1, "inplace": True}, {"axis": 1, "inplace": False}),
        ({"heads": 8}, {"num_heads": 8}),
    ],
)
def test_equal_settings_in_other_words_are_equal(
    torch: dict[str, JSON], paddle: dict[str, JSON]
) -> None:
    assert names(module(torch), module(paddle)) == []


@pytest.mark.parametrize(
    ("torch", "paddle", "name"),
    [
        ({"eps": 1e-5}, {"epsilon": 1e-6}, "eps"),
        ({"momentum": 0.1}, {"momentum": 0.1}, "momentum"),
        ({"count_include_pad": True}, {"exclusive": True}, "count_include_pad"),
        ({"padding": [1, 0]}, {"padding": [0, 1]}, "padding"),
        ({"kernel_size": 3, "padding": [1, 2]}, {"padding": [1, 1, 1, 2]}, "padding"),
        ({"bias": True}, {"bias": False}, "bias"),
        ({"ceil_mode": True}, {"ceil_mode": False}, "ceil_mode"),
        ({"align_corners": True}, {"align_corners": None}, "align_corners"),
        (
            {"padding": 1, "count_include_pad": True},
            {"padding": 1, "exclusive": True},
            "count_include_pad",
        ),
    ],
)
def test_settings_that_differ_are_named(
    torch: dict[str, JSON], paddle: dict[str, JSON], name: str
) -> None:
    assert names(module(torch), module(paddle)) == [name]


def test_a_known_difference_of_defaults_is_a_hint() -> None:
    settings: tuple[dict[str, JSON], ...] = (
        {"padding": 1, "count_include_pad": True},
        {"padding": 1, "exclusive": True},
    )
    torch, paddle = (
        ModuleInfo(
            id=0,
            path="pool",
            class_name=name,
            class_path=path,
            parent=None,
            attributes=setting,
        )
        for name, path, setting in (
            ("AvgPool2d", "torch.nn.modules.pooling.AvgPool2d", settings[0]),
            ("AvgPool2D", "paddle.nn.layer.pooling.AvgPool2D", settings[1]),
        )
    )

    for sides, frameworks in (
        ((torch, paddle), ("torch", "paddle")),
        ((paddle, torch), ("paddle", "torch")),
    ):
        found = known_differences(*sides, frameworks=frameworks, role="output")

        assert len(found) == 1
        assert "exclusive=True" in str(found[0])
    assert known_differences(torch, torch, frameworks=("torch", "torch"), role="output") == ()


def test_the_training_flag_is_a_setting() -> None:
    assert names(module(training=True), module()) == ["training"]


@pytest.mark.parametrize(("dropout", "found"), [(0.0, []), (0.5, ["training"])])
def test_but_not_of_a_recurrent_layer_without_dropout(dropout: float, found: list[str]) -> None:
    """Paddle's have a backward pass in training mode only, and are recorded there."""
    both = [
        replace(module({"dropout": dropout}, training=training), class_path="torch.nn.LSTM")
        for training in (True, False)
    ]

    assert names(*both) == found


def test_what_is_known_of_padding_idx_is_said_of_outputs_alone() -> None:
    """Both frameworks give its row no gradient."""
    sides = [
        ModuleInfo(
            id=0,
            path="tokens",
            class_name="Embedding",
            class_path=f"{framework}.Embedding",
            parent=None,
            attributes={"padding_idx": place},
        )
        for framework, place in (("torch.nn.modules.sparse", 0), ("paddle.nn.layer.common", None))
    ]

    found = {
        role: known_differences(sides[0], sides[1], frameworks=("torch", "paddle"), role=role)
        for role in ("output", "grad_input")
    }

    assert "padding_idx" in str(found["output"][0])
    assert found["grad_input"] == ()
