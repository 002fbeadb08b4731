"""Where commands write: the report to stdout, JSON to files, and nothing half-written."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ConfigError
from padiff.dumpfile.wholefile import whole_file

from .joblog import defused, defused_json, from_here
from .waiting import end_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from rich.console import Console

_IN_MEMORY_BYTES = 16 << 20
"""Of what is to appear whole on stdout; what is longer waits in a temporary file."""
_PIECE = 1 << 16
"""Characters that are written at once."""
NO_WIDTH = 1 << 16
"""Columns of a report that goes to no terminal, unless COLUMNS says otherwise: none wraps."""


class _Buffer(io.StringIO):
    """Text in memory that has an encoding, by which rich and the reports choose characters."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Name of the encoding of where the text will go."""
        return self._encoding


def render_to_text(draw: Callable[[Console], None]) -> str:
    """Let a renderer draw on a console that fits stdout, and give what it drew.

    On a terminal: its width, Unicode lines if its encoding is UTF-8, colours unless ``NO_COLOR``
    is set or the terminal is dumb. Otherwise: plain ASCII, in which no line is wrapped. No line is
    a command to a CI service.
    """
    from rich.console import Console  # noqa: PLC0415 -- rich only where something is rendered

    encoding = _encoding()
    buffer = _Buffer(encoding)
    coloured = (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )
    console = Console(
        file=buffer,
        width=max(40, shutil.get_terminal_size((NO_WIDTH, 24)).columns),
        force_terminal=coloured,
        no_color=not coloured,
        color_system="standard" if coloured else None,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=False,
        legacy_windows=False,
        force_jupyter=False,  # there, rich would display what it draws
    )
    draw(console)
    text = "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())
    return defused(text.encode(encoding, "backslashreplace").decode(encoding))


def _encoding() -> str:
    """Return the encoding of what goes to stdout: a terminal's own, else ASCII."""
    return (sys.stdout.encoding or "ascii").lower() if sys.stdout.isatty() else "ascii"


def is_plain() -> bool:
    """Return whether stdout gets ASCII only."""
    return not _encoding().startswith("utf")


def emit(text: str) -> None:
    """Write text to stdout, in which no line is a command to a CI service.

    Whoever closed the pipe early has read enough, which changes no exit code: ``padiff compare
    a b | head`` still says by its status whether the dumps agree. Paths below the current folder
    begin there.
    """
    emit_as_it_is(defused(from_here(text)))


def emit_as_it_is(text: str) -> None:
    """Write to stdout what may hold commands to a CI service."""
    _emit([text])


def emit_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout as they are made, in which none is a command to a CI service."""
    _emit(defused(line) + "\n" for line in lines)


def emit_json(data: object) -> None:
    """Write strict JSON to stdout."""
    _emit(map(defused_json, json_pieces(data)))


def emit_whole_json(data: object) -> None:
    """Write strict JSON to stdout, all of it or nothing if making it fails.

    Args:
        data: As ``write_json`` takes it.
    """
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, "w+", encoding="utf-8") as whole:
        whole.writelines(map(defused_json, json_pieces(data)))
        whole.seek(0)
        _emit(iter(partial(whole.read, _PIECE), ""))


def _emit(pieces: Iterable[str]) -> None:
    end_waiting()
    try:
        sys.stdout.writelines(pieces)
        sys.stdout.flush()
    except BrokenPipeError:
        # Later writes, and the interpreter's flush at exit, must not complain either.
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)


def check_place(path: Path, *, option: str = "") -> None:
    """Refuse a place for a file before the long work, not after it; its folder need not exist.

    Args:
        path: Where the file is to be written.
        option: The option that named it.

    Raises:
        ConfigError: It is a folder, or cannot be in one.
    """
    above = next((one for one in path.absolute().parents if one.exists()), None)
    if path.is_dir() or above is None or not above.is_dir():
        where = f"{option} to {str(path)!r}" if option else repr(str(path))
        found = "a folder" if path.is_dir() else f"{str(above)!r}, which is none"
        raise ConfigError(f"cannot write {where}: expected a file name in a folder, found {found}")


def write_json(path: Path, data: object) -> None:
    """Write strict JSON to a file that appears whole or not at all.

    Args:
        path: Where to.
        data: As ``json_pieces`` takes it.

    Raises:
        ConfigError: The place cannot be written.
    """
    _write(path, json_pieces(data))


def write_text(path: Path, text: str) -> None:
    """Write text to a file that appears whole or not at all; its folder is made.

    What is no plain file, such as a pipe, is written to as it is.

    Raises:
        ConfigError: The place cannot be written, or somebody else is writing the same file.
    """
    _write(path, [text])


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes to a file that appears whole or not at all.

    Raises:
        ConfigError: The place cannot be written, or somebody else is writing the same file.
    """
    _write(path, [data], binary=True)


def _write(path: Path, pieces: Iterable[Any], *, binary: bool = False) -> None:
    kind, encoding = ("b", None) if binary else ("", "utf-8")
    try:
        if path.exists() and not path.is_file():
            with path.open(f"w{kind}", encoding=encoding) as pipe:
                pipe.writelines(pieces)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as partial, partial.open(f"x{kind}", encoding=encoding) as file:
                file.writelines(pieces)
    except OSError as error:
        raise ConfigError(
            f"cannot write {str(path)!r}: {error.strerror or error}",
            hint="name a file in a writable folder with room for it",
        ) from error


def _listed(thing: object) -> list[object]:
    """Return an iterator inside what goes on one line as a list."""
    if isinstance(thing, Iterator):
        return list(thing)
    raise TypeError(f"expected what JSON knows, found {type(thing).__name__}")


_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=True, default=_listed)
"""Without ``indent``, which the module's encoder in C does not know."""
_OUTER = 1
"""Level up to which an object has a line for each entry: the document, and what is in it."""
_WORDY = frozenset({dict, str})
"""Of which a list has a line for each entry, and the object that holds such a list."""


def json_pieces(data: object) -> Iterator[str]:
    r"""Encode as strict JSON, piece by piece: ASCII, no bare nan or inf, ends in a line break.

    The document, the objects in it, and objects that hold a list of objects or strings have a line
    for each entry, a blank further in for each level. So have their lists, but those of numbers.
    All else is on the line of the entry it belongs to.

    Args:
        data: What ``json`` takes; lists of objects may be iterators, of which one entry is asked
            for at a time.

    Raises:
        ValueError: A number is not finite.
        TypeError: It holds something that JSON does not.

    >>> data = {"sizes": [1, 2], "pairs": [{"a": {"b": 1}}, {"a": None}]}
    >>> print("".join(json_pieces(data)), end="")
    {
     "sizes": [1, 2],
     "pairs": [
      {"a": {"b": 1}},
      {"a": null}
     ]
    }
    """
    yield from _laid_out(data, 0)
    yield "\n"


def _laid_out(data: object, level: int) -> Iterator[str]:
    if isinstance(data, dict) and _is_open(data, level):
        yield from _object(data, level)
    elif isinstance(data, Iterator) or (isinstance(data, list) and _has_lines(data)):
        yield from _list(data, level)
    else:
        yield _ENCODER.encode(data)


def _object(data: dict[str, object], level: int) -> Iterator[str]:
    start = "\n" + " " * (level + 1)
    for place, (name, value) in enumerate(data.items()):
        yield f"{',' if place else '{'}{start}{_ENCODER.encode(name)}: "
        yield from _laid_out(value, level + 1)
    yield "\n" + " " * level + "}"


def _list(entries: Iterable[object], level: int) -> Iterator[str]:
    start = "\n" + " " * (level + 1)
    first = "[" + start
    separator = first
    for entry in entries:
        if isinstance(entry, dict) and not _is_open(entry, level + 1):
            yield separator + _ENCODER.encode(entry)  # nearly all of a long document
        else:
            yield separator
            yield from _laid_out(entry, level + 1)
        separator = "," + start
    yield "[]" if separator is first else "\n" + " " * level + "]"


def _is_open(data: dict[str, object], level: int) -> bool:
    """Return whether an object has a line for each entry."""
    if level <= _OUTER:
        return bool(data)
    if GeneratorType in map(type, data.values()):
        return True
    lists = [value for value in data.values() if type(value) is list and value]
    return any(type(entries[0]) in _WORDY for entries in lists)


def _has_lines(entries: list[object]) -> bool:
    """Return whether a list has a line for each entry."""
    return bool(entries) and type(entries[0]) in {*_WORDY, list}
