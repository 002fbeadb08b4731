"""Tests of the content digest."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import xxhash

from padiff.dumpfile import digest_of


def test_digest_is_xxh3_over_name_zero_and_bytes() -> None:
    array = np.array([1.0, 2.0], dtype=np.float32)
    expected = xxhash.xxh3_128_hexdigest(b"float32\0" + array.tobytes())

    assert digest_of(array) == expected


def test_digest_ignores_shape_and_memory_layout() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)

    assert digest_of(array) == digest_of(array.reshape(-1))
    assert digest_of(array.T) == digest_of(np.ascontiguousarray(array.T))
    assert digest_of(array.astype(">i8")) == digest_of(array)


def test_digest_tells_dtypes_signs_of_zero_and_nan_payloads_apart() -> None:
    bits = np.array([0x7FC00000, 0x7FC00001], dtype=np.uint32).view(np.float32)
    digests = {
        digest_of(np.zeros(1, np.float32)),
        digest_of(-np.zeros(1, np.float32)),
        digest_of(np.zeros(1, np.int32)),
        digest_of(np.zeros(2, ml_dtypes.bfloat16)),
        digest_of(bits[:1]),
        digest_of(bits[1:]),
    }

    assert len(digests) == 6


def test_empty_arrays_of_one_dtype_share_a_digest() -> None:
    assert digest_of(np.empty((0, 3), np.float32)) == digest_of(np.empty(0, np.float32))
    assert digest_of(np.empty(0, np.float32)) != digest_of(np.empty(0, np.float64))
