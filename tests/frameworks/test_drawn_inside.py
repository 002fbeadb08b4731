"""What operators draw on their way, and do not return, is a leaf: noise of choices, slopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.auditing import Soundness
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import worded_edit

if TYPE_CHECKING:
    from pathlib import Path

X = np.random.default_rng(0).standard_normal((6, 16), dtype=np.float32)


class _Choosing(paddle.nn.Layer):
    """Chooses by noise."""

    def __init__(self, tau: float, *, is_hard: bool = False) -> None:
        super().__init__()
        paddle.seed(0)
        self.into, self.out = paddle.nn.Linear(16, 8), paddle.nn.Linear(8, 4)
        self.tau, self.is_hard = tau, is_hard

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        chosen = paddle.nn.functional.gumbel_softmax(self.into(x), self.tau, hard=self.is_hard)
        return self.out(chosen)


class _Chosen(nn.Module):
    """The same with torch."""

    def __init__(self, tau: float, *, is_hard: bool) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(16, 8), nn.Linear(8, 4)
        self.tau, self.is_hard = tau, is_hard

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = nn.functional.gumbel_softmax(self.into(x), self.tau, hard=self.is_hard)
        found: torch.Tensor = self.out(chosen)
        return found


def _chosen(model: _Choosing) -> nn.Module:
    """Return the torch model with the weights of Paddle's."""
    port = _Chosen(model.tau, is_hard=model.is_hard)
    with torch.no_grad():
        for name in ("into", "out"):
            own, other = getattr(port, name), getattr(model, name)
            own.weight.copy_(torch.from_numpy(other.weight.numpy().T))
            own.bias.copy_(torch.from_numpy(other.bias.numpy()))
    return port


def _sloped(low: float) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 8), nn.RReLU(low, 0.4), nn.Linear(8, 4)).train()


def _ported(model: nn.Module, low: float) -> Any:  # noqa: ANN401
    port = paddle.nn.Sequential(
        paddle.nn.Linear(16, 8), paddle.nn.RReLU(low, 0.4), paddle.nn.Linear(8, 4)
    )
    for place in (0, 2):
        port[place].weight.set_value(model[place].weight.detach().numpy().T)  # type: ignore[index]
        port[place].bias.set_value(model[place].bias.detach().numpy())  # type: ignore[index]
    port.train()
    return port


def _recorded(folder: Path, name: str, model: Any, seed: int) -> Path:  # noqa: ANN401
    """Record a training step that draws from a seed of its own."""
    torch.manual_seed(seed)
    paddle.seed(seed)
    is_paddle = isinstance(model, paddle.nn.Layer)
    x = paddle.to_tensor(X) if is_paddle else torch.from_numpy(X)
    with padiff.record(model, name=name, out=folder):
        model(x).square().mean().backward()
    return folder / name


def _compared(folder: Path, reference: Any, candidate: Any) -> padiff.Comparison:  # noqa: ANN401
    models = {"reference": reference, "candidate": candidate}
    known, found = (
        _recorded(folder, name, one, seed) for seed, (name, one) in enumerate(models.items())
    )
    return padiff.compare(known, found)


def _soundness(result: padiff.Comparison) -> tuple[Soundness, Soundness]:
    (step,) = result.steps
    assert step.executed is not None
    return step.executed.soundness


def _edits(result: padiff.Comparison) -> list[str]:
    (step,) = result.steps
    assert step.executed is not None
    return [worded_edit(one) for one in step.executed.function.edits]


def test_choices_of_paddle_are_functions_of_their_noise(tmp_path: Path) -> None:
    result = _compared(tmp_path, _Choosing(1.0), _Choosing(1.0))

    assert result.verdict is Verdict.MATCH
    assert _edits(result) == []
    assert _soundness(result) == (Soundness.SOUND, Soundness.SOUND)


def test_another_temperature_is_told(tmp_path: Path) -> None:
    (words,) = _edits(_compared(tmp_path, _Choosing(0.7), _Choosing(0.8)))

    assert words == "temperature of gumbel_softmax: 0.8 where the reference has 0.7"


def test_choices_of_torch_are_those_of_paddle(tmp_path: Path) -> None:
    """The one draws by an operator of its own, the other one inside."""
    candidate = _Choosing(1.0)
    result = _compared(tmp_path, _chosen(candidate), candidate)

    assert result.verdict is Verdict.MATCH
    assert _edits(result) == []


def test_an_audit_finds_the_temperature_that_is_no_part_of_gradients(tmp_path: Path) -> None:
    """Paddle 3.3's kernel does not divide the gradient of the scores by it."""
    audit = padiff.audit(_recorded(tmp_path, "soft", _Choosing(0.25), 0))

    assert audit.soundness is Soundness.UNSOUND
    (fault,) = audit.unsound
    assert [one.operator for one in fault.readers] == ["paddle._C_ops.gumbel_softmax"]
    assert fault.factor == pytest.approx(0.25, rel=1e-3)


def test_a_hard_choice_of_paddle_hands_no_gradient_back(tmp_path: Path) -> None:
    """The choice of torch hands back those of the soft one."""
    candidate = _Choosing(1.0, is_hard=True)
    result = _compared(tmp_path, _chosen(candidate), candidate)

    (step,) = result.steps
    assert step.executed is not None
    assert step.executed.function.answer is Answer.SAME
    assert candidate.into.weight.grad is not None
    assert not candidate.into.weight.grad.numpy().any()
    assert result.verdict is Verdict.DIVERGED


@pytest.mark.parametrize("is_paddle", [False, True])
@pytest.mark.parametrize("low", [0.1, 0.2])
def test_slopes_below_zero_are_functions_of_what_was_drawn(
    is_paddle: bool, low: float, tmp_path: Path
) -> None:
    reference = _sloped(0.1)
    candidate = _ported(reference, low) if is_paddle else _sloped(low)
    result = _compared(tmp_path, reference, candidate)

    words = _edits(result)
    assert _soundness(result) == (Soundness.SOUND, Soundness.SOUND)
    assert (result.verdict is Verdict.MATCH) == (low == 0.1)
    assert [one for one in words if "0.2 where the reference has 0.1" in one] == words
    assert bool(words) == (low != 0.1)


@pytest.mark.parametrize("is_paddle", [False, True])
def test_recording_what_is_drawn_inside_moves_no_generator(is_paddle: bool, tmp_path: Path) -> None:
    def drawn(seed: int, *, is_recorded: bool) -> list[float]:
        model: Any = _Choosing(0.7) if is_paddle else _sloped(0.1)
        if is_recorded:
            _recorded(tmp_path, "m", model, seed)
        else:
            torch.manual_seed(seed)
            paddle.seed(seed)
            model(paddle.to_tensor(X) if is_paddle else torch.from_numpy(X))
        return [float(paddle.rand([])), float(torch.rand(()))]

    assert drawn(3, is_recorded=True) == drawn(3, is_recorded=False)


class _Noisy(nn.Module):
    """Adds noise, and multiplies by other noise."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x + 0.1 * torch.randn_like(x)).tanh() * (2 * torch.rand(6, 4) - 1)
        shifted = x + torch.empty(6, 4).normal_(0.5, 2.0) + torch.normal(1.0, 0.5, (6, 4))
        found: torch.Tensor = shifted * torch.empty(6, 1).exponential_(2.0)
        return found


class _NoisyPort(paddle.nn.Layer):
    """The same with Paddle, whose operators take numbers that torch's code multiplies by."""

    def __init__(self, weights: nn.Linear, deviation: float = 0.1, mean: float = 0.5) -> None:
        super().__init__()
        self.into, self.deviation, self.mean = paddle.nn.Linear(16, 4), deviation, mean
        self.into.weight.set_value(weights.weight.detach().numpy().T)
        self.into.bias.set_value(weights.bias.detach().numpy())

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        x = self.into(x + paddle.normal(0.0, self.deviation, x.shape)).tanh()
        x = x * paddle.uniform([6, 4], min=-1.0)
        x = x + paddle.zeros([6, 4]).normal_(self.mean, 2.0) + 1 + 0.5 * paddle.randn([6, 4])
        return x * paddle.zeros([6, 1]).exponential_(2.0)


@pytest.mark.parametrize(
    ("deviation", "mean", "expected"),
    [
        (0.1, 0.5, []),
        (0.2, 0.5, ["std of gaussian: 0.2 where the reference has 0.1"]),
        (0.1, 0.4, ["mean of gaussian_inplace_: 0.4 where the reference has 0.5"]),
    ],
)
def test_noise_is_the_same_whichever_operator_scales_it(
    deviation: float, mean: float, expected: list[str], tmp_path: Path
) -> None:
    reference = _Noisy()
    result = _compared(tmp_path, reference, _NoisyPort(reference.into, deviation, mean))

    assert _edits(result) == expected
    assert (result.verdict is Verdict.MATCH) == (not expected)


class _Scaled(nn.Module):
    """Divides what a dropout left by its largest element, which Python reads."""

    def __init__(self, *, is_mean: bool = False, epsilon: float = 1e-6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out, self.drop = nn.Linear(16, 8), nn.Linear(8, 4), nn.Dropout(0.3)
        self.is_mean, self.epsilon = is_mean, epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.into(x))
        size = (x.abs().mean() if self.is_mean else x.abs().max()).item()
        x = x / (size + self.epsilon)
        largest = float(x.detach().abs().sum())
        found: torch.Tensor = self.out(x) * (0.5 / largest)
        return found


@pytest.mark.parametrize(
    ("candidate", "is_match"),
    [(_Scaled(), True), (_Scaled(is_mean=True), False), (_Scaled(epsilon=1e-3), False)],
)
def test_numbers_read_behind_draws_are_those_of_the_references_draws(
    candidate: _Scaled, is_match: bool, tmp_path: Path
) -> None:
    result = _compared(tmp_path, _Scaled(), candidate)

    assert (result.verdict is Verdict.MATCH) == is_match
    assert result.verdict in (Verdict.MATCH, Verdict.DIVERGED)


class _Packed(nn.Module):
    """Two layers over rows of several lengths, with a dropout between."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.GRU(4, 5, 2, batch_first=True, dropout=0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lengths = torch.tensor([4, 3, 1])
        rows = nn.utils.rnn.pack_padded_sequence(x.reshape(6, 4, 4)[:3], lengths, batch_first=True)
        found: torch.Tensor = self.layers(rows)[1]
        return found


class _Padded(paddle.nn.Layer):
    """The same with Paddle."""

    def __init__(self, layers: nn.GRU) -> None:
        super().__init__()
        self.layers = paddle.nn.GRU(4, 5, 2, dropout=0.4)
        for name, weight in layers.named_parameters():
            getattr(self.layers, name).set_value(weight.detach().numpy())

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        lengths = paddle.to_tensor([4, 3, 1])
        return self.layers(x.reshape([6, 4, 4])[:3], sequence_length=lengths)[1]


def test_rows_of_several_lengths_keep_what_the_references_kept(tmp_path: Path) -> None:
    reference = _Packed()
    result = _compared(tmp_path, reference, _Padded(reference.layers))

    assert _edits(result) == []
    assert result.verdict is Verdict.MATCH
