"""The text of an index that has every table, and cells of every kind."""

from __future__ import annotations

from padiff.dumpfile import (
    CallInfo,
    Content,
    Draw,
    ModuleInfo,
    Sample,
    SourceLine,
    Statistics,
    ValueInfo,
)
from padiff.dumpfile.indexcodec import encode_index

_LINE = SourceLine(file="net.py", line=7, function="forward")


def full_index() -> bytes:
    """Write an index of three modules, calls and values, and of eight records."""
    return encode_index(
        step=3,
        rank=1,
        modules=_modules(),
        calls=(
            CallInfo(id=0, module=0, index=0, parent=None, start=0, end=7, site=_LINE),
            CallInfo(
                id=1,
                module=1,
                index=0,
                parent=0,
                start=1,
                end=2,
                literals={"input['causal']": True, "input[1]": 0.5},
                recomputed=2,
            ),
            CallInfo(
                id=2, module=2, index=0, parent=0, start=3, end=None, containers={"output": "Out"}
            ),
        ),
        values=_values(),
        records=_RECORDS,
        draws=(
            Draw(call=0, after=0, generators=("torch", "numpy")),
            Draw(call=None, after=5, generators=()),
        ),
    )


def _modules() -> tuple[ModuleInfo, ...]:
    return (
        ModuleInfo(id=0, path="", class_name="Net", class_path="net.Net", parent=None),
        ModuleInfo(
            id=1,
            path="fc",
            class_name="Linear",
            class_path="torch.nn.Linear",
            bases=("torch.nn.Module",),
            parent=0,
            aliases=("head", "tail"),
            training=True,
            attributes={"eps": 1e-5, "shape": [2, 3], "mode": "a],[b"},
            source=_LINE,
        ),
        ModuleInfo(
            id=2,
            path="act",
            class_name="ReLU",
            class_path="torch.nn.ReLU",
            parent=0,
            attributes={"inplace": True},
            source=_LINE,
        ),
    )


def _values() -> tuple[ValueInfo, ...]:
    page = "/values/p0000_float32"
    return (
        ValueInfo(
            id=0,
            digest="0123456789abcdef" * 2,
            dtype="float32",
            size=6,
            statistics=Statistics(minimum=-1.0, maximum=2.5, mean=0.1, l2=3.0, zeros=1),
            dataset=page,
        ),
        ValueInfo(
            id=1,
            digest="f" * 32,
            dtype="bfloat16",
            size=6000,
            statistics=Statistics(minimum=None, maximum=None, mean=None, l2=None, nan=6000),
            content=Content.SAMPLE,
            dataset="/values/v00000001",
            sample=Sample(count=32, shape=(60, 100)),
        ),
        ValueInfo(
            id=2,
            digest="0" * 32,
            dtype="float32",
            size=0,
            statistics=Statistics(minimum=None, maximum=None, mean=None, l2=None),
        ),
    )


_RECORDS = (
    (0, 0, "forward", "input", "[0]", 0, (2, 3), 0, False, None),
    (0, 0, "forward", "output", "", 7, (0,), 2, True, None),
    (1, 1, "forward", "input", "[0]", 1, (2, 3), 0, False, None),
    (1, 1, "forward", "output", "", 2, (60, 100), 1, True, None),
    (1, 1, "backward", "grad_input", "[0]", 9, (3, 2), 0, False, None),
    (2, 2, "forward", "input", "['x']", 3, (6000,), 1, False, None),
    (1, None, "forward", "weight", ".weight", 0, (3, 2), 0, True, 0),
    (1, None, "backward", "weight_grad", ".weight", 10, (3, 2), None, False, 0),
)
