"""Collects the operators and values of a step while it runs, and makes columns of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from .arguments import Argument, Dtype, Opaque, Slice, ValueRef
from .programcolumns import LEAF_KINDS, Form, LeafKind, ProgramColumns

if TYPE_CHECKING:
    from .schema import SourceLine
    from .valuestore import Stored

_Item = TypeVar("_Item", bound=Hashable)
Other = complex | str | Dtype | Opaque | Slice | tuple[Argument, ...] | Mapping[str, Argument]
_CONSTANT, _NUMBER = (bool, NoneType, EllipsisType), (int, float, complex)
_TEXT = (str, Dtype, Opaque)
_KINDS = {kind: number for number, kind in enumerate(LEAF_KINDS)}
_VALUE, _INT = int(Form.VALUE), int(Form.INT)
_WIDTH = 6
"""Numbers of an operator; a value has 4, an argument 3, a border 2."""
_INT64 = range(-(1 << 63), 1 << 63)


class _Table(dict[_Item, int]):
    """Distinct things, each with its position; what is asked for is in it."""

    def __missing__(self, item: _Item) -> int:
        position = self[item] = len(self)
        return position


class ProgramBuilder:
    """A program that grows by one value or operator at a time. Not thread-safe.

    Rows lie one behind the other in flat lists of numbers, which no garbage collection looks into.
    """

    def __init__(self) -> None:
        """Begin without any value."""
        self._strings: _Table[str] = _Table()
        self._shapes: _Table[tuple[int, ...]] = _Table()
        self._sites: _Table[tuple[int, int, int]] = _Table()
        self._known_sites: dict[int, tuple[int, SourceLine]] = {}
        """Positions by the identity of the line: to hash it takes long."""
        self._floats: list[float] = []
        self._values: list[int] = []
        self._contents: list[Stored | None] = []
        self._gradients: dict[int, Stored] = {}
        self._operators: list[int] = []
        self._arguments: list[int] = []
        self._outputs: list[int] = []
        self._borders: list[int] = []

    @property
    def values(self) -> int:
        """Count the values so far."""
        return len(self._contents)

    def add_value(
        self,
        *,
        dtype: str,
        shape: tuple[int, ...],
        content: Stored | None,
        kind: LeafKind | None = None,
        name: str = "",
    ) -> int:
        """Add a value.

        Args:
            dtype: Name of its dtype.
            shape: Sizes of its axes.
            content: What was stored of its elements; None if nothing.
            kind: Which leaf it is; None if an operator makes it.
            name: Of a parameter or buffer its path.

        Returns:
            Its id.
        """
        texts = self._strings
        self._values += (texts[dtype], self._shapes[shape], _KINDS[kind], texts[name])
        self._contents.append(content)
        return len(self._contents) - 1

    def set_kind(self, value: int, kind: LeafKind) -> None:
        """State that a value is a leaf of another kind than was thought."""
        self._values[4 * value + 2] = _KINDS[kind]

    def set_name(self, value: int, name: str) -> None:
        """State the name of a leaf that no record holds."""
        self._values[4 * value + 3] = self._strings[name]

    def set_content(self, value: int, content: Stored) -> None:
        """State what was stored of a value of which nothing was."""
        if self._contents[value] is None:
            self._contents[value] = content

    def add_gradient(self, value: int, content: Stored) -> None:
        """State the gradient of a value; the first one counts."""
        self._gradients.setdefault(value, content)

    def set_gradient(self, value: int, content: Stored) -> None:
        """State the gradient of a value, in the place of the first one."""
        self._gradients[value] = content

    def add_operator(
        self,
        name: str,
        arguments: Sequence[tuple[str | None, Argument]],
        outputs: Sequence[int],
        *,
        call: int | None,
        mode: int = 0,
        site: SourceLine | None = None,
    ) -> int:
        """Add an operator.

        Args:
            name: As the framework names it.
            arguments: Each with its keyword, None for positional ones.
            outputs: Ids of the values that it returned or changed.
            call: Id of the module call that it ran in.
            mode: Sum of ``Mode`` bits.
            site: The user's line that called it.

        Returns:
            Its id.
        """
        rows = self._arguments
        before = len(rows)
        for key, argument in arguments:
            text = -1 if key is None else self._strings[key]
            if type(argument) is ValueRef:
                rows += (text, _VALUE, argument.id)
            else:
                self._add_argument(text, argument)
        self._outputs += outputs
        self._operators += (
            self._strings[name],
            -1 if call is None else call,
            mode,
            -1 if site is None else (self._known_sites.get(id(site)) or self._site(site))[0],
            (len(rows) - before) // 3,
            len(outputs),
        )
        return len(self._operators) // _WIDTH - 1

    def add_border(self, record: int, value: int) -> None:
        """State that a record holds a value of the program."""
        self._borders += (record, value)

    def columns(self) -> ProgramColumns:
        """Return the program; what was stored must be known by value by then."""
        values = np.array(self._values, np.int64).reshape(-1, 4)
        operators = np.array(self._operators, np.int64).reshape(-1, _WIDTH)
        arguments = np.array(self._arguments, np.int64).reshape(-1, 3)
        borders = np.array(self._borders, np.int64).reshape(-1, 2)
        sites = np.array(list(self._sites), np.int64).reshape(-1, 3)
        shapes = list(self._shapes)
        gradients = list(map(self._gradients.get, range(self.values)))
        return ProgramColumns(
            strings=tuple(self._strings),
            floats=np.array(self._floats, np.float64),
            shape_sizes=np.array([size for shape in shapes for size in shape], np.int64),
            shape_ends=np.cumsum([len(shape) for shape in shapes], dtype=np.int64),
            site_file=sites[:, 0],
            site_line=sites[:, 1],
            site_function=sites[:, 2],
            value_dtype=values[:, 0],
            value_shape=values[:, 1],
            value_kind=values[:, 2],
            value_name=values[:, 3],
            value_content=_content_ids(self._contents),
            value_gradient=_content_ids(gradients),
            operator_name=operators[:, 0],
            operator_call=operators[:, 1],
            operator_mode=operators[:, 2],
            operator_site=operators[:, 3],
            operator_rows=operators[:, 4],
            operator_outputs=operators[:, 5],
            argument_key=arguments[:, 0],
            argument_form=arguments[:, 1],
            argument_number=arguments[:, 2],
            outputs=np.array(self._outputs, np.int64),
            border_record=borders[:, 0],
            border_value=borders[:, 1],
        )

    def _site(self, site: SourceLine) -> tuple[int, SourceLine]:
        texts = self._strings
        position = self._sites[texts[site.file], site.line, texts[site.function]]
        found = self._known_sites[id(site)] = position, site
        return found

    def _add_argument(self, key: int, argument: Argument) -> None:
        if isinstance(argument, ValueRef):
            self._arguments += (key, _VALUE, argument.id)
        elif type(argument) is int and argument in _INT64:
            self._arguments += (key, _INT, argument)
        elif isinstance(argument, _CONSTANT):
            self._arguments += (key, _CONSTANTS[argument], 0)
        else:
            form, number, parts = self._form(argument)
            self._arguments += (key, int(form), number)
            for part_key, part in parts:
                self._add_argument(part_key, part)

    def _form(self, argument: Other) -> tuple[Form, int, Sequence[tuple[int, Argument]]]:
        """Return what a row says of an argument, and the parts that follow it."""
        if isinstance(argument, tuple):
            return Form.TUPLE, len(argument), [(-1, part) for part in argument]
        if isinstance(argument, Slice):
            parts = (argument.start, argument.stop, argument.step)
            return Form.SLICE, 0, [(-1, part) for part in parts]
        if isinstance(argument, _NUMBER):
            return (*self._number(argument), ())
        if isinstance(argument, _TEXT):
            return (*self._text(argument), ())
        rows = [(self._strings[key], part) for key, part in argument.items()]
        return Form.MAPPING, len(rows), rows

    def _text(self, argument: str | Dtype | Opaque) -> tuple[Form, int]:
        if isinstance(argument, str):
            return Form.STRING, self._strings[argument]
        if isinstance(argument, Dtype):
            return Form.DTYPE, self._strings[argument.name]
        return Form.OPAQUE, self._strings[argument.text]

    def _number(self, argument: complex) -> tuple[Form, int]:
        if isinstance(argument, int):
            if argument in _INT64:
                return Form.INT, int(argument)
            return Form.OPAQUE, self._strings[f"an integer of {argument.bit_length()} bits"]
        self._floats.append(argument.real)
        if isinstance(argument, float):
            return Form.FLOAT, len(self._floats) - 1
        self._floats.append(argument.imag)
        return Form.COMPLEX, len(self._floats) - 2


_CONSTANTS: dict[object, int] = {
    None: int(Form.NONE),
    False: int(Form.FALSE),
    True: int(Form.TRUE),
    Ellipsis: int(Form.ELLIPSIS),
}


def _content_ids(contents: Sequence[Stored | None]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the ids of what the contents turned out to be, -1 where there is none."""
    return np.array([one.info.id if one and one.info else -1 for one in contents], np.int64)
