"""Which parameters of two units belong together, and by which rules: by class, shape and name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing.kinds import KINDS, public_name
from padiff.pairing.names import likeness, numbers_in, words_of
from padiff.pairing.rule import IDENTITY, Rule

from .weight_norm import is_magnitude

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from padiff.pairing.steps import Shape

    from .inventory import Entry, UnitPair
    from .weight_plan import WeightPair

    Make = Callable[[Entry, Entry], WeightPair | None]
    _Group = tuple[frozenset[str], tuple[int, ...], Rule, bool]

__all__ = ["RESHAPE", "TURNS", "pair_likest", "possible_rules", "square_rules"]

RESHAPE = Rule.parse("reshape")
_TRANSPOSE = Rule.parse("transpose")
_TURN = Rule.parse("permute 0 2 1")
_MATRIX, _CUBE = 2, 3
TURNS = {_MATRIX: _TRANSPOSE, _CUBE: _TURN}
"""What lays a matrix the other way round, or each of a stack of them, by the number of axes."""
_TRANSPOSED = "is_transposed"
"""Attribute in which the stacks of experts of transformers state how they lie."""


def possible_rules(
    rule: Rule,
    whole: Rule,
    shapes: Sequence[Shape],
    entry: Entry,
    pair: UnitPair,
    *,
    is_foreign: bool = False,
) -> list[Rule]:
    """Give the rules that could hold, the likeliest first; none if the shapes do not fit.

    Args:
        rule: Makes what the reference's entries hold of them.
        whole: Makes the candidate's entry of them, by the classes of both.
        shapes: Of the reference's entries.
        entry: The candidate's.
        pair: The two layers.
        is_foreign: Whether they are of two frameworks.
    """
    square = square_rules(shapes, entry, pair, is_foreign=is_foreign)
    if square:
        return square
    options = _usual(whole, shapes, entry, pair)
    if not any(option.fits(shapes, entry.shape) for option in options):
        options = _reshaped(rule, shapes, entry, pair)
    options = [option for option in options if option.fits(shapes, entry.shape)]
    return options or list(_as_kept(shapes, entry, pair))


def _usual(rule: Rule, shapes: Sequence[Shape], entry: Entry, pair: UnitPair) -> list[Rule]:
    """Give the rules that could hold, the likeliest first."""
    has_same_shape = len(shapes) == 1 and shapes[0] == entry.shape
    if rule == RESHAPE and has_same_shape:
        return [IDENTITY]
    is_known = pair.reference.is_laid_out and pair.candidate.is_laid_out
    if is_known and rule.fits(shapes, entry.shape):
        return [rule]
    is_unknown = not (pair.reference.is_laid_out or pair.candidate.is_laid_out)
    if is_unknown and has_same_shape:
        return [IDENTITY]
    options = [rule]
    if len(entry.shape) == _MATRIX and not rule.joins and not is_known:
        options.append(rule.then(_TRANSPOSE))
        if "embedding" in {pair.reference.kind, pair.candidate.kind} and has_same_shape:
            options = [rule]
    if len(entry.shape) == _CUBE and not rule.joins and not is_known and not has_same_shape:
        options.append(rule.then(_TURN))  # stacked matrices, each the other way round
    return options


def square_rules(
    shapes: Sequence[Shape], entry: Entry, pair: UnitPair, *, is_foreign: bool
) -> list[Rule]:
    """Return the rules of a square matrix that may lie either way; none for all other entries.

    Layers of two frameworks keep matrices the other way round, and what authors write beside them
    often does. Stacks of matrices lie either way in one framework, too, unless both sides are of
    one class. Where both state how they lie, one rule is left.

    Args:
        shapes: Of the reference's entries.
        entry: The candidate's.
        pair: The two layers.
        is_foreign: Whether they are of two frameworks.
    """
    turn = TURNS.get(len(entry.shape))
    is_known = pair.reference.is_laid_out or pair.candidate.is_laid_out
    is_same = [tuple(entry.shape)] == [tuple(shape) for shape in shapes]
    is_square = len(set(entry.shape[-_MATRIX:])) == 1
    if turn is None or is_known or entry.is_buffer or not (is_same and is_square):
        return []
    modules = pair.reference.module, pair.candidate.module
    if len(entry.shape) == _CUBE:
        stated = [module.attributes.get(_TRANSPOSED) for module in modules]
        if all(isinstance(one, bool) for one in stated):
            return [IDENTITY if stated[0] == stated[1] else turn]
        is_foreign = is_foreign or modules[0].class_path != modules[1].class_path
    return [IDENTITY, turn] if is_foreign else []


def _reshaped(rule: Rule, shapes: Sequence[Shape], entry: Entry, pair: UnitPair) -> list[Rule]:
    """Give the rules between layouts that differ by axes of length 1: a Linear as a convolution.

    What the one class turns is turned back before, and what the other turns is turned after.

    Args:
        rule: Makes what the reference entry holds of it.
        shapes: Of the reference entry.
        entry: The candidate's.
        pair: The two layers.
    """
    inverse = entry.rule.inverse
    if len(shapes) != 1 or shapes[0] == entry.shape or inverse is None:
        return []
    options = []
    try:
        held, wanted = rule.shape_of(shapes), inverse.shape_of([entry.shape])
        if _squeezed(held) == _squeezed(wanted):
            between = Rule.parse(" ".join(("reshape", *map(str, wanted))))
            is_last = entry.rule.is_identity
            options.append(rule.then(RESHAPE) if is_last else rule.then(between).then(entry.rule))
    except ConfigError:  # one of the two is flattened or packed
        pass
    is_known = pair.reference.is_laid_out and pair.candidate.is_laid_out
    is_turned = is_known and bool(options)
    if not is_turned and _squeezed(shapes[0]) == _squeezed(entry.shape):
        options += [RESHAPE] if RESHAPE not in options else []
    return options


def _as_kept(shapes: Sequence[Shape], entry: Entry, pair: UnitPair) -> Iterable[Rule]:
    """Give the rules where a class is no layer of a framework, or turns the layer it derives from.

    A head that derives from Paddle's Linear and multiplies by the transpose keeps torch's shape;
    an author of einsums keeps an axis of heads that another merges with its neighbour.
    """
    if len(shapes) != 1:
        return
    is_own = [public_name(unit.module.class_path) not in KINDS
              for unit in (pair.reference, pair.candidate)]  # fmt: skip
    if any(is_own) and len(entry.shape) == _MATRIX:
        yield from (one for one in (IDENTITY, _TRANSPOSE) if one.fits(shapes, entry.shape))
    if all(is_own) and _MATRIX in map(len, (shapes[0], entry.shape)):
        long, short = sorted((shapes[0], entry.shape), key=len, reverse=True)
        if any(prod(long[:cut]) == short[0] and prod(long[cut:]) == short[-1]
               for cut in range(1, len(long))):  # fmt: skip
            yield RESHAPE


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


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
