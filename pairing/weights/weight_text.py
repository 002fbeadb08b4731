"""A weight plan as text: names, problems, and the editable map file that says the same.

What the blocks of a model have in common has one name: ``h.{i}.norm1 / norm2 (3 blocks)`` stands
for both norms of three blocks, with all that they own.

Of a refused plan map lines are shown that would settle it, and the trees that it is about. Only
the branches that lead to a problem are drawn; each weight concerned is marked ``<--- HERE``
with what is wrong and what comes closest on the other side::

    candidate
    (root)  Net
    |- ... 2 more
    `- head  Linear
       `- weight (4, 7)   <--- HERE  no partner of this kind and shape; closest: fc.weight (5, 4)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing.result import SideName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import ModuleInfo, RecordInfo
    from padiff.pairing.rule import Rule
    from padiff.pairing.side import Side

    from .weight_plan import WeightAlone, WeightPair, WeightPlan


_SHORT = {'"': '\\"', "\\": "\\\\"}
_BMP = 0xFFFF
_UNSAFE = re.compile(r"[^ !#-\[\]-~]")
"""All but printable ASCII without quotation mark and backslash."""


def quoted(text: str) -> str:
    r"""Return a TOML basic string; everything but printable ASCII is escaped.

    >>> print(quoted('a"b\n\u202e'))
    "a\"b\u000A\u202E"
    """
    return f'"{_UNSAFE.sub(lambda found: _escaped(found[0]), text)}"'


def comment(text: str) -> str:
    """Return a comment of one line, harmless wherever it is printed."""
    shown = "".join(
        char if char.isascii() and char.isprintable() else _escaped(char) for char in text
    )
    return f"# {shown}".rstrip()


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isascii() and char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= _BMP else f"\\U{ord(char):08X}"


_CAPTURES = "ijklmn"
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""A component of a path that is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightKind:
    """Pairs of one kind: of modules of one class at like places, in doubt for like reasons."""

    name: str
    """The place, with the count of blocks."""
    first: WeightPair


def weight_name(side: Side, record: RecordInfo) -> str:
    """Return a parameter's full dotted name."""
    return f"{side.index.modules[record.module].path}{record.slot}".removeprefix(".")


def numbers_in(name: str) -> list[str]:
    """Return the components of a name that are numbers."""
    return NUMBER.findall(name)


def folded_names(names: Iterable[str]) -> str:
    """Write the paths of modules that lie beside each other as one.

    >>> folded_names(["h.0.norm1", "h.0.norm2", "h.1.norm1", "h.1.norm2"])
    'h.{i}.norm1 / norm2 (2 blocks)'
    >>> folded_names(["fc"])
    'fc'
    """
    every = list(names)
    blocks = len({tuple(numbers_in(name)) for name in every})
    folded = list(dict.fromkeys(every if blocks == 1 else with_captures(every)))
    above = folded[0].rpartition(".")[0]
    shown = " / ".join([folded[0], *(name.removeprefix(f"{above}.") for name in folded[1:])])
    return shown if blocks == 1 else f"{shown} ({blocks} blocks)"


def kinds_of(pairs: Iterable[WeightPair], candidate: Side) -> list[WeightKind]:
    """Group pairs by where their modules are, the numbers of blocks aside."""
    groups: dict[tuple[object, ...], list[WeightPair]] = {}
    for pair in pairs:
        record = candidate.index.records[pair.candidate]
        module = candidate.index.modules[record.module]
        place = NUMBER.sub("#", module.path).rpartition(".")[0]
        key = place, module.class_path, pair.note, len(pair.alternatives)
        groups.setdefault(key, []).append(pair)
    found = []
    for group in groups.values():
        records = [candidate.index.records[pair.candidate] for pair in group]
        paths = [candidate.index.modules[record.module].path for record in records]
        is_module = len(group) > 1 and all(paths)
        names = paths if is_module else [weight_name(candidate, record) for record in records]
        found.append(WeightKind(name=folded_names(names), first=group[0]))
    return found


def with_captures(names: Sequence[str]) -> list[str]:
    """Write ``{i}`` for the numbers in names that have the same ones."""
    parts = [name.split(".") for name in names]
    if sum(part.isdecimal() for part in parts[0]) > len(_CAPTURES):
        return list(names)
    made = []
    for name in parts:
        letters = iter(_CAPTURES)
        made.append(".".join(f"{{{next(letters)}}}" if p.isdecimal() else p for p in name))
    return made


def entry(table: str, sources: Sequence[str], target: str, rule: Rule | str = "") -> list[str]:
    """Return the lines of a map entry; one source stands alone, several in a list."""
    shown = ", ".join(map(quoted, sources))
    lines = [
        f"[[{table}]]",
        f"reference = {shown if len(sources) == 1 else f'[{shown}]'}",
        f"candidate = {quoted(target)}",
    ]
    return [*lines, f"rule = {quoted(str(rule))}"] if str(rule) else lines


class WeightError(ConfigError):
    """Weights cannot be paired or do not fit; everything that is wrong is listed."""

    def __init__(self, task: str, problems: Sequence[str], trees: Sequence[str] = ()) -> None:
        """Report what was being done and all that stands in the way.

        Args:
            task: How the message begins: ``cannot load weights from 'a.pth'``.
            problems: One line for each.
            trees: Where in the two models they are, from ``draw_problems``, and what to write
                into a map, from ``example_of``.
        """
        count = f"{len(problems)} problem" + ("s" if len(problems) != 1 else "")
        super().__init__(
            f"{task}: {count}",
            details=(*problems, *trees),
            hint="write the pairs in a map file (padiff weights plan -o writes one to edit), or "
            "load what fits with strict=False",
        )
        self.problems = tuple(problems)


def names_of(side: Side, records: Sequence[int]) -> str:
    """Return the names of several records, joined."""
    return " + ".join(weight_name(side, side.index.records[record]) for record in records)


def problems_of(plan: WeightPlan, reference: Side, candidate: Side) -> Iterator[str]:
    """Describe what is missing, in one line each, and what is ambiguous, in one for each kind."""
    for alone in plan.missing:
        is_reference = alone.side is SideName.REFERENCE
        own, other = (reference, candidate) if is_reference else (candidate, reference)
        record = own.index.records[alone.record]
        yield (
            f"{alone.side} {weight_name(own, record)} {record.shape}: {alone.reason}"
            f"{closest_of(alone, other)}"
        )
    for kind in kinds_of(plan.ambiguous, candidate):
        pair = kind.first
        reason = f" ({pair.note})" if pair.note else ""
        name = weight_name(candidate, candidate.index.records[pair.candidate])
        such = "" if name == kind.name else f"; {name}"
        yield f"candidate {kind.name} is ambiguous{reason}{such}: {options_of(pair, reference)}"


def plan_to_toml(plan: WeightPlan, reference: Side, candidate: Side) -> str:
    """Write the plan as a map file that a user can edit.

    What is missing or ambiguous stands in comments beside what it concerns.
    """
    lines = ["# Written by padiff weights plan; edit, and pass it with --map."]
    for pair in plan.pairs:
        name = weight_name(candidate, candidate.index.records[pair.candidate])
        sources = [weight_name(reference, reference.index.records[r]) for r in pair.reference]
        table, *rest = entry("weight", sources, name, pair.rule)
        lines += ["", table]
        if pair.is_ambiguous:
            lines.append(comment(f"ambiguous: {options_of(pair, reference, at_most=9)}"))
        lines += rest
    for alone in plan.alone:
        own = reference if alone.side is SideName.REFERENCE else candidate
        name = weight_name(own, own.index.records[alone.record])
        word = "missing" if alone.is_missing else "dropped"
        lines += ["", comment(f"{word}: {alone.side} {name}: {alone.reason}")]
    return "\n".join(lines) + "\n"


def options_of(pair: WeightPair, reference: Side, *, at_most: int = 3) -> str:
    """Describe what an ambiguous parameter could be made of, the plan's choice first."""
    options = [(pair.reference, pair.rule), *((o.reference, o.rule) for o in pair.alternatives)]
    shown = [f"{_compact(reference, records)} ({rule})" for records, rule in options[:at_most]]
    more = len(options) - len(shown)
    return " or ".join(shown) + (f" or {more} other way{'s' * (more > 1)}" if more else "")


def _compact(side: Side, records: Sequence[int]) -> str:
    """Write what several names have in common once: ``attn.(q + k + v).weight``."""
    names = [weight_name(side, side.index.records[record]).split(".") for record in records]
    if len(names) == 1:
        return ".".join(names[0])
    least = min(map(len, names)) - 1
    before = next((at for at in range(least) if len({name[at] for name in names}) > 1), least)
    room = least - before
    after = next((at for at in range(room) if len({name[-1 - at] for name in names}) > 1), room)
    middle = " + ".join(".".join(name[before : len(name) - after]) for name in names)
    return ".".join((*names[0][:before], f"({middle})", *names[0][len(names[0]) - after :]))


def closest_of(alone: WeightAlone, other: Side) -> str:
    """Name what comes nearest on the other side; empty if nothing does."""
    records = [other.index.records[record] for record in alone.closest]
    shown = ", ".join(f"{weight_name(other, record)} {record.shape}" for record in records)
    return f"; closest: {shown}" if shown else ""


def example_of(plan: WeightPlan, reference: Side, candidate: Side) -> tuple[str, ...]:
    """Write the map entries that say what the plan would take for what is ambiguous.

    Layers whose numbers are the same on both sides are written as one, ``layers.{i}``; of others
    that are numbered, the first stands for all.

    Returns:
        Lines of TOML after one that introduces them; nothing if nothing is ambiguous.
    """
    entries: dict[str, list[str]] = {}
    for pair in plan.ambiguous:
        target, lines = _entry(pair, plan, reference, candidate)
        entries.setdefault(NUMBER.sub("#", target), lines)
    if not entries:
        return ()
    return (
        "such an entry in a map file settles it; this one takes the first way of the list:"
        if len(entries) == 1
        else "such entries in a map file settle it; these take the first way of each list:",
        *(f"  {line}" for lines in entries.values() for line in lines),
    )


def _entry(
    pair: WeightPair, plan: WeightPlan, reference: Side, candidate: Side
) -> tuple[str, list[str]]:
    """Return what an entry is about on the candidate, without numbers of blocks, and its lines."""
    module = _module_pair(pair, plan, reference, candidate)
    sides = reference.index.records, candidate.index.records
    names = [weight_name(reference, sides[0][one]) for one in pair.reference]
    names.append(weight_name(candidate, sides[1][pair.candidate]))
    place = (module or names)[-1]
    if _is_alike(plan, pair, reference, candidate):
        names, module = with_captures(names), module and with_captures(module)
    *sources, target = module or names
    if module is None:
        return place, entry("weight", sources, target, pair.rule)
    return place, entry("pair", sources, target)


def _module_pair(
    first: WeightPair, plan: WeightPlan, reference: Side, candidate: Side
) -> list[str] | None:
    """Return the paths of two modules if pairing these settles all their weights."""
    target = candidate.index.records[first.candidate].module
    own = [p for p in plan.pairs if candidate.index.records[p.candidate].module == target]
    sources = {reference.index.records[one].module for pair in own for one in pair.reference}
    is_choice = any(option.reference == first.reference for option in first.alternatives)
    is_single = len(sources) == 1 and all(len(pair.reference) == 1 for pair in own)
    if not is_single or is_choice:
        return None
    paths = reference.index.modules[sources.pop()].path, candidate.index.modules[target].path
    return list(paths) if all(paths) else None


def _is_alike(plan: WeightPlan, first: WeightPair, reference: Side, candidate: Side) -> bool:
    """Return whether the plan has what it has for the first one in all layers of such names."""

    def forms(pair: WeightPair) -> tuple[list[str], list[str], list[list[str]]]:
        names = [weight_name(reference, reference.index.records[one]) for one in pair.reference]
        names.append(weight_name(candidate, candidate.index.records[pair.candidate]))
        plain = [NUMBER.sub("#", name) for name in names]
        return plain[-1:], plain[:-1], [NUMBER.findall(name) for name in names]

    wanted = forms(first)
    alike = [found for found in map(forms, plan.pairs) if found[0] == wanted[0]]
    return all(
        found[1] == wanted[1] and all(numbers == found[2][0] for numbers in found[2])
        for found in alike
    )


_MAX_MARKS = 40
"""More marks on one side are counted, not drawn."""


def draw_problems(plan: WeightPlan, reference: Side, candidate: Side) -> tuple[str, ...]:
    """Draw both trees with what is missing; nothing if nothing is.

    What is ambiguous has a partner, and is no matter of where it is: one line says it for all
    blocks, and map entries stand beside it.
    """
    marks: tuple[dict[int, str], dict[int, str]] = ({}, {})
    for alone in plan.missing:
        place = int(alone.side is SideName.CANDIDATE)
        other = (candidate, reference)[place]
        marks[place][alone.record] = f"{alone.reason}{closest_of(alone, other)}"
    lines: list[str] = []
    sides = (SideName.REFERENCE, reference), (SideName.CANDIDATE, candidate)
    for (name, side), found in zip(sides, marks, strict=True):
        if found:
            lines += [str(name), *_Tree(side, found).lines()]
    return tuple(lines)


class _Tree:
    """One side's tree, cut down to the branches with marks."""

    def __init__(self, side: Side, marks: Mapping[int, str]) -> None:
        self.modules = side.index.modules
        self.records = side.index.records
        shown = sorted(marks)[:_MAX_MARKS]
        self.hidden = len(marks) - len(shown)
        self.marks = {record: marks[record] for record in shown}
        self.weights: dict[int, list[int]] = {}
        for record in shown:
            self.weights.setdefault(self.records[record].module, []).append(record)
        self.kept = {above for module in self.weights for above in self._up(module)}
        self.children: dict[int | None, list[ModuleInfo]] = {}
        for module in self.modules:
            self.children.setdefault(module.parent, []).append(module)

    def lines(self) -> Iterator[str]:
        waiting = [(self.modules[0], "", "")]  # no recursion: a dump may be of any depth
        while waiting:
            module, stem, below = waiting.pop()
            above = "" if module.parent is None else self.modules[module.parent].path
            name = module.path.removeprefix(above).removeprefix(".") or "(root)"
            yield f"{stem}{name}  {module.class_name}"
            members = self.children.get(module.id, [])
            kept = [member for member in members if member.id in self.kept]
            own = list(self._own(module, len(members) - len(kept)))
            stems = _stems(len(own) + len(kept))
            for text, (here, _) in zip(own, stems, strict=False):
                yield f"{below}{here}{text}"
            inner = zip(kept, stems[len(own) :], strict=True)
            waiting += reversed([(one, below + here, below + on) for one, (here, on) in inner])
        if self.hidden:
            yield f"... and {self.hidden} more"

    def _up(self, module: int | None) -> Iterator[int]:
        while module is not None:
            yield module
            module = self.modules[module].parent

    def _own(self, module: ModuleInfo, left_out: int) -> Iterator[str]:
        for record in self.weights.get(module.id, ()):
            info = self.records[record]
            yield f"{info.slot[1:]} {info.shape}   <--- HERE  {self.marks[record]}"
        if left_out:
            yield f"... {left_out} more"


def _stems(count: int) -> list[tuple[str, str]]:
    """Return for each member what stands before it and before what is below it."""
    return [("|- ", "|  ")] * (count - 1) + [("`- ", "   ")] * (count > 0)
