"""Two forms of a model with other weights, names and order: what each value is used for tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from padiff import open_dump, record
from padiff.pairing import pair

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 6
INPUT = np.random.default_rng(1).standard_normal((2, 5, WIDTH)).astype(np.float32)


class _Attention(nn.Module):
    """Names and order of execution say which projection is which to people only."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        shares = torch.softmax(query @ key.transpose(1, 2) / 2, -1)
        made: torch.Tensor = self.out(shares @ value)
        return made


class _Other(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c, self.d = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, key, query = self.a(x), self.b(x), self.c(x)
        scores = torch.bmm(query, key.mT).div(2)
        made: torch.Tensor = self.d(torch.matmul(scores.softmax(2), value))
        return made


def test_projections_are_told_by_what_is_made_of_them(tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference, candidate = _Attention(), _Other()
    with record(reference, name="reference", out=tmp_path) as one:
        reference(torch.tensor(INPUT))
    with record(candidate, name="candidate", out=tmp_path) as two:
        candidate(torch.tensor(INPUT))

    with open_dump(one.path).open(0, 0) as known, open_dump(two.path).open(0, 0) as found:
        pairs = pair(known, found).modules
        names = {
            known.index.modules[one.reference].path: (
                found.index.modules[one.candidate].path,
                one.confidence,
            )
            for one in pairs
        }

    assert names == {
        "": ("", 1.0),
        "query": ("c", 1.0),
        "key": ("b", 1.0),
        "value": ("a", 1.0),
        "out": ("d", 1.0),
    }
