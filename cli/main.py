"""The ``padiff`` command: finds the subcommand, runs it, and turns what happens into an exit code.

==== =======================================================================
0    success; for comparisons: match
1    the two sides diverged
2    trouble: usage, an unreadable dump, the user's model failed, a bug
129  the terminal was closed (SIGHUP)
130  interrupted (Ctrl-C)
143  terminated (SIGTERM)
==== =======================================================================
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import traceback
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from .hints import CommandGroup, on_the_command_line
from .joblog import defused, from_here
from .signals import Terminated, terminable
from .waiting import end_waiting, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

    from .signals import Handlers
    from .watcher import Blackbox


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
    one: BaseException | None = error
    while one is not None and not isinstance(one, Terminated | KeyboardInterrupt):
        one = one.__cause__ or one.__context__
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
