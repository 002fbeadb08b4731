"""The command line: a thin skin over the packages, one file per command.

Nothing heavy is imported here or in :mod:`padiff.cli.main`: a command's module is loaded when
that command is called.
"""

__all__: list[str] = []
