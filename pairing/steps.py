"""The words that layout rules are made of: what each does to arrays, to shapes, and its undoing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


class Verb(StrEnum):
    """What one step of a rule does. Steps before a joining one apply to each array alike."""

    TRANSPOSE = "transpose"
    """Swap the two axes of a matrix."""
    PERMUTE = "permute"
    """``permute 0 2 3 1``: reorder the axes."""
    RESHAPE = "reshape"
    """``reshape 3 -1``, or alone and last: C-order reshape to the partner's shape."""
    ROWS = "rows"
    """``rows 0/3`` or ``rows 4:8``: a block along axis 0."""
    COLUMNS = "columns"
    """``columns 0/3`` or ``columns 4:8``: a block along axis 1."""
    GROUPS = "groups"
    """``groups 2 0:32 [axis]``: cut the axis in 2 equal groups, keep the block of each."""
    TAKE = "take"
    """``take 5``: the element 5 of axis 0, which goes away."""
    CONCAT = "concat"
    """``concat 0``: join all arrays along the axis."""
    INTERLEAVE = "interleave"
    """``interleave 2 [axis]``: cut each array in 2 equal groups, join group by group."""
    STACK = "stack"
    """``stack``: join all arrays along a new axis 0."""
    ZEROS = "zeros"
    """``zeros 1 4``: before a join, 4 rows of zeros as array 1, counted from 0."""
    INSERT = "insert"
    """``insert 2``: a new axis of length 1 before axis 2."""
    SQUEEZE = "squeeze"
    """``squeeze 2``: drop axis 2, which has length 1."""
    SPLIT = "split"
    """``split 1``, last: axis 1 becomes two, as long as the partner's: heads and their width."""
    MERGE = "merge"
    """``merge 1``: axes 1 and 2 become one."""
    NOT = "not"
    """Logical not, of boolean masks."""
    EXPAND = "expand"
    """``expand 2 7 4``, or alone and last: repeat axes of length 1, as numpy broadcasts."""
    SUM = "sum"
    """``sum 0 2``: add up along axes, which go away: the gradient of what was repeated."""


JOINING = frozenset({Verb.CONCAT, Verb.INTERLEAVE, Verb.STACK})
"""The verbs that make one array of several."""
PICKING = frozenset({Verb.ROWS, Verb.COLUMNS, Verb.GROUPS, Verb.TAKE})
"""The verbs that keep only a part of an array."""
MOVING = frozenset({
    Verb.TRANSPOSE, Verb.PERMUTE, Verb.RESHAPE, Verb.INSERT, Verb.SQUEEZE, Verb.SPLIT, Verb.MERGE,
})  # fmt: skip
"""The verbs after which each element is there once, as it was."""
COUNTING = frozenset({Verb.EXPAND, Verb.SUM})
"""The verbs that change how often an element counts."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of an axis: the ``i/n``-th of equal shares, or ``start:stop``."""

    first: int
    second: int
    is_share: bool

    def __str__(self) -> str:
        """Return ``i/n`` or ``start:stop``."""
        return f"{self.first}{'/' if self.is_share else ':'}{self.second}"

    def span(self, length: int) -> tuple[int, int]:
        """Return start and stop within an axis of this length.

        Raises:
            ConfigError: The axis cannot be cut so.
        """
        if not self.is_share:
            if not 0 <= self.first < self.second <= length:
                raise ConfigError(f"cannot take {self} of an axis of length {length}")
            return self.first, self.second
        if length % self.second:
            raise ConfigError(f"cannot cut an axis of length {length} in {self.second} equal parts")
        size = length // self.second
        return self.first * size, (self.first + 1) * size


@dataclass(frozen=True, slots=True)
class Step:
    """One word of a rule with its arguments."""

    verb: Verb
    numbers: tuple[int, ...] = ()
    block: Block | None = None

    def __str__(self) -> str:
        """Return the text form, which ``parse_step`` reads."""
        words = [str(self.verb)]
        if self.verb is Verb.GROUPS:
            words += [str(self.numbers[0]), str(self.block), *map(str, self.numbers[1:])]
        else:
            words += [str(number) for number in self.numbers]
            words += [] if self.block is None else [str(self.block)]
        return " ".join(words)

    @property
    def axis(self) -> int:
        """Return the axis that the step works along, 0 where it has none."""
        if self.verb is Verb.CONCAT:
            return self.numbers[0]
        if self.verb in {Verb.GROUPS, Verb.INTERLEAVE} and len(self.numbers) > 1:
            return self.numbers[1]
        return 1 if self.verb is Verb.COLUMNS else 0

    def shape(self, shapes: Sequence[Shape], target: Shape) -> tuple[Shape, ...]:
        """Return the shapes that come out for the shapes that go in.

        Args:
            shapes: One for each array.
            target: What a bare ``reshape`` makes.

        Raises:
            ConfigError: Arrays of these shapes cannot take this step.
        """
        if self.verb in JOINING:
            return (_joined(self, shapes),)
        if self.verb is Verb.ZEROS:
            return _with_zeros(self, shapes)
        return tuple(_WORDS[self.verb].shape(self, shape, target) for shape in shapes)

    def apply(self, arrays: Sequence[Array], target: Shape) -> list[Array]:
        """Do the step; shapes were checked by ``shape``. Views where numpy can."""
        if self.verb in JOINING:
            return [_join(self, arrays)]
        if self.verb is Verb.ZEROS:
            place, length = self.numbers
            zeros = np.zeros((length, *arrays[0].shape[1:]), arrays[0].dtype)
            return [*arrays[:place], zeros, *arrays[place:]]
        return [_WORDS[self.verb].apply(self, array, target) for array in arrays]


def parse_step(text: str) -> Step:
    """Read the text form of a step.

    Raises:
        ConfigError: No such word, or wrong arguments.
    """
    words = text.split()
    if not words or words[0] not in set(Verb):
        known = ", ".join(Verb)
        raise ConfigError(f"unknown word {text!r} in a layout rule", hint=f"known words: {known}")
    verb = Verb(words[0])
    blocks = [word for word in words[1:] if re.search(r"[/:]", word)]
    numbers = [word for word in words[1:] if word not in blocks]
    low, high, *_ = _WORDS[verb]
    wants_block = verb in PICKING - {Verb.TAKE}
    is_bad = len(blocks) != int(wants_block) or not low <= len(numbers) <= high
    if is_bad or not all(re.fullmatch(r"-?\d{1,15}", number) for number in numbers):
        raise ConfigError(f"wrong arguments in the layout rule {text!r}")
    step = Step(verb, tuple(map(int, numbers)), _parse_block(blocks[0]) if blocks else None)
    _check(step)
    return step


def _parse_block(text: str) -> Block:
    match = re.fullmatch(r"(\d{1,15})([/:])(\d{1,15})", text)
    if match is None:
        raise ConfigError(f"cannot read the block {text!r} of a layout rule, expected i/n or a:b")
    first, second, is_share = int(match[1]), int(match[3]), match[2] == "/"
    if first >= second:
        raise ConfigError(f"empty block {text!r} in a layout rule")
    return Block(first, second, is_share)


def _check(step: Step) -> None:
    numbers = step.numbers
    if step.verb is Verb.PERMUTE and sorted(numbers) != list(range(len(numbers))):
        raise ConfigError(f"{step!s} is no permutation of the axes")
    if step.verb is Verb.RESHAPE:
        if min(numbers, default=0) < -1 or numbers.count(-1) > 1:
            raise ConfigError(f"{step!s} is no shape")
    elif min(numbers, default=0) < 0:
        raise ConfigError(f"negative number in the layout rule {step!s}")
    if step.verb in {Verb.GROUPS, Verb.INTERLEAVE} and numbers[0] < 1:
        raise ConfigError(f"{step!s} needs at least one group")


def _refuse(step: Step, shape: Shape) -> ConfigError:
    return ConfigError(f"cannot apply the layout rule {str(step)!r} to the shape {shape}")


def _shape_transpose(step: Step, shape: Shape, _: Shape) -> Shape:
    if len(shape) != 2:  # noqa: PLR2004
        raise _refuse(step, shape)
    return shape[::-1]


def _shape_permute(step: Step, shape: Shape, _: Shape) -> Shape:
    if len(shape) != len(step.numbers):
        raise _refuse(step, shape)
    return tuple(shape[axis] for axis in step.numbers)


def _shape_reshape(step: Step, shape: Shape, target: Shape) -> Shape:
    wanted, size = step.numbers or target, math.prod(shape)
    if -1 in wanted:
        rest = -math.prod(wanted)
        if rest == 0 or size % rest:
            raise _refuse(step, shape)
        wanted = tuple(size // rest if number == -1 else number for number in wanted)
    if math.prod(wanted) != size:
        raise ConfigError(f"cannot reshape {shape} to {wanted}")
    return wanted


def _shape_block(step: Step, shape: Shape, _: Shape) -> Shape:
    if step.block is None or len(shape) <= step.axis:
        raise _refuse(step, shape)
    groups = step.numbers[0] if step.verb is Verb.GROUPS else 1
    if shape[step.axis] % groups:
        raise _refuse(step, shape)
    start, stop = step.block.span(shape[step.axis] // groups)
    return (*shape[: step.axis], groups * (stop - start), *shape[step.axis + 1 :])


def _shape_take(step: Step, shape: Shape, _: Shape) -> Shape:
    if not shape or step.numbers[0] >= shape[0]:
        raise _refuse(step, shape)
    return shape[1:]


def _shape_insert(step: Step, shape: Shape, _: Shape) -> Shape:
    axis = step.numbers[0]
    if axis > len(shape):
        raise _refuse(step, shape)
    return (*shape[:axis], 1, *shape[axis:])


def _shape_squeeze(step: Step, shape: Shape, _: Shape) -> Shape:
    axis = step.numbers[0]
    if axis >= len(shape) or shape[axis] != 1:
        raise _refuse(step, shape)
    return (*shape[:axis], *shape[axis + 1 :])


def _shape_split(step: Step, shape: Shape, target: Shape) -> Shape:
    axis = step.numbers[0]
    if len(target) != len(shape) + 1 or _merged(target, axis) != shape:
        raise _refuse(step, shape)
    return target


def _shape_merge(step: Step, shape: Shape, _: Shape) -> Shape:
    if step.numbers[0] + 1 >= len(shape):
        raise _refuse(step, shape)
    return _merged(shape, step.numbers[0])


def _merged(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], math.prod(shape[axis : axis + 2]), *shape[axis + 2 :])


def _shape_same(_step: Step, shape: Shape, _: Shape) -> Shape:
    return shape


def _shape_expand(step: Step, shape: Shape, target: Shape) -> Shape:
    wanted = step.numbers or target
    padded = (1,) * (len(wanted) - len(shape)) + shape
    is_repeat = all(a in (1, b) for a, b in zip(padded, wanted, strict=False))
    if len(padded) != len(wanted) or not is_repeat:
        raise ConfigError(f"cannot expand {shape} to {wanted}")
    return wanted


def _shape_sum(step: Step, shape: Shape, _: Shape) -> Shape:
    if max(step.numbers) >= len(shape) or len(set(step.numbers)) != len(step.numbers):
        raise _refuse(step, shape)
    return tuple(size for axis, size in enumerate(shape) if axis not in step.numbers)


def _as_shaped(step: Step, array: Array, target: Shape) -> Array:
    """Do a step that moves no element: what its shape is, is all."""
    return array.reshape(_WORDS[step.verb].shape(step, array.shape, target))


def _apply_sum(step: Step, array: Array, _: Shape) -> Array:
    wide = np.complex128 if np.iscomplexobj(array) else np.float64
    return np.asarray(array.astype(wide).sum(axis=step.numbers), wide)


def _with_zeros(step: Step, shapes: Sequence[Shape]) -> tuple[Shape, ...]:
    place, length = step.numbers
    if place > len(shapes) or not shapes[0]:
        raise _refuse(step, shapes[0])
    return (*shapes[:place], (length, *shapes[0][1:]), *shapes[place:])


def _joined(step: Step, shapes: Sequence[Shape]) -> Shape:
    first = shapes[0]
    if step.verb is Verb.STACK:
        if any(shape != first for shape in shapes):
            raise ConfigError(f"cannot stack arrays of different shapes {list(shapes)}")
        return (len(shapes), *first)
    axis, groups = step.axis, step.numbers[0] if step.verb is Verb.INTERLEAVE else 1
    for shape in shapes:
        if len(shape) <= axis or shape[axis] % groups:
            raise _refuse(step, shape)
        if (shape[:axis], shape[axis + 1 :]) != (first[:axis], first[axis + 1 :]):
            raise ConfigError(f"cannot join {first} and {shape} along axis {axis}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _join(step: Step, arrays: Sequence[Array]) -> Array:
    if step.verb is Verb.STACK:
        return np.stack(arrays)
    axis, groups = step.axis, step.numbers[0] if step.verb is Verb.INTERLEAVE else 1
    if groups == 1:
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis)
    cut = [np.split(array, groups, axis=axis) for array in arrays]
    return np.concatenate([part for group in zip(*cut, strict=True) for part in group], axis=axis)


def _apply_block(step: Step, array: Array, _: Shape) -> Array:
    if step.block is None:
        raise _refuse(step, array.shape)
    axis, groups = step.axis, step.numbers[0] if step.verb is Verb.GROUPS else 1
    length = array.shape[axis]
    start, stop = step.block.span(length // groups)
    before = (slice(None),) * axis
    if groups == 1:
        return array[(*before, slice(start, stop))]
    shape = (*array.shape[:axis], groups, length // groups, *array.shape[axis + 1 :])
    kept = array.reshape(shape)[(*before, slice(None), slice(start, stop))]
    return kept.reshape((*array.shape[:axis], groups * (stop - start), *array.shape[axis + 1 :]))


class _Word(NamedTuple):
    """How many numbers a verb takes, and what it does; for verbs of several arrays see ``Step``."""

    least: int
    most: int
    shape: Callable[[Step, Shape, Shape], Shape] = _shape_same
    apply: Callable[[Step, Array, Shape], Array] = lambda _step, array, _: array


_MANY = 64
_WORDS = {
    Verb.TRANSPOSE: _Word(0, 0, _shape_transpose, lambda _step, array, _: array.T),
    Verb.PERMUTE: _Word(
        1, _MANY, _shape_permute, lambda one, array, _: array.transpose(one.numbers)
    ),
    Verb.RESHAPE: _Word(0, _MANY, _shape_reshape, _as_shaped),
    Verb.ROWS: _Word(0, 0, _shape_block, _apply_block),
    Verb.COLUMNS: _Word(0, 0, _shape_block, _apply_block),
    Verb.GROUPS: _Word(1, 2, _shape_block, _apply_block),
    Verb.TAKE: _Word(1, 1, _shape_take, lambda step, array, _: array[step.numbers[0]]),
    Verb.CONCAT: _Word(1, 1),
    Verb.INTERLEAVE: _Word(1, 2),
    Verb.STACK: _Word(0, 0),
    Verb.ZEROS: _Word(2, 2),
    Verb.INSERT: _Word(1, 1, _shape_insert, _as_shaped),
    Verb.SQUEEZE: _Word(1, 1, _shape_squeeze, _as_shaped),
    Verb.SPLIT: _Word(1, 1, _shape_split, _as_shaped),
    Verb.MERGE: _Word(1, 1, _shape_merge, _as_shaped),
    Verb.NOT: _Word(0, 0, _shape_same, lambda _step, array, _: np.logical_not(array)),
    Verb.EXPAND: _Word(
        0,
        _MANY,
        _shape_expand,
        lambda step, array, target: np.broadcast_to(array, step.numbers or target),
    ),
    Verb.SUM: _Word(1, _MANY, _shape_sum, _apply_sum),
}
