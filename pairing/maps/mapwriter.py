"""Write what pairing found as a map file, and what it left over, to read, edit and give back."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError, Phase, Role
from padiff.dumpfile.bulk import collector_paused
from padiff.pairing.kinds import kind_of
from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import Absence, ModulePair, PairedBy, Pairing, SideName
from padiff.pairing.weights.weight_text import comment, entry, quoted, weight_name

from .mapped import Captured, ModuleLookup
from .pattern import Family, Names, PathPattern, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.side import Side

    Matching = Callable[[PathPattern], dict[int, Captured]]

_MAX_ALONE = 1000
"""With more modules alone than this on one side, nothing is suggested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Paths of the modules without partner that ran or own weights."""

    suggested: tuple[tuple[str, str], ...]
    """One of each side that have the same kind and sizes, or like names."""
    reference: tuple[str, ...]
    """Of the reference, with nothing like them."""
    candidate: tuple[str, ...]
    covered: tuple[tuple[SideName, str], ...]
    """Those whose values are all judged elsewhere, or known to be one-sided."""


def remains_of(pairing: Pairing, reference: Side, candidate: Side) -> Remains:
    """Find what has no partner, and suggest one where something comes near."""
    lost = _lost(pairing, reference, candidate)
    covered: list[tuple[SideName, str]] = []
    alone: list[list[int]] = []
    taken = (
        {pair.reference for pair in pairing.modules},
        {pair.candidate for pair in pairing.modules},
    )
    sides = ((SideName.REFERENCE, reference), (SideName.CANDIDATE, candidate))
    for place, (name, side) in enumerate(sides):
        used = {record.module for record in side.index.records} - taken[place]
        alone.append(sorted(used & lost[place]))
        covered += [(name, side.index.modules[m].path) for m in sorted(used - lost[place])]
    suggested = _suggest(reference, alone[0], candidate, alone[1])
    paths = [
        [side.index.modules[m].path for m in left]
        for (_, side), left in zip(sides, alone, strict=True)
    ]
    return Remains(
        suggested=tuple(suggested),
        reference=_outermost(paths[0], {pair[0] for pair in suggested}),
        candidate=_outermost(paths[1], {pair[1] for pair in suggested}),
        covered=tuple(covered),
    )


def _outermost(paths: Sequence[str], suggested: set[str]) -> tuple[str, ...]:
    """Leave out what is suggested, and what lies inside another path."""
    found: list[str] = []
    known: set[str] = set()
    for path in paths:
        parts = path.split(".")
        around = {".".join(parts[:count]) for count in range(1, len(parts))}
        if path not in suggested:
            known.add(path)
            found += [] if around & known else [path]
    return tuple(found)


def _lost(pairing: Pairing, reference: Side, candidate: Side) -> tuple[set[int], set[int]]:
    """Return the modules of which something is judged nowhere."""
    lost: tuple[set[int], set[int]] = (set(), set())
    for one in pairing.unmatched:
        if one.absence is Absence.MISSING:
            is_reference = one.side is SideName.REFERENCE
            side = reference if is_reference else candidate
            lost[0 if is_reference else 1].add(side.index.records[one.record].module)
    return lost


def _suggest(
    reference: Side, mine: Sequence[int], candidate: Side, theirs: Sequence[int]
) -> list[tuple[str, str]]:
    """Pair what has the same kind and sizes, the likest names first."""
    if max(len(mine), len(theirs)) > _MAX_ALONE:
        return []
    jobs = _jobs(reference, mine), _jobs(candidate, theirs)
    by_job: dict[Hashable, list[int]] = defaultdict(list)
    for module in theirs:
        by_job[jobs[1][module]].append(module)
    ranked = []
    for module in mine:
        path = reference.index.modules[module].path
        for other in by_job.get(jobs[0][module], ()):
            other_path = candidate.index.modules[other].path
            near = likeness(words_of(path), words_of(other_path))
            ranked.append((-near, abs(mine.index(module) - theirs.index(other)), path, other_path))
    found: list[tuple[str, str]] = []
    taken: tuple[set[str], set[str]] = (set(), set())
    for _, _, path, other_path in sorted(ranked):
        if path not in taken[0] and other_path not in taken[1]:
            found.append((path, other_path))
            taken[0].add(path)
            taken[1].add(other_path)
    order = {reference.index.modules[module].path: module for module in mine}
    return sorted(found, key=lambda pair: order[pair[0]])


def _jobs(side: Side, modules: Sequence[int]) -> dict[int, Hashable]:
    """Return kind and sizes of the weights of each module."""
    sizes: dict[int, list[int]] = {module: [] for module in modules}
    for record in side.index.records:
        if record.role is Role.WEIGHT and record.phase is Phase.FORWARD and record.module in sizes:
            sizes[record.module].append(prod(record.shape))
    kinds = {module: kind_of(side.index.modules[module]) for module in modules}
    return {module: (kinds[module], tuple(sorted(sizes[module]))) for module in modules}


_MAX_SHOWN = 4
_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})


@collector_paused()
def pairing_to_toml(
    pairing: Pairing, reference: Side, candidate: Side, *, title: str = "Which module is which."
) -> str:
    """Write the pairs of modules as a map file.

    Runs of numbered modules become one entry with captures where that means exactly the same.
    Evidence, confidence and other possible partners stand above each entry; what has no partner
    follows as entries to complete, commented out. Given back as a map, the file makes the same
    pairs.
    """
    writer = _Writer(pairing, reference, candidate)
    return "\n".join((comment(title), *writer.lines())) + "\n"


class _Writer:
    """One pairing on its way into text."""

    def __init__(self, pairing: Pairing, reference: Side, candidate: Side) -> None:
        self.pairing = pairing
        self.reference, self.candidate = reference, candidate
        self.modules = reference.index.modules, candidate.index.modules

    def lines(self) -> Iterator[str]:
        written, inside = self._sorted_out()
        doubtful = sum(pair.is_ambiguous for pair in written)
        yield comment(f"{len(written)} pairs, {doubtful} of them AMBIGUOUS. Edit, and pass with")
        yield comment("--map to padiff compare, padiff dump --weights-from or padiff weights.")
        yield from self._pairs(written)
        yield from self._weights()
        yield from self._judged_inside(inside)
        yield from _unmatched(remains_of(self.pairing, self.reference, self.candidate))

    def _sorted_out(self) -> tuple[list[ModulePair], list[ModulePair]]:
        """Return the pairs that an entry can state from those that only their content makes.

        An entry pairs the calls of two modules by number and judges what goes in and comes out of
        them. Containers of which one does more than the other (a projection, a residual addition)
        are judged at the modules inside; repeated calls may have run in another order.
        """
        outer = [{module.parent for module in side} for side in self.modules]
        judged = self._judged_as_one()
        calls = {pair.reference: pair.candidate for pair in self.pairing.calls}
        ran = [_calls_of(side) for side in (self.reference, self.candidate)]
        written: list[ModulePair] = []
        inside: list[ModulePair] = []
        for pair in self.pairing.modules:
            key = pair.reference, pair.candidate
            if key == (0, 0):
                continue
            mine, theirs = ran[0].get(key[0], ()), ran[1].get(key[1], ())
            in_order = all(calls.get(a) == b for a, b in zip(mine, theirs, strict=False))
            is_outer = key[0] in outer[0] or key[1] in outer[1]
            is_one = not is_outer or not mine or not theirs or key in judged
            is_mapped = pair.paired_by is PairedBy.MAP
            (written if is_mapped or (in_order and is_one) else inside).append(pair)
        return written, inside

    def _judged_as_one(self) -> set[tuple[int, int]]:
        """Return the modules whose outputs are compared with each other."""
        known, found = self.reference.index.records, self.candidate.index.records
        return {
            (known[pair.reference[0]].module, found[pair.candidate].module)
            for pair in self.pairing.records
            if found[pair.candidate].role is Role.OUTPUT
            and known[pair.reference[0]].role is Role.OUTPUT
            and pair.paired_by is not PairedBy.VALUE
        }

    def _pairs(self, pairs: Sequence[ModulePair]) -> Iterator[str]:
        names = {self._names(pair): pair for pair in pairs}
        lookups = [ModuleLookup(side) for side in self.modules]
        ids = [{_shown(module.path): module.id for module in side} for side in self.modules]
        for family in _exact(fold(names), [lookup.matching for lookup in lookups], ids):
            yield ""
            yield from self._evidence([names[member] for member in family.members])
            yield from entry("pair", family.patterns[:1], family.patterns[1])

    def _names(self, pair: ModulePair) -> Names:
        reference = self.modules[0][pair.reference].path
        return _shown(reference), _shown(self.modules[1][pair.candidate].path)

    def _evidence(self, pairs: Sequence[ModulePair]) -> Iterator[str]:
        """Yield comments that say how pairs were made and what else they could be."""
        counts = Counter(str(pair.paired_by) for pair in pairs)
        if len(counts) == 1:
            how = f"by {next(iter(counts))}"
        else:
            how = "by " + ", ".join(f"{by} ({count})" for by, count in counts.most_common())
        lowest = min(pair.confidence for pair in pairs)
        many = f"{len(pairs)} modules, " if len(pairs) > 1 else ""
        yield comment(f"{many}{how}, confidence {lowest:.2f}")
        doubtful = [pair for pair in pairs if pair.is_ambiguous]
        for pair in doubtful[:_MAX_SHOWN]:
            others = [quoted(self.modules[1][other].path) for other in pair.alternatives]
            yield comment(
                f"AMBIGUOUS: {quoted(self._names(pair)[0])} may also be {' or '.join(others)}"
            )
        if len(doubtful) > _MAX_SHOWN:
            yield comment(f"AMBIGUOUS: and {len(doubtful) - _MAX_SHOWN} more")

    def _judged_inside(self, pairs: Sequence[ModulePair]) -> Iterator[str]:
        if pairs:
            yield ""
            yield comment("Alike in content, but judged at the modules inside or by call; an entry")
            yield comment("would compare their inputs and outputs as they are:")
        sure = {self._names(pair): pair.confidence for pair in pairs}
        for family in fold(sure):
            names = f"{quoted(family.patterns[0])} = {quoted(family.patterns[1])}"
            lowest = min(sure[member] for member in family.members)
            yield comment(f"  {names}, confidence {lowest:.2f}")

    def _weights(self) -> Iterator[str]:
        """Write the weights that do not follow from the pairs of modules."""
        sides = self.reference, self.candidate
        partners = {(pair.reference, pair.candidate) for pair in self.pairing.modules}
        by_rule: dict[str, list[Names]] = defaultdict(list)
        for pair in self.pairing.records:
            target = self.candidate.index.records[pair.candidate]
            sources = [self.reference.index.records[one] for one in pair.reference]
            follows = all((source.module, target.module) in partners for source in sources)
            if _is_owned(target) and not follows and not pair.note.startswith("tied"):
                names = (weight_name(self.reference, source) for source in sources)
                by_rule[str(pair.rule)].append((*names, weight_name(self.candidate, target)))
        known = [_weights_of(side) for side in sides]
        for rule, members in by_rule.items():
            for group in _by_length(members):
                count = len(group[0]) - 1
                ids = [known[0]] * count + [known[1]]
                for family in _exact(fold(group), [_search(one) for one in ids], ids):
                    *made_of, made = family.patterns
                    yield from ("", *entry("weight", made_of, made, rule))


def _unmatched(remains: Remains) -> Iterator[str]:
    """Write what has no partner as entries to complete."""
    for family in fold(remains.suggested):
        yield ""
        yield comment("no partner was found; these two come nearest:")
        yield from map(comment, entry("pair", family.patterns[:1], family.patterns[1]))
    for side, paths in (("reference", remains.reference), ("candidate", remains.candidate)):
        for family in fold((path,) for path in paths):
            yield ""
            yield comment(f"no partner was found, nor anything like it ({len(family.members)}):")
            yield from map(
                comment,
                ("[[ignore]]", f"{side} = {quoted(family.patterns[0])}", 'reason = "why"'),
            )
    if remains.covered:
        yield ""
        yield comment(
            "On one side only, and nothing is lost: what they compute is judged elsewhere:"
        )
    for name in SideName:
        for family in fold((path,) for side, path in remains.covered if side is name):
            yield comment(f"  {name} {quoted(family.patterns[0])}")


def _exact(
    families: Iterable[Family], matching: Sequence[Matching], ids: Sequence[dict[str, int]]
) -> Iterator[Family]:
    """Split the families whose patterns mean more, or other, than their members."""
    for family in families:
        wanted = {
            tuple(known[name] for known, name in zip(ids, member, strict=True))
            for member in family.members
        }
        if _meant(family.patterns, matching) == wanted:
            yield family
            continue
        for member in family.members:
            single = tuple(known[name] for known, name in zip(ids, member, strict=True))
            if _meant(member, matching) == {single}:
                yield Family(patterns=member, members=(member,))


def _meant(patterns: Names, matching: Sequence[Matching]) -> set[tuple[int, ...]] | None:
    """Return the combinations that patterns mean; None if they cannot be applied."""
    groups: list[dict[Captured, list[int]]] = []
    for text, match in zip(patterns, matching, strict=True):
        group: dict[Captured, list[int]] = defaultdict(list)
        try:
            for found, captured in match(PathPattern.parse(text)).items():
                group[captured].append(found)
        except ConfigError:
            return None
        groups.append(group)
    if any(group.keys() != groups[0].keys() for group in groups):
        return None
    if any(len(found) > 1 for group in groups for found in group.values()):
        return None
    return {tuple(group[key][0] for group in groups) for key in groups[0]}


def _search(names: dict[str, int]) -> Matching:
    """Match patterns against full names of weights."""

    def matching(pattern: PathPattern) -> dict[int, Captured]:
        if pattern.is_literal:
            return {names[pattern.path]: ()} if pattern.path in names else {}
        return {
            found: tuple(sorted(captured.items()))
            for name, found in names.items()
            if (captured := pattern.match(name)) is not None
        }

    return matching


def _is_owned(record: RecordInfo) -> bool:
    """Return whether it is a weight or buffer as it was before the run."""
    return record.role in _OWNED and record.phase is Phase.FORWARD


def _weights_of(side: Side) -> dict[str, int]:
    return {
        weight_name(side, record): record.id for record in side.index.records if _is_owned(record)
    }


def _by_length(members: Iterable[Names]) -> list[list[Names]]:
    groups: dict[int, list[Names]] = defaultdict(list)
    for names in members:
        groups[len(names)].append(names)
    return list(groups.values())


def _calls_of(side: Side) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for call in side.index.calls:
        found[call.module].append(call.id)
    return found


def _shown(path: str) -> str:
    return path or "(root)"
