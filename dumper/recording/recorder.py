"""The recording of one model: hooks it, counts its steps, and writes the dump."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from padiff.dumpfile import ConfigError, DumpWriter, InputInfo, RecordError, Role

from .active import recorders
from .description import Description
from .ending import Ending
from .ranks import ranks_of
from .recordedsteps import RecordedSteps
from .recordsettings import Counts, RecordSettings
from .select import Selection
from .source import Sources
from .tree import build_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType

    from padiff.dumper.adapter import Adapter, Model, Tensor
    from padiff.dumper.trainer import Optimizer
    from padiff.dumpfile import JSON

    from .construction import Construction

_NUMBERS = int | float | np.number | np.ndarray


class Recorder:
    """A recording of one model. Use it as a context manager, once."""

    def __init__(
        self,
        model: Model,
        settings: RecordSettings,
        adapter: Adapter,
        *,
        optimizers: Sequence[Optimizer] = (),
        built: Construction | None = None,
    ) -> None:
        """Look at the model; nothing is hooked or written before ``with``.

        Args:
            model: The model, possibly wrapped.
            settings: What to record.
            adapter: Its framework.
            optimizers: What changes its weights.
            built: How buffers and constants of the model were made, if that is known.

        Raises:
            ConfigError: The model or an optimizer is not the adapter's.
        """
        _check(model, optimizers, adapter)
        self._adapter = adapter
        self._model = adapter.unwrap(model)
        self._settings = settings
        self._optimizers, self._built = tuple(optimizers), built
        self._ranks = ranks_of(wait_s=settings.rank_wait_s, alone=settings.alone)
        self._about = Description(model, adapter, settings)
        self._ending = Ending(self._about.name, raises=settings.raises)
        self._exits = ExitStack()
        self._steps: RecordedSteps | None = None
        self._path: Path | None = None
        self._ended = False
        self._started_s = 0.0
        self._counts = Counts(calls=0, records=0, size_bytes=0, elapsed_s=0.0)

    def __repr__(self) -> str:
        """Return one line: of which model, and how far it is."""
        counts = self.counts
        state = f"{counts.calls} calls, {counts.records} records"
        if self._path is not None:
            state += f" at {str(self._path)!r}"
        elif not self._started_s:
            state = "not begun"
        elif self._ended or self.has_ended:
            state = "given up, no dump"
        else:
            state = f"recording, {state}"
        return f"<Recorder of {self._about.name!r}: {state}>"

    def __fspath__(self) -> str:
        """Return the path of the finished dump: a recorder stands wherever that does.

        Raises:
            RecordError: The recording is not finished, or ended by an error.
        """
        return str(self.path)

    @property
    def path(self) -> Path:
        """Where the finished dump is.

        Raises:
            RecordError: The recording is not finished, or ended by an error.
        """
        if self._ending.error is not None:
            error = self._ending.error
            raise RecordError(f"cannot name the dump: the recording has ended: {error}") from error
        if self._path is None:
            raise RecordError("cannot name the dump: the recording has not been finished")
        return self._path

    @property
    def counts(self) -> Counts:
        """How much was recorded so far."""
        if self._steps is None or self._path is not None:
            return self._counts
        return self._steps.counts(elapsed_s=time.perf_counter() - self._started_s)

    @property
    def steps(self) -> RecordedSteps:
        """The steps of the recording that is running.

        Raises:
            RecordError: None is running.
        """
        if self._steps is None or self._ended:
            raise RecordError("cannot record outside the recorder's `with` block")
        return self._steps

    @property
    def is_written(self) -> bool:
        """Whether the dump is there, so that ``path`` names it."""
        return self._path is not None and not self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether an error has ended the recording of a run that goes on."""
        return self._ending.error is not None

    def contained(self) -> AbstractContextManager[None]:
        """Return a context in which an error ends the recording, not the run it is of."""
        return self._ending.contained()

    def describe(
        self,
        *,
        model: str | None = None,
        seed: int | None = None,
        command: Sequence[str] | None = None,
        inputs: Sequence[InputInfo] | None = None,
        notes: Sequence[str] = (),
        settings: Mapping[str, JSON] | None = None,
    ) -> None:
        """State in the manifest what the recorder cannot see; None leaves a field as it is."""
        self._about.state(
            model=model, seed=seed, command=command, inputs=inputs, notes=notes, settings=settings
        )

    def loss(self, value: Tensor | float) -> None:
        """Record the loss of this step; call it before or after the backward pass."""
        self._name(Role.LOSS, "", value)

    def record(self, name: str, value: Tensor | float) -> None:
        """Record any tensor or number of the step under a name: logits, a batch, a metric."""
        self._name(Role.NAMED, f"[{name!r}]", value)

    def takes(self, value: object) -> bool:
        """Return whether ``record`` takes a value: a tensor of the framework, or a number."""
        return self._adapter.is_tensor(value) or isinstance(value, _NUMBERS)

    def step(
        self, *, loss: Tensor | float | None = None, lr: float | Sequence[float] | None = None
    ) -> None:
        """End this step; what comes next belongs to the step after it.

        Args:
            loss: The step's loss, unless it was recorded by ``loss``.
            lr: The learning rate that the update used, one or one for each parameter group; by
                default what the optimizer had.

        Raises:
            RecordError: The step was to be recorded, and no call of the model was seen.
        """
        steps = self.steps
        if loss is not None:
            self.loss(loss)
        try:
            steps.end(rates=lr)
        except RecordError:
            raise
        except Exception as error:
            self._ending.because(error)

    def pause(self) -> AbstractContextManager[None]:
        """Record no calls while a ``with`` block runs, such as an evaluation within a step."""
        return self.steps.paused()

    def gradients_ready(self, *, is_clipped: bool = False) -> None:
        """Store the gradients of this step now, before they are clipped or used.

        Needed only where nothing tells: the update is no framework optimizer's, or the gradients
        are to be recorded both before and after a clip.

        Args:
            is_clipped: Whether they are clipped between now and the update.
        """
        current = self.steps.current
        if current is not None:
            with self.contained():
                current.update.gradients_ready(is_clipped=is_clipped)

    def update_begins(self) -> None:
        """Report that the weights are about to be changed, by something else than an optimizer."""
        current = self.steps.current
        if current is not None:
            with self.contained():
                current.update.begins()

    def __enter__(self) -> Self:
        """Hook the model and begin to write.

        Raises:
            DumpExistsError: There is a dump of that name, and ``overwrite`` was not given.
            RecordError: This recorder was used before.
        """
        if self._started_s:
            raise RecordError("cannot record twice with one recorder: make a new one")
        self._started_s = time.perf_counter()
        settings = self._settings
        replicas = [
            rank
            for rank in range(1, self._ranks.count)
            if any(rank in ranks for ranks in settings.replicas)
        ]
        told: dict[str, JSON] = {"replicas": list(replicas)} if replicas else {}
        self._about.observe(self._ranks.note | told)
        content = settings.content
        if self._ranks.rank in replicas:
            content = content.for_replica(has_program=settings.program)
        place = settings.out / self._about.name
        with ExitStack() as exits:
            writer = self._ranks.writer(
                place,
                overwrite=settings.overwrite,
                compression=settings.compression,
                content=content,
            )
            self._writer = exits.enter_context(writer)
            writer.describe(self._about.as_begun())
            settings.running.place(self._ranks.directory(place))
            steps = self._begin_steps(writer)
            exits.callback(steps.abandon)
            steps.begin()
            self._steps = steps
            self._exits = exits.pop_all()
        recorders.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the hooks off; write the manifest, or remove the unfinished dump after an error.

        In a forked process that comes here nothing is written or removed.

        Raises:
            RecordError: The block ended well, but no call of the model was seen.
            DumpWriteError: The dump could not be written, and the run is made for the recording.
        """
        steps = self.steps
        recorders.remove(self)
        self._ended = True
        if error is None and self._ending.error is not None:
            error = self._ending.error
            kind, trace = type(error), error.__traceback__
        if error is not None or not self._writer.is_owned:
            self._exits.__exit__(kind, error, trace)
            return
        is_finished = False
        try:
            with self._exits:
                steps.finish(self._about.name)
                is_finished = True
                self._path = self._writer.commit(self._about.manifest(steps))
        except Exception as trouble:
            if isinstance(trouble, RecordError) and not is_finished:
                raise  # there was nothing to record
            self._ending.because(trouble)
            return
        counts = steps.counts(elapsed_s=time.perf_counter() - self._started_s)
        with suppress(OSError):  # it was whole; who took it away since then knows of it
            size_bytes = sum(item.stat().st_size for item in self._path.rglob("*.h5"))
            counts = replace(counts, size_bytes=size_bytes)
        self._counts = counts

    def _begin_steps(self, writer: DumpWriter) -> RecordedSteps:
        """Walk the tree and choose what of it is recorded."""
        settings = self._settings
        sources = Sources(self._adapter.class_bases(self._model)[-1].__module__)
        nodes = build_tree(self._model, self._adapter, sources)
        selection = Selection.parse(
            include=settings.include, exclude=settings.exclude, depth=settings.depth
        )
        selected = selection.select([node.name for node in nodes])
        called = [node for node in nodes if node.info.path in selected]
        return RecordedSteps(
            adapter=self._adapter,
            writer=writer,
            nodes=nodes,
            called=[node for node in called if selection.is_within_depth(node.info.path)],
            stateful=selected,
            sources=sources,
            settings=settings,
            optimizers=self._optimizers,
            built=self._built,
            rank=self._ranks.rank,
            is_spread=self._ranks.count > 1,
            ending=self._ending,
        )

    def _name(self, role: Role, slot: str, value: Tensor | float) -> None:
        """Record what belongs to the step, if this step is recorded."""
        current = self.steps.current
        is_tensor = self._adapter.is_tensor(value)
        if not self.takes(value):
            raise ConfigError(
                f"cannot record {str(role) + slot!r}: expected a tensor of {self._adapter.name} "
                f"or a number, found {type(value).__name__}"
            )
        if current is None:
            return
        with self.contained():
            if is_tensor:
                current.record_named(role, slot, value)
            else:
                current.record_array(role, slot, np.array(value))


def _check(model: Model, optimizers: Sequence[Optimizer], adapter: Adapter) -> None:
    """Refuse what is not the adapter's.

    Raises:
        ConfigError: The model or an optimizer is of another kind.
    """
    wrong = [(model, "a module")] if not adapter.is_model(model) else []
    wrong += [(one, "an optimizer") for one in optimizers if not adapter.trainer.is_optimizer(one)]
    for thing, expected in wrong:
        kind = type(thing)
        raise ConfigError(
            f"cannot record {kind.__module__}.{kind.__qualname__}: expected {expected} of "
            f"{adapter.name}"
        )
