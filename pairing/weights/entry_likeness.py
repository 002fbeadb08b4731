"""Which of two units' parameters are likest: of those that no name makes partners."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING

from padiff.pairing.names import likeness, numbers_in, words_of

from .weight_norm import is_magnitude

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from padiff.pairing.rule import Rule

    from .inventory import Entry
    from .weight_plan import WeightPair

    Make = Callable[[Entry, Entry], WeightPair | None]
    _Group = tuple[frozenset[str], tuple[int, ...], Rule, bool]

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
_LEAST_STEM = 4
"""Letters of a word that another one may begin with and mean the same: ``scale``, ``scaler``."""
_MAX_MEETINGS = 250_000
"""So many pairs of different words, of parameters of one size in two units, are weighed; of more
only those of one name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lone:
    """A parameter that no name pairs, and what its name says."""

    entry: Entry
    leaf: str
    words: frozenset[str]
    numbers: tuple[int, ...]
    said: frozenset[str]
    """Words of its own name as the author wrote them, and of the module that holds it."""

    @property
    def number(self) -> int:
        """Give the record's id."""
        return self.entry.record.id

    @property
    def size(self) -> int:
        """Count the elements: no rule between two parameters changes that."""
        return prod(self.entry.shape)

    @property
    def group(self) -> _Group:
        """Give what those have in common that differ in numbers only."""
        return self.words, self.entry.shape, self.entry.rule, self.entry.is_buffer

    def likeness(self, other: _Lone) -> float:
        """Say how alike two names are, in [0, 1]: 1 where both mean the same."""
        if self.leaf == other.leaf:
            return 1.0
        is_numbered = self.numbers == other.numbers != ()
        alike = max(likeness(self.words, other.words), _as_written(self.said, other.said))
        return 0.9 * alike + _NUMBERED * is_numbered


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
    theirs = {one.number: one for one in _lone(late) if not one.entry.is_alias}
    ours = _Ours(_lone(left), theirs.values())
    is_alone = is_alone and len(ours) == 1
    fits = _Fits(make)
    is_growing = True
    while is_growing:
        is_growing = False
        for number, one in list(theirs.items()):
            best = _best(ours.near(one), one, fits, is_alone=is_alone)
            made = None if best is None else make(best.entry, one.entry)
            if best is not None and made is not None:
                ours.take(best)
                del theirs[number]
                is_growing = True
                yield made


def _lone(entries: Iterable[Entry]) -> Iterator[_Lone]:
    for entry in entries:
        if len(entry.atoms) == 1:
            head, dot, leaf = entry.local.rpartition(".")
            leaf = head + dot + _LEAF_WORDS.get(leaf, leaf)
            holder = entry.name.removesuffix(entry.local).rstrip(".").rpartition(".")[2]
            yield _Lone(
                entry=entry,
                leaf=leaf,
                words=words_of(leaf),
                numbers=numbers_in(leaf),
                said=words_of(entry.local) | words_of(holder),
            )


def _as_written(reference: frozenset[str], candidate: frozenset[str]) -> float:
    """Give the share of common words where two or more are: ``spline_scaler``, ``spline.scale``."""
    met = [(one, two) for one in reference for two in candidate if _is_stem(one, two)]
    common = min(len({one for one, _ in met}), len({two for _, two in met}))
    return common / (len(reference) + len(candidate) - common) if common > 1 else 0.0


def _is_stem(one: str, two: str) -> bool:
    """Tell whether two words are one, or one begins with the other."""
    short, long = sorted((one, two), key=len)
    return one == two or (len(short) >= _LEAST_STEM and long.startswith(short))


class _Ours:
    """The reference's parameters by size; in each, those of the same words and layout together."""

    def __init__(self, all_: Iterable[_Lone], theirs: Iterable[_Lone]) -> None:
        self._count = 0
        self._by_leaf: dict[str, dict[int, _Lone]] = {}
        self._groups: dict[int, dict[_Group, dict[tuple[int, ...], dict[int, _Lone]]]] = {}
        for one in all_:
            self._count += 1
            self._by_leaf.setdefault(one.leaf, {})[one.number] = one
            groups = self._groups.setdefault(one.size, {})
            groups.setdefault(one.group, {}).setdefault(one.numbers, {})[one.number] = one
        asked = Counter(one.size for one in theirs)
        self._is_named = {
            size: len(groups) * asked[size] > _MAX_MEETINGS for size, groups in self._groups.items()
        }

    def __len__(self) -> int:
        """Count those that are left."""
        return self._count

    def near(self, one: _Lone) -> Iterable[_Lone]:
        """Give those that one may be likest: of such as are as alike, two tell that it is a tie."""
        found = dict(self._by_leaf.get(one.leaf, {}))
        if self._is_named.get(one.size, True):
            return found.values()
        for group in self._groups[one.size].values():
            if is_magnitude(one.entry):
                for members in group.values():
                    found |= members
                continue
            found.update(islice(group.get(one.numbers, {}).items(), 2))
            others = (members for numbers, members in group.items() if numbers != one.numbers)
            found.update(islice(chain.from_iterable(map(dict.items, others)), 2))
        return found.values()

    def take(self, one: _Lone) -> None:
        """Take one out that was paired."""
        self._count -= 1
        del self._by_leaf[one.leaf][one.number]
        group = self._groups[one.size][one.group]
        del group[one.numbers][one.number]
        if not group[one.numbers]:
            del group[one.numbers]


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
