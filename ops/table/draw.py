"""What a strategy draws from: choices, sizes, tensors.

A strategy is a plain function of a ``Draw``, so that the table can be read where Hypothesis is
not installed. The first of several choices is the simplest: failures are shrunk towards it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from padiff.ops.cases import Argument, Fill, Layout, Tensor

T = TypeVar("T")

_FILLS = (Fill.NORMAL, Fill.SMALL, Fill.WIDE, Fill.SPECIAL)
_SIZES = (2, 3, 1, 4, 5, 0)
"""Of an axis, by how often they are wanted."""
_SEEDS = 1000


class Draw(ABC):
    """Draws arguments."""

    @abstractmethod
    def choice(self, options: Sequence[T]) -> T:
        """Draw one of some options."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """Draw a whole number, bounds included."""

    def flag(self) -> bool:
        """Draw yes or no."""
        return self.choice((False, True))

    def optional(self, arguments: dict[str, Argument], name: str, options: Sequence[T]) -> None:
        """Add an argument to some, or leave it out."""
        if self.flag():
            arguments[name] = self.choice(options)  # type: ignore[assignment]

    def shape(self, low: int = 0, high: int = 4, *, smallest: int = 0) -> tuple[int, ...]:
        """Draw a shape.

        Args:
            low: Fewest axes.
            high: Most axes.
            smallest: Fewest elements along an axis.
        """
        ndim = self.integer(low, high)
        return tuple(self.size(smallest) for _ in range(ndim))

    def size(self, smallest: int = 0) -> int:
        """Draw the length of an axis."""
        return self.choice(tuple(sorted(one for one in _SIZES if one >= smallest)))

    def axis(self, ndim: int) -> int:
        """Draw an axis, counted from either end; of a tensor without axes 0 or -1."""
        return self.integer(-max(ndim, 1), max(ndim, 1) - 1)

    def axes(self, ndim: int) -> tuple[int, ...]:
        """Draw some different axes, at least one, in any order."""
        left = list(range(ndim))
        found = []
        for _ in range(self.integer(1, ndim)):
            one = self.choice(tuple(left))
            left.remove(one)
            found.append(one - ndim if self.flag() else one)
        return tuple(found)

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Draw a shape that broadcasts to another one: fewer axes, or some of length 1."""
        kept = shape[self.integer(0, len(shape)) :] if self.flag() else shape
        return tuple(1 if self.flag() else one for one in kept)

    def float_dtype(self) -> str:
        """Draw a dtype of floats."""
        return self.choice(("float32", "float64"))

    def tensor(
        self,
        shape: tuple[int, ...],
        dtype: str = "float32",
        *,
        low: float | None = None,
        high: float | None = None,
        fills: Sequence[Fill] = (),
        takes_gradient: bool = True,
    ) -> Tensor:
        """Draw a tensor.

        Args:
            shape: Of it.
            dtype: Of it; whole numbers need both bounds.
            low: No element is below.
            high: No float is above; whole numbers stay below.
            fills: Those to choose from; () for all that fit.
            takes_gradient: Of floats: whether the gradient by it is asked for.
        """
        is_float = dtype.startswith(("float", "bfloat"))
        if not fills:
            fills = _FILLS if low is None and high is None and is_float else _FILLS[:3]
        layouts = tuple(Layout) if shape else (Layout.CONTIGUOUS,)
        return Tensor(
            shape=shape,
            dtype=dtype,
            fill=self.choice(tuple(sorted(fills, key=list(Fill).index))),
            seed=self.integer(0, _SEEDS),
            low=low,
            high=high,
            layout=self.choice(layouts),
            takes_gradient=takes_gradient and is_float,
        )

    def index(self, shape: tuple[int, ...], high: int, dtype: str = "int64") -> Tensor:
        """Draw whole numbers from 0 on, below a bound."""
        return self.tensor(shape, dtype, low=0, high=high, fills=(Fill.NORMAL,))
