"""How a framework's operators are lowered: tables of rows, read by one mechanism.

To add an operator, add a row to the room of its topic (``torch_table/norms.py`` …)::

    row(
        "F.silu relu6",                   # names, in the short forms of the table (see below)
        "input, inplace=False",           # the signature, with defaults as Python literals
        lambda b, a: a.input * b("sigmoid", a.input),
    )

and a case to ``tests/support/lowering_<framework>.py``: arguments as they are written in a call.
A test fails while a row has none.

The function takes the ``Builder`` and the bound arguments by name. An argument is plain data as
recorded (see ``program.graph.Argument``), except that references to values are ``Term`` objects.
It returns a term, or one for each output in the framework's order; None stands for an output
that only the framework's own backward pass reads, whose recorded elements are taken as they are.
``b("name", *terms,
**attributes)`` builds a primitive (``program.primitives``), and terms know Python's arithmetic.
A rule that does not cover its arguments raises ``NotLoweredError`` with the reason. Whether kinds
and shapes are those that were recorded is checked by ``lower``, not by the rule; a result that is
written into its first argument takes that one's kind. ``out=`` is left away. What frameworks share
is built in ``composites/``.

A row of an operator that draws, with ``drawn=None`` in its signature, takes what it drew as one
more argument: for each element of its only result, whether it was kept (``program.drawing``), or
what its ``draws`` says, if the recording saw that.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any, TypeAlias

from padiff.dumpfile import DRAWN
from padiff.program.graph import ValueRef
from padiff.program.primitives import Kind

from .builder import Builder, NotLoweredError, Term

_NO_SETTINGS = frozenset({"dtype", "place", "seed"})
"""Arguments of operators that draw which say nothing of the distribution."""

KEPT = "kept"
"""What a dropout draws: whether each element of its result was kept."""


class Arguments:
    """The arguments of one operator, by the names of its row's signature."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def at(self, index: int, **more: object) -> Arguments:
        """Return the arguments with one part of each that is a list."""
        parts = {
            name: value[index] if isinstance(value, tuple) else value
            for name, value in self._values.items()
        }
        return Arguments({**parts, **more})


Result: TypeAlias = Term | Sequence[Term | None]
Rule: TypeAlias = Callable[[Builder, Arguments], Result]


def unary(name: str) -> Rule:
    """Return the rule of a primitive of one operand, ``x``."""
    return lambda b, a: b(name, a.x)


def binary(name: str) -> Rule:
    """Return the rule of a primitive of two operands, ``x`` and ``y``."""
    return lambda b, a: b(name, a.x, a.y)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule and the names that it serves."""

    names: tuple[str, ...]
    """As in the table: short forms."""
    signature: str
    rule: Rule
    draws: str
    """What its argument ``drawn`` holds."""
    is_draw: bool
    """Whether it makes nothing else: what was drawn times a number, and a number."""
    tolerance: float
    """How far the framework's own float64 may be off, relative to the largest element."""


def row(
    names: str,
    signature: str,
    rule: Rule,
    *,
    tolerance: float = 1e-12,
    draws: str = KEPT,
    is_draw: bool = False,
) -> Row:
    """Build a row; names are separated by blanks."""
    return Row(
        names=tuple(names.split()),
        signature=signature,
        rule=rule,
        draws=draws,
        is_draw=is_draw,
        tolerance=tolerance,
    )


def draw_row(
    names: str, signature: str, draws: str, ends: Callable[[Arguments], tuple[float, float]]
) -> Row:
    """Build a row of operators that draw all that they make.

    Args:
        names: Separated by blanks.
        signature: Without ``drawn``.
        draws: The standard distribution.
        ends: Returns what is made of zero, and by how much more is made of one.
    """

    def rule(b: Builder, a: Arguments) -> Term:
        begin, width = ends(a)
        if a.drawn is None:
            if width and b.expected[0].count:
                raise NotLoweredError("elements are drawn")
            return b("full", shape=b.expected[0].shape, value=float(begin), kind=Kind.FLOAT.value)
        scaled = a.drawn if width == 1 else a.drawn * width
        return scaled + begin if begin else scaled

    return row(names, f"{signature}, drawn=None", rule, draws=draws, is_draw=True)


_Plain: TypeAlias = tuple[tuple[str, bool, Any], ...]
"""The parameters of a signature: the name, whether it may stand by position, the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one framework, by full names."""

    framework: str
    prefixes: Mapping[str, str]
    """What a short form begins with, and what stands for it; "" for plain names."""
    rows: tuple[Row, ...]
    aliases: Mapping[str, tuple[str, ...]]
    """Other names that a framework takes for an argument, such as ``axis`` for ``dim``."""
    has_names: bool = False
    """Whether operators take a name as one more argument, which means nothing."""
    sharing: frozenset[str] = frozenset()
    """Operators, by full names, that return what shares its gradient with what they took, if they
    took all of it."""
    drawing: Mapping[str, str] = field(default_factory=dict)
    """Signatures of operators without a row that draw all that they make, by names in short form,
    several of one with ``|`` between; numbers and words among their arguments say of which
    distribution."""
    derived: Mapping[tuple[str, str], Callable[[Mapping[str, tuple[int, ...]]], float]] = field(
        default_factory=dict
    )
    """What None stands for, by operator in full and argument: from the shapes of all operands."""
    _by_name: dict[str, Row] = field(default_factory=dict)
    _signatures: dict[str, Signature] = field(default_factory=dict)
    _plain: dict[str, _Plain | None] = field(default_factory=dict)
    _drawing: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in self.rows:
            for name in entry.names:
                full = self.full_name(name)
                if full in self._by_name:
                    raise ValueError(f"table {self.framework}: {full} has two rows")
                self._by_name[full] = entry

        for names, signature in self.drawing.items():
            self._drawing.update((self.full_name(name), signature) for name in names.split())

    @property
    def names(self) -> Mapping[str, Row]:
        """Rows by full name."""
        return self._by_name

    def full_name(self, short: str) -> str:
        """Return the framework's public name of a short form.

        The longest prefix counts.
        """
        prefix = max((key for key in self.prefixes if short.startswith(key)), key=len)
        return self.prefixes[prefix] + short.removeprefix(prefix)

    def takes(self, name: str, argument: str) -> bool:
        """Return whether the row of an operator has an argument of a name."""
        entry = self._by_name.get(name)
        return entry is not None and argument in self._signature(entry).parameters

    def draws(self, name: str) -> str:
        """Return what an operator draws on its way: ``kept``, what its row says, or nothing."""
        return self._by_name[name].draws if self.takes(name, DRAWN) else ""

    def is_draw(self, name: str) -> bool:
        """Return whether an operator draws all that it makes, in a way that its row knows."""
        return name in self._by_name and self._by_name[name].is_draw

    def bind(
        self, name: str, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Row, Arguments]:
        """Return the row of an operator and its arguments by name.

        Raises:
            NotLoweredError: There is no row, or the arguments do not fit its signature.
        """
        entry, bound = self._bound(name, positional, keywords)
        return entry, Arguments(bound)

    def _bound(
        self, name: str, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Row, dict[str, Any]]:
        """Return the row of an operator and all its arguments, defaults included, by name."""
        if name not in self._by_name:
            raise NotLoweredError("no rule")
        entry = self._by_name[name]
        signature = self._signature(entry)
        if self.has_names and _ends_with_name(positional, signature):
            positional = positional[:-1]
        keywords = self._renamed(keywords, signature)
        plain = _bound_plainly(self._plain[entry.signature], positional, keywords)
        if plain is not None:
            return entry, plain
        positional, keywords = _spread(positional, keywords, signature)
        try:
            bound = signature.bind(*positional, **keywords)
        except TypeError as error:
            raise NotLoweredError(f"arguments beside its signature: {error}") from None
        bound.apply_defaults()
        return entry, bound.arguments

    def drawn_by(
        self,
        name: str,
        positional: Sequence[Any],
        keywords: Mapping[str, Any],
        shape_of: Callable[[int], tuple[int, ...]],
    ) -> dict[str, Any]:
        """Return the numbers and words that say how an operator draws, by name.

        Args:
            name: Of the operator; of one whose signature is not known nothing is returned.
            positional: As recorded.
            keywords: As recorded.
            shape_of: Returns the shape of a value.
        """
        if self.is_draw(name):
            given = dict(self.named(name, positional, keywords))
        elif name in self._drawing:
            given = self._drawing_arguments(name, positional, keywords)
        else:
            return {}
        shapes = {key: shape_of(one.id) for key, one in given.items() if isinstance(one, ValueRef)}
        for key, value in given.items():
            if value is None and (name, key) in self.derived:
                given[key] = self.derived[name, key](shapes)
        return {
            key: value
            for key, value in given.items()
            if isinstance(value, bool | int | float | str) and key not in _NO_SETTINGS
        }

    def _drawing_arguments(
        self, name: str, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments of an operator by its first signature that they fit."""
        for text in self._drawing[name].split(" | "):
            signature = parse_signature(text)
            with suppress(TypeError):
                bound = signature.bind(*positional, **self._renamed(keywords, signature))
                bound.apply_defaults()
                return dict(bound.arguments)
        return {}

    def named(
        self, name: str, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> list[tuple[str, Any]]:
        """Return the arguments of an operator by the names of its row's signature.

        Returns:
            Those that the operator was given or that have defaults; those given by name for an
            operator without a row.
        """
        try:
            return list(self._bound(name, positional, keywords)[1].items())
        except NotLoweredError:
            return list(keywords.items())

    def passed(
        self, name: str, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the arguments of an operator that are not defaults, by its row's signature.

        Raises:
            NotLoweredError: There is no row, or the arguments do not fit its signature.
        """
        entry, bound = self._bound(name, positional, keywords)
        parameters = self._signature(entry).parameters
        found = {}
        for key, value in bound.items():
            if parameters[key].kind is Parameter.VAR_POSITIONAL:
                found[key] = value[0] if len(value) == 1 and isinstance(value[0], tuple) else value
            elif not _is_default(value, parameters[key].default):
                found[key] = value
        return found

    def distinct(
        self, name: str, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> list[tuple[str | None, Any]]:
        """Return the arguments of an operator that are not the defaults of its row's signature.

        Returns:
            Each with its name; None where it stands by position. Arguments of an operator
            without a row, or that do not fit its signature, come back as they are.
        """
        try:
            entry = self._by_name[name]
            signature = self._signature(entry)
            renamed = self._renamed(keywords, signature)
            if self.has_names and _ends_with_name(positional, signature):
                positional = positional[:-1]
            positional, spread = _spread(positional, renamed, signature)
            bound = signature.bind(*positional, **spread)
        except (KeyError, TypeError):
            return [*((None, value) for value in positional), *keywords.items()]
        found: list[tuple[str | None, Any]] = []
        for key, value in bound.arguments.items():
            parameter = signature.parameters[key]
            if parameter.kind is Parameter.VAR_POSITIONAL:
                found += [(None, part) for part in value]
            elif parameter.default is Parameter.empty:
                found.append((key if key in renamed else None, value))
            elif not _is_default(value, parameter.default):
                found.append((key, value))
        return found

    def _signature(self, entry: Row) -> Signature:
        if entry.signature not in self._signatures:
            signature = parse_signature(entry.signature)
            self._signatures[entry.signature] = signature
            self._plain[entry.signature] = _plain(signature)
        return self._signatures[entry.signature]

    def _renamed(self, keywords: Mapping[str, Any], signature: Signature) -> dict[str, Any]:
        result = {}
        for key, value in keywords.items():
            known = [name for name in self.aliases.get(key, ()) if name in signature.parameters]
            if key in signature.parameters or not known:
                if key not in {"out", "name"} or key in signature.parameters:
                    result[key] = value
            else:
                result[known[0]] = value
        return result


def _plain(signature: Signature) -> _Plain | None:
    """Return the parameters of a signature; None if one takes any number of arguments."""
    parameters = signature.parameters.items()
    if any(one.kind is Parameter.VAR_POSITIONAL for _, one in parameters):
        return None
    return tuple(
        (name, one.kind is Parameter.POSITIONAL_OR_KEYWORD, one.default) for name, one in parameters
    )


def _bound_plainly(
    parameters: _Plain | None, positional: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return what ``Signature.bind`` does, some five times as fast; None if it may refuse."""
    if parameters is None or len(positional) > len(parameters):
        return None
    found = {}
    named = 0
    for place, (name, is_positional, default) in enumerate(parameters):
        if place < len(positional):
            if not is_positional or name in keywords:
                return None
            found[name] = positional[place]
        elif name in keywords:
            named += 1
            found[name] = keywords[name]
        elif default is Parameter.empty:
            return None
        else:
            found[name] = default
    return found if named == len(keywords) else None


def _spread(
    positional: Sequence[Any], keywords: Mapping[str, Any], signature: Signature
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return arguments in which sizes that were given by name stand by position.

    ``zeros(size=(2, 3))`` is ``zeros(2, 3)``.
    """
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        is_named = parameter.kind is Parameter.VAR_POSITIONAL and name in keywords
        if is_named and len(positional) <= place:
            before = list(signature.parameters)[len(positional) : place]
            if all(one in keywords for one in before):
                rest = {key: each for key, each in keywords.items() if key not in {name, *before}}
                return (*positional, *(keywords[one] for one in before), keywords[name]), rest
    return positional, keywords


def _is_default(value: object, default: object) -> bool:
    """Return whether an argument is a default; a size for all axes may be spelt axis by axis."""
    if isinstance(value, tuple) and value and not isinstance(default, tuple):
        return all(_is_default(part, default) for part in value)
    is_bool = isinstance(value, bool) or isinstance(default, bool)
    return value == default and (not is_bool or type(value) is type(default))


def _ends_with_name(positional: Sequence[Any], signature: Signature) -> bool:
    """Return whether there is one argument more than the signature has, and it can be a name."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if Parameter.VAR_POSITIONAL in kinds or len(positional) != len(signature.parameters) + 1:
        return False
    return positional[-1] is None or isinstance(positional[-1], str)


def parse_signature(text: str) -> Signature:
    """Read a signature such as ``input, *size, dtype=None``; defaults are literals.

    >>> str(parse_signature("input, dim=-1"))
    '(input, dim=-1)'
    """
    parsed = ast.parse(f"def f({text}): ...").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    names = parsed.args
    plain = [*names.posonlyargs, *names.args]
    missing = len(plain) - len(names.defaults)
    defaults = [Parameter.empty] * missing + [ast.literal_eval(node) for node in names.defaults]
    parameters = [
        Parameter(name.arg, Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for name, default in zip(plain, defaults, strict=True)
    ]
    if names.vararg:
        parameters.append(Parameter(names.vararg.arg, Parameter.VAR_POSITIONAL))
    for name, node in zip(names.kwonlyargs, names.kw_defaults, strict=True):
        default = Parameter.empty if node is None else ast.literal_eval(node)
        parameters.append(Parameter(name.arg, Parameter.KEYWORD_ONLY, default=default))
    return Signature(parameters)
