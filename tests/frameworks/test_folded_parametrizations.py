"""A parametrization that was folded into its weight is another form, not another weight."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import padiff
from padiff.comparer import Verdict

if TYPE_CHECKING:
    from pathlib import Path

ROTATIONS = ("cayley", "householder", "matrix_exp")
NORMS: dict[str, Any] = {
    "weight": parametrizations.weight_norm,
    "spectral": parametrizations.spectral_norm,
    **{name: partial(parametrizations.orthogonal, orthogonal_map=name) for name in ROTATIONS},
}


def _build(norm: str, *, is_folded: bool, wrong: float = 1.0) -> nn.Module:
    """Build a model whose weights were trained apart from their magnitudes."""
    torch.manual_seed(0)
    apply = NORMS[norm]
    layers = apply(nn.Conv1d(3, 8, 3)), nn.ReLU(), nn.Flatten(), apply(nn.Linear(48, 4))
    model = nn.Sequential(*layers).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + 0.3 * torch.rand_like(weight))
            if norm in ROTATIONS and weight.ndim > 1:
                weight.add_(torch.randn_like(weight) * (1 - torch.eye(*weight.shape[-2:])))
    for layer in layers if is_folded else ():
        if parametrize.is_parametrized(layer):
            parametrize.remove_parametrizations(layer, "weight")
    if wrong != 1:
        with torch.no_grad():
            layers[3].weight[0] *= wrong
    return model


def _recorded(model: nn.Module, folder: Path, name: str) -> Path:
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))
    with padiff.record(model, name=name, out=folder) as recorder:
        loss = model(x).square().mean()
        recorder.loss(loss)
        loss.backward()
    assert recorder.path is not None
    return recorder.path


@pytest.mark.parametrize("wrong", [1.0, 1.0001])
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_a_folded_norm_of_weights_is_what_it_computes(
    norm: str, is_turned: bool, wrong: float, tmp_path: Path
) -> None:
    models = [_build(norm, is_folded=False), _build(norm, is_folded=True, wrong=wrong)]
    names = ("reference", "candidate")
    paths = [
        _recorded(model, tmp_path, name)
        for model, name in zip(models[::-1] if is_turned else models, names, strict=True)
    ]

    found = padiff.compare(paths[0], paths[1])

    assert found.verdict is (Verdict.MATCH if wrong == 1 else Verdict.DIVERGED)
