"""Gradients are audited through a dropout: what it made tells which elements it kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import paddle
import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from padiff.comparer.auditing import Check
from padiff.comparer.auditing.result import Reason
from tests.frameworks.test_audit import audited

if TYPE_CHECKING:
    from pathlib import Path


class _Net(nn.Module):
    """A dropout behind a step that makes zeros or makes none."""

    def __init__(self, form: str = "relu", *, share: float = 0.25, wrong: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out = nn.Linear(16, 16), nn.Linear(16, 4)
        self.act = nn.ReLU() if form in ("relu", "residual") else nn.GELU()
        self.form, self.share, self.wrong = form, share, wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.act(self.into(x))
        if self.form == "attention":
            weights = torch.softmax(hidden @ hidden.mT, -1)
            hidden = functional.dropout(weights, self.share) @ hidden
        elif self.form == "channels":
            hidden = functional.dropout1d(hidden, self.share)
        elif self.form == "residual":
            hidden = hidden + functional.dropout(hidden, self.share)
        else:
            hidden = functional.dropout(hidden, self.share)
        if self.wrong != 1:
            hidden.register_hook(lambda gradient: gradient * self.wrong)
        made: torch.Tensor = self.out(hidden)
        return made


@pytest.fixture(name="x")
def _inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {"x": torch.randn(4, 12, 16)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("form", ["relu", "gelu", "channels", "attention"])
def test_a_dropout_hides_no_gradient(
    form: str, share: float, dtype: torch.dtype, tmp_path: Path, x: dict[str, torch.Tensor]
) -> None:
    model = _Net(form, share=share).to(dtype).train()

    found = audited(model, tmp_path, {"x": x["x"].to(dtype)})

    assert found.unsound == ()
    assert found.random == 0
    gradients = [one for one in found.values if one.check is Check.GRADIENT]
    assert {one.reason for one in gradients} <= {Reason.NONE, Reason.NO_ELEMENTS}
    assert {"act", "into"} <= {one.module for one in gradients if one.error is not None}


@pytest.mark.parametrize("form", ["relu", "gelu", "channels"])
def test_a_wrong_gradient_before_a_dropout_is_found(
    form: str, tmp_path: Path, x: dict[str, torch.Tensor]
) -> None:
    model = _Net(form, wrong=1.001).train()

    found = audited(model, tmp_path, x, content="operators")

    assert [one.module for one in found.unsound][:1] == ["act"]


def test_which_zeros_were_kept_is_not_guessed(tmp_path: Path, x: dict[str, torch.Tensor]) -> None:
    """Two operators read them, so that no gradient tells what came through the dropout."""
    found = audited(_Net("residual").train(), tmp_path, x)

    assert found.unsound == ()
    assert [one.module for one in found.values if one.reason is Reason.DRAWN] == ["act"]


def test_a_dropout_that_scales_otherwise_is_found(
    tmp_path: Path, x: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels: Any = vars(functional)["_VF"]
    plain = kernels.dropout
    monkeypatch.setattr(kernels, "dropout", lambda *args: plain(*args) * 0.75, raising=False)

    found = audited(_Net("gelu").train(), tmp_path, x)

    wrong = [one.operator for one in found.unsound if one.check is Check.FORWARD]
    assert wrong == ["torch.nn.functional.dropout"]


@pytest.mark.parametrize("mode", ["upscale_in_train", "downscale_in_infer"])
def test_paddles_dropouts_hide_no_gradient_either(
    mode: Literal["upscale_in_train", "downscale_in_infer"], tmp_path: Path
) -> None:
    paddle.seed(0)
    model = paddle.nn.Sequential(
        paddle.nn.Linear(16, 16), paddle.nn.ReLU(), paddle.nn.Dropout(0.3, mode=mode),
        paddle.nn.Linear(16, 4),
    )  # fmt: skip
    model.train()
    x = paddle.randn([6, 16])
    with padiff.record(model, name="net", out=tmp_path) as recorder:
        model(x).square().mean().backward()

    found = padiff.audit(recorder)["step 0"]

    assert found.unsound == ()
    assert found.random == 0
    gradients = {one.operator for one in found.values if one.check is Check.GRADIENT}
    assert {"paddle._C_ops.relu", "paddle._C_ops.dropout"} <= gradients
