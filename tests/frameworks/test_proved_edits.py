"""The edits that ``padiff compare --execute`` proves: what has to be changed in the candidate."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import worded_edit

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.comparer.proving import FunctionComparison

X = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(0))
LAYERS = 5


class _Block(nn.Module):
    """An attention and a residual, each step of which can be another."""

    def __init__(self, **steps: Callable[..., Any]) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.norm = nn.LayerNorm(16)
        self.steps = steps

    def step(self, name: str, plain: Callable[..., Any], *values: Any) -> Any:  # noqa: ANN401
        return self.steps.get(name, plain)(*values)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.step("norm", self.norm, x)
        q = self.step("q", self.q, h)
        k, v = self.k(h), self.v(h)
        scores = self.step("scores", lambda q, k: q @ k.mT, q, k)
        scores = self.step("scale", lambda s: s * 0.25, scores)
        mixed = self.step("softmax", lambda s: torch.softmax(s, -1), scores) @ v
        mixed = self.step("act", functional.gelu, mixed)
        result: torch.Tensor = self.step("residual", lambda x, y: x + y, x, mixed)
        return result


class _Net(nn.Module):
    def __init__(self, **steps: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.head = _Block(), _Block(**steps), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.second(self.first(x)))
        return y


def compared(folder: Path, reference: nn.Module, candidate: nn.Module) -> FunctionComparison:
    paths = []
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(model, name=name, out=folder, phase="forward") as recorder:
            model(X)
        assert recorder.path is not None
        paths.append(recorder.path)
    (step,) = padiff.compare(paths[0], paths[1], execute=True).steps
    assert step.executed is not None
    return step.executed.function


EDITS: dict[str, tuple[dict[str, Callable[..., Any]], list[str]]] = {
    "a number": (
        {"scale": lambda s: s * 0.25001},
        ["other of mul: 0.25001 where the reference has 0.25"],
    ),
    "an axis": (
        {"softmax": lambda s: torch.softmax(s, -2)},
        ["dim of softmax: -2 where the reference has -1"],
    ),
    "a word": (
        {"act": lambda x: functional.gelu(x, approximate="tanh")},
        ["approximate of gelu: tanh where the reference has none"],
    ),
    "an operator left out": ({"act": lambda x: x}, ["left out: gelu"]),
    "an operator too much": (
        {"q": lambda h: SECOND[0].q(h) * 1.001},
        ["too much: mul, times 1.001"],
    ),
    "another operator": (
        {"act": functional.silu},
        ["silu where the reference has gelu"],
    ),
    "operands exchanged": (
        {"scores": lambda q, k: k @ q.mT},
        ["matmul reads its operands in another order"],
    ),
    "a residual left out": ({"residual": lambda _, y: y}, ["left out: add"]),
    "a bias left out": (
        {"q": lambda h: functional.linear(h, SECOND[0].q.weight)},
        ["bias of linear left out: the reference has second.q.bias"],
    ),
    "a weight transposed": (
        {"q": lambda h: functional.linear(h, SECOND[0].q.weight.t(), SECOND[0].q.bias)},
        ["linear reads second.q.weight transposed where the reference has second.q.weight"],
    ),
    "something small added": (
        {"act": lambda x: functional.gelu(x) + x * 0.001},
        ["too much: mul, times 0.001, add"],
    ),
    "two at once": (
        {"scale": lambda s: s * 0.3, "residual": lambda _, y: y},
        ["other of mul: 0.3 where the reference has 0.25", "left out: add"],
    ),
    "a factor too much in front of one of its own, and another fault": (
        {"act": lambda x: functional.gelu(x * 1.01), "residual": lambda _, y: y},
        ["too much: mul, times 1.01", "left out: add"],
    ),
    "three at once": (
        {
            "q": lambda h: SECOND[0].q(h) * 1.001,
            "scale": lambda s: s * 0.3,
            "act": functional.relu,
        },
        [
            "too much: mul, times 1.001",
            "other of mul: 0.3 where the reference has 0.25",
            "relu where the reference has gelu",
        ],
    ),
}
SECOND: list[_Block] = []
"""The block whose steps are other ones, for steps that need its weights."""


def test_of_several_arguments_that_differ_the_one_that_matters_is_told(tmp_path: Path) -> None:
    def turned(**given: Any) -> nn.Module:  # noqa: ANN401
        def act(x: torch.Tensor) -> torch.Tensor:
            return functional.interpolate(x[None], mode="bilinear", **given)[0, :, ::2, ::2]

        return _Net(act=act)

    size = (2 * X.shape[-2], 2 * X.shape[-1])
    forms = turned(scale_factor=2.0), turned(size=size, align_corners=True)

    function = compared(tmp_path, *forms)

    assert [*map(worded_edit, function.edits)] == [
        "align_corners of interpolate: True where the reference has False"
    ]


@pytest.mark.parametrize("fault", EDITS)
def test_the_smallest_edit_is_named(fault: str, tmp_path: Path) -> None:
    steps, words = EDITS[fault]
    candidate = _Net(**steps)
    SECOND[:] = [candidate.second]

    found = compared(tmp_path, _Net(), candidate)

    assert found.answer is Answer.DIFFERENT
    assert sorted(map(worded_edit, found.edits)) == sorted(words)
    for edit in found.edits:
        places = [place for place in (edit.reference, edit.candidate) if place is not None]
        assert places
        assert all(place.site is not None and place.site.line for place in places)
        assert {place.module for place in places} & {"second", "second.q", "head"}


def test_an_edit_is_found_between_other_forms(tmp_path: Path) -> None:
    """The reference is written out, the candidate calls a fused operator with another scale."""

    class Fused(_Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.norm(x)
            mixed = functional.scaled_dot_product_attention(
                self.q(h), self.k(h), self.v(h), scale=0.3
            )
            return x + functional.gelu(mixed)

    candidate = _Net()
    fused = Fused()
    fused.load_state_dict(candidate.second.state_dict())
    candidate.second = fused

    (edit,) = compared(tmp_path, _Net(), candidate).edits

    expected = "scale of scaled_dot_product_attention: 0.3 where the reference has 0.25"
    assert worded_edit(edit) == expected
    assert edit.reference is not None
    assert edit.reference.operator == "torch.Tensor.mul"


def test_arguments_without_effect_are_no_part_of_an_edit(tmp_path: Path) -> None:
    def net(**settings: Any) -> nn.Module:  # noqa: ANN401
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(6, **settings)).eval()

    (edit,) = compared(tmp_path, net(), net(eps=1e-3, momentum=0.01)).edits

    assert worded_edit(edit) == "eps of batch_norm: 0.001 where the reference has 1e-05"


class _Stack(nn.Module):
    """Blocks of a norm, two layers and a residual, and a norm behind them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(3))
        self.into = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, into, out in zip(self.norms, self.into, self.out, strict=False):
            x = x + out(functional.gelu(into(norm(x))))
        result: torch.Tensor = self.norms[2](x)
        return result


class _Biased(nn.Module):
    """Two products of one query, each with a bias of its own, as of positions and of contents."""

    def __init__(self, *, is_exchanged: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.q, self.k, self.p = (nn.Linear(16, 16) for _ in range(3))
        self.u, self.v = (nn.Parameter(torch.randn(16)) for _ in range(2))
        self.is_exchanged = is_exchanged

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u, v = (self.v, self.u) if self.is_exchanged else (self.u, self.v)
        query = self.q(x)
        scores = (query + u) @ self.k(x).mT + (query + v) @ self.p(x).mT
        return torch.softmax(scores, -1)


def test_operands_that_the_same_operator_made_are_told_by_what_they_are_made_of(
    tmp_path: Path,
) -> None:
    found = compared(tmp_path, _Biased(), _Biased(is_exchanged=True)).edits

    first, second = (
        f"torch.Tensor.add of (root), of torch.nn.functional.linear, of {one}" for one in "vu"
    )
    assert [worded_edit(one) for one in found] == [f"{first} and {second} exchanged"]


def test_one_edit_is_told_in_place_of_several_that_do_the_same(tmp_path: Path) -> None:
    """The norm behind all blocks could stand in for that of a block, with three more edits."""
    candidate = _Stack()
    candidate.norms[1] = nn.Identity()

    found = compared(tmp_path, _Stack(), candidate)

    assert [worded_edit(one) for one in found.edits] == ["left out: layer_norm([16])"]
    assert found.edits[0].reference is not None
    assert found.edits[0].reference.module == "norms.1"


def test_a_norm_left_out_is_told_beside_another_fault_in_front_of_it(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(5)
    scales = [torch.rand(16, generator=draw) + 0.5 for _ in range(3)]
    matrices = [torch.randn(16, 16, generator=draw) for _ in range(2)]

    def run(x: torch.Tensor, eps: float, *, normed: bool) -> torch.Tensor:
        x = x + functional.layer_norm(x, (16,), scales[0], None, eps)
        h = functional.layer_norm(x, (16,), scales[1]) if normed else x
        h = functional.linear(functional.linear(h, matrices[0]).sigmoid(), matrices[1])
        return functional.layer_norm(x + h, (16,), scales[2])

    right, wrong = partial(run, eps=1e-5, normed=True), partial(run, eps=1e-2, normed=False)

    edits = compared(tmp_path, _Function(right), _Function(wrong)).edits

    assert [worded_edit(one) for one in edits] == [
        "eps of layer_norm: 0.01 where the reference has 1e-05",
        "left out: layer_norm([16])",
    ]


class _Layers(nn.Module):
    """Layers of two branches with a norm each, right or with something left out."""

    def __init__(self, *, is_right: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.is_right = is_right
        self.mixing = nn.ModuleList(nn.Linear(16, 16) for _ in range(LAYERS))
        self.feeding = nn.ModuleList(nn.Linear(16, 16) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2 * LAYERS))
        for weight in self.norms.parameters():
            nn.init.normal_(weight, 1.0, 0.3)


class _PostNorm(_Layers):
    """A norm behind each sum, as in BERT, or none behind the first one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, (mix, feed) in enumerate(zip(self.mixing, self.feeding, strict=True)):
            x = x + mix(x).softmax(-1)
            x = self.norms[2 * layer](x) if self.is_right else x
            x = self.norms[2 * layer + 1](x + feed(x).sigmoid())
        return x


def test_a_norm_that_every_layer_lacks_is_one_fault(tmp_path: Path) -> None:
    """In each layer, what follows could be too much, and the weights of another norm wrong."""
    found = compared(tmp_path, _PostNorm(is_right=True), _PostNorm(is_right=False)).edits

    assert [(worded_edit(one), one.times) for one in found] == [
        ("left out: layer_norm([16])", LAYERS)
    ]


class _Branches(_Layers):
    """Norms in front of the branches, of which the first one may not be added."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, (mix, feed) in enumerate(zip(self.mixing, self.feeding, strict=True)):
            mixed = mix(self.norms[2 * layer](x)).softmax(-1)
            x = x + mixed if self.is_right else x
            x = x + feed(self.norms[2 * layer + 1](x)).sigmoid()
        return x


class _LastBranch(_Branches):
    """The same with the norms behind the last branch alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.mixing[0](self.norms[0](x)).softmax(-1)
        x = x + mixed if self.is_right else x
        normed: torch.Tensor = self.norms[1](x)
        return normed


@pytest.mark.parametrize("kind", [_Branches, _LastBranch])
def test_a_branch_that_is_not_added_is_told_where_two_norms_read_one_value_then(
    kind: type[_Branches], tmp_path: Path
) -> None:
    """All that both compute of it but for their weights is what the reference computes, too."""
    (edit,) = compared(tmp_path, kind(is_right=True), kind(is_right=False)).edits

    assert worded_edit(edit) == "left out: add"
    assert edit.times == (LAYERS if kind is _Branches else 1)


class _Standardised(nn.Module):
    """Convolutions whose kernels are normalised for each channel, of several widths."""

    def __init__(self, order: tuple[int, int, int]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.order = order
        self.kernels = nn.ParameterList(
            torch.randn(width, before, 1) for before, width in pairwise((16, 8, 12, 4))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.mT
        for kernel in self.kernels:
            shape = [(1, len(kernel), -1)[place] for place in self.order]
            normed = functional.batch_norm(kernel.reshape(*shape), None, None, training=True)
            x = functional.conv1d(x, normed.reshape(kernel.shape)).tanh()
        return x


def test_sizes_in_another_order_are_one_mistake_whatever_they_are(tmp_path: Path) -> None:
    found = compared(tmp_path, _Standardised((0, 1, 2)), _Standardised((1, 0, 2))).edits

    words = "shape of reshape: [8, 1, -1] where the reference has [1, 8, -1]"
    assert [worded_edit(one) for one in found] == [words]


class _SharedNorm(nn.Module):
    """Norms of one class, whose line runs in each of them."""

    def __init__(self, step: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.step = step
        self.scales = nn.ParameterList(torch.randn(16) + 3 for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for scale in self.scales:
            x = self.step(x.tanh(), scale)
        return x


def test_what_a_line_does_otherwise_up_to_the_result_is_one_fault(tmp_path: Path) -> None:
    found = compared(tmp_path, _SharedNorm(torch.mul), _SharedNorm(torch.div)).edits

    assert [(worded_edit(one), one.times) for one in found] == [
        ("div where the reference has mul", LAYERS)
    ]


def test_a_norm_left_out_is_told_where_all_behind_it_is_another_form(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(5)
    scales = [torch.rand(16, generator=draw) + 0.5 for _ in range(2)]
    matrices = [torch.randn(16, 16, generator=draw) for _ in range(2)]

    def run(x: torch.Tensor, *, normed: bool, fused: bool) -> torch.Tensor:
        h = functional.layer_norm(x, (16,), scales[0]) if normed else x
        h = h + functional.linear(functional.linear(h, matrices[0]).sigmoid(), matrices[1])
        h = functional.layer_norm(h, (16,), scales[1])
        if fused:
            return functional.scaled_dot_product_attention(h, h, h)
        return torch.softmax(h @ h.mT * 0.25, -1) @ h

    right, wrong = partial(run, normed=True, fused=False), partial(run, normed=False, fused=True)

    (edit,) = compared(tmp_path, _Function(right), _Function(wrong)).edits

    assert worded_edit(edit) == "left out: layer_norm([16])"


def test_a_factor_too_much_in_each_of_eleven_layers_is_told_in_each(tmp_path: Path) -> None:
    matrices = torch.randn(12, 16, 16, generator=torch.Generator().manual_seed(5)) / 4

    def run(x: torch.Tensor, step: float) -> torch.Tensor:
        for place, matrix in enumerate(matrices):
            h = functional.linear(x, matrix)
            x = x + functional.gelu(h * (1 + place * step) if step and place else h)
        return x

    right, wrong = partial(run, step=0), partial(run, step=0.01)

    edits = compared(tmp_path, _Function(right), _Function(wrong)).edits

    assert [worded_edit(one) for one in edits] == [
        f"too much: mul, times {1 + place * 0.01:.7g}" for place in range(1, 12)
    ]


def test_what_rounding_hides_is_told_beside_a_weight_that_differs(tmp_path: Path) -> None:
    models = (
        nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 4)),
        nn.Sequential(nn.LayerNorm(16, eps=1.01e-5), nn.Linear(16, 4)),
    )
    models[1].load_state_dict({name: one * 1.5 for name, one in models[0].state_dict().items()})
    paths = []
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with padiff.record(model, name=name, out=tmp_path, phase="forward") as recorder:
            model(X)
        paths.append(recorder.path)

    report = padiff.compare(paths[0], paths[1]).report()

    assert "each element times 1.5" in report
    assert "- eps of layer_norm: 1.01e-05 where the reference has 1e-05" in report


def test_one_edit_in_many_places_is_told_once(tmp_path: Path) -> None:
    def net(eps: float) -> nn.Sequential:
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16, eps=eps)) for _ in range(4)]
        return nn.Sequential(*layers)

    (edit,) = compared(tmp_path, net(1e-5), net(1e-3)).edits

    assert worded_edit(edit) == "eps of layer_norm: 0.001 where the reference has 1e-05"
    assert edit.times == 4


class _Loop(nn.Module):
    """Run a recurrence of many rounds."""

    def __init__(self, more: float) -> None:
        super().__init__()
        self.taken, self.kept, self.more = nn.Linear(4, 6), nn.Linear(6, 6), more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(len(x), 6)
        for step in range(x.shape[1]):
            gate = torch.sigmoid(self.kept(state))
            state = torch.tanh(self.taken(x[:, step]) + state * (gate + self.more))
        return state


def test_an_edit_in_each_round_of_a_loop_is_told_once(tmp_path: Path) -> None:
    models = []
    for more in (0.5, 0.501):
        torch.manual_seed(0)
        models.append(_Loop(more))
    paths = []
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with padiff.record(model, name=name, out=tmp_path, phase="forward") as recorder:
            model(torch.linspace(-1, 1, 320).reshape(2, 40, 4))
        assert recorder.path is not None
        paths.append(recorder.path)

    (step,) = padiff.compare(paths[0], paths[1], execute=True).steps

    assert step.executed is not None
    (edit,) = step.executed.function.edits
    assert worded_edit(edit) == "other of add: 0.501 where the reference has 0.5"
    assert edit.times == 39  # the first round has no state to scale


def test_an_edit_is_found_across_frameworks(tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU())
    candidate = paddle.nn.Sequential(
        paddle.nn.Linear(16, 16), paddle.nn.LayerNorm(16, epsilon=1e-3), paddle.nn.GELU()
    )
    with padiff.record(reference, name="reference", out=tmp_path, phase="forward") as one:
        reference(X)
    padiff.assign_weight(reference, candidate)
    with padiff.record(candidate, name="candidate", out=tmp_path, phase="forward") as two:
        candidate(paddle.to_tensor(X.numpy()))
    assert one.path is not None
    assert two.path is not None

    (step,) = padiff.compare(one.path, two.path, execute=True).steps

    assert step.executed is not None
    (edit,) = step.executed.function.edits
    assert worded_edit(edit) == "epsilon of layer_norm: 0.001 where the reference has 1e-05"
    assert edit.candidate is not None
    assert edit.candidate.module == "1"


class _Function(nn.Module):
    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        return self.run(x)


class _PaddleFunction(paddle.nn.Layer):
    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        return self.run(x)


def _scan(x: Any) -> Any:  # noqa: ANN401
    """Run a recurrence over the second axis: its state takes one part of x, and shows another."""
    kept, read = torch.split(x[..., :4], 2, -1)
    state, shown = torch.zeros(2, 3, 2), []
    for step in range(6):
        taken = x[:, step, 4:7, None] * kept[:, step, None, :] * x[:, step, 7:10, None]
        state = state * 0.5 + taken
        shown.append((state * read[:, step, None, :]).sum(-1))
    return torch.stack(shown, 1)


def _spectral(x: Any) -> Any:  # noqa: ANN401
    spectrum = torch.einsum("bcf,cf->bf", torch.fft.rfft(x), torch.fft.rfft(x)[0])
    return torch.fft.irfft(spectrum, n=16)


def _paddle_spectral(x: Any, *, norm: Any = "backward", is_turned: bool = False) -> Any:  # noqa: ANN401
    first = paddle.fft.rfft(x)[0]
    first = first.conj() if is_turned else first
    return paddle.fft.irfft((paddle.fft.rfft(x, norm=norm) * first).sum(1), n=16)


def _paddle_scan(x: Any) -> Any:  # noqa: ANN401
    kept, read = x[..., 2:4], x[..., :2]
    taken = (x[..., 4:7] * x[..., 7:10]).unsqueeze(-1) * kept.unsqueeze(2)
    state, shown = paddle.zeros([2, 3, 2]), []
    for step in range(6):
        state = state * 0.5 + taken[:, step]
        shown.append((state @ read[:, step].unsqueeze(-1)).squeeze(-1))
    return paddle.stack(shown, 1)


def _rotated(x: Any) -> Any:  # noqa: ANN401
    """Turn neighbours by how far along they are, and leave them in halves."""
    turn = torch.outer(torch.arange(6.0), torch.tensor([1.0, 0.1]))
    turn = torch.cat([turn, turn], -1)
    x = x.reshape(2, 2, 6, 2, 2).mT.reshape(2, 2, 6, 4)
    return x * turn.cos() + torch.cat([-x[..., 2:], x[..., :2]], -1) * turn.sin()


def _latent(x: Any) -> Any:  # noqa: ANN401
    """Attend with two heads, each with a part that knows no places and one that does."""
    heads = x.view(2, 6, 2, 8).transpose(1, 2)
    query, turned = heads.split([4, 4], -1)
    key, value = heads.sin().split([4, 4], -1)
    turned = _rotated(turned)
    query, key = torch.cat([query, turned], -1), torch.cat([key, turned], -1)
    found = functional.scaled_dot_product_attention(query, key, value)
    return found.transpose(1, 2).reshape(2, 6, 8)


def _paddle_latent(x: Any, *, is_turned: bool = False, is_apart: bool = True) -> Any:  # noqa: ANN401
    heads = x.reshape([2, 6, 2, 8])
    query, turned = heads[..., :4], heads[..., 4:]
    both = heads.sin()
    key, value = (both[..., 4:], both[..., :4]) if is_turned else (both[..., :4], both[..., 4:])
    places = paddle.arange(6, dtype="float32").unsqueeze(1) * paddle.to_tensor([1.0, 0.1])
    turn = places.reshape([1, 6, 1, 2])
    if is_apart:
        one, two = turned[..., 0::2], turned[..., 1::2]
    else:
        one, two = turned[..., :2], turned[..., 2:]
    cos, sin = turn.cos(), turn.sin()
    turned = paddle.concat([one * cos - two * sin, two * cos + one * sin], -1)
    einsum: Any = paddle.einsum
    scores = einsum("bihd,bjhd->bhij", query, key) + einsum("bihd,bjhd->bhij", turned, turned)
    found = einsum("bhij,bjhd->bihd", paddle.nn.functional.softmax(scores * 8**-0.5, -1), value)
    return found.reshape([2, 6, 8])


_LOWER = torch.ones(6, 6).tril()


def _summed(x: Any) -> list[Any]:  # noqa: ANN401
    """Return the sums up to each place of the second axis."""
    found = [x[:, 0]]
    for place in range(1, 6):
        found.append(found[-1] + x[:, place])
    return found


def _gated(x: Any, act: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Gate twice: each time one half of the channels by the other."""
    x = act(x[..., :8]) * x[..., 8:]
    return act(x[..., :4]) * x[..., 4:]


def _biased(x: Any, slopes: list[float] | None, cap: float | None = None) -> Any:  # noqa: ANN401
    """Attend twice to what is before, the nearer the more."""
    future, places = torch.ones(6, 6).triu(1).bool(), torch.arange(6)
    for _ in range(2):
        scores = torch.einsum("bij,bkj->bik", x, x)[:, None] * 0.25
        if slopes is not None:
            scores = scores + torch.tensor(slopes).view(1, 2, 1, 1) * places.view(1, 1, 1, 6)
        scores = scores if cap is None else torch.tanh(scores / cap) * cap
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        x = (torch.softmax(scores, -1) @ x[:, None]).sum(1)
    return x


def _paddle_biased(x: Any, slopes: list[float] | None) -> Any:  # noqa: ANN401
    seen = paddle.tril(paddle.ones([6, 6])) > 0
    mask = paddle.where(seen, paddle.zeros([6, 6]), paddle.full([6, 6], -1e9))
    places = paddle.arange(6, dtype="float32")
    far = (places[None, :] - places[:, None])[None]
    for _ in range(2):
        scores = (x @ x.transpose([0, 2, 1])).unsqueeze(1) / 4
        if slopes is not None:
            scores = scores + (far * paddle.to_tensor(slopes).reshape([2, 1, 1])).unsqueeze(0)
        x = (paddle.nn.functional.softmax(scores + mask, -1) @ x.unsqueeze(1)).sum(1)
    return x


def _responding(x: Any) -> Any:  # noqa: ANN401
    size = torch.norm(x, dim=1, keepdim=True)
    return x + x * (size / (size.mean(-1, keepdim=True) + 1e-6))


def _paddle_responding(x: Any) -> Any:  # noqa: ANN401
    size = paddle.sqrt((x * x).sum(1, keepdim=True))
    return x + x * (size / (size.mean(-1, keepdim=True) + 1e-6))


_STEPS = torch.randn(16, 16, generator=torch.Generator().manual_seed(1)) / 4
_PADDLE_STEPS = paddle.to_tensor(_STEPS.numpy())


def _rounds(x: Any) -> Any:  # noqa: ANN401
    """Weigh what was, and add what comes, scaled beforehand."""
    scaled = x[..., :8, None] * x[..., None, 8:]
    state = torch.zeros(2, 8, 8)
    for step in range(6):
        state = scaled[:, step] * x[:, step, :8, None].exp() + torch.tanh(state)
    return torch.relu(state)


def _paddle_rounds(x: Any) -> Any:  # noqa: ANN401
    state = paddle.zeros([2, 8, 8])
    for step in range(6):
        given = x[:, step, 8:].unsqueeze(1)
        state = given * x[:, step, :8].unsqueeze(-1).exp() + paddle.tanh(state)
    return paddle.nn.functional.relu(state)


def _remembered(x: Any) -> Any:  # noqa: ANN401
    """Go on from what was and from half of all that was before."""
    memory = torch.zeros_like(x)
    for _ in range(5):
        y = x + functional.gelu(functional.layer_norm(x + memory, (16,))) @ _STEPS
        memory = memory * 0.5 + y
        x = y
    return x


def _paddle_remembered(x: Any, *, is_exact: bool = True, is_read: bool = True) -> Any:  # noqa: ANN401
    memory = None
    for _ in range(5):
        h = x if memory is None or not is_read else x + memory
        h = paddle.nn.functional.gelu(paddle.nn.functional.layer_norm(h, [16]), not is_exact)
        y = x + h @ _PADDLE_STEPS
        memory = y if memory is None else 0.5 * memory + y
        x = y
    return x


def _chained(x: Any) -> Any:  # noqa: ANN401
    state = x[:, 0]
    for step in range(1, 6):
        state = torch.logsumexp(state[:, :, None] + _STEPS[None] + x[:, step, None, :], 1)
    return state


def _paddle_chained(x: Any) -> Any:  # noqa: ANN401
    state = x[:, 0]
    for step in range(1, 6):
        turned = _PADDLE_STEPS.t()
        state = paddle.logsumexp(state.unsqueeze(2) + turned.unsqueeze(0), axis=1) + x[:, step]
    return state


_OTHER_PARTS = [
    f"{reader} reads paddle.Tensor.__getitem__ of (root) where the reference has {part} of (root)"
    for reader, part in (("unsqueeze", "torch.split[0]"), ("__getitem__", "torch.split[1]"))
]
_WRONG, _RIGHT = (f"{name}.Tensor.__getitem__ of (root)" for name in ("paddle", "torch"))
ACROSS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[str]]] = {
    "a flag": (
        lambda x: functional.interpolate(x[None], scale_factor=2, mode="bilinear"),
        lambda x: paddle.nn.functional.interpolate(
            x[None], scale_factor=2, mode="bilinear", align_corners=True
        ),
        ["align_corners of bilinear_interp: True where the reference has False"],
    ),
    "a flag for a word": (
        functional.gelu,
        lambda x: paddle.nn.functional.gelu(x, approximate=True),
        ["approximate of gelu: True where the reference has False"],
    ),
    "a word that the reference leaves out": (
        _spectral,
        lambda x: _paddle_spectral(x, norm="ortho"),
        ["normalization of fft_r2c: ortho where the reference has backward"],
    ),
    "the sign of a phase": (
        _spectral,
        lambda x: _paddle_spectral(x, is_turned=True),
        ["too much: conj"],
    ),
    "an index": (
        lambda x: functional.silu(x[:, 2] * x[:, 5]),
        lambda x: paddle.nn.functional.silu((x[:, :3] * x[:, 3:])[:, 1]),
        ["index of __getitem__: [:, 1] where the reference has [:, 2]"],
    ),
    "operands of a scan exchanged": (
        _scan,
        _paddle_scan,
        _OTHER_PARTS,
    ),
    "operands exchanged that are laid out first": (
        lambda x: functional.silu(torch.einsum("bij,bkj->bik", x[..., :4], x[..., 4:8].exp())),
        lambda x: paddle.nn.functional.silu(
            (x[..., 4:8].unsqueeze(2) * x[..., :4].exp().unsqueeze(1)).sum(-1)
        ),
        [f"exp reads {_WRONG} where the reference has {_RIGHT}"],
    ),
    "a factor left out of another form": (
        lambda x: functional.group_norm((torch.matmul(_LOWER, x) * 8**-0.5).reshape(12, 16), 2),
        lambda x: paddle.nn.functional.group_norm(paddle.stack(_summed(x), 1).reshape([12, 16]), 2),
        ["left out: mul, times 0.3535534"],
    ),
    "a divisor in the place of a factor": (
        lambda x: torch.softmax(torch.einsum("bij,bkj->bik", x, x) * 0.25, -1) @ x,
        lambda x: paddle.nn.functional.softmax((x.unsqueeze(2) * x.unsqueeze(1)).sum(-1) / 8) @ x,
        ["y of __truediv__: 8 where the reference has 4"],
    ),
    "numbers of a loop": (
        lambda x: torch.relu(torch.cat([x[:, :3] - 0.5, x[:, 3:] * 2 - 0.5], 1).flip(-1)),
        lambda x: paddle.nn.functional.relu(
            paddle.concat([(part - 0.25).flip(-1) for part in (x[:, :3], x[:, 3:] * 2)], 1)
        ),
        ["y of __sub__: 0.25 where the reference has 0.5"],
    ),
    "a padding on the other side": (
        lambda x: torch.relu(functional.conv1d(x, torch.ones(3, 6, 2), padding=1)[..., :-1]),
        lambda x: paddle.nn.functional.relu(
            paddle.nn.functional.conv1d(
                paddle.nn.functional.pad(x, [0, 1], data_format="NCL"), paddle.ones([3, 6, 2])
            )
        ),
        ["paddings of pad3d: [0, 0, 0, 0, 0, 1] where the reference has [0, 0, 0, 0, 1, 0]"],
    ),
    "a padding of another count of axes": (
        lambda x: torch.relu(functional.conv1d(x, torch.ones(3, 6, 3), padding=1)),
        lambda x: paddle.nn.functional.relu(
            paddle.nn.functional.conv1d(x, paddle.ones([3, 6, 3]), padding=[2, 0])
        ),
        ["padding of conv2d: [[0, 0], [2, 0]] where the reference has [[1, 1]]"],
    ),
    "a part of an operator, twice": (
        lambda x: _gated(x, functional.silu),
        lambda x: _gated(x, paddle.nn.functional.sigmoid),
        ["sigmoid where the reference has silu"],
    ),
    "another reduction": (
        lambda x: functional.relu(x.mean(1)),
        lambda x: paddle.nn.functional.relu(x.sum(1)),
        ["sum(1) where the reference has mean(1)"],
    ),
    "an operator that does more": (
        lambda x: functional.relu(x.sum(1)),
        lambda x: paddle.nn.functional.relu(x.mean(1)),
        ["mean(1) where the reference has sum(1)"],
    ),
    "slopes, beside another number of a mask": (
        lambda x: _biased(x, [0.25, 0.0625]),
        lambda x: _paddle_biased(x, [0.5, 0.125]),
        ["values of to_tensor: [0.5, 0.125] where the reference has [0.25, 0.0625]"],
    ),
    "a limit left out, beside another number of a mask": (
        lambda x: _biased(x, None, cap=2.0),
        lambda x: _paddle_biased(x, None),
        ["left out: div, divided by 2, tanh, mul, times 2"],
    ),
    "a word, before a norm that both write otherwise": (
        lambda x: _responding(functional.gelu(x)),
        lambda x: _paddle_responding(paddle.nn.functional.gelu(x, approximate=True)),
        ["approximate of gelu: True where the reference has False"],
    ),
    "a matrix turned in each round": (_chained, _paddle_chained, ["too much: transpose([1, 0])"]),
    "a word in each round": (
        _remembered,
        lambda x: _paddle_remembered(x, is_exact=False),
        ["approximate of gelu: True where the reference has False"],
    ),
    "a memory that no round reads": (
        _remembered,
        lambda x: _paddle_remembered(x, is_read=False),
        ["left out: mul, times 0.5, add, add"],
    ),
    "no more than another form": (_latent, _paddle_latent, []),
    "two parts of one value exchanged": (
        _latent,
        lambda x: _paddle_latent(x, is_turned=True),
        [
            (
                "einsum reads paddle.Tensor.__getitem__ of (root) where the reference has "
                "torch.Tensor.split[0] of (root)"
            ),
        ],
    ),
    "halves turned where neighbours should be": (
        _latent,
        lambda x: _paddle_latent(x, is_apart=False),
        [
            (
                "__getitem__ reads paddle.Tensor.__getitem__ of (root) where the reference has "
                "paddle.Tensor.__getitem__ of (root), every second element first"
            )
        ],
    ),
    "operands left out in each round": (
        _rounds,
        _paddle_rounds,
        [
            (
                "__getitem__([:, 0, 8:]), unsqueeze([1]), __mul__ where the reference has "
                "__getitem__([..., :8, none]), __getitem__([..., none, 8:]), mul, "
                "__getitem__([:, 0]), mul"
            )
        ],
    ),
    "another operator, whose inside is alike": (
        lambda x: functional.interpolate(x[None], scale_factor=2, mode="nearest").relu(),
        lambda x: paddle.nn.functional.relu(
            paddle.nn.functional.interpolate(x[None], scale_factor=2, mode="bilinear")
        ),
        ["bilinear_interp(-1, -1, -1, [2, 2], False, 0) where the reference has interpolate(2)"],
    ),
}
"""A fault in a form that the other framework writes otherwise, and the cause in words."""


@pytest.mark.parametrize("fault", ACROSS)
def test_the_smallest_edit_is_named_where_frameworks_write_a_step_otherwise(
    fault: str, tmp_path: Path
) -> None:
    right, wrong, words = ACROSS[fault]
    paths = []
    models: tuple[tuple[Any, Any], ...] = (
        (_Function(right), X),
        (_PaddleFunction(wrong), paddle.to_tensor(X.numpy())),
    )
    for name, (model, given) in zip(("reference", "candidate"), models, strict=True):
        with padiff.record(model, name=name, out=tmp_path, phase="forward") as recorder:
            model(given)
        assert recorder.path is not None
        paths.append(recorder.path)

    (step,) = padiff.compare(paths[0], paths[1], execute=True).steps

    assert step.executed is not None
    assert [worded_edit(one) for one in step.executed.function.edits] == words


def test_the_report_shows_the_proof(tmp_path: Path) -> None:
    paths = []
    for name, model in (("a", _Net()), ("b", _Net(act=functional.relu))):
        with padiff.record(model, name=name, out=tmp_path, phase="forward") as recorder:
            model(X)
        assert recorder.path is not None
        paths.append(recorder.path)

    report = padiff.compare(paths[0], paths[1], execute=True).report()

    assert "proved: relu where the reference has gelu" in report
    assert report.count(f"{Path(__file__).name}:") >= 2


def test_of_an_operator_the_part_that_is_left_out_is_named(tmp_path: Path) -> None:
    weight = torch.linspace(0.5, 1.5, X.shape[-1])

    def normed(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, weight.shape, weight).relu()

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight).relu()

    first = compared(tmp_path, _Function(normed), _Function(scaled)).edits[0]

    assert worded_edit(first) == "left out: mean, sub in layer_norm"
