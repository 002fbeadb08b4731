"""Pairs of which not all elements were recorded are judged by what there is, and say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, compare
from padiff.comparer.result import Evidence, Verdict
from padiff.comparer.settings import Mode
from padiff.dumpfile import Keep, sample_positions
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from padiff.comparer import Comparison
    from padiff.comparer.result import JudgedPair

X = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)


def write(
    folder: Path, name: str, output: npt.NDArray[np.float32], content: str, framework: str = "torch"
) -> Path:
    built = DumpBuilder(framework=framework).module("", "Net").module("fc", "Tanh")
    built.enter("", inputs=[X]).call("fc", inputs=[X], outputs=[output]).leave(outputs=[output])
    return built.write(folder / name, content=Keep.parse(content))


def outcome(
    folder: Path,
    outputs: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]],
    contents: tuple[str, str],
    **settings: object,
) -> tuple[Comparison, JudgedPair]:
    """Compare two outputs; gives the whole and the pair of the outputs of ``fc``."""
    paths = [
        write(folder, f"{place}", output, content)
        for place, (output, content) in enumerate(zip(outputs, contents, strict=True))
    ]
    found = compare(paths[0], paths[1], CompareSettings(**settings))  # type: ignore[arg-type]
    (pair,) = [
        pair
        for pair in found.steps[0].pairs
        if pair.reference is not None
        and pair.reference.address.module == "fc"
        and pair.reference.address.role == "output"
    ]
    return found, pair


Y = np.tanh(X)
NEAR = Y + np.float32(1e-8) * np.sign(X)
BAD = Y.copy()
BAD[:, 7] += 0.01


@pytest.mark.parametrize(
    "contents", [("sample=256", "sample=256"), ("full", "sample=256"), ("sample=256", "full")]
)
def test_a_sample_is_judged_element_by_element(contents: tuple[str, str], tmp_path: Path) -> None:
    found, pair = outcome(tmp_path, (Y, BAD), contents)

    assert found.verdict is Verdict.DIVERGED
    assert (pair.verdict, pair.rests_on, pair.sampled_of) == (
        Verdict.DIVERGED, Evidence.SAMPLE, 2000,
    )  # fmt: skip
    assert pair.metrics is not None
    assert 256 <= pair.metrics.size <= 512
    assert pair.metrics.max_abs_index is not None
    assert pair.metrics.max_abs_index[1] == 7
    assert pair.metrics.max_abs == pytest.approx(0.01, rel=1e-4)


def test_a_match_by_sample_is_a_match_with_its_evidence(tmp_path: Path) -> None:
    found, pair = outcome(tmp_path, (Y, NEAR), ("sample=256", "full"))

    assert found.verdict is Verdict.MATCH
    assert pair.rests_on is Evidence.SAMPLE


def test_what_the_sample_missed_the_statistics_find(tmp_path: Path) -> None:
    spike = Y.copy()
    positions = set(sample_positions(Y.shape, 256).tolist())
    place = next(place for place in range(Y.size) if place not in positions)
    spike.reshape(-1)[place] = 9.0

    _, pair = outcome(tmp_path, (Y, spike), ("sample=256", "sample=256"))

    assert pair.verdict is Verdict.DIVERGED
    assert pair.reason.startswith("outside the sample: maximum ")


@pytest.mark.parametrize("content", ["stats", "sample=256", "digest", "full"])
def test_equal_tensors_match_by_their_digests(content: str, tmp_path: Path) -> None:
    found, pair = outcome(tmp_path, (Y, Y), (content, "full"))

    assert found.verdict is Verdict.MATCH
    assert pair.rests_on is Evidence.DIGEST


def test_other_digests_diverge_and_say_that_nothing_more_is_known(tmp_path: Path) -> None:
    found, pair = outcome(tmp_path, (Y, NEAR), ("digest", "full"))

    assert found.verdict is Verdict.DIVERGED
    assert (pair.verdict, pair.rests_on) == (Verdict.DIVERGED, Evidence.DIGEST)
    assert "only digests were recorded" in pair.reason


def test_statistics_decide_nothing_about_means(tmp_path: Path) -> None:
    _, pair = outcome(tmp_path, (Y, NEAR), ("stats", "full"), mode=Mode.MEAN)

    assert pair.verdict is Verdict.SKIPPED
    assert "mode mean" in pair.reason


@pytest.mark.parametrize(
    ("content", "verdict", "evidence"),
    [
        ("sample=256", Verdict.MATCH, Evidence.SAMPLE),
        ("stats", Verdict.MATCH, Evidence.STATISTICS),
        ("digest", Verdict.SKIPPED, Evidence.DESCRIPTION),
    ],
)
def test_another_order_of_axes_is_followed_as_far_as_the_evidence_goes(
    content: str, verdict: Verdict, evidence: Evidence, tmp_path: Path
) -> None:
    _, pair = outcome(tmp_path, (Y, np.ascontiguousarray(NEAR.T)), (content, content))

    assert (pair.verdict, pair.rests_on) == (verdict, evidence)
