"""Several processes of one training run, each of which records its own rank.

Each rank but the first writes a dump of its own beside the place; when all are whole, rank 0
takes their files into its dump and writes the manifest. So a rank that is lost leaves no
manifest, and no two processes ever write to one file.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpError, RecordError, open_dump

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from padiff.dumpfile import Dump, DumpWriter

__all__ = ["Ranks", "ranks_of"]

_VARIABLES = (("RANK", "WORLD_SIZE"), ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"))
"""What torchrun and paddle.distributed.launch set."""

_RUN = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "PADDLE_MASTER", "PADDLE_JOB_ID")
"""What is equal in all processes of one run and in few others."""

WAIT_VARIABLE = "PADIFF_RANK_WAIT_S"
WAIT_S = 300.0
"""How long rank 0 waits for the others at the end, unless the variable says otherwise."""
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Which of how many processes this is."""

    rank: int = 0
    count: int = 1
    run: str = ""
    """Tells the run from others that wrote to the same place."""
    wait_s: float = WAIT_S

    @property
    def note(self) -> dict[str, str]:
        """Give what a rank's own manifest says of the run."""
        return {"run_of_ranks": self.run} if self.count > 1 else {}

    def directory(self, place: Path, rank: int | None = None) -> Path:
        """Give where a rank writes: rank 0 to the place itself, others beside it."""
        number = self.rank if rank is None else rank
        return place if number == 0 else place.with_name(f".{place.name}.rank_{number:04d}")

    def begin(self, place: Path) -> None:
        """Remove what an earlier run of this rank left behind."""
        own = self.directory(place)
        if self.rank and _dump_at(own) is not None:  # never anything else
            shutil.rmtree(own)

    def gather(self, writer: DumpWriter, place: Path) -> None:
        """Wait until all other ranks are whole and take their files over.

        Raises:
            RecordError: A rank did not finish in time.
        """
        if self.rank or self.count == 1:
            return
        deadline = time.monotonic() + self.wait_s
        waiting = list(range(1, self.count))
        while waiting:
            found = {rank: self._finished(self.directory(place, rank)) for rank in waiting}
            for rank, dump in found.items():
                if dump is not None:
                    writer.adopt(dump)
                    shutil.rmtree(self.directory(place, rank))
                    waiting.remove(rank)
            if waiting and time.monotonic() > deadline:
                lost = ", ".join(map(str, waiting))
                raise RecordError(
                    f"cannot finish the dump {place.name!r}: expected {self.count} ranks, "
                    f"after {self.wait_s:g} s these have not finished: {lost}",
                    hint=f"{WAIT_VARIABLE}=SECONDS waits longer",
                )
            if waiting:
                time.sleep(POLL_S)

    def _finished(self, directory: Path) -> Dump | None:
        dump = _dump_at(directory)
        known = None if dump is None else dump.manifest.settings.get("run_of_ranks")
        return dump if known == self.run else None


def _dump_at(directory: Path) -> Dump | None:
    try:
        return open_dump(directory)
    except DumpError:
        return None


def ranks_of(environment: Mapping[str, str] = os.environ) -> Ranks:
    """Read from the environment which rank this process is; alone without a launcher."""
    for rank, count in _VARIABLES:
        numbers = environment.get(rank, ""), environment.get(count, "")
        if all(number.isdecimal() for number in numbers) and int(numbers[1]) > 1:
            wait = environment.get(WAIT_VARIABLE, "")
            return Ranks(
                rank=int(numbers[0]),
                count=int(numbers[1]),
                run="|".join(environment.get(name, "") for name in _RUN),
                wait_s=float(wait) if wait.replace(".", "", 1).isdecimal() else WAIT_S,
            )
    return Ranks()
