"""The part of a tensor that this process holds: of DTensors, and of results of collectives."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import Parameter
from torch.utils.dlpack import to_dlpack  # type: ignore[attr-defined]

from padiff.dumpfile import Layout, Mesh, RecordError

if TYPE_CHECKING:
    from padiff.dumper.adapter import Array

PLAIN = frozenset({torch.Tensor, Parameter})
"""Classes of tensors that are all here, with nothing to wait for."""
_DISTRIBUTED = "torch.distributed.tensor", "DTensor"
_AWAITED = "torch.distributed._functional_collectives", "AsyncCollectiveTensor"


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with the elements that this process holds, once they are there.

    No collective is started: what is waited for was started by the model.
    """
    while type(tensor) not in PLAIN:
        if _is_of(tensor, _DISTRIBUTED):
            tensor = tensor._local_tensor  # type: ignore[attr-defined]  # to_local adds to the graph
        elif _is_of(tensor, _AWAITED):
            tensor = tensor.trigger_wait()  # type: ignore[attr-defined]
        else:
            break
    return tensor


def layout_of(tensor: torch.Tensor) -> Layout | None:
    """Return how a DTensor lies over processes; None for other tensors."""
    while type(tensor) not in PLAIN and not _is_of(tensor, _DISTRIBUTED):
        if not _is_of(tensor, _AWAITED):
            return None
        tensor = tensor.elem  # type: ignore[attr-defined]
    if type(tensor) in PLAIN:
        return None
    spec: Any = tensor._spec  # type: ignore[attr-defined]
    return _layout(spec.mesh, tuple(spec.placements), tuple(tensor.shape))


@lru_cache(maxsize=4096)
def _layout(mesh: Any, placements: tuple[Any, ...], shape: tuple[int, ...]) -> Layout:  # noqa: ANN401
    return Layout(
        mesh=_mesh(mesh),
        placements=tuple(map(_placement, placements)),
        shape=tuple(map(int, shape)),
    )


@lru_cache(maxsize=256)
def _mesh(mesh: Any) -> Mesh:  # noqa: ANN401 - a DeviceMesh
    sizes = tuple(map(int, mesh.shape))
    dims = mesh.mesh_dim_names or tuple(f"dim{place}" for place in range(len(sizes)))
    ranks = tuple(map(int, mesh.mesh.flatten().tolist()))
    return Mesh(dims=tuple(dims), sizes=sizes, ranks=ranks)


def _placement(placement: Any) -> str:  # noqa: ANN401 - a Placement
    """Return a placement as dumps spell it."""
    if placement.is_replicate():
        return "R"
    kind = type(placement).__name__
    if placement.is_partial():
        how = "masked" if kind == "_MaskPartial" else str(placement.reduce_op)
        return f"P({how})"
    split = getattr(placement, "split_factor", 1)
    return f"S({placement.dim})" if split == 1 else f"S({placement.dim};{split})"


def collective_argument(thing: object) -> tuple[int, ...] | str | None:
    """Return the ranks of a group of processes, or the name of a reduction; None for all else."""
    distributed: Any = torch.distributed
    if not distributed.is_available():
        return None
    if isinstance(thing, distributed.ProcessGroup):
        return tuple(distributed.get_process_group_ranks(thing))
    if isinstance(thing, distributed.ReduceOp | distributed.ReduceOp.RedOpType):
        return str(getattr(thing, "op", thing)).rpartition(".")[2].lower()
    return None


def is_allocated(tensor: torch.Tensor) -> bool:
    """Return whether the memory is there: FSDP frees that of gathered weights by resizing it."""
    return bool(tensor.untyped_storage().nbytes()) or not tensor.numel()


def array_of(tensor: torch.Tensor) -> Array:
    """View the memory of a plain tensor as an array, or copy it from a device.

    ``Tensor.numpy`` would make the memory one that cannot be resized any more.

    Raises:
        RecordError: The memory was freed.
    """
    if not tensor.is_cpu:
        return np.asarray(tensor.detach().cpu().numpy())
    if not is_allocated(tensor):
        raise RecordError("cannot read a tensor: its memory was freed")
    capsule: Any = _Capsule(to_dlpack(tensor))
    array: Array = np.from_dlpack(capsule)
    return array


class _Capsule:
    """What numpy asks for memory, without what ``Tensor.__dlpack__`` does around it."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _is_of(tensor: torch.Tensor, place: tuple[str, str]) -> bool:
    """Return whether a tensor is of a class that a module of torch has, if that is loaded."""
    kind: Any = getattr(sys.modules.get(place[0]), place[1], None)
    return kind is not None and isinstance(tensor, kind)
