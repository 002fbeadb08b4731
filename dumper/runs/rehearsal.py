"""Run a model before it has its weights, to learn in which order its modules run.

Which of several layers of one shape is which often cannot be told from names: two authors define
them in another order and call them otherwise. What runs when tells it. The reference's dump
knows its own order; a live model has to be run once.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from padiff.dumper.recording.ranks import ranks_of
from padiff.dumper.recording.recorder import Recorder
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumpfile import ConfigError, Phase, open_dump
from padiff.dumpfile.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Model
    from padiff.pairing import MapFile, Side

    from .feeder import Feeder
    from .runsettings import RunSettings


@contextmanager
def rehearsed(
    model: Model,
    adapter: Adapter,
    forward: Callable[[], object],
    feeder: Feeder | None = None,
) -> Iterator[Path]:
    """Record one forward pass into a temporary dump, and leave the model as it was.

    Yields:
        The dump, until the context is left.
    """
    with scratch_folder() as folder:
        settings = RecordSettings(out=folder, name="rehearsal", phase=Phase.FORWARD)
        recorder = Recorder(model, settings, adapter)
        restore = buffers_restorer(model, adapter)
        with recorder, nullcontext() if feeder is None else feeder.feeding(recorder):
            forward()
        restore()
        yield recorder.path


def buffers_restorer(model: Model, adapter: Adapter) -> Callable[[], None]:
    """Return what gives the buffers of a model back the values that they hold now."""
    buffers = [
        (owned.tensor, adapter.snapshot(owned.tensor))
        for _, module in adapter.named_modules(model)
        for owned in adapter.own_tensors(module)
        if not owned.is_weight
    ]

    def restore() -> None:
        for tensor, array in buffers:
            adapter.assign(tensor, array)

    return restore


@contextmanager
def rehearse(
    model: Model,
    adapter: Adapter,
    forward: Callable[[], object],
    feeder: Feeder | None = None,
) -> Iterator[Side]:
    """Run as ``rehearsed`` does, and yield what was recorded, readable within the context."""
    with (
        rehearsed(model, adapter, forward, feeder) as path,
        open_dump(path).open() as side,
    ):
        yield side


@contextmanager
def rehearse_fed(
    model: Model,
    adapter: Adapter,
    forward: Callable[[], object],
    reference: Path,
    map_file: MapFile | None = None,
) -> Iterator[Side]:
    """Record a forward pass in which calls hand on what the reference's calls handed on.

    So a fault of one module does not reach those behind it.

    Yields:
        As ``rehearse``; what was recorded is what the calls themselves made.

    Raises:
        ConfigError: Nothing of the two runs is paired, or the reference holds no values.
    """
    from .feeder import Feeder  # noqa: PLC0415 - needs pairing, which few runs do
    from .feedphase import FeedPhase  # noqa: PLC0415

    feeder = Feeder(adapter, model, FeedPhase.FORWARD, reference)
    with rehearse(model, adapter, forward) as side:
        feeder.learn(side, map_file)
    with rehearse(model, adapter, forward, feeder) as side:
        yield side


def learned_feeder(
    settings: RunSettings,
    adapter: Adapter,
    model: Model,
    forward: Callable[[], object],
    steps: Iterable[int],
) -> Feeder:
    """Run the model once to learn which of its calls is which of the reference's.

    Raises:
        DumpError: The reference cannot be read.
        ConfigError: It lacks a step, nothing of the two is paired, or it holds no values.
    """
    from padiff.pairing import read_map  # noqa: PLC0415

    from .feeder import Feeder  # noqa: PLC0415 - needs pairing, which few runs do
    from .feedphase import FeedPhase  # noqa: PLC0415

    if settings.feed is None:
        raise ConfigError("cannot feed: no dump is named")
    forward_only = settings.record.phase is Phase.FORWARD
    feeder = Feeder(
        adapter,
        model,
        FeedPhase.FORWARD if forward_only else settings.feed_phase,
        settings.feed,
        rank=ranks_of().rank,
        steps=steps,
    )
    map_file = None if settings.map_file is None else read_map(settings.map_file)
    with rehearse(model, adapter, forward) as side:
        feeder.learn(side, map_file)
    return feeder
