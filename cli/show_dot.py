"""Show a program as a graph in the language of Graphviz."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .show_program import groups, marks
from .show_text import in_tree_order
from .spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.program import Operator, RecordedProgram

    from .show_program import Group
    from .show_text import Choice


DEEPEST_INDENT = 20


def dot_lines(recorded: RecordedProgram, choice: Choice) -> Iterator[str]:
    """Yield the lines of a graph: operators in clusters of modules, values as edges.

    Args:
        recorded: The program of one step and rank.
        choice: Which modules to show; what others made is drawn as a box.
    """
    index, spelling = recorded.index, Spelling(recorded, plain=True)
    yield f"digraph {_quoted(f'step {index.step} rank {index.rank}')} {{"
    yield "  node [shape=ellipse, fontsize=10]; edge [fontsize=8]; rankdir=TB;"
    found = list(groups(recorded, choice))
    for group in found:
        if group.module is None:
            yield from (_node(spelling, one, "  ") for one in group.operators)
    yield from _clusters(recorded, choice, spelling, found)
    yield from _edges(recorded, spelling, {one.id for group in found for one in group.operators})
    yield "}"


def _quoted(*lines: str) -> str:
    """Return a string of Graphviz; the lines are printable already."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


def _indent(depth: int) -> str:
    return "  " * min(depth, DEEPEST_INDENT)


def _node(spelling: Spelling, operator: Operator, indent: str) -> str:
    extra = ", ".join(marks(operator))
    site = spelling.site(operator.site)
    label = [one for one in (spelling.operator(operator), site, extra) if one]
    return f"{indent}o{operator.id} [label={_quoted(*label)}];"


def _clusters(
    recorded: RecordedProgram, choice: Choice, spelling: Spelling, found: list[Group]
) -> Iterator[str]:
    """Yield the modules that operators ran in, one inside the other as in the model."""
    operators: dict[int, list[Operator]] = {}
    modules = recorded.index.modules
    for group in found:
        if group.module is not None:
            operators.setdefault(group.module.id, []).extend(group.operators)
    drawn: set[int] = set()
    for id_ in operators:
        above: int | None = id_
        while above is not None and above not in drawn:
            drawn.add(above)
            above = modules[above].parent
    open_ = 0
    for module, trunk in in_tree_order(recorded.index, choice):
        if module.id not in drawn:
            continue
        while open_ > len(trunk):
            yield _indent(open_) + "}"
            open_ -= 1
        open_ += 1
        label = _quoted(spelling.safe(f"{module.path or '(root)'}  {module.class_name}"))
        yield f"{_indent(open_)}subgraph cluster_{module.id} {{ label={label};"
        indent = _indent(open_ + 1)
        yield from (_node(spelling, one, indent) for one in operators.get(module.id, ()))
    for depth in range(open_, 0, -1):
        yield _indent(depth) + "}"


def _edges(recorded: RecordedProgram, spelling: Spelling, shown: set[int]) -> Iterator[str]:
    """Yield an edge from the operator or leaf to each operator that takes its value."""
    values = recorded.program.values
    boxes: set[int] = set()
    for operator in recorded.program.operators:
        if operator.id not in shown:
            continue
        for id_ in dict.fromkeys(operator.taken):
            producer = values[id_].producer
            if producer is not None and producer in shown:
                label = _quoted(spelling.value(id_), spelling.spec(id_))
                yield f"  o{producer} -> o{operator.id} [label={label}];"
                continue
            if id_ not in boxes:
                boxes.add(id_)
                label = _quoted(spelling.value(id_), spelling.spec(id_))
                yield f"  v{id_} [shape=box, label={label}];"
            yield f"  v{id_} -> o{operator.id};"
