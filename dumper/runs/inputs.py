"""Read what the model is to be fed: numpy and safetensors files, or numbers that are drawn.

Files may come from anybody: nothing is unpickled, no size believed unchecked.
"""

from __future__ import annotations

import math
import tokenize
import warnings
import zipfile
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from padiff.dumper.weights.safetensors_file import read_safetensors
from padiff.dumpfile import ConfigError
from padiff.dumpfile.dtypes import DTYPE_NAMES, MOST_AXES, is_floating, numpy_dtype
from padiff.dumpfile.untrusted import plain_members

from .target import near_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumper.adapter import Array, Keywords


AUTO = "auto:"
"""What the text of such an input begins with."""
_MOST_ELEMENTS = 1 << 31
_FORM = "auto:SHAPE[:DTYPE[:LOW:HIGH]]"
_EXAMPLES = "auto:1x3x224x224, auto:2x16:int64:0:1000 or auto:8:float32:-1:1"
_WITHOUT_RANGE = frozenset({"bool"})
_PARTS = (1, 2, 4)
"""How many parts the text may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnInput:
    """One ``--inputs auto:…``."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    bounds: tuple[float, float] | None = None
    """The lowest number and the first that is too high; None for a normal distribution."""
    keyword: str | None = None
    """None: by position."""
    step: int = 0

    def of_step(self, step: int) -> DrawnInput:
        """Draw other numbers in each step."""
        return replace(self, step=step)

    def read(self, place: int) -> Array:
        """Return the array.

        Floating-point numbers have mean 0 and variance 1, or are uniform within the bounds, as
        integers are; truth values are either with the same probability.

        Args:
            place: Which of the inputs it is: each has other numbers, and each step.
        """
        # The old generator, since numpy promises that its numbers stay what they are.
        source = np.random.RandomState([self.step, place])
        dtype = numpy_dtype(self.dtype)
        if self.dtype == "bool":
            return source.randint(0, 2, self.shape).astype(dtype)
        if dtype.kind in "iu":
            low, high = (int(one) for one in self.bounds or (0, 0))
            return np.asarray(source.randint(low, high, self.shape, np.int64)).astype(dtype)
        if dtype.kind == "c":
            real, imaginary = (source.standard_normal(self.shape) for _ in range(2))
            return np.asarray(real + 1j * imaginary).astype(dtype)
        if self.bounds is not None:
            return np.asarray(source.uniform(*self.bounds, self.shape)).astype(dtype)
        return np.asarray(source.standard_normal(self.shape)).astype(dtype)


def parse_drawn(text: str, keyword: str | None = None) -> DrawnInput:
    """Read ``auto:SHAPE[:DTYPE[:LOW:HIGH]]``.

    Args:
        text: The sizes of the axes are separated by ``x``; none at all is a single number.
        keyword: The argument that it is for; None: the next position.

    Raises:
        ConfigError: The text says something else, or nothing that can be drawn.
    """
    parts = text.removeprefix(AUTO).split(":")
    if len(parts) not in _PARTS:
        raise _refused(text, f"expected {_FORM}, found {len(parts)} parts")
    shape = _shape(text, parts[0])
    dtype = parts[1] if len(parts) > 1 else "float32"
    if dtype not in DTYPE_NAMES:
        raise ConfigError(
            f"cannot draw input {text!r}: expected a dtype, found {dtype!r}",
            hint=near_names(dtype, DTYPE_NAMES) or f"one of {', '.join(DTYPE_NAMES)}",
        )
    bounds = _bounds(text, dtype, parts[2:])
    return DrawnInput(shape=shape, dtype=dtype, bounds=bounds, keyword=keyword)


def _shape(text: str, sizes: str) -> tuple[int, ...]:
    try:
        shape = tuple(map(int, sizes.split("x"))) if sizes else ()
    except ValueError:
        raise _refused(text, f"expected sizes such as 2x16, found {sizes!r}") from None
    if any(size < 1 for size in shape) or len(shape) > MOST_AXES:
        raise _refused(text, f"expected up to {MOST_AXES} sizes from 1 upwards, found {sizes!r}")
    if math.prod(shape) > _MOST_ELEMENTS:
        found = math.prod(shape)
        raise _refused(text, f"expected at most {_MOST_ELEMENTS} elements, found {found}")
    return shape


def _bounds(text: str, dtype: str, words: list[str]) -> tuple[float, float] | None:
    is_integer = not is_floating(dtype) and dtype not in _WITHOUT_RANGE and "complex" not in dtype
    if not words:
        if is_integer:
            raise _refused(text, "expected the range of the integers, found none")
        return None
    kind = int if is_integer else float
    try:
        low, high = map(kind, words)
    except ValueError:
        raise _refused(text, f"expected two numbers, found {':'.join(words)!r}") from None
    if not (is_integer or is_floating(dtype)):
        raise _refused(text, f"expected no range for {dtype}, found {':'.join(words)!r}")
    if not low < high or not math.isfinite(high - low):
        raise _refused(text, f"expected a range that is not empty, found {':'.join(words)!r}")
    if is_integer:
        limits = np.iinfo(numpy_dtype(dtype))
        if low < limits.min or high - 1 > min(limits.max, np.iinfo(np.int64).max - 1):
            raise _refused(text, f"expected numbers of {dtype}, found {':'.join(words)!r}")
    return low, high


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f"cannot draw input {text!r}: {why}", hint=f"for instance {_EXAMPLES}")


_SUFFIXES = frozenset({".npy", ".npz", ".safetensors"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One ``--inputs``: a file, and the keyword it is for."""

    path: Path
    keyword: str | None = None
    """None: by position, or by the names inside the file."""

    def of_step(self, step: int) -> InputFile:
        """Put a step's number into the name."""
        return replace(self, path=Path(str(self.path).replace("{step}", str(step))))

    def read(self, place: int = 0) -> Array | dict[str, Array]:
        """Read the file, whichever of the inputs it is.

        Raises:
            ConfigError: It is not there, of no known format, damaged, or holds pickled objects.
        """
        return read_arrays(self.path)


InputSource = InputFile | DrawnInput
"""One ``--inputs``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The arguments of the root call; leaves are arrays or plain Python values."""

    positional: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)


def parse_input(text: str) -> InputSource:
    """Read ``FILE`` or ``name=FILE``; a file whose own name holds ``=`` is taken as it is.

    In place of a file ``auto:SHAPE[:DTYPE[:LOW:HIGH]]`` is drawn.

    Raises:
        ConfigError: It begins with ``auto:``, and cannot be drawn.
    """
    keyword, equals, path = text.partition("=")
    is_named = bool(equals) and keyword.isidentifier() and not Path(text).exists()
    name, source = (keyword, path) if is_named else (None, text)
    if source.startswith(AUTO) and not Path(source).exists():
        return parse_drawn(source, name)
    return InputFile(path=Path(source), keyword=name)


def load_inputs(sources: Sequence[InputSource], forward: Keywords) -> Inputs:
    """Load all files and decide which argument each array is.

    Raises:
        ConfigError: A file cannot be read, or a name is none of forward's or comes twice.
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for place, source in enumerate(sources):
        text = str(source.path) if isinstance(source, InputFile) else AUTO
        arrays = source.read(place)
        if source.keyword is not None:
            check_keyword(source.keyword, forward, where=f"--inputs {source.keyword}={text}")
            named: dict[str, Any] = {source.keyword: _only_or_all(arrays)}
        elif isinstance(arrays, dict) and _are_keywords(arrays, forward):
            named = dict(arrays)
        else:
            named = {}
            positional.extend(_in_position(text, arrays, forward.names))
        for name, value in named.items():
            if name in keywords:
                raise ConfigError(f"cannot use input {text!r}: {name!r} is given twice")
            keywords[name] = value
    return Inputs(positional=tuple(positional), keywords=keywords)


def check_keyword(name: str, forward: Keywords, *, where: str) -> None:
    """Refuse a keyword that ``forward`` does not take.

    Raises:
        ConfigError: It is none of the parameters.
    """
    if not forward.takes_any and name not in forward.names:
        raise ConfigError(
            f"cannot use {where}: forward has no parameter {name!r}",
            hint=near_names(name, forward.names),
        )


def renamed(inputs: Inputs, forward: Keywords) -> Inputs:
    """Name recorded arguments as ``forward`` names them, in order.

    Two authors call the same inputs otherwise. Only where ``forward`` knows none of the recorded
    names can they be meant by their places; else a name that it does not know is a mistake.
    """
    first = len(inputs.positional)
    free = forward.names[first:]
    is_known = forward.takes_any or not set(forward.names).isdisjoint(inputs.keywords)
    if is_known or not 0 < len(inputs.keywords) <= len(free):
        return inputs
    named = dict(zip(free, inputs.keywords.values(), strict=False))
    return Inputs(positional=inputs.positional, keywords=named)


def in_place(inputs: Inputs, forward: Keywords) -> Inputs:
    """Return the inputs, by place what ``forward`` takes so alone and nothing before it lacks."""
    positional, keywords = [*inputs.positional], dict(inputs.keywords)
    for name in forward.placed[len(positional) :]:
        if name not in keywords:
            break
        positional.append(keywords.pop(name))
    return Inputs(positional=tuple(positional), keywords=keywords)


def _only_or_all(arrays: Array | dict[str, Array]) -> Array | dict[str, Array]:
    """Take the only array out of a file with names, else leave the dict."""
    if isinstance(arrays, dict) and len(arrays) == 1:
        return next(iter(arrays.values()))
    return arrays


def _are_keywords(arrays: Mapping[str, Array], forward: Keywords) -> bool:
    """Return whether the names in a file are those of parameters.

    Where ``forward`` also takes any other keyword, a name that it does not know may still vanish in
    it: at least one must be known, unless none has a name at all.
    """
    known = [name in forward.names for name in arrays]
    if not forward.takes_any:
        return bool(arrays) and all(known)
    return any(known) or (not forward.names and len(arrays) > 1 and "arr_0" not in arrays)


def _in_position(text: str, arrays: Array | dict[str, Array], known: Sequence[str]) -> list[Array]:
    """Return the arrays of a file without keywords: a single one, or ``arr_0`` and so on."""
    if not isinstance(arrays, dict):
        return [arrays]
    if len(arrays) == 1 or all(f"arr_{at}" in arrays for at in range(len(arrays))):
        return [arrays[name] for name in sorted(arrays, key=lambda name: (len(name), name))]
    wrong = next(name for name in arrays if name not in known)
    raise ConfigError(
        f"cannot use inputs {text!r}: it holds {wrong!r}, which is no parameter of forward",
        hint=near_names(wrong, known) or "save one file for each input, in order",
    )


def check_file(path: Path) -> None:
    """Check that a file is there and of a known format; it is not read.

    Raises:
        ConfigError: It is not.
    """
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        siblings = [str(near) for near in path.parent.glob("*.*")] if path.parent.is_dir() else []
        raise ConfigError(
            f"cannot read the arrays of {str(path)!r}: {found}",
            hint=near_names(str(path), siblings),
        )
    if path.suffix not in _SUFFIXES:
        raise ConfigError(
            f"cannot read the arrays of {str(path)!r}: expected .npy, .npz or .safetensors, "
            f"found {path.suffix!r}",
            hint="save it with numpy.save, numpy.savez or safetensors",
        )


def read_arrays(path: Path) -> Array | dict[str, Array]:
    """Read one file by its suffix: an array, or arrays by name.

    Raises:
        ConfigError: It is not there, of no known format, damaged, or holds pickled objects.
    """
    check_file(path)
    if path.suffix == ".safetensors":
        return dict(read_safetensors(path, what="the arrays of"))
    return _read_numpy(path)


def _read_numpy(path: Path) -> Array | dict[str, Array]:
    loaded = read_numpy(path)
    if isinstance(loaded, np.ndarray):
        return _numeric(path, "", loaded)
    return {name: _numeric(path, name, array) for name, array in loaded.items()}


def _numeric(path: Path, name: str, array: Array) -> Array:
    if array.dtype.kind in "biufc":
        return array
    where = f" {name!r} in" if name else ""
    raise ConfigError(
        f"cannot use inputs{where} {str(path)!r}: expected numbers, found dtype {array.dtype}",
        hint="numpy files cannot hold bfloat16 or float8, use safetensors"
        if array.dtype.kind == "V"
        else None,
    )


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
