"""A file's table of contents: where each dataset lies, for readers that ask HDF5 nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from h5py import h5z

from .dataset import (
    DATASET_PATH,
    DIGEST_CELL,
    MOST_MEMBERS,
    TABLE_KINDS,
    Found,
    check_chunks,
    refusal,
)
from .dtypes import numpy_dtype
from .strictjson import StrictJSONError, from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .schema import JSON

CONTENTS = "/contents"
"""Path of the dataset that holds it, as strict JSON in UTF-8."""
CONTENTS_LIMIT_BYTES = 64 << 20
"""Some 700 000 datasets."""
_FILTERS = (h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE)
_INT_LIMIT = 2**62


def described(
    kind: str | np.dtype[Any],
    size: int,
    offset: int = 0,
    *,
    chunk: int = 0,
    chunks: Sequence[tuple[int, int]] = (),
) -> JSON:
    """Return what the table of contents says of a dataset.

    Args:
        kind: Name of the elements' dtype; of a table the numpy dtype of its rows.
        size: Number of elements.
        offset: Bytes before the first of them.
        chunk: Elements of a chunk; 0 if the elements lie one after the other.
        chunks: Byte offset and size of each chunk as it is stored, in order.
    """
    columns: JSON = kind if isinstance(kind, str) else kind.str
    if not isinstance(kind, str) and kind.names is not None:
        columns = [[name, _cell_text(kind[name])] for name in kind.names]
    entry: dict[str, JSON] = {"dtype": columns, "size": size}
    if not chunk:
        return entry | {"offset": offset}
    return entry | {"chunk": chunk, "chunks": [list(one) for one in chunks]}


def _cell_text(cell: np.dtype[Any]) -> str:
    return "16u1" if cell == DIGEST_CELL else cell.str


class Contents:
    """A table of contents that came from anybody; every entry is checked when it is used."""

    def __init__(self, data: bytes, *, file_bytes: int, read: Callable[[int, int], bytes]) -> None:
        """Read it.

        Args:
            data: The dataset's bytes.
            file_bytes: Size of the file.
            read: Returns the bytes of the file from an offset on, so many.

        Raises:
            DumpFormatError: It is no strict JSON object of datasets.
        """
        try:
            found = from_json(data)
        except StrictJSONError as error:
            raise refusal(CONTENTS, f"expected strict JSON, found {str(error)[:200]!r}") from error
        if not isinstance(found, dict) or not all(map(DATASET_PATH.fullmatch, found)):
            raise refusal(CONTENTS, "expected an object of datasets")
        self._entries = found
        self._file_bytes = file_bytes
        self._read = read

    def members(self, group: str) -> frozenset[str]:
        """Return the names of what lies in a group; ``""`` is the root.

        Raises:
            DumpFormatError: It has more datasets than any file has.
        """
        parts = [path.split("/") for path in self._entries]
        if not group:
            return frozenset(part[1] for part in parts)
        found = frozenset(part[2] for part in parts if part[1] == group)
        if len(found) > MOST_MEMBERS and group != "values":
            raise refusal(f"/{group}", f"more than {MOST_MEMBERS} datasets")
        return found

    def find(self, path: str, dtype: str | None) -> Found:
        """Return where a dataset lies, with every size checked against the file.

        Args:
            path: ``/values/<name>``, ``/index/<name>`` or ``/program/<name>``.
            dtype: Name of the dtype that it must have; None if it is a table.

        Raises:
            DumpFormatError: It is missing, has another dtype or lies outside the file.
        """
        entry = self._entries.get(path)
        if not isinstance(entry, dict):
            raise refusal(path, "expected a dataset, found none in the table of contents")
        kind = entry.get("dtype")
        if dtype is not None and kind != dtype:
            raise refusal(path, f"expected the elements to be {dtype}")
        row = _row_dtype(kind, path) if dtype is None else numpy_dtype(dtype)
        size = _count(entry.get("size"), path)
        size_bytes = size * row.itemsize
        if "chunks" in entry and dtype is not None:
            return self._chunked(path, entry, size, row.itemsize)
        offset = _count(entry.get("offset"), path)
        if offset + size_bytes > self._file_bytes:
            raise refusal(path, f"expected {size_bytes} bytes in the file, found fewer")
        return Found(size=size, offset_bytes=offset, dtype=row if dtype is None else None)

    def _chunked(self, path: str, entry: dict[str, JSON], size: int, width: int) -> Found:
        chunk, listed = _count(entry.get("chunk"), path), entry.get("chunks")
        count = -(-size // chunk) if chunk else -1
        if not isinstance(listed, list) or len(listed) != count:
            raise refusal(path, f"expected {max(count, 0)} chunks")
        places: list[tuple[int, int]] = []
        for one in listed:
            if not isinstance(one, list) or len(one) != 2:  # noqa: PLR2004
                raise refusal(path, "expected the offset and the size of each chunk")
            start, stored = (_count(number, path) for number in one)
            if start + stored > self._file_bytes:
                raise refusal(path, "a chunk lies outside the file")
            places.append((start, stored))
        check_chunks(
            path,
            size * width,
            chunk_bytes=chunk * width,
            stored_bytes=sum(stored for _, stored in places),
            file_bytes=self._file_bytes,
        )
        return Found(
            size=size,
            offset_bytes=None,
            chunk=chunk,
            filters=_FILTERS,
            read_chunk=lambda start: (0, self._read(*places[start // chunk])),
        )


def _count(found: JSON, path: str) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < _INT_LIMIT:
        raise refusal(path, f"expected an integer >= 0, found {str(found)[:60]!r}")
    return found


def _row_dtype(kind: JSON, path: str) -> np.dtype[Any]:
    """Return the dtype of a table's rows."""
    if isinstance(kind, str) and kind in TABLE_KINDS:
        return np.dtype(kind)
    if isinstance(kind, list) and 0 < len(kind) <= MOST_MEMBERS:
        fields: list[tuple[str, np.dtype[Any]]] = []
        for one in kind:
            name, cell = one if isinstance(one, list) and len(one) == 2 else ("", "")  # noqa: PLR2004
            if not (isinstance(name, str) and name.isidentifier() and isinstance(cell, str)):
                break
            if cell != "16u1" and cell not in TABLE_KINDS:
                break
            fields.append((name, DIGEST_CELL if cell == "16u1" else np.dtype(cell)))
        else:
            if len({name for name, _ in fields}) == len(fields):
                return np.dtype(fields)
    raise refusal(path, "expected fields of integers, float64 or 16 bytes")
