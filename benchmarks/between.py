"""What padiff costs in the steps that it does not record, in processor time.

A model of one small layer makes a step so short that what is added to it can be measured: so many
microseconds, whatever the model. Blocks of steps with and without padiff take turns.
"""

from __future__ import annotations

import importlib
import math
import statistics
import tempfile
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import padiff
from padiff.dumper.recording.recordsettings import RecordSettings, StepPlan
from padiff.dumper.runs.scriptmodel import Choice
from padiff.dumper.runs.scriptwatch import ScriptWatch

from .figure import Figure
from .scale import Scale
from .workloads import FRAMEWORKS, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[], None]

_MOST_SHARE = 0.01
_NORMAL_95 = 1.96
"""Standard errors on either side of a mean that hold 95 % of a normal distribution."""


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Measure the recorder and the watch of scripts, in every framework."""
    rounds, steps = scale.pick(full=(60, 500), quick=(20, 200), tiny=(2, 3))
    small = scale.pick(full=Scale.QUICK, quick=Scale.QUICK, tiny=Scale.TINY)
    for framework in FRAMEWORKS:
        real_s = _seconds(build(framework, "gpt", scale=small).step, 10)
        for name, context in (("padiff.record", _recorder), ("--script", _watch)):
            train = _Training(framework)
            added = [_difference(train, context, steps) for _ in range(rounds)]
            mean = statistics.mean(added)
            half = _NORMAL_95 * statistics.stdev(added) / math.sqrt(rounds)
            yield Figure(
                name=f"{framework} {name}: added to a step",
                value=(mean + half) / real_s * 100,
                unit="%",
                at_most=_MOST_SHARE * 100,
                detail=f"upper end of 95 %: {mean * 1e6:.1f} +- {half * 1e6:.1f} us, "
                f"{rounds} blocks of {steps} steps; of a step of {real_s * 1e3:.0f} ms (small GPT)",
            )


class _Training:
    """A model of one layer, its optimizer and a step of training."""

    def __init__(self, framework: str) -> None:
        module: Any = importlib.import_module(framework)
        self.framework = framework
        self.model = module.nn.Linear(2, 2)
        if framework == "torch":
            self.optimizer = module.optim.SGD(self.model.parameters(), 0.0)
            self._clear = self.optimizer.zero_grad
        else:
            self.optimizer = module.optimizer.SGD(0.0, parameters=self.model.parameters())
            self._clear = self.optimizer.clear_grad
        self._given = module.ones([1, 2])

    def step(self) -> None:
        self.model(self._given).mean().backward()
        self.optimizer.step()
        self._clear()


@contextmanager
def _recorder(train: _Training, folder: Path) -> Iterator[Step]:
    """Give a step under a recorder that has recorded what it was to."""
    with padiff.record(
        train.model, name="b", out=folder, overwrite=True, optimizer=train.optimizer, steps=[0]
    ) as recorder:

        def step() -> None:
            train.step()
            recorder.step()

        step()
        yield step


@contextmanager
def _watch(train: _Training, folder: Path) -> Iterator[Step]:
    """Give a step of a script that is watched, after the one that was recorded."""
    plan = StepPlan(steps=frozenset({0}))
    settings = RecordSettings(out=folder, name="b", overwrite=True, plan=plan)
    with ScriptWatch(settings, Choice()) as watch:
        watch.framework_imported(train.framework)
        train.step()
        train.step()
        yield train.step
        watch.finish()


def _difference(train: _Training, context: Any, steps: int) -> float:  # noqa: ANN401
    """Give how much longer a step takes, in seconds of processor time."""
    taken = []
    for way in (lambda _, __: nullcontext(train.step), context):
        with tempfile.TemporaryDirectory() as folder, way(train, Path(folder)) as step:
            taken.append(_seconds(step, steps))
    return taken[1] - taken[0]


def _seconds(step: Step, steps: int) -> float:
    step()
    started_s = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - started_s) / steps
