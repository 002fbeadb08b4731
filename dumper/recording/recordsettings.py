"""What is recorded, in which steps, and how much it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from padiff.dumpfile import ConfigError, Keep, Phase
from padiff.dumpfile.place import reserved_for

from .running import Running

__all__ = ["Counts", "RecordSettings", "StepPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """Which steps of a training run are recorded."""

    steps: frozenset[int] | None = None
    """None records all that ``every`` lets through."""
    every: int | None = None
    """Record step 0 and each that many steps after it; with ``steps``, these as well."""

    def __post_init__(self) -> None:
        """Refuse a plan that names nothing.

        Raises:
            ConfigError: No step, a negative one, or ``every`` below 1.
        """
        if self.steps is not None and (not self.steps or min(self.steps) < 0):
            named = ", ".join(map(str, sorted(self.steps))) or "none"
            raise ConfigError(f"cannot record steps {named}: expected steps counted from 0")
        if self.every is not None and self.every < 1:
            raise ConfigError(f"cannot record every {self.every} steps: expected 1 or more")

    def wants(self, step: int) -> bool:
        """Tell whether a step is recorded."""
        is_due = self.every is not None and step % self.every == 0
        return is_due or (self.every is None if self.steps is None else step in self.steps)

    @property
    def last(self) -> int | None:
        """Give the last step that is recorded, None if there is no end."""
        return max(self.steps) if self.steps is not None and self.every is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSettings:
    """What is recorded, and where it goes."""

    out: Path = Path("padiff_dump")
    """Directory of all dumps; the dump's own is the name below it."""
    name: str | None = None
    """Name of the dump; None takes the model's class name."""
    phase: Phase = Phase.BACKWARD
    """The last phase to record: FORWARD leaves all gradients out. Updates are recorded too if the
    recorder knows the optimizer."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Module patterns, see ``select.Pattern.parse``."""
    depth: int | None = None
    """Deepest level whose calls are recorded; the root is 0."""
    program: bool = True
    """Whether the operators are recorded, where the framework lets them be seen."""
    overwrite: bool = False
    """Replace a dump of that name once the new one is whole."""
    compression: int | None = None
    """Level of deflate for the values; None stores them so that readers can map them."""
    content: Keep = field(default_factory=Keep)
    """How much of each value is written."""
    plan: StepPlan = field(default_factory=StepPlan)
    """The steps that are recorded."""
    running: Running = field(default_factory=Running, compare=False, repr=False)
    """Hears what is being recorded, in case of a crash."""
    rank_wait_s: float | None = None
    """How long the processes of one run wait for each other at the end; None takes the default."""
    alone: bool = False
    """Whether this process records by itself, even where a launcher started several."""

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        if self.phase not in (Phase.FORWARD, Phase.BACKWARD):
            raise ConfigError(
                f"cannot record phase {str(self.phase)!r}: expected 'forward' or 'backward'"
            )
        if not isinstance(self.program, bool):  # the command line has words for it
            raise ConfigError(
                f"cannot record with program={self.program!r}: expected True or False",
                hint="False is --program none",
            )
        if self.content.program and not self.program:
            raise ConfigError(
                "cannot keep content 'program' without a program: nothing could be computed again",
                hint="drop --program none, or record with --content stats",
            )
        if self.rank_wait_s is not None and not self.rank_wait_s >= 0:
            raise ConfigError(f"cannot wait {self.rank_wait_s} s for ranks: expected 0 or more")
        if self.name is not None and (not self.name.strip(".") or set(self.name) & set("/\\\0")):
            raise ConfigError(
                f"cannot name a dump {self.name!r}: expected one plain directory name"
            )
        owner = None if self.name is None else reserved_for(self.name)
        if owner is not None:
            raise ConfigError(
                f"cannot name a dump {self.name!r}: such a name is kept for what belongs to the "
                f"dump {owner!r}",
                hint="choose another name",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much was recorded."""

    calls: int
    records: int
    size_bytes: int
    """Bytes of the finished dump's files; 0 until it is finished."""
    elapsed_s: float
    """From entering the recorder until now, or until it was left."""
