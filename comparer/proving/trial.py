"""Try operators of the candidate with other arguments, until they compute what they should.

They are lowered and executed alone, with one change at a time: flags turned, operands in another
order, the numbers and words that the reference's operators there are given, an operator left out or
another one in its place, and values in another order of their last axis. What one line of the
source runs several times changes alike. The change with which they compute what the repaired
candidate holds there is the cause in words. So is a factor, where all is right but for one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import chain, combinations, islice, permutations, takewhile, zip_longest
from math import isclose, prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from padiff.dumpfile import Phase, ProgramError
from padiff.program import LAYOUT, OVERWRITE, VOCABULARY, Node, Program, ValueRef, execute, lower

from .executed import COUNTING, is_near
from .parting import place_of
from .pool import MOST_AXES, Pool, is_value, parts_of, plain_word, settings_of, used_of
from .result import Change, Edit, EditKind, UsedOperator
from .slices import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Argument, Lowered, Operator, Value
    from padiff.program.primitives import Array

    from .exchanged import Asked, Made
    from .repaired import Repaired
    from .result import Place
    from .side import Side

    _Given: TypeAlias = tuple[str, object, str, tuple[type, ...]]
    """A tuple that a line gives an operator: its name, the line, the argument, of what it is."""
    _Exchanged: TypeAlias = tuple[Argument, Argument]
    """What an operator reads, and what it should."""

_MOST_RUN = 15_000
"""Operators that are run in all trials of one slice: about two seconds."""
_MOST_ELEMENTS = 1 << 26
"""That are computed in all trials of one slice: a second or two."""
_MOST_ARGUMENTS = 100
"""That are tried in one operator."""
_ORDERS = {"every second element first": (-1, 2), "its halves interleaved": (2, -1)}
"""How an axis is cut in two whose parts are exchanged then."""

_INVERSE = {"add": "sub", "sub": "add", "mul": "div", "div": "mul"}
"""What undoes an operator, by the plain words of frameworks."""


class _Piece:
    """An operator that was lowered by itself."""

    def __init__(self, lowered: Lowered, outputs: Iterable[int]) -> None:
        self.lowered = lowered
        self.taken = tuple(lowered.leaves.values())
        self.reads = {value: self._behind(lowered.terms[value]) for value in outputs}
        """The values that each output is computed from."""

    def _behind(self, term: int) -> list[int]:
        nodes, leaves = self.lowered.nodes, self.lowered.leaves
        places = self.lowered.behind([term])
        terms = {term, *(operand for place in places for operand in nodes[place].operands)}
        return [leaves[one] for one in terms if one in leaves]


class Trial:
    """Some operators of the candidate, what they take, and what the last should make."""

    def __init__(
        self, asked: Asked, repaired: Repaired, ids: tuple[int, ...], begun: Made | None = None
    ) -> None:
        """Look up what they take and what the last should make.

        Args:
            asked: What both programs are.
            repaired: The candidate with all exchanges.
            ids: The operators.
            begun: The first exchange of those that the operators are tried in the place of: they
                take what the candidate has, whatever one makes of it. None where they take that.
        """
        sides = asked.sides
        self.sides, self.ids = sides, _with_layouts(sides[1], ids, repaired)
        self.operators = [sides[1].program.operators[id_] for id_ in self.ids]
        self.numbers = asked.numbering.reference, (begun or repaired.made[0]).numbers
        inner = {value for one in self.operators for value in one.outputs}
        taken = {value for one in self.operators for value in one.taken} - inner
        kept = taken.union(sides[1].lowered.leaves.values())  # what no rule makes is as recorded
        wanted = set(self.operators[-1].outputs) - kept
        terms = {
            value: one.exchange.reference
            for one in repaired.made
            for value in (taken | wanted if begun is None else wanted)
            if one.lowered.computed(value) == one.exchange.candidate
            and (value in wanted or self._reads(one))
        }
        """The reference's terms that these values became."""
        lowered, leaves = repaired.program()
        own = execute(lowered, leaves, (taken | wanted) - terms.keys(), limits=COUNTING)
        known = elements_of(sides[0].lowered, asked.given[0], set(terms.values()))
        plain = sides[1].lowered
        laid = {value: _as_it_lies(plain, value, known[term]) for value, term in terms.items()}
        elements = {**own, **laid}
        self._laid: dict[int, tuple[int, Array]] = {}
        """Values in another order of their elements, by a new id: which they are of, and what they
        hold."""
        self._plain: Mapping[int, Array] = {}
        """What the operators as they are make; empty until that is known."""
        self._leaves: dict[int, Value] = {}
        self._pieces: dict[int, _Piece | None] = {}
        self._is_misfit = self._is_reshaping = False
        self._run_operators = self._run_elements = 0
        """In all trials so far, with their results."""
        self.taken: dict[int, Array] = {value: elements[value] for value in taken}
        self.wanted: dict[int, Array] = {value: elements[value] for value in wanted}

    def _reads(self, made: Made) -> bool:
        nodes = made.lowered.nodes
        return any(nodes[place].operator in self.ids for place, _ in made.exchange.readers)

    def edit(self, before: Sequence[Edit]) -> Edit | None:
        """Return an edit with which the last operator makes what it should.

        Args:
            before: What it is told as without; their reference's operators say what may be meant.
        """
        sizes = sum(prod(spec.shape) for spec in self._specs())
        if sizes > _MOST_ELEMENTS:
            return None
        self._plain = self._run(self.operators) or {}
        found = {value: self._plain[value] for value in self.wanted if value in self._plain}
        if len(found) < len(self.wanted) or self._is_wanted(found):
            return None
        if self.operators[-1].phase is Phase.UPDATE:  # one of what it leaves stands for all
            right = [value for value in self.wanted if is_near(found[value], self.wanted[value])]
            self.wanted = {value: self.wanted[value] for value in self.wanted if value not in right}
        self._run_operators = self._run_elements = 0
        pool = Pool(self.sides, before)
        tries = takewhile(lambda _: self._is_left(), self._each(pool, before[0]))
        for changed, edit in self._each_shape(tries):
            made = self._run(changed)
            if made is not None and self._is_wanted(made):
                return self._too_much(changed, edit, pool) or edit
        return self._factor(found, before[0])

    def _is_left(self) -> bool:
        """Return whether another change may be tried."""
        return self._run_operators < _MOST_RUN and self._run_elements < _MOST_ELEMENTS

    def _each_shape(
        self, tries: Iterable[tuple[list[Operator], Edit]]
    ) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield tries, and those once more at the end that make other shapes than were recorded."""
        misfits = []
        for one in tries:
            self._is_misfit = False
            yield one
            misfits += [one] if self._is_misfit else []
        self._is_reshaping = True
        yield from misfits

    def _too_much(self, changed: Sequence[Operator], edit: Edit, pool: Pool) -> Edit | None:
        """Return that an operator is too much, if that does what another argument of it does.

        The reference has none of its name there: with that argument it hands on what it takes.
        """
        ones = [one for one, two in zip(self.operators, changed, strict=True) if one != two]
        if edit.kind is not EditKind.ARGUMENT or pool.has(ones[0]):
            return None
        without = self._without(ones)
        made = None if without is None else self._run(without)
        if made is None or not self._is_wanted(made):
            return None
        used = used_of(self.sides[1], ones[0])
        return replace(edit, kind=EditKind.EXTRA, changes=(), operators=((), (used,)))

    def _without(self, ones: Sequence[Operator]) -> list[Operator] | None:
        """Return the operators where some hand on the first of their operands that fits."""
        values, lowered = self.sides[1].program.values, self.sides[1].lowered
        ids = {one.id for one in ones}
        nodes = [node for node in lowered.nodes if node.operator in ids]
        read = {term for node in nodes for term in node.operands}  # one like another reads nothing
        other = {
            one.outputs[0]: ValueRef(value)
            for one in ones
            for value in reversed(one.taken)
            if len(one.outputs) == 1
            and values[value].shape == values[one.outputs[0]].shape
            and lowered.terms[value] in read
        }
        is_open = len(other) < len(ones) or not self.wanted.keys().isdisjoint(other)
        return None if is_open else [_reading(one, other) for one in self.operators]

    def _replaced(self, pool: Pool, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators without those of one line, or with others in their place.

        An operator of the reference takes the place of one that takes as little.
        """
        sides = self.sides
        others = [one for one in pool.operators() if len(one.taken) == 1]
        kinds = {(one.name, settings_of(one)): one for one in others}
        for places in self._lines():
            ones = [self.operators[place] for place in places]
            used, place = used_of(sides[1], ones[0]), place_of(sides[1], ones[0].id, 1)
            without = self._without(ones)
            if without is not None:
                edit = _edit(EditKind.EXTRA, (before.reference, place))
                yield without, replace(edit, operators=((), (used,)))
            for other in kinds.values() if len(ones[0].taken) == 1 else ():
                meant = self._called(other, ones[0].name)
                if meant is not None and plain_word(other.name) != plain_word(ones[0].name):
                    ends = place_of(sides[0], other.id, 1), place
                    own = (used_of(sides[0], other),), (used,)
                    yield (
                        self._as(meant, places),
                        replace(_edit(EditKind.OTHER, ends), operators=own),
                    )

    def _called(self, other: Operator, name: str) -> Operator | None:
        """Return an operator of the reference as the candidate's framework calls it.

        Args:
            other: The operator; in another framework one with arguments has other ones.
            name: The full name of an operator of the candidate, which begins alike.
        """
        known, own = self.sides
        if known.file.framework == own.file.framework:
            return other
        full = f"{name.rpartition('.')[0]}.{plain_word(other.name)}"
        is_plain = full in own.table.names and not used_of(known, other).arguments
        positional = tuple(map(ValueRef, other.taken))
        return replace(other, name=full, positional=positional, keywords={}) if is_plain else None

    def _as(self, other: Operator, places: Sequence[int]) -> list[Operator]:
        """Return the operators, some of them as another one that takes as little."""
        changed = [*self.operators]
        for place in places:
            before = self.operators[place]
            one = replace(before, name=other.name, positional=other.positional)
            one = replace(one, keywords=other.keywords)
            changed[place] = _reading(one, {other.taken[0]: ValueRef(before.taken[0])})
        return changed

    def _specs(self) -> list[Value]:
        values = self.sides[1].program.values
        return [values[id_] for one in self.operators for id_ in one.outputs]

    def _each(self, pool: Pool, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators with one change, and what it is told as."""
        table = self.sides[1].table
        yield from self._orders_in_runs(before)
        lines = [(places, self.operators[places[0]]) for places in self._lines()]
        given = [dict(table.named(one.name, one.positional, one.keywords)) for _, one in lines]
        ways = [
            self._called_otherwise(pool, before, places, name, value)
            for (places, _), named in zip(lines, given, strict=True)
            for name, value in named.items()
        ]
        ways += [
            self._in_order(before, places, named)
            for (places, _), named in zip(lines, given, strict=True)
        ]
        yield from (one for tries in zip_longest(*ways) for one in tries if one is not None)
        yield from self._replaced(pool, before)
        yield from self._exchanged(before)
        yield from self._paired(before)
        yield from self._reversed(before)
        yield from self._taken_elsewhere(before)

    def _called_otherwise(
        self, pool: Pool, before: Edit, places: Sequence[int], name: str, value: Argument
    ) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators with another argument of one line, the likeliest first."""
        one = self.operators[places[0]]
        end = before.reference, place_of(self.sides[1], one.id, 1)
        for other in islice(pool.others(one, name, value), _MOST_ARGUMENTS):
            edit = _edit(EditKind.ARGUMENT, end, (Change(name, other, value),))
            yield self._changed(places, {name: (value, other)}), edit

    def _in_order(
        self, before: Edit, places: Sequence[int], named: Mapping[str, Argument]
    ) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators where a line reads its operands in another order."""
        end = before.reference, place_of(self.sides[1], self.operators[places[0]].id, 1)
        for exchanged in self._orders(named):
            yield self._changed(places, exchanged), _edit(EditKind.EXCHANGED, end)

    def _reversed(self, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators with one that undoes what a line does in its place: a wrong sign."""
        side = self.sides[1]
        for places in self._lines():
            one = self.operators[places[0]]
            word = plain_word(one.name)
            other = _INVERSE.get(word)
            name = "" if other is None else one.name.replace(word, other)
            if name in side.table.names and len(one.taken) > 1:
                changed = [*self.operators]
                for place in places:
                    changed[place] = replace(self.operators[place], name=name)
                used = used_of(side, one)
                end = before.reference, place_of(side, one.id, 1)
                own = (replace(used, name=name),), (used,)
                yield changed, replace(_edit(EditKind.OTHER, end), operators=own)

    def _orders_in_runs(self, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators with two parts of an argument exchanged, other ones in each run."""
        table = self.sides[1].table
        lines: dict[_Given, list[tuple[int, tuple[Argument, ...]]]] = defaultdict(list)
        for place, one in enumerate(self.operators):
            for name, given in table.named(one.name, one.positional, one.keywords):
                if isinstance(given, tuple) and not is_value(given):
                    lines[one.name, one.site, name, (*map(type, given),)].append((place, given))
        for (_, _, name, parts), runs in lines.items():
            end = before.reference, place_of(self.sides[1], self.operators[runs[0][0]].id, 1)
            for first, second in combinations(range(len(parts)), 2) if len(runs) > 1 else ():
                told = [(given, _with_exchanged(given, first, second)) for _, given in runs]
                changes = [Change(name, other, given) for given, other in told if other != given]
                if not changes:
                    continue
                changed = [*self.operators]
                for (place, _), (given, other) in zip(runs, told, strict=True):
                    changed[place] = self._changed([place], {name: (given, other)})[place]
                yield changed, _edit(EditKind.ARGUMENT, end, (changes[0],))

    def _taken_elsewhere(self, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators where a line reads another value of that form than it does."""
        side, values = self.sides[1], self.sides[1].program.values
        runs = self._runs()
        alike: dict[object, list[int]] = defaultdict(list)
        for value in dict.fromkeys((*sorted(self.taken), *runs)):
            alike[values[value].shape, values[value].dtype].append(value)
        for places in self._lines():
            one = self.operators[places[0]]
            for value in dict.fromkeys(one.taken):
                for other in alike[values[value].shape, values[value].dtype]:
                    if other == value or other in one.outputs:
                        continue
                    changed = [*self.operators]
                    for at, place in enumerate(places):
                        read = runs.get(value, [value] * len(places))
                        found = runs.get(other, [other] * len(places))
                        if len(read) == len(found) == len(places):
                            now = {read[at]: ValueRef(found[at])}
                            changed[place] = _reading(self.operators[place], now)
                    end = before.reference, place_of(side, one.id, 1)
                    change = Change("", *self._called_apart(other, value))
                    yield changed, _edit(EditKind.OPERAND, end, (change,))

    def _called_apart(self, wanted: int, read: int) -> tuple[str, str]:
        """Return what two values are called, with their lines where that is the same."""
        side = self.sides[1]
        names = self._partner(wanted), side.called(read)
        if names[0] != names[1]:
            return names
        makers = [side.program.values[one].producer for one in (wanted, read)]
        sites = [None if one is None else side.program.operators[one].site for one in makers]
        first, second = (
            name if site is None else f"{name}, line {site.line}"
            for name, site in zip(names, sites, strict=True)
        )
        return first, second

    def _runs(self) -> dict[int, list[int]]:
        """Return what the line that makes a value makes in each of its runs, by the value."""
        found: dict[int, list[int]] = {}
        for places in self._lines():
            for made in zip(*(self.operators[place].outputs for place in places), strict=False):
                found.update({value: [*made] for value in made})
        return found

    def _lines(self) -> list[list[int]]:
        """Return the places of the operators, those together that one line ran alike.

        Not those that it runs on one value: a cosine is not the other one of its line. Of few, each
        comes alone, too: a line may call an operator twice in one run.
        """
        lines: dict[object, list[int]] = {}
        alike = Counter[object]()
        for place, one in enumerate(self.operators):
            line = one.name, one.site, settings_of(one)
            alike[line, *one.taken] += 1
            key = place if one.site is None else (line, alike[line, *one.taken])
            lines.setdefault(key, []).append(place)
        few = [places for places in lines.values() if 1 < len(places) <= MOST_AXES]
        return [*lines.values(), *([place] for places in few for place in places)]

    def _orders(self, named: Mapping[str, Argument]) -> Iterator[dict[str, _Exchanged]]:
        """Yield operands of an operator in another order, by name with those that it reads."""
        for name, value in named.items():
            parts = value if isinstance(value, tuple) else ()
            if len(parts) <= MOST_AXES and all(isinstance(one, ValueRef) for one in parts):
                for order in islice(permutations(parts), 1, None):
                    yield {name: (value, order)}
        values = self.sides[1].program.values
        for (one, first), (two, second) in combinations(named.items(), 2):
            ids = [part.id for part in (first, second) if isinstance(part, ValueRef)]
            if len(ids) > 1 and values[ids[0]].shape == values[ids[1]].shape:
                yield {one: (first, second), two: (second, first)}

    def _exchanged(self, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators with two values exchanged that they take, or make of one value."""
        side, values = self.sides[1], self.sides[1].program.values
        parts: dict[object, list[int]] = defaultdict(list)
        for each in self.operators:
            parts[each.name, *each.taken[:1]] += each.outputs
        made = (combinations(those[:MOST_AXES], 2) for those in parts.values())
        for one, two in chain(combinations(sorted(self.taken), 2), *made):
            if values[one].shape != values[two].shape or values[one].dtype != values[two].dtype:
                continue
            other = {one: ValueRef(two), two: ValueRef(one)}
            changed = [_reading(operator, other) for operator in self.operators]
            first = next((each for each in self.operators if one in each.taken), None)
            makers = [values[one].producer, values[two].producer]
            if makers[0] != makers[1] and {one, two}.isdisjoint(self.taken):
                told = self._other_setting(makers, before)
            elif first is not None:
                change = Change("", self._partner(two), side.called(one))
                end = before.reference, place_of(side, first.id, 1)
                told = _edit(EditKind.OPERAND, end, (change,))
            else:
                told = None
            if told is not None:
                yield changed, told

    def _paired(self, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators with values whose last axis is in pairs, or in halves, otherwise.

        A rotation turns neighbours, or elements half an axis apart. All that is read in one way is
        laid out alike, as queries and keys are.
        """
        values = self.sides[1].program.values
        readers: dict[int, list[Operator]] = defaultdict(list)
        for one in self.operators:
            for value in one.taken:
                readers[value].append(one)
        groups: dict[object, list[int]] = defaultdict(list)
        for value, those in readers.items():
            shape = values[value].shape
            size = shape[-1] if shape and 0 not in shape else 0
            if size in range(4, size + 1, 2) and value in {**self.taken, **self._plain}:
                key = size, *sorted((one.name, settings_of(one)) for one in those)
                groups[key].append(value)
        for group in groups.values():
            first = readers[group[0]][0]
            end = before.reference, place_of(self.sides[1], first.id, 1)
            name = self.sides[1].called(group[0])
            for words, order in _ORDERS.items():
                self._laid.clear()
                other = {value: self._laid_out(value, order) for value in group}
                changed = [_reading(operator, other) for operator in self.operators]
                change = Change("", f"{name}, {words}", name)
                yield changed, _edit(EditKind.OPERAND, end, (change,))

    def _laid_out(self, value: int, order: tuple[int, int]) -> ValueRef:
        """Return a new value that holds the elements of one in another order of its last axis."""
        array = self.taken[value] if value in self.taken else self._plain[value]
        pairs = np.reshape(array, (*array.shape[:-1], *order)).swapaxes(-1, -2)
        new = len(self.sides[1].program.values) + len(self._laid)
        self._laid[new] = value, pairs.reshape(array.shape)
        return ValueRef(new)

    def _other_setting(self, makers: Sequence[int | None], before: Edit) -> Edit | None:
        """Return that an operator is called as another one of its name is, if one argument says so.

        Args:
            makers: The ids of both.
            before: What is told as long as nothing else is.
        """
        side = self.sides[1]
        one, two = (each for id_ in makers for each in self.operators if each.id == id_)
        named = [
            dict(side.table.named(each.name, each.positional, each.keywords)) for each in (one, two)
        ]
        changes = [
            Change(name, named[1][name], value)
            for name, value in named[0].items()
            if not is_value(value) and repr(named[1].get(name, value)) != repr(value)
        ]
        end = before.reference, place_of(side, one.id, 1)
        return _edit(EditKind.ARGUMENT, end, (changes[0],)) if len(changes) == 1 else None

    def _partner(self, value: int) -> str:
        """Return what the reference calls the value that one of the candidate's is."""
        known, own = (side.lowered for side in self.sides)
        number = self.numbers[1][own.computed(value)]
        same = (one for one in known.terms if self.numbers[0][known.computed(one)] == number)
        return next(map(self.sides[0].called, same), self.sides[1].called(value))

    def _changed(
        self, places: Sequence[int], arguments: Mapping[str, _Exchanged]
    ) -> list[Operator]:
        """Return the operators, those of one line with other arguments where they have these.

        Values are other ones each time that a line runs: those of the first say which are meant.
        """
        changed = [*self.operators]
        table = self.sides[1].table
        first: dict[str, Argument] = {}
        for place in places:
            one = self.operators[place]
            named = dict(table.named(one.name, one.positional, one.keywords))
            first = first or {**named}
            for name, (before, after) in arguments.items():
                if repr(named.get(name)) == repr(before):
                    named[name] = after
                elif is_value(before) and named.keys() == first.keys():
                    named[name] = _moved(first, named, after)
            changed[place] = replace(one, positional=(), keywords=named)
        return changed

    def _factor(self, found: Mapping[int, Array], before: Edit) -> Edit | None:
        """Return an edit of a factor that the reference has and the candidate lacks.

        It is one if all that should be made is that many times what is made.
        """
        factors = [_ratio(array, found[value]) for value, array in self.wanted.items()]
        place, side = before.reference, self.sides[0]
        if None in factors or len(set(factors)) != 1 or place is None:
            return None
        (factor,) = {one for one in factors if one is not None}
        for id_ in place.slice:
            one = side.program.operators[id_]
            numbers = [
                value
                for _, value in side.table.named(one.name, one.positional, one.keywords)
                if isinstance(value, int | float) and value
            ]
            if any(isclose(factor, way, rel_tol=1e-7) for x in numbers for way in (x, 1 / x)):
                used = UsedOperator(one.name, tuple(numbers), side.recorded.module_of(one)[0])
                end = place_of(side, id_, 1), before.candidate
                return replace(_edit(EditKind.MISSING, end), operators=((used,), ()))
        return None

    def _is_wanted(self, found: Mapping[int, Array]) -> bool:
        return all(is_near(found[value], array) for value, array in self.wanted.items())

    def _run(self, operators: Sequence[Operator]) -> Mapping[int, Array] | None:
        """Lower and execute those of the operators alone that make something else than before.

        Returns:
            What the last makes; of the operators as they are what each makes. None if they cannot
            be executed, as where one reads now what is made behind it.
        """
        run: list[Operator] = []
        made: set[int] = set()
        for one, before in zip(operators, self.operators, strict=True):
            if not self._plain or one != before or not made.isdisjoint(one.taken):
                run.append(one)
                made.update(one.outputs)
        held = {**self.taken, **self._plain, **{new: own[1] for new, own in self._laid.items()}}
        if not _is_in_order(run, held.keys() - made):
            return None
        values = self.sides[1].program.values
        self._run_operators += len(run)
        self._run_elements += sum(prod(values[one].shape) for one in made)
        known = {value: held[value] for one in run for value in one.taken if value not in made}
        inner = () if self._plain else (value for one in run for value in one.taken)
        wanted = made & {*self.wanted, *inner}
        try:
            found = self._alone(run, known, wanted)
        except ProgramError:
            return None
        return None if found is None else {**self._plain, **found}

    def _alone(
        self, run: Sequence[Operator], known: Mapping[int, Array], wanted: set[int]
    ) -> dict[int, Array] | None:
        """Lower and execute operators alone, one at a time where each can be lowered so.

        Returns:
            The wanted values; None where a rule refuses one of the operators.
        """
        pieces = [piece for piece in map(self._piece, run) if piece is not None]
        if len(pieces) < len(run):
            lowered = self._lowered(run, known, self.sides[1].recorded.elements)
            if lowered.opaque or lowered.random:
                return None
            return execute(lowered, known, wanted, limits=COUNTING)
        if any(piece.lowered.random for piece in pieces):
            return None
        if any(piece.lowered.opaque for piece in pieces):
            self._is_misfit = True
            return self._reshaped(run, known, wanted) if self._is_reshaping else None
        needed = {*wanted}
        parts: list[tuple[_Piece, list[int]]] = []
        for one, piece in zip(reversed(run), reversed(pieces), strict=True):
            results = [value for value in one.outputs if value in needed]
            needed.update(value for result in results for value in piece.reads[result])
            parts.append((piece, results))
        held = dict(known)
        for piece, results in reversed(parts):
            if results:
                given = {value: held[value] for value in piece.taken if value in held}
                held.update(execute(piece.lowered, given, results, limits=COUNTING))
        return {value: held[value] for value in wanted}

    def _reshaped(
        self, run: Sequence[Operator], known: Mapping[int, Array], wanted: set[int]
    ) -> dict[int, Array] | None:
        """Execute operators of which the changed ones may make another shape than was recorded."""
        recorded = self.sides[1].program.operators
        repaired = {value for one in run if recorded[one.id] is not one for value in one.taken}
        lowered = self._lowered(run, known, self.sides[1].recorded.elements, repaired)
        if lowered.opaque or lowered.random:
            return None
        return execute(lowered, known, wanted, limits=COUNTING)

    def _piece(self, one: Operator) -> _Piece | None:
        """Return an operator lowered by itself, once if it is as recorded; None if it cannot be.

        What is written through a view changes values that it does not take, and a rule may look for
        elements that were not recorded in what is ahead.
        """
        program, recorded = self.sides[1].program, self.sides[1].recorded
        is_recorded = program.operators[one.id] is one
        if is_recorded and one.id in self._pieces:
            return self._pieces[one.id]
        lacking: set[int] = set()

        def contents(value: int) -> Array | None:
            found = recorded.elements(value)
            if found is None:
                lacking.add(value)
            return found

        piece = None
        makes_all = all(program.values[value].producer == one.id for value in one.outputs)
        if makes_all and one.name != OVERWRITE:
            lowered = self._lowered([one], one.taken, contents)
            piece = None if lacking else _Piece(lowered, one.outputs)
        if is_recorded:
            self._pieces[one.id] = piece
        return piece

    def _lowered(
        self,
        run: Sequence[Operator],
        known: Iterable[int],
        contents: Callable[[int], Array | None],
        repaired: Container[int] = (),
    ) -> Lowered:
        """Lower operators alone, given which values they take that none of them makes.

        What reads repaired ones may make other shapes than were recorded.
        """
        side = self.sides[1]
        program = Program(
            framework=side.program.framework,
            values=(
                *(self._leaf(value) for value in sorted({*known})),
                *(side.program.values[id_] for one in run for id_ in one.outputs),
            ),
            operators=tuple(run),
        )
        return lower(program, side.table, contents=contents, repaired=repaired)

    def _leaf(self, value: int) -> Value:
        """Return a value as nothing makes it."""
        values = self.sides[1].program.values
        if value in self._laid:
            return replace(values[self._laid[value][0]], id=value, producer=None)
        if value not in self._leaves:
            self._leaves[value] = replace(values[value], producer=None)
        return self._leaves[value]


def _is_in_order(operators: Iterable[Operator], held: Iterable[int]) -> bool:
    """Return whether each operator reads what is held or what one before it makes."""
    ready = {*held}
    for one in operators:
        if not ready.issuperset(one.taken):
            return False
        ready.update(one.outputs)
    return True


def _as_it_lies(lowered: Lowered, value: int, array: Array) -> Array:
    """Return the elements of a value, given those of the term that it was computed as."""
    base, moves = lowered.computed(value), list[Node]()
    term = lowered.terms[value]
    while term != base:
        moves.append(lowered.nodes[lowered.producers[term]])
        term = moves[-1].operands[0]
    for node in reversed(moves):
        array = VOCABULARY[node.primitive].run(array, **dict(node.attributes))
    return array


def _with_layouts(side: Side, ids: Iterable[int], repaired: Repaired) -> list[int]:
    """Return operators, and those ahead of them that lay something out which they take."""
    primitives: dict[int, set[str]] = defaultdict(set)
    for node in side.lowered.nodes:
        primitives[node.operator].add(node.primitive)
    exchanged = {one.exchange.candidate for one in repaired.made}
    found = {*ids}
    open_ = [*found]
    while open_:
        for value in side.program.operators[open_.pop()].taken:
            maker = side.program.values[value].producer
            if maker is None or maker in found or side.lowered.computed(value) in exchanged:
                continue
            lowered, taken = side.lowered, side.program.operators[maker].taken
            hands_on = lowered.computed(value) in map(lowered.computed, taken)
            if primitives[maker] <= LAYOUT and (primitives[maker] or hands_on):
                found.add(maker)
                open_.append(maker)
    return sorted(found)


def _edit(
    kind: EditKind, ends: tuple[Place | None, Place | None], changes: tuple[Change, ...] = ()
) -> Edit:
    return Edit(kind=kind, reference=ends[0], candidate=ends[1], changes=changes)


def _with_exchanged(parts: tuple[Argument, ...], one: int, two: int) -> tuple[Argument, ...]:
    """Return an argument with two of its parts exchanged."""
    found = [*parts]
    found[one], found[two] = found[two], found[one]
    return tuple(found)


def _reading(operator: Operator, other: Mapping[int, ValueRef]) -> Operator:
    """Return an operator that reads other values; itself if it reads none of them."""
    if other.keys().isdisjoint(operator.taken):
        return operator

    def read(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(map(read, argument))
        return other.get(argument.id, argument) if isinstance(argument, ValueRef) else argument

    keywords = {name: read(value) for name, value in operator.keywords.items()}
    return replace(operator, positional=tuple(map(read, operator.positional)), keywords=keywords)


def _moved(
    first: Mapping[str, Argument], named: Mapping[str, Argument], after: Argument
) -> Argument:
    """Return what a line reads in the place of something when it runs again."""
    if isinstance(after, tuple):
        return tuple(_moved(first, named, one) for one in after)
    for before, now in zip(_values(first), _values(named), strict=False):
        if repr(before) == repr(after):
            return now
    return after


def _ratio(known: Array, found: Array) -> float | None:
    """Return the factor from what is made to what should be; None if it is not one for all."""
    place = int(np.argmax(np.abs(found))) if found.size else 0
    if known.shape != found.shape or not found.size or not found.flat[place]:
        return None
    with np.errstate(all="ignore"):  # elements of a mask may be infinite
        factor = float(np.real(known.flat[place] / found.flat[place]))
        return factor if is_near(found * factor, known) else None


def _values(named: Mapping[str, Argument]) -> list[Argument]:
    return [part for value in named.values() for part in parts_of(value)]
