"""What Paddle's operators draw on their way: the noise of choices, slopes below zero.

What they return does not tell all of it. So an operator is called once more, with its generator
where it was before and arguments that show what it draws, and the generator goes back.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import paddle
from paddle import _C_ops

from .paddle_random import default_generator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .paddle_random import RandomState


def _noise(given: tuple[Any, ...]) -> paddle.Tensor:
    """Return exponential numbers, whose logarithms are taken from the scores; but for a factor.

    A factor that all scores of one choice share does not change their softmax.
    """
    x, _, _, axis = given
    return 1.0 / _C_ops.gumbel_softmax(paddle.zeros_like(x), 1.0, False, axis)  # noqa: FBT003


def _slopes(given: tuple[Any, ...]) -> paddle.Tensor:
    """Return where between the two bounds the slope of each element lies, from 0 to 1.

    Only for elements below zero a slope is drawn; the others get 0.
    """
    x, low, high, _ = given
    is_below = x < 0
    ones: Any = 1.0 - 2.0 * is_below.astype(x.dtype)
    made: Any = _C_ops.rrelu(ones, low, high, False)  # noqa: FBT003
    places = (-made - low) / max(high - low, 1e-30)
    return paddle.where(is_below, places.clip(0.0, 1.0), paddle.zeros_like(x))


_AGAIN: dict[str, Callable[[tuple[Any, ...]], paddle.Tensor]] = {
    "gumbel_softmax": _noise,
    "rrelu": _slopes,
}
"""Operators by their last names, and what shows what they drew."""


_EXACT = (paddle.float32, paddle.float64)
"""Dtypes in which what is shown is what was drawn."""


def drawn_again(name: str, given: tuple[Any, ...], before: RandomState) -> paddle.Tensor | None:
    """Return what an operator drew, in the form in which its row of the table takes it.

    Args:
        name: Of the operator.
        given: Its positional arguments.
        before: The states of all generators before it was called.

    Returns:
        None for an operator of which that cannot be shown.
    """
    show = _AGAIN.get(name.rpartition(".")[2])
    if show is None or given[0].dtype not in _EXACT:
        return None
    with _put_back(given[0].place, before), paddle.no_grad():
        return show(given)


@contextmanager
def _put_back(place: Any, before: RandomState) -> Iterator[None]:  # noqa: ANN401
    """Put the generator of a device where it was, and afterwards where it is now."""
    generator = default_generator(place)
    now = generator.get_state()
    generator.set_state(before.of(place))
    try:
        yield
    finally:
        generator.set_state(now)
