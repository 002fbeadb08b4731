"""Models that are right, recorded for an audit: those of transformers, of Paddle, and others."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import paddle
import torch

import padiff
from benchmarks.score.architectures import ARCHITECTURES
from tests.support.paddle_models import LARGE, SMALL, tensors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.oracles import PaddleOracle, TorchOracle

__all__ = [
    "NO_BACKWARD",
    "PADDLE",
    "record_paddle",
    "record_torch",
]

PADDLE = SMALL | LARGE
NO_BACKWARD = [("recurrent", False)]
"""Paddle's own recurrent layers have none in evaluation mode."""
WRONG_IN_BFLOAT16 = {"wav2vec2"}
"""oneDNN's convolution of bfloat16 in groups of 12 channels is off by its size where the processor
multiplies matrices of it (AMX; torch 2.13): an audit says so, and here another kernel runs."""

Thing = Any


def record_paddle(
    name: str,
    out: Path,
    *,
    is_training: bool = False,
    content: str = "operators",
    oracle: PaddleOracle | None = None,
) -> Path:
    """Record a forward pass of one of ``PADDLE``, with its backward pass where it has one."""
    paddle.seed(1)
    model, inputs = PADDLE[name]()
    model.train() if is_training else model.eval()
    with (
        padiff.record(model, name="model", out=out, content=content) as recorder,
        oracle or nullcontext(),
    ):
        loss = paddle.stack([one.square().mean() for one in tensors(model(*inputs))]).sum()
        if oracle is not None:
            oracle.look(loss)
        if (name, is_training) not in NO_BACKWARD:
            loss.backward()
    return recorder.path


def record_torch(
    name: str,
    out: Path,
    *,
    dtype: str = "float32",
    is_training: bool = False,
    content: str = "operators",
    oracle: TorchOracle | None = None,
) -> Path:
    """Record a forward and a backward pass of one of ``ARCHITECTURES``, as ``oracle`` looks on."""
    kind: Thing = getattr(torch, dtype)
    model = ARCHITECTURES[name].build().to(kind).train(is_training)
    inputs = {
        key: one.to(kind) if one.is_floating_point() else one
        for key, one in ARCHITECTURES[name].inputs().items()
    }
    torch.manual_seed(0)
    is_wrong = dtype == "bfloat16" and name in WRONG_IN_BFLOAT16
    with (
        torch.backends.mkldnn.flags(enabled=False) if is_wrong else nullcontext(),
        padiff.record(model, name="model", out=out, content=content) as recorder,
        oracle or nullcontext(),
    ):
        losses = [one.float().square().mean() for one in _found(model(**inputs))]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    return recorder.path


def _found(thing: Thing) -> Iterator[torch.Tensor]:
    """Find the floating-point tensors in what a model returned."""
    if isinstance(thing, torch.Tensor):
        yield from [thing] * thing.is_floating_point()
    elif isinstance(thing, dict | tuple | list):
        for part in thing.values() if isinstance(thing, dict) else thing:
            yield from _found(part)
