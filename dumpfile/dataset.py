"""Finds a dataset in a file that nobody vouches for, and refuses all that could lead elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5t, h5z

from .dtypes import hdf5_type
from .errors import DumpFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

DATASET_PATH = re.compile(r"/values/[A-Za-z0-9_]{1,64}|/(?:index|program)/[a-z_]{1,64}|/contents")
TABLE_KINDS = frozenset({"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<i8", "<f8"})
DIGEST_CELL = np.dtype(("u1", (16,)))
_FILTERS = frozenset({h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE})
_DEFLATE_RATIO = 1040  # deflate cannot do better than 1032:1
_CHUNK_LIMIT_BYTES = 64 << 20
_TYPES_KEPT = 256  # of tables: all files have the same ones
MOST_MEMBERS = 64  # of a group that is listed: a file has fewer tables

HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)
"""What h5py raises on a damaged file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A dataset that was checked."""

    size: int
    """Number of elements."""
    offset_bytes: int | None
    """Where its elements lie in the file, None if they are in compressed chunks."""
    dtype: np.dtype[Any] | None = None
    """Of a table."""
    chunk: int = 0
    """Elements of a chunk."""
    filters: tuple[int, ...] = ()
    """What a chunk went through when it was written, in order."""
    read_chunk: Callable[[int], tuple[int, bytes]] | None = None
    """Reads the chunk that begins at an element as it is stored, and which filters it lacks."""
    last: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    """The chunk that was unpacked last, by its first element."""

    def is_like(self, other: Found) -> bool:
        """Return whether both hold the same elements, by where and how they are stored."""
        names = ("size", "offset_bytes", "dtype", "chunk", "filters")
        if any(getattr(self, name) != getattr(other, name) for name in names):
            return False
        if self.read_chunk is None or other.read_chunk is None:
            return True
        starts = range(0, self.size, self.chunk)
        return all(self.read_chunk(start) == other.read_chunk(start) for start in starts)


def find_dataset(
    file: h5py.h5f.FileID,
    path: str,
    *,
    dtype: str | None,
    file_bytes: int,
    groups: dict[str, h5g.GroupID],
) -> Found:
    """Open a one-dimensional dataset, with every size checked against the file.

    Args:
        file: The open file.
        path: ``/values/<name>``, ``/index/<name>`` or ``/program/<name>``.
        dtype: Name of the dtype that it must have; None if it is a table or one of its columns.
        file_bytes: Size of the file.
        groups: Those of the file that were opened and checked, by their paths; gets its own.

    Raises:
        DumpFormatError: It is missing, has another dtype, lies outside the file, or uses links,
            storage or filters that a reader must not follow.
    """
    if DATASET_PATH.fullmatch(path) is None:
        raise refusal(path, "expected /values/<name>, /index/<name> or /program/<name>")
    try:
        dataset = _open(file, path, groups)
        return _checked(dataset, path, dtype, file_bytes)
    except HDF5_ERRORS as error:
        if isinstance(error, DumpFormatError):
            raise
        raise refusal(path, f"HDF5 says {str(error)[:200]!r}") from error


def refusal(path: str, found: str) -> DumpFormatError:
    """Return what is raised of a dataset that is not read."""
    return DumpFormatError(f"cannot read dataset {path!r}: {found}")


def _open(file: h5py.h5f.FileID, path: str, groups: dict[str, h5g.GroupID]) -> h5d.DatasetID:
    above, _, name = path.rpartition("/")
    if above not in groups:
        group = h5g.open(file, b"/")
        _refuse_attributes(group, path)
        for part in above.split("/")[1:]:
            group = _member(group, part, path, h5o.TYPE_GROUP)
        groups[above] = group
    return _member(groups[above], name, path, h5o.TYPE_DATASET)


def _member(group: h5g.GroupID, name: str, path: str, kind: int) -> h5g.GroupID | h5d.DatasetID:
    encoded = name.encode()
    links = group.links  # valid only as long as the group lives
    if not links.exists(encoded):
        raise refusal(path, f"expected a dataset, found no {name!r}")
    if links.get_info(encoded).type != h5l.TYPE_HARD:
        raise refusal(path, f"{name!r} is a soft or external link, which is never followed")
    if h5o.get_info(group, encoded).type != kind:
        raise refusal(path, f"{name!r} is another kind of object")
    return h5o.open(group, encoded)


def _refuse_attributes(where: h5g.GroupID | h5d.DatasetID, path: str) -> None:
    if h5a.get_num_attrs(where):
        raise refusal(path, "HDF5 attributes, which a dump does not have")


def members(file: h5py.h5f.FileID, group: str) -> frozenset[str]:
    """Return the names of what lies in a group; ``""`` is the root. No link is followed.

    Raises:
        DumpFormatError: There is no such group.
    """
    try:
        found = h5g.open(file, b"/")
        if group:
            found = _member(found, group, f"/{group}", h5o.TYPE_GROUP)
        if found.get_num_objs() > MOST_MEMBERS:
            raise refusal(f"/{group}", f"more than {MOST_MEMBERS} datasets")
        return frozenset(name.decode(errors="backslashreplace") for name in found)
    except HDF5_ERRORS as error:
        if isinstance(error, DumpFormatError):
            raise
        raise refusal(f"/{group}", f"HDF5 says {str(error)[:200]!r}") from error


def count_values(file: h5py.h5f.FileID) -> int:
    """Count what lies in the group of values.

    Raises:
        DumpFormatError: There is no such group.
    """
    try:
        values = _member(h5g.open(file, b"/"), "values", "/values", h5o.TYPE_GROUP)
        return int(values.get_num_objs())
    except HDF5_ERRORS as error:
        if isinstance(error, DumpFormatError):
            raise
        raise refusal("/values", f"HDF5 says {str(error)[:200]!r}") from error


def _table_dtype(kind: h5t.TypeID, path: str) -> np.dtype[Any]:
    """Return the dtype of a column, or of a table that has a field for each of some columns."""
    dtype = _known_table(kind.encode())
    if dtype is None:
        raise refusal(path, "expected fields of integers, float64 or 16 bytes")
    return dtype


@lru_cache(maxsize=_TYPES_KEPT)
def _known_table(encoded: bytes) -> np.dtype[Any] | None:
    """Return the dtype of a table by how HDF5 writes its type, None if a dump has none such."""
    kind = h5t.decode(encoded)
    dtype: np.dtype[Any] = kind.dtype
    fields = [dtype] if dtype.names is None else [dtype[name] for name in dtype.names]
    are_known = all(one.str in TABLE_KINDS or one == DIGEST_CELL for one in fields)
    return dtype if are_known and kind.equal(h5t.py_create(dtype)) else None


def _checked(dataset: h5d.DatasetID, path: str, dtype: str | None, file_bytes: int) -> Found:
    _refuse_attributes(dataset, path)
    creation = dataset.get_create_plist()
    space = dataset.get_space()
    if creation.get_external_count():
        raise refusal(path, "its elements are in another file, which is never opened")
    if space.get_simple_extent_type() != h5py.h5s.SIMPLE or space.get_simple_extent_ndims() != 1:
        raise refusal(path, "expected one dimension")
    kind = dataset.get_type()
    table = _table_dtype(kind, path) if dtype is None else None
    if dtype is not None and not kind.equal(hdf5_type(dtype)):
        raise refusal(path, f"expected the elements to be {dtype}")
    size = space.get_simple_extent_npoints()
    size_bytes = size * kind.get_size()
    layout = creation.get_layout()
    if layout == h5d.CONTIGUOUS:
        offset = dataset.get_offset() if size_bytes else 0  # HDF5 places no empty one
        if offset is None or offset < 0 or offset + size_bytes > file_bytes:
            raise refusal(path, f"expected {size_bytes} bytes in the file, found fewer")
        return Found(size=size, offset_bytes=offset, dtype=table)
    if layout != h5d.CHUNKED or not path.startswith("/values/"):
        raise refusal(path, "its storage is neither contiguous nor chunked")
    filters = tuple(creation.get_filter(at)[0] for at in range(creation.get_nfilters()))
    _check_filters(filters, path)
    check_chunks(
        path,
        size_bytes,
        chunk_bytes=creation.get_chunk()[0] * kind.get_size(),
        stored_bytes=dataset.get_storage_size(),  # a sum of what the file says of its chunks
        file_bytes=file_bytes,
    )
    return Found(
        size=size,
        offset_bytes=None,
        chunk=creation.get_chunk()[0],
        filters=filters,
        read_chunk=lambda start: dataset.read_direct_chunk((start,)),
    )


def _check_filters(filters: tuple[int, ...], path: str) -> None:
    for code in filters:
        if code not in _FILTERS:
            raise refusal(path, f"filter {code} is neither shuffle nor deflate")
        if filters.count(code) > 1:
            raise refusal(path, f"filter {code} comes twice")


def check_chunks(
    path: str, size_bytes: int, *, chunk_bytes: int, stored_bytes: int, file_bytes: int
) -> None:
    """Check what a file says of the chunks of a compressed dataset.

    Raises:
        DumpFormatError: Nothing that was written has such sizes.
    """
    if stored_bytes > file_bytes:
        raise refusal(path, f"a file of {file_bytes} bytes cannot store {stored_bytes} bytes")
    if chunk_bytes > _CHUNK_LIMIT_BYTES:
        limit = _CHUNK_LIMIT_BYTES
        raise refusal(path, f"a chunk of {chunk_bytes} bytes, where {limit} are allowed")
    if size_bytes > stored_bytes * _DEFLATE_RATIO:
        raise refusal(path, f"{stored_bytes} stored bytes cannot hold {size_bytes} bytes")
