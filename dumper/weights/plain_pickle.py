"""Unpickle containers, numbers and text alone, from anybody, in time and memory that the file has.

A pickle is a program. What this one can do is bounded: it builds lists, dicts and what a table
gives for the names it asks for; it changes nothing but its own lists, dicts and stand-ins; keys
are text and small integers, since the hash of a crafted key (a tuple of tuples of itself) never
ends. Sets come as lists for the same reason.

Of dicts and numpy arrays not even numpy's own classes are built by the pickle: a made-up state of a
dtype crashes the process. Stand-ins only keep what the pickle says; arrays are made of that
afterwards, checked.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from padiff.dumpfile.dtypes import MOST_AXES

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Source = IO[bytes] | mmap.mmap


_LENGTH_BYTES = 8
_LARGEST_KEY = 1 << 31
_LARGEST_LENGTH = 1 << 62


class StandIn(Protocol):
    """Keeps what a pickle says of an object, and makes it once all is read."""

    def made(self) -> Any:  # noqa: ANN401 - whatever it stands for
        """Make the object, or refuse."""


def refuse(reason: str) -> pickle.UnpicklingError:
    """Make the error that says what a file holds beside plain things."""
    return pickle.UnpicklingError(f"it {reason}")


def lengths_of(numbers: object) -> tuple[int, ...]:
    """Take a shape or strides: not negative, and few.

    Raises:
        pickle.UnpicklingError: They are something else.
    """
    if not isinstance(numbers, list | tuple) or len(numbers) > MOST_AXES:
        raise refuse("holds an array of a wrong form")
    if not all(type(one) is int and 0 <= one < _LARGEST_LENGTH for one in numbers):
        raise refuse("holds an array of a wrong form")
    return tuple(numbers)


def _check_key(key: object) -> None:
    is_plain = type(key) in {str, bytes, bool, type(None)}
    if not is_plain and not (type(key) is int and abs(key) < _LARGEST_KEY):
        raise refuse("holds a dict with other keys than text and numbers")


def ordered(items: object = ()) -> dict[Any, Any]:
    """Stand in for ``OrderedDict``, of nothing or of pairs."""
    if not isinstance(items, list | tuple):
        raise refuse("holds a dict of a wrong form")
    found = {}
    for item in items:
        if not isinstance(item, list | tuple) or len(item) != 2:  # noqa: PLR2004 - key and value
            raise refuse("holds a dict of a wrong form")
        _check_key(item[0])
        found[item[0]] = item[1]
    return found


class PlainUnpickler(pickle._Unpickler):
    """An unpickler that can build nothing but containers and what a table gives.

    It is the one in Python: the one in C allocates what a damaged file asks for, up to the whole
    memory, before it looks for the data.
    """

    # Of the base class, which is private to the library.
    stack: list[Any]
    read: Callable[[int], bytes]
    append: Callable[[object], None]
    pop_mark: Callable[[], list[Any]]

    def __init__(
        self, source: Source, table: Mapping[tuple[str, str], Callable[..., object]]
    ) -> None:
        """Take the bytes to read and what names stand for.

        Args:
            source: Gives no more than it has when it is asked for more.
            table: By module and name.
        """
        super().__init__(source)
        self._table = table

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as the base class
        """Return what the table has under a name, and refuse all others."""
        found = self._table.get((module, name))
        if found is None:
            raise refuse(f"wants to load {str(module)[:80]}.{str(name)[:80]}")
        return found

    # -- the instructions that would do more than is promised

    def _load_bytearray(self) -> None:
        """Read the data before making room for them, unlike the library."""
        length = int.from_bytes(self.read(_LENGTH_BYTES), "little")
        data = self.read(length)
        if len(data) < length:
            raise EOFError("the data are cut off")
        self.append(bytes(data))

    def _load_build(self) -> None:
        """Hand a state to a stand-in; the attributes of an ``OrderedDict`` are of no use here."""
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is dict:
            return
        if not hasattr(type(target), "made"):
            raise refuse("sets the state of something else than an array")
        target.__setstate__(state)

    def _load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([(key, value)])

    def _load_setitems(self) -> None:
        items = self.pop_mark()
        self._set(zip(items[::2], items[1::2], strict=True))

    def _load_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._set(zip(items[::2], items[1::2], strict=True))

    def _set(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            raise refuse("holds a dict of a wrong form")
        for key, value in pairs:
            _check_key(key)
            target[key] = value

    def _load_set(self) -> None:
        self.append([])

    def _load_additems(self) -> None:
        items = self.pop_mark()
        self._extend(items)

    def _load_frozenset(self) -> None:
        self.append(self.pop_mark())

    def _load_append(self) -> None:
        item = self.stack.pop()
        self._extend([item])

    def _extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise refuse("holds a list of a wrong form")
        self.stack[-1].extend(items)

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: _load_bytearray,
        pickle.BUILD[0]: _load_build,
        pickle.SETITEM[0]: _load_setitem,
        pickle.SETITEMS[0]: _load_setitems,
        pickle.DICT[0]: _load_dict,
        pickle.EMPTY_SET[0]: _load_set,
        pickle.ADDITEMS[0]: _load_additems,
        pickle.FROZENSET[0]: _load_frozenset,
        pickle.APPEND[0]: _load_append,
        pickle.APPENDS[0]: _load_additems,
    }


@contextmanager
def damage_told() -> Iterator[None]:
    """Turn all that a damaged pickle raises into one error.

    Raises:
        pickle.UnpicklingError: With the reason.
    """
    try:
        yield
    except EOFError as error:
        raise pickle.UnpicklingError("the data are cut off") from error
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        ImportError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise pickle.UnpicklingError(reason) from error


def made(found: object) -> object:
    """Replace the stand-ins in dicts of any depth by what they stand for, each once.

    Raises:
        pickle.UnpicklingError: One cannot be made, or a dict holds itself.
    """
    return _made(found, {})


def _made(found: object, known: dict[int, object]) -> object:
    is_stand_in = hasattr(type(found), "made")
    if not is_stand_in and type(found) is not dict:
        return found
    if id(found) in known:
        if known[id(found)] is None:
            raise refuse("holds a dict that holds itself")
        return known[id(found)]
    known[id(found)] = None
    result: object
    if is_stand_in:
        result = found.made()  # type: ignore[attr-defined]
    else:
        result = {key: _made(item, known) for key, item in found.items()}  # type: ignore[attr-defined]
    known[id(found)] = result
    return result


_PLAIN = re.compile(r"[|<>=]?[biufc]\d{1,2}")
"""Dtypes whose elements are plain bytes: no objects, no text."""
_STATE_LENGTH = 5


class _Dtype:
    """What a pickle says about a dtype."""

    def __init__(self, text: object, *_: object) -> None:
        self.text = text
        self.order: object = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.order, *structure = state[:_STATE_LENGTH]
        if any(part is not None for part in structure):
            raise refuse("holds an array of a structured dtype")

    def made(self) -> np.dtype[Any]:
        """Make the dtype, if its elements are plain bytes."""
        if not isinstance(self.text, str):
            raise refuse("holds an array of a wrong form")
        if not _PLAIN.fullmatch(self.text):  # numpy would parse any text as Python
            raise refuse(f"holds an array of dtype {self.text[:20]!r}")
        found: np.dtype[Any] = np.dtype(self.text)
        is_turned = isinstance(self.order, str) and self.order in {"<", ">"}
        return found.newbyteorder(self.order) if is_turned else found  # type: ignore[arg-type]


class _Array:
    """What a pickle says about an array."""

    def __init__(self, *_: object) -> None:
        self.parts: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, data = state
        self.parts = (data, dtype, shape, "F" if is_fortran else "C")

    def made(self) -> npt.NDArray[Any]:
        """Make the array, if its data are as long as its shape and dtype say."""
        data, dtype, shape, order = self.parts
        if not isinstance(dtype, _Dtype) or not isinstance(order, str) or order not in {"C", "F"}:
            raise refuse("holds an array of a wrong form")
        lengths = lengths_of(shape)
        plain = dtype.made()
        if not isinstance(data, bytes):
            raise refuse("holds an array without data")
        if len(data) != math.prod(lengths) * plain.itemsize:
            raise refuse("holds an array whose data do not have its shape")
        array: npt.NDArray[Any] = np.frombuffer(data, plain).reshape(
            lengths, order="F" if order == "F" else "C"
        )
        return array


def _given(*parts: object) -> _Array:
    made_of = _Array()
    made_of.parts = parts
    return made_of


def _from_buffer(data: object, dtype: object, shape: object, order: object) -> _Array:
    return _given(data, dtype, shape, order)


def _scalar(dtype: object, data: object) -> _Array:
    return _given(data, dtype, (), "C")


class _Encoder:
    """Undoes how old protocols write bytes, as often as the file has room for."""

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes

    def __call__(self, text: object, encoding: object) -> bytes:
        """Encode a text."""
        if not isinstance(text, str) or not isinstance(encoding, str) or encoding != "latin1":
            raise refuse("holds bytes of a wrong form")
        self._left -= len(text)
        if self._left < 0:
            raise refuse("makes more bytes than it has")
        return text.encode("latin1")


def _no_bytes() -> bytes:
    """Stand in for the class of bytes, which old protocols call for an empty array."""
    return b""


_NUMPY_NAMES: dict[tuple[str, str], Callable[..., object]] = {
    ("collections", "OrderedDict"): ordered,
    ("builtins", "bytes"): _no_bytes,
    ("__builtin__", "bytes"): _no_bytes,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    **{
        (f"numpy.{home}.{module}", name): stand_in
        for home in ("core", "_core")
        for module, name, stand_in in (
            ("multiarray", "_reconstruct", _Array),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _from_buffer),
        )
    },
}
"""What a pickle of arrays asks for, by the versions of Python and numpy that wrote it."""


def names_for(size_bytes: int) -> dict[tuple[str, str], Callable[..., object]]:
    """Return the names for one pickle of that many bytes."""
    return {**_NUMPY_NAMES, ("_codecs", "encode"): _Encoder(size_bytes)}


def read_array_pickle(data: bytes | mmap.mmap) -> object:
    """Read a pickle; arrays in dicts of any depth come as read-only arrays.

    Raises:
        pickle.UnpicklingError: It is damaged, or holds more than containers and arrays.
    """
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    with damage_told():
        return made(PlainUnpickler(source, names_for(len(data))).load())
