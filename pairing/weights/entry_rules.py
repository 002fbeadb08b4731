"""Which parameters of two units belong together, and by which rules: by class, shape and name."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing.kinds import KINDS, public_name
from padiff.pairing.names import numbers_in, words_of
from padiff.pairing.rule import IDENTITY, Rule

from .resolve import told_by_words

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from padiff.pairing.steps import Shape

    from .inventory import Entry, Unit, UnitPair
    from .weight_plan import WeightPair

    Make = Callable[[Entry, Entry], WeightPair | None]

_RESHAPE = Rule.parse("reshape")
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
    """Return the rules that could hold, the likeliest first; none if the shapes do not fit."""
    given = shapes, entry, pair
    ways: tuple[Callable[[], Iterable[Rule]], ...] = (
        partial(square_rules, *given, is_foreign=is_foreign),
        partial(_usual, whole, *given),
        partial(_reshaped, rule, *given),
        partial(_as_kept, *given),
    )
    for rules in ways:
        fitting = [one for one in rules() if one.fits(shapes, entry.shape)]
        if fitting:
            return fitting
    return []


def _usual(rule: Rule, shapes: Sequence[Shape], entry: Entry, pair: UnitPair) -> list[Rule]:
    """Return the rules that could hold, the likeliest first."""
    has_same_shape = len(shapes) == 1 and shapes[0] == entry.shape
    known = [pair.reference.is_laid_out, pair.candidate.is_laid_out]
    if has_same_shape and (rule == _RESHAPE or not any(known)):
        return [IDENTITY]
    is_table = "embedding" in {pair.reference.kind, pair.candidate.kind} and has_same_shape
    turn = TURNS.get(len(entry.shape))
    is_stack = len(entry.shape) == _CUBE
    if turn is None or rule.joins or all(known) or is_table or (is_stack and has_same_shape):
        return [rule]
    return [rule, rule.then(turn)]  # of stacked matrices, each the other way round


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
    """Return the rules between layouts that differ by axes of length 1: a Linear as a convolution.

    What the one class turns is turned back before, and what the other turns is turned after.
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
            options.append(rule.then(_RESHAPE) if is_last else rule.then(between).then(entry.rule))
    except ConfigError:  # one of the two is flattened or packed
        pass
    is_known = pair.reference.is_laid_out and pair.candidate.is_laid_out
    is_turned = is_known and bool(options)
    if not is_turned and _squeezed(shapes[0]) == _squeezed(entry.shape):
        options += [_RESHAPE] if _RESHAPE not in options else []
    return options


def _as_kept(shapes: Sequence[Shape], entry: Entry, pair: UnitPair) -> Iterable[Rule]:
    """Yield the rules where a class is no layer of a framework, or turns the layer it derives from.

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
            yield _RESHAPE


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


_LEAF_WORDS = {
    "gamma": "weight", "scale": "weight", "kernel": "weight", "w": "weight", "_weight": "weight",
    "embedding_table": "weight", "g": "weight", "gain": "weight", "a": "weight", "a_2": "weight",
    "beta": "bias", "b": "bias", "b_2": "bias", "shift": "bias", "offset": "bias", "center": "bias",
    "running_mean": "mean", "_mean": "mean", "moving_mean": "mean",
    "running_var": "variance", "_variance": "variance", "moving_variance": "variance",
}  # fmt: skip
_LEAST_STEM = 4
"""Letters of a word that another one may begin with and mean the same: ``scale``, ``scaler``."""


def pair_likest(
    left: Sequence[Entry], late: Sequence[Entry], make: Make, *, is_alone: bool
) -> Iterator[WeightPair]:
    """Pair each parameter with the one whose name clearly fits best, until nothing more is clear.

    Equal names come first, then words and numbers among what has one size, then what is left over.

    Args:
        left: The reference's.
        late: The candidate's.
        make: Pairs two of them; None if their shapes do not fit.
        is_alone: Whether the candidate's unit has no other.
    """
    ours = {one.record.id: one for one in left if len(one.atoms) == 1}
    theirs = {one.record.id: one for one in late if len(one.atoms) == 1 and not one.is_alias}
    is_alone = is_alone and len(ours) == 1
    refused: set[tuple[int, int]] = set()
    is_growing = True
    while is_growing:
        is_growing = False
        for one, two in _possible(
            list(ours.values()), list(theirs.values()), refused, is_alone=is_alone
        ):
            made, both = make(one, two), (one.record.id, two.record.id)
            if made is not None:
                del ours[both[0]], theirs[both[1]]
                yield made
            is_growing = is_growing or made is not None or both not in refused
            refused.add(both)


def _possible(
    ours: Sequence[Entry],
    theirs: Sequence[Entry],
    refused: Container[tuple[int, int]],
    *,
    is_alone: bool,
) -> Iterator[tuple[Entry, Entry]]:
    """Yield the likest of each size, each other once."""
    done: set[int] = set()
    named = {_leaf(one): one for one in ours}
    for two in theirs:
        one = named.get(_leaf(two))
        if one is not None and (one.record.id, two.record.id) not in refused:
            del named[_leaf(two)]
            done |= {id(one), id(two)}
            yield one, two
    groups: dict[tuple[int, bool], tuple[list[Entry], list[Entry]]] = {}
    for at, side in enumerate((ours, theirs)):
        for one in side:
            if id(one) not in done:
                key = prod(one.shape), one.is_buffer and not is_alone
                groups.setdefault(key, ([], []))[at].append(one)
    for group in groups.values():
        if len(group[0]) == len(group[1]) == 1:
            yield group[0][0], group[1][0]
        elif all(group):
            words = [[_words(one) for one in side] for side in group]
            stems = frozenset().union(*words[0], *words[1])
            said = [
                [frozenset(_stem(word, stems) for word in one) for one in side] for side in words
            ]
            for at, other in told_by_words(said[0], said[1]):
                yield group[0][at], group[1][other]


def _leaf(entry: Entry) -> str:
    head, dot, leaf = entry.local.rpartition(".")
    return head + dot + _LEAF_WORDS.get(leaf, leaf)


def _words(entry: Entry) -> frozenset[str]:
    """Return the words and numbers of a name, and the words of the module that holds it."""
    holder = entry.name.removesuffix(entry.local).rstrip(".").rpartition(".")[2]
    leaf = _leaf(entry)
    numbers = frozenset(map(str, numbers_in(leaf)))
    return words_of(leaf) | words_of(entry.local) | words_of(holder) | numbers


def _stem(word: str, words: Container[str]) -> str:
    """Return the shortest of some words that a word begins with."""
    starts = (word[:length] for length in range(_LEAST_STEM, len(word)))
    return next((start for start in starts if start in words), word)


_AXIS_ATTRIBUTE = "weight_norm_dim"
"""What the dumper calls the axis that a hook of weight_norm keeps. Along another axis it is another
function. torch keeps ``weight_g`` with axes of length 1, Paddle flat; and Paddle's Linear lies
transposed: torch's ``dim=0`` is Paddle's ``dim=1``. On a square matrix shapes do not tell."""
_WHOLE = -1
_MAGNITUDE, _DIRECTION = ":g", ":direction"


def is_magnitude(entry: Entry) -> bool:
    """Return whether an entry is the ``g`` of a weight_norm."""
    return len(entry.atoms) == 1 and entry.atoms[0].endswith(_MAGNITUDE)


def norm_doubt(
    reference: tuple[Unit, Entry], candidate: tuple[Unit, Entry], unsure: float
) -> float:
    """Return how far two magnitudes can be partners.

    Returns:
        1 if they run along the same axis, 0 if they do not, ``unsure`` if that is not known.
    """
    axes = [_neutral_axis(unit, entry) for unit, entry in (reference, candidate)]
    if None not in axes:
        return float(axes[0] == axes[1])
    rules = {
        getattr(_direction(unit, entry), "rule", None) for unit, entry in (reference, candidate)
    }
    return 1.0 if len(rules) == 1 else unsure


def _direction(unit: Unit, entry: Entry) -> Entry | None:
    wanted = entry.atoms[0].removesuffix(_MAGNITUDE) + _DIRECTION
    return next((other for other in unit.entries if other.atoms == (wanted,)), None)


def _neutral_axis(unit: Unit, entry: Entry) -> int | None:
    """Return the axis in the neutral layout, -1 for one norm of all, None if nothing tells."""
    direction = _direction(unit, entry)
    if direction is None:
        return None
    if not entry.shape:
        return _WHOLE
    axis = _own_axis(unit, entry, direction)
    if axis is None or axis == _WHOLE or direction.rule == IDENTITY:
        return axis
    return 1 - axis if direction.rule == _TRANSPOSE and axis >= 0 else None


def _own_axis(unit: Unit, entry: Entry, direction: Entry) -> int | None:
    stated = unit.module.attributes.get(_AXIS_ATTRIBUTE)
    if isinstance(stated, int) and not isinstance(stated, bool):
        return stated
    if len(entry.shape) == len(direction.shape):
        fitting = [axis for axis, length in enumerate(entry.shape) if length != 1]
    else:
        fitting = [axis for axis, length in enumerate(direction.shape) if (length,) == entry.shape]
    return fitting[0] if len(fitting) == 1 else None
