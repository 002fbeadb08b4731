"""Run a page of the documentation: write its files, run its commands, look at what they print."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from padiff.cli.main import main
from tests.support.printed import end_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w*) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?((?:padiff|python) .*?)(?: {2,}.*| # .*)?$", re.MULTILINE)
DIFFERS = re.compile(r"^(?:DIVERGED|UNSOUND|DIFFER)|\b[1-9]\d* ambiguous", re.MULTILINE)
ELLIPSIS = re.compile(r"^ *(?:…|\.\.\.)\n?", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return language, file name and text of each block of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run_page(
    page: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    changed: Mapping[str, str] | None = None,
) -> set[str]:
    """Write all named blocks into the current folder and run the console blocks in their order.

    What follows a command must be printed by it, in that order and up to rounding; a line ``…``
    stands for any lines. The exit status must be 1 where the page shows a divergence, else 0.

    Args:
        page: The page.
        folder: The current folder.
        capsys: Of pytest.
        changed: Words that a reader replaces, and by what. If given, commands in blocks without a
            language run, too; what stands below them is not looked at.

    Returns:
        The first word or two of each command that ran, such as ``padiff dump``.
    """
    found = blocks(page)
    for _, name, text in found:
        if name:
            (folder / name).write_text(text, encoding="utf-8")
    ran = set()
    for kind, name, text in found:
        if name:  # again, since a command may have written it
            (folder / name).write_text(text, encoding="utf-8")
        for line, expected in commands(kind, text, is_plain_run=changed is not None):
            for word, instead in (changed or {}).items():
                line = line.replace(word, instead)  # noqa: PLW2901 - word by word
            run_line(line, expected, capsys)
            ran.add(" ".join(shlex.split(line)[:2]))
    return ran


def commands(kind: str, text: str, *, is_plain_run: bool) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block, each with what it must print."""
    if kind == "console":
        whole = re.sub(r"\s*\\\n\s*", " ", text)
        for part in re.split(r"^\$ ", whole, flags=re.MULTILINE)[1:]:
            line, _, expected = part.partition("\n")
            yield line, expected
    elif kind == "" and is_plain_run:
        yield from ((line, "") for line in COMMAND.findall(re.sub(r"\s*\\\n\s*", " ", text)))


def run_line(line: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run one command, ``padiff …`` or ``python …``, in this process."""
    program, *words = shlex.split(line)
    code = 0
    capsys.readouterr()
    if program == "python":
        run_python(words)
    else:
        assert program == "padiff", line
        code = main(words)
    out, err = capsys.readouterr()
    assert code == bool(DIFFERS.search(expected)), out + err
    printed, position = " ".join((out + err).split()), 0
    for part in ELLIPSIS.split(expected):
        position, why = end_of(part, printed, position)
        assert position >= 0, f"{line}\nshould print, {why}\n{part}\nbut printed\n{out}{err}"


def run_python(words: list[str]) -> None:
    """Run ``python SCRIPT`` or ``python -c CODE`` in this process."""
    is_code = words[0] == "-c"
    with mock.patch.object(sys, "argv", words[is_code:]):
        if is_code:
            exec(words[1], {"__name__": "__main__"})
        else:
            runpy.run_path(words[0], run_name="__main__")
