"""Hints of the command line: mistyped commands, and what the library's options are called here.

Errors are raised below both, and give their hints as a Python call has them.
"""

from __future__ import annotations

import click

_WORDS = {
    "another name": "another --name",
    "a shorter name": "a shorter --name",
    "by out=": "with --out",
    "overwrite=True": "--overwrite",
    "strict=False": "--no-weights-strict",
    "include= and exclude=": "--include and --exclude",
    "include=, depth=": "--include, --depth",
    'phase="forward"': "--phase forward",
    'content="full"': "--content full",
    "set the dropout of these layers to 0": "--no-dropout sets the dropout of these layers to 0",
}


def on_the_command_line(hint: str) -> str:
    """Write a hint with the options of commands.

    >>> on_the_command_line("choose another name, or replace it with overwrite=True")
    'choose another --name, or replace it with --overwrite'
    """
    for python, command in _WORDS.items():
        hint = hint.replace(python, command)
    return hint


class CommandGroup(click.Group):
    """A group whose error on an unknown command says which one was probably meant.

    Click does the same since 8.4, but only of commands that are loaded already.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names.

        Raises:
            click.UsageError: There is none of that name.
        """
        name = args[0]
        is_word = not name.startswith("-") and not ctx.resilient_parsing
        if is_word and self.get_command(ctx, name) is None:
            from difflib import get_close_matches  # noqa: PLC0415 -- keeps `padiff --help` fast

            near = get_close_matches(name, self.list_commands(ctx))
            meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)
