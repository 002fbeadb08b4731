"""Patterns of module paths in map files: ``layers.{i}.q``, ``backbone.**``, ``**.dropout``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from padiff.dumpfile import ConfigError

__all__ = ["PathPattern"]

_PART = re.compile(r"\{(\w*)\}|\*\*|\*|\?|[^*?{}]+|[{}]")


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A dotted path in which parts are left open.

    ``*`` is any text without a dot, ``?`` one character of it, ``**`` any number of components
    (none included), ``{name}`` one component that is captured.
    """

    text: str
    regex: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> PathPattern:
        """Read a pattern; ``(root)`` is the root module.

        Raises:
            ConfigError: A brace is not closed, or a capture has no proper name.
        """
        source = ""
        seen: set[str] = set()
        for match in _PART.finditer("" if text == "(root)" else text):
            part, name = match[0], match[1]
            if name is not None and (name in seen or not name.isidentifier()):
                raise ConfigError(f"cannot read the pattern {text!r}: bad capture {part!r}")
            if part in {"{", "}"}:
                raise ConfigError(f"cannot read the pattern {text!r}: stray {part!r}")
            source += _translate(part, name)
            seen.update([name] if name else [])
        # ``**`` next to a dot stands for no component at all, too.
        source = source.replace(r".*\.", r"(?:.*\.)?").replace(r"\..*", r"(?:\..*)?")
        return cls(text, re.compile(source))

    def match(self, path: str) -> dict[str, str] | None:
        """Give the captured components of a path, None if the pattern does not match it."""
        found = self.regex.fullmatch(path)
        return None if found is None else found.groupdict()

    @property
    def is_literal(self) -> bool:
        """Tell whether the pattern is the path that it matches."""
        return not set(self.text) & set("*?{}")

    @property
    def path(self) -> str:
        """Give the path that a literal pattern stands for."""
        return "" if self.text == "(root)" else self.text

    @property
    def captures(self) -> frozenset[str]:
        """Give the names of the captures."""
        return frozenset(self.regex.groupindex)


def _translate(part: str, name: str | None) -> str:
    if name is not None:
        return rf"(?P<{name}>[^.]+)"
    return {"**": ".*", "*": "[^.]*", "?": "[^.]"}.get(part) or re.escape(part)
