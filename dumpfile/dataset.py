"""Finds a dataset in a file that nobody vouches for, and refuses all that could lead elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h5py
from h5py import h5a, h5d, h5g, h5l, h5o, h5z

from .dtypes import hdf5_type
from .errors import DumpFormatError

if TYPE_CHECKING:
    import numpy.typing as npt

_PATH = re.compile(r"/index|/values/[A-Za-z0-9_]{1,64}|/program/[a-z_]{1,64}")
_FILTERS = frozenset({h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE})
_DEFLATE_RATIO = 1040  # deflate cannot do better than 1032:1
_CHUNK_LIMIT_BYTES = 64 << 20

HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)
"""What h5py raises on a damaged file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A dataset that was checked."""

    dataset: h5d.DatasetID
    size: int
    """Number of elements."""
    offset_bytes: int | None
    """Where its elements lie in the file, None if they are in compressed chunks."""
    chunk: int = 0
    """Elements of a chunk."""
    filters: tuple[int, ...] = ()
    """What a chunk went through when it was written, in order."""
    last: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    """The chunk that was unpacked last, by its first element."""


def find_dataset(file: h5py.h5f.FileID, path: str, *, dtype: str, file_bytes: int) -> Found:
    """Open a one-dimensional dataset, with every size checked against the file.

    Args:
        file: The open file.
        path: ``/index``, ``/values/<name>`` or ``/program/<name>``.
        dtype: Name of the dtype that it must have; several, separated by spaces, if any will do.
        file_bytes: Size of the file.

    Raises:
        DumpFormatError: It is missing, has another dtype, lies outside the file, or uses links,
            storage or filters that a reader must not follow.
    """
    if _PATH.fullmatch(path) is None:
        raise _refusal(path, "expected /index, /values/<name> or /program/<name>")
    try:
        dataset = _open(file, path)
        return _checked(dataset, path, dtype, file_bytes)
    except HDF5_ERRORS as error:
        if isinstance(error, DumpFormatError):
            raise
        raise _refusal(path, f"HDF5 says {str(error)[:200]!r}") from error


def _refusal(path: str, found: str) -> DumpFormatError:
    return DumpFormatError(f"cannot read dataset {path!r}: {found}")


def _open(file: h5py.h5f.FileID, path: str) -> h5d.DatasetID:
    group: h5py.h5f.FileID | h5g.GroupID = h5g.open(file, b"/")
    _refuse_attributes(group, path)
    parts = path.strip("/").split("/")
    for part in parts[:-1]:
        group = _member(group, part, path, h5o.TYPE_GROUP)
    return _member(group, parts[-1], path, h5o.TYPE_DATASET)


def _member(
    group: h5py.h5f.FileID | h5g.GroupID, name: str, path: str, kind: int
) -> h5g.GroupID | h5d.DatasetID:
    encoded = name.encode()
    here = h5g.open(group, b".")  # the proxy below is valid only as long as this lives
    links = here.links
    if not links.exists(encoded):
        raise _refusal(path, f"expected a dataset, found no {name!r}")
    if links.get_info(encoded).type != h5l.TYPE_HARD:
        raise _refusal(path, f"{name!r} is a soft or external link, which is never followed")
    if h5o.get_info(group, encoded).type != kind:
        raise _refusal(path, f"{name!r} is another kind of object")
    return h5o.open(group, encoded)


def _refuse_attributes(where: h5g.GroupID | h5d.DatasetID, path: str) -> None:
    if h5a.get_num_attrs(where):
        raise _refusal(path, "HDF5 attributes, which a dump does not have")


def count_values(file: h5py.h5f.FileID) -> int:
    """Count what lies in the group of values, and beside it, the index and the program.

    No link is followed.

    Raises:
        DumpFormatError: There is no such group.
    """
    try:
        root = h5g.open(file, b"/")
        values = _member(root, "values", "/values", h5o.TYPE_GROUP)
        known = 2 + has_program(file)
        return int(values.get_num_objs()) + int(root.get_num_objs()) - known
    except HDF5_ERRORS as error:
        if isinstance(error, DumpFormatError):
            raise
        raise _refusal("/values", f"HDF5 says {str(error)[:200]!r}") from error


def has_program(file: h5py.h5f.FileID) -> bool:
    """Return whether the file holds a program.

    Raises:
        DumpFormatError: The file is damaged.
    """
    try:
        root = h5g.open(file, b"/")  # the proxy below is valid only as long as this lives
        return bool(root.links.exists(b"program"))
    except HDF5_ERRORS as error:
        raise _refusal("/program", f"HDF5 says {str(error)[:200]!r}") from error


def _checked(dataset: h5d.DatasetID, path: str, dtype: str, file_bytes: int) -> Found:
    _refuse_attributes(dataset, path)
    creation = dataset.get_create_plist()
    space = dataset.get_space()
    if creation.get_external_count():
        raise _refusal(path, "its elements are in another file, which is never opened")
    if space.get_simple_extent_type() != h5py.h5s.SIMPLE or space.get_simple_extent_ndims() != 1:
        raise _refusal(path, "expected one dimension")
    kind = dataset.get_type()
    if not any(kind.equal(hdf5_type(name)) for name in dtype.split()):
        raise _refusal(path, f"expected the elements to be {dtype}")
    size = space.get_simple_extent_npoints()
    size_bytes = size * kind.get_size()
    layout = creation.get_layout()
    if layout == h5d.CONTIGUOUS:
        offset = dataset.get_offset() if size_bytes else 0  # HDF5 places no empty one
        if offset is None or offset < 0 or offset + size_bytes > file_bytes:
            raise _refusal(path, f"expected {size_bytes} bytes in the file, found fewer")
        return Found(dataset=dataset, size=size, offset_bytes=offset)
    if layout != h5d.CHUNKED or not path.startswith("/values/"):
        raise _refusal(path, "its storage is neither contiguous nor chunked")
    filters = tuple(creation.get_filter(at)[0] for at in range(creation.get_nfilters()))
    _check_filters(filters, path)
    _check_chunks(dataset, creation, path, size_bytes, file_bytes=file_bytes)
    chunk = creation.get_chunk()[0]
    return Found(dataset=dataset, size=size, offset_bytes=None, chunk=chunk, filters=filters)


def _check_filters(filters: tuple[int, ...], path: str) -> None:
    for code in filters:
        if code not in _FILTERS:
            raise _refusal(path, f"filter {code} is neither shuffle nor deflate")
        if filters.count(code) > 1:
            raise _refusal(path, f"filter {code} comes twice")


def _check_chunks(
    dataset: h5d.DatasetID,
    creation: h5py.h5p.PropDCID,
    path: str,
    size_bytes: int,
    *,
    file_bytes: int,
) -> None:
    chunk_bytes = creation.get_chunk()[0] * dataset.get_type().get_size()
    stored_bytes = dataset.get_storage_size()  # a sum of what the file says of its chunks
    if stored_bytes > file_bytes:
        raise _refusal(path, f"a file of {file_bytes} bytes cannot store {stored_bytes} bytes")
    if chunk_bytes > _CHUNK_LIMIT_BYTES:
        limit = _CHUNK_LIMIT_BYTES
        raise _refusal(path, f"a chunk of {chunk_bytes} bytes, where {limit} are allowed")
    if size_bytes > stored_bytes * _DEFLATE_RATIO:
        raise _refusal(path, f"{stored_bytes} stored bytes cannot hold {size_bytes} bytes")
