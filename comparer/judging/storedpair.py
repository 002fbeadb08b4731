"""One judged pair as a JSON report holds it, read back for another decision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.comparer.result import GoldenErrors, Tolerance
from padiff.dumpfile import Address, ConfigError, Phase, Role, Statistics

from .basis import Basis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.dumpfile import JSON

__all__ = ["StoredPair", "as_list", "as_mapping", "as_number", "optional_number", "read_pair"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPair:
    """What a report says of a pair."""

    reference: Address
    candidate: Address
    statistics: tuple[Statistics, Statistics] | None
    """The reference's and the candidate's; None where one side has none."""
    size: int
    """Number of the elements that were judged."""
    shape_size: int
    """Number of all elements."""
    is_whole: bool
    """Whether both records have the same number of elements, so that statistics compare."""
    verdict: str
    rests_on: str
    """What the verdict rests on: ``digest``, ``statistics``, ``elements`` or ``description``."""
    tolerance: Tolerance | None
    basis: Basis | None
    """None in reports of versions that did not keep it."""
    errors: GoldenErrors | None
    hull: tuple[tuple[float, float], ...]
    mismatched: int
    """At the tolerance of the report."""
    nonfinite: int
    mean_abs: float | None
    reference_mean_abs: float | None
    is_exact: bool
    """Whether its elements are integers or booleans."""
    by_execution: bool
    """Whether executing both programs decided it, and no tolerance."""


def read_pair(data: JSON) -> StoredPair:
    """Read one of a report's ``pairs``.

    Raises:
        ConfigError: It is none.
    """
    row = as_mapping(data)
    ends = as_mapping(row.get("reference")), as_mapping(row.get("candidate"))
    measured = row.get("metrics")
    metrics = {} if measured is None else as_mapping(measured)
    if measured is not None and "hull" not in row:
        raise ConfigError(
            "cannot judge again: the report holds no hulls",
            hint="make it with `padiff compare --json` of this version",
        )
    known, found = (_statistics(end.get("statistics")) for end in ends)
    shape = [as_number(length) for length in as_list(ends[1].get("shape", []))]
    return StoredPair(
        reference=_address(ends[0]),
        candidate=_address(ends[1]),
        statistics=None if known is None or found is None else (known, found),
        size=int(as_number(metrics["size"]) if "size" in metrics else math.prod(shape)),
        shape_size=int(math.prod(shape)),
        is_whole=math.prod(shape) == math.prod(map(as_number, as_list(ends[0].get("shape", [])))),
        verdict=str(row.get("verdict")),
        rests_on=str(row.get("rests_on", "description" if measured is None else "elements")),
        tolerance=_tolerance(row.get("tolerance")),
        basis=_basis(row.get("basis"), ends),
        errors=_errors(row.get("errors")),
        hull=tuple(_points(row.get("hull", []))),
        mismatched=int(as_number(metrics.get("mismatched", 0))),
        nonfinite=int(as_number(metrics.get("nonfinite_mismatched", 0))),
        mean_abs=optional_number(metrics.get("mean_abs")),
        reference_mean_abs=optional_number(metrics.get("reference_mean_abs")),
        is_exact=not str(ends[0].get("dtype")).startswith(("float", "bfloat", "complex")),
        by_execution=row.get("by_execution") is True,
    )


def as_mapping(value: JSON) -> Mapping[str, JSON]:
    """Take an object.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(value, dict):
        raise ConfigError(f"cannot judge again: expected an object in the report, found {value!r}")
    return value


def as_list(value: JSON) -> list[JSON]:
    """Take a list.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(value, list):
        raise ConfigError(f"cannot judge again: expected a list in the report, found {value!r}")
    return value


def as_number(value: JSON) -> float:
    """Take a number, or the word for an infinite one.

    Raises:
        ConfigError: It is none, or nan.
    """
    if isinstance(value, str | int | float):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isnan(number):
            return number
    raise ConfigError(f"cannot judge again: expected a number in the report, found {value!r}")


def optional_number(value: JSON) -> float | None:
    """Take a number or null; nan is none."""
    return None if value is None or value == "nan" else as_number(value)


def _address(end: Mapping[str, JSON]) -> Address:
    call = end.get("call")
    try:
        return Address(
            step=int(as_number(end.get("step", 0))),
            rank=int(as_number(end.get("rank", 0))),
            module=str(end.get("module", "")),
            class_name=str(end.get("class", "")),
            call=None if call is None else int(as_number(call)),
            phase=Phase(str(end.get("phase", "forward"))),
            role=Role(str(end.get("role", "output"))),
            slot=str(end.get("slot", "")),
        )
    except ValueError as error:
        raise ConfigError(f"cannot judge again: {error} in the report") from None


def _statistics(data: JSON) -> Statistics | None:
    if data is None:
        return None
    found = as_mapping(data)
    counts = {name: int(as_number(found.get(name, 0))) for name in ("nan", "posinf", "neginf")}
    return Statistics(
        minimum=optional_number(found.get("minimum")),
        maximum=optional_number(found.get("maximum")),
        mean=optional_number(found.get("mean")),
        l2=optional_number(found.get("l2")),
        zeros=int(as_number(found.get("zeros", 0))),
        **counts,
    )


def _tolerance(data: JSON) -> Tolerance | None:
    if data is None:
        return None
    found = as_mapping(data)
    return Tolerance(atol=as_number(found.get("atol")), rtol=as_number(found.get("rtol")))


def _basis(data: JSON, ends: tuple[Mapping[str, JSON], Mapping[str, JSON]]) -> Basis | None:
    if data is None:
        return None
    found = as_mapping(data)
    return Basis(
        dtypes=(str(ends[0].get("dtype")), str(ends[1].get("dtype"))),
        model_dtypes=tuple(str(name) for name in as_list(found.get("model_dtypes", []))),
        largest_gradient=as_number(found.get("largest_gradient")),
        noise=optional_number(found.get("noise")),
    )


def _errors(data: JSON) -> GoldenErrors | None:
    if data is None:
        return None
    found = as_mapping(data)
    return GoldenErrors(
        reference=as_number(found.get("reference")), candidate=as_number(found.get("candidate"))
    )


def _points(hull: JSON) -> list[tuple[float, float]]:
    points = []
    for point in as_list(hull):
        pair = as_list(point)
        if len(pair) != 2:  # noqa: PLR2004 -- a point of the plane
            raise ConfigError(
                f"cannot judge again: expected a point in the report, found {point!r}"
            )
        points.append((as_number(pair[0]), as_number(pair[1])))
    return points
