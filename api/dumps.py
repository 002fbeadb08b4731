"""``padiff.open_dump``: a dump that shows itself in a shell and in a notebook."""

from __future__ import annotations

from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import Dump as Stored
from padiff.dumpfile import open_dump as open_stored
from padiff.origins import Origin
from padiff.presenting import Presented, data_frame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from padiff.comparer.report.style import Canvas
    from padiff.dumpfile import Index

_STATISTICS = ("mean", "minimum", "maximum", "l2", "nan", "posinf", "neginf")
COLUMNS = (
    *("step", "rank", "module", "class_name", "call", "phase", "role", "slot", "dtype", "shape"),
    *_STATISTICS,
)
"""Of the table that a dump becomes; a row for each record."""
_GLANCE = 6
"""Steps and ranks that a glance names."""


class Dump(Presented, Stored):
    """A complete dump. Made by ``open_dump``; stands wherever the path of a dump does."""

    def __fspath__(self) -> str:
        """Return the path of its directory."""
        return str(self.path)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where nan or inf was made of finite values, as ``padiff show --nonfinite`` marks it.

        Raises:
            DumpError: A file of the dump cannot be read.
        """
        from padiff.comparer.locating.nonfinite import find_nonfinite  # noqa: PLC0415 - if asked

        found: list[Origin] = []
        for info in self.files:
            with self.open(info.step, info.rank) as file:
                sources = [one for one in find_nonfinite(file.index) if one.is_source]
                found += [_origin(file.index, one.record, one.remark) for one in sources]
        return tuple(found)

    @property
    def first(self) -> Origin | None:
        """The first of the origins; None if all is finite.

        Raises:
            DumpError: A file of the dump cannot be read.
        """
        return next(iter(self.origins), None)

    def to_dataframe(self) -> Any:  # noqa: ANN401 - pandas is not there everywhere
        """Return a pandas table with a row for each record: where it is, and its statistics.

        Raises:
            ConfigError: pandas is not installed.
            DumpError: A file of the dump cannot be read.
        """
        return data_frame(self._rows(), COLUMNS)

    def to_json(self, path: Path | str) -> Path:
        """Write what ``padiff show --json`` prints.

        Raises:
            ConfigError: The place cannot be written.
            DumpError: A file of the dump cannot be read.
        """
        from padiff.cli.output import write_json  # noqa: PLC0415 - as asked for
        from padiff.cli.show_steps import Sections, to_json  # noqa: PLC0415
        from padiff.cli.show_text import Choice  # noqa: PLC0415

        write_json(Path(path), to_json(self, self.files, Choice(), Sections()))
        return Path(path)

    def _rows(self) -> Iterator[dict[str, object]]:
        for info in self.files:
            with self.open(info.step, info.rank) as file:
                yield from _records(file.index)

    def _draw(self, canvas: Canvas) -> None:
        from padiff.cli.show_text import Choice, draw_manifest, draw_step  # noqa: PLC0415

        draw_manifest(canvas, self.manifest)
        for info in self.files:
            with self.open(info.step, info.rank) as file:
                draw_step(canvas, file.index, Choice(records=canvas.verbose))

    def _glance(self, canvas: Canvas) -> None:
        from padiff.cli.show_text import draw_manifest  # noqa: PLC0415 - only where it is drawn

        draw_manifest(canvas, self.manifest)
        for info in self.files[:_GLANCE]:
            rank = f" rank {info.rank}" if info.rank else ""
            canvas.line(f"  step {info.step}{rank}  {info.calls} calls, {info.records} records")
        if len(self.files) > _GLANCE:
            canvas.line(f"  ... {len(self.files) - _GLANCE} more steps and ranks", "dim")


def _origin(index: Index, record: int, remark: str) -> Origin:
    """Return where a record with nan or inf was made."""
    found = index.records[record]
    call = None if found.call is None else index.calls[found.call]
    site = None if call is None else call.site
    return Origin(
        where=str(index.address(found)),
        module=index.modules[found.module].path,
        cause=f"nan or inf {remark}",
        source="" if site is None else str(site),
    )


def open_dump(path: PathLike[str] | str) -> Dump:
    """Open a dump.

    Args:
        path: Its directory, ``padiff_dump/<model>``, or the URL of one in a store.

    Raises:
        DumpNotFoundError: There is nothing, or no dump.
        DumpFormatError: It is incomplete, of a newer version, or its manifest is wrong.
    """
    found = open_stored(fspath(path))
    return Dump(found.path, found.manifest)


def _records(index: Index) -> Iterator[dict[str, object]]:
    for record in index.records:
        value = None if record.value is None else index.values[record.value]
        module = index.modules[record.module]
        yield {
            "step": index.step,
            "rank": index.rank,
            "module": module.path,
            "class_name": module.class_name,
            "call": None if record.call is None else index.calls[record.call].index,
            "phase": str(record.phase),
            "role": str(record.role),
            "slot": record.slot,
            "dtype": None if value is None else value.dtype,
            "shape": record.shape,
            **{name: value and getattr(value.statistics, name) for name in _STATISTICS},
        }
