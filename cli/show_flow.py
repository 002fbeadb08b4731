"""Show which call fed which input, where code between modules made a value, where nan began."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.comparer.locating.between import called, describe_feed
from padiff.comparer.locating.dataflow import Flow, Source
from padiff.comparer.locating.nonfinite import find_nonfinite
from padiff.comparer.report.numbers import count, plural
from padiff.dumpfile import Role

from .show_text import shape_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from padiff.comparer.locating.dataflow import Feed
    from padiff.comparer.locating.nonfinite import Nonfinite
    from padiff.comparer.report.style import Canvas
    from padiff.dumpfile import JSON, Index

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
