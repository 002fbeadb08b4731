"""All that ``padiff show`` says of a dump, as text or as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.comparer.report.style import Canvas
from padiff.program import read_program

from .output import emit, emit_lines, is_plain, render_to_text
from .show_flow import dot_lines, draw_flow, draw_nonfinite, flow_to_json, nonfinite_to_json
from .show_json import holes_to_json, manifest_to_json, program_to_json, step_to_json
from .show_program import hole_lines, no_program, program_lines, step_line
from .show_text import draw_manifest, draw_step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from padiff.dumpfile import Dump, FileInfo, Index, StepFile

    from .show_text import Choice


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
        "manifest": manifest_to_json(dump.manifest),
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
