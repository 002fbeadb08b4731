"""Values that code moves and moves back: what is wrong with them, or with their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.comparer import CompareSettings, compare
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import normal

if TYPE_CHECKING:
    from pathlib import Path

Array = npt.NDArray[Any]
TOKENS, MATRIX = normal(12, 8, seed=1), normal(8, 8, seed=2)
KEPT, ORDER = np.arange(12), np.random.default_rng(8).permutation(12)


def net(path: Path, order: Array, back: Array, *, scale: float = 1.0) -> Path:
    """Write a block that gives its tokens to a layer in some order, and scales what comes back."""
    given = TOKENS[order]
    made = given @ MATRIX
    block = made[back] * np.float32(scale)
    built = DumpBuilder().module("", "Net").module("block", "Block").module("block.layer", "Linear")
    built.tensor("block.layer", "weight", MATRIX.T.copy())
    built.enter("", inputs=[TOKENS]).enter("block", inputs=[TOKENS])
    built.call("block.layer", inputs=[given], outputs=[made])
    return built.leave(outputs=[block]).leave(outputs=[block * 3]).write(path)


def causes(tmp_path: Path, **found: Any) -> list[str]:  # noqa: ANN401
    known = net(tmp_path / "known", KEPT, KEPT)
    result = compare(known, net(tmp_path / "found", **found), CompareSettings())
    assert result.origins[0].pair.reference is not None
    assert result.origins[0].pair.reference.address.module == "block"
    return [cause.text for cause in result.origins[0].causes]


def test_what_is_wrong_once_the_order_is_undone_is_said(tmp_path: Path) -> None:
    (text,) = causes(tmp_path, order=ORDER, back=np.argsort(ORDER), scale=1.5)

    assert text == "own output: the reference is .layer output, the candidate 1.5 * .layer output"


def test_an_order_that_is_not_undone_is_said_and_not_where_it_begins(tmp_path: Path) -> None:
    order = np.concatenate([KEPT[:3], KEPT[3:][::-1]])

    assert causes(tmp_path, order=order, back=KEPT) == [
        ".layer input[0]: the same elements in another order"
    ]
