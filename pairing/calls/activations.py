"""Activations: inside a layer on one side, or of another kind on the other.

A layer may apply an activation itself, such as ``paddle.nn.BatchNorm(act="relu")``: its partner's
output is then that of the activation behind it.

A GELU at the place of a SiLU is not its partner by what it does. But where a port applies the wrong
activation, it stands where the right one stands, and the report should say so. A pair is made only
where nothing else can be meant: the layer that feeds the one feeds the other, neither has another
partner, and either both feed partners, or what comes behind them differs. A right port, which gives
equal values there, is left as it is.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.kinds import ACTIVATIONS
from padiff.pairing.result import PairedBy
from padiff.pairing.tensors.sketch import alikeness

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from padiff.pairing.result import Matching
    from padiff.pairing.view import View

_REACH = 64
"""So many calls after a layer its activation is looked for."""


def has_activations(view: View) -> bool:
    """Return whether any module of a side may apply an activation by configuration."""
    return any(module.attributes.get("act") for module in view.modules)


def output_call(
    view: View, call: int, other: View, partner: int, paired: Container[int]
) -> int | None:
    """Return the call whose output does the job of the partner's output.

    Returns:
        The call itself, unless the partner's module applies an activation that this one does
        not; then the call of the activation that takes its output, None if no module does.
    """
    if not _activation(other, partner) or _activation(view, call):
        return call
    handed = {record.value for record in view.select(call, Role.OUTPUT)} - {None}
    for later in range(call + 1, min(call + _REACH, len(view.calls))):
        if later in paired or view.inner[later] or view.weights[view.calls[later].module]:
            continue
        if any(record.value in handed for record in view.select(later, Role.INPUT)):
            return later
    return None


def values_before(view: View, other: View, partners: Mapping[int, int]) -> dict[int, str]:
    """Return the values that only this side has, because the other's layers go on to activate them.

    Returns:
        By value: why the other side does not have it.
    """
    found: dict[int, str] = {}
    for call, partner in partners.items() if has_activations(other) else ():
        if not _activation(other, partner) or _activation(view, call):
            continue
        module = other.modules[other.calls[partner].module]
        name = f"{module.class_name}(act={module.attributes.get('act')!r})"
        reason = f"before the activation that {name} applies itself, and so hides"
        for role in (Role.OUTPUT, Role.GRAD_OUTPUT):
            for record in view.select(call, role):
                if record.value is not None:
                    found.setdefault(record.value, reason)
    return found


def _activation(view: View, call: int) -> bool:
    """Return whether the layer of a call has an activation of its own by configuration."""
    module = view.calls[call].module
    if not view.weights[module] or view.inner[call]:
        return False
    name = view.modules[module].attributes.get("act")
    return isinstance(name, str) and bool(name)


_EQUAL = 0.999
"""What comes behind is the same, but for rounding, if its statistics are this near."""


def pair_exchanged(reference: View, candidate: View, pairs: Matching) -> None:
    """Pair lone activations of different kinds that partners feed.

    Args:
        reference: One side.
        candidate: The other.
        pairs: The pairs so far; further ones are added.
    """
    lone = _lone(reference, pairs.ahead), _lone(candidate, pairs.back)
    if not (lone[0] and lone[1]):
        return
    calls = [call for found in lone[0].values() for call in found]
    places = _Places((reference, candidate), pairs, calls)
    makers = _by_value(pairs.ahead, reference.told_made, lone[0])
    for value, mine in lone[0].items():
        fed = {candidate.told_made[pairs.ahead[maker]] for maker in makers[value]} - {None}
        theirs = [call for given in fed if given is not None for call in lone[1].get(given, ())]
        if len(mine) == len(theirs) == 1 and places.are_same(mine[0], theirs[0]):
            pairs.add(mine[0], theirs[0], PairedBy.POSITION)


def _lone(view: View, paired: Container[int]) -> dict[int, list[int]]:
    """Return the activations without partner by what feeds them."""
    found: dict[int, list[int]] = defaultdict(list)
    for call, given in enumerate(view.told_given):
        if given is None or call in paired or call in view.hidden:
            continue
        if view.kind(call) in ACTIVATIONS:
            found[given].append(call)
    return found


def _by_value(
    calls: Iterable[int], told: Sequence[int | None], values: Container[int]
) -> dict[int, list[int]]:
    """Return calls by their value, of those that are asked for."""
    found: dict[int, list[int]] = defaultdict(list)
    for call in sorted(calls):
        value = told[call]
        if value is not None and value in values:
            found[value].append(call)
    return found


class _Places:
    """What is behind lone activations."""

    def __init__(self, views: tuple[View, View], pairs: Matching, calls: Iterable[int]) -> None:
        """Take both sides, the pairs so far, and the lone activations of the reference."""
        self._views = views
        self._pairs = pairs
        made = {value for call in calls if (value := views[0].told_made[call]) is not None}
        self._takers = _by_value(pairs.ahead, views[0].told_given, made)

    def are_same(self, one: int, two: int) -> bool:
        """Return whether two activations stand at one place, where a right port gives the same."""
        known, found = self._views[0].made[one], self._views[1].made[two]
        if known is None or found is None:
            return False
        if self._views[0].values[known].size != self._views[1].values[found].size:
            return False
        takers = self._takers.get(known, ())
        given = {self._views[1].given[self._pairs.ahead[taker]] for taker in takers}
        return found in given or self._differs_around(one, two)

    def _differs_around(self, one: int, two: int) -> bool:
        """Return whether the nearest partners that hold both give other values."""
        reference, candidate = self._views
        outer = set(candidate.ancestors(two))
        for call in reference.ancestors(one):
            partner = self._pairs.ahead.get(call)
            if partner in outer and partner is not None:
                known = reference.main(call, Role.OUTPUT), candidate.main(partner, Role.OUTPUT)
                if known[0] is None or known[1] is None:
                    return False
                near = alikeness(reference, known[0], candidate, known[1])
                return near is not None and near < _EQUAL
        return False
