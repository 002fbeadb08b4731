"""Find where two programs part: from results that differ back to the last values that agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.program import Limits, execute

from .result import Place
from .sketches import Partners, Sketch, sketch_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.program import Leaf
    from padiff.program.primitives import Array

    from .side import Side

__all__ = ["find_parting"]


def find_parting(
    sides: tuple[Side, Side],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    numbers: tuple[Sequence[int], Sequence[int]],
    wanted: tuple[Sequence[int], Sequence[int]],
    limits: Limits,
) -> tuple[Place | None, Place | None]:
    """Return the first operators of both sides whose inputs agree and whose results do not.

    Args:
        sides: The reference and the candidate.
        given: What their leaves hold.
        numbers: Of their terms; equal ones are the same expression.
        wanted: Value ids of results that differ.
        limits: For executing both programs.
    """
    sketches = [
        _sketched(side, leaves, values, limits)
        for side, leaves, values in zip(sides, given, wanted, strict=True)
    ]
    agreeing = _agreeing(numbers, (sketches[0], sketches[1]), sides)
    agreeing[1].difference_update(sides[1].lowered.terms[value] for value in wanted[1])
    places = [
        _first(side, values, terms)
        for side, values, terms in zip(sides, wanted, agreeing, strict=True)
    ]
    return places[0], places[1]


def _sketched(
    side: Side, leaves: Mapping[int, Leaf], wanted: Sequence[int], limits: Limits
) -> dict[int, Sketch]:
    """Return the sketches of all terms that the wanted values need."""
    found: dict[int, Sketch] = {}

    def observe(term: int, array: Array) -> None:
        found[term] = sketch_of(array)

    execute(side.lowered, leaves, wanted, limits=limits, observe=observe)
    return found


def _agreeing(
    numbers: tuple[Sequence[int], Sequence[int]],
    sketches: tuple[Mapping[int, Sketch], Mapping[int, Sketch]],
    sides: tuple[Side, Side],
) -> tuple[set[int], set[int]]:
    """Return the terms of both sides that have a partner."""
    common = set(numbers[0]) & set(numbers[1])
    known, found = (
        {term for term, number in enumerate(side) if number in common} for side in numbers
    )
    partners = Partners()
    for term, sketch in sketches[0].items():
        partners.add(sides[0].lowered.specs[term].count, sketch, term)
    partners.seal()
    for term, sketch in sketches[1].items():
        others = partners.find(sides[1].lowered.specs[term].count, sketch)
        if others:
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
    """Return the first operator behind the wanted values all of whose inputs agree."""
    open_ = {side.lowered.terms[value] for value in wanted} - agreeing
    between: list[_Link] = []
    for link in reversed(_links(side)):
        if open_.intersection(link.outputs):
            between.append(link)
            open_.update(term for term in link.operands if term not in agreeing)
    made = {term for link in between for term in link.outputs}
    for link in reversed(between):
        if made.isdisjoint(link.operands):
            return _place(side, link, between)
    return None


def _place(side: Side, link: _Link, between: Sequence[_Link]) -> Place:
    operator = side.program.operators[link.operator]
    path, class_name = side.recorded.module_of(operator)
    return Place(
        operator=operator.name,
        module=path,
        class_name=class_name,
        site=operator.site,
        operators=len({one.operator for one in between}),
    )
