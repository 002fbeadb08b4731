"""Tests of dtype names and their HDF5 types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h5py
import ml_dtypes
import numpy as np
import pytest

from padiff.dumpfile import DTYPE_NAMES, DumpFormatError, RecordError, dtype_name, numpy_dtype
from padiff.dumpfile.dtypes import hdf5_type, raw_bytes
from padiff.dumpfile.hdf5sink import HDF5Sink

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_names_and_dtypes_invert_each_other(name: str) -> None:
    assert dtype_name(numpy_dtype(name)) == name


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_hdf5_elements_have_numpys_size(name: str) -> None:
    assert hdf5_type(name).get_size() == numpy_dtype(name).itemsize


def test_unknown_dtypes_are_refused() -> None:
    with pytest.raises(RecordError):
        dtype_name(np.dtype("U3"))
    with pytest.raises(DumpFormatError):
        numpy_dtype("float24")


def test_raw_bytes_are_little_endian_in_c_order() -> None:
    array = np.array([[1, 2], [3, 4]], dtype=">u2").T

    assert raw_bytes(array).tolist() == [1, 0, 3, 0, 2, 0, 4, 0]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("bfloat16", ml_dtypes.bfloat16), ("float8_e5m2", ml_dtypes.float8_e5m2)],
)
def test_h5py_reads_every_bit_pattern_as_the_right_value(
    name: str, dtype: type, tmp_path: Path
) -> None:
    size = np.dtype(dtype).itemsize
    patterns = np.arange(2 ** (8 * size)).astype(f"u{size}")
    with np.errstate(all="ignore"):  # signalling nans
        expected = patterns.view(dtype).astype(np.float64)
    sink = HDF5Sink(tmp_path / "x.h5")
    sink.write("/values/all", patterns.data.cast("B"), name)
    sink.close()

    with h5py.File(tmp_path / "x.h5") as file, np.errstate(all="ignore"):
        found = file["values/all"][...].astype(np.float64)

    np.testing.assert_array_equal(found, expected)


def test_h5py_reads_float8_e4m3fn_below_256(tmp_path: Path) -> None:
    patterns = np.array([p for p in range(256) if p & 0x78 != 0x78], dtype=np.uint8)
    sink = HDF5Sink(tmp_path / "x.h5")
    sink.write("/values/all", patterns.data, "float8_e4m3fn")
    sink.close()

    with h5py.File(tmp_path / "x.h5") as file:
        found = file["values/all"][...].astype(np.float64)

    expected = patterns.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    np.testing.assert_array_equal(found, expected)


def test_h5py_reads_booleans_and_complex_numbers_as_its_own(tmp_path: Path) -> None:
    booleans = np.array([True, False, True])
    numbers = np.array([1 + 2j, -3j], dtype=np.complex64)
    sink = HDF5Sink(tmp_path / "x.h5")
    sink.write("/values/b", raw_bytes(booleans).data, "bool")
    sink.write("/values/c", raw_bytes(numbers).data, "complex64")
    sink.close()

    with h5py.File(tmp_path / "x.h5") as file:
        assert file["values/b"].dtype == np.bool_
        assert file["values/b"][...].tolist() == [True, False, True]
        assert file["values/c"].dtype == np.complex64
        assert file["values/c"][...].tolist() == [1 + 2j, -3j]
