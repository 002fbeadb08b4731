"""A candidate that was fed: its calls got what the reference's calls handed on.

Errors do not add up in such a run, so each call is judged by itself: what diverged before a call
explains nothing of it, unless that ran unfed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .calltree import earliest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumpfile import Index, Manifest

    from .calltree import CallTree

__all__ = ["Fed", "find_fed_forward", "read_fed"]

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
        """Give the ids of the candidate's calls that ran unfed."""
        wanted = set(self.unfed)
        return frozenset(
            call.id
            for call in index.calls
            if (index.modules[call.module].path, call.index) in wanted
        )

    def notes(self, reference: str) -> list[str]:
        """Say what it means for the report.

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
