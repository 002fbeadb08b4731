"""Whole pairings of small models."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from padiff.dumpfile import Role
from padiff.pairing import Absence, PairedBy, Pairing, SideName, pair
from padiff.pairing.calls.align import uncrossed
from padiff.pairing.names import likeness, words_of
from tests.support.dumps import DumpBuilder, MemorySide
from tests.support.tiny_net import tiny_net

Floats = npt.NDArray[np.float32]


def floats(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def addresses(side: MemorySide, found: Pairing, name: SideName) -> dict[str, Absence]:
    return {
        str(side.index.address(side.index.records[u.record])): u.absence
        for u in found.unmatched
        if u.side is name
    }


def test_equal_trees_of_two_frameworks_are_paired_whole() -> None:
    reference, candidate = tiny_net().side(), tiny_net("paddle").side()

    found = pair(reference, candidate)

    assert found.same_structure
    assert found.unmatched == ()
    weights = [
        str(p.rule)
        for p in found.records
        if reference.index.records[p.reference[0]].role in {Role.WEIGHT, Role.WEIGHT_GRAD}
    ]
    assert weights == ["transpose"] * 4


def attention(framework: str, *, inside: bool) -> MemorySide:
    hidden, out = floats(2, 5, 4), floats(2, 5, 4, seed=1)
    built = DumpBuilder(framework=framework).module("", "Net")
    name = "MultiheadAttention" if framework == "torch" else "MultiHeadAttention"
    built.module("attn", name).module("attn.out_proj", "Linear")
    weight = floats(4, 4, seed=2)
    built.tensor("attn.out_proj", "weight", weight if framework == "torch" else weight.T.copy())
    built.enter("", inputs=[hidden]).enter("attn", inputs=[hidden])
    if inside:
        built.call("attn.out_proj", inputs=[floats(2, 5, 4, seed=3)], outputs=[out])
    return built.leave(outputs=[out]).leave(outputs=[out]).side()


def test_a_projection_that_only_one_framework_calls_is_skipped() -> None:
    reference, candidate = attention("torch", inside=False), attention("paddle", inside=True)

    found = pair(reference, candidate)

    alone = addresses(candidate, found, SideName.CANDIDATE)
    assert alone["step 0 attn.out_proj#0 input[0]"] is Absence.SKIPPED
    assert alone["step 0 attn.out_proj#0 output"] is Absence.COVERED


def test_projections_that_both_call_are_paired() -> None:
    found = pair(attention("torch", inside=True), attention("paddle", inside=True))

    assert len(found.calls) == 3


def activations(framework: str, *, shared: bool) -> MemorySide:
    built = DumpBuilder(framework=framework).module("", "Net")
    for path in ["relu"] if shared else ["relu1", "relu2", "relu3"]:
        built.module(path, "ReLU")
    built.enter("", inputs=[floats(3, 4)])
    for number in range(3):
        data = floats(3, 4, seed=number)
        path = "relu" if shared else f"relu{number + 1}"
        built.call(path, inputs=[data], outputs=[np.maximum(data, 0)])
    return built.leave(outputs=[floats(3, 4, seed=9)]).side()


def test_one_shared_activation_is_paired_with_three_instances_in_order() -> None:
    reference, candidate = activations("torch", shared=True), activations("paddle", shared=False)

    found = pair(reference, candidate)

    assert [(p.reference, p.candidate) for p in found.calls] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert not found.same_structure


def one_activation(framework: str, *, after: str, width: int) -> MemorySide:
    built = DumpBuilder(framework=framework).module("", "Net")
    for number, path in enumerate("abc"):
        weight = floats(4, 4, seed=number)
        built.module(path, "Linear")
        built.tensor(path, "weight", weight if framework == "torch" else weight.T.copy())
    built.module("relu", "ReLU").enter("", inputs=[floats(3, 4)])
    for number, path in enumerate("abc"):
        built.call(
            path, inputs=[floats(3, 4, seed=number)], outputs=[floats(3, 4, seed=number + 1)]
        )
        if path == after:
            data = floats(3, width, seed=7)
            built.call("relu", inputs=[data], outputs=[np.maximum(data, 0)])
    return built.leave(outputs=[floats(3, 4, seed=9)]).side()


@pytest.mark.parametrize(("after", "width", "is_paired"), [("a", 2, True), ("c", 2, False)])
def test_calls_of_another_size_are_partners_only_between_the_same_calls(
    after: str, width: int, *, is_paired: bool
) -> None:
    reference = one_activation("torch", after="a", width=4)

    found = pair(reference, one_activation("paddle", after=after, width=width))

    names = {
        reference.index.modules[reference.index.calls[p.reference].module].path for p in found.calls
    }
    assert ("relu" in names) == is_paired


def outputs(framework: str, *slots: str) -> MemorySide:
    built = DumpBuilder(framework=framework).module("", "Net").enter("", inputs=[floats(2, 3)])
    built.leave()
    for place, slot in enumerate(slots):
        built.record("", Role.OUTPUT, floats(2, 3 + place, seed=place), slot=slot)
    return built.side()


def test_a_tuple_is_paired_with_a_dataclass_by_order_and_size() -> None:
    reference = outputs("torch", ".logits", ".hidden_states[0]")
    candidate = outputs("paddle", "[0]", "[1]")

    found = pair(reference, candidate)

    assert found.unmatched == ()
    assert [(p.reference, p.candidate) for p in found.records] == [((0,), 0), ((1,), 1), ((2,), 2)]


def test_a_place_in_a_tuple_says_nothing_where_one_side_has_more_in_it() -> None:
    """One side hands on its cache, too: what stands third is another thing of another size."""
    built = {"torch": DumpBuilder(framework="torch"), "paddle": DumpBuilder(framework="paddle")}
    x = floats(2, 4)
    own = {"[0]": x + 1, "[1]": floats(1, 7), "[2]": floats(1, 9, seed=1)}
    shifted = {**own, "[1]": floats(2, 2, 3), "[2]": floats(2, 7), "[3]": floats(2, 9, seed=1)}
    for framework, outputs_of in (("torch", own), ("paddle", shifted)):
        side = built[framework].module("", "Net").module("block", "Block")
        side.tensor("block", "weight", floats(4)).enter("", inputs=[x])
        side.enter("block", inputs=[x]).leave(outputs=outputs_of).leave(outputs=[x + 1])
    reference, candidate = built["torch"].side(), built["paddle"].side()

    found = pair(reference, candidate)

    slots = {
        reference.index.records[one.reference[0]].slot: candidate.index.records[one.candidate].slot
        for one in found.records
        if reference.index.records[one.reference[0]].role is Role.OUTPUT
        and reference.index.records[one.reference[0]].module == 1
    }
    assert slots == {"[0]": "[0]"}


def test_a_root_output_without_counterpart_is_missing() -> None:
    reference, candidate = outputs("torch", "[0]", "[1]"), outputs("paddle", "[0]")

    found = pair(reference, candidate)

    assert addresses(reference, found, SideName.REFERENCE) == {
        "step 0 (root)#0 output[1]": Absence.MISSING
    }


def activated(framework: str) -> MemorySide:
    """Write two layers with an activation between: a module of its own, or before a dropout."""
    x, inner = floats(2, 4), floats(2, 6, seed=1)
    made, out = np.tanh(inner), floats(2, 3, seed=2)
    built = DumpBuilder(framework=framework).module("", "Net").module("first", "Linear")
    is_module = framework == "torch"
    built.module("act", "QuickActivation") if is_module else built.module("drop", "Dropout")
    built.module("last", "Linear")
    for name, weight in (("first", floats(6, 4, seed=3)), ("last", floats(3, 6, seed=4))):
        built.tensor(name, "weight", weight if is_module else weight.T.copy())
    built.enter("", inputs=[x]).call("first", inputs=[x], outputs=[inner])
    if is_module:
        built.call("act", inputs=[inner], outputs=[made])
    else:
        built.call("drop", inputs=[made], outputs=[made])
    return built.call("last", inputs=[made], outputs=[out]).leave(outputs=[out]).side()


def test_a_dropout_that_is_not_active_is_no_activation() -> None:
    found = pair(activated("torch"), activated("paddle"))

    assert {(one.reference, one.candidate) for one in found.modules} == {(0, 0), (1, 1), (3, 3)}
    assert {one.absence for one in found.unmatched} == {Absence.COVERED}


def test_names_of_two_authors_are_alike() -> None:
    one, two = (
        words_of("encoder.layer.3.attention.self.query"),
        words_of("layers.3.self_attn.q_proj"),
    )

    assert likeness(one, two) > likeness(one, words_of("layers.3.self_attn.k_proj"))


def test_crossing_pairs_are_left_out() -> None:
    assert uncrossed([(0, 0), (1, 3), (2, 2), (3, 1), (4, 4)]) == [(0, 0), (4, 4)]


def attending(mask: Floats | None) -> MemorySide:
    x = floats(2, 4)
    built = DumpBuilder().module("", "Net").module("attention", "UserAttention")
    inputs = {"[0]": x} if mask is None else {"[0]": x, "['mask']": mask}
    literals = {"input['mask']": None} if mask is None else {}
    built.enter("", inputs=[x]).enter("attention", inputs=inputs, literals=literals)
    return built.leave(outputs=[x + 1]).leave(outputs=[x + 2]).side()


def test_a_tensor_is_skipped_where_the_other_side_hands_over_none() -> None:
    reference, candidate = attending(None), attending(floats(2, 2, seed=1))

    found = pair(reference, candidate)

    assert addresses(candidate, found, SideName.CANDIDATE) == {
        "step 0 attention#0 input['mask']": Absence.SKIPPED
    }


def experts(path: str) -> MemorySide:
    """Own weights and one activation that runs once for each expert, as a mixture of experts."""
    x, weights = floats(6, 4), floats(2, 4, 4, seed=1)
    built = DumpBuilder().module("", "Net").module(path, "Experts").module(f"{path}.act", "SiLU")
    built.tensor(path, "weights", weights).enter("", inputs=[x]).enter(path, inputs=[x])
    for first, last in ((0, 2), (2, 6)):
        part = x[first:last] @ weights[first > 0]
        built.call(f"{path}.act", inputs=[part], outputs=[np.tanh(part)])
    return built.leave(outputs=[x + 1]).leave(outputs=[x + 2]).side()


def test_calls_inside_a_module_with_own_weights_are_paired() -> None:
    reference, candidate = experts("experts"), experts("mixture")

    found = pair(reference, candidate)

    assert found.unmatched == ()
    assert [(call.reference, call.candidate) for call in found.calls] == [
        (call, call) for call in range(4)
    ]


def test_a_dump_and_itself_are_paired_by_name() -> None:
    side = experts("experts")

    found = pair(side, side)

    assert all(call.reference == call.candidate for call in found.calls)
    assert {call.paired_by for call in found.calls} == {PairedBy.NAME}
