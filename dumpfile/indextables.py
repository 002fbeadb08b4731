"""The tables of an index, and what their columns hold."""

from __future__ import annotations

from .address import Phase, Role
from .columns import Column, Kind
from .dtypes import DTYPE_NAMES, MOST_AXES
from .schema import Content

TABLES: dict[str, tuple[Column, ...]] = {
    "step": (Column("step", Kind.INTEGER), Column("rank", Kind.INTEGER)),
    "modules": (
        Column("path", Kind.TEXT),
        Column("class_name", Kind.TEXT),
        Column("class_path", Kind.TEXT),
        Column("bases", Kind.TEXTS),
        Column("parent", Kind.ROW, table="modules", optional=True),
        Column("aliases", Kind.TEXTS),
        Column("training", Kind.FLAG),
        Column("attributes", Kind.MAPPED),
        Column("source", Kind.LINE),
    ),
    "calls": (
        Column("module", Kind.ROW, table="modules"),
        Column("index", Kind.INTEGER),
        Column("parent", Kind.ROW, table="calls", optional=True),
        Column("start", Kind.INTEGER),
        Column("end", Kind.INTEGER, optional=True),
        Column("training", Kind.FLAG),
        Column("site", Kind.LINE),
        Column("literals", Kind.MAPPED),
        Column("containers", Kind.MAPPED, of=str),
    ),
    "records": (
        Column("module", Kind.ROW, table="modules"),
        Column("call", Kind.ROW, table="calls", optional=True),
        Column("phase", Kind.WORD, words=tuple(Phase)),
        Column("role", Kind.WORD, words=tuple(Role)),
        Column("slot", Kind.TEXT),
        Column("order", Kind.INTEGER),
        Column("shape", Kind.NUMBERS, most=MOST_AXES),
        Column("value", Kind.ROW, table="values", optional=True),
        Column("requires_grad", Kind.FLAG),
        Column("tensor", Kind.INTEGER, optional=True),
    ),
    "values": (
        Column("digest", Kind.DIGEST),
        Column("dtype", Kind.WORD, words=DTYPE_NAMES),
        Column("size", Kind.INTEGER),
        Column("minimum", Kind.NUMBER),
        Column("maximum", Kind.NUMBER),
        Column("mean", Kind.NUMBER),
        Column("l2", Kind.NUMBER),
        Column("nan", Kind.INTEGER),
        Column("posinf", Kind.INTEGER),
        Column("neginf", Kind.INTEGER),
        Column("zeros", Kind.INTEGER),
        Column("content", Kind.WORD, words=tuple(Content)),
        Column("dataset", Kind.TEXT, optional=True),
        Column("offset", Kind.INTEGER),
    ),
}
"""The columns of each table that every file has; ``step`` has one row."""

OPTIONAL: dict[str, tuple[Column, ...]] = {
    "samples": (
        Column("value", Kind.ROW, table="values"),
        Column("count", Kind.INTEGER, low=1),
        Column("shape", Kind.NUMBERS, most=MOST_AXES),
    ),
    "draws": (
        Column("call", Kind.ROW, table="calls", optional=True),
        Column("after", Kind.INTEGER),
        Column("generators", Kind.TEXTS),
    ),
    "recomputed": (Column("call", Kind.ROW, table="calls"), Column("count", Kind.INTEGER, low=1)),
    "meshes": (
        Column("dims", Kind.TEXTS),
        Column("sizes", Kind.NUMBERS),
        Column("ranks", Kind.NUMBERS),
    ),
    "layouts": (
        Column("mesh", Kind.ROW, table="meshes"),
        Column("placements", Kind.TEXTS),
        Column("shape", Kind.NUMBERS, most=MOST_AXES),
    ),
    "spread": (
        Column("record", Kind.ROW, table="records"),
        Column("layout", Kind.ROW, table="layouts"),
    ),
}
"""The columns of the tables that a file may lack."""
