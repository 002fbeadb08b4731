"""Show a program: its operators by the module call that they ran in, and its holes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.comparer.report.escape import printable
from padiff.comparer.report.numbers import plural
from padiff.dumpfile import CALL_ROLES
from padiff.program import LeafKind, RecordedProgram

from .show_text import in_tree_order
from .spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import CallInfo, Index, Manifest, ModuleInfo
    from padiff.program import Operator, Value

    from .show_text import Choice

OUTSIDE = "(outside all modules)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The operators of one module call, without those of the calls inside it."""

    module: ModuleInfo | None
    """None outside all modules."""
    call: CallInfo | None
    operators: Sequence[Operator]

    @property
    def path(self) -> str:
        """Path of the module, ``""`` outside all modules."""
        return "" if self.module is None else self.module.path

    @property
    def name(self) -> str:
        """The module's path, with the number of the call if it is a later one."""
        if self.module is None or self.call is None:
            return OUTSIDE
        return _call_name(self.module, self.call)


def step_line(index: Index) -> str:
    """Return the heading of a step and rank."""
    return f"STEP {index.step} RANK {index.rank}"


def call_name(index: Index, operator: Operator) -> str:
    """Return the name of the module call that an operator ran in."""
    if operator.call is None:
        return OUTSIDE
    call = index.calls[operator.call]
    return _call_name(index.modules[call.module], call)


def _call_name(module: ModuleInfo, call: CallInfo) -> str:
    number = f"#{call.index}" if call.index else ""
    return f"{module.path or '(root)'}{number}"


def no_program(manifest: Manifest, *, plain: bool = True) -> str:
    """Return that a dump holds no program, and why as far as its notes say so."""
    start = "no program was recorded"
    notes = [note for note in manifest.notes if note.startswith(start)]
    return printable(notes[0], ascii_only=plain) if notes else start


def groups(recorded: RecordedProgram, choice: Choice) -> Iterator[Group]:
    """Yield the groups of a program in the order of the module tree.

    What ran outside all modules comes first if it ran before the first module's, else last.
    """
    index = recorded.index
    by_call: dict[int | None, list[Operator]] = {}
    for operator in recorded.program.operators:
        by_call.setdefault(operator.call, []).append(operator)
    outside = by_call.pop(None, [])
    first = min((found[0].id for found in by_call.values()), default=0)
    if not choice.include:
        yield from _outside([one for one in outside if one.id < first])
    yield from _inside(index, choice, by_call)
    if not choice.include:
        yield from _outside([one for one in outside if one.id > first])


def _outside(operators: list[Operator]) -> Iterator[Group]:
    if operators:
        yield Group(module=None, call=None, operators=operators)


def _inside(
    index: Index, choice: Choice, by_call: dict[int | None, list[Operator]]
) -> Iterator[Group]:
    calls: dict[int, list[CallInfo]] = {}
    for call in index.calls:
        calls.setdefault(call.module, []).append(call)
    for module, _ in in_tree_order(index, choice):
        for call in calls.get(module.id, []):
            if call.id in by_call:
                yield Group(module=module, call=call, operators=by_call[call.id])


def program_lines(
    recorded: RecordedProgram, choice: Choice, *, plain: bool, max_rows: int = 0
) -> Iterator[str]:
    """Yield the lines of a program's text.

    Args:
        recorded: The program of one step and rank.
        choice: Which modules to show.
        plain: Whether only ASCII can be shown.
        max_rows: How many operators; 0: all.
    """
    index, program = recorded.index, recorded.program
    holes = sum(value.kind is LeafKind.HOLE for value in program.values)
    yield ""
    yield (
        f"{step_line(index)}  {plural(len(program.operators), 'operator')}, "
        f"{plural(len(program.values), 'value')}, {plural(holes, 'hole')}"
    )
    spelling = Spelling(recorded, plain=plain)
    drawn = 0
    for group in groups(recorded, choice):
        yield _heading(spelling, group)
        for operator in group.operators:
            if max_rows and drawn >= max_rows:
                yield "  ... (--max-rows 0 shows all)"
                return
            yield f"  {_line(spelling, operator, group.path)}"
            drawn += 1
    if program.outputs and not choice.include:
        yield f"returns {spelling.values(program.outputs)}"
    if recorded.construction is not None and not choice.include:
        yield "(while the model was built)"
        left = max(max_rows - drawn, 0) if max_rows else None
        yield from _built_lines(recorded.construction, left, plain=plain)


def _built_lines(built: RecordedProgram, most: int | None, *, plain: bool) -> Iterator[str]:
    """Yield the lines of what made buffers, with their names; at most so many."""
    spelling = Spelling(built, plain=plain)
    for operator in built.program.operators[:most]:
        names = (built.program.values[value].name for value in operator.outputs)
        held = "".join(f"  [buffer {spelling.safe(name)}]" for name in names if name)
        yield f"  {_line(spelling, operator, '')}{held}"


def _heading(spelling: Spelling, group: Group) -> str:
    name = spelling.safe(group.name)
    if group.module is None or group.call is None:
        return name
    site = f"  at {spelling.site(group.call.site)}" if group.call.site else ""
    return f"{name}  {spelling.safe(group.module.class_name)}{site}"


def _line(spelling: Spelling, operator: Operator, module: str) -> str:
    """Return the line of one operator."""
    made = spelling.values(operator.outputs, module)
    text = f"{spelling.operator(operator)}({spelling.arguments(operator, module)})"
    read = spelling.read_out(operator)
    parts = [
        f"{made} = {text}" if made else text,
        f"-> {read}" if read else "",
        spelling.specs(operator.outputs),
        spelling.site(operator.site),
        *(f"[{mark}]" for mark in marks(operator)),
    ]
    return "  ".join(part for part in parts if part)


def marks(operator: Operator) -> list[str]:
    """Return what is special about how an operator ran."""
    found = {
        "in place": operator.in_place,
        "random": operator.random,
        "no grad": operator.no_grad,
        "spread": operator.spread,
        "update": operator.phase == "update",
    }
    words = [word for word, holds in found.items() if holds]
    return words + ([f"autocast {operator.autocast}"] if operator.autocast else [])


class HoleReason(StrEnum):
    """What is known of how a hole came to be."""

    COMPUTED = "a gradient arrived for it: what computed it was not recorded"
    BORDER = "a module takes or returns it, and no recorded operator made it"
    UNKNOWN = "made by numpy, an extension or another thread, or kept as a plain attribute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A floating-point value that came from nowhere."""

    value: Value
    reason: HoleReason
    operator: Operator | None
    """The first operator that takes it; None if none does."""
    readers: int
    """How many operators take it."""


def find_holes(recorded: RecordedProgram, choice: Choice) -> list[Hole]:
    """Return the holes of a program in the order in which they were met."""
    program = recorded.program
    holes = {value.id: value for value in program.values if value.kind is LeafKind.HOLE}
    readers: dict[int, list[Operator]] = {id_: [] for id_ in holes}
    for operator in program.operators if holes else ():
        for id_ in set(operator.taken) & readers.keys():
            readers[id_].append(operator)
    wanted = choice.wanted(recorded.index) if choice.include else None
    return [
        _hole(recorded, value, readers[id_])
        for id_, value in holes.items()
        if wanted is None or _module_of(recorded, id_, readers[id_]) in wanted
    ]


def _module_of(recorded: RecordedProgram, value: int, readers: list[Operator]) -> int | None:
    """Return the module whose call takes a hole first, else that of its record."""
    record = recorded.records.get(value)
    module = None if record is None else record.module
    if readers and readers[0].call is not None:
        module = recorded.index.calls[readers[0].call].module
    return module


def _hole(recorded: RecordedProgram, value: Value, readers: list[Operator]) -> Hole:
    record = recorded.records.get(value.id)
    reason = HoleReason.UNKNOWN
    if recorded.got_gradient(value.id):
        reason = HoleReason.COMPUTED
    elif record is not None and record.role in CALL_ROLES:
        reason = HoleReason.BORDER
    first = readers[0] if readers else None
    return Hole(value=value, reason=reason, operator=first, readers=len(readers))


def hole_lines(
    recorded: RecordedProgram, choice: Choice, *, plain: bool, max_rows: int = 0
) -> Iterator[str]:
    """Yield the lines that list the holes of a program.

    Args:
        recorded: The program of one step and rank.
        choice: Which modules to show.
        plain: Whether only ASCII can be shown.
        max_rows: How many holes; 0: all.
    """
    found = find_holes(recorded, choice)
    operators = plural(len(recorded.program.operators), "operator")
    yield ""
    yield f"{step_line(recorded.index)}  {operators}, {plural(len(found), 'hole')}"
    if not found:
        yield (
            "  no holes: every floating-point value comes from an input, a parameter, a buffer, a "
            "constant or a recorded operator"
        )
    spelling = Spelling(recorded, plain=plain)
    for hole in found[: max_rows or None]:
        yield from _hole_lines(recorded, spelling, hole)
    if max_rows and len(found) > max_rows:
        yield "  ... (--max-rows 0 shows all)"


def _hole_lines(recorded: RecordedProgram, spelling: Spelling, hole: Hole) -> Iterator[str]:
    yield f"  {spelling.value(hole.value.id)}  {spelling.spec(hole.value.id)}"
    operator = hole.operator
    if operator is None:
        record = recorded.records.get(hole.value.id)
        where = "nothing" if record is None else str(recorded.index.address(record))
        yield f"    taken by  no operator; seen as {spelling.safe(where)}"
    else:
        where = spelling.safe(call_name(recorded.index, operator))
        more = f"  and {hole.readers - 1} more" if hole.readers > 1 else ""
        site = f"  {spelling.site(operator.site)}" if operator.site is not None else ""
        yield f"    taken by  {spelling.operator(operator)} in {where}{site}{more}"
    yield f"    why       {hole.reason}"
