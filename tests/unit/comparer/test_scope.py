"""A match is said of what was looked at, and of nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.judging.rejudge import rejudge
from padiff.comparer.report.github import to_github
from padiff.comparer.report.html import to_html
from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.report.junit import to_junit
from padiff.comparer.report.markdown import to_markdown
from padiff.comparer.report.sarif import to_sarif
from padiff.comparer.report.wording import verdict_line
from padiff.comparer.result import Looked
from padiff.dumpfile import Content, Keep, Phase, Role
from tests.support.dumps import DumpBuilder
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def net(*, outputs: bool = True, literals: dict[str, Any] | None = None) -> DumpBuilder:
    """Build a net of one layer whose own output may be something that is no tensor."""
    built = DumpBuilder().module("", "Net").module("fc", "Linear").tensor("fc", "weight", X)
    built.enter("", inputs=[X], literals=literals).call("fc", inputs=[X], outputs=[X + 1])
    return built.leave(outputs=[X + 1] if outputs else [])


def compared(
    folder: Path,
    built: DumpBuilder,
    *,
    noise: float = 0.0,
    content: Keep | None = None,
    recorded: dict[str, Any] | None = None,
    **settings: Any,  # noqa: ANN401
) -> Comparison:
    """Compare two dumps of one net, of whose floats the candidate's are a little off."""
    paths = []
    for name in ("reference", "candidate"):
        if name == "candidate":
            built.records = [
                (record, None if array is None else array * np.float32(1 + noise))
                for record, array in built.records
            ]
        paths.append(built.write(folder / name, content=content, settings=recorded or {}))
    return compare(paths[0], paths[1], CompareSettings(**settings))


def line(found: Comparison) -> str:
    return verdict_line(found.verdict, found.scope)


def test_the_headline_counts_what_was_judged(tmp_path: Path) -> None:
    found = compared(tmp_path, tiny_net())

    assert line(found) == "MATCH: 1 output, the loss, 2 weights and 2 gradients agree"


def test_weights_alone_are_a_match_of_the_weights(tmp_path: Path) -> None:
    built = DumpBuilder().module("", "Net").tensor("", "weight", X)

    found = compared(tmp_path, built.tensor("", "mean", X, role=Role.BUFFER))

    assert found
    assert line(found) == (
        "MATCH of the weights: 1 weight and 1 buffer agree; no forward pass was recorded"
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"include": ("fc",)},
            (
                "MATCH of what was selected (--include fc): 3 records agree; "
                "the model's outputs were not looked at"
            ),
        ),
        (
            {"exclude": ("fc",)},
            "MATCH of what was selected (--exclude fc): 1 output agrees",
        ),
        (
            {"phases": (Phase.FORWARD,), "steps": (0,)},
            ("MATCH of what was selected (--step 0 --phase forward): 1 output and 1 weight agree"),
        ),
    ],
    ids=["include", "exclude", "phase"],
)
def test_what_was_selected_is_named(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    found = compared(tmp_path, net(), **settings)

    assert found
    assert line(found) == words


def test_the_backward_phase_alone_is_a_selection(tmp_path: Path) -> None:
    found = compared(tmp_path, tiny_net(), phases=(Phase.BACKWARD,))

    assert found.verdict is Verdict.MATCH
    assert found.scope.looked_at is Looked.SELECTED


def test_modules_selected_when_recording_are_a_match_of_what_was_recorded(tmp_path: Path) -> None:
    found = compared(tmp_path, net(outputs=False), recorded={"include": ["fc"]})

    assert found
    assert line(found) == (
        "MATCH of what was recorded: 4 records agree; the model's outputs were not looked at"
    )


def test_statistics_are_said_to_prove_no_match(tmp_path: Path) -> None:
    found = compared(tmp_path, net(), noise=1e-7, content=Keep(content=Content.STATS))

    assert found
    assert line(found).startswith("MATCH by statistics, which prove none: 1 output")


def test_samples_are_said_to_be_samples(tmp_path: Path) -> None:
    found = compared(tmp_path, net(), noise=1e-7, content=Keep(content=Content.SAMPLE, sample=4))

    assert line(found).startswith("MATCH by samples: 1 output")


def test_a_model_that_gave_nothing_recorded_is_inconclusive(tmp_path: Path) -> None:
    built = net(outputs=False, literals={"output": "<net.Posterior>"})

    found = compared(tmp_path, built)

    assert found.verdict is Verdict.INCONCLUSIVE
    assert not found
    assert [str(one) for one in found.reasons] == [
        "nothing that the model gives was recorded, and no loss"
    ]


def test_a_loss_is_a_result(tmp_path: Path) -> None:
    built = net(outputs=False).record("", Role.LOSS, np.array(2.0, np.float32))

    assert compared(tmp_path, built).verdict is Verdict.MATCH


def test_a_divergence_is_one_whatever_else_was_judged(tmp_path: Path) -> None:
    found = compared(tmp_path, net(outputs=False), noise=0.5)

    assert found.verdict is Verdict.DIVERGED


def test_judging_again_decides_no_more_than_was_looked_at(tmp_path: Path) -> None:
    report = compared(tmp_path, net(outputs=False))
    bad = compared(tmp_path, net(outputs=False), noise=0.5)

    found = rejudge(report, atol=None, rtol=None), rejudge(bad, atol=9.0, rtol=9.0)

    assert [one.reasons for one in found] == [(), ()]
    assert [len(one.open) for one in found] == [1, 1]


def test_a_report_keeps_the_scope(tmp_path: Path) -> None:
    found = compared(tmp_path, net(), include=("fc",))

    again = read_report(json.loads(json.dumps(to_json(found))))

    assert again.scope == found.scope


@pytest.mark.parametrize(
    "render",
    [to_markdown, to_github, to_junit, lambda report: json.dumps(to_sarif(report))],
    ids=["markdown", "github", "junit", "sarif"],
)
def test_no_format_says_match_where_nothing_was_judged(
    render: Callable[[Comparison], str], tmp_path: Path
) -> None:
    text = render(compared(tmp_path, net(outputs=False)))

    assert "nothing that the model gives was recorded" in text
    assert "padiff: match" not in text
    assert "MATCH" not in text


def test_the_page_says_what_was_looked_at(tmp_path: Path) -> None:
    nothing = to_html(compared(tmp_path / "1", net(outputs=False)))
    some = to_html(compared(tmp_path / "2", net(), include=("fc",)))

    assert "nothing of what the model gives was judged" in nothing
    assert "INCONCLUSIVE" in nothing
    assert "MATCH of what was selected (--include fc)" in some
