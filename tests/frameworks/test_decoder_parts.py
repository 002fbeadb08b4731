"""Parts of decoders as their libraries write them: position tables, caches that begin empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import torch
from torch import nn

import padiff
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import worded_edit

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.proving import Execution

_FREQUENCIES = [1.0, 0.1]
_IDS = np.random.default_rng(0).integers(0, 24, (2, 5))


class RotaryEmbedding(nn.Module):
    """Cosines and sines for one row of positions, which serves the whole batch."""

    def forward(self, _: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        angles = positions[..., None].float() * torch.tensor(_FREQUENCIES)
        both = torch.cat((angles, angles), -1)
        return both.cos(), both.sin()


class Decoder(nn.Module):
    """Two rotated projections, and a cache that has nothing in it yet."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed = nn.Embedding(24, 4)
        self.rotary = RotaryEmbedding()
        self.q, self.k, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.head = nn.Linear(4, 3)

    def rotated(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return x * cos + torch.cat((-x[..., 2:], x[..., :2]), -1) * sin

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        cos, sin = self.rotary(x, torch.arange(ids.shape[1])[None])
        q, k = self.rotated(self.q(x), cos, sin), self.rotated(self.k(x), cos, sin)
        scores = torch.nn.functional.scaled_dot_product_attention(q, k, x, scale=0.5)
        result: torch.Tensor = self.head(self.out(scores) + x)
        return result


class Ported(paddle.nn.Layer):
    """The same in paddle, with a row of positions for each row of the batch."""

    class RotaryEmbedding(paddle.nn.Layer):
        """As the reference's, by name too."""

        def __init__(self, *, is_exchanged: bool) -> None:
            super().__init__()
            self.is_exchanged = is_exchanged

        def forward(self, _: paddle.Tensor, positions: paddle.Tensor) -> tuple[Any, ...]:
            angles = positions.unsqueeze(-1).astype("float32") * paddle.to_tensor(_FREQUENCIES)
            both = paddle.concat((angles, angles), -1)
            found = both.cos(), both.sin()
            return found[::-1] if self.is_exchanged else found

    def __init__(self, *, is_exchanged: bool = False, is_cut: bool = False) -> None:
        super().__init__()
        self.embed = paddle.nn.Embedding(24, 4)
        self.rotary = self.RotaryEmbedding(is_exchanged=is_exchanged)
        self.q, self.k = paddle.nn.Linear(4, 4), paddle.nn.Linear(4, 4)
        self.out, self.head = paddle.nn.Linear(4, 4), paddle.nn.Linear(4, 3)
        self.is_cut = is_cut

    def rotated(self, x: Any, cos: Any, sin: Any) -> Any:  # noqa: ANN401
        return x * cos + paddle.concat((-x[..., 2:], x[..., :2]), -1) * sin

    def forward(self, ids: paddle.Tensor) -> paddle.Tensor:
        x = self.embed(ids)
        positions = paddle.arange(ids.shape[1]).unsqueeze(0).expand([ids.shape[0], -1])
        cos, sin = self.rotary(x, positions)
        q, k = self.rotated(self.q(x), cos, sin), self.rotated(self.k(x), cos, sin)
        cache = paddle.empty([ids.shape[0], 0, 4])
        keys, values = paddle.concat([cache, k], 1), paddle.concat([cache, x], 1)
        scores = paddle.nn.functional.softmax(q @ keys.transpose([0, 2, 1]) * 0.5, -1)
        mixed = self.out(scores @ values)
        result: paddle.Tensor = self.head((mixed.detach() if self.is_cut else mixed) + x)
        return result


def compared(folder: Path, candidate: Ported, *, factor: float = 1.0) -> padiff.Comparison:
    reference = Decoder()
    with padiff.record(reference, name="reference", out=folder) as recorder:
        reference(torch.from_numpy(_IDS)).square().mean().backward()
    padiff.assign_weight(reference, candidate)
    candidate.head.bias.set_value(candidate.head.bias * factor)
    with padiff.record(candidate, name="candidate", out=folder) as other:
        candidate(paddle.to_tensor(_IDS)).square().mean().backward()
    assert recorder.path is not None
    assert other.path is not None
    return padiff.compare(recorder.path, other.path)


def executed(result: padiff.Comparison) -> Execution:
    (step,) = result.steps
    assert step.executed is not None
    return step.executed


def test_a_port_with_empty_caches_and_other_rows_of_positions_is_the_same(tmp_path: Path) -> None:
    result = compared(tmp_path, Ported())

    assert result
    assert executed(result).answer is Answer.SAME
    assert result.coverage.fraction == 1


def test_outputs_that_a_module_exchanges_are_told_by_their_places(tmp_path: Path) -> None:
    result = compared(tmp_path, Ported(is_exchanged=True))

    function = executed(result).function
    assert function.answer is Answer.DIFFERENT
    words = [worded_edit(one) for one in function.edits]
    assert words == ["output[1] of rotary and output[0] of rotary exchanged"]
    for one in function.edits:  # forms that move nothing are no faults
        assert one.influence is not None
        assert one.influence.relative_l2 is not None
        assert one.influence.relative_l2 > 1e-3


def test_a_value_that_is_detached_behind_another_form_is_told(tmp_path: Path) -> None:
    result = compared(tmp_path, Ported(is_cut=True))

    assert not result
    assert executed(result).function.answer is Answer.SAME
    places = [one.place for one in executed(result).function.differences if one.place is not None]
    assert [place.operator for place in places] == ["paddle.Tensor.detach"]


def test_another_weight_beside_other_forms_is_told_with_what_it_does(tmp_path: Path) -> None:
    result = compared(tmp_path, Ported(), factor=1.5)

    function = executed(result).function
    assert function.answer is Answer.SAME
    (one,) = function.differences
    assert (one.kind, one.candidate) == ("parameter", "head.bias")
    assert one.influence is not None
    assert one.influence.relative_l2 is not None
    assert one.influence.relative_l2 > 1e-3
