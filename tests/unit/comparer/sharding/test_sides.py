"""Hand-made ranks of two layers that are split by hand, taken as one side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, compare
from padiff.dumpfile import CompareError, ConfigError, Layout, Mesh, Role
from padiff.pairing import RanksEntry
from tests.support.drawing import draw
from tests.support.dumps import DumpBuilder, write_dump

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(0)
X, UP, DOWN = (DRAW.standard_normal(shape).astype(np.float32) for shape in ((2, 4), (6, 4), (4, 6)))
Y = X @ UP.T
Z = Y @ DOWN.T


def net(rank: int, part: slice = slice(None), **changes: Array) -> DumpBuilder:
    """Build one rank, which has a part of the hidden features."""
    y = changes.get("y", Y[:, part])
    z = changes.get("z", Y[:, part] @ DOWN[:, part].T)
    out = changes.get("out", Z)
    made = (
        DumpBuilder()
        .module("", "Net")
        .module("fc1", changes.get("column", "Linear"), attributes={})  # type: ignore[arg-type]
        .module("fc2", "Linear")
        .tensor("fc1", "weight", changes.get("up", UP[part]))
        .tensor("fc2", "weight", changes.get("down", DOWN[:, part]))
        .enter("", inputs=[changes.get("x", X)])
        .call("fc1", inputs=[X], outputs=[y])
        .call("fc2", inputs=[y], outputs=[z])
        .leave(outputs=[out])
    )
    made.rank = rank
    return made


def halves(**changes: Array) -> list[DumpBuilder]:
    """Build both ranks; changes are those of rank 1."""
    return [net(0, slice(3)), net(1, slice(3, 6), **changes)]


def compared(folder: Path, *ranks: DumpBuilder, **settings: Any) -> Comparison:  # noqa: ANN401
    known = net(0, z=Z).write(folder / "one")
    found = write_dump(folder / "two", *ranks)
    return compare(known, found, CompareSettings(**settings))


def told(found: Comparison) -> dict[str, int]:
    return dict(found.scope.logical[0].layouts)


def test_one_reading_of_the_shapes_is_taken(tmp_path: Path) -> None:
    found = compared(tmp_path, *halves())

    assert found.verdict == "match", found.reasons
    assert found.scope.logical[0].ranks == (0, 1)
    assert told(found)["by shape"] == 4  # both weights, what fc1 gives and fc2 takes


def test_terms_of_a_sum_and_replicas_are_not_told_apart_by_what_fits(tmp_path: Path) -> None:
    found = compared(tmp_path, *halves())

    (unknown,) = [
        pair
        for pair in found.steps[0].pairs
        if pair.end.address.module == "fc2" and pair.end.address.role is Role.OUTPUT
    ]
    assert unknown.verdict == "skipped"
    assert "terms of a sum" in unknown.reason
    assert sum(found.scope.logical[0].unknown.values()) == 1


def test_option_states_a_layout(tmp_path: Path) -> None:
    entry = RanksEntry.parse("fc2 output=P(sum) over tp")

    found = compared(tmp_path, *halves(), layouts=(entry,))

    assert found.verdict == "match", found.reasons
    assert not found.scope.logical[0].unknown
    assert told(found)["by the map"] == 1
    assert found.settings["layouts"] == ["fc2 output=P(sum) over tp"]


def test_stated_layout_is_taken_although_another_one_fits(tmp_path: Path) -> None:
    entry = RanksEntry.parse("fc2 output=R over tp")

    found = compared(tmp_path, *halves(), layouts=(entry,))

    assert [one.pair.end.address.module for one in found.origins] == ["fc2"]
    assert "not reduced: the sum of the 2 ranks agrees" in found.origins[0].evidence[0]


def test_what_the_model_gives_is_whole_on_each_rank(tmp_path: Path) -> None:
    found = compared(tmp_path, *halves(out=Z + np.float32(0.5)))

    assert found.verdict == "diverged"
    assert any("rank 1 from rank 0 by 0.5" in line for line in found.origins[0].evidence)


def test_entry_that_names_nothing_is_noted(tmp_path: Path) -> None:
    entry = RanksEntry.parse("nowhere output=R over tp")

    found = compared(tmp_path, *halves(), layouts=(entry,))

    assert any("named no record" in note for note in found.notes)


def test_layout_that_contradicts_the_shapes_is_an_error(tmp_path: Path) -> None:
    entry = RanksEntry.parse("fc1 weight=R over tp")
    parts = [net(0, slice(2)), net(1, slice(2, 6))]

    with pytest.raises(CompareError, match=r"fc1 weight.weight.*contradicts the shapes"):
        compared(tmp_path, *parts, layouts=(entry,))


def test_missing_rank_is_an_error(tmp_path: Path) -> None:
    three = [net(rank, slice(2 * rank, 2 * rank + 2)) for rank in range(3)]

    known = net(0, z=Z).write(tmp_path / "one")
    found = write_dump(tmp_path / "two", *three[:2], settings={"ranks": 3})

    with pytest.raises(CompareError, match=r"step 0 lacks rank 2 of 3") as caught:
        compare(known, found)

    assert "--rank" in (caught.value.hint or "")


def test_step_that_lacks_a_rank_is_an_error(tmp_path: Path) -> None:
    known, later = net(0, z=Z), net(0, slice(3))
    known.step = later.step = 1
    reference = write_dump(tmp_path / "one", net(0, z=Z), known)
    candidate = write_dump(tmp_path / "two", *halves(), later)

    with pytest.raises(CompareError, match="step 1 lacks rank 1 of 2"):
        compare(reference, candidate)
    assert compare(reference, candidate, CompareSettings(steps=(0,))).verdict == "match"


def test_ranks_that_lie_otherwise_are_an_error(tmp_path: Path) -> None:
    mesh = Mesh(dims=("tp",), sizes=(2,), ranks=(0, 1))
    ranks = halves()
    for place, (built, placement) in enumerate(zip(ranks, ("S(0)", "R"), strict=True)):
        record, array = built.records[0]
        shape = (6, 4) if placement == "S(0)" else record.shape
        lie = Layout(mesh=mesh, placements=(placement,), shape=shape)
        ranks[place].records[0] = replace(record, layout=lie), array

    with pytest.raises(CompareError, match=r"fc1 weight.weight: its ranks say .* R and S\(0\)"):
        compared(tmp_path, *ranks)


def test_noise_floor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one rank's"):
        compared(tmp_path, *halves(), floor="candidate")


def test_class_tells_what_shapes_do_not(tmp_path: Path) -> None:
    ranks = halves()
    for built in ranks:
        module = built.modules[2]
        built.modules[2] = replace(module, class_name="RowParallelLinear")

    found = compared(tmp_path, *ranks)

    assert [one.pair.end.address.module for one in found.origins] == ["fc2"]
    assert "expected R (by class)" in found.origins[0].evidence[0]


def test_shards_in_another_order_are_told(tmp_path: Path) -> None:
    swapped = [net(0, slice(3), up=UP[3:]), net(1, slice(3, 6), up=UP[:3])]

    found = compared(tmp_path, *swapped)

    assert found.verdict == "diverged"
    lines = [line for one in found.origins for line in one.evidence]
    assert "weight.weight: shards of axis 0 lie in another order on the ranks of tp" in lines


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (
            lambda part: Y[:, part] @ DOWN[:, part].T,
            "output: Partial(sum) over tp, not reduced: the sum of the 2 ranks agrees with ",
        ),
        (
            lambda _: 2 * Z,
            "output: 2 times the reference on all 2 ranks of tp: reduced twice\n",
        ),
        (
            lambda _: Z / 2,
            "output: 1/2 of the reference on all 2 ranks of tp: averaged over tp, where a sum",
        ),
    ],
    ids=["not reduced", "reduced twice", "averaged"],
)
def test_report_names_what_went_wrong_in_a_sum_over_ranks(
    tmp_path: Path, give: Callable[[slice], Array], words: str
) -> None:
    ranks = [net(rank, part, z=give(part)) for rank, part in enumerate((slice(3), slice(3, 6)))]
    for built in ranks:
        built.modules[2] = replace(built.modules[2], class_name="RowParallelLinear")

    text = draw(compared(tmp_path, *ranks), width=200)

    assert f"evidence    {words}" in text


def test_report_names_runs_that_are_split_one_by_one(tmp_path: Path) -> None:
    ranks = [net(rank, slice(rank, None, 2), y=Y[:, rank::2], z=Y @ DOWN.T) for rank in (0, 1)]

    text = draw(compared(tmp_path, *ranks), width=200)

    assert (
        "weight.weight: each rank of tp has its part of each of 3 runs of axis 0: S(0;3) over tp "
        "agrees with the reference; if it is meant to lie like that, say so by --layout\n"
    ) in text


def test_rows_of_each_rank_make_the_batch(tmp_path: Path) -> None:
    def rows(rank: int) -> DumpBuilder:
        made = (
            DumpBuilder()
            .module("", "Net")
            .module("fc1", "Linear")
            .tensor("fc1", "weight", UP)
            .enter("", inputs=[X[rank : rank + 1]])
            .call("fc1", inputs=[X[rank : rank + 1]], outputs=[Y[rank : rank + 1]])
            .leave(outputs=[Y[rank : rank + 1]])
            .record("fc1", Role.GRAD_OUTPUT, 2 * Y[rank : rank + 1])
        )
        made.rank = rank
        return made

    whole = (
        DumpBuilder()
        .module("", "Net")
        .module("fc1", "Linear")
        .tensor("fc1", "weight", UP)
        .enter("", inputs=[X])
        .call("fc1", inputs=[X], outputs=[Y])
        .leave(outputs=[Y])
        .record("fc1", Role.GRAD_OUTPUT, Y)
    )

    found = compare(whole.write(tmp_path / "one"), write_dump(tmp_path / "two", rows(0), rows(1)))

    assert found.verdict == "match", found.reasons
    assert found.counts["match"] == 6
    assert found.scope.logical[0].meshes == ("dp 2",)
