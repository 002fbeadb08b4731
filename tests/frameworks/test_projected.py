"""What an audit sees along a few directions of a product is what it sees of all its elements."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.auditing.forward import Projected, measure_value, project
from padiff.comparer.auditing.sharing import Answers
from padiff.comparer.auditing.slices import KnownProgram
from padiff.dumpfile import open_dump
from padiff.program import TABLES, UNIT_ROUNDOFF, lower, read_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from padiff.program import Value
    from padiff.program.primitives import Array

ROWS = np.random.default_rng(0).standard_normal((5, 40, 96)).astype(np.float32)
IMAGES = np.random.default_rng(1).standard_normal((3, 8, 12, 12)).astype(np.float32)


class _Scores(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x.mT


CASES: dict[str, tuple[object, object]] = {
    "linear": (nn.Linear(96, 128), torch.from_numpy(ROWS)),
    "linear without bias": (nn.Linear(96, 32, bias=False), torch.from_numpy(ROWS)),
    "linear, bfloat16": (nn.Linear(96, 128).bfloat16(), torch.from_numpy(ROWS).bfloat16()),
    "product of batches": (_Scores(), torch.from_numpy(ROWS)),
    "convolution": (nn.Conv2d(8, 24, 3, stride=2, padding=1), torch.from_numpy(IMAGES)),
    "Paddle's linear": (paddle.nn.Linear(96, 64), paddle.to_tensor(ROWS)),
    "Paddle's convolution": (paddle.nn.Conv2D(8, 16, 3), paddle.to_tensor(IMAGES)),
}


@contextmanager
def known_program(folder: Path, case: str) -> Iterator[tuple[KnownProgram, Value]]:
    """Record a layer, and give its program with its product."""
    model, x = CASES[case]
    with padiff.record(model, out=folder) as recorder:
        model(x)  # type: ignore[operator]
    assert recorder.path is not None
    with open_dump(recorder.path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        lowered = lower(recorded.program, TABLES[file.framework], contents=recorded.elements)
        known = KnownProgram(recorded, lowered)
        made = [one for one in recorded.program.values if one.kind is None]
        yield known, next(one for one in made if project(known, known.part_behind(one.id)))


def projected(known: KnownProgram, value: Value, changed: Array) -> Projected:
    """Look at other elements of a value as if they had been recorded."""
    own = known.narrow

    def elements(value_id: int) -> Array:
        return changed if value_id == value.id else own(value_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "narrow", elements)
        found = project(known, known.part_behind(value.id))
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_error_is_that_of_all_elements(tmp_path: Path, case: str) -> None:
    with known_program(tmp_path, case) as (known, value):
        found = projected(known, value, known.elements(value.id))
        whole = measure_value(known, value, Answers())

    assert whole is not None
    assert found.is_sound
    assert whole.error / 2 < found.error < 2 * whole.error


@pytest.mark.parametrize("case", CASES)
def test_errors_of_all_elements_are_unsound(tmp_path: Path, case: str) -> None:
    with known_program(tmp_path, case) as (known, value):
        right = known.elements(value.id)
        whole = measure_value(known, value, Answers())
        assert whole is not None
        unit = UNIT_ROUNDOFF[value.dtype]
        size = np.sqrt(np.mean(np.square(right)))
        signs = np.random.default_rng(2).choice((-1.0, 1.0), right.shape)

        assert not projected(known, value, right + 100 * unit * size * signs).is_sound
        assert not projected(known, value, right * (1 + 100 * unit)).is_sound


@pytest.mark.parametrize("case", CASES)
def test_one_wrong_element_is_unsound(tmp_path: Path, case: str) -> None:
    with known_program(tmp_path, case) as (known, value):
        wrong = np.array(known.elements(value.id))
        place = tuple(size // 2 for size in wrong.shape)
        wrong[place] += 1.0 * float(np.abs(wrong).max())

        assert not projected(known, value, wrong).is_sound


def test_what_is_no_product_alone_is_not_projected(tmp_path: Path) -> None:
    CASES["gelu of a linear"] = (
        nn.Sequential(nn.Linear(96, 8), nn.GELU(), nn.Linear(8, 8, bias=False)),
        torch.from_numpy(ROWS),
    )
    try:
        with known_program(tmp_path, "gelu of a linear") as (known, _):
            made = [
                project(known, known.part_behind(one.id)) is None
                for one in known.program.values
                if one.kind is None and known.part_behind(one.id).nodes
            ]
    finally:
        del CASES["gelu of a linear"]

    # Weights turned as linear layers take them are no product; nor is gelu.
    assert made.count(False) == 2
    assert made.count(True) >= 1


class _Nothing(nn.Module):
    """Attend to no key: an empty memory."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Linear(96, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keys = self.keys(x[:, :0])
        made: torch.Tensor = x + (x @ keys.mT) @ keys
        return made


def test_a_product_without_features_is_compared() -> None:
    found = padiff.auto_diff(_Nothing(), _Nothing(), (torch.from_numpy(ROWS),) * 2, quiet=True)

    assert found, found.report()
