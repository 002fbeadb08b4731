"""How alike two calls are that own no weights: kind, outputs, class and path."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.names import likeness, words_of
from padiff.pairing.tensors.sketch import alikeness

if TYPE_CHECKING:
    from padiff.pairing.view import View

__all__ = ["has_same_size", "score_containers", "score_free"]


def score_free(reference: View, one: int, candidate: View, two: int) -> float:
    """Score two calls without parameters; above 0 they may be partners."""
    if bool(reference.inner[one]) != bool(candidate.inner[two]):
        return -1.0
    kinds = reference.kind(one), candidate.kind(two)
    if None not in kinds and kinds[0] != kinds[1]:
        return -1.0
    near, is_same_size = _compare_outputs(reference, one, candidate, two)
    if kinds[0] == kinds[1] and kinds[0] is not None:
        score = 1.0 if is_same_size else 0.5
    elif not is_same_size:
        return -1.0
    else:
        score = 0.4 if near > 0 or _class_likeness(reference, one, candidate, two) > 0 else -1.0
    return score + near + 0.3 * _path_likeness(reference, one, candidate, two)


def score_containers(reference: View, one: int, candidate: View, two: int) -> float:
    """Score two containers of the same content; always above 0."""
    kinds = reference.kind(one), candidate.kind(two)
    near, is_same_size = _compare_outputs(reference, one, candidate, two)
    score = 0.2 + near + 0.3 * is_same_size
    score += 1.0 if kinds[0] == kinds[1] and kinds[0] is not None else 0.0
    score += _class_likeness(reference, one, candidate, two)
    return score + _path_likeness(reference, one, candidate, two)


def has_same_size(reference: View, one: int, candidate: View, two: int) -> bool:
    """Tell whether the largest outputs of two calls have as many elements."""
    return _compare_outputs(reference, one, candidate, two)[1]


def _compare_outputs(reference: View, one: int, candidate: View, two: int) -> tuple[float, bool]:
    first, second = reference.main(one, Role.OUTPUT), candidate.main(two, Role.OUTPUT)
    if first is None or second is None:
        return 0.0, first is second
    near = alikeness(reference, first, candidate, second)
    return near or 0.0, prod(first.shape) == prod(second.shape)


def _class_likeness(reference: View, one: int, candidate: View, two: int) -> float:
    names = (
        words_of(view.modules[view.calls[call].module].class_name)
        for view, call in ((reference, one), (candidate, two))
    )
    return likeness(*names)


def _path_likeness(reference: View, one: int, candidate: View, two: int) -> float:
    return likeness(words_of(reference.path(one)), words_of(candidate.path(two)))
