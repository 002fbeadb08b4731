"""A layout rule: how reference arrays become what the candidate should hold.

A rule is a few declarative words with a text form, joined by `` | ``::

    identity
    transpose
    rows 0/3 | transpose
    concat 0 | transpose
    interleave 2 | transpose

All but ``not``, ``expand``, ``sum`` and ``zeros`` only move elements, so the rule of a weight is
also the rule of its gradient and of its optimizer moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from padiff.dumpfile import ConfigError

from .steps import COUNTING, JOINING, MOVING, PICKING, Array, Block, Shape, Step, Verb, parse_step


@dataclass(frozen=True, slots=True)
class Rule:
    """A pipeline of steps that turns one or several reference arrays into one candidate array."""

    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        """Refuse before the end what makes the candidate's shape: its target would be unknown."""
        for step in self.steps[:-1]:
            is_bare = step.verb in {Verb.RESHAPE, Verb.EXPAND} and not step.numbers
            if is_bare or step.verb is Verb.SPLIT:
                raise ConfigError(
                    f"a layout rule needs a shape after {str(step.verb)!r} unless it comes last"
                )

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Read the text form.

        Raises:
            ConfigError: The text is no rule.

        >>> str(Rule.parse("rows 0/3|transpose"))
        'rows 0/3 | transpose'
        """
        if text.strip() in {"", "identity"}:
            return IDENTITY
        return cls(tuple(parse_step(part) for part in text.split("|")))

    def __str__(self) -> str:
        """Return the text form; ``Rule.parse`` reads it back."""
        return " | ".join(map(str, self.steps)) or "identity"

    def then(self, other: Rule) -> Rule:
        """Return the rule that applies this one and then the other, without what cancels out."""
        steps = list(self.steps)
        for step in other.steps:
            last = steps[-1] if steps else None
            if last is not None and step.verb is Verb.RESHAPE and last.verb is Verb.RESHAPE:
                steps[-1] = step
            elif last is not None and step.verb is Verb.SPLIT and step == _undo(last):
                steps[-1] = Step(Verb.RESHAPE)  # perhaps in other parts
            elif last is not None and step.verb in _CANCEL and step == _undo(last):
                steps.pop()
            else:
                steps.append(step)
        return Rule(tuple(steps))

    @property
    def is_identity(self) -> bool:
        """Return whether the candidate holds the reference's elements as they are."""
        return not self.steps

    @property
    def is_order(self) -> bool:
        """Return whether it only moves the elements of one array, so that each is there once."""
        return all(step.verb in MOVING for step in self.steps)

    @property
    def joins(self) -> bool:
        """Return whether several reference arrays can go in."""
        return any(step.verb in JOINING for step in self.steps)

    def shape_of(self, shapes: Sequence[Shape], target: Shape = ()) -> Shape:
        """Return the shape that comes out, without touching any data.

        Args:
            shapes: Shapes of the reference arrays.
            target: Shape of the candidate, which a bare ``reshape`` makes.

        Raises:
            ConfigError: Arrays of these shapes cannot take this rule.
        """
        current = tuple(shapes)
        for step in self.steps:
            current = step.shape(current, target)
        if len(current) != 1:
            raise ConfigError(
                f"the layout rule {str(self)!r} leaves {len(current)} arrays, expected one",
                hint="join several references with 'concat 0', 'interleave N' or 'stack'",
            )
        return current[0]

    def fits(self, shapes: Sequence[Shape], target: Shape) -> bool:
        """Return whether arrays of these shapes become one of the target shape."""
        try:
            return self.shape_of(shapes, target) == target
        except ConfigError:
            return False

    def apply(self, arrays: Sequence[Array], shape: Shape | None = None) -> Array:
        """Return what the candidate should hold; a view of the reference where possible.

        Args:
            arrays: The reference arrays.
            shape: Shape of the candidate; None if the rule has no bare ``reshape`` and the
                result need not be checked.

        Raises:
            ConfigError: The arrays' shapes do not fit the rule or the candidate's shape.
        """
        if not self.steps and len(arrays) == 1 and arrays[0].shape == shape:
            return arrays[0]
        found = self.shape_of([array.shape for array in arrays], shape or ())
        if shape is not None and found != tuple(shape):
            raise ConfigError(
                f"the layout rule {str(self)!r} gives the shape {found}, expected {tuple(shape)}"
            )
        current = list(arrays)
        for step in self.steps:
            current = step.apply(current, found if shape is None else shape)
        return current[0]

    @property
    def inverse(self) -> Rule | None:
        """Return the rule from candidate to reference, None if it takes parts, joins or shapes."""
        steps: list[Step] = []
        for step in reversed(self.steps):
            undone = _undo(step)
            if undone is None:
                return None
            steps.append(undone)
        try:
            return Rule(tuple(steps))
        except ConfigError:
            return None

    def inverses(self, shapes: Sequence[Shape], target: Shape) -> tuple[Rule, ...] | None:
        """Return one rule for each reference that gets it back from the candidate.

        Args:
            shapes: Shapes of the references.
            target: Shape of the candidate.

        Returns:
            None if the rule drops a part of a reference, or repeats it.
        """
        undone: list[tuple[Step, ...]] = [() for _ in shapes]
        current, places = tuple(shapes), [*range(len(shapes))]
        for step in self.steps:
            if step.verb in PICKING | COUNTING:
                return None
            if step.verb is Verb.ZEROS:
                places = [place + (place >= step.numbers[0]) for place in places]
            for number, place in enumerate(places if step.verb is not Verb.ZEROS else ()):
                before = current[place if len(current) > 1 else 0]
                undone[number] = (_undo_within(step, place, current, before), *undone[number])
            current = step.shape(current, target)
        return tuple(
            Rule(tuple(_simplest(steps, shape)))
            for steps, shape in zip(undone, shapes, strict=True)
        )


_CANCEL = frozenset({Verb.TRANSPOSE, Verb.PERMUTE, Verb.INSERT, Verb.SQUEEZE, Verb.NOT})

IDENTITY = Rule()
"""The candidate holds the reference's elements in the reference's layout."""


def _undo(step: Step) -> Step | None:
    if step.verb is Verb.PERMUTE:
        return Step(
            Verb.PERMUTE, tuple(step.numbers.index(axis) for axis in range(len(step.numbers)))
        )
    if step.verb is Verb.RESHAPE:
        return Step(Verb.RESHAPE)
    if step.verb in {Verb.INSERT, Verb.SQUEEZE}:
        return Step(Verb.SQUEEZE if step.verb is Verb.INSERT else Verb.INSERT, step.numbers)
    if step.verb in {Verb.SPLIT, Verb.MERGE}:
        return Step(Verb.SPLIT if step.verb is Verb.MERGE else Verb.MERGE, step.numbers)
    return step if step.verb in {Verb.TRANSPOSE, Verb.NOT} else None


def _undo_within(step: Step, place: int, shapes: Sequence[Shape], before: Shape) -> Step:
    """Undo a step when the shapes that went in are known; for joins, get array ``place`` back."""
    if step.verb in {Verb.RESHAPE, Verb.MERGE}:
        return Step(Verb.RESHAPE, before)
    if step.verb is Verb.STACK:
        return Step(Verb.TAKE, (place,))
    if step.verb not in JOINING:
        return _undo(step) or step
    groups = step.numbers[0] if step.verb is Verb.INTERLEAVE else 1
    starts = [0]
    for shape in shapes:
        starts.append(starts[-1] + shape[step.axis] // groups)
    block = Block(starts[place], starts[place + 1], is_share=False)
    if len(set(shapes)) == 1:
        block = Block(place, len(shapes), is_share=True)
    if groups == 1 and step.axis in {0, 1}:
        return Step(Verb.COLUMNS if step.axis else Verb.ROWS, (), block)
    return Step(Verb.GROUPS, (groups, step.axis) if step.axis else (groups,), block)


def _simplest(steps: Sequence[Step], shape: Shape) -> list[Step]:
    """Let a last reshape to the reference's own shape stand without numbers (0-d has none)."""
    simple = list(steps)
    if simple and simple[-1].verb is Verb.RESHAPE and simple[-1].numbers == shape:
        simple[-1] = Step(Verb.RESHAPE)
    return simple
