"""Named arrays without a model: the stages of a migration that are no module's run."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper import adapters
from padiff.dumper.runs.inputs import read_arrays
from padiff.dumpfile import VERSION, ConfigError, DumpWriter, Manifest, ModuleInfo, Phase, Role
from padiff.dumpfile.manifestcodec import RUN

from .nested import flatten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from padiff.dumper.adapter import Array

__all__ = ["arrays_of", "read_named", "save", "write_named"]

_NUMBERS = np.generic | int | float | complex
SUFFIXES = frozenset({".npy", ".npz", ".safetensors"})
ROOT = ModuleInfo(id=0, path="", class_name="Arrays", class_path="padiff.Arrays", parent=None)


def save(
    name: str,
    values: Mapping[str, object],
    *,
    out: str | Path = "padiff_dump",
    overwrite: bool = False,
) -> Path:
    """Save named tensors, arrays and numbers as a dump, to be compared like any other.

    ::

        padiff.save("forward_torch", {"logits": logits, "accuracy": 0.761})

    Args:
        name: Name of the dump.
        values: Tensors of any framework at hand, arrays, numbers, or containers of these.
        out: Directory of all dumps.
        overwrite: Replace an existing dump of that name.

    Returns:
        The dump's directory.

    Raises:
        ConfigError: There is nothing to save, or something that is no number.
        DumpError: The dump cannot be written.
    """
    return write_named(Path(out) / name, [arrays_of(values)], overwrite=overwrite)


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
