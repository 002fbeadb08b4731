"""Find where two programs part: from results that differ back to the last values that agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .result import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .side import Side


def find_parting(
    sides: tuple[Side, Side],
    numbers: tuple[Sequence[int], Sequence[int]],
    partners: Mapping[int, Sequence[int]],
    wanted: tuple[Sequence[int], Sequence[int]],
) -> tuple[Place | None, Place | None]:
    """Return the first operators of both sides whose inputs agree and whose results do not."""
    agreeing = _agreeing(numbers, partners)
    agreeing[1].difference_update(sides[1].lowered.terms[value] for value in wanted[1])
    places = [
        _first(side, values, terms)
        for side, values, terms in zip(sides, wanted, agreeing, strict=True)
    ]
    return places[0], places[1]


def _agreeing(
    numbers: tuple[Sequence[int], Sequence[int]], partners: Mapping[int, Sequence[int]]
) -> tuple[set[int], set[int]]:
    """Return the terms of both sides that have a partner."""
    common = set(numbers[0]) & set(numbers[1])
    known, found = (
        {term for term, number in enumerate(side) if number in common} for side in numbers
    )
    for term, others in partners.items():
        found.add(term)
        known.update(others)
    return known, found


@dataclass(frozen=True, slots=True)
class _Link:
    """A primitive, or an operator whose outcome is taken as recorded."""

    operator: int
    operands: tuple[int, ...]
    outputs: tuple[int, ...]


def _links(side: Side) -> list[_Link]:
    """Return what makes the terms of a side, in order."""
    made = [_Link(node.operator, node.operands, node.outputs) for node in side.lowered.nodes]
    for one in side.cuts:
        terms = [
            tuple(side.lowered.terms[value] for value in values)
            for values in (one.taken, one.outputs)
        ]
        made.append(_Link(one.id, terms[0], terms[1]))
    return sorted(made, key=lambda link: link.operator)


def _first(side: Side, wanted: Sequence[int], agreeing: set[int]) -> Place | None:
    """Return the first operator behind the wanted values all of whose inputs agree.

    Of values that are computed from each other, as a loss from an output, the first counts.
    """
    open_ = {side.lowered.terms[value] for value in wanted} - agreeing
    links, made_of = _links(side), set[int]()
    for link in links:
        if not (open_ | made_of).isdisjoint(link.operands):
            made_of.update(link.outputs)
    open_ -= made_of
    between: list[_Link] = []
    for link in reversed(links):
        if open_.intersection(link.outputs):
            between.append(link)
            open_.update(term for term in link.operands if term not in agreeing)
    made = {term for link in between for term in link.outputs}
    for link in reversed(between):
        if made.isdisjoint(link.operands):
            ids = sorted({one.operator for one in between})
            return replace(place_of(side, link.operator, len(ids)), slice=tuple(ids))
    return None


def place_of(side: Side, operator: int, count: int) -> Place:
    """Return where an operator ran."""
    one = side.program.operators[operator]
    path, class_name = side.recorded.module_of(one)
    return Place(
        operator=one.name, module=path, class_name=class_name, site=one.site, operators=count
    )
