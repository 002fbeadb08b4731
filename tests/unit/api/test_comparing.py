"""``padiff.compare`` from Python."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pytest

import padiff
from padiff.cli.compare import compare as command
from padiff.comparer import CompareSettings, Mode, ToleranceRule
from padiff.comparing import settings_of
from padiff.dumpfile import CompareError, ConfigError, Phase
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
    "option",
    [{"atol": "1e-4"}, {"phase": "sideways"}, {"exclude": [object()]}, {"step": ["one"]}],
)
def test_an_unusable_option_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))):
        padiff.compare("a", "b", **option)


def test_options_have_the_names_and_defaults_of_the_command() -> None:
    elsewhere = {"json_path", "html", "overview", "junit", "sarif", "markdown", "csv", "github",
                 "stdout", "details", "max_rows", "verbose", "quiet",
                 "explain_pairing"}  # fmt: skip
    options = {one.name: one for one in command.params if one.name not in elsewhere}
    known = inspect.signature(padiff.compare).parameters

    names = {one.opts[0].removeprefix("--").replace("-", "_") for one in options.values()}
    assert names == set(known) - {"settings"}
    for one in options.values():
        default = known[one.opts[0].removeprefix("--").replace("-", "_")].default
        if one.multiple:
            assert default == ()
        elif isinstance(one, click.Option):
            assert default == one.to_info_dict()["default"]


def test_options_beside_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="options beside settings"):
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

    match, diverged = padiff.compare(known, same), padiff.compare(known, faulty)

    assert repr(match).splitlines()[0].startswith("MATCH: ")
    assert repr(diverged).splitlines()[0].startswith("DIVERGED at norm, forward; ")
    assert max(len(repr(found).splitlines()) for found in (match, diverged)) <= 20


def test_a_repr_stays_short_whatever_was_found(tmp_path: Path) -> None:
    loaders = [np.ones(3)] * 30, [np.zeros(3)] * 30

    found = padiff.check_dataloader(*loaders, quiet=True)

    assert not found
    assert repr(found).startswith("DIVERGED at ")
    assert len(repr(found).splitlines()) <= 20
    del tmp_path


def test_the_first_origin_says_where_and_why(tmp_path: Path) -> None:
    known, same, faulty = written(tmp_path)

    first = padiff.compare(known, faulty).first

    assert first is not None
    assert (first.module, first.kind) == ("norm", "origin")
    assert first.cause == first.reasons[0]
    assert repr(first).startswith("<Divergence: step 0 norm, forward, origin: ")
    assert padiff.compare(known, same).first is None


def test_reports_are_written_into_folders_that_are_made(tmp_path: Path) -> None:
    known, _, faulty = written(tmp_path)
    found = padiff.compare(known, faulty)

    page = found.to_html(tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    data = json.loads(found.to_json(str(tmp_path / "b" / "c.json")).read_text(encoding="ascii"))

    assert page.startswith("<!doctype html>")
    assert data["verdict"] == "diverged"
    assert run_padiff("report", "b/c.json", cwd=tmp_path).returncode == 1


def test_a_page_is_not_made_of_dumps_that_were_recorded_anew(tmp_path: Path) -> None:
    known, _, faulty = written(tmp_path)
    found = padiff.compare(known, faulty)
    shutil.rmtree(faulty)
    tiny_net(eps=0.5).write(tmp_path / "faulty", created="2030-01-01T00:00:00+00:00")

    with pytest.raises(CompareError, match="'faulty': it was recorded anew"):
        found.to_html(tmp_path / "report.html")


def test_a_table_has_a_row_for_each_pair(tmp_path: Path) -> None:
    known, _, faulty = written(tmp_path)
    found = padiff.compare(known, faulty)

    table = found.to_dataframe()

    assert len(table) == len(found.steps[0].pairs)
    bad = table[table.verdict == "diverged"]
    assert "norm" in set(bad.module)
    assert bad.max_abs.max() > 0


def test_a_table_without_pandas_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, same, _ = written(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(ConfigError, match="needs pandas") as caught:
        padiff.compare(known, same).to_dataframe()

    assert caught.value.hint == "pip install 'padiff-align[pandas]'"


def test_a_notebook_shows_the_glance_and_the_report_escaped(tmp_path: Path) -> None:
    known, *_ = written(tmp_path)
    tiny_net(eps=1e-2).write(tmp_path / "<b>")

    shown = padiff.compare(known, tmp_path / "<b>")._repr_html_()

    assert shown.index("DIVERGED at norm") < shown.index("<details>") < shown.index("MODULE TREE")
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_files_of_arrays_compare_like_dumps(tmp_path: Path) -> None:
    for name, value in (("one", 1.0), ("same", 1.0), ("other", 2.0)):
        np.savez(tmp_path / f"{name}.npz", logits=np.full(3, value))

    assert padiff.compare(tmp_path / "one.npz", tmp_path / "same.npz")
    found = padiff.compare(str(tmp_path / "one.npz"), str(tmp_path / "other.npz"))
    assert repr(found).startswith("DIVERGED at logits; ")


def test_in_a_notebook_nothing_is_displayed_but_what_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    known, _, faulty = written(tmp_path)

    found = padiff.compare(known, faulty)

    assert repr(found).startswith("DIVERGED")
    assert "MODULE TREE" in found.report()
    assert "MODULE TREE" in found._repr_html_()
    assert "step 0" in repr(padiff.open_dump(known))
    assert not padiff.check_dataloader([np.ones(3)], [np.zeros(3)])
    assert capsys.readouterr().out.startswith("DIVERGED")
