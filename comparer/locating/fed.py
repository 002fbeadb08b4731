"""A candidate that was fed: its calls got what the reference's calls handed on.

Errors do not add up in such a run, so each call is judged by itself: what diverged before a call
explains nothing of it, unless that ran unfed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .backward import Faults, Search
from .calltree import CallTree, earliest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumpfile import Index, Manifest

_PHASES = {
    "forward": frozenset({Phase.FORWARD}),
    "backward": frozenset({Phase.BACKWARD}),
    "both": frozenset({Phase.FORWARD, Phase.BACKWARD}),
}
"""What ``--feed-phase`` feeds."""
MOST_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """How the candidate was fed."""

    phases: frozenset[Phase] = frozenset()
    """Nothing in an ordinary run."""
    reference: str = ""
    """Name of the dump that it was fed from."""
    unfed: tuple[tuple[str, int], ...] = ()
    """Module path and number of the candidate's calls that ran unfed, or partly so."""

    def calls_unfed(self, index: Index) -> frozenset[int]:
        """Return the ids of the candidate's calls that ran unfed."""
        wanted = set(self.unfed)
        return frozenset(
            call.id
            for call in index.calls
            if (index.modules[call.module].path, call.index) in wanted
        )

    def notes(self, reference: str) -> list[str]:
        """Describe what it means for the report.

        Args:
            reference: Name of the dump that the candidate is compared with.
        """
        if not self.phases:
            return []
        what = " and ".join(
            word
            for phase, word in ((Phase.FORWARD, "outputs"), (Phase.BACKWARD, "gradients"))
            if phase in self.phases
        )
        notes = [f"each call was judged by itself: fed the {what} of {self.reference!r}"]
        if self.reference != reference:
            notes.append(f"it was fed from {self.reference!r}, and compared with {reference!r}")
        if self.unfed:
            names = [
                f"{path or '(root)'}" + (f"#{call}" if call else "") for path, call in self.unfed
            ]
            more = len(names) - MOST_NAMES
            rest = f" and {more} more" if more > 0 else ""
            notes.append(f"these calls ran unfed: {', '.join(names[:MOST_NAMES])}{rest}")
        return notes


def read_fed(manifest: Manifest) -> Fed:
    """Read from a manifest how its run was fed; what is not as padiff writes it counts as unfed."""
    told = manifest.settings.get("feed")
    if not isinstance(told, dict):
        return Fed()
    listed = told.get("unfed")
    unfed = dict.fromkeys(_calls(listed if isinstance(listed, list) else []))
    return Fed(
        phases=_PHASES.get(str(told.get("phase")), frozenset()),
        reference=str(told.get("reference", "")),
        unfed=tuple(unfed),
    )


def _calls(listed: Iterable[object]) -> Iterable[tuple[str, int]]:
    for one in listed:
        if isinstance(one, dict) and isinstance(one.get("call"), int):
            yield str(one.get("module", "")), one["call"]


def find_fed_forward(tree: CallTree) -> frozenset[int]:
    """Find the origins among the calls of a fed forward pass.

    A call is one if all that went into it agrees, and something that came out does not, or
    something that its own code gave to a call inside it. Only calls inside that ran unfed
    can explain that.
    """
    origins: set[int] = set()
    unfed_from: dict[int, int | None] = {}
    for call in reversed(tree.reference.calls):
        inside = tree.children.get(call.id, ())
        explained = earliest(unfed_from[child] for child in inside)
        # What a call inside gave on as it is, is that call's.
        theirs = {
            value
            for child in inside
            for place in tree.tainted(child, Role.OUTPUT)
            for value in tree.values(place)
        }
        outputs = [
            tree.order(place)
            for place in tree.tainted(call.id, Role.OUTPUT)
            if not theirs or theirs.isdisjoint(tree.values(place))
        ]
        leaks = [tree.order(place) for child in inside for place in tree.tainted(child, Role.INPUT)]
        below = earliest([*outputs, *leaks])
        is_sound = not tree.tainted(call.id, Role.INPUT)
        if below is not None and is_sound and (explained is None or explained > below):
            origins.add(call.id)
        left = earliest(outputs) if call.id in tree.unfed else None
        unfed_from[call.id] = earliest([explained, left])
    return frozenset(origins)


def find_fed_backward(tree: CallTree) -> Faults:
    """Find the origins of the backward phase where each call was fed its gradients."""
    return _FedSearch(tree).run()


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
        """Return whether a call's forward pass diverged, by values judged elsewhere too."""
        tree = self._tree
        return bool(
            tree.tainted(call, Role.INPUT)
            or tree.tainted(call, Role.OUTPUT)
            or super()._forward_diverged(call, inside)
        )

    def _symptoms(self, call: int) -> list[int]:
        """Return what left a call diverged, except what a call inside it or before it explains."""
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
        """Return whether a gradient never came, so that nothing could be fed in its place."""
        pairs = [self._tree.pairs[place] for place in self._tree.bad(call, Role.GRAD_OUTPUT)]
        return any(pair.candidate is None or pair.candidate.dtype == "none" for pair in pairs)

    def _leaks(self, call: int, explained: set[int | None]) -> list[int]:
        """Return the gradients inside a call that nothing but its own code can have made wrong.

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
        """Return the value of a gradient, the reference's or (side 1) the candidate's."""
        end = self._tree.ends(place)[side]
        return None if end is None else end.value
