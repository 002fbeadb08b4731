"""The form of two programs in which causes are looked for: that in which more is the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.program import unrolled

from .layouts import in_one_layout
from .numbering import LAYOUT, Numbering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.program import Lowered

    from .executed import Sink
    from .leaves import Leaves
    from .side import Side

__all__ = ["form_for_causes"]


def form_for_causes(
    sides: tuple[Side, Side], leaves: Leaves, numbering: Numbering, sinks: Sequence[Sink]
) -> tuple[tuple[Side, Side], Numbering]:
    """Return the programs and the numbering in which causes are looked for.

    Two kernels of one softmax are one there: otherwise all that is computed behind the softmax of
    another framework has no counterpart. So are two layouts, and a recurrent layer and a loop, if
    more has a counterpart then.

    Args:
        sides: The reference and the candidate.
        leaves: Of both.
        numbering: Of both programs as they are, in which equal numbers are a proof.
        sinks: The results that differ.
    """
    kernels = {
        dict(node.attributes).get("least")
        for side in sides
        for node in side.lowered.nodes
        if node.primitive == "softmax"
    }
    is_strict = len(kernels) < 2  # noqa: PLR2004
    plain = [side.lowered for side in sides]
    known = [made.value for made in leaves.computed.values()], [*leaves.computed]
    forms = [plain, list(map(in_one_layout, plain, known))]
    counts = [[node.primitive for node in one.nodes].count("recurrent") for one in plain]
    if counts[0] != counts[1]:
        forms.append(list(map(in_one_layout, map(unrolled, plain), known)))
    chosen = min(forms, key=lambda form: _count_lone(form[0], form[1], sinks))
    if chosen is not plain:
        one, two = (replace(side, lowered=form) for side, form in zip(sides, chosen, strict=True))
        sides = one, two
    elif is_strict:
        return sides, numbering
    return sides, Numbering(*sides, leaves, is_strict=is_strict)


def _count_lone(known: Lowered, found: Lowered, sinks: Sequence[Sink]) -> int:
    """Count the primitives of results, but for moves, of a kind and shape that one side lacks."""
    ends = [sink.reference for sink in sinks], [sink.candidate for sink in sinks]
    kinds = []
    for lowered, values in zip((known, found), ends, strict=True):
        places = lowered.behind(lowered.terms[value] for value in values)
        nodes = (lowered.nodes[place] for place in places)
        made = ((one.primitive, term) for one in nodes for term in one.outputs)
        kinds.append(
            Counter((name, lowered.specs[term].shape) for name, term in made if name not in LAYOUT)
        )
    return (kinds[0] - kinds[1]).total() + (kinds[1] - kinds[0]).total()
