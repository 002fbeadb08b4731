"""A port that hands arguments over in another order, as ``torch.export.unflatten`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import CompareSettings, Verdict, compare

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer import Comparison

INPUT = np.random.default_rng(3).standard_normal((3, 8)).astype(np.float32)
NOTE = "arguments are handed over in another order, and what is made of them is bit-equal: mix"


class Mix(nn.Module):
    def __init__(self, order: str = "") -> None:
        super().__init__()
        self.order = order
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, *given: torch.Tensor, gate: torch.Tensor | None = None) -> torch.Tensor:
        x, gate = given if gate is None else (given[0], gate)
        if self.order == "exchanged":
            x, gate = gate, x
        made: torch.Tensor = self.a(x) * torch.sigmoid(self.b(gate))
        return made


class Net(nn.Module):
    def __init__(self, order: str = "", *, faulty: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.order, self.faulty = order, faulty
        self.f, self.g, self.mix = nn.Linear(8, 8), nn.Linear(8, 8), Mix(order)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.f(x), self.g(x)
        is_turned = self.order == "exchanged" and not self.faulty
        given = (second, first) if is_turned else (first, second)
        named = {"gate": given[1]} if self.order == "named" else {}
        made: torch.Tensor = self.mix(*given[: 2 - len(named)], **named)
        return made


def compared(folder: Path, *models: nn.Module) -> Comparison:
    paths = []
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with padiff.record(model, name=name, out=folder) as recorder:
            (model(torch.from_numpy(INPUT)) ** 2).mean().backward()
        assert recorder.path is not None
        paths.append(recorder.path)
    return compare(paths[0], paths[1], CompareSettings())


@pytest.mark.parametrize("known", ["", "named"])
def test_another_order_of_arguments_is_a_note(known: str, tmp_path: Path) -> None:
    found = compared(tmp_path, Net(known), Net("exchanged"))

    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())
    assert found.steps[0].notes.count(NOTE) == 1
    assert found.steps[0].coverage_candidate.fraction == 1.0


def test_an_argument_that_is_only_named_has_no_note(tmp_path: Path) -> None:
    found = compared(tmp_path, Net(), Net("named"))

    assert found.verdict is Verdict.MATCH
    assert NOTE not in found.steps[0].notes


def test_exchanged_arguments_of_which_something_else_is_made_diverge(tmp_path: Path) -> None:
    found = compared(tmp_path, Net(), Net("exchanged", faulty=True))

    assert found.verdict is Verdict.DIVERGED
    assert NOTE not in found.steps[0].notes
    ends = [origin.pair.reference for origin in found.origins]
    assert {end.address.module for end in ends if end is not None} == {"mix.a", "mix.b"}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch.export itself
def test_unflattened_program_matches(tmp_path: Path) -> None:
    model = Net("named")
    x = torch.from_numpy(INPUT)
    candidate = torch.export.unflatten(torch.export.export(model, (x,)))

    assert compared(tmp_path, model, candidate).verdict is Verdict.MATCH
