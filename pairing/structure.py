"""Whether two trees and their runs are the same, up to names or with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .calls.calls import CallPairs
from .result import ModulePair, PairedBy
from .weights.matching import Matching

if TYPE_CHECKING:
    from .view import View

__all__ = ["certain", "identity", "is_same_by_name", "is_same_structure"]


def is_same_by_name(reference: View, candidate: View) -> bool:
    """Tell whether both sides have the same structure and every module the same path."""
    paths = [[module.path for module in view.modules] for view in (reference, candidate)]
    return paths[0] == paths[1] and is_same_structure(reference, candidate)


def identity(view: View) -> tuple[CallPairs, Matching]:
    """Pair every call and every module with the one of the same id.

    Where names, kinds and the order of all calls agree there is nothing to align: an archived dump
    against a new one, or a port that kept its names.
    """
    calls, modules = CallPairs(), Matching()
    for call in view.calls:
        calls.add(call.id, call.id, PairedBy.NAME)
        if view.inner[call.id]:
            calls.share[call.id] = 1.0
    for module in view.modules:
        modules.add(module.id, module.id, PairedBy.NAME)
    return calls, modules


def certain(modules: Matching) -> tuple[ModulePair, ...]:
    """Rate the pairs of ``identity``: of equal paths nothing is in doubt, nor of what is inside.

    What ``calls/confidence.py`` gives for them, without looking for what else there might be.
    """
    return tuple(
        ModulePair(reference=one, candidate=two, paired_by=modules.by[one]) for one, two in modules
    )


def is_same_structure(reference: View, candidate: View) -> bool:
    """Tell whether both sides have the same modules and calls up to names and equal kinds.

    The module trees must agree node by node in definition order, the calls one by one in
    execution order, each inside the same one and of the module at the same place.
    """
    if len(reference.modules) != len(candidate.modules):
        return False
    if len(reference.calls) != len(candidate.calls):
        return False
    modules = zip(reference.modules, candidate.modules, strict=True)
    if any(one.parent != two.parent for one, two in modules):
        return False
    if reference.kinds != candidate.kinds:
        return False
    calls = zip(reference.calls, candidate.calls, strict=True)
    return all(
        (one.module, one.parent, one.index) == (two.module, two.parent, two.index)
        for one, two in calls
    )
