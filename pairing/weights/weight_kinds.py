"""Names of weights, and one name for what the blocks of a model have in common.

``h.{i}.norm1 / norm2 (3 blocks)`` stands for both norms of three blocks, with all that they own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.side import Side

    from .weight_plan import WeightPair

__all__ = ["WeightKind", "folded_names", "kinds_of", "numbers_in", "weight_name", "with_captures"]

_CAPTURES = "ijklmn"
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""A component of a path that is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightKind:
    """Pairs of one kind: of modules of one class at like places, in doubt for like reasons."""

    name: str
    """The place, with the count of blocks."""
    first: WeightPair


def weight_name(side: Side, record: RecordInfo) -> str:
    """Return a parameter's full dotted name."""
    return f"{side.index.modules[record.module].path}{record.slot}".removeprefix(".")


def numbers_in(name: str) -> list[str]:
    """Return the components of a name that are numbers."""
    return _NUMBER.findall(name)


def folded_names(names: Iterable[str]) -> str:
    """Write the paths of modules that lie beside each other as one.

    >>> folded_names(["h.0.norm1", "h.0.norm2", "h.1.norm1", "h.1.norm2"])
    'h.{i}.norm1 / norm2 (2 blocks)'
    >>> folded_names(["fc"])
    'fc'
    """
    every = list(names)
    blocks = len({tuple(numbers_in(name)) for name in every})
    folded = list(dict.fromkeys(every if blocks == 1 else with_captures(every)))
    above = folded[0].rpartition(".")[0]
    shown = " / ".join([folded[0], *(name.removeprefix(f"{above}.") for name in folded[1:])])
    return shown if blocks == 1 else f"{shown} ({blocks} blocks)"


def kinds_of(pairs: Iterable[WeightPair], candidate: Side) -> list[WeightKind]:
    """Group pairs by where their modules are, the numbers of blocks aside.

    Args:
        pairs: Of a plan.
        candidate: Whose records they are of.
    """
    groups: dict[tuple[object, ...], list[WeightPair]] = {}
    for pair in pairs:
        record = candidate.index.records[pair.candidate]
        module = candidate.index.modules[record.module]
        place = _NUMBER.sub("#", module.path).rpartition(".")[0]
        key = place, module.class_path, pair.note, len(pair.alternatives)
        groups.setdefault(key, []).append(pair)
    found = []
    for group in groups.values():
        records = [candidate.index.records[pair.candidate] for pair in group]
        paths = [candidate.index.modules[record.module].path for record in records]
        is_module = len(group) > 1 and all(paths)
        names = paths if is_module else [weight_name(candidate, record) for record in records]
        found.append(WeightKind(name=folded_names(names), first=group[0]))
    return found


def with_captures(names: Sequence[str]) -> list[str]:
    """Write ``{i}`` for the numbers in names that have the same ones."""
    parts = [name.split(".") for name in names]
    if sum(part.isdecimal() for part in parts[0]) > len(_CAPTURES):
        return list(names)
    made = []
    for name in parts:
        letters = iter(_CAPTURES)
        made.append(".".join(f"{{{next(letters)}}}" if p.isdecimal() else p for p in name))
    return made
