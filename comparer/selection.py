"""Patterns that name modules: globs over module paths, and ``type:ClassName``.

Those that select what is looked at mean the module and all inside it, like those that select what
is recorded; ``encoder.0@self`` is the module alone, ``encoder.0@sublayers`` what is inside it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumpfile import Index


_REACHES = ("self", "sublayers", "both")

TYPE_PREFIX = "type:"
ROOT = "(root)"


def matches(pattern: str, module: str, class_name: str, slot: str = "") -> bool:
    """Return whether a pattern names a module, or the weight of a module.

    Args:
        pattern: ``encoder.*.norm1`` (``*`` also crosses dots, so ``**`` means the same),
            ``(root)``, or ``type:LayerNorm``. A glob may also name a weight:
            ``encoder.0.linear1.weight``.
        module: Dotted path, ``""`` for the root.
        class_name: Short class name.
        slot: Slot of a record, such as ``.weight``.

    >>> matches("encoder.*.norm?", "encoder.3.norm1", "LayerNorm")
    True
    >>> matches("type:*Norm", "encoder.3.norm1", "LayerNorm")
    True
    """
    if pattern.startswith(TYPE_PREFIX):
        return fnmatchcase(class_name, pattern.removeprefix(TYPE_PREFIX))
    if fnmatchcase(module or ROOT, pattern):
        return True
    return slot.startswith(".") and fnmatchcase((module + slot).lstrip("."), pattern)


def named_modules(index: Index, patterns: Iterable[str]) -> frozenset[int]:
    """Find the modules that patterns name, by any of their paths, and what is inside them.

    Args:
        index: Of one step and rank.
        patterns: As for ``matches``, each with an optional ``@self``, ``@sublayers`` or ``@both``.

    Raises:
        ConfigError: The word after ``@`` is none of these.
    """
    wanted = [_read(pattern) for pattern in patterns]
    if not wanted:
        return frozenset()
    class_names = {module.path: module.class_name for module in index.modules}
    return frozenset(
        module.id
        for module in index.modules
        if any(
            _reaches(glob, reach, path, class_names)
            for glob, reach in wanted
            for path in (module.path, *module.aliases)
        )
    )


def _read(pattern: str) -> tuple[str, str]:
    """Take a pattern apart into the glob and how far it reaches."""
    glob, at, reach = pattern.partition("@")
    if at and reach not in _REACHES:
        raise ConfigError(
            f"cannot read module pattern {pattern!r}: expected self, sublayers or both after '@', "
            f"found {reach!r}"
        )
    return glob, reach or "both"


def _reaches(glob: str, reach: str, module: str, class_names: dict[str, str]) -> bool:
    """Return whether a glob names a module or, if it reaches so far, one that contains it."""
    if reach != "sublayers" and matches(glob, module, class_names.get(module, "")):
        return True
    path = module
    while path and reach != "self":
        path = path.rpartition(".")[0]
        if matches(glob, path, class_names.get(path, "")):
            return True
    return False
