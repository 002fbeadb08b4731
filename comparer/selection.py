"""Patterns that name modules: globs over module paths, and ``type:ClassName``."""

from __future__ import annotations

from fnmatch import fnmatchcase

__all__ = ["matches", "matches_within"]

TYPE_PREFIX = "type:"
ROOT = "(root)"


def matches(pattern: str, module: str, class_name: str, slot: str = "") -> bool:
    """Tell whether a pattern names a module, or the weight of a module.

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


def matches_within(pattern: str, module: str, class_names: dict[str, str]) -> bool:
    """Tell whether a pattern names a module or anything that contains it.

    Args:
        pattern: As for ``matches``.
        module: Dotted path.
        class_names: Short class name by module path, of the whole tree.
    """
    path = module
    while True:
        if matches(pattern, path, class_names.get(path, "")):
            return True
        if not path:
            return False
        path = path.rpartition(".")[0]
