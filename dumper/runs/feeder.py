"""Feed each call of a model what the reference's call handed on, so that errors do not add up.

A call first records its own output; what runs after it sees the reference's recorded one. In the
backward pass each call gets the reference's recorded gradient of its output. So every module is
judged by itself (PaDiff's single step, in two phases).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from padiff.dumper.recording.nested import flatten, flatten_call
from padiff.dumpfile import ConfigError, Content, Role, is_floating, open_dump
from padiff.pairing import kind_of, pair
from padiff.pairing.kinds import ACTIVATIONS

from .feedphase import FeedPhase
from .rebuild import rebuilt

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from padiff.dumper.adapter import Adapter, Array, Model, Module, Tensor
    from padiff.dumper.recording.recorder import Recorder
    from padiff.dumpfile import JSON, Dump, RecordInfo, StepFile
    from padiff.pairing import MapFile, Rule, Side


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


class Place(NamedTuple):
    """Where in a step a tensor left a call."""

    path: str
    call: int
    slot: str

    def __str__(self) -> str:
        """Spell it like an address, without step and role."""
        call = f"#{self.call}" if self.call else ""
        return f"{self.path or '(root)'}{call}{self.slot}"


class Unfit(Exception):  # noqa: N818 -- a reason why a call runs unfed, never a user's error
    """Says why the reference has nothing for a tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFeed:
    """What one output of the candidate is made of."""

    sources: tuple[Place, ...]
    rule: Rule


@dataclass(slots=True)
class _Open:
    """The file of the step that is being fed, and where its records are."""

    file: StepFile
    outputs: dict[Place, RecordInfo] = field(default_factory=dict)
    gradients: dict[Place, RecordInfo] = field(default_factory=dict)


class FeedSource:
    """The outputs and gradients of a reference dump, by what they are to the candidate."""

    def __init__(self, reference: Path, *, rank: int = 0, steps: Iterable[int] = (0,)) -> None:
        """Open the dump.

        Args:
            reference: The dump to feed from.
            rank: The candidate's; the reference's first where it has no such rank.
            steps: What is going to be run.

        Raises:
            DumpError: The dump cannot be read.
            ConfigError: It lacks a step, or holds no values.
        """
        self._dump: Dump = open_dump(reference)
        self._name = str(reference)
        ranks = sorted({info.rank for info in self._dump.files})
        self._rank = rank if rank in ranks else ranks[0]
        have = {info.step for info in self._dump.files if info.rank == self._rank}
        lacking = [str(step) for step in steps if step not in have]
        if lacking:
            raise ConfigError(
                f"cannot feed from {self._name!r}: expected the steps that are run, found none of "
                f"number {', '.join(lacking[:5])}",
                hint="record the reference with the same --steps, or run fewer",
            )
        self._first = min(have)
        self._table: dict[Place, RecordedFeed] = {}
        self._open: _Open | None = None

    def learn(self, candidate: Side, map_file: MapFile | None = None) -> None:
        """Pair the calls of a run of the candidate with those of the reference's first step.

        Raises:
            ConfigError: No output of the two is paired, or the reference holds digests only.
        """
        with self._dump.open(self._first, self._rank) as known:
            values = known.index.values
            fed = {one.value for one in known.index.records} - {None}
            if any(values[value].content is not Content.FULL for value in fed if value is not None):
                raise ConfigError(
                    f"cannot feed from {self._name!r}: it holds digests and statistics only",
                    hint='record the reference with content="full"',
                )
            for one in pair(known, candidate, map_file=map_file, explains_unmatched=False).records:
                record = candidate.index.records[one.candidate]
                records = [known.index.records[place] for place in one.reference]
                is_output = record.role is Role.OUTPUT and record.call is not None
                if is_output and not _are_exchanged((known, records[0]), (candidate, record)):
                    places = tuple(_place(known, source) for source in records)
                    self._table[_place(candidate, record)] = RecordedFeed(
                        sources=places, rule=one.rule
                    )
        if not self._table:
            raise ConfigError(
                f"cannot feed from {self._name!r}: none of its outputs has a counterpart"
            )

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Open the file of one step while the block runs it."""
        with self._dump.open(number, self._rank) as file:
            self._open = _Open(file)
            for record in file.index.records:
                if record.call is not None and record.value is not None:
                    if record.role is Role.OUTPUT:
                        self._open.outputs[_place(file, record)] = record
                    elif record.role is Role.GRAD_OUTPUT:
                        self._open.gradients[_place(file, record)] = record
            try:
                yield
            finally:
                self._open = None

    def output(self, place: Place, shape: Sequence[int]) -> Array:
        """Return what the reference has in the place of an output.

        Raises:
            Unfit: It has nothing there, or nothing of that shape.
        """
        feed = self._table.get(place)
        if feed is None:
            raise Unfit("no partner")
        return self._serve({} if self._open is None else self._open.outputs, feed, shape)

    def gradient(self, place: Place, shape: Sequence[int]) -> Array | None:
        """Return the reference's gradient of an output, None if it recorded none."""
        feed = self._table.get(place)
        if feed is None or self._open is None:
            return None
        try:
            return self._serve(self._open.gradients, feed, shape)
        except Unfit:
            return None

    def has_gradient(self, place: Place) -> bool:
        """Return whether the reference recorded the gradient of an output."""
        feed = self._table.get(place)
        return (
            feed is not None
            and self._open is not None
            and all(source in self._open.gradients for source in feed.sources)
        )

    def _serve(
        self, known: dict[Place, RecordInfo], feed: RecordedFeed, shape: Sequence[int]
    ) -> Array:
        if self._open is None or any(source not in known for source in feed.sources):
            raise Unfit("the reference did not record its partner in this step")
        records = [known[source] for source in feed.sources]
        shapes, target = [record.shape for record in records], tuple(shape)
        if not feed.rule.fits(shapes, target):
            there = " and ".join(map(str, shapes))
            raise Unfit(f"shape {target}, the reference has {there}")
        arrays = [self._open.file.array(record) for record in records]
        return feed.rule.apply(arrays, target).copy()


def _are_exchanged(*ends: tuple[Side, RecordInfo]) -> bool:
    """Return whether two outputs are those of activations of different kinds.

    Such a call runs unfed, so that what is around it shows what it did.
    """
    kinds = {kind_of(side.index.modules[record.module]) for side, record in ends}
    return len(kinds) > 1 and kinds <= ACTIVATIONS


def _place(side: Side, record: RecordInfo) -> Place:
    call = side.index.calls[record.call or 0]
    return Place(side.index.modules[record.module].path, call.index, record.slot)
