"""Which modules are recorded: include and exclude patterns, and a depth.

A pattern is a glob over module paths (``encoder.*``, ``(root)`` is the root) or over classes
(``type:Linear``, short or full name, base classes count), with an optional reach::

    encoder.0            the module and everything below it
    encoder.0@self       the module alone
    type:Attention@sublayers   what lies below, not the module

In a glob over paths ``*`` also matches dots.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Reach(StrEnum):
    """Which modules a pattern speaks about, given the ones that it matches."""

    SELF = "self"
    SUBLAYERS = "sublayers"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleName:
    """What patterns look at."""

    path: str
    """Dotted path, ``""`` for the root."""
    classes: tuple[str, ...] = ()
    """Full names of the class and its bases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One include or exclude pattern."""

    glob: str
    """Glob over paths, or over class names where ``by_class``."""
    by_class: bool = False
    reach: Reach = Reach.BOTH

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """Read ``PATH-GLOB`` or ``type:CLASS-GLOB``, each with an optional ``@REACH``.

        Raises:
            ConfigError: The pattern is empty or the reach is no such word.

        >>> Pattern.parse("type:Linear@self").reach
        <Reach.SELF: 'self'>
        """
        glob, at, reach = text.strip().partition("@")
        by_class = glob.startswith("type:")
        glob = glob.removeprefix("type:")
        if not glob:
            raise ConfigError(f"cannot read module pattern {text!r}: expected a glob, found none")
        if at and reach not in {item.value for item in Reach}:
            raise ConfigError(
                f"cannot read module pattern {text!r}: expected self, sublayers or both after "
                f"'@', found {reach!r}"
            )
        return cls(glob=glob, by_class=by_class, reach=Reach(reach) if at else Reach.BOTH)

    def matches(self, module: ModuleName) -> bool:
        """Return whether the glob itself fits the module, whatever the reach."""
        if not self.by_class:
            return fnmatchcase(module.path or "(root)", self.glob)
        return any(
            fnmatchcase(name, self.glob) or fnmatchcase(name.rpartition(".")[2], self.glob)
            for name in module.classes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The patterns of one recording."""

    include: tuple[Pattern, ...] = ()
    """Empty means every module. The root's own call is always included."""
    exclude: tuple[Pattern, ...] = ()
    """Wins over ``include``."""
    depth: int | None = None
    """Deepest level whose calls are recorded; the root is 0. None means all."""

    def __post_init__(self) -> None:
        """Check the depth."""
        if self.depth is not None and self.depth < 0:
            raise ConfigError(f"cannot record to depth {self.depth}: expected 0 or more")

    @classmethod
    def parse(
        cls, *, include: Sequence[str] = (), exclude: Sequence[str] = (), depth: int | None = None
    ) -> Selection:
        """Read the patterns from text; raises ConfigError for a wrong one."""
        return cls(
            include=tuple(Pattern.parse(text) for text in include),
            exclude=tuple(Pattern.parse(text) for text in exclude),
            depth=depth,
        )

    def select(self, modules: Sequence[ModuleName]) -> frozenset[str]:
        """Return the paths whose tensors are recorded; ``depth`` is not looked at.

        Raises:
            ConfigError: A pattern matches no module: it is probably misspelt.
        """
        chosen = {module.path for module in modules}
        if self.include:
            chosen = {""}.union(*(_reached(pattern, modules) for pattern in self.include))
        for pattern in self.exclude:
            chosen -= _reached(pattern, modules)
        return frozenset(chosen)

    def is_within_depth(self, path: str) -> bool:
        """Return whether calls of a module at this path are recorded."""
        level = len(path.split(".")) if path else 0
        return self.depth is None or level <= self.depth


def _reached(pattern: Pattern, modules: Sequence[ModuleName]) -> set[str]:
    hits = {module.path for module in modules if pattern.matches(module)}
    if not hits:
        raise ConfigError(
            f"cannot select modules by {pattern.glob!r}: no module "
            f"{'class' if pattern.by_class else 'path'} matches",
            hint="'padiff show DUMP' prints the paths and classes of a recorded model",
        )
    below = {module.path for module in modules if _has_ancestor(module.path, hits)}
    if pattern.reach is Reach.SELF:
        return hits
    if pattern.reach is Reach.SUBLAYERS:
        return below
    return hits | below


def _has_ancestor(path: str, candidates: set[str]) -> bool:
    if not path:
        return False
    parts = path.split(".")
    return any(".".join(parts[:count]) in candidates for count in range(len(parts)))
