"""Run a model before it has its weights, to learn in which order its modules run.

Which of several layers of one shape is which often cannot be told from names: two authors define
them in another order and call them otherwise. What runs when tells it. The reference's dump
knows its own order; a live model has to be run once.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from padiff.dumper.recording.recorder import Recorder, RecordSettings
from padiff.dumpfile import Phase, open_dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from padiff.dumper.adapter import Adapter, Model
    from padiff.pairing import Side

__all__ = ["rehearse"]


@contextmanager
def rehearse(model: Model, adapter: Adapter, forward: Callable[[], object]) -> Iterator[Side]:
    """Record one forward pass into a temporary dump, and leave the model as it was.

    Args:
        model: The model, placed and fed as in the run to come.
        adapter: The adapter of its framework.
        forward: Runs the model once.

    Yields:
        What was recorded, readable until the context is left.
    """
    buffers = [
        (owned.tensor, adapter.snapshot(owned.tensor))
        for _, module in adapter.named_modules(model)
        for owned in adapter.own_tensors(module)
        if not owned.is_weight
    ]
    with tempfile.TemporaryDirectory(prefix="padiff-rehearsal-") as folder:
        settings = RecordSettings(out=Path(folder), name="rehearsal", phase=Phase.FORWARD)
        recorder = Recorder(model, settings, adapter)
        with recorder:
            forward()
        for tensor, array in buffers:
            adapter.assign(tensor, array)
        with open_dump(recorder.path).open() as side:
            yield side
