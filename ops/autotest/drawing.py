"""What a test of the user's own draws from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from padiff.ops.cases import Fill

from .proxies import Traced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.ops.table import Draw

    from .trace import Trace

T = TypeVar("T")
_STEPS = 8
"""Numbers are multiples of this part of their range: short ones."""
_FILLS = (Fill.NORMAL, Fill.SMALL)


class Drawing:
    """Draws shapes, numbers and tensors; the first of several choices is the simplest."""

    def __init__(self, draw: Draw, trace: Trace) -> None:
        """Draw for one run."""
        self._draw, self._trace = draw, trace
        self._drawn = 0

    def integer(self, low: int, high: int) -> int:
        """Draw a whole number, bounds included."""
        return self._draw.integer(low, high)

    def number(self, low: float, high: float) -> float:
        """Draw a number, bounds included."""
        return low + (high - low) * self._draw.integer(0, _STEPS) / _STEPS

    def flag(self) -> bool:
        """Draw yes or no."""
        return self._draw.flag()

    def one_of(self, *options: T) -> T:
        """Draw one of some options; ``nothing()`` is an argument that is left out."""
        return self._draw.choice(options)

    def shape(self, low: int = 1, high: int = 4, *, smallest: int = 1) -> tuple[int, ...]:
        """Draw a shape.

        Args:
            low: Fewest axes.
            high: Most axes.
            smallest: Fewest elements along an axis.
        """
        return self._draw.shape(low, high, smallest=smallest)

    def axis(self, ndim: int) -> int:
        """Draw an axis, counted from either end."""
        return self._draw.axis(ndim)

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Draw a shape that broadcasts to another one."""
        return self._draw.broadcast(shape)

    def tensor(
        self,
        *shape: int,
        dtype: str = "float32",
        low: float | None = None,
        high: float | None = None,
        fills: Sequence[str] = _FILLS,
        requires_grad: bool = True,
    ) -> Any:  # noqa: ANN401 -- stands for a tensor of a framework
        """Draw a tensor.

        Args:
            shape: Of it.
            dtype: Of it.
            low: No element is below.
            high: No float is above; whole numbers stay below, and need both bounds.
            fills: What elements to choose from: ``normal``, ``small``, ``wide``, ``special``.
            requires_grad: Of floats: whether the gradient by it is compared.
        """
        tensor = self._draw.tensor(
            shape,
            dtype,
            low=low,
            high=high,
            fills=[Fill(one) for one in fills],
            takes_gradient=requires_grad,
        )
        self._drawn += 1
        return Traced(self._trace, self._trace.leaf(tensor, f"tensor {self._drawn}"))

    def index(self, *shape: int, high: int) -> Any:  # noqa: ANN401 -- stands for a tensor
        """Draw whole numbers from 0 on, below a bound."""
        return self.tensor(*shape, dtype="int64", low=0, high=high)
