"""What executing both programs of a step says, as strict JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.auditing.result import value_to_json
from padiff.program import argument_to_json

from .edit_words import worded_edit
from .json_values import strict

if TYPE_CHECKING:
    from padiff.comparer.proving import (
        Edit,
        Effect,
        Execution,
        FunctionComparison,
        Influence,
        LeafDifference,
        Place,
        UpdateComparison,
    )
    from padiff.dumpfile import JSON

__all__ = ["execution_to_json"]


def execution_to_json(found: Execution) -> JSON:
    """Give the answers of one step as JSON."""
    data: JSON = {
        "answer": found.answer.value,
        "hidden": found.is_hidden,
        "function": _function_to_json(found.function),
        "soundness": [one.value for one in found.soundness],
        "unsound": [None if one is None else value_to_json(one) for one in found.unsound],
    }
    return strict(data)


def _function_to_json(found: FunctionComparison) -> JSON:
    """Give a comparison of functions as JSON."""
    return {
        **_asked_to_json(found),
        "coincidence": found.is_coincidence,
        "tolerated": found.tolerated,
        "opaque": list(found.opaque),
        "leaves": found.leaves,
        "lone": list(found.lone),
        "differences": [_difference_to_json(one) for one in found.differences],
        "coarser": None
        if found.coarser is None
        else {
            "place": _place_to_json(found.coarser.place),
            "reference": found.coarser.reference,
            "candidate": found.coarser.candidate,
        },
        "update": None if found.update is None else _update_to_json(found.update),
        "unjudged": list(found.unjudged),
    }


def _asked_to_json(found: FunctionComparison | UpdateComparison) -> dict[str, JSON]:
    """Return an answer, what it rests on and why it is no."""
    return {
        "answer": found.answer.value,
        "unknown": found.unknown.value,
        "detail": found.detail,
        "constructed": found.constructed,
        "executed": found.executed,
        "largest": found.largest,
        "effect": _effect_to_json(found.effect),
        "reference": _place_to_json(found.reference),
        "candidate": _place_to_json(found.candidate),
        "edits": [_edit_to_json(one) for one in found.edits],
    }


def _update_to_json(found: UpdateComparison) -> JSON:
    return {
        **_asked_to_json(found),
        "differences": [
            {
                "reference": one.reference,
                "candidate": one.candidate,
                "error": one.error,
                "effect": _effect_to_json(one.effect),
            }
            for one in found.differences
        ],
    }


def _effect_to_json(found: Effect | None) -> JSON:
    if found is None:
        return None
    return {
        "difference": found.difference,
        "rounding": found.rounding,
        "share": found.share,
        "hidden": found.is_hidden,
    }


def _edit_to_json(edit: Edit) -> JSON:
    return {
        "edit": edit.kind.value,
        "reference": _place_to_json(edit.reference),
        "candidate": _place_to_json(edit.candidate),
        "changes": [
            {
                "argument": change.name,
                "reference": argument_to_json(change.known),
                "candidate": argument_to_json(change.found),
            }
            for change in edit.changes
        ],
        "operators": [[one.name for one in those] for those in edit.operators],
        "times": edit.times,
        "influence": _influence_to_json(edit.influence),
        "text": worded_edit(edit),
    }


def _difference_to_json(found: LeafDifference) -> JSON:
    return {
        "reference": found.reference,
        "candidate": found.candidate,
        "leaf": found.kind,
        "elements": found.elements,
        "of": found.of,
        "largest": found.largest,
        "place": _place_to_json(found.place),
        "holds": found.holds,
        "edits": [_edit_to_json(one) for one in found.edits],
        "influence": _influence_to_json(found.influence),
    }


def _influence_to_json(found: Influence | None) -> JSON:
    if found is None:
        return None
    return {"relative_l2": found.relative_l2, "max_abs": found.max_abs}


def _place_to_json(place: Place | None) -> JSON:
    if place is None:
        return None
    site: JSON = None
    if place.site is not None:
        site = {"file": place.site.file, "line": place.site.line, "function": place.site.function}
    return {
        "operator": place.operator,
        "module": place.module,
        "class": place.class_name,
        "site": site,
        "operators": place.operators,
        "slice": list(place.slice),
    }
