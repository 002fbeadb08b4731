"""Products of matrices, and what is made of one matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.ops.cases import Argument, Fill, Tensor

from .row import Row, row
from .strategies import FINITE, reduction

if TYPE_CHECKING:
    from .draw import Draw
    from .row import Arguments, Strategy

_NORMAL = (Fill.NORMAL, Fill.SMALL)


def _product(names: str, shapes: str) -> Strategy:
    """Draw tensors whose axes have letters; those of one letter have one length.

    Args:
        names: Of the arguments.
        shapes: The letters of the axes of each.
    """

    def drawn(draw: Draw) -> Arguments:
        dtype = draw.float_dtype()
        sizes = {
            one: draw.size(1) for one in dict.fromkeys(shapes.replace(" ", "").replace("-", ""))
        }
        return {
            name: draw.tensor(
                tuple(sizes[one] for one in letters.replace("-", "")), dtype, fills=_NORMAL
            )
            for name, letters in zip(names.split(), shapes.split(), strict=True)
        }

    return drawn


_MATMUL = ("nm mk", "bnm bmk", "bnm mk", "nm bmk", "m m", "nm m", "m mk", "cbnm bmk", "cbnm cbmk")


def _matmul(draw: Draw) -> Arguments:
    return _product("input other", draw.choice(_MATMUL))(draw)


def _square(name: str, *, is_symmetric: bool = False, is_positive: bool = False) -> Strategy:
    """Draw matrices that are far from singular: their diagonals are large."""

    def drawn(draw: Draw) -> Arguments:
        return {name: _well(draw, is_symmetric=is_symmetric or is_positive)}

    return drawn


def _well(draw: Draw, *, is_symmetric: bool = False) -> Tensor:
    size, count = draw.integer(1, 3), draw.integer(0, 2)
    turn = draw.integer(0, 9)
    elements = []
    for place in range(max(count, 1) * size * size):
        row_, column = divmod(place % (size * size), size)
        low, high = sorted((row_, column)) if is_symmetric else (row_, column)
        small = ((7 * low + 3 * high + 5 * turn + place // (size * size)) % 11 - 5) / 8
        elements.append(small + (3.0 + row_) * (row_ == column))
    shape = (count, size, size) if count else (size, size)
    return Tensor(shape=shape, dtype=draw.float_dtype(), elements=tuple(elements))


def _solve(draw: Draw) -> Arguments:
    matrix = _well(draw)
    shape = (*matrix.shape[:-1], draw.integer(1, 3))
    return {"A": matrix, "B": draw.tensor(shape, matrix.dtype, fills=_NORMAL)}


def _power(draw: Draw) -> Arguments:
    return {"input": _well(draw), "n": draw.integer(0, 3)}


def _norm(draw: Draw) -> Arguments:
    found = dict(reduction(smallest=1, fills=FINITE)(draw))
    tensor = found.pop("input")
    draw.optional(found, "ord", (2.0, 1.0, 3.0, float("inf")))
    return {"x": tensor, **found}


def _cross(draw: Draw) -> Arguments:
    shape = (*draw.shape(0, 2, smallest=1), 3)
    dtype = draw.float_dtype()
    found = {name: draw.tensor(shape, dtype, fills=_NORMAL) for name in ("input", "other")}
    return {**found, "dim": -1}


_EINSUM = ("ij,jk->ik", "bij,bjk->bik", "i,j->ij", "ij->ji", "ij->i", "bhqd,bhkd->bhqk", "ii->i")


def _einsum(draw: Draw) -> Arguments:
    equation = draw.choice(_EINSUM)
    shapes = equation.partition("->")[0].replace(",", " ")
    names = " ".join(f"x{place}" for place in range(len(shapes.split())))
    return {"equation": equation, "operands": tuple(_product(names, shapes)(draw).values())}


def _tensordot(draw: Draw) -> Arguments:
    return {**_product("a b", "nmk mkp")(draw), "dims": 2}


def _linear(draw: Draw) -> Arguments:
    found = dict(
        _product("input weight bias", draw.choice(("ni oi o", "bni oi o", "i oi o")))(draw)
    )
    if draw.flag():
        del found["bias"]
    return found


def _added(names: str, shapes: str) -> Strategy:
    def drawn(draw: Draw) -> Arguments:
        found: dict[str, Argument] = dict(_product(names, shapes)(draw))
        draw.optional(found, "beta", (0.5, 1.0))
        draw.optional(found, "alpha", (0.5, 2.0))
        return found

    return drawn


def _cdist(draw: Draw) -> Arguments:
    found: dict[str, Argument] = dict(_product("x1 x2", draw.choice(("nd md", "bnd bmd")))(draw))
    draw.optional(found, "p", (2.0, 1.0, 3.0))
    return found


ROWS: tuple[Row, ...] = (
    row("matmul", "", "input:x other:y", _matmul),
    row("mm", "", "", _product("input mat2", "nm mk")),
    row("bmm", "", "input:x mat2:y", _product("input mat2", "bnm bmk")),
    row("mv", "", "input:x", _product("input vec", "nm m")),
    row("dot", "", "input:x tensor:y", _product("input tensor", "n n")),
    row("inner", "", "input:x other:y", _product("input other", "nm km")),
    row("outer", "", "input:x vec2:y", _product("input vec2", "n m")),
    row("addmm", "", "mat1:x mat2:y", _added("input mat1 mat2", "nk nm mk")),
    row("baddbmm", "", "batch1:x batch2:y", _added("input batch1 batch2", "bnk bnm bmk")),
    row("kron", "", "input:x other:y", _product("input other", "nm pq")),
    row("trace", "", "input:x", _product("input", "nm")),
    row("linalg.cross", "cross", "input:x other:y dim:axis", _cross),
    row("cross", "", "input:x other:y dim:axis", _cross),
    row("tensordot", "", "a:x b:y dims:axes", _tensordot),
    row("einsum", "", "", _einsum, positional="equation *operands"),
    row(
        "F.linear",
        "",
        "input:x",
        _linear,
        wrapped={"weight": "x.T"},
        note="weight (in, out) in Paddle",
    ),
    row("linalg.vector_norm", "", "ord:p dim:axis", _norm),
    row("linalg.inv", "", "A:x", _square("A")),
    row("linalg.det", "", "A:x", _square("A")),
    row("linalg.solve", "", "A:x B:y", _solve),
    row("linalg.cholesky", "", "input:x", _square("input", is_positive=True)),
    row("linalg.matrix_power", "", "input:x", _power),
    row("linalg.eigvalsh", "", "input:x", _square("input", is_symmetric=True)),
    row("cdist", "", "x1:x x2:y", _cdist),
    row("dist", "", "input:x other:y", _product("input other", "nm nm")),
)
