"""``padiff.compare``: two dumps compared from Python, with the command line's options by name."""

from __future__ import annotations

import difflib
import io
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.comparer import CompareSettings, Mode, ToleranceRule
from padiff.comparer import Comparison as Compared
from padiff.comparer import compare as compare_dumps
from padiff.comparer.judging.noise import FloorSide
from padiff.comparer.judging.policyfile import Policy, parse_mode, parse_share, read_policy
from padiff.dumpfile import ConfigError, Phase
from padiff.dumpfile.packed import unpacked
from padiff.pairing import MapFile, read_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.comparer.auditing import Audit

__all__ = ["Comparison", "audit", "compare", "comparison_of", "settings_of"]

WIDTH = 100
"""Columns of a report, as where ``padiff compare`` writes to a pipe."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Compared):
    """The result of comparing two dumps; true if they match."""

    def report(self, *, max_rows: int = 40, verbose: bool = False) -> str:
        """Return the report that ``padiff compare`` prints, as plain text.

        Args:
            max_rows: Rows of each table, 0 for all.
            verbose: Fold nothing, list every diverged and skipped pair.
        """
        from rich.console import Console  # noqa: PLC0415 - only where a report is drawn

        from padiff.comparer.report.terminal import render  # noqa: PLC0415

        text = io.StringIO()
        console = Console(
            file=text,
            width=WIDTH,
            color_system=None,
            markup=False,
            highlight=False,
            emoji=False,
        )
        render(self, console, max_rows=max_rows, verbose=verbose)
        return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def audit(
    dump: Path | str, *, step: int | None = None, rank: int | None = None
) -> dict[str, Audit]:
    """Check one dump alone: did each operator compute what its program says?

    Args:
        dump: A dump, packed or not.
        step: Only this step; None audits all.
        rank: Only this rank; None audits all.

    Returns:
        By the name of step and rank: ``soundness``, ``unsound`` values, and all answers.

    Raises:
        ConfigError: The dump has no such step or rank.
        CompareError: It holds no program that could be audited.
        DumpError: It cannot be read.
    """
    from padiff.comparer.auditing import audit_dump  # noqa: PLC0415 - as slow as a framework's table

    with unpacked(Path(dump)) as place:
        return audit_dump(place, step=step, rank=rank)


def compare(
    reference: Path | str,
    candidate: Path | str,
    settings: CompareSettings | None = None,
    **options: Any,  # noqa: ANN401 - options by name
) -> Comparison:
    """Compare two dumps and return what was found; nothing is printed.

    ``assert padiff.compare("padiff_dump/torch", "padiff_dump/paddle", atol=1e-4)``

    Args:
        reference: Directory or packed file of the dump held to be right.
        candidate: The same of the dump to judge.
        settings: What to compare and when a difference counts.
        **options: In place of settings, those of ``padiff compare``, without dashes: ``atol``,
            ``rtol``, ``mode``, ``max_mismatched``, ``policy``, ``floor``, ``floor_factor``,
            ``golden``, ``jobs``, ``rule``, ``step``, ``rank``, ``phase``, ``include``,
            ``exclude``, ``min_coverage``, ``allow_missing``, ``map``, ``execute``, ``strict``. An
            option that may repeat takes one value or several.

    Returns:
        The comparison; true if it is a match.

    Raises:
        DumpError: A dump cannot be read.
        ConfigError: An option is unknown or unusable, or the options select nothing.
        CompareError: The dumps have nothing in common.
    """
    if settings is not None and options:
        raise ConfigError(f"cannot use {min(options)!r} beside settings: expected one of the two")
    chosen = settings_of(options) if settings is None else settings
    with unpacked(Path(reference)) as known, unpacked(Path(candidate)) as found:
        return comparison_of(compare_dumps(known, found, chosen))


def comparison_of(found: Compared) -> Comparison:
    """Return a result that can draw itself."""
    return Comparison(**{field.name: getattr(found, field.name) for field in fields(found)})


def settings_of(options: Mapping[str, Any]) -> CompareSettings:
    """Read the options of ``padiff compare``.

    Raises:
        ConfigError: An option is unknown or has an unusable value.
    """
    for name in options:
        if name not in _READERS and name not in {"mode", "policy"}:
            known = [*_READERS, "mode", "policy"]
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(
                f"cannot use the option {name!r}: compare has none of that name",
                hint=f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known)}",
            )
    made = _of_policy(options)
    for name, value in options.items():
        if name in _READERS and value is not None:
            field, read = _READERS[name]
            try:
                made[field] = (
                    (*made.get(field, ()), *read(value)) if name == "rule" else read(value)
                )
            except (TypeError, ValueError) as error:
                if isinstance(error, ConfigError):
                    raise
                raise ConfigError(f"cannot use {name}={value!r:.80}: {error}") from None
    return CompareSettings(**made)


def _of_policy(options: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a policy file says, and the mode, which an option wins over."""
    path = options.get("policy")
    policy = Policy() if path is None else read_policy(Path(path))
    mode, quantile = policy.mode, policy.quantile
    if options.get("mode") is not None:
        mode, quantile = parse_mode(str(options["mode"]))
    return {
        "atol": policy.atol,
        "rtol": policy.rtol,
        "rules": policy.rules,
        "max_mismatched": policy.max_mismatched,
        "mode": mode or Mode.STRICT,
        "quantile": quantile,
    }


def _several(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads one value, or several, into a tuple."""

    def read_all(value: object) -> tuple[Any, ...]:
        is_one = isinstance(value, str | int | ToleranceRule)
        found: Any = (value,) if is_one else value
        return tuple(map(read, found))

    return read_all


def _number(value: object) -> float:
    if isinstance(value, str | bool):
        raise TypeError(f"expected a number, found {type(value).__name__}")
    number: Any = value
    return float(number)


def _pattern(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a pattern of module paths, found {type(value).__name__}")
    return value


def _rule(value: object) -> ToleranceRule:
    return value if isinstance(value, ToleranceRule) else ToleranceRule.parse(_pattern(value))


def _map_file(value: Any) -> MapFile:  # noqa: ANN401 - a path or what was read
    return value if isinstance(value, MapFile) else read_map(Path(value))


_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "atol": ("atol", _number),
    "rtol": ("rtol", _number),
    "max_mismatched": ("max_mismatched", lambda share: parse_share(str(share))),
    "floor": ("floor", FloorSide),
    "floor_factor": ("floor_factor", _number),
    "golden": ("golden", Path),
    "jobs": ("jobs", int),
    "rule": ("rules", _several(_rule)),
    "step": ("steps", _several(int)),
    "rank": ("ranks", _several(int)),
    "phase": ("phases", _several(Phase)),
    "include": ("include", _several(_pattern)),
    "exclude": ("exclude", _several(_pattern)),
    "min_coverage": ("min_coverage", _number),
    "allow_missing": ("allow_missing", _several(_pattern)),
    "map": ("map_file", _map_file),
    "execute": ("execute", bool),
    "strict": ("strict", bool),
}
"""By option: the field of ``CompareSettings``, and what reads the value."""
