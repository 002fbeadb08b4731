"""A recorded operator as a case: arguments by the names of the table, tensors as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import numpy_dtype
from padiff.ops.cases import Argument, Case, Dtype, HeldTensor, Tensor
from padiff.program import TABLES, NotLoweredError, ValueRef

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.ops.table import Operators, Row
    from padiff.program import Argument as ProgramArgument
    from padiff.program import Operator
    from padiff.program.primitives import Array

_OPERANDS = frozenset({"other"})
"""Arguments that are a tensor in Paddle, where torch takes a number, too."""
_HOW = frozenset({"inplace", "_stacklevel"})
"""Arguments that say how to compute, not what."""


def rows_by_name(table: Operators, framework: str) -> dict[str, Row]:
    """Return the row of each name of a framework: other spellings have the same lowering."""
    names = TABLES[framework].names
    by_rule: dict[int, Row] = {}
    exact: dict[str, Row] = {}
    for row in table.values():
        name = row.frameworks[framework].name
        exact.setdefault(name, row)
        if name in names:
            by_rule.setdefault(id(names[name]), row)
    found = {name: by_rule[id(one)] for name, one in names.items() if id(one) in by_rule}
    return {**found, **exact}


def case_of(
    operator: Operator,
    row: Row,
    framework: str,
    elements: Callable[[int], Array],
    *,
    takes_gradients: bool = False,
) -> Case | None:
    """Return the case that an operator is; None if the table does not cover its arguments.

    Args:
        operator: As recorded.
        row: Of the table.
        framework: That recorded it.
        elements: Returns those of a value by its id, in its dtype.
        takes_gradients: Whether those by its floats are asked for.
    """
    table = TABLES[framework]
    try:
        passed = table.passed(operator.name, operator.positional, operator.keywords)
        names = _names(row, table.aliases)
        arguments = {
            names.get(name, name): _argument(one, elements, takes_gradients)
            for name, one in passed.items()
            if name not in _HOW
        }
    except (NotLoweredError, TypeError):
        return None
    for name in _OPERANDS & arguments.keys():
        arguments[name] = _operand(arguments[name], arguments)
    return Case(operator=row.name, arguments=arguments)


def _operand(one: Argument, arguments: Mapping[str, Argument]) -> Argument:
    """Return a tensor without axes for a number, of the dtype that torch computes in."""
    if not isinstance(one, bool | int | float):
        return one
    dtype = next((each.dtype for each in arguments.values() if isinstance(each, Tensor)), "float32")
    if isinstance(one, float) and "float" not in dtype:
        dtype = "float32"
    array = np.array(one).astype(numpy_dtype(dtype))
    return HeldTensor(shape=(), dtype=dtype, held=array, takes_gradient=False)


def _names(row: Row, aliases: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the operator's own names of arguments that its lowering calls otherwise."""
    others = next(iter(list(row.frameworks.values())[1:])).names
    return {
        alias: name for name in others for alias in aliases.get(name, ()) if alias not in others
    }


def _argument(
    one: ProgramArgument, elements: Callable[[int], Array], takes_gradients: bool
) -> Argument:
    if isinstance(one, ValueRef):
        array = elements(one.id)
        name = array.dtype.name
        takes = takes_gradients and name.startswith(("float", "bfloat"))
        return HeldTensor(
            shape=array.shape, dtype=name, held=array, takes_gradient=takes, value=one.id
        )
    if isinstance(one, tuple):
        return tuple(_argument(each, elements, takes_gradients) for each in one)
    if one is None or isinstance(one, bool | int | float | str | Dtype):
        return one
    raise TypeError(f"no argument of a case: {type(one).__name__}")
