"""Models with complex weights: mixing along the sequence by its spectrum, and training them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.report.fault_words import evidence_of
from padiff.dumpfile import Phase, Role
from tests.support.located import compare_dumps, compare_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.result import Comparison


class Spectral(nn.Module):
    """Filters a sequence in the frequency domain."""

    def __init__(self, norm: str = "ortho") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into = nn.Linear(6, 6)
        self.filter = nn.Parameter(torch.randn(5, 6, dtype=torch.complex64))
        self.out = nn.Linear(6, 3)
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(self.into(x), dim=1, norm=self.norm) * self.filter
        out: torch.Tensor = self.out(torch.fft.irfft(spectrum, n=x.shape[1], dim=1, norm="ortho"))
        return out


class RealOnly(torch.optim.SGD):
    """Forgets the imaginary part of what it updates."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        weights = [weight for group in self.param_groups for weight in group["params"]]
        before = [weight.detach().clone() for weight in weights]
        super().step(closure)
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                if weight.is_complex():
                    weight.copy_(torch.complex(weight.real, old.imag))


class Rounding(torch.optim.SGD):
    """Rounds otherwise: each complex weight is off by some spacings after the update."""

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        super().step(closure)
        with torch.no_grad():
            for group in self.param_groups:
                for weight in (one for one in group["params"] if one.is_complex()):
                    weight.mul_(1 + 2.0**-22)


def trained(folder: Path, name: str, optimizer: type[torch.optim.SGD]) -> Path:
    """Record two steps, the first of which changes the complex weight in both its parts."""
    model = Spectral()
    made = optimizer(model.parameters(), lr=0.05)
    given = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(1))
    with padiff.record(model, name=name, out=folder, optimizer=made) as recorder:
        for _ in range(2):
            loss = model(given).square().sum()
            loss.backward()
            made.step()
            made.zero_grad()
            recorder.step(loss=loss)
    return recorder.path


def compared(folder: Path, optimizer: type[torch.optim.SGD]) -> Comparison:
    reference = trained(folder, "reference", torch.optim.SGD)
    return compare_dumps(reference, trained(folder, "candidate", optimizer))


def test_update_that_forgets_the_imaginary_part_is_the_origin(tmp_path: Path) -> None:
    found = compared(tmp_path, RealOnly)

    end = found.origins[0].pair.reference
    assert end is not None
    assert (end.address.step, end.address.phase) == (0, Phase.UPDATE)
    assert (end.address.role, end.address.slot) == (Role.WEIGHT, ".filter")


def test_rounding_of_a_complex_weight_matches(tmp_path: Path) -> None:
    reference = trained(tmp_path, "reference", torch.optim.SGD)

    assert not compare_numbers(reference, trained(tmp_path, "candidate", Rounding)).origins


def test_norm_of_a_spectrum_is_proved(tmp_path: Path) -> None:
    given = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(1))
    paths = []
    for name, norm in (("reference", "ortho"), ("candidate", "backward")):
        model = Spectral(norm)
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(given).sum().backward()
        paths.append(recorder.path)

    evidence = evidence_of(compare_dumps(*paths).origins[0])

    assert evidence[0].startswith("proved: ")
    assert "irfft" in evidence[0]


@pytest.mark.parametrize("part", ["real", "imag"])
def test_one_part_of_one_weight_is_enough_to_diverge(tmp_path: Path, part: str) -> None:
    paths = []
    for name, by in (("reference", 0.0), ("candidate", 1e-3)):
        model = Spectral()
        with torch.no_grad():
            getattr(model.filter, part)[2, 3] += by
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(torch.ones(1, 8, 6)).sum().backward()
        paths.append(recorder.path)

    end = compare_dumps(*paths).origins[0].pair.reference

    assert end is not None
    assert (end.address.role, end.address.slot) == (Role.WEIGHT, ".filter")
