"""The options of one comparison, as one immutable value."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.dumpfile import JSON, ConfigError, Phase

from .judging.noise import DEFAULT_FACTOR, FloorSide
from .judging.tolerance import default_of

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.pairing import MapFile, RanksEntry

    from .judging.tolerance import ToleranceRule


LARGEST_DEFAULT = default_of("float32").atol
"""The default atol of all dtypes but float64, whose is smaller."""


class Mode(StrEnum):
    """What of a pair must lie within the tolerance."""

    STRICT = "strict"
    """Every element."""
    MEAN = "mean"
    """The mean absolute difference, against ``atol + rtol * mean|reference|``; nan, inf, shapes
    and integers as in strict."""
    QUANTILE = "quantile"
    """A stated share of the elements; nan, inf and shapes as in strict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSettings:
    """What to compare and when a difference counts. None means the default."""

    atol: float | None = None
    """None takes the dtype's default."""
    rtol: float | None = None
    rules: tuple[ToleranceRule, ...] = ()
    """Exceptions for some modules; later ones win."""
    mode: Mode = Mode.STRICT
    quantile: float | None = None
    """Share of a record's elements that must agree in mode ``quantile``, in (0, 1]."""
    max_mismatched: float | None = None
    """Share of a record's elements that may disagree, in [0, 1); None allows none. Elements with
    nan or inf on one side are never allowed."""
    floor: FloorSide | None = None
    """Whose measured noise floor stands in for the default atol; None uses none."""
    floor_factor: float = DEFAULT_FACTOR
    """The floor, or the reference's error against the golden run, is multiplied by it."""
    golden: Path | None = None
    """A more precise dump of the same model; None judges the two sides by each other alone."""
    steps: tuple[int, ...] | None = None
    """None compares all."""
    ranks: tuple[int, ...] | None = None
    phases: tuple[Phase, ...] | None = None
    include: tuple[str, ...] = ()
    """Patterns of modules to judge, with what is inside them; empty judges all."""
    exclude: tuple[str, ...] = ()
    """Patterns of modules to leave out, with what is inside them; wins over ``include``."""
    min_coverage: float | None = None
    """None takes 1.0 where both sides have the same structure, 0.8 where they differ, and 0.5 there
    for one side if all values of the other were judged."""
    allow_missing: tuple[str, ...] = ()
    """Patterns of modules and weights that may lack a counterpart."""
    jobs: int | None = 1
    """Processes of this machine that compare groups of ranks, or measure large tensors of one; the
    results are the same. None takes one for each core, at most four, where that is worth it."""
    scheduler: str | None = None
    """Address of the scheduler on whose workers groups of ranks are compared; see ``executors``."""
    parts: Path | None = None
    """A folder in which processes that compare leave what they found, where they see it, too; None
    lets all of it travel. The result is the same, and read from there as long as somebody has it.
    """
    execute: bool = True
    """Execute both programs in float64: same function, same leaves, sound execution? Verdicts rest
    on the answers; without them, on tolerances alone."""
    strict: bool = False
    """Of executed programs: a difference of function that rounding hides is a divergence, too."""
    map_file: MapFile | None = None
    """What the user decided about which module is which."""
    layouts: tuple[RanksEntry, ...] = ()
    """How tensors of sharded runs lie over ranks; they win over those of the map file."""

    def __post_init__(self) -> None:
        """Refuse tolerances and shares that make no sense."""
        given: tuple[tuple[str, object], ...] = (("atol", self.atol), ("rtol", self.rtol))
        for name, number in given:
            if number is not None and not (
                isinstance(number, int | float) and 0 <= number <= sys.float_info.max
            ):
                raise ConfigError(f"{name} must be a finite number >= 0, found {number!r}")
        if (self.mode is Mode.QUANTILE) is (self.quantile is None):
            raise ConfigError("mode quantile needs a quantile, and no other mode takes one")
        if self.quantile is not None and not 0 < self.quantile <= 1:
            raise ConfigError(f"the quantile must be above 0, at most 1, found {self.quantile!r}")
        if self.max_mismatched is not None and not 0 <= self.max_mismatched < 1:
            raise ConfigError(
                "the share of elements that may disagree must be at least 0 and below 1, found "
                f"{self.max_mismatched!r}"
            )
        if not (math.isfinite(self.floor_factor) and self.floor_factor >= 0):
            raise ConfigError(f"the floor factor must be >= 0, found {self.floor_factor!r}")
        if self.jobs is not None and self.jobs < 1:
            raise ConfigError(f"the number of processes must be >= 1, found {self.jobs}")
        if self.min_coverage is not None and not 0 <= self.min_coverage <= 1:
            raise ConfigError(
                f"the minimal coverage must be between 0 and 1, found {self.min_coverage!r}"
            )

    @property
    def over_ranks(self) -> tuple[RanksEntry, ...]:
        """Return all that the user says of how tensors lie over ranks, what wins last."""
        return (*(() if self.map_file is None else self.map_file.over_ranks), *self.layouts)

    @property
    def is_literal(self) -> bool:
        """Return whether elements are judged by the user's atol and rtol and nothing is added."""
        return self.atol is not None and self.rtol is not None

    @property
    def is_below_defaults(self) -> bool:
        """Return whether an atol alone is below the defaults, so that it has no effect."""
        is_alone = self.atol is not None and self.rtol is None
        return is_alone and (self.atol or 0.0) < LARGEST_DEFAULT

    def selection(self) -> tuple[str, ...]:
        """Return the options that select what is compared, as the command line has them."""
        options = (
            ("step", self.steps),
            ("rank", self.ranks),
            ("phase", self.phases),
            ("include", self.include),
            ("exclude", self.exclude),
        )
        return tuple(f"--{name} {value}" for name, values in options for value in values or ())

    @property
    def allowed_share(self) -> float:
        """Return the share of a record's elements that may disagree."""
        by_quantile = 0.0 if self.quantile is None else 1 - self.quantile
        return max(self.max_mismatched or 0.0, by_quantile)

    def to_json(self) -> dict[str, JSON]:
        """Return the options for a report."""
        return {
            "atol": self.atol,
            "rtol": self.rtol,
            "rules": [str(rule) for rule in self.rules],
            "mode": str(self.mode),
            "quantile": self.quantile,
            "max_mismatched": self.max_mismatched,
            "floor": None if self.floor is None else str(self.floor),
            "floor_factor": None
            if self.floor is None and self.golden is None
            else self.floor_factor,
            "golden": None if self.golden is None else str(self.golden),
            "steps": None if self.steps is None else list(self.steps),
            "ranks": None if self.ranks is None else list(self.ranks),
            "phases": None if self.phases is None else [str(phase) for phase in self.phases],
            "include": list(self.include),
            "exclude": list(self.exclude),
            "min_coverage": self.min_coverage,
            "allow_missing": list(self.allow_missing),
            "execute": self.execute,
            "strict": self.strict,
            "layouts": [text for entry in self.over_ranks for text in entry.texts],
            "map": None if self.map_file is None else self.map_file.source,
        }
