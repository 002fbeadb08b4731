"""Recurrent layers as their steps, for what compares them with loops that somebody wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .builder import Builder, NotLoweredError, Term
from .composites.recurrent import Weights, cell
from .composites.shaping import stack, unbind

if TYPE_CHECKING:
    from .builder import Node
    from .lower import Lowered

RECURRENT = "recurrent"


def unrolled(lowered: Lowered) -> Lowered:
    """Return a program with the same values in which recurrent layers are loops over time.

    Layers whose rows have several lengths stay.
    """
    b = Builder()
    terms: dict[int, Term] = {term: b.leaf(lowered.specs[term]) for term in lowered.leaves}
    for node in lowered.nodes:
        operands = [terms[term] for term in node.operands]
        b.begin(node.operator, (), "")
        is_loop = node.primitive == RECURRENT and _is_as_long(lowered, node)
        made = _steps(b, operands, node) if is_loop else None
        if made is None:
            made = b.many(node.primitive, *operands, **dict(node.attributes))
        terms.update(zip(node.outputs, made, strict=True))
    return replace(
        lowered,
        nodes=tuple(b.nodes),
        specs=tuple(b.specs),
        terms={value: terms[term].id for value, term in lowered.terms.items()},
        leaves={terms[term].id: value for term, value in lowered.leaves.items()},
        producers=b.producers,
    )


def _is_as_long(lowered: Lowered, node: Node) -> bool:
    """Return whether all rows of a recurrent layer go on to its end."""
    place = lowered.producers.get(node.operands[1])
    told = {} if place is None else dict(lowered.nodes[place].attributes)
    return bool(told.get("value") == lowered.specs[node.operands[0]].shape[0])


def _steps(b: Builder, operands: list[Term], node: Node) -> tuple[Term, ...] | None:
    """Return what a recurrent layer makes, step by step; None where these are too many."""
    attributes = dict(node.attributes)
    x, states = operands[0], operands[2:-4]
    biases = [None if _is_zero(b, term) else term for term in operands[-2:]]
    weights = Weights(
        inputs=operands[-4], states=operands[-3], input_bias=biases[0], state_bias=biases[1]
    )
    try:
        rows = unbind(b, x, 0)
        made = []
        for row in reversed(rows) if attributes["reverse"] else rows:
            states = cell(b, row, states, weights, attributes["mode"])
            made.append(states[0])
        values = stack(b, made[::-1] if attributes["reverse"] else made, 0)
    except NotLoweredError:
        b.undo()
        return None
    return values, *states


def _is_zero(b: Builder, term: Term) -> bool:
    """Return whether a bias only stands for one that is not there."""
    place = b.producers.get(term.id)
    return place is not None and dict(b.nodes[place].attributes).get("value") == 0
