"""Several processes of one run, each of which records its own rank, into one dump.

No two processes write to one file: each rank but the first writes below a hidden name beside the
dump. When all are whole, rank 0 takes their files into its own and writes the only manifest there
is, last. So whatever is killed when, there is no manifest, or all of the run is there.

The processes meet to make one dump of what each of them recorded. Rank 0 leaves a call with a fresh
number in ``.<name>.ranks``, a hidden sibling of the dump. Each other rank, when its files are
whole, leaves an offer with that number; rank 0 takes the files and leaves an answer. What an
earlier run left there has another number, so it is never taken for this run's, whatever was killed
when.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from padiff.dumpfile import (
    DumpExistsError,
    DumpWriteError,
    DumpWriter,
    FileInfo,
    Manifest,
    Mesh,
    RecordError,
)
from padiff.dumpfile.manifestcodec import file_info

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from padiff.dumpfile import JSON


_VARIABLES = (("RANK", "WORLD_SIZE"), ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"))
"""What torchrun and paddle.distributed.launch set."""

_RUN = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "PADDLE_MASTER", "PADDLE_JOB_ID")
"""What is equal in all processes of one run and in few others."""

WAIT_VARIABLE = "PADIFF_RANK_WAIT_S"
WAIT_S = 300.0
"""How long ranks wait for each other at the end, unless the user says otherwise."""
POLL_S = 0.02
_MOST_TEXT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Which of how many processes this is."""

    rank: int = 0
    count: int = 1
    run: str = ""
    """Tells the run from others that write to the same place."""
    wait_s: float = WAIT_S

    @property
    def note(self) -> dict[str, JSON]:
        """Return what the manifest says of the run."""
        return {"ranks": self.count} if self.count > 1 else {}

    def directory(self, place: Path) -> Path:
        """Return where this rank writes: rank 0 to the place itself, others beside it."""
        return place if not self.rank else place.with_name(f".{place.name}.rank_{self.rank:04d}")

    def writer(self, place: Path, *, overwrite: bool, **options: Any) -> DumpWriter:  # noqa: ANN401
        """Make the writer of this rank.

        Args:
            place: Where the dump of all ranks goes.
            overwrite: Whether a dump that is there may be replaced.
            options: Further options of ``DumpWriter``.
        """
        if self.count == 1:
            return DumpWriter(place, overwrite=overwrite, **options)
        kind = _OtherWriter if self.rank else _FirstWriter
        return kind(place, self, overwrite=overwrite, **options)


class _FirstWriter(DumpWriter):
    """Rank 0's: takes the files of all others over before it commits."""

    def __init__(self, place: Path, ranks: Ranks, **options: Any) -> None:  # noqa: ANN401
        super().__init__(place, **options)
        self._name = place.name
        self._target = Path(os.path.realpath(place))
        self._meeting = Meeting(self._target)
        self._ranks = ranks
        self._call: Call | None = None

    def __enter__(self) -> Self:
        """Claim the place and call the others.

        Raises:
            DumpExistsError: There is something that must not be replaced.
            DumpWriteError: Another process writes there, or nobody may.
        """
        super().__enter__()
        try:
            self._call = self._meeting.call(self._ranks.run, self._ranks.count)
        except OSError as error:
            super().__exit__(None, None, None)
            raise DumpWriteError(f"cannot call the other ranks: {error.strerror}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the meeting and give the place free."""
        if self._call is not None and self.is_owned:
            self._meeting.close(self._call)
        super().__exit__(kind, error, trace)

    def commit(self, manifest: Manifest) -> Path:
        """Wait for the others, take their files over, and write the manifest.

        Raises:
            RecordError: A rank failed, or did not finish in time.
            DumpWriteError: Something could not be written.
        """
        self.hand_over()  # nothing of this rank is open while it waits
        others: dict[int, Offer] = {}
        deadline = time.monotonic() + self._ranks.wait_s
        while len(others) < self._ranks.count - 1:
            self._collect(others)
            if len(others) < self._ranks.count - 1:
                if time.monotonic() > deadline:
                    raise self._too_late(others)
                time.sleep(POLL_S)
        notes = [
            f"rank {rank}: {note}"
            for rank, offer in sorted(others.items())
            for note in offer.notes
            if note not in manifest.notes
        ]
        path = super().commit(replace(manifest, notes=(*manifest.notes, *notes)))
        for rank in others:
            self._answer(rank)
        return path

    def _collect(self, others: dict[int, Offer]) -> None:
        for rank in range(1, self._ranks.count):
            offer = None
            if rank not in others and self._call is not None:
                offer = self._meeting.offered(self._call, rank)
            if offer is None:
                continue
            if offer.lost:
                raise RecordError(
                    f"cannot finish the dump {self._name!r}: rank {rank} of {self._ranks.count} "
                    f"failed: {offer.lost}"
                )
            folder = self._target.with_name(Path(offer.folder).name)
            self.adopt(folder, [info for info in offer.files if info.rank == rank], offer.meshes)
            others[rank] = offer

    def _answer(self, rank: int) -> None:
        try:
            if self._call is not None:
                self._meeting.answer(self._call, rank)
        except OSError as error:
            raise DumpWriteError(f"cannot answer rank {rank}: {error.strerror}") from error

    def _too_late(self, others: dict[int, Offer]) -> RecordError:
        lost = [str(rank) for rank in range(1, self._ranks.count) if rank not in others]
        return RecordError(
            f"cannot finish the dump {self._name!r}: expected {self._ranks.count} ranks, "
            f"after {self._ranks.wait_s:g} s these have not finished: {', '.join(lost)}",
            hint="all ranks must record, and write to one file system; wait longer with "
            f"rank_wait_s=SECONDS or {WAIT_VARIABLE}=SECONDS, or record one rank with alone=True",
        )


class _OtherWriter(DumpWriter):
    """Another rank's: offers its files to rank 0, and ends when they are in a whole dump."""

    def __init__(self, place: Path, ranks: Ranks, *, overwrite: bool, **options: Any) -> None:  # noqa: ANN401
        self._target = Path(os.path.realpath(place))
        super().__init__(ranks.directory(self._target), **options)
        self._place_of_all = place
        self._replaces = overwrite
        self._meeting = Meeting(self._target)
        self._ranks = ranks
        self._call: Call | None = None

    def __enter__(self) -> Self:
        """Claim the place of this rank's own files.

        Raises:
            DumpExistsError: Rank 0 is going to find a dump that must not be replaced.
            DumpWriteError: Nobody may write there.
        """
        if not self._replaces and self._target.is_dir() and any(self._target.iterdir()):
            raise DumpExistsError(
                f"cannot write a dump at {str(self._place_of_all)!r}: there is something already",
                hint="choose another name, or replace a dump with overwrite=True",
            )
        super().__enter__()
        self._call = self._find_call()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell rank 0 of an error, so that it need not wait, and remove what was written."""
        call = self._find_call() if error is not None and self.is_owned else None
        if call is not None and error is not None:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:_MOST_TEXT]
            self._try_offer(call, Offer(folder="", lost=text))
        super().__exit__(kind, error, trace)

    def describe(self, manifest: Manifest) -> None:
        """Do nothing: whole steps of a single rank are not a dump."""

    def commit(self, manifest: Manifest) -> Path:
        """Offer all files to rank 0, and wait until it has made the dump.

        Returns:
            The directory of the dump of all ranks, absolute.

        Raises:
            RecordError: Rank 0 ended without finishing, or did not finish in time.
            DumpWriteError: Something could not be written.
        """
        folder, files = self.hand_over()
        notes = tuple(manifest.notes)
        mine = Offer(folder=folder.name, files=files, notes=notes, meshes=self.meshes)
        offered: set[str] = set()
        deadline = time.monotonic() + self._ranks.wait_s
        while True:
            call = self._find_call()
            for known in {self._call, call} - {None}:
                if known is not None and self._meeting.is_answered(known, self._ranks.rank):
                    return self._target
            if call is None and self._call is not None:
                raise self._alone("ended without finishing the dump")
            if call is not None and call.number not in offered and self._try_offer(call, mine):
                offered.add(call.number)
            self._call = call
            if time.monotonic() > deadline:
                raise self._alone(f"has not finished after {self._ranks.wait_s:g} s")
            time.sleep(POLL_S)

    def _find_call(self) -> Call | None:
        call = self._meeting.called()
        ours = self._ranks.run, self._ranks.count
        return call if call is not None and (call.run, call.count) == ours else None

    def _try_offer(self, call: Call, offer: Offer) -> bool:
        try:
            self._meeting.offer(call, self._ranks.rank, offer)
        except OSError:  # rank 0 has just ended the meeting
            return False
        return True

    def _alone(self, what: str) -> RecordError:
        return RecordError(
            f"cannot finish the dump {self._target.name!r} on rank {self._ranks.rank}: rank 0 "
            f"{what}",
            hint=f"see what rank 0 says; wait longer with rank_wait_s=SECONDS or {WAIT_VARIABLE}="
            "SECONDS, or record one rank with alone=True",
        )


def is_first_rank() -> bool:
    """Return whether this process speaks for its run: rank 0, or the only one."""
    return ranks_of().rank == 0


def ranks_of(
    environment: Mapping[str, str] = os.environ,
    *,
    wait_s: float | None = None,
    alone: bool = False,
) -> Ranks:
    """Read from the environment which rank this process is; alone without a launcher.

    Args:
        environment: Its variables.
        wait_s: How long the ranks wait for each other; None takes the variable's, or the default.
        alone: Whether this process records by itself, whatever the environment says.
    """
    for rank, count in _VARIABLES:
        numbers = environment.get(rank, ""), environment.get(count, "")
        if not alone and all(map(str.isdecimal, numbers)) and int(numbers[1]) > 1:
            told = environment.get(WAIT_VARIABLE, "")
            given = float(told) if told.replace(".", "", 1).isdecimal() else WAIT_S
            return Ranks(
                rank=int(numbers[0]),
                count=int(numbers[1]),
                run="|".join(environment.get(name, "") for name in _RUN),
                wait_s=given if wait_s is None else wait_s,
            )
    return Ranks()


_CALL = "call.json"
_OURS = re.compile(r"\.?(call|offer-\d{4,}-[0-9a-f]{16}|answer-\d{4,}-[0-9a-f]{16})\.json")
"""Names of the files that may be removed from the meeting place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What rank 0 asks the others for."""

    number: str
    """Drawn anew by each recording."""
    run: str
    """What the launcher calls the run, as far as it does."""
    count: int
    """How many processes there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a rank has recorded."""

    folder: str
    """Name of the hidden directory that its files are in; a sibling of the dump."""
    files: tuple[FileInfo, ...] = ()
    notes: tuple[str, ...] = ()
    meshes: tuple[Mesh, ...] = ()
    """Of the records in the files."""
    lost: str = ""
    """Why there are no files, if the rank has failed."""


class Meeting:
    """The meeting place of one dump."""

    def __init__(self, place: Path) -> None:
        """Note which dump; nothing is made yet."""
        self._folder = place.with_name(f".{place.name}.ranks")

    def call(self, run: str, count: int) -> Call:
        """Call the other ranks, and forget what earlier runs left. Only under the dump's lock.

        Raises:
            OSError: The place cannot be written.
        """
        self._folder.mkdir(exist_ok=True)
        made = Call(number=secrets.token_hex(8), run=run, count=count)
        self._put(_CALL, asdict(made))
        for entry in self._folder.iterdir():
            is_answer = made.number in entry.name  # of a rank that has waited for this call
            if entry.name != _CALL and not is_answer and _OURS.fullmatch(entry.name):
                entry.unlink(missing_ok=True)
        return made

    def called(self) -> Call | None:
        """Return the call that is there, None if there is none."""
        found = self._get(_CALL)
        try:
            return None if found is None else Call(**found)
        except TypeError:
            return None

    def offer(self, call: Call, rank: int, offer: Offer) -> None:
        """Answer a call with what this rank has.

        Raises:
            OSError: The place is gone or cannot be written.
        """
        self._put(f"offer-{rank:04d}-{call.number}.json", asdict(offer))

    def offered(self, call: Call, rank: int) -> Offer | None:
        """Return what a rank offers, None as long as it does not."""
        found = self._get(f"offer-{rank:04d}-{call.number}.json")
        try:
            if found is None:
                return None
            files = tuple(file_info(info) for info in found.pop("files"))
            told = found.pop("meshes")
            meshes = tuple(Mesh(**{key: tuple(cell) for key, cell in one.items()}) for one in told)
            notes = tuple(found.pop("notes"))
            return Offer(**found, notes=notes, meshes=meshes, files=files)
        except (KeyError, TypeError):
            return None

    def answer(self, call: Call, rank: int) -> None:
        """Tell a rank that its files are in a whole dump.

        Raises:
            OSError: It cannot be written.
        """
        self._put(f"answer-{rank:04d}-{call.number}.json", {})

    def is_answered(self, call: Call, rank: int) -> bool:
        """Return whether the dump is whole, and if so take the answer away."""
        path = self._folder / f"answer-{rank:04d}-{call.number}.json"
        if not path.exists():
            return False
        with suppress(OSError):
            path.unlink()
            self._folder.rmdir()  # the last one finds it empty
        return True

    def close(self, call: Call) -> None:
        """End the meeting; answers stay until they are read."""
        with suppress(OSError):
            for entry in self._folder.iterdir():
                if _OURS.fullmatch(entry.name) and not entry.name.startswith("answer"):
                    entry.unlink(missing_ok=True)
            self._folder.rmdir()  # unless an answer waits

    def _put(self, name: str, content: dict[str, Any]) -> None:
        hidden = self._folder / f".{name}"
        hidden.unlink(missing_ok=True)  # it may be a link that somebody put there
        with hidden.open("x", encoding="utf-8") as file:
            file.write(json.dumps(content))
        os.replace(hidden, self._folder / name)  # noqa: PTH105 - over what is there

    def _get(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self._folder / name).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None
