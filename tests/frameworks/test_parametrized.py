"""Recording reads what a module stores, never what one of its properties would compute."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import padiff
from padiff.dumper import adapters
from padiff.dumpfile import open_dump

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Array = np.ndarray[Any, Any]

STEPS = 3


class _Noisy(nn.Module):
    """Draws numbers each time that the weight is read."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + 0.1 * torch.randn_like(weight)


class _Counting(nn.Module):
    """Counts in a buffer and in an attribute how often the weight is read."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.reads = 0

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.reads += 1
        return weight * (1 + 0.01 * self.count)


def _old(function: Callable[..., nn.Module]) -> Callable[[nn.Module], nn.Module]:
    def apply(module: nn.Module) -> nn.Module:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return function(module)

    return apply


def _registered(kind: Callable[[], nn.Module]) -> Callable[[nn.Module], nn.Module]:
    def apply(module: nn.Module) -> nn.Module:
        parametrize.register_parametrization(module, "weight", kind(), unsafe=True)
        parametrize.register_parametrization(module, "bias", kind(), unsafe=True)
        return module

    return apply


PARAMETRIZED: dict[str, Callable[[nn.Module], nn.Module]] = {
    "spectral_norm": parametrizations.spectral_norm,
    "weight_norm": parametrizations.weight_norm,
    "orthogonal": parametrizations.orthogonal,
    "old spectral_norm": _old(nn.utils.spectral_norm),
    "old weight_norm": _old(nn.utils.weight_norm),
    "draws numbers": _registered(_Noisy),
    "counts": _registered(_Counting),
    "two at once": lambda module: _registered(_Noisy)(parametrizations.spectral_norm(module)),
}


@pytest.mark.parametrize("kind", PARAMETRIZED)
def test_recording_changes_no_bit_of_a_parametrized_model(kind: str, tmp_path: Path) -> None:
    plain = _trained(PARAMETRIZED[kind], None)
    recorded = _trained(PARAMETRIZED[kind], tmp_path)

    assert list(recorded) == list(plain)
    assert [name for name in plain if not np.array_equal(plain[name], recorded[name])] == []


def _trained(parametrized: Callable[[nn.Module], nn.Module], out: Path | None) -> dict[str, Array]:
    """Train three steps; give outputs, losses, gradients, buffers, weights and counts."""
    torch.manual_seed(0)
    model = nn.Sequential(
        parametrized(nn.Linear(4, 4)), nn.ReLU(), parametrized(nn.Linear(4, 4)), nn.Dropout(0.1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recording = nullcontext(None) if out is None else padiff.record(model, name="m", out=out)
    found: dict[str, Array] = {}
    with recording as recorder:
        for step in range(STEPS):
            output = model(torch.randn(3, 4))
            loss = output.square().mean()
            loss.backward()
            found |= {f"{step} output": _array(output), f"{step} loss": _array(loss)}
            for name, weight in model.named_parameters():
                assert weight.grad is not None
                found[f"{step} gradient {name}"] = _array(weight.grad)
            optimizer.step()
            found |= {f"{step} {name}": _array(one) for name, one in model.state_dict().items()}
            if recorder is not None:
                recorder.step()
            optimizer.zero_grad()
    counting = (one for one in model.modules() if isinstance(one, _Counting))
    found["reads"] = np.array([one.reads for one in counting])
    return found


def _array(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().numpy().copy()
    return array


PADDLE: dict[str, Any] = {
    "weight_norm": paddle.nn.utils.weight_norm,
    "spectral_norm": paddle.nn.utils.spectral_norm,
}


@pytest.mark.parametrize("kind", PADDLE)
def test_recording_changes_no_bit_of_a_layer_with_paddles_hooks(kind: str, tmp_path: Path) -> None:
    plain = _trained_in_paddle(PADDLE[kind], None)
    recorded = _trained_in_paddle(PADDLE[kind], tmp_path)

    assert list(recorded) == list(plain)
    assert [name for name in plain if not np.array_equal(plain[name], recorded[name])] == []


def _trained_in_paddle(
    parametrized: Callable[[Any], paddle.nn.Layer], out: Path | None
) -> dict[str, Array]:
    paddle.seed(0)
    model = paddle.nn.Sequential(
        parametrized(paddle.nn.Linear(4, 4)), paddle.nn.ReLU(), parametrized(paddle.nn.Linear(4, 4))
    )
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    recording = nullcontext(None) if out is None else padiff.record(model, name="m", out=out)
    found: dict[str, Array] = {}
    with recording as recorder:
        for step in range(STEPS):
            output = model(paddle.randn([3, 4]))
            loss = output.square().mean()
            loss.backward()
            found |= {f"{step} output": output.numpy(), f"{step} loss": loss.numpy()}
            for name, weight in model.named_parameters():
                if weight.grad is not None:
                    found[f"{step} gradient {name}"] = weight.grad.numpy()
            optimizer.step()
            found |= {f"{step} {name}": one.numpy() for name, one in model.state_dict().items()}
            if recorder is not None:
                recorder.step()
            optimizer.clear_grad()
    return found


class _Computing:
    """Properties of the names that modules keep tensors and settings under, each counted."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []


def _counted(name: str) -> property:
    def read(self: Any) -> object:  # noqa: ANN401 - a module of either framework
        self.reads.append(name)
        return None

    return property(read)


PROPERTIES = ("weight", "bias", "dropout", "_orig_mod", "_layers", "inner", "eps", "main_grad")


@pytest.mark.parametrize("base", [nn.Module, paddle.nn.Layer], ids=["torch", "paddle"])
def test_no_property_of_a_module_is_read(base: type, tmp_path: Path) -> None:
    reading = {name: _counted(name) for name in PROPERTIES}
    members = {**reading, "forward": lambda self, x: self.fc(x)}
    model = type("Model", (_Computing, base), members)()
    model.fc = nn.Linear(3, 3) if base is nn.Module else paddle.nn.Linear(3, 3)
    x = torch.ones(2, 3) if base is nn.Module else paddle.ones([2, 3])

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(x).sum().backward()
    padiff.assign_weight(model, model)
    adapters.find(model).trainer.forget_dropout(model)
    padiff.auto_diff(model, model, ((x,), (x,)), quiet=True)

    assert recorder.path.is_dir()
    assert model.reads == []


def test_presence_of_a_parametrized_weight_is_recorded(tmp_path: Path) -> None:
    model = parametrizations.spectral_norm(nn.Linear(3, 3, bias=False))

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(torch.ones(2, 3)).sum().backward()

    with open_dump(recorder.path).open() as side:
        attributes = side.index.modules[0].attributes
    assert (attributes["weight"], attributes["bias"]) == (True, False)
