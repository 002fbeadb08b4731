"""Right forms that another author writes otherwise, each with a fault that is planted in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from paddle import nn as pn
from paddle.nn import functional as pf
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import padiff
from benchmarks.score.nets import net
from padiff.comparer import Comparison, Verdict
from tests.support.carrying import carried

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from padiff.comparer.auditing import Audit

Thing = Any
RANDOM = np.random.default_rng(0)
SERIES = RANDOM.standard_normal((3, 7, 6), dtype=np.float32)
PICTURE = RANDOM.standard_normal((2, 6, 5, 4), dtype=np.float32)
LENGTHS = np.array([7, 4, 5])


def _compared(
    folder: Path,
    reference: nn.Module,
    candidate: pn.Layer,
    inputs: Sequence[np.ndarray[Any, Any]],
    losses: tuple[Thing, Thing],
) -> Comparison:
    """Carry the weights over, record a step of both, and compare."""
    padiff.assign_weight(reference, candidate)
    with padiff.record(reference, name="reference", out=folder) as known:
        loss = losses[0](reference(*map(torch.tensor, inputs)))
        loss.backward()
        known.step(loss=loss)
    with padiff.record(candidate, name="candidate", out=folder) as found:
        loss = losses[1](candidate(*map(paddle.to_tensor, inputs)))
        loss.backward()
        found.step(loss=loss)
    return padiff.compare(known.path, found.path)


def _audited(folder: Path, model: Thing, inputs: Thing, loss: Thing) -> Audit:
    with padiff.record(model, name="model", out=folder, content="operators") as recorder:
        loss(model(inputs)).backward()
    return padiff.audit(recorder.path)["step 0"]


def _told(result: Thing) -> str:
    return " ".join(str(one.cause) for one in result.origins)


class TorchQuantizer(nn.Module):
    """Look codes up in an embedding of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(6, 4, 1), nn.Conv2d(4, 3, 3, padding=1)
        self.quantizer = _TorchCodes()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes, loss = self.quantizer(self.before(x))
        return self.after(codes), loss


class _TorchCodes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 4)

    def forward(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = z.permute(0, 2, 3, 1).reshape(-1, 4)
        nearest = torch.cdist(rows, self.embedding.weight).argmin(1)
        codes = self.embedding(nearest).reshape(*z.shape[:1], *z.shape[2:], 4).permute(0, 3, 1, 2)
        loss = (codes - z.detach()).square().mean() + 0.25 * (codes.detach() - z).square().mean()
        return z + (codes - z).detach(), loss


class PaddleQuantizer(pn.Layer):
    """Keep the codes in the class that chooses them."""

    def __init__(self, *, is_straight: bool = True) -> None:
        super().__init__()
        self.pre, self.post = pn.Conv2D(6, 4, 1), pn.Conv2D(4, 3, 3, padding=1)
        self.codebook = _PaddleCodes(is_straight=is_straight)

    def forward(self, x: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        codes, loss = self.codebook(self.pre(x))
        return self.post(codes), loss


class _PaddleCodes(pn.Layer):
    def __init__(self, *, is_straight: bool) -> None:
        super().__init__()
        self.is_straight = is_straight
        self.codes = self.create_parameter([16, 4])

    def forward(self, z: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        batch, width, rows, columns = z.shape
        flat = z.transpose([0, 2, 3, 1]).reshape([-1, width])
        apart = (flat**2).sum(1, keepdim=True) - 2 * flat @ self.codes.T + (self.codes**2).sum(1)
        chosen = pf.one_hot(apart.argmin(1), 16) @ self.codes
        chosen = chosen.reshape([batch, rows, columns, width]).transpose([0, 3, 1, 2])
        loss = ((chosen - z.detach()) ** 2).mean() + 0.25 * ((chosen.detach() - z) ** 2).mean()
        return (z + (chosen - z).detach() if self.is_straight else chosen), loss


def _quantized(result: Thing) -> Thing:
    return (result[0] * result[0]).mean() + result[1]


@pytest.mark.parametrize("is_straight", [True, False])
def test_codes_in_an_embedding_and_in_their_class_are_one_module(
    is_straight: bool, tmp_path: Path
) -> None:
    candidate = PaddleQuantizer(is_straight=is_straight)

    result = _compared(tmp_path, TorchQuantizer(), candidate, [PICTURE], (_quantized, _quantized))

    if is_straight:
        assert result.verdict is Verdict.MATCH, result.reasons
    else:
        assert result.verdict is Verdict.DIVERGED
        assert "detach" in _told(result)


class TorchGated(nn.Module):
    """Two layers, of which the last block's first is used by nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_TorchBlock() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return total


class _TorchBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.res, self.skip = nn.Conv1d(6, 6, 1), nn.Conv1d(6, 6, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.tanh(x)
        return x + self.res(y), self.skip(y)


class PaddleGated(pn.Layer):
    """One layer that makes both."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = pn.LayerList([pn.Conv1D(6, 12, 1) for _ in range(2)])

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        skips = []
        for layer in self.layers:
            res, skip = paddle.split(layer(paddle.tanh(x)), 2, axis=1)
            x = x + res
            skips.append(skip)
        return paddle.add_n(skips)


def _squares(result: Thing) -> Thing:
    return (result * result).mean()


@pytest.mark.parametrize("is_turned", [False, True])
def test_an_unused_layer_has_no_gradient_where_one_layer_makes_both(
    is_turned: bool, tmp_path: Path
) -> None:
    series = SERIES.transpose(0, 2, 1)
    sides = (TorchGated(), PaddleGated())
    blocks: Thing = sides[0].blocks
    for block, layer in zip(blocks, sides[1].layers, strict=True):
        parts = block.res, block.skip
        layer.weight.set_value(np.concatenate([one.weight.detach().numpy() for one in parts]))
        layer.bias.set_value(np.concatenate([one.bias.detach().numpy() for one in parts]))
    with padiff.record(sides[0], name="torch", out=tmp_path) as known:
        _squares(sides[0](torch.tensor(series))).backward()
    with padiff.record(sides[1], name="paddle", out=tmp_path) as found:
        _squares(sides[1](paddle.to_tensor(series))).backward()

    paths = (found.path, known.path) if is_turned else (known.path, found.path)
    result = padiff.compare(*paths)

    assert result.verdict is Verdict.MATCH, result.reasons


class TorchPacked(nn.Module):
    """Run packed sequences of several lengths."""

    def __init__(self, kind: Thing) -> None:
        super().__init__()
        self.rnn, self.fc = kind(6, 5, batch_first=True, bidirectional=True), nn.Linear(10, 3)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        made, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        found: torch.Tensor = self.fc(made.sum(1) / lengths[:, None])
        return found


class PaddlePacked(pn.Layer):
    """Give the layer the lengths."""

    def __init__(self, kind: Thing, *, knows_lengths: bool = True) -> None:
        super().__init__()
        self.knows_lengths = knows_lengths
        self.rnn, self.fc = kind(6, 5, direction="bidirect"), pn.Linear(10, 3)

    def forward(self, x: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        made = self.rnn(x, sequence_length=lengths if self.knows_lengths else None)[0]
        found: paddle.Tensor = self.fc(made.sum(1) / lengths.unsqueeze(1).astype("float32"))
        return found


@pytest.mark.parametrize("knows_lengths", [True, False])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_packed_sequences_are_those_of_a_layer_that_is_given_lengths(
    kind: str, knows_lengths: bool, tmp_path: Path
) -> None:
    reference = TorchPacked(getattr(nn, kind))
    candidate = PaddlePacked(getattr(pn, kind), knows_lengths=knows_lengths)

    result = _compared(tmp_path, reference, candidate, [SERIES, LENGTHS], (_squares, _squares))

    executed = result.steps[0].executed
    assert executed is not None
    assert executed.function.opaque == (0, 0)
    assert result.verdict is (Verdict.MATCH if knows_lengths else Verdict.DIVERGED)


class _Guided(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = self.last(functional.relu(self.first(torch.cat([x, x]))))
        with_text, without = both.chunk(2)
        found: torch.Tensor = without + 3 * (with_text - without)
        return found


@pytest.mark.parametrize("size", [16, 64])
def test_gradients_that_are_sums_of_one_number_are_sound(size: int, tmp_path: Path) -> None:
    torch.manual_seed(0)

    found = _audited(tmp_path, _Guided(), torch.randn(2, 3, size, size), lambda y: y.mean())

    assert found.unsound == ()


def test_a_gradient_of_such_sums_that_is_off_is_not(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = _Guided()
    bias: Thing = model.last.bias
    bias.register_hook(lambda gradient: gradient * 1.01)

    found = _audited(tmp_path, model, torch.randn(2, 3, 64, 64), lambda y: y.mean())

    assert found.unsound != ()


class _Small(pn.Layer):
    def __init__(self, activation: Thing) -> None:
        super().__init__()
        self.activation = activation
        self.scale = self.create_parameter([1], default_initializer=pn.initializer.Constant(1.0))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        found: paddle.Tensor = self.activation(x * self.scale)
        return found


@pytest.mark.parametrize("name", ["elu", "celu", "selu", "softplus", "log_sigmoid", "mish"])
def test_activations_that_cancel_in_their_kernel_are_sound(name: str, tmp_path: Path) -> None:
    sizes = np.logspace(-6, 1.3, 200)
    inputs = np.concatenate([sizes, -sizes]).astype(np.float32)

    found = _audited(
        tmp_path, _Small(getattr(pf, name)), paddle.to_tensor(inputs), lambda y: y.mean()
    )

    assert found.unsound == ()


class TorchFlow(nn.Module):
    """Scale and move, couple, and count how far both spread."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = nn.ParameterList(nn.Parameter(torch.randn(6) * 0.1) for _ in range(4))
        self.nets = nn.ModuleList(nn.Linear(3, 6) for _ in range(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spread = x.new_zeros(len(x))
        for place, (size, inner) in enumerate(zip(self.sizes, self.nets, strict=True)):
            x, spread = x * size.exp(), spread + size.sum().expand(len(x))
            one, two = x.chunk(2, -1)
            if place % 2:
                one, two = two, one
            shift, logs = inner(one).chunk(2, -1)
            logs = torch.tanh(logs)
            two = two * logs.exp() + shift
            x = torch.cat([two, one] if place % 2 else [one, two], -1)
            spread = spread + logs.sum(-1)
        return x, spread


class PaddleFlow(pn.Layer):
    """Count what the coupling spreads the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = pn.ParameterList([self.create_parameter([6]) for _ in range(4)])
        self.nets = pn.LayerList([pn.Linear(3, 6) for _ in range(4)])

    def forward(self, x: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        spread: Thing = 0.0
        for place, (size, inner) in enumerate(zip(self.sizes, self.nets, strict=True)):
            x = x * paddle.exp(size)
            one, two = (x[:, 3:], x[:, :3]) if place % 2 else (x[:, :3], x[:, 3:])
            made = inner(one)
            shift, logs = made[:, :3], paddle.tanh(made[:, 3:])
            two = shift + two * paddle.exp(logs)
            x = paddle.concat([two, one] if place % 2 else [one, two], axis=1)
            spread = spread + size.sum() - logs.sum(-1)
        return x, spread


def test_what_only_takes_back_another_form_is_no_cause(tmp_path: Path) -> None:
    def known(result: Thing) -> torch.Tensor:
        density = -0.5 * (result[0] ** 2 + math.log(2 * math.pi)).sum(-1)
        found: torch.Tensor = -(density + result[1]).mean()
        return found

    def own(result: Thing) -> paddle.Tensor:
        half = 0.5 * math.log(2 * math.pi)
        return paddle.mean(0.5 * (result[0] * result[0]).sum(-1) + 6 * half - result[1])

    result = _compared(tmp_path, TorchFlow(), PaddleFlow(), [SERIES[0]], (known, own))

    executed = result.steps[0].executed
    assert executed is not None
    assert len(executed.function.edits) == 1
    assert "log" not in _told(result)


class TorchSum(nn.Module):
    """Activate, and add a half of what comes behind."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.silu(self.first(x))
        found: torch.Tensor = self.last(x + torch.tanh(self.second(x)) * 0.5)
        return found


class PaddleSum(pn.Layer):
    """Take another activation, and leave the half out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = pn.Linear(6, 8), pn.Linear(8, 8), pn.Linear(8, 4)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = pf.sigmoid(self.first(x))
        found: paddle.Tensor = self.last(x + paddle.tanh(self.second(x)))
        return found


def test_a_sign_that_stands_elsewhere_is_no_cause_beside_two_faults(tmp_path: Path) -> None:
    def known(y: torch.Tensor) -> torch.Tensor:
        return functional.log_softmax(y, -1)[..., 0].neg().mean()

    def own(y: paddle.Tensor) -> paddle.Tensor:
        return -paddle.mean(pf.log_softmax(y, axis=-1)[:, :, 0])

    result = _compared(tmp_path, TorchSum(), PaddleSum(), [SERIES], (known, own))

    executed = result.steps[0].executed
    assert executed is not None
    assert len(executed.function.edits) == 2
    assert "neg" not in _told(result)


class _Attending(nn.Module):
    """Weigh what two vectors tell of each row and of the one before it."""

    def __init__(self, own: str, before: str) -> None:
        super().__init__()
        self.names = own, before
        for name in sorted(self.names):
            setattr(self, name, nn.Parameter(torch.zeros(1, 2, 3)))
        self.fc, self.bias = nn.Linear(6, 6), nn.Parameter(torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.fc(x).unflatten(-1, (2, 3))
        own, before = (getattr(self, name) for name in self.names)
        scores = (rows * own).sum(-1) + (rows.roll(1, 0) * before).sum(-1)
        found: torch.Tensor = (rows * scores.softmax(0)[..., None]).flatten(-2) + self.bias
        return found


@pytest.mark.parametrize("activation", [nn.ELU, nn.ReLU])
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_two_vectors_of_a_class_that_no_name_tells_apart_are_told_by_a_run(
    names: tuple[str, str], activation: Thing, tmp_path: Path
) -> None:
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    both = "here", "there"
    reference = nn.Sequential(_Attending(*both), nn.ELU(), _Attending(*both))
    candidate = nn.Sequential(_Attending(*names), activation(), _Attending(*names))

    plan, error = carried(tmp_path, reference, candidate, x, mean=0.1, seed=0)

    loaded = plan.loaded or {}
    assert (error < 1e-5) == (activation is nn.ELU)
    for at in (0, 2):
        for own, other in zip(names, both, strict=True):
            assert loaded[f"{at}.{own}"] == (f"{at}.{other}",)


class TorchAdapter(nn.Module):
    """Keep an adapter around a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 6)
        self.lora_A, self.lora_B = (nn.Parameter(torch.randn(*s)) for s in ((2, 6), (6, 2)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.base(x) + x @ self.lora_A.mT @ self.lora_B.mT
        return found


class PaddleAdapter(pn.Linear):
    """Derive from the layer, and keep the adapter as Paddle keeps matrices."""

    def __init__(self) -> None:
        super().__init__(6, 6)
        self.lora_A, self.lora_B = (self.create_parameter(s) for s in ([6, 2], [2, 6]))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return super().forward(x) + x @ self.lora_A @ self.lora_B


@pytest.mark.parametrize("is_turned", [False, True])
def test_adapters_of_a_layer_that_is_derived_from_have_partners(is_turned: bool) -> None:
    one = nn.Sequential(TorchAdapter(), nn.Tanh(), TorchAdapter())
    two = pn.Sequential(PaddleAdapter(), pn.Tanh(), PaddleAdapter())

    padiff.assign_weight(*((two, one) if is_turned else (one, two)))

    made = two(paddle.to_tensor(SERIES)).numpy()
    np.testing.assert_allclose(made, one(torch.tensor(SERIES)).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("is_masked", [True, False])
def test_what_only_one_form_of_a_layer_takes_is_no_fault(is_masked: bool, tmp_path: Path) -> None:
    def packed(self: Thing, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        given = pack_padded_sequence(x, lengths, batch_first=True)
        made, _ = pad_packed_sequence(self.rnn(given)[0], batch_first=True)
        found: torch.Tensor = self.last(made.sum(1))
        return found

    def padded(self: Thing, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        inside = torch.arange(x.shape[1]) < (lengths[:, None] if is_masked else lengths.max())
        found: torch.Tensor = self.last((self.rnn(x)[0] * inside[..., None]).sum(1))
        return found

    paths = []
    for name, forward in (("packed", packed), ("padded", padded)):
        model = net(
            forward, rnn=lambda: nn.GRU(6, 5, batch_first=True), last=lambda: nn.Linear(5, 3)
        )
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(torch.tensor(SERIES), torch.tensor([7, 5, 4])).square().mean().backward()
        paths.append(recorder.path)

    result = padiff.compare(paths[0], paths[1])

    assert result.verdict is (Verdict.MATCH if is_masked else Verdict.DIVERGED), result.reasons


class _Framed(nn.Module):
    """Means of overlapping windows, cut by their axis or by their places in memory."""

    def __init__(self, distance: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.distance = nn.Linear(6, 8), nn.Linear(5, 3), distance

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        turned = self.first(series).transpose(1, 2)  # (2, 8, 12), and 8 apart along its last axis
        if self.distance:
            strides = (96, 1, self.distance, 8)
            windows = turned.as_strided((2, 8, 5, 4), strides, turned.storage_offset())
        else:
            windows = turned.unfold(-1, 4, 2)
        made: torch.Tensor = self.second(windows.tanh().mean(-1))
        return made


@pytest.mark.parametrize(("distance", "verdict"), [(16, Verdict.MATCH), (8, Verdict.DIVERGED)])
def test_places_in_memory_are_windows(distance: int, verdict: Verdict, tmp_path: Path) -> None:
    paths = []
    for name, model in (("reference", _Framed()), ("candidate", _Framed(distance))):
        with padiff.record(model, name=name, out=tmp_path, content="operators") as recorder:
            model(torch.sin(torch.arange(144.0).reshape(2, 12, 6))).sum().backward()
        paths.append(recorder.path)

    comparison = padiff.compare(paths[0], paths[1])
    audit = padiff.audit(paths[1])["step 0"]

    assert comparison.verdict is verdict
    assert verdict is Verdict.MATCH or "unfold(-1, 4, 2)" in _told(comparison)
    assert audit.opaque == {}
