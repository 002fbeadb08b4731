"""What a weight plan says: pairs of parameters with rules, what is alone, what is unsure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from padiff.pairing.result import SideName
from padiff.pairing.rule import IDENTITY, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from padiff.pairing.result import PairedBy

SURE = 0.5
"""A pair of less confidence is ambiguous."""
_DISPUTED = 0.3
ASSUMED = "assumed, as its name spells"
"""In notes of pairs that only the name of a fused projection speaks for."""
OTHERWISE = "names and the order of the runs say otherwise"
"""Note of a pair that other evidence makes otherwise."""
TIED = "tied"
"""Note of a pair that is another name of a paired tensor."""
UNNEEDED = "nothing that the reference gives or learns from needs it"
"""Why a weight of the reference without partner is not missing."""
FIRM = 0.9
"""A pair of less confidence was told by words, order or sizes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another way to fill a candidate parameter, which the plan decided against."""

    reference: tuple[int, ...]
    """Record ids of the reference."""
    rule: Rule = IDENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPair:
    """A parameter or buffer of the candidate, and the reference ones that it must equal."""

    reference: tuple[int, ...]
    """Record ids of roles ``weight`` or ``buffer``: one, or several that the rule joins."""
    candidate: int
    """Record id in the candidate's index."""
    rule: Rule = IDENTITY
    paired_by: PairedBy
    confidence: float = 1.0
    """In (0, 1]; below ``SURE`` the pair is ambiguous."""
    alternatives: tuple[Alternative, ...] = ()
    """What else it could be, best first."""
    note: str = ""

    @property
    def is_ambiguous(self) -> bool:
        """Return whether the evidence does not single this pair out."""
        return self.confidence < SURE

    def others_than(self, reference: tuple[int, ...], rule: Rule) -> tuple[Alternative, ...]:
        """Return what else the parameter could be made of, if it is made in this way."""
        own = Alternative(reference=self.reference, rule=self.rule)
        made = Alternative(reference=reference, rule=rule)
        return tuple(one for one in dict.fromkeys((own, *self.alternatives)) if one != made)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightAlone:
    """A parameter or buffer without partner."""

    side: SideName
    record: int
    is_missing: bool
    """Whether it should have a partner; False for what is known to be one-sided."""
    reason: str
    """One clause: ``counter that only torch keeps``."""
    closest: tuple[int, ...] = ()
    """Records of the other side that come nearest in shape and name, best first."""
    is_unneeded: bool = False
    """Whether the recorded run did not need it: it is not loaded, though the sides differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightWay:
    """One way in which several weights can belong together."""

    label: str
    """What tells it from the others, alike in like layers: ``q, k, v in blocks``."""
    pairs: tuple[WeightPair, ...]
    is_usual: bool
    """Whether authors lay such weights so; a run that agrees only with another way says that
    the candidate may be at fault."""
    is_spelled: bool = False
    """Whether names on both sides spell the order out, and no other way is as plain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightChoice:
    """Weights whose values go together in one of several ways, which no name or shape decides."""

    ways: tuple[WeightWay, ...]
    """The likeliest first; the plan has the first one's pairs."""
    name: str
    """The same for like layers: their names without numbers."""
    is_exchange: bool = False
    """Whether each is made of one, and only which of which is open."""

    @property
    def candidates(self) -> frozenset[int]:
        """Return the candidate's records that are made."""
        return frozenset(pair.candidate for pair in self.ways[0].pairs)

    @property
    def is_fused(self) -> bool:
        """Return whether parts are joined or taken: then what comes out is laid out alike."""
        return not self.is_exchange and (len(self.candidates) > 1 or len(self.references) > 1)

    def is_like(self, other: WeightChoice) -> bool:
        """Return whether another choice is that of like layers, between the same ways."""
        labels = [{way.label for way in one.ways} for one in (self, other)]
        return self.name == other.name and labels[0] == labels[1]

    @property
    def references(self) -> frozenset[int]:
        """Return the reference's records that they are made of."""
        return frozenset(record for pair in self.ways[0].pairs for record in pair.reference)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WeightPlan:
    """Every parameter and buffer of both sides, once each on the candidate's side."""

    pairs: tuple[WeightPair, ...]
    """Ascending by candidate record."""
    alone: tuple[WeightAlone, ...]
    """Reference first, then candidate; each ascending by record."""
    notes: tuple[str, ...] = ()
    """Remarks about the plan as a whole: tied on one side only, unused entries of the map."""
    choices: tuple[WeightChoice, ...] = ()
    """What a run can decide: layouts of fused and of square weights that nothing else tells."""
    loaded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Once the plan was carried out: by a weight's name, the names of what it was made of."""

    def __repr__(self) -> str:
        """Return one line: a notebook prints it."""
        text = f"{len(self.pairs)} weights and buffers paired, {len(self.ambiguous)} in doubt"
        return f"<WeightPlan: {text}, {len(self.missing)} without partner>"

    @property
    def ambiguous(self) -> tuple[WeightPair, ...]:
        """Return the pairs that should not be trusted without a look."""
        return tuple(pair for pair in self.pairs if pair.is_ambiguous)

    @property
    def is_firm(self) -> bool:
        """Return whether each pair rests on more than words, order or sizes."""
        return not self.missing and all(pair.confidence >= FIRM for pair in self.pairs)

    @property
    def missing(self) -> tuple[WeightAlone, ...]:
        """Return what has no partner but should have one."""
        return tuple(alone for alone in self.alone if alone.is_missing)

    def with_pairs(self, made: Iterable[WeightPair]) -> WeightPlan:
        """Return this plan with other pairs for some weights of the candidate and their ties."""
        new = {pair.candidate: pair for pair in made}
        old = {
            (pair.reference, pair.rule): new[pair.candidate]
            for pair in self.pairs
            if pair.candidate in new
        }
        pairs = []
        for pair in self.pairs:
            found = new.get(pair.candidate)
            if found is None and pair.note == TIED:
                found = old.get((pair.reference, pair.rule))
            pairs.append(pair if found is None else replace(found, candidate=pair.candidate))
        return replace(self, pairs=tuple(pairs))

    def filled_by(self, other: WeightPlan) -> WeightPlan:
        """Return this plan with the pairs of a bolder one, in doubt, where it has no sure ones.

        Args:
            other: A plan for the same two sides that also rests on what is in doubt itself.
        """
        sure = [pair for pair in self.pairs if not pair.is_ambiguous]
        taken = (
            {record for pair in sure for record in pair.reference},
            {pair.candidate for pair in sure},
        )
        known = {pair.candidate: pair for pair in self.pairs}
        pairs = {pair.candidate: pair for pair in self.pairs}
        for pair in other.pairs:
            if pair.candidate in taken[1] or not taken[0].isdisjoint(pair.reference):
                continue
            before = known.get(pair.candidate, pair)
            pairs[pair.candidate] = replace(
                pair,
                confidence=min(pair.confidence, _DISPUTED),
                alternatives=before.others_than(pair.reference, pair.rule),
                note=before.note or pair.note,
            )
        new = [choice for choice in other.choices if choice.candidates.isdisjoint(taken[1])]
        made = frozenset(record for choice in new for record in choice.candidates)
        kept = [choice for choice in self.choices if choice.candidates.isdisjoint(made)]
        used = (
            {record for pair in pairs.values() for record in pair.reference},
            pairs.keys(),
        )
        return replace(
            self,
            pairs=tuple(pairs[candidate] for candidate in sorted(pairs)),
            alone=tuple(
                one for one in self.alone if one.record not in used[one.side is SideName.CANDIDATE]
            ),
            choices=(*new, *kept),
        )

    def doubted_by(self, other: WeightPlan, tensors: Mapping[int, int | None]) -> WeightPlan:
        """Return this plan with doubt about the pairs that other evidence makes otherwise.

        Args:
            other: A plan for the same two sides, made without what this one rests on.
            tensors: Number of the tensor that each record of the reference is a name of.
        """
        known = {pair.candidate: pair for pair in other.pairs if not pair.is_ambiguous}
        pairs = (
            pair if (rival := known.get(pair.candidate)) is None else _doubted(pair, rival, tensors)
            for pair in self.pairs
        )
        return replace(self, pairs=tuple(pairs))


def _doubted(pair: WeightPair, other: WeightPair, tensors: Mapping[int, int | None]) -> WeightPair:
    sources = [
        [-record - 1 if (tensor := tensors.get(record)) is None else tensor for record in made]
        for made in (pair.reference, other.reference)
    ]
    is_same = sources[0] == sources[1] and pair.rule == other.rule
    if is_same or pair.is_ambiguous:
        return pair
    rival = Alternative(reference=other.reference, rule=other.rule)
    return replace(
        pair,
        confidence=_DISPUTED,
        alternatives=(rival, *pair.alternatives),
        note=OTHERWISE,
    )
