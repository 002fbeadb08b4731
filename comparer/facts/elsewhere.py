"""Settings that differ in modules that are no origin: tolerances hide them, or training does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.result import Kind
from padiff.pairing import kind_of

from .attributes import attribute_differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.result import Divergence
    from padiff.dumpfile import Index, ModuleInfo
    from padiff.pairing import Pairing

__all__ = ["attribute_notes"]

_Settings = tuple[str, str, tuple[str, ...], bool, str]
MOST_LINES = 6
"""Differences that are written out, those of the most modules first."""
MOST_NAMES = 3
"""Modules that are written out for each."""


def attribute_notes(
    pairing: Pairing,
    sides: tuple[Index, Index],
    frameworks: tuple[str, str],
    divergences: Sequence[Divergence],
) -> tuple[str, ...]:
    """Give a line for each setting that differs in paired layers other than the origins.

    Only layers of a known kind, or of one class of one framework, whose settings mean the same.

    Args:
        pairing: Which module is which.
        sides: The reference's index and the candidate's.
        frameworks: The reference's and the candidate's, for the vocabulary of attributes.
        divergences: Of the step; origins say their own differences.
    """
    told = {
        found.pair.reference.module
        for found in divergences
        if found.kind is Kind.ORIGIN and found.pair.reference is not None
    }
    where: dict[str, dict[str, None]] = {}
    seen: dict[tuple[_Settings, _Settings], tuple[str, ...]] = {}
    for one, two in _modules(pairing, sides):
        known, found = sides[0].modules[one], sides[1].modules[two]
        if known.id in told or (known is found and frameworks[0] == frameworks[1]):
            continue
        key = _settings(known), _settings(found)
        if key not in seen:
            seen[key] = _differences(known, found, frameworks)
        for text in seen[key]:
            where.setdefault(text, {})[known.path or "(root)"] = None
    lines = [
        f"{text}: in {_names(list(modules))}, which {'are' if len(modules) > 1 else 'is'} no origin"
        for text, modules in sorted(where.items(), key=lambda one: -len(one[1]))
    ]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"{len(lines) - MOST_LINES} more attributes differ elsewhere"]
    return tuple(lines)


def _modules(pairing: Pairing, sides: tuple[Index, Index]) -> Iterator[tuple[int, int]]:
    """Yield the paired modules, and those whose calls are paired: one may stand for several."""
    found = [(pair.reference, pair.candidate) for pair in pairing.modules]
    yield from found
    called = {
        (sides[0].calls[pair.reference].module, sides[1].calls[pair.candidate].module)
        for pair in pairing.calls
    }
    yield from sorted(called.difference(found))


def _settings(module: ModuleInfo) -> _Settings:
    """Give all that a comparison of settings looks at: most modules of a class are set alike."""
    said = repr(module.attributes) if module.attributes else ""  # 1 is neither True nor 1.0
    return module.class_path, module.class_name, module.bases, module.training, said


def _differences(
    known: ModuleInfo, found: ModuleInfo, frameworks: tuple[str, str]
) -> tuple[str, ...]:
    """Give what differs between two modules, as text; nothing where that means nothing."""
    if not _are_comparable(known, found, frameworks):
        return ()
    return tuple(map(str, attribute_differences(known, found, frameworks=frameworks)))


def _are_comparable(known: ModuleInfo, found: ModuleInfo, frameworks: tuple[str, str]) -> bool:
    kinds = kind_of(known), kind_of(found)
    if None not in kinds:
        return kinds[0] == kinds[1]
    return frameworks[0] == frameworks[1] and known.class_path == found.class_path


def _names(modules: list[str]) -> str:
    shown = ", ".join(modules[:MOST_NAMES])
    more = len(modules) - MOST_NAMES
    return f"{shown} and {more} more modules" if more > 0 else shown
