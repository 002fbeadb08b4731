"""Read from both dumps what the search for a cause looks at: arrays, layers, what was at hand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.judging.absent import arrays_of
from padiff.comparer.judging.blocks import is_floating
from padiff.comparer.locating.between import name_of
from padiff.comparer.result import Verdict
from padiff.dumpfile import Content, Role
from padiff.pairing import Rule, kind_of

from .attributes import canonical_attributes
from .budget import Budget
from .contrast import Contrast, unit_roundoff
from .layercauses import Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.comparer.locating.calltree import CallTree
    from padiff.comparer.result import JudgedPair
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Side

    _Walk = Callable[[Sequence[JudgedPair]], Iterable[tuple[int, JudgedPair]]]

__all__ = ["Sides", "Two"]

_STATES = {Role.WEIGHT, Role.BUFFER, Role.WEIGHT_GRAD, Role.OPTIMIZER_STATE}
_MATRIX = 2
MOST_ELEMENTS = 1 << 24
"""Larger tensors are not looked into: it takes several float64 copies."""
MOST_TABLES = 8
"""Matrices that may be tables of positions, embeddings first: each is read as a whole."""
MOST_AT_HAND = 1 << 22
"""Of the tensors that code between modules had at hand, larger ones are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    """One tensor on both sides, in the candidate's layout, float64."""

    reference: Array
    candidate: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Both dumps, and what of the one is what of the other."""

    tree: CallTree
    reference: Side
    candidate: Side
    budget: Budget = field(default_factory=Budget)
    """Asked before a tensor is read."""
    _places: dict[int | tuple[int, int], int] = field(default_factory=dict, repr=False)
    """Of pairs, by what they hold."""
    _unseen: list[_Walk] = field(default_factory=lambda: [remarkable, enumerate], repr=False)
    """Walks through pairs that were not taken yet: each takes long."""

    def position(self, pair: JudgedPair) -> int | None:
        """Find the pair of a divergence among all, or the one at another address it was judged by.

        Nearly all are among those that do not simply match; a few agree and are to blame.
        """
        ends = id(pair.reference), id(pair.candidate)
        while ends not in self._places and self._unseen:
            for place, other in self._unseen.pop(0)(self.tree.pairs):
                self._places.setdefault((id(other.reference), id(other.candidate)), place)
                if other.metrics is not None:
                    self._places.setdefault(id(other.metrics), place)
        judged = None if pair.metrics is None else self._places.get(id(pair.metrics))
        return self._places.get(ends, judged)

    def contrast(self, position: int) -> Contrast | None:
        """Read a judged pair, the reference in the candidate's layout; None if it cannot be."""
        both = None if self.tree.pairs[position].metrics is None else self.read(position)
        if both is None:
            return None
        known, found = self.tree.records[position]
        names = [self._dtype(self.reference, self.reference.index.records[one]) for one in known]
        names.append(self._dtype(self.candidate, self.candidate.index.records[found or 0]))
        first = self.reference.index.records[known[0]]
        return Contrast(
            reference=both.reference,
            candidate=both.candidate,
            unit=max(map(unit_roundoff, names)),
            is_line=self._is_line(first.module),
            is_state=first.role in _STATES,
            budget=self.budget,
        )

    def read(self, position: int) -> Two | None:
        """Read a pair, whatever its verdict, in the candidate's layout; None if it cannot be."""
        known, found = self.tree.records[position]
        pair = self.tree.pairs[position]
        if not known or found is None or pair.is_partial:
            return None
        target = self.candidate.index.records[found]
        sources = [self.reference.index.records[one] for one in known]
        has_values = target.value is not None and any(one.value is not None for one in sources)
        elements = math.prod(target.shape)
        if not has_values or elements > MOST_ELEMENTS or not self.budget.grants(2 * elements):
            return None
        array = Rule.parse(pair.candidate_layout).apply(arrays_of([target], self.candidate))
        rule, parts = Rule.parse(pair.layout), arrays_of(sources, self.reference)
        if not rule.fits([part.shape for part in parts], array.shape):
            return None  # one number for the whole weight against one for each element
        expected = rule.apply(parts, array.shape)
        if not (_is_number(expected) and _is_number(array)):
            return None
        return Two(reference=expected.astype(np.float64), candidate=array.astype(np.float64))

    def read_alone(self, position: int, layout: str, shape: tuple[int, ...]) -> Two | None:
        """Read what only the reference has for both sides, laid out as the tensor that it is of.

        Args:
            position: Of the pair.
            layout: Rule by which the tensor becomes the candidate's.
            shape: The candidate's.
        """
        known, found = self.tree.records[position]
        sources = [self.reference.index.records[one] for one in known]
        if len(sources) != 1 or found is not None or sources[0].value is None:
            return None
        elements = math.prod(shape)
        if elements > MOST_ELEMENTS or not self.budget.grants(elements):
            return None
        laid = _laid(layout, arrays_of(sources, self.reference)[0], shape)
        return None if laid is None else Two(reference=laid, candidate=laid)

    def laid_out(self, position: int, array: Array) -> Array | None:
        """Lay another array out as the reference's tensor of a pair is."""
        found = self.tree.records[position][1]
        if found is None:
            return None
        shape = self.candidate.index.records[found].shape
        return _laid(self.tree.pairs[position].layout, array, shape)

    def _is_line(self, module: int) -> bool:
        """Tell whether a layer runs over one axis of space."""
        found = self.reference.index.modules[module]
        return found.class_name.lower().endswith("1d") or (kind_of(found) or "").endswith("1d")

    @staticmethod
    def _dtype(side: Side, record: RecordInfo) -> str:
        return "" if record.value is None else side.index.values[record.value].dtype

    def at_hand(self, record: RecordInfo) -> list[tuple[str, Array]]:
        """Give what the reference's code had at hand when it made a tensor, by name, in order.

        For a leaf's output, its inputs. Before them what the same code made later and that agrees:
        the candidate may make it earlier.
        """
        flow, call = self.tree.reference_flow, record.call
        if call is None:
            return []
        if record.role is Role.OUTPUT and call not in flow.inside:
            given = flow.records(call, Role.INPUT)
        elif record.role is Role.OUTPUT:
            given = self._in_code(call, record)
        else:
            around = self.tree.reference.calls[call].parent
            given = [] if around is None else self._in_code(around, record)
            given = [*self._agreeing_later(around, record.order), *given]
        own = call if record.role is Role.OUTPUT else self.tree.reference.calls[call].parent
        inside = "" if own is None else self.tree.path(own)
        found = []
        for one in given:
            array = self._floating(one, MOST_AT_HAND)
            if array is not None:
                found.append((name_of(self.reference.index, one, inside=inside), array))
        return found

    def switches(self, record: RecordInfo) -> list[tuple[str, Array]]:
        """Give the boolean tensors that the code of a tensor was given, as masks of both kinds.

        0 where seen, far below where hidden: True is seen in one kind of mask, hidden in another.
        """
        call = record.call
        if call is None:
            return []
        index, flow = self.reference.index, self.tree.reference_flow
        own = call if record.role is Role.OUTPUT else index.calls[call].parent
        given = [] if own is None else flow.records(own, Role.INPUT)
        path, found = "" if own is None else self.tree.path(own), []
        for one in given:
            value = None if one.value is None else index.values[one.value]
            if value is None or value.dtype != "bool" or value.content is not Content.FULL:
                continue
            if value.size > MOST_AT_HAND or not self.budget.grants(2 * value.size):
                continue
            array, name = self.reference.array(one), name_of(index, one, inside=path)
            found.append((f"{name} (True is seen)", np.where(array, 0.0, -1e30)))
            found.append((f"{name} (True is hidden)", np.where(array, -1e30, 0.0)))
        return found

    def taken(self, record: RecordInfo) -> set[str]:
        """Name what calls gave that another call of the same code took, before a tensor was made.

        A norm of queries takes what their projection gave; what is left is what is used.
        """
        call = record.call
        if call is None:
            return set()
        index, flow = self.reference.index, self.tree.reference_flow
        own = call if record.role is Role.OUTPUT else index.calls[call].parent
        inside = [] if own is None else flow.inside.get(own, [])
        before = [one for one in inside if index.calls[one].start < record.order and one != call]
        used = {one.value for child in before for one in flow.records(child, Role.INPUT)}
        path = "" if own is None else self.tree.path(own)
        return {
            name_of(index, one, inside=path)
            for child in before
            for one in flow.records(child, Role.OUTPUT)
            if one.value in used
        }

    def _in_code(self, around: int, record: RecordInfo) -> list[RecordInfo]:
        """Give what the code of a call had been given, what its calls gave, and what it made."""
        flow = self.tree.reference_flow
        own = [one for one in flow.made_between(around, record.order) if one.value != record.value]
        given = [*flow.ingredients(around, record.order), *own]
        entering = {one.id for one in flow.records(around, Role.INPUT)}
        return sorted(given, key=lambda one: (one.id not in entering, one.order))

    def _agreeing_later(self, around: int | None, since: int) -> list[RecordInfo]:
        """Give the outputs of the calls that a call makes after some time, of those that agree."""
        tree = self.tree
        return [
            tree.reference.records[tree.records[place][0][0]]
            for call in (() if around is None else tree.children.get(around, ()))
            for place, pair in tree.of_call(call, Role.OUTPUT)
            if pair.verdict is Verdict.MATCH and pair.reference is not None
            if tree.order(place) > since and not tree.bad(call, Role.INPUT)
        ]

    def gradients(self, record: RecordInfo) -> list[tuple[str, Array]]:
        """Give the gradients that came back to the call of an input gradient and inside it.

        By name, those of the outputs first; none for a leaf, which has but one path.
        """
        tree, call = self.tree, record.call
        if call is None or not tree.children.get(call):
            return []
        found, seen = [], {record.value}
        for role in (Role.GRAD_OUTPUT, Role.GRAD_INPUT):
            for one in (call, *tree.children[call]):
                for place, _ in tree.of_call(one, role):
                    known = [tree.reference.records[part] for part in tree.records[place][0]]
                    if len(known) != 1 or known[0].value in seen:
                        continue
                    seen.add(known[0].value)
                    array = self._floating(known[0], MOST_AT_HAND)
                    if array is not None:
                        name = name_of(tree.reference, known[0], inside=tree.path(call))
                        found.append((name.replace("grad_", ""), array))
        return found

    def tables(self, record: RecordInfo) -> list[tuple[str, Array]]:
        """Give the matrices of the reference that may hold a row for each place of a tensor.

        Those of the module whose code made it and of what is inside that; no weights of products.

        Args:
            record: Of the reference, shape (..., place, feature).
        """
        if record.call is None or len(record.shape) < _MATRIX:
            return []
        index, call = self.reference.index, record.call
        own = call if record.role is Role.OUTPUT else index.calls[call].parent
        path = "" if own is None else self.tree.path(own)
        likely = sorted(self._matrices_in(path, record.shape[-2:]), key=lambda one: one[0] is None)
        found = []
        for _, one in likely[:MOST_TABLES]:
            array = self._floating(one, MOST_AT_HAND)
            if array is not None:
                matrix = array.reshape([length for length in one.shape if length != 1])
                found.append((name_of(index, one, inside=path), matrix))
        return found

    def _matrices_in(
        self, path: str, form: tuple[int, ...]
    ) -> Iterator[tuple[str | None, RecordInfo]]:
        """Yield what is no weight of a product: embeddings' and users' own, with the kind.

        Args:
            path: Of the module that holds it, at any depth.
            form: Rows that it must have at least, and columns.
        """
        index = self.reference.index
        for one in index.records:
            if one.role is not Role.WEIGHT and one.role is not Role.BUFFER:
                continue
            shape = [length for length in one.shape if length != 1]
            if len(shape) != _MATRIX or shape[0] < form[0] or shape[1] != form[1]:
                continue
            module = index.modules[one.module]
            kind = kind_of(module)
            if kind in {None, "embedding"} and f"{module.path}.".startswith(f"{path}.".lstrip(".")):
                yield kind, one

    def small(self, record: RecordInfo) -> Array | None:
        """Read a record of the reference as float64; None if it is large, partial or no float."""
        return self._floating(record, MOST_AT_HAND)

    def _floating(self, record: RecordInfo, most: int) -> Array | None:
        """Read a record of the reference as float64; None if it is large, partial or no float."""
        value = None if record.value is None else self.reference.index.values[record.value]
        if value is None or value.content is not Content.FULL or value.size > most:
            return None
        if not self.budget.grants(value.size):
            return None
        array = self.reference.array(record)
        return array.astype(np.float64) if is_floating(array.dtype) else None

    def layer(self, call: int | None, module: int, *, needs_partner: bool = True) -> Layer | None:
        """Gather what is known of a reference module and its partner, and of one call.

        Args:
            call: The call, if the question is about one.
            module: Id in the reference.
            needs_partner: Whether nothing is given without one; else it stands for its own.
        """
        partner = (
            self.tree.partner_module.get(module)
            if call is None
            else self.tree.counterpart_module(call)
        )
        if partner is None and needs_partner:
            return None
        known = self.reference.index.modules[module]
        found = known if partner is None else self.candidate.index.modules[partner]
        kind = kind_of(known) or kind_of(found)
        if kind is None and call is None:
            return None
        return Layer(
            class_name=known.class_name.lower(),
            kind=kind or "",
            reference=canonical_attributes(known, self.reference.framework),
            candidate=canonical_attributes(found, self.candidate.framework),
            training=(known.training, found.training),
            source=self._input(call),
            states=self._states(module),
        )

    def states(self, module: int, child: str) -> dict[str, Array]:
        """Give the weights and buffers of a reference module directly inside another, by name."""
        path = f"{self.reference.index.modules[module].path}.{child}".lstrip(".")
        found = (one.id for one in self.reference.index.modules if one.path == path)
        return self._states(next(found, -1))

    def _states(self, module: int) -> dict[str, Array]:
        return {
            record.slot.lstrip("._"): self.reference.array(record).astype(np.float64)
            for record in self.reference.index.records
            if record.module == module and self._is_small_state(record)
        }

    def _is_small_state(self, record: RecordInfo) -> bool:
        if record.role not in {Role.WEIGHT, Role.BUFFER} or record.value is None:
            return False
        value = self.reference.index.values[record.value]
        if value.dtype.startswith("complex"):
            return False  # no layer that is known keeps any
        is_small = value.content is Content.FULL and value.size <= MOST_ELEMENTS
        return is_small and self.budget.grants(value.size)

    def _input(self, call: int | None) -> Array | None:
        if call is None:
            return None
        records = self.tree.reference_flow.records(call, Role.INPUT)
        return self._floating(records[0], MOST_ELEMENTS) if records else None


def _laid(layout: str, array: Array, shape: tuple[int, ...]) -> Array | None:
    rule = Rule.parse(layout)
    if not (rule.fits([array.shape], shape) and _is_number(array)):
        return None
    return rule.apply([array], shape).astype(np.float64)


def _is_number(array: Array) -> bool:
    """Tell whether differences of a tensor's elements mean something: floats, positions, ids."""
    return is_floating(array.dtype) or np.issubdtype(array.dtype, np.integer)
