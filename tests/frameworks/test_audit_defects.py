"""Defects of Paddle 3.3.1 on a CPU that a model can meet, in one dump and without a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - as users write it
import pytest

import padiff
from padiff.comparer.auditing import Check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.standard_normal((2, 8, 6, 6)).astype("float32")
ROWS = RANDOM.standard_normal((6, 8)).astype("float32")
KERNEL = RANDOM.standard_normal((8, 8, 3, 3)).astype("float32")
HOLED = np.where(np.arange(48).reshape(6, 8) == 10, np.float32(0), ROWS)
BROKEN = np.where(np.arange(576).reshape(2, 8, 6, 6) == 0, np.float32(np.nan), IMAGES)

DEFECTS: dict[str, tuple[Any, Callable[[Any], Any], set[tuple[Check, str]]]] = {
    "the input's gradient of a group norm without weights": (
        IMAGES, lambda x: F.group_norm(x, 4), {(Check.GRADIENT, "")},
    ),
    "padding SAME that takes no notice of dilation": (
        IMAGES,
        lambda x: F.conv2d(x, paddle.to_tensor(KERNEL), padding="SAME", dilation=2),
        {(Check.FORWARD, "conv2d")},
    ),
    "interpolation to one element": (
        IMAGES,
        lambda x: F.interpolate(x, size=[1, 1], mode="bilinear", align_corners=False),
        {(Check.FORWARD, "bilinear_interp")},
    ),
    "the gradient of a product with a zero": (
        HOLED, lambda x: paddle.prod(x, axis=1), {(Check.GRADIENT, "")},
    ),
    "digamma's gradient below zero": (1.5 * ROWS - 4.5, paddle.digamma, {(Check.GRADIENT, "")}),
    "the gradient of what a mask fills in": (
        ROWS, lambda x: paddle.masked_fill(x, x > 0, x.sum() * 0 + 0.3), {(Check.GRADIENT, "")},
    ),
    "a ReLU that makes zero of nan": (BROKEN, F.relu, {(Check.FORWARD, "relu")}),
    "a pooling that drops nan": (
        BROKEN, lambda x: F.max_pool2d(x, 2), {(Check.FORWARD, "pool2d")},
    ),
}  # fmt: skip
"""The input, what the model computes of it, and what has to be among what is unsound: the check,
and the operator of a value, whose gradient may show behind any that is before it."""


class _Net(paddle.nn.Layer):
    def __init__(self, compute: Callable[[Any], Any]) -> None:
        super().__init__()
        one = paddle.nn.initializer.Constant(1.0)
        self.scale = self.create_parameter([1], default_initializer=one)
        self.compute = compute

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        return self.compute(x * self.scale)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_known_defect_is_unsound(name: str, tmp_path: Path) -> None:
    given, compute, expected = DEFECTS[name]
    model = _Net(compute)
    with padiff.record(model, name="m", out=tmp_path) as recorder:
        made = model(paddle.to_tensor(given))
        loss = (made * paddle.to_tensor(weights_of(made.shape))).sum()
        recorder.loss(loss)
        loss.backward()

    unsound = padiff.audit(tmp_path / "m")["step 0"].unsound

    found = {
        (one.check, one.operator.rpartition(".")[2] if one.check is Check.FORWARD else "")
        for one in unsound
    }
    assert expected <= found


def weights_of(shape: list[int]) -> Any:  # noqa: ANN401
    return np.random.default_rng(1).standard_normal(shape).astype("float32")
