"""Measure large pairs side by side, in processes of their own.

Threads would gain little: each of some twenty calls of numpy in a block takes 5 to 40 us and then
waits for the interpreter, which another thread holds, and waking up takes 40 us again. On two
cores, two threads measured 0.9 to 1.2 times as much as one, and two processes 1.9 times.

What a process does not give back, for whatever reason, is measured by whoever asked for it: errors
come up there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

from padiff.comparer.result import Metrics, Tolerance
from padiff.dumpfile.extent import Extent, FileId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

__all__ = ["LargePair", "LargePairs", "metrics_of_line", "pair_of_line"]

WORTH_BYTES = 4 << 30
"""Of less in all, one process is done in a second, and starting another takes 0.2 s."""
HEAD_START_BYTES = 1 << 30
"""What this process measures until another one has started."""
WORKER = ("-P", "-m", "padiff.comparer.judging.worker")
"""``-P``: the folder that somebody happens to be in holds dumps, and no code of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargePair:
    """A pair whose elements can be mapped as they are."""

    place: int
    """Its number among the requests."""
    reference: Extent
    candidate: Extent
    shape: tuple[int, ...]
    tolerance: Tolerance
    mean: bool
    """Whether the reference's mean magnitude is wanted."""

    @property
    def nbytes(self) -> int:
        """Give how many bytes both sides have."""
        return self.reference.nbytes + self.candidate.nbytes

    def line(self) -> str:
        """Write it as a line of JSON."""
        return json.dumps(asdict(self))


def pair_of_line(line: str) -> LargePair:
    """Read a pair that was written as a line."""
    fields = json.loads(line)
    return LargePair(
        place=fields["place"],
        reference=_extent(fields["reference"]),
        candidate=_extent(fields["candidate"]),
        shape=tuple(fields["shape"]),
        tolerance=Tolerance(**fields["tolerance"]),
        mean=fields["mean"],
    )


def _extent(fields: dict[str, Any]) -> Extent:
    return Extent(**{**fields, "file": FileId(**fields["file"])})


def metrics_of_line(line: str) -> tuple[int, Metrics]:
    """Read a place and its metrics from what a process wrote."""
    place, fields = json.loads(line)
    for name in ("max_abs_index", "max_rel_index"):
        fields[name] = None if fields[name] is None else tuple(fields[name])
    fields["hull"] = tuple([tuple(point) for point in fields["hull"]])
    return place, Metrics(**fields)


class LargePairs:
    """Pairs that are measured by other processes while this one does its own share."""

    def __init__(self, pairs: Sequence[LargePair], *, jobs: int) -> None:
        """Start the processes, if that is worth it.

        Args:
            pairs: All large pairs.
            jobs: How many processes are to measure, this one included; at least 1.
        """
        self._running: list[tuple[subprocess.Popen[str], IO[str]]] = []
        is_worth = jobs > 1 and sum(pair.nbytes for pair in pairs) >= WORTH_BYTES
        shares = _shares(pairs, jobs if is_worth and sys.executable else 1)
        self.others = frozenset(pair.place for share in shares[1:] for pair in share)
        """Places of those that other processes measure."""
        for share in shares[1:]:
            if share:
                self._start(share)

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what is still running."""
        for process, written in self._running:
            process.kill()
            process.wait()
            written.close()
        self._running = []

    def _start(self, share: Sequence[LargePair]) -> None:
        """Start a process; if none can be had, its share stays undone."""
        try:
            written = tempfile.TemporaryFile("w+", encoding="ascii")  # noqa: SIM115
        except OSError:
            return
        try:
            process = subprocess.Popen(
                [sys.executable, *WORKER],
                stdin=subprocess.PIPE,
                stdout=written,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        except OSError:
            written.close()
            return
        self._running.append((process, written))
        if process.stdin is not None:
            try:
                process.stdin.writelines(pair.line() + "\n" for pair in share)
                process.stdin.close()
            except OSError:  # it ended before it had read all
                process.kill()

    def results(self) -> Iterator[tuple[int, Metrics]]:
        """Wait for the processes, and give the places and metrics of what they measured."""
        for process, written in self._running:
            process.wait()
            written.seek(0)
            for line in written:
                if line.endswith("\n"):
                    yield metrics_of_line(line)


def _shares(pairs: Sequence[LargePair], count: int) -> list[list[LargePair]]:
    """Split pairs into shares that take about as long, the first one for this process."""
    shares: list[list[LargePair]] = [[] for _ in range(count)]
    loads = [0] + [HEAD_START_BYTES] * (count - 1)
    for pair in sorted(pairs, key=lambda pair: (-pair.nbytes, pair.place)):
        least = loads.index(min(loads))
        shares[least].append(pair)
        loads[least] += pair.nbytes
    return shares
