"""Which records of several ranks are parts of one: those of one module, call, role and slot.

Stages of a pipeline hold no weights of the same name. They make one tree; what a module that stands
on several of them takes comes into the first, what it gives leaves the last. Their microbatches are
parts, too: each of them is counted as if further ranks had run it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from padiff.dumpfile import CallInfo, CompareError, Draw, Mesh, ModuleInfo, Phase, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumpfile import Index, Layout, RecordInfo


MICROBATCH = "microbatch"
"""Name of the dimension along which a pipeline's microbatches are parts."""
_PHASES = tuple(Phase)
_ENTERING = frozenset({Role.INPUT, Role.GRAD_INPUT})
"""Roles of what crosses the border of a module where its first stage begins."""
_CROSSING = frozenset({*_ENTERING, Role.OUTPUT, Role.GRAD_OUTPUT})

Order = tuple[int, int, int, int]
_Name = tuple[str, int]
"""Of a call: its module's path, and how many calls of that came before."""


class Key(NamedTuple):
    """What a record is within a step, on whatever rank."""

    module: str
    call: int | None
    """How many calls of the module came before."""
    phase: Phase
    role: Role
    slot: str
    number: int
    """How many such records came before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedRecord:
    """One record of a step that several ranks ran together."""

    key: Key
    parts: Mapping[int, RecordInfo]
    """By rank."""
    order: int

    @property
    def first(self) -> RecordInfo:
        """The record of the first rank that has one."""
        return next(iter(self.parts.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedStep:
    """Modules, calls and records of all ranks of a step."""

    step: int
    indexes: Mapping[int, Index]
    """By rank, in order."""
    modules: tuple[ModuleInfo, ...]
    calls: tuple[CallInfo, ...]
    records: tuple[JoinedRecord, ...]
    draws: tuple[Draw, ...] | None
    span: int
    """What the number of a rank is raised by for each microbatch after the first."""

    def grid(
        self, ranks: Sequence[int], recorded: Layout | None, meshes: Sequence[Mesh], unnamed: str
    ) -> Mesh:
        """Return the grid of the ranks that hold a record; see ``grid_of``."""
        first = [rank for rank in ranks if rank < self.span]
        if len(first) == len(ranks):
            return grid_of(ranks, recorded, meshes, unnamed=unnamed)
        count = len(ranks) // len(first)
        plain = grid_of(first, recorded, meshes, unnamed=unnamed)
        inner = len(plain.ranks) > 1
        return Mesh(
            dims=(MICROBATCH, *(plain.dims if inner else ())),
            sizes=(count, *(plain.sizes if inner else ())),
            ranks=tuple(
                rank + number * self.span for number in range(count) for rank in plain.ranks
            ),
        )


def roots_of(index: Index) -> list[int]:
    """Return the calls that no other call is around."""
    return [call.id for call in index.calls if call.parent is None]


class _Microbatches:
    """Which microbatch each call of a rank belongs to, and which call it is within that."""

    def __init__(self, index: Index, *, are_joined: bool) -> None:
        self.index = index
        self._places: dict[int, tuple[int, int]] = {}
        roots = {root: number for number, root in enumerate(roots_of(index))}
        met: Counter[tuple[int, int]] = Counter()
        of: dict[int, int] = {}
        for call in index.calls:
            of[call.id] = roots[call.id] if call.parent is None else of[call.parent]
            number = of[call.id] if are_joined else 0
            place = met[number, call.module] if are_joined else call.index
            met[number, call.module] += 1
            self._places[call.id] = number, place

    def of(self, call: int | None) -> tuple[int, int | None]:
        """Return the microbatch of a call, and how many calls of its module came before in that."""
        return (0, None) if call is None else self._places[call]


def keys_of(index: Index) -> list[Key]:
    """Return the key of each record, in order."""
    met: Counter[tuple[object, ...]] = Counter()
    keys = []
    for record in index.records:
        path = index.modules[record.module].path
        call = None if record.call is None else index.calls[record.call].index
        plain = path, call, record.phase, record.role, record.slot
        keys.append(Key(*plain, met[plain]))
        met[plain] += 1
    return keys


def join(indexes: Mapping[int, Index], *, has_microbatches: bool = False) -> JoinedStep:
    """Join what the ranks of one step recorded.

    Args:
        indexes: By rank, in order; at least one.
        has_microbatches: Whether the other side runs in one go what stages run several times.

    Raises:
        CompareError: Two stages of a pipeline have different modules of one name.
    """
    stages = _stages(indexes)
    modules = _modules(indexes)
    orders = _Orders(indexes, stages)
    are_joined = has_microbatches and len(stages) > 1
    batches = {rank: _Microbatches(index, are_joined=are_joined) for rank, index in indexes.items()}
    calls, numbers = _calls(batches, orders, {one.path: one.id for one in modules})
    span = 1 + max(indexes)
    records = _records(batches, stages, orders, span)
    virtual = {rank for record in records for rank in record.parts} - indexes.keys()
    return JoinedStep(
        step=next(iter(indexes.values())).step,
        indexes={**indexes, **{rank: indexes[rank % span] for rank in sorted(virtual)}},
        modules=modules,
        calls=calls,
        records=records,
        draws=_draws(batches, stages, orders, numbers),
        span=span,
    )


def _stages(indexes: Mapping[int, Index]) -> tuple[tuple[int, ...], ...]:
    """Group ranks that hold weights of the same modules.

    Raises:
        CompareError: Ranks with other modules hold other weights of one name.
    """
    groups: list[tuple[list[int], dict[str, str]]] = []
    for rank, index in indexes.items():
        held = _held(index)
        near = [group for group in groups if not held.keys().isdisjoint(group[1])]
        for ranks, known in near:
            _check_names((ranks[0], rank), indexes, (known, held))
        ranks = [one for group in near for one in group[0]] + [rank]
        merged = {name: digest for group in near for name, digest in group[1].items()}
        groups = [group for group in groups if group not in near]
        groups.append((ranks, {**held, **merged}))
    return tuple(tuple(ranks) for ranks, _ in groups)


def _held(index: Index) -> dict[str, str]:
    """Return a digest of each weight that a rank holds, by name."""
    return {
        f"{index.modules[record.module].path}{record.slot}": index.values[record.value].digest
        for record in index.records
        if record.role is Role.WEIGHT and record.phase is Phase.FORWARD and record.value is not None
    }


def _check_names(
    ranks: tuple[int, int],
    indexes: Mapping[int, Index],
    held: tuple[Mapping[str, str], Mapping[str, str]],
) -> None:
    """Refuse two ranks whose modules have the same names and are not the same."""
    paths = [{module.path for module in indexes[rank].modules} for rank in ranks]
    if paths[0] == paths[1]:
        return
    other = [name for name, digest in held[0].items() if held[1].get(name, digest) != digest]
    spread = {
        f"{indexes[ranks[1]].modules[record.module].path}{record.slot}"
        for record in indexes[ranks[1]].records
        if record.layout is not None
    }
    other = [name for name in other if name not in spread]
    if other:
        raise CompareError(
            f"cannot take ranks {ranks[0]} and {ranks[1]} as one side: their modules are not the "
            f"same, and {other[0].lstrip('.')!r} is another weight on each of them",
            hint="give the modules of each stage the names that they have in the whole model",
        )


def _modules(indexes: Mapping[int, Index]) -> tuple[ModuleInfo, ...]:
    modules: dict[str, ModuleInfo] = {}
    for index in indexes.values():
        for module in index.modules:
            if module.path in modules:
                continue
            parent = None if module.parent is None else index.modules[module.parent].path
            above = None if parent is None else modules[parent].id
            modules[module.path] = replace(module, id=len(modules), parent=above)
    return tuple(modules.values())


class _Orders:
    """Where the events of all ranks stand in one order.

    Ranks of one stage ran the same: the orders of the first of them count. Stages ran a forward
    pass one after the other, and the backward pass the other way round.
    """

    def __init__(self, indexes: Mapping[int, Index], stages: Sequence[Sequence[int]]) -> None:
        self.stage = {rank: place for place, ranks in enumerate(stages) for rank in ranks}
        self._is_plain = len(stages) == 1
        self._roots = {
            rank: [call.start for call in index.calls if call.parent is None]
            for rank, index in indexes.items()
        }
        events = {
            self._key(rank, phase, order)
            for rank, index in indexes.items()
            for phase, order in _events(index)
        }
        self._numbers = {key: number for number, key in enumerate(sorted(events))}

    def of(self, rank: int, phase: Phase, order: int) -> int:
        """Return where an event of a rank stands."""
        return order if self._is_plain else self._numbers[self._key(rank, phase, order)]

    def _key(self, rank: int, phase: Phase, order: int) -> Order:
        stage = self.stage[rank]
        if phase is Phase.FORWARD:
            return 0, bisect_right(self._roots[rank], order), stage, order
        return _PHASES.index(phase), 0, -stage, order


def _events(index: Index) -> list[tuple[Phase, int]]:
    found = [(record.phase, record.order) for record in index.records]
    found += [(Phase.FORWARD, call.start) for call in index.calls]
    found += [(Phase.FORWARD, call.end) for call in index.calls if call.end is not None]
    found += [(Phase.FORWARD, draw.after) for draw in index.draws or ()]
    return found


def _calls(
    batches: Mapping[int, _Microbatches], orders: _Orders, modules: Mapping[str, int]
) -> tuple[tuple[CallInfo, ...], dict[_Name, int]]:
    """Join the calls of all ranks; return them, and the number of each."""
    found: dict[_Name, CallInfo] = {}
    above: dict[_Name, _Name | None] = {}
    stages: dict[_Name, int] = {}
    for rank, batch in batches.items():
        index = batch.index
        names = [
            (index.modules[call.module].path, batch.of(call.id)[1] or 0) for call in index.calls
        ]
        for name, call in zip(names, index.calls, strict=True):
            if batch.of(call.id)[0] or stages.get(name) == orders.stage[rank]:
                continue
            stages[name] = orders.stage[rank]
            start = orders.of(rank, Phase.FORWARD, call.start)
            end = None if call.end is None else orders.of(rank, Phase.FORWARD, call.end)
            if name in found:
                found[name] = replace(found[name], end=end)
                continue
            above[name] = None if call.parent is None else names[call.parent]
            found[name] = replace(
                call, module=modules[name[0]], index=name[1], start=start, end=end
            )
    numbers = {
        name: number
        for number, name in enumerate(sorted(found, key=lambda name: found[name].start))
    }
    calls = []
    for name, number in numbers.items():
        caller = above[name]
        parent = None if caller is None else numbers[caller]
        calls.append(replace(found[name], id=number, parent=parent))
    return tuple(calls), numbers


def _records(
    batches: Mapping[int, _Microbatches],
    stages: Sequence[Sequence[int]],
    orders: _Orders,
    span: int,
) -> tuple[JoinedRecord, ...]:
    parts: dict[Key, dict[int, RecordInfo]] = {}
    for rank, batch in batches.items():
        keys = keys_of(batch.index)
        for key, record in zip(keys, batch.index.records, strict=True):
            number, call = batch.of(record.call)
            parts.setdefault(key._replace(call=call), {})[rank + number * span] = record
    on = _stages_of_calls(batches, orders)
    for key, found in list(parts.items()):
        if key.role not in _CROSSING or len(on[key.module, key.call or 0]) == 1:
            continue
        at = min if key.role in _ENTERING else max
        kept = stages[at(on[key.module, key.call or 0])]
        parts[key] = {rank: one for rank, one in found.items() if rank % span in kept}
    made = []
    for key, found in parts.items():
        if not found:
            continue
        ordered = dict(sorted(found.items()))
        rank, record = next(iter(ordered.items()))
        order = orders.of(rank, key.phase, record.order)
        made.append(JoinedRecord(key=key, parts=ordered, order=order))
    made.sort(key=lambda one: (_PHASES.index(one.key.phase), one.order))
    return tuple(made)


def _stages_of_calls(
    batches: Mapping[int, _Microbatches], orders: _Orders
) -> dict[_Name, set[int]]:
    """Return on which stages each call ran."""
    found: dict[_Name, set[int]] = {}
    for rank, batch in batches.items():
        for call in batch.index.calls:
            name = batch.index.modules[call.module].path, batch.of(call.id)[1] or 0
            found.setdefault(name, set()).add(orders.stage[rank])
    return found


def _draws(
    batches: Mapping[int, _Microbatches],
    stages: Sequence[Sequence[int]],
    orders: _Orders,
    numbers: Mapping[_Name, int],
) -> tuple[Draw, ...] | None:
    """Join where random numbers were drawn, as the first rank of each stage tells."""
    found: list[Draw] = []
    for stage in stages:
        batch = batches[stage[0]]
        index = batch.index
        if index.draws is None:
            return None
        for draw in index.draws:
            call = None if draw.call is None else index.calls[draw.call]
            number_, place = batch.of(draw.call)
            if number_:
                continue
            name = None if call is None else (index.modules[call.module].path, place or 0)
            after = orders.of(stage[0], Phase.FORWARD, draw.after)
            number = None if name is None else numbers[name]
            found.append(replace(draw, call=number, after=after))
    return tuple(sorted(found, key=lambda draw: draw.after))


def grid_of(
    ranks: Sequence[int], recorded: Layout | None, meshes: Sequence[Mesh], *, unnamed: str
) -> Mesh:
    """Return the grid of the ranks that hold a record.

    Args:
        ranks: Those that hold it, ascending.
        recorded: How the first of them says that it lies; None if it does not.
        meshes: All that the dump names.
        unnamed: Name of a dimension that no mesh names.
    """
    needed = () if recorded is None else recorded.mesh.dims
    if recorded is not None and set(recorded.mesh.ranks) == set(ranks):
        return recorded.mesh
    whole = [
        mesh for mesh in meshes if set(mesh.ranks) == set(ranks) and set(needed) <= set(mesh.dims)
    ]
    if whole:
        return max(whole, key=lambda mesh: len(mesh.dims))
    return _composed(ranks, needed, meshes, unnamed) or Mesh(
        dims=(unnamed,), sizes=(len(ranks),), ranks=tuple(ranks)
    )


def _composed(
    ranks: Sequence[int], needed: tuple[str, ...], meshes: Sequence[Mesh], unnamed: str
) -> Mesh | None:
    """Put meshes of the same dimensions side by side that have each rank once; None if none do."""
    groups: dict[tuple[tuple[str, ...], tuple[int, ...]], list[Mesh]] = defaultdict(list)
    for mesh in meshes:
        if set(mesh.ranks) < set(ranks):
            groups[mesh.dims, mesh.sizes].append(mesh)
    found = [
        sorted(same, key=lambda mesh: mesh.ranks)
        for (dims, _), same in groups.items()
        if (not needed or dims == needed)
        and sorted(rank for mesh in same for rank in mesh.ranks) == list(ranks)
    ]
    if not found:
        return None
    # of several ways the one whose meshes have neighbouring ranks is the inner one
    same = min(found, key=lambda some: some[0].ranks)
    across = tuple(mesh.ranks[0] for mesh in same)
    outer = next((mesh.dims[0] for mesh in meshes if mesh.ranks == across), unnamed)
    return Mesh(
        dims=(outer, *same[0].dims),
        sizes=(len(same), *same[0].sizes),
        ranks=tuple(rank for mesh in same for rank in mesh.ranks),
    )
