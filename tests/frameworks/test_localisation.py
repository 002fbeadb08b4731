"""A small part of benchmarks/localisation, judged with floors too; the score holds all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.localisation.faults import FAULTS
from benchmarks.localisation.trial import look, record

if TYPE_CHECKING:
    from pathlib import Path

OURS = ("padiff", "padiff --floor both")
DEPTH = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("localisation")


def test_another_correct_form_is_no_divergence(folder: Path) -> None:
    reference = record("cnn", "float32", folder, style="")

    found = look(reference, record("cnn", "float32", folder, style="all"), "float32")

    assert {way: found[way].alarm for way in OURS} == dict.fromkeys(OURS, False)


def test_activations_on_the_other_side_of_a_kink_are_no_divergence(folder: Path) -> None:
    reference = record("cnn", "bfloat16", folder, style="", seed=1)

    found = look(
        reference, record("cnn", "bfloat16", folder, style="split sums", seed=1), "bfloat16"
    )

    assert {way: found[way].alarm for way in OURS} == dict.fromkeys(OURS, False)


def test_in_half_precision_the_first_layer_that_the_backward_pass_meets_is_named(
    folder: Path,
) -> None:
    reference = record("cnn", "bfloat16", folder, style="")
    candidate = record("cnn", "bfloat16", folder, fault="wrong gradient", depth=DEPTH)

    found = look(reference, candidate, "bfloat16")

    expected = f"blocks.{DEPTH}.conv2"
    assert {way: found[way].named[0] for way in OURS} == dict.fromkeys(OURS, expected)


def test_a_planted_fault_is_named_first_and_with_its_cause(folder: Path) -> None:
    kind, fault = "transformer", "wrong gradient"
    planted = FAULTS[kind][fault]
    reference = record(kind, "float32", folder, style="")

    found = look(reference, record(kind, "float32", folder, fault=fault, depth=DEPTH), "float32")

    expected = f"blocks.{DEPTH}.{planted.where}".rstrip(".")
    assert {way: found[way].named[0] for way in OURS} == dict.fromkeys(OURS, expected)
    assert planted.cause in found["padiff"].evidence
