"""Modules whose inside one side shows and the other hides, or has in a container.

Some calls make the weight of a layer. A convolution under ``weight_norm`` is one call in Paddle; in
torch its weight is made by modules of its own, which run inside it and hold what it is made of.

One author keeps a matrix, splines and their scale in one class and multiplies by itself; another
has a Linear and a class for the splines in a container. No module of the one is a layer of the
other, and the weights say of which container all of them are.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, RecordInfo, Role, is_floating
from padiff.pairing.kinds import kind_of
from padiff.pairing.result import PairedBy, SideName

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from padiff.dumpfile import Index
    from padiff.pairing.result import RecordPair
    from padiff.pairing.view import View

    from .calls import CallPairs

_WEIGHT, _FORWARD = Role.WEIGHT, Phase.FORWARD
"""Looking up a member of an enumeration takes ten times as long as a name."""
_MATRIX, _STACK = 2, 3
"""Axes of the weight of one layer, and of many layers of a kind stacked in one parameter."""

OPAQUE = frozenset(
    {
        "attention",
        "lstm",
        "gru",
        "rnn",
        "cell_runner",
        "cell_runner2",
        "fused_attention",
        "fused_feedforward",
        "fused_transformer",
    }
)
"""Kinds that one framework runs as one kernel and another through child modules.

torch's attention never calls ``out_proj`` as a module, Paddle's calls all four projections; the
cells of Paddle's RNN layers run only with a projection, torch's layers have none.
"""


def opaque_of(reference: View, candidate: View) -> frozenset[str]:
    """Return the kinds that both sides run, and which may thus be paired without looking inside."""
    ran = [
        {view.kinds[module] for module, calls in enumerate(view.executed) if calls}
        for view in (reference, candidate)
    ]
    return frozenset(kind for kind in OPAQUE if kind in ran[0] and kind in ran[1])


def hidden_reason(view: View, call: int, partners: Mapping[int, int], other: View) -> str | None:
    """Explain why a call may be one-sided: the other side hides what is inside its module.

    Returns:
        None if nothing explains it.
    """
    for outer in view.ancestors(call):
        if outer in partners:
            kind = view.kind(outer)
            partner = partners[outer]
            if kind in OPAQUE and other.kind(partner) == kind:
                return f"{other.path(partner) or '(root)'!r} computes this without calling a module"
            return None
    return None


def hidden_by_weights(
    view: View, other: View, partners: Container[int], weights: Iterable[RecordPair]
) -> dict[int, str]:
    """Find the calls whose weights the other side uses without calling a module for each.

    Three projections against one packed attention, a list of experts against one stacked parameter,
    a Linear against a parameter that a container multiplies by itself. With them goes what runs
    between them, in a container that holds nothing else, or whose partner calls none of them.

    Returns:
        Why the other side does not make the call, by call.
    """
    if all(call.id in partners for call in view.calls):
        return {}
    reasons = _silent(view, other, weights)
    hidden: dict[int, str] = {}
    open_ = [not ran or not any(call in partners for call in ran) for ran in view.executed]
    whole: list[str | None] = [None] * len(view.modules)
    owns = [bool(view.weights[module.id]) for module in view.modules]
    for module in reversed(view.modules):
        own = reasons.get(module.id) if view.weights[module.id] else ""
        inside = [whole[child] for child in view.children[module.id] if owns[child]]
        owns[module.id] = owns[module.id] or bool(inside)
        known = [*inside, own] if own != "" else inside
        if owns[module.id] and all(known) and open_[module.id] and module.parent is not None:
            whole[module.id] = known[0]
        elif inside and all(inside) and not open_[module.id]:
            for child in view.children[module.id]:
                if open_[child] and not owns[child]:
                    whole[child] = inside[0]
    for call in view.calls:
        reason = whole[call.module] or (None if call.parent is None else hidden.get(call.parent))
        if reason is not None:
            hidden[call.id] = reason
    return hidden


def _silent(view: View, other: View, weights: Iterable[RecordPair]) -> dict[int, str]:
    """Return for each module why the other side calls none for it, where all its weights say so."""
    found: dict[int, str] = {}
    called: set[int] = set()
    inside = _inside_opaque(view), _inside_opaque(other)
    is_turned = view.name is SideName.CANDIDATE
    for pair in weights:
        mine, theirs = pair.reference, (pair.candidate,)
        if is_turned:
            mine, theirs = theirs, mine
        first = view.records[mine[0]]
        if first.role is not _WEIGHT or first.phase is not _FORWARD:
            continue
        second = other.records[theirs[0]]
        is_packed = inside[0][first.module] and not inside[1][second.module]
        reason = _reason(view, first, other, second, is_packed=is_packed)
        modules = [view.records[record].module for record in mine]
        if reason is None:
            called.update(modules)
        else:
            found.update(dict.fromkeys(modules, reason))
    return {module: reason for module, reason in found.items() if module not in called}


def _reason(
    view: View, mine: RecordInfo, other: View, theirs: RecordInfo, *, is_packed: bool
) -> str | None:
    """Explain why one weight's module is not called on the other side; None if it may be."""
    there = "reference" if view.name is SideName.CANDIDATE else "candidate"
    host = theirs.module
    path = other.modules[host].path or "(root)"
    if _is_stack_of(theirs.shape, mine.shape):
        return f"the {there} keeps all of these in {path!r} and calls no module for each"
    is_called = bool(other.executed[host]) and not other.children[host]
    if _is_stack_of(mine.shape, theirs.shape) or (is_packed and is_called):
        return f"the {there} calls {path!r} and others, one after another"
    if other.executed[host] and not (other.children[host] or other.kinds[host] in OPAQUE):
        return None
    path = other.modules[_running(other, host)].path or "(root)"
    return f"{path!r} computes this without calling a module"


def _inside_opaque(view: View) -> list[bool]:
    """Mark the modules that are opaque or are inside one that is."""
    found: list[bool] = []
    for module in view.modules:
        is_inside = module.parent is not None and found[module.parent]
        found.append(is_inside or view.kinds[module.id] in OPAQUE)
    return found


def stack_notes(reference: View, candidate: View, weights: Iterable[RecordPair]) -> Iterator[str]:
    """Report for each stacked parameter's module which ones do its work on the other side."""
    parts: dict[tuple[SideName, str], dict[int, str]] = {}
    for pair in weights:
        theirs = candidate.records[pair.candidate]
        if theirs.role is not _WEIGHT or theirs.phase is not _FORWARD:
            continue
        for mine in (reference.records[one] for one in pair.reference):
            if _STACK not in (len(mine.shape), len(theirs.shape)):
                continue
            ends = ((reference, mine), (candidate, theirs))
            for (view, whole), (other, part) in (ends, ends[::-1]):
                if _is_stack_of(whole.shape, part.shape):
                    key = view.name, view.modules[whole.module].path
                    parts.setdefault(key, {})[part.module] = other.modules[part.module].path
    for (side, path), modules in parts.items():
        first, *rest = modules.values()
        yield (
            f"{path!r} of the {side} does at once what {first!r} and {len(rest)} more modules do "
            "on the other side: compared by weights, their gradients, and what is around"
        )


def _is_stack_of(stack: tuple[int, ...], layer: tuple[int, ...]) -> bool:
    return len(stack) == _STACK and len(layer) == _MATRIX and prod(stack) > prod(layer)


def _running(view: View, module: int) -> int:
    """Return the nearest module around that ran, or is the root."""
    while not view.executed[module]:
        parent = view.modules[module].parent
        if parent is None:
            break
        module = parent
    return module


_MAKER = "parametrizations"
Calls = frozenset[int]


def weight_makers(indices: tuple[Index, Index]) -> tuple[Calls, Calls]:
    """Return the calls of each side that make weights, where the other has none of the kind."""
    makers = [
        {module.id for module in index.modules if kind_of(module) == _MAKER} for index in indices
    ]
    if all(makers) or not any(makers):
        return frozenset(), frozenset()
    first, second = (_inside(index, own) for index, own in zip(indices, makers, strict=True))
    return first, second


def _inside(index: Index, makers: set[int]) -> Calls:
    found: set[int] = set()
    for call in index.calls:
        if call.module in makers or call.parent in found:
            found.add(call.id)
    return frozenset(found)


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
    """Yield the modules that hold what modules in a container hold together."""
    partners: dict[int, set[int]] = defaultdict(set)
    owners: dict[int, set[int]] = defaultdict(set)
    for one, two in links:
        partners[one].add(two)
        owners[two].add(one)
    for module, found in partners.items():
        if any(len(owners[two]) > 1 for two in found):
            continue
        container = _around(other, found)
        if len(found) == 1 and container is not None and _take_others(view, module, other, *found):
            container = _around(other, (other.modules[container].parent or 0,))
        if container is None or container in found or _holds_more(other, container, found):
            continue
        if _is_one_job(view, module, other, container):
            yield module, container


def _around(view: View, modules: Iterable[int]) -> int | None:
    """Return the innermost container of modules; None if that is the root."""
    paths = [list(_outward(view, module))[::-1] for module in modules]
    common = [level[0] for level in zip(*paths, strict=False) if len(set(level)) == 1]
    return common[-1] if len(common) > 1 else None


def _outward(view: View, module: int) -> Iterator[int]:
    current: int | None = module
    while current is not None:
        yield current
        current = view.modules[current].parent


def _holds_more(view: View, container: int, modules: set[int]) -> bool:
    """Return whether anything else in a container has weights."""
    inside = list(view.children[container])
    for module in inside:
        inside += view.children[module]
    return any(view.weights[module] and module not in modules for module in (container, *inside))


def _take_others(view: View, module: int, other: View, partner: int) -> bool:
    """Return whether one of two modules takes places and the other numbers."""
    taken = [
        is_floating(side.values[one.value].dtype)
        for side, of in ((view, module), (other, partner))
        for call in side.executed[of][:1]
        if (one := side.main(call, Role.INPUT)) is not None and one.value is not None
    ]
    return len(set(taken)) > 1


def _is_one_job(view: View, module: int, other: View, container: int) -> bool:
    """Return whether both run as often, and give as much each time."""
    ran = view.executed[module], other.executed[container]
    if not ran[0] or len(ran[0]) != len(ran[1]):
        return False
    ends = [
        [side.main(call, Role.OUTPUT) for call in calls]
        for side, calls in zip((view, other), ran, strict=True)
    ]
    sizes = [[None if one is None else prod(one.shape) for one in side] for side in ends]
    return sizes[0] == sizes[1] and None not in sizes[0]
