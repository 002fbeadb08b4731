"""Makes a case smaller that Hypothesis has shrunk already.

Hypothesis changes one choice at a time; a smaller tensor needs another seed to show the same
element, and tensors that share a shape must change together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.ops.cases import Argument, Case, Fill, Layout, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TRIES = 400
_SEEDS = 8
_SHAPES = ((), (1,), (2,), (3,), (2, 2))


def simplified(case: Case, is_same: Callable[[Case], bool]) -> Case:
    """Return a smaller case that shows the same.

    Args:
        case: Shows it.
        is_same: Runs a case, and returns whether it still does.
    """
    left, tried = _TRIES, {repr(case)}
    is_moving = True
    while is_moving:
        is_moving = False
        for other in _simpler(case):
            if other.size >= case.size or repr(other) in tried:
                continue
            tried.add(repr(other))
            left -= 1
            if left < 0:
                return case
            if is_same(other):
                case, is_moving = other, True
                break
    return case


def _simpler(case: Case) -> Iterator[Case]:
    """Yield cases that may be simpler, the simplest first."""
    for shape in dict.fromkeys(one.shape for one in case.tensors):
        for target in (*_SHAPES, *_cut(shape)):
            for seed in range(_SEEDS):
                yield _changed(case, lambda one, s=shape, t=target, n=seed: (  # type: ignore[misc]
                    replace(one, shape=t, seed=n) if one.shape == s else one
                ))  # fmt: skip
                if len(target) > 1:
                    break
    for name in case.arguments:
        rest = {key: one for key, one in case.arguments.items() if key != name}
        yield replace(case, arguments=rest)
    for place in range(len(case.tensors)):
        for simpler in _tensors(case.tensors[place]):
            held = id(case.tensors[place])
            yield _changed(case, lambda one, s=simpler, h=held: s if id(one) == h else one)  # type: ignore[misc]
    yield replace(case, seed=0)


def _cut(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield shapes with one axis less, or a shorter one."""
    for axis, size in enumerate(shape):
        before, behind = shape[:axis], shape[axis + 1 :]
        yield (*before, *behind)
        for less in {1, 2, size - 1}:
            if 0 < less < size:
                yield (*before, less, *behind)


def _tensors(one: Tensor) -> Iterator[Tensor]:
    yield replace(one, layout=Layout.CONTIGUOUS)
    for fill in Fill:
        for seed in range(_SEEDS):
            yield replace(one, fill=fill, seed=seed)
        if fill is one.fill:
            break


def _changed(case: Case, change: Callable[[Tensor], Tensor]) -> Case:
    def changed(argument: Argument) -> Argument:
        if isinstance(argument, Tensor):
            return argument if argument.elements is not None else change(argument)
        if isinstance(argument, tuple):
            return tuple(changed(each) for each in argument)
        return argument

    return replace(case, arguments={key: changed(one) for key, one in case.arguments.items()})
