"""The help of each command: options in groups, examples at the end, no longer than two screens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from padiff.cli import main as command_line
from padiff.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

SCREEN = 50


def commands() -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that does something."""
    group = command_line._padiff
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from ((name, inner) for inner in found.commands)
        else:
            yield (name,)


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(list(words)) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help_ends_with_examples_of_the_command(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = help_of(capsys, *words, "--help")

    examples = lines[lines.index("Examples:") + 1 :]
    assert any(line.startswith(f"  padiff {' '.join(words)} ") for line in examples)
    assert all(line.startswith("  ") for line in examples)
    assert len(lines) <= 2 * SCREEN


@pytest.mark.parametrize(("page", "option"), [("training", "--loss"), ("script", "--script")])
def test_long_help_has_pages(page: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = "\n".join(help_of(capsys, "dump", "--help"))
    part = "\n".join(help_of(capsys, "dump", f"--help-{page}"))

    assert f"\n  {option} " not in whole
    assert f"--help-{page}" in whole
    assert f"\n  {option} " in part
    assert "\n  --model " not in part


def test_each_option_of_dump_stands_on_some_page(capsys: pytest.CaptureFixture[str]) -> None:
    command = command_line._padiff.get_command(click.Context(command_line._padiff), "dump")
    assert command is not None

    shown = {
        line.split()[0]
        for page in ("--help", "--help-training", "--help-script")
        for line in help_of(capsys, "dump", page)
        if line.startswith("  -")
    }

    known = {option.opts[0] for option in command.params if isinstance(option, click.Option)}
    assert known - shown == set()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["compare", "--atoll", "1", "a", "b"], "Did you mean one of: '--atol'"),
        (["dump", "--wieghts-from", "a"], "'--weights-from'"),
    ],
)
def test_a_mistyped_option_names_the_nearest_ones(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert meant in capsys.readouterr().err
