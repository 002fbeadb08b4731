"""Tests of one dump that is both sides of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import DumpWriter, Phase, Role, open_dump
from tests.support.dumps import DumpBuilder, manifest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("compression", [None, 1])
def test_one_dump_can_be_open_twice(compression: int | None, tmp_path: Path) -> None:
    arrays = [np.full(30_000, number, dtype=np.float32) for number in range(2)]
    with DumpWriter(tmp_path / "net", compression=compression) as writer:
        with writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            for order, array in enumerate(arrays):
                step.add_record(
                    module=0,
                    call=None,
                    phase=Phase.FORWARD,
                    role=Role.NAMED,
                    slot="",
                    order=order,
                    shape=array.shape,
                    value=step.store(array),
                )
        path = writer.commit(manifest())
    first, second = open_dump(path).open(), open_dump(path).open()
    second.array(second.index.records[0])

    first.close()

    for record, array in zip(second.index.records, arrays, strict=True):
        np.testing.assert_array_equal(second.array(record), array)
    second.close()
