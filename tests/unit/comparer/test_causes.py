"""What the numbers of an origin look like."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
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
    return compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]


def names(found: Divergence) -> list[str]:
    return [str(cause.name) for cause in found.causes]


def changed(array: Array, where: tuple[Any, ...]) -> Array:
    copy = array.copy()
    copy[where] += 1
    return copy


SHAPES = [
    (IMAGE, IMAGE * np.float32(0.125), "factor", "0.125 times"),
    (IMAGE, -IMAGE, "sign", "opposite sign"),
    (IMAGE, IMAGE + np.float32(0.5), "offset", "plus 0.5"),
    (TOKENS, TOKENS + normal(8, seed=9), "bias", "one number per feature"),
    (SQUARE, SQUARE.T.copy(), "transposed", "transposing axes 0 and 1"),
    (TOKENS, TOKENS[:, ::-1].copy(), "permuted", "reversing axis 1 (token)"),
    (TOKENS, TOKENS.reshape(-1)[::-1].copy().reshape(TOKENS.shape), "permuted", "order"),
    (IMAGE, changed(IMAGE, np.s_[:, :, 0, 3:5]), "border", "within 1 of an edge"),
    (IMAGE, changed(IMAGE, np.s_[0, 2, 3:6, 3:6]), "some_indices", "channel 2 of 4"),
    (IMAGE, changed(IMAGE, np.s_[1, :, 3:6, 3:6]), "tail", "batch 1 of 2"),
    (TOKENS, changed(TOKENS, np.s_[:, 2:, 3:7]), "tail", "from token 2 of 6 on"),
    (IMAGE, IMAGE / np.float32(np.sqrt(8)), "factor", "1/sqrt(8)"),
    (
        IMAGE,
        np.pad(IMAGE, ((0, 0), (0, 0), (1, 0), (1, 0)))[:, :, :-1, :-1].copy(),
        "shifted",
        "off by one",
    ),
    (TOKENS, np.roll(TOKENS, 1, axis=1), "shifted", "+1 along token"),
    (TOKENS, changed(TOKENS, np.s_[:, :5, 3:7]), "head", "up to token 4 of 6"),
    (
        IMAGE,
        IMAGE * (1 + np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)),
        "feature_factor",
        "one number per channel (1 to 4)",
    ),
    (
        IMAGE,
        changed(changed(changed(IMAGE, np.s_[:, :, 0]), np.s_[:, :, -1]), np.s_[..., -1]),
        "border",
        "of an edge of (9, 9)",
    ),
]
"""What it should be, what it is, the cause, and what must be said."""


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("expected", "found", "name", "text"), SHAPES)
def test_the_shape_of_an_error_is_named(
    expected: Array, found: Array, name: str, text: str, dtype: type, tmp_path: Path
) -> None:
    result = origin(expected.astype(dtype), found.astype(dtype), tmp_path)

    assert name in names(result)
    assert any(text in line for line in result.evidence)


def test_a_shorter_format_is_named(tmp_path: Path) -> None:
    cut = (IMAGE.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    result = origin(IMAGE, cut, tmp_path)

    assert any("bfloat16" in line for line in result.evidence)
    assert names(result) == ["precision"]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", [1.0, 0.1, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_an_error_without_a_shape_has_no_cause(
    size: float, seed: int, dtype: type, tmp_path: Path
) -> None:
    found = TOKENS + size * normal(*TOKENS.shape, seed=50 + seed)

    result = origin(TOKENS.astype(dtype), found.astype(dtype), tmp_path, source=TOKENS * 2)

    assert names(result) == []


UNRELATED: list[tuple[str, Array]] = [
    ("another weight of the layer", TOKENS @ normal(8, 8, seed=60)),
    ("a square instead of the value", TOKENS**2),
    ("a threshold", np.where(np.abs(TOKENS) > 1, 0, TOKENS)),
    ("products of neighbours", TOKENS * np.roll(TOKENS, 3, axis=2)),
    ("a norm", TOKENS / np.linalg.norm(TOKENS, axis=2, keepdims=True)),
]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("what", "found"), UNRELATED)
def test_an_unrelated_fault_gets_no_hint(
    what: str, found: Array, dtype: type, tmp_path: Path
) -> None:
    result = origin(
        TOKENS.astype(dtype), found.astype(np.float32).astype(dtype), tmp_path,
        source=normal(2, 6, 8, seed=70),
    )  # fmt: skip

    assert names(result) == [], what


def test_elements_that_all_shrink_are_no_rounding(tmp_path: Path) -> None:
    """A wrong epsilon shrinks each channel by a factor of its own, about 2**-11 here."""
    shrunk = np.array([0.9994, 0.9995, 0.9996, 0.9993], np.float32).reshape(1, 4, 1, 1)

    result = origin(IMAGE, IMAGE * shrunk, tmp_path)

    assert "precision" not in names(result)


def test_rounding_in_the_middle_is_lower_precision(tmp_path: Path) -> None:
    error = np.sign(normal(*IMAGE.shape, seed=5)) * np.float32(4e-4)

    result = origin(IMAGE, IMAGE * (1 + error), tmp_path)

    assert "precision" in names(result)


def test_a_weight_that_belongs_elsewhere_is_recognised(tmp_path: Path) -> None:
    first, second = normal(5, 5, seed=1), normal(5, 5, seed=2)
    paths = []
    for side, weights in enumerate(((first, second), (second, first))):
        built = DumpBuilder().module("", "Net")
        for name, weight in zip(("query", "key"), weights, strict=True):
            built.module(name, "Linear").tensor(name, "weight", weight)
        built.enter("", inputs=[SQUARE])
        for name, weight in zip(("query", "key"), weights, strict=True):
            built.call(name, inputs=[SQUARE], outputs=[weight * 2])
        paths.append(built.leave(outputs=[SQUARE]).write(tmp_path / str(side)))

    result = compare(paths[0], paths[1], CompareSettings()).origins[0]

    said = "weight 'weight': it holds what is 'key.weight' on the reference"
    assert any(said in line for line in result.evidence)


def test_positions_that_are_off_by_one_are_recognised(tmp_path: Path) -> None:
    positions = np.arange(6).reshape(1, 6)

    result = origin(positions, positions + 1, tmp_path)

    assert names(result) == ["offset"]


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


def gelu(x: Array) -> Array:
    made: Array = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return made.astype(np.float32)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (gelu(TOKENS), np.maximum(TOKENS, 0), "is gelu of own input[0], the candidate relu"),
        (gelu(TOKENS), TOKENS / (1 + np.exp(-1.702 * TOKENS)), "the candidate gelu by sigmoid"),
        (np.tanh(TOKENS), TOKENS, "the candidate its input unchanged"),
        (np.exp(TOKENS) / np.exp(TOKENS).sum(2, keepdims=True),
         np.exp(TOKENS) / np.exp(TOKENS).sum(1, keepdims=True), "softmax along axis 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_another_function_of_the_same_input_is_named(
    right: Array, wrong: Array, said: str, dtype: type, tmp_path: Path
) -> None:
    result = origin(
        right.astype(dtype), wrong.astype(np.float32).astype(dtype), tmp_path,
        source=TOKENS.astype(dtype).astype(np.float32),
    )  # fmt: skip

    assert names(result) == ["function"]
    assert any(said in line for line in result.evidence)


@pytest.mark.parametrize(("kind", "is_centred"), [("LayerNorm", True), ("LlamaRMSNorm", False)])
def test_another_epsilon_is_computed(kind: str, *, is_centred: bool, tmp_path: Path) -> None:
    small = TOKENS * np.float32(0.01)
    weight = normal(8, seed=11)

    def normalised(eps: float) -> Array:
        given = small - small.mean(-1, keepdims=True) if is_centred else small
        power = (given * given).mean(-1, keepdims=True)
        made: Array = (given / np.sqrt(power + eps) * weight).astype(np.float32)
        return made

    result = origin(
        normalised(1e-6), normalised(1e-5), tmp_path, kind=kind, source=small,
        states={"weight": (weight, weight)}, attributes={"eps": 1e-6},
    )  # fmt: skip

    assert any("gives with eps 1e-05, not 1e-06" in line for line in result.evidence)


def glued(right: Array, wrong: Array, tmp_path: Path, *made: Array) -> Divergence:
    """Compare two dumps of a container whose code made an input of its last call."""
    paths = []
    for side, given in enumerate((right, wrong)):
        built = DumpBuilder().module("", "Net")
        for place in range(len(made)):
            built.module(f"part{place}", "Part")
        built.module("last", "Last").enter("", inputs=[TOKENS])
        for place, array in enumerate(made):
            built.call(f"part{place}", inputs=[TOKENS], outputs=[array])
        result = given * 2
        built.call("last", inputs=[given], outputs=[result]).leave(outputs=[result])
        paths.append(built.write(tmp_path / str(side)))
    return compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_residual_left_out_is_said(dtype: type, tmp_path: Path) -> None:
    made: Array = normal(2, 6, 8, seed=31).astype(dtype)
    given: Array = TOKENS.astype(dtype)

    result = glued(
        (given + made).astype(dtype), (made * dtype(0.5) + given).astype(dtype), tmp_path,
        given, made,
    )  # fmt: skip

    assert names(result) == ["combination"]
    assert "0.5 * part1 output" in result.causes[0].text.partition(", the candidate ")[2]


def test_another_gate_is_said(tmp_path: Path) -> None:
    gate, up = normal(2, 6, 8, seed=32), normal(2, 6, 8, seed=33)
    silu = (gate / (1 + np.exp(-gate)) * up).astype(np.float32)

    result = glued(silu, gelu(gate) * up, tmp_path, gate, up)

    said = "is part1 output times silu of part0 output, the candidate times gelu of it"
    assert names(result) == ["function"]
    assert said in result.causes[0].text


def mixed(parts: list[Array], scale: float, *, is_causal: bool = False, axis: int = -1) -> Array:
    query, key, value = (part.reshape(2, 6, 2, 4).transpose(0, 2, 1, 3) for part in parts)
    scores = query @ key.swapaxes(2, 3) * scale
    if is_causal:
        scores = np.where(np.tril(np.ones((6, 6), bool)), scores, -np.inf)
    powers = np.exp(scores)
    made = powers / powers.sum(axis, keepdims=True) @ value
    whole: Array = made.transpose(0, 2, 1, 3).reshape(2, 6, 8).astype(np.float32)
    return whole


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scale": 1.0}, "scale 0.5 (1/sqrt(4)) on the reference, 1 on the candidate"),
        ({"scale": 0.5, "is_causal": True}, "mask none on the reference, causal on the candidate"),
        ({"scale": 0.5, "axis": -2}, "softmax runs over the queries"),
    ],
)
def test_what_is_wrong_with_an_attention_is_said(
    wrong: dict[str, Any], said: str, dtype: type, tmp_path: Path
) -> None:
    parts = [normal(2, 6, 8, seed=seed).astype(dtype).astype(np.float32) for seed in (41, 42, 43)]
    stored: list[Array] = [part.astype(dtype) for part in parts]

    result = glued(
        mixed(parts, 0.5).astype(dtype), mixed(parts, **wrong).astype(dtype), tmp_path, *stored
    )

    assert names(result) == ["attention"]
    assert any(said in line for line in result.evidence)


def test_queries_and_keys_that_are_swapped_are_said(tmp_path: Path) -> None:
    parts = [normal(2, 6, 8, seed=seed) for seed in (41, 42, 43)]

    result = glued(mixed(parts, 0.5), mixed([parts[1], parts[0], parts[2]], 0.5), tmp_path, *parts)

    said = "takes part1 output, part0 output, part2 output as queries, keys and values"
    assert any(said in line for line in result.evidence)


def test_the_profile_says_where(tmp_path: Path) -> None:
    result = origin(TOKENS, changed(TOKENS, np.s_[:, 2:, 3]), tmp_path)

    assert [axis.name for axis in result.profile] == ["batch", "token", "feature"]
    assert [axis.mismatched for axis in result.profile] == [(0, 1), (2, 3, 4, 5), (3,)]
    assert result.profile[1].max_abs[:2] == (0.0, 0.0)
