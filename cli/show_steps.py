"""All that ``padiff show`` says of a dump, as text or as JSON.

Show which call fed which input, where code between modules made a value, where nan began.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.comparer.locating.between import called, describe_feed
from padiff.comparer.locating.dataflow import Flow, Source
from padiff.comparer.locating.nonfinite import find_nonfinite
from padiff.comparer.report.numbers import count, plural
from padiff.comparer.report.style import Canvas
from padiff.dumpfile import Role
from padiff.program import argument_to_json, read_program

from .output import emit, emit_lines, is_plain, render_to_text
from .show_program import (
    find_holes,
    groups,
    hole_lines,
    marks,
    no_program,
    program_lines,
    step_line,
)
from .show_text import Choice, draw_manifest, draw_step, in_tree_order, shape_text
from .spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from padiff.comparer.locating.dataflow import Feed
    from padiff.comparer.locating.nonfinite import Nonfinite
    from padiff.dumpfile import JSON, Dump, FileInfo, Index, RecordInfo, StepFile
    from padiff.program import Operator, RecordedProgram

    from .show_program import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """What to say of each step; the module tree where nothing else was asked for."""

    nonfinite: bool = False
    flow: bool = False
    program: bool = False
    holes: bool = False

    @property
    def needs_program(self) -> bool:
        """Whether programs have to be read."""
        return self.program or self.holes

    @property
    def is_drawn(self) -> bool:
        """Whether there is something to draw on a console besides the manifest."""
        return self.nonfinite or self.flow or not self.needs_program


def print_text(
    dump: Dump, files: Sequence[FileInfo], choice: Choice, sections: Sections, *, max_rows: int
) -> None:
    """Print the manifest, then every step as soon as it is there."""

    def draw(console: Console) -> None:
        canvas = Canvas(console=console, max_rows=max_rows)
        draw_manifest(canvas, dump.manifest)
        for file in files if sections.is_drawn else ():
            with dump.open(file.step, file.rank) as opened:
                _draw_sections(canvas, opened.index, choice, sections)

    emit(render_to_text(draw))
    for file in files if sections.needs_program else ():
        with dump.open(file.step, file.rank) as opened:
            emit_lines(_lines(dump, opened, choice, sections, max_rows=max_rows))


def _draw_sections(canvas: Canvas, index: Index, choice: Choice, sections: Sections) -> None:
    """Draw one step: its tree, or what was asked for instead."""
    if sections.nonfinite:
        draw_nonfinite(canvas, index, choice)
    if sections.flow:
        draw_flow(canvas, index, choice)
    if not (sections.nonfinite or sections.flow):
        draw_step(canvas, index, choice)


def _lines(
    dump: Dump, file: StepFile, choice: Choice, sections: Sections, *, max_rows: int
) -> Iterator[str]:
    """Yield the lines of a step's program, of its holes, or of why there are none."""
    recorded, plain = read_program(file), is_plain()
    if recorded is None:
        yield from ("", step_line(file.index), f"  {no_program(dump.manifest, plain=plain)}")
        return
    if sections.program:
        yield from program_lines(recorded, choice, plain=plain, max_rows=max_rows)
    if sections.holes:
        yield from hole_lines(recorded, choice, plain=plain, max_rows=max_rows)


def print_dot(dump: Dump, files: Sequence[FileInfo], choice: Choice) -> None:
    """Print the program of every step as a graph of Graphviz."""
    for file in files:
        with dump.open(file.step, file.rank) as opened:
            recorded = read_program(opened)
            if recorded is None:
                emit_lines([f"// {step_line(opened.index)}: {no_program(dump.manifest)}"])
            else:
                emit_lines(dot_lines(recorded, choice))


def to_json(
    dump: Dump, files: Sequence[FileInfo], choice: Choice, sections: Sections
) -> dict[str, object]:
    """Return the manifest and every step, with what was asked for besides; steps are made late."""
    return {
        "manifest": _as_object(dump.manifest),
        "steps": _steps(dump, files, choice, sections),
    }


def _steps(
    dump: Dump, files: Sequence[FileInfo], choice: Choice, sections: Sections
) -> Iterator[dict[str, object]]:
    for file in files:
        with dump.open(file.step, file.rank) as opened:
            found: dict[str, object] = dict(step_to_json(opened.index, choice))
            if sections.nonfinite:
                found["nonfinite"] = nonfinite_to_json(opened.index, choice)
            if sections.flow:
                found["flow"] = flow_to_json(opened.index, choice)
            recorded = read_program(opened) if sections.needs_program else None
            if sections.program:
                found["program"] = program_to_json(recorded, choice)
            if sections.holes:
                found["holes"] = holes_to_json(recorded, choice)
            yield found


def step_to_json(index: Index, choice: Choice) -> dict[str, JSON]:
    """Return the modules, calls and records of one step and rank."""
    wanted = choice.wanted(index)
    calls = [
        {"module_path": index.modules[call.module].path, **_row(call)}
        for call in index.calls
        if call.module in wanted
    ]
    return {
        "step": index.step,
        "rank": index.rank,
        "modules": [_as_object(module) for module in index.modules if module.id in wanted],
        "calls": list(calls),
        "records": [_record(index, record) for record in index.records if record.module in wanted],
    }


def _record(index: Index, record: RecordInfo) -> JSON:
    """Return one record with its address and the statistics of its value."""
    value = None if record.value is None else index.values[record.value]
    return {
        "address": _as_object(index.address(record)),
        "order": record.order,
        "shape": list(record.shape),
        "layout": _as_object(record.layout),
        "dtype": "none" if value is None else value.dtype,
        "requires_grad": record.requires_grad,
        "value": record.value,
        "digest": None if value is None else value.digest,
        "statistics": None if value is None else _as_object(value.statistics),
    }


def _row(thing: object) -> dict[str, JSON]:
    """Return a dataclass as an object."""
    plain = _as_object(thing)
    return plain if isinstance(plain, dict) else {}


def _as_object(thing: object) -> JSON:
    """Turn dataclasses, mappings and tuples into what strict JSON can carry."""
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
        return {name: _as_object(getattr(thing, name)) for name in names}
    if isinstance(thing, Mapping):
        return {str(key): _as_object(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_as_object(item) for item in thing]
    return _scalar(thing)


def _scalar(thing: object) -> JSON:
    """Turn one value into what strict JSON can carry."""
    if thing is None or isinstance(thing, bool | int):
        return thing
    if isinstance(thing, float):
        return thing if math.isfinite(thing) else str(thing)
    return str(thing)


def program_to_json(recorded: RecordedProgram | None, choice: Choice) -> dict[str, object] | None:
    """Return a program in the order of execution; its lists are iterators."""
    if recorded is None:
        return None
    index = recorded.index
    wanted = choice.wanted(index) if choice.include else None
    return {
        "framework": recorded.program.framework,
        "outputs": list(recorded.program.outputs),
        "values": _values(recorded),
        "operators": (
            _operator(recorded, one)
            for one in recorded.program.operators
            if wanted is None or (one.call is not None and index.calls[one.call].module in wanted)
        ),
        "construction": program_to_json(recorded.construction, Choice()),
    }


def holes_to_json(recorded: RecordedProgram | None, choice: Choice) -> list[JSON] | None:
    """Return the holes of a program; None where there is no program."""
    if recorded is None:
        return None
    return [
        {
            "value": hole.value.id,
            "dtype": hole.value.dtype,
            "shape": list(hole.value.shape),
            "reason": hole.reason.name.lower(),
            "taken_by": None if hole.operator is None else _operator(recorded, hole.operator),
            "readers": hole.readers,
        }
        for hole in find_holes(recorded, choice)
    ]


def _values(recorded: RecordedProgram) -> Iterator[dict[str, JSON]]:
    spelling = Spelling(recorded, plain=True)
    for value in recorded.program.values:
        yield {
            "value": value.id,
            "name": spelling.value(value.id),
            "dtype": value.dtype,
            "shape": list(value.shape),
            "path": value.name or None,
            "kind": None if value.kind is None else str(value.kind),
            "operator": value.producer,
        }


def _operator(recorded: RecordedProgram, operator: Operator) -> dict[str, JSON]:
    index, site = recorded.index, operator.site
    call = None if operator.call is None else index.calls[operator.call]
    return {
        "operator": operator.id,
        "name": operator.name,
        "module": None if call is None else index.modules[call.module].path,
        "call": None if call is None else call.index,
        "positional": [argument_to_json(one) for one in operator.positional],
        "keywords": {key: argument_to_json(one) for key, one in operator.keywords.items()},
        "outputs": list(operator.outputs),
        "marks": list(marks(operator)),
        "site": None if site is None else f"{site.file}:{site.line}",
        "function": None if site is None else site.function,
    }


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
        [_flow_row(canvas, flow, feed) for feed in feeds],
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


def _flow_row(canvas: Canvas, flow: Flow, feed: Feed) -> list[str | Text]:
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
