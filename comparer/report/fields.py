"""Typed access to parsed JSON that somebody else may have written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard, cast

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from padiff.dumpfile import JSON

__all__ = ["Fields"]

_NUMERIC = frozenset({int, float, type(None)})
_NAMED = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class Fields:
    """One JSON object, whose entries are asked for by name and type."""

    __slots__ = ("_around", "_data", "_name")

    def __init__(self, data: object, name: str, around: Fields | None = None) -> None:
        """Take an object.

        Args:
            data: What was parsed; a list in it may be an iterator, of which ``each`` asks for one
                entry at a time.
            name: What it is called, for messages.
            around: The object that it is in.

        Raises:
            ConfigError: It is no object.
        """
        self._name, self._around = name, around
        if not isinstance(data, dict):
            raise ConfigError(f"cannot read {self._where}: expected an object, found {_kind(data)}")
        self._data = data

    @property
    def names(self) -> tuple[str, ...]:
        """Give the names of all entries."""
        return tuple(self._data)

    def text(self, name: str) -> str:
        """Give a string."""
        found = self._data.get(name)
        if not isinstance(found, str):
            raise self._wrong(name, "a string")
        return found

    def maybe_text(self, name: str) -> str | None:
        """Give a string or None."""
        return None if self._is_null(name) else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of strings."""
        found = self._data.get(name)
        if not isinstance(found, list) or not _all_texts(found):
            raise self._wrong(name, "a list of strings")
        return tuple(found)

    def integer(self, name: str) -> int:
        """Give an integer."""
        found = self._data.get(name)
        if type(found) is not int:
            raise self._wrong(name, "an integer")
        return found

    def maybe_integer(self, name: str) -> int | None:
        """Give an integer or None."""
        return None if self._is_null(name) else self.integer(name)

    def integers(self, name: str) -> tuple[int, ...]:
        """Give a list of integers."""
        found = self._data.get(name)
        if not isinstance(found, list) or not _all_integers(found):
            raise self._wrong(name, "a list of integers")
        return tuple(found)

    def number(self, name: str) -> float | None:
        """Give a number, nan and inf included, or None."""
        found = self._data.get(name)
        if type(found) in _NUMERIC and (found is not None or name in self._data):
            return cast("float | None", found)
        if isinstance(found, str) and found in _NAMED:
            return _NAMED[found]
        raise self._wrong(name, "a number")

    def numbers(self, *, without: str) -> dict[str, float | None]:
        """Give all entries, which are numbers as ``number`` gives them, by name.

        Args:
            without: How the names end of those to leave out.
        """
        return {
            name: value if type(value) in _NUMERIC else self.number(name)
            for name, value in self._data.items()
            if not name.endswith(without)
        }

    def flag(self, name: str) -> bool:
        """Give a boolean."""
        found = self._data.get(name)
        if not isinstance(found, bool):
            raise self._wrong(name, "true or false")
        return found

    def maybe_flag(self, name: str) -> bool | None:
        """Give a boolean or None."""
        return None if self._is_null(name) else self.flag(name)

    def inner(self, name: str) -> Fields:
        """Give an object."""
        return Fields(self.raw(name), name, self)

    def maybe(self, name: str) -> Fields | None:
        """Give an object or None."""
        return None if self._is_null(name) else self.inner(name)

    def inners(self, name: str) -> tuple[Fields, ...]:
        """Give a list of objects."""
        return tuple(self.each(name))

    def each(self, name: str) -> Iterator[Fields]:
        """Yield the objects of a list, which may be an iterator."""
        found = self.raw(name)
        if not isinstance(found, list | Iterator):
            raise self._wrong(name, "a list")
        for place, entry in enumerate(found):
            yield Fields(entry, f"{name}[{place}]", self)

    def raw(self, name: str) -> JSON:
        """Give whatever is there."""
        if name not in self._data:
            raise self._wrong(name, "")
        return cast("JSON", self._data[name])

    def _is_null(self, name: str) -> bool:
        return self._data.get(name) is None and name in self._data

    @property
    def _where(self) -> str:
        return self._name if self._around is None else f"{self._around._where}.{self._name}"

    def _wrong(self, name: str, expected: str) -> ConfigError:
        if name not in self._data:
            return ConfigError(f"cannot read {self._where}: expected {name!r}, found no such entry")
        found = _kind(self._data[name])
        return ConfigError(f"cannot read {self._where}.{name}: expected {expected}, found {found}")


def _all_texts(found: list[JSON]) -> TypeGuard[list[str]]:
    return all(isinstance(entry, str) for entry in found)


def _all_integers(found: list[JSON]) -> TypeGuard[list[int]]:
    return all(isinstance(entry, int) and not isinstance(entry, bool) for entry in found)


def _kind(data: object) -> str:
    return "null" if data is None else type(data).__name__
