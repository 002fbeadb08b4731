"""Read .npy and .npz files from anybody: nothing unpickled, no size believed unchecked."""

from __future__ import annotations

import math
import tokenize
import warnings
import zipfile
import zlib
from typing import IO, TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError
from padiff.dumpfile.untrusted import plain_members

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.dumper.adapter import Array

_MOST_RATIO = 100
"""A larger archive than the next number may unpack to that many times its size."""
_SMALL_BYTES = 1 << 30
DAMAGED = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy and zipfile raise on damaged files."""


class _PickledError(ValueError):
    """It holds Python objects."""


def read_numpy(path: Path) -> Array | dict[str, Array]:
    """Read the one array of a .npy file, or those of a .npz by name.

    Raises:
        ConfigError: It cannot be read, holds Python objects, or states sizes that it cannot have.
    """
    try:
        with path.open("rb") as stream:
            is_archive = stream.read(2) == b"PK"
            stream.seek(0)
            if not is_archive:
                return _read_array(stream, path.stat().st_size)
        with zipfile.ZipFile(path) as archive:
            return _read_archive(archive, path.stat().st_size)
    except _PickledError as error:
        raise ConfigError(
            f"cannot read the arrays of {str(path)!r}: {error}",
            hint="convert it where it was made: numpy.savez(path, **numpy.load(path, "
            "allow_pickle=True).item())",
        ) from error
    except DAMAGED as error:
        reason = str(error).strip() or type(error).__name__
        raise ConfigError(
            f"cannot read the arrays of {str(path)!r}: {reason.splitlines()[0][:200]}"
        ) from error


def _read_archive(archive: zipfile.ZipFile, packed_bytes: int) -> dict[str, Array]:
    members = plain_members(archive)
    needed = sum(member.file_size for member in members)
    if needed > max(_SMALL_BYTES, _MOST_RATIO * packed_bytes):
        raise ValueError(f"expected no {needed} bytes in an archive of {packed_bytes}")
    found: dict[str, Array] = {}
    for member in members:
        with archive.open(member) as stream:
            found[member.filename.removesuffix(".npy")] = _read_array(stream, member.file_size)
    return found


def _read_array(stream: IO[bytes], size_bytes: int) -> Array:
    with warnings.catch_warnings():
        # Sizes written as Python 2 did, which is no news to who compares the arrays.
        warnings.simplefilter("ignore", UserWarning)
        return _parse_array(stream, size_bytes)


def _parse_array(stream: IO[bytes], size_bytes: int) -> Array:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        head = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        head = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"expected the npy format 1.0 or 2.0, found {version}")
    shape, _, dtype = head
    if dtype.hasobject:
        raise _PickledError("it holds Python objects, which are never unpickled")
    room = size_bytes - stream.tell()
    if math.prod(shape) * dtype.itemsize > room:
        raise ValueError(
            f"expected {math.prod(shape) * dtype.itemsize} bytes of data, found {room}"
        )
    stream.seek(0)
    array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    return array
