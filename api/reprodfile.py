"""Read the ``.npy`` files of reprod_log: a pickled dict of arrays, of which nothing is executed.

``numpy.save(path, {"logits": logits})`` pickles an array of one object, the dict. The reader of
pickles that checkpoints have builds dicts and arrays of plain numbers, and refuses all else; here
it also takes that one array out of which the dict has to be taken.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumper.runs.inputs import DAMAGED
from padiff.dumper.weights.plain_pickle import PlainUnpickler, damage_told, made, names_for, refuse
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.dumper.adapter import Array

_ARRAY: Any = names_for(0)["numpy", "ndarray"]
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class _Carrier(_ARRAY):  # type: ignore[misc]
    """What a pickle says of an array, which may be the one that holds the dict."""

    def made(self) -> object:
        """Make the array, or take the dict out of it."""
        data = self.parts[0] if self.parts else None
        if not isinstance(data, list):
            return super().made()
        if len(data) != 1 or type(data[0]) is not dict:
            raise refuse("holds an array of objects")
        return made(data[0])


def read_reprod(path: Path) -> dict[str, Array] | None:
    """Read a file of reprod_log; None if it is an array of numbers, or nothing that numpy wrote.

    Args:
        path: A ``.npy`` file.

    Returns:
        The arrays by their slots.

    Raises:
        ConfigError: It holds something else than a dict of arrays.
    """
    pickled = _pickle_in(path)
    if pickled is None:
        return None
    table = names_for(len(pickled))
    table |= {name: _Carrier for name, known in table.items() if known is _ARRAY}
    try:
        with damage_told():
            found = made(PlainUnpickler(io.BytesIO(pickled), table).load())
    except pickle.UnpicklingError as error:
        raise ConfigError(f"cannot read the arrays of {str(path)!r}: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"cannot read the arrays of {str(path)!r}: expected a dict of arrays")
    wrong = [name for name, value in found.items() if not isinstance(value, np.ndarray)]
    if wrong:
        raise ConfigError(
            f"cannot read the arrays of {str(path)!r}: expected numpy arrays, found "
            f"{type(found[wrong[0]]).__name__} under {str(wrong[0])!r:.80}"
        )
    return {f"[{str(name)!r}]": array for name, array in found.items()}


def _pickle_in(path: Path) -> bytes | None:
    """Return the pickle of a ``.npy`` file that has one."""
    try:
        with path.open("rb") as stream:
            read_header = _HEADERS.get(np.lib.format.read_magic(stream))
            is_pickled = read_header is not None and read_header(stream)[2].hasobject
            return stream.read() if is_pickled else None
    except DAMAGED:
        return None  # who reads it as an array says what is wrong
