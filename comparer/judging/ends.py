"""Describe records of one side as ends of pairs, in one pass over its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.result import Endpoint
from padiff.dumpfile import Address
from padiff.dumpfile.bulk import build_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumpfile import Index

__all__ = ["endpoints"]


def endpoints(index: Index, ids: Iterable[int]) -> list[Endpoint]:
    """Describe records of an index as one side of pairs.

    Args:
        index: All that was recorded.
        ids: Of the records, in any order.
    """
    records = [index.records[place] for place in ids]
    modules = [index.modules[record.module] for record in records]
    calls = [None if record.call is None else index.calls[record.call] for record in records]
    values = [None if record.value is None else index.values[record.value] for record in records]
    addresses = build_all(
        Address,
        len(records),
        same={"step": index.step, "rank": index.rank},
        module=[module.path for module in modules],
        class_name=[module.class_name for module in modules],
        call=[None if call is None else call.index for call in calls],
        phase=[record.phase for record in records],
        role=[record.role for record in records],
        slot=[record.slot for record in records],
    )
    return build_all(
        Endpoint,
        len(records),
        address=addresses,
        order=[record.order for record in records],
        dtype=["none" if value is None else value.dtype for value in values],
        shape=[record.shape for record in records],
        statistics=[None if value is None else value.statistics for value in values],
        module_source=[module.source for module in modules],
        call_site=[None if call is None else call.site for call in calls],
        call=[record.call for record in records],
        module=[record.module for record in records],
    )
