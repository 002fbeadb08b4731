"""Which rules could make one parameter of another: by what their classes and shapes say."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing.kinds import KINDS, public_name
from padiff.pairing.rule import IDENTITY, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.pairing.steps import Shape

    from .inventory import Entry, UnitPair

__all__ = ["RESHAPE", "TURNS", "possible_rules", "square_rules"]

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
