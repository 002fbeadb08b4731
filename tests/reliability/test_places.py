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

import pytest

from padiff.dumpfile import validate
from tests.support.command import command, environment_for
from tests.support.tiny_net import tiny_net
from tests.support.trial_commands import INTO_A_FOLDER, TEMPORARY

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

CAN_MOUNT = os.geteuid() == 0 and subprocess.call(["unshare", "--mount", "true"]) == 0
can_mount = pytest.mark.skipif(not CAN_MOUNT, reason="only root may mount a file system")
AS_ROOT = ("foreign",) if os.geteuid() == 0 else ()
"""Trials where another user runs the commands."""
MOUNTED = ("full", "full-temporary", "read-only") if CAN_MOUNT else ()
Found = dict[str, dict[str, int]]


def trials(*kinds: str, every: int) -> dict[str, Found]:
    """Run trials in one process, in a folder that other users can look into."""
    made = Path(tempfile.mkdtemp(prefix="padiff-test-", dir="/tmp"))
    made.chmod(0o755)
    within = ("unshare", "--mount") if set(kinds) & set(MOUNTED) else ()
    words = [*within, sys.executable, "-m", "tests.support.command_trials", str(made), *kinds]
    done = subprocess.run(
        [*words, "--every", str(every)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    shutil.rmtree(made)
    assert done.returncode == 0, done.stderr
    return found


@pytest.fixture(scope="module")
def some() -> dict[str, Found]:
    """All kinds of trials, at some moments."""
    return trials("signals", "vanishing", *MOUNTED, *AS_ROOT, every=FEW)


def assert_interrupted(found: Found) -> None:
    assert {name.split()[0] for name in found} == COMMANDS
    for name, codes in found.items():
        number = "130" if name.endswith("SIGINT") else "143"
        assert codes[number] >= 1, name
        assert set(codes) <= {number, "0", "1"}, name  # a signal may come when all is done


def test_signals_at_some_moments(some: dict[str, Found]) -> None:
    assert_interrupted(some["signals"])


@pytest.mark.slow
def test_signals_at_every_moment() -> None:
    found = trials("signals", every=ALL)["signals"]

    assert_interrupted(found)
    count = sum(sum(codes.values()) for codes in found.values())
    assert abs(count - SIGNALS) <= SIGNALS / 20


@can_mount
def test_a_full_disk(some: dict[str, Found]) -> None:
    found = some["full"]

    assert list(found) == [f"{left} pages left" for left in LEFT]
    assert found["0 pages left"] == dict.fromkeys(COMMANDS, 2)
    assert {code for codes in found.values() for code in codes.values()} == {0, 1, 2}


@can_mount
def test_a_full_disk_for_temporary_files(some: dict[str, Found]) -> None:
    found = some["full-temporary"]

    assert {name: set(codes) for name, codes in found.items()} == {
        "0 pages left": set(TEMPORARY),
        "2 pages left": set(TEMPORARY),
    }
    assert set(found["0 pages left"].values()) == {0, 1}  # Python takes another place then
    assert set(found["2 pages left"].values()) == {2}


def assert_vanished(found: Found) -> None:
    assert set(found) == COMMANDS
    assert all(set(codes) <= {"0", "1", "2"} for codes in found.values())


def test_a_folder_that_vanishes_at_some_moments(some: dict[str, Found]) -> None:
    assert_vanished(some["vanishing"])


@pytest.mark.slow
def test_a_folder_that_vanishes_at_every_moment() -> None:
    found = trials("vanishing", every=ALL)["vanishing"]

    assert_vanished(found)
    assert all("2" in codes for codes in found.values())
    count = sum(sum(codes.values()) for codes in found.values())
    assert abs(count - VANISHING) <= VANISHING / 20


@can_mount
def test_a_read_only_disk(some: dict[str, Found]) -> None:
    assert some["read-only"]["read-only"] == dict.fromkeys(COMMANDS, 2)


@pytest.mark.skipif(not AS_ROOT, reason="only root may act as another user")
def test_a_folder_of_another_user(some: dict[str, Found]) -> None:
    assert some["foreign"]["foreign"] == dict.fromkeys(COMMANDS, 2)


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
