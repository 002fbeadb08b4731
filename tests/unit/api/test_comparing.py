"""``padiff.compare`` from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import padiff
from padiff.comparer import CompareSettings, Mode, ToleranceRule
from padiff.comparing import settings_of
from padiff.dumpfile import ConfigError, Phase
from padiff.dumpfile.packed import pack
from tests.support.command import run_padiff
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path) -> list[str]:
    """Write a reference, a dump that matches it, and one whose norm is at fault."""
    nets = {"known": tiny_net(), "same": tiny_net(), "faulty": tiny_net(eps=1e-2)}
    return [str(net.write(folder / name)) for name, net in nets.items()]


def test_a_result_is_true_only_if_it_is_a_match(tmp_path: Path) -> None:
    known, same, faulty = written(tmp_path)

    assert padiff.compare(known, same)
    assert not padiff.compare(known, faulty)


def test_options_have_the_names_of_the_command_line(tmp_path: Path) -> None:
    known, _, faulty = written(tmp_path)

    assert padiff.compare(known, faulty, atol=1.0, rtol=1.0)
    assert not padiff.compare(known, faulty, CompareSettings(atol=1e-9))
    assert padiff.compare(known, faulty, include="fc1", phase="forward")


def test_a_packed_dump_compares(tmp_path: Path) -> None:
    known, same, _ = written(tmp_path)
    packed = tmp_path / "same.padiff.zip"
    pack(tmp_path / "same", packed)

    assert padiff.compare(known, packed)
    del same


def test_every_option_of_the_command_is_read(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("rtol = 0.5\nmax_mismatched = '1%'\n")

    found = settings_of(
        {
            "atol": np.float32(0.25),
            "policy": str(tmp_path / "policy.toml"),
            "mode": "quantile=0.5",
            "rule": ["*.norm:atol=1", ToleranceRule(pattern="fc", rtol=0.0)],
            "step": 1,
            "rank": [0, 2],
            "phase": ("forward", "backward"),
            "include": "encoder.*",
            "exclude": ["type:Dropout", "head"],
            "allow_missing": None,
            "jobs": 2,
        }
    )

    assert found == CompareSettings(
        atol=0.25,
        rtol=0.5,
        mode=Mode.QUANTILE,
        quantile=0.5,
        max_mismatched=0.01,
        rules=(ToleranceRule(pattern="*.norm", atol=1.0), ToleranceRule(pattern="fc", rtol=0.0)),
        steps=(1,),
        ranks=(0, 2),
        phases=(Phase.FORWARD, Phase.BACKWARD),
        include=("encoder.*",),
        exclude=("type:Dropout", "head"),
        jobs=2,
    )


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ({"atol": "1e-4"}, None),
        ({"phase": "sideways"}, None),
        ({"exclude": [object()]}, None),
        ({"step": ["one"]}, None),
        ({"atoll": 1e-4}, "did you mean 'atol'?"),
    ],
)
def test_an_unusable_option_is_refused(option: dict[str, Any], hint: str | None) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))) as caught:
        padiff.compare("a", "b", **option)

    assert hint is None or caught.value.hint == hint


def test_options_beside_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="'atol' beside settings"):
        padiff.compare("a", "b", CompareSettings(), atol=1e-4)


def test_the_report_is_the_commands_without_colour(tmp_path: Path) -> None:
    known, _, faulty = written(tmp_path)
    printed = run_padiff("compare", known, faulty, cwd=tmp_path).stdout

    text = padiff.compare(known, faulty).report()

    plain = [[line for line in one.splitlines() if line.isascii()] for one in (text, printed)]
    assert text.startswith("DIVERGED: 1 origin")
    assert "\x1b" not in text
    assert len(plain[0]) > 20
    assert set(plain[0]) <= set(plain[1])


def test_a_repr_is_short_and_names_verdict_and_origin(tmp_path: Path) -> None:
    known, same, faulty = written(tmp_path)

    assert repr(padiff.compare(known, same)) == "<Comparison: match, 'known' against 'same'>"
    assert repr(padiff.compare(known, faulty)) == (
        "<Comparison: diverged, 'known' against 'faulty': first at step 0 norm#0 output>"
    )


def test_the_repr_of_two_loaders_is_short() -> None:
    found = padiff.check_dataloader([np.ones(3)], [np.zeros(3)], quiet=True)

    assert not found
    assert repr(found).startswith("<AutoDiffResult: diverged, 'reference' against 'candidate'")
    assert len(repr(found)) < 200
