"""Draw a dump as a module tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from padiff.comparer.report.numbers import count, number, plural
from padiff.comparer.report.style import DIM, branches
from padiff.comparer.selection import named_modules
from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.comparer.report.style import Canvas
    from padiff.dumpfile import (
        CallInfo,
        Index,
        Manifest,
        Mesh,
        ModuleInfo,
        RecordInfo,
        Statistics,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What of a dump to show."""

    include: tuple[str, ...] = ()
    """Globs of module paths or ``type:ClassName``; empty for all."""
    records: bool = False
    attributes: bool = False

    def wanted(self, index: Index) -> frozenset[int]:
        """Return the ids of the modules that are to be shown."""
        if not self.include:
            return frozenset(module.id for module in index.modules)
        return named_modules(index, self.include)


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as Python prints it."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def draw_manifest(canvas: Canvas, manifest: Manifest) -> None:
    """Draw what describes the dump as a whole."""
    canvas.line(Text(canvas.safe(manifest.name), style="bold"))
    run = f"{manifest.device} {manifest.dtype}, {'train' if manifest.training else 'eval'} mode"
    facts = [
        ("made by", f"{manifest.framework} {manifest.framework_version}, {run}"),
        ("model", " ".join(word for word in (manifest.model_class, manifest.model) if word)),
        ("created", f"{manifest.created} by padiff {manifest.padiff_version}"),
        ("command", " ".join(manifest.command)),
    ]
    facts += [
        ("input", f"{given.name} {given.dtype} {shape_text(given.shape)}")
        for given in manifest.inputs
    ]
    facts += [("mesh", _mesh_text(mesh)) for mesh in manifest.meshes]
    facts += [("note", note) for note in manifest.notes]
    facts += [("incomplete", manifest.incomplete)]
    canvas.facts([(label, canvas.safe(value)) for label, value in facts if value])


def _mesh_text(mesh: Mesh) -> str:
    """Return the dimensions of a mesh with their sizes, and its ranks."""
    dims = " x ".join(f"{dim} {size}" for dim, size in zip(mesh.dims, mesh.sizes, strict=True))
    return f"{dims}, ranks {' '.join(map(str, mesh.ranks))}"


def draw_step(canvas: Canvas, index: Index, choice: Choice) -> None:
    """Draw one step and rank."""
    canvas.heading(
        f"STEP {index.step} RANK {index.rank}",
        f"{plural(len(index.modules), 'module')}, {plural(len(index.calls), 'call')}, "
        f"{plural(len(index.records), 'record')}, {plural(len(index.values), 'value')}",
    )
    calls, records = _by_module(index)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=DIM)
    table.add_column("module", overflow="fold")
    table.add_column("calls", justify="right", no_wrap=True)
    table.add_column("output", overflow="fold")
    for title in ("mean", "min", "max", "L2"):
        table.add_column(title, no_wrap=True)
    for drawn, (module, trunk) in enumerate(in_tree_order(index, choice)):
        if canvas.max_rows and drawn >= canvas.max_rows:
            table.add_row(Text("... (--max-rows 0 shows all)", style=DIM))
            break
        own = records.get(module.id, [])
        prefix = branches(trunk, plain=canvas.plain)
        _add_module(canvas, table, index, module, prefix, calls.get(module.id, []), own)
        _add_details(canvas, table, index, module, choice, " " * len(prefix), own)
    canvas.console.print(table)


def _by_module(
    index: Index,
) -> tuple[Mapping[int, list[CallInfo]], Mapping[int, list[RecordInfo]]]:
    """Group calls and records."""
    calls: dict[int, list[CallInfo]] = {}
    for call in index.calls:
        calls.setdefault(call.module, []).append(call)
    records: dict[int, list[RecordInfo]] = {}
    for record in index.records:
        records.setdefault(record.module, []).append(record)
    return calls, records


def in_tree_order(index: Index, choice: Choice) -> Iterator[tuple[ModuleInfo, tuple[bool, ...]]]:
    """Yield the modules depth first, each with its branches; flat where some are left out."""
    if choice.include:
        wanted = choice.wanted(index)
        yield from ((module, ()) for module in index.modules if module.id in wanted)
        return
    children: dict[int | None, list[ModuleInfo]] = {}
    for module in index.modules:
        children.setdefault(module.parent, []).append(module)
    # An explicit stack: a dump may be nested deeper than Python recurses.
    stack: list[tuple[ModuleInfo, tuple[bool, ...]]] = [
        (module, ()) for module in reversed(children.get(None, []))
    ]
    while stack:
        module, trunk = stack.pop()
        yield module, trunk
        below = children.get(module.id, [])
        last = len(below) - 1
        stack.extend(
            (below[position], (*trunk, position < last)) for position in range(last, -1, -1)
        )


def _add_module(
    canvas: Canvas,
    table: Table,
    index: Index,
    module: ModuleInfo,
    prefix: str,
    calls: list[CallInfo],
    records: list[RecordInfo],
) -> None:
    """Add the row of one module: its name, and what came out of its first call."""
    name = Text(prefix, style=DIM)
    shown = module.path.rpartition(".")[2] if prefix else module.path or "(root)"
    name.append(canvas.safe(shown), style="bold")
    name.append(f"  {canvas.safe(module.class_name)}", style=DIM)
    if module.aliases:
        name.append(f"  = {canvas.safe(', '.join(module.aliases))}", style=DIM)
    outputs = [
        record
        for record in records
        if record.role is Role.OUTPUT
        and record.call is not None
        and calls
        and record.call == calls[0].id
    ]
    if not outputs:
        table.add_row(name, _count(calls), "-")
        return
    first = outputs[0]
    form = _form(index, first) + (f" +{len(outputs) - 1}" if len(outputs) > 1 else "")
    table.add_row(name, _count(calls), form, *_numbers(index, first))


def _count(calls: list[CallInfo]) -> str:
    """Count the calls, and how often checkpointing ran any of them again."""
    again = sum(call.recomputed for call in calls)
    return (count(len(calls)) if calls else "-") + (f" (+{count(again)} again)" if again else "")


def _add_details(
    canvas: Canvas,
    table: Table,
    index: Index,
    module: ModuleInfo,
    choice: Choice,
    indent: str,
    records: list[RecordInfo],
) -> None:
    """Add the rows below a module that were asked for."""
    if choice.attributes:
        if module.source is not None:
            table.add_row(Text(f"{indent}    at {canvas.safe(str(module.source))}", style=DIM))
        for key, value in module.attributes.items():
            table.add_row(Text(f"{indent}    {canvas.safe(f'{key} = {value!r}')}", style=DIM))
    if choice.records:
        for record in records:
            call = "" if record.call is None else f"#{index.calls[record.call].index} "
            table.add_row(
                Text(f"{indent}    {call}{record.role}{canvas.safe(record.slot)}", style=DIM),
                "",
                _form(index, record),
                *_numbers(index, record),
            )


def _form(index: Index, record: RecordInfo) -> str:
    """Return dtype and shape of a record, and of what it is a part."""
    if record.value is None:
        return "none"
    form = f"{index.values[record.value].dtype} {shape_text(record.shape)}"
    layout = record.layout
    if layout is None:
        return form
    placed = zip(layout.mesh.dims, layout.placements, strict=True)
    whole = f" of {shape_text(layout.shape)}" if layout.shape != record.shape else ""
    return f"{form}{whole} {', '.join(f'{dim} {placement}' for dim, placement in placed)}"


def _numbers(index: Index, record: RecordInfo) -> list[Text]:
    """Return a record's statistics, its nan and inf loudly."""
    if record.value is None:
        return []
    found: Statistics = index.values[record.value].statistics
    cells = [Text(number(value)) for value in (found.mean, found.minimum, found.maximum, found.l2)]
    if found.nonfinite:
        infinite = found.posinf + found.neginf
        cells[-1].append(f"  {count(found.nan)} nan, {count(infinite)} inf", style="bold red")
    return cells
