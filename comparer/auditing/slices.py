"""A recorded program with what is known of its values: what can be computed from what."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import LeafKind, Phase, Role
from padiff.program import (
    OVERWRITE,
    UNIT_ROUNDOFF,
    VOCABULARY,
    Execution,
    KnownErrors,
    Limits,
    Rounding,
    cut,
    drawing_operators,
    execute,
    is_view,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from padiff.program import (
        Leaf,
        Lowered,
        Node,
        Operator,
        Pieces,
        RecordedProgram,
        Value,
    )
    from padiff.program.primitives import Array


MOVES = frozenset({"reshape", "slice", "transpose"})
"""Primitives after which elements are what they were."""
_COPYING = ".Tensor.set_value"
"""Paddle's method; its kernel of that name writes into a part and has a gradient."""
_KEPT_BYTES = 48 << 20
"""Recorded elements in float64 that are kept for what is audited next."""


def cuts(operator: Operator) -> bool:
    """Return whether an operator hands elements on and no gradient back."""
    method = operator.name.rpartition(".")[2]
    return method in ("detach", "detach_", "data") or operator.name.endswith(_COPYING)


def carrying_gradients(recorded: RecordedProgram) -> set[int]:
    """Return the operators run without a graph through which gradients flow all the same, by id.

    They are inside a function that has a backward pass of its own: one of them, or one behind it
    that runs without a graph, makes a value for which a gradient arrived. At a weight it arrives
    whatever a script made it of.
    """
    found: set[int] = set()
    carrying: set[int] = set()
    weights = {
        value
        for record, value in recorded.borders.items()
        if recorded.index.records[record].role is Role.WEIGHT
    }
    for operator in reversed(recorded.program.operators):
        arrived = any(map(recorded.got_gradient, set(operator.outputs) - weights))
        if operator.no_grad and (arrived or carrying.intersection(operator.outputs)):
            found.add(operator.id)
            carrying.update(operator.taken)
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """The primitives between known values and a wanted one, in order."""

    wanted: int
    """Value id."""
    nodes: tuple[Node, ...]
    taken: Mapping[int, int]
    """The values whose recorded elements they read, by term, in the order of their first use."""

    @property
    def operators(self) -> int:
        """How many operators they are of."""
        return len({node.operator for node in self.nodes})


@dataclass(frozen=True, slots=True)
class _Sources:
    """The terms that a part of a program begins with."""

    known: Mapping[int, int]
    moved: set[int]
    """Known terms that are computed anew."""
    given: int | None = None
    walled: Mapping[int, int] = field(default_factory=dict)
    """What is behind walls and therefore stays, by term; it may not be in the dump."""

    def __contains__(self, term: object) -> bool:
        if term == self.given or term in self.walled:
            return True
        return term in self.known and term not in self.moved

    def value(self, term: int) -> int:
        """Return the value whose elements are taken for a term."""
        return self.known[term] if term in self.known else self.walled[term]


class KnownProgram:
    """Executes slices of a program between values whose elements are in the dump."""

    def __init__(self, recorded: RecordedProgram, lowered: Lowered) -> None:
        """Look which elements there are."""
        self.recorded, self.lowered = recorded, lowered
        self.program = recorded.program
        self._wide: dict[tuple[int, bool], Array] = {}
        """The last recorded elements that were asked for, gradients among them."""
        self._wide_bytes = 0

    @cached_property
    def known(self) -> dict[int, int]:
        """The value whose recorded elements are taken for each term, where there are any."""
        found: dict[int, int] = {}
        for value in self.program.values:
            if value.id in self.lowered.terms and self.recorded.has_elements(value.id):
                found.setdefault(self.lowered.terms[value.id], value.id)
        return found

    @cached_property
    def draws(self) -> dict[int, Operator]:
        """The operator that drew each leaf that is computed from what it took and made, by id."""
        return drawing_operators(self.program)

    @cached_property
    def units(self) -> dict[int, float]:
        """The unit roundoff of each operator: that of the coarsest dtype that it makes or takes."""
        return {one.id: self._unit(one) for one in self.program.operators}

    @cached_property
    def walls(self) -> dict[int, tuple[int, ...]]:
        """What operators make that hand elements on and no gradient back, by the operator's id.

        Where what they make got a gradient of its own, a script may have handed it on by itself.
        Inside a function with a backward pass of its own, that one decides what goes back.
        """
        return {
            one.id: one.outputs
            for one in self.program.operators
            if cuts(one)
            and not one.no_grad
            and one.id not in self.lowered.opaque
            and not any(map(self.recorded.got_gradient, one.outputs))
        }

    @cached_property
    def readers(self) -> dict[int, list[Operator]]:
        """The operators of the forward pass and the loss that read each value."""
        found: dict[int, list[Operator]] = {}
        for operator in self.program.operators:
            if operator.phase is not Phase.UPDATE and operator.outputs:
                for value in dict.fromkeys(operator.taken):
                    found.setdefault(value, []).append(operator)
        return found

    @cached_property
    def shared(self) -> set[int]:
        """The values whose recorded gradient is not what their readers imply, by id.

        A tensor that is written through a view becomes another one for autograd. Its views become
        views of that: what is read of a written view arrives there, too, and at the views from
        before arrives a part of what the tensor got, or what they got before. What is written
        through a detached view autograd does not see: before and after are one. Where several
        backward passes reach a value, what was recorded is of the first of them, but for weights
        with the sum of all.
        """
        return self._written_apart() | (self._reached_again() - self.summed)

    @cached_property
    def summed(self) -> set[int]:
        """The weights that several losses learn through, with the gradient that the step left.

        It is the sum of all, unless a script cleared some in between.
        """
        reached = self._reached_again()
        if not (reached and self.recorded.borders):
            return set()
        records = self.recorded.index.records
        left = {
            (one.module, one.slot): one.value for one in records if one.role is Role.WEIGHT_GRAD
        }
        weights = {
            value
            for record, value in self.recorded.borders.items()
            if records[record].role is Role.WEIGHT
            and (row := left.get((records[record].module, records[record].slot))) is not None
            and self.recorded.gradient_row(value) == row
        }
        return weights & reached

    def _reached_again(self) -> set[int]:
        """Return the values that more than one loss learns through."""
        borders = self.recorded.borders.items()
        records = self.recorded.index.records if borders else ()
        losses = {value for record, value in borders if records[record].role is Role.LOSS}
        if len(losses) <= 1:
            return set()
        reached = {value: 1 << at for at, value in enumerate(losses)}
        """A bit for each loss, by value."""
        carrying = carrying_gradients(self.recorded)
        for one in reversed(self.program.operators):
            is_cut = cuts(one) or (one.no_grad and one.id not in carrying)
            if not (is_cut or one.phase is Phase.UPDATE):
                bits = reduce(or_, (reached.get(value, 0) for value in one.outputs), 0)
                reached.update({value: reached.get(value, 0) | bits for value in one.taken})
        return {value for value, bits in reached.items() if bits & (bits - 1)}

    def _written_apart(self) -> set[int]:
        """Return the values that are written through views, and those behind them."""
        operators = self.program.operators
        changes = [one for one in operators if one.name == OVERWRITE]
        found = {one for change in changes for one in change.taken[1:] if self._is_read(one)}
        found.update(
            one for change in changes if found.intersection(change.taken) for one in change.outputs
        )
        behind = {one.taken[0] for one in changes}
        for change in changes:
            if any(map(self._is_unseen, change.taken[1:])):
                behind.update(change.outputs)
                found.update(change.taken[:1], change.outputs)
        for operator in filter(is_view, operators):
            if behind.intersection(operator.taken[:1]):
                behind.update(operator.outputs)
                found.update(operator.outputs)
        return found

    def _is_unseen(self, value: int) -> bool:
        """Return whether a value was written in place through a detached view."""
        operator = self.producer(self.program.values[value])
        while operator is not None and (operator.in_place or is_view(operator)):
            if cuts(operator):
                return True
            operator = self.producer(self.program.values[operator.taken[0]])
        return False

    def _is_read(self, value: int) -> bool:
        """Return whether an operator reads a value for itself, not to write into it."""
        return any(
            one.name != OVERWRITE and not (one.in_place and one.taken[0] == value)
            for one in self.readers.get(value, ())
        )

    def has_gradient(self, value: int) -> bool:
        """Return whether the dump holds the gradient of all that is done with a value."""
        return self.recorded.has_gradient(value) and value not in self.shared

    @cached_property
    def takers(self) -> dict[int, list[int]]:
        """The positions of the nodes that read each term and hand a gradient back to it."""
        late = {one.id for one in self.program.operators if one.phase is Phase.UPDATE}
        late |= self.walls.keys()
        found: dict[int, list[int]] = {}
        for at, node in enumerate(self.lowered.nodes):
            for operand in () if node.operator in late else dict.fromkeys(node.operands):
                found.setdefault(operand, []).append(at)
        return found

    @cached_property
    def chosen(self) -> dict[int, Array]:
        """What stood first in the sorts whose places were recorded, by the term of all places.

        A sort puts equal elements in any order, and gradients go back to those that were chosen.
        """
        nodes = self.lowered.nodes
        sorts = {node.outputs[1]: node for node in nodes if node.primitive == "sort"}
        firsts = {term: term for term in sorts}
        for node in nodes:
            sort = sorts.get(node.operands[0]) if node.primitive == "slice" else None
            told = dict(node.attributes)
            if sort is not None and (told["axis"], told["start"], told["step"]) == (
                dict(sort.attributes)["axis"],
                0,
                1,
            ):
                firsts[node.outputs[0]] = sort.outputs[1]
        return {
            places: self.elements(self.known[term])
            for term, places in firsts.items()
            if term in self.known
        }

    def elements(self, value: int) -> Array:
        """Return recorded elements in float64, or as they are if they are no real numbers."""
        found = self._loaded(value, is_gradient=False)
        if found is None:
            raise LookupError(f"value {value} has no elements")
        return found

    def gradient(self, value: int) -> Array | None:
        """Return a recorded gradient in float64, None where none is in the dump."""
        return self._loaded(value, is_gradient=True)

    def narrow(self, value: int, *, is_gradient: bool = False) -> Array:
        """Return elements that are in the dump in float32 or float64, what is nearer to them.

        Integers and complex numbers are returned as they are.
        """
        found = (self.recorded.gradient if is_gradient else self.recorded.elements)(value)
        if found is None:
            what = "gradient in the dump" if is_gradient else "elements"
            raise LookupError(f"value {value} has no {what}")
        is_wide = found.dtype.itemsize >= np.dtype(np.float32).itemsize
        is_float = found.dtype.kind not in "biuc"
        return found.astype(np.float32) if is_float and not is_wide else found

    def _loaded(self, value: int, *, is_gradient: bool) -> Array | None:
        """Read elements, or take them from those that were asked for last."""
        key = value, is_gradient
        wide = self._wide.pop(key, None)
        if wide is None:
            found = (self.recorded.gradient if is_gradient else self.recorded.elements)(value)
            if found is None:
                return None
            is_plain = found.dtype.kind in "biuc" and not is_gradient
            with np.errstate(invalid="ignore"):  # memory that nobody wrote holds signalling nans
                wide = found if is_plain else found.astype(np.float64)
            self._wide_bytes += wide.nbytes
        self._wide[key] = wide
        while self._wide_bytes > _KEPT_BYTES and len(self._wide) > 1:
            self._wide_bytes -= self._wide.pop(next(iter(self._wide))).nbytes
        return wide

    def part_behind(self, value: int) -> Part:
        """Return the primitives from known values, without this one's own, to a value."""
        own = self.lowered.terms[value]
        return self._part(value, _Sources(self.known, {own}), own)

    def part_between(self, value: int, wanted: int, held: Collection[int]) -> Part:
        """Return the primitives that make a value from another one, beside known values.

        Args:
            value: Id of the value that is changed.
            wanted: Id of the value to compute.
            held: Ids of values that stay as recorded although they are computed from it.
        """
        terms = self.lowered.terms
        own = terms[value]
        moved = self._dependents(own, {terms[one] for one in held}) | {terms[wanted]}
        made = (one for those in self.walls.values() for one in those)
        walled = {terms[one]: one for one in made if terms[one] not in moved}
        return self._part(wanted, _Sources(self.known, moved, own, walled), own)

    def _part(self, wanted: int, known: _Sources, own: int) -> Part:
        places = self.lowered.behind([self.lowered.terms[wanted]], known=known)
        nodes = tuple(self.lowered.nodes[place] for place in places)
        read = dict.fromkeys(term for node in nodes for term in node.operands)
        taken = {term: known.value(term) for term in read if term in known and term != own}
        return Part(wanted, nodes, taken)

    def _dependents(self, own: int, held: Collection[int]) -> set[int]:
        """Return a term and all that are computed from it on the way to terms that are held."""
        found, open_ = {own}, [own]
        while open_:
            for place in self.takers.get(open_.pop(), ()):
                outputs = self.lowered.nodes[place].outputs
                fresh = [one for one in outputs if one not in found and one not in held]
                found.update(fresh)
                open_ += fresh
        return found

    def compute(
        self,
        part: Part,
        *,
        changed: Mapping[int, Array] | None = None,
        seed: int | None = None,
        alike: KnownErrors | None = None,
    ) -> Array:
        """Execute a part of the program.

        Args:
            part: Of this program.
            changed: Elements by value id that stand for recorded ones. What was chosen of equal
                ones stays so then.
            seed: Of the random errors to make; None makes none. With changed elements, those of a
                backward pass are among them.
            alike: What was found of errors that are as alike as what they are of; None draws each
                by itself.

        Raises:
            ProgramError: Elements lack, or the program cannot be executed.
            DumpFormatError: Elements are damaged.
        """
        leaves = self.leaves(part)
        rounding = None
        if seed is not None:
            is_alike = alike is not None
            rounding = Rounding(
                self.units,
                seed=seed,
                known=alike,
                by_value=is_alike,
                sums_back=changed is not None,
            )
        leaves.update(changed or {})
        chosen = None if changed is None else self.chosen
        found = execute(self.lowered, leaves, [part.wanted], rounding=rounding, chosen=chosen)
        return found[part.wanted]

    def compute_terms(self, part: Part, terms: Sequence[int]) -> list[Array]:
        """Execute what some terms of a part are made of.

        Raises:
            ProgramError: Elements lack, or the program cannot be executed.
            DumpFormatError: Elements are damaged.
        """
        run = Execution(self.lowered, self.leaves(part), Limits(), None)
        run.run_all(run.needed(list(terms)), list(terms))
        return [run.operand(term) for term in terms]

    def terms_as_recorded(self, part: Part, terms: Sequence[int]) -> list[Array] | None:
        """Return terms of a part in the dtype they were recorded in, nothing below float32.

        None where one of them is more than recorded elements in another shape or order.

        Raises:
            DumpFormatError: Elements are damaged.
        """
        nodes = [self.lowered.nodes[at] for at in self.lowered.behind(terms, known=part.taken)]
        ends = {*terms, *(term for node in nodes for term in node.operands)}
        ends -= {term for node in nodes for term in node.outputs}
        are_there = all(
            term in part.taken and self.recorded.has_elements(part.taken[term]) for term in ends
        )
        if not are_there or any(node.primitive not in MOVES for node in nodes):
            return None
        found = {term: self.narrow(part.taken[term]) for term in ends}
        for node in nodes:
            run = VOCABULARY[node.primitive].run
            found[node.outputs[0]] = run(found[node.operands[0]], **dict(node.attributes))
        return [found[term] for term in terms]

    def compute_seen(
        self, part: Part, changed: Mapping[int, Array], terms: Collection[int]
    ) -> dict[int, Array]:
        """Execute a part, and return some of its terms on the way.

        Raises:
            ProgramError: Elements lack, or the program cannot be executed.
            DumpFormatError: Elements are damaged.
        """
        found: dict[int, Array] = {}

        def look(term: int, array: Array) -> None:
            if term in terms:
                found[term] = array

        leaves = {**self.leaves(part), **changed}
        execute(self.lowered, leaves, [part.wanted], observe=look, chosen=self.chosen)
        return found

    def compute_behind(
        self,
        part: Part,
        term: int,
        elements: Array,
        changed: Mapping[int, Array] | None = None,
    ) -> Array:
        """Execute what a part makes of one of its terms, beside recorded elements.

        Args:
            part: Of this program.
            term: Made on the way.
            elements: Those that it gets.
            changed: Elements by value id that stand for recorded ones.

        Raises:
            ProgramError: Elements lack, or the program cannot be executed.
            DumpFormatError: Elements are damaged.
        """
        leaves = {**self.leaves(part), **(changed or {})}
        run = Execution(self.lowered, leaves, Limits(), None)
        run.given[term], run.chosen = (part.wanted, elements), self.chosen
        return run.compute([part.wanted])[part.wanted]

    def pieces(self, part: Part, given: int | None = None) -> Pieces | None:
        """Return a part cut into pieces that stay in the cache, None where that cannot be.

        Args:
            part: Of this program.
            given: A value that it takes beside recorded ones.
        """
        values = part.taken.values() if given is None else (*part.taken.values(), given)
        return cut(self.lowered, values, part.wanted)

    def as_recorded(self, values: Iterable[int]) -> dict[int, Array] | None:
        """Return elements in their recorded dtype, by value id; None where some are not there.

        Raises:
            DumpFormatError: Elements are damaged.
        """
        found = {value: self.recorded.elements(value) for value in values}
        there = {value: array for value, array in found.items() if array is not None}
        return there if len(there) == len(found) else None

    def rests_on_ties(self, part: Part, given: int | None = None) -> bool:
        """Return whether a part follows an order that a sort left open, as of equal elements.

        Any order is right, and the recorded one is not in the dump.

        Args:
            part: Of this program.
            given: A value that it takes beside recorded ones.

        Raises:
            ProgramError: Elements lack, or the program cannot be executed.
            DumpFormatError: Elements are damaged.
        """
        sorts = [node for node in part.nodes if node.primitive == "sort"]
        if any(map(self._is_unordered, sorts)):
            return True
        read = {term for node in part.nodes for term in node.operands}
        read.add(self.lowered.terms[part.wanted])
        sorts = [node for node in sorts if node.outputs[1] in read]
        if not sorts:
            return False
        values = dict(part.taken)
        if given is not None:
            values[self.lowered.terms[given]] = given
        found = {term: self._taken(value) for term, value in values.items()}
        leaves = {value: found[term] for term, value in values.items()}
        execute(self.lowered, leaves, [part.wanted], observe=found.__setitem__)
        return any(_has_ties(found[node.operands[0]], node) for node in sorts)

    def _is_unordered(self, node: Node) -> bool:
        """Return whether the operator of a sort was asked for any order."""
        given = self.program.operators[node.operator].keywords
        return given.get("sorted", True) is False

    def leaves(self, part: Part) -> dict[int, Leaf]:
        """Return how to load the recorded elements that a part takes, by value id."""
        return {value: partial(self._taken, value) for value in part.taken.values()}

    def _taken(self, value: int) -> Array:
        """Return the elements of a value, computed if they are not in the dump."""
        if self.recorded.has_elements(value):
            return self.elements(value)
        return self.compute(self.part_behind(value))

    def leaves_draws_open(self, part: Part) -> bool:
        """Return whether a part goes through zeros of which nobody knows whether they were kept."""
        taken = (value for value in part.taken.values() if value in self.draws)
        return any(map(self.recorded.is_open, taken))

    def producer(self, value: Value) -> Operator | None:
        """Return the operator that made a value, None for a leaf."""
        return None if value.producer is None else self.program.operators[value.producer]

    def _unit(self, operator: Operator) -> float:
        made = [self.program.values[one].dtype for one in operator.outputs]
        units = [UNIT_ROUNDOFF[dtype] for dtype in made if dtype in UNIT_ROUNDOFF]
        unit = max(units, default=0.0)
        # What judges float64 rounds as much itself.
        return 2 * unit if unit == UNIT_ROUNDOFF["float64"] else unit

    @cached_property
    def holes(self) -> int:
        """How many floating-point values came from nowhere."""
        return sum(one.kind is LeafKind.HOLE for one in self.program.values)


def _has_ties(array: Array, node: Node) -> bool:
    """Return whether there are equal elements along the axis of a sort."""
    axis: int = dict(node.attributes)["axis"]
    ordered = np.moveaxis(np.sort(array, axis=axis), axis, 0)
    return bool((ordered[1:] == ordered[:-1]).any())
