"""Every block of every page is run by a test, or the table says why not; each command exists."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import TYPE_CHECKING

import click
import pytest

from tests.architecture.test_docs import ROOT, commands
from tests.support.pages import ELLIPSIS

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FOLDERS = (".", "docs", "docs/guides", "docs/reference", "examples")
PAGES = sorted(
    page
    for folder in FOLDERS
    for page in (ROOT / folder).glob("*.md")
    if page.name != "CHANGELOG.md"
)
ON_PAGES = "tests/frameworks/test_pages.py"
HERE = "tests/architecture/test_page_blocks.py"
"""Commands, options, extras and targets of make are looked up; what they print is not shown."""
DRAWN = "a drawing, no code"

RUN: dict[str, dict[str, str]] = {
    "README.md": {"console": ON_PAGES, "sh": HERE},
    "CONTRIBUTING.md": {"": f"{DRAWN}, beside targets of make: {HERE}"},
    "docs/audit.md": {
        "console": ON_PAGES,
        "python": "a part of a test of the reader's: tests/frameworks/test_pytest_plugin.py",
    },
    "docs/ci.md": {
        "sh": "tests/e2e/test_ci_page.py",
        "yaml": "tests/e2e/test_ci_page.py",
        "python": "parts of tests of the reader's: tests/frameworks/test_pytest_plugin.py",
        "": "the dumps are the reader's: tests/unit/comparer/test_baseline.py",
    },
    "docs/cli.md": {
        "": f"examples beside the options of each command: {HERE}; completion: "
        "tests/e2e/test_completion.py; ResNet-18: README.md"
    },
    "docs/executed.md": {
        "console": ON_PAGES,
        "": "lines of reports: of README.md; of a coincidence, of an update: "
        "tests/frameworks/test_executed_coincidences.py, "
        "tests/frameworks/test_executed_updates.py",
    },
    "docs/format.md": {
        "json": "tests/unit/dumpfile/test_format_page.py",
        "python": "tests/unit/dumpfile/test_format_page.py",
        "": DRAWN,
    },
    "docs/frameworks.md": {
        "": "ONNX as in README.md; each other framework needs an environment of its own, and has "
        f"its tests in tests/adapters; commands and options: {HERE}",
        "toml": "a package of the reader's: tests/frameworks/test_adapter_suite.py",
        "python": "a package of the reader's: tests/frameworks/test_adapter_suite.py",
    },
    "docs/guides/cnn.md": {"console": ON_PAGES},
    "docs/guides/coming-from.md": {"console": ON_PAGES},
    "docs/guides/llm.md": {"console": ON_PAGES},
    "docs/guides/onnx.md": {"console": ON_PAGES, "sh": HERE},
    "docs/guides/training.md": {
        "console": ON_PAGES,
        "": f"the script is the reader's; docs/training.md runs one: {ON_PAGES}",
        "python": "a part of a loop of the reader's: tests/frameworks/test_training_torch.py",
    },
    "docs/map.md": {"console": "tests/e2e/test_map_page.py", "toml": "tests/e2e/test_map_page.py"},
    "docs/migration.md": {"console": "tests/e2e/test_migration_page.py"},
    "docs/operators.md": {
        "console": ON_PAGES,
        "": ON_PAGES,
        "json": "a line of a file that the commands write",
        "toml": "tests/e2e/test_ops.py",
        "python": "tests/e2e/test_ops.py, tests/frameworks/test_autotest.py",
    },
    "docs/python.md": {
        "python": "tests/frameworks/test_python_page.py",
        "text": "tests/frameworks/test_python_page.py",
        "": "two frameworks, a process each: tests/frameworks/test_compare_models.py",
    },
    "docs/scale.md": {
        "": f"the dumps are the reader's; options: {HERE}, ranks: tests/e2e/test_scheduler.py",
        "python": "tests/e2e/test_scheduler.py, with a cluster of this machine",
        "toml": "a package of the reader's: tests/e2e/test_scheduler.py",
    },
    "docs/score.md": {"sh": f"takes half an hour: tests/frameworks/test_score.py, {HERE}"},
    "docs/sharded.md": {
        "console": "tests/frameworks/test_logical.py",
        "": "tests/frameworks/test_logical.py",
        "toml": "tests/frameworks/test_logical.py",
    },
    "docs/start.md": {"console": ON_PAGES, "sh": HERE},
    "docs/training.md": {
        "": ON_PAGES,
        "python": "a part of a loop of the reader's: tests/frameworks/test_training_torch.py",
    },
    "docs/weights.md": {
        "console": ON_PAGES,
        "": ON_PAGES,
        "python": "tests/unit/pairing/weights/test_class_rule.py",
        "toml": "tests/unit/cli/test_weights.py",
    },
    "examples/README.md": {"": "tests/e2e/test_main_job.py"},
}
"""By page and language, which test runs its blocks, or why none does and what is tested instead.

Blocks with a file's name belong to the console blocks below them. Translations have the blocks of
the English page, which ``test_a_translation_has_the_commands_and_files_of_its_page`` asks.
"""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def is_translation(page: Path) -> bool:
    return page.name.endswith((".zh.md", ".zh-CN.md"))


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and text of the blocks of a page that have no file's name."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(head, text) for head, text in found if " " not in head]


def test_the_table_has_every_block_and_nothing_else() -> None:
    found = {
        name_of(page): {kind for kind, _ in blocks(page)}
        for page in PAGES
        if not is_translation(page)
    }

    assert {name: set(kinds) for name, kinds in RUN.items()} == {
        name: kinds for name, kinds in found.items() if kinds
    }


def test_the_tests_and_pages_of_the_table_are_there() -> None:
    named = {
        name
        for kinds in RUN.values()
        for said in kinds.values()
        for name in re.findall(r"\b(?:tests|docs)/[\w/.-]*\w|README\.md", said)
    }

    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def options() -> dict[str, set[str]]:
    """Return the options of each command, and of those above it, by its words."""
    own = {
        words: {
            name
            for option in command.params
            if isinstance(option, click.Option)
            for name in [*option.opts, *option.secondary_opts]
        }
        for words, command in commands()
    }
    return {words: found | {"--help", "--version"} for words, found in own.items()}


def command_lines(page: Path) -> list[str]:
    """Return the lines of a page that call padiff, of blocks and of code within the text."""
    text = page.read_text(encoding="utf-8")
    found = [line for _, block in BLOCK.findall(text) for line in joined(block)]
    found += CODE.findall(BLOCK.sub("", text))
    return [
        match[1] for line in found
        if (match := re.match(r"\s*(?:\$ |- run: |run: )?(padiff [a-z].*)", line))
    ]  # fmt: skip


def joined(block: str) -> list[str]:
    """Return the lines of a block, continued ones as one."""
    return re.sub(r"\s*\\\n\s*", " ", block).splitlines()


def wrong_in(line: str, known: dict[str, set[str]]) -> list[str]:
    """Return the command or the options of a line that do not exist."""
    try:
        words = shlex.split(line.replace("…", " "), comments=True)
    except ValueError:  # a part of a sentence
        words = line.split()
    words = words[: words.index("--")] if "--" in words else words
    words = words[: next((at for at, word in enumerate(words) if word in {"|", "||", "&&"}), None)]
    command = next(
        (" ".join(words[:size]) for size in (3, 2) if " ".join(words[:size]) in known), None
    )
    if command is None:
        return [line]
    given = [
        word.partition("=")[0].strip("[],") for word in words if re.match(r"\[?--?[a-z]", word)
    ]
    return [f"{command} {name}" for name in given if name not in known[command]]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_options_of_a_page_exist(page: Path) -> None:
    known = options()

    wrong = [one for line in command_lines(page) for one in wrong_in(line, known)]

    assert wrong == []


def test_what_does_not_exist_is_found() -> None:
    known = options()

    assert wrong_in("padiff compare A B --atol 1 --nothing x", known) == [
        "padiff compare --nothing"
    ]
    assert wrong_in("padiff weights plan A B --atoll=1", known) == ["padiff weights plan --atoll"]
    assert wrong_in("padiff nothing A", known) == ["padiff nothing A"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_extras_and_targets_of_make_exist(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")

    extras = {
        extra.strip()
        for listed in re.findall(r"(?:padiff-align|['\"]\.)\[([\w, ]+)\]", text)
        for extra in listed.split(",")
    }
    targets = set(re.findall(r"^make ([a-z-]+)", text, flags=re.MULTILINE))
    targets |= {code.split()[1] for code in CODE.findall(text) if re.match(r"make [a-z]", code)}

    assert extras <= set(project["optional-dependencies"])
    assert [one for one in targets if not re.search(rf"^{one}:", makefile, re.MULTILINE)] == []


def test_lines_of_the_readmes_report_are_those_of_the_readme() -> None:
    page = (ROOT / "docs" / "executed.md").read_text(encoding="utf-8")
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    shown = next(text for kind, text in BLOCK.findall(page) if "epsilon of batch_norm" in text)

    for part in ELLIPSIS.split(shown):
        assert " ".join(part.split()) in readme
