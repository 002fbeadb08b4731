"""Read a report back from JSON, checking every field that a format uses.

All formats but the terminal's are made from what this gives, so that a report can be rendered long
after the comparison and without the dumps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.dumpfile.bulk import collector_paused

from .fields import Fields
from .json_scope import read_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from padiff.comparer.result import Scope
    from padiff.dumpfile import JSON

__all__ = ["SCHEMA", "Finding", "Line", "Place", "Report", "SourcePlace", "read_report"]

SCHEMA = "padiff-report/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlace:
    """A line of somebody's source."""

    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One side of a line."""

    step: int
    rank: int
    module: str
    class_name: str
    call: int | None
    phase: str
    role: str
    slot: str
    order: int
    dtype: str
    shape: tuple[int, ...]
    statistics: Mapping[str, float | None] = field(default_factory=dict, compare=False)
    """Empty where there are none, or nobody asked for them."""

    @property
    def owner(self) -> str:
        """Give module path and call; ``(root)`` for the root, no call where it is the first."""
        return (self.module or "(root)") + (f"#{self.call}" if self.call else "")

    @property
    def what(self) -> str:
        """Give role and slot."""
        return f"{self.role}{self.slot}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One judged record: a pair, or what has no counterpart."""

    reference: Place | None
    candidate: Place | None
    verdict: str
    kind: str | None
    reason: str
    fatal: bool
    covered: bool
    rests_on: str
    layout: str
    paired_by: str | None
    metrics: Mapping[str, float | None]
    """Empty where nothing was measured."""
    tolerance: Mapping[str, float | None]
    sampled_of: int | None = None
    """Elements of the whole tensor, where only a sample was compared."""

    @property
    def place(self) -> Place:
        """Give the reference's side, or the candidate's where there is no other."""
        found = self.reference or self.candidate
        if found is None:
            raise ConfigError("the report has a record that is on neither side")
        return found

    @property
    def owners(self) -> str:
        """Give the module and call of both sides, once where they are called the same."""
        sides = [end.owner for end in (self.reference, self.candidate) if end is not None]
        return " = ".join(dict.fromkeys(sides))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A divergence that is nobody else's consequence, or the first one."""

    line: Line
    phase: str
    inputs_agree: bool | None
    entering: str | None
    evidence: tuple[str, ...]
    suspects: tuple[str, ...]
    sources: Mapping[str, SourcePlace | None]
    """By ``reference call``, ``reference module``, ``candidate call``, ``candidate module``."""
    amplification: float | None = None
    """Relative error of the outputs over that of the inputs."""
    judged_at: tuple[Place | None, Place | None] | None = None
    """The ends of the record that was judged for it, where that is another."""

    @property
    def judged_ends(self) -> tuple[Place | None, Place | None]:
        """Give the ends, on the reference and the candidate, of the record that was judged."""
        return self.judged_at or (self.line.reference, self.line.candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A result as a report says it."""

    verdict: str
    reasons: tuple[str, ...]
    reference: str
    candidate: str
    padiff_version: str
    judged: int
    total: int
    counts: Mapping[str, int]
    inherited: int
    origins: tuple[Finding, ...]
    first: Finding | None
    """The first divergence, an origin or not."""
    lines: tuple[Line, ...]
    """All records: pairs in execution order, then those of one side only."""
    notes: tuple[str, ...]
    scope: Scope
    """What was looked at."""


@collector_paused()
def read_report(
    data: JSON | Mapping[str, JSON | Iterator[JSON]],
    *,
    with_statistics: bool = False,
    many: int = 0,
) -> Report:
    """Check and take over a parsed report, or its parts; of their iterators only the pairs.

    Args:
        data: What was parsed, or the parts of a report.
        with_statistics: Whether records keep the statistics of their elements.
        many: Of more records than this, those that match keep none.

    Raises:
        ConfigError: It is no padiff report, or one of another schema.
    """
    top = Fields(data, "report")
    schema = top.text("schema")
    if schema != SCHEMA:
        raise ConfigError(f"cannot read the report: expected schema {SCHEMA!r}, found {schema!r}")
    first = top.maybe("first_divergence")
    coverage, alone, found = top.inner("coverage"), top.inner("unmatched"), top.inner("counts")
    counts = {name: found.integer(name) for name in found.names}
    is_brief = sum(counts.values()) > many

    def told(verdict: str) -> bool:
        """Tell of a record whether it keeps statistics."""
        return with_statistics and not (is_brief and verdict == "match")

    return Report(
        verdict=top.text("verdict"),
        reasons=top.texts("reasons"),
        reference=_dump(top.inner("reference")),
        candidate=_dump(top.inner("candidate")),
        padiff_version=top.inner("reference").text("padiff_version"),
        judged=coverage.integer("judged"),
        total=coverage.integer("total"),
        counts=counts,
        inherited=top.integer("inherited"),
        origins=tuple(map(_finding, top.inners("origins"))),
        first=None if first is None else _finding(first),
        lines=(
            *(_pair(entry, told) for entry in top.each("pairs")),
            *(_alone(entry, told, is_reference=True) for entry in alone.each("reference")),
            *(_alone(entry, told, is_reference=False) for entry in alone.each("candidate")),
        ),
        notes=top.texts("notes"),
        scope=read_scope(top),
    )


def _dump(fields: Fields) -> str:
    """Describe a dump on one line."""
    words = ("name", "framework", "framework_version", "device", "dtype")
    return " ".join(filter(None, (fields.text(word) for word in words)))


def _place(fields: Fields | None, *, with_statistics: bool = False) -> Place | None:
    if fields is None:
        return None
    return Place(
        step=fields.integer("step"),
        rank=fields.integer("rank"),
        module=fields.text("module"),
        class_name=fields.text("class"),
        call=fields.maybe_integer("call"),
        phase=fields.text("phase"),
        role=fields.text("role"),
        slot=fields.text("slot"),
        order=fields.integer("order"),
        dtype=fields.text("dtype"),
        shape=fields.integers("shape"),
        statistics=_numbers(fields.maybe("statistics")) if with_statistics else {},
    )


def _pair(fields: Fields, told: Callable[[str], bool]) -> Line:
    verdict = fields.text("verdict")
    is_told = told(verdict)
    return Line(
        reference=_place(fields.maybe("reference"), with_statistics=is_told),
        candidate=_place(fields.maybe("candidate"), with_statistics=is_told),
        verdict=verdict,
        kind=fields.maybe_text("kind"),
        reason=fields.text("reason"),
        fatal=fields.flag("fatal"),
        covered=False,
        rests_on=fields.text("rests_on"),
        sampled_of=fields.maybe_integer("sampled_of") if "sampled_of" in fields.names else None,
        layout=fields.text("layout"),
        paired_by=fields.maybe_text("paired_by"),
        metrics=_numbers(fields.maybe("metrics")),
        tolerance=_numbers(fields.maybe("tolerance")),
    )


def _alone(fields: Fields, told: Callable[[str], bool], *, is_reference: bool) -> Line:
    verdict = fields.text("verdict")
    place = _place(fields, with_statistics=told(verdict))
    return Line(
        reference=place if is_reference else None,
        candidate=None if is_reference else place,
        verdict=verdict,
        kind=None,
        reason=fields.text("reason"),
        fatal=fields.flag("fatal"),
        covered=fields.flag("covered"),
        rests_on="description",
        layout="",
        paired_by=None,
        metrics={},
        tolerance={},
    )


def _finding(fields: Fields) -> Finding:
    line = Line(
        reference=_place(fields.maybe("reference")),
        candidate=_place(fields.maybe("candidate")),
        verdict=fields.text("verdict"),
        kind=fields.text("kind"),
        reason=fields.text("reason"),
        fatal=True,
        covered=False,
        rests_on="elements" if fields.maybe("metrics") is not None else "description",
        layout="",
        paired_by=None,
        metrics=_numbers(fields.maybe("metrics")),
        tolerance=_numbers(fields.maybe("tolerance")),
    )
    return Finding(
        line=line,
        phase=fields.text("phase"),
        inputs_agree=fields.maybe_flag("inputs_agree"),
        entering=fields.maybe_text("entering"),
        evidence=fields.texts("evidence"),
        suspects=fields.texts("suspects"),
        sources=_sources(fields.inner("source")),
        amplification=fields.number("amplification") if "amplification" in fields.names else None,
        judged_at=_ends(fields.inner("judged_at")) if "judged_at" in fields.names else None,
    )


def _ends(fields: Fields) -> tuple[Place | None, Place | None]:
    return _place(fields.maybe("reference")), _place(fields.maybe("candidate"))


def _sources(fields: Fields) -> dict[str, SourcePlace | None]:
    found: dict[str, SourcePlace | None] = {}
    for side in ("reference", "candidate"):
        both = fields.maybe(side)
        for what in ("call", "module"):
            place = None if both is None else both.maybe(what)
            found[f"{side} {what}"] = (
                None
                if place is None
                else SourcePlace(file=place.text("file"), line=place.integer("line"))
            )
    return found


def _numbers(fields: Fields | None) -> dict[str, float | None]:
    """Take all entries that are numbers; indexes are left out."""
    if fields is None:
        return {}
    return fields.numbers(without="_index")
