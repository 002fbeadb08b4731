"""A recorded program is read back as a graph, lowered, and executed in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import padiff
from padiff.dumpfile import Dtype, LeafKind, Slice, ValueRef, open_dump
from padiff.program import TABLES, execute, lower, read_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Model(nn.Module):
    def __init__(self, function: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def record(
    function: Callable[[Any, torch.Tensor], torch.Tensor], folder: Path
) -> tuple[_Model, Path]:
    torch.manual_seed(0)
    model, x = _Model(function), torch.randn(2, 3)
    with padiff.record(model, name="model", out=folder) as recorder:
        model(x)
    return model, recorder.path


def test_arguments_are_read_as_they_were_given(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(2, 3, dtype=torch.float32, device="cpu")
        return x[:, 1:].add(y[0, 1:], alpha=2.5)

    _, path = record(function, tmp_path)

    with open_dump(path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        zeros, item, _, add = recorded.program.operators
    assert zeros.positional == (2, 3)
    assert zeros.keywords == {"dtype": Dtype("float32"), "device": "cpu"}
    assert item.positional[1] == (Slice(), Slice(start=1))
    assert add.keywords == {"alpha": 2.5}
    assert all(isinstance(one, ValueRef) for one in add.positional)
    assert add.site is not None
    assert add.site.file.endswith("test_read_program.py")


def test_leaves_have_kind_name_and_elements(tmp_path: Path) -> None:
    model, path = record(lambda self, x: self.linear(x), tmp_path)

    with open_dump(path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        found = {one.name: one for one in recorded.program.values}
        weight = found["linear.weight"]

        assert weight.kind is LeafKind.PARAMETER
        elements = recorded.elements(weight.id)
        assert elements is not None
        np.testing.assert_array_equal(elements, model.linear.weight.detach().numpy())
        assert len(recorded.program.outputs) == 1


def test_a_program_executes_to_what_torch_computes_in_float64(tmp_path: Path) -> None:
    def function(self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return functional.gelu(self.linear(x)) * x.float().sum(1, keepdim=True)

    model, path = record(function, tmp_path)
    with open_dump(path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        lowered = lower(recorded.program, TABLES["torch"], contents=recorded.elements)
        leaves = {}
        for value in lowered.leaves.values():
            elements = recorded.elements(value)
            assert elements is not None
            leaves[value] = elements
        given = next(one for one in recorded.program.values if one.kind is LeafKind.INPUT)
        x = torch.tensor(leaves[given.id], dtype=torch.float64)

        found = execute(lowered, leaves, recorded.program.outputs)

    assert lowered.opaque == {}
    wide = model.double()
    wide.function = lambda self, y: functional.gelu(self.linear(y)) * y.sum(1, keepdim=True)
    expected = wide(x).detach().numpy()
    np.testing.assert_allclose(found[recorded.program.outputs[0]], expected, rtol=1e-13)


def test_an_operator_that_hands_its_input_on_makes_nothing(tmp_path: Path) -> None:
    _, path = record(lambda self, x: self.linear(x).float().contiguous(), tmp_path)

    with open_dump(path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        linear, to_float, contiguous = recorded.program.operators
        lowered = lower(recorded.program, TABLES["torch"])

    assert to_float.outputs == contiguous.outputs == linear.outputs
    assert lowered.opaque == {}


def test_a_dump_without_program_reads_as_none(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    with padiff.record(model, name="m", out=tmp_path, program=False) as recorder:
        model(torch.zeros(1, 2))

    with open_dump(recorder.path).open(0, 0) as file:
        assert read_program(file) is None
