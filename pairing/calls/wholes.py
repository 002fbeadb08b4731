"""Pair a module with the container of what another author made modules of.

One author keeps a matrix, splines and their scale in one class and multiplies by itself; another
has a Linear and a class for the splines in a container. No module of the one is a layer of the
other, and the weights say of which container all of them are.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.result import PairedBy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from padiff.pairing.result import RecordPair
    from padiff.pairing.view import View

    from .calls import CallPairs

__all__ = ["pair_wholes"]


def pair_wholes(views: tuple[View, View], calls: CallPairs, weights: Iterable[RecordPair]) -> bool:
    """Pair the calls of modules whose weights are all those of a container, and no others.

    Args:
        views: Both sides.
        calls: The pairs so far; further ones are added.
        weights: The pairs of parameters.

    Returns:
        Whether any was added.
    """
    links = [
        (views[0].records[one].module, views[1].records[pair.candidate].module)
        for pair in weights
        for one in pair.reference
        if views[0].records[one].role is Role.WEIGHT
    ]
    found = False
    for is_turned in (False, True):
        view, other = views[::-1] if is_turned else views
        both = [link[::-1] for link in links] if is_turned else links
        for module, container in _wholes(view, other, both):
            for one, two in zip(view.executed[module], other.executed[container], strict=True):
                partners = calls.back if is_turned else calls.ahead
                part = partners.get(one)
                if part is not None and two < part <= other.last[two]:  # with a part of it alone
                    calls.drop(part if is_turned else one)
                ends = (two, one) if is_turned else (one, two)
                found = calls.add(*ends, PairedBy.STRUCTURE) or found
    return found


def _wholes(view: View, other: View, links: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Give the modules that hold what modules in a container hold together."""
    partners: dict[int, set[int]] = defaultdict(set)
    owners: dict[int, set[int]] = defaultdict(set)
    for one, two in links:
        partners[one].add(two)
        owners[two].add(one)
    for module, found in partners.items():
        if len(found) == 1 or any(len(owners[two]) > 1 for two in found):
            continue
        container = _around(other, found)
        if container is None or container in found or _holds_more(other, container, found):
            continue
        if _is_one_job(view, module, other, container):
            yield module, container


def _around(view: View, modules: Iterable[int]) -> int | None:
    """Give the innermost container of modules; None if that is the root."""
    paths = [list(_outward(view, module))[::-1] for module in modules]
    common = [level[0] for level in zip(*paths, strict=False) if len(set(level)) == 1]
    return common[-1] if len(common) > 1 else None


def _outward(view: View, module: int) -> Iterator[int]:
    current: int | None = module
    while current is not None:
        yield current
        current = view.modules[current].parent


def _holds_more(view: View, container: int, modules: set[int]) -> bool:
    """Tell whether anything else in a container has weights."""
    inside = list(view.children[container])
    for module in inside:
        inside += view.children[module]
    return any(view.weights[module] and module not in modules for module in (container, *inside))


def _is_one_job(view: View, module: int, other: View, container: int) -> bool:
    """Tell whether both run as often, and give as much each time."""
    ran = view.executed[module], other.executed[container]
    if not ran[0] or len(ran[0]) != len(ran[1]):
        return False
    ends = [
        [side.main(call, Role.OUTPUT) for call in calls]
        for side, calls in zip((view, other), ran, strict=True)
    ]
    sizes = [[None if one is None else prod(one.shape) for one in side] for side in ends]
    return sizes[0] == sizes[1] and None not in sizes[0]
