"""What a refused weight plan shows: map lines that would settle it, and the trees it is about.

Only the branches that lead to a problem are drawn; each weight concerned is marked ``<--- HERE``
with what is wrong and what comes closest on the other side::

    candidate
    (root)  Net
    |- ... 2 more
    `- head  Linear
       `- weight (4, 7)   <--- HERE  no partner of this kind and shape; closest: fc.weight (5, 4)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.pairing.result import SideName

from .weight_text import NUMBER, closest_of, entry, weight_name, with_captures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.dumpfile import ModuleInfo
    from padiff.pairing.side import Side

    from .weight_plan import WeightPair, WeightPlan


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
        entries.setdefault(NUMBER.sub("#", target), lines)
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
    if module is None:
        return place, entry("weight", sources, target, pair.rule)
    return place, entry("pair", sources, target)


def _module_pair(
    first: WeightPair, plan: WeightPlan, reference: Side, candidate: Side
) -> list[str] | None:
    """Return the paths of two modules if pairing these settles all their weights."""
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
    """Return whether the plan has what it has for the first one in all layers of such names."""

    def forms(pair: WeightPair) -> tuple[list[str], list[str], list[list[str]]]:
        names = [weight_name(reference, reference.index.records[one]) for one in pair.reference]
        names.append(weight_name(candidate, candidate.index.records[pair.candidate]))
        plain = [NUMBER.sub("#", name) for name in names]
        return plain[-1:], plain[:-1], [NUMBER.findall(name) for name in names]

    wanted = forms(first)
    alike = [found for found in map(forms, plan.pairs) if found[0] == wanted[0]]
    return all(
        found[1] == wanted[1] and all(numbers == found[2][0] for numbers in found[2])
        for found in alike
    )


_MAX_MARKS = 40
"""More marks on one side are counted, not drawn."""


def draw_problems(plan: WeightPlan, reference: Side, candidate: Side) -> tuple[str, ...]:
    """Draw both trees with what is missing; nothing if nothing is.

    What is ambiguous has a partner, and is no matter of where it is: one line says it for all
    blocks, and map entries stand beside it.
    """
    marks: tuple[dict[int, str], dict[int, str]] = ({}, {})
    for alone in plan.missing:
        place = int(alone.side is SideName.CANDIDATE)
        other = (candidate, reference)[place]
        marks[place][alone.record] = f"{alone.reason}{closest_of(alone, other)}"
    lines: list[str] = []
    sides = (SideName.REFERENCE, reference), (SideName.CANDIDATE, candidate)
    for (name, side), found in zip(sides, marks, strict=True):
        if found:
            lines += [str(name), *_Tree(side, found).lines()]
    return tuple(lines)


class _Tree:
    """One side's tree, cut down to the branches with marks."""

    def __init__(self, side: Side, marks: Mapping[int, str]) -> None:
        self.modules = side.index.modules
        self.records = side.index.records
        shown = sorted(marks)[:_MAX_MARKS]
        self.hidden = len(marks) - len(shown)
        self.marks = {record: marks[record] for record in shown}
        self.weights: dict[int, list[int]] = {}
        for record in shown:
            self.weights.setdefault(self.records[record].module, []).append(record)
        self.kept = {above for module in self.weights for above in self._up(module)}
        self.children: dict[int | None, list[ModuleInfo]] = {}
        for module in self.modules:
            self.children.setdefault(module.parent, []).append(module)

    def lines(self) -> Iterator[str]:
        waiting = [(self.modules[0], "", "")]  # no recursion: a dump may be of any depth
        while waiting:
            module, stem, below = waiting.pop()
            above = "" if module.parent is None else self.modules[module.parent].path
            name = module.path.removeprefix(above).removeprefix(".") or "(root)"
            yield f"{stem}{name}  {module.class_name}"
            members = self.children.get(module.id, [])
            kept = [member for member in members if member.id in self.kept]
            own = list(self._own(module, len(members) - len(kept)))
            stems = _stems(len(own) + len(kept))
            for text, (here, _) in zip(own, stems, strict=False):
                yield f"{below}{here}{text}"
            inner = zip(kept, stems[len(own) :], strict=True)
            waiting += reversed([(one, below + here, below + on) for one, (here, on) in inner])
        if self.hidden:
            yield f"... and {self.hidden} more"

    def _up(self, module: int | None) -> Iterator[int]:
        while module is not None:
            yield module
            module = self.modules[module].parent

    def _own(self, module: ModuleInfo, left_out: int) -> Iterator[str]:
        for record in self.weights.get(module.id, ()):
            info = self.records[record]
            yield f"{info.slot[1:]} {info.shape}   <--- HERE  {self.marks[record]}"
        if left_out:
            yield f"... {left_out} more"


def _stems(count: int) -> list[tuple[str, str]]:
    """Return for each member what stands before it and before what is below it."""
    return [("|- ", "|  ")] * (count - 1) + [("`- ", "   ")] * (count > 0)
