"""Try what a plan leaves open: load it, run the model, and see what agrees with the reference.

A trial decides between ways that authors use; it does not search for weights that happen to fit.
A way that contradicts the names is never taken, though it agrees: then the model may be at fault.

Of more than four there are more orders than can be tried. But where every one of them leads to a
value of its own, as the heads of a network do, it is enough to let each take every place once.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing import pair as pair_runs
from padiff.pairing.result import ModulePair, PairedBy
from padiff.pairing.weights.tried import (
    changed,
    changed_layers,
    errors_at,
    exchanges,
    meetings_of,
    met_siblings,
    moved_to,
    open_layers,
    partners_by_input,
    siblings_of,
    told_by,
)
from padiff.pairing.weights.weight_plan import ASSUMED, OTHERWISE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
    from contextlib import AbstractContextManager

    from padiff.dumpfile import Index
    from padiff.pairing.maps.mapfile import MapFile
    from padiff.pairing.rule import Rule
    from padiff.pairing.side import Side
    from padiff.pairing.weights.tried import Meeting, Siblings
    from padiff.pairing.weights.weight_plan import WeightChoice, WeightPair, WeightPlan, WeightWay


_MOST_RUNS = 24
"""So many ways are tried for each kind of layer."""
_MOST_TURNS = 8
"""So often layers change their partners, each time up to the first wrong one at least."""
_GIVEN = "a run gives it what it gives this one, and no other"
_PLACES = frozenset({"", OTHERWISE})
"""Notes of pairs of which nothing but the partner is in doubt."""
_SPELLED, _REFUSED = 0.6, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is needed to try a plan."""

    reference: Side
    load: Callable[[WeightPlan], None]
    """Overwrites the model's weights by a plan, as far as it goes."""
    rehearse: Callable[[], AbstractContextManager[Side]]
    fed: Callable[[], AbstractContextManager[Side]] | None = None
    """Runs the model with what the reference's calls handed on; None where that cannot be."""
    live: Index
    """Tables of the model."""
    named: Mapping[int, tuple[int, ...]]
    """What weights of the model are made of by their names; no run speaks against these."""
    replan: Callable[[Sequence[ModulePair]], WeightPlan] | None = None
    """Plans anew where some layers are known."""
    map_file: MapFile | None = None

    def settle(self, plan: WeightPlan) -> WeightPlan:
        """Return the plan with what runs could tell; the model's weights are any of those tried."""
        names = dict.fromkeys(choice.name for choice in plan.choices)
        kinds = [[choice for choice in plan.choices if choice.name == name] for name in names]
        plan, still = self._passed(plan, kinds)
        if self.fed is not None and (still or plan.ambiguous):
            # A fault in the model makes all values behind it others, whatever the weights.
            doubts = len(plan.ambiguous)
            with suppress(ConfigError):  # nothing to feed
                plan, still = replace(self, rehearse=self.fed)._passed(plan, still)
            if 0 < len(plan.ambiguous) < doubts:
                # So does a wrong partner, and with the right one the model's own run tells more.
                plan, still = self._passed(plan, still)
        for alike in still:
            plan = _assumed(plan, alike)
        return plan

    def _passed(
        self, plan: WeightPlan, still: Sequence[Sequence[WeightChoice]]
    ) -> tuple[WeightPlan, list[Sequence[WeightChoice]]]:
        """Settle what one kind of run tells, and give what it does not."""
        plan = self._placed(plan)
        rest: list[Sequence[WeightChoice]] = []
        for alike in still:
            settled = self._settled(plan, alike)
            if settled is None:
                rest.append(alike)
            else:
                plan = settled
        return (self._placed(plan) if len(rest) < len(still) else plan), rest

    def _placed(self, plan: WeightPlan) -> WeightPlan:
        """Pair layers in doubt with partners that get the same inputs, as far as runs show that.

        What names tell inside containers that are known by now comes first, then exchanges.
        """
        labels: dict[str, str | None] = {}
        while plan.ambiguous:
            doubts, tries = len(plan.ambiguous), len(labels)
            plan = self._known_inside(self._with_partners_by_input(plan))
            if len(plan.ambiguous) == doubts:
                plan = self._exchanged(plan, labels)
            if len(plan.ambiguous) == doubts and len(labels) == tries:
                break
        return plan

    def _open_layers(self, plan: WeightPlan) -> dict[int, int]:
        """Return the layers of which only the partner is in doubt, with the supposed ones."""
        chosen = {record for choice in plan.choices for record in choice.candidates}
        open_pairs = [pair for pair in plan.ambiguous if pair.candidate not in chosen]
        layers = open_layers(self.reference.index, self.live, open_pairs)
        for record in chosen:  # its ways are those of one partner
            layers.pop(self.live.records[record].module, None)
        return layers

    def _with_partners_by_input(self, plan: WeightPlan) -> WeightPlan:
        """Pair layers in doubt with the only partners that get the same inputs."""
        layers = self._open_layers(plan)
        told: dict[int, int] = {}
        for _ in range(_MOST_TURNS if layers else 0):
            with self._run(plan) as run:
                told = partners_by_input(self.reference, run, layers, self._rules(run))
                siblings = siblings_of(self.reference, run, layers)
                if all(layers[module] == other for module, other in told.items()):
                    for module in self._behind(plan, run, siblings, told):
                        del told[module]
                    break
            layers.update(told)
            plan = plan.with_pairs(moved_to(self.reference.index, self.live, plan.pairs, told))
        else:
            return plan
        moved = moved_to(self.reference.index, self.live, plan.ambiguous, told)
        sure = [
            replace(pair, confidence=1.0, paired_by=PairedBy.VALUE, alternatives=(), note=_GIVEN)
            for pair in moved
            if self._is_allowed(pair) and pair.note in _PLACES and not self._is_of_layer(pair)
        ]
        return plan.with_pairs(sure)

    def _is_of_layer(self, pair: WeightPair) -> bool:
        """Return whether it may be another weight of the same layer: which, no input tells."""
        records = self.reference.index.records
        own = {records[record].module for record in pair.reference}
        return any(
            records[one].module in own for each in pair.alternatives for one in each.reference
        )

    def _behind(
        self, plan: WeightPlan, run: Side, siblings: Sequence[Siblings], told: Iterable[int]
    ) -> set[int]:
        """Return the layers whose inputs change if siblings are exchanged that are in doubt."""
        if not siblings or not told:
            return set()
        partners = {module: other for one in siblings for module, other in one.shifted.items()}
        shifted = plan.with_pairs(moved_to(self.reference.index, self.live, plan.pairs, partners))
        with self._run(shifted) as other:
            return changed_layers(run, other, told)

    def _known_inside(self, plan: WeightPlan) -> WeightPlan:
        """Add what names and shapes tell once the layers that are sure by now are known.

        What names and the run say differently about is for values to tell, not for names.
        """
        sure = [pair for pair in plan.pairs if not pair.is_ambiguous]
        if self.replan is None or not plan.ambiguous:
            return plan
        taken = {record for pair in sure for record in pair.reference}
        known = [
            ModulePair(reference=other, candidate=module, paired_by=PairedBy.VALUE)
            for module, other in self._sure_layers(plan).items()
        ]
        found = {pair.candidate: pair for pair in self.replan(known).pairs}
        chosen = {record for choice in plan.choices for record in choice.candidates}
        told = [
            new for pair in plan.ambiguous
            if pair.candidate not in chosen and not pair.note
            if (new := found.get(pair.candidate)) is not None and not new.is_ambiguous
            if new.rule == pair.rule and len(new.reference) == len(pair.reference) == 1
            if taken.isdisjoint(new.reference) and self._is_allowed(new)
        ]  # fmt: skip
        return plan.with_pairs(told)

    def _exchanged(self, plan: WeightPlan, labels: dict[str, str | None]) -> WeightPlan:
        """Try the orders of the first layers that are given one value, like-named ones together.

        Args:
            plan: What is supposed.
            labels: What was told of layers by name, None where nothing was; gets another one.
        """
        layers = self._open_layers(plan)
        if not layers:
            return plan
        with self._run(plan) as run:
            every = siblings_of(self.reference, run, layers)
            met = met_siblings((self.reference, run), every, layers, self._rules(run))
        indexes = self.reference.index, self.live
        pairs = [pair for pair in plan.ambiguous if pair.note in _PLACES]
        few = [one for one in every if one.is_few]
        choices = [exchanges(*indexes, one, pairs, self._is_allowed) for one in few]
        is_met = [one in met for one in few]
        for choice in (choice for choice, here in zip(choices, is_met, strict=True) if here):
            alike = [other for other in choices if other.is_like(choice)]
            if choice.name not in labels:
                labels[choice.name] = self._agreeing_way(plan, alike, is_every=True)
            label = labels[choice.name]
            if label is not None:
                sure = [one for one, here in zip(choices, is_met, strict=True) if here]
                sure = [one for one in sure if one.is_like(choice)]
                plan = self._with_told(_as(plan, alike, label), sure, label)
                if any(pair.candidate in choice.candidates for pair in plan.ambiguous):
                    labels[choice.name] = None  # against the names
                return plan
        return self._distinguished(plan, [one for one in met if not one.is_few], labels)

    def _distinguished(
        self, plan: WeightPlan, many: Iterable[Siblings], labels: dict[str, str | None]
    ) -> WeightPlan:
        """Return the first layers that are too many for every order, each by what it changes."""
        indexes = self.reference.index, self.live
        pairs = [pair for pair in plan.ambiguous if pair.note in _PLACES]

        def run(partners: Mapping[int, int]) -> AbstractContextManager[Side]:
            return self._run(plan.with_pairs(moved_to(*indexes, plan.pairs, partners)))

        def meetings(first: Side) -> list[Meeting]:
            pairing = pair_runs(
                self.reference, first, map_file=self.map_file, explains_unmatched=False
            )
            every = meetings_of(self.reference, first, pairing, self._owners(plan))
            return self._among_sure(plan, first, every)

        for one in many:
            key = f"many {one.candidate}"
            order = None if key in labels else order_one_by_one(self.reference, one, run, meetings)
            labels[key] = None
            if order is not None:
                choice = exchanges(*indexes, one, pairs, self._is_allowed, [order])
                label = labels[key] = choice.ways[0].label
                return self._with_told(_as(plan, [choice], label), [choice], label)
        return plan

    def _rules(self, run: Side) -> dict[int, Rule]:
        """Return the layouts of values that are known."""
        pairing = pair_runs(self.reference, run, map_file=self.map_file, explains_unmatched=False)
        return {one.candidate: one.rule for one in pairing.records}

    def _is_allowed(self, pair: WeightPair) -> bool:
        """Return whether no name says otherwise."""
        named = self.named.get(pair.candidate)
        return named is None or named == pair.reference

    def _settled(self, plan: WeightPlan, alike: Sequence[WeightChoice]) -> WeightPlan | None:
        """Decide for like layers together: the same code reads their weights."""
        label = self._agreeing_way(plan, alike)
        return None if label is None else self._with_told(plan, alike, label)

    def _with_told(self, plan: WeightPlan, alike: Sequence[WeightChoice], label: str) -> WeightPlan:
        """Take the way that runs told, unless it is against the names."""
        ways = [way for choice in alike for way in choice.ways if way.label == label]
        if all(way.is_usual for way in ways):
            note = f"{label}: tried, and only so the model agrees with the reference"
            return _with_way(plan, alike, label, confidence=1.0, note=note)
        note = f"the model agrees with the reference only with {label}, against the names"
        return _with_way(plan, alike, alike[0].ways[0].label, confidence=_REFUSED, note=note)

    def _agreeing_way(
        self, plan: WeightPlan, alike: Sequence[WeightChoice], *, is_every: bool = False
    ) -> str | None:
        """Return the way that agrees with the reference if no other that was tried comes near.

        Args:
            plan: What else is supposed.
            alike: What is decided together.
            is_every: Whether layers are exchanged. Then every way is tried, and only what sure
                layers are given and make, and the model as a whole, is evidence: what pairs
                the others are the weights that are in question.
        """
        labels = _labels(alike)
        with ExitStack() as stack:
            first = stack.enter_context(self._run(_as(plan, alike, labels[0])))
            pairing = pair_runs(
                self.reference, first, map_file=self.map_file, explains_unmatched=False
            )
            every = meetings_of(self.reference, first, pairing, self._owners(plan))
            if is_every:
                every = self._among_sure(plan, first, every)
            meetings: list[Meeting] = []
            tried: list[list[float]] = []
            names = [labels[0]]
            for label in labels[1:_MOST_RUNS]:
                with self._run(_as(plan, alike, label)) as run:
                    if not meetings:
                        meetings = changed(first, run, every)
                        tried = [errors_at(self.reference, first, meetings)]
                    if not meetings:
                        continue
                    tried.append(errors_at(self.reference, run, meetings))
                    names.append(label)
                told = None if is_every else told_by(meetings, tried)
                if told is not None:
                    return names[told]
        told = told_by(meetings, tried) if len(tried) == len(labels) else None
        return None if told is None else names[told]

    def _among_sure(
        self, plan: WeightPlan, run: Side, meetings: Iterable[Meeting]
    ) -> list[Meeting]:
        """Keep the values of layers which are partners whatever is exchanged."""
        sure = {(0, 0), *self._sure_layers(plan).items()}
        records = run.index.records, self.reference.index.records
        return [
            one for one in meetings
            if (records[0][one.pair.candidate].module, records[1][one.pair.reference[0]].module)
            in sure
        ]  # fmt: skip

    def _sure_layers(self, plan: WeightPlan) -> dict[int, int]:
        """Return the layers with the only partner that they have, and that is not in doubt."""
        sure = [pair for pair in plan.pairs if not pair.is_ambiguous]
        found = open_layers(self.reference.index, self.live, sure)
        doubted = {self.live.records[pair.candidate].module for pair in plan.ambiguous}
        return {module: other for module, other in found.items() if module not in doubted}

    def _owners(self, plan: WeightPlan) -> tuple[set[int], set[int]]:
        """Return the layers whose weights are in question; a container has other outputs, too."""
        indexes = self.reference.index, self.live
        fused = [choice for choice in plan.choices if choice.is_fused]
        chosen = (
            [one for choice in fused for one in choice.references],
            [one for choice in fused for one in choice.candidates],
        )
        around = [{module.parent for module in index.modules} for index in indexes]
        first, second = (
            {index.records[one].module for one in records} - outer
            for index, records, outer in zip(indexes, chosen, around, strict=True)
        )
        return first, second

    def _run(self, plan: WeightPlan) -> AbstractContextManager[Side]:
        self.load(plan)
        return self.rehearse()


def _assumed(plan: WeightPlan, alike: Sequence[WeightChoice]) -> WeightPlan:
    """Take the order that names spell, where no run tells."""
    spelled = [way.label for choice in alike for way in choice.ways if way.is_spelled]
    if len(spelled) < len(alike):
        return plan
    note = f"{spelled[0]}: {ASSUMED}; no run could tell"
    return _with_way(plan, alike, spelled[0], confidence=_SPELLED, note=note)


def _labels(alike: Sequence[WeightChoice]) -> list[str]:
    """List the ways of like layers, usual ones first."""
    ways = [way for choice in alike for way in choice.ways]
    ways.sort(key=lambda way: not way.is_usual)
    return list(dict.fromkeys(way.label for way in ways))


def _ways(alike: Sequence[WeightChoice], label: str) -> Iterator[WeightWay]:
    """Yield each layer's way of this label, or its first one if it has none."""
    for choice in alike:
        yield next((way for way in choice.ways if way.label == label), choice.ways[0])


def _as(plan: WeightPlan, alike: Sequence[WeightChoice], label: str) -> WeightPlan:
    return plan.with_pairs(pair for way in _ways(alike, label) for pair in way.pairs)


def _with_way(
    plan: WeightPlan, alike: Sequence[WeightChoice], label: str, *, confidence: float, note: str
) -> WeightPlan:
    """Return a plan that has one way of like layers, with a note that says why."""
    before = {pair.candidate: pair for pair in plan.pairs}
    made = [
        replace(
            pair,
            confidence=confidence,
            paired_by=PairedBy.VALUE if confidence == 1.0 else pair.paired_by,
            alternatives=() if confidence == 1.0 else before[pair.candidate].alternatives,
            note=note,
        )
        for way in _ways(alike, label)
        for pair in way.pairs
    ]
    found = plan.with_pairs(made)
    notes = dict.fromkeys((*plan.notes, f"{alike[0].name}: {note}"))
    return replace(found, notes=tuple(notes))


def order_one_by_one(
    reference: Side,
    siblings: Siblings,
    run: Callable[[Mapping[int, int]], AbstractContextManager[Side]],
    meetings: Callable[[Side], list[Meeting]],
) -> tuple[int, ...] | None:
    """Return the order in which the reference's layers take the places of the candidate's.

    Runs the model twice for each layer.

    Args:
        reference: The reference's run.
        siblings: Who may be exchanged.
        run: Runs the model with other partners for some layers, by module of the candidate.
        meetings: Gives the values of a run that are evidence.

    Returns:
        Modules of the reference, in the order of the candidate's; None where a layer changes
        nothing by itself, or what it changes does not single out one partner, or two have the same.
    """
    mine, theirs = siblings.candidate, siblings.reference
    count = len(mine)
    with run({}) as first:
        every = meetings(first)
        touched: list[set[int]] = []
        for place, module in enumerate(mine):
            with run({module: theirs[(place + 1) % count]}) as other:
                touched.append({one.pair.candidate for one in changed(first, other, every)})
        own = _own(every, touched)
        if not all(own):
            return None
        errors = [[errors_at(reference, first, one) for one in own]]
    for shift in range(1, count):
        partners = {module: theirs[(at + shift) % count] for at, module in enumerate(mine)}
        with run(partners) as other:
            errors.append([errors_at(reference, other, one) for one in own])
    found: list[int] = []
    for place, values in enumerate(own):
        told = told_by(values, [tried[place] for tried in errors])
        if told is None:
            return None
        found.append(theirs[(place + told) % count])
    return tuple(found) if len(set(found)) == count else None


def _own(every: Sequence[Meeting], touched: Sequence[Set[int]]) -> list[list[Meeting]]:
    """Return for each layer the values that it alone changes."""
    uses = Counter(record for records in touched for record in records)
    return [
        [one for one in every if one.pair.candidate in records and uses[one.pair.candidate] == 1]
        for records in touched
    ]
