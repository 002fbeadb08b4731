"""The form of two programs in which causes are looked for: that in which more is the same.

In one layout no value lies otherwise than what it is computed from. One program computes along
(batch, time), another one transposes first and computes along (time, batch), or joins batch and
heads to one axis. Whatever is computed in the other layout is another expression then, up to the
place where it is transposed back. So transposes and reshapes are pushed through what is computed
element by element, along an axis or by matrix products: each value is a view of a base that lies as
its own operands do. Factors are taken along.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from padiff.program import LAYOUT, Node, unrolled
from padiff.program.primitives import ELEMENTWISE, VOCABULARY, ShapeError, Spec

from .numbering import Numbering

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from padiff.program import Lowered

    from .executed import Sink
    from .leaves import Leaves
    from .side import Side


def form_for_causes(
    sides: tuple[Side, Side], leaves: Leaves, numbering: Numbering, sinks: Sequence[Sink]
) -> tuple[tuple[Side, Side], Numbering]:
    """Return the programs and the numbering in which causes are looked for.

    Two kernels of one softmax are one there: otherwise all that is computed behind the softmax of
    another framework has no counterpart. So are two layouts, and a recurrent layer and a loop, if
    more has a counterpart then.
    """
    kernels = {
        dict(node.attributes).get("least")
        for side in sides
        for node in side.lowered.nodes
        if node.primitive == "softmax"
    }
    is_strict = len(kernels) < 2  # noqa: PLR2004
    plain = [side.lowered for side in sides]
    known = [made.value for made in leaves.computed.values()], [*leaves.computed]
    forms = [plain, list(map(in_one_layout, plain, known))]
    counts = [[node.primitive for node in one.nodes].count("recurrent") for one in plain]
    if counts[0] != counts[1]:
        forms.append(list(map(in_one_layout, map(unrolled, plain), known)))
    chosen = min(forms, key=lambda form: _count_lone(form[0], form[1], sinks))
    if chosen is not plain:
        one, two = (replace(side, lowered=form) for side, form in zip(sides, chosen, strict=True))
        sides = one, two
    elif is_strict:
        return sides, numbering
    return sides, Numbering(*sides, leaves, is_strict=is_strict)


def _count_lone(known: Lowered, found: Lowered, sinks: Sequence[Sink]) -> int:
    """Count the primitives of results, but for moves, of a kind and shape that one side lacks."""
    ends = [sink.reference for sink in sinks], [sink.candidate for sink in sinks]
    kinds = []
    for lowered, values in zip((known, found), ends, strict=True):
        places = lowered.behind(lowered.terms[value] for value in values)
        nodes = (lowered.nodes[place] for place in places)
        made = ((one.primitive, term) for one in nodes for term in one.outputs)
        kinds.append(
            Counter((name, lowered.specs[term].shape) for name, term in made if name not in LAYOUT)
        )
    return (kinds[0] - kinds[1]).total() + (kinds[1] - kinds[0]).total()


_ALONG = frozenset({"softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp", "flip", "roll"})
"""Primitives along one axis or some, which change no shape."""
_ACROSS = frozenset({"sum", "prod", "amax", "amin", "all", "any", "logsumexp", "slice"})
"""Primitives that leave less of some axes, or nothing."""
_MATRIX = 2
"""Axes of a matrix."""


def in_one_layout(lowered: Lowered, known: Collection[int] = ()) -> Lowered:
    """Return a program with the same values whose inner ones are computed in one layout.

    One with values of more axes than there may be stays.

    Args:
        lowered: The program.
        known: Value ids of what is known by itself: it lies as it did, and is read as that.
    """
    try:
        return _Layouts(lowered, {lowered.terms[value] for value in known}).run()
    except ShapeError:
        return lowered


class _Layouts:
    def __init__(self, lowered: Lowered, known: Collection[int]) -> None:
        self.lowered, self.known = lowered, known
        self.nodes: list[Node] = []
        self.specs: list[Spec] = []
        self.views: dict[int, View] = {}
        """Of the terms of the program."""
        self.laid: dict[tuple[object, ...], int] = {}
        """The terms that views were laid out as."""
        self.numbers: set[int] = set()
        """Terms that are numbers."""
        self.operator = -1
        """The one whose primitive is written."""

    def run(self) -> Lowered:
        """Go through the program in its order."""
        lowered = self.lowered
        leaves = {}
        for term, value in lowered.leaves.items():
            new = self.term(lowered.specs[term])
            leaves[new] = value
            self.views[term] = plain(new, lowered.specs[term].shape)
        for node in lowered.nodes:
            self.operator = node.operator
            view = self.view(node) if len(node.outputs) == 1 else None
            if view is None:
                self.as_it_is(node)
            else:
                self.views[node.outputs[0]] = self.read(node.outputs[0], view)
        terms, bases = {}, {}
        for value, term in lowered.terms.items():
            place = lowered.producers.get(term)
            self.operator = -1 if place is None else lowered.nodes[place].operator
            terms[value] = self.laid_out(self.views[term], lowered.specs[term].shape)
            bases[terms[value]] = self.scaled(self.views[term]).base
        producers = {term: place for place, node in enumerate(self.nodes) for term in node.outputs}
        return replace(
            lowered,
            nodes=tuple(self.nodes),
            specs=tuple(self.specs),
            terms=terms,
            leaves=leaves,
            producers=producers,
            bases=bases,
        )

    def read(self, term: int, view: View) -> View:
        """Return the view that a term is read as."""
        shape = self.lowered.specs[term].shape
        return plain(self.laid_out(view, shape), shape) if term in self.known else view

    def term(self, spec: Spec) -> int:
        self.specs.append(spec)
        return len(self.specs) - 1

    def write(self, name: str, operands: Sequence[int], attributes: Mapping[str, Any]) -> int:
        """Write a primitive with one output."""
        spec = VOCABULARY[name].infer(*(self.specs[one] for one in operands), **attributes)
        assert isinstance(spec, Spec)
        made = self.term(spec)
        self.nodes.append(
            Node(
                primitive=name,
                operands=tuple(operands),
                attributes=tuple(sorted(attributes.items())),
                outputs=(made,),
                operator=self.operator,
            )
        )
        return made

    def as_it_is(self, node: Node) -> None:
        """Write a primitive of operands that lie as they did."""
        specs = self.lowered.specs
        operands = tuple(self.laid_out(self.views[one], specs[one].shape) for one in node.operands)
        outputs = tuple(self.term(specs[one]) for one in node.outputs)
        self.nodes.append(replace(node, operands=operands, outputs=outputs))
        for old, new in zip(node.outputs, outputs, strict=True):
            self.views[old] = plain(new, specs[old].shape)
        if node.primitive == "full" and not specs[node.outputs[0]].shape:
            self.numbers.update(outputs)

    def laid_out(self, view: View, shape: tuple[int, ...]) -> int:
        """Return a term of some shape whose elements lie in the order of a view."""
        view = self.scaled(view)
        key = view.base, view.sizes, view.order, shape
        if key not in self.laid:
            made = view.base
            if view.order != tuple(range(len(view.order))):
                made = self.in_shape(made, view.sizes)
                made = self.write("transpose", [made], {"order": view.order})
            self.laid[key] = self.in_shape(made, shape)
        return self.laid[key]

    def in_shape(self, term: int, shape: tuple[int, ...]) -> int:
        if self.specs[term].shape == shape:
            return term
        return self.write("reshape", [term], {"shape": shape})

    def parted(self, view: View) -> View:
        """Return a view of a base that has an axis for each part."""
        return view.on(self.in_shape(view.base, view.sizes), view.sizes)

    def plain(self, base: int) -> View:
        return plain(base, self.specs[base].shape)

    def view(self, node: Node) -> View | None:
        """Return what a primitive makes as a view; None where its operands stay as they lie."""
        views = [self.views[one] for one in node.operands]
        shape = self.lowered.specs[node.outputs[0]].shape
        if 0 in shape or any(0 in view.sizes for view in views):
            return None
        if node.primitive == "reshape":
            return views[0].reshaped(shape)
        if node.primitive == "transpose":
            return views[0].transposed(dict(node.attributes)["order"])
        found = self.multiplied(node, views)
        return self.computed(node, [*map(self.scaled, views)]) if found is None else found

    def multiplied(self, node: Node, views: Sequence[View]) -> View | None:
        """Return a product of matrices, or of a value and a number, as a view."""
        if node.primitive == "matmul":
            factors = (*views[0].factors, *views[1].factors)
            made = self.product(*(replace(view, factors=()) for view in views))
            return None if made is None else replace(made, factors=factors)
        return self.factor(node, views) if node.primitive in {"mul", "div"} else None

    def computed(self, node: Node, views: Sequence[View]) -> View | None:
        """Return what a primitive makes of views without factors as a view."""
        name, attributes = node.primitive, dict(node.attributes)
        if name in ELEMENTWISE:
            shape = self.lowered.specs[node.outputs[0]].shape
            return self.of_elements(name, views, shape, attributes)
        if all(map(self.is_plain, views)):
            return None
        if name in _ALONG | _ACROSS:
            return self.along(name, views[0], attributes)
        if name == "take" and attributes["axis"] == 0 and self.is_plain(views[0]):
            return self.rows(views[0], views[1], attributes)
        return None

    def factor(self, node: Node, views: Sequence[View]) -> View | None:
        """Return a value times a number, or over one, as a view of the value."""
        spec = self.lowered.specs[node.outputs[0]]
        for place in (1, 0)[: 2 if node.primitive == "mul" else 1]:
            one, number = views[1 - place], views[place].base
            is_same = one.sizes and one.shape == spec.shape
            if number in self.numbers and is_same and self.specs[one.base].kind is spec.kind:
                return replace(one, factors=(*one.factors, (node.primitive, number, node.operator)))
        return None

    def scaled(self, view: View) -> View:
        """Return a view without factors, of a base that is multiplied by them."""
        for name, number, operator in view.factors:
            key = name, view.base, number
            if key not in self.laid:
                before, self.operator = self.operator, operator
                self.laid[key] = self.write(name, [view.base, number], {})
                self.operator = before
            view = view.on(self.laid[key], view.lying)
        return replace(view, factors=())

    def is_plain(self, view: View) -> bool:
        """Return whether a view is nothing but its base."""
        return view == self.plain(view.base)

    def of_elements(
        self, name: str, views: Sequence[View], shape: tuple[int, ...], attributes: dict[str, Any]
    ) -> View | None:
        """Compute each element of the bases, as they lie in that of the first whole operand."""
        whole = [view for view in views if view.shape == shape]
        if not whole:
            return None
        frame = next((view for view in whole if not self.is_plain(view)), whole[0])
        if not all(map(frame.is_spread_by, views)):
            frame = self.parted(frame)
        operands = [self.beside(frame, view) for view in views]
        if None in operands:
            return None
        made = self.write(name, [one for one in operands if one is not None], attributes)
        return frame.on(made, self.specs[made].shape)

    def beside(self, frame: View, view: View) -> int | None:
        """Return a term that lies as the base of a frame does, with the elements of a view."""
        if not view.sizes:  # one element
            return self.laid_out(view, ())
        if view.on(frame.base, view.lying) == frame:
            return view.base
        lacking = frame.lacking(view)
        parts = view.reshaped([1 if one in lacking else frame.sizes[one] for one in frame.order])
        if parts is None:
            return None
        shape = tuple(
            1 if lacking.issuperset(axis) else prod(frame.sizes[one] for one in axis)
            for axis in frame.parts
        )
        turned = parts.transposed([frame.order.index(one) for one in range(len(frame.sizes))])
        found = turned.reshaped(shape)
        begin = next(place for place, size in enumerate(shape) if size != 1)
        return None if found is None else self.laid_out(found, shape[begin:])

    def along(self, name: str, view: View, attributes: dict[str, Any]) -> View | None:
        """Compute along axes of a value where they are axes of the base."""
        several = "axes" in attributes
        axes = attributes["axes"] if several else (attributes["axis"],)
        groups = [view.axes[axis] for axis in axes]
        if any(len(group) != 1 for group in groups):
            return None
        if any([group[0]] not in view.parts for group in groups):
            view = self.parted(view)
        places = view.parts
        own = tuple(sorted(places.index([group[0]]) for group in groups))
        changed = {**attributes, **({"axes": own} if several else {"axis": own[0]})}
        made = self.write(name, [view.base], changed)
        if name in _ALONG:
            return view.on(made, view.lying)
        size = self.specs[made].shape[own[0]] if name == "slice" else 1
        if size != 1:
            part = groups[0][0]
            sizes = (*view.sizes[:part], size, *view.sizes[part + 1 :])
            return replace(view.on(made, self.specs[made].shape), sizes=sizes)
        gone = {group[0] for group in groups}
        kept = [part for part in range(len(view.sizes)) if part not in gone]
        counted = {axis % len(view.axes) for axis in axes}
        axes_left = tuple(
            () if place in counted else tuple(map(kept.index, group))
            for place, group in enumerate(view.axes)
            if attributes.get("keepdims", True) or place not in counted
        )
        sizes = tuple(view.sizes[part] for part in kept)
        return View(made, self.specs[made].shape, sizes, axes_left)

    def product(self, one: View, two: View) -> View | None:
        """Multiply matrices whose rows or batches lie as in the base."""
        if len(two.axes) == _MATRIX:
            return self.of_rows(one, two)
        outer = one.shape[:-2]
        parted = two.reshaped([*_sizes(one), *two.shape[-2:]])
        if outer != two.shape[:-2] or parted is None:
            return None
        batch = _sizes(parted)
        pair = [view.reshaped([*batch, *view.shape[-2:]]) for view in (one, parted)]
        views = [view for view in pair if view is not None]
        if len(views) < len(pair):
            return None
        order = sorted(range(len(batch)), key=lambda place: views[0].axes[place])
        order += [len(batch), len(batch) + 1]
        turned = [view.transposed(order) for view in views]
        made = self.write("matmul", [self.laid_out(view, view.shape) for view in turned], {})
        back = [order.index(place) for place in range(len(order))]
        return self.plain(made).transposed(back).reshaped([*outer, one.shape[-2], two.shape[-1]])

    def of_rows(self, one: View, two: View) -> View | None:
        """Multiply rows, which lie as in the base, with a matrix."""
        last = one.axes[-1]
        rows = [part for part in range(len(one.sizes)) if part not in last]
        if len(one.axes) < _MATRIX or not rows:
            return None
        turned = replace(one, axes=(*((part,) for part in rows), last)).joined()
        is_last = one.lying[-1:] == one.shape[-1:]
        if turned.order == tuple(range(len(turned.order))) and is_last:
            term = one.base
        else:
            term = self.laid_out(turned, turned.shape)
        made = self.write("matmul", [term, self.laid_out(two, two.shape)], {})
        found = self.plain(made)
        axes = (tuple(map(rows.index, axis)) for axis in one.axes[:-1])
        sizes = tuple(one.sizes[part] for part in rows)
        count = two.shape[-1:]
        if count == (1,):
            return replace(found, sizes=sizes, axes=(*axes, ()))
        return replace(found, sizes=(*sizes, *count), axes=(*axes, (len(rows),)))

    def rows(self, table: View, index: View, attributes: dict[str, Any]) -> View:
        """Take rows of a table, which lie as the indices do in their base.

        Of one index in a row, an axis is there or not as somebody wrote it: the base has none.
        """
        index = self.parted(index)
        made = self.write("take", [table.base, index.base], attributes)
        inner = plain(table.base, table.lying[1:])
        begin = len(index.sizes)
        axes = (tuple(part + begin for part in axis) for axis in inner.axes)
        lying = self.specs[made].shape
        return View(made, lying, (*index.sizes, *inner.sizes), (*index.axes, *axes))


def _sizes(view: View) -> list[int]:
    """Return the sizes of all parts of the axes of a stack of matrices but for the last two."""
    return [view.sizes[part] for axis in view.axes[:-2] for part in axis]


Factor: TypeAlias = tuple[str, int, int]
"""A primitive, the number, and the operator."""


@dataclass(frozen=True, slots=True)
class View:
    """A value as a base whose axes stand in another order, or are joined or parted.

    Parts of axes are numbered in the order of the base; those of size 1 are none.
    """

    base: int
    """A term of the new program."""
    lying: tuple[int, ...]
    """Its shape."""
    sizes: tuple[int, ...]
    """Of the parts."""
    axes: tuple[tuple[int, ...], ...]
    """For each axis of the value the parts that it is made of."""
    factors: tuple[Factor, ...] = ()
    """By which it is multiplied or divided: a number may stand on either side of a product."""

    @property
    def order(self) -> tuple[int, ...]:
        """The parts in the order of the value's elements."""
        return tuple(chain(*self.axes))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(prod(self.sizes[part] for part in axis) for axis in self.axes)

    @property
    def parts(self) -> list[list[int]]:
        """The parts of each axis of the base."""
        found: list[list[int]] = []
        left = iter(range(len(self.sizes)))
        for size in self.lying:
            found.append([])
            while size > prod(self.sizes[part] for part in found[-1]):
                found[-1].append(next(left))
        return found

    def transposed(self, order: Sequence[int]) -> View:
        """Return the view with its axes in another order."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """Return the view in another shape; None if parts would be joined that lie apart."""
        left = [(part, self.sizes[part]) for part in reversed(self.order)]
        pieces: dict[int, list[int]] = {part: [] for part in self.order}
        axes: list[list[tuple[int, int]]] = []
        for size in shape:
            axes.append([])
            rest = size
            while rest > 1:
                if not left:
                    return None
                part, own = left.pop()
                taken = min(own, rest)
                if own % taken or rest % taken:
                    return None
                if own > taken:
                    left.append((part, own // taken))
                axes[-1].append((part, len(pieces[part])))
                pieces[part].append(taken)
                rest //= taken
        places = [
            (part, piece) for part, own in sorted(pieces.items()) for piece in range(len(own))
        ]
        found = replace(
            self,
            sizes=tuple(pieces[part][piece] for part, piece in places),
            axes=tuple(tuple(map(places.index, axis)) for axis in axes),
        )
        return None if left else found.joined()

    def joined(self) -> View:
        """Return the view without parts of one axis that always lie beside each other."""
        ahead = {axis[0] for axis in self.parts if axis}
        pairs = (pair for axis in self.axes for pair in pairwise(axis))
        beside = {two for one, two in pairs if two == one + 1} - ahead
        first = [part for part in range(len(self.sizes)) if part not in beside]
        ends = [*first, len(self.sizes)][1:]
        sizes = tuple(prod(self.sizes[a:b]) for a, b in zip(first, ends, strict=True))
        axes = tuple(tuple(first.index(one) for one in axis if one in first) for axis in self.axes)
        return replace(self, sizes=sizes, axes=axes)

    def lacking(self, view: View) -> set[int]:
        """Return the parts along which another view is spread to become as large."""
        axes = (*((),) * (len(self.axes) - len(view.axes)), *view.axes)
        pairs = zip(self.axes, axes, strict=True)
        return {part for whole, own in pairs if not own for part in whole}

    def is_spread_by(self, view: View) -> bool:
        """Return whether another view is spread along whole axes of the base alone."""
        lacking = self.lacking(view)
        return all(lacking.isdisjoint(axis) or lacking.issuperset(axis) for axis in self.parts)

    def on(self, base: int, lying: tuple[int, ...]) -> View:
        """Return the same view of another base."""
        return replace(self, base=base, lying=lying)


def plain(base: int, shape: tuple[int, ...]) -> View:
    """Return a base as it lies."""
    places = iter(range(len(shape)))
    axes = tuple((next(places),) if size != 1 else () for size in shape)
    return View(base, shape, tuple(size for size in shape if size != 1), axes)
