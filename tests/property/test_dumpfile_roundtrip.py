"""Laws of the on-disk form: whatever goes in comes out, bit for bit."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff.dumpfile import (
    DTYPE_NAMES,
    DumpWriter,
    ModuleInfo,
    Phase,
    Role,
    digest_of,
    dtype_name,
    numpy_dtype,
    open_dump,
    statistics_of,
    validate,
)
from padiff.dumpfile.manifestcodec import decode_manifest, encode_manifest
from padiff.dumpfile.strictjson import from_json, plain, to_json
from tests.support.dumps import manifest

Array = npt.NDArray[Any]
ROOT = ModuleInfo(id=0, path="", class_name="Net", class_path="net.Net", parent=None)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Any dtype from any bits (nan payloads, -0.0), any small shape, any memory layout."""
    name = draw(st.sampled_from(DTYPE_NAMES))
    dtype = numpy_dtype(name)
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    size_bytes = math.prod(shape) * dtype.itemsize
    data = draw(st.binary(min_size=size_bytes, max_size=size_bytes))
    raw = np.frombuffer(data, dtype=np.uint8)
    if name == "bool":
        raw = raw % 2
    array: Array = raw.view(dtype).reshape(shape)
    layout = draw(st.sampled_from(["plain", "transposed", "reversed", "strided"]))
    if layout == "transposed":
        return array.T
    if layout == "reversed" and array.ndim:
        return array[::-1]
    if layout == "strided" and array.ndim:
        return np.repeat(array, 2, axis=0)[::2]
    return array


def written(stored: list[Array], place: Path, *, compression: int | None = None) -> Path:
    with DumpWriter(place / "net", compression=compression) as writer:
        with writer.step(0) as step:
            step.add_modules((ROOT,))
            for order, array in enumerate(stored):
                step.add_record(
                    module=0,
                    call=None,
                    phase=Phase.FORWARD,
                    role=Role.NAMED,
                    slot=f"[{order}]",
                    order=order,
                    shape=array.shape,
                    value=step.store(array),
                )
        return writer.commit(manifest())


@settings(deadline=None, max_examples=60)
@given(st.lists(arrays(), min_size=1, max_size=8), st.sampled_from([None, 1]))
def test_every_array_comes_back_bit_for_bit(stored: list[Array], compression: int | None) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = written(stored, Path(place), compression=compression)
        with open_dump(path).open() as file:
            for record, array in zip(file.index.records, stored, strict=True):
                found = file.array(record)
                assert found.shape == array.shape
                assert found.dtype == array.dtype
                assert found.tobytes() == array.tobytes()
        assert validate(path, deep=True) == []


@settings(deadline=None, max_examples=40)
@given(st.lists(arrays(), min_size=1, max_size=8))
def test_records_share_a_value_exactly_if_dtype_and_bytes_are_equal(stored: list[Array]) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = written(stored + stored, Path(place))
        with open_dump(path).open() as file:
            values = [record.value for record in file.index.records]

    contents = [(dtype_name(array.dtype), array.tobytes()) for array in stored + stored]
    assert len(set(values)) == len(set(contents))
    assert len(set(zip(values, contents, strict=True))) == len(set(contents))


@settings(deadline=None)
@given(arrays())
def test_digest_and_statistics_do_not_depend_on_shape(array: Array) -> None:
    flat = np.ascontiguousarray(array).reshape(-1)

    assert digest_of(array) == digest_of(flat)
    assert statistics_of(array) == statistics_of(flat)


@settings(deadline=None)
@given(arrays().filter(lambda array: array.dtype.kind != "c"))
def test_statistics_agree_with_exact_arithmetic(array: Array) -> None:
    with np.errstate(all="ignore"):
        numbers = [float(x) for x in array.reshape(-1)]
    finite = [x for x in numbers if math.isfinite(x)]

    found = statistics_of(array)

    assert found.nan == sum(math.isnan(x) for x in numbers)
    assert found.posinf == numbers.count(math.inf)
    assert found.neginf == numbers.count(-math.inf)
    assert found.zeros == numbers.count(0.0)
    assert found.minimum == min(finite, default=None)
    assert found.maximum == max(finite, default=None)
    if finite:
        assert found.l2 is not None
        assert found.mean is not None
        scale = max(map(abs, finite)) or 1.0
        mean = scale * (math.fsum(x / scale for x in finite) / len(finite))
        assert math.isclose(found.l2, math.hypot(*finite), rel_tol=1e-9)
        assert math.isclose(found.mean, mean, rel_tol=1e-9, abs_tol=1e-12 * scale)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values, max_size=3), st.text(), st.lists(st.text()))
def test_manifests_come_back_as_they_were(
    options: dict[str, Any], name: str, notes: list[str]
) -> None:
    file: dict[str, Any] = {"step": 0, "rank": 0, "calls": 0, "records": 0, "size_bytes": 1}
    made = manifest(name=name, notes=tuple(notes), settings=plain(options))
    data = from_json(encode_manifest(made))
    assert isinstance(data, dict)
    data["files"] = [{**file, "path": "step_000000/rank_0000.h5"}]

    found, problems = decode_manifest(to_json(data).encode())

    assert problems == []
    assert found is not None
    assert (found.name, found.notes, found.settings) == (made.name, made.notes, made.settings)


@given(json_values)
def test_plain_values_survive_strict_json(value: Any) -> None:  # noqa: ANN401
    made = plain(value)

    assert from_json(to_json(made).encode()) == made
    assert plain(made) == made
