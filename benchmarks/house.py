"""Counts the house: ``python -m benchmarks.house``. Files, lines, complexity, cycles of imports."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
PACKAGES = ("dumpfile", "program", "pairing", "dumper", "comparer", "ops", "cli", "api")
COMPLEX = 10
"""Branches of a function above which ruff's C901 counts it (McCabe)."""


def main() -> None:
    """Print a row for each package, then what holds for all of them."""
    print(f"{'':12}{'files':>7}{'lines':>9}{'median file':>13}{'functions':>11}{'over 30':>9}")
    totals = [0] * 4
    for name in PACKAGES:
        paths = sorted((ROOT / name).rglob("*.py"))
        sizes = [len(path.read_text(encoding="utf-8").splitlines()) for path in paths]
        lengths = [length for path in paths for length in _functions(path)]
        row = len(paths), sum(sizes), len(lengths), sum(one > 30 for one in lengths)
        totals = [before + now for before, now in zip(totals, row, strict=True)]
        middle = statistics.median(sizes)
        print(f"{name:12}{row[0]:7}{row[1]:9,}{middle:13.0f}{row[2]:11,}{row[3]:9}")
    print(f"{'all':12}{totals[0]:7}{totals[1]:9,}{'':13}{totals[2]:11,}{totals[3]:9}")
    graph = grimp.build_graph("padiff", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    lone = sum(len(graph.find_modules_that_directly_import(name)) == 1 for name in graph.modules)
    print(f"\nfunctions with more than {COMPLEX} branches: {_complex()}")
    print(f"files that one other file imports: {lone} of {len(graph.modules)}")
    print(f"cycles of imports, those for types included: {len(_cycles(imports))}")
    graph = grimp.build_graph("padiff", exclude_type_checking_imports=True, cache_dir=None)
    cycles = _cycles({one: graph.find_modules_directly_imported_by(one) for one in graph.modules})
    print(f"cycles of imports that run: {len(cycles)}")
    for cycle in cycles:
        print(f"  {' '.join(cycle)}")


def _functions(path: Path) -> Iterator[int]:
    """Yield the lines of each function of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def _complex() -> int:
    """Count the functions that ruff calls complex, exempted ones included."""
    command = [
        *(sys.executable, "-m", "ruff", "check", "--select", "C901", "--ignore-noqa"),
        *("--config", f"lint.mccabe.max-complexity={COMPLEX}", "--output-format", "concise"),
        *PACKAGES,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.count("C901")


def _cycles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the cycles of a graph: its strongly connected parts of more than one module.

    Tarjan, Depth-first search and linear graph algorithms, SIAM Journal on Computing 1, 1972.
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(imports[name] & imports.keys()):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            place = stack.index(name)
            found.append(set(stack[place:]))
            del stack[place:]

    for name in sorted(imports):
        if name not in order:
            visit(name)
    return [sorted(one) for one in found if len(one) > 1]


if __name__ == "__main__":
    main()
