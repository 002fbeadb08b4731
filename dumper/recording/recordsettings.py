"""What is recorded, in which steps, and how much it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from padiff.dumpfile import ConfigError, Keep, Phase
from padiff.dumpfile.place import reserved_for
from padiff.dumpfile.urls import url_of

from .running import Running


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
        """Return whether a step is recorded."""
        is_due = self.every is not None and step % self.every == 0
        return is_due or (self.every is None if self.steps is None else step in self.steps)

    @property
    def last(self) -> int | None:
        """Return the last step that is recorded, None if there is no end."""
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
    replicas: tuple[range, ...] = ()
    """Of several processes, those of which only digests, statistics and inputs are written: others
    hold the same weights and keep the elements."""
    plan: StepPlan = field(default_factory=StepPlan)
    """The steps that are recorded."""
    running: Running = field(default_factory=Running, compare=False, repr=False)
    """Hears what is being recorded, in case of a crash."""
    rank_wait_s: float | None = None
    """How long the processes of one run wait for each other at the end; None takes the default."""
    alone: bool = False
    """Whether this process records by itself, even where a launcher started several."""
    raises: bool = True
    """Whether an error in recording ends the run; else the recording ends and the run goes on."""

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
        if url_of(self.out) is not None:
            raise ConfigError(
                f"cannot record to {url_of(self.out)!r}: expected a directory",
                hint="record to a disk, then `padiff push DUMP URL`",
            )
        if self.content.program and not self.program:
            raise ConfigError(
                "cannot keep content 'program' without a program: nothing could be computed again",
                hint="drop --program none, or record with --content stats",
            )
        if any(0 in ranks for ranks in self.replicas):
            raise ConfigError(
                "cannot take rank 0 for a replica: it keeps the elements for the others",
                hint="with plain data parallelism the replicas are '1-'",
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


MOST_RANKS = 1 << 20
"""More than that no run has."""


def parse_ranks(text: str) -> tuple[range, ...]:
    """Read a list of ranks.

    Raises:
        ConfigError: It is no such list.

    >>> parse_ranks("1-3,8-")
    (range(1, 4), range(8, 1048576))
    """
    found: list[range] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or not (last.isdecimal() or not last):
            raise ConfigError(
                f"cannot read the ranks {text!r}: expected numbers and ranges, such as 1- or 1-3,8"
            )
        stop = int(last) + 1 if last else MOST_RANKS if dash else int(first) + 1
        found.append(range(int(first), stop))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much was recorded."""

    calls: int
    records: int
    size_bytes: int
    """Bytes of the finished dump's files; 0 until it is finished."""
    elapsed_s: float
    """From entering the recorder until now, or until it was left."""
