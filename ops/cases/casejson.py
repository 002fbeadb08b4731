"""Cases as JSON, and back: every entry is checked, whoever wrote it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from padiff.dumpfile import DTYPE_NAMES, ConfigError

from .case import Argument, Case, Dtype, Fill, Layout, Tensor

VERSION = 1
_LARGEST = 1 << 24
"""Elements of one tensor: far beyond what a test of an operator needs."""
_DEFAULTS = {one.name: one.default for one in dataclasses.fields(Tensor)}


def cases_to_json(cases: list[Case]) -> dict[str, Any]:
    """Return a document with cases."""
    return {"padiff_cases": VERSION, "cases": [case_to_json(one) for one in cases]}


def cases_from_json(data: Any, source: str) -> list[Case]:  # noqa: ANN401 -- read from a file
    """Read a document with cases.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(data, dict) or data.get("padiff_cases") != VERSION:
        raise ConfigError(
            f"cannot read cases from {source!r}: expected 'padiff_cases': {VERSION}",
            hint="write cases with `padiff ops test --save` or `padiff ops generate`",
        )
    cases = data.get("cases")
    if not isinstance(cases, list):
        raise ConfigError(f"cannot read cases from {source!r}: expected a list 'cases'")
    return [case_from_json(one, f"case {place} of {source!r}") for place, one in enumerate(cases)]


def case_to_json(case: Case) -> dict[str, Any]:
    """Return a case as JSON."""
    arguments = {name: _to_json(one) for name, one in case.arguments.items()}
    return {"operator": case.operator, "arguments": arguments, "seed": case.seed}


def _to_json(one: Argument) -> Any:  # noqa: ANN401
    if isinstance(one, Tensor):
        told = {
            name: _to_json(getattr(one, name))
            for name, default in _DEFAULTS.items()
            if getattr(one, name) != default
        }
        return {"tensor": told}
    if isinstance(one, Dtype):
        return {"dtype": one.name}
    if isinstance(one, tuple):
        return [_to_json(each) for each in one]
    if isinstance(one, float) and not math.isfinite(one):
        return {"float": str(one)}
    return one


def case_from_json(data: Any, where: str) -> Case:  # noqa: ANN401
    """Read a case.

    Raises:
        ConfigError: An entry is missing, unknown or of the wrong type.
    """
    try:
        operator, seed = str(data["operator"]), int(data.get("seed", 0))
        arguments = {str(name): _from_json(one) for name, one in data["arguments"].items()}
    except (AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"cannot read {where}: {type(error).__name__}: {error}") from error
    return Case(operator=operator, arguments=arguments, seed=seed)


def _from_json(one: Any) -> Argument:  # noqa: ANN401
    if isinstance(one, list):
        return tuple(_from_json(each) for each in one)
    if not isinstance(one, dict):
        if one is None or isinstance(one, bool | int | float | str):
            return one
        raise TypeError(f"expected an argument, found {type(one).__name__}")
    if set(one) == {"float"}:
        return float(one["float"])
    if set(one) == {"dtype"}:
        return Dtype(name=one["dtype"])
    if set(one) != {"tensor"}:
        raise ValueError(f"expected 'tensor', 'dtype' or 'float', found {sorted(one)}")
    return _tensor(one["tensor"])


def _tensor(data: dict[str, Any]) -> Tensor:
    unknown = set(data) - set(_DEFAULTS)
    if unknown:
        raise ValueError(f"a tensor has no {sorted(unknown)}")
    entries = dict(data)
    entries["shape"] = tuple(map(int, data["shape"]))
    entries["fill"] = Fill(data.get("fill", Fill.SMALL))
    entries["layout"] = Layout(data.get("layout", Layout.CONTIGUOUS))
    if data.get("elements") is not None:
        entries["elements"] = tuple(_from_json(each) for each in data["elements"])
    found = Tensor(**entries)
    if found.dtype not in DTYPE_NAMES:
        raise ValueError(f"expected a dtype, found {found.dtype!r}")
    if min(found.shape, default=0) < 0 or found.count > _LARGEST:
        raise ValueError(f"expected a shape of at most {_LARGEST} elements, found {found.shape}")
    if found.elements is not None and len(found.elements) != found.count:
        raise ValueError(f"expected {found.count} elements, found {len(found.elements)}")
    return found
