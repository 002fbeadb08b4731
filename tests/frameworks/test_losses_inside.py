"""A loss inside a model may rest on what the model returns, or on what that is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, nll_loss

import padiff
from padiff.comparer import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
Y = torch.arange(6) % 5


FORMS: dict[str, Loss] = {
    "of logarithms": lambda _, logs: nll_loss(logs, Y),
    "of scores": lambda scores, _: cross_entropy(scores, Y),
    "of both": lambda scores, logs: nll_loss(logs, Y) + cross_entropy(scores, Y),
    "of one cut": lambda scores, logs: nll_loss(logs.detach(), Y) + cross_entropy(scores, Y),
}


class _Net(nn.Module):
    """Returns logarithms and a loss, one of the forms of it."""

    def __init__(self, form: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.form = nn.Linear(8, 5), form

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.layer(x)
        logs = scores.log_softmax(-1)
        return logs, FORMS[self.form](scores, logs)


def _recorded(folder: Path, form: str, *, name: str, loss: Loss, is_told: bool = True) -> Path:
    model = _Net(form)
    with padiff.record(model, name=name, out=folder) as recorder:
        made = loss(*model(X))
        if is_told:
            recorder.loss(made)
        made.backward()  # type: ignore[no-untyped-call]
    assert recorder.path is not None
    return recorder.path


def _inside(_: torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
    return loss


def _more(logs: torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
    return loss + logs.mean()


@pytest.mark.parametrize(
    ("forms", "verdict"),
    [
        (("of logarithms", "of scores"), Verdict.MATCH),
        (("of scores", "of logarithms"), Verdict.MATCH),
        (("of both", "of one cut"), Verdict.DIVERGED),
    ],
)
def test_an_output_off_the_way_to_the_loss_needs_no_gradient(
    forms: tuple[str, str], verdict: Verdict, tmp_path: Path
) -> None:
    names = ("reference", "candidate")
    paths = [
        _recorded(tmp_path, form, name=name, loss=_inside)
        for name, form in zip(names, forms, strict=True)
    ]

    assert padiff.compare(paths[0], paths[1]).verdict is verdict


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("losses", [(_more, _inside), (_inside, _more)])
def test_a_loss_that_takes_more_of_the_outputs_is_another(
    losses: tuple[Loss, Loss], is_told: bool, tmp_path: Path
) -> None:
    names = ("reference", "candidate")
    paths = [
        _recorded(tmp_path, "of scores", name=name, loss=loss, is_told=is_told)
        for name, loss in zip(names, losses, strict=True)
    ]

    assert padiff.compare(paths[0], paths[1]).verdict is Verdict.DIVERGED
