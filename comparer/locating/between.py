"""Describe at an origin which calls fed it, and between which calls its own code went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing import kind_of

from .calltree import is_bad
from .dataflow import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.dumpfile import Index, RecordInfo

    from .calltree import CallTree
    from .dataflow import Feed, Flow


def feeders(tree: CallTree, call: int) -> tuple[str, ...]:
    """Describe where each input of a reference call came from, and the candidate's if elsewhere."""
    lines = []
    for place, pair in tree.of_call(call, Role.INPUT):
        if pair.reference is None:
            continue
        known, found = tree.ends(place)
        if known is None:
            continue
        feed = tree.reference_flow.feed(known)
        line = f"input{known.slot} is {describe_feed(tree.reference_flow, feed)}"
        if found is not None:
            other = tree.candidate_flow.feed(found)
            if (other.made in _GLUE) is not (feed.made in _GLUE):
                line += f"; on the candidate {describe_feed(tree.candidate_flow, other)}"
        lines.append(line)
    return tuple(lines)


_GLUE = frozenset({Source.GLUE, Source.MOVED})
CONTAINERS = frozenset({"Sequential", "ModuleList", "LayerList", "ModuleDict", "LayerDict"})
"""Classes whose forward, if any, only calls their children in turn."""


def glue(tree: CallTree, call: int) -> tuple[str, ...]:
    """Describe between which calls the code of an origin, on its own, made what diverged first.

    Nothing where a call made it, as in a leaf: then the call itself is all that can be said.
    """
    place = _first_inside(tree, call)
    if place is None:
        return ()
    known, found = tree.ends(place)
    if known is None or found is None:
        return ()
    known = _outermost(tree.reference_flow, known, call)
    found = _outermost(tree.candidate_flow, found, tree.partner_call.get(call))
    sides = (("reference", tree.reference_flow, known), ("candidate", tree.candidate_flow, found))
    calls = (call, tree.partner_call.get(call))
    feeds = [flow.feed(record) for _, flow, record in sides]
    lines = []
    for position, (name, flow, record) in enumerate(sides):
        mine, other = feeds[position], feeds[1 - position]
        if mine.made in _GLUE and (other.made not in _GLUE or position == 0):
            where = "" if other.made in _GLUE else f"on the {name} "
            lines.append(
                f"{where}{_name(flow, record, calls[position])} is {describe_feed(flow, mine)}"
            )
        elif mine.made not in _GLUE and other.made in _GLUE:
            lines.append(f"on the {name} it is {describe_feed(flow, mine)}, unchanged")
    return tuple(sorted(lines, key=lambda line: line.endswith("unchanged")))


def _name(flow: Flow, record: RecordInfo, call: int | None) -> str:
    """Name a tensor of a call of its side, or of one inside it; of no call, by its whole path."""
    if record.call is None or record.call == call:
        return f"{record.role}{record.slot}"
    if call is None:
        return name_of(flow.index, record)
    around = flow.index.modules[flow.index.calls[call].module]
    return name_of(flow.index, record, inside=around.path)


def is_cut(tree: CallTree, call: int) -> bool:
    """Return whether gradient flow ends in a call on one side, as the flags of its outputs tell."""
    return any(_one_sided(tree, call, Role.OUTPUT))


def cut(tree: CallTree, call: int) -> tuple[str, ...]:
    """Describe on which side gradient flow ends in a call, as the flags of its outputs tell."""
    lines = []
    for output, side in _one_sided(tree, call, Role.OUTPUT):
        lines.append(
            f"no gradient goes through output{output.slot} on the {side}: the flow is cut there "
            "(detach, no_grad, stop_gradient)"
        )
    for child in tree.children.get(call, ()):
        for place, pair in tree.of_call(child, Role.GRAD_OUTPUT):
            sides = {"reference": pair.reference, "candidate": pair.candidate}
            absent = [name for name, end in sides.items() if end is None or end.dtype == "none"]
            known, _ = tree.ends(place)
            if len(absent) == 1 and is_bad(pair) and known is not None:
                name = name_of(tree.reference, known, inside=tree.path(call))
                name = name.replace("grad_", "")
                lines.append(
                    f"no gradient comes back to {name} on the {absent[0]}: the flow is cut behind "
                    "it (detach, no_grad, stop_gradient)"
                )
        lines += _cut_before(tree, call, child)
    return tuple(lines)


def _one_sided(tree: CallTree, call: int, role: Role) -> Iterator[tuple[RecordInfo, str]]:
    """Yield the reference's tensors that want a gradient on one side only, and which lacks it."""
    for place, _ in tree.of_call(call, role):
        known, found = tree.ends(place)
        if known is None or found is None or known.requires_grad is found.requires_grad:
            continue
        yield known, "candidate" if known.requires_grad else "reference"


def _cut_before(tree: CallTree, call: int, child: int) -> list[str]:
    """Describe what a call inside is given without gradient on one side only."""
    lines = []
    for known, side in _one_sided(tree, child, Role.INPUT):
        name = name_of(tree.reference, known, inside=tree.path(call))
        lines.append(
            f"no gradient flows back from {name} on the {side}: the flow is cut before it (detach, "
            "no_grad, stop_gradient)"
        )
    return lines


def other_classes(tree: CallTree, module: int, partner: int) -> tuple[str, ...]:
    """List what directly inside an origin has one name and is another kind of module.

    In one framework, classes of no known kind are told by their names.
    """
    sides = []
    for index, parent in ((tree.reference, module), (tree.candidate, partner)):
        inside = (one for one in index.modules if one.parent == parent)
        sides.append({one.path.rpartition(".")[2]: one for one in inside})
    lines = []
    for name in sorted(sides[0].keys() & sides[1].keys()):
        known, found = sides[0][name], sides[1][name]
        kinds = kind_of(known), kind_of(found)
        is_other = kinds[0] != kinds[1] if None not in kinds else tree.is_one_framework
        if {known.class_name, found.class_name} & CONTAINERS:
            continue  # a list or what is wrapped in one: the same layers elsewhere
        if is_other and known.class_name != found.class_name:
            lines.append(
                f"attribute {name}: a {known.class_name} on the reference, a {found.class_name} on "
                "the candidate"
            )
    return tuple(lines)


def _first_inside(tree: CallTree, call: int) -> int | None:
    """Find the diverged tensor that the code of a call made first: for a call inside, or to return.

    What a call inside only hands on is judged at the calls inside that, and a call whose outputs
    have no counterpart is code like any other.

    Returns:
        The place of its pair; None if the call has no calls inside or a call inside made it.
    """
    if call not in tree.reference_flow.inside:
        return None
    bad = [*_bad_inputs(tree, call), *tree.bad(call, Role.OUTPUT)]
    first = min(bad, key=tree.order, default=None)
    return None if first is None or not is_bad(tree.pairs[first]) else first


def _bad_inputs(tree: CallTree, call: int) -> Iterator[int]:
    """Yield the places of the diverged inputs of what the code of a call calls."""
    inside, waiting = tree.reference_flow.inside, [call]
    while waiting:
        for child in inside.get(waiting.pop(), ()):
            yield from tree.bad(child, Role.INPUT)
            tainted = tree.tainted(child, Role.INPUT)
            if not _is_judged(tree, child):
                waiting.append(child)
            elif tainted:
                given = {value for place in tainted for value in tree.values(place)}
                for deeper in inside.get(child, ()):
                    bad = tree.bad(deeper, Role.INPUT)
                    yield from (one for one in bad if given & set(tree.values(one)))


def _is_judged(tree: CallTree, call: int) -> bool:
    """Return whether any output of a call was compared with that of a partner."""
    pairs = (pair for _, pair in tree.of_call(call, Role.OUTPUT))
    return any(pair.metrics is not None or pair.equal_digest for pair in pairs)


def _outermost(flow: Flow, record: RecordInfo, call: int | None) -> RecordInfo:
    """Follow an input out of the calls that only hand it on.

    Args:
        flow: Of one side.
        record: The input, or another record, which stays what it is.
        call: Whose code is meant: what that was given itself is not followed further.
    """
    while record.role is Role.INPUT and (feed := flow.feed(record)).made is Source.PASSED:
        outer = None if feed.source is None else flow.index.records[feed.source]
        if outer is None or outer.call is None or outer.call == call:
            break
        record = outer
    return record


def describe_feed(flow: Flow, feed: Feed) -> str:
    """Describe where a tensor came from."""
    index = flow.index
    if feed.made is Source.GIVEN:
        return "given from outside"
    source = None if feed.source is None else index.records[feed.source]
    if source is not None and feed.made is not Source.MOVED:
        return name_of(index, source)
    where = _span(index, feed)
    if source is not None:
        return f"{name_of(index, source)} with its elements moved, {where}"
    return f"made {where}"


def _span(index: Index, feed: Feed) -> str:
    """Describe between which calls, and where in the source."""
    module = index.modules[index.calls[feed.around or 0].module]
    code, inside = f"by the code of {module.path or '(root)'} ({module.class_name})", module.path
    after, before = feed.after, feed.before
    if after is None:
        return code if before is None else f"{code} before {called(index, before, inside=inside)}"
    start = f"{code} {'after' if before is None else 'between'} "
    start += called(index, after, inside=inside)
    if before is None:
        return start
    sites = index.calls[after].site, index.calls[before].site
    is_near = sites[0] is not None and sites[1] is not None and sites[0].file == sites[1].file
    return f"{start} and {called(index, before, short=is_near, inside=inside)}"


def called(index: Index, call: int, *, short: bool = False, inside: str = "") -> str:
    """Name a call, with the line that made it.

    Args:
        index: The index of the call.
        call: Its id.
        short: Leave the file out.
        inside: Module path that is known already: ``a.b.c`` inside ``a.b`` is ``.c``.
    """
    info = index.calls[call]
    name = _path(index, info.module, inside)
    name += f"#{info.index}" if info.index else ""
    if info.site is None:
        return name
    return f"{name} (line {info.site.line})" if short else f"{name} ({info.site})"


def name_of(index: Index, record: RecordInfo, *, inside: str = "") -> str:
    """Name a record without step and rank.

    Args:
        index: The index of the record.
        record: The record.
        inside: Module path that is known already; that module's own records are ``own``.
    """
    number = 0 if record.call is None else index.calls[record.call].index
    is_own = bool(inside) and index.modules[record.module].path == inside
    path = "own" if is_own else _path(index, record.module, inside)
    return f"{path}{f'#{number}' if number and not is_own else ''} {record.role}{record.slot}"


def _path(index: Index, module: int, inside: str) -> str:
    """Return a module path, without what is known of it."""
    path = index.modules[module].path
    if inside and path.startswith(f"{inside}."):
        return path.removeprefix(inside)
    return path or "(root)"
