"""By which rule the sides resized the same tensor, as torch and paddle do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch

from tests.support.layer_pairs import Array, names, normal, origin

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = normal(2, 3, 5, 6, seed=91)
HALF: dict[str, Any] = {"mode": "bilinear", "align_corners": False}
CORNERS: dict[str, Any] = {"mode": "bilinear", "align_corners": True}
ODD, DOUBLE, LESS = (7, 9), (10, 12), (3, 4)
CASES: list[tuple[dict[str, Any], dict[str, Any], tuple[int, int], str]] = [
    *(
        (HALF, CORNERS, size, "linear, the candidate by linear with")
        for size in (ODD, DOUBLE, LESS)
    ),
    ({"mode": "nearest"}, HALF, ODD, "nearest, the candidate by linear"),
    ({"mode": "area"}, HALF, LESS, "area, the candidate by linear"),
    ({"mode": "bicubic"}, {"mode": "bicubic", "align_corners": True}, ODD, "cubic with align_corn"),
]


def by_torch(how: dict[str, Any], size: tuple[int, int]) -> Array:
    given = torch.from_numpy(SOURCE)
    made: Array = torch.nn.functional.interpolate(given, size=size, **how).numpy()
    return made


def by_paddle(how: dict[str, Any], size: tuple[int, int]) -> Array:
    given = paddle.to_tensor(SOURCE)
    made: Array = paddle.nn.functional.interpolate(given, size=list(size), **how).numpy()
    return made


@pytest.mark.parametrize(("right", "wrong", "size", "said"), CASES)
def test_the_rules_are_named(
    right: dict[str, Any], wrong: dict[str, Any], size: tuple[int, int], said: str, tmp_path: Path
) -> None:
    found = origin(by_torch(right, size), by_paddle(wrong, size), tmp_path, source=SOURCE)

    assert names(found) == ["function"]
    assert said in found.causes[0].text


def test_what_only_torch_or_only_paddle_has_is_named(tmp_path: Path) -> None:
    left = {"mode": "bilinear", "align_mode": 1}

    first = origin(by_torch({"mode": "nearest"}, ODD), by_torch({"mode": "nearest-exact"}, ODD),
                   tmp_path / "first", source=SOURCE)  # fmt: skip
    second = origin(by_torch(HALF, ODD), by_paddle(left, ODD), tmp_path / "second", source=SOURCE)

    assert "by nearest, the candidate by nearest-exact" in first.causes[0].text
    assert "the candidate by linear from left edges (align_mode=1)" in second.causes[0].text


def test_another_resized_tensor_has_no_such_cause(tmp_path: Path) -> None:
    expected = by_torch(HALF, DOUBLE)

    found = origin(expected, normal(*expected.shape, seed=92), tmp_path, source=SOURCE)

    assert names(found) == []
