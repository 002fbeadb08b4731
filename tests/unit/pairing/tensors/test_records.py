"""Which records of two containers of other content are compared, and what finding out takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing import pair
from padiff.pairing.tensors import records
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    import pytest

    from padiff.pairing.view import View

Floats = npt.NDArray[np.float32]


def floats(seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32)


def levels(count: int, *, is_activated: bool) -> MemorySide:
    """Nest levels that hand on what one layer makes; on one side each runs an activation first."""
    built = DumpBuilder().module("", "Net")
    paths = [".".join(["level"] * depth) for depth in range(1, count + 1)]
    for path in paths:
        built.module(path, "Level")
        if is_activated:
            built.module(f"{path}.act", "ReLU")
    built.module(f"{paths[-1]}.fc", "Linear").tensor(f"{paths[-1]}.fc", "weight", floats(1))
    given, made = floats(2), floats(3)
    built.enter("", inputs=[given])
    for number, path in enumerate(paths):
        built.enter(path, inputs=[given])
        if is_activated:
            built.call(f"{path}.act", inputs=[given], outputs=[floats(number + 10)])
    built.call(f"{paths[-1]}.fc", inputs=[given], outputs=[made])
    for _ in range(count + 1):
        built.leave(outputs=[made])
    return built.side()


def test_levels_of_other_content_are_told_by_what_they_hand_on_in_few_steps_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs = records._outputs
    steps = []
    for count in (10, 40):
        asked = 0

        def counted(view: View, call: int) -> set[int | None]:
            nonlocal asked
            asked += 1
            return outputs(view, call)

        monkeypatch.setattr(records, "_outputs", counted)
        found = pair(levels(count, is_activated=True), levels(count, is_activated=False))
        steps.append(asked)

        assert len(found.calls) == count + 2
        assert {str(alone.absence) for alone in found.unmatched} == {"missing", "covered"}

    assert 0 < steps[1] < 5 * steps[0]
