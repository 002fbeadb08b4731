"""Faults planted in torch and in paddle models are named exactly, against a torch reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.comparer import Verdict
from padiff.dumpfile import Phase
from tests.support.located import compare_dumps, origins, record_paddle, record_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Record = Callable[[str, dict[str, str], Path], Path]

NAMES = ("cnn", "transformer")
FORWARD = [
    ("cnn", "block2", "eps", "block2.bn1"),
    ("cnn", "block1", "stride", "block1.conv1"),
    ("cnn", "pool", "stride", "pool"),
    ("cnn", "block1.conv2", "weight", "block1.conv2"),
    ("cnn", "head", "weight", "head"),
    ("transformer", "blocks.1", "eps", "blocks.1.norm2"),
    ("transformer", "blocks.1", "gelu", "blocks.1.act"),
    ("transformer", "blocks.1", "functional gelu", "blocks.1"),
    ("transformer", "blocks.2.attention.value", "weight", "blocks.2.attention.value"),
    ("transformer", "blocks.0", "scale", "blocks.0.attention"),
]
"""Model, where, what, and the module to name."""
BACKWARD = [
    ("cnn", "block1", "detached branch", "block1"),
    ("cnn", "block2", "detached skip", "block2"),
    ("transformer", "blocks.1", "detached branch", "blocks.1"),
    ("transformer", "blocks.0", "detached value", "blocks.0.attention"),
    ("transformer", "blocks.1", "detached skip", "blocks.1"),
]
"""Faults that leave the forward pass as it is."""


@pytest.fixture(params=[record_torch, record_paddle], ids=["torch", "paddle"])
def record(request: pytest.FixtureRequest) -> Record:
    chosen: Record = request.param
    return chosen


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("references")
    return {name: record_torch(name, {}, out / name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_equal_models_match(
    name: str, record: Record, references: dict[str, Path], tmp_path: Path
) -> None:
    found = compare_dumps(references[name], record(name, {}, tmp_path))

    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())


@pytest.mark.parametrize(("name", "place", "fault", "expected"), FORWARD)
def test_forward_fault_is_named(
    name: str,
    place: str,
    fault: str,
    expected: str,
    record: Record,
    references: dict[str, Path],
    tmp_path: Path,
) -> None:
    found = compare_dumps(references[name], record(name, {place: fault}, tmp_path))

    assert origins(found, Phase.FORWARD) == [expected]
    assert origins(found, Phase.BACKWARD) == []


@pytest.mark.parametrize(("name", "place", "fault", "expected"), BACKWARD)
def test_backward_fault_is_named(
    name: str,
    place: str,
    fault: str,
    expected: str,
    record: Record,
    references: dict[str, Path],
    tmp_path: Path,
) -> None:
    found = compare_dumps(references[name], record(name, {place: fault}, tmp_path))

    assert origins(found, Phase.FORWARD) == []
    assert origins(found, Phase.BACKWARD) == [expected]
