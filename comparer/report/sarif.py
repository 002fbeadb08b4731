"""The report as SARIF 2.1.0: a result for each origin, at its line in the candidate's source."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from .escape import printable
from .headline import verdict_line
from .wording import headline, source_of

if TYPE_CHECKING:
    from padiff.dumpfile import JSON

    from .reading import Finding, Report

__all__ = ["to_sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RESULTS = 1000
_LIMIT = 4000
"""Characters of a message."""
_RULES = {
    "padiff/origin": "A module whose inputs agree computes something else than the reference.",
    "padiff/divergence": "A module diverged; its origin is not in this report.",
    "padiff/verdict": "The comparison as a whole diverged, or judged nothing of the result.",
}


def to_sarif(report: Report) -> dict[str, JSON]:
    """Give the log as JSON values."""
    found = list(report.origins)
    if not found and report.first is not None:
        found = [report.first]
    results: list[JSON] = [_result(finding) for finding in found[:_RESULTS]]
    if not found and report.verdict != "match":
        results += [
            {
                "ruleId": "padiff/verdict",
                "ruleIndex": list(_RULES).index("padiff/verdict"),
                "level": "error",
                "message": {"text": _message(reason)},
            }
            for reason in report.reasons or (report.verdict,)
        ]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "padiff",
                        "version": _text(report.padiff_version),
                        "rules": [
                            {"id": rule, "shortDescription": {"text": text}}
                            for rule, text in _RULES.items()
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": results,
                "properties": {
                    "reference": _text(report.reference),
                    "candidate": _text(report.candidate),
                    "verdict": report.verdict,
                    "headline": _text(verdict_line(report.verdict, report.scope)),
                },
            }
        ],
    }


def _result(finding: Finding) -> dict[str, JSON]:
    rule = "padiff/origin" if finding.line.kind == "origin" else "padiff/divergence"
    end = finding.line.candidate or finding.line.place
    location: dict[str, JSON] = {
        "logicalLocations": [
            {
                "name": _text(end.module.rpartition(".")[2] or "(root)"),
                "fullyQualifiedName": _text(end.owner),
                "kind": "module",
            }
        ]
    }
    source = source_of(finding)
    if source is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(source.file)},
            "region": {"startLine": max(1, source.line)},
        }
    return {
        "ruleId": rule,
        "ruleIndex": list(_RULES).index(rule),
        "level": "error",
        "message": {"text": _message(headline(finding))},
        "locations": [location],
        "partialFingerprints": {"padiffAddress/v1": _text(f"{end.owner} {end.what}")},
    }


def _uri(file: str) -> str:
    """Make a path a URI: relative ones stay so, nothing in it can become a scheme or a query."""
    path = quote(file.replace("\\", "/").encode("utf-8", "backslashreplace"), safe="/")
    return f"file://{path}" if path.startswith("/") else path


def _message(text: str) -> str:
    """Give the text of a message, in which ``[text](target)`` would be a link (SARIF 3.11.6)."""
    return _text(text).replace("](", "] (")


def _text(text: str) -> str:
    escaped = printable(text, ascii_only=False)
    return escaped if len(escaped) <= _LIMIT else escaped[:_LIMIT] + "..."
