"""The documentation names every command and option, its links lead somewhere, and it is general."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from padiff.cli import main as command_line

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
TEXTS = ("*.md", "*.py", "*.sh", "*.toml", "Makefile", "run")
FOLDERS = (
    ".ci", "api", "benchmarks", "cli", "comparer", "docs", "dumper", "dumpfile", "examples",
    "ops", "pairing", "program", "tests",
)  # fmt: skip
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|opt/v|home/\w+|Users/\w+)/")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command below ``padiff``, with its words."""
    group = command_line._padiff
    waiting: list[tuple[str, click.Command]] = [("padiff", group)]
    while waiting:
        words, command = waiting.pop()
        yield words, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                waiting.append((f"{words} {name}", found))


def section(text: str, words: str) -> str:
    """Give the part of the document under a command's heading; all of it for ``padiff`` itself."""
    if words == "padiff":
        return text
    parts = re.split(r"^#+ `([^`]+)`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(words, "")


def test_every_command_and_option_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    missing = []
    for words, command in commands():
        part = section(text, words)
        if not part:
            missing.append(words)
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                names = [*option.opts, *option.secondary_opts]
                missing += [f"{words} {name}" for name in names if f"`{name}`" not in part]

    assert missing == []


def test_nothing_is_documented_that_does_not_exist() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    known = {words for words, _ in commands()}

    assert set(re.findall(r"^#+ `([^`]+)`$", text, flags=re.MULTILINE)) == known - {"padiff"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    targets = [
        target.partition("#")[0] for target in LINK.findall(path.read_text(encoding="utf-8"))
    ]
    local = [target for target in targets if target and "://" not in target]

    assert [target for target in local if not (path.parent / target).exists()] == []


def test_no_text_names_a_place_on_somebodys_machine() -> None:
    files = [file for name in TEXTS for folder in FOLDERS for file in (ROOT / folder).rglob(name)]
    files += [file for name in TEXTS for file in ROOT.glob(name)]
    assert len(files) > 100

    found = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in files
        if file != Path(__file__)
        for match in MACHINE_PATH.finditer(file.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_tests_that_the_documents_name_are_there() -> None:
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}

    named = {
        (page.name, name)
        for page in DOCUMENTS
        for name in re.findall(r"\btest_\w+\.py\b", page.read_text(encoding="utf-8"))
    }

    assert named
    assert {one for one in named if one[1] not in known} == set()
