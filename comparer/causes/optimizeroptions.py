"""What the two optimizers were made with, where it differs: class, betas, decay, epsilon."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.comparer.locating.calltree import CallTree
    from padiff.dumpfile import JSON, Index

__all__ = ["Optimizers", "option_causes"]

MOST_NAMES = 3
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
    "RMSprop divides by sqrt(v) + eps in torch, by sqrt(v + epsilon) in paddle, for the average v "
    "of squares (docs/differences.md)"
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


def option_causes(tree: CallTree, optimizers: Optimizers) -> list[Cause]:
    """Name the options that differ, with the weights that they hold for.

    Args:
        tree: The judged pairs of a step with an update.
        optimizers: Both sides'.
    """
    found: dict[tuple[str, JSON, JSON], list[str]] = defaultdict(list)
    total, is_rmsprop = 0, False
    for known, had, name in _pairs(tree, optimizers):
        total += 1
        kinds = _kind(known), _kind(had)
        if kinds[0] != kinds[1]:
            found["class", known.name, had.name].append(name)
            continue
        is_rmsprop |= kinds[0] == "rmsprop" and known.framework != had.framework
        for option, one, two in _differing(known.options, had.options):
            found[option, one, two].append(name)
    causes = [_cause(*key, names, total) for key, names in found.items()]
    if is_rmsprop:
        causes.append(Cause(name=CauseName.EPSILON, text=_RMSPROP))
    return causes


def _cause(option: str, one: JSON, two: JSON, names: list[str], total: int) -> Cause:
    what = "optimizer" if option == "class" else f"option {option!r} of the optimizer"
    where = ""
    if len(names) < total:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        where = f" for {len(names)} of {total} weights: {', '.join(names[:MOST_NAMES])}{more}"
    return Cause(
        name=CauseName.OPTIMIZER,
        text=f"{what}: {one} on the reference, {two} on the candidate{where}",
        numbers={"option": option, "reference": one, "candidate": two, "weights": len(names)},
    )


def _pairs(tree: CallTree, optimizers: Optimizers) -> list[tuple[_Optimizer, _Optimizer, str]]:
    """Give what holds for each pair of weights that both optimizers update."""
    found = []
    for place in tree.updates:
        known, had = tree.records[place]
        if not known or had is None or not _is_weight(tree.reference, known[0]):
            continue
        name = _name(tree.reference, known[0])
        sides = optimizers.reference.get(name), optimizers.candidate.get(_name(tree.candidate, had))
        if sides[0] is not None and sides[1] is not None:
            found.append((sides[0], sides[1], name))
    return found


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
    """Give the options with other values; those that only one side has need a known default."""
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
