"""What opening a dump of many records costs: its index checked, and its rows as objects."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from padiff.dumpfile import open_dump

from .figure import Figure
from .growth import write_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scale import Scale


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Open a dump of 100 000 records; the best of some rounds, since other programs only add."""
    calls = scale.pick(full=50_000, quick=5_000, tiny=10)
    with tempfile.TemporaryDirectory(prefix="padiff-opening-") as folder:
        dump = write_calls(calls, 0.0)(Path(folder) / "a")
        rounds = [_seconds(dump) for _ in range(scale.pick(full=7, quick=3, tiny=1))]
        size_bytes = (dump / open_dump(dump).files[0].path).stat().st_size
    records = 2 * calls + 2
    for name, most, taken in (
        ("opened, the index checked", 0.3, min(opened for opened, _ in rounds)),
        ("opened, all records as objects", None, min(whole for _, whole in rounds)),
    ):
        yield Figure(
            name=f"{records} records: {name}",
            value=taken,
            unit="s",
            at_most=most,
            detail=f"a file of {size_bytes / 1e6:.1f} MB",
        )


def _seconds(dump: Path) -> tuple[float, float]:
    """Return when the file was open, and when its records were there."""
    start_s = time.perf_counter()
    with open_dump(dump).open() as file:
        opened_s = time.perf_counter() - start_s
        _ = file.index.records
        return opened_s, time.perf_counter() - start_s
