"""The plan of two sides with the same modules and the same parameters in them.

Where every module has its own partner, of the same class, and holds parameters of the same names
and shapes, each is made of the one of its own name. The search for units says so, too, but only
after it has looked for what else there might be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Index, ModuleInfo, Phase, RecordInfo, Role
from padiff.dumpfile.bulk import build_all
from padiff.pairing.rule import IDENTITY, Rule

from .unit_keys import stride_of
from .weight_plan import SURE, WeightPair
from .weight_rules import Form, Held, form_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.result import ModulePair

__all__ = ["is_equal_plan", "plan_equal"]

_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_PLAIN = Form(class_name="", exact={})


def plan_equal(
    reference: Index, candidate: Index, modules: Sequence[ModulePair]
) -> list[WeightPair] | None:
    """Pair each parameter and buffer with the one of the same name, where nothing else can be.

    Args:
        reference: Where the values come from.
        candidate: What should hold them.
        modules: Pairs of modules that are known.

    Returns:
        A pair for each, ascending by candidate record. None where more has to be looked at: the
        sides differ, modules are in doubt, or a class keeps parameters in another form than that
        of one for each of its own (packed ones, names for one tensor twice, reparametrised ones).
    """
    if not is_equal_plan(reference, candidate, modules):
        return None
    sides = _owned(reference), _owned(candidate)
    by = [pair.paired_by for pair in modules]
    return build_all(
        WeightPair,
        len(sides[0]),
        same={"rule": IDENTITY},
        reference=[(record.id,) for record in sides[0]],
        candidate=[record.id for record in sides[1]],
        paired_by=[by[record.module] for record in sides[0]],
        confidence=[modules[record.module].confidence for record in sides[0]],
    )


def is_equal_plan(reference: Index, candidate: Index, modules: Sequence[ModulePair]) -> bool:
    """Tell whether ``plan_equal`` has a plan."""
    forms = _forms(reference, candidate, modules)
    if forms is None:
        return False
    known = _owned(reference)
    if reference.records is not candidate.records:
        found = _owned(candidate)
        places = [[(r.module, r.role, r.slot, r.shape) for r in side] for side in (known, found)]
        if places[0] != places[1] or not _are_tied_alike(known, found):
            return False
    return _are_plain(known, forms)


def _owned(index: Index) -> list[RecordInfo]:
    """Give the parameters and buffers, as they were at first."""
    return [r for r in index.records if r.role in _OWNED and r.phase is not Phase.UPDATE]


def _forms(
    reference: Index, candidate: Index, modules: Sequence[ModulePair]
) -> list[Form | None] | None:
    """Give how each module's class lays out its parameters; None if modules or classes differ."""
    if not len(modules) == len(reference.modules) == len(candidate.modules):
        return None
    for pair, one, two in zip(modules, reference.modules, candidate.modules, strict=True):
        is_pair = pair.reference == one.id and pair.candidate == two.id and pair.confidence >= SURE
        if not is_pair or not (one is two or _are_alike(one, two)):
            return None
    if any("parametrizations" in module.path for module in reference.modules):
        return None
    forms = list(map(form_of, reference.modules))
    distinct = {id(form): form for form in forms if form is not None}
    return None if any(form.is_nested for form in distinct.values()) else forms


def _are_alike(one: ModuleInfo, two: ModuleInfo) -> bool:
    """Tell whether two modules are of one class, and the same as far as their parameters tell."""
    is_same = (one.class_path, one.parent, one.bases) == (two.class_path, two.parent, two.bases)
    if not is_same or stride_of(one) != stride_of(two):
        return False
    return one.attributes == two.attributes or form_of(one) == form_of(two)


def _are_tied_alike(reference: Sequence[RecordInfo], candidate: Sequence[RecordInfo]) -> bool:
    """Tell whether what is one tensor on one side is one tensor on the other."""
    tensors = {(one.tensor, two.tensor) for one, two in zip(reference, candidate, strict=True)}
    counts = [len({pair[side] for pair in tensors}) for side in (0, 1)]
    return counts[0] == counts[1] == len(tensors)


def _are_plain(records: Sequence[RecordInfo], forms: Sequence[Form | None]) -> bool:
    """Tell whether each parameter of each module stands for itself."""
    slots: dict[int, list[str]] = {}
    for record in records:
        slots.setdefault(record.module, []).append(record.slot)
    kinds = {(id(forms[module]), tuple(names)): module for module, names in slots.items()}
    return all(_is_plain(forms[module], names) for (_, names), module in kinds.items())


def _is_plain(form: Form | None, slots: Sequence[str]) -> bool:
    names = [slot.removeprefix(".") for slot in slots]
    held = [(form or _PLAIN).find(name, frozenset(names)) or Held(atoms=(name,)) for name in names]
    atoms = [atom for one in held for atom in one.atoms]
    return (
        len(set(atoms)) == len(atoms)
        and not any(":" in atom for atom in atoms)
        and all(len(one.atoms) == 1 and _cancels(one.rule) for one in held)
    )


def _cancels(rule: Rule) -> bool:
    """Tell whether a layout and its undoing are as good as none."""
    inverse = rule.inverse
    return inverse is not None and inverse.then(rule).is_identity
