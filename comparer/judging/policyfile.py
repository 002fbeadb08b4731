"""Policy files: when a difference counts, written down once for many comparisons.

::

    atol = 1e-4
    mode = "quantile=0.999"
    max_mismatched = "10ppm"

    [[rule]]                      # later ones win
    pattern = "encoder.*.norm1"
    role = "weight_grad"
    atol = 1e-3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from padiff.comparer.settings import Mode
from padiff.dumpfile import ConfigError
from padiff.dumpfile.stricttoml import StrictTOMLError, read_toml

from .tolerance import ToleranceRule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_UNITS = {"ppm": 1e-6, "%": 1e-2}
_NAMES = {"atol", "rtol", "mode", "max_mismatched", "rule"}
_RULE_NAMES = {"pattern", "atol", "rtol", "role"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a policy file says; None where it says nothing."""

    atol: float | None = None
    rtol: float | None = None
    mode: Mode | None = None
    quantile: float | None = None
    max_mismatched: float | None = None
    rules: tuple[ToleranceRule, ...] = ()


def parse_mode(text: str) -> tuple[Mode, float | None]:
    """Read ``strict``, ``mean`` or ``quantile=0.999``.

    Raises:
        ConfigError: It is none of them.

    >>> parse_mode("quantile=0.999")
    (<Mode.QUANTILE: 'quantile'>, 0.999)
    """
    name, equals, share = text.partition("=")
    if name in {Mode.STRICT, Mode.MEAN} and not equals:
        return Mode(name), None
    if name == Mode.QUANTILE and equals:
        return Mode.QUANTILE, _number(share, f"the mode {text!r}")
    raise ConfigError(f"unknown mode {text!r}: expected strict, mean or quantile=SHARE")


def parse_share(text: str) -> float:
    """Read a share of elements: ``10ppm``, ``0.1%`` or ``1e-5``.

    Raises:
        ConfigError: It is none.

    >>> parse_share("0.5%")
    0.005
    """
    for unit, size in _UNITS.items():
        if text.endswith(unit):
            return _number(text.removesuffix(unit), f"the share {text!r}") * size
    return _number(text, f"the share {text!r}")


def read_policy(path: Path) -> Policy:
    """Read a policy file.

    Raises:
        ConfigError: It cannot be read, or holds something else.
    """
    what = f"the policy {str(path)!r}"
    try:
        data = read_toml(path)
    except FileNotFoundError:
        raise ConfigError(f"cannot read {what}: no such file") from None
    except (OSError, StrictTOMLError) as error:
        raise ConfigError(f"cannot read {what}: {error}") from None
    _check_names(data, _NAMES, what)
    mode, quantile = (None, None) if "mode" not in data else parse_mode(str(data["mode"]))
    rules = data.get("rule", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ConfigError(f"cannot read {what}: expected [[rule]] tables")
    return Policy(
        atol=_optional(data, "atol", what),
        rtol=_optional(data, "rtol", what),
        mode=mode,
        quantile=quantile,
        max_mismatched=parse_share(str(data["max_mismatched"]))
        if "max_mismatched" in data
        else None,
        rules=tuple(_rule(rule, what) for rule in rules),
    )


def _rule(rule: Mapping[str, Any], what: str) -> ToleranceRule:
    _check_names(rule, _RULE_NAMES, what)
    options = ",".join(f"{name}={rule[name]}" for name in ("atol", "rtol", "role") if name in rule)
    return ToleranceRule.parse(f"{rule.get('pattern', '')}:{options}")


def _check_names(data: Mapping[str, Any], known: set[str], what: str) -> None:
    strange = sorted(data.keys() - known)
    if strange:
        raise ConfigError(
            f"cannot read {what}: unknown name {strange[0]!r}",
            hint="expected " + ", ".join(sorted(known)),
        )


def _optional(data: Mapping[str, Any], name: str, what: str) -> float | None:
    return None if name not in data else _number(str(data[name]), f"{name} of {what}")


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"cannot read {what}: expected a number, found {text!r}") from None
