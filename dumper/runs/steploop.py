"""Train a live model for some steps under the recorder: what ``auto_diff`` does to each side."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumper import adapters
from padiff.dumper.recording.nested import flatten
from padiff.dumper.recording.recorder import Recorder
from padiff.dumpfile import ConfigError, Phase, is_floating

from .feedphase import FeedPhase
from .loading import loaded_setting
from .rebuild import rebuilt
from .usercode import UserCode, choose_outputs, default_loss

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Model, Tensor
    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumper.trainer import Optimizer
    from padiff.pairing import MapFile, WeightPlan

    from .feeder import Feeder
    from .outputs import LossOutputs


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """A model with what it is fed and trained by."""

    model: Model
    inputs: Any
    """A dict of keyword arguments, a tuple or list of positional ones, or one value; tensors, or
    arrays of which tensors are made."""
    loss: Callable[[Any], Tensor] | None = None
    """Takes the model's output; None takes the mean of it."""
    optimizer: Optimizer | Callable[[], object] | None = None
    """An optimizer, or a function that updates and clears the gradients itself."""
    outputs: LossOutputs | None = None
    """What the mean is taken of; None takes all."""
    steps: int = 1
    feed: Path | None = None
    """A dump of which each paired call hands the recorded output on, step by step."""
    feed_phase: FeedPhase = FeedPhase.BOTH
    map_file: MapFile | None = None
    """What the user decided of partners, for feeding."""
    loaded: WeightPlan | None = None
    """What the model's weights were made of, if they were loaded."""

    def forward(self) -> object:
        """Call the model on copies of its inputs, which it may change.

        Raises:
            RecordError: It raised.
        """
        given = self._fresh()
        with UserCode("cannot run forward"):
            if isinstance(given, Mapping):
                return self.model(**given)
            return self.model(*given)

    def _fresh(self) -> Any:  # noqa: ANN401
        given = self.inputs
        if not isinstance(given, Mapping | tuple | list):
            given = (given,)
        adapter = adapters.find(self.model)
        known = [adapters.load(name) for name in adapters.imported()]

        def is_leaf(value: object) -> bool:
            return isinstance(value, np.ndarray) or any(one.is_tensor(value) for one in known)

        leaves = [leaf for _, leaf in flatten(given, is_leaf).tensors]
        return rebuilt(given, {id(leaf): self._tensor(leaf, adapter, known) for leaf in leaves})

    def _tensor(self, leaf: Any, adapter: Adapter, known: list[Adapter]) -> Tensor:  # noqa: ANN401
        if adapter.is_tensor(leaf):
            return adapter.copy(leaf)
        device, dtype = adapter.model_device(self.model), None
        other = next((one for one in known if one.is_tensor(leaf)), None)
        array = leaf if other is None else other.snapshot(leaf)
        if is_floating(array.dtype.name):
            dtype = adapter.model_dtype(self.model) or None
        return adapter.tensor(array, device=device, dtype=dtype)


def record_steps(run: LiveRun, settings: RecordSettings) -> Path:
    """Run a live model step by step and give the dump.

    Raises:
        ConfigError: The model or the optimizer is of no known framework.
        RecordError: The user's model, loss or optimizer raised.
    """
    adapter = adapters.find(run.model)
    trainer = adapter.trainer
    is_optimizer = trainer.is_optimizer(run.optimizer)
    if run.optimizer is not None and not is_optimizer and not callable(run.optimizer):
        raise ConfigError(
            f"cannot update the weights by {run.optimizer!r}: expected an optimizer of "
            f"{adapter.name} or a function without arguments"
        )
    watched = (run.optimizer,) if is_optimizer else ()
    recorder = Recorder(run.model, settings, adapter, optimizers=watched)
    if run.loaded is not None:
        recorder.describe(settings=loaded_setting(run.loaded))
    feeder = None if run.feed is None else _feeder(run, run.feed)
    inner = adapter.unwrap(run.model)
    trainer.clear_model(inner)  # what the caller left there is none of this run's
    with recorder:
        for number in range(run.steps):
            with nullcontext() if feeder is None else feeder.feeding(recorder, number):
                output = _step(run, recorder, settings.phase)
            if number == 0 and run.loss is None and run.outputs is not None:
                chosen = choose_outputs(adapter, output, run.outputs)
                notes = chosen.notes(run.outputs.reference)
                recorder.describe(notes=notes, settings=chosen.settings())
            if run.steps > 1:
                recorder.step()
            if is_optimizer:
                trainer.clear(run.optimizer)
        if feeder is not None:
            recorder.describe(notes=feeder.notes(), settings=feeder.settings())
    trainer.clear_model(inner)
    return recorder.path


def _step(run: LiveRun, recorder: Recorder, phase: Phase) -> object:
    """Run forward, loss, backward and update once, and give what the model gave."""
    adapter = adapters.find(run.model)
    reason = None
    output = run.forward()
    if run.loss is None:
        loss, reason = default_loss(adapter, output, run.outputs)
    else:
        with UserCode("cannot compute the loss"):
            loss = run.loss(output)
    if loss is not None:
        recorder.loss(loss)
    if phase is Phase.BACKWARD and reason is None:
        with UserCode("cannot run backward"):
            adapter.backward(loss)
        _update(run, recorder, is_optimizer=adapter.trainer.is_optimizer(run.optimizer))
    return output


def _feeder(run: LiveRun, source: Path) -> Feeder:
    """Run the model once to learn which of its calls is which of the source's."""
    from .feeder import Feeder  # noqa: PLC0415 - needs pairing, which few runs do
    from .rehearsal import rehearse  # noqa: PLC0415

    adapter = adapters.find(run.model)
    feeder = Feeder(
        adapter, adapter.unwrap(run.model), run.feed_phase, source, steps=range(run.steps)
    )
    with rehearse(run.model, adapter, run.forward) as side:
        feeder.learn(side, run.map_file)
    return feeder


def _update(run: LiveRun, recorder: Recorder, *, is_optimizer: bool) -> None:
    if run.optimizer is None:
        return
    with UserCode("cannot update the weights"):
        if is_optimizer:
            adapters.find(run.model).trainer.update(run.optimizer)
        else:
            recorder.update_begins()
            run.optimizer()
