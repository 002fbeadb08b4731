"""Typed access to parsed JSON that somebody else may have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from padiff.dumpfile import JSON

__all__ = ["Fields"]

_NAMED = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class Fields:
    """One JSON object, whose entries are asked for by name and type."""

    def __init__(self, data: JSON, where: str) -> None:
        """Take an object.

        Args:
            data: What was parsed.
            where: Its place in the document, for messages.

        Raises:
            ConfigError: It is no object.
        """
        if not isinstance(data, dict):
            raise ConfigError(f"cannot read {where}: expected an object, found {_kind(data)}")
        self._data = data
        self._where = where

    @property
    def names(self) -> tuple[str, ...]:
        """Give the names of all entries."""
        return tuple(self._data)

    def text(self, name: str) -> str:
        """Give a string."""
        found = self._get(name)
        if not isinstance(found, str):
            raise self._wrong(name, "a string", found)
        return found

    def maybe_text(self, name: str) -> str | None:
        """Give a string or None."""
        return None if self._get(name) is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Give a list of strings."""
        found = self._list(name)
        if not _all_texts(found):
            raise self._wrong(name, "strings", found)
        return tuple(found)

    def integer(self, name: str) -> int:
        """Give an integer."""
        found = self._get(name)
        if not isinstance(found, int) or isinstance(found, bool):
            raise self._wrong(name, "an integer", found)
        return found

    def maybe_integer(self, name: str) -> int | None:
        """Give an integer or None."""
        return None if self._get(name) is None else self.integer(name)

    def integers(self, name: str) -> tuple[int, ...]:
        """Give a list of integers."""
        found = self._list(name)
        if not _all_integers(found):
            raise self._wrong(name, "integers", found)
        return tuple(found)

    def number(self, name: str) -> float | None:
        """Give a number, nan and inf included, or None."""
        found = self._get(name)
        if found is None or (isinstance(found, int | float) and not isinstance(found, bool)):
            return found
        if isinstance(found, str) and found in _NAMED:
            return _NAMED[found]
        raise self._wrong(name, "a number", found)

    def flag(self, name: str) -> bool:
        """Give a boolean."""
        found = self._get(name)
        if not isinstance(found, bool):
            raise self._wrong(name, "true or false", found)
        return found

    def maybe_flag(self, name: str) -> bool | None:
        """Give a boolean or None."""
        return None if self._get(name) is None else self.flag(name)

    def inner(self, name: str) -> Fields:
        """Give an object."""
        return Fields(self._get(name), f"{self._where}.{name}")

    def maybe(self, name: str) -> Fields | None:
        """Give an object or None."""
        return None if self._get(name) is None else self.inner(name)

    def inners(self, name: str) -> tuple[Fields, ...]:
        """Give a list of objects."""
        return tuple(
            Fields(entry, f"{self._where}.{name}[{place}]")
            for place, entry in enumerate(self._list(name))
        )

    def raw(self, name: str) -> JSON:
        """Give whatever is there."""
        return self._get(name)

    def _list(self, name: str) -> list[JSON]:
        found = self._get(name)
        if not isinstance(found, list):
            raise self._wrong(name, "a list", found)
        return found

    def _get(self, name: str) -> JSON:
        if name not in self._data:
            raise ConfigError(f"cannot read {self._where}: expected {name!r}, found no such entry")
        return self._data[name]

    def _wrong(self, name: str, expected: str, found: JSON) -> ConfigError:
        return ConfigError(
            f"cannot read {self._where}.{name}: expected {expected}, found {_kind(found)}"
        )


def _all_texts(found: list[JSON]) -> TypeGuard[list[str]]:
    return all(isinstance(entry, str) for entry in found)


def _all_integers(found: list[JSON]) -> TypeGuard[list[int]]:
    return all(isinstance(entry, int) and not isinstance(entry, bool) for entry in found)


def _kind(data: JSON) -> str:
    return "null" if data is None else type(data).__name__
