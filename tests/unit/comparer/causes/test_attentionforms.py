"""Attentions with rotations, groups, caps and windows, by a second way to compute them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.comparer import CompareSettings, compare
from padiff.comparer.causes.attentionforms import Form, Heads, Turn, mix
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import TOKENS, Array, glued, names, normal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from padiff.comparer import Divergence
    from padiff.dumpfile import JSON

TOKEN, HEADS, WIDTH = 6, 4, 8
QUERY, KEY, VALUE = (
    normal(2, TOKEN, 32, seed=61),
    normal(2, TOKEN, 16, seed=62),
    normal(2, TOKEN, 16),
)


def turned(x: Array, base: float, *, is_paired: bool, first: int = 0) -> Array:
    """Rotate (batch, token, head, width) as complex numbers."""
    speeds = base ** -(np.arange(0, WIDTH, 2) / WIDTH)
    turn = np.exp(1j * (np.arange(TOKEN) + first)[:, None] * speeds)[:, None]
    half = WIDTH // 2
    one, two = (x[..., ::2], x[..., 1::2]) if is_paired else (x[..., :half], x[..., half:])
    made = (one + 1j * two) * turn
    if is_paired:
        return np.stack([made.real, made.imag], -1).reshape(x.shape)
    return np.concatenate([made.real, made.imag], -1)


def grouped(
    *,
    base: float = 1e4,
    is_paired: bool = False,
    is_tiled: bool = False,
    cap: float = 0.0,
    window: int = TOKEN,
    scale: float = WIDTH**-0.5,
) -> Array:
    """Mix token by token and head by head."""
    query = turned(QUERY.reshape(2, TOKEN, HEADS, WIDTH), base, is_paired=is_paired)
    key = turned(KEY.reshape(2, TOKEN, 2, WIDTH), base, is_paired=is_paired)
    value = VALUE.reshape(2, TOKEN, 2, WIDTH)
    made = np.zeros((2, TOKEN, HEADS, WIDTH))
    for batch, head, token in np.ndindex(2, HEADS, TOKEN):
        group = head % 2 if is_tiled else head // 2
        seen = slice(max(0, token - window + 1), token + 1)
        scores = key[batch, seen, group] @ query[batch, token, head] * scale
        scores = cap * np.tanh(scores / cap) if cap else scores
        weights = np.exp(scores) / np.exp(scores).sum()
        made[batch, token, head] = weights @ value[batch, seen, group]
    return made.reshape(2, TOKEN, 32).astype(np.float32)


def found(right: Array, wrong: Array, tmp_path: Path, attributes: Mapping[str, JSON]) -> Divergence:
    """Compare two attentions whose code made the input of the projection behind."""
    paths = []
    for side, given in enumerate((right, wrong)):
        built = DumpBuilder().module("", "Net").module("att", "Att", attributes=dict(attributes))
        for name in ("q", "k", "v", "out"):
            built.module(f"att.{name}", "Part")
        built.enter("", inputs=[TOKENS]).enter("att", inputs=[TOKENS])
        for name, array in (("q", QUERY), ("k", KEY), ("v", VALUE)):
            built.call(f"att.{name}", inputs=[TOKENS], outputs=[array])
        built.call("att.out", inputs=[given], outputs=[given * 2])
        built.leave(outputs=[given * 2]).leave(outputs=[given * 2])
        paths.append(built.write(tmp_path / str(side)))
    return compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ({}, {"base": 1e6}, "rotated by halves with base 10000 on the reference, with base 1e+06"),
        ({}, {"is_paired": True}, "with base 10000 on the reference, in pairs on the candidate"),
        ({}, {"is_tiled": True}, "repeats shared keys and values as a whole (tile)"),
        ({"cap": 2.5}, {}, "capped at 2.5 on the reference, not capped on the candidate"),
        ({}, {"cap": 50.0}, "not capped on the reference, capped at 50 on the candidate"),
        ({"window": 4}, {"window": 3}, "causal over 4 tokens on the reference, causal over 3"),
        ({"window": 4}, {}, "mask causal over 4 tokens on the reference, causal on the candidate"),
        ({}, {"scale": 2 * WIDTH**-0.5}, "scale 0.3536 (1/sqrt(8)) on the reference, 0.7071"),
    ],
)
def test_what_is_wrong_with_grouped_and_rotated_heads_is_said(
    right: dict[str, Any], wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    known: dict[str, JSON] = {"head_dim": WIDTH, "attn_logit_softcapping": right.get("cap")}
    known |= {"sliding_window": right.get("window")}

    result = found(grouped(**right), grouped(**wrong), tmp_path, known)

    assert names(result) == ["attention"]
    assert said in result.causes[0].text


def test_an_attention_that_is_wrong_in_two_ways_is_not_explained(tmp_path: Path) -> None:
    wrong = grouped(base=1e6, is_tiled=True)

    result = found(grouped(), wrong, tmp_path, {"head_dim": WIDTH})

    assert "attention" not in names(result)


def packed(heads: int, *, is_moved: bool = True) -> Array:
    """What torch's attention gives of TOKENS: batch first, projections in one matrix."""
    projected = [TOKENS @ part.T for part in np.split(PACKED, 3)]
    made = np.zeros((2, heads, 6, 8 // heads))
    for batch, head in np.ndindex(2, heads):
        columns = slice(head * 8 // heads, (head + 1) * 8 // heads)
        query, key, value = (part[batch][:, columns] for part in projected)
        scores = np.exp(query @ key.T * (8 // heads) ** -0.5)
        made[batch, head] = scores / scores.sum(1, keepdims=True) @ value
    moved = made.transpose(0, 2, 1, 3) if is_moved else made
    result: Array = (moved.reshape(2, 6, 8) @ BEHIND.T).astype(np.float32)
    return result


PACKED, BEHIND = normal(24, 8, seed=71), normal(8, 8, seed=72)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"heads": 4}, "2 heads on the reference, 4 on the candidate"),
        ({"heads": 2, "is_moved": False}, "does not move the heads back behind the tokens"),
    ],
)
def test_what_is_wrong_inside_an_attention_without_calls_is_said(
    wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    paths = []
    for side, output in enumerate((packed(2), packed(**wrong))):
        kind = "MultiheadAttention"
        known: dict[str, JSON] = {"num_heads": 2, "batch_first": True}
        built = DumpBuilder().module("", "Net")
        built.module("m", kind, class_path=f"torch.nn.modules.activation.{kind}", attributes=known)
        built.module("m.out_proj", "Linear", class_path="torch.nn.modules.linear.Linear")
        built.tensor("m", "in_proj_weight", PACKED, role=Role.WEIGHT)
        built.tensor("m.out_proj", "weight", BEHIND, role=Role.WEIGHT)
        built.enter("", inputs=[TOKENS]).call("m", inputs=[TOKENS], outputs=[output])
        paths.append(built.leave(outputs=[output]).write(tmp_path / str(side)))

    result = compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]

    assert names(result) == ["attention"]
    assert said in result.causes[0].text


def test_queries_of_one_fused_projection_are_found(tmp_path: Path) -> None:
    fused = np.concatenate([QUERY, KEY, VALUE], -1)

    result = glued(grouped(), grouped(cap=30.0), tmp_path, fused)

    assert "queries of part0 output" in result.causes[0].text


def test_a_tensor_that_could_be_a_mask_of_other_scores_is_left_alone(tmp_path: Path) -> None:
    other = np.where(normal(3, TOKEN, 7, seed=65) > 0, 0, -1e9).astype(np.float32)
    whole = normal(2, 5, 32, seed=66)

    result = glued(grouped(), grouped(cap=30.0), tmp_path, other, whole, QUERY, KEY, VALUE)

    assert names(result) == ["attention"]


def test_keys_of_another_length_are_not_taken_for_queries(tmp_path: Path) -> None:
    memory = normal(2, 9, 8, seed=73)
    paths = []
    for side, much in enumerate((1.0, 1.7)):
        query, key, value = (
            given @ part.T
            for given, part in zip((TOKENS, memory, memory), np.split(PACKED, 3), strict=True)
        )
        scores = np.exp(query @ key.swapaxes(1, 2) * 8**-0.5)
        mixed = (scores / scores.sum(2, keepdims=True)) ** much @ value @ BEHIND.T
        kind = "MultiheadAttention"
        built = DumpBuilder().module("", "Net")
        built.module("m", kind, class_path=f"torch.nn.modules.activation.{kind}",
                     attributes={"num_heads": 1, "batch_first": True})  # fmt: skip
        built.module("m.out_proj", "Linear", class_path="torch.nn.modules.linear.Linear")
        built.tensor("m", "in_proj_weight", PACKED, role=Role.WEIGHT)
        built.tensor("m.out_proj", "weight", BEHIND, role=Role.WEIGHT)
        built.enter("", inputs=[TOKENS, memory])
        built.call("m", inputs=[TOKENS, memory, memory], outputs=[mixed])
        paths.append(built.leave(outputs=[mixed]).write(tmp_path / str(side)))

    result = compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]

    assert "attention" not in names(result)


def test_a_boolean_mask_that_was_given_is_one_of_the_scores(tmp_path: Path) -> None:
    parts = [normal(2, 6, 8, seed=seed) for seed in (75, 76, 77)]
    seen = np.array([[1, 1, 1, 1, 0, 0], [1] * 6], bool)[:, None, None]

    def mixed(heads: int) -> Array:
        query, key, value = (x.reshape(2, 6, heads, -1).transpose(0, 2, 1, 3) for x in parts)
        scores = np.exp(query @ key.swapaxes(2, 3) * (8 // heads) ** -0.5) * seen
        made = scores / scores.sum(-1, keepdims=True) @ value
        whole: Array = made.transpose(0, 2, 1, 3).reshape(2, 6, 8).astype(np.float32)
        return whole

    paths = []
    for side, given in enumerate((mixed(2), mixed(4))):
        built = DumpBuilder().module("", "Net").module("att", "Att", attributes={"num_heads": 2})
        for name in ("q", "k", "v", "out"):
            built.module(f"att.{name}", "Part")
        built.enter("", inputs=[TOKENS, seen]).enter("att", inputs=[TOKENS, seen])
        for name, array in zip("qkv", parts, strict=True):
            built.call(f"att.{name}", inputs=[TOKENS], outputs=[array])
        built.call("att.out", inputs=[given], outputs=[given * 2])
        built.leave(outputs=[given * 2]).leave(outputs=[given * 2])
        paths.append(built.write(tmp_path / str(side)))

    result = compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]

    assert "2 heads on the reference, 4 on the candidate" in result.causes[0].text


def test_a_rotation_wider_than_the_heads_is_left_out() -> None:
    parts = tuple(np.random.default_rng(at).normal(size=(1, 2, 5, 8)) for at in range(3))
    turn = Turn(angles=np.random.default_rng(3).normal(size=(5, 3)), is_paired=False)
    heads = Heads(
        parts=(parts[0], parts[1], parts[2]),
        names=("q", "k", "v"),
        shape=(1, 5, 16),
        turns={"rotated": turn},
    )

    narrow = mix(heads, Form(scale=0.5, turn="rotated", heads=4))

    np.testing.assert_array_equal(narrow, mix(heads, Form(scale=0.5, heads=4)))
    assert not np.array_equal(
        mix(heads, Form(scale=0.5, turn="rotated")), mix(heads, Form(scale=0.5))
    )
