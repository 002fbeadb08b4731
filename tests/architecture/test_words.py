"""The first line of a docstring begins with what the function does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_OURS = {"tests", "benchmarks", "build", "docs", "examples", "src"}
VAGUE = ("Give ", "Say ", "Tell ")
"""Words for a function that returns something: they leave open what it does."""
BEGINS = re.compile(rf"[\"']\s*(?:{'|'.join(VAGUE)})")
"""What a file has that has such a docstring."""


def test_no_function_that_returns_something_gives_says_or_tells() -> None:
    files = [
        file
        for folder in sorted({init.parent for init in ROOT.glob("*/__init__.py")})
        if folder.name not in NOT_OURS
        for file in folder.rglob("*.py")
    ]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    assert sum(text.count("def ") for text in texts.values()) > 5000

    functions = [
        (file, node)
        for file, text in texts.items()
        if BEGINS.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.returns is not None
    ]

    vague = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file, node in functions
        if ast.unparse(node.returns or ast.Constant(None)) != "None"
        and (ast.get_docstring(node) or "").startswith(VAGUE)
    ]

    assert vague == []
