"""Which of two units' parameters are likest: of those that no name makes partners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.pairing.calls.telling import numbers_in
from padiff.pairing.names import likeness, words_of

from .weight_norm import is_magnitude

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .inventory import Entry
    from .weight_plan import WeightPair

    Make = Callable[[Entry, Entry], WeightPair | None]

__all__ = ["pair_likest"]

_NUMBERED = 0.05
"""What equal numbers in names add: ``gamma1`` is rather ``ls_1`` than ``ls_2``."""
_LEAF_WORDS = {
    "gamma": "weight", "scale": "weight", "kernel": "weight", "w": "weight", "_weight": "weight",
    "embedding_table": "weight", "g": "weight", "gain": "weight", "a": "weight", "a_2": "weight",
    "beta": "bias", "b": "bias", "b_2": "bias", "shift": "bias", "offset": "bias", "center": "bias",
    "running_mean": "mean", "_mean": "mean", "moving_mean": "mean",
    "running_var": "variance", "_variance": "variance", "moving_variance": "variance",
}  # fmt: skip
_MAX_MEETINGS = 250_000
"""So many pairs of two units' parameters are weighed, about; of more only those of one name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lone:
    """A parameter that no name pairs, and what its name says."""

    entry: Entry
    leaf: str
    words: frozenset[str]
    numbers: tuple[int, ...]

    def likeness(self, other: _Lone) -> float:
        """Say how alike two names are, in [0, 1]: 1 where both mean the same."""
        if self.leaf == other.leaf:
            return 1.0
        is_numbered = self.numbers == other.numbers != ()
        return 0.9 * likeness(self.words, other.words) + _NUMBERED * is_numbered


def pair_likest(
    left: Sequence[Entry], late: Sequence[Entry], make: Make, *, is_alone: bool
) -> Iterator[WeightPair]:
    """Pair each parameter with the one that clearly fits best, until nothing more is clear.

    Args:
        left: The reference's.
        late: The candidate's.
        make: Pairs two of them; None if their shapes do not fit.
        is_alone: Whether the candidate's unit has no other.
    """
    ours = {one.entry.record.id: one for one in _lone(left)}
    theirs = {one.entry.record.id: one for one in _lone(late) if not one.entry.is_alias}
    is_alone = is_alone and len(ours) == 1
    is_named = len(ours) * len(theirs) > _MAX_MEETINGS
    by_leaf: dict[str, dict[int, _Lone]] = {}
    for number, one in ours.items():
        by_leaf.setdefault(one.leaf, {})[number] = one
    fits = _Fits(make)
    is_growing = True
    while is_growing:
        is_growing = False
        for number, one in list(theirs.items()):
            possible = by_leaf.get(one.leaf, {}) if is_named else ours
            best = _best(possible.values(), one, fits, is_alone=is_alone)
            made = None if best is None else make(best.entry, one.entry)
            if best is not None and made is not None:
                del ours[best.entry.record.id], by_leaf[best.leaf][best.entry.record.id]
                del theirs[number]
                is_growing = True
                yield made


def _lone(entries: Iterable[Entry]) -> Iterator[_Lone]:
    for entry in entries:
        if len(entry.atoms) == 1:
            head, dot, leaf = entry.local.rpartition(".")
            leaf = head + dot + _LEAF_WORDS.get(leaf, leaf)
            yield _Lone(entry=entry, leaf=leaf, words=words_of(leaf), numbers=numbers_in(leaf))


class _Fits:
    """Which shapes fit under any rule; each two layouts are tried once."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._known: dict[tuple[object, ...], bool] = {}

    def are(self, other: Entry, entry: Entry) -> bool:
        """Tell whether an entry can be made of another."""
        if is_magnitude(entry):  # where other entries of the units have a say
            return self._make(other, entry) is not None
        key = other.shape, other.rule, entry.shape, entry.rule
        if key not in self._known:
            self._known[key] = self._make(other, entry) is not None
        return self._known[key]


def _best(possible: Iterable[_Lone], one: _Lone, fits: _Fits, *, is_alone: bool) -> _Lone | None:
    """Give the one that clearly fits best; None if several fit as well."""
    best, top, second = None, -1.0, -1.0
    for other in possible:
        score = other.likeness(one)
        is_possible = other.entry.is_buffer == one.entry.is_buffer or score == 1.0 or is_alone
        if score <= second or not is_possible or not fits.are(other.entry, one.entry):
            continue
        if score > top:
            best, top, second = other, score, top
        else:
            second = score
    return best if top > second else None
