"""Find whose fault a divergence is, in the forward phase: origins and what they explain.

A call is an *origin* if all that went into it agrees and something that came out, or that
happens inside it, does not, unless a call inside it explains that: the innermost one is named. So
a fault in a module's own code, between its submodules (a scale left out of an attention), is
named at that module and not at the submodule that meets it first.

In the phase ``update`` it is the rate's, the clip's, or the rule's.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from padiff.comparer.facts.arguments import argument_differences
from padiff.comparer.facts.attributes import VARIANCE, known_differences
from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.judging.building import endpoints
from padiff.comparer.result import DECIDED, Divergence, Entering, JudgedPair, Kind, Verdict
from padiff.dumpfile import Phase, Role

from .backward import Faults, find_backward
from .between import cut, feeders, glue, is_cut, name_of, other_classes
from .calltree import CallTree, earliest, is_bad, is_told
from .fed import find_fed_backward, find_fed_forward
from .flow import amplification, follows_bad, growth, nonfinite_producers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.comparer.result import Endpoint


STATE_ROLES = (Role.WEIGHT, Role.BUFFER, Role.LR, Role.NAMED)
FORWARD_ROLES = (Role.INPUT, Role.OUTPUT)
LEAVING = {Role.INPUT: Role.OUTPUT, Role.GRAD_OUTPUT: Role.GRAD_INPUT}
"""What leaves a call of what goes in."""
BACKWARD_ROLES = (Role.GRAD_OUTPUT, Role.GRAD_INPUT)
RUNNING_VARIANCE = frozenset({".running_var", "._variance"})
"""Slots of the buffer that the frameworks update differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The divergences of one step, and the pairs with their kinds filled in."""

    divergences: tuple[Divergence, ...]
    pairs: Sequence[JudgedPair]


def locate(tree: CallTree) -> Located:
    """Decide for every divergence whether it is an origin or inherited."""
    if not tree.has_bad:
        return Located(divergences=(), pairs=tree.pairs)
    if Phase.FORWARD in tree.fed_phases:
        forward = Faults(origins=find_fed_forward(tree), suspects={})
    else:
        forward = _find_forward(tree)
    is_fed = Phase.BACKWARD in tree.fed_phases
    backward = find_fed_backward(tree) if is_fed else find_backward(tree)
    writer = _Writer(tree)
    divergences = [
        *writer.calls(Phase.FORWARD, forward, FORWARD_ROLES, Role.INPUT),
        *writer.states(forward),
        *writer.loss(),
        *writer.calls(Phase.BACKWARD, backward, BACKWARD_ROLES, Role.GRAD_OUTPUT),
        *writer.weight_gradients(backward),
    ]
    divergences += writer.updates(is_explained=bool(divergences))
    divergences.sort(key=partial(_when, tree))
    return Located(
        divergences=tuple(_with_an_origin(divergences)),
        pairs=tuple(writer.kinds(place, pair) for place, pair in enumerate(tree.pairs)),
    )


def _find_forward(tree: CallTree) -> Faults:
    """Find the origins among the calls, innermost first."""
    origins: dict[int, int] = {}
    first_bad: dict[int, int | None] = {}
    first_origin: dict[int, int | None] = {}
    for call in reversed(tree.reference.calls):
        inside = tree.children.get(call.id, ())
        outputs = [tree.order(place) for place in tree.bad(call.id, Role.OUTPUT)]
        outputs += [tree.order(place) for place, _ in tree.diverged_uses(call.id)]
        inputs = [tree.order(place) for place in tree.tainted(call.id, Role.INPUT)]
        below = earliest([*outputs, *(first_bad[child] for child in inside)])
        explained = earliest(first_origin[child] for child in inside)
        is_origin = below is not None and not inputs and (explained is None or explained > below)
        if is_origin and not _has_judged_input(tree, call.id):
            is_origin = not follows_bad(tree, call.id)
        if is_origin and below is not None:
            origins[call.id] = below
        first_bad[call.id] = earliest([below, *inputs])
        first_origin[call.id] = below if is_origin else explained
    return Faults(origins=frozenset(origins), suspects={})


def _has_judged_input(tree: CallTree, call: int) -> bool:
    """Return whether anything that went into a call was judged."""
    return any(pair.verdict in DECIDED for _, pair in tree.of_call(call, Role.INPUT))


def _when(tree: CallTree, divergence: Divergence) -> tuple[int, int, bool]:
    """Order by phase and execution, origins before what they explain.

    A weight's gradient goes by when its layer's own gradient came: it is recorded when the whole
    pass is over, whatever made it. A weight goes by when its module first ran.
    """
    known = divergence.pair.end
    orders = [known.order]
    if divergence.pair.reference is not None:
        is_late = (known.address.role, divergence.phase) == (Role.WEIGHT_GRAD, Phase.BACKWARD)
        for call in tree.calls_of.get(known.module, ()) if is_late else ():
            orders += [tree.order(place) for place, _ in tree.of_call(call, Role.GRAD_OUTPUT)]
        is_state = known.address.role in STATE_ROLES and divergence.phase is Phase.FORWARD
        if is_state and tree.calls_of.get(known.module):
            orders = [tree.reference.calls[call].start for call in tree.calls_of[known.module]]
    is_inherited = divergence.kind is Kind.INHERITED
    return list(Phase).index(divergence.phase), min(orders), is_inherited


def _with_an_origin(divergences: Sequence[Divergence]) -> list[Divergence]:
    """Make the first divergence an origin where nothing recorded explains any of them."""
    found = list(divergences)
    if found and not any(divergence.kind is Kind.ORIGIN for divergence in found):
        evidence = "nothing that was recorded before it diverges: it came in from outside"
        found[0] = replace(found[0], kind=Kind.ORIGIN, evidence=(evidence, *found[0].evidence))
    return found


class _Writer:
    """Writes divergences with their evidence, and keeps the kind of every pair."""

    def __init__(self, tree: CallTree) -> None:
        self._tree = tree
        self._kinds: dict[int, Kind] = {}
        self._has_forward = False

    def kinds(self, place: int, pair: JudgedPair) -> JudgedPair:
        """Fill in the kind of a pair that diverged."""
        if not is_bad(pair):
            return pair
        return replace(pair, kind=self._kinds.get(place, Kind.INHERITED))

    def calls(
        self, phase: Phase, faults: Faults, roles: tuple[Role, Role], entry: Role
    ) -> list[Divergence]:
        """Write one divergence for each call that has or explains one."""
        found: list[Divergence] = []
        told: set[int] = set()
        for call in self._tree.reference.calls:
            is_origin = call.id in faults.origins
            places = self._tree.bad(call.id, *roles)
            shown: tuple[str, ...] = ()
            is_alone = is_origin and not places
            handed = consumed_pair(self._tree, call.id) if is_alone else None
            if is_alone and handed is None:
                places, shown = self._stand_in(call.id, phase, roles)
                handed = self._covered(call.id, roles, places)
            if handed is None and (not places or places[0] in told):
                continue  # one gradient of a weight stands for all calls of its module
            told.update(places[:1])
            kind = Kind.ORIGIN if is_origin else Kind.INHERITED
            for place in self._tree.bad(call.id, *roles):
                self._kinds[place] = kind
            found.append(
                Divergence(
                    pair=replace(handed[0] if handed else self._tree.pairs[places[0]], kind=kind),
                    phase=phase,
                    kind=kind,
                    inputs_agree=self._agreement(call.id, entry),
                    entering=self._entering(call.id, entry) if is_origin else None,
                    evidence=(*shown, *self._evidence(call.id, entry, is_origin=is_origin)),
                    suspects=faults.suspects.get(call.id, ()),
                    amplification=amplification(self._tree, call.id, entry, LEAVING[entry]),
                    judged_at=handed[1] if handed else None,
                )
            )
        self._has_forward = self._has_forward or bool(found)
        return found

    def states(self, forward: Faults) -> list[Divergence]:
        """Write the weights and buffers that differ and are no evidence of an origin already."""
        tree = self._tree
        explaining = {tree.reference.calls[call].module for call in forward.origins}
        found = []
        for module in tree.modules_with(*STATE_ROLES):
            for place, pair in tree.of_module(module, *STATE_ROLES):
                if is_bad(pair):
                    self._kinds[place] = Kind.ORIGIN
                    if module not in explaining:
                        alone = self._alone(place, Phase.FORWARD, Kind.ORIGIN)
                        found.append(self._with_settings(alone))
        self._has_forward = self._has_forward or bool(found)
        return found

    def loss(self) -> list[Divergence]:
        """Write the loss and results: origins only where all else of the forward phase agrees."""
        kind = Kind.INHERITED if self._has_forward else Kind.ORIGIN
        found = []
        for module in self._tree.modules_with(Role.LOSS, Role.RESULT):
            for place, pair in self._tree.of_module(module, Role.LOSS, Role.RESULT):
                if is_bad(pair):
                    self._kinds[place] = kind
                    found.append(self._alone(place, Phase.FORWARD, kind))
        return found

    def weight_gradients(self, backward: Faults) -> list[Divergence]:
        """Write the weight gradients; those of an origin are its evidence already."""
        tree = self._tree
        explaining = {tree.reference.calls[call].module for call in backward.origins}
        found = []
        for module in tree.modules_with(Role.WEIGHT_GRAD):
            for place, pair in tree.of_module(module, Role.WEIGHT_GRAD):
                if not is_bad(pair):
                    continue
                kind = Kind.ORIGIN if module in explaining else Kind.INHERITED
                self._kinds[place] = kind
                if kind is Kind.INHERITED:
                    found.append(self._alone(place, Phase.BACKWARD, kind))
        return found

    def updates(self, *, is_explained: bool) -> list[Divergence]:
        """Write what diverged in the update."""
        found = {
            place: self._with_settings(divergence)
            for place, divergence in find_updates(self._tree, is_explained=is_explained).items()
        }
        self._kinds.update({place: divergence.kind for place, divergence in found.items()})
        return list(found.values())

    def _alone(self, place: int, phase: Phase, kind: Kind) -> Divergence:
        pair = replace(self._tree.pairs[place], kind=kind)
        end = pair.reference
        is_variance = end is not None and end.address.slot in RUNNING_VARIANCE
        evidence = tuple(self._known(pair.end)) if is_variance else ()
        return Divergence(pair=pair, phase=phase, kind=kind, inputs_agree=None, evidence=evidence)

    def _known(self, end: Endpoint) -> list[str]:
        """Return the known differences that may explain a record of a module."""
        partner = self._tree.partner_module.get(end.module)
        role = VARIANCE if end.address.slot in RUNNING_VARIANCE else str(end.address.role)
        return [] if partner is None else self._known_of(end.module, partner, role)

    def _known_of(self, module: int, partner: int, role: str) -> list[str]:
        """Return the known differences of two modules that may explain a record of a role."""
        tree = self._tree
        found = known_differences(
            tree.reference.modules[module],
            tree.candidate.modules[partner],
            frameworks=tree.frameworks,
            role=role,
        )
        return list(map(str, found))

    def _with_settings(self, divergence: Divergence) -> Divergence:
        """Return what a module is set to whose own code changed a buffer: no optimizer does."""
        end, tree = divergence.pair.reference, self._tree
        is_own = divergence.kind is Kind.ORIGIN and end is not None
        if end is None or not is_own or end.address.role is not Role.BUFFER:
            return divergence
        partner = tree.partner_module.get(end.module)
        differences = () if partner is None else tree.differing_settings(end.module, partner)
        evidence = (*map(str, differences), *self._known(end), *divergence.evidence)
        return replace(divergence, evidence=tuple(dict.fromkeys(evidence)))

    def _stand_in(
        self, call: int, phase: Phase, roles: tuple[Role, Role]
    ) -> tuple[list[int], tuple[str, ...]]:
        """Find a pair to show for an origin whose own records agree, and say what diverged."""
        tree = self._tree
        module = tree.reference.calls[call].module
        if phase is Phase.BACKWARD:
            states = tree.of_module(module, Role.WEIGHT_GRAD)
            places = [place for place, pair in states if is_bad(pair)]
            if places:
                return places, ()
        inside = tree.bad_inside(call, *roles)
        own = [
            place
            for role in (roles[1], roles[0])
            for place, pair in tree.of_call(call, role)
            if pair.reference is not None
        ]
        if not inside:
            return own[:1], ()
        first = tree.pairs[inside[0]]
        where = f"shows first at {first.end.address}: {_difference(first)}"
        return own[:1] or inside, (where,)

    def _covered(self, call: int, roles: tuple[Role, Role], places: Sequence[int]) -> Shown | None:
        """Find what both sides show for an origin of which only the reference's record is known."""
        pair = self._tree.pairs[places[0]] if places else None
        if pair is None or pair.reference is None or is_bad(pair):
            return None
        inside = self._tree.bad_inside(call, *roles)
        if pair.candidate is not None:
            return agreeing_pair(self._tree, places[0], inside)
        return covered_pair(self._tree, call, pair.reference.address.role, inside)

    def _agreement(self, call: int, entry: Role) -> bool | None:
        told = [
            place
            for place, pair in self._own_pairs(call, entry)
            if pair.covered or pair.verdict is not Verdict.SKIPPED
        ]
        return set(told).isdisjoint(self._tree.tainted(call, entry)) if told else None

    def _own_pairs(self, call: int, role: Role) -> Iterator[tuple[int, JudgedPair]]:
        """Yield what is known of a call's own records; those of calls inside hang there too."""
        partner = self._tree.partner_call.get(call)
        for place, pair in self._tree.of_call(call, role):
            is_own = pair.candidate is None or pair.candidate.call == partner
            if is_told(pair) and (is_own or pair.reference is not None):
                yield place, pair

    def _evidence(self, call: int, entry: Role, *, is_origin: bool) -> tuple[str, ...]:
        pairs = list(self._own_pairs(call, entry))
        agreeing = len({place for place, _ in pairs}.difference(self._tree.tainted(call, entry)))
        word = "input" if entry is Role.INPUT else "output gradient"
        lines = [f"{agreeing} of {len(pairs)} {word}s agree"] if pairs else []
        if not is_origin:
            return tuple(lines)
        tree, module = self._tree, self._tree.reference.calls[call].module
        if entry is Role.GRAD_OUTPUT:
            lines = [*cut(tree, call), *lines]
        lines += growth(tree, call, entry, LEAVING[entry])
        if entry is Role.INPUT:
            lines = [
                *nonfinite_producers(tree, call),
                *glue(tree, call),
                *lines,
                *feeders(tree, call),
            ]
        partner = tree.counterpart_module(call)
        if partner is not None:
            lines = [
                *(self._arguments(call) if entry is Role.INPUT else ()),
                *map(str, tree.differing_settings(module, partner)),
                *other_classes(tree, module, partner),
                *self._known_of(module, partner, str(LEAVING[entry])),
                *lines,
            ]
        roles = STATE_ROLES if entry is Role.INPUT else (Role.WEIGHT_GRAD,)
        for _, pair in tree.of_module(module, *roles):
            if is_bad(pair):
                address = pair.end.address
                words = str(address.role).replace("_", " ")
                lines.append(f"{words} {address.slot.lstrip('.')!r}: {pair.reason or 'differs'}")
        return tuple(lines)

    def _entering(self, call: int, entry: Role) -> Entering | None:
        if entry is Role.GRAD_OUTPUT:
            return Entering.CUT if is_cut(self._tree, call) else None
        return Entering.ARGUMENT if self._arguments(call) else None

    def _arguments(self, call: int) -> tuple[str, ...]:
        """Describe which arguments that are no tensors a call and its partner differ in."""
        tree = self._tree
        partner = tree.partner_call.get(call)
        if partner is None:
            return ()
        known, found = tree.reference.calls[call], tree.candidate.calls[partner]
        return argument_differences(known, found, is_same=tree.is_one_framework)


def _difference(pair: JudgedPair) -> str:
    """Describe in a few words how a pair differs."""
    if pair.reason or pair.metrics is None or pair.metrics.max_abs is None:
        return pair.reason or str(pair.verdict)
    return f"max abs {pair.metrics.max_abs:.4g}"


Shown = tuple["JudgedPair", "JudgedPair"]
"""A pair to show at a call, and the one at another address that it has verdict and numbers of."""


def consumed_pair(tree: CallTree, call: int) -> Shown | None:
    """Make the pair of an output that was judged, and diverged, where the next call took it.

    Returns:
        The ends that the call and its partner have, with the verdict and the numbers of the pair
        that judged them; None if each side does not hand on one of the two values.
    """
    partner = tree.partner_module.get(tree.reference.calls[call].module)
    theirs = {
        tree.candidate.records[tree.records[place][1] or 0].value: pair.candidate
        for place, pair in remarkable(tree.pairs)
        if pair.covered and pair.candidate is not None and pair.candidate.module == partner
        if pair.candidate.address.role is Role.OUTPUT
    }
    for place, judged in tree.diverged_uses(call):
        found = tree.records[judged][1]
        value = None if found is None else tree.candidate.records[found].value
        if value is not None and value in theirs:
            ends = tree.pairs[place].reference, theirs[value]
            shown = replace(tree.pairs[judged], reference=ends[0], candidate=ends[1])
            return shown, tree.pairs[judged]
    return None


def covered_pair(tree: CallTree, call: int, role: Role, inside: Sequence[int]) -> Shown | None:
    """Make the pair of what two partners gave, which was judged, if at all, at other calls.

    Returns:
        As ``consumed_pair``: the numbers are those of the values themselves, else of what diverged
        first inside; None if nothing did, or if the partner gave nothing of that role.
    """
    partner = tree.counterpart(call)
    theirs = [] if partner is None else tree.candidate_records(partner, role)
    alone = [(place, pair.reference) for place, pair in tree.of_call(call, role)
             if pair.candidate is None and pair.reference is not None]  # fmt: skip
    for place, end in alone:
        judged = tree.judged_elsewhere(place)
        found = None if judged is None else tree.records[judged][1]
        value = None if found is None else tree.candidate.records[found].value
        own = next((one for one in theirs if tree.candidate.records[one].value == value), None)
        if judged is not None and value is not None and own is not None:
            reason = tree.pairs[place].reason
            return _shown(tree, judged, (end, own), reason)
    if not (alone and theirs):
        return None
    end = alone[0][1]
    own = next(
        (one for one in theirs if tree.candidate.records[one].slot == end.address.slot), theirs[0]
    )
    return _first_inside(tree, (end, own), inside)


def agreeing_pair(tree: CallTree, place: int, inside: Sequence[int]) -> Shown | None:
    """Make the pair of a record that agrees, of a call whose code made what diverged inside it.

    Returns:
        As ``consumed_pair``: the numbers are those of what diverged first; None if nothing did.
    """
    end, own = tree.pairs[place].reference, tree.records[place][1]
    return None if end is None or own is None else _first_inside(tree, (end, own), inside)


def _first_inside(
    tree: CallTree, ends: tuple[Endpoint, int], inside: Sequence[int]
) -> Shown | None:
    """Make a pair of two ends with the numbers of what diverged first inside; None without any."""
    judged = next((place for place in inside if tree.pairs[place].metrics is not None), None)
    if judged is None:
        return None
    known = tree.reference.records[tree.records[judged][0][0]]
    reason = f"the numbers are those of {name_of(tree.reference, known)}"
    return _shown(tree, judged, ends, reason)


def _shown(
    tree: CallTree, judged: int, ends: tuple[Endpoint, int], reason: str
) -> tuple[JudgedPair, JudgedPair]:
    """Make a pair of an end and a candidate's record with the numbers of a judged pair."""
    pair = tree.pairs[judged]
    both = ends[0], *endpoints(tree.candidate, [ends[1]])
    assert pair.reference is not None
    assert pair.candidate is not None
    own = [
        replace(end, dtype=other.dtype, shape=other.shape, statistics=other.statistics)
        for end, other in zip(both, (pair.reference, pair.candidate), strict=True)
    ]
    return replace(pair, reference=own[0], candidate=own[1], reason=reason), pair


MOST_NAMES = 6
FEW = 2
"""Weights that make a group."""
MATRIX = 2
"""Weights with fewer axes are biases and the weights of norms."""

_ORDER = (Role.LR, Role.WEIGHT_GRAD, Role.OPTIMIZER_STATE, Role.WEIGHT, Role.BUFFER, Role.NAMED)
"""What comes first explains what comes after; the norm of gradients follows from those."""


def find_updates(tree: CallTree, *, is_explained: bool) -> dict[int, Divergence]:
    """Write the divergences of the update, by the places of their pairs.

    A learning rate is never the consequence of what diverged before; all else is. Where nothing
    explains it, the first record is the origin and speaks for the others.

    Args:
        tree: The judged pairs.
        is_explained: Whether the step diverged before its update.
    """
    places = sorted(
        (place for place in tree.updates if is_bad(tree.pairs[place])),
        key=lambda place: (_ORDER.index(tree.pairs[place].end.address.role), place),
    )
    found: dict[int, Divergence] = {}
    told: set[int] = set()
    for place in places:
        pair = tree.pairs[place]
        is_own = pair.end.address.role is Role.LR or _began_here(tree, pair, told)
        kind = Kind.ORIGIN if is_own or not is_explained else Kind.INHERITED
        if pair.reference is not None and kind is Kind.ORIGIN:
            told.add(pair.reference.module)
        is_optimized = kind is Kind.ORIGIN and pair.end.address.role is not Role.BUFFER
        evidence = _evidence(tree, places) if is_optimized else ()
        is_explained = True
        found[place] = Divergence(
            pair=replace(pair, kind=kind),
            phase=Phase.UPDATE,
            kind=kind,
            inputs_agree=None,
            evidence=tuple(evidence),
        )
    return found


def _began_here(tree: CallTree, pair: JudgedPair, told: Container[int]) -> bool:
    """Return whether a module made another buffer of what agrees, and speaks first for itself.

    Nothing flows from one module's statistics to the next one's: each with a wrong setting is an
    origin. What was off before the step, or was made of what is off, is none.
    """
    end = pair.reference
    if end is None or end.address.role is not Role.BUFFER or end.module in told:
        return False
    calls = tree.calls_of.get(end.module, ())
    before = (*tree.of_module(end.module, Role.BUFFER), *tree.of_module(end.module, Role.WEIGHT))
    is_sound = not any(is_bad(one) for _, one in before)
    given = [place for call in calls for place in tree.tainted(call, Role.INPUT)]
    return bool(calls) and is_sound and not given


def _evidence(tree: CallTree, bad: Sequence[int]) -> list[str]:
    """Describe what of the update agrees, and which weights do not."""
    lines = [
        _count(tree, Role.LR, "learning rate"),
        _count(tree, Role.WEIGHT_GRAD, "clipped gradient"),
        _states(tree),
        _count(tree, Role.WEIGHT, "weight", "after the update"),
    ]
    names = [
        tree.pairs[place].end.address.name
        for place in bad
        if tree.pairs[place].end.address.role is Role.WEIGHT
    ]
    if names:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        lines.append(f"these weights differ: {', '.join(names[:MOST_NAMES])}{more}")
    lines.append(_group(tree))
    return [line for line in lines if line]


def _count(tree: CallTree, role: Role, noun: str, where: str = "") -> str:
    every = [
        tree.pairs[place] for place in tree.updates if tree.pairs[place].end.address.role is role
    ]
    pairs = [pair for pair in every if None not in (pair.reference, pair.candidate)]
    if every and not pairs:
        known = sum(pair.reference is not None for pair in every)
        found = len(every) - known
        if known and found:
            return f"{noun}s: {known} recorded by the reference, {found} by the candidate"
        return f"the {'reference' if found else 'candidate'} recorded no {noun} {where}".rstrip()
    if not every:
        return ""
    agreeing = sum(not is_bad(pair) for pair in pairs)
    if len(every) == 1:
        return f"the {noun} {'agrees' if agreeing else 'differs'} {where}".rstrip()
    return f"{agreeing} of {len(every)} {noun}s agree {where}".rstrip()


def _states(tree: CallTree) -> str:
    """Describe which tensors of the optimizer agree, by the reference's names for them."""
    names: dict[str, bool] = {}
    for place in tree.updates:
        pair = tree.pairs[place]
        if pair.end.address.role is Role.OPTIMIZER_STATE and pair.reference is not None:
            name = pair.reference.address.slot.rpartition("[")[2].strip("']\"")
            if pair.verdict != Verdict.SKIPPED and pair.candidate is not None:
                names[name] = names.get(name, True) and not is_bad(pair)
    words = [f"{name} {'agrees' if agrees else 'differs'}" for name, agrees in names.items()]
    return f"optimizer state: {', '.join(words)}" if words else ""


def _group(tree: CallTree) -> str:
    """Recognise a difference by parameter group: exactly the biases and norms, or all else."""
    axes: dict[bool, list[bool]] = {True: [], False: []}
    for place in tree.updates:
        pair = tree.pairs[place]
        if pair.end.address.role is Role.WEIGHT and pair.reference is not None:
            axes[is_bad(pair)].append(len(pair.reference.shape) >= MATRIX)
    kinds = set(axes[True])
    # A weight that is zero agrees in either group: decay does nothing to it.
    if len(axes[True]) < FEW or len(kinds) != 1 or not set(axes[False]) - kinds:
        return ""
    which = "two or more axes" if True in kinds else "one axis (biases, norms)"
    return f"only weights with {which} differ: are the parameter groups the same?"
