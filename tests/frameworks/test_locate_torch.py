"""Faults planted in torch models are named exactly, against a torch reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.comparer import Verdict
from padiff.dumpfile import Phase
from tests.frameworks.locate_cases import BACKWARD, FORWARD
from tests.support.located import compare_dumps, origins, record_torch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("references")
    return {name: record_torch(name, {}, out / name) for name in ("cnn", "transformer")}


@pytest.mark.parametrize("name", ["cnn", "transformer"])
def test_equal_models_match(name: str, references: dict[str, Path], tmp_path: Path) -> None:
    candidate = record_torch(name, {}, tmp_path)

    found = compare_dumps(references[name], candidate)

    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())


@pytest.mark.parametrize(("name", "place", "fault", "expected"), FORWARD)
def test_forward_fault_is_named(
    name: str, place: str, fault: str, expected: str, references: dict[str, Path], tmp_path: Path
) -> None:
    candidate = record_torch(name, {place: fault}, tmp_path)

    found = compare_dumps(references[name], candidate)

    assert origins(found, Phase.FORWARD) == [expected]
    assert origins(found, Phase.BACKWARD) == []


@pytest.mark.parametrize(("name", "place", "fault", "expected"), BACKWARD)
def test_backward_fault_is_named(
    name: str, place: str, fault: str, expected: str, references: dict[str, Path], tmp_path: Path
) -> None:
    candidate = record_torch(name, {place: fault}, tmp_path)

    found = compare_dumps(references[name], candidate)

    assert origins(found, Phase.FORWARD) == []
    assert origins(found, Phase.BACKWARD) == [expected]
