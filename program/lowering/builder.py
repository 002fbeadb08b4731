"""What lowering rules build with: terms that know their kind and shape before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from padiff.program.primitives import VOCABULARY, Array, Kind, Spec

LARGEST_NODES = 20_000
"""Primitives that one operator may become: an unrolled loop of a hostile length ends here."""
LARGEST_STATIC = 2**16
"""Elements of a value that a rule may look at, such as a shape that is a tensor."""


class NotLoweredError(Exception):
    """A rule says that it does not cover an operator; the operator is opaque."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One primitive of a lowered program; operands and outputs are positions of terms."""

    primitive: str
    operands: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...]
    """Names, sorted, with values that are numbers, strings, None or tuples of these."""
    outputs: tuple[int, ...]
    operator: int
    """The id of the operator that was lowered to this."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A value of the lowered program; Python's operators build more of them."""

    builder: Builder
    id: int
    spec: Spec

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.spec.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.spec.ndim

    @property
    def kind(self) -> Kind:
        """The kind of number."""
        return self.spec.kind

    def __add__(self, other: Operand) -> Term:
        return self.builder("add", self, other)

    def __radd__(self, other: Operand) -> Term:
        return self.builder("add", other, self)

    def __sub__(self, other: Operand) -> Term:
        return self.builder("sub", self, other)

    def __rsub__(self, other: Operand) -> Term:
        return self.builder("sub", other, self)

    def __mul__(self, other: Operand) -> Term:
        return self.builder("mul", self, other)

    def __rmul__(self, other: Operand) -> Term:
        return self.builder("mul", other, self)

    def __truediv__(self, other: Operand) -> Term:
        return self.builder("div", self, other)

    def __rtruediv__(self, other: Operand) -> Term:
        return self.builder("div", other, self)

    def __matmul__(self, other: Term) -> Term:
        return self.builder("matmul", self, other)

    def __neg__(self) -> Term:
        return self.builder("neg", self)

    def __lt__(self, other: Operand) -> Term:
        return self.builder("less", self, other)

    def __le__(self, other: Operand) -> Term:
        return self.builder("less_equal", self, other)

    def __gt__(self, other: Operand) -> Term:
        return self.builder("less", other, self)

    def __ge__(self, other: Operand) -> Term:
        return self.builder("less_equal", other, self)


Operand: TypeAlias = Term | bool | int | float | complex


class Builder:
    """The primitives of one program so far, and the specs of all terms."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.specs: list[Spec] = []
        self.operator = -1
        """The operator that is being lowered."""
        self.expected: tuple[Spec, ...] = ()
        """What was recorded as its outputs: sizes that depend on elements stand here."""
        self.dtype = ""
        """The dtype of the first of them."""
        self.contents: dict[int, Callable[[], Array | None]] = {}
        """How to get the elements of recorded terms, if the dump holds them."""
        self._constants: dict[tuple[Kind, str], Term] = {}
        self.producers: dict[int, int] = {}
        """The position of the node that makes each term."""
        self._mark = (0, 0)

    def __call__(self, name: str, *operands: Operand, **attributes: Any) -> Term:
        """Build a primitive and return its result, the first if there are several."""
        return self.many(name, *operands, **attributes)[0]

    def many(self, name: str, *operands: Operand, **attributes: Any) -> tuple[Term, ...]:
        """Build a primitive and return all its results.

        Raises:
            ShapeError: The shape rule refuses operands or attributes.
        """
        terms = [self.term(operand) for operand in operands]
        primitive = VOCABULARY[name]
        least, most = primitive.arity
        if not least <= len(terms) <= most:
            raise NotLoweredError(f"{name} takes {least} to {most} operands, not {len(terms)}")
        if len(self.nodes) - self._mark[0] >= LARGEST_NODES:
            raise NotLoweredError(f"more than {LARGEST_NODES} primitives")
        inferred = primitive.infer(*(term.spec for term in terms), **attributes)
        specs = inferred if isinstance(inferred, tuple) else (inferred,)
        outputs = tuple(self._new(spec) for spec in specs)
        for output in outputs:
            self.producers[output.id] = len(self.nodes)
        self.nodes.append(
            Node(
                primitive=name,
                operands=tuple(term.id for term in terms),
                attributes=tuple(sorted(attributes.items())),
                outputs=tuple(term.id for term in outputs),
                operator=self.operator,
            )
        )
        return outputs

    def primitive_of(self, term: Term) -> str | None:
        """Return the name of the primitive that makes a term; None for a leaf."""
        place = self.producers.get(term.id)
        return None if place is None else self.nodes[place].primitive

    def leaf(self, spec: Spec) -> Term:
        """Add a term that no primitive makes."""
        return self._new(spec)

    def term(self, operand: Operand) -> Term:
        """Return the term of an operand; a number becomes a constant without axes."""
        if isinstance(operand, Term):
            return operand
        kind = _kind_of_number(operand)
        key = (kind, repr(operand))
        if key not in self._constants:
            self._constants[key] = self("full", shape=(), value=operand, kind=kind.value)
        return self._constants[key]

    def literal(self, values: Array) -> Term:
        """Write down a small array."""
        kind = {"b": Kind.BOOL, "i": Kind.INT, "f": Kind.FLOAT, "c": Kind.COMPLEX}[
            values.dtype.kind
        ]
        flat = tuple(values.reshape(-1).tolist())
        return self("literal", values=flat, shape=tuple(map(int, values.shape)), kind=kind.value)

    def static(self, term: Term) -> Array:
        """Return the elements of a small term that are known while lowering.

        They are recorded, or follow from recorded ones.

        Raises:
            NotLoweredError: They are not known.
        """
        if term.spec.count > LARGEST_STATIC:
            raise NotLoweredError("an argument with too many elements to look at")
        if term.id in self.contents:
            found = self.contents[term.id]()
            if found is not None:
                return np.asarray(found).astype(term.kind.dtype).reshape(term.shape)
        if term.id not in self.producers:
            raise NotLoweredError("an argument whose elements the dump does not hold")
        node = self.nodes[self.producers[term.id]]
        operands = [self.static(Term(self, id_, self.specs[id_])) for id_ in node.operands]
        with np.errstate(all="ignore"):
            result = VOCABULARY[node.primitive].run(*operands, **dict(node.attributes))
        results = result if isinstance(result, tuple) else (result,)
        return np.asarray(results[node.outputs.index(term.id)])

    def begin(self, operator: int, expected: tuple[Spec, ...], dtype: str) -> None:
        """Remember the state before an operator is lowered.

        Args:
            operator: Its id.
            expected: What was recorded as its outputs.
            dtype: Of the first of them; "" without any.
        """
        self.operator, self.expected, self.dtype = operator, expected, dtype
        self._mark = (len(self.nodes), len(self.specs))

    def undo(self) -> None:
        """Forget what was built since ``begin``."""
        nodes, specs = self._mark
        for id_ in range(specs, len(self.specs)):
            self.producers.pop(id_, None)
            self.contents.pop(id_, None)
        del self.nodes[nodes:], self.specs[specs:]
        self._constants = {key: term for key, term in self._constants.items() if term.id < specs}

    def _new(self, spec: Spec) -> Term:
        self.specs.append(spec)
        return Term(self, len(self.specs) - 1, spec)


def _kind_of_number(number: object) -> Kind:
    for type_, kind in ((bool, Kind.BOOL), (int, Kind.INT), (float, Kind.FLOAT)):
        if type(number) is type_:
            return kind
    if type(number) is complex:
        return Kind.COMPLEX
    raise NotLoweredError(f"expected a number or a tensor, found {type(number).__name__}")
