"""Outcomes on disk: what one machine executed, for another one to judge.

A file of safetensors holds all arrays one after another, and in its metadata the cases and what
became of each. Reading one runs nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from padiff.dumpfile import ConfigError
from padiff.ops.cases import case_to_json
from padiff.ops.workers import Crash, Error, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from padiff.ops.cases import Case
    from padiff.program.primitives import Array

VERSION = 1
_BITS = {"bfloat16": np.uint16}
"""Dtypes that are stored as their bits."""


class Stored:
    """What one framework made of some cases."""

    def __init__(
        self, framework: str, version: str, cases: Sequence[dict[str, Any]], outcomes: list[Outcome]
    ) -> None:
        """Keep outcomes, in the order of the cases."""
        self.framework, self.version = framework, version
        self.cases, self.outcomes = cases, outcomes


def write_outcomes(
    path: Path, framework: str, version: str, cases: Sequence[Case], outcomes: Sequence[Outcome]
) -> None:
    """Write outcomes.

    Args:
        path: Of the file.
        framework: That executed the cases.
        version: Of it.
        cases: What was executed.
        outcomes: Of each case.
    """
    from safetensors.numpy import save_file  # noqa: PLC0415 -- few need it

    arrays: dict[str, Array] = {}
    rows = [_to_json(place, one, arrays) for place, one in enumerate(outcomes)]
    head = {
        "padiff_outcomes": VERSION,
        "framework": framework,
        "version": version,
        "cases": [case_to_json(one) for one in cases],
        "outcomes": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(arrays, path, {"padiff": json.dumps(head, allow_nan=False)})


def _to_json(place: int, one: Outcome, arrays: dict[str, Array]) -> dict[str, Any]:
    if one.crash is not None:
        return {"crash": one.crash.ended_by, "is_late": one.crash.is_late}
    if one.error is not None:
        return {"error": one.error.kind, "text": one.error.text, "stage": one.error.stage}
    row: dict[str, Any] = {"graphs": list(one.graphs)}
    for what, held in (("outputs", one.outputs), ("gradients", one.gradients)):
        row[what] = []
        for slot, array in enumerate(held):
            if array is None:
                row[what].append(None)
                continue
            dtype, name = array.dtype.name, f"{place}.{what}.{slot}"
            bits = array.view(_BITS[dtype]) if dtype in _BITS else array
            if bits.dtype.kind == "c":
                bits = np.stack([bits.real, bits.imag], -1)
            arrays[name] = np.ascontiguousarray(bits).reshape(-1)
            row[what].append({"dtype": dtype, "shape": list(array.shape)})
    return row


def read_outcomes(path: Path) -> Stored:
    """Read outcomes.

    Raises:
        ConfigError: The file cannot be read, or holds something else.
    """
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 -- few need it

    try:
        with safe_open(path, "numpy") as file:
            head = json.loads((file.metadata() or {}).get("padiff", "{}"))
            if head.get("padiff_outcomes") != VERSION:
                raise _broken(path, "it holds no outcomes")
            outcomes = [_from_json(place, row, file) for place, row in enumerate(head["outcomes"])]
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except (SafetensorError, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise _broken(path, f"{type(error).__name__}: {error}") from error
    return Stored(str(head["framework"]), str(head["version"]), head["cases"], outcomes)


def _broken(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"cannot read outcomes from {str(path)!r}: {why}",
        hint="write them with `padiff ops run CASES --framework torch -o FILE`",
    )


def _from_json(place: int, row: dict[str, Any], file: Any) -> Outcome:  # noqa: ANN401 -- untyped
    if "crash" in row:
        return Outcome(crash=Crash(ended_by=int(row["crash"]), is_late=bool(row["is_late"])))
    if "error" in row:
        return Outcome(error=Error(kind=row["error"], text=row["text"], stage=row["stage"]))
    held = {
        what: tuple(
            None if one is None else _array(file.get_tensor(f"{place}.{what}.{slot}"), one)
            for slot, one in enumerate(row[what])
        )
        for what in ("outputs", "gradients")
    }
    outputs = tuple(one for one in held["outputs"] if one is not None)
    return Outcome(
        outputs=outputs, gradients=held["gradients"], graphs=tuple(map(bool, row["graphs"]))
    )


def _array(flat: Array, told: dict[str, Any]) -> Array:
    dtype = told["dtype"]
    if dtype == "bfloat16":
        flat = flat.view(ml_dtypes.bfloat16)
    elif dtype.startswith("complex"):
        pairs = flat.reshape(-1, 2)
        flat = (pairs[:, 0] + 1j * pairs[:, 1]).astype(dtype)
    return flat.reshape([int(size) for size in told["shape"]])
