"""``padiff.audit``: one dump checked by itself from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.comparer.auditing import AuditedValue, Soundness, audit_dump
from padiff.comparing import place_of
from padiff.dumpfile.packed import unpacked
from padiff.presenting import Presented, data_frame

if TYPE_CHECKING:
    from os import PathLike

    from padiff.comparer.auditing import Audit
    from padiff.comparer.report.style import Canvas

COLUMNS = (
    *(
        "step",
        "check",
        "soundness",
        "value",
        "operator",
        "operators",
        "module",
        "class_name",
        "site",
    ),
    *("dtype", "shape", "error", "largest", "reason", "factor"),
)
"""Of the table that an audit becomes; a row for each value that was asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsound(AuditedValue):
    """A value that is not what its program says, and why."""

    @property
    def source(self) -> str:
        """``file:line`` of the call that made it; empty if not known."""
        return "" if self.site is None else f"{self.site.file}:{self.site.line}"

    @property
    def cause(self) -> str:
        """What it looks like: a constant factor, a transposed tensor …."""
        from padiff.comparer.report.audit_text import looks_like  # noqa: PLC0415 - when asked

        return looks_like(self)


class Audits(Presented, Mapping[str, "Audit"]):
    """The audits of a dump by the name of step and rank; true if it is sound."""

    __slots__ = ("_found",)

    def __init__(self, found: Mapping[str, Audit]) -> None:
        """Keep what was found."""
        self._found = dict(found)

    def __getitem__(self, name: str) -> Audit:
        """Return the audit of ``"step 0"``, of ``"step 0 rank 1"``."""
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of steps and ranks in order."""
        return iter(self._found)

    def __len__(self) -> int:
        """Return how many steps and ranks were audited."""
        return len(self._found)

    def __bool__(self) -> bool:
        """Return whether something was audited and all of it is sound."""
        return self.soundness is Soundness.SOUND

    @property
    def soundness(self) -> Soundness:
        """The answer for all steps and ranks together."""
        answers = {one.soundness for one in self.values()}
        if Soundness.UNSOUND in answers:
            return Soundness.UNSOUND
        return Soundness.SOUND if Soundness.SOUND in answers else Soundness.NOT_AUDITED

    @property
    def unsound(self) -> tuple[AuditedValue, ...]:
        """The values that are not what their program says, in the order in which they were made."""
        return tuple(value for one in self.values() for value in one.unsound)

    @property
    def origins(self) -> tuple[Unsound, ...]:
        """The unsound values: each is judged from its own inputs, so none is a consequence."""
        return tuple(
            Unsound(**{field.name: getattr(value, field.name) for field in fields(value)})
            for value in self.unsound
        )

    @property
    def first(self) -> Unsound | None:
        """The first unsound value; None if there is none."""
        return next(iter(self.origins), None)

    def to_json(self, path: Path | str) -> Path:
        """Write what ``padiff audit --json`` prints.

        Raises:
            ConfigError: The place cannot be written.
        """
        from padiff.cli.output import write_json  # noqa: PLC0415 - as asked for
        from padiff.comparer.report.json_report import audit_to_json  # noqa: PLC0415

        write_json(Path(path), {name: audit_to_json(one) for name, one in self.items()})
        return Path(path)

    def to_dataframe(self) -> Any:  # noqa: ANN401 - pandas is not there everywhere
        """Return a pandas table with a row for each value that was asked about.

        Raises:
            ConfigError: pandas is not installed.
        """
        rows = (_row(name, one) for name, found in self.items() for one in found.values)
        return data_frame(rows, COLUMNS)

    def _draw(self, canvas: Canvas) -> None:
        from padiff.comparer.report.audit_text import draw_audit  # noqa: PLC0415 - only where drawn

        draw_audit(canvas, self)

    def _glance(self, canvas: Canvas) -> None:
        from padiff.comparer.report.audit_text import draw_audits_brief  # noqa: PLC0415

        draw_audits_brief(canvas, self)


def _row(step: str, value: AuditedValue) -> dict[str, object]:
    """Return the row of a value that was asked about."""
    row: dict[str, object] = {name: getattr(value, name) for name in COLUMNS[1:]}
    site = None if value.site is None else f"{value.site.file}:{value.site.line}"
    words = {name: str(row[name]) for name in ("check", "soundness", "reason")}
    return {"step": step, **row, **words, "site": site}


def audit(dump: PathLike[str] | str, *, step: int | None = None, rank: int | None = None) -> Audits:
    """Check one dump alone: did each operator compute what its program says?

    ``assert padiff.audit("padiff_dump/torch")``

    Args:
        dump: A dump, packed or not.
        step: Only this step; None audits all.
        rank: Only this rank; None audits all.

    Returns:
        By the name of step and rank: ``soundness``, ``unsound`` values, and all answers. True if
        something was audited and all of it is sound.

    Raises:
        ConfigError: The dump has no such step or rank.
        CompareError: It holds no program that could be audited.
        DumpError: It cannot be read.
    """
    with unpacked(place_of(dump)) as place:
        return Audits(audit_dump(place, step=step, rank=rank))
