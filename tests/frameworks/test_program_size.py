"""A program takes little room beside the elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import padiff
from benchmarks.gpt_torch import GPT
from benchmarks.programsize import program_size

if TYPE_CHECKING:
    from pathlib import Path


def test_three_hundred_operators_take_twenty_kibibytes(tmp_path: Path) -> None:
    model = GPT(layers=15, width=32, heads=4, vocabulary=50)
    with padiff.record(model, name="gpt", out=tmp_path) as recorder:
        model(torch.arange(32).reshape(2, 16)).square().mean().backward()

    operators, size_bytes = program_size(recorder.path)

    assert 300 <= operators <= 320
    assert 0 < size_bytes <= operators / 300 * (20 << 10)
