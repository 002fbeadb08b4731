"""Records two small models, one with a planted fault, and compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import padiff
from padiff.comparer import CompareSettings, Comparison, compare

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.dumpfile import Phase

INPUTS: dict[str, np.ndarray[Any, np.dtype[Any]]] = {
    "cnn": np.random.default_rng(1).standard_normal((2, 3, 15, 15)).astype(np.float32),
    "transformer": np.array([[1, 5, 2, 9, 3], [7, 0, 4, 4, 10]]),
}


def record_torch(name: str, faults: dict[str, str], out: Path) -> Path:
    """Record the torch model's forward and backward."""
    import torch  # noqa: PLC0415

    from tests.support import faulty_torch  # noqa: PLC0415

    model = faulty_torch.build(name, faults)
    with padiff.record(model, name=f"torch {len(faults)}", out=out) as recorder:
        (model(torch.from_numpy(INPUTS[name])) ** 2).mean().backward()
    assert recorder.path is not None
    return recorder.path


def record_paddle(name: str, faults: dict[str, str], out: Path) -> Path:
    """Record the paddle model's forward and backward."""
    import paddle  # noqa: PLC0415

    from tests.support import faulty_paddle, faulty_torch  # noqa: PLC0415

    model = faulty_paddle.build(name, faults, faulty_torch.build(name, faults))
    with padiff.record(model, name=f"paddle {len(faults)}", out=out) as recorder:
        (model(paddle.to_tensor(INPUTS[name])) ** 2).mean().backward()
    assert recorder.path is not None
    return recorder.path


def compare_dumps(reference: Path, candidate: Path) -> Comparison:
    """Compare with default settings."""
    return compare(reference, candidate, CompareSettings())


def compare_numbers(reference: Path, candidate: Path) -> Comparison:
    """Compare by tolerances alone, as dumps without programs are."""
    return compare(reference, candidate, CompareSettings(execute=False))


def origins(found: Comparison, phase: Phase) -> list[str]:
    """Name the modules of the origins of a phase."""
    return [
        origin.pair.reference.address.module
        for origin in found.origins
        if origin.phase is phase and origin.pair.reference is not None
    ]
