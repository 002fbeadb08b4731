"""Lower a recorded program: every operator that a table covers becomes primitives."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from padiff.dumpfile import ProgramError
from padiff.program.graph import Argument, Operator, Program, Slice, Value, ValueRef
from padiff.program.primitives import Array, Kind, ShapeError, Spec

from .builder import Builder, Node, NotLoweredError, Term
from .overwriting import OVERWRITE, Overwriting

if TYPE_CHECKING:
    from .rules import Table

Adapted: TypeAlias = Callable[[Operator, Mapping[int, tuple[int, ...]]], Operator]

DEEPEST_ARGUMENT = 32
"""Nesting of arguments; deeper ones are no framework's."""

_MISFITS = (
    NotLoweredError,
    ShapeError,
    ProgramError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
)
"""What a rule raises that meets arguments of other types than its signature says."""


_BITS = {"uint8": 8, "int8": 8, "uint16": 16, "int16": 16, "uint32": 32, "int32": 32}
_LEAVES_RANGE = frozenset(
    {"add", "sub", "mul", "neg", "not", "pow", "shift_left", "cast", "sum", "prod", "cumsum"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A program in the common vocabulary."""

    nodes: tuple[Node, ...]
    """In an order in which they can be executed."""
    specs: tuple[Spec, ...]
    """Kind and shape of every term, by position."""
    terms: Mapping[int, int]
    """The term of each value of the program; values that are the same share one."""
    leaves: Mapping[int, int]
    """The value of each term that no primitive makes: leaves, and outputs of opaque operators."""
    opaque: Mapping[int, str]
    """The reason of each operator that was not lowered."""
    random: frozenset[int]
    """The operators whose outcomes are leaves because they were drawn."""
    producers: Mapping[int, int]
    """The position of the node that makes each term; leaves have none."""
    bases: Mapping[int, int] = field(default_factory=dict)
    """The term that holds the same elements as they were computed, of terms that only lie
    otherwise; empty unless the program was brought into one layout."""
    costs: dict[int, tuple[int, int, int]] = field(default_factory=dict, init=False, compare=False)
    """What executing needs, by the first term that a primitive makes; ``Execution`` counts it."""

    def like(self, other: Lowered) -> Lowered:
        """Return this program, whose primitives need what those of another one needed.

        Args:
            other: A program in which the same terms are made of operands of the same specs.
        """
        self.costs.update(other.costs)
        return self

    def computed(self, value: int) -> int:
        """Return the term that a value was computed as, however it lies; -1 for none."""
        term = self.terms.get(value, -1)
        return self.bases.get(term, term)

    def behind(self, terms: Iterable[int], *, known: Container[int] = ()) -> list[int]:
        """Return the positions of the nodes that make terms, in order.

        Args:
            terms: What is wanted.
            known: Terms that are there: what makes them is left out.
        """
        open_, places = list(terms), set[int]()
        while open_:
            term = open_.pop()
            place = self.producers.get(term)
            if place is not None and term not in known and place not in places:
                places.add(place)
                open_ += self.nodes[place].operands
        return sorted(places)

    @property
    def values(self) -> dict[int, int]:
        """The first value that holds each term."""
        found: dict[int, int] = {}
        for value, term in self.terms.items():
            found.setdefault(term, value)
        return found

    def following(self, terms: Iterable[int]) -> set[int]:
        """Return terms, and all that is computed from them alone."""
        found = set(terms)
        for node in self.nodes:
            if found.issuperset(node.operands):
                found.update(node.outputs)
        return found

    def ahead(self, terms: Iterable[int]) -> set[int]:
        """Return terms and all that is computed from them."""
        found = set(terms)
        for node in self.nodes:
            if not found.isdisjoint(node.operands):
                found.update(node.outputs)
        return found


def lower(
    program: Program,
    table: Table,
    *,
    contents: Callable[[int], Array | None] | None = None,
    repaired: Container[int] = (),
    adapted: Adapted | None = None,
) -> Lowered:
    """Lower a program.

    Args:
        program: As recorded.
        table: That of the program's framework.
        contents: Returns the recorded elements of a value by its id, or None if the dump lacks
            them. Rules ask for small values only, such as a shape that is a tensor.
        repaired: Ids of leaves that were not recorded. What is computed from them may have other
            shapes than were recorded: those that the rules infer.
        adapted: Given an operator whose rule refuses such shapes, and the shapes of what it takes
            by value id, returns the operator with other sizes in its arguments.

    Raises:
        ProgramError: The program contradicts itself.
    """
    return _Lowering(program, table, contents, repaired, adapted).run()


@lru_cache(maxsize=4096)
def _spec(dtype: str, shape: tuple[int, ...]) -> Spec:
    return Spec(Kind.of_dtype(dtype), shape)


class _Lowering:
    def __init__(
        self,
        program: Program,
        table: Table,
        contents: Callable[[int], Array | None] | None,
        repaired: Container[int],
        adapted: Adapted | None,
    ) -> None:
        self.program, self.table, self.contents = program, table, contents
        self.repaired, self.adapted = repaired, adapted
        self.values = {value.id: value for value in program.values}
        self.builder = Builder()
        self.terms: dict[int, Term] = {}
        self.taken: set[int] = set()
        """Ids of the terms of values."""
        self.leaves: dict[int, int] = {}
        self.opaque: dict[int, str] = {}
        self.random: set[int] = set()

    def run(self) -> Lowered:
        for value in self.program.values:
            if value.producer is None:
                self.add_leaf(value)
        for operator in self.program.operators:
            self.lower_operator(operator)
        return Lowered(
            nodes=tuple(self.builder.nodes),
            specs=tuple(self.builder.specs),
            terms={id_: term.id for id_, term in self.terms.items()},
            leaves=self.leaves,
            opaque=self.opaque,
            random=frozenset(self.random),
            producers=self.builder.producers,
        )

    def spec_of(self, value: Value) -> Spec:
        try:
            return _spec(value.dtype, value.shape)
        except ShapeError as error:
            raise ProgramError(f"cannot lower: value {value.id}: {error}") from error

    def add_leaf(self, value: Value) -> None:
        term = self.builder.leaf(self.spec_of(value))
        self.terms[value.id], self.leaves[term.id] = term, value.id
        self.taken.add(term.id)
        self.offer_contents(value.id, term)

    def offer_contents(self, value: int, term: Term) -> None:
        contents = self.contents
        if contents is not None:
            self.builder.contents.setdefault(term.id, lambda: contents(value))

    def lower_operator(self, operator: Operator) -> None:
        outputs = [self.output(operator, id_) for id_ in operator.outputs]
        if all(value.id in self.terms for value in outputs):
            return  # it read a number, or handed on what was there
        if operator.random:
            self.random.add(operator.id)
            self.give_up(outputs)
            return
        arguments = self.arguments(operator)
        reason = self.try_rule(operator, outputs, *arguments)
        if reason and self.adapted is not None and self.reads_repaired(operator):
            shapes = {id_: self.terms[id_].shape for id_ in operator.taken}
            arguments = self.arguments(self.adapted(operator, shapes))
            reason = self.try_rule(operator, outputs, *arguments)
        if reason:
            self.opaque[operator.id] = reason
            self.give_up(outputs)

    def arguments(self, operator: Operator) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of an operator with terms in place of references."""
        positional = [self.argument(operator, each, 0) for each in operator.positional]
        named = operator.keywords.items()
        return positional, {key: self.argument(operator, each, 0) for key, each in named}

    def try_rule(
        self,
        operator: Operator,
        outputs: list[Value],
        positional: list[Any],
        keywords: dict[str, Any],
    ) -> str:
        """Lower an operator by its rule; returns the reason where that does not cover it."""
        expected = tuple(self.spec_of(value) for value in outputs)
        self.builder.begin(operator.id, expected, outputs[0].dtype if outputs else "")
        try:
            found = self.ruled(operator, positional, keywords)
            found = self.fitted(found, expected, operator)
            terms = [
                None if term is None else self.own(self.wrapped(term, value.dtype), operator)
                for term, value in zip(found, outputs, strict=True)
            ]
        except _MISFITS as error:
            self.builder.undo()
            return str(error) or type(error).__name__
        for value, term in zip(outputs, terms, strict=True):
            if value.id in self.terms:
                continue
            if term is None:
                self.add_leaf(value)
                continue
            self.terms[value.id] = term
            self.taken.add(term.id)
            if term.shape == value.shape:
                self.offer_contents(value.id, term)
        return ""

    def ruled(
        self, operator: Operator, positional: list[Any], keywords: dict[str, Any]
    ) -> list[Term | None]:
        """Return what the rule of an operator builds from its arguments."""
        if operator.name == OVERWRITE:
            operators = self.program.operators
            inside = Overwriting(self.builder, self.values, operators, self.with_other)
            return [inside.lower(operator, self.terms)]
        if operator.spread:
            raise NotLoweredError("tensors that are spread over processes")
        entry, arguments = self.table.bind(operator.name, positional, keywords)
        result = entry.rule(self.builder, arguments)
        return [result] if isinstance(result, Term) else [*result]

    def with_other(self, operator: Operator, value: int, term: Term) -> Sequence[Term]:
        """Lower an operator once more, with a term in the place of a value that it takes."""
        before = self.terms[value]
        self.terms[value] = term
        try:
            found = self.ruled(operator, *self.arguments(operator))
        finally:
            self.terms[value] = before
        if any(one is None for one in found):
            raise NotLoweredError("a view that is not known")
        return [one for one in found if one is not None]

    def own(self, term: Term, operator: Operator) -> Term:
        """Return a term that no other value has: a copy has a gradient and a dtype of its own."""
        is_shared = term.id not in self.taken or operator.name in self.table.sharing
        return term if is_shared else self.builder("cast", term, kind=term.kind.value)

    def output(self, operator: Operator, id_: int) -> Value:
        value = self.values.get(id_)
        if value is None or (value.producer == operator.id) is (id_ in self.terms):
            raise ProgramError(
                f"cannot lower: operator {operator.id} ({operator.name!r}): "
                f"expected an output that it makes or that is there, found value {id_}"
            )
        return value

    def give_up(self, outputs: list[Value]) -> None:
        for value in outputs:
            if value.id not in self.terms:
                self.add_leaf(value)

    def fitted(
        self, terms: list[Term | None], expected: tuple[Spec, ...], operator: Operator
    ) -> list[Term | None]:
        """Return the terms if their kinds and shapes are the recorded ones."""
        if len(terms) != len(expected):
            raise NotLoweredError(f"rule gives {len(terms)} outputs, recorded {len(expected)}")
        result: list[Term | None] = []
        for given, recorded in zip(terms, expected, strict=True):
            if given is None:
                result.append(None)
                continue
            written = operator.in_place and given.kind is not recorded.kind
            term = self.builder("cast", given, kind=recorded.kind.value) if written else given
            if term.spec != recorded and not (
                term.kind is recorded.kind and self.reads_repaired(operator)
            ):
                raise NotLoweredError(
                    f"rule gives {term.kind.value}{list(term.shape)}, "
                    f"recorded {recorded.kind.value}{list(recorded.shape)}"
                )
            result.append(term)
        return result

    def reads_repaired(self, operator: Operator) -> bool:
        """Return whether an operator takes a repaired value, or one of another shape for it."""
        return any(
            id_ in self.repaired or self.terms[id_].shape != self.values[id_].shape
            for id_ in operator.taken
        )

    def wrapped(self, term: Term, dtype: str) -> Term:
        """Return what is left of integers of few bits after arithmetic that leaves their range."""
        primitive = self.builder.primitive_of(term)
        if dtype not in _BITS or primitive not in _LEAVES_RANGE:
            return term
        if dtype == "int32" and primitive != "shift_left":  # other overflows of int32 are mistakes
            return term
        size = 2 ** _BITS[dtype]
        if dtype.startswith("u"):
            return self.builder("modulo", term, size)
        return self.builder("modulo", term + size // 2, size) - size // 2

    def argument(self, operator: Operator, argument: Argument, depth: int) -> Any:
        """Return an argument with terms in place of references."""
        if depth > DEEPEST_ARGUMENT:
            raise ProgramError(
                f"cannot lower: operator {operator.id} ({operator.name!r}): "
                f"expected arguments nested at most {DEEPEST_ARGUMENT} deep"
            )
        if isinstance(argument, ValueRef):
            return self.reference(operator, argument.id)
        if isinstance(argument, tuple):
            return tuple(self.argument(operator, each, depth + 1) for each in argument)
        if isinstance(argument, Slice):
            parts = (argument.start, argument.stop, argument.step)
            start, stop, step = (self.argument(operator, part, depth + 1) for part in parts)
            return slice(start, stop, step)
        if isinstance(argument, Mapping):
            return {key: self.argument(operator, each, depth + 1) for key, each in argument.items()}
        return argument

    def reference(self, operator: Operator, id_: int) -> Term:
        if id_ not in self.terms:
            raise ProgramError(
                f"cannot lower: operator {operator.id} ({operator.name!r}): "
                f"expected a value that exists before it, found {id_}"
            )
        return self.terms[id_]
