"""What is known of a value before it exists: its kind of number and its shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

LARGEST_NDIM = 32
"""Axes of a value: half of what numpy can hold, so that windows fit."""
LARGEST_COUNT = 2**52
"""Elements of a value, logically: far beyond any limit of memory, and products stay exact."""
ITEM_BYTES = {"bool": 1, "int": 8, "float": 8, "complex": 16}


class ShapeError(ValueError):
    """A primitive was asked for something that its shape rule does not allow."""


class Kind(StrEnum):
    """The kinds of number that are executed, one dtype each."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    COMPLEX = "complex"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype that stands for the kind."""
        return _DTYPES[self]

    @property
    def rank(self) -> int:
        """The place in the order in which kinds are promoted."""
        return _ORDER.index(self)

    @classmethod
    def of_dtype(cls, name: str) -> Kind:
        """Return the kind of a dtype by its name in a dump, such as ``bfloat16``.

        >>> Kind.of_dtype("uint8").value
        'int'
        """
        if name == "bool":
            return cls.BOOL
        for start, kind in (("complex", cls.COMPLEX), ("uint", cls.INT), ("int", cls.INT)):
            if name.startswith(start):
                return kind
        if name.startswith(("float", "bfloat")):
            return cls.FLOAT
        raise ShapeError(f"no kind of number for dtype {name!r}")


_ORDER = tuple(Kind)
_DTYPES = {
    Kind.BOOL: np.dtype(np.bool_),
    Kind.INT: np.dtype(np.int64),
    Kind.FLOAT: np.dtype(np.float64),
    Kind.COMPLEX: np.dtype(np.complex128),
}


@dataclass(frozen=True, slots=True)
class Spec:
    """The kind and the shape of a value."""

    kind: Kind
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) > LARGEST_NDIM:
            raise ShapeError(f"expected at most {LARGEST_NDIM} axes, found {len(self.shape)}")
        for size in self.shape:
            if type(size) is not int or size < 0:
                raise ShapeError(f"expected sizes from 0 on, found {self.shape!r}")
        if self.count > LARGEST_COUNT:
            raise ShapeError(f"expected at most {LARGEST_COUNT} elements, found {self.count}")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The size of the value where it is executed, whether it is a view or not."""
        return self.count * ITEM_BYTES[self.kind]


Infer: TypeAlias = Callable[..., "Spec | tuple[Spec, ...]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """One operator of the common vocabulary."""

    name: str
    arity: tuple[int, int]
    """The least and the largest number of operands."""
    infer: Infer
    """The shape rule: specs of the operands and attributes in, specs of the results out.

    It checks every attribute, and raises ``ShapeError``.
    """
    run: Callable[..., Any]
    """The numpy implementation: arrays and the same attributes in, one array or several out."""
    work: Callable[..., int] | None = None
    """Multiplications and additions, from the arguments of ``infer``; None: one an element."""
    workspace: Callable[..., int] | None = None
    """Bytes that ``run`` needs beside operands and results; None: as many as the results."""


def check(condition: bool, message: str, *found: object) -> None:
    """Raise ``ShapeError`` unless the condition holds."""
    if not condition:
        raise ShapeError(f"expected {message}, found {', '.join(map(repr, found))}")


def promote(*specs: Spec) -> Kind:
    """Return the kind that holds all of them: bool < int < float < complex."""
    kinds = {spec.kind for spec in specs}
    return kinds.pop() if len(kinds) == 1 else max(kinds, key=lambda kind: kind.rank)


def float_kind(kind: Kind) -> Kind:
    """Return the kind that a function of real numbers gives: float for bool and int."""
    return kind if kind is Kind.COMPLEX else Kind.FLOAT


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that numpy broadcasts to, without allocating anything.

    >>> broadcast((3, 1), (4,))
    (3, 4)
    """
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    ndim = max(map(len, shapes), default=0)
    result = []
    for axis in range(-ndim, 0):
        sizes = {shape[axis] for shape in shapes if -axis <= len(shape)} - {1}
        check(len(sizes) <= 1, "shapes that can be broadcast", *shapes)
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def axis_of(axis: object, ndim: int) -> int:
    """Return an axis counted from the front."""
    check(type(axis) is int, "an axis", axis)
    assert isinstance(axis, int)
    bound = max(ndim, 1)
    check(-bound <= axis < bound, f"an axis of {ndim}", axis)
    return axis % bound


def normal_axes(axes: object, ndim: int) -> tuple[int, ...]:
    """Return different axes counted from the front, in the order given."""
    check(isinstance(axes, tuple), "a tuple of axes", axes)
    assert isinstance(axes, tuple)
    result = tuple(axis_of(axis, ndim) for axis in axes)
    check(len(set(result)) == len(result), "different axes", axes)
    return result
