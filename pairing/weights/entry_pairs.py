"""Which parameter is which within two paired units, and by which rule."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError, DumpError
from padiff.pairing.calls.telling import numbers_in
from padiff.pairing.kinds import KINDS, public_name
from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import PairedBy
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.steps import Verb

from .unit_keys import value_key
from .weight_norm import is_magnitude, norm_doubt
from .weight_plan import Alternative, WeightPair

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .inventory import Entry, Inventory, Unit, UnitPair

__all__ = ["bare_matrices", "holds", "pair_entries"]

_TRANSPOSE = Rule.parse("transpose")
_RESHAPE = Rule.parse("reshape")
_TURN = Rule.parse("permute 0 2 1")
_MATRIX, _CUBE = 2, 3
_UNSURE = 0.3
_NUMBERED = 0.05
"""What equal numbers in names add: ``gamma1`` is rather ``ls_1`` than ``ls_2``."""
_LEAF_WORDS = {
    "gamma": "weight", "scale": "weight", "kernel": "weight", "w": "weight", "_weight": "weight",
    "embedding_table": "weight", "g": "weight", "gain": "weight", "a": "weight", "a_2": "weight",
    "beta": "bias", "b": "bias", "b_2": "bias", "shift": "bias", "offset": "bias", "center": "bias",
    "running_mean": "mean", "_mean": "mean", "moving_mean": "mean",
    "running_var": "variance", "_variance": "variance", "moving_variance": "variance",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The reference entries that a candidate entry is made of, and the rule to its atoms."""

    entries: tuple[Entry, ...]
    rule: Rule
    doubt: float = 1.0


def pair_entries(
    reference: Inventory, candidate: Inventory, pair: UnitPair
) -> tuple[WeightPair, ...]:
    """Pair the entries of two paired units.

    Entries whose shapes do not fit under any rule are left out; the plan reports them as missing.
    """
    found: list[WeightPair] = []
    used: set[int] = set()
    late: list[Entry] = []
    for entry in pair.candidate.entries:
        source = _source_of(pair.reference, entry)
        made = None if source is None else _make((reference, candidate), pair, source, entry)
        if made is None:
            late.append(entry)
            continue
        found.append(made)
        used.update(made.reference)
    left = [entry for entry in pair.reference.entries if entry.record.id not in used]
    return (*found, *_by_shape((reference, candidate), pair, left, late))


def bare_matrices(
    sides: tuple[Inventory, Inventory], pairs: Iterable[UnitPair]
) -> dict[int, tuple[Entry, ...]]:
    """Give matrices of users' own classes for which the partner of their module has no place.

    Args:
        sides: Both sides.
        pairs: Units of modules that are known to be partners.

    Returns:
        By Python's id of a unit; never all entries of a unit.
    """
    found: dict[int, tuple[Entry, ...]] = {}
    for pair in pairs:
        units = pair.reference, pair.candidate
        if any(unit.is_laid_out or unit.kind is not None for unit in units):
            continue
        if not any(_matrices(unit.entries) for unit in units):
            continue
        made = pair_entries(*sides, pair)
        used = (
            {record for one in made for record in one.reference},
            {one.candidate for one in made},
        )
        for unit, taken in zip(units, used, strict=True):
            alone = tuple(one for one in _matrices(unit.entries) if one.record.id not in taken)
            if alone and len(alone) < len(unit.entries):
                found[id(unit)] = alone
    return found


def _matrices(entries: Iterable[Entry]) -> list[Entry]:
    """Give the parameters that multiply."""
    return [
        one for one in entries
        if len(one.neutral_shape) >= _MATRIX and not one.is_buffer and not one.is_alias
    ]  # fmt: skip


def holds(
    sides: tuple[Inventory, Inventory], sources: Sequence[Entry], rule: Rule, entry: Entry
) -> bool | None:
    """Tell whether the candidate entry already holds the reference entries under a rule.

    Returns:
        None if the values are not known, or constant and so without evidence.
    """
    values = [sides[0].value(source) for source in sources]
    other = sides[1].value(entry)
    if (
        other is None
        or any(value is None for value in values)
        or value_key(sides[1], entry) is None
    ):
        return None
    known = [value for value in values if value is not None]
    if len(known) == 1 and rule.is_identity and known[0].digest == other.digest:
        return True
    lows = [value.statistics.minimum for value in known if value.statistics.minimum is not None]
    highs = [value.statistics.maximum for value in known if value.statistics.maximum is not None]
    low, high = other.statistics.minimum, other.statistics.maximum
    if not lows or low is None or high is None or min(lows) > low or max(highs) < high:
        return False
    try:
        arrays = [sides[0].side.array(source.record) for source in sources]
        made = rule.apply(arrays, entry.shape)
        return bool(np.array_equal(made, sides[1].side.array(entry.record)))
    except (ConfigError, DumpError):
        return None


def _source_of(unit: Unit, entry: Entry) -> _Source | None:
    """Find the reference entries that hold the atoms of a candidate entry."""
    if not entry.atoms:
        return None
    holders: dict[str, Entry] = {}
    for other in unit.entries:
        for atom in other.atoms:
            holders.setdefault(atom, other)
    sources = [holders.get(atom) for atom in entry.atoms]
    known = [source for source in sources if source is not None]
    if len(known) != len(sources):
        return None
    if len({source.record.id for source in known}) == 1:
        return _from_one(known[0], entry)
    inverses = {source.rule.inverse for source in known}
    inverse = inverses.pop()
    if inverses or inverse is None or any(len(source.atoms) > 1 for source in known):
        return None
    return _Source(entries=tuple(known), rule=inverse)


def _from_one(source: Entry, entry: Entry) -> _Source | None:
    """Take the atoms of a candidate entry out of one reference entry."""
    if source.atoms == entry.atoms and len(entry.atoms) > 1:
        rule = _repacked(source.rule, entry.rule)
    elif len(entry.atoms) > 1:
        rule = None
    elif len(source.atoms) > 1:
        rule = _share(source.rule, source.atoms.index(entry.atoms[0]), len(source.atoms))
    else:
        rule = source.rule.inverse
    return None if rule is None else _Source(entries=(source,), rule=rule)


def _repacked(reference: Rule, candidate: Rule) -> Rule | None:
    """Give the rule between two layouts of the same pack, if they join its parts alike."""
    back = Rule(reference.steps[1:]).inverse
    if reference.steps[:1] != candidate.steps[:1] or back is None:
        return None
    return back.then(Rule(candidate.steps[1:]))


def _share(rule: Rule, place: int, count: int) -> Rule | None:
    """Give the rule that takes one of equal parts out of a pack."""
    join, back = rule.steps[0], Rule(rule.steps[1:]).inverse
    if back is None or join.axis > 1:
        return None
    if join.verb is Verb.INTERLEAVE:
        axis = f" {join.axis}" if join.axis else ""
        return back.then(Rule.parse(f"groups {join.numbers[0]} {place}/{count}{axis}"))
    return back.then(Rule.parse(f"{('rows', 'columns')[join.axis]} {place}/{count}"))


def _make(
    sides: tuple[Inventory, Inventory], pair: UnitPair, source: _Source, entry: Entry
) -> WeightPair | None:
    """Settle the rule by class; by shape and values where a class is not known."""
    is_packed = len(entry.atoms) > 1 and len(source.entries) == 1
    rule = source.rule if is_packed else source.rule.then(entry.rule)
    shapes = [one.shape for one in source.entries]
    options = _options(rule, shapes, entry, pair)
    if not any(option.fits(shapes, entry.shape) for option in options):
        options = _reshaped(source.rule, shapes, entry, pair)
    options = [option for option in options if option.fits(shapes, entry.shape)]
    options = options or list(_as_kept(shapes, entry, pair))
    if not options:
        return None
    verified = None
    confidence = min(pair.confidence, source.doubt)
    norm = _norm_doubt(pair, source, entry)
    if not norm:
        return None
    confidence = min(confidence, norm)
    if len(options) > 1:
        checks = [holds(sides, source.entries, option, entry) for option in options]
        if True in checks:
            verified = options[checks.index(True)]
            options = [verified]
        else:
            confidence = min(confidence, _UNSURE)
    note = "square, and the class does not say which way it lies" if len(options) > 1 else ""
    if norm < 1.0:
        note = "nothing says along which axis weight_norm runs; Paddle's dim=1 is torch's dim=0"
    ids = tuple(one.record.id for one in source.entries)
    others = [Alternative(reference=ids, rule=option) for option in options[1:]]
    return WeightPair(
        reference=ids,
        candidate=entry.record.id,
        rule=options[0],
        paired_by=pair.paired_by if verified is None else PairedBy.VALUE,
        confidence=confidence,
        alternatives=(*others, *_elsewhere(pair, entry, options[0])),
        note=note,
    )


def _norm_doubt(pair: UnitPair, source: _Source, entry: Entry) -> float:
    """Say how far weight_norm allows two entries to be partners: 1 for all others."""
    if not is_magnitude(entry) or len(source.entries) != 1:
        return 1.0
    ours, theirs = (pair.reference, source.entries[0]), (pair.candidate, entry)
    return norm_doubt(ours, theirs, _UNSURE)


def _options(
    rule: Rule, shapes: Sequence[tuple[int, ...]], entry: Entry, pair: UnitPair
) -> list[Rule]:
    """Give the rules that could hold, the likeliest first."""
    has_same_shape = len(shapes) == 1 and shapes[0] == entry.shape
    if rule == _RESHAPE and has_same_shape:
        return [IDENTITY]
    is_known = pair.reference.is_laid_out and pair.candidate.is_laid_out
    if is_known and rule.fits(shapes, entry.shape):
        return [rule]
    is_unknown = not (pair.reference.is_laid_out or pair.candidate.is_laid_out)
    if is_unknown and has_same_shape:
        return [IDENTITY]
    options = [rule]
    if len(entry.shape) == _MATRIX and not rule.joins and not is_known:
        options.append(rule.then(_TRANSPOSE))
        if "embedding" in {pair.reference.kind, pair.candidate.kind} and has_same_shape:
            options = [rule]
    if len(entry.shape) == _CUBE and not rule.joins and not is_known and not has_same_shape:
        options.append(rule.then(_TURN))  # stacked matrices, each the other way round
    return options


def _reshaped(
    rule: Rule, shapes: Sequence[tuple[int, ...]], entry: Entry, pair: UnitPair
) -> list[Rule]:
    """Give the rules between layouts that differ by axes of length 1: a Linear as a convolution.

    What the one class turns is turned back before, and what the other turns is turned after.

    Args:
        rule: Makes what the reference entry holds of it.
        shapes: Of the reference entry.
        entry: The candidate's.
        pair: The two layers.
    """
    inverse = entry.rule.inverse
    if len(shapes) != 1 or shapes[0] == entry.shape or inverse is None:
        return []
    options = []
    try:
        held, wanted = rule.shape_of(shapes), inverse.shape_of([entry.shape])
        if _squeezed(held) == _squeezed(wanted):
            between = Rule.parse(" ".join(("reshape", *map(str, wanted))))
            is_last = entry.rule.is_identity
            options.append(rule.then(_RESHAPE) if is_last else rule.then(between).then(entry.rule))
    except ConfigError:  # one of the two is flattened or packed
        pass
    is_known = pair.reference.is_laid_out and pair.candidate.is_laid_out
    is_turned = is_known and bool(options)
    if not is_turned and _squeezed(shapes[0]) == _squeezed(entry.shape):
        options += [_RESHAPE] if _RESHAPE not in options else []
    return options


def _as_kept(shapes: Sequence[tuple[int, ...]], entry: Entry, pair: UnitPair) -> Iterable[Rule]:
    """Give the rules where a class is no layer of a framework, or turns the layer it derives from.

    A head that derives from Paddle's Linear and multiplies by the transpose keeps torch's shape;
    an author of einsums keeps an axis of heads that another merges with its neighbour.
    """
    if len(shapes) != 1:
        return
    is_own = [public_name(unit.module.class_path) not in KINDS
              for unit in (pair.reference, pair.candidate)]  # fmt: skip
    if any(is_own) and len(entry.shape) == _MATRIX:
        yield from (one for one in (IDENTITY, _TRANSPOSE) if one.fits(shapes, entry.shape))
    if all(is_own) and _MATRIX in map(len, (shapes[0], entry.shape)):
        long, short = sorted((shapes[0], entry.shape), key=len, reverse=True)
        if any(prod(long[:cut]) == short[0] and prod(long[cut:]) == short[-1]
               for cut in range(1, len(long))):  # fmt: skip
            yield _RESHAPE


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def _elsewhere(pair: UnitPair, entry: Entry, rule: Rule) -> Iterable[Alternative]:
    for unit in pair.alternatives:
        source = _source_of(unit, entry)
        if source is not None and rule.fits([one.shape for one in source.entries], entry.shape):
            yield Alternative(reference=tuple(one.record.id for one in source.entries), rule=rule)


def _by_shape(
    sides: tuple[Inventory, Inventory],
    pair: UnitPair,
    left: Sequence[Entry],
    late: Sequence[Entry],
) -> Iterable[WeightPair]:
    """Pair what differs in name, where kind of thing, words or shape single it out."""
    ours = [entry for entry in left if len(entry.atoms) == 1]
    theirs = [entry for entry in late if len(entry.atoms) == 1 and not entry.is_alias]
    is_alone = len(ours) == len(late) == len(pair.candidate.entries) == 1
    is_growing = True
    while is_growing:
        is_growing = False
        for entry in list(theirs):
            made = _best(sides, pair, ours, entry, is_alone=is_alone)
            if made is not None:
                ours = [other for other in ours if other.record.id not in made.reference]
                theirs.remove(entry)
                is_growing = True
                yield made


def _best(
    sides: tuple[Inventory, Inventory],
    pair: UnitPair,
    ours: Sequence[Entry],
    entry: Entry,
    *,
    is_alone: bool,
) -> WeightPair | None:
    """Pair an entry with the one that clearly fits best; None if several fit as well."""
    possible = [(_alike(other, entry), other) for other in ours]
    fitting = [
        (score, made)
        for score, other in possible
        if other.is_buffer == entry.is_buffer or score == 1.0 or is_alone
        if (made := _made_from(sides, pair, other, entry)) is not None
    ]
    fitting.sort(key=lambda item: -item[0])
    if not fitting or (len(fitting) > 1 and fitting[0][0] <= fitting[1][0]):
        return None
    return fitting[0][1]


def _made_from(
    sides: tuple[Inventory, Inventory], pair: UnitPair, other: Entry, entry: Entry
) -> WeightPair | None:
    inverse = other.rule.inverse
    if inverse is None:
        return None
    return _make(sides, pair, _Source(entries=(other,), rule=inverse, doubt=0.9), entry)


def _alike(reference: Entry, candidate: Entry) -> float:
    one, two = (_leaf(entry.local) for entry in (reference, candidate))
    if one == two:
        return 1.0
    is_numbered = numbers_in(one) == numbers_in(two) != ()
    return 0.9 * likeness(words_of(one), words_of(two)) + _NUMBERED * is_numbered


def _leaf(local: str) -> str:
    head, dot, leaf = local.rpartition(".")
    return head + dot + _LEAF_WORDS.get(leaf, leaf)
