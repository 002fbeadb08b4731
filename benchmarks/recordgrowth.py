"""How the cost of recording grows when a model does; in torch."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from padiff.dumper import Recorder, RecordSettings, adapters
from padiff.dumpfile import open_dump

from .figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .scale import Scale

_TIMES = 10
_MOST = 12.0
_ROUNDS = 3
_ROWS = 512
_FRAMES = 20  # that Python needs for one level, with room to spare


class Repeated(torch.nn.Module):
    """Calls one small layer many times."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.calls = calls

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, 16) to the same shape."""
        for _ in range(self.calls):
            x = self.layer(x)
        return x


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Record models of one size and of ten times that."""
    calls, mebibytes, depth = scale.pick(full=(500, 32, 60), quick=(50, 16, 10), tiny=(2, 1, 2))
    for what, small, make in (
        ("calls", calls, _of_calls),
        ("MiB", mebibytes, _of_bytes),
        ("levels", depth, _of_depth),
    ):
        before, after = (_cost(*make(size)) for size in (small, _TIMES * small))
        yield Figure(
            name=f"record: {small} -> {_TIMES * small} {what}",
            value=after / before,
            unit="x",
            at_most=_MOST,
            detail=f"{before:.4f} s -> {after:.4f} s on top of the step itself",
        )


def _cost(model: torch.nn.Module, x: torch.Tensor) -> float:
    """Measure the processor time that recording adds to a step, best against best."""
    plain, recorded = [], []
    with tempfile.TemporaryDirectory(prefix="padiff-growth-") as folder:
        for _ in range(_ROUNDS):
            plain.append(_spent(lambda: _step(model, x)))
            recorded.append(_spent(lambda: _record(model, x, Path(folder))))
    return min(recorded) - min(plain)


def _spent(run: Callable[[], None]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def _step(model: torch.nn.Module, x: torch.Tensor) -> None:
    model.zero_grad()
    model(x).sum().backward()


def _record(model: torch.nn.Module, x: torch.Tensor, folder: Path) -> None:
    settings = RecordSettings(out=folder, name="net", overwrite=True)
    with Recorder(model, settings, adapters.find(model)) as recorder:
        _step(model, x)
    assert open_dump(recorder.path).files


def _of_calls(calls: int) -> tuple[torch.nn.Module, torch.Tensor]:
    return Repeated(calls), torch.ones(4, 16)


def _of_bytes(mebibytes: int) -> tuple[torch.nn.Module, torch.Tensor]:
    """Make a layer whose output and gradients have that size each."""
    width = mebibytes * (1 << 20) // (4 * _ROWS)
    return torch.nn.Linear(8, width), torch.randn(_ROWS, 8)


def _of_depth(depth: int) -> tuple[torch.nn.Module, torch.Tensor]:
    sys.setrecursionlimit(max(sys.getrecursionlimit(), depth * _FRAMES))
    model: torch.nn.Module = torch.nn.Linear(16, 16)
    for _ in range(depth):
        model = torch.nn.Sequential(model)
    return model, torch.ones(4, 16)
