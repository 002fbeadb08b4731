"""Both module trees as one, with a verdict per phase and a mark where it went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from padiff.comparer.result import Comparison, NodeRow, StepComparison, Verdict
from padiff.dumpfile import Phase

from .equal_ranks import fold_origins
from .numbers import count, plural
from .style import DIM, HERE, Canvas, branches, verdict_style, verdict_word
from .tree_fold import Line, State, fold
from .wording import step_of_first

_AT_EASE = 24
"""Lines that a tree may have before siblings share lines: half a screen."""
_MARK_WIDTH = len("reference only") + 2
_PHASE_WIDTH = len("DIVERGED") + 3

Modules = tuple[str | None, str | None]
"""Module paths of both sides, None where there is no such side."""


def draw_trees(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the tree of the step and rank with the first origin, with ``verbose`` of all steps."""
    steps = [step for step in comparison.steps if step.tree]
    if not steps:
        return
    chosen = steps if canvas.verbose else [step_of_first(comparison, steps)]
    origins = _origins(comparison)
    for step in chosen:
        where = f", step {step.step} rank {step.rank}" if len(comparison.steps) > 1 else ""
        canvas.heading(f"MODULE TREE{where}", "reference = candidate where names differ")
        _draw(canvas, step, origins)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """The first origin in a module, and all phases in which it has one."""

    position: int
    """Number among the origins, from 1."""
    phases: frozenset[Phase]


def _origins(comparison: Comparison) -> Mapping[Modules, _Origin]:
    """Find by module what the tree has to mark."""
    numbers: dict[Modules, int] = {}
    phases: dict[Modules, set[Phase]] = {}
    folded = fold_origins(comparison) if comparison.origins else []
    for position, found in enumerate((told.first for told in folded), start=1):
        ends = (found.pair.reference, found.pair.candidate)
        reference, candidate = (None if end is None else end.address.module for end in ends)
        numbers.setdefault((reference, candidate), position)
        phases.setdefault((reference, candidate), set()).add(found.phase)
    return {
        modules: _Origin(position=position, phases=frozenset(phases[modules]))
        for modules, position in numbers.items()
    }


def _draw(
    canvas: Canvas,
    step: StepComparison,
    origins: Mapping[Modules, _Origin],
) -> None:
    """Draw one tree as a table of rows."""
    folded = fold(step.tree, unfold=canvas.verbose, most=_AT_EASE)
    phases = [phase for phase in Phase if any(phase in line.worst for line in folded.lines)]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=DIM)
    table.add_column("", overflow="fold")
    for phase in phases:
        table.add_column(str(phase), no_wrap=True)
    table.add_column("", no_wrap=True)
    room = canvas.width - _MARK_WIDTH - _PHASE_WIDTH * len(phases)
    for line in _chosen(folded.lines, canvas.max_rows):
        if isinstance(line, int):
            text = f"... {plural(line, 'row')} left out (--max-rows 0: all)"
            table.add_row(Text(text, style=DIM))
            continue
        origin = origins.get((line.first.reference, line.first.candidate))
        cells = [_cell(line, phase, origin) for phase in phases]
        table.add_row(_name(canvas, line, room), *cells, _mark(line, origin))
    canvas.console.print(table)
    if folded.wrappers:
        canvas.line(
            f"{plural(folded.wrappers, 'module')} around paired ones, on one side only, "
            "not drawn (--verbose draws all)",
            DIM,
        )


def _chosen(lines: Sequence[Line], max_rows: int) -> list[Line | int]:
    """Cut to ``max_rows``, but never an origin or what leads to it; gaps become their length."""
    if not max_rows or len(lines) <= max_rows:
        return list(lines)
    parents = {line.first.id: line.parent for line in lines}
    wanted: set[int] = set()
    for line in lines:
        row: NodeRow | None = line.first if line.first.origin else None
        while row is not None and row.id not in wanted and len(wanted) < max_rows:
            wanted.add(row.id)
            row = parents[row.id]
    for line in lines:
        if len(wanted) >= max_rows:
            break
        wanted.add(line.first.id)
    chosen: list[Line | int] = []
    for line in lines:
        if line.first.id in wanted:
            chosen.append(line)
        elif chosen and isinstance(chosen[-1], int):
            chosen[-1] += 1
        else:
            chosen.append(1)
    return chosen


def _cell(line: Line, phase: Phase, origin: _Origin | None) -> Text:
    """Return a phase's verdict."""
    verdict = line.worst.get(phase)
    if verdict is None:
        return Text("-", style=DIM)
    if verdict is Verdict.SKIPPED and phase not in line.uncovered:
        return Text("elsewhere", style=DIM)
    elsewhere = origin is not None and phase not in origin.phases
    inherited = (line.state is State.INHERITED or elsewhere) and verdict is not Verdict.MATCH
    return Text(
        verdict_word(verdict, inherited=inherited),
        style=verdict_style(verdict, inherited=inherited),
    )


def _name(canvas: Canvas, line: Line, room: int) -> Text:
    """Return branches, names, classes and counts of a line, as much of it as there is room for."""
    prefix = branches(line.trunk, plain=canvas.plain)
    names = [canvas.safe(name) for name in _names(line)]
    classes = canvas.safe(_both(line.first.reference_class, line.first.candidate_class))
    remarks = _remarks(canvas, line)
    full = [classes, *remarks] if line.siblings == 1 and classes else remarks
    if len(prefix + "  ".join([" = ".join(names), *full])) <= room:
        return _styled(line, prefix, [" = ".join(names)], [full])
    if len(prefix + " = ".join(names)) <= room:
        names = [" = ".join(names)]
    used = len(prefix) + len(names[-1]) + (2 if len(names) > 1 else 0)
    below: list[list[str]] = [[]]
    for remark in remarks:
        used += 2 + len(remark)
        if used > room:
            below.append([])
            used = len(prefix) + 2 + len(remark)
        below[-1].append(remark)
    return _styled(line, prefix, names, below)


def _styled(
    line: Line, prefix: str, names: Sequence[str], remarks: Sequence[Sequence[str]]
) -> Text:
    """Put names below each other, and remarks behind the last of them and below that."""
    style = HERE if line.first.origin else ""
    if line.state in (State.INHERITED, State.CALM):
        style = DIM
    end = prefix[-3:-2].replace("`", " ").replace("├", "│").replace("└", " ")
    below = f"\n{prefix[:-3] + end:<{len(prefix)}}"
    text = Text(prefix, style=DIM)
    for place, name in enumerate(names):
        text.append(below if place else "", style=DIM)
        text.append(f"= {name}" if place else name, style=style)
    rows = ["".join(f"  {remark}" for remark in row) for row in remarks]
    return text.append(below.join(rows), style=DIM)


def _names(line: Line) -> list[str]:
    """Return one name for both sides, or one for each; of siblings the first and the last."""
    ends = [_locals(line.first, line.bases)]
    if line.siblings > 1:
        ends.append(_locals(line.last, line.bases))
    sides = [" ... ".join(name for name in side if name) for side in zip(*ends, strict=True)]
    return list(dict.fromkeys(side for side in sides if side))


def _remarks(canvas: Canvas, line: Line) -> list[str]:
    """Count what shares the line."""
    found = [plural(line.siblings, "sibling")] if line.siblings > 1 else []
    if line.folded:
        paired = f", {count(line.folded_pairs)} paired" if line.folded_pairs < line.folded else ""
        found.append(f"(+{plural(line.folded, 'module')}{paired})")
    if line.like is not None:
        reference, candidate = _locals(line.like, line.bases)
        found.append(f"like {canvas.safe(reference or candidate or '')} above")
    return found


def _locals(row: NodeRow, bases: tuple[str | None, str | None]) -> tuple[str | None, str | None]:
    """Return both names, relative to what they are inside of."""
    return _local(row.reference, bases[0]), _local(row.candidate, bases[1])


def _local(path: str | None, parent: str | None) -> str | None:
    """Return what a path adds to its parent's, the whole path where it is no child of it."""
    if path is None:
        return None
    if not path:
        return "(root)"
    if parent and path.startswith(f"{parent}."):
        return path[len(parent) + 1 :]
    return path


def _both(reference: str | None, candidate: str | None) -> str:
    """Return one name for two that are equal."""
    if reference == candidate or candidate is None:
        return reference or ""
    return candidate if reference is None else f"{reference} = {candidate}"


def _mark(line: Line, origin: _Origin | None) -> Text:
    """Return the word at the end of a row."""
    row = line.first
    if row.origin:
        is_further = origin is not None and origin.position > 1
        further = f" #{origin.position}" if origin is not None and is_further else ""
        return Text(f"<--- HERE{further}", style=HERE)
    if row.candidate is None:
        return Text("reference only", style="yellow" if line.state is not State.CALM else DIM)
    if row.reference is None:
        return Text("candidate only", style="yellow" if line.state is not State.CALM else DIM)
    if line.state is State.INHERITED:
        return Text("inherited", style=DIM)
    return Text("")
