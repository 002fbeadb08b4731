"""``padiff weights``: plans, conversions and comparisons of checkpoint files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from padiff.dumper.weights.checkpoint import read_arrays, write_arrays

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(5)


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> tuple[Path, Path]:
    reference, candidate = tmp_path / "one.safetensors", tmp_path / "two.pdparams"
    ours = {"fc.weight": RNG.normal(size=(3, 5)), "fc.bias": RNG.normal(size=3)}
    write_arrays(reference, ours)
    write_arrays(candidate, {"fc.weight": ours["fc.weight"].T.copy(), "fc.bias": ours["fc.bias"]})
    return reference, candidate


def test_plan_prints_rules_and_writes_a_map(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "plan.toml"

    code = main(["weights", "plan", *map(str, files), "-o", str(output)])

    assert code == 0
    assert "transpose" in capsys.readouterr().out
    assert main(["weights", "plan", *map(str, files), "--map", str(output)]) == 0


def test_compare_matches_through_the_plan(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["weights", "compare", *map(str, files)]) == 0
    assert capsys.readouterr().out.startswith("verdict: match")


def test_compare_finds_one_changed_element(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, _ = read_arrays(files[1])
    changed = arrays["fc.weight"].copy()
    changed[4, 2] += 1.0
    write_arrays(files[1], {**arrays, "fc.weight": changed})

    assert main(["weights", "compare", *map(str, files)]) == 1
    assert "fc.weight" in capsys.readouterr().out


def test_convert_writes_what_the_target_should_hold(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    made = tmp_path / "made.safetensors"

    code = main(["weights", "convert", str(files[0]), "--to", str(made), "--like", str(files[1])])

    assert code == 0
    expected, found = read_arrays(files[1])[0], read_arrays(made)[0]
    assert sorted(expected) == sorted(found)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_convert_lists_all_that_is_missing_and_writes_nothing(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made.safetensors"
    write_arrays(
        files[1], {"fc.weight": RNG.normal(size=(9, 9)), "head.weight": RNG.normal(size=2)}
    )

    code = main(["weights", "convert", str(files[0]), "--to", str(made), "--like", str(files[1])])

    assert code == 2
    assert not made.exists()
    shown = capsys.readouterr().err
    assert all(name in shown for name in ("fc.weight", "fc.bias", "head.weight"))


def test_stats_ranks_the_unlikely_first(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, _ = read_arrays(files[1])
    write_arrays(files[1], {**arrays, "fc.bias": np.zeros(3)})

    assert main(["weights", "stats", *map(str, files)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("fc.bias")


def test_unknown_kind_of_file_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "weights.txt"
    place.write_text("x")

    assert main(["weights", "stats", str(place)]) == 2


def test_plan_remarks_on_a_rule_that_is_about_no_class(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nclass = "mylib.Dense"\nweight = "transpose"\n')

    assert main(["weights", "plan", *map(str, files), "--map", str(rules)]) == 0
    assert "[[rule]] 1 is unused" in capsys.readouterr().out


@pytest.mark.parametrize(("ends", "is_said"), [(("t", "p"), True), (("t", "t"), False)])
def test_stats_hint_at_defaults_of_two_frameworks_only_where_there_are_two(
    ends: tuple[str, str], *, is_said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for place, (end, size) in enumerate(zip(ends, (1.0, 0.1), strict=True)):
        suffix, shape = {"t": ("safetensors", (30, 50)), "p": ("pdparams", (50, 30))}[end]
        paths.append(tmp_path / f"{place}.{suffix}")
        write_arrays(paths[-1], {"fc.weight": RNG.normal(size=shape, scale=size)})

    assert main(["weights", "stats", *map(str, paths)]) == 0
    assert ("defaults differ" in capsys.readouterr().out) is is_said


def test_stats_of_long_names_keep_their_columns_on_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "encoder.layers.11.attention.output.dense.projection.weight"
    path = tmp_path / "one.safetensors"
    write_arrays(path, {name: RNG.normal(size=(4, 3))})

    assert main(["weights", "stats", str(path), str(path)]) == 0

    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == name
    assert [line.split()[0] for line in shown[2:]] == ["reference", "candidate"]
    assert all(len(line) <= 80 for line in shown)


def test_stats_say_nothing_of_the_kind_of_a_nan(tmp_path: Path) -> None:
    """A nan that signals makes numpy warn when it is widened; warnings are errors here."""
    path = tmp_path / "signalling.safetensors"
    weights = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    write_arrays(path, {"fc.weight": weights})

    assert main(["weights", "stats", str(path)]) == 0
