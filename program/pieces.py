"""Cut a slice of a program along axes that it only carries along: pieces that stay in the cache.

What a norm or an activation makes of one position of a batch does not depend on the others.
Executed piece by piece, what is made on the way leaves the processor's cache as little as the
memory that it lay in, which is taken from the system only once.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

from padiff.dumpfile import ProgramError

from .lowering import Lowered, Node
from .primitives import ELEMENTWISE, Array, Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .execute import Leaf

Place: TypeAlias = tuple[slice, ...]

_BLOCK = 1 << 17
"""Elements of the largest value that a piece makes, where the axes allow it."""
_REPEATED = 1 << 12
"""Elements of what is made again for each piece, at most."""
_VIEWS = frozenset({"reshape", "slice", "transpose"})
_ALONG = frozenset({"cumsum", "log_softmax", "softmax"})
_REDUCING = frozenset({"amax", "amin", "prod", "sum"})


class Pieces:
    """All pieces of a slice of a program, in order."""

    def __init__(
        self,
        lowered: Lowered,
        nodes: Sequence[Node],
        values: Mapping[int, int],
        wanted: int,
        cuts: Mapping[int, tuple[int, Mapping[int, int]]],
    ) -> None:
        """Hold what is cut.

        Args:
            lowered: The program.
            nodes: Of it, in order.
            values: The terms of the values that are cut, by their ids.
            wanted: The one among them that is made.
            cuts: By axes of the wanted value, how many of its elements a piece has along each, and
                which axis of each term is cut with it; others stay whole.
        """
        self._lowered, self._nodes, self._values = lowered, nodes, values
        self._wanted, self._cuts = wanted, cuts
        self._made: dict[tuple[int, ...], Lowered] = {}

    @property
    def taken(self) -> list[int]:
        """The ids of the values that are taken."""
        return [value for value in self._values if value != self._wanted]

    def over(
        self, leaves: Mapping[int, Leaf]
    ) -> Iterator[tuple[Lowered, dict[int, Leaf], dict[int, Place]]]:
        """Yield the program of each piece, what it takes, and where it lies in each value.

        Args:
            leaves: Elements of the values that are taken, as ``execute`` takes them.

        Raises:
            ProgramError: Elements have another shape than the program says.
        """
        arrays = {value: self._loaded(value, leaves[value]) for value in self.taken}
        for at in self._places():
            sizes = tuple(one.stop - one.start for one in at.values())
            if sizes not in self._made:
                self._made[sizes] = self._at_sizes(dict(zip(at, sizes, strict=True)))
            places = {value: self._place(term, at) for value, term in self._values.items()}
            parts: dict[int, Leaf] = {
                value: array[places[value]] for value, array in arrays.items()
            }
            yield self._made[sizes], parts, places

    def _loaded(self, value: int, leaf: Leaf) -> Array:
        """Return elements, converted at once where each piece takes all of them."""
        array, term = leaf() if callable(leaf) else leaf, self._values[value]
        if array.shape != self._lowered.specs[term].shape:
            raise ProgramError(
                f"cannot execute: expected shape {self._lowered.specs[term].shape} for value "
                f"{value}, found {array.shape}"
            )
        if any(term in axes for _, axes in self._cuts.values()):
            return array
        return array.astype(self._lowered.specs[term].kind.dtype, copy=False)

    def _places(self) -> Iterator[dict[int, slice]]:
        shape = self._lowered.specs[self._values[self._wanted]].shape
        ranges = [
            [slice(at, min(at + length, shape[axis])) for at in range(0, shape[axis], length)]
            for axis, (length, _) in self._cuts.items()
        ]
        for chosen in product(*ranges):
            yield dict(zip(self._cuts, chosen, strict=True))

    def _place(self, term: int, at: Mapping[int, slice]) -> Place:
        found = [slice(None)] * self._lowered.specs[term].ndim
        for axis, one in at.items():
            own = self._cuts[axis][1].get(term)
            if own is not None:
                found[own] = one
        return tuple(found)

    def _at_sizes(self, sizes: Mapping[int, int]) -> Lowered:
        def shape_at(term: int) -> tuple[int, ...]:
            shape = list(self._lowered.specs[term].shape)
            for axis, size in sizes.items():
                own = self._cuts[axis][1].get(term)
                if own is not None:
                    shape[own] = size
            return tuple(shape)

        return _with_shapes(self._lowered, self._nodes, self._values, shape_at)


def cut(lowered: Lowered, given: Iterable[int], wanted: int) -> Pieces | None:
    """Cut a slice of a program into pieces of some hundred thousand elements.

    Args:
        lowered: The program.
        given: Ids of the values that it begins with.
        wanted: Id of the value that it makes.

    Returns:
        None if it is small already or only a view, if elements lack, or if no axis of the wanted
        value is only carried along.
    """
    nodes, values = _between(lowered, given, wanted)
    specs, own = lowered.specs, lowered.terms[wanted]
    made = {term for node in nodes for term in node.outputs}
    if values is None or _VIEWS.issuperset(node.primitive for node in nodes):
        return None
    if max((specs[term].count for term in made), default=0) <= _BLOCK:
        return None
    counts = {term: specs[term].count for node in nodes for term in (*node.operands, *node.outputs)}
    cuts: dict[int, tuple[int, Mapping[int, int]]] = {}
    for axis, size in enumerate(specs[own].shape):
        axes = _carried(lowered, nodes, own, axis) if size > 1 else None
        if axes is None:
            continue
        each = max(counts[term] // size for term in axes)
        length = min(max(_BLOCK // max(each, 1), 1), size)
        cuts[axis] = length, axes
        for term in axes:
            counts[term] = counts[term] // size * length
        if length > 1:
            break
    carried = set[int]().union(*(axes for _, axes in cuts.values()))
    repeated = [one for one in nodes if carried.isdisjoint(one.outputs)]
    is_cheap = all(
        one.primitive in _VIEWS or specs[one.outputs[0]].count <= _REPEATED for one in repeated
    )
    return Pieces(lowered, nodes, values, wanted, cuts) if cuts and is_cheap else None


def of_elements(lowered: Lowered, given: Iterable[int], wanted: int, count: int) -> Lowered | None:
    """Return the program that makes some elements of a value from the same ones of others.

    Args:
        lowered: The program.
        given: Ids of the values that it begins with.
        wanted: Id of the value that it makes.
        count: How many elements; values of one element without axes stay as they are.

    Returns:
        None if elements depend on others.
    """
    nodes, values = _between(lowered, given, wanted)
    if values is None:
        return None
    shape = lowered.specs[values[wanted]].shape
    terms = {*values.values(), *(term for node in nodes for term in node.outputs)}
    is_plain = all(node.primitive in ELEMENTWISE or not node.operands for node in nodes)
    if not is_plain or any(lowered.specs[term].shape not in {shape, ()} for term in terms):
        return None
    if any(lowered.specs[node.outputs[0]].shape for node in nodes if not node.operands):
        return None
    return _with_shapes(
        lowered, nodes, values, lambda term: (count,) if lowered.specs[term].shape else ()
    )


def _between(
    lowered: Lowered, given: Iterable[int], wanted: int
) -> tuple[list[Node], dict[int, int] | None]:
    """Return the nodes behind a value, and the terms of it and of what they take, by value id.

    The latter is None if they take what is not given.
    """
    terms = {lowered.terms[value]: value for value in given}
    nodes = [lowered.nodes[at] for at in lowered.behind([lowered.terms[wanted]], known=terms)]
    made = {term for node in nodes for term in node.outputs}
    read = dict.fromkeys(term for node in nodes for term in node.operands if term not in made)
    if not terms.keys() >= read.keys():
        return nodes, None
    return nodes, {**{terms[term]: term for term in read}, wanted: lowered.terms[wanted]}


def _with_shapes(
    lowered: Lowered,
    nodes: Sequence[Node],
    values: Mapping[int, int],
    shape_of: Callable[[int], tuple[int, ...]],
) -> Lowered:
    """Return a slice of a program by itself, with other sizes of its axes."""
    places: dict[int, int] = {}
    specs: list[Spec] = []

    def place(term: int) -> int:
        if term not in places:
            places[term] = len(specs)
            specs.append(Spec(lowered.specs[term].kind, shape_of(term)))
        return places[term]

    made = tuple(
        Node(
            primitive=node.primitive,
            operands=tuple(map(place, node.operands)),
            attributes=_attributes(node, shape_of),
            outputs=tuple(map(place, node.outputs)),
            operator=node.operator,
        )
        for node in nodes
    )
    return Lowered(
        nodes=made,
        terms={value: place(term) for value, term in values.items()},
        specs=tuple(specs),
        leaves={},
        opaque={},
        random=frozenset(),
        producers={term: at for at, node in enumerate(made) for term in node.outputs},
    )


def _attributes(
    node: Node, shape_of: Callable[[int], tuple[int, ...]]
) -> tuple[tuple[str, Any], ...]:
    if node.primitive not in {"expand", "reshape"}:
        return node.attributes
    return tuple(
        (name, shape_of(node.outputs[0]) if name == "shape" else value)
        for name, value in node.attributes
    )


def _carried(
    lowered: Lowered, nodes: Sequence[Node], wanted: int, axis: int
) -> dict[int, int] | None:
    """Return the axis of each term that lies along an axis of the wanted one.

    Terms that are left out are needed whole. None where a primitive mixes what lies along the
    axis, or a term is needed in two ways.
    """
    found: dict[int, int | None] = {wanted: axis}
    for node in reversed(nodes):
        out = found.get(node.outputs[0])
        if out is None:
            axes: Sequence[int | None] | None = [None] * len(node.operands)
            if any(found.get(one) is not None for one in node.outputs):
                return None
        else:
            axes = _axes_of_operands(lowered, node, out) if len(node.outputs) == 1 else None
        if axes is None:
            return None
        for term, one in zip(node.operands, axes, strict=True):
            if found.setdefault(term, one) != one:
                return None
    return {term: one for term, one in found.items() if one is not None}


def _axes_of_operands(lowered: Lowered, node: Node, axis: int) -> Sequence[int | None] | None:
    """Return the axis of each operand that lies along one of the result; None if it is mixed."""
    attributes: dict[str, Any] = dict(node.attributes)
    shapes = [lowered.specs[term].shape for term in node.operands]
    shape = lowered.specs[node.outputs[0]].shape
    found: Sequence[int | None] | None = None
    if node.primitive in ELEMENTWISE or node.primitive in {"expand", "matmul"}:
        found = [_broadcast_axis(one, shape, axis) for one in shapes]
        is_inside = node.primitive == "matmul" and axis >= len(shape) - 2
        return None if is_inside or (node.primitive == "matmul" and None in found) else found
    if node.primitive == "transpose":
        found = [attributes["order"][axis] % len(shape)]
    elif node.primitive == "reshape":
        found = _axis_before(shapes[0], shape, axis)
    elif node.primitive in _ALONG or node.primitive == "slice":
        found = [axis] if attributes["axis"] % len(shape) != axis else None
    elif node.primitive in _REDUCING:
        axes = {one % len(shapes[0]) for one in attributes["axes"]}
        kept = [one for one in range(len(shapes[0])) if attributes["keepdims"] or one not in axes]
        found = [kept[axis]] if kept[axis] not in axes else None
    return found


def _broadcast_axis(operand: tuple[int, ...], shape: tuple[int, ...], axis: int) -> int | None:
    """Return the axis of an operand that is not broadcast along one of the result."""
    own = axis - len(shape) + len(operand)
    return own if own >= 0 and operand[own] == shape[axis] else None


def _axis_before(
    operand: tuple[int, ...], shape: tuple[int, ...], axis: int
) -> Sequence[int | None] | None:
    """Return the axis that another shape of the same elements had, as many elements apart."""
    before = math.prod(shape[:axis])
    for own, size in enumerate(operand):
        if size == shape[axis] and math.prod(operand[:own]) == before:
            return [own]
    return None
