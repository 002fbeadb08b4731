"""Arguments that are a framework's defaults are known by the tables' signatures."""

from __future__ import annotations

from typing import Any

import pytest

from padiff.program import TABLES

TORCH, PADDLE = TABLES["torch"], TABLES["paddle"]
Arguments = list[tuple[str | None, Any]]


@pytest.mark.parametrize(
    ("name", "positional", "keywords", "expected"),
    [
        ("nn.functional.gelu", ("x",), {"approximate": "none"}, [(None, "x")]),
        ("nn.functional.leaky_relu", ("x", 0.2), {}, [(None, "x"), ("negative_slope", 0.2)]),
        ("nn.functional.conv2d", ("x", "w", None, (1, 1), (2, 1)), {},
         [(None, "x"), (None, "w"), ("padding", (2, 1))]),
        ("Tensor.view", ("x", 2, -1), {}, [(None, "x"), (None, 2), (None, -1)]),
        ("gather", ("x",), {"dim": 1, "index": "i"}, [(None, "x"), ("dim", 1), ("index", "i")]),
        ("sum", ("x",), {"axis": 1, "keepdims": False}, [(None, "x"), ("dim", 1)]),
        ("sum", ("x",), {"keepdim": 0}, [(None, "x"), ("keepdim", 0)]),
        ("mylib.fuse", ("x",), {"axis": None}, [(None, "x"), ("axis", None)]),
        ("gather", ("x",), {"nothing": 1}, [(None, "x"), ("nothing", 1)]),
    ],
)  # fmt: skip
def test_defaults_are_left_away(
    name: str, positional: tuple[Any, ...], keywords: dict[str, Any], expected: Arguments
) -> None:
    assert TORCH.distinct(f"torch.{name}", positional, keywords) == expected


def test_names_that_paddle_takes_as_well_are_those_of_the_signature() -> None:
    found = PADDLE.distinct("paddle._C_ops.softmax", ("x",), {"dim": 1})

    assert found == [(None, "x"), ("axis", 1)]
