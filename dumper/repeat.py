"""Run a recorded model again, a little perturbed, to see how far rounding alone moves it."""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from padiff.dumpfile import ConfigError, Floor, RecordFloor, open_dump, write_floor

from .feeding import StepInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from padiff.dumpfile import Index, RecordInfo, StepFile

    from .adapter import Adapter, Array, Model, Tensor
    from .recordsettings import RecordSettings

__all__ = ["Perturb", "PerturbedInputs", "RepeatSettings", "Repeats"]


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
        """Take over the inputs of the first run.

        Args:
            inputs: What was read for it.
            move: Gives a floating array perturbed.
            device: Where the tensors go.
        """
        vars(self).update(vars(inputs))
        self._move = move
        self._device = device

    def arguments(self, step: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Make fresh tensors, perturbed."""
        positional, keywords = super().arguments(step)
        moved = tuple(self._moved(value) for value in positional)
        return moved, {name: self._moved(value) for name, value in keywords.items()}

    def _moved(self, value: Any) -> Any:  # noqa: ANN401 - nested containers of anything
        if isinstance(value, dict):
            return {key: self._moved(part) for key, part in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self._moved(part) for part in value)
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
        """Keep a copy of all weights and buffers.

        Args:
            settings: How often, and how perturbed.
            adapter: The model's framework.
            model: The model, before the run that is recorded.
        """
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
        """Run the model again and store how far every record moved.

        Args:
            path: The finished dump.
            record: What was recorded of it.
            inputs: What it was fed.
            again: Records a run with other inputs and gives the dump's directory.
        """
        device = self._adapter.model_device(self._model)
        with open_dump(path).open(*self._place(path)) as known:
            largest: list[RecordFloor | None] = [None] * len(known.index.records)
            for number in range(self._settings.count):
                random = np.random.default_rng(number)
                move = partial(self._move, random=random)
                self._restore(move)
                fed = PerturbedInputs(inputs, move, device)
                scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.repeat-", dir=path.parent))
                try:
                    other = again(fed, replace(record, out=scratch, name="repeat"))
                    with open_dump(other).open(*self._place(other)) as found:
                        largest = list(map(_larger, largest, _differences(known, found)))
                finally:
                    shutil.rmtree(scratch)
            place = (known.index.step, known.index.rank)
        self._restore(lambda array: array)
        floor = Floor(
            repeats=self._settings.count,
            perturb=str(self._settings.perturb),
            records={place: tuple(largest)},
        )
        write_floor(path, floor)

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

    def _move(self, array: Array, random: np.random.Generator) -> Array:
        if self._settings.perturb is Perturb.NONE:
            return array
        epsilon = float(ml_dtypes.finfo(array.dtype).eps)  # type: ignore[no-untyped-call]
        factor = 1 + epsilon * random.uniform(-1, 1, array.shape)
        moved: Array = (array.astype(np.float64) * factor).astype(array.dtype)
        return moved

    @staticmethod
    def _place(path: Path) -> tuple[int, int]:
        first = open_dump(path).files[0]
        return first.step, first.rank


def _differences(known: StepFile, found: StepFile) -> list[RecordFloor | None]:
    """Measure every record of the first run in the second."""
    there = {_key(found.index, record): record for record in found.index.records}
    measured: dict[tuple[int, int], RecordFloor | None] = {}
    floors: list[RecordFloor | None] = []
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
    if first.shape != second.shape or first.dtype.kind in "biuc":
        return None
    with np.errstate(all="ignore"):
        distance = np.abs(second.astype(np.float64) - first.astype(np.float64)).ravel()
    finite = distance[np.isfinite(distance)]
    if not distance.size:
        return None
    same = np.array_equal(np.isfinite(first), np.isfinite(second))
    rms = math.sqrt(float(np.dot(finite, finite)) / max(finite.size, 1))
    return RecordFloor(
        max_abs=float(finite.max(initial=0.0)) if same else math.inf,
        rms=rms if same else math.inf,
    )


def _larger(one: RecordFloor | None, other: RecordFloor | None) -> RecordFloor | None:
    if one is None or other is None:
        return one or other
    return RecordFloor(max_abs=max(one.max_abs, other.max_abs), rms=max(one.rms, other.rms))
