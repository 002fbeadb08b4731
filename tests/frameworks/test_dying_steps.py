"""A recorded step takes its memory with it when it ends; no garbage collection is needed."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch

from padiff import record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = np.ones((2, 4), np.float32)


def _record_torch(out: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with record(model, name="step", out=out, overwrite=True):
        model(torch.from_numpy(X)).mean().backward()
        optimizer.step()


def _record_paddle(out: Path) -> None:
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 2))
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    with record(model, name="step", out=out, overwrite=True):
        model(paddle.to_tensor(X)).mean().backward()
        optimizer.step()


OWN = ("Arena", "Kept", "OpenCall", "ProgramBuilder", "StepWriter", "Stored", "ValueInfo")
"""Classes of what belongs to a step."""


def _alive() -> Counter[str]:
    """Count the objects of these classes, of whatever else ran in this process too."""
    names = (type(one).__name__ for one in gc.get_objects())
    return Counter(name for name in names if name in OWN)


@pytest.mark.parametrize("record_step", [_record_torch, _record_paddle])
def test_no_value_outlives_its_step(record_step: Callable[[Path], None], tmp_path: Path) -> None:
    record_step(tmp_path)  # what is made once per process
    gc.collect()
    gc.disable()
    try:
        before = _alive()
        record_step(tmp_path)
        after = _alive()
    finally:
        gc.enable()
    assert after == before
