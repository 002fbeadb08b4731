"""Layers of one shape that authors name otherwise: what a run gives each tells which is which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from padiff.dumpfile import ConfigError
from tests.support.carrying import carried

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.pairing.weights.weight_plan import WeightPlan

WIDTH = 8
NUMBERS = np.random.default_rng(3)
X = torch.tensor(NUMBERS.standard_normal((2, 5, WIDTH)), dtype=torch.float32)
IDS = torch.tensor(NUMBERS.integers(3, 30, (2, 7)))
IDS_OUT = torch.tensor(NUMBERS.integers(3, 30, (2, 5)))


class _Seq2Seq(nn.Module):
    """torch's own Transformer, whose norms have numbers, with embeddings as BART has them."""

    def __init__(self, activation: str = "gelu") -> None:
        super().__init__()
        self.tok = nn.Embedding(30, WIDTH)
        self.pos_src, self.pos_tgt = nn.Embedding(18, WIDTH), nn.Embedding(18, WIDTH)
        self.norm_src, self.norm_tgt = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.body = nn.Transformer(
            WIDTH, 2, 2, 2, 16, dropout=0.0, activation=activation, batch_first=True
        )
        self.body.encoder.norm = self.body.decoder.norm = None

    def forward(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        places = torch.arange(2, 18)
        memory = self.norm_src(self.tok(ids) + self.pos_src(places[: ids.shape[1]]))
        y = self.norm_tgt(self.tok(out) + self.pos_tgt(places[: out.shape[1]]))
        mask = nn.Transformer.generate_square_subsequent_mask(out.shape[1])
        found: torch.Tensor = self.body(memory, y, tgt_mask=mask, tgt_is_causal=True)
        return found


class _Block(nn.Module):
    def __init__(self, names: tuple[str, str], *, is_crossed: bool = False) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, nn.LayerNorm(WIDTH))
        self.names = names[::-1] if is_crossed else names
        self.mix, self.up = nn.Linear(5, 5), nn.Linear(WIDTH, WIDTH + 1)
        self.down = nn.Linear(WIDTH + 1, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = (getattr(self, name) for name in self.names)
        x = x + self.mix(first(x).mT).mT
        found: torch.Tensor = x + self.down(self.up(second(x)).relu())
        return found


def _blocks(*names: str, is_crossed: bool = False) -> nn.Sequential:
    pair = names[0], names[1]
    return nn.Sequential(*(_Block(pair, is_crossed=is_crossed) for _ in range(2)))


def _carried(
    folder: Path,
    reference: nn.Module,
    candidate: nn.Module,
    *inputs: torch.Tensor,
    has_program: bool = True,
) -> tuple[WeightPlan, float]:
    return carried(folder, reference, candidate, *inputs, mean=0.3, seed=7, has_program=has_program)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_norms_of_bart_are_those_of_torch_s_transformer(tmp_path: Path, activation: str) -> None:
    """Also where a fault, ReLU for GELU, changes what all but the first are given."""
    from transformers import BartConfig, BartModel  # noqa: PLC0415 - slow to import

    config = BartConfig(
        vocab_size=30, d_model=WIDTH, max_position_embeddings=16, dropout=0.0,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16,
    )  # fmt: skip
    bart = BartModel(config)

    reference, candidate = _Named(bart), _Seq2Seq(activation)

    _, error = _carried(tmp_path, reference, candidate, IDS, IDS_OUT)

    assert (error < 1e-5) is (activation == "gelu")
    right = _Seq2Seq().eval()
    right.load_state_dict(candidate.state_dict())
    with torch.no_grad():
        expected = reference(IDS, IDS_OUT)
        torch.testing.assert_close(right(IDS, IDS_OUT), expected, rtol=1e-4, atol=1e-4)


class _Named(nn.Module):
    """Hands arguments on by name."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.model(input_ids=ids, decoder_input_ids=out)[0]
        return made


@pytest.mark.parametrize("names", [("norm1", "norm2"), ("norm2", "norm1"), ("zulu", "alpha")])
def test_norms_of_a_block_are_told_whatever_their_names(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    reference = _blocks("layernorm_before", "layernorm_after")

    _, error = _carried(tmp_path, reference, _blocks(*names), X)

    assert error < 1e-5


def test_norms_that_are_used_against_their_names_are_not_exchanged(tmp_path: Path) -> None:
    reference = _blocks("norm1", "norm2")
    faulty = _blocks("norm1", "norm2", is_crossed=True)

    plan, error = _carried(tmp_path, reference, faulty, X)

    assert error > 1e-3
    assert all(len(pair.reference) == 1 for pair in plan.pairs)
    for name, tensor in faulty.state_dict().items():
        torch.testing.assert_close(tensor, reference.state_dict()[name])


class _Both(nn.Module):
    """Two layers that are given the same; their product is the same whichever is which."""

    def __init__(self, *names: str, is_even: bool = False, is_crossed: bool = False) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        self.names = names[::-1] if is_crossed else names
        self.is_even = is_even

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two = (getattr(self, name)(x) for name in self.names)
        found: torch.Tensor = one * two if self.is_even else one * two.tanh()
        return found


def test_layers_that_nothing_tells_apart_stay_ambiguous(tmp_path: Path) -> None:
    reference = _Both("left", "right", is_even=True)

    with pytest.raises(ConfigError, match=r"left\.weight \(identity\) or right\.weight"):
        _carried(tmp_path, reference, _Both("gate", "value", is_even=True), X)


@pytest.mark.parametrize("is_crossed", [False, True])
def test_layers_that_are_given_the_same_are_told_by_what_comes_of_them(
    tmp_path: Path, *, is_crossed: bool
) -> None:
    candidate = _Both("gate", "value", is_crossed=is_crossed)

    plan, error = _carried(tmp_path, _Both("left", "right"), candidate, X, has_program=False)

    assert error < 1e-5
    order = "right, left" if is_crossed else "left, right"
    assert any(note.startswith(f"gate, value: {order}: tried") for note in plan.notes)


@pytest.mark.parametrize("is_crossed", [False, True])
def test_nothing_is_tried_where_the_programs_tell_what_comes_of_layers(
    tmp_path: Path, *, is_crossed: bool
) -> None:
    candidate = _Both("gate", "value", is_crossed=is_crossed)

    plan, error = _carried(tmp_path, _Both("left", "right"), candidate, X)

    assert error < 1e-5
    assert not any("tried" in note for note in plan.notes)


class _Attention(nn.Module):
    """Query, key and value of one size, defined in some order under some names."""

    def __init__(self, names: str, order: str) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.order = order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (getattr(self, name)(x) for name in self.order)
        found: torch.Tensor = x + self.out((query @ key.mT).softmax(-1) @ value)
        return found


@pytest.mark.parametrize("order", ["cab", "abc"])
def test_query_key_and_value_are_told_in_all_layers_together(tmp_path: Path, order: str) -> None:
    reference = nn.Sequential(*(_Attention("xyz", "xyz") for _ in range(2)))
    candidate = nn.Sequential(*(_Attention("abc", order) for _ in range(2)))

    plan, error = _carried(tmp_path, reference, candidate, X, has_program=False)

    assert error < 1e-5
    assert sum("tried" in note for note in plan.notes) == 1


class _Parallel(nn.Module):
    """Two norms of one value, as GPT-NeoX has them before attention and MLP."""

    def __init__(self, first: str, second: str, *, is_crossed: bool = False) -> None:
        super().__init__()
        for name in (first, second):
            setattr(self, name, nn.LayerNorm(WIDTH))
        self.names = (second, first) if is_crossed else (first, second)
        self.mix, self.up = nn.Linear(5, 5), nn.Linear(WIDTH, WIDTH + 1)
        self.down = nn.Linear(WIDTH + 1, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two = (getattr(self, name)(x) for name in self.names)
        found: torch.Tensor = x + self.mix(one.mT).mT + self.down(self.up(two).relu())
        return found


@pytest.mark.parametrize("is_crossed", [False, True])
def test_norms_side_by_side_are_told_by_what_is_made_of_them(
    tmp_path: Path, *, is_crossed: bool
) -> None:
    reference = nn.Sequential(*(_Parallel("ada", "bob") for _ in range(2)))
    candidate = nn.Sequential(*(_Parallel("yes", "zoe", is_crossed=is_crossed) for _ in range(2)))

    _, error = _carried(tmp_path, reference, candidate, X)

    assert error < 1e-5


def test_siblings_that_are_used_against_their_names_are_not_exchanged(tmp_path: Path) -> None:
    reference = nn.Sequential(_Parallel("norm_attn", "norm_mlp"))
    faulty = nn.Sequential(_Parallel("norm_attn", "norm_mlp", is_crossed=True))

    _, error = _carried(tmp_path, reference, faulty, X)

    assert error > 1e-3
    for name, tensor in faulty.state_dict().items():
        torch.testing.assert_close(tensor, reference.state_dict()[name])


class _Levels(nn.Module):
    """Two heads of equal shapes that are called on each of several levels."""

    def __init__(self, boxes: str, classes: str, *, is_late: bool) -> None:
        super().__init__()
        self.names = boxes, classes
        for name in (classes, boxes) if is_late else (boxes, classes):
            last = nn.Linear(WIDTH, 4 if name == boxes else 6)
            setattr(self, name, nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), last))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        heads = [getattr(self, name) for name in self.names]
        return [head(level) for head in heads for level in (x, x + 1, x * 2)]


def test_heads_that_are_called_on_several_levels_are_told(tmp_path: Path) -> None:
    reference = _First(_Levels("reg_head", "cls_head", is_late=True))
    candidate = _First(_Levels("box", "kinds", is_late=False))

    _, error = _carried(tmp_path, reference, candidate, X)

    assert error < 1e-5


class _Branches(nn.Module):
    """Two branches of two layers each, all of one shape, that meet in the end."""

    def __init__(self, names: str, order: str) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        self.order = order
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two, three, four = (getattr(self, name) for name in self.order)
        found: torch.Tensor = self.out(three(one(x).relu()) * four(two(x).relu()).tanh())
        return found


@pytest.mark.parametrize("order", ["pqrs", "qprs", "qpsr", "srqp"])
def test_branches_are_told_with_all_that_is_in_them(tmp_path: Path, order: str) -> None:
    candidate = _Branches("pqrs", order)

    _, error = _carried(tmp_path, _Branches("wxyz", "wxyz"), candidate, X)

    assert error < 1e-5


class _First(nn.Module):
    """Joins the outputs, so that they can be held against each other."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat(self.body(x), -1)


class _Turned(nn.Module):
    """A product of a class that padiff does not know, its matrix one way or the other round."""

    def __init__(self, *, is_turned: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH, WIDTH))
        self.bias = nn.Parameter(torch.zeros(WIDTH))
        self.is_turned = is_turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight if self.is_turned else self.weight.T) + self.bias


@pytest.mark.parametrize("is_turned", [True, False])
def test_which_way_a_square_matrix_lies_is_told_by_what_comes_out(
    tmp_path: Path, *, is_turned: bool
) -> None:
    reference = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
    product = _Turned(is_turned=is_turned)
    candidate = nn.Sequential(product, nn.Tanh(), nn.Linear(WIDTH, 3))

    plan, error = _carried(tmp_path, reference, candidate, X)

    assert error < 1e-5
    assert any(note.startswith("#.weight") for note in plan.notes)
