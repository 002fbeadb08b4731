"""Every command that writes: signals at its moments, a full disk, a read-only one, a closed folder.

The file systems are real ones, mounted for the test, which takes the rights of root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from padiff.dumpfile import validate
from tests.support.command import command, environment_for
from tests.support.tiny_net import tiny_net
from tests.support.trial_commands import INTO_A_FOLDER, TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
COMMANDS = set(INTO_A_FOLDER)
FEW, ALL = 60, 1
"""Every so many moments."""
SIGNALS = 994
"""Trials where every moment is tried; a twentieth more or fewer is no reason to count again."""
VANISHING = 227
"""Trials where the folder vanishes at every moment; likewise."""
LEFT = (0, 1, 5, 30)
"""Pages of a full disk."""
PLACES = len(COMMANDS) * (len(LEFT) + 2)
"""Also a read-only disk, and the folder of another user."""

can_mount = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.call(["unshare", "--mount", "true"]) != 0,
    reason="only root may mount a file system",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that other users can look into."""
    made = Path(tempfile.mkdtemp(prefix="padiff-test-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def trials(folder: Path, *options: str, within: tuple[str, ...] = ()) -> dict[str, dict[str, int]]:
    """Run trials in a process of their own; gives what they found."""
    done = subprocess.run(
        [*within, sys.executable, "-m", "tests.support.command_trials", str(folder), *options],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def assert_interrupted(found: dict[str, dict[str, int]]) -> None:
    assert {name.split()[0] for name in found} == COMMANDS
    for name, codes in found.items():
        number = "130" if name.endswith("SIGINT") else "143"
        assert codes[number] >= 1, name
        assert set(codes) <= {number, "0", "1"}, name  # a signal may come when all is done


def test_signals_at_some_moments(folder: Path) -> None:
    assert_interrupted(trials(folder, "signals", "--every", str(FEW)))


@pytest.mark.slow
def test_signals_at_every_moment(folder: Path) -> None:
    found = trials(folder, "signals", "--every", str(ALL))

    assert_interrupted(found)
    count = sum(sum(codes.values()) for codes in found.values())
    assert abs(count - SIGNALS) <= SIGNALS / 20


@can_mount
def test_a_full_disk(folder: Path) -> None:
    found = trials(folder, "full", within=("unshare", "--mount"))

    assert list(found) == [f"{left} pages left" for left in LEFT]
    assert found["0 pages left"] == dict.fromkeys(COMMANDS, 2)
    assert {code for codes in found.values() for code in codes.values()} == {0, 1, 2}


@can_mount
def test_a_full_disk_for_temporary_files(folder: Path) -> None:
    found = trials(folder, "full-temporary", within=("unshare", "--mount"))

    assert {name: set(codes) for name, codes in found.items()} == {
        "0 pages left": set(TEMPORARY),
        "2 pages left": set(TEMPORARY),
    }
    assert set(found["0 pages left"].values()) == {0, 1}  # Python takes another place then
    assert set(found["2 pages left"].values()) == {2}


def assert_vanished(found: dict[str, dict[str, int]]) -> None:
    assert set(found) == COMMANDS
    assert all(set(codes) <= {"0", "1", "2"} for codes in found.values())


def test_a_folder_that_vanishes_at_some_moments(folder: Path) -> None:
    found = trials(folder, "vanishing", "--every", str(FEW))

    assert_vanished(found)


@pytest.mark.slow
def test_a_folder_that_vanishes_at_every_moment(folder: Path) -> None:
    found = trials(folder, "vanishing", "--every", str(ALL))

    assert_vanished(found)
    assert all("2" in codes for codes in found.values())
    count = sum(sum(codes.values()) for codes in found.values())
    assert abs(count - VANISHING) <= VANISHING / 20


@can_mount
def test_a_read_only_disk(folder: Path) -> None:
    found = trials(folder, "read-only", within=("unshare", "--mount"))

    assert found["read-only"] == dict.fromkeys(COMMANDS, 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")
def test_a_folder_of_another_user(folder: Path) -> None:
    assert trials(folder, "foreign")["foreign"] == dict.fromkeys(COMMANDS, 2)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(closed: str, tmp_path: Path) -> None:
    """A traceback would end with 1, which says that the two diverged."""
    tiny_net().write(tmp_path / "a")
    script = f'"$@" {closed}; echo $? > code'

    for words, code in ((["compare", "a", "a"], "0"), (["compare", "a", "none"], "2")):
        shell = ["sh", "-c", script, "sh", *command(*words)]
        done = subprocess.run(
            shell, cwd=tmp_path, env=environment_for(tmp_path), check=True, capture_output=True
        )
        assert (tmp_path / "code").read_text().strip() == code
        assert b"Traceback" not in done.stderr
        assert validate(tmp_path / "a", deep=True) == []
