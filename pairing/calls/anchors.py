"""Anchors: calls of modules that own parameters, and what speaks for or against pairing two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role
from padiff.pairing.names import words_of
from padiff.pairing.tensors.sketch import Sketches, closeness, sketches_of

from .expressed import Places, distinct_weights, sole, told_by_weights, weight_numbers
from .likeness import FORBIDDEN, Groups
from .onesided import OPAQUE

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from padiff.pairing.view import View

    from .likeness import Token

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_MIN_SHARE = 0.5
"""Equal paths are trusted as names once this share of the anchors has one."""
_AGREED, _DISPUTED = 2.0, -2.5
"""What a unique partner by name or by value adds, and what pairing against it costs."""
_FLOW = 0.2
"""What a direct neighbour of the same kind adds, and what one of another kind costs."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known about pairing the anchors of one side with those of the other."""

    groups: Groups
    """Kind, shape and words, and what they score."""
    by_value: Places
    """For each reference anchor the candidate that equal weights single out, -1 without one."""
    weights: tuple[Places, Places]
    """Number for the weights of each anchor, -1 if nothing of the other side has such."""
    by_name: Places
    """For each reference anchor the candidate of equal path, -1 if there is none."""
    backwards: Places
    """The same from candidate to reference."""
    repeats: tuple[Places, Places]
    """Call index within the module, of both sides."""
    outputs: tuple[Sketches, Sketches]
    """Statistics of what each anchor gave."""
    around: tuple[tuple[Places, Places], tuple[Places, Places]]
    """Of both sides, a number for what kind of anchor fed each one and for what kind it fed, with
    nothing between; below 0 where that is not known."""

    @property
    def shape(self) -> tuple[int, int]:
        """Count the anchors of both sides."""
        return len(self.by_value), len(self.backwards)

    def row(self, place: int, start: int, stop: int) -> Floats:
        """Score one reference anchor against a range of candidate anchors; above 0 is possible."""
        columns = np.arange(start, stop)
        return self.scores(np.full(len(columns), place), columns)

    def scores(self, rows: Places, columns: Places) -> Floats:
        """Score reference anchors against candidate anchors, element by element."""
        scores = self.groups.scores(rows, columns)
        weights, partners = self.weights[0][rows], self.by_name[rows]
        others = self.weights[1][columns], self.backwards[columns]
        for agreed, is_known in (
            ((weights == others[0]) & (weights >= 0), (weights >= 0) | (others[0] >= 0)),
            (columns == partners, (partners >= 0) | (others[1] >= 0)),
        ):
            scores = scores + _AGREED * agreed + _DISPUTED * (~agreed & is_known)
        is_elsewhere = self.elsewhere[0][rows] | self.elsewhere[1][columns]
        reference, candidate = self.outputs
        scores += 0.2 * (self.repeats[0][rows] == self.repeats[1][columns])
        scores += closeness(reference, rows, candidate, columns)
        for mine, theirs in zip(*self.around, strict=True):
            one, two = mine[rows], theirs[columns]
            is_known = (one >= 0) & (two >= 0)
            scores += _FLOW * np.where(one == two, 1.0, -1.0) * is_known
        scores += 0.3 * (reference.size[rows] == candidate.size[columns])
        total_r, total_c = self.shape
        scores -= 1e-4 * np.abs(columns / max(total_c, 1) - rows / max(total_r, 1))
        return np.where(is_elsewhere, FORBIDDEN, scores)

    @cached_property
    def elsewhere(self) -> tuple[Flags, Flags]:
        """Whether the other side has the weights of each anchor in what no call runs."""
        one, two = (
            (mine >= 0) & ~np.isin(mine, theirs)
            for mine, theirs in (self.weights, self.weights[::-1])
        )
        return one, two


def anchors_of(view: View, opaque: frozenset[str], within: int | None = None) -> list[int]:
    """List the innermost calls of modules that own weights, in execution order."""
    region = range(len(view.calls)) if within is None else view.inside(within)
    hidden: set[int] = set()
    for call in region:
        parent = view.calls[call].parent
        if parent is None or parent == within:
            continue
        if parent in hidden or view.kind(parent) in opaque:
            hidden.add(call)
    found, holds = [], set()
    for call in reversed(region):
        info = view.calls[call]
        is_candidate = bool(view.weights[info.module]) or view.kind(call) in opaque
        is_anchor = is_candidate and not (call in hidden or call in holds or call in view.hidden)
        if is_anchor:
            found.append(call)
        if (is_anchor or call in holds) and info.parent is not None:
            holds.add(info.parent)
    return found[::-1]


def gather(
    reference: View,
    candidate: View,
    anchors: tuple[Sequence[int], Sequence[int]],
) -> Evidence:
    """Collect the evidence about two lists of anchor calls."""
    sides = list(zip((reference, candidate), anchors, strict=True))
    tokens = [[token_of(view, call) for call in calls] for view, calls in sides]
    words = [[words_of(view.path(call)) for call in calls] for view, calls in sides]
    name = _unique([[(view.path(c), view.calls[c].index) for c in calls] for view, calls in sides])
    if np.count_nonzero(name[0] >= 0) < _MIN_SHARE * max(map(len, anchors)):
        name = (np.full_like(name[0], -1), np.full_like(name[1], -1))
    repeats = [np.array([view.calls[c].index for c in calls], np.int64) for view, calls in sides]
    one, two = (sketches_of(view, calls, Role.OUTPUT) for view, calls in sides)
    weights = weight_numbers(reference, candidate, anchors)
    value = np.full(len(anchors[0]), -1, np.int64)
    for row, column in told_by_weights(weights).items():
        value[row] = column
    return Evidence(
        groups=Groups((tokens[0], tokens[1]), (words[0], words[1])),
        by_value=value,
        weights=weights,
        by_name=name[0],
        backwards=name[1],
        repeats=(repeats[0], repeats[1]),
        outputs=(one, two),
        around=_around(sides, tokens),
    )


def _around(
    sides: Sequence[tuple[View, Sequence[int]]], tokens: Sequence[Sequence[Token]]
) -> tuple[tuple[Places, Places], tuple[Places, Places]]:
    """Number what feeds each anchor directly, and what it feeds, alike on both sides."""
    table: dict[Hashable, int] = {}
    found = []
    for (view, calls), told in zip(sides, tokens, strict=True):
        makers: dict[int | None, Token] = {}
        eaters: dict[int | None, set[Token]] = {}
        given, made = ([side[call] for call in calls] for side in (view.given, view.made))
        for place, token in enumerate(told):
            makers.setdefault(made[place], token)
            eaters.setdefault(given[place], set()).add(token)
        before = [None if one is None else makers.get(one) for one in given]
        after = [None if one is None else eaters.get(one) for one in made]
        keys = before, [None if one is None else frozenset(one) for one in after]
        numbers = [
            [-1 if k is None else table.setdefault(k, len(table)) for k in ks] for ks in keys
        ]
        found.append((np.array(numbers[0], np.int64), np.array(numbers[1], np.int64)))
    return found[0], found[1]


def token_of(view: View, call: int) -> Token:
    """Return kind and sizes of the layer that ran in a call."""
    module = view.calls[call].module
    if module not in view.tokens:
        view.tokens[module] = _token(view, module)
    return view.tokens[module]


def _token(view: View, module: int) -> Token:
    own = view.weights[module]
    # A leaf, or one whose weights parametrizations make.
    is_leaf = not view.children[module] or any(view.records[one].module != module for one in own)
    if own and is_leaf and view.kinds[module] not in OPAQUE:
        shapes = tuple([view.records[record].shape for record in own])
        return view.kinds[module], *_sizes(shapes)
    kind, total = view.kinds[module], sum(prod(one.shape) for one in distinct_weights(view, module))
    # All weights of a norm with its activation inside are as many as the scales of a larger norm.
    return kind and f"{kind} and more", (total,), 0


@lru_cache(maxsize=4096)
def _sizes(shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], int]:
    """Return the sizes of the main one of some weights, and the length of the only vector."""
    sized = [(prod(shape), shape) for shape in shapes]
    main = max(sized)[1]
    vectors = [size for size, shape in sized if size in shape and shape != main]
    bias = vectors[0] if len(vectors) == 1 else 0
    return tuple(sorted(size for size in main if size != 1)), bias


def _unique(keys: Sequence[Sequence[Hashable]]) -> tuple[Places, Places]:
    """Pair the keys that stand exactly once on each side."""
    ahead, back = (np.full(len(side), -1, np.int64) for side in keys)
    for place, other in sole((dict(enumerate(keys[0])), dict(enumerate(keys[1])))):
        ahead[place], back[other] = other, place
    return ahead, back
