"""What was met in real ports, one small net each; the score plants a fault in each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.proving import Answer
from padiff.dumper.weights.weights import assign_weight
from padiff.dumpfile import Role
from tests.support.ports import met_paddle, met_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IDS = (3, 5)
"""Shape of token ids: batch and length."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A net of both authors, and a layer of the candidate to plant a fault in."""

    reference: str
    candidate: str
    shape: tuple[int, ...]
    fault: str
    """The layer of the candidate that gives too much."""
    coverage: float = 1.0

    def inputs(self) -> np.ndarray[Any, Any]:
        """Make token ids, or what is not of their shape as floats."""
        random = np.random.default_rng(0)
        if self.shape == IDS:
            return random.integers(0, 11, self.shape)
        return random.standard_normal(self.shape, dtype=np.float32)


def case(name: str, shape: tuple[int, ...], fault: str, **other: Any) -> Case:  # noqa: ANN401
    """Make a case whose nets have one name."""
    return Case(reference=name, candidate=name, shape=shape, fault=fault, **other)


IMAGE, ROWS, SEQUENCE = (3, 3, 7, 6), (3, 8), (3, 5, 8)
CASES = {
    "many wrappers against few": case("Deep", ROWS, "up.7"),
    "one pooling and one relu against three": case("SharedPool", IMAGE, "parts.1.2"),
    "shortcut defined first and run last": case("ShortcutFirst", IMAGE, "body.4", coverage=0.95),
    "relu inside batch norm": case("Activated", IMAGE, "part1.1"),
    "merging in a list of its own": case("Stages", ROWS, "mergers.1"),
    "merging last against first": Case(
        reference="Stages", candidate="MergeFirst", shape=ROWS, fault="stages.1.merge"
    ),
    "positions of one row against many": case("Positions", IDS, "where"),
    "towers in another order": case("Towers", ROWS, "towers.0.2"),
    "digits, unused layers, shared activation": case("Digits", ROWS, "1x1.0"),
    "rotary tables, norms of heads, dataclass": case("RotaryNet", IDS, "blocks.1.norm_k"),
    "linear against a bare parameter": Case(
        reference="Plain", candidate="BareFirst", shape=ROWS, fault="norm"
    ),
    "head that is not transposed": Case(
        reference="Plain", candidate="BareHead", shape=ROWS, fault="first"
    ),
    "packed attention against three linears": case("Packed", SEQUENCE, "value"),
    "stacked experts against a list": case("Mixture", SEQUENCE, "moe.experts.2.down_proj"),
    "blocks that run twice": case("Checkpointed", ROWS, "layer1"),
}


def compared(
    case: Case,
    folder: Path,
    *,
    fault: str = "",
    plant: Callable[[Any], None] | None = None,
    is_turned: bool = False,
) -> Comparison:
    """Record both nets, the candidate perhaps with a layer that gives too much, and compare.

    Args:
        case: The nets.
        folder: Where dumps go.
        fault: The candidate's layer.
        plant: Puts the fault there; by default it gives too much.
        is_turned: Hold the reference against the candidate.
    """
    reference = getattr(met_torch, case.reference)()
    candidate = getattr(met_paddle, case.candidate)()
    met_torch.spread(reference)
    reference.eval()
    candidate.eval()
    assign_weight(reference, candidate)
    if fault:
        (plant or _plant)(dict(candidate.named_sublayers())[fault])
    data = case.inputs()
    with record(reference, name="reference", out=folder) as known:
        made = reference(torch.tensor(data))
        made = made if torch.is_tensor(made) else made.logits
        weights = np.cos(np.arange(made.numel(), dtype=np.float32)).reshape(made.shape)
        (made * torch.from_numpy(weights)).sum().backward()
    with record(candidate, name="candidate", out=folder) as found:
        made = candidate(paddle.to_tensor(data))
        made = made if paddle.is_tensor(made) else made[0]
        (made * paddle.to_tensor(weights)).sum().backward()
    paths = (found.path, known.path) if is_turned else (known.path, found.path)
    return compare(*paths, CompareSettings(atol=1e-4, execute=True))


def _plant(layer: Any) -> None:  # noqa: ANN401 - untyped library
    right = layer.forward
    layer.forward = lambda *given: right(*given) * 1.25


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_right_port_matches_without_a_map_and_is_the_same_when_executed(
    name: str, is_turned: bool, tmp_path: Path
) -> None:
    result = compared(CASES[name], tmp_path, is_turned=is_turned)

    step = result.steps[0]
    assert step.executed is not None
    assert step.executed.answer is Answer.SAME
    assert step.executed.function.tolerated == 0
    if not is_turned:
        assert result.verdict is Verdict.MATCH, result.reasons
        assert result.origins == ()
        assert step.coverage_reference.fraction >= CASES[name].coverage
        assert step.coverage_candidate.fraction >= CASES[name].coverage


@pytest.mark.parametrize("is_turned", [False, True])
def test_an_expert_that_is_detached_is_not_one_without_tokens(
    is_turned: bool,
    tmp_path: Path,
) -> None:
    def detach(layer: Any) -> None:  # noqa: ANN401 - untyped library
        right = layer.forward
        layer.forward = lambda *given: right(*given).detach()

    case = CASES["stacked experts against a list"]

    result = compared(case, tmp_path, fault=case.fault, plant=detach, is_turned=is_turned)

    found = result.steps[0].executed
    assert found is not None
    lost = {one.candidate for one in found.function.differences if one.kind == "gradient"}
    whole = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}
    parts = {f"moe.experts.2.{name}_proj.weight" for name in ("gate", "up", "down")}
    assert lost == (whole if is_turned else parts)


def test_experts_that_one_side_stacks_are_one_remark_and_an_unused_one_agrees(
    tmp_path: Path,
) -> None:
    result = compared(CASES["stacked experts against a list"], tmp_path)

    step = result.steps[0]
    unused = [pair for pair in step.pairs if "all zero in this part of the stack" in pair.reason]
    judged = [pair for pair in step.pairs if pair.candidate and pair.metrics]
    gradients = [
        pair.candidate.address.module
        for pair in judged
        if pair.candidate and pair.candidate.address.role is Role.WEIGHT_GRAD
    ]
    assert [note for note in step.notes if "does at once" in note] == list(step.notes)
    assert len(step.notes) == 1
    assert {pair.candidate.address.module for pair in unused if pair.candidate} == {
        "moe.experts.3.gate_proj",
        "moe.experts.3.up_proj",
        "moe.experts.3.down_proj",
    }
    assert {pair.verdict for pair in unused} == {Verdict.MATCH}
    assert sum("experts" in module for module in gradients) == 9


def test_a_tie_of_one_side_only_shows_in_gradients_and_is_told(tmp_path: Path) -> None:
    tied = Case(reference="TiedNet", candidate="RotaryNet", shape=IDS, fault="")

    result = compared(tied, tmp_path)

    places = [origin.pair.candidate for origin in result.origins]
    names = {(place.address.module, place.address.role) for place in places if place is not None}
    assert names <= {("words", Role.WEIGHT_GRAD), ("head", Role.WEIGHT_GRAD)}
    kinds = {getattr(fault, "kind", "") for one in result.origins for fault in one.faults}
    assert kinds == {"tie"}
    assert any("one tensor on the reference" in note for note in result.steps[0].notes)
