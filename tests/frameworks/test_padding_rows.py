"""The row of an embedding that stands for padding is read, and gets no gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch
from torch import nn

import padiff
from tests.frameworks.test_audit import audited

if TYPE_CHECKING:
    from pathlib import Path

IDS = torch.tensor([[3, 1, 1, 5], [1, 2, 4, 1]])


class _Words(nn.Module):
    """Looks rows up, reads them once more, and may hand out their scores by the same weight."""

    def __init__(self, padding: int | None, *, form: str = "alone") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(7, 6)
        self.words.padding_idx = padding
        self.norm = nn.LayerNorm(6)
        self.form = form

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        weight = self.words.weight
        if self.form == "inside":
            rows = nn.functional.embedding(ids, weight, self.words.padding_idx)
        elif self.form == "negative":
            rows = nn.functional.embedding(ids, weight, (self.words.padding_idx or 0) - 7)
        else:
            rows = self.words(ids)
        made: torch.Tensor = self.norm(rows.sigmoid())
        return torch.matmul(made, weight.T) if self.form == "tied" else made


FORMS = ("alone", "inside", "negative", "tied")


def _audited(net: nn.Module, folder: Path) -> padiff.Audit:
    found: padiff.Audit = audited(net, folder, {"ids": IDS})
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_row_of_padding_is_not_blamed(form: str, tmp_path: Path) -> None:
    found = _audited(_Words(1, form=form), tmp_path)

    assert found.unsound == ()
    weights = [one for one in found.values if one.operator == "words.weight"]
    assert [one.check.value for one in weights] == ["gradient"]


def _record(net: nn.Module, folder: Path) -> Path:
    with padiff.record(net, name="net", out=folder) as recorder:
        made = net(IDS)
        (made * torch.linspace(-1, 1, made.numel()).reshape(made.shape)).sum().backward()
    return recorder.path


@pytest.mark.parametrize("form", ["alone", "inside", "tied"])
@pytest.mark.parametrize("paddings", [(1, None), (None, 1), (1, 2)])
def test_a_row_that_only_one_side_holds_is_found(
    paddings: tuple[int | None, int | None], form: str, tmp_path: Path
) -> None:
    one, two = (
        _record(_Words(padding, form=form), tmp_path / str(at))
        for at, padding in enumerate(paddings)
    )

    found = padiff.compare(one, two)

    assert not found
    assert "words.weight" in found.report().split("FIRST ORIGIN")[1].split("MODULE TREE")[0]


@pytest.mark.parametrize("form", FORMS)
def test_the_same_row_on_both_sides_is_a_match(form: str, tmp_path: Path) -> None:
    one, two = (_record(_Words(1, form=form), tmp_path / name) for name in ("one", "two"))

    assert padiff.compare(one, two)


class _Port(paddle.nn.Layer):
    """The same in Paddle, with its scores scaled."""

    def __init__(self, padding: int, scale: float) -> None:
        super().__init__()
        self.words = paddle.nn.Embedding(7, 6, padding_idx=padding)
        self.norm = paddle.nn.LayerNorm(6)
        self.scale = scale

    def forward(self, ids: Any) -> Any:  # noqa: ANN401 - untyped framework
        made = self.norm(paddle.nn.functional.sigmoid(self.words(ids)))
        return made @ self.words.weight.T * self.scale


def test_a_row_that_both_frameworks_hold_is_no_fault_beside_another_one(tmp_path: Path) -> None:
    net, port = _Words(1, form="tied"), _Port(1, scale=0.5)
    with torch.no_grad():
        net.words.weight[1] = 0.0
    padiff.assign_weight(net, port)
    with padiff.record(port, name="port", out=tmp_path) as recorder:
        made = port(paddle.to_tensor(IDS.numpy()))
        (made * paddle.linspace(-1, 1, made.numel()).reshape(made.shape)).sum().backward()

    found = padiff.compare(_record(net, tmp_path / "net"), recorder.path)

    assert [one.cause.split(";")[0] for one in found.origins] == ["proved: too much: __mul__(0.5)"]
