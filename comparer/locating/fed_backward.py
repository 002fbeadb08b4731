"""Find the origins of diverged gradients in a candidate that was fed the reference's gradients."""

from __future__ import annotations

from padiff.dumpfile import Role

from .backward import Faults, Search
from .calltree import CallTree, earliest

__all__ = ["find_fed_backward"]


def find_fed_backward(tree: CallTree, frameworks: tuple[str, str]) -> Faults:
    """Find the origins of the backward phase where each call was fed its gradients.

    Args:
        tree: Judged pairs on the reference's calls.
        frameworks: The reference's and the candidate's, for the vocabulary of attributes.
    """
    return _FedSearch(tree, frameworks).run()


class _FedSearch(Search):
    """The search in a candidate whose calls were fed the reference's gradients.

    A call got the right gradients, whatever came: what left it accuses it alone. A gradient that
    came wrong to a call accuses the calls that used its output, or else the code around them.
    """

    def find_origins(self) -> set[int]:
        """Visit children before parents; what a call is accused of explains what is before it."""
        tree = self._tree
        calls = list(reversed(tree.reference.calls))
        for call in calls:
            inside = tree.children.get(call.id, ())
            self._is_forward_bad[call.id] = self._forward_diverged(call.id, inside)
        own = {call.id: self._symptoms(call.id) for call in calls}
        explained = {
            self._gradient(place)
            for call in calls
            for place in (
                tree.bad(call.id, Role.GRAD_INPUT)
                if self._is_forward_bad[call.id]
                else own[call.id]
            )
        }
        accused = set()
        for call in calls:
            if own[call.id] or self._leaks(call.id, explained):
                accused.add(call.id)
                explained |= set(map(self._gradient, tree.bad(call.id, Role.GRAD_INPUT)))
        return {call for call in accused if not self._is_forward_bad[call]}

    def _forward_diverged(self, call: int, inside: list[int] | tuple[int, ...]) -> bool:
        """Tell whether a call's forward pass diverged, by values judged elsewhere too."""
        tree = self._tree
        return bool(
            tree.tainted(call, Role.INPUT)
            or tree.tainted(call, Role.OUTPUT)
            or super()._forward_diverged(call, inside)
        )

    def _symptoms(self, call: int) -> list[int]:
        """Give what left a call diverged, except what a call inside it or before it explains."""
        tree = self._tree
        if not self._cuts_gradient(call) and self._is_wronged(call):
            return []
        handed = {self._gradient(place, 1) for place in tree.bad(call, Role.GRAD_OUTPUT)}
        inside = {
            self._gradient(place)
            for child in tree.children.get(call, ())
            for place in tree.bad(child, Role.GRAD_INPUT)
        }
        accusing = [
            place
            for place in self._accusing(call)
            if self._gradient(place) not in inside and self._gradient(place, 1) not in handed
        ]
        return [*self._weight_gradients[call], *accusing]

    def _is_wronged(self, call: int) -> bool:
        """Tell whether a gradient never came, so that nothing could be fed in its place."""
        pairs = [self._tree.pairs[place] for place in self._tree.bad(call, Role.GRAD_OUTPUT)]
        return any(pair.candidate is None or pair.candidate.dtype == "none" for pair in pairs)

    def _leaks(self, call: int, explained: set[int | None]) -> list[int]:
        """Give the gradients inside a call that nothing but its own code can have made wrong.

        Its code may have turned what diverged earlier in the backward pass into others.
        """
        tree = self._tree
        if self._is_wronged(call):
            return []
        inside = tree.children.get(call, ())
        explained = explained | {self._gradient(p) for p in tree.bad(call, Role.GRAD_OUTPUT)}
        left = [place for child in inside for place in self._leaving_inside(child)]
        since = earliest(map(tree.order, left))
        came = [place for child in inside for place in tree.bad(child, Role.GRAD_OUTPUT)]
        came = [place for place in came if since is None or tree.order(place) < since]
        return [place for place in (*came, *left) if self._gradient(place) not in explained]

    def _gradient(self, place: int, side: int = 0) -> int | None:
        """Give the value of a gradient, the reference's or (side 1) the candidate's."""
        references, candidate = self._tree.records[place]
        if side:
            return None if candidate is None else self._tree.candidate.records[candidate].value
        return self._tree.reference.records[references[0]].value if references else None
