"""Proof of map files: patterns, entries, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import ConfigError
from padiff.pairing import (
    Absence,
    MapFile,
    PairedBy,
    Pairing,
    RanksEntry,
    SideName,
    pair,
    read_map,
)
from padiff.pairing.maps.mapfile import layout_rule
from padiff.pairing.maps.pattern import PathPattern
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path


def paired(text: str) -> Pairing:
    return pair(tiny_net().side(), tiny_net("paddle").side(), map_file=MapFile.parse(text))


@pytest.mark.parametrize(
    ("pattern", "path", "captured"),
    [
        ("layers.{i}.q", "layers.3.q", {"i": "3"}),
        ("layers.{i}.q", "layers.3.4.q", None),
        ("backbone.**", "backbone.stage.0", {}),
        ("backbone.**", "backbone", {}),
        ("**.dropout", "dropout", {}),
        ("**.dropout", "a.b.dropout", {}),
        ("**.dropout", "mydropout", None),
        ("a.**.b", "a.b", {}),
        ("a.*.b", "a.x.b", {}),
        ("a.*.b", "a.x.y.b", None),
        ("(root)", "", {}),
    ],
)
def test_a_pattern_matches_components(
    pattern: str, path: str, captured: dict[str, str] | None
) -> None:
    assert PathPattern.parse(pattern).match(path) == captured


def test_a_pair_of_the_map_goes_before_names() -> None:
    found = paired('[[pair]]\nreference = "fc1"\ncandidate = "fc2"\n')

    index = tiny_net().side().index
    names = {
        index.modules[p.reference].path: (index.modules[p.candidate].path, p.paired_by)
        for p in found.modules
    }
    assert names["fc1"] == ("fc2", PairedBy.MAP)


def test_an_ignored_module_is_skipped_with_the_reason() -> None:
    found = paired('[[ignore]]\nreference = "norm"\nreason = "inactive"\n')

    index = tiny_net().side().index
    reasons = {
        (u.absence, u.reason)
        for u in found.unmatched
        if u.side is SideName.REFERENCE
        and index.modules[index.records[u.record].module].path == "norm"
    }
    assert reasons == {(Absence.SKIPPED, "inactive")}


def test_a_stated_layout_becomes_the_rule_of_the_pair() -> None:
    found = paired('[[layout]]\nreference = "fc1"\noutput = "AB->BA"\n')

    index = tiny_net().side().index
    rules = {
        str(p.rule)
        for p in found.records
        if index.records[p.reference[0]].role == "output"
        and index.modules[index.records[p.reference[0]].module].path == "fc1"
    }
    assert rules == {"permute 1 0"}


@pytest.mark.parametrize(
    "text",
    [
        '[[pair]]\nreference = "nowhere"\ncandidate = "fc1"\n',
        '[[pair]]\nreference = "fc{i}"\ncandidate = "fc1"\n',
        '[[ignore]]\nreference = "**.dropout"\n',
        '[[pairs]]\nreference = "fc1"\n',
        '[[pair]]\nreference = "fc1"\ncandidate = "fc1"\nchild = false\n',
        '[[pair]]\nreference = "fc*"\ncandidate = "fc1"\n',
        '[[layout]]\nreference = "fc1"\noutput = "NCHW->NCHH"\n',
        "[pair]\n",
        "[[pair",
        '[[weight]]\nreference = []\ncandidate = "fc1.weight"\n',
    ],
)
def test_what_the_map_cannot_mean_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        paired(text)


def test_an_entry_that_comes_too_late_is_reported() -> None:
    entry = '[[pair]]\nreference = "fc1"\ncandidate = "fc1"\n'

    found = paired(entry + entry)

    assert any("unused" in note for note in found.notes)


def test_a_closed_pair_hides_what_is_inside() -> None:
    found = paired('[[pair]]\nreference = "(root)"\ncandidate = "(root)"\nchildren = false\n')

    assert len(found.calls) == 1


def test_a_missing_map_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_map(tmp_path / "map.toml")


def test_a_layout_of_named_axes_becomes_a_permutation() -> None:
    assert str(layout_rule("NCHW->NHWC")) == "permute 0 2 3 1"
    assert str(layout_rule("transpose")) == "transpose"


def error_of(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        paired(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ('[[pair]]\nreference = "fc1"\n', "[[pair]] 1"),
        ('[[ignore]]\nreference = "fc1"\n[[ignore]]\nreason = "x"\n', "[[ignore]] 2"),
        ('[[layout]]\nreference = "fc1"\noutput = "AB->BC"\n', "[[layout]] 1"),
        ('[[weight]]\nreference = "a"\ncandidate = "b"\nrule = "turn"\n', "[[weight]] 1"),
        ('[[pair]]\nreference = "fc{"\ncandidate = "fc1"\n', "[[pair]] 1"),
        ('[[pair]]\nreference = "fc1"\ncandidate = "fc1"\nchildren = 1\n', "[[pair]] 1"),
        ('[[pair]]\nreference = "nowhere"\ncandidate = "fc1"\n', "[[pair]] 1"),
        ('[[weight]]\nreference = "nowhere.weight"\ncandidate = "fc1.weight"\n', "[[weight]] 1"),
    ],
)
def test_an_error_names_the_entry(text: str, entry: str) -> None:
    assert [detail.partition(":")[0] for detail in error_of(text).details] == [entry]


def test_all_entries_that_match_nothing_are_listed() -> None:
    text = "".join(f'[[ignore]]\nreference = "nowhere{number}"\n' for number in range(3))

    details = error_of(text + '[[pair]]\nreference = "fc1"\ncandidate = "nowhere"\n').details

    assert len(details) == 4


def test_exchanged_sides_are_recognised() -> None:
    reference, candidate = tiny_net().module("left", "Drop"), tiny_net().module("right", "Drop")
    text = '[[pair]]\nreference = "right"\ncandidate = "left"\n'

    with pytest.raises(ConfigError) as caught:
        pair(reference.side(), candidate.side(), map_file=MapFile.parse(text))

    assert "exchange" in caught.value.details[0]
    assert "exchange" in (caught.value.hint or "")


def test_ignoring_a_module_ignores_what_is_inside() -> None:
    found = paired('[[ignore]]\nreference = "(root)"\nreason = "all of it"\n')

    assert not found.records
    mine = {u.reason for u in found.unmatched if u.side is SideName.REFERENCE}
    assert mine == {"all of it"}


@pytest.mark.parametrize(
    "entry",
    [
        '[[ignore]]\nreference = "norm"\n',
        '[[layout]]\nreference = "norm"\noutput = "AB->BA"\n',
        '[[weight]]\nreference = "fc1.weight"\ncandidate = "fc1.weight"\n',
    ],
)
def test_an_entry_without_effect_is_reported(entry: str) -> None:
    table = entry.partition("\n")[0]

    notes = paired(entry + entry).notes

    assert [note.partition(" is ")[0] for note in notes] == [f"map entry {table} 2"]


def test_a_member_without_partner_is_reported() -> None:
    reference = tiny_net().module("drop.0", "Drop").module("drop.1", "Drop")
    candidate = tiny_net().module("off.1", "Drop")
    text = '[[pair]]\nreference = "drop.{i}"\ncandidate = "off.{i}"\n'

    notes = pair(reference.side(), candidate.side(), map_file=MapFile.parse(text)).notes

    assert ["'drop.0'" in note for note in notes] == [True]


def test_a_weight_inside_a_closed_pair_may_stay_alone() -> None:
    reference = tiny_net().module("fc2.inner", "Scale")
    reference.tensor("fc2.inner", "scale", np.ones(7, np.float32))
    text = '[[pair]]\nreference = "fc2"\ncandidate = "fc2"\nchildren = false\n'

    found = pair(reference.side(), tiny_net().side(), map_file=MapFile.parse(text))

    alone = [u for u in found.unmatched if u.side is SideName.REFERENCE]
    assert [(u.absence, u.reason) for u in alone] == [
        (Absence.SKIPPED, "inside 'fc2', paired as a whole")
    ]


def test_the_partner_of_an_ignored_weight_is_skipped_for_the_same_reason() -> None:
    found = paired('[[ignore]]\nreference = "fc1"\nreason = "mine"\n')

    index = tiny_net("paddle").side().index
    weights = {
        (u.absence, u.reason)
        for u in found.unmatched
        if u.side is SideName.CANDIDATE and index.records[u.record].slot == ".weight"
    }
    assert weights == {(Absence.SKIPPED, "mine")}


def test_a_stated_weight_is_compared_though_its_module_is_ignored() -> None:
    found = paired(
        '[[ignore]]\nreference = "fc1"\n'
        '[[weight]]\nreference = "fc1.weight"\ncandidate = "fc1.weight"\n'
    )

    index = tiny_net().side().index
    stated = [p for p in found.records if p.paired_by is PairedBy.MAP]
    roles = {index.records[p.reference[0]].role for p in stated}
    assert roles == {"weight", "weight_grad"}


def test_the_calls_inside_a_mapped_pair_are_paired_within_it() -> None:
    text = '[[pair]]\nreference = "(root)"\ncandidate = "(root)"\n'

    found = paired(text)

    assert len(found.calls) == 4
    assert len(found.records) == len(paired("").records)


def test_a_layout_over_ranks_is_read_from_a_file_and_from_an_option() -> None:
    text = (
        '[[layout]]\nmodule = "**.wo"\noutput = "R over tp"\nweight = "S(0;3) over tp, R over dp"\n'
    )

    (entry,) = MapFile.parse(text).over_ranks

    assert entry.placements == {"output": {"tp": "R"}, "weight": {"tp": "S(0;3)", "dp": "R"}}
    assert [RanksEntry.parse(one).placements for one in entry.texts] == [
        {"output": {"tp": "R"}},
        {"weight": {"tp": "S(0;3)", "dp": "R"}},
    ]


@pytest.mark.parametrize(
    "text",
    ["wo", "wo output", "wo output=R", "wo output=S(x) over tp", "wo loss=R over tp", "=R over tp"],
)
def test_a_layout_over_ranks_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read the layout"):
        RanksEntry.parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[layout]]\nmodule = "a"\n', "expected 'module' and one of"),
        ('[[layout]]\nmodule = "a"\nreference = "b"\noutput = "R over tp"\n', "expected 'module'"),
        ('[[layout]]\nreference = "a"\nweight = "R over tp"\n', "'weight' needs 'module'"),
    ],
)
def test_a_layout_is_either_of_two_kinds(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MapFile.parse(text)

    assert problem in str(caught.value)
