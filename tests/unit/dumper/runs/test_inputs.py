"""Which files feed which argument."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from padiff.dumper.adapter import Keywords
from padiff.dumper.runs.inputs import InputFile, Inputs, load_inputs, parse_input, renamed
from padiff.dumpfile import ConfigError

IDS = np.arange(6).reshape(2, 3)
MASK = np.ones((2, 3), bool)
ANYTHING = Keywords(names=(), takes_any=True)


def named(*names: str) -> Keywords:
    return Keywords(names=names, takes_any=False)


def test_keyword_is_split_off_unless_the_file_exists(tmp_path: Path) -> None:
    odd = tmp_path / "a=b.npy"
    odd.touch()

    assert parse_input("mask=x.npy") == InputFile(path=Path("x.npy"), keyword="mask")
    assert parse_input(str(odd)) == InputFile(path=odd)


def test_files_fill_positions_in_order_and_keywords_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", IDS)
    np.save(tmp_path / "mask.npy", MASK)
    files = [
        InputFile(path=tmp_path / "ids.npy"),
        InputFile(path=tmp_path / "mask.npy", keyword="mask"),
    ]

    inputs = load_inputs(files, named("ids", "mask"))

    assert np.array_equal(inputs.positional[0], IDS)
    assert np.array_equal(inputs.keywords["mask"], MASK)
    assert inputs.positional[0].dtype == IDS.dtype


def test_npz_with_names_of_parameters_goes_by_keyword(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", ids=IDS, mask=MASK)

    inputs = load_inputs([InputFile(path=tmp_path / "x.npz")], named("ids", "mask", "other"))

    assert inputs.positional == ()
    assert sorted(inputs.keywords) == ["ids", "mask"]


def test_an_unknown_name_does_not_vanish_among_any_other_keywords(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=IDS)
    forward = Keywords(names=("pixel_values", "labels"), takes_any=True)

    inputs = load_inputs([InputFile(path=tmp_path / "x.npz")], forward)

    assert not inputs.keywords
    assert np.array_equal(inputs.positional[0], IDS)


def test_a_further_keyword_goes_along_with_a_known_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", pixel_values=IDS, extra=MASK)
    forward = Keywords(names=("pixel_values", "labels"), takes_any=True)

    inputs = load_inputs([InputFile(path=tmp_path / "x.npz")], forward)

    assert sorted(inputs.keywords) == ["extra", "pixel_values"]


def test_npz_without_names_goes_by_position_in_numeric_order(tmp_path: Path) -> None:
    arrays = [np.full(1, at) for at in range(12)]
    np.savez(tmp_path / "x.npz", *arrays)

    inputs = load_inputs([InputFile(path=tmp_path / "x.npz")], ANYTHING)

    assert [int(array[0]) for array in inputs.positional] == list(range(12))


def test_single_array_of_another_name_goes_by_position(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", pixels=IDS)

    assert len(load_inputs([InputFile(path=tmp_path / "x.npz")], named("x")).positional) == 1


def test_names_that_forward_lacks_are_refused_with_near_ones(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", ids=IDS, maks=MASK)

    with pytest.raises(ConfigError) as caught:
        load_inputs([InputFile(path=tmp_path / "x.npz")], named("ids", "mask"))

    assert "'maks'" in caught.value.message
    assert "'mask'" in (caught.value.hint or "")


def test_keyword_that_forward_lacks_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IDS)

    with pytest.raises(ConfigError, match="no parameter 'y'"):
        load_inputs([InputFile(path=tmp_path / "x.npy", keyword="y")], named("ids"))


def test_keyword_given_twice_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", IDS)
    file = InputFile(path=tmp_path / "x.npy", keyword="ids")

    with pytest.raises(ConfigError, match="twice"):
        load_inputs([file, file], ANYTHING)


def test_safetensors_bfloat16_keeps_its_bits(tmp_path: Path) -> None:
    values = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
    save_file({"x": values}, tmp_path / "x.safetensors")

    (read,) = load_inputs([InputFile(path=tmp_path / "x.safetensors")], named("y")).positional

    assert read.dtype == values.dtype
    assert read.tobytes() == values.tobytes()


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)

    with pytest.raises(ConfigError, match="never unpickled"):
        load_inputs([InputFile(path=tmp_path / "x.npy")], ANYTHING)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors"])
@pytest.mark.parametrize("content", [b"", b"garbage of some length", b"PK\x03\x04broken"])
def test_damaged_file_is_one_clear_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(ConfigError, match="cannot read the arrays of") as caught:
        load_inputs([InputFile(path=tmp_path / name)], ANYTHING)

    assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["missing.npy", "x.txt", "."])
def test_wrong_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.txt").touch()

    with pytest.raises(ConfigError, match="cannot read the arrays of"):
        load_inputs([InputFile(path=tmp_path / name)], ANYTHING)


def test_text_is_no_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(["a"]))

    with pytest.raises(ConfigError, match="expected numbers"):
        load_inputs([InputFile(path=tmp_path / "x.npy")], ANYTHING)


@pytest.mark.parametrize(
    ("given", "taken", "found"),
    [
        ({"image1": 1, "image2": 2}, ("a", "b", "c"), {"a": 1, "b": 2}),
        ({"image1": 1, "b": 2}, ("a", "b"), {"image1": 1, "b": 2}),  # a mistake, not a language
        ({"image1": 1, "image2": 2}, ("a",), {"image1": 1, "image2": 2}),
        ({}, ("a",), {}),
    ],
)
def test_recorded_names_that_forward_does_not_know_are_taken_in_order(
    given: dict[str, int], taken: tuple[str, ...], found: dict[str, int]
) -> None:
    assert renamed(Inputs(keywords=given), named(*taken)).keywords == found


def test_names_go_behind_what_has_a_position_and_any_name_may_be_taken() -> None:
    inputs = Inputs(positional=(IDS,), keywords={"image": 1})

    assert renamed(inputs, named("a", "b")).keywords == {"b": 1}
    assert renamed(inputs, ANYTHING) is inputs


def test_where_nothing_has_a_name_nothing_is_said() -> None:
    inputs = Inputs(positional=(IDS,))

    assert renamed(inputs, named("a")) is inputs
