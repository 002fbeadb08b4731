"""An error is followed back to where it began, below the tolerance that noticed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.locating.trace import Trace
from padiff.dumpfile import Phase
from tests.support.dumps import DumpBuilder
from tests.support.graphs import Fault, Graph, Node, dump

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from padiff.dumpfile import RecordInfo

X = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def chain(sizes: Sequence[float], errors: Sequence[float]) -> DumpBuilder:
    """Calls that scale by ``sizes`` in turn, each with a relative error of its own."""
    paths = [f"layer{place}" for place in range(len(sizes))]
    built = DumpBuilder().module("", "Net")
    for path in paths:
        built.module(path, "Layer")
    hidden = X
    built.enter("", inputs=[hidden])
    for path, size, error in zip(paths, sizes, errors, strict=True):
        wrong = np.where(X > 1.5, 1 + error, 1 - error)
        made = (hidden * size * wrong).astype(np.float32)
        built.call(path, inputs=[hidden], outputs=[made])
        hidden = made
    return built.leave(outputs=[hidden])


def compared(
    known: DumpBuilder, found: DumpBuilder, tmp_path: Path, *, rtol: float | None = None
) -> Comparison:
    sides = known.write(tmp_path / "known"), found.write(tmp_path / "found")
    return compare(*sides, CompareSettings(rtol=rtol))


def origins(found: Comparison) -> list[str]:
    return [one.pair.reference.address.module for one in found.origins if one.pair.reference]


def test_an_error_among_small_values_is_named_where_it_began(tmp_path: Path) -> None:
    sizes = [1, 1e-6, 1, 1e6, 1]

    found = compared(chain(sizes, [0] * 5), chain(sizes, [0, 0.1, 0, 0, 0]), tmp_path)

    assert origins(found) == ["layer1"]
    assert found.origins[0].pair.verdict is Verdict.MATCH
    assert "the error begins here: relative 0.1 out of 0" in found.origins[0].evidence[0]


def test_rounding_that_adds_up_is_not_followed(tmp_path: Path) -> None:
    found = compared(chain([1] * 40, [0] * 40), chain([1] * 40, [1e-6] * 40), tmp_path, rtol=0)

    assert origins(found)[0] not in {"layer0", "layer1"}
    assert any("it drifted" in line for line in found.origins[0].evidence)


def test_a_small_wrong_gradient_is_named_and_not_its_larger_consequence(tmp_path: Path) -> None:
    """Gradients grow fivefold from call to call: the first is below the floor of the largest."""
    graph = Graph(
        nodes=tuple(Node(inputs=(place - 1,), module=place) for place in range(9)),
        cuts=(),
        nested=False,
    )

    found = compared(dump(graph, Fault()), dump(graph, Fault(input_gradient=8)), tmp_path)

    assert origins(found) == ["box0.leaf8"]
    assert found.origins[0].phase is Phase.BACKWARD
    assert any("begins here: relative 0.5 out of 0" in line for line in found.origins[0].evidence)


def glued(error: float) -> DumpBuilder:
    """A container whose own code is off between two small tensors; a later call enlarges them."""
    built = DumpBuilder().module("", "Net").module("box", "Box")
    for path in ("box.first", "box.second", "last"):
        built.module(path, "Layer")
    small = (X * 1e-6).astype(np.float32)
    wrong = (small * np.where(X > 1.5, 1 + error, 1 - error)).astype(np.float32)
    large = (wrong * 1e6).astype(np.float32)
    built.enter("", inputs=[X]).enter("box", inputs=[X])
    built.call("box.first", inputs=[X], outputs=[small])
    built.call("box.second", inputs=[wrong], outputs=[wrong * 2]).leave(outputs=[wrong * 3])
    return built.call("last", inputs=[wrong * 3], outputs=[large]).leave(outputs=[large])


def test_what_is_named_is_the_module_whose_code_began_it(tmp_path: Path) -> None:
    found = compared(glued(0), glued(0.1), tmp_path)

    assert origins(found) == ["box"]
    assert "begins here: relative 0.1 out of 0" in found.origins[0].evidence[0]


def test_many_origins_of_one_error_look_at_each_tensor_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that is noticed wherever values are large has an origin there by verdicts."""
    looked: list[int] = []
    made_of = Trace._made_of

    def counted(trace: Trace, record: RecordInfo) -> tuple[int | None, list[RecordInfo]]:
        looked.append(record.id)
        return made_of(trace, record)

    monkeypatch.setattr(Trace, "_made_of", counted)
    sizes = [1e-2, *[1e4, 1e-4] * 30]
    errors = [2e-4] + [0.0] * 60

    found = compared(chain(sizes, [0.0] * 61), chain(sizes, errors), tmp_path)

    assert sum(one.pair.verdict is Verdict.DIVERGED for one in found.divergences) >= 30
    assert origins(found) == ["layer0"]
    assert len(looked) == len(set(looked)) > 60


def test_what_an_origin_led_to_below_the_tolerance_is_no_other_origin(tmp_path: Path) -> None:
    sizes = [1, 1e-4, 1, 1e4]
    settings = CompareSettings(atol=1e-6, rtol=0)

    known = chain(sizes, [0] * 4).write(tmp_path / "known")
    result = compare(known, chain(sizes, [5e-6, 0, 0, 0]).write(tmp_path / "found"), settings)

    assert origins(result) == ["layer0"]
    assert any(one.verdict is Verdict.MATCH for one in result.steps[0].pairs
               if one.reference and one.reference.address.module == "layer2")  # fmt: skip
