"""Whole comparisons of tiny dumps."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Kind, Mode, ToleranceRule, Verdict, compare
from padiff.comparer.judging import building
from padiff.comparer.judging.building import endpoints
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import CompareError, ConfigError, DumpNotFoundError, Index, Phase, Role
from padiff.pairing import Pairing
from tests.support.drawing import draw
from tests.support.dumps import DumpBuilder, write_dump
from tests.support.tiny_net import tiny_net, tiny_pair

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from padiff.comparer.result import Endpoint

DEFAULT = CompareSettings()


def names(found: Comparison) -> list[tuple[str, str]]:
    return [
        (origin.pair.reference.address.module, str(origin.phase))
        for origin in found.origins
        if origin.pair.reference is not None
    ]


def test_equal_runs_match(tmp_path: Path) -> None:
    found = compare(*tiny_pair(tmp_path), DEFAULT)

    assert (found.verdict, found.reasons, found.divergences) == (Verdict.MATCH, (), ())
    assert found.steps[0].coverage_reference.fraction == 1.0


def test_a_dump_matches_itself_without_measuring(tmp_path: Path) -> None:
    path = tiny_net().write(tmp_path / "net")

    found = compare(path, path, DEFAULT)

    assert all(pair.equal_digest and pair.metrics is None for pair in found.steps[0].pairs)


def test_of_pairs_that_agree_a_report_makes_the_one_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counting(index: Index, ids: Sequence[int]) -> list[Endpoint]:
        made.append(len(ids))
        return endpoints(index, ids)

    monkeypatch.setattr(building, "endpoints", counting)
    found = compare(*tiny_pair(tmp_path, eps=1.1e-5), DEFAULT)

    assert not sum(made)
    assert "largest" in draw(found)
    assert sum(made) == 2  # both ends of the pair that is nearest to its tolerance
    assert {pair.verdict for pair in found.steps[0].pairs} == {Verdict.MATCH}
    assert sum(made) == 2 * len(found.steps[0].pairs)
    assert len(found.steps[0].records) == len(found.steps[0].pairs)


def test_of_several_steps_only_the_last_keeps_what_it_was_made_of(tmp_path: Path) -> None:
    def alive() -> int:
        return sum(type(one) in {Index, Pairing} for one in gc.get_objects())

    known, found = (
        write_dump(tmp_path / name, *(tiny_net(step=step, eps=eps) for step in range(4)))
        for name, eps in (("known", 1e-5), ("found", 1.1e-5))
    )
    before = alive()

    result = compare(known, found, DEFAULT)

    assert result.verdict is Verdict.MATCH
    assert alive() - before == 3
    assert all(pair.verdict is Verdict.MATCH for pair in result.steps[-1].pairs)
    assert all(step.tree and step.pairing and step.calls for step in result.steps)
    assert alive() == before


def test_a_forward_fault_is_the_only_origin(tmp_path: Path) -> None:
    found = compare(*tiny_pair(tmp_path, eps=0.5), DEFAULT)

    assert names(found) == [("norm", "forward")]
    assert found.first_divergence == found.origins[0]
    assert found.origins[0].inputs_agree is True
    assert found.origins[0].evidence[0].startswith("attribute eps: 1e-05 on the reference, 0.5")


def test_a_changed_weight_is_the_evidence_of_its_module(tmp_path: Path) -> None:
    found = compare(*tiny_pair(tmp_path, weight_change=0.5), DEFAULT)

    assert names(found) == [("fc1", "forward")]
    assert "weight 'weight': differs" in found.origins[0].evidence


def test_a_backward_fault_is_named_at_its_module(tmp_path: Path) -> None:
    found = compare(*tiny_pair(tmp_path, gradient_change=0.5), DEFAULT)

    assert names(found) == [("norm", "backward")]


def test_steps_are_compared_in_numeric_order_and_one_sided_ones_are_told(tmp_path: Path) -> None:
    known = write_dump(tmp_path / "known", *(tiny_net(step=step) for step in (0, 2, 10)))
    found = write_dump(tmp_path / "found", *(tiny_net(step=step) for step in (0, 2, 3)))

    result = compare(known, found, DEFAULT)

    assert [step.step for step in result.steps] == [0, 2]
    assert [str(one) for one in result.reasons] == [
        "step 10 is only in the reference",
        "step 3 is only in the candidate",
    ]
    assert result.verdict is Verdict.DIVERGED


def test_ranks_that_only_one_dump_has_are_told_once(tmp_path: Path) -> None:
    def ranks(count: int) -> list[DumpBuilder]:
        built = [tiny_net(step=step) for step in (0, 1) for _ in range(count)]
        for place, one in enumerate(built):
            one.rank = place % count
        return built

    known = write_dump(tmp_path / "known", *ranks(2))
    found = write_dump(tmp_path / "found", *ranks(4))

    result = compare(known, found, CompareSettings(ranks=(0, 1, 2, 3)))

    assert [(step.step, step.rank) for step in result.steps] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [str(one) for one in result.reasons] == ["ranks 2, 3 only in the candidate"]
    assert compare(known, found, CompareSettings(ranks=(0, 1))).verdict is Verdict.MATCH


def test_other_ranks_are_taken_together(tmp_path: Path) -> None:
    def ranks(count: int) -> list[DumpBuilder]:
        built = [tiny_net() for _ in range(count)]
        for place, one in enumerate(built):
            one.rank = place
        return built

    known = write_dump(tmp_path / "known", *ranks(2))
    found = write_dump(tmp_path / "found", *ranks(4))

    result = compare(known, found, DEFAULT)

    assert [(step.step, step.rank) for step in result.steps] == [(0, 0)]
    assert result.verdict is Verdict.MATCH
    assert [side.ranks for side in result.scope.logical] == [(0, 1), (0, 1, 2, 3)]


def test_steps_can_be_narrowed(tmp_path: Path) -> None:
    known = write_dump(tmp_path / "known", tiny_net(), tiny_net(step=1))
    found = write_dump(tmp_path / "found", tiny_net(), tiny_net(step=2))

    result = compare(known, found, CompareSettings(steps=(0,)))

    assert result.verdict is Verdict.MATCH


def test_nothing_in_common_is_an_error(tmp_path: Path) -> None:
    known = tiny_net().write(tmp_path / "known")
    found = tiny_net(step=1).write(tmp_path / "found")

    with pytest.raises(CompareError):
        compare(known, found, DEFAULT)


@pytest.mark.parametrize(
    "settings", [CompareSettings(steps=(7,)), CompareSettings(include=("nowhere",))]
)
def test_an_empty_selection_is_an_error(settings: CompareSettings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        compare(*tiny_pair(tmp_path), settings)


def test_a_missing_dump_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DumpNotFoundError):
        compare(tmp_path / "none", tmp_path / "none", DEFAULT)


def test_excluded_modules_are_not_judged(tmp_path: Path) -> None:
    pair = tiny_pair(tmp_path, eps=0.5)

    found = compare(*pair, CompareSettings(include=("fc1",), phases=(Phase.FORWARD,)))

    assert found.verdict is Verdict.MATCH
    assert {p.reference.address.module for p in found.steps[0].pairs if p.reference} == {"fc1"}


def test_a_rule_loosens_one_module(tmp_path: Path) -> None:
    rules = (ToleranceRule.parse("*:atol=9"), ToleranceRule.parse("other:atol=1.0"))

    found = compare(*tiny_pair(tmp_path, eps=0.5), CompareSettings(rules=rules))

    assert found.verdict is Verdict.MATCH
    assert "the tolerance rule 'other:atol=1.0' named no pair" in found.notes


@pytest.mark.parametrize(
    ("atol", "rtol", "is_noted"),
    [(1e-9, None, True), (1e-3, None, False), (None, None, False), (1e-9, 0.0, False)],
)
def test_an_atol_alone_below_the_defaults_is_noted(
    atol: float | None, rtol: float | None, is_noted: bool, tmp_path: Path
) -> None:
    found = compare(*tiny_pair(tmp_path), CompareSettings(atol=atol, rtol=rtol))

    assert any("alone only loosens" in note for note in found.notes) is is_noted


def test_mean_mode_forgives_one_element(tmp_path: Path) -> None:
    pair = tiny_pair(tmp_path, weight_change=1e-3)
    settings = CompareSettings(atol=9e-4, phases=(Phase.FORWARD,))

    found = [
        compare(*pair, replace(settings, mode=mode)).verdict for mode in (Mode.STRICT, Mode.MEAN)
    ]

    assert found == [Verdict.DIVERGED, Verdict.MATCH]


def gradients(found: np.ndarray | None) -> DumpBuilder:
    x = np.ones((2, 2), np.float32)
    built = DumpBuilder().module("", "Net").module("fc", "Linear").tensor("fc", "weight", x)
    built.enter("", inputs=[x]).call("fc", inputs=[x], outputs=[x + 1]).leave(outputs=[x + 1])
    built.record("", Role.GRAD_OUTPUT, x).record("fc", Role.GRAD_OUTPUT, x)
    return built.record("fc", Role.WEIGHT_GRAD, found, slot=".weight")


def test_none_against_none_matches(tmp_path: Path) -> None:
    known, found = (gradients(None).write(tmp_path / name) for name in ("known", "found"))

    assert compare(known, found, DEFAULT).verdict is Verdict.MATCH


def passing(gradient: np.ndarray | None) -> DumpBuilder:
    x = np.ones((2, 2), np.float32)
    built = DumpBuilder().module("", "Net").module("cell", "LSTM")
    built.enter("", inputs=[x]).call("cell", inputs=[x], outputs=[x + 1, x + 2])
    built.leave(outputs=[x + 1]).record("cell", Role.GRAD_OUTPUT, x, slot="[0]")
    return built.record("cell", Role.GRAD_OUTPUT, gradient, slot="[1]")


def test_no_gradient_of_a_tensor_agrees_with_zeros_and_says_so(tmp_path: Path) -> None:
    known = passing(None).write(tmp_path / "known")
    found = passing(np.zeros((2, 2), np.float32)).write(tmp_path / "found")

    result = compare(known, found, DEFAULT)

    reasons = [pair.reason for pair in result.steps[0].pairs if pair.reason]
    assert result.verdict is Verdict.MATCH
    assert reasons == ["None on the reference, all zero on the other side"]


def test_none_against_a_weights_zero_gradient_diverges_and_says_so(tmp_path: Path) -> None:
    known = gradients(np.zeros((2, 2), np.float32)).write(tmp_path / "known")
    found = gradients(None).write(tmp_path / "found")

    result = compare(known, found, DEFAULT)

    assert names(result) == [("fc", "backward")]
    assert result.origins[0].pair.reason == "None on the candidate, a tensor on the other side"


def shaped(*shape: int) -> DumpBuilder:
    x, y = np.ones((2, 2), np.float32), np.ones(shape, np.float32)
    built = DumpBuilder().module("", "Net").module("act", "ReLU")
    return built.enter("", inputs=[x]).call("act", inputs=[x], outputs=[y]).leave(outputs=[x])


def test_shapes_that_differ_are_incomparable_and_diverge(tmp_path: Path) -> None:
    known = shaped(4, 1).write(tmp_path / "known")
    found = shaped(1, 3).write(tmp_path / "found")

    result = compare(known, found, DEFAULT)

    verdicts = {pair.verdict for pair in result.steps[0].pairs if pair.kind is Kind.ORIGIN}
    assert (result.verdict, verdicts) == (Verdict.DIVERGED, {Verdict.INCOMPARABLE})


def test_the_report_is_strict_json_with_the_fixed_keys(tmp_path: Path) -> None:
    report = to_json(compare(*tiny_pair(tmp_path, eps=0.5), DEFAULT))

    text = json.dumps(report, allow_nan=False)

    keys = {
        "schema", "verdict", "reference", "candidate", "counts", "coverage_reference",
        "coverage_candidate", "first_divergence", "origins", "steps",
    }  # fmt: skip
    parsed = json.loads(text)
    assert keys <= parsed.keys()
    assert parsed["schema"] == "padiff-report/2"
    assert parsed["origins"][0]["pair"]["reference"]["address"]["module"] == "norm"


def test_the_tree_marks_the_origin(tmp_path: Path) -> None:
    found = compare(*tiny_pair(tmp_path, eps=0.5), DEFAULT)

    marks = {row.reference: (row.origin, row.inherited) for row in found.steps[0].tree}
    assert marks["norm"] == (True, False)
    assert marks["fc2"] == (False, True)
    assert marks["fc1"][0] is False


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        (CompareSettings(), Verdict.MATCH),
        (CompareSettings(atol=0.0), Verdict.MATCH),
        (CompareSettings(atol=0.0, rtol=0.0), Verdict.DIVERGED),
        (CompareSettings(atol=1e-5, rtol=1e-5), Verdict.MATCH),
    ],
)
def test_no_floor_of_gradients_survives_an_explicit_tolerance(
    settings: CompareSettings, verdict: Verdict, tmp_path: Path
) -> None:
    """A gradient of 1e-6 beside one of 1 is negated."""
    x = np.ones(4, np.float32)
    paths = []
    for name, sign in (("reference", 1), ("candidate", -1)):
        built = DumpBuilder().module("", "Net").module("a", "Linear").module("b", "Linear")
        built.enter("", inputs=[x]).call("a", inputs=[x], outputs=[x])
        built.call("b", inputs=[x], outputs=[x]).leave(outputs=[x])
        built.record("b", Role.GRAD_OUTPUT, x)
        built.record("a", Role.GRAD_OUTPUT, np.float32(sign * 1e-6) * x)
        paths.append(built.write(tmp_path / name))

    assert compare(paths[0], paths[1], settings).verdict is verdict
