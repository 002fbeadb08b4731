"""Inputs that nobody has as a file: drawn from a shape and a dtype, alike on every machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError
from padiff.dumpfile.dtypes import DTYPE_NAMES, MOST_AXES, is_floating, numpy_dtype

from .target import near_names

if TYPE_CHECKING:
    from padiff.dumper.adapter import Array

AUTO = "auto:"
"""What the text of such an input begins with."""
_MOST_ELEMENTS = 1 << 31
_FORM = "auto:SHAPE[:DTYPE[:LOW:HIGH]]"
_EXAMPLES = "auto:1x3x224x224, auto:2x16:int64:0:1000 or auto:8:float32:-1:1"
_WITHOUT_RANGE = frozenset({"bool"})
_PARTS = (1, 2, 4)
"""How many parts the text may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnInput:
    """One ``--inputs auto:…``."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    bounds: tuple[float, float] | None = None
    """The lowest number and the first that is too high; None for a normal distribution."""
    keyword: str | None = None
    """None: by position."""
    step: int = 0

    def of_step(self, step: int) -> DrawnInput:
        """Draw other numbers in each step."""
        return replace(self, step=step)

    def read(self, place: int) -> Array:
        """Return the array.

        Floating-point numbers have mean 0 and variance 1, or are uniform within the bounds, as
        integers are; truth values are either with the same probability.

        Args:
            place: Which of the inputs it is: each has other numbers, and each step.
        """
        # The old generator, since numpy promises that its numbers stay what they are.
        source = np.random.RandomState([self.step, place])
        dtype = numpy_dtype(self.dtype)
        if self.dtype == "bool":
            return source.randint(0, 2, self.shape).astype(dtype)
        if dtype.kind in "iu":
            low, high = (int(one) for one in self.bounds or (0, 0))
            return np.asarray(source.randint(low, high, self.shape, np.int64)).astype(dtype)
        if dtype.kind == "c":
            real, imaginary = (source.standard_normal(self.shape) for _ in range(2))
            return np.asarray(real + 1j * imaginary).astype(dtype)
        if self.bounds is not None:
            return np.asarray(source.uniform(*self.bounds, self.shape)).astype(dtype)
        return np.asarray(source.standard_normal(self.shape)).astype(dtype)


def parse_drawn(text: str, keyword: str | None = None) -> DrawnInput:
    """Read ``auto:SHAPE[:DTYPE[:LOW:HIGH]]``.

    Args:
        text: The sizes of the axes are separated by ``x``; none at all is a single number.
        keyword: The argument that it is for; None: the next position.

    Raises:
        ConfigError: The text says something else, or nothing that can be drawn.
    """
    parts = text.removeprefix(AUTO).split(":")
    if len(parts) not in _PARTS:
        raise _refused(text, f"expected {_FORM}, found {len(parts)} parts")
    shape = _shape(text, parts[0])
    dtype = parts[1] if len(parts) > 1 else "float32"
    if dtype not in DTYPE_NAMES:
        raise ConfigError(
            f"cannot draw input {text!r}: expected a dtype, found {dtype!r}",
            hint=near_names(dtype, DTYPE_NAMES) or f"one of {', '.join(DTYPE_NAMES)}",
        )
    bounds = _bounds(text, dtype, parts[2:])
    return DrawnInput(shape=shape, dtype=dtype, bounds=bounds, keyword=keyword)


def _shape(text: str, sizes: str) -> tuple[int, ...]:
    try:
        shape = tuple(map(int, sizes.split("x"))) if sizes else ()
    except ValueError:
        raise _refused(text, f"expected sizes such as 2x16, found {sizes!r}") from None
    if any(size < 1 for size in shape) or len(shape) > MOST_AXES:
        raise _refused(text, f"expected up to {MOST_AXES} sizes from 1 upwards, found {sizes!r}")
    if math.prod(shape) > _MOST_ELEMENTS:
        found = math.prod(shape)
        raise _refused(text, f"expected at most {_MOST_ELEMENTS} elements, found {found}")
    return shape


def _bounds(text: str, dtype: str, words: list[str]) -> tuple[float, float] | None:
    is_integer = not is_floating(dtype) and dtype not in _WITHOUT_RANGE and "complex" not in dtype
    if not words:
        if is_integer:
            raise _refused(text, "expected the range of the integers, found none")
        return None
    kind = int if is_integer else float
    try:
        low, high = map(kind, words)
    except ValueError:
        raise _refused(text, f"expected two numbers, found {':'.join(words)!r}") from None
    if not (is_integer or is_floating(dtype)):
        raise _refused(text, f"expected no range for {dtype}, found {':'.join(words)!r}")
    if not low < high or not math.isfinite(high - low):
        raise _refused(text, f"expected a range that is not empty, found {':'.join(words)!r}")
    if is_integer:
        limits = np.iinfo(numpy_dtype(dtype))
        if low < limits.min or high - 1 > min(limits.max, np.iinfo(np.int64).max - 1):
            raise _refused(text, f"expected numbers of {dtype}, found {':'.join(words)!r}")
    return low, high


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f"cannot draw input {text!r}: {why}", hint=f"for instance {_EXAMPLES}")
