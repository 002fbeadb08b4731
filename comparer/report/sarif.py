"""The report as SARIF 2.1.0: a result for each origin, at its line in the source."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from padiff.comparer.result import Kind, Verdict

from .equal_ranks import fold_origins, fold_reasons
from .escape import printable
from .wording import (
    describe_dump,
    headline,
    line_of,
    owner,
    verdict_line,
    what,
)

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison, Divergence
    from padiff.dumpfile import JSON, SourceLine

    from .equal_ranks import Repeated


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RESULTS = 1000
_LIMIT = 4000
"""Characters of a message."""
_RULES = {
    "padiff/origin": "A module whose inputs agree computes something else than the reference.",
    "padiff/divergence": "A module diverged; its origin is not in this report.",
    "padiff/verdict": "The comparison as a whole diverged, or judged nothing of the result.",
}


def to_sarif(comparison: Comparison) -> dict[str, JSON]:
    """Return the log as JSON values."""
    verdict = comparison.verdict
    origins = fold_origins(comparison)
    results: list[JSON] = [_result(told, comparison) for told in origins[:_RESULTS]]
    if not origins and verdict is not Verdict.MATCH:
        results += [
            {
                "ruleId": "padiff/verdict",
                "ruleIndex": list(_RULES).index("padiff/verdict"),
                "level": "error",
                "message": {"text": _message(reason)},
                "locations": [{"physicalLocation": _physical(line_of(comparison))}],
            }
            for reason in fold_reasons(comparison.reasons) or (verdict,)
        ]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "padiff",
                        "version": _text(comparison.reference.padiff_version),
                        "rules": [
                            {"id": rule, "shortDescription": {"text": text}}
                            for rule, text in _RULES.items()
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": results,
                "properties": {
                    "reference": _text(describe_dump(comparison.reference)),
                    "candidate": _text(describe_dump(comparison.candidate)),
                    "verdict": str(verdict),
                    "headline": _text(verdict_line(verdict, comparison.scope)),
                },
            }
        ],
    }


def _result(told: Repeated[Divergence], comparison: Comparison) -> dict[str, JSON]:
    found = told.first
    rule = "padiff/origin" if found.kind is Kind.ORIGIN else "padiff/divergence"
    end = found.pair.candidate or found.pair.end
    location: dict[str, JSON] = {
        "logicalLocations": [
            {
                "name": _text(end.address.module.rpartition(".")[2] or "(root)"),
                "fullyQualifiedName": _text(owner(end)),
                "kind": "module",
            }
        ],
        "physicalLocation": _physical(line_of(comparison, found)),
    }
    text = headline(found, told.ranks, has_steps=len(comparison.steps) > 1)
    return {
        "ruleId": rule,
        "ruleIndex": list(_RULES).index(rule),
        "level": "error",
        "message": {"text": _message(text)},
        "locations": [location],
        "partialFingerprints": {"padiffAddress/v1": _text(f"{owner(end)} {what(end)}")},
    }


def _physical(source: SourceLine) -> dict[str, JSON]:
    return {
        "artifactLocation": {"uri": _uri(source.file)},
        "region": {"startLine": max(1, source.line)},
    }


def _uri(file: str) -> str:
    """Make a path a URI: relative ones stay so, nothing in it can become a scheme or a query."""
    path = quote(file.replace("\\", "/").encode("utf-8", "backslashreplace"), safe="/")
    return f"file://{path}" if path.startswith("/") else path


def _message(text: str) -> str:
    """Return the text of a message, in which ``[text](target)`` would be a link (SARIF 3.11.6)."""
    return _text(text).replace("](", "] (")


def _text(text: str) -> str:
    escaped = printable(text, ascii_only=False)
    return escaped if len(escaped) <= _LIMIT else escaped[:_LIMIT] + "..."
