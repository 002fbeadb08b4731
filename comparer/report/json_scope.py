"""What a comparison looked at, to JSON and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.result import Looked, Scope
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from padiff.dumpfile import JSON

    from .fields import Fields

__all__ = ["read_scope", "scope_to_json"]

_COUNTS = (
    "outputs",
    "losses",
    "weights",
    "buffers",
    "gradients",
    "records",
    "steps",
    "proven",
    "recomputed",
    "hidden",
    "loosened",
)


def scope_to_json(scope: Scope) -> dict[str, JSON]:
    """Return a scope as values for JSON."""
    return {
        "looked_at": str(scope.looked_at),
        "selected": list(scope.selected),
        "unjudged": list(scope.unjudged),
        "by_statistics": scope.by_statistics,
        "is_sampled": scope.is_sampled,
        **{name: getattr(scope, name) for name in _COUNTS},
    }


def read_scope(report: Fields) -> Scope:
    """Read what ``scope_to_json`` wrote in a report; one of an older version does not say it.

    Raises:
        ConfigError: It is something else.
    """
    if "scope" not in report.names:
        return Scope(looked_at=Looked.RESULT, records=report.inner("counts").integer("match"))
    fields = report.inner("scope")
    word = fields.text("looked_at")
    if word not in set(Looked):
        known = ", ".join(Looked)
        raise ConfigError(f"cannot read the report: expected one of {known}, found {word!r}")
    return Scope(
        looked_at=Looked(word),
        selected=fields.texts("selected"),
        unjudged=fields.texts("unjudged"),
        by_statistics=fields.flag("by_statistics"),
        is_sampled=fields.flag("is_sampled"),
        **{name: fields.integer(name) for name in _COUNTS},
    )
