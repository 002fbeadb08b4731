"""Feed each call of a model what the reference's call handed on, so that errors do not add up.

A call first records its own output; what runs after it sees the reference's recorded one. In the
backward pass each call gets the reference's recorded gradient of its output. So every module is
judged by itself (PaDiff's single step, in two phases).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from padiff.dumper.recording.nested import flatten, flatten_call
from padiff.dumpfile import is_floating

from .feedphase import FeedPhase
from .feedsource import FeedSource, Place, Unfit
from .rebuild import rebuilt

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator
    from pathlib import Path
    from typing import Any

    from padiff.dumper.adapter import Adapter, Model, Module, Tensor
    from padiff.dumper.recording.recorder import Recorder
    from padiff.dumpfile import JSON
    from padiff.pairing import MapFile, Side

MOST_NAMES = 5


class Feeder:
    """Replaces each output of the candidate by what the reference has in its place."""

    def __init__(
        self,
        adapter: Adapter,
        model: Model,
        phase: FeedPhase,
        reference: Path,
        *,
        rank: int = 0,
        steps: Iterable[int] = (0,),
    ) -> None:
        """Open the dump to feed from.

        Args:
            adapter: The model's framework.
            model: The model, unwrapped.
            phase: FORWARD feeds outputs, BACKWARD gradients, BOTH both.
            reference: The dump to feed from.
            rank: Which process this is.
            steps: Numbers of the steps that are going to be run.

        Raises:
            DumpError: The reference cannot be read.
            ConfigError: It lacks a step.
        """
        self._adapter = adapter
        self._model = model
        self._phase = phase
        self._reference = reference
        self._source = FeedSource(reference, rank=rank, steps=steps)
        self._fed: set[Place] = set()
        self._unfed: dict[Place, str] = {}
        self._steps: set[int] = set()
        self._lost: set[str] = set()

    def learn(self, candidate: Side, map_file: MapFile | None = None) -> None:
        """Pair the calls of a run of the model with those of the reference.

        Args:
            candidate: What a run of the model recorded.
            map_file: What the user decided.

        Raises:
            ConfigError: No output of the two is paired, or the reference holds no values.
        """
        self._source.learn(candidate, map_file)

    def notes(self) -> list[str]:
        """State what was fed and what ran unfed."""
        steps = "" if len(self._steps) == 1 else f" in each of {len(self._steps)} steps"
        notes = [
            f"fed: {len(self._fed)} outputs were replaced by the reference's ({self._phase}){steps}"
        ]
        if self._unfed:
            more = len(self._unfed) - MOST_NAMES
            shown = [f"{place} ({why})" for place, why in self._unfed.items()][:MOST_NAMES]
            rest = f" and {more} more" if more > 0 else ""
            notes.append(f"these ran unfed: {', '.join(shown)}{rest}")
        if self._lost:
            notes.append(
                "checkpointing ran calls of these again and nothing told which, so that they ran "
                f"unfed then: {', '.join(sorted(self._lost)[:MOST_NAMES])}"
            )
        return notes

    def settings(self) -> dict[str, JSON]:
        """Return what the manifest keeps of it: the phase, and every output that ran unfed."""
        unfed: list[JSON] = [
            {"module": place.path, "call": place.call, "slot": place.slot, "reason": why}
            for place, why in self._unfed.items()
        ]
        return {
            "feed": {
                "reference": self._reference.name,
                "phase": str(self._phase),
                "outputs": len(self._fed),
                "unfed": unfed,
            }
        }

    @contextmanager
    def feeding(self, recorder: Recorder, step: int = 0) -> Iterator[None]:
        """Feed the model while the block runs one step.

        Args:
            recorder: Records it, and has been entered: it knows which call runs again.
            step: Its number.
        """
        calls: dict[str, int] = {}
        seen: set[int] = set()
        self._steps.add(step)
        with self._source.step(step), ExitStack() as exits:
            for path, module in self._adapter.named_modules(self._model):
                if id(module) in seen:  # shared: its first path names it
                    continue
                seen.add(id(module))
                for handle in self._attach(path, module, calls, recorder):
                    exits.callback(handle.remove)
            yield

    def _attach(
        self, path: str, module: Module, calls: dict[str, int], recorder: Recorder
    ) -> Iterator[Any]:
        entered: list[dict[int, Hashable]] = []

        def before(_module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = flatten_call(args, kwargs, self._adapter.is_tensor).tensors
            key = self._adapter.content_key
            entered.append({id(tensor): key(tensor) for _, tensor in given})

        def replace(output: object) -> object:
            given = entered.pop() if entered else {}
            made = calls.get(path, 0)
            if self._adapter.in_backward():
                again = self._again(path, made, recorder)
                return output if again is None else self._replaced(path, again, output, given)
            calls[path] = made + 1
            return self._replaced(path, made, output, given)

        yield self._adapter.hook_calls(module, before, lambda _module, _output: None)
        yield self._adapter.trainer.feed_output(module, replace)

    def _again(self, path: str, made: int, recorder: Recorder) -> int | None:
        """Return which call of a module checkpointing has just run again, None if nothing tells."""
        current = recorder.steps.current
        found = None if current is None else current.repeated(path)
        if found is None and made != 1:
            self._lost.add(path or "(root)")
            return None
        return found or 0

    def _replaced(self, path: str, call: int, output: object, given: dict[int, Hashable]) -> object:
        changed: dict[int, Tensor] = {}
        for slot, tensor in flatten(output, self._adapter.is_tensor).tensors:
            place = Place(path, call, slot)
            # What only passes a tensor on has no gradient of its own: its hook would sit on the
            # tensor that other modules use too.
            passes = id(tensor) in given and given[id(tensor)] == self._adapter.content_key(tensor)
            try:
                changed[id(tensor)] = self._feed(place, tensor, has_gradient=not passes)
            except Unfit as reason:
                self._unfed.setdefault(place, str(reason))
            else:
                self._fed.add(place)
        return rebuilt(output, changed)

    def _feed(self, place: Place, own: Tensor, *, has_gradient: bool) -> Tensor:
        """Return the tensor to hand on.

        Raises:
            Unfit: The reference has nothing for it.
        """
        adapter, shape = self._adapter, tuple(own.shape)
        dtype = str(own.dtype).rpartition(".")[2]
        device = adapter.model_device(self._model)
        array = self._source.output(place, shape)
        if is_floating(array.dtype.name) != adapter.is_floating(own):
            raise Unfit(f"dtype {dtype}, the reference has {array.dtype.name}")
        wanted = None
        if self._phase is not FeedPhase.BACKWARD:
            wanted = adapter.tensor(array, device=device, dtype=dtype)

        def gradient() -> Tensor | None:
            found = self._source.gradient(place, shape)
            return None if found is None else adapter.tensor(found, device=device, dtype=dtype)

        feeds_gradient = self._phase is not FeedPhase.FORWARD and has_gradient
        feeds_gradient = feeds_gradient and self._source.has_gradient(place)
        return adapter.trainer.fed(own, wanted, gradient if feeds_gradient else None)
