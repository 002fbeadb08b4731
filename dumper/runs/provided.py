"""What a script's model gets in place of the script's own: weights, inputs, outputs of calls."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from padiff.dumper.watch import Arguments

from .feeding import StepInputs
from .loading import load_weights_into, loaded_setting

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Adapter, Model
    from padiff.dumper.recording.recorder import Recorder

    from .feeder import Feeder
    from .runsettings import RunSettings


class Provided:
    """Loads the weights when it is made, and gives inputs and outputs step by step."""

    def __init__(self, settings: RunSettings, adapter: Adapter, model: Model) -> None:
        """Load the weights, and learn which call is which where outputs are fed.

        Args:
            settings: Sources of weights, inputs and outputs, and what is recorded.
            adapter: The model's framework.
            model: The model, unwrapped.

        Raises:
            ConfigError: Something of a source does not fit the model.
            DumpError: A dump cannot be read.
        """
        self._settings = settings
        self.notes: list[str] = []
        """What to say of it in the manifest."""
        self.kept: dict[str, Any] = {}
        """What pairing reads of it in the manifest."""
        self._inputs: StepInputs | None = None
        if settings.inputs_from is not None or settings.feed is not None:
            self._inputs = StepInputs(settings, adapter, model)
            self.notes += [*self._inputs.notes, "inputs: those of a dump, not the script's"]
        rehearsal = None if self._inputs is None else lambda: _run(model, self.arguments(0))
        if settings.weights_from is not None:
            plan = load_weights_into(settings, adapter, model, rehearsal)
            self.notes += [f"weights: {note}" for note in plan.notes]
            self.kept |= loaded_setting(plan)
        self._feeder: Feeder | None = None
        if settings.feed is not None and rehearsal is not None:
            from .rehearsal import learned_feeder  # noqa: PLC0415 - needs pairing, as few runs do

            last = settings.record.plan.last or 0
            steps = filter(settings.record.plan.wants, range(last + 1))
            self._feeder = learned_feeder(settings, adapter, model, rehearsal, steps)

    @property
    def has_inputs(self) -> bool:
        """Whether the calls of the model get other arguments."""
        return self._inputs is not None

    def arguments(self, step: int) -> Arguments | None:
        """Return what a call of the model gets in a step; None leaves it its own."""
        if self._inputs is None or not self._settings.record.plan.wants(step):
            return None
        return Arguments(*self._inputs.arguments(step))

    def feeding(self, recorder: Recorder, step: int) -> AbstractContextManager[None]:
        """Let calls hand on the reference's outputs while the block runs a step."""
        if self._feeder is None or not self._settings.record.plan.wants(step):
            return nullcontext()
        return self._feeder.feeding(recorder, step)

    def describe(self, recorder: Recorder) -> None:
        """Report at the end what was fed and what was not."""
        if self._feeder is not None:
            recorder.describe(notes=self._feeder.notes(), settings=self._feeder.settings())


def _run(model: Model, given: Arguments | None) -> object:
    positional, keywords = ((), {}) if given is None else given
    return model(*positional, **keywords)
