"""The outermost layer: exit codes, messages, and what is not imported."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click
import pytest

from padiff.cli import main as main_module
from padiff.cli.main import main
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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


def test_an_error_that_is_raised_again_from_its_own_wrapper_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        error, wrapper = ConfigError("no such thing"), SystemError("on its way")
        error.__context__, wrapper.__cause__ = wrapper, error
        raise error

    code = run_with(fail, monkeypatch)

    assert code == 2
    assert "padiff: error: no such thing" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_error_that_came_of_a_signal_is_told_as_that(
    number: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work() -> int:
        try:
            os.kill(os.getpid(), number)
        except BaseException as error:  # as CPython does with what a callback of C raised
            raise SystemError("returned a result with an exception set") from error
        return 0

    assert run_with(work, monkeypatch) == code
    assert "internal error" not in capsys.readouterr().err


def test_an_error_in_which_c_code_lost_a_signal_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work() -> int:
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), signal.SIGTERM)
        raise TypeError("expected str, not BufferedReader")

    assert run_with(work, monkeypatch) == 143


def test_a_signal_that_the_code_outlived_leaves_later_errors_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("padiff.cli.main._RECENT_S", 0.0)
    monkeypatch.setattr("padiff.cli.main._PATIENCE_S", 0.0)

    def work(*, again: bool) -> int:
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), signal.SIGTERM)
        if again:
            os.kill(os.getpid(), signal.SIGTERM)
        raise ConfigError("of its own")

    assert run_with(lambda: work(again=False), monkeypatch) == 2
    assert run_with(lambda: work(again=True), monkeypatch) == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_within_a_finalizer_is_not_lost(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No exception gets out of one; Python prints it and goes on."""
    finalized: list[bool] = []

    class Finalized:
        def __del__(self) -> None:
            finalized.append(True)
            os.kill(os.getpid(), number)

    def work() -> int:
        made = Finalized()
        del made
        time.sleep(20)
        return 0

    assert run_with(work, monkeypatch) == code
    assert finalized == [True]


def test_what_else_a_finalizer_raises_is_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(what.exc_value))

    class Broken:
        def __del__(self) -> None:
            raise ValueError("of the user's")

    def work() -> int:
        Broken()
        return 0

    assert run_with(work, monkeypatch) == 0
    assert [str(error) for error in told] == ["of the user's"]


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


@pytest.mark.parametrize(
    ("words", "is_last"), [(["report", "--version"], True), (["weights", "--nothing"], False)]
)
def test_before_the_process_ends_its_objects_are_not_walked_again(
    monkeypatch: pytest.MonkeyPatch, words: list[str], *, is_last: bool
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setenv("PADIFF_WATCH", "0")

    main(words)

    assert not frozen, "a caller's process goes on"

    monkeypatch.setattr(sys, "argv", ["padiff", *words])
    main()

    assert bool(frozen) is is_last


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["acept", "a", "b"], " Did you mean 'accept'?"),
        (["comapre", "a", "b"], " Did you mean 'compare' or 'compare-logs' or 'map'?"),
        (["weights", "comparre", "a", "b"], " Did you mean 'compare'?"),
        (["weights", "plann"], " Did you mean 'plan'?"),
        (["zzz"], ""),
    ],
)
def test_a_mistyped_command_names_the_nearest_ones(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(words)

    typo = next(word for word in words if word != "weights")
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == f"padiff: error: No such command {typo!r}.{meant}"


@pytest.mark.parametrize("module", ["padiff", "padiff.cli"])
@pytest.mark.parametrize(
    ("words", "code", "stream", "text"),
    [
        (["--version"], 0, "stdout", "padiff "),
        (["--help"], 0, "stdout", "Usage: padiff "),
        (["compare", "nothing", "nowhere"], 2, "stderr", "padiff: error: "),
    ],
)
def test_the_package_runs_as_the_command_does(
    module: str, words: list[str], code: int, stream: str, text: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code
    assert getattr(done, stream).startswith(text)


def test_messages_name_paths_from_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["check", str(tmp_path / "runs" / "nothing")]) == 2
    assert main(["show", str(tmp_path.parent / "nothing")]) == 2

    here, above = capsys.readouterr().err.splitlines()[:2]
    assert here.startswith("padiff: error: cannot read dump 'runs/nothing': ")
    assert str(tmp_path.parent / "nothing") in above
