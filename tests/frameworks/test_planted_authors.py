"""Faults in models that nobody here wrote are named first, with a proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import padiff
from padiff.comparer import CompareSettings, compare
from tests.support.planted_authors import FAULTS, MODELS, spread

if TYPE_CHECKING:
    from pathlib import Path


def record(name: str, out: Path, *, fault: str | None = None) -> Path:
    model, inputs = MODELS[name]()
    spread(model)
    if fault is not None:
        FAULTS[fault].change(model.get_submodule(FAULTS[fault].module))
    with padiff.record(model, name=fault or "reference", out=out) as recorder:
        (model(**inputs).logits ** 2).mean().backward()
    assert recorder.path is not None
    return recorder.path


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: record(name, tmp_path_factory.mktemp(name)) for name in MODELS}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_model_of_others_is_named_first_with_its_cause(
    fault: str, references: dict[str, Path], tmp_path: Path
) -> None:
    planted = FAULTS[fault]

    found = compare(
        references[planted.model], record(planted.model, tmp_path, fault=fault), CompareSettings()
    )

    first = found.origins[0]
    assert first.pair.reference is not None
    named, expected = first.pair.reference.address.module, planted.expected or planted.module
    assert named == expected or named.startswith(f"{expected}.")
    assert bool(first.faults) is planted.is_proved
