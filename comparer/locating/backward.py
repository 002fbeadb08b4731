"""Find the origins of diverged gradients, against the direction of the forward pass.

A recorded gradient is the total gradient of a tensor, summed over all its consumers. A call is an
origin if the gradients of its outputs agree and that of an input or of a weight does not, and
nothing diverged in its forward pass; again the innermost such call is named. An input's total
gradient accuses a call only if no other consumer of the tensor explains it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from padiff.dumpfile import Phase, Role

from .between import CONTAINERS
from .calltree import CallTree, earliest, is_bad, is_told, relative_error

AMPLIFICATION = 10.0
"""By how much the relative error must grow within a call for it to be a fault of its backward,
where the forward pass has diverged: that alone perturbs all gradients before it a little, also
below the tolerance, and those errors are passed on about as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The origins of one phase."""

    origins: frozenset[int]
    """Reference call ids."""
    suspects: Mapping[int, tuple[str, ...]]
    """Module paths that the evidence cannot tell apart, by origin."""


def find_backward(tree: CallTree) -> Faults:
    """Find the origins of the backward phase; what diverged forward explains gradients."""
    return Search(tree).run()


class Search:
    """One bottom-up walk over the calls."""

    def __init__(self, tree: CallTree) -> None:
        self._tree = tree
        self._made_by = self._find_producers()
        self._weight_gradients = self._attach_weight_gradients()
        self._consumers = self._group_consumers()
        self._is_forward_bad: dict[int, bool] = {}
        self._suspects: dict[int, set[str]] = defaultdict(set)

    def run(self) -> Faults:
        """Find the origins, and what the evidence cannot tell apart from them."""
        origins = self.find_origins()
        suspects = {
            call: tuple(sorted(paths)) for call, paths in self._suspects.items() if call in origins
        }
        return Faults(origins=frozenset(origins), suspects=suspects)

    def find_origins(self) -> set[int]:
        """Visit children before parents and keep the innermost origins."""
        tree, origins = self._tree, set[int]()
        first_bad: dict[int, int | None] = {}
        first_origin: dict[int, int | None] = {}
        is_clean = not any(
            tree.bad(call.id, Role.INPUT, Role.OUTPUT) for call in tree.reference.calls
        )
        for call in reversed(tree.reference.calls):
            inside = tree.children.get(call.id, ())
            self._is_forward_bad[call.id] = self._forward_diverged(call.id, inside)
            entering = tree.tainted(call.id, Role.GRAD_OUTPUT)
            own = self._own_symptoms(call.id, entering)
            below = earliest([*map(tree.order, own), *(first_bad[child] for child in inside)])
            explained = earliest(first_origin[child] for child in inside)
            is_origin = (
                below is not None
                and (self._cuts_gradient(call.id) or self._is_sound_before(call.id, entering))
                and not self._is_forward_bad[call.id]
                and (explained is None or explained > below)
                and (is_clean or self._amplifies(call.id, own))
            )
            if is_origin:
                origins.add(call.id)
            around = [*entering, *self._leaving_inside(call.id)]
            first_bad[call.id] = earliest([below, *map(tree.order, around)])
            first_origin[call.id] = below if is_origin else explained
        return origins

    def _leaving_inside(self, call: int) -> list[int]:
        """Return the diverged input gradients, but not of tensors that the call around got, too.

        Those accuse the call around, if any, by its own input gradients.
        """
        parent = self._tree.reference.calls[call].parent
        return [
            place
            for place in self._tree.bad(call, Role.GRAD_INPUT)
            if parent not in self._consumers.get(self._tensor(call, place), ())
        ]

    def _own_symptoms(self, call: int, entering: list[int]) -> list[int]:
        own = [*self._weight_gradients[call], *self._accusing(call)]
        return [*own, *entering] if self._cuts_gradient(call) else own

    def _is_sound_before(self, call: int, entering: list[int]) -> bool:
        """Return whether gradients came in, and all of them agree."""
        came = (pair for _, pair in self._tree.of_call(call, Role.GRAD_OUTPUT))
        return not entering and any(map(is_told, came))

    def _amplifies(self, call: int, own: list[int]) -> bool:
        """Return whether the gradients leaving a call are much worse than those that came in."""
        tree = self._tree
        before = [relative_error(pair) for _, pair in tree.of_call(call, Role.GRAD_OUTPUT)]
        after = [relative_error(tree.pairs[place]) for place in own]
        return max(after, default=0.0) > AMPLIFICATION * max(before, default=0.0)

    def _is_wronged(self, call: int) -> bool:
        """Return whether a gradient that came to a call diverged: that excuses what left it."""
        return bool(self._tree.tainted(call, Role.GRAD_OUTPUT))

    def _find_producers(self) -> dict[int, set[int]]:
        """Find which calls had a value as an output."""
        made_by: dict[int, set[int]] = defaultdict(set)
        for record in self._tree.reference.records:
            if record.role is Role.OUTPUT and None not in (record.value, record.call):
                made_by[record.value or 0].add(record.call or 0)
        return made_by

    def _forward_diverged(self, call: int, inside: list[int] | tuple[int, ...]) -> bool:
        if self._tree.bad(call, Role.INPUT) or self._tree.tainted(call, Role.OUTPUT):
            return True
        module = self._tree.reference.calls[call].module
        states = self._tree.of_module(module, Role.WEIGHT, Role.BUFFER)
        return any(is_bad(pair) for _, pair in states) or any(
            self._is_forward_bad[child] for child in inside
        )

    def _attach_weight_gradients(self) -> dict[int, list[int]]:
        """Hang diverged weight gradients on the calls that could have made them.

        A tied weight's gradient accuses nobody if a call of another owner received a diverged
        gradient. The weight of a module that was not called hangs on the nearest container.
        """
        tree = self._tree
        attached: dict[int, list[int]] = defaultdict(list)
        owners = self._owners()
        for module in tree.modules_with(Role.WEIGHT_GRAD):
            for place, pair in tree.of_module(module, Role.WEIGHT_GRAD):
                if not is_bad(pair):
                    continue
                slot = "" if pair.reference is None else pair.reference.address.slot
                modules = owners.get((module, slot), [module])
                calls = [call for owner in modules for call in self._calls_around(owner)]
                if any(self._is_wronged(call) for call in calls):
                    continue
                if len(calls) > 1 and any(tree.bad(call, Role.INPUT) for call in calls):
                    continue  # it is the sum over all calls: what one was given explains it
                for call in calls:
                    attached[call].append(place)
        return attached

    def _owners(self) -> dict[tuple[int, str], list[int]]:
        by_tensor: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for record in self._tree.reference.records:
            is_weight = record.role is Role.WEIGHT and record.phase is Phase.FORWARD
            if is_weight and record.tensor is not None:
                by_tensor[record.tensor].append((record.module, record.slot))
        return {
            owner: [module for module, _ in owners]
            for owners in by_tensor.values()
            for owner in owners
        }

    def _calls_around(self, module: int) -> list[int]:
        current: int | None = module
        while current is not None:
            if self._tree.calls_of.get(current):
                return self._tree.calls_of[current]
            current = self._tree.reference.modules[current].parent
        return []

    def _group_consumers(self) -> dict[tuple[int | None, int | None], set[int]]:
        """Group the calls that consume the same tensor: equal value in, equal gradient out."""
        groups: dict[tuple[int | None, int | None], set[int]] = defaultdict(set)
        for call in self._tree.reference.calls:
            for place, _ in self._tree.of_call(call.id, Role.GRAD_INPUT):
                groups[self._tensor(call.id, place)].add(call.id)
        return groups

    def _tensor(self, call: int, place: int) -> tuple[int | None, int | None]:
        gradient, _ = self._tree.ends(place)
        if gradient is None:
            return (None, None)
        for other, _ in self._tree.of_call(call, Role.INPUT):
            source, _ = self._tree.ends(other)
            if source is not None and source.slot == gradient.slot:
                return source.value, gradient.value
        return None, gradient.value

    def _accusing(self, call: int) -> list[int]:
        """Return the diverged input gradients that nothing but this call explains."""
        tree = self._tree
        places = []
        for place in tree.bad(call, Role.GRAD_INPUT):
            if self._is_input_cut(call, place):
                continue
            around = set(tree.ancestors(call))
            group = self._consumers.get(self._tensor(call, place), set())
            others = {
                other for other in group - around - {call} if call not in set(tree.ancestors(other))
            }
            if any(self._is_wronged(other) for other in others):
                continue
            if self._is_own(call, place, others, around & group):
                places.append(place)
        return places

    def _is_own(self, call: int, place: int, others: set[int], around: set[int]) -> bool:
        """Return whether a total gradient accuses this call and not its container's own code.

        It does where the call's weight gradients or attributes differ too, where the gradient is
        absent, or where nothing else can have used the tensor: no other call, and no code of the
        container, which may have used what it was given or has computed itself.
        """
        tree = self._tree
        if self._weight_gradients[call] or self._configured_otherwise(call):
            return True
        if any(self._weight_gradients[other] for other in others):
            return False
        pair = tree.pairs[place]
        is_absent = pair.candidate is None or pair.candidate.dtype == "none"
        users = [other for other in around if self._class_of(other) not in CONTAINERS]
        is_shared = (
            bool(users)
            or not self._is_made_by_sibling(call, place)
            or self._is_read_otherwise(call, place)
        )
        if not others and (is_absent or not is_shared or self._is_only_child(call)):
            return True
        parent = next(
            (other for other in tree.ancestors(call) if self._class_of(other) not in CONTAINERS),
            None,
        )
        if parent is not None:
            self._suspects[parent].update(tree.path(other) for other in {call, *others})
        return parent is None

    def _is_read_otherwise(self, call: int, place: int) -> bool:
        """Return whether code around a call reads its input, or another call on one side alone.

        So the programs say. The two gradients may then be sums of other things.
        """
        tree, has_others = self._tree, set[bool]()
        ends = zip(tree.readers, (call, tree.counterpart(call)), tree.ends(place), strict=True)
        for readers, one, gradient in ends:
            if one is None or gradient is None:
                continue
            outside = readers.outside(one, gradient)
            if outside is None:
                continue
            if any(readers.is_around(operator, one) for operator in outside):
                return True
            has_others.add(bool(outside))
        return len(has_others) > 1

    def _configured_otherwise(self, call: int) -> bool:
        tree, module = self._tree, self._tree.reference.calls[call].module
        partner = tree.counterpart_module(call)
        return partner is not None and bool(tree.differing_settings(module, partner))

    def _is_made_by_sibling(self, call: int, place: int) -> bool:
        """Return whether the input of this gradient is, as it is, what another call gave."""
        value = self._tensor(call, place)[0]
        return value is not None and bool(self._made_by.get(value, set()) - {call})

    def _is_only_child(self, call: int) -> bool:
        """Return whether the container is nothing but this call: it gives what the call gives."""
        tree = self._tree
        parent = tree.reference.calls[call].parent
        if parent is None or len(tree.children[parent]) != 1:
            return False
        given, made = (
            {record.value for record in tree.reference_flow.records(one, Role.OUTPUT)}
            for one in (parent, call)
        )
        return given <= made

    def _is_input_cut(self, call: int, place: int) -> bool:
        """Return whether the input came in without gradient on one side only."""
        known = self._tree.pairs[place]
        slot = known.reference.address.slot if known.reference is not None else None
        for other, pair in self._tree.of_call(call, Role.INPUT):
            if pair.reference is not None and pair.reference.address.slot == slot:
                return self._requires_differ(other)
        return False

    def _cuts_gradient(self, call: int) -> bool:
        """Return whether gradient flow ends in this call on one side only, as its flags say."""
        tree = self._tree
        inputs = [self._requires_differ(place) for place, _ in tree.of_call(call, Role.INPUT)]
        outputs = [self._requires_differ(place) for place, _ in tree.of_call(call, Role.OUTPUT)]
        return any(outputs) and not any(inputs)

    def _requires_differ(self, place: int) -> bool:
        known, found = self._tree.ends(place)
        if known is None or found is None:
            return False
        return known.requires_grad is not found.requires_grad

    def _class_of(self, call: int) -> str:
        module = self._tree.reference.calls[call].module
        return self._tree.reference.modules[module].class_name
