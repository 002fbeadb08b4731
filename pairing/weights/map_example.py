"""The lines of a map file that would settle what a weight plan leaves open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from padiff.pairing.maps.tomltext import quoted

from .weight_kinds import weight_name, with_captures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.side import Side

    from .weight_plan import WeightPair, WeightPlan

__all__ = ["example_of"]

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""A component of a path that is a number."""


def example_of(plan: WeightPlan, reference: Side, candidate: Side) -> tuple[str, ...]:
    """Write the map entries that say what the plan would take for what is ambiguous.

    Layers whose numbers are the same on both sides are written as one, ``layers.{i}``; of others
    that are numbered, the first stands for all.

    Returns:
        Lines of TOML after one that introduces them; nothing if nothing is ambiguous.
    """
    entries: dict[str, list[str]] = {}
    for pair in plan.ambiguous:
        target, lines = _entry(pair, plan, reference, candidate)
        entries.setdefault(_NUMBER.sub("#", target), lines)
    if not entries:
        return ()
    return (
        "such an entry in a map file settles it; this one takes the first way of the list:"
        if len(entries) == 1
        else "such entries in a map file settle it; these take the first way of each list:",
        *(f"  {line}" for lines in entries.values() for line in lines),
    )


def _entry(
    pair: WeightPair, plan: WeightPlan, reference: Side, candidate: Side
) -> tuple[str, list[str]]:
    """Return what an entry is about on the candidate, without numbers of blocks, and its lines."""
    module = _module_pair(pair, plan, reference, candidate)
    sides = reference.index.records, candidate.index.records
    names = [weight_name(reference, sides[0][one]) for one in pair.reference]
    names.append(weight_name(candidate, sides[1][pair.candidate]))
    place = (module or names)[-1]
    if _is_alike(plan, pair, reference, candidate):
        names, module = with_captures(names), module and with_captures(module)
    *sources, target = module or names
    lines = [
        "[[weight]]" if module is None else "[[pair]]",
        f"reference = {_list(sources)}",
        f"candidate = {quoted(target)}",
    ]
    if module is None:
        lines.append(f"rule = {quoted(str(pair.rule))}")
    return place, lines


def _module_pair(
    first: WeightPair, plan: WeightPlan, reference: Side, candidate: Side
) -> list[str] | None:
    """Give the paths of two modules if pairing these settles all their weights."""
    target = candidate.index.records[first.candidate].module
    own = [p for p in plan.pairs if candidate.index.records[p.candidate].module == target]
    sources = {reference.index.records[one].module for pair in own for one in pair.reference}
    is_choice = any(option.reference == first.reference for option in first.alternatives)
    is_single = len(sources) == 1 and all(len(pair.reference) == 1 for pair in own)
    if not is_single or is_choice:
        return None
    paths = reference.index.modules[sources.pop()].path, candidate.index.modules[target].path
    return list(paths) if all(paths) else None


def _is_alike(plan: WeightPlan, first: WeightPair, reference: Side, candidate: Side) -> bool:
    """Tell whether the plan has what it has for the first one in all layers of such names."""

    def forms(pair: WeightPair) -> tuple[list[str], list[str], list[list[str]]]:
        names = [weight_name(reference, reference.index.records[one]) for one in pair.reference]
        names.append(weight_name(candidate, candidate.index.records[pair.candidate]))
        plain = [_NUMBER.sub("#", name) for name in names]
        return plain[-1:], plain[:-1], [_NUMBER.findall(name) for name in names]

    wanted = forms(first)
    alike = [found for found in map(forms, plan.pairs) if found[0] == wanted[0]]
    return all(
        found[1] == wanted[1] and all(numbers == found[2][0] for numbers in found[2])
        for found in alike
    )


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(quoted, names))
    return shown if len(names) == 1 else f"[{shown}]"
