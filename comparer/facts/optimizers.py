"""How the two optimizers differ: what they were made with, and their learning rates."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from padiff.comparer.proving import Edit
from padiff.comparer.result import Divergence, Kind
from padiff.comparer.stored import changed_at, origins_of
from padiff.dumpfile import Phase, Role

from .attributes import canonical_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.comparer.locating.locate import Located
    from padiff.comparer.result import Endpoint, StepComparison
    from padiff.dumpfile import JSON, Index
    from padiff.pairing import Pairing

MOST_NAMES = 3
_UPDATED = frozenset({Role.WEIGHT, Role.OPTIMIZER_STATE, Role.WEIGHT_GRAD})
"""What an optimizer and what clips ahead of it make."""
_FAMILIES = {"momentum": "sgd", "adamw": "adam", "fusedadam": "adam"}
"""Classes that are another one with options: what differs then is told by those."""
_DEFAULTS: Mapping[str, JSON] = {
    "weight_decay": 0.0,
    "momentum": 0.0,
    "dampening": 0.0,
    "nesterov": False,
    "centered": False,
    "amsgrad": False,
    "maximize": False,
    "decoupled": False,
}
"""What an optimizer does that has no such option."""
_RMSPROP = (
    "known difference: RMSprop divides by sqrt(v) + eps in torch, by sqrt(v + epsilon) in paddle, "
    "for the average v of squares (docs/differences.md)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Optimizer:
    """What holds for one weight."""

    framework: str
    name: str
    """Class without module."""
    options: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizers:
    """Both sides' optimizers, by full name of the weight; empty where a dump does not tell."""

    reference: Mapping[str, _Optimizer]
    candidate: Mapping[str, _Optimizer]

    @classmethod
    def read(cls, reference: Mapping[str, JSON], candidate: Mapping[str, JSON]) -> Optimizers:
        """Read them from the settings of two manifests; what is not as padiff writes it is left."""
        return cls(reference=_read(reference), candidate=_read(candidate))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """An option that both optimizers have, with other values."""

    option: str
    """``class`` where the optimizers are of two kinds."""
    reference: JSON
    candidate: JSON
    weights: tuple[str, ...]
    """Those that it holds for, by the reference's names."""
    of: int
    """All weights that both optimizers update."""

    def __str__(self) -> str:
        """Return one line of evidence."""
        is_class = self.option == "class"
        what = "optimizer" if is_class else f"option {self.option!r} of the optimizer"
        line = f"{what}: {self.reference} on the reference, {self.candidate} on the candidate"
        if len(self.weights) == self.of:
            return line
        more = len(self.weights) - MOST_NAMES
        names = ", ".join(self.weights[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        return f"{line} for {len(self.weights)} of {self.of} weights: {names}"

    def is_proved(self, origin: Divergence) -> bool:
        """Return whether an edit of the update names the same argument."""
        return any(
            canonical_name(change.name) == self.option
            for fault in origin.faults
            if isinstance(fault, Edit)
            for change in fault.changes
        )


def add_option_facts(
    located: Located,
    pairing: Pairing,
    sides: tuple[Index, Index],
    optimizers: Optimizers,
) -> Located:
    """Add to the origins in the update the options in which the optimizers differ."""
    if not any(map(_is_updated, located.divergences)):
        return located
    differences, is_rmsprop = _compare(list(_pairs(pairing, sides, optimizers)))
    return replace(
        located,
        divergences=tuple(
            _with_options(one, differences, is_rmsprop=is_rmsprop) if _is_updated(one) else one
            for one in located.divergences
        ),
    )


def _is_updated(divergence: Divergence) -> bool:
    end = divergence.pair.reference
    is_origin = divergence.kind is Kind.ORIGIN and divergence.phase is Phase.UPDATE
    return is_origin and end is not None and end.address.role in _UPDATED


def _with_options(
    origin: Divergence, differences: Sequence[_Difference], *, is_rmsprop: bool
) -> Divergence:
    lines = [str(one) for one in differences if not one.is_proved(origin)]
    if is_rmsprop:
        lines.append(_RMSPROP)
    return replace(origin, evidence=(*lines, *origin.evidence))


def _compare(pairs: Sequence[tuple[_Optimizer, _Optimizer, str]]) -> tuple[list[_Difference], bool]:
    """Return the options that differ, and whether both sides are RMSprop of two frameworks."""
    found: dict[tuple[str, JSON, JSON], list[str]] = defaultdict(list)
    is_rmsprop = False
    for known, had, name in pairs:
        kinds = _kind(known), _kind(had)
        if kinds[0] != kinds[1]:
            found["class", known.name, had.name].append(name)
            continue
        is_rmsprop |= kinds[0] == "rmsprop" and known.framework != had.framework
        for option, one, two in _differing(known.options, had.options):
            found[option, one, two].append(name)
    differences = [
        _Difference(
            option=option, reference=one, candidate=two, weights=tuple(names), of=len(pairs)
        )
        for (option, one, two), names in found.items()
    ]
    return differences, is_rmsprop


def _pairs(
    pairing: Pairing, sides: tuple[Index, Index], optimizers: Optimizers
) -> Iterator[tuple[_Optimizer, _Optimizer, str]]:
    """Yield what holds for each pair of weights that both optimizers update."""
    for pair in pairing.records:
        if not _is_weight(sides[0], pair.reference[0]):
            continue
        name = _name(sides[0], pair.reference[0])
        known = optimizers.reference.get(name)
        found = optimizers.candidate.get(_name(sides[1], pair.candidate))
        if known is not None and found is not None:
            yield known, found, name


def _is_weight(index: Index, record: int) -> bool:
    found = index.records[record]
    return found.role is Role.WEIGHT and found.phase is Phase.UPDATE


def _name(index: Index, record: int) -> str:
    found = index.records[record]
    return f"{index.modules[found.module].path}{found.slot}".lstrip(".")


def _kind(optimizer: _Optimizer) -> str:
    name = optimizer.name.lower()
    return _FAMILIES.get(name, name)


def _differing(known: Mapping[str, JSON], had: Mapping[str, JSON]) -> list[tuple[str, JSON, JSON]]:
    """Return the options with other values; those that only one side has need a known default."""
    found = []
    for option in dict.fromkeys((*known, *had)):
        one, two = known.get(option, _DEFAULTS.get(option)), had.get(option, _DEFAULTS.get(option))
        is_moot = option == "decoupled" and not (_decays(known) and _decays(had))
        if one != two and None not in (one, two) and not is_moot:
            found.append((option, one, two))
    return found


def _decays(options: Mapping[str, JSON]) -> bool:
    return bool(options.get("weight_decay"))


def _read(settings: Mapping[str, JSON]) -> dict[str, _Optimizer]:
    listed = settings.get("optimizers")
    found: dict[str, _Optimizer] = {}
    for told in listed if isinstance(listed, list) else []:
        groups = told.get("groups") if isinstance(told, dict) else None
        for group in groups if isinstance(groups, list) else []:
            if not (isinstance(told, dict) and isinstance(group, dict)):
                continue
            options, weights = group.get("options"), group.get("weights")
            if isinstance(options, dict) and isinstance(weights, list):
                kind = str(told.get("class", ""))
                framework, name = kind.partition(".")[0], kind.rpartition(".")[2]
                plain = {
                    option: value
                    for option, value in options.items()
                    if isinstance(value, bool | int | float | str)
                }
                one = _Optimizer(framework=framework, name=name, options=plain)
                found |= {str(weight): one for weight in weights}
    return found


Rates = dict[int, float]

CLOSE = 1e-6
"""Relative difference up to which two rates are the same, as they are judged."""
FEW = 2
"""Steps that must agree once shifted; of fewer nothing is concluded."""


def add_rate_facts(steps: Sequence[StepComparison]) -> tuple[StepComparison, ...]:
    """Add how the rates of all steps differ to the origins that are rates."""
    return tuple(_with_facts(step, steps) for step in steps)


def _with_facts(step: StepComparison, steps: Sequence[StepComparison]) -> StepComparison:
    if not any(map(_is_rate_origin, origins_of(step.divergences))):
        return step
    places = [at for at, found in enumerate(step.divergences) if _is_rate_origin(found)]
    slots = {_slot(found) for found in origins_of(step.divergences) if _is_rate_origin(found)}
    texts = {slot: _said(*_rates(steps, step.rank, slot)) for slot in slots}
    change = partial(_with_rates, texts=texts)
    return replace(step, divergences=changed_at(step.divergences, frozenset(places), change))


def _is_rate_origin(divergence: Divergence) -> bool:
    end = divergence.pair.reference
    return (
        divergence.kind is Kind.ORIGIN and end is not None and end.address.role is Role.LR
    ) and divergence.pair.candidate is not None


def _with_rates(divergence: Divergence, texts: Mapping[str, str]) -> Divergence:
    text = texts[_slot(divergence)]
    return replace(divergence, evidence=(text, *divergence.evidence)) if text else divergence


def _slot(divergence: Divergence) -> str:
    end = divergence.pair.reference
    return "" if end is None else end.address.slot


def _said(known: Rates, had: Rates) -> str:
    return _shifted(known, had) or _constant(known, had) or _factor(known, had)


def _rates(steps: Sequence[StepComparison], rank: int, slot: str) -> tuple[Rates, Rates]:
    """Return both sides' rates by step."""
    known: Rates = {}
    had: Rates = {}
    for step in steps:
        for pair in step.pairs if step.rank == rank else ():
            for end, rates in ((pair.reference, known), (pair.candidate, had)):
                if end is not None and end.address.role is Role.LR and end.address.slot == slot:
                    value = _value(end)
                    if value is not None:
                        rates[step.step] = value
    return known, had


def _value(end: Endpoint) -> float | None:
    return None if end.statistics is None else end.statistics.maximum


def _same(one: float, two: float) -> bool:
    return math.isclose(one, two, rel_tol=CLOSE)


def _shifted(known: Rates, had: Rates) -> str:
    """See whether one side has in each step what the other has in the next."""
    for first, second, words in (
        (known, had, ("candidate", "reference")),
        (had, known, ("reference", "candidate")),
    ):
        both = [(first[step + 1], rate) for step, rate in second.items() if step + 1 in first]
        moves = len({round(rate, 12) for _, rate in both}) > 1
        if len(both) >= FEW and moves and all(_same(*pair) for pair in both):
            return f"in each step the {words[0]} has the rate of the {words[1]}'s next step"
    return ""


def _constant(known: Rates, had: Rates) -> str:
    for side, own, other in (("candidate", had, known), ("reference", known, had)):
        is_still = len(own) > FEW and all(_same(rate, min(own.values())) for rate in own.values())
        if is_still and not all(_same(rate, min(other.values())) for rate in other.values()):
            return f"the {side}'s rate stays at {min(own.values()):.6g}"
    return ""


def _factor(known: Rates, had: Rates) -> str:
    ratios = [had[step] / rate for step, rate in known.items() if rate and step in had]
    if not ratios or not all(_same(ratio, ratios[0]) for ratio in ratios):
        return ""
    return f"in all steps the candidate's rate is {ratios[0]:.6g} times the reference's"
