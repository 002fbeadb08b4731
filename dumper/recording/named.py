"""Named arrays without a model: the stages of a migration that are no module's run.

Their module tree is made of names, with the classes that names and shapes give away.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper import adapters
from padiff.dumper.runs.inputs import read_arrays
from padiff.dumpfile import VERSION, ConfigError, DumpWriter, Manifest, ModuleInfo, Phase, Role
from padiff.dumpfile.manifestcodec import RUN

from .nested import flatten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from padiff.dumper.adapter import Array


_NUMBERS = np.generic | int | float | complex
SUFFIXES = frozenset({".npy", ".npz", ".safetensors"})
ROOT = ModuleInfo(id=0, path="", class_name="Arrays", class_path="padiff.Arrays", parent=None)


def arrays_of(values: object) -> dict[str, Array]:
    """Take a nested value apart into named arrays; the names of a mapping come first.

    Raises:
        ConfigError: A leaf is no tensor, array or number.
    """
    known = [adapters.load(name) for name in adapters.imported()]

    def is_leaf(value: object) -> bool:
        if isinstance(value, list | tuple) and value and not hasattr(value, "_fields"):
            return all(isinstance(part, _NUMBERS) for part in value)  # one series of numbers
        return isinstance(value, np.ndarray | _NUMBERS) or any(
            adapter.is_tensor(value) for adapter in known
        )

    flat = flatten(values, is_leaf)
    unusable = [slot for slot, value in flat.literals.items() if value not in (None, [])]
    if unusable:
        raise ConfigError(
            f"cannot save {unusable[0]!r}: expected tensors, arrays and numbers, found "
            f"{flat.literals[unusable[0]]!r}"
        )
    found = {}
    for slot, leaf in flat.tensors:
        adapter = next((one for one in known if one.is_tensor(leaf)), None)
        found[slot] = np.array(leaf) if adapter is None else adapter.snapshot(leaf)
    return found


def read_named(path: Path) -> dict[str, Array]:
    """Read the arrays of a .npy, .npz or .safetensors file, or of a folder of such files.

    Returns:
        The arrays; of a folder, each name begins with the file's, without its suffix.

    Raises:
        ConfigError: There are no such files, or one cannot be read.
    """
    if not path.is_dir():
        arrays = read_arrays(path)
        return {"": arrays} if isinstance(arrays, np.ndarray) else _slots(arrays)
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
    if not files:
        raise ConfigError(
            f"cannot compare {str(path)!r}: expected a dump, or a folder with .npy, .npz or "
            ".safetensors files"
        )
    found: dict[str, Array] = {}
    for file in files:
        place = f"[{file.relative_to(path).with_suffix('').as_posix()!r}]"
        found |= {place + slot: array for slot, array in read_named(file).items()}
    return found


def write_named(
    directory: Path, steps: Iterable[Mapping[str, Array]], *, overwrite: bool = False
) -> Path:
    """Write one step for each mapping from slots to arrays.

    Raises:
        ConfigError: There is not one array.
        DumpError: The dump cannot be written.
    """
    count = 0
    with DumpWriter(directory, overwrite=overwrite) as writer:
        for number, arrays in enumerate(steps):
            with writer.step(number, 0) as step:
                step.add_modules((ROOT,))
                for order, (slot, array) in enumerate(arrays.items()):
                    step.add_record(
                        module=0,
                        call=None,
                        phase=Phase.FORWARD,
                        role=Role.NAMED,
                        slot=slot,
                        order=order,
                        shape=tuple(array.shape),
                        value=step.store(np.array(array)),
                    )
                    count += 1
        if not count:
            raise ConfigError(f"cannot save {directory.name!r}: there is nothing in it")
        return writer.commit(_manifest(directory.name))


def _slots(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"[{name!r}]": array for name, array in arrays.items()}


def _manifest(name: str) -> Manifest:
    return Manifest(
        name=name,
        framework="numpy",
        framework_version=np.__version__,
        padiff_version=VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        files=(),
        phase=Phase.FORWARD,
        python=platform.python_version(),
        platform=platform.platform(),
        settings={RUN: False},
    )


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
