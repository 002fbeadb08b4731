"""Describe what an exchange changes: an argument, constant or operand, an operator more or less."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.program import LAYOUT

from .ends import End
from .exchanges import differing_operands
from .parting import place_of
from .pool import plain_word
from .result import Change, Edit, EditKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.program import Argument, Node, Operator

    from .exchanged import Made
    from .numbering import Numbering
    from .side import Side

_AXES = frozenset({"dim", "axis"})


def describe(sides: tuple[Side, Side], numbering: Numbering, made: Made) -> Edit:
    """Return what an exchange changes, and where."""
    common = set(made.numbers) & set(numbering.reference)
    exchange = made.exchange
    readers = [
        [side_nodes[place].operator for place in places]
        for side_nodes, places in (
            (sides[0].lowered.nodes, [two for _, two in exchange.readers if two is not None]),
            (made.lowered.nodes, [one for one, _ in exchange.readers]),
        )
    ]
    known, found = (
        End(side, lowered, term, numbers, {t for t, n in enumerate(numbers) if n in common}, those)
        for side, lowered, term, numbers, those in (
            (sides[0], sides[0].lowered, exchange.reference, numbering.reference, readers[0]),
            (sides[1], made.lowered, exchange.candidate, made.numbers, readers[1]),
        )
    )
    edit = _argument(known, found) or _other_operand(known, found) or _other_taken(known, found)
    if edit is None:
        known, found = _up_to_inputs(known, found), _up_to_inputs(found, known)
        edit = _of_operators(known, found, _kind(known, found))
    places = (
        place if place is None or place.slice else replace(place, slice=end.slice)
        for place, end in ((edit.reference, known), (edit.candidate, found))
    )
    return replace(edit, reference=next(places), candidate=next(places))


def _up_to_inputs(end: End, other: End) -> End:
    """Return an end with what makes it of the other's inputs, if both programs make it somewhere.

    A cosine in the place of a sine is the cosine that the other program has, too.
    """
    if end.own or _kind(end, other) is not EditKind.OTHER:
        return end
    inputs = {other.numbers[term] for term in other.inputs}
    common = {term for term, number in enumerate(end.numbers) if number in inputs}
    wide = replace(end, common=common)
    return wide if wide.own and common.issuperset(wide.inputs) else end


def _of_operators(known: End, found: End, kind: EditKind) -> Edit:
    """Return an edit of operators that one side alone has, or of what they read."""
    others = _other_operands(known, found) if kind is EditKind.OTHER else None
    others = others or _of_part(known, found, kind) or _of_steps(known, found, kind)
    names, terms = (known.name, found.name), (known.term, found.term)
    change = _read_instead(known, found, terms, names) if kind is EditKind.OPERAND else None
    if kind is EditKind.OTHER and not (known.own and found.own):
        change = Change("", *(None if end.own else _maker(end) for end in (known, found)))
    is_order = sorted(_forms(known)) == sorted(_forms(found))
    is_part = known.number is found.number is None and (
        kind in {EditKind.MISSING, EditKind.EXTRA} or is_order
    )
    return others or Edit(
        kind=kind,
        reference=known.place,
        candidate=found.place,
        changes=() if change is None else (change,),
        operators=(
            (known.used_in_part(found), found.used_in_part(known))
            if is_part
            else (known.used, found.used)
        ),
    )


def _of_steps(known: End, found: End, kind: EditKind) -> Edit | None:
    """Return an edit without the steps that both sides end with; None where there are none."""
    inputs = [
        {end.numbers[term] for term in end.inputs if end.number_of(term) is None}
        for end in (known, found)
    ]
    if kind is not EditKind.OTHER or inputs[0] != inputs[1] or not (known.own and found.own):
        return None
    ones, others = [*known.own], [*found.own]
    stripped = others[-1]
    while ones and others and _are_one_step((known, found), ones[-1], others[-1]):
        stripped = others.pop()
        ones.pop()
    if len(ones) == len(known.own) or not (ones or others):
        return None
    kinds = {(True, False): EditKind.MISSING, (False, True): EditKind.EXTRA}
    last = others[-1] if others else stripped
    return Edit(
        kind=kinds.get((bool(ones), bool(others)), EditKind.OTHER),
        reference=place_of(known.side, ones[-1].id, len(ones)) if ones else known.place,
        candidate=place_of(found.side, last.id, len(others)),
        operators=(known.used_of(ones), found.used_of(others)),
    )


def _are_one_step(ends: tuple[End, End], one: Operator, two: Operator) -> bool:
    """Return whether two operators do the same, and take the same but for one value."""
    used = [end.used_of([operator])[0] for end, operator in zip(ends, (one, two), strict=True)]
    taken = [
        [*end.numbers_of(operator).values()] for end, operator in zip(ends, (one, two), strict=True)
    ]
    is_same = plain_word(one.name) == plain_word(two.name)
    is_same = is_same and used[0].arguments == used[1].arguments
    return (
        is_same
        and len(taken[0]) == len(taken[1])
        and sum(mine != other for mine, other in zip(*taken, strict=True)) == 1
    )


def _maker(end: End) -> str:
    """Return the operator that made what one side reads, where the other one has operators."""
    return end.name.partition(" of ")[0]


def _of_part(known: End, found: End, kind: EditKind) -> Edit | None:
    """Return that one operator stands for another one that does what it does, and more.

    A sum in the place of a mean lacks the division alone, a sigmoid in that of a SiLU a product.
    """
    if kind is EditKind.MISSING and (part := found.part_of(known)) is not None:
        operators = known.own[0], part
    elif kind is EditKind.EXTRA and (part := known.part_of(found)) is not None:
        operators = part, found.own[0]
    else:
        return None
    if operators[0].name.rpartition(".")[2] == operators[1].name.rpartition(".")[2]:
        return None  # of two frameworks
    ends = tuple(zip((known, found), operators, strict=True))
    places = [replace(place_of(end.side, one.id, 1), slice=(one.id,)) for end, one in ends]
    used = tuple(end.used_of([one]) for end, one in ends)
    return Edit(
        kind=EditKind.OTHER,
        reference=places[0],
        candidate=places[1],
        operators=(used[0], used[1]),
    )


def _argument(known: End, found: End) -> Edit | None:
    """Return an edit of arguments or of a number, if that is what differs."""
    if max(len(known.own), len(found.own)) > 1:
        return _attribute(known, found)
    meant = _meant(known, found), _meant(found, known)
    pairs = [(one, two) for one in meant[0] for two in meant[1] if one.name == two.name]
    for one, two in pairs:
        changes = _which_differ(_differences(known, found, one, two), known, found)
        if changes:
            return _edit(EditKind.ARGUMENT, changes, known, found, (one, two))
    is_used = known.around and found.around
    if is_used and known.number is not None and found.number is not None:
        numbers = known.number, found.number
        names = [
            name
            for end, number in ((found, numbers[1]), (known, numbers[0]))
            for operator in end.around
            for name, value in end.arguments(operator).items()
            if _is_equal(value, number) or _is_rounded(value, number)
        ]
        kind = EditKind.ARGUMENT if names else EditKind.CONSTANT
        changes = (Change(names[0] if names else "", *numbers),)
        return _edit(kind, changes, known, found, (known.around[0], found.around[0]))
    return _attribute(known, found)


def _meant(end: End, other: End) -> list[Operator]:
    """Return the operators of one side of which an argument may be another one.

    What reads a term on is not meant where the other side alone has operators, unless one of those
    reads on, too.
    """
    is_alone = bool(other.own) and not end.own and end.number is other.number is None
    if not is_alone or {one.id for one in other.own} & set(other.readers):
        return end.around
    return [one for one in end.around if one.id not in end.readers]


def _attribute(known: End, found: End) -> Edit | None:
    """Return an edit of an argument, if all is the same but for one attribute of one primitive.

    One framework adds a bias in the convolution, another one in an operator of its own. Of several
    primitives, or a part of two operators, the attribute has to be an argument by name: others are
    of no use to the reader.
    """
    forms = [[node for node in end.nodes if node.primitive not in LAYOUT] for end in (known, found)]
    names = [[node.primitive for node in nodes] for nodes in forms]
    reads = [sorted(end.numbers[term] for term in end.inputs) for end in (known, found)]
    if names[0] != names[1] or (len(names[0]) > 1 and reads[0] != reads[1]):
        return None
    changed = [
        (one, two, changes)
        for one, two in zip(*forms, strict=True)
        if (changes := _of_axes(_changes(dict(one.attributes), dict(two.attributes))))
    ]
    if len(changed) != 1:
        return None
    one, two, changes = changed[0]
    ends = known.side.program.operators[one.operator], found.side.program.operators[two.operator]
    arguments = known.arguments(ends[0]).keys() | found.arguments(ends[1]).keys()
    is_one = plain_word(ends[0].name) == plain_word(ends[1].name) or _are_whole(known, found, ends)
    is_one = is_one and len(names[0]) == 1
    if not is_one and not arguments.issuperset(change.name for change in changes):
        return None
    return _edit(EditKind.ARGUMENT, changes, known, found, ends)


def _are_whole(known: End, found: End, operators: tuple[Operator, Operator]) -> bool:
    """Return whether operators are one primitive each, whatever these lay out."""
    return all(
        sum(
            node.operator == one.id and node.primitive not in LAYOUT for node in end.lowered.nodes
        ) == 1
        for end, one in zip((known, found), operators, strict=True)
    )  # fmt: skip


def _of_axes(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return the changes without those of numbers that only stand for another count of axes.

    A number stands for as many as there are. Where nothing else differs, all stay.
    """
    kept = [one for one in changes if not _is_same_for_all(one.known, one.found)]
    return tuple(kept) or changes


def _is_same_for_all(one: Argument, two: Argument) -> bool:
    """Return whether arguments say one and the same of all axes, of another count of them."""
    counts = [len(each) if isinstance(each, tuple) else None for each in (one, two)]
    parts = [part for each in (one, two) for part in (each if isinstance(each, tuple) else (each,))]
    return counts[0] != counts[1] and len({repr(part) for part in parts}) == 1


def _other_operand(known: End, found: End) -> Edit | None:
    """Return that an operator reads another value, if it is exchanged for itself.

    What a rule does with an operand, as transposing a weight, is no operator of its own.
    """
    if not {one.id for one in found.own} <= set(found.readers):
        return None
    if not {one.id for one in known.own} <= set(known.readers):
        return None
    for one in (known.side.program.operators[id_] for id_ in known.readers):
        for two in (found.side.program.operators[id_] for id_ in found.readers):
            values = known.numbers_of(one), found.numbers_of(two)
            if one.name != two.name or values[0].keys() != values[1].keys():
                continue
            names = [name for name in values[0] if values[0][name] != values[1][name]]
            if len(names) == 1:
                ids = known.values_of(one)[names[0]], found.values_of(two)[names[0]]
                terms = known.lowered.computed(ids[0]), found.lowered.computed(ids[1])
                ends = known.name_of(ids[0]), found.name_of(ids[1])
                change = _read_instead(known, found, terms, ends)
                return _edit(EditKind.OPERAND, (change,), known, found, (one, two))
    return None


def _other_taken(known: End, found: End) -> Edit | None:
    """Return that the operator which makes the term reads another value, if both have one of them.

    Of ``q + u`` and ``q + v`` a candidate that adds ``v`` twice has both sums of one kind.
    """
    if len(known.own) + len(found.own) != 1:
        return None
    ends, terms = (known, found), _without_layouts(known, found, (known.term, found.term))
    places = [end.lowered.producers.get(term, -1) for end, term in zip(ends, terms, strict=True)]
    if min(places) < 0:
        return None
    one, two = (end.lowered.nodes[place] for end, place in zip(ends, places, strict=True))
    pairs = _differing_operands(known, found, one, two)
    if len(pairs) != 1:
        return None
    makers = [end.lowered.producers.get(term) for end, term in zip(ends, pairs[0], strict=True)]
    inside = zip(ends, (one, two), makers, strict=True)
    if any(
        maker is not None and end.lowered.nodes[maker].operator == node.operator
        for end, node, maker in inside
    ):
        return None
    names = known.named(pairs[0][0]), found.named(pairs[0][1])
    operators = (
        known.side.program.operators[one.operator],
        found.side.program.operators[two.operator],
    )
    change = _read_instead(known, found, pairs[0], names)
    return _edit(EditKind.OPERAND, (change,), known, found, operators)


def _differing_operands(known: End, found: End, one: Node, two: Node) -> list[tuple[int, int]]:
    """Return the operands in which two primitives differ; none where they are two."""
    forms = [(node.primitive, node.attributes, len(node.operands)) for node in (one, two)]
    if forms[0] != forms[1]:
        return []
    return differing_operands(
        one, two, lambda known_term, term: known.numbers[known_term] == found.numbers[term]
    )


def _other_operands(known: End, found: End) -> Edit | None:
    """Return that an operator reads other values, more or fewer, if all else is the same."""
    if len(known.own) != 1 or known.used != found.used:
        return None
    one, two = known.own[0], found.own[0]
    laid = _laid_otherwise(known, found, one, two)
    if laid is not None:
        return laid
    ends = (tuple(map(end.name_of, own.taken)) for end, own in ((known, one), (found, two)))
    return _edit(EditKind.OPERAND, (Change("", *ends),), known, found, (one, two))


def _laid_otherwise(known: End, found: End, one: Operator, two: Operator) -> Edit | None:
    """Return that what an operator reads is laid out with another argument, if that is all."""
    values = known.values_of(one), found.values_of(two)
    if values[0].keys() != values[1].keys():
        return None
    pairs = [(values[0][name], values[1][name]) for name in values[0]]
    lies = [
        (known.numbers[known.lowered.terms[a]], found.numbers[found.lowered.terms[b]])
        for a, b in pairs
    ]
    other = [pair for pair, numbers in zip(pairs, lies, strict=True) if numbers[0] != numbers[1]]
    if len(other) != 1:
        return None
    ids = other[0]
    makers = [
        end.side.program.values[id_].producer for end, id_ in zip((known, found), ids, strict=True)
    ]
    if None in makers:
        return None
    operators = (
        known.side.program.operators[makers[0]],  # type: ignore[index]
        found.side.program.operators[makers[1]],  # type: ignore[index]
    )
    if operators[0].name != operators[1].name:
        return None
    changes = _differences(known, found, *operators)
    return _edit(EditKind.ARGUMENT, changes, known, found, operators) if changes else None


def _read_instead(known: End, found: End, terms: tuple[int, int], names: tuple[str, str]) -> Change:
    """Return what is read and what should be, by names that tell them apart.

    Where both were only laid out otherwise, in the same way, what they were made of is meant.
    """
    one, two = _without_layouts(known, found, terms)
    if (one, two) != terms:
        names = known.named(one), found.named(two)
    if names[0] == names[1]:  # one place of a module's outputs holds what belongs elsewhere
        other = known.part(found.numbers[two])
        names = (names[0], other) if other else (known.origin(one), found.origin(two))
    made = known.made_of(one), found.made_of(two)
    origins = known.origin(one), found.origin(two)
    is_form = names == origins and known.form_of(one) == found.form_of(two)
    is_alike = names[0] == names[1] or is_form
    return Change("", *(made if is_alike and made[0] != made[1] else names))


def _without_layouts(known: End, found: End, terms: tuple[int, int]) -> tuple[int, int]:
    """Return what two terms were made of by laying both out in the same way."""
    one, two = terms
    while (ahead := known.laid_out(one)) and (behind := found.laid_out(two)):
        if ahead[0] != behind[0]:
            break
        one, two = ahead[1], behind[1]
    return one, two


def _edit(
    kind: EditKind,
    changes: tuple[Change, ...],
    known: End,
    found: End,
    operators: tuple[Operator, Operator],
) -> Edit:
    return Edit(
        kind=kind,
        reference=place_of(known.side, operators[0].id, 1),
        candidate=place_of(found.side, operators[1].id, 1),
        changes=changes,
    )


def _differences(known: End, found: End, one: Operator, two: Operator) -> tuple[Change, ...]:
    """Return the arguments in which two operators of one name differ.

    There are none where the operators read different values, or a value where the other side has
    a number: then another expression is meant.
    """
    if known.side.file.framework != found.side.file.framework:
        return ()
    values = known.numbers_of(one), found.numbers_of(two)
    both = values[0].keys() & values[1].keys()
    if any(values[0][name] != values[1][name] for name in both):
        return ()
    changes = [
        each
        for each in _changes(known.arguments(one), found.arguments(two))
        if each.name not in both and not _is_same_axis(each, known, one)
    ]
    is_other = any(
        each.name in values[0].keys() | values[1].keys() and None not in (each.known, each.found)
        for each in changes
    )
    return () if is_other else _of_axes(tuple(changes))


def _is_same_axis(change: Change, end: End, operator: Operator) -> bool:
    """Return whether an axis is counted from the other end."""
    axes = change.known, change.found
    count = max((len(end.side.program.values[id_].shape) for id_ in operator.taken), default=0)
    is_axis = change.name in _AXES and all(type(axis) is int for axis in axes)
    return is_axis and count > 0 and (axes[0] - axes[1]) % count == 0  # type: ignore[operator]


def _which_differ(changes: tuple[Change, ...], known: End, found: End) -> tuple[Change, ...]:
    """Return the changes that are of the number that differs; all of them where none is.

    A momentum that no operator of a model in eval mode reads differs without any effect.
    """
    of_number = tuple(
        one
        for one in changes
        if _is_equal(one.known, known.number) and _is_equal(one.found, found.number)
    )
    return of_number or changes


def _changes(known: Mapping[str, Argument], found: Mapping[str, Argument]) -> tuple[Change, ...]:
    return tuple(
        Change(name, known[name], value)
        for name, value in found.items()
        if name in known and not _is_equal(known[name], value)
    )


def _kind(known: End, found: End) -> EditKind:
    """Return what kind of edit an exchange is that changes no argument."""
    if not known.own and not found.own:
        return EditKind.OPERAND
    if not found.own and _reads(known, found):
        return EditKind.MISSING
    if not known.own and _reads(found, known):
        return EditKind.EXTRA
    inputs = [sorted(end.numbers[term] for term in end.inputs) for end in (known, found)]
    if inputs[0] == inputs[1] and _forms(known) == _forms(found):
        return EditKind.EXCHANGED
    return EditKind.OTHER


def _reads(one: End, other: End) -> bool:
    """Return whether one side reads what the other side's term is, in whatever layout.

    A part of an operator may be what both have: its own operands count, too.
    """
    lowered = one.lowered
    values = (value for each in one.own for value in each.taken if value in lowered.terms)
    taken = map(lowered.computed, values)
    found = {one.numbers[term] for each in (*one.inputs, *taken) for term in one.laid_from(each)}
    return any(other.numbers[term] in found for term in other.laid_from(other.term))


def _forms(end: End) -> list[tuple[str, str]]:
    """Return the primitives in order: the root of a sum is not the sum of a root."""
    return [(node.primitive, repr(node.attributes)) for node in end.nodes]


def _is_rounded(value: object, number: object) -> bool:
    """Return whether a number is a value as a kernel takes it: in float32."""
    return isinstance(value, float) and isinstance(number, float) and np.float32(value) == number


def _is_equal(one: object, two: object) -> bool:
    return type(one) is type(two) and repr(one) == repr(two)
