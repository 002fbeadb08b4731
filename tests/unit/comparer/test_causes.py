"""What the numbers of an origin look like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import CompareSettings, Divergence, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from padiff.dumpfile import JSON

Array = npt.NDArray[Any]


def normal(*shape: int, seed: int = 0) -> Array:
    made: Array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return made


IMAGE, TOKENS, SQUARE = normal(2, 4, 9, 9, seed=1), normal(2, 6, 8, seed=2), normal(4, 4, seed=3)


def origin(
    expected: Array,
    found: Array,
    tmp_path: Path,
    *,
    kind: str = "Layer",
    source: Array | None = None,
    states: Mapping[str, tuple[Array, Array]] | None = None,
    attributes: Mapping[str, JSON] | None = None,
) -> Divergence:
    """Compare two dumps of one layer that gave ``expected`` and ``found``."""
    paths = []
    given = normal(3, 3) if source is None else source
    for side, output in enumerate((expected, found)):
        built = DumpBuilder().module("", "Net")
        built.module(
            "m", kind, class_path=f"torch.nn.modules.x.{kind}", attributes=dict(attributes or {})
        )
        for name, arrays in (states or {}).items():
            role = Role.BUFFER if name.startswith("running") else Role.WEIGHT
            built.tensor("m", name, arrays[side], role=role)
        built.enter("", inputs=[given]).call("m", inputs=[given], outputs=[output])
        paths.append(built.leave(outputs=[output]).write(tmp_path / str(side)))
    return compare(paths[0], paths[1], CompareSettings()).origins[0]


def names(found: Divergence) -> list[str]:
    return [str(cause.name) for cause in found.causes]


def changed(array: Array, where: tuple[Any, ...]) -> Array:
    copy = array.copy()
    copy[where] += 1
    return copy


@pytest.mark.parametrize(
    ("expected", "found", "name", "text"),
    [
        (IMAGE, IMAGE * np.float32(0.125), "factor", "0.125 times"),
        (IMAGE, -IMAGE, "sign", "opposite sign"),
        (IMAGE, IMAGE + np.float32(0.5), "offset", "plus 0.5"),
        (TOKENS, TOKENS + normal(8, seed=9), "bias", "one number per feature"),
        (SQUARE, SQUARE.T.copy(), "transposed", "transposing axes 0 and 1"),
        (TOKENS, TOKENS[:, ::-1].copy(), "permuted", "reversing axis 1 (token)"),
        (TOKENS, TOKENS.reshape(-1)[::-1].copy().reshape(TOKENS.shape), "permuted", "order"),
        (IMAGE, changed(IMAGE, np.s_[:, :, 0, 3:5]), "border", "rows within 1"),
        (IMAGE, changed(IMAGE, np.s_[0, 2, 3:6, 3:6]), "some_indices", "channel 2 of 4"),
        (IMAGE, changed(IMAGE, np.s_[1, :, 3:6, 3:6]), "tail", "batch 1 of 2"),
        (TOKENS, changed(TOKENS, np.s_[:, 2:, 3:7]), "tail", "from token 2 of 6 on"),
        (
            IMAGE,
            (IMAGE.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32),
            "precision",
            "bfloat16",
        ),
    ],
)
def test_the_shape_of_an_error_is_named(
    expected: Array, found: Array, name: str, text: str, tmp_path: Path
) -> None:
    result = origin(expected, found, tmp_path)

    assert name in names(result)
    assert any(text in line for line in result.evidence)


def test_an_error_without_a_shape_has_no_cause(tmp_path: Path) -> None:
    result = origin(IMAGE, IMAGE + normal(*IMAGE.shape, seed=5), tmp_path)

    assert names(result) == []


def test_elements_that_all_shrink_are_no_rounding(tmp_path: Path) -> None:
    """A wrong epsilon shrinks each channel by a factor of its own, about 2**-11 here."""
    shrunk = np.array([0.9994, 0.9995, 0.9996, 0.9993], np.float32).reshape(1, 4, 1, 1)

    result = origin(IMAGE, IMAGE * shrunk, tmp_path)

    assert "precision" not in names(result)


def test_rounding_in_the_middle_is_lower_precision(tmp_path: Path) -> None:
    error = np.sign(normal(*IMAGE.shape, seed=5)) * np.float32(4e-4)

    result = origin(IMAGE, IMAGE * (1 + error), tmp_path)

    assert "precision" in names(result)


def test_a_bias_left_out_is_recognised(tmp_path: Path) -> None:
    bias = normal(8, seed=4)

    result = origin(TOKENS + bias, TOKENS, tmp_path, states={"bias": (bias, bias)})

    assert any("bias, left out" in line for line in result.evidence)


def test_only_some_heads(tmp_path: Path) -> None:
    found = TOKENS.copy()
    found[:, :, 4:6] = normal(2, 6, 2, seed=8)

    result = origin(TOKENS, found, tmp_path, attributes={"num_heads": 4})

    assert "heads" in names(result)
    assert any("head 2 of 4" in line for line in result.evidence)


def test_batch_norm_in_the_other_mode(tmp_path: Path) -> None:
    mean, variance = normal(4, seed=6), np.abs(normal(4, seed=7)) + 1
    shape = (1, 4, 1, 1)

    def normalised(mean: Array, variance: Array) -> Array:
        given = (IMAGE - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + np.float32(1e-5))
        result: Array = given.astype(np.float32)
        return result

    result = origin(
        normalised(mean, variance),
        normalised(IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))),
        tmp_path,
        kind="BatchNorm2d",
        source=IMAGE,
        states={"running_mean": (mean, mean), "running_var": (variance, variance)},
        attributes={"eps": 1e-5},
    )

    assert names(result) == ["batch_statistics"]
    assert any("in training mode" in line for line in result.evidence)


def test_dropout_on_one_side(tmp_path: Path) -> None:
    keep = np.random.default_rng(0).random(IMAGE.shape) > 0.25

    result = origin(IMAGE, (IMAGE * keep / np.float32(0.75)).astype(np.float32), tmp_path)

    assert names(result) == ["dropout"]


def test_a_transposed_square_weight(tmp_path: Path) -> None:
    weight, source = normal(5, 5, seed=8), normal(3, 5, seed=9)

    result = origin(
        source @ weight.T,
        source @ weight,
        tmp_path,
        kind="Linear",
        source=source,
        states={"weight": (weight, weight)},
    )

    assert names(result) == ["transposed_weight"]


def test_a_weight_that_was_loaded_transposed(tmp_path: Path) -> None:
    weight, source = normal(5, 5, seed=8), normal(3, 5, seed=9)

    result = origin(
        source @ weight.T,
        source @ weight,
        tmp_path,
        kind="Layer",
        source=source,
        states={"weight": (weight, weight.T.copy())},
    )

    assert any("weight 'weight': equal after transposing" in line for line in result.evidence)


def test_the_profile_says_where(tmp_path: Path) -> None:
    result = origin(TOKENS, changed(TOKENS, np.s_[:, 2:, 3]), tmp_path)

    assert [axis.name for axis in result.profile] == ["batch", "token", "feature"]
    assert [axis.mismatched for axis in result.profile] == [(0, 1), (2, 3, 4, 5), (3,)]
    assert result.profile[1].max_abs[:2] == (0.0, 0.0)
