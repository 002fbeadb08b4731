"""``padiff.probe``: name a value where it is made; recorded if somebody records."""

from __future__ import annotations

import sys
from typing import Any

_ACTIVE = "padiff.dumper.recording.active"


def probe(name: str, value: Any) -> None:  # noqa: ANN401 - a tensor of any framework, or a number
    """Record a tensor or number of this step under a name, if a recorder runs; else do nothing.

    Stays in a model or a training script for good: without a recorder nothing is imported, looked
    at or kept. ::

        def forward(self, x):
            scores = self.attend(x)
            padiff.probe("scores", scores)

    Args:
        name: As for ``recorder.record``.
        value: A tensor or a number; of several recorders the one that began last and takes it.

    Raises:
        ConfigError: A recorder runs, and none can record the value.
    """
    active = sys.modules.get(_ACTIVE)
    if active is None or not active.recorders:
        return
    last_first = active.recorders[::-1]
    taker = next((one for one in last_first if one.takes(value)), last_first[0])
    taker.record(name, value)
