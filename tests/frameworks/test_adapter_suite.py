"""The conformance kit for adapters: torch and Paddle pass it, and it finds what is wrong."""

from __future__ import annotations

import importlib
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

from padiff.dumper.adapters import registry
from padiff.dumper.adapters.torch import TorchAdapter
from padiff.dumper.adapters.torch_operators import TorchOperators
from padiff.program import TABLES
from padiff.program.lowering import tables
from padiff.testing import INPUT, Nets, adapter_suite, graph_suite
from tests.support.onnx_models import dump_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from padiff.dumper.operators import RunOperator


def chain(net: Any, x: Any) -> Any:
    return net.second(net.act(net.first(x)))


def raising(net: Any, x: Any) -> Any:
    raise ValueError("planted")


def failing(net: Any, x: Any) -> Any:
    return net.bad(net.good(x))


def catching(net: Any, x: Any) -> Any:
    try:
        return net.bad(x)
    except ValueError:
        return net.good(x)


def writing(net: Any, x: Any) -> Any:
    made = net.good(x)
    made.add_(x.sum() * 0 + 1)
    return made * 2


def nets_of(base: Any, linear: Any, tanh: Any) -> Nets:
    """Build the nets of a framework whose modules are classes with ``forward``."""

    def made(forward: Callable[..., Any], **children: Any) -> Any:
        net = type("Net", (base,), {"forward": forward})()
        for name, child in children.items():
            setattr(net, name, child)
        return net

    def nested() -> Any:
        inner = made(chain, first=linear(3, 4), act=tanh(), second=linear(4, 2))
        return made(lambda net, x: net.inner(x), inner=inner)

    def shared() -> Any:
        one = linear(3, 3)
        return made(lambda net, x: net.other(net.one(x)), one=one, other=one)

    return Nets(
        nested=nested,
        shared=shared,
        failing=lambda: made(failing, good=linear(3, 3), bad=made(raising)),
        catching=lambda: made(catching, good=linear(3, 3), bad=made(raising)),
        writing=lambda: made(writing, good=linear(3, 3)),
    )


TORCH = nets_of(torch.nn.Module, torch.nn.Linear, torch.nn.Tanh)
PADDLE = nets_of(paddle.nn.Layer, paddle.nn.Linear, paddle.nn.Tanh)

TestTorch = adapter_suite("torch", TORCH)
TestPaddle = adapter_suite("paddle", PADDLE)


def exported(folder: Path) -> tuple[Path, Any]:
    """Record torch's net as a file of ONNX."""
    net = TORCH.nested().eval()
    x = torch.from_numpy(INPUT)
    np.savez(folder / "net.npz", x=INPUT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (x,), folder / "net.onnx", dynamo=True, verbose=False)
    return dump_file(folder / "net.onnx", folder / "net.npz"), net(x).detach().numpy()


TestOnnx = graph_suite(exported)


class Halves(TorchAdapter):
    def hook_gradient(self, tensor: Any, callback: Any) -> Any:
        return super().hook_gradient(tensor, lambda gradient: callback(gradient / 2))


class HalvesOfWeights(TorchAdapter):
    def gradient(self, parameter: Any) -> Any:
        found = super().gradient(parameter)
        return None if found is None else found / 2


class SharesMemory(TorchAdapter):
    def snapshot(self, tensor: Any) -> Any:
        return self.elements(tensor)


class LosesACall(TorchAdapter):
    def hook_calls(self, module: Any, before: Any, after: Any) -> Any:
        is_lost = isinstance(module, torch.nn.Tanh)
        return super().hook_calls(module, *((_ignore, _ignore) if is_lost else (before, after)))


class StaysHooked(TorchAdapter):
    def hook_calls(self, module: Any, before: Any, after: Any) -> Any:
        super().hook_calls(module, before, after)
        return torch.nn.Module.register_forward_hook(module, _ignore)


class Rounds(TorchAdapter):
    def hook_calls(self, module: Any, before: Any, after: Any) -> Any:
        torch.nn.Module.register_forward_hook(module, lambda *given: given[-1] * (1 + 1e-15))
        return super().hook_calls(module, before, after)


class AddsAnAxis(TorchAdapter):
    def snapshot(self, tensor: Any) -> Any:
        return np.atleast_1d(super().snapshot(tensor))


class ForgetsAliases(TorchAdapter):
    def named_modules(self, model: Any) -> Any:
        yield from model.named_modules()


class AssignsNothing(TorchAdapter):
    def assign(self, tensor: Any, array: Any) -> None:
        del tensor, array


class _Deaf(TorchOperators):
    @contextmanager
    def watch(self, run: RunOperator) -> Iterator[None]:
        def deaf(name: str, function: Any, args: Any, kwargs: Any) -> Any:
            heard = not name.endswith("tanh")
            return run(name, function, args, kwargs) if heard else function(*args, **kwargs)

        with super().watch(deaf):
            yield


class MissesAnOperator(TorchAdapter):
    operators = _Deaf()


class NamesAnotherOperator(TorchAdapter):
    class _Renamed(TorchOperators):
        @contextmanager
        def watch(self, run: RunOperator) -> Iterator[None]:
            def renamed(name: str, function: Any, args: Any, kwargs: Any) -> Any:
                return run(name.replace("tanh", "sin"), function, args, kwargs)

            with super().watch(renamed):
                yield

    operators = _Renamed()


def _ignore(*_: Any) -> None:
    """Hear nothing."""


OUTSIDE = """
from padiff.dumper.adapters.torch import TorchAdapter
from padiff.program.lowering.torch_table import TORCH

class OutsideAdapter(TorchAdapter):
    name = "outside"

TABLE = TORCH
"""
ENTRIES = """[padiff.adapters]
outside = outside:OutsideAdapter
[padiff.tables]
outside = outside:TABLE
"""


def test_an_adapter_of_another_package_is_asked_first_and_brings_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "outside-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "outside.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    caches = registry._third_party, tables._others
    for cache in caches:
        cache.cache_clear()
    importlib.import_module("outside")

    try:
        found = registry.find(torch.nn.Linear(1, 1))

        assert found.name == "outside"
        assert TABLES["outside"] is TABLES["torch"]
    finally:
        sys.modules.pop("outside")
        monkeypatch.undo()
        for cache in caches:
            cache.cache_clear()


MUTANTS = {
    Halves: "test_the_gradient_of_a_bias_is_that_of_the_output_summed",
    HalvesOfWeights: "test_gradients_of_weights_are_those_of_the_loss",
    SharesMemory: "test_a_snapshot_stays_what_it_was",
    LosesACall: "test_calls_are_nested_as_they_ran",
    StaysHooked: "test_nothing_is_recorded_after_the_end",
    Rounds: "test_recording_changes_no_result",
    AddsAnAxis: "test_every_dtype_and_shape_survives",
    ForgetsAliases: "test_a_shared_module_is_one_with_two_calls",
    AssignsNothing: "test_weights_can_be_carried_into_another_model",
    MissesAnOperator: "test_the_program_is_whole",
    NamesAnotherOperator: "test_the_program_computes_what_was_recorded",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_kit_kills_a_planted_mutant(tmp_path: Path, mutant: type[TorchAdapter]) -> None:
    suite = adapter_suite(mutant(), TORCH)()
    rule = getattr(suite, MUTANTS[mutant])
    given = {"tmp_path": tmp_path} if "tmp_path" in rule.__annotations__ else {}

    with pytest.raises(AssertionError):
        rule(**given)
