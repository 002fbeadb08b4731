"""The part of a distributed tensor of Paddle that this process holds, and how the whole lies."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import Layout, Mesh

if TYPE_CHECKING:
    from padiff.dumper.adapter import Tensor

_REDUCTION = "kRed"
"""What the names of Paddle's reductions begin with: ``kRedSum``."""


def local_of(tensor: Tensor) -> Tensor:
    """Return the tensor with this process's elements; ``numpy()`` would gather those of all."""
    return tensor._local_value() if tensor.is_dist() else tensor


def layout_of(tensor: Tensor) -> Layout | None:
    """Return how a distributed tensor lies over processes; None for other tensors."""
    if not tensor.is_dist():
        return None
    mesh = tensor.process_mesh
    return Layout(
        mesh=_mesh(tuple(mesh.dim_names), tuple(mesh.shape), tuple(mesh.process_ids)),
        placements=tuple(map(_placement, tensor.placements)),
        shape=tuple(map(int, tensor.shape)),
    )


@lru_cache(maxsize=256)
def _mesh(dims: tuple[str, ...], sizes: tuple[int, ...], ranks: tuple[int, ...]) -> Mesh:
    return Mesh(dims=dims, sizes=tuple(map(int, sizes)), ranks=tuple(map(int, ranks)))


def _placement(placement: Any) -> str:  # noqa: ANN401 - paddle.distributed.Placement
    """Return a placement as dumps spell it."""
    if placement.is_replicated():
        return "R"
    if placement.is_partial():
        return f"P({placement.reduce_type().name.removeprefix(_REDUCTION).lower()})"
    return f"S({placement.get_dim()})"
