"""Write dataclasses as JSON, read them back and describe them, all by their type hints.

A field is written under its name, unless it holds its default. An enum member is written by its
name in lower case, so that a better wording of its value changes no document. A number that is not
finite is written as ``"nan"``, ``"inf"`` or ``"-inf"``. A union of dataclasses says in ``type``
which one it is. What a class annotates as ``Sequence`` is long, and may be made as it is looked
at: it is written last, as an iterator that holds one entry at a time. Reading is strict.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import pairwise
from operator import attrgetter
from types import GeneratorType, MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from padiff.dumpfile import ConfigError, PadiffError
from padiff.dumpfile.bulk import collector_paused

if TYPE_CHECKING:
    from dataclasses import Field

Kind = TypeVar("Kind")
Getter = TypeVar("Getter", bound=Callable[..., Any])

UNWRITTEN = MappingProxyType({"is_written": False})
"""Metadata of a field that no document holds: reading gives its default."""
_NEVER = object()
"""What no field holds."""
_NULL = {"type": "null"}


def derived(get: Getter) -> Getter:
    """Mark a property that is written beside the fields; it follows from them, and is not read."""
    get.is_derived = True  # type: ignore[attr-defined]
    return get


class Codec(Generic[Kind]):
    """Writes, reads and describes one dataclass, with all that its fields hold."""

    def __init__(self, kind: type[Kind], names: Mapping[str, object]) -> None:
        """Prepare.

        Args:
            kind: The dataclass.
            names: What the names in type hints mean where their module imports them for the type
                checker alone; a ``Form`` says how values of that name are written.
        """
        self.kind = kind
        self._names = {"Mapping": Mapping, "Sequence": Sequence, **names}
        self._forms = {
            name: type(name, (), {"form": form})
            for name, form in names.items()
            if isinstance(form, Form)
        }
        self._classes: dict[str, type] = {}
        self._tagged: set[type] = set()
        self._of_class = cache(self._make_form)

    def write(self, thing: Kind) -> dict[str, Any]:
        """Return an object for JSON, in which long sequences are iterators."""
        write = self._form(self.kind).write or as_it_is
        return cast("dict[str, Any]", write(thing))

    @collector_paused()
    def read(self, data: object, name: str, *, hint: str = "") -> Kind:
        """Return what parsed JSON says.

        Args:
            data: What was parsed.
            name: What it is, for messages.
            hint: What to do about JSON that says something else.

        Raises:
            ConfigError: An entry is unknown, lacking, or of another type.
        """
        try:
            return cast("Kind", self._form(self.kind).read(data))
        except WrongError as error:
            where = "".join([name, *reversed(error.path)])
            raise ConfigError(f"cannot read {where}: {error}", hint=hint) from None
        except RecursionError:
            raise ConfigError(f"cannot read {name}: nested too deeply", hint=hint) from None

    def schema(self) -> Schema:
        """Return the JSON Schema of the object; descriptions are the docstrings of the source."""
        self._form(self.kind)
        definitions = {name: self._described(kind) for name, kind in self._classes.items()}
        whole = definitions.pop(self.kind.__name__)
        return {**whole, "$defs": dict(sorted(definitions.items()))}

    def _form(self, hint: Any) -> Form:  # noqa: ANN401 -- a type
        """Return how a type is written and read."""
        if hint in PLAIN:
            return PLAIN[hint]
        if isinstance(hint, type) and get_origin(hint) is None:
            return self._of_class(cast("Any", hint))
        origin, parts = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            return self._union([one for one in parts if one is not NoneType], NoneType in parts)
        inner = [self._form(one) for one in parts if one is not Ellipsis]
        if origin is tuple and Ellipsis not in parts:
            return of_tuple(inner)
        return CONTAINERS[origin](*inner)

    def _make_form(self, kind: type) -> Form:
        """Return the form of a class."""
        if hasattr(kind, "form"):
            form = cast("Form", kind.form)
            return replace(form, read=careful(form.read))
        if self._classes.setdefault(kind.__name__, kind) is not kind or not (
            is_dataclass(kind) or issubclass(kind, Enum)
        ):
            raise TypeError(f"no document can hold {kind!r}, or it holds another of this name")
        schema = {"$ref": f"#/$defs/{kind.__name__}"}
        if issubclass(kind, Enum):
            words = {member.name.lower(): member for member in kind}
            write = {member: word for word, member in words.items()}.__getitem__
            return Form(write, of_words(words), schema)
        hints = self._hints(kind)
        forms = {name: self._form(hint) for name, hint in hints.items()}
        return Form(_writer_of(kind, hints, forms), _reader_of(kind, forms), schema)

    def _hints(self, kind: type) -> dict[str, Any]:
        """Return the types of what is written of a dataclass, in the order in which it is."""
        names = {**self._names, **vars(sys.modules[kind.__module__]), **self._forms}
        hints = hints_of(kind, names)
        named = {one.name: hints[one.name] for one in _written(kind)}
        for name, one in vars(kind).items():
            if isinstance(one, property) and hasattr(one.fget, "is_derived"):
                named[name] = hints_of(one.fget, names)["return"]
        return dict(sorted(named.items(), key=lambda one: get_origin(one[1]) is Sequence))

    def _union(self, kinds: Sequence[Any], is_optional: bool) -> Form:
        forms = [self._form(kind) for kind in kinds]
        if len(forms) == 1:
            write, read, schema = forms[0].write, forms[0].read, forms[0].schema
        else:
            words = [re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() for kind in kinds]
            write, read = _tagged(kinds, words, forms)
            schema = {
                "oneOf": [
                    {**form.schema, "required": ["type"], "properties": {"type": {"const": word}}}
                    for word, form in zip(words, forms, strict=True)
                ]
            }
            self._tagged.update(kinds)
        if not is_optional:
            return Form(write, read, schema)
        return Form(
            None if write is None else lambda value: None if value is None else write(value),
            lambda data: None if data is None else read(data),
            {"anyOf": [schema, _NULL]},
        )

    def _described(self, kind: type) -> Schema:
        """Return the definition of a class."""
        about = {"description": _one_line(kind.__doc__ or "")}
        docs = _docs(kind)
        if issubclass(kind, Enum):
            return {
                **about,
                "oneOf": [
                    {"const": member.name.lower(), **docs.get(member.name, {})} for member in kind
                ],
            }
        hints, own = self._hints(kind), {one.name: one for one in _written(kind)}
        tag = {"type": {"type": "string"}} if kind in self._tagged else {}
        return {
            **about,
            "type": "object",
            "properties": tag
            | {
                name: {**self._form(hint).schema, **docs.get(name, {})}
                for name, hint in hints.items()
            },
            "required": [
                name
                for name, hint in hints.items()
                if name not in own or get_origin(hint) is Sequence or _default(own[name]) is MISSING
            ],
            "additionalProperties": False,
        }


def listed(data: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return what a codec wrote with lists in the place of iterators."""
    if isinstance(data, Iterator):
        return [listed(one) for one in data]
    if type(data) is dict and GeneratorType in map(type, data.values()):
        return {name: listed(one) for name, one in data.items()}
    return data


def _written(kind: type) -> list[Field[Any]]:
    """Return the fields of a dataclass that a document holds."""
    return [one for one in fields(kind) if one.metadata.get("is_written", True)]


def _default(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _writer_of(kind: type, hints: Mapping[str, Any], forms: Mapping[str, Form]) -> Write:
    defaults = {one.name: _default(one) for one in _written(kind)}
    get = attrgetter(*hints) if len(hints) > 1 else lambda thing: (getattr(thing, *hints),)
    rows = []
    for name, hint in hints.items():
        default = _NEVER if get_origin(hint) is Sequence else defaults.get(name, MISSING)
        rows.append((name, forms[name].write, _NEVER if default is MISSING else default))

    def write(thing: object) -> dict[str, Any]:
        found = {}
        for (name, inner, default), value in zip(rows, get(thing), strict=True):
            if value is default or (default is not _NEVER and value == default):
                continue
            found[name] = value if inner is None or value is None else inner(value)
        return found

    return write


def _reader_of(kind: type, forms: Mapping[str, Form]) -> Read:
    own = {one.name: one for one in _written(kind)}
    readers = {name: form.read if name in own else _skip for name, form in forms.items()}
    needed = [name for name, one in own.items() if _default(one) is MISSING]

    def read(data: object) -> object:
        if type(data) is not dict:
            raise wrong("an object", data)
        values = {}
        name = ""
        try:
            for name, part in data.items():
                values[name] = readers[name](part)
        except WrongError as error:
            error.path.append(f".{shown(name)}")
            raise
        except KeyError:
            known = ", ".join(readers)
            raise WrongError(f"one of {known}", f"an unknown entry {shown(name)!r}") from None
        for lacking in needed:
            if lacking not in values:
                raise WrongError(repr(lacking), "no such entry")
        try:
            return kind(**{name: one for name, one in values.items() if name in own})
        except (PadiffError, ValueError, TypeError) as error:
            raise WrongError(f"a {kind.__name__}", str(error)) from None

    return read


def _skip(data: object) -> None:
    """Read nothing."""


def _tagged(
    kinds: Sequence[type], words: Sequence[str], forms: Sequence[Form]
) -> tuple[Write, Read]:
    """Return how one of several dataclasses is written and read."""
    writers = {
        kind: (word, form.write or as_it_is)
        for kind, word, form in zip(kinds, words, forms, strict=True)
    }
    readers = {word: form.read for word, form in zip(words, forms, strict=True)}

    def write(value: object) -> dict[str, Any]:
        word, inner = writers[type(value)]
        return {"type": word, **inner(value)}

    def read(data: object) -> object:
        word = data.get("type") if type(data) is dict else None
        if type(data) is not dict or type(word) is not str or word not in readers:
            raise wrong(f"an object whose type is one of {', '.join(words)}", word)
        return readers[word]({name: one for name, one in data.items() if name != "type"})

    return write, read


def _docs(kind: type) -> dict[str, Schema]:
    """Return the descriptions of fields, members and derived values: the strings below them."""
    (tree,) = ast.parse(inspect.getsource(kind).strip()).body
    body = cast("ast.ClassDef", tree).body
    found: dict[str, str | None] = {
        one.name: ast.get_docstring(one) for one in body if isinstance(one, ast.FunctionDef)
    }
    for one, below in pairwise(body):
        target = one.targets[0] if isinstance(one, ast.Assign) else getattr(one, "target", None)
        if isinstance(target, ast.Name) and isinstance(below, ast.Expr):
            found[target.id] = ast.literal_eval(below.value)
    return {name: {"description": _one_line(text)} for name, text in found.items() if text}


def _one_line(text: str) -> str:
    return " ".join(text.split())


Write = Callable[[Any], Any]
Read = Callable[[Any], Any]
Schema = dict[str, Any]

_NAMED = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MOST_SHOWN = 60
"""Characters of a value that a message shows."""
_LONGEST_INTEGER = 64
"""Bits."""


@dataclass(frozen=True, slots=True)
class Form:
    """How values of one type stand in a document."""

    write: Write | None
    """None where they are JSON already."""
    read: Read
    """Raises ``ValueError`` with what was expected, for anything else."""
    schema: Schema
    """In JSON Schema."""


class WrongError(ValueError):
    """Something in a document is not what its type says; the way to it grows on the way out."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected, self.found = expected, found
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"expected {self.expected}, found {self.found}"


def wrong(expected: str, data: object) -> WrongError:
    """Return the error that something else was expected."""
    if data is None or isinstance(data, dict | list):
        return WrongError(expected, "null" if data is None else type(data).__name__)
    return WrongError(expected, shown(repr(data)))


def shown(text: str) -> str:
    """Return text that a message can hold, whoever wrote it."""
    safe = text.encode("ascii", "backslashreplace").decode()
    safe = safe if safe.isprintable() else repr(safe)[1:-1]
    return safe if len(safe) <= _MOST_SHOWN else f"{safe[:_MOST_SHOWN]}..."


def as_it_is(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return a value."""
    return value


def _read_text(data: object) -> str:
    if type(data) is not str:
        raise wrong("a string", data)
    return data


def _read_integer(data: object) -> int:
    if type(data) is not int or data.bit_length() > _LONGEST_INTEGER:
        raise wrong(f"an integer of at most {_LONGEST_INTEGER} bits", data)
    return data


def _read_flag(data: object) -> bool:
    if type(data) is not bool:
        raise wrong("true or false", data)
    return data


def _read_number(data: object) -> float:
    if type(data) is float and math.isfinite(data):
        return data
    if type(data) is int and abs(data) <= sys.float_info.max:
        return float(data)
    if type(data) is str and data in _NAMED:
        return _NAMED[data]
    raise wrong("a number", data)


def _write_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))


PLAIN: dict[Any, Form] = {
    str: Form(None, _read_text, {"type": "string"}),
    int: Form(None, _read_integer, {"type": "integer"}),
    bool: Form(None, _read_flag, {"type": "boolean"}),
    float: Form(_write_number, _read_number, {"anyOf": [{"type": "number"}, {"enum": [*_NAMED]}]}),
}


def of_words(words: Mapping[str, object]) -> Read:
    """Return how one of several words is read."""

    def read(data: object) -> object:
        if type(data) is not str or data not in words:
            raise wrong(f"one of {', '.join(words)}", data)
        return words[data]

    return read


def _reader_of_list(inner: Read, made: Callable[[list[Any]], Any]) -> Read:
    def read(data: object) -> object:
        if type(data) is not list:
            raise wrong("a list", data)
        found: list[Any] = []
        try:
            for one in data:
                found.append(inner(one))  # noqa: PERF401 -- its length is the place of an error
        except WrongError as error:
            error.path.append(f"[{len(found)}]")
            raise
        return made(found)

    return read


def _sequence(inner: Form) -> Form:
    write = inner.write or as_it_is
    return Form(
        lambda items: (write(item) for item in items),
        _reader_of_list(inner.read, tuple),
        {"type": "array", "items": inner.schema},
    )


def _many(inner: Form) -> Form:
    """Return the form of a tuple of any length."""
    write, read = inner.write, _reader_of_list(inner.read, tuple)
    schema = {"type": "array", "items": inner.schema}
    if write is None:
        return Form(list, read, schema)
    return Form(lambda items: [write(item) for item in items], read, schema)


def _set(inner: Form) -> Form:
    write, read = inner.write or as_it_is, _reader_of_list(inner.read, frozenset)
    schema = {"type": "array", "items": inner.schema}
    return Form(lambda items: sorted(map(write, items)), read, schema)


def of_tuple(inner: Sequence[Form]) -> Form:
    """Return the form of a tuple of one length."""
    writers = [one.write or as_it_is for one in inner]

    def read(data: object) -> object:
        if type(data) is not list or len(data) != len(inner):
            raise wrong(f"a list of {len(inner)}", data)
        found: list[Any] = []
        try:
            for each, one in zip(inner, data, strict=True):
                found.append(each.read(one))
        except WrongError as error:
            error.path.append(f"[{len(found)}]")
            raise
        return tuple(found)

    return Form(
        lambda items: [write(item) for write, item in zip(writers, items, strict=True)],
        read,
        {
            "type": "array",
            "prefixItems": [one.schema for one in inner],
            "items": False,
            "minItems": len(inner),
        },
    )


def _mapping(key: Form, value: Form) -> Form:
    writers = key.write or as_it_is, value.write or as_it_is

    def read(data: object) -> object:
        if type(data) is not dict:
            raise wrong("an object", data)
        name, found = "", {}
        try:
            for name, one in data.items():
                found[key.read(name)] = value.read(one)
        except WrongError as error:
            error.path.append(f".{shown(name)}")
            raise
        return found

    return Form(
        lambda items: {writers[0](name): writers[1](one) for name, one in items.items()},
        read,
        {
            "type": "object",
            "propertyNames": key.schema,
            "additionalProperties": value.schema,
        },
    )


CONTAINERS: dict[Any, Callable[..., Form]] = {
    Sequence: _sequence,
    tuple: _many,
    frozenset: _set,
    Mapping: _mapping,
}


def careful(inner: Read) -> Read:
    """Return a reader that says what was expected where another only refuses."""

    def read(data: object) -> object:
        try:
            return inner(data)
        except ValueError as error:
            raise wrong(str(error), data) from None

    return read
