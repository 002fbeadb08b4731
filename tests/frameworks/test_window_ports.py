"""Attention in shifted windows: one author cuts the picture before the attention, one inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, SIDE, WINDOW = 16, 8, 4
PICTURE = torch.tensor(
    np.random.default_rng(5).standard_normal((2, SIDE, SIDE, WIDTH)), dtype=torch.float32
)


def cut(picture: torch.Tensor, shift: int) -> torch.Tensor:
    """Shift a picture, and cut it into windows: (batch * windows, places, channels)."""
    batch, count = len(picture), SIDE // WINDOW
    rolled = picture.roll((-shift, -shift), (1, 2))
    parts = rolled.reshape(batch, count, WINDOW, count, WINDOW, WIDTH)
    return parts.transpose(2, 3).reshape(-1, WINDOW * WINDOW, WIDTH)


def joined(windows: torch.Tensor, shift: int) -> torch.Tensor:
    """Undo ``cut``."""
    count = SIDE // WINDOW
    parts = windows.reshape(-1, count, count, WINDOW, WINDOW, WIDTH)
    return parts.transpose(2, 3).reshape(-1, SIDE, SIDE, WIDTH).roll((shift, shift), (1, 2))


class _Attention(nn.Module):
    def __init__(self, *, shift: int | None, scale: float) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.shift, self.scale = shift, scale * WIDTH**-0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.shift is None else cut(x, self.shift)
        query, key, value = self.qkv(x).chunk(3, -1)
        weights = (query @ key.transpose(1, 2) * self.scale).softmax(-1)
        made: torch.Tensor = self.proj(weights @ value)
        return made if self.shift is None else joined(made, self.shift)


class _Block(nn.Module):
    def __init__(
        self, *, is_inside: bool, shift: int, back: int | None = None, fault: str = ""
    ) -> None:
        super().__init__()
        scale = 1.3 if fault == "scale" else 1.0
        self.attn = _Attention(shift=shift if is_inside else None, scale=scale)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 32),
            nn.GELU(approximate="tanh" if fault == "gelu" else "none"),
            nn.Linear(32, WIDTH),
        )
        self.shift, self.back = shift, shift if back is None else back
        self.is_inside, self.is_cut_off = is_inside, fault == "detach"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = self.norm1(x)
        given = given.detach() if self.is_cut_off else given
        if self.is_inside:
            seen = self.attn(given)
        else:
            seen = joined(self.attn(cut(given, self.shift)), self.back)
        x = x + seen
        made: torch.Tensor = x + self.mlp(self.norm2(x))
        return made


class _Net(nn.Module):
    def __init__(self, **options: object) -> None:
        super().__init__()
        inside, fault = bool(options.get("is_inside")), str(options.get("fault", ""))
        shift, back = options.get("shift", 2), options.get("back")
        self.blocks = nn.ModuleList(
            [
                _Block(is_inside=inside, shift=0),
                _Block(
                    is_inside=inside,
                    shift=int(str(shift)),
                    back=None if back is None else int(str(back)),
                    fault=fault,
                ),
            ]
        )
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        made: torch.Tensor = self.head(x.mean((1, 2)))
        return made


def compared(tmp_path: Path, known: _Net, found: _Net) -> Comparison:
    torch.manual_seed(1)
    for parameter in known.parameters():
        nn.init.normal_(parameter, std=0.3)
    found.load_state_dict(known.state_dict())
    for name, model in (("known", known), ("found", found)):
        with record(model, name=name, out=tmp_path):
            (model(PICTURE.clone().requires_grad_()) ** 2).sum().backward()
    return compare(tmp_path / "known", tmp_path / "found", CompareSettings())


@pytest.mark.parametrize("turned", [False, True])
def test_windows_cut_before_or_inside_an_attention_agree(tmp_path: Path, *, turned: bool) -> None:
    result = compared(tmp_path, _Net(is_inside=turned), _Net(is_inside=not turned))

    assert result.verdict is Verdict.MATCH, result.reasons


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"shift": 1}, "blocks.1"),
        ({"back": 1}, "blocks.1"),
        ({"fault": "scale"}, "blocks.1.attn"),
        ({"fault": "gelu"}, "blocks.1.mlp.1"),
        ({"fault": "detach"}, "blocks.1"),
    ],
    ids=str,
)
def test_a_fault_is_named_and_not_the_windows(
    tmp_path: Path, options: dict[str, object], name: str
) -> None:
    result = compared(tmp_path, _Net(is_inside=True), _Net(is_inside=False, **options))

    named = [one.pair.reference.address.module for one in result.origins if one.pair.reference]
    assert result.verdict is Verdict.DIVERGED
    assert named[0] == name
