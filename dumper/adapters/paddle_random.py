"""Whether Paddle's generators were drawn from, which their state does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
from paddle.base import core

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["GeneratorProbe"]


class GeneratorProbe:
    """Draws from copies of the generators, so that they themselves stay where they are."""

    def __init__(self) -> None:
        """Make the generator that takes the copies."""
        self._probe = core.Generator()

    def state(self) -> Hashable:
        """Return what the CPU's generator would draw next, and each GPU's seed and offset."""
        self._probe.set_state(core.default_cpu_generator().get_state())
        host = self._probe.random()
        if not paddle.device.is_compiled_with_cuda():
            return host
        count = paddle.device.cuda.device_count()
        generators = (core.default_cuda_generator(number) for number in range(count))
        return host, tuple(_seed_and_offset(str(one.get_state())) for one in generators)


def _seed_and_offset(text: str) -> tuple[str, ...]:
    """Take the second and third word: device, seed, offset, engine (phi/core/generator.h)."""
    return tuple(text.split(" ", 3)[1:3])
