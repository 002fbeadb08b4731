"""Makes many immutable objects at once, column by column, and keeps the collector out of it."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, make_dataclass
from functools import cache
from itertools import repeat
from typing import Any, TypeVar, cast

Made = TypeVar("Made")


def build_all(
    kind: type[Made],
    count: int,
    /,
    *,
    same: Mapping[str, object] | None = None,
    **columns: Sequence[object],
) -> list[Made]:
    """Make objects of a frozen dataclass with slots: the same as its constructor for each row.

    A constructor of a frozen dataclass takes a third of a microsecond for every field, most of it
    to look up the same names again. A class of the same slots that is not frozen takes a tenth of
    that; its objects are then told that they are of the frozen one. ``__post_init__`` is not
    called, so that only classes without one can be made.

    Args:
        kind: The dataclass; it must have slots, and no base class that has fields.
        count: How many.
        same: Fields that are equal in all.
        columns: The other fields, each ``count`` long; those in neither take their default.

    Raises:
        TypeError: A field without default is missing, or a column has another length.

    >>> from padiff.dumpfile.schema import SourceLine
    >>> build_all(SourceLine, 2, same={"file": "net.py"}, line=[3, 7])[1]
    SourceLine(file='net.py', line=7, function='')
    """
    cells = _cells(cast("type", kind), count, same or {}, columns)
    made: list[Made] = list(map(_thawed(cast("type", kind)), *cells))
    deque(map(_CLASS_OF.__set__, made, repeat(kind)), maxlen=0)
    return made


def _cells(
    kind: type, count: int, constants: Mapping[str, object], columns: Mapping[str, Sequence[object]]
) -> list[Iterable[object]]:
    """Return the cells of each field, in the order of the fields."""
    cells: list[Iterable[object]] = []
    known = _fields(kind)
    for each in known.values():
        if each.name in columns:
            cells.append(columns[each.name])
            if len(columns[each.name]) != count:
                raise TypeError(f"{each.name}: expected {count} cells")
        elif each.name in constants:
            cells.append(repeat(constants[each.name], count))
        elif each.default is not MISSING:
            cells.append(repeat(each.default, count))
        elif each.default_factory is not MISSING:
            cells.append([each.default_factory() for _ in range(count)])
        else:
            raise TypeError(f"{kind.__name__} needs {each.name}")
    unknown = {*columns, *constants} - known.keys()
    if unknown or columns.keys() & constants.keys():
        raise TypeError(f"{kind.__name__} has not all of these fields: {[*columns, *constants]}")
    return cells


_CLASS_OF = vars(object)["__class__"]


@cache
def _fields(kind: type) -> dict[str, Field[Any]]:
    """Return the fields of a dataclass by their names."""
    return {each.name: each for each in fields(kind)}


@cache
def _thawed(kind: type) -> Callable[..., Any]:
    """Return a class with the slots of a dataclass whose constructor only fills them."""
    names = [each.name for each in fields(kind)]
    return make_dataclass(kind.__name__, names, slots=True, eq=False, repr=False)


_frozen: list[int] = []
"""How many objects the program had frozen on purpose, once it had: counting is a walk, too."""


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
            if not _frozen and (count := gc.get_freeze_count()):
                _frozen.append(count)
            if not _frozen:
                gc.freeze()
                gc.unfreeze()  # which moves them to the oldest generation, without a walk
            gc.enable()
