"""Show which call fed which input, and where code between modules made a value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.comparer.locating.between import called, describe_feed
from padiff.comparer.locating.dataflow import Flow, Made
from padiff.comparer.report.numbers import plural
from padiff.dumpfile import Role

from .show_text import shape_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from padiff.comparer.locating.dataflow import Feed
    from padiff.comparer.report.style import Canvas
    from padiff.dumpfile import JSON, Index

    from .show_text import Choice

__all__ = ["draw_flow", "flow_to_json"]

_MARKS = {Made.GLUE: "<--- changed between modules", Made.MOVED: "<--- moved between modules"}


def draw_flow(canvas: Canvas, index: Index, choice: Choice) -> None:
    """List what fed every input, and every output that a call took over or made of its calls'."""
    flow = Flow(index)
    feeds = list(_chosen(flow, choice))
    counts = Counter(feed.made for feed in feeds)
    canvas.heading(
        f"STEP {index.step} RANK {index.rank}",
        f"data flow: {plural(len(feeds), 'tensor')}, {counts[Made.GLUE]} changed and "
        f"{counts[Made.MOVED]} moved by code between modules",
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
    """Give the same for programs; records are named by their position in the dump's index."""
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
