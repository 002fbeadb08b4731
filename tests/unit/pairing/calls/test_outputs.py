"""Outputs that could be meant: as a walk over all of them finds them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from padiff.dumpfile import Role
from padiff.pairing.calls.linked import ALIKE, Outputs
from padiff.pairing.result import SideName
from padiff.pairing.tensors.sketch import alikeness
from padiff.pairing.view import View, view_of
from tests.support.dumps import DumpBuilder


def a_view(seed: int, *, modules: int, calls: int) -> View:
    generator, numbers = random.Random(seed), np.random.default_rng(seed)
    made = DumpBuilder().module("", "Net")
    for number in range(modules):
        made = made.module(f"act{number}", "ReLU")
    made = made.enter("", inputs=[np.ones(4, np.float32)])
    bases = [np.abs(numbers.standard_normal(4)) for _ in range(4)]
    for _ in range(calls):
        base = generator.choice(bases) * generator.choice((1, 1, 1 + 1e-4, 1.01, 1.05, -1))
        output = base[::-1] if generator.random() < 0.3 else base
        made = made.call(
            f"act{generator.randrange(modules)}",
            inputs=[np.ones(4, np.float32)],
            outputs=[output.astype(np.float32)],
        )
    return view_of(made.leave(outputs=[np.ones(4, np.float32)]).side(), SideName.REFERENCE)


def by_walk(view: View, call: int, calls: list[int], *, is_same: bool) -> bool:
    """Look at every other call."""
    mine = view.main(call, Role.OUTPUT)
    assert mine is not None
    assert mine.value is not None
    length = view.values[mine.value].statistics.l2
    assert length is not None
    for other in calls:
        theirs = view.main(other, Role.OUTPUT)
        assert theirs is not None
        assert theirs.value is not None
        away = view.values[theirs.value].statistics.l2
        assert away is not None
        is_other = view.calls[other].module != view.calls[call].module
        if is_other and length * 0.98 <= away <= length * 1.02:
            near = alikeness(view, mine, view, theirs)
            if not is_same or near is None or near >= ALIKE:
                return False
    return True


@pytest.mark.parametrize("is_same", [False, True])
def test_rivals_are_those_of_a_walk_over_all(*, is_same: bool) -> None:
    seen = set()
    for seed in range(30):
        view = a_view(seed, modules=1 + seed % 4, calls=12)
        calls = [call for call in range(len(view.calls)) if not view.inner[call]]
        outputs = Outputs(view, calls)
        for call in calls:
            found = outputs.are_of(view.calls[call].module, call, is_same=is_same)
            assert found == by_walk(view, call, calls, is_same=is_same)
            seen.add(found)
    assert seen == {True, False}


def test_a_call_whose_output_is_constant_is_of_no_module_alone() -> None:
    view = a_view(0, modules=1, calls=1)
    assert not Outputs(view, [0]).are_of(0, 0, is_same=True)
