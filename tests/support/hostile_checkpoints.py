"""Checkpoints from somebody who means harm: each function writes one, and gives its path."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support.hostile_dumps import Cases

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINTS = Cases()
WITNESS = "executed"
"""A file in the working directory that a pickle would make, were it obeyed."""
HEAD: tuple[Any, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
ARRAY = np.arange(6, dtype=np.float32)


class Obeyed:
    """Makes the witness when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        import os  # noqa: PLC0415 - named in the pickle only

        return os.system, (f"touch {WITNESS}",)


def remembered(level: int) -> bytes:
    """Push what was remembered at a level."""
    return b"j" + struct.pack("<I", level)


def remember(level: int) -> bytes:
    """Remember what lies on top, and take it off."""
    return b"r" + struct.pack("<I", level) + b"0"


def doubled(begin: bytes, join: bytes, depth: int = 100) -> bytes:
    """Write a thing that holds itself twice, so many times over, and push it."""
    made = begin
    for level in range(depth):
        made += remember(level) + (b"(" + remembered(level) * 2 + join)
    return made


def text(word: str) -> bytes:
    return b"X" + struct.pack("<I", len(word)) + word.encode()


def number(value: int) -> bytes:
    data = value.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def tensor(
    *,
    count: int = 6,
    offset: int = 0,
    size: tuple[int, ...] = (2, 3),
    stride: tuple[int, ...] = (3, 1),
) -> bytes:
    """Write the pickle of a state dict of one tensor, by hand."""

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
    storage += number(count) + b"tQ"
    rebuilt = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset)
    rebuilt += numbers(size) + numbers(stride) + b"\x89}tR"
    return b"\x80\x02}" + text("w") + rebuilt + b"s."


def called(module: str, name: str, *arguments: bytes) -> bytes:
    """Write a pickle of a dict whose value is what a call gives."""
    call = f"c{module}\n{name}\n".encode() + b"(" + b"".join(arguments) + b"tR"
    return b"\x80\x02}" + text("w") + call + b"s."


# -- paddle's


def paddle(folder: Path, data: bytes) -> Path:
    path = folder / "x.pdparams"
    path.write_bytes(data)
    return path


@CHECKPOINTS.refused("wants to load posix.system")
def paddle_that_runs_a_command(folder: Path) -> Path:
    return paddle(folder, pickle.dumps({"w": Obeyed()}))


@CHECKPOINTS.refused("wants to load builtins.getattr")
def paddle_that_asks_for_an_attribute(folder: Path) -> Path:
    return paddle(folder, called("builtins", "getattr", text("x"), text("__class__")))


@CHECKPOINTS.refused("sets the state of something else than an array")
def paddle_that_changes_a_function(folder: Path) -> Path:
    state = b"N}" + text("__defaults__") + b")s" + b"\x86"
    return paddle(folder, b"\x80\x02cnumpy.core.multiarray\nscalar\n" + state + b"b.")


@CHECKPOINTS.refused("expected a state dict, found dict of something else")
def paddle_of_dicts_in_dicts(folder: Path) -> Path:
    """Hold two to the hundredth dicts."""
    made = b"}"
    for level in range(100):
        inner = remembered(level)
        made += remember(level) + b"}" + text("a") + inner + b"s" + text("b") + inner + b"s"
    return paddle(folder, b"\x80\x02}" + text("w") + made + b"s.")


@CHECKPOINTS.refused("holds a dict that holds itself")
def paddle_of_a_dict_in_itself(folder: Path) -> Path:
    found: dict[str, Any] = {}
    found["w"] = found
    return paddle(folder, pickle.dumps(found))


@CHECKPOINTS.refused("RecursionError")
def paddle_of_deep_dicts(folder: Path) -> Path:
    return paddle(folder, b"\x80\x02" + (b"}" + text("a")) * 100_000 + b"}" + b"s" * 100_000 + b".")


@CHECKPOINTS.refused("other keys than text and numbers")
def paddle_of_a_key_that_takes_for_ever(folder: Path) -> Path:
    """Ask for the hash of two to the hundredth tuples."""
    return paddle(folder, b"\x80\x02}" + doubled(b")", b"t") + b"K\x01s.")


@CHECKPOINTS.refused("expected a state dict, found dict of something else: 'w'")
def paddle_of_a_set_that_takes_for_ever(folder: Path) -> Path:
    return paddle(folder, b"\x80\x04}" + text("w") + b"\x8f(" + doubled(b")", b"t") + b"\x90s.")


@CHECKPOINTS.refused("holds an array of a wrong form")
def paddle_of_a_dtype_that_takes_for_ever(folder: Path) -> Path:
    dtype = b"cnumpy\ndtype\n" + doubled(b"]", b"l") + b"\x85R"
    return paddle(folder, called("numpy.core.multiarray", "scalar", dtype, text("x")))


@CHECKPOINTS.refused("makes more bytes than it has")
def paddle_that_encodes_again_and_again(folder: Path) -> Path:
    """Make 100 GB of 1 MB."""
    words = b"(" + text("x" * 1_000_000) + remember(0) + b"0"
    again = b"c_codecs\nencode\n(" + remembered(0) + text("latin1") + b"tR"
    return paddle(folder, b"\x80\x02](" + words.removeprefix(b"(")[:-1] + again * 100_000 + b"e.")


@CHECKPOINTS.refused("whose data do not have its shape")
def paddle_of_a_huge_shape(folder: Path) -> Path:
    data = pickle.dumps({"w": np.zeros(3, np.uint8)}, protocol=2)
    return paddle(folder, data.replace(b"K\x03\x85", number(2**50) + b"\x85"))


@CHECKPOINTS.refused("holds an array of dtype 'O8'")
def paddle_of_objects(folder: Path) -> Path:
    dtype = b"cnumpy\ndtype\n(" + text("O8") + b"tR"
    return paddle(folder, called("numpy.core.multiarray", "scalar", dtype, text("x")))


@CHECKPOINTS.refused("times the file, found 4000000000 bytes")
def paddle_of_one_array_by_many_names(folder: Path) -> Path:
    array = np.zeros(250_000, np.float32)
    return paddle(folder, pickle.dumps({f"w{number}": array for number in range(4_000)}))


# -- torch's


def torch_archive(path: Path, data: bytes, *storages: tuple[str, bytes]) -> Path:
    """Write an archive as torch does, of a pickle and the bytes of storages."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        for name, content in storages:
            archive.writestr(f"archive/data/{name}", content)
    return path


def torch(folder: Path, data: bytes, *storages: tuple[str, bytes]) -> Path:
    return torch_archive(folder / "x.pth", data, *storages)


def old_torch_file(path: Path, *, count: int = 6) -> Path:
    """Write a file as torch did before version 1.6."""
    head = b"".join(pickle.dumps(one, 2) for one in HEAD)
    data = tensor(count=count).replace(b"tQ", b"NtQ")
    path.write_bytes(head + data + pickle.dumps(["0"], 2) + (6).to_bytes(8, "little") + GOOD[1])
    return path


GOOD = ("0", ARRAY.tobytes())


@CHECKPOINTS.refused("wants to load posix.system")
def torch_that_runs_a_command(folder: Path) -> Path:
    return torch(folder, pickle.dumps({"w": Obeyed()}, protocol=2))


@CHECKPOINTS.refused("wants to load builtins.bytearray")
def torch_that_asks_for_memory(folder: Path) -> Path:
    return torch(folder, called("builtins", "bytearray", number(2**50)))


@CHECKPOINTS.refused("not callable")
def torch_that_makes_an_empty_tensor(folder: Path) -> Path:
    return torch(folder, called("torch", "FloatStorage", number(2**50)))


@CHECKPOINTS.refused("wants to load torch._utils._rebuild_sparse_tensor")
def torch_of_a_sparse_tensor(folder: Path) -> Path:
    return torch(folder, called("torch._utils", "_rebuild_sparse_tensor", b"N", b"N"))


@CHECKPOINTS.refused("lies outside of its data")
def torch_beyond_its_data(folder: Path) -> Path:
    return torch(folder, tensor(stride=(3, 2**40)), GOOD)


@CHECKPOINTS.refused("of a wrong form")
def torch_before_its_data(folder: Path) -> Path:
    return torch(folder, tensor(stride=(-3, 1)), GOOD)


@CHECKPOINTS.refused("of a wrong form")
def torch_that_begins_before_its_data(folder: Path) -> Path:
    return torch(folder, tensor(offset=-6), GOOD)


@CHECKPOINTS.refused("repeats its data too often")
def torch_of_one_number_again_and_again(folder: Path) -> Path:
    return torch(folder, tensor(size=(2**20, 2**20), stride=(0, 0)), GOOD)


@CHECKPOINTS.refused("of a wrong form")
def torch_of_more_axes_than_an_array_can_have(folder: Path) -> Path:
    return torch(folder, tensor(size=(1,) * 63 + (2, 3), stride=(6,) * 63 + (3, 1)), GOOD)


@CHECKPOINTS.refused("whose data do not have its size")
def torch_of_a_huge_storage(folder: Path) -> Path:
    return torch(folder, tensor(count=2**50), GOOD)


@CHECKPOINTS.refused("the archive has no 'archive/data/0'")
def torch_without_data(folder: Path) -> Path:
    return torch(folder, tensor())


@CHECKPOINTS.refused("is compressed, which torch.save never does")
def torch_of_packed_zeros(folder: Path) -> Path:
    path = torch(folder, tensor(count=1 << 28, size=(1 << 28,), stride=(1,)))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("archive/data/0", bytes(1 << 28))
    return path


@CHECKPOINTS.refused("the data are cut off")
def torch_of_data_outside_of_the_file(folder: Path) -> Path:
    path = torch(folder, tensor(count=1 << 26, size=(1 << 26,), stride=(1,)), GOOD)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    for place in (20, 24):  # compressed and uncompressed size in the central directory
        data[at + place : at + place + 4] = (1 << 28).to_bytes(4, "little")
    path.write_bytes(data)
    return path


@CHECKPOINTS.refused("none that torch.save wrote")
def torch_of_no_pickle(folder: Path) -> Path:
    path = folder / "x.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/other", b"x")
    return path


@CHECKPOINTS.refused("whose data do not have its size")
def old_torch_of_a_huge_storage(folder: Path) -> Path:
    return old_torch_file(folder / "x.pth", count=2**50)


# -- safetensors, and checkpoints in several files


def safetensors(folder: Path, header: Any, body: bytes = bytes(24)) -> Path:  # noqa: ANN401
    path = folder / "x.safetensors"
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(data).to_bytes(8, "little") + data + body)
    return path


def entry(start: int = 0, stop: int = 24, shape: Any = (2, 3)) -> dict[str, Any]:  # noqa: ANN401
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, stop]}


@CHECKPOINTS.refused("invalid offset for tensor")
def safetensors_of_one_array_by_many_names(folder: Path) -> Path:
    return safetensors(folder, {f"w{number}": entry() for number in range(10_000)})


@CHECKPOINTS.refused("file not fully covered")
def safetensors_beyond_the_end(folder: Path) -> Path:
    return safetensors(folder, {"w": entry(0, 48, (4, 3))})


@CHECKPOINTS.refused("integer `-24`, expected usize")
def safetensors_of_negative_offsets(folder: Path) -> Path:
    return safetensors(folder, {"w": entry(-24, 0)})


@CHECKPOINTS.refused("overflow computing buffer size")
def safetensors_of_a_huge_shape(folder: Path) -> Path:
    return safetensors(folder, {"w": entry(shape=(2**31, 2**31))})


@CHECKPOINTS.refused("expected usize")
def safetensors_of_nothing_times_too_much(folder: Path) -> Path:
    return safetensors(folder, {"w": entry(0, 0, (0, 2**100))}, b"")


@CHECKPOINTS.refused("header too large")
def safetensors_of_a_huge_header(folder: Path) -> Path:
    path = folder / "x.safetensors"
    path.write_bytes((2**63).to_bytes(8, "little") + b"{}")
    return path


@CHECKPOINTS.refused("recursion limit exceeded")
def safetensors_of_a_deep_header(folder: Path) -> Path:
    return safetensors(folder, b'{"w": ' + b"[" * 1_000_000)


@CHECKPOINTS.refused("duplicate key 'w'")
def safetensors_of_a_name_twice(folder: Path) -> Path:
    one = json.dumps(entry()).encode()
    return safetensors(folder, b'{"w": ' + one + b', "w": ' + one + b"}")


def index(folder: Path, table: Any) -> Path:  # noqa: ANN401
    path = folder / "x.safetensors.index.json"
    path.write_text(table if isinstance(table, str) else json.dumps({"weight_map": table}))
    return path


@CHECKPOINTS.refused("not a file of this folder")
def index_that_names_itself(folder: Path) -> Path:
    return index(folder, {"w": "x.safetensors.index.json"})


@CHECKPOINTS.refused("not a file of this folder")
def index_that_leads_outside(folder: Path) -> Path:
    return index(folder, {"w": "../secret.bin"})


@CHECKPOINTS.refused("nested too deeply")
def deep_index_of_files(folder: Path) -> Path:
    return index(folder, "[" * 1_000_000)
