"""The digest that tells whether two tensors have the same content."""

from __future__ import annotations

import re
from collections.abc import Callable

import xxhash

from .dtypes import DTYPE_NAMES, Array, dtype_name, raw_bytes

DIGEST_PATTERN = re.compile(r"[0-9a-f]{32}")
"""What a digest looks like."""

PART_BYTES = 64 << 20
"""What is digested of a mapped array before its pages are given back."""

_STARTS = {name: xxhash.xxh3_128(name.encode() + b"\0") for name in DTYPE_NAMES}


def digest_of(array: Array) -> str:
    """Digest an array's dtype and elements, but not its shape.

    xxh3_128 over the dtype's name, a zero byte, and the elements as little-endian bytes in C
    order, so that a view or reshape of a tensor is the same content and ``-0.0`` is not ``0.0``.
    It is no protection against forgery: a dump states its digests itself.

    Args:
        array: Any shape, any dtype that a dump can hold.

    Returns:
        32 lower-case hexadecimal digits.

    Raises:
        RecordError: Dumps cannot hold the dtype.

    Source:
        https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md (XXH3, 128 bits, seed 0).

    >>> import numpy as np
    >>> digest_of(np.zeros((2, 3))) == digest_of(np.zeros(6)) != digest_of(-np.zeros(6))
    True
    """
    return digest_of_bytes(raw_bytes(array).data, dtype_name(array.dtype))


def digest_of_bytes(data: memoryview | bytes, dtype: str) -> str:
    """Digest elements that are raw bytes already.

    Args:
        data: The elements, little-endian.
        dtype: Name of their dtype.
    """
    digest = _STARTS[dtype].copy()
    digest.update(data)
    return digest.hexdigest()


def digest_of_mapped(data: memoryview, dtype: str, *, release: Callable[[], None]) -> str:
    """Digest raw bytes that may lie in a mapped file, without filling the memory with them.

    Args:
        data: The elements, little-endian.
        dtype: Name of their dtype.
        release: Gives back the memory of what was read; called behind each whole part.
    """
    if len(data) <= PART_BYTES:
        return digest_of_bytes(data, dtype)
    digest = _STARTS[dtype].copy()
    for start in range(0, len(data), PART_BYTES):
        digest.update(data[start : start + PART_BYTES])
        release()
    return digest.hexdigest()
