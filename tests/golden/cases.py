"""The reports that are kept as golden files."""

from __future__ import annotations

import json
from dataclasses import replace

from padiff.cli.output import json_pieces
from padiff.comparer.report.csv_report import to_csv
from padiff.comparer.report.github import to_github
from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.report.junit import to_junit
from padiff.comparer.report.markdown import to_markdown
from padiff.comparer.report.sarif import to_sarif
from padiff.comparer.result import Comparison, Kind, Verdict
from padiff.dumpfile import Phase, Role
from tests.support.comparisons import (
    comparison,
    divergence,
    endpoint,
    metrics,
    pair,
    resnet_like,
    tree,
)
from tests.support.drawing import draw

__all__ = ["golden_reports"]


def golden_reports() -> dict[str, str]:
    """Give the text of every golden report by file name."""
    return {
        "diverged_80_ascii.txt": draw(resnet_like(), width=80),
        "diverged_140_unicode.txt": draw(resnet_like(), width=140, encoding="utf-8"),
        "diverged_verbose.txt": draw(resnet_like(), max_rows=0, verbose=True),
        "diverged_few_rows.txt": draw(resnet_like(), max_rows=6),
        "match_80_ascii.txt": draw(_match(), width=80),
        "different_trees.txt": draw(_different_trees(), explain_pairing=True),
        "backward_origins.txt": draw(_backward()),
        "missing_output.txt": draw(_missing_output()),
        **_formats(),
    }


def _formats() -> dict[str, str]:
    """Give the reports for machines of one diverged comparison."""
    data = to_json(resnet_like())
    report = read_report(data)
    return {
        "diverged.json": "".join(json_pieces(data)),
        "diverged.junit.xml": to_junit(report),
        "diverged.sarif": json.dumps(to_sarif(report), allow_nan=False, indent=1) + "\n",
        "diverged.md": to_markdown(report),
        "diverged.csv": to_csv(report),
        "diverged.github": to_github(report),
    }


def _match() -> Comparison:
    """Everything agrees, one pair not bit for bit."""
    near = pair(endpoint("fc"), endpoint("fc"), measured=metrics(3.21e-6))
    return comparison(
        [pair(endpoint("conv1"), endpoint("conv1")), near], tree(["", "conv1", "fc"], {})
    )


def _different_trees() -> Comparison:
    """Names and levels differ; one wrapper, two dropouts and one lost module."""
    rows = tree(
        [
            ("", ""),
            ("encoder", "body"),
            ("encoder.norm", "body.ln"),
            ("encoder.drop", None),
            ("encoder.pool", None),
            (None, "wrapper"),
        ],
        {"encoder.pool": Verdict.MISSING},
    )
    lost = pair(endpoint("encoder.pool"), None, Verdict.MISSING, reason="no such module")
    skipped = pair(endpoint("encoder.drop"), None, Verdict.SKIPPED, reason="inactive")
    fine = replace(
        pair(endpoint("encoder.norm"), endpoint("body.ln"), measured=metrics(2e-6)),
        layout="transpose",
    )
    notes = ("map entry 3 matched nothing", "two candidates for 'encoder.norm', took 'body.ln'")
    return comparison([fine, lost, skipped], rows, notes=notes)


def _backward() -> Comparison:
    """Two origins in backward, one of them a gradient that does not exist."""
    wrong = pair(
        endpoint("blocks.1.fc", role=Role.GRAD_INPUT, phase=Phase.BACKWARD),
        endpoint("blocks.1.fc", role=Role.GRAD_INPUT, phase=Phase.BACKWARD),
        Verdict.DIVERGED,
        kind=Kind.ORIGIN,
        measured=metrics(),
    )
    absent = pair(
        endpoint("blocks.0.fc", role=Role.WEIGHT_GRAD, slot=".weight", phase=Phase.BACKWARD),
        replace(
            endpoint("blocks.0.fc", role=Role.WEIGHT_GRAD, slot=".weight", phase=Phase.BACKWARD),
            dtype="none",
            shape=(),
            statistics=None,
        ),
        Verdict.INCOMPARABLE,
        kind=Kind.ORIGIN,
        reason="no gradient on the candidate",
    )
    paths = ["", "blocks", "blocks.0", "blocks.0.fc", "blocks.1", "blocks.1.fc"]
    bad = ["blocks.0.fc", "blocks.1.fc"]
    rows = tuple(
        replace(row, worst={**row.worst, Phase.FORWARD: Verdict.MATCH})
        for row in tree(paths, dict.fromkeys(bad, Verdict.DIVERGED), origins=bad)
    )
    return comparison(
        [wrong, absent],
        rows,
        [divergence(wrong, "2 of 2 output gradients agree"), divergence(absent)],
        reasons=("gradients diverged",),
    )


def _missing_output() -> Comparison:
    """A root output has no counterpart."""
    alone = pair(endpoint(""), None, Verdict.MISSING, reason="no such output on the candidate")
    return comparison(
        [alone],
        tree([""], {"": Verdict.MISSING}),
        reasons=("the root output '' has no counterpart on the candidate",),
    )
