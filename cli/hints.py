"""What the library's options are called on the command line.

Errors are raised below both, and give their hints as a Python call has them.
"""

from __future__ import annotations

__all__ = ["on_the_command_line"]

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
