"""The steps of one recording: opens a step when it is due, and leaves nothing on between them.

The garbage collector runs less often while a step is recorded.
"""

from __future__ import annotations

import gc
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper.watch import SharedPatches
from padiff.dumpfile import JSON, DumpWriter, Phase, RecordError, Role, StepWriter

from .ending import Ending
from .recordsettings import Counts, RecordSettings
from .steprecorder import StepRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumper.adapter import Adapter
    from padiff.dumper.trainer import Optimizer

    from .construction import Construction
    from .source import Sources
    from .tree import TreeNode


@dataclass(slots=True, weakref_slot=True, kw_only=True)
class RecordedSteps:
    """Counts the steps of a run and records those that are wanted."""

    adapter: Adapter
    writer: DumpWriter
    nodes: Sequence[TreeNode]
    called: Sequence[TreeNode]
    """Modules whose calls are recorded."""
    stateful: frozenset[str]
    """Paths of the modules whose weights and buffers are recorded."""
    sources: Sources
    settings: RecordSettings
    optimizers: Sequence[Optimizer] = ()
    built: Construction | None = None
    """How buffers and constants of the model were made, if that is known."""
    current: StepRecorder | None = None
    """The step that is being recorded, None between recorded steps."""
    number: int = 0
    """The step that is running, recorded or not."""
    rank: int = 0
    is_spread: bool = False
    """Whether several processes run."""
    ending: Ending = field(default_factory=Ending)
    """Ends the recording where something cannot be recorded."""
    arrived: bool = False
    """Whether any gradient arrived in a finished step."""
    updated: bool = False
    """Whether any finished step holds an update."""
    optimizers_told: list[JSON] = field(default_factory=list)
    """Classes and options of the optimizers, as they were after the first recorded update."""
    finished: int = 0
    """How many steps were recorded whole."""
    _calls: int = 0
    _records: int = 0
    _notes: dict[str, list[int]] = field(default_factory=dict)
    _file: StepWriter | None = None
    _exits: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        """Be told of the end."""
        self.ending.before(self._stop)

    def begin(self) -> None:
        """Hook the model if the step that begins is wanted."""
        if self.ending.error is not None or not self.settings.plan.wants(self.number):
            return
        self._exits = ExitStack()
        self._exits.enter_context(collector_slowed())
        self._exits.enter_context(self.adapter.recording())
        self._file = self.writer.step(self.number, self.rank)
        self.current = StepRecorder(
            self.adapter,
            self._file,
            self.nodes,
            self.sources,
            phase=self.settings.phase,
            stateful=self.stateful,
            optimizers=self.optimizers,
            running=self.settings.running,
            program=self.settings.program,
            built=self.built,
            ending=self.ending,
            is_spread=self.is_spread,
        )
        self._exits.callback(self.current.detach)
        self.current.attach(self.called)
        self._exits.enter_context(self.current.watching())

    def end(self, *, rates: float | Sequence[float] | None = None) -> None:
        """End the step that is running and begin the next one.

        Args:
            rates: Learning rate of its update, or one of each parameter group; None takes the
                optimizer's.

        Raises:
            RecordError: It was to be recorded, and the model was not called.
        """
        if self.current is not None:
            if not self.current.calls:
                raise self._no_call(f"step {self.number}", "before recorder.step()")
            given = [rates] if isinstance(rates, int | float) else rates
            self._close(self.current, None if given is None else [float(rate) for rate in given])
        self.number += 1
        self.begin()

    def finish(self, name: str) -> None:
        """End the recording: what came after the last whole step is left out.

        Raises:
            RecordError: No step was recorded.
        """
        current = self.current
        if self.number == 0 and current is not None:
            if not current.calls:
                raise self._no_call(repr(name), "inside the `with` block")
            self._close(current, None)
        elif current is not None and current.calls:
            self._note("calls after the last recorder.step() were not recorded")
        self.abandon()
        if not self.finished:
            raise RecordError(
                f"cannot record {name!r}: expected one of the steps that were asked for, "
                f"the run ended after {self.number}"
            )
        wanted = self.settings.plan.steps or frozenset()
        lost = ", ".join(str(step) for step in sorted(wanted) if step >= max(self.number, 1))
        if lost:
            self._note(f"the run ended before these steps: {lost}", step=None)

    def restart(self) -> None:
        """Forget what was recorded of the step that is running, and record it anew."""
        if self.current is not None:
            self.abandon()
            self.begin()

    def abandon(self) -> None:
        """Take the hooks off and remove the file of a step that is not whole."""
        self._exits.close()
        if self._file is not None:
            self._file.abandon()
        self.current = self._file = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record no calls inside the block."""
        current = self.current
        if current is None or current.is_paused:
            yield
            return
        current.is_paused = True
        try:
            yield
        finally:
            current.is_paused = False

    def counts(self, *, elapsed_s: float) -> Counts:
        """Return how much was recorded so far."""
        current = self.current
        return Counts(
            calls=self._calls + (0 if current is None else current.calls),
            records=self._records + (0 if current is None else current.records),
            size_bytes=0,
            elapsed_s=elapsed_s,
        )

    def notes(self) -> list[str]:
        """State what a reader should know, with the steps that it is about if not all."""
        notes = []
        for text, steps in self._notes.items():
            if not steps or len(steps) == self.finished:
                notes.append(text)
            else:
                named = ", ".join(map(str, steps))
                notes.append(f"{'step' if len(steps) == 1 else 'steps'} {named}: {text}")
        return notes

    def _stop(self) -> None:
        """Record nothing more. Called inside a hook: all hooks stay on until the step ends."""
        if self.current is not None:
            self.current.stop()
            self.current = None

    def _close(self, step: StepRecorder, rates: list[float] | None) -> None:
        self.current = self._file = None
        with self._exits:
            if rates is not None:
                self._set_rates(step, rates)
            step.close()
        self.finished += 1
        self._calls += step.calls
        self._records += step.records
        self.arrived = self.arrived or step.arrived
        self.updated = self.updated or step.update.seen
        if step.update.seen and not self.optimizers_told:
            self.optimizers_told = step.update.describe()
        for text in step.notes():
            self._note(text, step=self.number)
        if step.update.optimizers and not step.update.seen and step.arrived:
            self._note("the optimizer changed nothing: no update was recorded", step=self.number)

    @staticmethod
    def _set_rates(step: StepRecorder, rates: list[float]) -> None:
        if step.update.seen:
            step.update.rates = rates
            return
        for place, rate in enumerate(rates):
            slot = "" if len(rates) == 1 else f"[{place}]"
            step.record_array(Role.LR, slot, np.array(rate), phase=Phase.UPDATE)

    def _note(self, text: str, *, step: int | None = None) -> None:
        steps = self._notes.setdefault(text, [])
        if step is not None:
            steps.append(step)

    @staticmethod
    def _no_call(what: str, where: str) -> RecordError:
        return RecordError(
            f"cannot record {what}: expected the model to be called {where}, found no call",
            hint="call the very model that was passed to padiff.record, or check "
            "include= and exclude=",
        )


_FACTOR = 10
"""How much rarer: a recorded operator makes some 30 objects that the collector walks, a plain one
hardly any, so that it comes no less often than in a step of the same operators that is plain."""


class _Slowed:
    """The thresholds of the process, raised until it is removed."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._raised = (self._before[0] * _FACTOR, *self._before[1:])
        gc.set_threshold(*self._raised)

    def remove(self) -> None:
        """Put the thresholds back, unless the program has set others meanwhile."""
        if gc.get_threshold() == self._raised:
            gc.set_threshold(*self._before)


def _slowed() -> Iterator[_Slowed]:
    yield _Slowed()


collector_slowed = SharedPatches(_slowed).installed
"""Let what is recorded live without being walked again and again: nothing of it is a cycle, and
all of it dies when the step ends."""
