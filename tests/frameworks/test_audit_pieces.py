"""Values that are audited in pieces: one wrong element in any piece is found."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import padiff
from padiff.comparer.auditing import Answers, Audit, Check, Soundness, audit

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.auditing.forward import Measured

Thing = Any
SHAPE = (3, 100, 512)
"""More than a piece holds."""


class _Block(nn.Module):
    """What is cut: a norm, attention, an activation and a sum."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two, self.act = nn.LayerNorm(512), nn.LayerNorm(512), nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.one(x).reshape(3, 100, 8, 64).transpose(1, 2)
        scores = torch.softmax(parts @ parts.transpose(-2, -1) * 0.125, dim=-1)
        mixed = (scores @ parts).transpose(1, 2).reshape(3, 100, 512)
        y: torch.Tensor = self.act(self.two(x + mixed) * 2) + x
        return y


class _WrongElement(TorchDispatchMode):
    """Lets one kernel of torch give one element that is off by a thousandth."""

    def __init__(self, kernel: Thing, place: tuple[int, ...], *, is_second: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernel, self.place = kernel, place
        self.left = 2 if is_second else 1

    def __torch_dispatch__(
        self, func: Thing, types: Thing, args: Thing = (), kwargs: Thing = None
    ) -> Thing:
        made = func(*args, **(kwargs or {}))
        self.left -= func is self.kernel
        if func is self.kernel and not self.left:
            with torch.no_grad():
                (made[0] if isinstance(made, tuple) else made)[self.place] *= 1.001
        return made


def audited(folder: Path, mode: TorchDispatchMode | None = None) -> tuple[Audit, Audit]:
    """Record the block, and audit it: how far each value is off, and whether it is sound."""
    torch.manual_seed(0)
    model, x = _Block(), torch.randn(SHAPE)
    with padiff.record(model, name="model", out=folder) as recorder:
        if mode is None:
            made = model(x)
        else:
            with mode:
                made = model(x)
        made.square().mean().backward()
    with padiff.open_dump(recorder.path).open(0, 0) as file:
        answers: list[Answers[Measured]] = [Answers(), Answers(is_brief=True)]
        whole, brief = (audit(file, one) for one in answers)
    return whole, brief


def test_a_clean_block_is_sound_and_its_errors_are_bounded(tmp_path: Path) -> None:
    whole, brief = audited(tmp_path)

    assert whole.unsound == brief.unsound == ()
    assert whole.count(Check.FORWARD, Soundness.SOUND) > 4
    assert whole.count(Check.GRADIENT, Soundness.SOUND) > 2
    for one, two in zip(whole.values, brief.values, strict=True):
        if one.error is not None and two.error is not None:
            assert one.error <= math.sqrt(3) * two.error


@pytest.mark.parametrize("row", [(0, 0), (1, 57), (2, 99)])
@pytest.mark.parametrize(
    ("kernel", "is_second", "name"),
    [
        (torch.ops.aten.gelu.default, False, "gelu"),
        (torch.ops.aten.native_layer_norm.default, False, "layer_norm"),
        (torch.ops.aten.add.Tensor, True, "add"),
    ],
)
def test_one_wrong_element_in_any_piece_is_found(
    kernel: Thing, is_second: bool, name: str, row: tuple[int, int], tmp_path: Path
) -> None:
    found = audited(tmp_path, _WrongElement(kernel, (*row, 300), is_second=is_second))

    for one in found:
        assert [each.operator.rpartition(".")[2] for each in one.unsound] == [name]
