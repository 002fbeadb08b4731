"""The ``padiff`` command: finds the subcommand, runs it, and turns what happens into an exit code.

==== =======================================================================
0    success; for comparisons: match
1    the two sides diverged
2    trouble: usage, an unreadable dump, the user's model failed, a bug
129  the terminal was closed (SIGHUP)
130  interrupted (Ctrl-C)
143  terminated (SIGTERM)
==== =======================================================================

Signals become exceptions while a command runs, so that it cleans up behind itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import math
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from .hints import CommandGroup, on_the_command_line
from .joblog import defused, from_here
from .waiting import end_waiting, waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from click.shell_completion import CompletionItem

    from .watcher import Blackbox

    _Handler = Callable[[int, FrameType | None], None]


TROUBLE = 2
INTERRUPTED = 130


_COMMANDS = {
    "dump": "Run a model and record what every module does.",
    "compare": "Find where two dumps first diverge.",
    "compare-logs": "Find where two training logs first diverge.",
    "judge": "Decide a report again at other tolerances.",
    "report": "Render a result in other formats.",
    "extract": "Take one layer out, to run it alone.",
    "pack": "Write a dump as one compressed file.",
    "push": "Put a dump into a store, such as S3.",
    "accept": "Replace an archived baseline, and say why.",
    "show": "Print what a dump holds.",
    "export": "Write the program of a dump for ONNX tools.",
    "check": "Verify that a dump is whole and valid.",
    "audit": "Check that one dump computed what it says.",
    "ops": "Test operators of two frameworks by float64.",
    "replay": "Run a dump's operators in the other framework.",
    "weights": "Plan, convert and compare weights.",
    "map": "Write the pairing of two dumps as a map file.",
}
"""What ``padiff --help`` says of each command without loading its module, which has its name."""
_ATTRIBUTES = {"map": "map_modules"}
"""Commands that their modules do not call as they are called."""
_SECTIONS = {
    "Record and compare": ("dump", "compare", "map", "extract", "audit"),
    "Look into a dump": ("show", "check", "export"),
    "Reports": ("report", "judge", "compare-logs"),
    "Baselines and weights": ("accept", "pack", "push", "weights"),
    "Operators": ("ops", "replay"),
}
"""How ``padiff --help`` groups the commands."""
_COMPLETE = "_PADIFF_COMPLETE"
"""The variable by which a shell asks for completions."""
_WATCHED = frozenset(_COMMANDS) - {"judge", "report", "compare-logs", "ops"}
"""Those that run code or read files that can take the interpreter down. ``ops`` runs code in
processes of its own."""
_OWN_CODE = frozenset(
    {"judge", "report", "compare", "show", "check", "pack", "accept", "audit", "export"}
)
"""Those that run no code of anybody else, whose objects might want to be told of the end."""
_TALKATIVE = frozenset({"dump"})
"""Those that show on a terminal themselves how far they are."""
_HELP = frozenset({"-h", "--help"})


class _LazyGroup(CommandGroup):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command by name."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"padiff.cli.{name}")
        command: click.Command = getattr(module, _ATTRIBUTES.get(name, name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        del ctx
        widest = max(map(len, _COMMANDS))
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                rows = [(f"{name:<{widest}}", _COMMANDS[name]) for name in names]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table, importing no command."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem  # noqa: PLC0415 -- few need it

        return [
            CompletionItem(name, help=summary)
            for name, summary in _COMMANDS.items()
            if name.startswith(incomplete)
        ]


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    """Print the version and stop."""
    if not wanted or ctx.resilient_parsing:
        return
    from padiff.dumpfile import VERSION  # noqa: PLC0415 -- keeps `padiff --help` fast

    click.echo(f"padiff {VERSION}")
    ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def _padiff() -> None:
    """Find the first module where two forms of one model diverge.

    Record each model with `padiff dump`, then compare the two dumps, without any framework,
    with `padiff compare REFERENCE CANDIDATE`.

    Exit codes: 0 match, 1 diverged, 2 trouble, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: What follows the program's name; None takes ``sys.argv``.

    Returns:
        The exit code, see the module's table. Never raises, whatever a command does.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is not None:
        return _guarded(words, None)
    if _COMPLETE in os.environ:  # nothing of a shell's question is to be watched or told
        _padiff.main(prog_name="padiff", complete_var=_COMPLETE)
    _open_streams()
    code = _watched(words)
    if words and words[0] in _OWN_CODE:
        gc.freeze()  # lest the interpreter walk all objects several times before it ends
    return code


def _watched(words: list[str]) -> int:
    """Run one command, in a process that is watched where it could take the interpreter down."""
    if words and words[0] in _WATCHED and not _HELP & set(words):
        from .watcher import can_watch, tell, watched  # noqa: PLC0415 -- keeps `padiff --help` fast

        if can_watch():
            return watched(lambda notes: _guarded(words, notes), lambda crash: tell(crash, words))
    return _guarded(words, None)


def _open_streams() -> None:
    """Open what the caller closed (``padiff ... >&-``), lest a dump's file become the output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _guarded(words: list[str], notes: Blackbox | None) -> int:
    """Run one command under handlers of signals."""
    try:
        with terminable() as handlers:
            return _run(words, notes, handlers)
    except (Terminated, KeyboardInterrupt) as error:  # the latter between two blocks
        return _ended(error)


def _run(words: list[str], notes: Blackbox | None, handlers: Handlers) -> int:
    """Run one command and map every way in which it can end to an exit code."""
    shown = nullcontext() if _TALKATIVE & set(words[:1]) else waiting(_one_line(" ".join(words)))
    try:
        with shown:
            result: Any = _padiff.main(
                args=words, prog_name="padiff", standalone_mode=False, obj=notes
            )
    except click.ClickException as error:
        return _usage(error)
    except (click.Abort, KeyboardInterrupt) as error:
        return _ended(error)
    except SystemExit as error:
        # No command exits this way: click does for a broken pipe on stderr, a user's model may.
        _say("padiff: error: the code that was run called sys.exit")
        _say_notes(error)
        return TROUBLE
    except Exception as error:
        return _by_signal(error, handlers) or _trouble(error)
    return result if isinstance(result, int) else 0


def _by_signal(error: Exception, handlers: Handlers) -> int:
    """Report an error that only came of a signal: C code makes others of its exceptions.

    Returns:
        The exit code; 0 if no signal is behind the error.
    """
    met: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and not isinstance(one, Terminated | KeyboardInterrupt):
        met.append(one)
        one = one.__cause__ or one.__context__
        if any(one is each for each in met):  # raised again from what was raised from it
            one = None
    one = one or handlers.recent()
    if one is None:
        return 0
    for note in getattr(error, "__notes__", ()):
        one.add_note(note)
    return _ended(one)


def _ended(error: BaseException) -> int:
    """Report that somebody ended the command, and return the exit code."""
    _say(f"padiff: {error if isinstance(error, Terminated) else 'interrupted'}")
    _say_notes(error)
    return error.code if isinstance(error, Terminated) else INTERRUPTED


def _usage(error: click.ClickException) -> int:
    """Report a wrong command line, or print the help that stands in for it."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        _say(error.format_message())
        return TROUBLE
    _say(f"padiff: error: {_one_line(error.format_message())}")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        _say(f"hint: {context.command_path} --help")
    return TROUBLE


def _trouble(error: Exception) -> int:
    """Report an error that padiff raised on purpose, or one that it did not expect."""
    errors = sys.modules.get("padiff.dumpfile.errors")  # not loaded: cannot have been raised
    if errors is not None and isinstance(error, errors.PadiffError):
        _say(f"padiff: error: {_one_line(error.message)}")
        for line in error.details:
            indent = line[: len(line) - len(line.lstrip(" "))]  # drawn trees have some
            _say(f"  {indent}{_one_line(line)}")
        if error.hint:
            _say(f"hint: {_one_line(on_the_command_line(error.hint))}")
    elif isinstance(error, MemoryError):
        _say("padiff: error: cannot go on: expected more memory, found none left")
        _say("hint: `ulimit -v` and the container's limit say how much there is")
    elif isinstance(error, OSError):
        _say(f"padiff: error: {_one_line(str(error))}")
    else:
        _say(f"padiff: internal error: {type(error).__name__}: {_one_line(str(error))}")
        _say("hint: this is a bug in padiff; PADIFF_DEBUG=1 prints the traceback")
    _say_notes(error)
    if os.environ.get("PADIFF_DEBUG"):
        _say("".join(traceback.format_exception(error)).rstrip())
    return TROUBLE


def _say_notes(error: BaseException) -> None:
    """Print what the code that the error passed through had to add; click wraps interrupts."""
    for one in (error, error.__cause__):
        for note in getattr(one, "__notes__", ()):
            _say(f"padiff: {_one_line(note)}")


def _one_line(text: str) -> str:
    """Escape what could break the line or drive the terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text.strip()
    )


def _say(text: str) -> None:
    """Print to stderr, whatever state stderr is in; paths below this folder begin there."""
    end_waiting()
    with contextlib.suppress(OSError, ValueError):
        stream = sys.stderr
        encoding = stream.encoding or "ascii"
        stream.write(
            defused(from_here(text)).encode(encoding, "backslashreplace").decode(encoding) + "\n"
        )
        stream.flush()


_BY_SIGNAL = 128
"""Added to a signal's number."""
_TWICE_S = 0.5
"""A second SIGINT within this time is the same one: who signals a process and then its whole group
sends it twice."""
_PATIENCE_S = 10.0
"""After this time a second SIGTERM counts: what was to clean up should have done so."""
_RECENT_S = 2.0
"""An error within this time after a signal came of it."""
_AGAIN_S = 0.02
"""After this time a signal is sent again whose exception was lost."""


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; unwinds the stack so that nothing half-written stays."""

    def __init__(self, number: int) -> None:
        """Keep which one."""
        super().__init__(f"terminated ({signal.Signals(number).name})")
        self.number = number
        self.code = _BY_SIGNAL + number


class Handlers:
    """What is to be done on each signal; one that is ignored (``nohup``) stays so."""

    def __init__(self) -> None:
        self._is_closed = False
        self._raised: BaseException | None = None
        self._raised_s = -math.inf
        self._unraisable = sys.unraisablehook
        self._again: threading.Timer | None = None

    def wanted(self) -> dict[int, _Handler]:
        """Return the handlers to install."""
        found: dict[int, _Handler] = {int(signal.SIGTERM): self._terminate}
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            found[signal.SIGHUP] = self._terminate
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            found[signal.SIGINT] = self._interrupt
        return found

    def recent(self) -> BaseException | None:
        """Return what was raised for a signal a moment ago: C code may lose it in another error."""
        return self._raised if self._elapsed_s() < _RECENT_S else None

    def lost(self, what: sys.UnraisableHookArgs) -> None:
        """Send a signal again that came where no exception can be raised, as in a finalizer."""
        if what.exc_value is not None and what.exc_value is self._raised:
            error, self._raised, self._raised_s = self._raised, None, -math.inf
            self._send_again(error.number if isinstance(error, Terminated) else signal.SIGINT)
        else:
            self._unraisable(what)

    def _send_again(self, number: int) -> None:
        self._again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
        self._again.daemon = True
        self._again.start()

    def close(self) -> None:
        """Raise and send nothing more: all is done, and the old handlers come back."""
        self._is_closed = True
        if self._again is not None:
            self._again.cancel()

    def _terminate(self, number: int, _: FrameType | None) -> None:
        is_ending = isinstance(self._raised, Terminated)
        if not is_ending or self._elapsed_s() > _PATIENCE_S:
            self._raise(Terminated(number))  # one soon after would break the cleaning up off

    def _interrupt(self, _: int, __: FrameType | None) -> None:
        if self._elapsed_s() > _TWICE_S:
            self._raise(KeyboardInterrupt())

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._raised_s

    def _raise(self, error: BaseException) -> None:
        if not self._is_closed:
            self._raised, self._raised_s = error, time.monotonic()
            raise error


@contextlib.contextmanager
def terminable() -> Iterator[Handlers]:
    """Handle signals while the block runs, as far as this is the main thread."""
    handlers = Handlers()
    if threading.current_thread() is not threading.main_thread():
        yield handlers
        return
    previous = {number: signal.signal(number, do) for number, do in handlers.wanted().items()}
    hook, sys.unraisablehook = sys.unraisablehook, handlers.lost
    try:
        yield handlers
    finally:
        handlers.close()
        sys.unraisablehook = hook
        for number, handler in previous.items():
            signal.signal(number, handler)
