"""Makes many immutable objects at once, column by column, and keeps the collector out of it."""

from __future__ import annotations

import gc
from collections import deque
from contextlib import contextmanager
from dataclasses import MISSING, fields
from itertools import repeat
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["build_all", "collector_paused"]

Made = TypeVar("Made")


def build_all(
    kind: type[Made],
    count: int,
    *,
    same: Mapping[str, object] | None = None,
    **columns: Sequence[object],
) -> list[Made]:
    """Make objects of a frozen dataclass with slots: the same as its constructor for each row.

    A constructor of a frozen dataclass takes a third of a microsecond for every field, most of it
    to look up the same names again; filling one slot of all objects after the other takes a fifth
    of that. ``__post_init__`` is not called, so that only classes without one can be made.

    Args:
        kind: The dataclass; it must have slots.
        count: How many.
        same: Fields that are equal in all.
        columns: The other fields, each ``count`` long; those in neither take their default.

    Raises:
        TypeError: A field without default is missing, or a column has another length.

    >>> from padiff.dumpfile.schema import SourceLine
    >>> build_all(SourceLine, 2, same={"file": "net.py"}, line=[3, 7])[1]
    SourceLine(file='net.py', line=7, function='')
    """
    constants = same or {}
    made = list(map(object.__new__, repeat(kind, count)))
    known = 0
    for each in fields(kind):  # type: ignore[arg-type]  # whatever is passed is a dataclass
        cells: Iterable[object]
        if each.name in columns:
            cells, known = columns[each.name], known + 1
            if len(columns[each.name]) != count:
                raise TypeError(f"{each.name}: expected {count} cells")
        elif each.name in constants:
            cells, known = repeat(constants[each.name]), known + 1
        elif each.default is not MISSING:
            cells = repeat(each.default)
        elif each.default_factory is not MISSING:
            cells = [each.default_factory() for _ in range(count)]
        else:
            raise TypeError(f"{kind.__name__} needs {each.name}")
        deque(map(getattr(kind, each.name).__set__, made, cells), maxlen=0)
    if known != len(columns) + len(constants):
        raise TypeError(f"{kind.__name__} has not all of these fields: {[*columns, *constants]}")
    return made


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking both dumps again and again.

    Reading, pairing and judging make hundreds of thousands of small objects and no cycles among
    them: the collector finds nothing, and takes a third of the time to do so. What was made
    meanwhile counts as old afterwards, so that the collector does not make up for it at once.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # else the program has frozen objects on purpose
                gc.freeze()
                gc.unfreeze()  # which moves them to the oldest generation, without a walk
            gc.enable()
