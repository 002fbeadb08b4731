"""What attention and recurrent layers drop on their way is a leaf, as what dropouts drop is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.auditing import Soundness
from padiff.comparer.report.fault_words import worded_edit
from tests.frameworks.test_drawn import function_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(0))
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
PADDED = torch.tensor([[False] * 5, [False] * 4 + [True], [False] * 3 + [True] * 2])


class _Attention(nn.Module):
    """Attends by a function of torch, from (position, batch, feature)."""

    def __init__(self, share: float, **options: Any) -> None:  # noqa: ANN401
        super().__init__()
        torch.manual_seed(0)
        self.query, self.both = nn.Linear(8, 8), nn.Linear(8, options.pop("keys", 4) * 4)
        self.share, self.options = share, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            each.unflatten(-1, (-1, 2)).permute(1, 2, 0, 3)
            for each in (self.query(x), *self.both(x).chunk(2, -1))
        )
        made: torch.Tensor = functional.scaled_dot_product_attention(
            query=query, key=key, value=value, dropout_p=self.share, **self.options
        )
        return made


class _ByHand(_Attention):
    """The same by a softmax and a dropout."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            each.unflatten(-1, (-1, 2)).permute(1, 2, 0, 3)
            for each in (self.query(x), *self.both(x).chunk(2, -1))
        )
        weights = torch.softmax(query @ key.mT / 2**0.5, -1)
        made: torch.Tensor = functional.dropout(weights, self.share) @ value
        return made


class _MultiHead(nn.Module):
    def __init__(self, share: float, **options: Any) -> None:  # noqa: ANN401
        super().__init__()
        torch.manual_seed(0)
        self.attention, self.options = nn.MultiheadAttention(8, 2, share), options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.attention(x, x, x, **self.options)[0]
        return made


class _Recurrent(nn.Module):
    def __init__(self, share: float, kind: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__()
        torch.manual_seed(0)
        self.is_packed = options.pop("packed", False)
        self.layers = kind(8, 6, dropout=share, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_packed:
            made = self.layers(rnn.pack_padded_sequence(x, torch.tensor([5, 4, 2])))[0]
            return rnn.pad_packed_sequence(made)[0]
        result: torch.Tensor = self.layers(x)[0]
        return result


FORMS: dict[str, Callable[[float], nn.Module]] = {
    "attention": _Attention,
    "causal": lambda share: _Attention(share, is_causal=True),
    "masked": lambda share: _Attention(share, attn_mask=CAUSAL),
    "grouped": lambda share: _Attention(share, keys=2, enable_gqa=True),
    "heads": lambda share: _MultiHead(share, need_weights=False),
    "heads with weights": lambda share: _MultiHead(share, key_padding_mask=PADDED),
    "lstm": lambda share: _Recurrent(share, nn.LSTM, num_layers=2, bidirectional=True),
    "gru": lambda share: _Recurrent(share, nn.GRU, num_layers=3, batch_first=True),
    "rnn": lambda share: _Recurrent(share, nn.RNN, num_layers=2),
    "packed": lambda share: _Recurrent(share, nn.LSTM, num_layers=3, packed=True),
}


def recorded(folder: Path, name: str, model: nn.Module, seed: int) -> Path:
    torch.manual_seed(seed)
    with padiff.record(model.train(), name=name, out=folder) as recorder:
        model(X).pow(3).mean().backward()
    return recorder.path


@pytest.mark.parametrize("form", FORMS)
def test_what_is_dropped_inside_is_no_difference_and_its_share_is_one(
    form: str, tmp_path: Path
) -> None:
    reference, same, other = (
        recorded(tmp_path, str(seed), FORMS[form](share), seed)
        for seed, share in enumerate((0.25, 0.25, 0.5))
    )

    match, differing = (padiff.compare(reference, one) for one in (same, other))
    assert (match.verdict, function_of(match).tolerated) == (Verdict.MATCH, 0)
    (edit,) = function_of(differing).edits
    assert [(one.known, one.found) for one in edit.changes] == [(0.25, 0.5)]
    audit = padiff.audit(same)
    assert audit.soundness is Soundness.SOUND
    assert "random" not in str(audit)


@pytest.mark.parametrize("form", FORMS)
def test_recording_what_is_dropped_inside_changes_no_bit(form: str, tmp_path: Path) -> None:
    ends = []
    for is_recorded in (False, True):
        model = FORMS[form](0.25).train()
        torch.manual_seed(1)
        if is_recorded:
            with padiff.record(model, name="net", out=tmp_path):
                made = model(X)
        else:
            made = model(X)
        ends.append((made.detach(), torch.rand(4)))

    assert all(torch.equal(*pair) for pair in zip(*ends, strict=True))


def test_attention_by_hand_drops_the_same(tmp_path: Path) -> None:
    reference, candidate, wrong = (
        recorded(tmp_path, name, model, seed)
        for seed, (name, model) in enumerate(
            [("one", _Attention(0.25)), ("two", _ByHand(0.25)), ("wrong", _ByHand(0.5))]
        )
    )

    assert padiff.compare(reference, candidate).verdict is Verdict.MATCH
    assert padiff.compare(reference, wrong).verdict is Verdict.DIVERGED


@pytest.mark.parametrize(
    ("known", "found", "words"),
    [
        (_Attention(0.25), _ByHand(0.0), "left out: where, mul in scaled_dot_product_attention"),
        (_ByHand(0.25), _Attention(0.0), "left out: dropout(0.25)"),
    ],
)
def test_a_dropout_of_attention_that_is_left_out_is_named(
    known: nn.Module, found: nn.Module, words: str, tmp_path: Path
) -> None:
    reference, candidate = (
        recorded(tmp_path, str(seed), model, seed) for seed, model in enumerate((known, found))
    )

    (edit,) = function_of(padiff.compare(reference, candidate)).edits

    assert worded_edit(edit) == words


def _merged(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attend with batch and heads in one axis."""
    flat = (each.flatten(0, 1) for each in (query, key, value))
    query, key, merged = flat
    weights = torch.softmax(torch.bmm(query, key.mT) / 2**0.5, -1)
    return torch.bmm(functional.dropout(weights, 0.25), merged).view_as(value)


def _heads_last(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    weights = torch.softmax(torch.einsum("bhld,bhmd->blmh", query, key) / 2**0.5, 2)
    return torch.einsum("blmh,bhmd->bhld", functional.dropout(weights, 0.25), value)


def _plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value, dropout_p=0.25)


class _Blocks(nn.Module):
    """Two blocks, the second of which takes what the draws of the first have changed."""

    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into = nn.ModuleList(nn.Linear(8, 24) for _ in range(2))
        self.attend = attend

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for into in self.into:
            parts = into(x).unflatten(-1, (3, 4, 2)).permute(2, 1, 3, 0, 4)
            made = self.attend(*parts)
            x = x + made.permute(2, 0, 1, 3).flatten(2)
        return x


@pytest.mark.parametrize("found", [_merged, _heads_last])
@pytest.mark.parametrize("known", [_plain, _merged, _heads_last])
def test_what_is_dropped_is_followed_into_another_layout(
    known: Callable[..., torch.Tensor], found: Callable[..., torch.Tensor], tmp_path: Path
) -> None:
    reference, candidate = (
        recorded(tmp_path, str(seed), _Blocks(attend), seed)
        for seed, attend in enumerate((known, found))
    )

    result = padiff.compare(reference, candidate)

    assert (result.verdict, function_of(result).tolerated) == (Verdict.MATCH, 0)


def _ported(layer: paddle.nn.Layer, model: nn.Module, names: dict[str, str]) -> None:
    """Give a layer of Paddle the weights of torch, by the names that it has for its parts."""
    values = {name: value.detach().numpy() for name, value in model.named_parameters()}
    for name, parameter in layer.named_parameters():
        stem, _, kind = name.rpartition(".")
        known, _, part = names.get(stem, stem).partition("[")
        found = values[f"{known}{kind}" if known.endswith("_") else f"{known}.{kind}"]
        if part:
            found = np.split(found, 3)[int(part[0])]
        parameter.set_value(found.T if kind == "weight" and found.ndim > 1 else found)


def test_an_encoder_layer_in_training_mode_matches_its_port(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.25, batch_first=True)
    with padiff.record(model, name="torch", out=tmp_path) as reference:
        model(X).pow(2).sum().backward()
    ports = []
    for share in (0.25, 0.4):
        paddle.seed(7)
        layer = paddle.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.25, attn_dropout=share)
        parts = ("q_proj", "k_proj", "v_proj")
        names = {f"self_attn.{one}": f"self_attn.in_proj_[{n}" for n, one in enumerate(parts)}
        _ported(layer, model, names)
        with padiff.record(layer, name=f"paddle{share}", out=tmp_path) as recorder:
            layer(paddle.to_tensor(X.numpy())).pow(2).sum().backward()
        ports.append(recorder.path)

    match, wrong = (padiff.compare(reference.path, one) for one in ports)
    assert (match.verdict, function_of(match).tolerated) == (Verdict.MATCH, 0)
    (edit,) = function_of(wrong).edits
    assert [(one.known, one.found) for one in edit.changes] == [(0.25, 0.4)]


@pytest.mark.parametrize(("layers", "share"), [(2, 0.25), (2, 0.4), (3, 0.25)])
def test_recurrent_layers_drop_the_same_between_them(
    layers: int, share: float, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = nn.LSTM(8, 6, layers, dropout=0.25)
    with padiff.record(model, name="torch", out=tmp_path) as reference:
        model(X)[0].pow(2).sum().backward()
    paddle.seed(7)
    layer = paddle.nn.LSTM(8, 6, layers, dropout=share, time_major=True)
    values = dict(model.named_parameters())
    for name, parameter in layer.named_parameters():
        parameter.set_value(values[name].detach().numpy())
    with padiff.record(layer, name="paddle", out=tmp_path) as recorder:
        layer(paddle.to_tensor(X.numpy()))[0].pow(2).sum().backward()

    result = padiff.compare(reference.path, recorder.path)
    assert (result.verdict is Verdict.MATCH) == (share == 0.25)
    assert padiff.audit(recorder.path).soundness is Soundness.SOUND
