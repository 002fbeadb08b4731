"""Laws of pairing, on generated pairs of trees whose true partners are known."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from padiff.dumpfile import Role
from padiff.pairing import Absence, Pairing, SideName, pair
from tests.support import treechange, treegen

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumpfile import Statistics
    from tests.support.treegen import Run
    from tests.support.treelayers import Node

SEEDS = st.integers(min_value=0, max_value=10**6)
CHANGES: dict[str, Callable[[Node, random.Random], Node]] = {
    "nothing": lambda node, _: node,
    "wrapped": treegen.wrapped,
    "unwrapped": treegen.unwrapped,
    "renamed": treegen.renamed,
    "functional": treegen.functional,
    "reordered": lambda node, _: treegen.reordered(node),
    "fused": treechange.fused,
    "nested": treechange.nested,
    "other weights": lambda node, _: treegen.reseeded(node),
    "all but weights": lambda node, generator: treegen.renamed(
        treegen.reordered(
            treegen.unwrapped(
                treegen.wrapped(treegen.functional(node, generator), generator), generator
            )
        ),
        generator,
    ),
    "all of it": lambda node, generator: treegen.renamed(
        treechange.nested(
            treechange.fused(
                treegen.reordered(
                    treegen.unwrapped(
                        treegen.wrapped(treegen.functional(node, generator), generator), generator
                    )
                ),
                generator,
            ),
            generator,
        ),
        generator,
    ),
}


RICH: dict[str, Callable[[Node, random.Random], Node]] = {
    "projections in one": treechange.joined,
    "norms folded": treechange.folded,
    "own instances": treechange.unshared,
    "folded, instances, names and nesting": lambda node, generator: treegen.renamed(
        treechange.nested(
            treegen.unwrapped(
                treegen.wrapped(
                    treechange.unshared(treechange.folded(node, generator), generator), generator
                ),
                generator,
            ),
            generator,
        ),
        generator,
    ),
    "all but folded": lambda node, generator: treegen.renamed(
        treechange.nested(
            treegen.reordered(
                treegen.unwrapped(
                    treegen.wrapped(
                        treechange.unshared(
                            treegen.functional(
                                treechange.fused(treechange.joined(node, generator), generator),
                                generator,
                            ),
                            generator,
                        ),
                        generator,
                    ),
                    generator,
                )
            ),
            generator,
        ),
        generator,
    ),
}
"""Changes of models that also hold attentions and batch norms."""


def made(seed: int, change: str, *, blocks: int = 5) -> tuple[Run, Run]:
    generator = random.Random(seed)
    reference = treegen.plant(generator, blocks, is_rich=change in RICH)
    candidate = {**CHANGES, **RICH}[change](reference, generator)
    return treegen.run(reference, "torch"), treegen.run(candidate, "paddle")


def certain(pairing: Pairing, reference: Run, candidate: Run) -> dict[int, int]:
    """Give the pairs of leaf calls that are partners beyond doubt, or whose modules are."""
    sure = {(p.reference, p.candidate) for p in pairing.modules if p.confidence >= 1.0}
    proven = {p.reference for p in pairing.calls if p.confidence >= 1.0}
    owners = [run.side.index.calls for run in (reference, candidate)]
    return {
        one: two
        for one, two in leaf_pairs(pairing, reference, candidate).items()
        if one in proven or (owners[0][one].module, owners[1][two].module) in sure
    }


def leaf_pairs(pairing: Pairing, reference: Run, candidate: Run) -> dict[int, int]:
    return {
        found.reference: found.candidate
        for found in pairing.calls
        if found.reference in reference.leaves and found.candidate in candidate.leaves
    }


@pytest.mark.parametrize("change", sorted({**CHANGES, **RICH}))
@settings(max_examples=12, deadline=None)
@given(seed=SEEDS)
def test_no_leaf_is_paired_wrongly_and_none_is_missed(seed: int, change: str) -> None:
    reference, candidate = made(seed, change)

    found = leaf_pairs(pair(reference.side, candidate.side), reference, candidate)

    true = treegen.truth(reference, candidate)
    assert {one: two for one, two in found.items() if true.get(one) != two} == {}
    assert len(found) >= 0.99 * len(true)


@pytest.mark.parametrize("change", sorted(RICH))
@settings(max_examples=12, deadline=None)
@example(seed=773919)
@example(seed=607303)
@example(seed=318472)
@given(seed=SEEDS)
def test_weights_of_layers_that_do_more_at_once_find_what_they_are_made_of(
    seed: int, change: str
) -> None:
    reference, candidate = made(seed, change)

    found = pair(reference.side, candidate.side)

    indices = reference.side.index, candidate.side.index
    for one in found.records:
        target = indices[1].records[one.candidate]
        if target.role is Role.WEIGHT:
            sources = [indices[0].records[record] for record in one.reference]
            arrays = [reference.side.array(source) for source in sources]
            expected = one.rule.apply(arrays, target.shape)
            assert np.array_equal(expected, candidate.side.array(target))
    lost = [
        indices[alone.side is SideName.CANDIDATE].records[alone.record]
        for alone in found.unmatched
        if alone.absence is Absence.MISSING
    ]
    assert [record for record in lost if record.role is Role.WEIGHT] == []


@settings(max_examples=12, deadline=None)
@example(seed=570892)
@example(seed=70168)
@given(seed=SEEDS)
def test_other_weights_claim_no_wrong_certainty_where_layers_do_more_at_once(seed: int) -> None:
    generator = random.Random(seed)
    planted = treegen.plant(generator, 5, is_rich=True, is_activated_first=True)
    changed = treegen.reseeded(RICH["all but folded"](planted, generator))
    reference, candidate = treegen.run(planted, "torch"), treegen.run(changed, "paddle")
    assume(_is_alive(reference) and _is_alive(candidate))

    found = certain(pair(reference.side, candidate.side), reference, candidate)

    true = treegen.truth(reference, candidate)
    assert {one: two for one, two in found.items() if true.get(one) != two} == {}


@pytest.mark.parametrize("blocks", [2, 100, 2_700])
def test_trees_of_10_to_20_000_calls_are_paired_right(blocks: int) -> None:
    reference, candidate = made(3, "all of it", blocks=blocks)

    found = leaf_pairs(pair(reference.side, candidate.side), reference, candidate)

    true = treegen.truth(reference, candidate)
    assert len(reference.side.index.calls) >= 5 * blocks
    assert {one: two for one, two in found.items() if true.get(one) != two} == {}
    assert len(found) >= 0.99 * len(true)


@settings(max_examples=40, deadline=None)
@example(seed=99999)
@example(seed=74603)
@example(seed=21)
@example(seed=165)
@example(seed=3470)
@example(seed=5079)
@given(seed=SEEDS)
def test_no_pair_that_claims_certainty_is_wrong_where_nothing_tells_towers_apart(
    seed: int,
) -> None:
    """Other order, other names, other weights: position is all there is."""
    reference, candidate = _of_other_weights(seed)

    found = certain(pair(reference.side, candidate.side), reference, candidate)

    true = treegen.truth(reference, candidate)
    assert {one: two for one, two in found.items() if true.get(one) != two} == {}


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_data_flow_alone_proves_all_that_runs_one_after_the_other(seed: int) -> None:
    """Other names and other weights, functions for modules: only what runs side by side is open."""
    reference, candidate = _of_other_weights(seed)
    assume(_is_alive(reference) and _is_alive(candidate))

    found = certain(pair(reference.side, candidate.side), reference, candidate)

    index, layers = reference.side.index, _layers(reference)
    true = {
        one: two
        for one, two in treegen.truth(reference, candidate).items()
        if index.calls[one].module in layers and not _is_in_branch(reference, one)
    }
    assert {one: two for one, two in true.items() if found.get(one) != two} == {}


def test_what_nothing_goes_through_proves_nothing_and_is_paired_right_all_the_same() -> None:
    """The ReLU before the branches of this seed gives zeros alone: they could be fed by anyone."""
    reference, candidate = _of_other_weights(310)

    found = pair(reference.side, candidate.side)

    true = treegen.truth(reference, candidate)
    layers = [
        call for call in true if reference.side.index.calls[call].module in _layers(reference)
    ]
    pairs = leaf_pairs(found, reference, candidate)
    assert not _is_alive(reference)
    assert {one: pairs.get(one) for one in layers} == {one: true[one] for one in layers}
    assert len(certain(found, reference, candidate)) < len(true)


def _of_other_weights(seed: int) -> tuple[Run, Run]:
    """Give a model, and its like with other names, weights and tree, functions for modules."""
    generator = random.Random(seed)
    planted = treegen.plant(generator, 5, is_activated_first=True)
    changed = treegen.reseeded(CHANGES["all but weights"](planted, generator))
    return treegen.run(planted, "torch"), treegen.run(changed, "paddle")


def _layers(run: Run) -> set[int]:
    modules = run.side.index.modules
    return {module.id for module in modules if module.class_name in {"Linear", "LayerNorm"}}


def _is_in_branch(run: Run, call: int) -> bool:
    outer: int | None = call
    while outer is not None:
        if run.side.index.modules[run.side.index.calls[outer].module].class_name == "UserBranches":
            return True
        outer = run.side.index.calls[outer].parent
    return False


@settings(max_examples=15, deadline=None)
@example(seed=34)
@example(seed=232)
@given(seed=SEEDS)
def test_equal_weights_leave_no_layer_in_doubt(seed: int) -> None:
    reference, candidate = made(seed, "all but weights")

    found = certain(pair(reference.side, candidate.side), reference, candidate)

    true = {one for one in treegen.truth(reference, candidate) if not _is_dead(reference, one)}
    assert len(true & found.keys()) >= 0.99 * len(true)


def _is_alive(run: Run) -> bool:
    """Tell whether no call gives one number everywhere, which is no evidence of who fed whom."""
    return not any(one.minimum == one.maximum for call in run.leaves for one in _made(run, call))


def _is_dead(run: Run, call: int) -> bool:
    """Tell whether a call gives one number everywhere, as after a ReLU that lets nothing through.

    Such a call without parameters has nothing of its own, and feeds nothing that could be told.
    """
    made = _made(run, call)
    return all(one.minimum == one.maximum for one in made) and bool(made)


def _made(run: Run, call: int) -> list[Statistics]:
    values = [record.value for record in run.side.index.records if record.call == call]
    return [run.side.index.values[value].statistics for value in values if value is not None]


@pytest.mark.parametrize("fault", [treegen.faulty, treegen.skewed])
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_a_planted_fault_does_not_change_the_pairs_of_leaves(
    seed: int, fault: Callable[[Node, random.Random], Node]
) -> None:
    """An output scaled; an epsilon changed or one weight transposed."""
    generator = random.Random(seed)
    reference = treegen.plant(generator, 5)
    candidate = treegen.wrapped(treegen.functional(reference, generator), generator)
    runs = [treegen.run(node, "paddle") for node in (candidate, fault(candidate, generator))]
    one = treegen.run(reference, "torch")

    found = [leaf_pairs(pair(one.side, run.side), one, run) for run in runs]

    assert found[0] == found[1]


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_a_dump_paired_with_itself_gives_the_identity(seed: int) -> None:
    run = treegen.run(treegen.plant(random.Random(seed), 4), "torch")

    found = pair(run.side, run.side)

    index = run.side.index
    assert [(p.reference, p.candidate) for p in found.modules] == [
        (m.id,) * 2 for m in index.modules
    ]
    assert [(p.reference, p.candidate) for p in found.calls] == [(c.id,) * 2 for c in index.calls]
    assert {(p.reference, p.candidate) for p in found.records} == {
        ((r.id,), r.id) for r in index.records
    }
    assert all(p.rule.is_identity for p in found.records)
    assert found.unmatched == ()
    assert found.same_structure


@pytest.mark.parametrize(
    "change", ["wrapped", "functional", "all but weights", "other weights", *sorted(RICH)]
)
@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_exchanging_the_sides_exchanges_the_pairs(seed: int, change: str) -> None:
    reference, candidate = made(seed, change, blocks=4)

    ahead, back = pair(reference.side, candidate.side), pair(candidate.side, reference.side)

    for one, two in ((ahead.modules, back.modules), (ahead.calls, back.calls)):
        assert {(p.reference, p.candidate) for p in one} == {
            (p.candidate, p.reference) for p in two
        }
    # Which of several equal copies stands for all of them may differ, what it holds may not.
    values = [[r.value for r in run.side.index.records] for run in (reference, candidate)]
    ends = {(values[0][one], values[1][p.candidate]) for p in ahead.records for one in p.reference}
    assert ends == {
        (values[0][p.candidate], values[1][one]) for p in back.records for one in p.reference
    }


@pytest.mark.parametrize("change", ["wrapped", "functional", "all but weights"])
@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_every_record_is_paired_or_explained_and_pairing_is_deterministic(
    seed: int, change: str
) -> None:
    reference, candidate = made(seed, change, blocks=4)

    found = pair(reference.side, candidate.side)

    assert found == pair(reference.side, candidate.side)
    paired = (
        {record for p in found.records for record in p.reference},
        {p.candidate for p in found.records},
    )
    for side, run, ids in zip(SideName, (reference, candidate), paired, strict=True):
        alone = [u.record for u in found.unmatched if u.side is side]
        assert len(alone) == len(set(alone))
        assert ids | set(alone) == {record.id for record in run.side.index.records}
        assert ids & set(alone) == set()


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_values_of_one_sided_wrappers_and_activations_are_covered(seed: int) -> None:
    reference, candidate = made(seed, "all but weights", blocks=4)
    assume(_is_alive(reference))

    found = pair(reference.side, candidate.side)

    assert {u.absence for u in found.unmatched} <= {Absence.COVERED}
