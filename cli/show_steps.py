"""All that ``padiff show`` says of a dump, as text or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .show_flow import draw_flow, flow_to_json
from .show_json import manifest_to_json, step_to_json
from .show_nonfinite import draw_nonfinite, nonfinite_to_json
from .show_text import Choice, draw_manifest, draw_step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.comparer.report.style import Canvas
    from padiff.dumpfile import JSON, Index, Manifest

__all__ = ["draw", "to_json"]


def draw(
    canvas: Canvas,
    manifest: Manifest,
    indexes: Iterable[Index],
    choice: Choice,
    *,
    nonfinite: bool,
    flow: bool,
) -> None:
    """Draw the manifest and every step: its tree, or what was asked for instead."""
    draw_manifest(canvas, manifest)
    for index in indexes:
        if nonfinite:
            draw_nonfinite(canvas, index, choice)
        if flow:
            draw_flow(canvas, index, choice)
        if not (nonfinite or flow):
            draw_step(canvas, index, choice)


def to_json(
    manifest: Manifest, indexes: Iterable[Index], choice: Choice, *, nonfinite: bool, flow: bool
) -> dict[str, JSON]:
    """Give the manifest and every step, with what was asked for besides."""
    steps: list[JSON] = []
    for index in indexes:
        found = step_to_json(index, choice)
        if nonfinite:
            found["nonfinite"] = nonfinite_to_json(index, choice)
        if flow:
            found["flow"] = flow_to_json(index, choice)
        steps.append(found)
    return {"manifest": manifest_to_json(manifest), "steps": steps}
