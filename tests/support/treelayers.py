"""The nodes of generated models, what weights they have, and what the layers among them compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BUFFERS", "CLASSES", "FREE", "LEAVES", "WIDTH", "Node", "computed", "made_weights"]

Array = npt.NDArray[Any]

WIDTH = 6
CLASSES = {
    "torch": {
        "linear": "Linear",
        "fused": "Linear",
        "norm": "LayerNorm",
        "bn": "BatchNorm1d",
        "relu": "ReLU",
        "drop": "Dropout",
    },
    "paddle": {
        "linear": "Linear",
        "fused": "Linear",
        "norm": "LayerNorm",
        "bn": "BatchNorm1D",
        "relu": "ReLU",
        "drop": "Dropout",
    },
}
LEAVES = frozenset({"linear", "fused", "norm", "bn", "relu", "drop"})
FREE = frozenset({"relu", "drop"})
BUFFERS = {
    "torch": {"mean": "running_mean", "variance": "running_var"},
    "paddle": {"mean": "_mean", "variance": "_variance"},
}
"""What each framework calls the statistics of a batch norm."""
_EPSILON = np.float32(1e-5)


@dataclass(frozen=True, kw_only=True)
class Node:
    """One module, or a function where ``is_function``; equal ``uid`` means the same job."""

    uid: int
    kind: str
    """A leaf, ``seq``, ``residual`` (adds its input), ``branches`` (sums), ``repeat`` or ``attend``
    (mixes what three layers make of its input)."""
    name: str
    children: tuple[Node, ...] = ()
    times: int = 1
    is_function: bool = False
    is_activated: bool = False
    """Whether the layer applies a ReLU itself."""
    scale: float = 1.0
    """Planted fault: the output is multiplied by it."""
    epsilon: float = 1e-5
    """Of a norm; planted fault."""
    is_turned: bool = False
    """Planted fault: the weight is transposed."""
    seed: int = 0
    """Of the weights; modules of one seed and copy share them."""
    copy: int = 0
    """Modules of one seed and another copy have equal weights of their own."""
    parts: tuple[Node, ...] = ()
    """Layers that a ``fused`` one does at once, their outputs side by side."""
    folded: Node | None = None
    """The norm that was folded into a linear."""


def made_weights(node: Node) -> dict[str, Array]:
    """Make the weights and statistics of a leaf, as torch lays them out."""
    rng = np.random.default_rng(node.seed)
    if node.kind == "fused":
        parts = [made_weights(part) for part in node.parts]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if node.kind == "linear":
        weight = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / np.float32(2.0)
        weight = np.ascontiguousarray(weight.T) if node.is_turned else weight
        made = {"weight": weight, "bias": rng.standard_normal(WIDTH).astype(np.float32)}
        return made if node.folded is None else _folded(made, made_weights(node.folded))
    if node.kind == "norm":
        return {"weight": rng.uniform(0.5, 1.5, WIDTH).astype(np.float32)}
    if node.kind == "bn":
        return {
            "weight": rng.uniform(0.5, 2.0, WIDTH).astype(np.float32),
            "bias": rng.standard_normal(WIDTH).astype(np.float32),
            "mean": rng.standard_normal(WIDTH).astype(np.float32),
            "variance": rng.uniform(0.5, 2.0, WIDTH).astype(np.float32),
        }
    return {}


def _folded(layer: dict[str, Array], norm: dict[str, Array]) -> dict[str, Array]:
    times = norm["weight"] / np.sqrt(norm["variance"] + _EPSILON)
    bias = norm["bias"] + (layer["bias"] - norm["mean"]) * times
    return {"weight": layer["weight"] * times[:, None], "bias": bias.astype(np.float32)}


def computed(node: Node, weights: dict[str, Array], data: Array) -> Array:
    """Run a leaf."""
    made = data
    if node.kind in {"linear", "fused"}:
        made = data @ weights["weight"].T + weights["bias"]
    elif node.kind == "norm":
        spread = data.std(-1, keepdims=True) + node.epsilon
        made = (data - data.mean(-1, keepdims=True)) / spread * weights["weight"]
    elif node.kind == "bn":
        spread = np.sqrt(weights["variance"] + np.float32(node.epsilon))
        made = (data - weights["mean"]) / spread * weights["weight"] + weights["bias"]
    elif node.kind == "relu":
        made = np.maximum(data, 0)
    return made
