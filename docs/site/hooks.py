"""Fill the reference pages when the site is built: commands, Python, JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.testing import CliRunner
from mkdocs.exceptions import PluginError

import padiff
from padiff.cli import main as command_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mkdocs.structure.pages import Page

SCHEMA = Path(__file__).parents[1] / "report.schema.json"
EXTERNAL = re.compile(r"<(?:script|img|link|iframe)\b[^>]+(?:src|href)=.https?:[^>]+")
NAMED_BLOCK = re.compile(r"^```(\w+) ([\w.]+)$", re.MULTILINE)
CELL = re.compile(r"<td[ >].*?</td>", re.DOTALL)
GENERATED = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
WIDTH = 86
"""Columns of the help, so that it fits the page of a laptop."""


def on_page_markdown(markdown: str, **_: object) -> str:
    """Fill lines ``<!-- generated: NAME -->``; make the name of a block's file its title."""
    titled = NAMED_BLOCK.sub(r'```\1 title="\2"', markdown)
    return GENERATED.sub(lambda found: PARTS[found[1]](), titled)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Refuse a page that loads anything from a network; take the escapes out of cells' code."""
    if found := EXTERNAL.search(output):
        raise PluginError(f"cannot build {page.file.src_uri}: it loads {found[0]!r}")
    return CELL.sub(lambda found: found[0].replace("\\|", "|"), output)


def command_pages() -> str:
    """Write what each command prints as help, on all its pages, below a heading of its own."""
    root = click.Context(command_line._padiff, info_name="padiff")
    return "\n\n".join(text for context in contexts(root) for text in command_page(context))


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of each command that does something itself, in the order of the help."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        if found := command.get_command(context, name):
            yield from contexts(click.Context(found, info_name=name, parent=context))


def command_page(context: click.Context) -> Iterator[str]:
    """Yield the Markdown of one command: a heading, and the text of ``--help`` and its kin."""
    yield f"## `{context.command_path}`"
    names = [name for option in context.command.get_params(context) for name in option.opts]
    for name in sorted({name for name in names if name.startswith("--help")}):
        words = [*context.command_path.split()[1:], name]
        printed = CliRunner().invoke(
            command_line._padiff, words, prog_name="padiff", terminal_width=WIDTH
        )
        if printed.exit_code:
            raise PluginError(f"cannot print the help of {' '.join(words)!r}: {printed.output}")
        yield f"```text\n{printed.output.strip()}\n```"


def cell(text: str) -> str:
    """Put text into a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("``", "`")


def python_pages() -> str:
    """Name each public object for mkdocstrings, in alphabetical order."""
    return "\n\n".join(f"::: padiff.{name}" for name in padiff.__all__ if not name.startswith("_"))


def json_pages() -> str:
    """Write a table for each object of the schema of a report."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    objects = {"The report": schema, **schema["$defs"]}
    return "\n".join(line for name, entry in objects.items() for line in json_object(name, entry))


def json_object(name: str, entry: dict[str, Any]) -> Iterator[str]:
    """Yield the Markdown of one definition."""
    yield f"\n## {name}\n\n{cell(entry.get('description', ''))}\n"
    if "enum" in entry:
        yield ", ".join(f"`{word}`" for word in entry["enum"])
    if entry.get("properties"):
        yield "| entry | type | meaning |\n|---|---|---|"
        for key, part in entry["properties"].items():
            yield f"| `{key}` | {json_type(part)} | {cell(part.get('description', ''))} |"


def json_type(part: Any) -> str:  # noqa: ANN401
    """Write the type of an entry, with links to other definitions."""
    if not isinstance(part, dict):
        return "any"
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in part or "enum" in part:
        return ", ".join(f"`{word}`" for word in part.get("enum", [part.get("const")]))
    if "anyOf" in part:
        return " or ".join(json_type(one) for one in part["anyOf"])
    if part.get("type") == "array":
        return f"list of {json_type(part.get('items', {}))}"
    return str(part.get("type", "any"))


PARTS: dict[str, Callable[[], str]] = {
    "commands": command_pages,
    "python": python_pages,
    "json": json_pages,
}
