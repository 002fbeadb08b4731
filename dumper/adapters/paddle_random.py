"""Whether Paddle's generators were drawn from, which their state does not show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import paddle
from paddle.base import core


@dataclass(frozen=True, slots=True)
class RandomState:
    """Where all generators are; two of them are equal if the same would be drawn next."""

    seen: tuple[object, ...]
    """What the CPU's generator would draw next, and each GPU's seed and offset."""
    states: tuple[Any, ...] = field(compare=False, repr=False)
    """Paddle's own, of the CPU and of each GPU."""

    def of(self, place: Any) -> Any:  # noqa: ANN401
        """Return the state of the generator of a device, as Paddle has it."""
        return self.states[1 + place.gpu_device_id() if place.is_gpu_place() else 0]


class GeneratorProbe:
    """Draws from copies of the generators, so that they themselves stay where they are."""

    def __init__(self) -> None:
        """Make the generator that takes the copies."""
        self._probe = core.Generator()

    def state(self) -> RandomState:
        """Return where the generators are."""
        host = core.default_cpu_generator().get_state()
        self._probe.set_state(host)
        first = self._probe.random()
        if not paddle.device.is_compiled_with_cuda():
            return RandomState(seen=(first,), states=(host,))
        count = paddle.device.cuda.device_count()
        states = [core.default_cuda_generator(number).get_state() for number in range(count)]
        seen = (first, *(_seed_and_offset(str(one)) for one in states))
        return RandomState(seen=seen, states=(host, *states))


def default_generator(place: Any) -> Any:  # noqa: ANN401
    """Return the generator that operators on a device draw from."""
    if place.is_gpu_place():
        return core.default_cuda_generator(place.gpu_device_id())
    return core.default_cpu_generator()


def _seed_and_offset(text: str) -> tuple[str, ...]:
    """Take the second and third word: device, seed, offset, engine (phi/core/generator.h)."""
    return tuple(text.split(" ", 3)[1:3])
