"""Pickles of arrays: what is read, and what is refused without being built."""

from __future__ import annotations

import pickle
import random
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from padiff.dumper.weights.plain_pickle import read_array_pickle

ARRAYS: dict[str, Any] = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "turned": np.arange(12, dtype=np.int64).reshape(3, 4).T,
    "big_endian": np.arange(3, dtype=">f8"),
    "scalar": np.array(2.5),
    "bits": np.array([1, 2], np.uint16),
    "flags": np.array([True, False]),
    "empty": np.zeros((0, 3), np.float32),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_come_back_whatever_the_protocol(protocol: int) -> None:
    data = pickle.dumps(OrderedDict(**ARRAYS, inner={"x": ARRAYS["weight"]}), protocol=protocol)

    found: Any = read_array_pickle(data)

    assert list(found) == [*ARRAYS, "inner"]
    for name, array in (*ARRAYS.items(), ("weight", found["inner"]["x"])):
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape


def test_numpy_scalars_come_as_arrays_without_axes() -> None:
    found: Any = read_array_pickle(pickle.dumps({"x": np.float32(1.5)}))

    assert found["x"].shape == ()


class _Witness:
    """Would set a flag if it were built."""

    built: list[int] = []  # noqa: RUF012 - what a pickle could reach

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return self.built.append, (1,)


@pytest.mark.parametrize(
    "hostile",
    [
        {"x": _Witness()},
        [_Witness()],
        {"x": np.array([_Witness()], dtype=object)},
        {"x": np.zeros(2, dtype=[("a", "f4")])},
        {"x": np.array(["text"])},
        {"x": complex},
    ],
)
def test_what_is_no_plain_array_is_refused_and_not_built(hostile: object) -> None:
    with pytest.raises(pickle.UnpicklingError):
        read_array_pickle(pickle.dumps(hostile))

    assert _Witness.built == []


def test_shape_that_the_data_do_not_fill_allocates_nothing() -> None:
    data = pickle.dumps({"x": np.zeros(3, np.uint8)}, protocol=2)
    vast = data.replace(b"K\x03\x85", b"\x8a\x07" + (2**50).to_bytes(7, "little") + b"\x85")
    assert vast != data

    with pytest.raises(pickle.UnpicklingError, match="shape"):
        read_array_pickle(vast)


def test_damage_is_always_told_and_never_crashes() -> None:
    whole = pickle.dumps({"a": ARRAYS["weight"], "b": ARRAYS["scalar"]}, protocol=4)
    chance = random.Random(0)
    refused = 0

    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            read_array_pickle(bytes(damaged))
        except pickle.UnpicklingError:
            refused += 1

    assert refused > 300
