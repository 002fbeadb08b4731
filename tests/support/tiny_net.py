"""A three-layer network in numpy, recorded as either framework would have recorded it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role, SourceLine

from .dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

Array = npt.NDArray[Any]

_SITES = {"fc1": 10, "norm": 11, "fc2": 12}


def tiny_net(
    framework: str = "torch",
    *,
    eps: float = 1e-5,
    step: int = 0,
    weight_change: float = 0.0,
    gradient_change: float = 0.0,
    backward: bool = True,
) -> DumpBuilder:
    """Run ``fc2(fc1(x) / (1 + eps))`` and the backward of its mean.

    Args:
        framework: ``torch``, or ``paddle``, whose linear weights are transposed.
        eps: Attribute and behaviour of ``norm``; another one makes it the origin.
        step: Step number; also changes the input.
        weight_change: Added to one element of ``fc1.weight``.
        gradient_change: Added to one element of the gradient that ``norm`` passes on.
        backward: Whether gradients are recorded.
    """
    random = np.random.default_rng(7)
    first, second = _floats(random, 5, 3), _floats(random, 2, 5)
    x = _floats(np.random.default_rng(step), 4, 3)
    first[0, 0] += weight_change
    hidden = x @ first.T
    scaled = hidden / np.float32(1 + eps)
    out = scaled @ second.T
    turn = np.transpose if framework == "paddle" else np.asarray
    built = DumpBuilder(framework=framework, step=step)
    _add_modules(built, framework, eps)
    built.tensor("fc1", "weight", turn(first)).tensor("fc2", "weight", turn(second))
    built.enter("", inputs=[x], site=_site(3))
    for path, given, made in (("fc1", x, hidden), ("norm", hidden, scaled), ("fc2", scaled, out)):
        built.call(path, inputs=[given], outputs=[made], site=_site(_SITES[path]))
    built.leave(outputs=[out])
    built.record("", Role.LOSS, np.array(out.mean(), np.float32))
    if backward:
        grad_out = np.full_like(out, 1 / out.size)
        grad_scaled = grad_out @ second
        grad_hidden = grad_scaled / np.float32(1 + eps)
        grad_hidden[0, 0] += gradient_change
        _add_gradients(built, {"fc2": (grad_out, grad_scaled), "norm": (grad_scaled, grad_hidden)})
        built.record("fc1", Role.GRAD_OUTPUT, grad_hidden)
        built.record("fc1", Role.WEIGHT_GRAD, turn(grad_hidden.T @ x), slot=".weight")
        built.record("fc2", Role.WEIGHT_GRAD, turn(grad_out.T @ scaled), slot=".weight")
    return built


def tiny_pair(directory: Path, **fault: Any) -> tuple[Path, Path]:  # noqa: ANN401
    """Write a reference and a candidate with a fault; gives their directories."""
    reference = tiny_net().write(directory / "reference")
    candidate = tiny_net("paddle", **fault).write(
        directory / "candidate", framework_version="3.3.1"
    )
    return reference, candidate


def _floats(random: np.random.Generator, *shape: int) -> Array:
    return random.standard_normal(shape).astype(np.float32)


def _site(line: int) -> SourceLine:
    return SourceLine(file="net.py", line=line, function="forward")


def _add_modules(built: DumpBuilder, framework: str, eps: float) -> None:
    source = SourceLine(file="net.py", line=1)
    built.module("", "Net", class_path="net.Net", source=source)
    layers = {
        "torch": "torch.nn.modules.linear.Linear",
        "paddle": "paddle.nn.layer.common.Linear",
    }
    for path, sizes in (("fc1", (3, 5)), ("fc2", (5, 2))):
        if path == "fc2":
            built.module("norm", "Norm", class_path="net.Norm", attributes={"eps": eps})
        attributes = dict(zip(("in_features", "out_features"), sizes, strict=True))
        built.module(path, "Linear", class_path=layers[framework], attributes=dict(attributes))


def _add_gradients(built: DumpBuilder, gradients: dict[str, tuple[Array, Array]]) -> None:
    for path, (of_output, of_input) in gradients.items():
        built.record(path, Role.GRAD_OUTPUT, of_output)
        built.record(path, Role.GRAD_INPUT, of_input, slot="[0]")
