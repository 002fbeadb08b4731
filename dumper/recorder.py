"""Record a model's run into a dump, whatever the framework: ``record`` and ``Recorder``."""

from __future__ import annotations

import platform
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from padiff.dumpfile import ConfigError, DumpWriter, InputInfo, Manifest, Phase, RecordError, Role

from . import adapters
from .ranks import ranks_of
from .recordedsteps import RecordedSteps
from .recordsettings import Counts, RecordSettings, StepPlan
from .select import Selection
from .source import Sources
from .tree import build_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from .adapter import Adapter, Model, Tensor
    from .trainer import Optimizer

__all__ = ["Counts", "RecordSettings", "Recorder", "record"]


def record(  # noqa: PLR0913
    model: Model,
    *,
    name: str | None = None,
    out: str | Path = "padiff_dump",
    phase: str = "backward",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    depth: int | None = None,
    overwrite: bool = False,
    compression: int | None = None,
    framework: str | None = None,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    steps: Iterable[int] | None = None,
    every: int | None = None,
) -> Recorder:
    """Record every call of a model's modules while a ``with`` block runs.

    ::

        with padiff.record(model, name="resnet") as recorder:
            loss = model(x).mean()
            loss.backward()
        print(recorder.path)

    A training script calls ``recorder.step()`` at the end of each of its steps::

        with padiff.record(model, optimizer=optimizer, steps=[0, 1, 100]) as recorder:
            for batch in loader:
                loss = criterion(model(batch["x"]), batch["y"])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                recorder.step(loss=loss)

    Nothing is left on the model afterwards. If the block raises, the exception passes through,
    and a dump that was there before stays as it was.

    Args:
        model: A ``torch.nn.Module`` or ``paddle.nn.Layer``; DataParallel, DDP and compiled
            wrappers are looked through.
        name: Name of the dump; by default the model's class name.
        out: Directory of all dumps.
        phase: ``"backward"``, or ``"forward"`` to leave all gradients out.
        include: Patterns of modules to record, such as ``encoder.*`` or ``type:Linear@self``;
            none means all.
        exclude: Patterns of modules to leave out; they win.
        depth: Deepest level whose calls are recorded; the root is 0.
        overwrite: Replace an existing dump of that name.
        compression: Deflate level 1 to 9; by default values lie uncompressed.
        framework: ``"torch"``, ``"paddle"`` …; by default found from the model.
        optimizer: What changes the weights, one or several: each recorded step then also holds
            the phase ``update``, and its gradients are those that the optimizer takes (unscaled).
        steps: Numbers of the steps to record, by default all; outside them no hook is left on
            the model.
        every: Record step 0 and each that many steps after it.

    Raises:
        ConfigError: The model or an option cannot be used.
    """
    if phase not in ("forward", "backward"):
        raise ConfigError(f"cannot record phase {phase!r}: expected 'forward' or 'backward'")
    settings = RecordSettings(
        out=Path(out),
        name=name,
        phase=Phase(phase),
        include=_patterns(include),
        exclude=_patterns(exclude),
        depth=depth,
        overwrite=overwrite,
        compression=compression,
        plan=StepPlan(steps=None if steps is None else frozenset(steps), every=every),
    )
    adapter = adapters.find(model) if framework is None else adapters.load(framework)
    return Recorder(model, settings, adapter, optimizers=_optimizers(optimizer))


class Recorder:
    """A recording of one model. Use it as a context manager, once."""

    def __init__(
        self,
        model: Model,
        settings: RecordSettings,
        adapter: Adapter,
        *,
        optimizers: Sequence[Optimizer] = (),
    ) -> None:
        """Look at the model; nothing is hooked or written before ``with``.

        Args:
            model: The model, possibly wrapped.
            settings: What to record.
            adapter: Its framework.
            optimizers: What changes its weights.

        Raises:
            ConfigError: The model or an optimizer is not the adapter's.
        """
        if not adapter.is_model(model):
            kind = type(model)
            raise ConfigError(
                f"cannot record {kind.__module__}.{kind.__qualname__}: expected a module of "
                f"{adapter.name}"
            )
        for one in optimizers:
            if not adapter.trainer.is_optimizer(one):
                kind = type(one)
                raise ConfigError(
                    f"cannot record {kind.__module__}.{kind.__qualname__}: expected an optimizer "
                    f"of {adapter.name}"
                )
        self._adapter = adapter
        self._model = adapter.unwrap(model)
        self._settings = settings
        self._optimizers = tuple(optimizers)
        self._ranks = ranks_of()
        self._exits = ExitStack()
        self._steps: RecordedSteps | None = None
        self._path: Path | None = None
        self._notes: list[str] = []
        if self._model is not model:
            self._notes.append(
                f"the model was wrapped in {type(model).__name__}: the module inside it was "
                "recorded, and ran uncompiled"
            )
        self._about = Manifest(
            name=settings.name or type(self._model).__name__,
            framework=adapter.name,
            framework_version="",
            padiff_version="",
            created="",
            files=(),
        )
        self._ended = False
        self._started_s = 0.0
        self._counts = Counts(calls=0, records=0, size_bytes=0, elapsed_s=0.0)

    @property
    def path(self) -> Path:
        """Where the finished dump is.

        Raises:
            RecordError: The recording is not finished, or ended by an exception.
        """
        if self._path is None:
            raise RecordError("cannot name the dump: the recording has not been finished")
        return self._path

    @property
    def counts(self) -> Counts:
        """How much was recorded so far."""
        if self._steps is None or self._path is not None:
            return self._counts
        return self._steps.counts(elapsed_s=time.perf_counter() - self._started_s)

    def describe(
        self,
        *,
        model: str | None = None,
        seed: int | None = None,
        command: Sequence[str] | None = None,
        inputs: Sequence[InputInfo] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """State in the manifest what the recorder cannot see; None leaves a field as it is."""
        self._about = replace(
            self._about,
            model=self._about.model if model is None else model,
            seed=self._about.seed if seed is None else seed,
            command=self._about.command if command is None else tuple(command),
            inputs=self._about.inputs if inputs is None else tuple(inputs),
        )
        self._notes.extend(notes)

    def loss(self, value: Tensor | float) -> None:
        """Record the loss of this step; call it before or after the backward pass."""
        self._name(Role.LOSS, "", value)

    def record(self, name: str, value: Tensor | float) -> None:
        """Record any tensor or number of the step under a name: logits, a batch, a metric."""
        self._name(Role.NAMED, f"[{name!r}]", value)

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
        steps = self._running()
        if loss is not None:
            self.loss(loss)
        steps.end(rates=lr)

    def pause(self) -> AbstractContextManager[None]:
        """Record no calls while a ``with`` block runs, such as an evaluation within a step."""
        return self._running().paused()

    def gradients_ready(self, *, is_clipped: bool = False) -> None:
        """Store the gradients of this step now, before they are clipped or used.

        Needed only where nothing tells: the update is no framework optimizer's, or the gradients
        are to be recorded both before and after a clip.

        Args:
            is_clipped: Whether they are clipped between now and the update.
        """
        current = self._running().current
        if current is not None:
            current.update.gradients_ready(is_clipped=is_clipped)

    def update_begins(self) -> None:
        """Say that the weights are about to be changed, by something else than an optimizer."""
        current = self._running().current
        if current is not None:
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
        sources = Sources(self._adapter.class_bases(self._model)[-1])
        nodes = build_tree(self._model, self._adapter, sources)
        selection = Selection.parse(
            include=settings.include, exclude=settings.exclude, depth=settings.depth
        )
        selected = selection.select([node.name for node in nodes])
        called = [node for node in nodes if node.info.path in selected]
        called = [node for node in called if selection.is_within_depth(node.info.path)]
        self._describe_model()
        with ExitStack() as exits:
            place = settings.out / self._about.name
            self._ranks.begin(place)
            writer = DumpWriter(
                self._ranks.directory(place),
                overwrite=settings.overwrite,
                compression=settings.compression,
                content=settings.content,
            )
            self._writer = exits.enter_context(writer)
            writer.describe(replace(self._about, notes=tuple(self._notes)))
            steps = RecordedSteps(
                adapter=self._adapter,
                writer=writer,
                nodes=nodes,
                called=called,
                stateful=selected,
                sources=sources,
                settings=settings,
                optimizers=self._optimizers,
                rank=self._ranks.rank,
            )
            exits.callback(steps.abandon)
            steps.begin()
            self._steps = steps
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the hooks off; write the manifest, or remove the unfinished dump after an error.

        Raises:
            RecordError: The block ended well, but no call of the model was seen.
            DumpWriteError: The dump could not be written.
        """
        steps = self._running()
        self._ended = True
        if error is not None:
            self._exits.__exit__(kind, error, trace)
            return
        with self._exits:
            steps.finish(self._about.name)
            place = self._settings.out / self._about.name
            self._ranks.gather(self._writer, place)
            self._path = self._writer.commit(self._manifest(steps))
        counts = steps.counts(elapsed_s=time.perf_counter() - self._started_s)
        if self._ranks.rank:
            self._path = place.absolute()  # where rank 0 takes the files to
        size_bytes = sum(item.stat().st_size for item in self._path.rglob("*.h5"))
        self._counts = replace(counts, size_bytes=size_bytes)

    def _running(self) -> RecordedSteps:
        if self._steps is None or self._ended:
            raise RecordError("cannot record outside the recorder's `with` block")
        return self._steps

    def _name(self, role: Role, slot: str, value: Tensor | float) -> None:
        """Record what belongs to the step, if this step is recorded."""
        current = self._running().current
        is_tensor = self._adapter.is_tensor(value)
        if not is_tensor and not isinstance(value, int | float | np.number | np.ndarray):
            raise ConfigError(
                f"cannot record {str(role) + slot!r}: expected a tensor of {self._adapter.name} "
                f"or a number, found {type(value).__name__}"
            )
        if current is None:
            return
        if is_tensor:
            current.record_named(role, slot, value)
        else:
            current.record_array(role, slot, np.array(value))

    def _describe_model(self) -> None:
        """State what is true of the model and the machine when recording begins."""
        model, adapter, settings = self._model, self._adapter, self._settings
        kind = type(model)
        self._about = replace(
            self._about,
            framework_version=adapter.version(),
            padiff_version=version("padiff"),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            model_class=f"{kind.__module__}.{kind.__qualname__}",
            device=adapter.model_device(model),
            dtype=adapter.model_dtype(model),
            training=adapter.is_training(model),
            python=platform.python_version(),
            platform=platform.platform(),
            settings={
                "phase": str(settings.phase),
                "include": list(settings.include),
                "exclude": list(settings.exclude),
                "depth": settings.depth,
                **self._ranks.note,
            },
        )
        self._notes.extend(adapter.notes(model))

    def _manifest(self, steps: RecordedSteps) -> Manifest:
        has_gradients = self._settings.phase is Phase.BACKWARD and steps.arrived
        phase = Phase.BACKWARD if has_gradients else Phase.FORWARD
        return replace(
            self._about,
            phase=Phase.UPDATE if steps.updated else phase,
            notes=(*self._notes, *steps.notes()),
        )


def _patterns(given: Sequence[str]) -> tuple[str, ...]:
    """Take one pattern for a list of one, since a string is a sequence of letters."""
    return (given,) if isinstance(given, str) else tuple(given)


def _optimizers(given: Optimizer | Sequence[Optimizer] | None) -> tuple[Optimizer, ...]:
    if given is None:
        return ()
    return tuple(given) if isinstance(given, list | tuple) else (given,)
