"""A module tree made of parameter names, with the classes that names and shapes give away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import ModuleInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["infer_modules"]

Shape = tuple[int, ...]

_CONVOLUTIONS = {3: ("Conv1d", "Conv1D"), 4: ("Conv2d", "Conv2D"), 5: ("Conv3d", "Conv3D")}
_TABLE_WORDS = ("emb", "wte", "wpe", "token", "position", "word")
_PRODUCT_WORDS = ("proj", "linear", "fc", "dense", "head", "query", "key", "value", "mlp", "lin")
_MATRIX = 2


def infer_modules(
    shapes: Mapping[str, Shape], framework: str
) -> tuple[tuple[ModuleInfo, ...], dict[str, tuple[int, str]]]:
    """Build the modules that parameter names imply.

    A module whose class the evidence does not give away has no class: its layout is unknown.

    Args:
        shapes: Shape by full name.
        framework: Whose naming the file follows.

    Returns:
        The modules, parents first, and the owner (module id and local name) of each parameter.
    """
    owned: dict[str, dict[str, Shape]] = {"": {}}
    for name, shape in shapes.items():
        path, _, local = name.rpartition(".")
        above = path
        while above and above not in owned:
            owned[above] = {}
            above = above.rpartition(".")[0]
        owned[path][local] = shape
    order = sorted(owned, key=lambda path: (path.count(".") + bool(path), list(owned).index(path)))
    ids = {path: number for number, path in enumerate(order)}
    lies = _Lies(owned, framework)
    modules = tuple(
        ModuleInfo(
            id=number,
            path=path,
            class_name=(name := _class_of(path, owned[path], framework)),
            class_path=lies.class_path(path, name, has_bias="bias" in owned[path]) if name else "",
            parent=ids[path.rpartition(".")[0]] if path else None,
        )
        for path, number in ids.items()
    )
    owners = {name: (ids[name.rpartition(".")[0]], name.rpartition(".")[2]) for name in shapes}
    return modules, owners


class _Lies:
    """Which way the matrices of products lie, told by the biases of those that are not square.

    Not every file follows its framework: GPT-2 of transformers keeps its matrices transposed.
    """

    def __init__(self, owned: Mapping[str, Mapping[str, Shape]], framework: str) -> None:
        self.framework = framework
        self.usual = int(framework == "paddle")
        self.seen: dict[str, set[int]] = {}
        for path, own in owned.items():
            weight, bias = own.get("weight", ()), own.get("bias", ())
            if len(weight) == _MATRIX and len(bias) == 1 and weight[0] != weight[1]:
                fitting = {axis for axis in range(_MATRIX) if weight[axis] == bias[0]}
                self.seen.setdefault(_leaf(path), set()).update(fitting)

    def class_path(self, path: str, name: str, *, has_bias: bool) -> str:
        """Name the class in full; empty if matrices of this name lie both ways."""
        if name != "Linear":
            return f"{self.framework}.nn.{name}"
        others = set().union(*self.seen.values()) if has_bias else set()
        seen = self.seen.get(_leaf(path)) or others or {self.usual}
        if len(seen) > 1:
            return ""
        return f"{self.framework}.nn.Linear" if seen == {self.usual} else _OTHERS[self.framework]


_OTHERS = {
    "torch": "transformers.pytorch_utils.Conv1D",
    "paddle": "paddle.compat.nn.Linear",
}
"""The class that lies the other way round than its framework's Linear."""


_SIGNS_OF_MINDSPORE: Mapping[str | int, str] = {
    "moving_mean": "BatchNorm2d",
    "gamma": "LayerNorm",
    "embedding_table": "Embedding",
    2: "Dense",
    4: "Conv2d",
    5: "Conv3d",
}
"""By the name of a parameter, or by the number of axes of a weight: the class in mindspore.nn."""


def _leaf(path: str) -> str:
    return path.rpartition(".")[2]


def _class_of(path: str, own: Mapping[str, Shape], framework: str) -> str:
    """Name the class that the parameters of one module give away, empty if they do not."""
    if framework == "mindspore":
        given = (*own, len(own.get("weight", ())))
        return next((name for sign, name in _SIGNS_OF_MINDSPORE.items() if sign in given), "")
    is_torch = framework != "paddle"
    weight = own.get("weight", own.get("weight_v", ()))
    found = ""
    if "running_mean" in own or "_mean" in own:
        found = "BatchNorm2d" if is_torch else "BatchNorm2D"
    elif "in_proj_weight" in own and is_torch:
        found = "MultiheadAttention"
    elif "weight_ih_l0" in own and is_torch:
        found = "LSTM"
    elif len(weight) in _CONVOLUTIONS:
        found = _CONVOLUTIONS[len(weight)][0 if is_torch else 1]
    elif len(weight) == 1 and "bias" in own:
        found = "LayerNorm"
    elif len(weight) == _MATRIX:
        found = _matrix(path.rpartition(".")[2].lower(), own)
    return found


def _matrix(leaf: str, own: Mapping[str, Shape]) -> str:
    if "bias" in own:
        return "Linear"
    if any(word in leaf for word in _TABLE_WORDS):
        return "Embedding"
    return "Linear" if any(word in leaf for word in _PRODUCT_WORDS) else ""
