"""Feed each call of a model what the reference's call handed on, so that errors do not add up.

A call first records its own output; what runs after it sees the reference's recorded one. In the
backward pass each call gets the reference's recorded gradient of its output. So every module is
judged by itself (PaDiff's single step, in two phases).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ConfigError, Role, open_dump
from padiff.pairing import pair

from .feedphase import FeedPhase
from .nested import flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from padiff.dumpfile import RecordInfo
    from padiff.pairing import MapFile, RecordPair, Side

    from .adapter import Adapter, Array, Model, Tensor

__all__ = ["Feeder"]

Place = tuple[str, int, str]
"""Module path, call, slot."""

MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class _Food:
    """What one output is replaced by."""

    output: Array | None
    gradient: Array | None


class Feeder:
    """Knows what each output of the candidate is to be replaced by."""

    def __init__(self, adapter: Adapter, model: Model, phase: FeedPhase) -> None:
        """Keep what is fed.

        Args:
            adapter: The model's framework.
            model: The model.
            phase: FORWARD feeds outputs, BACKWARD gradients, BOTH both.
        """
        self._adapter = adapter
        self._model = model
        self._phase = phase
        self._food: dict[Place, _Food] = {}
        self._unfed: list[str] = []

    def learn(self, reference: Path, candidate: Side, map_file: MapFile | None = None) -> None:
        """Pair the calls of a run of the model with those of the reference.

        Args:
            reference: The dump to feed from; its first step is used.
            candidate: What a run of the model recorded.
            map_file: What the user decided.

        Raises:
            DumpError: The reference cannot be read.
            ConfigError: No output of the two is paired.
        """
        dump = open_dump(reference)
        first = dump.files[0]
        with dump.open(first.step, first.rank) as known:
            pairing = pair(known, candidate, map_file=map_file)
            for one in pairing.records:
                record = candidate.index.records[one.candidate]
                if record.role is Role.OUTPUT and record.call is not None:
                    self._learn(known, candidate, one, record)
            self._unfed = self._without_food(candidate)
        if not self._food:
            raise ConfigError(
                f"cannot feed from {str(reference)!r}: none of its outputs has a counterpart"
            )

    def notes(self) -> list[str]:
        """State what was fed and what ran unfed."""
        notes = [f"fed: {len(self._food)} outputs were replaced by the reference's ({self._phase})"]
        if self._unfed:
            more = len(self._unfed) - MOST_NAMES
            names = ", ".join(self._unfed[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
            notes.append(f"without a partner of equal shape, these calls ran unfed: {names}")
        return notes

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Feed the model while the block runs one step; enter it after the recorder."""
        calls: dict[str, int] = {}
        seen: set[int] = set()
        with ExitStack() as exits:
            for path, module in self._adapter.named_modules(self._model):
                if id(module) in seen:  # shared: its first path names it
                    continue
                seen.add(id(module))
                replace = self._replacer(path, calls)
                handle = self._adapter.trainer.feed_output(module, replace)
                exits.callback(handle.remove)
            yield

    def _learn(self, known: Any, candidate: Side, one: RecordPair, record: RecordInfo) -> None:  # noqa: ANN401
        sources = [known.index.records[place] for place in one.reference]
        shapes = [source.shape for source in sources]
        if not one.rule.fits(shapes, record.shape) or any(s.value is None for s in sources):
            return
        gradients = [_gradient_of(known, source) for source in sources]
        output = gradient = None
        if self._phase is not FeedPhase.BACKWARD:
            output = one.rule.apply([known.array(source) for source in sources], record.shape)
        if self._phase is not FeedPhase.FORWARD and all(gradients):
            arrays = [known.array(found) for found in gradients if found is not None]
            gradient = one.rule.apply(arrays, record.shape)
        self._food[_place(candidate, record)] = _Food(
            None if output is None else output.copy(),
            None if gradient is None else gradient.copy(),
        )

    def _without_food(self, candidate: Side) -> list[str]:
        places = [
            _place(candidate, record)
            for record in candidate.index.records
            if record.role is Role.OUTPUT and record.value is not None
        ]
        lacking = [place for place in places if place not in self._food]
        return [f"{path or '(root)'}#{call}" for path, call, _ in lacking]

    def _replacer(self, path: str, calls: dict[str, int]) -> Callable[[object], object]:
        def replace(output: object) -> object:
            if self._adapter.in_backward():
                return output
            call = calls.get(path, 0)
            calls[path] = call + 1
            food: dict[int, Tensor] = {}
            for slot, tensor in flatten(output, self._adapter.is_tensor).tensors:
                found = self._food.get((path, call, slot))
                if found is not None and self._adapter.is_floating(tensor):
                    food[id(tensor)] = self._fed(tensor, found)
            return _rebuilt(output, food)

        return replace

    def _fed(self, own: Tensor, food: _Food) -> Tensor:
        def tensor(array: Array | None) -> Tensor | None:
            if array is None:
                return None
            device = self._adapter.model_device(self._model)
            dtype = str(own.dtype).rpartition(".")[2]
            return self._adapter.tensor(array, device=device, dtype=dtype)

        wanted, gradient = tensor(food.output), tensor(food.gradient)
        wanted = own.detach() if wanted is None else wanted
        return self._adapter.trainer.fed(own, wanted, gradient)


def _gradient_of(known: Any, source: RecordInfo) -> RecordInfo | None:  # noqa: ANN401
    """Find the recorded gradient of an output."""
    return next(
        (
            record
            for record in known.index.records
            if record.role is Role.GRAD_OUTPUT
            and (record.call, record.slot) == (source.call, source.slot)
            and record.value is not None
        ),
        None,
    )


def _place(side: Side, record: RecordInfo) -> Place:
    call = side.index.calls[record.call or 0]
    return side.index.modules[record.module].path, call.index, record.slot


def _rebuilt(value: Any, food: dict[int, Tensor]) -> Any:  # noqa: ANN401
    """Put tensors into the place of others; containers of other classes stay as they are."""
    if id(value) in food:
        return food[id(value)]
    if type(value) in (tuple, list):
        return type(value)(_rebuilt(part, food) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rebuilt(part, food) for part in value))
    if type(value) is dict:
        return {key: _rebuilt(part, food) for key, part in value.items()}
    return value
