"""Tables that one side computes in each call and the other holds: the function is executed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.proving import Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.comparer import FunctionComparison

WAYS = ("computed", "buffer", "attribute")
"""How the table comes to the model: in each call, or rows of one that is longer."""
PAIRS = [*itertools.permutations(WAYS, 2)]


class _Rotary(nn.Module):
    """One head of attention with rotary positions."""

    def __init__(self, way: str, *, scale: float = 1.0, base: float = 10000.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.out = (nn.Linear(16, 16) for _ in range(3))
        self.way, self.scale, self.base = way, scale, base
        if way == "buffer":
            self.register_buffer("cosines", self.table(24)[0], persistent=False)
            self.register_buffer("sines", self.table(24)[1], persistent=False)
        elif way == "attribute":
            self.cosines, self.sines = self.table(24)

    def table(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        frequencies = self.base ** (-torch.arange(0, 8, dtype=torch.float32) / 8)
        angles = torch.arange(count, dtype=torch.float32)[:, None] * frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x.shape[1]
        whole = self.table(count) if self.way == "computed" else (self.cosines, self.sines)
        cosines, sines = (one[:count].to(x.dtype) for one in whole)

        def turned(one: torch.Tensor) -> torch.Tensor:
            return one * cosines + torch.cat([-one[..., 8:], one[..., :8]], -1) * sines

        scores = turned(self.query(x)) * self.scale @ turned(self.key(x)).transpose(1, 2)
        result: torch.Tensor = self.out(torch.softmax(scores / 4, -1) @ x)
        return result


def _compared(
    reference: _Rotary, candidate: _Rotary, folder: Path, dtype: torch.dtype = torch.float32
) -> FunctionComparison:
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(model.to(dtype), name=name, out=folder):
            model(x).square().mean().backward()
    found = padiff.compare(folder / "reference", folder / "candidate")
    executed = found.steps[0].executed
    assert executed is not None
    return executed.function


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_table_is_the_same_wherever_it_comes_from(
    one: str, other: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    found = _compared(_Rotary(one), _Rotary(other), tmp_path, dtype)

    assert (found.answer, found.tolerated, found.lone) == (Answer.SAME, 0, (0, 0))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_scale_behind_a_table_is_found_however_small(
    one: str, other: str, tmp_path: Path
) -> None:
    found = _compared(_Rotary(one), _Rotary(other, scale=1.000001), tmp_path)

    assert found.answer in (Answer.DIFFERENT, Answer.HIDDEN)
    assert "1.000001" in str(found.edits)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_table_of_other_numbers_is_found(one: str, other: str, tmp_path: Path) -> None:
    found = _compared(_Rotary(one), _Rotary(other, base=10100.0), tmp_path)

    assert found.answer is Answer.DIFFERENT


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_coarse_dtype_does_not_make_other_numbers_the_same_table(
    one: str, other: str, tmp_path: Path
) -> None:
    found = _compared(_Rotary(one), _Rotary(other, base=10100.0), tmp_path, torch.bfloat16)

    assert found.tolerated == 2


class _Scheduled(nn.Module):
    """A step of a sampler whose tables are made of one schedule, each by a formula."""

    def __init__(self, formulas: tuple[str, str]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net, self.formulas = nn.Linear(8, 8), formulas
        alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50, dtype=torch.float64), 0)
        for name in {*formulas}:
            self.register_buffer(name, FORMULAS[name](alphas).float())

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        one, two = (BACK[name](getattr(self, name)[steps])[:, None] for name in self.formulas)
        y: torch.Tensor = one.sqrt() * x + (1 - two).sqrt() * self.net(x)
        return y


FORMULAS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "alphas": lambda x: x,
    "roots": torch.sqrt,
    "rests": lambda x: torch.sqrt(1 - x),
    "shares": lambda x: 1 / x,
    "logs": torch.log,
}
BACK: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "alphas": lambda x: x,
    "roots": lambda x: x**2,
    "rests": lambda x: 1 - x**2,
    "shares": lambda x: 1 / x,
    "logs": torch.exp,
}


def _sampled(
    reference: nn.Module, candidate: nn.Module, folder: Path, *inputs: torch.Tensor
) -> FunctionComparison:
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(model, name=name, out=folder, phase="forward"):
            model(*inputs)
    executed = padiff.compare(folder / "reference", folder / "candidate").steps[0].executed
    assert executed is not None
    return executed.function


@pytest.mark.parametrize(
    ("factor", "answer"), [(1.0, (Answer.SAME, 0)), (1.0001, (Answer.DIFFERENT, 1))]
)
def test_a_scale_is_the_same_in_a_buffer_and_in_the_code(
    factor: float, answer: tuple[Answer, int], tmp_path: Path
) -> None:
    """As Gemma keeps the root of its width: float32 rounds it."""

    class Scaled(nn.Embedding):
        scale: torch.Tensor

        def __init__(self, *, is_kept: bool) -> None:
            super().__init__(7, 12)
            nn.init.normal_(self.weight, generator=torch.Generator().manual_seed(0))
            self.is_kept = is_kept
            if is_kept:
                self.register_buffer("scale", torch.tensor(12**0.5))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return super().forward(ids) * (self.scale if self.is_kept else factor * 12**0.5)

    ids = torch.arange(7).reshape(1, 7)
    found = _sampled(Scaled(is_kept=True), Scaled(is_kept=False), tmp_path, ids)

    assert (found.answer, found.tolerated) == answer


@pytest.mark.parametrize("other", [("roots", "rests"), ("shares", "logs")])
def test_a_table_of_a_formula_is_the_same_schedule(other: tuple[str, str], tmp_path: Path) -> None:
    steps, x = torch.tensor([3, 20, 41]), torch.linspace(-1, 1, 24).reshape(3, 8)

    found = _sampled(_Scheduled(("alphas", "alphas")), _Scheduled(other), tmp_path, x, steps)

    assert (found.answer, found.tolerated, found.lone) == (Answer.SAME, 0, (0, 0))


class _Halves(_Rotary):
    """Keeps the angles once, and turns both halves by them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cosines, sines = self.cosines[: x.shape[1], :8], self.sines[: x.shape[1], :8]

        def turned(one: torch.Tensor) -> torch.Tensor:
            first, last = one.chunk(2, -1)
            return torch.cat([first * cosines - last * sines, last * cosines + first * sines], -1)

        scores = turned(self.query(x)) * self.scale @ turned(self.key(x)).transpose(1, 2)
        result: torch.Tensor = self.out(torch.softmax(scores / 4, -1) @ x)
        return result


@pytest.mark.parametrize(("scale", "answer"), [(1.0, Answer.SAME), (1.00001, Answer.DIFFERENT)])
def test_half_a_table_is_the_same_as_both_halves(
    scale: float, answer: Answer, tmp_path: Path
) -> None:
    candidate = _Halves("attribute", scale=scale)
    candidate.cosines, candidate.sines = (
        one[:, :8].contiguous() for one in (candidate.cosines, candidate.sines)
    )

    found = _compared(_Rotary("computed"), candidate, tmp_path)

    assert (found.answer, found.tolerated, found.lone) == (answer, 0, (0, 0))
