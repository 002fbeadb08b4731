"""The module trees of two sides, drawn as far as a weight plan finds no partner there.

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

from .weight_text import closest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.dumpfile import ModuleInfo
    from padiff.pairing.side import Side

    from .weight_plan import WeightPlan

__all__ = ["draw_problems"]

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
    """Give for each member what stands before it and before what is below it."""
    return [("|- ", "|  ")] * (count - 1) + [("`- ", "   ")] * (count > 0)
