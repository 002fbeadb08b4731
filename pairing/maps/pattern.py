"""Patterns of module paths in map files: ``layers.{i}.q``, ``backbone.**``, ``**.dropout``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

from .openpath import Kind, Part, match_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PathPattern"]

_FIXED = frozenset({Kind.TEXT, Kind.CHARACTER})
_EXPRESSIONS = {
    Kind.CHARACTER: "[^.]",
    Kind.COMPONENT: "[^.]*",
    Kind.ANY: ".*",
    Kind.ABOVE: r"(?:.*\.)?",
    Kind.BELOW: r"(?:\..*)?",
}
_MOST_WAYS = 100_000
_MANY = 20
_PART = re.compile(r"\{(\w*)\}|\*\*|\*|\?|[^*?{}]+|[{}]")


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A dotted path in which parts are left open.

    ``*`` is any text without a dot, ``?`` one character of it, ``**`` any number of components
    (none included), ``{name}`` one component that is captured.
    """

    text: str
    parts: tuple[Part, ...]
    source: str
    """The same as a regular expression; faster, for patterns and paths in which it cannot lose its
    way. Empty where a pattern leaves nothing open: it is compared as it is then."""
    captures: frozenset[str]
    """Names of the captures."""

    @classmethod
    def parse(cls, text: str) -> PathPattern:
        """Read a pattern; ``(root)`` is the root module.

        Raises:
            ConfigError: A brace is not closed, or a capture has no proper name.
        """
        parts: list[Part] = []
        seen: set[str] = set()
        for match in _PART.finditer("" if text == "(root)" else text):
            part, name = match[0], match[1]
            if name is not None and (name in seen or not name.isidentifier()):
                raise ConfigError(f"cannot read the pattern {text!r}: bad capture {part!r}")
            if part in {"{", "}"}:
                raise ConfigError(f"cannot read the pattern {text!r}: stray {part!r}")
            parts.append(_part(part, name))
            seen.update([name] if name else [])
        joined = tuple(_joined(parts))
        is_open = any(part.kind is not Kind.TEXT for part in joined)
        source = "".join(map(_expression, joined)) if is_open else ""
        return cls(text, joined, source, frozenset(seen))

    def match(self, path: str) -> dict[str, str] | None:
        """Give the captured components of a path, None if the pattern does not match it."""
        if self.is_literal:
            return {} if path == self.path else None
        if self._ways(len(path)) > _MOST_WAYS:
            return match_parts(self.parts, path)
        found = self.regex.fullmatch(path)
        return None if found is None else found.groupdict()

    def _ways(self, length: int) -> int:
        """Bound the ways to divide a path among the open parts, all of which may be tried."""
        count = sum(part.kind not in _FIXED for part in self.parts)
        ways: int = min(length + 1, _MOST_WAYS) ** min(count, _MANY)
        return ways

    @property
    def regex(self) -> re.Pattern[str]:
        """Compile the regular expression, or take it from memory."""
        return re.compile(self.source, re.DOTALL)

    @property
    def is_literal(self) -> bool:
        """Tell whether the pattern is the path that it matches."""
        return not self.source

    @property
    def path(self) -> str:
        """Give the path that a literal pattern stands for."""
        return "" if self.text == "(root)" else self.text


def _part(text: str, name: str | None) -> Part:
    if name is not None:
        return Part(Kind.CAPTURE, name)
    open_kind = {"**": Kind.ANY, "*": Kind.COMPONENT, "?": Kind.CHARACTER}.get(text)
    return Part(Kind.TEXT, text) if open_kind is None else Part(open_kind)


def _joined(parts: list[Part]) -> Iterator[Part]:
    """Let ``**`` next to a dot stand for no component at all, too."""
    rest = list(reversed(parts))
    while rest:
        part = rest.pop()
        after = rest[-1] if rest else None
        if part.kind is Kind.ANY and after is not None and after.text.startswith("."):
            rest[-1] = Part(Kind.TEXT, after.text[1:])
            yield Part(Kind.ABOVE)
        elif part.kind is Kind.TEXT and part.text.endswith(".") and _is_any(after):
            rest.pop()
            yield Part(Kind.TEXT, part.text[:-1])
            yield Part(Kind.BELOW)
        else:
            yield part


def _is_any(part: Part | None) -> bool:
    return part is not None and part.kind is Kind.ANY


def _expression(part: Part) -> str:
    if part.kind is Kind.TEXT:
        return re.escape(part.text)
    if part.kind is Kind.CAPTURE:
        return rf"(?P<{part.text}>[^.]+)"
    return _EXPRESSIONS[part.kind]
