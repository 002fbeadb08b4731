"""What is written through a view changes the tensor behind it: the program computes that, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff.dumpfile import ProgramError, open_dump
from padiff.program import TABLES, execute, lower, read_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def _add_to_a_column(x: Any) -> Any:  # noqa: ANN401
    y = x * 1
    y[:, 0] += 2
    y[1, 2:] *= 3
    return y


def _through_two_views(x: Any) -> Any:  # noqa: ANN401
    y = x * 1
    y[1][2:].mul_(2)
    y.transpose(0, 1)[0].add_(1)
    return y


def _writes_before_anybody_reads(x: Any) -> Any:  # noqa: ANN401
    y = x * 1
    first, last = y[0], y[-1]
    first.add_(1)
    last.mul_(2)
    first.mul_(3)
    return y + first


def _reshaped(x: Any) -> Any:  # noqa: ANN401
    y = x * 1
    y.view(24)[3:5].zero_()
    return y


def _parts(x: Any) -> Any:  # noqa: ANN401
    y = x * 1
    left, right = y.chunk(2, -1)
    right.add_(1)
    left.sub_(right)
    return y


def _view_of_what_was_written(x: Any) -> Any:  # noqa: ANN401
    y = x * 1
    row = y[2]
    y.add_(1)
    row.mul_(2)
    return y * row


def _through_data(x: Any) -> Any:  # noqa: ANN401
    """Write twice past autograd's counter, and read both states."""
    y = x * 1
    row = y[1]
    y.data[:, 0] = 2
    before = y * row
    y.data[1:].add_(x[1:])
    y.data[1:, 0] += x.data[1:, 1]
    return before + y * row


def _other_data(x: Any) -> Any:  # noqa: ANN401
    """Let a tensor hold another one's elements, as averages of weights are kept."""
    y = x * 1
    before = y * 2
    y.data = y.data * 0.9 + x.data
    y.data[0] += 1
    return before + y


def _sizes_by_name(x: Any) -> Any:  # noqa: ANN401
    z = torch.zeros(size=(4, 6))
    z[1:, 1:] = x[1:, 1:]
    z[0, 0:] += x.view(size=(24,))[:6]
    return z


def _paddle_column(x: Any) -> Any:  # noqa: ANN401
    y = x * 1
    y[:, 0] += 2
    return y


def _paddle_row(x: Any) -> Any:  # noqa: ANN401
    y = x * 1
    y[1].add_(paddle.ones([6]))
    return y + 1


TORCH = [
    _add_to_a_column, _through_two_views, _writes_before_anybody_reads, _reshaped, _parts,
    _view_of_what_was_written, _sizes_by_name, _through_data,
    _other_data,
]  # fmt: skip


class _Torch(torch.nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        return self.function(x)


class _Paddle(paddle.nn.Layer):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: paddle.Tensor) -> Any:  # noqa: ANN401
        return self.function(x)


def computed(model: Any, x: Any, folder: Path) -> tuple[np.ndarray[Any, Any], dict[int, str]]:  # noqa: ANN401
    """Record a model, and execute its program; return its result and the operators left out."""
    with padiff.record(model, name="model", out=folder, phase="forward") as recorder:
        model(x)
    assert recorder.path is not None
    with open_dump(recorder.path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        lowered = lower(recorded.program, TABLES[file.framework], contents=recorded.elements)
        leaves = {}
        for value in lowered.leaves.values():
            found = recorded.elements(value)
            if found is None:
                raise ProgramError(f"value {value} has no elements")
            leaves[value] = found
        (result,) = recorded.program.outputs
        return execute(lowered, leaves, [result])[result], dict(lowered.opaque)


@pytest.mark.parametrize("function", TORCH)
def test_torch(function: Callable[[Any], Any], tmp_path: Path) -> None:
    expected = function(torch.from_numpy(X).double()).numpy()

    found, opaque = computed(_Torch(function), torch.from_numpy(X), tmp_path)

    assert not opaque
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("function", [_paddle_column, _paddle_row])
def test_paddle(function: Callable[[Any], Any], tmp_path: Path) -> None:
    expected = function(paddle.to_tensor(X.astype(np.float64))).numpy()

    found, opaque = computed(_Paddle(function), paddle.to_tensor(X), tmp_path)

    assert not opaque
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_views_are_stored_anew_behind_a_write_that_no_version_counts(tmp_path: Path) -> None:
    class Model(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.bias = self.create_parameter([24])

        def forward(self, x: paddle.Tensor) -> Any:  # noqa: ANN401
            before = x + self.bias.reshape([4, 6])
            with paddle.no_grad():
                self.bias.set_value(self.bias + 1)
            return before * (x + self.bias.reshape([4, 6]))

    model = Model()
    with padiff.record(model, name="model", out=tmp_path, phase="forward") as recorder:
        model(paddle.to_tensor(X))

    found = padiff.audit(recorder.path)

    assert found, found.report()
