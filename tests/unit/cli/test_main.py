"""The outermost layer: exit codes, messages, and what is not imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from padiff.cli import main as main_module
from padiff.cli.main import main
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


def run_with(action: Callable[[], int | None], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run ``padiff act`` where ``act`` does what the test says."""

    @click.command()
    @click.option("--count", type=int)
    def act(count: int | None) -> int | None:
        del count
        return action()

    monkeypatch.setattr(main_module._LazyGroup, "get_command", lambda *_: act)
    return main(["act"])


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_commands_return_value_is_the_exit_code(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_with(lambda: code, monkeypatch) == code


def test_a_command_that_returns_nothing_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with(lambda: None, monkeypatch) == 0


def test_padiff_error_is_one_line_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise ConfigError("no such thing 'a\nb\x1b[31m'", hint="look elsewhere")

    code = run_with(fail, monkeypatch)

    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err == "padiff: error: no such thing 'a\\nb\\x1b[31m'\nhint: look elsewhere\n"


def test_unexpected_error_is_short_and_keeps_its_traceback_for_debugging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise ZeroDivisionError("by zero")

    code = run_with(fail, monkeypatch)
    plain = capsys.readouterr().err
    monkeypatch.setenv("PADIFF_DEBUG", "1")
    run_with(fail, monkeypatch)
    debug = capsys.readouterr().err

    assert code == 2
    assert plain.startswith("padiff: internal error: ZeroDivisionError: by zero")
    assert len(plain.splitlines()) == 2
    assert "Traceback" in debug
    assert "test_main.py" in debug


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_interrupt_is_130(
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> int:
        raise error

    assert run_with(fail, monkeypatch) == 130
    assert "interrupted" in capsys.readouterr().err


def test_code_that_calls_sys_exit_does_not_decide_the_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def leave() -> int:
        sys.exit(0)

    assert run_with(leave, monkeypatch) == 2


def test_sigterm_unwinds_and_is_143(monkeypatch: pytest.MonkeyPatch) -> None:
    unwound: list[bool] = []

    def wait() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            unwound.append(True)
        return 0

    before = signal.getsignal(signal.SIGTERM)

    assert run_with(wait, monkeypatch) == 143
    assert unwound == [True]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    "words", [["nonsense"], ["--nonsense"], ["act", "--nonsense"], ["act", "--count", "x"], []]
)
def test_wrong_usage_is_2_and_leaves_stdout_empty(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    @click.option("--count", type=int)
    def act(count: int | None) -> None:
        del count

    real = main_module._LazyGroup.get_command
    monkeypatch.setattr(
        main_module._LazyGroup,
        "get_command",
        lambda group, ctx, name: act if name == "act" else real(group, ctx, name),
    )

    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err


def test_help_names_every_command_and_imports_none() -> None:
    code = (
        "import sys; from padiff.cli.main import main; code = main(['--help']);"
        "heavy = {'h5py', 'numpy', 'rich', 'torch', 'paddle', 'padiff.dumpfile'};"
        "print('loaded', sorted(heavy & set(sys.modules)), code)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    for command in ("dump", "compare", "show", "check", "weights", "map"):
        assert f"\n  {command} " in done.stdout
    assert done.stdout.endswith("loaded [] 0\n")


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("padiff ")
