"""Decide a finished report again at other tolerances, from the hulls in it, without the dumps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

from .hull import passes
from .result import Tolerance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.dumpfile import JSON

__all__ = ["Rejudged", "Rejudgement", "rejudge"]

FLOATS = ("float", "bfloat", "complex")
"""How the names of dtypes begin whose elements may differ a little."""
DIVERGED = "diverged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """One measured pair at the new tolerance."""

    name: str
    """Address on the reference, as text."""
    before: str
    """Its verdict in the report."""
    agrees: bool
    needed_atol: float | None
    """Smallest atol that passes at this rtol; None if none does."""
    needed_rtol: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudgement:
    """A report at the new tolerance."""

    pairs: tuple[Rejudged, ...]
    """Those that were measured."""
    reasons: tuple[str, ...]
    """Why it diverges; empty on a match."""

    @property
    def diverged(self) -> tuple[Rejudged, ...]:
        """Give the pairs that do not agree."""
        return tuple(pair for pair in self.pairs if not pair.agrees)


def rejudge(report: JSON, *, atol: float | None, rtol: float | None) -> Rejudgement:
    """Decide every measured pair of a JSON report by ``|c - r| <= atol + rtol * |r|``.

    What is no question of tolerance stays as it was: nan and inf, shapes, absent records, and the
    coverage. Integers and booleans stay exact. A record that the report judged by statistics only
    has no hull and stays as it was, too.

    Args:
        report: The parsed JSON.
        atol: None takes each pair's own.
        rtol: None takes each pair's own.

    Raises:
        ConfigError: It is no report, or one without hulls.
    """
    top = _mapping(report)
    schema = top.get("schema")
    if not isinstance(schema, str) or not schema.startswith("padiff-report/"):
        raise ConfigError(f"cannot judge again: expected a padiff report, found schema {schema!r}")
    rows = [_mapping(row) for row in _list(top.get("pairs"))]
    measured = [row for row in rows if row.get("metrics") is not None]
    if any("hull" not in row for row in measured):
        raise ConfigError(
            "cannot judge again: the report holds no hulls",
            hint="make it with `padiff compare --json` of this version",
        )
    pairs = tuple(_decide(row, atol, rtol) for row in measured)
    reasons = [
        str(reason) for reason in _list(top.get("reasons")) if not str(reason).endswith(DIVERGED)
    ]
    absent = sum(row.get("verdict") == DIVERGED for row in rows if row.get("metrics") is None)
    if absent:
        reasons.append(f"{absent} records diverged otherwise: by statistics, or None on one side")
    bad = sum(not pair.agrees for pair in pairs)
    if bad:
        reasons.insert(0, f"{bad} of {len(pairs)} measured records diverged")
    return Rejudgement(pairs=pairs, reasons=tuple(reasons))


def _decide(row: Mapping[str, JSON], atol: float | None, rtol: float | None) -> Rejudged:
    metrics, own = _mapping(row["metrics"]), _mapping(row.get("tolerance"))
    address = _mapping(row.get("reference") or row.get("candidate"))
    dtype = str(address.get("dtype", "float32"))
    is_exact = not dtype.startswith(FLOATS)
    tolerance = Tolerance(
        atol=_number(own.get("atol")) if atol is None or is_exact else atol,
        rtol=_number(own.get("rtol")) if rtol is None or is_exact else rtol,
    )
    hull = list(_points(row["hull"]))
    is_finite = not metrics.get("nonfinite_mismatched")
    return Rejudged(
        name=_name(address),
        before=str(row.get("verdict")),
        agrees=is_finite and passes(hull, tolerance),
        needed_atol=max([0.0, *(d - tolerance.rtol * x for x, d in hull)]) if is_finite else None,
        needed_rtol=_needed_rtol(hull, tolerance.atol) if is_finite else None,
    )


def _needed_rtol(hull: list[tuple[float, float]], atol: float) -> float | None:
    over = [(x, d) for x, d in hull if d > atol]
    if any(x == 0 for x, _ in over):
        return None
    return max([0.0, *((d - atol) / x for x, d in over)])


def _points(hull: JSON) -> Iterator[tuple[float, float]]:
    for point in _list(hull):
        x, d = _list(point)
        yield _number(x), _number(d)


def _name(address: Mapping[str, JSON]) -> str:
    call = address.get("call")
    where = f"{address.get('module') or '(root)'}{'' if call is None else f'#{call}'}"
    return f"step {address.get('step')} {where} {address.get('role')}{address.get('slot')}"


def _number(value: JSON) -> float:
    if isinstance(value, str | int | float):
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isnan(number):
            return number
    raise ConfigError(f"cannot judge again: expected a number in the report, found {value!r}")


def _mapping(value: JSON) -> Mapping[str, JSON]:
    if not isinstance(value, dict):
        raise ConfigError(f"cannot judge again: expected an object in the report, found {value!r}")
    return value


def _list(value: JSON) -> list[JSON]:
    if not isinstance(value, list):
        raise ConfigError(f"cannot judge again: expected a list in the report, found {value!r}")
    return value
