"""Two norms of one tensor that are fresh give the same: what takes it tells of neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from padiff import record
from padiff.dumpfile import open_dump
from padiff.pairing import pair

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 32


class _Block(nn.Module):
    """Attention and network side by side, as in GPT-NeoX, each behind a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_a, self.norm_b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm_a(x)
        mixed = self.o((self.q(y) @ self.k(y).mT).softmax(-1) @ self.v(y))
        found: torch.Tensor = x + mixed + self.down(self.up(self.norm_b(x)).tanh())
        return found


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.blocks = nn.Embedding(60, WIDTH), nn.ModuleList(_Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 60, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.emb(x)
        for block in self.blocks:
            x = block(x)
        found: torch.Tensor = self.head(self.norm(x))
        return found


def test_fresh_norms_of_one_tensor_are_not_certain_in_the_wrong_order(tmp_path: Path) -> None:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM  # noqa: PLC0415 - slow to import

    torch.manual_seed(1)
    config = GPTNeoXConfig(
        vocab_size=60, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=4 * WIDTH, max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    one, two = GPTNeoXForCausalLM(config), _Net()
    one.train(mode=False)
    for parameter in one.parameters():
        nn.init.normal_(parameter, 0.1, 0.4)
    ids = torch.randint(3, 60, (2, 6))
    paths = []
    for name, model in (("one", one), ("two", two)):
        with torch.no_grad(), record(model, name=name, out=tmp_path) as dump:
            model(ids)
        paths.append(dump.path)

    with open_dump(paths[0]).open() as reference, open_dump(paths[1]).open() as candidate:
        shown = {
            reference.index.modules[found.reference].path: (
                candidate.index.modules[found.candidate].path,
                found.confidence,
            )
            for found in pair(reference, candidate).modules
        }

    for place in range(2):
        inside = f"gpt_neox.layers.{place}"
        for mine, theirs in (("input_layernorm", "a"), ("post_attention_layernorm", "b")):
            partner, confidence = shown[f"{inside}.{mine}"]
            assert partner == f"blocks.{place}.norm_{theirs}" or confidence < 1.0
        assert shown[f"{inside}.mlp.dense_h_to_4h"] == (f"blocks.{place}.up", 1.0)
