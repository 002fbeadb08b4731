"""A live model as one side of a pairing: its modules, parameters and buffers, without any run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumper import adapters
from padiff.dumper.runs.target import build, import_target
from padiff.dumpfile import Index, Phase, RecordInfo, Role

from .source import Sources
from .tree import build_tree

if TYPE_CHECKING:
    from collections.abc import Hashable

    from padiff.dumper.adapter import Adapter, Model, Tensor
    from padiff.dumper.runs.target import Target


class LiveSide:
    """The parameters and buffers of a model as they are now; values are read on demand."""

    def __init__(self, model: Model, adapter: Adapter) -> None:
        """Walk the model once; nothing in it is changed or run."""
        self._adapter = adapter
        inner = adapter.unwrap(model)
        nodes = build_tree(inner, adapter, Sources(adapter.class_bases(inner)[-1].__module__))
        self._tensors: list[Tensor] = []
        records: list[RecordInfo] = []
        numbers: dict[Hashable, int] = {}
        unsaved: set[str] = set()
        for node in nodes:
            for item in adapter.own_tensors(node.module):
                identity = adapter.identity(item.tensor)
                records.append(
                    RecordInfo(
                        id=len(records),
                        module=node.info.id,
                        call=None,
                        phase=Phase.FORWARD,
                        role=Role.WEIGHT if item.is_weight else Role.BUFFER,
                        slot=f".{item.name}",
                        order=0,
                        shape=tuple(int(length) for length in item.tensor.shape),
                        value=None,
                        requires_grad=adapter.requires_grad(item.tensor),
                        tensor=numbers.setdefault(identity, len(numbers)),
                    )
                )
                self._tensors.append(item.tensor)
                if not item.is_saved:
                    unsaved.add(f"{node.info.path}.{item.name}".removeprefix("."))
        self._unsaved = frozenset(unsaved)
        modules = tuple(node.info for node in nodes)
        self._index = Index(
            step=0, rank=0, modules=modules, calls=(), records=tuple(records), values=()
        )

    @property
    def framework(self) -> str:
        """Name of the adapter."""
        return self._adapter.name

    @property
    def index(self) -> Index:
        """Modules, parameters and buffers; no calls, no values."""
        return self._index

    @property
    def unsaved(self) -> frozenset[str]:
        """Return full names of buffers that the framework does not save with weights."""
        return self._unsaved

    def array(self, record: RecordInfo) -> npt.NDArray[Any]:
        """Copy a parameter's elements to host memory."""
        array: npt.NDArray[Any] = np.asarray(self._adapter.snapshot(self._tensors[record.id]))
        return array

    def gradient(self, record: RecordInfo) -> npt.NDArray[Any] | None:
        """Copy the accumulated gradient of a parameter, None if it has none."""
        found = self._adapter.gradient(self._tensors[record.id])
        return None if found is None else np.asarray(self._adapter.snapshot(found))

    def assign(self, record: RecordInfo, array: npt.NDArray[Any]) -> None:
        """Overwrite a parameter or buffer in place; its dtype and device stay."""
        self._adapter.assign(self._tensors[record.id], array)


def build_side(target: Target) -> LiveSide:
    """Build the model that a user named, and give it as a side; it is not run.

    Raises:
        ConfigError: There is no such model, or the framework does not know it.
        RecordError: The user's code raised.
    """

    def is_model(thing: object) -> bool:
        return any(adapters.load(name).is_model(thing) for name in adapters.imported())

    model = build(target, import_target(target), is_model=is_model)
    return LiveSide(model, adapters.find(model))
