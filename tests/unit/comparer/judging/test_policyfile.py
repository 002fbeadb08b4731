"""Policy files, quantiles and shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Mode, Verdict, compare
from padiff.comparer.judging.policyfile import parse_mode, parse_share, read_policy
from padiff.dumpfile import ConfigError
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path


def compared(wrong: int, settings: CompareSettings, tmp_path: Path) -> Verdict:
    """Compare outputs of 1000 elements, some of which are wrong."""
    paths = []
    for side, count in (("known", 0), ("found", wrong)):
        x = np.ones((10, 100), np.float32)
        y = x.copy()
        y.reshape(-1)[:count] += 1
        built = DumpBuilder().module("", "Net").enter("", inputs=[x]).leave(outputs=[y])
        paths.append(built.write(tmp_path / side))
    return compare(paths[0], paths[1], settings).verdict


@pytest.mark.parametrize(
    ("wrong", "settings", "expected"),
    [
        (1, CompareSettings(), Verdict.DIVERGED),
        (1, CompareSettings(mode=Mode.QUANTILE, quantile=0.999), Verdict.MATCH),
        (2, CompareSettings(mode=Mode.QUANTILE, quantile=0.999), Verdict.DIVERGED),
        (5, CompareSettings(max_mismatched=0.005), Verdict.MATCH),
        (6, CompareSettings(max_mismatched=0.005), Verdict.DIVERGED),
    ],
)
def test_a_share_of_elements_may_disagree(
    wrong: int, settings: CompareSettings, expected: Verdict, tmp_path: Path
) -> None:
    assert compared(wrong, settings, tmp_path) is expected


@pytest.mark.parametrize(("text", "share"), [("10ppm", 1e-5), ("0.1%", 1e-3), ("1e-4", 1e-4)])
def test_shares(text: str, share: float) -> None:
    assert parse_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["quantile", "quantile=x", "strict=1", "other", ""])
def test_unknown_modes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_mode(text)


def test_a_policy_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        'atol = 1e-4\nmode = "quantile=0.99"\nmax_mismatched = "10ppm"\n'
        '[[rule]]\npattern = "type:LayerNorm"\nrole = "output"\nrtol = 1e-3\n'
    )

    found = read_policy(path)

    assert (found.atol, found.rtol, found.mode, found.quantile) == (1e-4, None, "quantile", 0.99)
    assert found.max_mismatched == pytest.approx(1e-5)
    assert [str(rule) for rule in found.rules] == ["type:LayerNorm:rtol=0.001,role=output"]


@pytest.mark.parametrize(
    "text", ["atoll = 1", "rule = 3", "[[rule]]\npattern = 'x'", "atol = 'x'", "=", "mode = 'x'"]
)
def test_what_is_no_policy_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)

    with pytest.raises(ConfigError):
        read_policy(path)


def test_a_quantile_needs_its_mode() -> None:
    with pytest.raises(ConfigError, match="quantile"):
        CompareSettings(quantile=0.5)
