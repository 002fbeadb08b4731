"""What is made when somebody looks into it: sequences, and the judged pairs of a step.

Of the pairs that simply agree reports say the same without any being made.
"""

from __future__ import annotations

import pickle
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, overload

from padiff.dumpfile import Role
from padiff.dumpfile.bulk import collector_paused

from .result import Evidence, Verdict
from .stored import LikeTuple, StoredPairs, opened

if TYPE_CHECKING:
    from padiff.dumpfile import Phase

    from .result import JudgedPair, Metrics, StepComparison, Tolerance


class Agreeing(Protocol):
    """The pairs of a step that match and of which nothing else is to be said, as columns.

    All that is asked of it leaves out the places that are given as ``told``: of the pairs there
    something is to be said after all.
    """

    def made(self, places: Sequence[int]) -> Sequence[JudgedPair]:
        """Make the judged pairs at some places."""

    def sayings(self, told: Set[int]) -> Counter[Saying]:
        """Count the pairs by what a summary says of them."""

    def spots(self, told: Set[int]) -> list[tuple[int, Spot]]:
        """Return (place, spot) of the first pair at each spot, in order."""

    def nearest(self, told: Set[int]) -> int | None:
        """Return the place of the first pair that uses up most of its absolute tolerance.

        None where no pair differs.
        """


Columns = tuple[Agreeing, Set[int]]
"""Pairs that simply match, and the places that they lack."""


class JudgedPairs(LikeTuple["JudgedPair"]):
    """The judged pairs of one step, in order; equal to the tuple of them.

    Most pairs of most comparisons match and there is nothing else to say of them. What is known of
    these stays in columns until somebody asks for them one by one; what reports say of all pairs
    together (``overview``) is read from the columns, too.
    """

    def __init__(
        self,
        count: int,
        told: Mapping[int, JudgedPair],
        plain: Agreeing | None,
        made: dict[int, JudgedPair] | None = None,
    ) -> None:
        """Keep what there is.

        Args:
            count: How many pairs there are.
            told: By place, at least all that do not match, are fatal, or have a reason.
            plain: The others; None if all of them are there.
            made: Those of the others that are there already, by place; more are added.
        """
        self._count = count
        self._told = told
        self._plain = plain
        """Let go with all that it refers to when all were made."""
        self._made = {} if made is None else made
        self._listed: list[tuple[int, JudgedPair]] | None = None
        """Those that are told, in order, once that was asked for."""
        self._all: tuple[JudgedPair, ...] | None = None
        """All, once they were made."""

    @overload
    def __getitem__(self, place: int) -> JudgedPair: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[JudgedPair, ...]: ...
    def __getitem__(self, place: int | slice) -> JudgedPair | tuple[JudgedPair, ...]:
        """Return one pair, or some."""
        if self._all is not None:
            return self._all[place]
        if isinstance(place, slice):
            return tuple(self.some(range(self._count)[place]))
        return self.some([range(self._count)[place]])[0]

    def __len__(self) -> int:
        """Count the pairs."""
        return self._count

    def __iter__(self) -> Iterator[JudgedPair]:
        """Yield the pairs."""
        if self._all is None:
            with collector_paused():
                self._all = tuple(self.some(range(self._count)))
            self._made = {}
            self._plain = None
        return iter(self._all)

    def __reduce__(self) -> tuple[object, ...]:
        """Travel as pairs; those that simply match are unpacked when they are looked at."""
        if isinstance(self._plain, PackedPairs):
            return _arrived, (self._count, self._told, self._plain)
        return _arrived, (self._count, *packed_pairs(self))

    def remarkable(self) -> Iterator[tuple[int, JudgedPair]]:
        """Yield (place, pair) of all that do not simply match, in order."""
        if self._listed is None:
            self._listed = sorted(self._told.items())
        return iter(self._listed)

    def columns(self) -> Columns | None:
        """Return those that simply match, and the places that they lack; None once all are made."""
        return None if self._plain is None else (self._plain, self._told.keys())

    def replaced(self, pairs: Mapping[int, JudgedPair]) -> JudgedPairs:
        """Return the same with other pairs at some places."""
        made = self._made if self._all is None else dict(enumerate(self._all))
        return JudgedPairs(self._count, {**self._told, **pairs}, self._plain, made)

    def some(self, places: Sequence[int]) -> list[JudgedPair]:
        """Return the pairs at some places; those that are not there yet are made in one go."""
        if self._all is not None:
            return [self._all[place] for place in places]
        told, made = self._told, self._made
        lacking = [place for place in places if place not in told and place not in made]
        if lacking and self._plain is not None:
            made.update(zip(lacking, self._plain.made(lacking), strict=True))
        return [told[place] if place in told else made[place] for place in places]


class PackedPairs:
    """Pairs that another process judged and that simply match.

    They are unpacked when they are looked at one by one, and not kept: they take 1 KiB each, packed
    50 bytes. What reports say of all of them together was found there.
    """

    def __init__(
        self,
        places: Sequence[int],
        data: bytes,
        said: tuple[tuple[Saying, int], ...],
        nearest: tuple[int, JudgedPair] | None,
    ) -> None:
        """Keep what arrived.

        Args:
            places: Of the pairs.
            data: They, packed.
            said: What a summary says of them, and of how many.
            nearest: The one that uses up most of its tolerance, and its place.
        """
        self._places = places
        self._data = data
        self._said = said
        self._nearest = nearest

    @classmethod
    def of(cls, pairs: Sequence[JudgedPair], told: Set[int]) -> PackedPairs:
        """Pack the pairs at all other places."""
        others = [(place, pair) for place, pair in enumerate(pairs) if place not in told]
        said = Counter(saying_of(pair) for _, pair in others)
        return cls(
            array("I", [place for place, _ in others]),
            packed(pair for _, pair in others),
            tuple(said.items()),
            _nearest(others),
        )

    def made(self, places: Sequence[int]) -> Sequence[JudgedPair]:
        """Unpack the pairs at some places."""
        if self._nearest is not None and list(places) == [self._nearest[0]]:
            return [self._nearest[1]]
        found = dict(self._unpacked(frozenset()))
        return [found[place] for place in places]

    def sayings(self, told: Set[int]) -> Counter[Saying]:
        """Count the pairs by what a summary says of them."""
        if self._has_any(told):
            return Counter(saying_of(pair) for _, pair in self._unpacked(told))
        return Counter(dict(self._said))

    def spots(self, told: Set[int]) -> list[tuple[int, Spot]]:
        """Return (place, spot) of the first pair at each spot, in order."""
        found: dict[Spot, int] = {}
        for place, pair in self._unpacked(told):
            found.setdefault(spot_of(pair), place)
        return [(place, spot) for spot, place in found.items()]

    def nearest(self, told: Set[int]) -> int | None:
        """Return the place of the first pair that uses up most of its absolute tolerance."""
        best = _nearest(self._unpacked(told)) if self._has_any(told) else self._nearest
        return None if best is None else best[0]

    def _has_any(self, told: Set[int]) -> bool:
        """Return whether some of the pairs are told after all."""
        return not told.isdisjoint(self._places)

    def _unpacked(self, told: Set[int]) -> list[tuple[int, JudgedPair]]:
        with collector_paused():
            pairs = zip(self._places, unpacked(self._data), strict=True)
            return [(place, pair) for place, pair in pairs if place not in told]


def _nearest(pairs: Sequence[tuple[int, JudgedPair]]) -> tuple[int, JudgedPair] | None:
    within = [(place, pair) for place, pair in pairs if is_within(pair)]
    return max(within, key=lambda one: (pressure_of(one[1]), -one[0]), default=None)


def packed_pairs(pairs: Sequence[JudgedPair]) -> tuple[dict[int, JudgedPair], PackedPairs]:
    """Return by place those that do not simply match, and the others packed."""
    told = {
        place: pair
        for place, pair in remarkable(pairs)
        if pair.verdict != "match" or pair.fatal or pair.reason or pair.sampled_of is not None
    }
    return told, PackedPairs.of(pairs, told.keys())


def _arrived(count: int, told: Mapping[int, JudgedPair], plain: Agreeing) -> JudgedPairs:
    return JudgedPairs(count, told, plain)


def remarkable(pairs: Sequence[JudgedPair]) -> Iterator[tuple[int, JudgedPair]]:
    """Yield (place, pair) of at least all that do not match, are fatal, or have a reason."""
    found = opened(pairs)
    return found.remarkable() if isinstance(found, JudgedPairs) else enumerate(found)


def replaced(pairs: Sequence[JudgedPair], others: Mapping[int, JudgedPair]) -> Sequence[JudgedPair]:
    """Return judged pairs with others at some places."""
    if isinstance(pairs, JudgedPairs):
        return pairs.replaced(others)
    return tuple([others.get(place, pair) for place, pair in enumerate(pairs)])


def picked(pairs: Sequence[JudgedPair], places: Sequence[int]) -> list[JudgedPair]:
    """Return the judged pairs at some places."""
    return pairs.some(places) if isinstance(pairs, JudgedPairs) else [pairs[at] for at in places]


_ARGUMENTS = (Role.INPUT, Role.GRAD_INPUT)


class Saying(NamedTuple):
    """What a summary says of a pair."""

    verdict: Verdict
    rests_on: Evidence
    role: Role
    is_equal: bool
    """Bit-equal, known from the digests."""
    is_covered: bool = False
    is_partial: bool = False
    """Judged without all elements at hand."""


class Spot(NamedTuple):
    """What a module tree says of a pair, and the module of which it says that."""

    module: int
    """Module id in the reference's index, or in the candidate's if that alone has it."""
    phase: Phase
    verdict: Verdict
    is_candidates: bool = False
    """Whether the candidate alone has it."""
    is_covered: bool = False
    is_argument: bool = False
    """Whether it is something that one side's call alone is given."""


def saying_of(pair: JudgedPair) -> Saying:
    """Return what a summary says of a pair."""
    role = pair.end.address.role
    return Saying(
        pair.verdict, pair.rests_on, role, pair.equal_digest, pair.covered, pair.is_partial
    )


def spot_of(pair: JudgedPair) -> Spot:
    """Return what a module tree says of a pair."""
    end = pair.end
    is_alone = pair.reference is None or pair.candidate is None
    is_open = pair.verdict is Verdict.MISSING and not pair.fatal
    return Spot(
        end.module,
        end.address.phase,
        pair.verdict,
        pair.reference is None,
        pair.covered,
        is_alone and is_open and end.address.role in _ARGUMENTS,
    )


def is_within(pair: JudgedPair) -> bool:
    """Return whether a pair differs and matches, and not because it was excused."""
    has_gap = pair.metrics is not None and bool(pair.metrics.max_abs)
    return pair.verdict is Verdict.MATCH and has_gap and not pair.reason


def pressure(metrics: Metrics | None, tolerance: Tolerance | None) -> float:
    """Return the part of its absolute tolerance that a pair needs; 0 if unknown or none."""
    if metrics is None or metrics.needed_atol is None or tolerance is None:
        return 0.0
    return metrics.needed_atol / tolerance.atol if tolerance.atol else 0.0


def pressure_of(pair: JudgedPair) -> float:
    """Return the part of its absolute tolerance that a judged pair needs."""
    return pressure(pair.metrics, pair.tolerance)


def remarkable_pairs(
    steps: Iterable[StepComparison], is_wanted: Callable[[Saying], bool]
) -> Iterator[JudgedPair]:
    """Yield the pairs of which a summary says something, in order, but those that simply match.

    Steps of which nothing like that is said are not looked into.
    """
    for step in steps:
        pairs = step.pairs
        if isinstance(pairs, StoredPairs) and not any(is_wanted(said) for said, _ in pairs.said):
            continue
        yield from (pair for _, pair in remarkable(pairs) if is_wanted(saying_of(pair)))


def sayings(steps: Iterable[StepComparison]) -> Counter[Saying]:
    """Count the pairs of some steps by what a summary says of them."""
    counts: Counter[Saying] = Counter()
    for step in steps:
        if isinstance(step.pairs, StoredPairs):
            counts.update(dict(step.pairs.said))
            continue
        looked_at, columns = _split(step.pairs)
        counts.update(saying_of(pair) for _, pair in looked_at)
        if columns is not None:
            plain, told = columns
            counts.update(plain.sayings(told))
    return counts


def spots(pairs: Sequence[JudgedPair]) -> list[Spot]:
    """Return all spots of a step's pairs, each once, in the order of the first pair there."""
    looked_at, columns = _split(pairs)
    found = ((place, spot_of(pair)) for place, pair in looked_at)
    if columns is None:
        return list(dict.fromkeys(spot for _, spot in found))
    plain, told = columns
    both = sorted([*found, *plain.spots(told)], key=lambda one: one[0])
    return list(dict.fromkeys(spot for _, spot in both))


def nearest(steps: Iterable[StepComparison]) -> JudgedPair | None:
    """Find the first matching pair that uses up most of its absolute tolerance.

    None where no matching pair differs, or all that do were excused for a reason.
    """
    best: tuple[float, int, Sequence[JudgedPair]] | None = None
    for step in steps:
        found = nearest_place(step.pairs)
        if found is not None and (best is None or found[0] > best[0]):
            best = (*found, step.pairs)
    return None if best is None else best[2][best[1]]


def nearest_place(pairs: Sequence[JudgedPair]) -> tuple[float, int] | None:
    """Find of the pairs of a step what ``nearest`` finds of all.

    Returns:
        The part of its absolute tolerance that it uses up, and its place.
    """
    if isinstance(pairs, StoredPairs):
        return pairs.nearest
    looked_at, columns = _split(pairs)
    found = [(place, pair) for place, pair in looked_at if is_within(pair)]
    if columns is not None:
        plain, told = columns
        place = plain.nearest(told)
        if place is not None:
            found.append((place, pairs[place]))
    rated = [(pressure_of(pair), -place) for place, pair in found]
    best = max(rated, default=None)
    return None if best is None else (best[0], -best[1])


def _split(
    pairs: Sequence[JudgedPair],
) -> tuple[Iterable[tuple[int, JudgedPair]], Columns | None]:
    """Return the pairs that have to be looked at one by one, with their places, and the others."""
    pairs = opened(pairs)
    columns = pairs.columns() if isinstance(pairs, JudgedPairs) else None
    if columns is None or not isinstance(pairs, JudgedPairs):
        return enumerate(pairs), None
    return pairs.remarkable(), columns


Item_co = TypeVar("Item_co", covariant=True)

_LEVEL = 1
"""Of compression: the fastest."""


class Later(LikeTuple[Item_co]):
    """A sequence that is made once, at the first look; equal to the tuple of its items."""

    def __init__(self, make: Callable[[], Iterable[Item_co]]) -> None:
        """Keep how to make the items, with all that it refers to, until they are made.

        Args:
            make: Makes them. Must not need a file that may be closed by then.
        """
        self._make: Callable[[], Iterable[Item_co]] | None = make
        self._items: tuple[Item_co, ...] = ()

    @overload
    def __getitem__(self, place: int) -> Item_co: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Item_co, ...]: ...
    def __getitem__(self, place: int | slice) -> Item_co | tuple[Item_co, ...]:
        """Return one item, or some."""
        return self._all()[place]

    def __len__(self) -> int:
        """Count the items."""
        return len(self._all())

    def __iter__(self) -> Iterator[Item_co]:
        """Yield the items."""
        return iter(self._all())

    def __reduce__(self) -> tuple[object, ...]:
        """Travel as items that are unpacked at the first look, too."""
        return _later, (packed(self._all()),)

    def _all(self) -> tuple[Item_co, ...]:
        if self._make is not None:
            with collector_paused():
                self._items = tuple(self._make())
            self._make = None
        return self._items


def packed(items: Iterable[object]) -> bytes:
    """Return items as they travel to another process, and wait there until they are looked at."""
    return zlib.compress(pickle.dumps(tuple(items), pickle.HIGHEST_PROTOCOL), _LEVEL)


def unpacked(data: bytes) -> tuple[Any, ...]:
    """Return the items that another of our processes packed."""
    found: tuple[Any, ...] = pickle.loads(zlib.decompress(data))
    return found


def _later(data: bytes) -> Later[Any]:
    return Later(partial(unpacked, data))
