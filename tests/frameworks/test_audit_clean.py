"""``padiff audit`` finds nothing in models that are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import padiff
from benchmarks.score.architectures import ARCHITECTURES
from padiff.comparer.auditing import Audit, Check, Soundness
from tests.support.clean_models import NO_BACKWARD, PADDLE, record_paddle, record_torch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Paddle says so at each training-mode BatchNorm whose ``track_running_stats`` was never named.
pytestmark = [
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
    pytest.mark.filterwarnings("ignore:TF32 acceleration on top of oneDNN"),
]

Thing = Any

QUICK_PADDLE = ["LeNet", "nn.Transformer", "recurrent", "decoder with experts", "gpt"]
QUICK_TORCH = ["resnet", "convnext", "gpt2", "qwen2, eager", "lstm"]
KINDS = [("float32", False), ("float32", True), ("bfloat16", False)]


def _slow_but(quick: Iterable[str], names: Iterable[str]) -> list[Thing]:
    """Return all names as parameters, of which the others take too long for each run."""
    quick = list(quick)
    return [one if one in quick else pytest.param(one, marks=pytest.mark.slow) for one in names]


def _check(found: Audit, *, has_backward: bool = True) -> None:
    assert found.unsound == ()
    assert found.count(Check.FORWARD, Soundness.SOUND) >= 10
    assert found.count(Check.GRADIENT, Soundness.SOUND) >= 10 * has_backward


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("name", _slow_but(QUICK_PADDLE, PADDLE))
def test_a_paddle_model_is_sound(name: str, is_training: bool, tmp_path: Path) -> None:
    dump = record_paddle(name, tmp_path, is_training=is_training)

    found = padiff.audit(dump)["step 0"]

    _check(found, has_backward=(name, is_training) not in NO_BACKWARD)


@pytest.mark.parametrize(("dtype", "is_training"), KINDS)
@pytest.mark.parametrize("name", _slow_but(QUICK_TORCH, ARCHITECTURES))
def test_a_torch_model_is_sound(name: str, dtype: str, is_training: bool, tmp_path: Path) -> None:
    dump = record_torch(name, tmp_path, dtype=dtype, is_training=is_training)

    _check(padiff.audit(dump)["step 0"])
