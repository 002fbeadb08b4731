"""Weights that ``auto_diff`` and ``assign_weight`` carry over, or say why they cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.dumper.weights.checkpoint import open_source
from padiff.dumper.weights.convert import convert
from padiff.dumpfile import ConfigError, PadiffError
from padiff.pairing import MapFile, plan_weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = np.random.default_rng(0).standard_normal((3, 6)).astype("float32")
WIDTH = 6


class _Own(nn.Module):
    """A class of a user's own with a square matrix, which torch's users keep turned."""

    def __init__(self) -> None:
        super().__init__()
        self.k, self.b = nn.Parameter(torch.randn(WIDTH, WIDTH)), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = x @ self.k.T + self.b
        return made


class _OwnOfPaddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.k, self.b = self.create_parameter([WIDTH, WIDTH]), self.create_parameter([WIDTH])

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = x @ self.k + self.b
        return made


class _Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = _Own(), _Own()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.two(self.one(x).tanh())
        return made


class _TwoOfPaddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.eins, self.zwei = _OwnOfPaddle(), _OwnOfPaddle()

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = self.zwei(self.eins(x).tanh())
        return made


def test_a_square_matrix_of_a_users_own_class_is_tried_turned() -> None:
    assert padiff.auto_diff(_Own(), _OwnOfPaddle(), ((X,), (X,)), quiet=True)


@pytest.mark.parametrize("is_mapped", [False, True])
def test_a_right_map_does_no_harm_to_square_matrices(*, is_mapped: bool) -> None:
    reference, candidate = _Two(), _TwoOfPaddle()
    pairs = {reference.one: candidate.eins, reference.two: candidate.zwei}
    layer_map = padiff.LayerMap(pairs) if is_mapped else None

    assert padiff.auto_diff(reference, candidate, ((X,), (X,)), map=layer_map, quiet=True)


class _Residual(nn.Module):
    def __init__(self, hidden: int = WIDTH) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, hidden), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.second(x + self.first(x))
        return made


class _ResidualOfPaddle(paddle.nn.Layer):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first, self.second = paddle.nn.Linear(WIDTH, hidden), paddle.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = self.second(x + self.first(x))
        return made


def test_weights_that_do_not_fit_are_told_before_the_forward_pass_that_they_break() -> None:
    with pytest.raises(ConfigError) as caught:
        padiff.auto_diff(_Residual(), _ResidualOfPaddle(5), ((X,), (X,)), quiet=True)

    lines = str(caught.value).splitlines()
    assert lines[0].startswith("cannot assign weights: ")
    assert "candidate first.weight (6, 5): no partner of this kind and shape" in lines[3]
    (ran,) = (line for line in lines if "cannot run forward" in line)
    assert "no run could tell more" in ran
    assert "Broadcast dimension mismatch" in ran
    assert lines.index(ran) > 2


def test_modules_are_included_and_excluded_by_themselves(tmp_path: Path) -> None:
    reference, candidate = _Residual(), _Residual()
    candidate.load_state_dict(reference.state_dict())
    more: dict[str, Any] = {"quiet": True, "auto_init": False}
    inputs = ((X,), (X,))
    with torch.no_grad():
        candidate.second.bias.add_(1.0)

    assert not padiff.auto_diff(reference, candidate, inputs, **more)
    only = padiff.auto_diff(reference, candidate, inputs, include=[reference.first], **more)
    without = padiff.auto_diff(reference, candidate, inputs, exclude=candidate.second, **more)
    with padiff.record(reference, include=[reference.first], out=tmp_path) as part:
        reference(torch.from_numpy(X))

    assert {one.module for one in _addresses(only)} == {"first"}
    assert "second" not in {one.module for one in _addresses(without)}
    with padiff.open_dump(part.path).open() as side:
        assert {side.index.modules[call.module].path for call in side.index.calls} == {"", "first"}


def _addresses(result: Any) -> list[Any]:  # noqa: ANN401
    return [pair.reference.address for step in result.steps for pair in step.pairs]


@pytest.mark.parametrize(
    "options",
    [
        {"atol": "1e-4"},
        {"rtol": "1e-4"},
        {"atol": True},
        {"steps": "3"},
        {"seed": "0"},
        {"exclude": 3},
        {"include": [nn.Linear(1, 1)]},
    ],
)
def test_wrong_options_are_clear_errors(options: dict[str, Any]) -> None:
    model = _Residual()

    with pytest.raises(ConfigError, match="cannot use "):
        padiff.auto_diff(model, model, ((X,), (X,)), quiet=True, **options)


def _misfit_of_auto_diff(folder: Path) -> None:
    del folder
    padiff.auto_diff(_Residual(), _ResidualOfPaddle(5), ((X,), (X,)), quiet=True)


def _misfit_of_assign_weight(folder: Path) -> None:
    del folder
    padiff.assign_weight(_Residual(), _ResidualOfPaddle(5))


def _save_twice(folder: Path) -> None:
    for _ in range(2):
        padiff.save("taken", {"x": X}, out=folder)


def _record_twice(folder: Path) -> None:
    for _ in range(2):
        with padiff.record(model := _Residual(), name="taken", out=folder):
            model(torch.from_numpy(X))


@pytest.mark.parametrize(
    ("fail", "way_out"),
    [
        (_misfit_of_auto_diff, "auto_init=False"),
        (_misfit_of_assign_weight, "strict=False"),
        (_save_twice, "overwrite=True"),
        (_record_twice, "overwrite=True"),
    ],
)
def test_the_library_gives_hints_in_python(
    fail: Callable[[Path], None], way_out: str, tmp_path: Path
) -> None:
    with pytest.raises(PadiffError) as caught:
        fail(tmp_path)

    assert caught.value.hint is not None
    assert way_out in caught.value.hint
    assert "--" not in caught.value.hint


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.after_layernorm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 9), nn.Linear(9, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.after_layernorm(
            x + self.down(self.up(self.input_layernorm(x)).relu())
        )
        return made


class _BlockOfPaddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = paddle.nn.LayerNorm(WIDTH), paddle.nn.LayerNorm(WIDTH)
        self.w1, self.w2 = paddle.nn.Linear(WIDTH, 9), paddle.nn.Linear(9, WIDTH)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        inner = self.w2(paddle.nn.functional.relu(self.w1(self.norm1(x))))
        made: paddle.Tensor = self.norm2(x + inner)
        return made


class _Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Block() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class _StackOfPaddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.h = paddle.nn.LayerList([_BlockOfPaddle() for _ in range(3)])

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        for layer in self.h:
            x = layer(x)
        return x


def _trained() -> _Stack:
    """Make a model whose norms all differ."""
    model = _Stack()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight))
    return model


def test_layers_that_hold_the_same_are_assigned_whichever_is_which() -> None:
    reference, candidate = _Stack(), _StackOfPaddle()

    plan = padiff.assign_weight(reference, candidate)

    assert plan, plan.report()
    assert "h.0.norm1.weight" in plan.report()
    (note,) = (note for note in plan.notes if "hold the same" in note)
    assert "h.{i}.norm1 / norm2 (3 blocks)" in note
    made = candidate(paddle.to_tensor(X)).numpy()
    assert np.allclose(made, reference(torch.from_numpy(X)).detach().numpy(), atol=1e-5)


def test_one_layer_that_holds_something_else_leaves_all_of_its_kind_open() -> None:
    reference = _Stack()
    with torch.no_grad():
        reference.get_parameter("layers.1.after_layernorm.weight").add_(1.0)

    with pytest.raises(ConfigError, match="ambiguous"):
        padiff.assign_weight(reference, _StackOfPaddle())


def test_a_freshly_built_model_is_converted(tmp_path: Path) -> None:
    torch.save(_Stack().state_dict(), tmp_path / "fresh.pth")
    with padiff.record(model := _StackOfPaddle(), name="like", out=tmp_path) as like:
        model(paddle.to_tensor(X))
    with open_source(tmp_path / "fresh.pth") as source, open_source(like.path) as target:
        found = convert(plan_weights(source, target), source, target, task="cannot convert")

    assert len(found.arrays) == 3 * 8


def test_what_is_truly_ambiguous_is_said_once_with_the_entries_that_settle_it() -> None:
    reference = _trained()

    with pytest.raises(ConfigError) as caught:
        padiff.assign_weight(reference, _StackOfPaddle())

    lines = str(caught.value).splitlines()
    (line,) = (line for line in lines if "ambiguous" in line)
    assert line.startswith("  candidate h.{i}.norm1 / norm2 (3 blocks) is ambiguous")
    assert len(lines) < 15
    entries = "\n".join(line for line in lines if line.startswith("    "))
    candidate = _StackOfPaddle()
    padiff.assign_weight(reference, candidate, map=MapFile.parse(entries))
    made = candidate(paddle.to_tensor(X)).numpy()
    assert np.allclose(made, reference(torch.from_numpy(X)).detach().numpy(), atol=1e-5)
