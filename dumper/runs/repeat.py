"""Run a recorded model again, a little perturbed, to see how far rounding alone moves it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from padiff.dumpfile import ConfigError, Floor, RecordFloor, open_dump, write_floor
from padiff.dumpfile.scratch import scratch_folder

from .feeding import StepInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Array, Model, Tensor
    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumpfile import Dump, Index, RecordInfo, StepFile

    Merge = Callable[[RecordFloor | None, RecordFloor | None], RecordFloor | None]

BLOCK = 1 << 18
"""Elements that are widened to float64 at a time."""
FAR = 8.0
"""Epsilons of the two wider runs: what is smooth moves that many times as far in them. What does
not is the jump of a kink (ReLU6 in backward) that some element lies near, and jumps as far whatever
pushes it over. The second run is perturbed by the opposite of the first, so that an element that
the one pushes away from its kink is pushed over it by the other."""
JUMP = 4.0
"""How much farther than in proportion a record must have moved to have jumped."""

Rows = list["RecordFloor | None"]
Floors = dict[tuple[int, int], Rows]
"""By step and rank, one entry for each record."""


class Perturb(StrEnum):
    """What is changed in the further runs."""

    NONE = "none"
    """Nothing: what differs then is nondeterministic."""
    ULP = "ulp"
    """Floating inputs, weights and buffers, by up to one epsilon of their dtype, relatively."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatSettings:
    """How the noise floor is measured."""

    count: int
    perturb: Perturb = Perturb.ULP

    def __post_init__(self) -> None:
        """Refuse to repeat less than once.

        Raises:
            ConfigError: The count is below 1.
        """
        if self.count < 1:
            raise ConfigError(f"cannot repeat {self.count} times: expected 1 or more")


class PerturbedInputs(StepInputs):
    """What the model takes in a further run."""

    def __init__(self, inputs: StepInputs, move: Callable[[Array], Array], device: str) -> None:
        """Take over the inputs of the first run."""
        vars(self).update(vars(inputs))
        self._move = move
        self._device = device

    def arguments(self, step: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Make fresh tensors, perturbed."""
        positional, keywords = super().arguments(step)
        moved = tuple(self._perturbed(value) for value in positional)
        return moved, {name: self._perturbed(value) for name, value in keywords.items()}

    def _perturbed(self, value: Any) -> Any:  # noqa: ANN401 - nested containers of anything
        if isinstance(value, dict):
            return {key: self._perturbed(part) for key, part in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self._perturbed(part) for part in value)
        adapter = self._adapter
        if not adapter.is_tensor(value) or not adapter.is_floating(value):
            return value
        return adapter.tensor(
            self._move(adapter.snapshot(value)),
            device=self._device,
            dtype=None,
            requires_grad=adapter.requires_grad(value),
        )


class Repeats:
    """The further runs of one recording; takes note of the weights before the first."""

    def __init__(self, settings: RepeatSettings, adapter: Adapter, model: Model) -> None:
        """Keep a copy of all weights and buffers."""
        self._settings = settings
        self._adapter = adapter
        self._model = model
        self._kept = [(tensor, np.array(adapter.snapshot(tensor))) for tensor in self._own(model)]

    def measure(
        self,
        path: Path,
        record: RecordSettings,
        inputs: StepInputs,
        again: Callable[[StepInputs, RecordSettings], Path],
    ) -> None:
        """Run the model again and store how far every record of every step moved.

        Args:
            path: The finished dump.
            record: What was recorded of it.
            inputs: What it was fed.
            again: Records a run with other inputs and gives the dump's directory.
        """
        near = [
            self._sibling(path, record, inputs, again, number=number, size=1.0)
            for number in range(self._settings.count)
        ]
        floors = reduce(partial(_merge, merge=_larger), near)
        if self._settings.perturb is Perturb.ULP:
            number = self._settings.count
            for size in (FAR, -FAR):
                far = self._sibling(path, record, inputs, again, number=number, size=size)
                floors = _merge(floors, far, merge=_with_jumps)
        self._restore(lambda array: array)
        floor = Floor(
            repeats=self._settings.count,
            perturb=str(self._settings.perturb),
            records={place: tuple(rows) for place, rows in floors.items()},
        )
        write_floor(path, floor)

    def _sibling(
        self,
        path: Path,
        record: RecordSettings,
        inputs: StepInputs,
        again: Callable[[StepInputs, RecordSettings], Path],
        *,
        number: int,
        size: float,
    ) -> Floors:
        """Run once more, perturbed by so many epsilons, and measure every step."""
        move = partial(self._move, random=np.random.default_rng(number), size=size)
        self._restore(move)
        fed = PerturbedInputs(inputs, move, self._adapter.model_device(self._model))
        with scratch_folder(path.parent) as scratch:
            known, found = open_dump(path), open_dump(again(fed, _into(record, scratch)))
            places = [(file.step, file.rank) for file in known.files]
            return {place: _step_differences(known, found, place) for place in places}

    def _own(self, model: Model) -> Iterator[Tensor]:
        seen = set()
        for _, module in self._adapter.named_modules(model):
            for owned in self._adapter.own_tensors(module):
                identity = self._adapter.identity(owned.tensor)
                if identity not in seen:
                    seen.add(identity)
                    yield owned.tensor

    def _restore(self, move: Callable[[Array], Array]) -> None:
        for tensor, array in self._kept:
            moved = move(array) if self._adapter.is_floating(tensor) else array
            self._adapter.assign(tensor, moved)
        self._adapter.trainer.clear_model(self._model)

    def _move(self, array: Array, random: np.random.Generator, size: float) -> Array:
        if self._settings.perturb is Perturb.NONE:
            return array
        epsilon = float(ml_dtypes.finfo(array.dtype).eps)  # type: ignore[no-untyped-call]
        factor = 1 + size * epsilon * random.uniform(-1, 1, array.shape)
        moved: Array = (array.astype(np.float64) * factor).astype(array.dtype)
        return moved


def _into(record: RecordSettings, folder: Path) -> RecordSettings:
    return replace(record, out=folder, name="repeat")


def _step_differences(known: Dump, found: Dump, place: tuple[int, int]) -> Rows:
    with known.open(*place) as first, found.open(*place) as second:
        return _differences(first, second)


def _differences(known: StepFile, found: StepFile) -> Rows:
    """Measure every record of the first run in the second."""
    there = {_key(found.index, record): record for record in found.index.records}
    measured: dict[tuple[int, int], RecordFloor | None] = {}
    floors: Rows = []
    for record in known.index.records:
        other = there.get(_key(known.index, record))
        if other is None or record.value is None or other.value is None:
            floors.append(None)
            continue
        values = (record.value, other.value)
        if values not in measured:
            measured[values] = _difference(known, found, record, other)
        floors.append(measured[values])
    return floors


def _key(index: Index, record: RecordInfo) -> tuple[object, ...]:
    call = None if record.call is None else index.calls[record.call].index
    return record.module, call, record.phase, record.role, record.slot


def _difference(
    known: StepFile, found: StepFile, record: RecordInfo, other: RecordInfo
) -> RecordFloor | None:
    first, second = known.array(record), found.array(other)
    if first.shape != second.shape or first.dtype.kind in "biuc" or not first.size:
        return None
    one, two = first.reshape(-1), second.reshape(-1)
    largest, squares, count = 0.0, 0.0, 0
    for start in range(0, one.size, BLOCK):
        wide = [side[start : start + BLOCK].astype(np.float64) for side in (one, two)]
        finite = np.isfinite(wide[0])
        if not np.array_equal(finite, np.isfinite(wide[1])):
            return RecordFloor(max_abs=math.inf, rms=math.inf)
        distance = (wide[1] - wide[0])[finite]
        largest = max(largest, float(np.abs(distance).max(initial=0.0)))
        squares += float(np.dot(distance, distance))
        count += distance.size
    return RecordFloor(max_abs=largest, rms=math.sqrt(squares / max(count, 1)))


def _merge(one: Floors, other: Floors, merge: Merge) -> Floors:
    return {place: list(map(merge, rows, other[place])) for place, rows in one.items()}


def _larger(one: RecordFloor | None, other: RecordFloor | None) -> RecordFloor | None:
    if one is None or other is None:
        return one or other
    return RecordFloor(max_abs=max(one.max_abs, other.max_abs), rms=max(one.rms, other.rms))


def _with_jumps(near: RecordFloor | None, far: RecordFloor | None) -> RecordFloor | None:
    if near is None or far is None:
        return near or far
    return RecordFloor(
        max_abs=_with_jump(near.max_abs, far.max_abs), rms=_with_jump(near.rms, far.rms)
    )


def _with_jump(near: float, far: float) -> float:
    """Take a difference of the wider run as it is where it is a jump, else scaled back."""
    return far if far > JUMP * FAR * near else max(near, far / FAR)
