"""How the ranks of one run agree on one dump."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.dumper.recording.ranks import Meeting, Offer, Ranks, ranks_of
from padiff.dumpfile import (
    DumpExistsError,
    DumpWriteError,
    DumpWriter,
    Manifest,
    ModuleInfo,
    Phase,
    RecordError,
    Role,
    open_dump,
)

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

MANIFEST = Manifest(
    name="m",
    framework="numpy",
    framework_version="1",
    padiff_version="1",
    created="2026-01-01T00:00:00+00:00",
    files=(),
)


def rank(number: int, *, count: int = 2, run: str = "run", wait_s: float = 30.0) -> Ranks:
    return Ranks(rank=number, count=count, run=run, wait_s=wait_s)


def write(
    out: Path, ranks: Ranks, *, note: str = "", fails: bool = False, overwrite: bool = False
) -> Path:
    """Record one step with one number."""
    writer: DumpWriter
    with ranks.writer(out / "m", overwrite=overwrite) as writer:
        writer.describe(MANIFEST)
        with writer.step(0, ranks.rank) as step:
            root = ModuleInfo(id=0, path="", class_name="M", class_path="m.M", parent=None)
            step.add_modules((root,))
            step.add_record(
                module=0,
                call=None,
                phase=Phase.FORWARD,
                role=Role.NAMED,
                slot="['rank']",
                order=0,
                shape=(),
                value=step.store(np.array(ranks.rank)),
            )
        if fails:
            raise ValueError("the user's code")
        return writer.commit(dataclasses.replace(MANIFEST, notes=(note,) if note else ()))


def together(out: Path, *ranks: Ranks, fails: int | None = None) -> list[Future[Path]]:
    with ThreadPoolExecutor(len(ranks)) as pool:
        return [
            pool.submit(write, out, one, note=f"note {one.rank}", fails=one.rank == fails)
            for one in ranks
        ]


def test_all_ranks_end_in_one_dump_and_leave_nothing_else(tmp_path: Path) -> None:
    done = together(tmp_path, rank(0, count=3), rank(1, count=3), rank(2, count=3))

    assert {future.result() for future in done} == {tmp_path / "m"}
    dump = open_dump(tmp_path / "m")
    assert [(info.step, info.rank) for info in dump.files] == [(0, 0), (0, 1), (0, 2)]
    assert dump.manifest.notes == ("note 0", "rank 1: note 1", "rank 2: note 2")
    assert not dump.problems()
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_lost_rank_leaves_an_incomplete_dump_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="these have not finished: 1") as caught:
        write(tmp_path, rank(0, wait_s=0.1))

    assert "rank_wait_s" in (caught.value.hint or "")
    assert not (tmp_path / "m").exists()
    kept = open_dump(tmp_path / "m.incomplete")
    assert "expected 2 ranks" in kept.manifest.incomplete


def test_rank_that_fails_need_not_be_waited_for(tmp_path: Path) -> None:
    first, second = together(tmp_path, rank(0, wait_s=3), rank(1), fails=1)

    with pytest.raises(ValueError, match="the user's code"):
        second.result()
    error = first.exception()
    assert isinstance(error, RecordError)
    # it fails at once if rank 0 had called before rank 1 failed
    assert "failed: ValueError: the user's code" in error.message or "not finished" in error.message
    assert not (tmp_path / "m").exists()


def test_rank_that_rank_0_left_alone_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="rank 0 has not finished after"):
        write(tmp_path, rank(1, wait_s=0.1))

    assert list(tmp_path.iterdir()) == []


def test_rank_hears_that_rank_0_has_failed(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path / "m")
    call = meeting.call("run", 2)
    with rank(1, wait_s=60).writer(tmp_path / "m", overwrite=False) as writer:
        with writer.step(0, 1) as step:
            step.add_modules(())
        meeting.close(call)

        with pytest.raises(RecordError, match="rank 0 ended without finishing"):
            writer.commit(MANIFEST)

    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_run_offered_is_not_taken(tmp_path: Path) -> None:
    meeting = Meeting(tmp_path / "m")
    earlier = meeting.call("run", 2)
    meeting.offer(earlier, 1, Offer(folder=".m.rank_0001.partial-00000000"))

    with pytest.raises(RecordError, match="these have not finished: 1"):
        write(tmp_path, rank(0, wait_s=0.1))


class _Eager(Meeting):
    """Another rank has waited for the call, and answers as soon as it is there."""

    def _put(self, name: str, content: dict[str, Any]) -> None:
        super()._put(name, content)
        call = self.called()
        if name == "call.json" and call is not None:
            Meeting.offer(self, call, 1, Offer(folder="theirs"))


def test_an_offer_that_comes_with_the_call_is_not_taken_for_an_old_one(tmp_path: Path) -> None:
    meeting = _Eager(tmp_path / "m")

    offered = meeting.offered(meeting.call("run", 2), 1)

    assert offered is not None
    assert offered.folder == "theirs"


def test_processes_of_another_run_do_not_meet(tmp_path: Path) -> None:
    done = together(tmp_path, rank(0, wait_s=0.3), rank(1, wait_s=0.3, run="another"))

    assert all(isinstance(future.exception(), RecordError) for future in done)
    assert not (tmp_path / "m").exists()


def test_every_rank_refuses_to_replace_a_dump(tmp_path: Path) -> None:
    write(tmp_path, Ranks())

    for number in (0, 1):
        with pytest.raises(DumpExistsError):
            write(tmp_path, rank(number))


def test_file_that_is_not_whole_is_not_adopted(tmp_path: Path) -> None:
    with Ranks().writer(tmp_path / "one", overwrite=False) as one:
        with one.step(0, 1) as step:
            step.add_modules(())
        folder, files = one.hand_over()
        with (folder / files[0].path).open("ab") as file:
            file.write(b"more")
        with (
            Ranks().writer(tmp_path / "two", overwrite=False) as two,
            pytest.raises(DumpWriteError, match="bytes"),
        ):
            two.adopt(folder, files)


def test_rank_is_read_from_what_launchers_set() -> None:
    assert ranks_of({}) == Ranks()
    assert ranks_of({"RANK": "0", "WORLD_SIZE": "1"}).count == 1
    found = ranks_of({"PADDLE_TRAINER_ID": "3", "PADDLE_TRAINERS_NUM": "8"})
    assert (found.rank, found.count) == (3, 8)
    assert ranks_of({"RANK": "1", "WORLD_SIZE": "2"}, alone=True) == Ranks()


def test_wait_is_read_from_the_option_before_the_variable() -> None:
    environment = {"RANK": "0", "WORLD_SIZE": "2", "PADIFF_RANK_WAIT_S": "7.5"}

    assert ranks_of(environment).wait_s == 7.5
    assert ranks_of(environment, wait_s=1.0).wait_s == 1.0
