"""Which norm of the same input the candidate is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from tests.support.layer_pairs import TOKENS, Array, names, normal, origin

if TYPE_CHECKING:
    from pathlib import Path

WEIGHT, BIAS = normal(8, seed=11), normal(8, seed=12)
SOURCE = TOKENS + np.float32(0.5)


def normalised(
    source: Array, *, is_centred: bool, eps: float = 1e-6, weight: Array | None = None
) -> Array:
    given = source - source.mean(-1, keepdims=True) if is_centred else source
    power = (given * given).mean(-1, keepdims=True)
    made: Array = given / np.sqrt(power + np.float32(eps)) * (WEIGHT if weight is None else weight)
    return made.astype(np.float32)


@pytest.mark.parametrize(("kind", "is_centred"), [("LayerNorm", True), ("LlamaRMSNorm", False)])
def test_another_epsilon_is_computed(kind: str, *, is_centred: bool, tmp_path: Path) -> None:
    small = TOKENS * np.float32(0.01)

    result = origin(
        normalised(small, is_centred=is_centred),
        normalised(small, is_centred=is_centred, eps=1e-5),
        tmp_path, kind=kind, source=small, states={"weight": (WEIGHT, WEIGHT)},
        attributes={"eps": 1e-6},
    )  # fmt: skip

    assert any("gives with eps 1e-05, not 1e-06" in line for line in result.evidence)


LAYER, RMS = normalised(SOURCE, is_centred=True), normalised(SOURCE, is_centred=False)
ONE = np.ones_like(WEIGHT)
WRONG = [
    (RMS, LAYER, "RMSNorm with its weight, the candidate LayerNorm with its weight: the mean is"),
    (LAYER + BIAS, RMS + BIAS, "the mean is not taken off"),
    (LAYER + BIAS, LAYER, "its bias is left out"),
    (RMS, SOURCE, "the candidate its input unchanged: the norm is left out"),
    (LAYER + BIAS, normalised(SOURCE, is_centred=True, weight=ONE) + BIAS, "weight is left out"),
    (RMS, normalised(SOURCE, is_centred=False, weight=1 + WEIGHT), "with 1 + its weight"),
]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("right", "wrong", "said"), WRONG)
def test_another_kind_of_norm_is_said(
    right: Array, wrong: Array, said: str, dtype: type, tmp_path: Path
) -> None:
    states = {"weight": (WEIGHT, WEIGHT)}
    if right is not RMS:
        states["bias"] = BIAS, BIAS

    result = origin(
        right.astype(dtype), wrong.astype(dtype), tmp_path, kind="SomeNorm", source=SOURCE,
        states=states, attributes={"eps": 1e-6},
    )  # fmt: skip

    assert names(result) == ["function"]
    assert said in result.causes[0].text


def test_a_norm_of_something_else_has_no_such_cause(tmp_path: Path) -> None:
    result = origin(
        LAYER, LAYER + normal(*LAYER.shape, seed=13), tmp_path, kind="SomeNorm", source=SOURCE,
        states={"weight": (WEIGHT, WEIGHT)}, attributes={"eps": 1e-6},
    )  # fmt: skip

    assert names(result) == []
