"""Find where two programs part, and prove the cause by a repair."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpFormatError, ProgramError

from .alignment import align
from .arguments import told_by_arguments
from .by_weights import find_alone, find_arguments
from .edits import describe
from .exchanged import Asked, Start
from .parting import find_parting
from .repair import NUMBER, Repair
from .repaired import Repaired
from .reshaped import Reshaping
from .result import EditKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Argument, Leaf, Lowered, Site

    from .alignment import Alignment, Likeness
    from .by_weights import Regiven
    from .exchanged import Made
    from .executed import Runs, Sink
    from .numbering import Numbering
    from .result import Change, Edit, Place
    from .side import Side


_FEW = 3
"""Operators of one side that a cause is told by; what is told by more is looked at again."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Where the functions part, on each side, and the edits that prove why."""

    places: tuple[Place | None, Place | None] = (None, None)
    edits: tuple[Edit, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    """Which of the exchanges each edit stands for."""
    repaired: Repaired | Regiven | None = None
    """The candidate with these exchanges; None without a proof."""


def find_cause(
    sides: tuple[Side, Side],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    numbering: Numbering,
    differing: Sequence[Sink],
    agree: Callable[[Runs, Sink], bool],
    aligned: tuple[Alignment, Likeness] | None = None,
) -> Cause:
    """Find why results differ; as much as can be executed within the limits.

    Args:
        sides: The reference and the candidate.
        given: What their leaves hold.
        numbering: Of their terms.
        differing: The results that differ.
        agree: Whether a result of two executed programs agrees.
        aligned: What ``align`` says of these results; None to ask it.
    """
    wanted = [sink.reference for sink in differing], [sink.candidate for sink in differing]
    cause = Cause()
    try:
        alignment, likeness = aligned or align(sides, given, numbering, differing)
        cause = Cause(find_parting(sides, numbering.both, likeness.partners, wanted))
        asked = Asked(
            sides=sides, given=given, numbering=numbering, alignment=alignment, sinks=differing
        )
        repair, reshaping = Repair(asked, Start(sides[1].lowered)), Reshaping(asked)
        early: list[Repair] = []

        def is_needless() -> bool:
            found = reshaping.find(repair, agree, below=repair.made[0].exchange.size)
            early.extend([found] if found else [])
            return bool(early)

        made = _made(repair, agree, likeness, is_needless)
        if made:
            cause = _told(repair, made, cause)
        if len(cause.edits) == 1 and cause.edits[0].kind is EditKind.ARGUMENT:
            return cause  # no other repair is told in its place
        below = min(repair.size, sum(one.exchange.size for one in made)) if made else None
        reshaped = early[0] if early else reshaping.find(repair, agree, below=below)
        if reshaped is not None:
            smaller = reshaped.in_one(agree)
            # One part that is taken earlier or later is a form, not a fault beside another one.
            is_form = 0 < len(made) < len(smaller) and reshaping.is_moved(reshaped)
            if not (is_form or _is_needless(reshaped, smaller, made)):
                other = _told(reshaped, smaller, cause)
                cause = other if _is_plainer(other, cause) else cause
        cause = _by_arguments(asked, agree, cause)
    except (ProgramError, DumpFormatError):
        pass  # what was found until then stands: that the results differ is known
    return cause


def _made(
    repair: Repair,
    agree: Callable[[Runs, Sink], bool],
    likeness: Likeness,
    is_needless: Callable[[], bool],
) -> list[Made]:
    """Return the exchanges of a repair; none where it does not do, or cannot be executed."""
    try:
        if not repair.run(agree, likeness, is_needless):
            return []
        repair.reduce(agree)
        return repair.in_one(agree)
    except ProgramError:
        return []


def _by_arguments(asked: Asked, agree: Callable[[Runs, Sink], bool], cause: Cause) -> Cause:
    """Return a cause with arguments alone, if these do what is told as slices of operators."""
    if cause.edits and all(edit.kind is EditKind.ARGUMENT for edit in cause.edits):
        return cause
    given = find_alone(asked, cause.edits, agree) if len(cause.edits) > 1 else None
    given = given or find_arguments(asked, agree)
    if given is None:
        return cause
    groups = tuple((place,) for place in range(len(given.made)))
    return replace(cause, edits=given.edits, groups=groups, repaired=given)


def _is_needless(reshaped: Repair, smaller: Sequence[Made], made: Sequence[Made]) -> bool:
    """Return whether a value of another shape is put in beside exchanges that do alone."""
    alone = {one.exchange.reference for one in made}
    return bool(alone) and alone <= {
        one.exchange.reference for one in smaller[len(reshaped.start.made) :]
    }


def _told(repair: Repair, made: Sequence[Made], cause: Cause) -> Cause:
    """Return a cause with the exchanges of a repair as edits."""
    sides, numbering = repair.sides, repair.numbering
    repaired = Repaired(sides, repair.given, numbering, repair.start, made, repair.sinks)
    described = _described(sides, numbering, [*_as_if_read(repair, made)])
    wide = [at for at, one in enumerate(described) if max(map(len, one.operators)) > _FEW]
    if wide and len(made) > 1:
        seen = repair.looked_at(made, wide)
        described = _described(sides, numbering, [*_as_if_read(repair, seen)])
    told = told_by_arguments(repair.asked, repaired, described)
    count = partial(_count, made, sides, told)
    merged = [(replace(one, times=count(one, group)), group) for one, group in _merged(told)]
    edits = _crossed(merged, made, numbering.reference)
    return replace(
        cause,
        edits=tuple(edit for edit, _ in edits),
        groups=tuple(group for _, group in edits),
        repaired=repaired,
    )


def _crossed(
    edits: Sequence[tuple[Edit, tuple[int, ...]]], made: Sequence[Made], known: Sequence[int]
) -> list[tuple[Edit, tuple[int, ...]]]:
    """Join two edits of one line of which each puts in what the other one takes away."""
    found: list[tuple[Edit, tuple[int, ...]]] = []
    places: dict[object, int] = {}
    for one, group in edits:
        exchange, numbers = made[group[0]].exchange, made[group[0]].numbers
        ends = known[exchange.reference], numbers[exchange.candidate]
        line = one.candidate and _line_of(one.candidate)
        is_operand = one.kind is EditKind.OPERAND and len(one.changes) == 1 and line
        before = places.get((line, len(group), ends[::-1])) if is_operand else None
        if before is None:
            places.update({(line, len(group), ends): len(found)} if is_operand else {})
            found.append((one, group))
        else:
            first, others = found[before]
            found[before] = replace(first, kind=EditKind.EXCHANGED), (*others, *group)
    return found


def _described(sides: tuple[Side, Side], numbering: Numbering, made: Sequence[Made]) -> list[Edit]:
    """Return an edit for each exchange; of the same again, it is the same edit."""
    found: dict[tuple[int, int], Edit] = {}
    edits: list[Edit] = []
    for one in made:
        ends = numbering.reference[one.exchange.reference], one.numbers[one.exchange.candidate]
        if ends not in found:
            found[ends] = own = describe(sides, numbering, one)
            before = edits[-1] if one.exchange.is_again and edits else own
            if () in (own.changes, before.changes) or own.changes == before.changes:
                found[ends] = before
        edits.append(found[ends])
    return edits


def _as_if_read(repair: Repair, made: Sequence[Made]) -> Iterator[Made]:
    """Yield exchanges as if each read what those of its lines before put in a value's place.

    Where each layer adds with the wrong sign, what the last one adds to is wrong already: that is
    told of the one before. What the candidate has, too, is another operand and not what it lacks.
    """
    right: dict[object, dict[int, int]] = defaultdict(dict)
    count = len(made[0].numbers) if made else 0
    for one in made:
        own, numbers, line = one.exchange, [*one.numbers], repair.line_of(one)
        known = set(numbers[:count])  # what stands behind was put there
        for term, number in right[line].items():
            if term != own.candidate and number not in known:
                numbers[term] = number
        yield replace(one, numbers=numbers)
        if line is not None:
            right[line][own.candidate] = repair.numbering.reference[own.reference]


def _count(
    made: Sequence[Made],
    sides: tuple[Side, Side],
    told: Sequence[tuple[Edit, tuple[int, ...]]],
    edit: Edit,
    group: Sequence[int],
) -> int:
    """Count the operators that an edit changes, whatever they are made of.

    Several exchanges may be of one operator, which is told of each; what is told of several
    together is of as many as it says.

    Args:
        made: All exchanges.
        sides: The reference and the candidate.
        told: What is told of them, before what is the same was joined.
        edit: What was joined.
        group: The exchanges that it is told of.
    """
    known, found = set[object](), set[object]()
    for one, those in told:
        if {*those} <= {*group}:
            exchange, lowered = made[those[0]].exchange, made[those[0]].lowered
            if len(those) > 1:
                found.update((those, place) for place in range(one.times))
                continue
            known |= _maker_of(sides[0].lowered, exchange.reference)
            readers = {lowered.nodes[place].operator for place, _ in exchange.readers}
            found |= _maker_of(lowered, exchange.candidate) or readers
    return max(len(found), len(known) if edit.kind is EditKind.MISSING else 0, 1)


def _maker_of(lowered: Lowered, term: int) -> set[int]:
    """Return the operator that makes a term; none makes a leaf or a number."""
    place = lowered.producers.get(term)
    node = None if place is None else lowered.nodes[place]
    return set() if node is None or node.primitive == NUMBER else {node.operator}


def _is_plainer(other: Cause, cause: Cause) -> bool:
    """Return whether edits of a smaller repair tell more than others: not if those name arguments.

    A slice that one argument makes right is larger than its parts, which are several edits.
    """
    is_plain = all(edit.kind is EditKind.ARGUMENT for edit in cause.edits)
    return not (cause.edits and is_plain and len(cause.edits) <= len(other.edits))


def _merged(
    edits: Iterable[tuple[Edit, tuple[int, ...]]],
) -> list[tuple[Edit, tuple[int, ...]]]:
    """Join edits that change the same in several places; the first place stands for all.

    Those of operators are of one module, or of one line, which several modules run.
    """
    found: list[tuple[Edit, tuple[int, ...]]] = []
    places_of: dict[object, int] = {}
    for one, places in edits:
        keys = [(one.kind, form) for form in _forms_of(one)]
        known = next((places_of[key] for key in keys if key in places_of), len(found))
        if known < len(found):
            before, group = found[known]
            found[known] = replace(before, times=before.times + one.times), (*group, *places)
        else:
            found.append((one, places))
        places_of.update(dict.fromkeys(keys, known))
    return found


def _forms_of(edit: Edit) -> list[str]:
    """Return what an edit changes, with the modules of its operators, and with their lines."""
    ends = zip((edit.reference, edit.candidate), edit.operators, strict=True)
    meant = [place for place, own in ends if own or not any(edit.operators)]
    lines = [place and _line_of(place) for place in meant]
    plain = [[replace(one, module="") for one in those] for those in edit.operators]
    forms = [repr((edit.changes, edit.operators))]
    if all(lines) and (any(edit.operators) or edit.changes):
        names = [place and place.operator for place in meant]
        changes = [
            (one.name, _inside(one.known, edit.reference), _inside(one.found, edit.candidate))
            for one in edit.changes
        ]
        forms.append(repr((changes, plain, lines, names)))
    if all(lines) and edit.changes and all(map(_order_of, edit.changes)):
        orders = [(one.name, _order_of(one)) for one in edit.changes]
        forms.append(repr((orders, plain, lines)))
    return forms


def _inside(argument: Argument, place: Place | None) -> Argument:
    """Return what an operator reads by names that are those of any module of its kind."""
    if isinstance(argument, tuple):
        return tuple(_inside(one, place) for one in argument)
    if place is None or not place.module or not isinstance(argument, str):
        return argument
    return re.sub(rf"(?<![\w.]){re.escape(place.module)}(?![\w])", "", argument)


def _line_of(place: Place) -> tuple[Site, str] | None:
    """Return the line of a place, with the name of the module where that is none of its own code.

    A line of a norm is that of all norms; one that calls two layers is of the one and the other.
    """
    if place.site is None:
        return None
    function = place.site.function
    is_own = "." not in function or function.startswith(f"{place.class_name}.")
    return place.site, "" if is_own else place.module.rpartition(".")[2]


def _order_of(change: Change) -> list[int]:
    """Return in which order the candidate has the parts of the reference; none if it has others.

    Sizes in another order are one mistake, whatever they are.
    """
    known, found = change.known, change.found
    if not (isinstance(known, tuple) and isinstance(found, tuple)):
        return []
    is_order = Counter(map(repr, known)) == Counter(map(repr, found))
    return [known.index(one) for one in found] if is_order else []


def merged(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Join edits that change the same in several places; the first place stands for all."""
    return tuple(edit for edit, _ in _merged((edit, ()) for edit in edits))
