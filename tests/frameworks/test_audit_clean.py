"""``padiff audit`` finds nothing in models that are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch

import padiff
from benchmarks.score.architectures import ARCHITECTURES
from padiff.comparer.auditing import Audit, Check, Soundness
from tests.support.paddle_models import LARGE, SMALL, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# Paddle says so at each training-mode BatchNorm whose ``track_running_stats`` was never named.
pytestmark = [
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
    pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN"),
]

Thing = Any

QUICK_PADDLE = ["LeNet", "nn.Transformer", "recurrent", "decoder with experts", "gpt"]
QUICK_TORCH = ["resnet", "convnext", "gpt2", "qwen2, eager", "lstm"]
NO_BACKWARD = [("recurrent", False)]
"""Paddle's own recurrent layers have none in evaluation mode."""
WRONG_IN_BFLOAT16 = {"wav2vec2"}
"""oneDNN's convolution of bfloat16 in groups of 12 channels is off by its size where the processor
multiplies matrices of it (AMX; torch 2.13): an audit says so, and here another kernel runs."""
KINDS = [("float32", False), ("float32", True), ("bfloat16", False)]


def _slow_but(quick: Iterable[str], names: Iterable[str]) -> list[Thing]:
    """Return all names as parameters, of which the others take too long for each run."""
    quick = list(quick)
    return [one if one in quick else pytest.param(one, marks=pytest.mark.slow) for one in names]


def _found(thing: Thing) -> Iterator[torch.Tensor]:
    """Find the floating-point tensors in what a model returned."""
    if isinstance(thing, torch.Tensor):
        yield from [thing] * thing.is_floating_point()
    elif isinstance(thing, dict | tuple | list):
        for part in thing.values() if isinstance(thing, dict) else thing:
            yield from _found(part)


def _check(found: Audit, *, has_backward: bool = True) -> None:
    assert found.unsound == ()
    assert found.count(Check.FORWARD, Soundness.SOUND) >= 10
    assert found.count(Check.GRADIENT, Soundness.SOUND) >= 10 * has_backward


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("name", _slow_but(QUICK_PADDLE, SMALL | LARGE))
def test_a_paddle_model_is_sound(name: str, is_training: bool, tmp_path: Path) -> None:
    has_backward = (name, is_training) not in NO_BACKWARD
    paddle.seed(1)
    model, inputs = (SMALL | LARGE)[name]()
    model.train() if is_training else model.eval()
    with padiff.record(model, name="model", out=tmp_path, content="operators") as recorder:
        losses = [one.square().mean() for one in tensors(model(*inputs))]
        if has_backward:
            paddle.stack(losses).sum().backward()

    _check(padiff.audit(recorder.path)["step 0"], has_backward=has_backward)


@pytest.mark.parametrize(("dtype", "is_training"), KINDS)
@pytest.mark.parametrize("name", _slow_but(QUICK_TORCH, ARCHITECTURES))
def test_a_torch_model_is_sound(name: str, dtype: str, is_training: bool, tmp_path: Path) -> None:
    kind: Thing = getattr(torch, dtype)
    model = ARCHITECTURES[name].build().to(kind).train(is_training)
    inputs = {
        key: one.to(kind) if one.is_floating_point() else one
        for key, one in ARCHITECTURES[name].inputs().items()
    }
    torch.manual_seed(0)
    is_right = dtype != "bfloat16" or name not in WRONG_IN_BFLOAT16
    with (
        torch.backends.mkldnn.flags(enabled=is_right),
        padiff.record(model, name="model", out=tmp_path, content="operators") as recorder,
    ):
        losses = [one.float().square().mean() for one in _found(model(**inputs))]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]

    _check(padiff.audit(recorder.path)["step 0"])
