"""What exporters and converters do to a model is no fault, and hides none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from padiff import record
from padiff.comparer import Comparison, Verdict, compare
from padiff.comparer.proving.result import Answer, Change
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))


def compared(
    reference: nn.Module, candidate: nn.Module, folder: Path, data: torch.Tensor
) -> Comparison:
    for model, name in ((reference, "reference"), (candidate, "candidate")):
        model.eval()
        with record(model, name=name, out=folder, phase=Phase.FORWARD):
            model(data.to(next(model.parameters()).dtype))
    return compare(folder / "reference", folder / "candidate")


class Normed(nn.Module):
    """A convolution and a norm that does nearly nothing yet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.norm(self.conv(x)).relu()
        return made


class Folded(nn.Module):
    """The same with the norm in the convolution, without the bias of zeros."""

    def __init__(self, net: Normed, scale: float = 1.0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        factor = scale / (1 + net.norm.eps) ** 0.5
        self.conv.weight = nn.Parameter(net.conv.weight.detach() * factor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.conv(x).relu()
        return made


def test_a_norm_as_initialised_is_recognised_where_it_was_folded(tmp_path: Path) -> None:
    net = Normed()

    assert compared(net, Folded(net), tmp_path, IMAGE).verdict is Verdict.MATCH


def test_a_norm_folded_with_another_scale_diverges(tmp_path: Path) -> None:
    net = Normed()

    assert compared(net, Folded(net, 1.001), tmp_path, IMAGE).verdict is Verdict.DIVERGED


class Patches(nn.Module):
    """Norms, slices, resampling and attention."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.batch = nn.Conv2d(3, 8, 2), nn.BatchNorm2d(8)
        self.group, self.norm = nn.GroupNorm(2, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(self.group(self.batch(self.conv(x))), 2)
        x = self.norm(functional.interpolate(x, scale_factor=1.5).flatten(2).mT)
        x = functional.scaled_dot_product_attention(x[:, None, 1:], x[:, None], x[:, None])
        return functional.hardswish(x).log_softmax(-1)


class Core(Patches):
    """The same as torch.export writes it in operators of ATen."""

    def __init__(self, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, conv, batch = torch.ops.aten, self.conv, self.batch
        x = a.convolution.default(
            x,
            conv.weight,
            conv.bias,
            [1, 1],
            [0, 0],
            [1, 1],
            False,  # noqa: FBT003
            [0, 0],
            1,
        )
        running = (batch.running_mean, batch.running_var)
        norms = [(one.weight, one.bias) for one in (batch, self.group, self.norm)]
        x = a._native_batch_norm_legit_no_training.default(x, *norms[0], *running, 0.1, 1e-5)[0]
        x = a.native_group_norm.default(x, *norms[1], 2, 8, 56, 2, 1e-5)[0]
        x = a.max_pool2d_with_indices.default(x, [2, 2], [2, 2])[0]
        x = a.upsample_nearest2d.vec(x, None, [1.5, 1.5])
        x = a.permute.default(a.view.default(x, [2, 8, 24]), [0, 2, 1])
        x = a.native_layer_norm.default(x, [8], *norms[2], self.epsilon)[0]
        x = a.unsqueeze.default(x, 1)
        rows = a.slice.Tensor(x, 2, 1, 9223372036854775807)
        x = a._scaled_dot_product_flash_attention_for_cpu.default(rows, x, x)[0]
        x = a.div.Tensor(a.mul.Tensor(x, a.clamp.default(a.add.Tensor(x, 3), 0, 6)), 6)
        made: torch.Tensor = a._log_softmax.default(x, -1, False)  # noqa: FBT003
        return made


def test_operators_of_aten_are_the_functions_that_stand_for_them(tmp_path: Path) -> None:
    right, wrong = (
        compared(Patches(), Core(epsilon), tmp_path / str(epsilon), IMAGE)
        for epsilon in (1e-5, 1e-3)
    )

    assert right.verdict is Verdict.MATCH, right.reasons
    executed = right.steps[0].executed
    assert executed is not None
    assert executed.function.answer is Answer.SAME
    executed = wrong.steps[0].executed
    assert executed is not None
    assert [one.changes for one in executed.function.edits] == [(Change("eps", 1e-5, 1e-3),)]


class Attention(nn.Module):
    """Attention as one operator or written out."""

    def __init__(self, *, written_out: bool) -> None:
        super().__init__()
        self.first, self.written_out = nn.Linear(8, 8), written_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if self.written_out:
            return torch.softmax((x @ x.mT) * 8**-0.5, -1) @ x
        return functional.scaled_dot_product_attention(x, x, x)


class Attending(nn.Module):
    """Attention, and an activation behind it that may take a coarser dtype."""

    def __init__(self, *, written_out: bool, through: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.attention, self.second = Attention(written_out=written_out), nn.Linear(8, 8)
        self.act, self.through = nn.GELU(), through

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.attention(x).to(self.through).float()
        made: torch.Tensor = self.second(self.act(x))
        return made


def test_precision_lost_behind_another_form_is_told(tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference = Attending(written_out=False)
    models = [
        Attending(written_out=True, through=through) for through in (torch.float32, torch.float16)
    ]
    for model in models:
        model.load_state_dict(reference.state_dict())

    right, wrong = (
        compared(reference, model, tmp_path / str(place), ROWS)
        for place, model in enumerate(models)
    )

    assert right.verdict is Verdict.MATCH, right.reasons
    assert wrong.verdict is Verdict.DIVERGED
    executed = wrong.steps[0].executed
    assert executed is not None
    assert executed.function.coarser is not None
    assert executed.function.coarser.candidate == "float16"


def test_weights_that_are_subnormal_in_float16_are_copies(tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference, candidate = nn.Linear(8, 8), nn.Linear(8, 8)
    with torch.no_grad():
        reference.weight *= 1e-5
    candidate.load_state_dict(reference.state_dict())

    result = compared(reference, candidate.half(), tmp_path, ROWS)

    executed = result.steps[0].executed
    assert executed is not None
    assert executed.function.differences == ()
    assert result.verdict is Verdict.MATCH, result.reasons


def test_a_loss_that_one_side_has_is_not_missing_on_a_forward_pass(tmp_path: Path) -> None:
    model = nn.Linear(8, 8)
    with record(model, name="reference", out=tmp_path) as recorder:
        loss = model(ROWS).square().mean()
        recorder.loss(loss)
        loss.backward()
    with record(model, name="candidate", out=tmp_path, phase=Phase.FORWARD):
        model(ROWS)

    result = compare(tmp_path / "reference", tmp_path / "candidate")

    assert result.verdict is Verdict.MATCH, result.reasons
    notes = " ".join(result.steps[0].notes)
    assert "loss and backward phase are not compared: only the reference recorded them" in notes
