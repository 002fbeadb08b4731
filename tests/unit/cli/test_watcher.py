"""The parent that waits: exit codes, signals, and what it can still say after a crash."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import atexit, ctypes, os, signal, sys, time
from padiff.cli.watcher import Note
from padiff.cli.watcher import tell
from padiff.cli.watcher import can_watch, watched

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup around the tests ignores it

def work(notes):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    notes.stage("forward")
    notes.call("encoder.0.attn", 1)
    print("child", os.getpid(), flush=True)
    {body}
    return 1

assert can_watch()
code = watched(work, lambda crash: tell(crash, ["dump"]))
print("end", flush=True)
sys.exit(code)
"""


def run(body: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose watched part does what the test says."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(body=body)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_childs_exit_code_is_the_programs() -> None:
    done = run("pass")

    assert done.returncode == 1
    assert done.stdout.count("end") == 2
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("ctypes.string_at(0)", "SIGSEGV (segmentation fault)"),
        ("os.abort()", "SIGABRT (aborted)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL (killed)"),
        ("os.kill(os.getpid(), signal.SIGFPE)", "SIGFPE (floating point exception)"),
    ],
)
def test_a_crash_is_told_with_the_call_that_was_running(body: str, name: str) -> None:
    done = run(body)

    assert done.returncode == 2
    assert f"in forward, inside encoder.0.attn#1: the process was killed by {name}" in done.stderr
    assert done.stderr.startswith("padiff: error: cannot run the model")
    assert "\nhint: " in done.stderr
    assert done.stdout.count("end") == 1


def test_a_crash_is_told_with_its_line() -> None:
    assert re.search(r'\n  File "<string>", line \d+ in work\n', run("os.abort()").stderr)


@pytest.mark.parametrize("status", [0, 7])
def test_code_that_leaves_the_process_is_told(status: int) -> None:
    done = run(f"os._exit({status})")

    assert done.returncode == 2
    assert f"ended the process with status {status}" in done.stderr


def test_a_crash_after_the_work_was_done_changes_nothing() -> None:
    done = run("atexit.register(os.abort)")

    assert done.returncode == 1
    assert done.stderr == "" or "padiff" not in done.stderr


DEADLY = "time.sleep(60)"


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated (SIGTERM)"),
        (signal.SIGHUP, 129, "terminated (SIGHUP)"),
    ],
)
def test_a_signal_to_the_parent_reaches_the_child(
    number: signal.Signals, code: int, says: str
) -> None:
    process, _ = start(DEADLY)

    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == code
    assert says in stderr


def test_the_child_dies_with_the_parent() -> None:
    process, child = start(DEADLY)

    process.kill()
    process.communicate(timeout=60)

    deadline_s = time.monotonic() + 60
    while is_alive(child) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not is_alive(child)


def test_it_can_be_switched_off() -> None:
    code = "from padiff.cli.watcher import can_watch; print(can_watch())"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PADIFF_WATCH": "0"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout == "False\n"


TWICE = """
import os, signal, sys, time
from padiff.cli import main as module
import click

@click.command()
def act():
    try:
        os.kill(os.getpid(), signal.{name})
        time.sleep(5)
    finally:
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.1)
        print("cleaned", flush=True)

signal.signal(signal.SIGHUP, signal.SIG_DFL)
module._LazyGroup.get_command = lambda *_: act
sys.exit(module.main(["act"]))
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_that_comes_twice_does_not_break_the_cleaning_up_off(name: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWICE.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == code, done.stderr
    assert done.stdout == "cleaned\n"


def start(body: str) -> tuple[subprocess.Popen[str], int]:
    """Start a program and wait until its watched part runs; gives that one's number, too."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=f"{body}")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline().split()[1])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
