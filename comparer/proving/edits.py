"""Say what an exchange changes: an argument, a constant, an operand, an operator more or less."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import LeafKind
from padiff.program import DRAWN, ValueRef

from .numbering import LAYOUT
from .parting import place_of
from .result import Change, Edit, EditKind, UsedOperator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.program import Argument, Lowered, Node, Operator

    from .numbering import Numbering
    from .repair import Made
    from .result import Place
    from .side import Side

__all__ = ["describe"]

_CONSTANT = frozenset({"full", "literal"})
"""Primitives that are numbers: the operators that read them are meant."""


def describe(sides: tuple[Side, Side], numbering: Numbering, made: Made) -> Edit:
    """Return what an exchange changes, and where.

    Args:
        sides: The reference and the candidate.
        numbering: Of their terms.
        made: The exchange, and the candidate before it.
    """
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
        _End(side, lowered, term, numbers, {t for t, n in enumerate(numbers) if n in common}, those)
        for side, lowered, term, numbers, those in (
            (sides[0], sides[0].lowered, exchange.reference, numbering.reference, readers[0]),
            (sides[1], made.lowered, exchange.candidate, made.numbers, readers[1]),
        )
    )
    numbers = numbering.reference[exchange.reference], made.numbers[exchange.candidate]
    inputs = (
        sorted(numbering.reference[term] for term in known.inputs),
        sorted(made.numbers[term] for term in found.inputs),
    )
    edit = _argument(known, found) or _other_operand(known, found)
    if edit is None:
        edit = _of_operators(known, found, _kind(known, found, numbers, inputs))
    places = (
        None if place is None else replace(place, slice=end.slice)
        for place, end in ((edit.reference, known), (edit.candidate, found))
    )
    return replace(edit, reference=next(places), candidate=next(places))


def _of_operators(known: _End, found: _End, kind: EditKind) -> Edit:
    """Return an edit of operators that one side alone has, or of what they read."""
    others = _other_operands(known, found) if kind is EditKind.OTHER else None
    names, terms = (known.name, found.name), (known.term, found.term)
    change = _read_instead(known, found, terms, names) if kind is EditKind.OPERAND else None
    return others or Edit(
        kind=kind,
        reference=known.place,
        candidate=found.place,
        changes=() if change is None else (change,),
        operators=(known.used, found.used),
    )


@dataclass(frozen=True)
class _End:
    """An exchanged term of one side."""

    side: Side
    lowered: Lowered
    term: int
    numbers: Sequence[int]
    """Of its terms."""
    common: set[int]
    """Terms of the side that both programs have."""
    readers: list[int]
    """The operators that read the term where it is exchanged."""

    @property
    def nodes(self) -> list[Node]:
        """What lies between the term and what both programs have."""
        return [self.lowered.nodes[place] for place in self.places]

    @property
    def places(self) -> list[int]:
        """The positions of these nodes."""
        return self.lowered.behind([self.term], known=self.common)

    @property
    def taken(self) -> list[Operator]:
        """Operators there whose outcomes were taken as recorded."""
        terms = {self.term, *(term for node in self.nodes for term in node.operands)}
        values = (self.lowered.leaves.get(term) for term in sorted(terms - self.common))
        found = []
        for value in values:
            if value is not None and value >= 0:
                producer = self.side.program.values[value].producer
                found += [] if producer is None else [self.side.program.operators[producer]]
        return found

    @property
    def own(self) -> list[Operator]:
        """The operators between the term and what both programs have."""
        ids = {node.operator for node in self.nodes if node.primitive not in _CONSTANT}
        ids.update(one.id for one in self.taken)
        return [self.side.program.operators[one] for one in sorted(ids)]

    @property
    def around(self) -> list[Operator]:
        """The operators that are meant: those between, or else what reads and makes the term."""
        if self.own:
            return self.own
        place = self.lowered.producers.get(self.term)
        ids = [min(self.readers)] if self.readers else []
        if place is not None and self.lowered.nodes[place].primitive not in _CONSTANT:
            ids.append(self.lowered.nodes[place].operator)
        return [self.side.program.operators[one] for one in ids]

    @property
    def slice(self) -> tuple[int, ...]:
        """The ids of these operators, in order."""
        return tuple(sorted({one.id for one in self.around}))

    @property
    def inputs(self) -> list[int]:
        """What is read of what both programs have."""
        made = {term for node in self.nodes for term in node.outputs}
        found = [term for node in self.nodes for term in node.operands if term not in made]
        found += [self.lowered.terms[value] for one in self.taken for value in one.taken]
        return found

    @property
    def place(self) -> Place | None:
        """Where the last of the operators ran."""
        around = self.around
        if not around:
            return None
        last = around[-1] if self.own else around[0]
        return place_of(self.side, last.id, len(self.own))

    @property
    def used(self) -> tuple[UsedOperator, ...]:
        """The operators between, or that read a number, with their arguments that are no values."""
        those = self.around if self.number is not None else self.own
        return tuple(
            UsedOperator(
                one.name,
                tuple(
                    value
                    for _, value in self.side.table.distinct(one.name, one.positional, one.keywords)
                    if not _has_values(value)
                ),
                self.side.recorded.module_of(one)[0],
            )
            for one in those
        )

    @property
    def number(self) -> Argument:
        """The number that the term is; None if it is none."""
        place = self.lowered.producers.get(self.term)
        if place is None or self.lowered.nodes[place].primitive != "full":
            return None
        found: Argument = dict(self.lowered.nodes[place].attributes)["value"]
        return found

    @property
    def name(self) -> str:
        """What the term is called."""
        return self.named(self.term)

    def named(self, term: int) -> str:
        """Return what a term is called: the name of a leaf, or what made it first and where."""
        while (place := self.lowered.producers.get(term)) is not None:
            node = self.lowered.nodes[place]
            same = (one for one in node.operands if self.numbers[one] == self.numbers[term])
            before = next(same, None)
            if before is None:
                return self._made_by(node.operator, term)
            term = before  # what only hands on, as a copy does
        return self.name_of(self.lowered.leaves[term])

    def part(self, number: int) -> str:
        """Return which of several outputs of a module a value is; empty if it is none."""
        terms = self.lowered.terms
        parts = (
            f"{part} of {path}"
            for (value, path), part in self.side.parts.items()
            if value in terms and self.numbers[terms[value]] == number
        )
        return next(parts, "")

    def laid_out(self, term: int) -> tuple[tuple[str, str], int] | None:
        """Return how a term was made if only its layout is another, and of which term."""
        place = self.lowered.producers.get(term)
        node = None if place is None else self.lowered.nodes[place]
        if node is None or node.primitive not in LAYOUT or len(node.operands) != 1:
            return None
        return (node.primitive, repr(node.attributes)), node.operands[0]

    def name_of(self, value: int) -> str:
        """Return what a value is called."""
        if value < 0:
            return "a repaired value"
        one = self.side.program.values[value]
        place = self.lowered.producers.get(self.lowered.terms[value])
        if place is not None and self.lowered.nodes[place].primitive == "transpose":
            leaf = self.lowered.leaves.get(self.lowered.nodes[place].operands[0], -1)
            if leaf >= 0:
                return f"{self.name_of(leaf)} transposed"
        if one.kind is LeafKind.GRADIENT:
            return f"the gradient of {one.name}"
        if one.name or one.producer is None:
            return one.name or (one.kind.value if one.kind else "a value")
        return self._made_by(one.producer, self.lowered.terms[value])

    def origin(self, term: int) -> str:
        """Return the operator that made a term."""
        place = self.lowered.producers.get(term)
        if place is None:
            return self.named(term)
        one = self.side.program.operators[self.lowered.nodes[place].operator]
        return f"{one.name} of {self.side.recorded.module_of(one)[0] or '(root)'}"

    def _made_by(self, operator: int, term: int) -> str:
        one = self.side.program.operators[operator]
        path = self.side.recorded.module_of(one)[0]
        parts = (
            self.side.parts.get((value, path))
            for value in one.outputs
            if self.lowered.terms.get(value) == term
        )
        return f"{next(filter(None, parts), one.name)} of {path or '(root)'}"

    def numbers_of(self, operator: Operator) -> dict[str, int]:
        """Return the arguments of an operator that are values by name, as numbers of terms."""
        return {
            name: self.numbers[self.lowered.terms[value]]
            for name, value in self.values_of(operator).items()
        }

    def values_of(self, operator: Operator) -> dict[str, int]:
        """Return the arguments of an operator that are values by name, as their ids."""
        table = self.side.table
        named = table.named(operator.name, operator.positional, operator.keywords)
        return {name: value.id for name, value in named if isinstance(value, ValueRef)}

    def arguments(self, operator: Operator) -> dict[str, Argument]:
        """Return the arguments of an operator by name; a value by its name."""
        table = self.side.table
        named = table.named(operator.name, operator.positional, operator.keywords)
        return {
            name: self.name_of(value.id) if isinstance(value, ValueRef) else value
            for name, value in named
            if name != DRAWN and (isinstance(value, ValueRef) or not _has_values(value))
        }


def _argument(known: _End, found: _End) -> Edit | None:
    """Return an edit of arguments or of a number, if that is what differs."""
    if max(len(known.own), len(found.own)) > 1:
        return _attribute(known, found)
    pairs = [(one, two) for one in known.around for two in found.around if one.name == two.name]
    for one, two in pairs:
        changes = _which_differ(_differences(known, found, one, two), known, found)
        if changes:
            edit = _edit(EditKind.ARGUMENT, changes, known, found, (one, two))
            return edit if found.number is None else replace(edit, times=len(set(found.readers)))
    is_used = known.around and found.around
    if is_used and known.number is not None and found.number is not None:
        numbers = known.number, found.number
        names = [
            name
            for end, number in ((found, numbers[1]), (known, numbers[0]))
            for operator in end.around
            for name, value in end.arguments(operator).items()
            if _is_equal(value, number)
        ]
        kind = EditKind.ARGUMENT if names else EditKind.CONSTANT
        changes = (Change(names[0] if names else "", *numbers),)
        edit = _edit(kind, changes, known, found, (known.around[0], found.around[0]))
        return replace(edit, times=len(set(found.readers)) or 1)
    return _attribute(known, found)


def _attribute(known: _End, found: _End) -> Edit | None:
    """Return an edit of an argument, if all is the same but for one attribute of one primitive.

    One framework adds a bias in the convolution, another one in an operator of its own. Of several
    primitives the attribute has to be an argument by name: others are of no use to the reader.
    """
    forms = [[node for node in end.nodes if node.primitive not in LAYOUT] for end in (known, found)]
    names = [[node.primitive for node in nodes] for nodes in forms]
    reads = [sorted(end.numbers[term] for term in end.inputs) for end in (known, found)]
    if names[0] != names[1] or (len(names[0]) > 1 and reads[0] != reads[1]):
        return None
    changed = [
        (one, two, changes)
        for one, two in zip(*forms, strict=True)
        if (changes := _changes(dict(one.attributes), dict(two.attributes)))
    ]
    if len(changed) != 1:
        return None
    one, two, changes = changed[0]
    ends = known.side.program.operators[one.operator], found.side.program.operators[two.operator]
    arguments = known.arguments(ends[0]).keys() | found.arguments(ends[1]).keys()
    if len(names[0]) > 1 and not arguments.issuperset(change.name for change in changes):
        return None
    return _edit(EditKind.ARGUMENT, changes, known, found, ends)


def _other_operand(known: _End, found: _End) -> Edit | None:
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
                terms = known.lowered.terms[ids[0]], found.lowered.terms[ids[1]]
                ends = known.name_of(ids[0]), found.name_of(ids[1])
                change = _read_instead(known, found, terms, ends)
                return _edit(EditKind.OPERAND, (change,), known, found, (one, two))
    return None


def _other_operands(known: _End, found: _End) -> Edit | None:
    """Return that an operator reads other values, more or fewer, if all else is the same."""
    if len(known.own) != 1 or known.used != found.used:
        return None
    one, two = known.own[0], found.own[0]
    ends = (tuple(map(end.name_of, own.taken)) for end, own in ((known, one), (found, two)))
    return _edit(EditKind.OPERAND, (Change("", *ends),), known, found, (one, two))


def _read_instead(
    known: _End, found: _End, terms: tuple[int, int], names: tuple[str, str]
) -> Change:
    """Return what is read and what should be, by names that tell them apart.

    Where both were only laid out otherwise, in the same way, what they were made of is meant.
    """
    one, two = terms
    while (ahead := known.laid_out(one)) and (behind := found.laid_out(two)):
        if ahead[0] != behind[0]:
            break
        one, two = ahead[1], behind[1]
    if (one, two) != terms:
        names = known.named(one), found.named(two)
    if names[0] == names[1]:  # one place of a module's outputs holds what belongs elsewhere
        other = known.part(found.numbers[two])
        names = (names[0], other) if other else (known.origin(one), found.origin(two))
    return Change("", *names)


def _edit(
    kind: EditKind,
    changes: tuple[Change, ...],
    known: _End,
    found: _End,
    operators: tuple[Operator, Operator],
) -> Edit:
    return Edit(
        kind=kind,
        reference=place_of(known.side, operators[0].id, 1),
        candidate=place_of(found.side, operators[1].id, 1),
        changes=changes,
    )


def _differences(known: _End, found: _End, one: Operator, two: Operator) -> tuple[Change, ...]:
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
        if each.name not in both
    ]
    is_other = any(
        each.name in values[0].keys() | values[1].keys() and None not in (each.known, each.found)
        for each in changes
    )
    return () if is_other else tuple(changes)


def _which_differ(changes: tuple[Change, ...], known: _End, found: _End) -> tuple[Change, ...]:
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


def _kind(
    known: _End, found: _End, numbers: tuple[int, int], inputs: tuple[list[int], list[int]]
) -> EditKind:
    """Return what kind of edit an exchange is that changes no argument."""
    if not known.own and not found.own:
        return EditKind.OPERAND
    if not found.own and numbers[1] in inputs[0]:
        return EditKind.MISSING
    if not known.own and numbers[0] in inputs[1]:
        return EditKind.EXTRA
    if inputs[0] == inputs[1] and _forms(known) == _forms(found):
        return EditKind.EXCHANGED
    return EditKind.OTHER


def _forms(end: _End) -> list[tuple[str, str]]:
    return sorted((node.primitive, repr(node.attributes)) for node in end.nodes)


def _is_equal(one: object, two: object) -> bool:
    return type(one) is type(two) and repr(one) == repr(two)


def _has_values(argument: Argument) -> bool:
    return any(isinstance(part, ValueRef) for part in _parts(argument))


def _parts(argument: Argument) -> Iterator[Argument]:
    if isinstance(argument, tuple):
        for part in argument:
            yield from _parts(part)
    else:
        yield argument
