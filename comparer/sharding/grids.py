"""Over which grid of ranks a record lies: a mesh that was recorded, or one that is put together."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from padiff.dumpfile import Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Layout


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
