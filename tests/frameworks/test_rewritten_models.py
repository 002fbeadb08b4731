"""Models of transformers against the same networks written otherwise: a run tells them apart.

The traps are real: ``post_attention_layernorm`` is no ``attention_norm`` but the norm before the
network, and ``w3`` is the way up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from padiff import record
from padiff.dumper.adapters import load
from padiff.dumper.runs.rehearsal import rehearse
from padiff.dumper.weights.weights import assign_weight, load_weights
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIDTH, HEADS, KEPT = 32, 4, 2
HEAD = WIDTH // HEADS
TOKENS = torch.tensor(np.random.default_rng(2).integers(3, 60, (2, 9)))


def _heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(*x.shape[:2], -1, HEAD).transpose(1, 2)


class _Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wk = nn.Linear(WIDTH, KEPT * HEAD, bias=False)
        self.wq = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wv = nn.Linear(WIDTH, KEPT * HEAD, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(0, HEAD, 2) / HEAD
        angles = torch.outer(torch.arange(x.shape[1]), 1 / 10000**steps).repeat(1, 2)
        q, k, v = _heads(self.wq(x)), _heads(self.wk(x)), _heads(self.wv(x))
        q, k = (
            one * angles.cos()
            + torch.cat([-one[..., HEAD // 2 :], one[..., : HEAD // 2]], -1) * angles.sin()
            for one in (q, k)
        )
        k, v = (one.repeat_interleave(HEADS // KEPT, 1) for one in (k, v))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed: torch.Tensor = self.wo(found.transpose(1, 2).reshape(x.shape))
        return mixed


class _Block(nn.Module):
    """As Llama's authors name things."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = _Attention()
        self.feed_forward = nn.ModuleDict(
            {
                "w1": nn.Linear(WIDTH, 56, bias=False),
                "w2": nn.Linear(56, WIDTH, bias=False),
                "w3": nn.Linear(WIDTH, 56, bias=False),
            }
        )
        self.attention_norm = _Norm()
        self.ffn_norm = _Norm()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        y, net = self.ffn_norm(x), self.feed_forward
        down: torch.Tensor = net["w2"](nn.functional.silu(net["w1"](y)) * net["w3"](y))
        return x + down


class _Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(60, WIDTH)
        self.layers = nn.ModuleList([_Block() for _ in range(3)])
        self.norm = _Norm()
        self.output = nn.Linear(WIDTH, 60, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        found: torch.Tensor = self.output(self.norm(x))
        return found


class _Encoder(nn.Module):
    """BERT by the framework's own layers: packed projections, functional attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, WIDTH)
        self.places = nn.Embedding(20, WIDTH)
        self.segments = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 64, 0.0, activation="gelu", batch_first=True, layer_norm_eps=1e-12
        )
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = self.places(torch.arange(tokens.shape[1]))
        x = self.words(tokens) + self.segments(torch.zeros_like(tokens)) + places
        found: torch.Tensor = self.encoder(self.norm(x))
        return found


def _llama() -> Any:  # noqa: ANN401 - untyped library
    config = transformers.LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=56,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        num_key_value_heads=KEPT,
        vocab_size=60,
        max_position_embeddings=32,
        rms_norm_eps=1e-6,
    )
    return transformers.LlamaForCausalLM(config)


def _bert() -> Any:  # noqa: ANN401 - untyped library
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=WIDTH,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        intermediate_size=64,
        max_position_embeddings=20,
    )
    return transformers.BertModel(config, add_pooling_layer=False)


PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "llama": (_llama, _Llama),
    "bert": (_bert, _Encoder),
}


def _made(name: str) -> tuple[Any, Any]:
    torch.manual_seed(4)
    models = PAIRS[name][0]().eval(), PAIRS[name][1]().eval()
    for model in models:
        with torch.no_grad():
            for path, weight in model.named_parameters():
                spread = weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.2
                weight.normal_(float("norm" in path.lower() and "weight" in path), spread)
    return models


def _output(model: Any) -> torch.Tensor:  # noqa: ANN401 - either author's
    with torch.no_grad():
        found = model(TOKENS)
    return found if isinstance(found, torch.Tensor) else next(iter(found.values()))


@pytest.mark.parametrize("is_forward", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_rewritten_model_agrees_without_a_map(
    name: str, tmp_path: Path, *, is_forward: bool
) -> None:
    reference, candidate = _made(name) if is_forward else _made(name)[::-1]
    with record(reference, name="reference", out=tmp_path) as dump:
        expected = _output(reference)

    load_weights(
        candidate,
        load("torch"),
        dump.path,
        rehearsal=lambda: rehearse(candidate, load("torch"), lambda: _output(candidate)),
    )

    torch.testing.assert_close(_output(candidate), expected, rtol=1e-4, atol=1e-4)


def test_norms_that_only_one_author_calls_post_are_ambiguous_without_a_run() -> None:
    reference, candidate = _made("llama")

    with pytest.raises(ConfigError) as caught:
        assign_weight(reference, candidate)

    (problem,) = (
        detail for detail in caught.value.details if detail.startswith("candidate layers")
    )
    assert "layers.{i}.attention_norm / ffn_norm (3 blocks) is ambiguous" in problem
