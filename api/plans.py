"""``padiff.plan_weights``: which weight is made of which, from Python."""

from __future__ import annotations

from contextlib import ExitStack
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.dumper.weights.checkpoint import open_source
from padiff.origins import Origin
from padiff.pairing import MapFile, read_map
from padiff.pairing import plan_weights as plan_sides
from padiff.pairing.result import SideName
from padiff.pairing.weights.weight_text import names_of, plan_to_toml, weight_name
from padiff.presenting import Presented, data_frame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from padiff.comparer.report.style import Canvas
    from padiff.pairing.side import Side
    from padiff.pairing.weights.weight_plan import WeightAlone, WeightPair, WeightPlan

COLUMNS = (
    "candidate",
    "shape",
    "reference",
    "rule",
    "paired_by",
    "confidence",
    "ambiguous",
    "note",
)
"""Of the table that a plan becomes; a row for each pair, then for each weight without partner."""
_GLANCE = 12
"""Lines of a plan that a glance shows, of those that need a look."""


class Plan(Presented):
    """Which weight of the candidate is made of which; true if nothing is missing or in doubt."""

    __slots__ = ("_plan", "_sides")

    def __init__(self, found: WeightPlan, reference: Side, candidate: Side) -> None:
        """Keep a plan with the names that it is about."""
        self._plan = found
        self._sides = reference, candidate

    def __bool__(self) -> bool:
        """Return whether every weight has a partner that is not in doubt."""
        return not (self._plan.missing or self._plan.ambiguous)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of weights of either side that lack a partner and should have one."""
        return tuple(self._name(alone) for alone in self._plan.missing)

    @property
    def ambiguous(self) -> tuple[str, ...]:
        """Names of the candidate's weights of which the partner is in doubt."""
        index = self._sides[1].index
        return tuple(
            weight_name(self._sides[1], index.records[pair.candidate])
            for pair in self._plan.ambiguous
        )

    @property
    def origins(self) -> tuple[Origin, ...]:
        """What makes the plan false: the weights that lack a partner, then those in doubt.

        Each is open by itself, so none is a consequence of another.
        """
        missing = [
            self._open(str(alone.side), alone.record, alone.reason) for alone in self._plan.missing
        ]
        doubted = [self._doubted(pair) for pair in self._plan.ambiguous]
        return (*missing, *doubted)

    @property
    def first(self) -> Origin | None:
        """The first of the origins; None if the plan is true."""
        return next(iter(self.origins), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided although names left it open, a sentence each."""
        return self._plan.notes

    def _doubted(self, pair: WeightPair) -> Origin:
        """Return what is in doubt about the partner of a weight of the candidate."""
        known = names_of(self._sides[0], pair.reference)
        said = f": {pair.note}" if pair.note else ""
        return self._open("candidate", pair.candidate, f"ambiguous, perhaps {known}{said}")

    def _open(self, side: str, record: int, cause: str) -> Origin:
        own = self._sides[side == SideName.CANDIDATE]
        found = own.index.records[record]
        where = f"{side} {weight_name(own, found)}"
        return Origin(where=where, module=own.index.modules[found.module].path, cause=cause)

    def _name(self, alone: WeightAlone) -> str:
        side = self._sides[alone.side is SideName.CANDIDATE]
        return weight_name(side, side.index.records[alone.record])

    def to_map(self, path: Path | str) -> Path:
        """Write the plan as a map file to edit, as ``padiff weights plan -o`` does.

        Raises:
            ConfigError: The place cannot be written.
        """
        from padiff.cli.output import write_text  # noqa: PLC0415 - as asked for

        write_text(Path(path), plan_to_toml(self._plan, *self._sides))
        return Path(path)

    def to_json(self, path: Path | str) -> Path:
        """Write a list with an object for each weight, of the table's columns.

        Raises:
            ConfigError: The place cannot be written.
        """
        from padiff.cli.output import write_json  # noqa: PLC0415 - as asked for

        write_json(Path(path), list(self.rows()))
        return Path(path)

    def to_dataframe(self) -> Any:  # noqa: ANN401 - pandas is not there everywhere
        """Return a pandas table with a row for each weight.

        Raises:
            ConfigError: pandas is not installed.
        """
        return data_frame(self.rows(), COLUMNS)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over what the table holds: each pair, then each weight without a partner."""
        reference, candidate = self._sides
        for pair in self._plan.pairs:
            record = candidate.index.records[pair.candidate]
            yield {
                "candidate": weight_name(candidate, record),
                "shape": record.shape,
                "reference": names_of(reference, pair.reference),
                "rule": str(pair.rule),
                "paired_by": str(pair.paired_by),
                "confidence": pair.confidence,
                "ambiguous": pair.is_ambiguous,
                "note": pair.note,
            }
        for alone in self._plan.alone:
            yield {str(alone.side): self._name(alone), "note": alone.reason}

    def _draw(self, canvas: Canvas) -> None:
        from padiff.cli.weights_text import draw_plan  # noqa: PLC0415 - only where drawn

        draw_plan(canvas.console, self._plan, *self._sides)

    def _glance(self, canvas: Canvas) -> None:
        found = self._plan
        words = f"{len(found.pairs)} pairs, {len(found.ambiguous)} ambiguous"
        canvas.line(f"{words}, {len(found.missing)} missing", "bold" if self else "bold red")
        said = [f"missing: {name}" for name in self.missing]
        said += [f"ambiguous: {name}" for name in self.ambiguous]
        for line in said[:_GLANCE]:
            canvas.line(f"  {canvas.safe(line)}")
        if len(said) > _GLANCE:
            canvas.line(f"  ... {len(said) - _GLANCE} more", "dim")


def plan_weights(
    reference: PathLike[str] | str,
    candidate: PathLike[str] | str,
    *,
    map: Path | str | MapFile | None = None,  # noqa: A002 - the option's name
) -> Plan:
    """Plan which weight of the candidate is made of which of the reference; nothing is printed.

    ``assert padiff.plan_weights("model.pth", "model.pdparams")``

    Args:
        reference: A dump, packed or not, or a file of weights.
        candidate: The same of the other side.
        map: Map file with pairs and rules.

    Returns:
        The plan; true if nothing is missing or in doubt.

    Raises:
        ConfigError: A file is of no known kind, or damaged.
        DumpError: A dump cannot be read.
    """
    told = read_map(Path(map)) if isinstance(map, Path | str) else map
    with ExitStack() as stack:
        sides = [
            stack.enter_context(open_source(fspath(place))) for place in (reference, candidate)
        ]
        return Plan(plan_sides(*sides, map_file=told), *sides)
