"""Show which call fed which input, where code between modules made a value, where nan began."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.comparer.locating.between import called, describe_feed
from padiff.comparer.locating.dataflow import Flow, Source
from padiff.comparer.locating.nonfinite import find_nonfinite
from padiff.comparer.report.numbers import count, plural
from padiff.dumpfile import Role

from .show_program import groups, marks
from .show_text import in_tree_order, shape_text
from .spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from padiff.comparer.locating.dataflow import Feed
    from padiff.comparer.locating.nonfinite import Nonfinite
    from padiff.comparer.report.style import Canvas
    from padiff.dumpfile import JSON, Index
    from padiff.program import Operator, RecordedProgram

    from .show_program import Group
    from .show_text import Choice


_MARKS = {Source.GLUE: "<--- changed between modules", Source.MOVED: "<--- moved between modules"}


def draw_flow(canvas: Canvas, index: Index, choice: Choice) -> None:
    """List what fed every input, and every output that a call took over or made of its calls'."""
    flow = Flow(index)
    feeds = list(_chosen(flow, choice))
    counts = Counter(feed.made for feed in feeds)
    canvas.heading(
        f"STEP {index.step} RANK {index.rank}",
        f"data flow: {plural(len(feeds), 'tensor')}, {counts[Source.GLUE]} changed and "
        f"{counts[Source.MOVED]} moved by code between modules",
    )
    if not feeds:
        canvas.line("  nothing: no call with inputs is recorded, or none was chosen")
        return
    canvas.table(
        ["tensor", "shape", "is", ""],
        [_row(canvas, flow, feed) for feed in feeds],
        wrapping=("tensor", "is"),
    )


def flow_to_json(index: Index, choice: Choice) -> JSON:
    """Return the same for programs; records are named by their position in the dump's index."""
    flow = Flow(index)
    return [
        {
            "record": feed.record,
            "address": str(index.address(index.records[feed.record])),
            "made": str(feed.made),
            "source": feed.source,
            "source_address": None
            if feed.source is None
            else str(index.address(index.records[feed.source])),
            "around": _call_name(index, feed.around),
            "after": _call_name(index, feed.after),
            "before": _call_name(index, feed.before),
        }
        for feed in _chosen(flow, choice)
    ]


def _chosen(flow: Flow, choice: Choice) -> Iterator[Feed]:
    wanted = choice.wanted(flow.index)
    for feed in flow.feeds():
        if flow.index.records[feed.record].module in wanted:
            yield feed


def _row(canvas: Canvas, flow: Flow, feed: Feed) -> list[str | Text]:
    record = flow.index.records[feed.record]
    call = flow.index.calls[record.call or 0]
    name = flow.index.modules[record.module].path or "(root)"
    name += f"#{call.index}" if call.index else ""
    arrow = "" if record.role is Role.INPUT else "returns "
    return [
        canvas.safe(f"{name} {arrow}{record.role}{record.slot}"),
        shape_text(record.shape),
        canvas.safe(describe_feed(flow, feed)),
        _MARKS.get(feed.made, ""),
    ]


def _call_name(index: Index, call: int | None) -> str | None:
    return None if call is None else called(index, call)


def draw_nonfinite(canvas: Canvas, index: Index, choice: Choice) -> None:
    """List every record with nan or inf in execution order, the source of each flow marked."""
    found = _chosen_nonfinite(index, choice)
    canvas.heading(f"STEP {index.step} RANK {index.rank}", "records with nan or inf")
    if not found:
        canvas.line("  none: all recorded values are finite")
        return
    first = next((one for one in found if one.is_source), None)
    if first is not None:
        address = _address(index, first)
        canvas.line(f"  first made at {canvas.safe(address)}: {canvas.safe(first.remark)}")
    canvas.table(
        ["record", "shape", "nan", "+inf", "-inf", ""],
        [_nonfinite_row(canvas, index, one) for one in found],
        wrapping=("record", ""),
    )


def nonfinite_to_json(index: Index, choice: Choice) -> JSON:
    """Return the same for programs."""
    return [
        {
            "record": one.record,
            "address": str(index.address(index.records[one.record])),
            "is_source": one.is_source,
            "remark": one.remark,
        }
        for one in _chosen_nonfinite(index, choice)
    ]


def _chosen_nonfinite(index: Index, choice: Choice) -> list[Nonfinite]:
    wanted = choice.wanted(index)
    return [one for one in find_nonfinite(index) if index.records[one.record].module in wanted]


def _address(index: Index, one: Nonfinite) -> str:
    """Name a record without step and rank, which the heading has."""
    record = index.records[one.record]
    call = "" if record.call is None else f"#{index.calls[record.call].index}"
    return f"{index.modules[record.module].path or '(root)'}{call} {record.role}{record.slot}"


def _nonfinite_row(canvas: Canvas, index: Index, one: Nonfinite) -> list[str | Text]:
    record = index.records[one.record]
    statistics = index.values[record.value or 0].statistics
    mark = f"<--- {one.remark}" if one.is_source else one.remark
    return [
        canvas.safe(_address(index, one)),
        shape_text(record.shape),
        count(statistics.nan),
        count(statistics.posinf),
        count(statistics.neginf),
        canvas.safe(mark),
    ]


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
