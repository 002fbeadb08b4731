"""J v by central differences of executed programs against torch's derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from padiff.program import execute
from tests.frameworks.test_lowering_torch import FRAME, arguments_of, function_of
from tests.support.operators import Recorder, lowered_of

STEP = 3e-5
"""Of the root mean square: rounding and the third derivative then weigh the same (1e-10)."""
CASES = (
    ("tanh", "f(3, 4)"),
    ("nn.functional.gelu", "f(3, 4)"),
    ("nn.functional.softmax", "f(3, 4), -1"),
    ("nn.functional.layer_norm", "f(3, 5), (5,), f(5), f(5)"),
    ("nn.functional.group_norm", "f(2, 6, 5), 3, f(6), f(6)"),
    ("nn.functional.linear", "f(3, 4), f(5, 4), f(5)"),
    ("nn.functional.conv2d", "f(2, 4, 6, 7), f(4, 2, 3, 3), f(4), 2, 1, 1, 2"),
    ("nn.functional.conv_transpose2d", "f(2, 4, 4, 5), f(4, 3, 3, 2), f(3), (2, 3), 1, 1"),
    ("nn.functional.avg_pool2d", "f(2, 3, 7, 8), 3, 2, 1, True"),
    ("nn.functional.interpolate", "f(2, 3, 6, 7), (9, 4), mode='bicubic'"),
    ("nn.functional.grid_sample", "f(2, 3, 5, 6), u(2, 4, 3, 2), align_corners=False"),
    ("nn.functional.cross_entropy", "f(5, 4), i(4, 5), label_smoothing=0.2"),
    ("nn.functional.scaled_dot_product_attention", ("f(2, 3, 5, 4), f(2, 3, 5, 4), f(2, 3, 5, 4), "
     "is_causal=True")),
    ("lstm", ("f(5, 2, 3), (f(1, 2, 4), f(1, 2, 4)), [f(16, 3), f(16, 4), f(16), f(16)], True, 1, "
     "0.0, False, False, False")),
    ("Tensor.__getitem__", "f(5, 4), (slice(1, 4), i(4, 6))"),
    ("scatter_add", "f(5, 4), 0, i(5, 3, 4), f(3, 4)"),
    ("logsumexp", "f(3, 4), 1"),
    ("linalg.solve", "f(3, 3), f(3, 2)"),
    ("var", "f(3, 4), 1"),
    ("einsum", "'bhqd,bhkd->bhqk', f(2, 3, 4, 5), f(2, 3, 6, 5)"),
)  # fmt: skip


def floats_of(arguments: Any) -> list[torch.Tensor]:
    if isinstance(arguments, torch.Tensor):
        return [arguments] if arguments.is_floating_point() else []
    if isinstance(arguments, list | tuple):
        return [tensor for each in arguments for tensor in floats_of(each)]
    return []


@pytest.mark.parametrize(("name", "text"), CASES, ids=[name for name, _ in CASES])
def test_differences_of_executions_are_torchs_derivatives(name: str, text: str) -> None:
    arguments, keywords = arguments_of(text)
    name = f"torch.{name}"
    recorder = Recorder(FRAME)
    recorded = recorder.call(name, function_of(name), arguments, keywords, in_place=False)
    lowered = lowered_of(recorded)
    leaves = floats_of(arguments)
    for leaf in leaves:
        leaf.requires_grad_()
    generator = np.random.default_rng(5)
    directions = [generator.standard_normal(tuple(leaf.shape)) for leaf in leaves]

    made = recorder.tensors(function_of(name)(*arguments, **keywords))
    weights = [generator.standard_normal(tuple(each.shape)) for each in made]
    total = sum((each * torch.tensor(w)).sum() for each, w in zip(made, weights, strict=True))
    gradients = torch.autograd.grad(total, leaves)
    expected = sum(
        float((gradient.numpy() * direction).sum())
        for gradient, direction in zip(gradients, directions, strict=True)
    )

    start = {
        value.id: recorded.elements[value.id]
        for value in recorded.program.values
        if value.producer is None
    }
    ends = []
    for sign in (1, -1):
        moved = dict(start)
        for leaf, direction in zip(leaves, directions, strict=True):
            id_ = recorder.known[id(leaf)]
            moved[id_] = start[id_] + sign * STEP * direction
        ends.append(execute(lowered, moved, recorded.program.outputs))
    outputs = recorded.program.outputs
    change = sum(
        float(((ends[0][output] - ends[1][output]) * weight).sum())
        for output, weight in zip(outputs, weights, strict=True)
    )
    scale = sum(float(np.abs(gradient.numpy()).sum()) for gradient in gradients)
    assert abs(change / (2 * STEP) - expected) <= 1e-7 * scale
