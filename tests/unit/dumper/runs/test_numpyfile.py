"""Files of arrays that older programs wrote."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper.runs.inputs import read_numpy

if TYPE_CHECKING:
    from pathlib import Path


def test_sizes_written_as_python_2_did_are_read_without_a_warning(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    stream = io.BytesIO()
    np.save(stream, array)
    path = tmp_path / "old.npy"
    path.write_bytes(stream.getvalue().replace(b"(2, 3), }", b"(2L, 3L)}"))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_numpy(path)

    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, array)
