"""Which layout each record of a sharded step is expected to have, and how that is known.

In this order: the user says it, the framework recorded it, the class of the module promises it, the
weight has it, the shapes leave one reading, layers of the kind have it. Values decide nothing but
whether ranks hold the same: what fits the reference best may be the fault that is looked for.

They split by hand: their weights and activations are plain tensors that say nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import CompareError, Layout, Mesh, Phase, Role

from .assembling import PARTIAL_MEAN, REPLICATE, coordinates, split_axis
from .knownlayout import (
    KnownLayout,
    LayoutEvidence,
    OpenRecord,
    Turn,
    Unknown,
    named,
    ways,
    whole_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import ModuleInfo, RecordInfo
    from padiff.pairing import RanksEntry

    from .joining import JoinedRecord, JoinedStep, Key


Shape = tuple[int, ...]
Target = Callable[["Key"], Shape | None]

_STATE = frozenset({Role.WEIGHT, Role.WEIGHT_GRAD, Role.OPTIMIZER_STATE, Role.LR})
"""Roles of what is never a term of a sum: gradients are recorded as the update finds them."""
_OF_WEIGHTS = frozenset({Role.WEIGHT_GRAD, Role.OPTIMIZER_STATE, Role.WEIGHT})
_GRADIENTS = frozenset({Role.GRAD_INPUT, Role.GRAD_OUTPUT})
_OWN = frozenset({Role.BUFFER, Role.NAMED, Role.RESULT})
"""Roles of what each rank may keep for itself."""
_MASKED = "masked"


@dataclass(slots=True)
class Layouts:
    """Finds how the records of one step known."""

    step: JoinedStep
    framework: str
    meshes: Sequence[Mesh]
    """All that the dump names."""
    entries: Sequence[RanksEntry] = ()
    """What the user says."""
    distributed: frozenset[str] = frozenset()
    """Digests of what operators on distributed tensors made, of the first rank."""
    found: dict[Key, KnownLayout] = field(default_factory=dict)
    unknown: dict[Key, Unknown] = field(default_factory=dict)
    """Why nothing is judged of a record, whether its layout was found or not."""
    used_entries: set[str] = field(default_factory=set)
    _unnamed: str = ""
    rows: set[str] = field(default_factory=set)
    """Dimensions along which ranks have rows of their own, as the shapes of inputs say."""
    _votes: dict[object, Counter[tuple[str, ...]]] = field(default_factory=dict)
    _records: dict[Key, JoinedRecord] = field(default_factory=dict)
    _modules: dict[str, ModuleInfo] = field(default_factory=dict)
    _roots: set[str] = field(default_factory=set)
    _weights: list[Key] = field(default_factory=list)
    _inputs: dict[tuple[str, int | None], list[Key]] = field(default_factory=dict)
    """What each call takes."""
    _with_whole_weights: dict[str, bool] = field(default_factory=dict)
    _shared: frozenset[Key] = frozenset()
    _whole: set[tuple[str | None, ...]] = field(default_factory=set)
    """What ranks have of records that should be equal on all of them, and are not."""

    def __post_init__(self) -> None:
        """Look at the step as a whole."""
        self._records = {one.key: one for one in self.step.records}
        self._modules = {one.path: one for one in self.step.modules}
        self._roots = {
            self.step.modules[call.module].path for call in self.step.calls if call.parent is None
        }
        for key in self._records:
            if self._turn(key) is Turn.WEIGHTS:
                self._weights.append(key)
            elif key.role is Role.INPUT:
                self._inputs.setdefault((key.module, key.call), []).append(key)
        self._unnamed = self._name()
        self._shared = frozenset(self._added_up())

    def _added_up(self) -> Iterator[Key]:
        """Yield gradients of distributed tensors that a call made for itself of plain ones.

        Each is a term of the gradient of the tensor that it was made of. A distributed tensor that
        another call or operator made has its whole gradient.
        """
        made = set(self.distributed)
        for record in self.step.records:
            is_made = record.key.role is Role.OUTPUT or self._is_root(record.key, Role.INPUT)
            if is_made and record.first.layout is not None:
                made.add(self._first_digest(record) or "")
        for record in self.step.records:
            key = record.key
            if key.role is not Role.INPUT or record.first.layout is None:
                continue
            if self._first_digest(record) not in made:
                yield key._replace(phase=Phase.BACKWARD, role=Role.GRAD_INPUT)

    def _first_digest(self, record: JoinedRecord) -> str | None:
        rank, part = next(iter(record.parts.items()))
        return self._digest(rank, part)

    def find(self, target: Target, turn: Turn, *, is_final: bool = False) -> None:
        """Find as many layouts as can be found.

        Args:
            target: Returns the shape that a record has on the other side, None if that is not
                known.
            turn: Which records: what a later one is rests on the earlier ones.
            is_final: Whether more will not be known: what is left is told by other layers.

        Raises:
            CompareError: Layouts contradict shapes or each other.
        """
        for is_last in (False, True)[: 1 + is_final]:
            for record in self.left(turn):
                self._settle(record, target(record.key), is_final=is_final, is_last=is_last)

    def left(self, turn: Turn) -> list[JoinedRecord]:
        """Return the records of a turn whose layout is not known."""
        return [
            one
            for one in self.step.records
            if one.key not in self.found and self._turn(one.key) is turn
        ]

    def find_one(self, key: Key, shape: Shape) -> None:
        """Find the layout of one record, which makes a whole of that shape."""
        self._settle(self._records[key], shape, is_final=False)

    def wholes(self, key: Key) -> set[Shape]:
        """Return the shapes that the parts of a record may make, where that is open."""
        record = self._records.get(key)
        if (
            record is None
            or key in self.found
            or any(part.value is None for part in record.parts.values())
        ):
            return set()
        open_ = self._opened(record)
        layouts = (whole_of(open_, placements) for placements in ways(open_))
        return {layout.shape for layout in layouts if layout is not None}

    def is_equal(self, key: Key) -> bool:
        """Return whether all ranks have the same of a record."""
        return len(self._digests(self._records[key])) == 1

    def parts(self, key: Key) -> tuple[Shape, ...]:
        """Return the shapes of the parts of a record, by rank."""
        return tuple(part.shape for part in self._records[key].parts.values())

    def take_along(self, key: Key) -> None:
        """Take the parts of a record one after the other, where both sides are cut alike."""
        open_ = self._opened(self._records[key])
        open_.placements = [one or "S(0)" for one in open_.placements]
        open_.told = LayoutEvidence.BOTH
        self._enter(open_.record, self._known_layout(open_))

    def _turn(self, key: Key) -> Turn:
        if key.role is Role.WEIGHT and key.phase is Phase.FORWARD:
            return Turn.WEIGHTS
        return Turn.INPUTS if self._is_root(key, Role.INPUT) else Turn.REST

    def _is_root(self, key: Key, role: Role) -> bool:
        return key.role is role and key.module in self._roots

    def _name(self) -> str:
        """Name a dimension that no mesh names, by what its ranks have for themselves."""
        inputs = [one for one in self.step.records if self._is_root(one.key, Role.INPUT)]
        if any(len(self._digests(one)) > 1 for one in inputs):
            return "dp"
        weights = (one for one in self.step.records if one.key.role is Role.WEIGHT)
        return "tp" if any(len(self._digests(one)) > 1 for one in weights) else "ranks"

    def _digests(self, record: JoinedRecord) -> set[str | None]:
        return {self._digest(rank, part) for rank, part in record.parts.items()}

    def _digest(self, rank: int, part: RecordInfo) -> str | None:
        values = self.step.indexes[rank].values
        return None if part.value is None else values[part.value].digest

    def _settle(
        self,
        record: JoinedRecord,
        shape: Shape | None,
        *,
        is_final: bool,
        is_last: bool = False,
    ) -> None:
        found = self._looked_at(record, shape, is_final=is_final, is_last=is_last)
        if isinstance(found, KnownLayout):
            self._enter(record, found)
        elif found is not None:
            self.unknown[record.key] = found

    def _enter(self, record: JoinedRecord, found: KnownLayout) -> None:
        """Keep a layout, and what it says of others."""
        self.found[record.key] = found
        self.unknown.pop(record.key, None)
        if found.differing and self._is_whole(record.key):
            self._whole.add(self._content(record))
        if f"P({_MASKED})" in found.layout.placements:
            self.unknown[record.key] = Unknown.MASKED
        elif record.key in self._shared:
            self.unknown[record.key] = Unknown.CONSUMER
        if self._is_root(record.key, Role.INPUT) and found.told in {
            LayoutEvidence.SHAPE,
            LayoutEvidence.BOTH,
        }:
            self.rows.update(
                dim
                for dim, placement in zip(
                    found.layout.mesh.dims, found.layout.placements, strict=True
                )
                if split_axis(placement) is not None
            )
        if found.told not in {LayoutEvidence.ALIKE, LayoutEvidence.LONE, LayoutEvidence.BOTH}:
            kind = self._kind(record.key)
            self._votes.setdefault(kind, Counter())[found.layout.placements] += 1

    def _kind(self, key: Key) -> object:
        """Return what records of other layers have in common with one."""
        names = [part for part in key.module.split(".") if not part.isdigit()]
        return self._modules[key.module].class_name, tuple(names[-1:]), key.role, key.slot

    def _looked_at(
        self, record: JoinedRecord, target: Shape | None, *, is_final: bool, is_last: bool
    ) -> KnownLayout | Unknown | None:
        """Find the layout of one record; None if more has to be known of the other side."""
        absent = [part.value is None for part in record.parts.values()]
        if any(absent) and not all(absent):
            return Unknown.ABSENT
        open_ = self._opened(record)
        if len(record.parts) == 1 and open_.unknown:
            open_.placements, open_.told = [REPLICATE], LayoutEvidence.LONE
        if open_.unknown:
            self._ask_weight(open_)
        if open_.unknown:
            self._ask_class(open_, target)
        if not open_.unknown:
            return self._known_layout(open_)
        if target is not None:
            return self._read(open_, target, is_last=is_last)
        return self._without_target(open_, is_last=is_last) if is_final else None

    def _opened(self, record: JoinedRecord) -> OpenRecord:
        """Begin with what was recorded, and what the user says."""
        ranks, first = tuple(record.parts), record.first
        recorded = first.layout
        placements = {part.layout and part.layout.placements for part in record.parts.values()}
        if len(placements) > 1:
            raise CompareError(
                f"cannot join {named(record)}: its ranks say that it lies in different ways, "
                + " and ".join(sorted(" ".join(one or ("nothing",)) for one in placements))
            )
        mesh = self.step.grid(ranks, recorded, self.meshes, self._unnamed)
        told: list[str | None] = [None] * len(mesh.dims)
        if recorded is not None and len(ranks) > 1:
            by_dim = dict(zip(recorded.mesh.dims, recorded.placements, strict=True))
            told = [by_dim.get(dim) for dim in mesh.dims]
        open_ = OpenRecord(
            record=record,
            module=self._modules[record.key.module],
            mesh=mesh,
            placements=told,
            told=None if recorded is None else LayoutEvidence.RECORDED,
            recorded=frozenset(() if recorded is None else recorded.mesh.dims),
        )
        self._ask_user(open_)
        return open_

    def _ask_user(self, open_: OpenRecord) -> None:
        key = open_.record.key
        kind = "weight" if key.role in _OF_WEIGHTS else str(key.role)
        name = f"{key.module}{key.slot.partition('[')[0]}".lstrip(".")
        for entry in self.entries:
            told = entry.placements.get(kind)
            is_named = entry.module.match(key.module) is not None
            if told is None or not (is_named or entry.module.match(name) is not None):
                continue
            if not open_.record.first.shape and kind == "weight":
                continue  # a counter beside the moments
            for place, dim in enumerate(open_.mesh.dims):
                if dim in told:
                    open_.placements[place] = told[dim]
                    open_.told = LayoutEvidence.MAP
                    self.used_entries.add(entry.name)

    def _ask_weight(self, open_: OpenRecord) -> None:
        """Take the layout of the weight for its gradient and moments, if the parts are as large."""
        key = open_.record.key
        is_weight = key.role is Role.WEIGHT and key.phase is Phase.FORWARD
        if key.role not in _OF_WEIGHTS or is_weight:
            return
        slot = key.slot.partition("[")[0]
        weight = key._replace(phase=Phase.FORWARD, role=Role.WEIGHT, slot=slot, number=0)
        known, held = self.found.get(weight), self._records.get(weight)
        if known is None or held is None or known.layout.mesh != open_.mesh:
            return
        parts = open_.record.parts
        if all(
            rank in held.parts and held.parts[rank].shape == parts[rank].shape for rank in parts
        ):
            open_.placements, open_.told = list(known.layout.placements), LayoutEvidence.WEIGHT

    def _ask_class(self, open_: OpenRecord, target: Shape | None) -> None:
        """Take what the class of a tensor-parallel layer promises, unless shapes contradict it."""
        key, dims = open_.record.key, open_.mesh.dims
        first = open_.record.first
        told = layout_by_class(open_.module, self.framework, key.role, key.slot, len(first.shape))
        places = [place for place in open_.unknown if dims[place] in TENSOR_DIMS]
        if told is None or len(places) != 1:
            return
        axis = split_axis(told)
        if axis is not None and axis >= len(first.shape):
            return
        placements = list(open_.placements)
        placements[places[0]] = told
        if None not in placements and target is not None:
            whole = whole_of(open_, [one or REPLICATE for one in placements])
            if whole is None or whole.shape != target:
                return
        open_.placements, open_.told = placements, LayoutEvidence.CLASS

    def _known_layout(self, open_: OpenRecord) -> KnownLayout:
        """Check a layout against the shapes of the parts, and look for replicas that differ."""
        placements = [one or REPLICATE for one in open_.placements]
        layout = whole_of(open_, placements)
        recorded = open_.record.first.layout
        is_recorded = open_.told is LayoutEvidence.RECORDED and recorded is not None
        if layout is None or (
            is_recorded
            and recorded is not None
            and recorded.mesh == open_.mesh
            and layout.shape != recorded.shape
        ):
            shapes = " ".join(str(list(one.shape)) for one in open_.record.parts.values())
            expected = f", expected to make {list(recorded.shape)}" if recorded is not None else ""
            raise CompareError(
                f"cannot join {named(open_.record)}: the layout {' '.join(placements)} over "
                f"{' '.join(open_.mesh.dims)} contradicts the shapes of its parts, {shapes}"
                f"{expected}",
                hint="see `padiff show --records`, and what a map file or --layout says",
            )
        return KnownLayout(
            layout=layout,
            told=open_.told or LayoutEvidence.EQUAL,
            divisor=self._divisor(open_, placements),
            differing=self._differing(open_, placements),
        )

    def _is_of_whole_weight(self, key: Key) -> bool:
        """Return whether a gradient or moment is that of a weight that each rank has all of."""
        if key.role is Role.LR:
            return True
        slot = key.slot.partition("[")[0]
        weight = key._replace(phase=Phase.FORWARD, role=Role.WEIGHT, slot=slot, number=0)
        return weight != key and self._is_whole(weight)

    def _is_made_of_wholes(self, key: Key) -> bool:
        """Return whether all that a record is made of is whole on each rank, or it was met so."""
        record = self._records[key]
        if self._content(record) in self._whole:
            return True
        if key.role is not Role.OUTPUT:
            return False
        inputs = self._inputs.get((key.module, key.call), ())
        return (
            bool(inputs)
            and self._has_whole_weights(key.module)
            and all(map(self._is_whole, inputs))
        )

    def _has_whole_weights(self, module: str) -> bool:
        """Return whether each rank has all weights of a module and of what is inside."""
        if module not in self._with_whole_weights:
            inside = f"{module}." if module else ""
            weights = (one for one in self._weights if f"{one.module}.".startswith(inside))
            self._with_whole_weights[module] = all(map(self._is_whole, weights))
        return self._with_whole_weights[module]

    def _is_whole(self, key: Key) -> bool:
        known = self.found.get(key)
        return known is not None and set(known.layout.placements) == {REPLICATE}

    def _content(self, record: JoinedRecord) -> tuple[str | None, ...]:
        return tuple(self._digest(rank, part) for rank, part in record.parts.items())

    def _divisor(self, open_: OpenRecord, placements: Sequence[str]) -> int:
        """Return of how many losses the mean is taken that a gradient of one of them is part of."""
        if open_.record.key.role not in _GRADIENTS:
            return 1
        return math.prod(
            size
            for dim, size, placement in zip(
                open_.mesh.dims, open_.mesh.sizes, placements, strict=True
            )
            if dim in self.rows - open_.recorded and split_axis(placement) is not None
        )

    def _differing(self, open_: OpenRecord, placements: Sequence[str | None]) -> tuple[str, ...]:
        """Return the dimensions along which replicas are not bit-equal."""
        mesh, parts = open_.mesh, open_.record.parts
        layout = Layout(mesh=mesh, placements=("R",) * len(mesh.dims), shape=())
        digests = {
            coordinate: self._digest(rank, parts[rank]) for rank, coordinate in coordinates(layout)
        }
        return tuple(
            dim
            for place, dim in enumerate(mesh.dims)
            if placements[place] == REPLICATE
            and any(
                digest != digests[(*at[:place], 0, *at[place + 1 :])]
                for at, digest in digests.items()
            )
        )

    def _read(self, open_: OpenRecord, target: Shape, *, is_last: bool) -> KnownLayout | Unknown:
        """Take the one reading that shapes leave; among replicas and terms, what is expected."""
        readings = []
        for placements in ways(open_):
            layout = whole_of(open_, placements)
            if layout is not None and layout.shape == target:
                readings.append(placements)
        sure = [one for one in readings if not self._is_doubtful(open_, one)]
        if len(sure) == 1:
            is_equal = all(sure[0][place] == REPLICATE for place in open_.unknown)
            open_.told = open_.told or (LayoutEvidence.EQUAL if is_equal else LayoutEvidence.SHAPE)
            open_.placements = list(sure[0])
            return self._known_layout(open_)
        if sure or len(readings) != 1:
            return Unknown.SHAPE
        return self._decided(open_, readings[0], has_target=True, is_last=is_last)

    def _is_doubtful(self, open_: OpenRecord, placements: Sequence[str]) -> bool:
        """Return whether parts of which nothing was said would have to be equal, and are not."""
        differing = self._differing(open_, placements)
        return any(open_.mesh.dims[place] in differing for place in open_.unknown)

    def _without_target(self, open_: OpenRecord, *, is_last: bool) -> KnownLayout | Unknown:
        """Find a layout where the other side does not have the record."""
        placements = [one or REPLICATE for one in open_.placements]
        if whole_of(open_, placements) is None:
            return Unknown.SHAPE
        if not self._is_doubtful(open_, placements):
            open_.told = open_.told or LayoutEvidence.EQUAL
            open_.placements = list(placements)
            return self._known_layout(open_)
        return self._decided(open_, placements, has_target=False, is_last=is_last)

    def _decided(
        self, open_: OpenRecord, placements: Sequence[str], *, has_target: bool, is_last: bool
    ) -> KnownLayout | Unknown:
        """Return what a record is whose parts are as large as the whole, and differ."""
        key = open_.record.key
        differing = set(self._differing(open_, placements))
        if self._is_root(key, Role.INPUT):
            self.rows |= differing  # what a model takes is never a term of a sum
            return Unknown.OWN
        if key.role in _OWN:
            return Unknown.OWN
        told = self._expected(key, differing, has_target=has_target)
        if told is LayoutEvidence.ROWS:
            placements = [
                PARTIAL_MEAN if dim in differing else one
                for dim, one in zip(open_.mesh.dims, placements, strict=True)
            ]
        if told is None and is_last:
            votes = self._votes.get(self._kind(key), Counter())
            if votes and votes.most_common(1)[0][0] == tuple(placements):
                told = LayoutEvidence.ALIKE
        if told is None:
            return Unknown.TERMS
        open_.placements, open_.told = list(placements), told
        return self._known_layout(open_)

    def _expected(
        self, key: Key, differing: set[str], *, has_target: bool
    ) -> LayoutEvidence | None:
        """Return why parts that differ should be equal, or are terms of a mean; None if unknown."""
        if key.role in _STATE and (has_target or self._is_of_whole_weight(key)):
            return LayoutEvidence.WEIGHT
        if key.role is Role.LOSS or key.role in _GRADIENTS:
            if differing <= self.rows:
                return LayoutEvidence.ROWS
            return LayoutEvidence.MADE if self._is_made_of_wholes(key) else None
        if self._is_made_of_wholes(key):
            return LayoutEvidence.MADE
        is_result = self._is_root(key, Role.OUTPUT) and not differing & self.rows
        return LayoutEvidence.RESULT if is_result else None


TENSOR_DIMS = frozenset({"tp", "mp", "tensor", "model", "ranks"})
"""What people call the dimension of a mesh along which such layers split."""

_COLUMN, _ROW, _WORDS = range(3)
_KINDS = {
    "ColumnParallelLinear": _COLUMN,
    "ColumnSequenceParallelLinear": _COLUMN,
    "TEColumnParallelLinear": _COLUMN,
    "TELayerNormColumnParallelLinear": _COLUMN,
    "RowParallelLinear": _ROW,
    "RowSequenceParallelLinear": _ROW,
    "TERowParallelLinear": _ROW,
    "VocabParallelEmbedding": _WORDS,
}
_LAST = -1
"""Stands for the last axis."""
_OUT, _IN = "out", "in"
_AXES = {"torch": {_OUT: 0, _IN: 1}, "paddle": {_OUT: 1, _IN: 0}}
"""Axis of a linear weight, by framework."""
_FEATURES: dict[tuple[int, Role, str], int | str | None] = {
    (_COLUMN, Role.WEIGHT, ".weight"): _OUT,
    (_COLUMN, Role.WEIGHT, ".bias"): 0,
    (_COLUMN, Role.INPUT, ""): None,
    (_COLUMN, Role.GRAD_INPUT, ""): None,
    (_COLUMN, Role.OUTPUT, ""): _LAST,
    (_COLUMN, Role.GRAD_OUTPUT, ""): _LAST,
    (_ROW, Role.WEIGHT, ".weight"): _IN,
    (_ROW, Role.WEIGHT, ".bias"): None,
    (_ROW, Role.INPUT, ""): _LAST,
    (_ROW, Role.GRAD_INPUT, ""): _LAST,
    (_ROW, Role.OUTPUT, ""): None,
    (_ROW, Role.GRAD_OUTPUT, ""): None,
    (_WORDS, Role.WEIGHT, ".weight"): 0,
    (_WORDS, Role.INPUT, ""): None,
    (_WORDS, Role.OUTPUT, ""): None,
    (_WORDS, Role.GRAD_OUTPUT, ""): None,
}
"""The axis that is split, None for a tensor that each rank has all of."""
_UNLESS = {
    (_COLUMN, Role.OUTPUT): ("gather_output", True),
    (_COLUMN, Role.GRAD_OUTPUT): ("gather_output", True),
    (_ROW, Role.INPUT): ("input_is_parallel", False),
    (_ROW, Role.GRAD_INPUT): ("input_is_parallel", False),
}
"""Attributes, with the value at which a record is whole after all."""


def layout_by_class(
    module: ModuleInfo, framework: str, role: Role, slot: str, ndim: int
) -> str | None:
    """Return the placement that a module's class promises; None where it promises none.

    Args:
        module: Whose record it is.
        framework: That recorded it.
        role: Of the record.
        slot: Of the record.
        ndim: Number of its axes.
    """
    kind = _KINDS.get(module.class_name)
    if kind is None or module.attributes.get("sequence_parallel") is True:
        return None
    place = slot if role is Role.WEIGHT else ""
    if (kind, role, place) not in _FEATURES or (not place and slot not in {"", "[0]"}):
        return None
    axis = _FEATURES[kind, role, place]
    name, value = _UNLESS.get((kind, role), ("", None))
    if axis is None or (name and module.attributes.get(name) is value):
        return REPLICATE
    if isinstance(axis, str):
        axis = _AXES.get(framework, _AXES["torch"])[axis]
    return f"S({ndim - 1 if axis == _LAST else axis})"
