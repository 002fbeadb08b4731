"""Norms that Paddle fuses, and what its operators leave out, against the same written in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import torch

import padiff
from padiff.comparer import Verdict
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import worded_edit
from padiff.dumpfile import Role, StepFile

if TYPE_CHECKING:
    from pathlib import Path

fused: Any = paddle.incubate.nn.functional
WIDTH = 8
EPSILON = 1e-5


class Reference(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.norm, self.last = torch.nn.RMSNorm(WIDTH, EPSILON), torch.nn.LayerNorm(WIDTH, EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what lies beside, ahead of each norm."""
        summed = self.first(x) + x
        return torch.as_tensor(self.last(self.second(self.norm(summed)) + summed * 0.5))


class Candidate(paddle.nn.Layer):
    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.first, self.second = (paddle.nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.norm, self.last = paddle.nn.LayerNorm(WIDTH, bias_attr=False), paddle.nn.LayerNorm(8)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Leave the sums to Paddle; what counts places leaves out what nobody asked for."""
        made, summed = fused.fused_rms_norm(
            self.first(x), self.norm.weight, None, EPSILON, 1, residual=x
        )
        paddle.unique_consecutive(paddle.to_tensor([1, 1, 2]))
        result: paddle.Tensor = fused.fused_layer_norm(
            self.second(made), self.last.weight, self.last.bias, EPSILON,
            residual_alpha=self.share, begin_norm_axis=1, residual=summed,
        )[0]  # fmt: skip
        return result


class Whole(paddle.nn.Layer):
    """Hands on all that an operator returns, what it left out, too."""

    def forward(self, x: paddle.Tensor) -> tuple[paddle.Tensor, ...]:
        """Normalise without a residual: there is no sum to return."""
        made = fused.fused_layer_norm(x, paddle.ones([WIDTH]), paddle.zeros([WIDTH]), EPSILON)
        return tuple(made)


def test_an_output_that_was_left_out_is_none(tmp_path: Path) -> None:
    model = Whole()
    with padiff.record(model, name="whole", out=tmp_path, phase="forward") as recorder:
        model(paddle.ones([2, WIDTH]))

    with StepFile(next(recorder.path.glob("step_*/rank_*.h5"))) as file:
        slots = [one.slot for one in file.index.records if one.role is Role.OUTPUT]
    assert slots == ["[0]", "[2]", "[3]"]


def compared(share: float, tmp_path: Path) -> padiff.Comparison:
    """Record both without gradients, which Paddle's kernels lack on CPUs, and compare."""
    reference, candidate = Reference().eval(), Candidate(share)
    candidate.eval()
    padiff.assign_weight(reference, candidate)
    x = np.random.default_rng(0).standard_normal((3, WIDTH), dtype=np.float32)
    with padiff.record(reference, name="reference", out=tmp_path, phase="forward") as one:
        reference(torch.tensor(x))
    with padiff.record(candidate, name="candidate", out=tmp_path, phase="forward") as other:
        candidate(paddle.to_tensor(x))
    return padiff.compare(one.path, other.path)


def test_norms_in_one_operator_are_the_same_function(tmp_path: Path) -> None:
    comparison = compared(0.5, tmp_path)

    assert comparison.verdict is Verdict.MATCH
    executed = comparison.steps[0].executed
    assert executed is not None
    assert executed.answer is Answer.SAME
    assert executed.function.tolerated == 0


def test_another_share_of_the_residual_is_told(tmp_path: Path) -> None:
    comparison = compared(0.25, tmp_path)

    assert comparison.verdict is Verdict.DIVERGED
    executed = comparison.steps[0].executed
    assert executed is not None
    assert [worded_edit(one) for one in executed.function.edits] == [
        "residual_alpha of fused_bias_residual_layernorm: 0.25 where the reference has 0.5"
    ]
