"""Causes between two forms of one model are told as between two models of one form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from benchmarks.score.nets import net
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import worded_edit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BATCH, TIME, HEADS, WIDTH, HALF = 3, 5, 2, 8, 4
X = torch.randn(BATCH, TIME, WIDTH, generator=torch.Generator().manual_seed(0))

Thing = Any
Change = dict[str, Any]


def _linear() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH)


def _edits(folder: Path, *models: nn.Module) -> list[str]:
    """Record two models with the weights of the first; return what is proved, in words."""
    models[1].load_state_dict(models[0].state_dict())
    paths = []
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with padiff.record(model, name=name, out=folder, phase="forward") as recorder:
            model(X)
        paths.append(recorder.path)
    reference, candidate = paths
    (step,) = padiff.compare(reference, candidate).steps
    assert step.executed is not None
    function = step.executed.function
    assert (function.answer is Answer.SAME) is (not function.edits)
    return [worded_edit(edit) for edit in function.edits]


def _attend(self: Thing, x: torch.Tensor, given: Change) -> Thing:
    """Attend along (batch, time), with four axes, or along (time, batch), with three."""
    query, key, value = self.query(x), self.key(x), self.value(x)
    query = given.get("query", lambda one: one)(query)
    key = given.get("key", lambda one: one)(key)
    axis, scale = given.get("axis", -1), given.get("scale", 0.5)
    if x.shape[0] == TIME:
        query, key, value = (
            one.reshape(TIME, BATCH * HEADS, -1).transpose(0, 1) for one in (query, key, value)
        )
        mixed = torch.bmm((torch.bmm(query, key.mT) * scale).softmax(axis), value)
        return self.last(mixed.transpose(0, 1).reshape(x.shape))
    query, key, value = (
        one.reshape(BATCH, TIME, HEADS, -1).transpose(1, 2) for one in (query, key, value)
    )
    mixed = (query * scale @ key.mT).softmax(axis) @ value
    return self.last(mixed.transpose(1, 2).reshape(x.shape))


def _transformer(*, along_time: bool = False, **given: Thing) -> nn.Module:
    def block(given: Change) -> nn.Module:
        def forward(self: Thing, x: torch.Tensor) -> Thing:
            x = given.get("residual", torch.add)(x, self.attend(self.norm(x)))
            return x + given.get("act", functional.gelu)(self.inner(x))

        attend = net(
            lambda self, x: _attend(self, x, given),
            **dict.fromkeys(("query", "key", "value", "last"), lambda: nn.Linear(WIDTH, WIDTH)),
        )
        return net(
            forward,
            attend=lambda: attend,
            norm=lambda: nn.LayerNorm(WIDTH, eps=given.get("eps", 1e-5)),
            inner=lambda: nn.Linear(WIDTH, WIDTH),
        )

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        return self.blocks(x.transpose(0, 1)).transpose(0, 1) if along_time else self.blocks(x)

    return net(forward, blocks=lambda: nn.Sequential(*map(block, ({}, given, {}))))


FAULTS: dict[str, tuple[Change, list[str]]] = {
    "none": ({}, []),
    "scale": ({"scale": 0.6}, ["other of mul: 0.6 where the reference has 0.5"]),
    "axis": ({"axis": -2}, ["dim of softmax: -2 where the reference has -1"]),
    "residual": ({"residual": lambda _, x: x}, ["left out: add"]),
    "act": ({"act": functional.silu}, ["silu where the reference has gelu"]),
    "eps": ({"eps": 1e-3}, ["eps of layer_norm: 0.001 where the reference has 1e-05"]),
    "query and key": (
        {"query": torch.tanh, "key": torch.relu},
        ["too much: tanh", "too much: relu"],
    ),
}


@pytest.mark.parametrize("along_time", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_whatever_axis_comes_first(
    fault: str, tmp_path: Path, *, along_time: bool
) -> None:
    given, words = FAULTS[fault]

    found = _edits(
        tmp_path,
        _transformer(along_time=along_time),
        _transformer(along_time=not along_time, **given),
    )

    assert sorted(found) == sorted(words)


def test_faults_of_both_operands_of_a_product_are_two(tmp_path: Path) -> None:
    given, words = FAULTS["query and key"]

    found = _edits(tmp_path, _transformer(), _transformer(**given))

    assert sorted(found) == sorted(words)


class _Loop(nn.Module):
    """An LSTM written out, with the names of torch's weights."""

    def __init__(self, step: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().__init__()
        self.step = step
        for name, weight in nn.LSTM(WIDTH, WIDTH).named_parameters():
            self.register_parameter(name, weight)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        own: Thing = self
        hidden = memory = torch.zeros(len(x), WIDTH)
        made = []
        for given in x.unbind(1):
            gates = functional.linear(given, own.weight_ih_l0, own.bias_ih_l0)
            gates = gates + functional.linear(hidden, own.weight_hh_l0, own.bias_hh_l0)
            hidden, memory = self.step(memory, *gates.chunk(4, -1))
            made.append(hidden)
        return torch.stack(made, 1), None


def _step(
    memory: torch.Tensor, *gates: torch.Tensor, act: Callable[..., torch.Tensor] = torch.tanh
) -> tuple[torch.Tensor, torch.Tensor]:
    memory = gates[1].sigmoid() * memory + gates[0].sigmoid() * act(gates[2])
    return gates[3].sigmoid() * memory.tanh(), memory


STEPS: dict[str, tuple[Callable[..., tuple[torch.Tensor, torch.Tensor]], list[str]]] = {
    "none": (_step, []),
    "activation": (
        lambda memory, *gates: _step(memory, *gates, act=torch.sigmoid),
        ["sigmoid where the reference has lstm"],
    ),
    "order": (
        lambda memory, *gates: _step(memory, *gates[:2], *gates[:1:-1]),
        [
            "tanh reads torch.Tensor.chunk[3] of rnn where the reference has torch.lstm of rnn",
            "sigmoid reads torch.Tensor.chunk[2] of rnn where the reference has torch.lstm of rnn",
        ],
    ),
}


def _recurrent(make: Callable[[], nn.Module]) -> nn.Module:
    return net(
        lambda self, x: self.last(self.rnn(x[:, :3])[0]),
        rnn=make,
        last=lambda: nn.Linear(WIDTH, 4),
    )


def test_gates_of_one_activation_are_told_apart_by_what_they_are_made_of(tmp_path: Path) -> None:
    def exchanged(memory: torch.Tensor, *gates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _step(memory, gates[1], gates[0], *gates[2:])

    found = _edits(tmp_path, _recurrent(lambda: _Loop(_step)), _recurrent(lambda: _Loop(exchanged)))

    gates = [f"torch.Tensor.sigmoid of rnn, of torch.Tensor.chunk[{place}]" for place in (0, 1)]
    words = f"mul reads {gates[0]} where the reference has {gates[1]}"
    assert any(one.startswith(words) for one in found)


@pytest.mark.parametrize("fault", STEPS)
def test_a_fault_in_a_loop_is_told_against_a_recurrent_layer(fault: str, tmp_path: Path) -> None:
    step, words = STEPS[fault]

    layer = _recurrent(lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True))

    found = _edits(tmp_path, layer, _recurrent(lambda: _Loop(step)))

    assert len(found) == len(words)
    assert all(one.startswith(start) for one, start in zip(found, words, strict=True))


def _guided(*, is_once: bool, act: str = "none", one: float = 1.0) -> nn.Module:
    """Ask a network with two conditions, in one batch or one after the other."""

    def ask(self: Thing, x: torch.Tensor, factor: float) -> Thing:
        return self.last(functional.gelu(self.first(x) * factor, approximate=act))

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        pair = x + self.conditions.weight[0], x + self.conditions.weight[1]
        if is_once:
            made = self.inner(torch.cat(pair), 1.0).chunk(2)
        else:
            made = self.inner(pair[0], 1.0), self.inner(pair[1], one)
        return made[1] + 3.0 * (made[0] - made[1])

    linear = dict.fromkeys(("first", "last"), lambda: nn.Linear(WIDTH, WIDTH))
    return net(
        forward,
        inner=lambda: net(ask, **linear),
        conditions=lambda: nn.Embedding(2, WIDTH),
    )


@pytest.mark.parametrize("is_once", [False, True])
def test_a_fault_of_both_calls_is_told_once_against_one_for_both(
    tmp_path: Path, *, is_once: bool
) -> None:
    found = _edits(tmp_path, _guided(is_once=is_once), _guided(is_once=not is_once, act="tanh"))

    assert found == ["approximate of gelu: tanh where the reference has none"]


def test_a_fault_of_one_call_is_told_against_one_for_both(tmp_path: Path) -> None:
    found = _edits(tmp_path, _guided(is_once=True), _guided(is_once=False, one=1.5))

    assert found == ["other of mul: 1.5 where the reference has 1"]


def _scored(*, is_squared: bool, epsilon: float = 1e-3) -> nn.Module:
    """Score distances by a width each: squares over squares, or squares of quotients."""

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        far, width = x - self.mean(x), functional.softplus(self.width(x)) + epsilon
        if is_squared:
            return -(far**2) / (2 * width**2) - width.log()
        return -0.5 * (far / width) ** 2 - width.log()

    return net(forward, **dict.fromkeys(("width", "mean"), lambda: nn.Linear(WIDTH, WIDTH)))


@pytest.mark.parametrize("is_squared", [False, True])
def test_a_number_that_two_forms_read_is_told_without_the_forms(
    tmp_path: Path, *, is_squared: bool
) -> None:
    faulty = _scored(is_squared=not is_squared, epsilon=0.0)

    found = _edits(tmp_path, _scored(is_squared=is_squared), faulty)

    assert found == ["other of add: 0 where the reference has 0.001"]


def _linear_attention(
    *, is_linear: bool, act: Callable[[torch.Tensor], torch.Tensor], axes: tuple[int, ...] = ()
) -> nn.Module:
    """Weigh the values until then by products of queries and keys, or sum keys times values."""

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        taken, decay = self.taken(x), self.decay.weight.view(1, HEADS, 1)
        decay = decay.flip(axes) if axes else decay
        if is_linear:
            query, key, value = (one.unflatten(-1, (HEADS, -1)) for one in taken.chunk(3, -1))
            query, key = act(query) + 1, act(key) + 1
            made = torch.einsum("bthd,bthe->bthde", key, value).cumsum(1)
            total = (query * key.cumsum(1)).sum(-1, keepdim=True)
            mixed = torch.einsum("bthd,bthde->bthe", query, made) / total
            return self.last((mixed * decay).flatten(2))
        parts = taken.view(BATCH, TIME, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key = act(parts[0]) + 1, act(parts[1]) + 1
        weights = (query @ key.mT).tril()
        mixed = weights @ parts[2] / weights.sum(-1, keepdim=True)
        return self.last((decay[..., None] * mixed).transpose(1, 2).flatten(2))

    return net(
        forward,
        taken=lambda: nn.Linear(WIDTH, 3 * WIDTH),
        decay=lambda: nn.Linear(HEADS, 1, bias=False),
        last=lambda: nn.Linear(WIDTH, WIDTH),
    )


INSIDE: dict[str, tuple[Change, str]] = {
    "another activation": ({"act": functional.relu}, "relu where the reference has elu"),
    "an order": ({"act": functional.elu, "axes": (1,)}, "too much: flip"),
}


@pytest.mark.parametrize("fault", INSIDE)
@pytest.mark.parametrize("is_linear", [False, True])
def test_one_operator_is_told_inside_of_another_form(
    fault: str, tmp_path: Path, *, is_linear: bool
) -> None:
    options, words = INSIDE[fault]
    reference = _linear_attention(is_linear=not is_linear, act=functional.elu)

    found = _edits(tmp_path, reference, _linear_attention(is_linear=is_linear, **options))

    assert [one.replace("(1)", "").replace("([1])", "") for one in found] == [words]


def _adapted(*, is_merged: bool, scale: float = 2.0) -> nn.Module:
    """Add a product of two small matrices to a weight, or what it makes to the result."""

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        down, up, layer = self.down.weight, self.up.weight, self.layer
        if is_merged:
            made = functional.linear(x, layer.weight + scale * (up @ down), layer.bias)
        else:
            made = layer(x) + (x @ down.mT @ up.mT) * scale
        return self.last(torch.tanh(made))

    return net(
        forward,
        layer=lambda: nn.Linear(WIDTH, 6),
        down=lambda: nn.Linear(WIDTH, 3, bias=False),
        up=lambda: nn.Linear(3, 6, bias=False),
        last=lambda: nn.Linear(6, 4),
    )


@pytest.mark.parametrize("is_merged", [False, True])
def test_a_number_is_told_where_two_forms_share_nothing_on_the_way(
    tmp_path: Path, *, is_merged: bool
) -> None:
    faulty = _adapted(is_merged=is_merged, scale=3.0)

    found = _edits(tmp_path, _adapted(is_merged=not is_merged), faulty)

    assert found == ["other of mul: 3 where the reference has 2"]


def _summed(*, is_last: bool, approximate: str = "none") -> nn.Module:
    """Add two branches to what they are made of, in one order or in the other."""

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        other = self.other(self.first(x))
        hidden = functional.gelu(self.up(self.second(x)), approximate=approximate)
        made = self.out(hidden)
        return x + other + made if is_last else made + other + x

    norms = dict.fromkeys(("first", "second"), lambda: nn.LayerNorm(WIDTH))
    return net(forward, up=_linear, out=_linear, other=_linear, **norms)


def test_a_fault_in_a_sum_of_another_order_is_no_exchange_of_its_terms(tmp_path: Path) -> None:
    def both(**given: Thing) -> nn.Module:
        return net(
            lambda self, x: self.last(self.norm(self.two(self.one(self.embed(x))))),
            embed=_linear,
            one=lambda: _summed(**given),
            two=lambda: _summed(**given),
            norm=lambda: nn.LayerNorm(WIDTH),
            last=_linear,
        )

    found = _edits(tmp_path, both(is_last=False), both(is_last=True, approximate="tanh"))

    assert [one.partition(" (")[0] for one in found] == [
        "approximate of gelu: tanh where the reference has none"
    ]


def _turned(*, is_pair: bool, fault: str = "") -> nn.Module:
    """Multiply complex numbers by a matrix and turn them, as such or as pairs of real ones."""

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        real, imaginary = self.real.weight, self.imaginary.weight
        if not is_pair:
            z = torch.view_as_complex(x.reshape(*x.shape[:-1], HALF, 2))
            z = z @ torch.complex(real, imaginary)
            z = z * torch.polar(torch.ones(HALF), self.angle.weight[0])
            return self.last(torch.view_as_real(z * z.abs()).flatten(-2))
        a, b = x[..., ::2], x[..., 1::2]
        if fault == "sign":
            a, b = a @ real - b @ imaginary, a @ imaginary - b @ real
        else:
            a, b = a @ real - b @ imaginary, a @ imaginary + b @ real
        cosine, sine = self.angle.weight[0].cos(), self.angle.weight[0].sin()
        turned = a * cosine - b * sine
        other = (turned if fault == "overwritten" else a) * sine + b * cosine
        size = (turned**2 + other**2).sqrt()
        return self.last(torch.stack([turned * size, other * size], -1).flatten(-2))

    return net(
        forward,
        real=lambda: nn.Linear(HALF, HALF, bias=False),
        imaginary=lambda: nn.Linear(HALF, HALF, bias=False),
        angle=lambda: nn.Linear(HALF, 1, bias=False),
        last=_linear,
    )


TURNED = {
    "": [],
    "sign": ["sub where the reference has add"],
    "overwritten": ["mul reads torch.Tensor.sub of (root), line "],
}


@pytest.mark.parametrize("fault", TURNED)
def test_a_wrong_sign_and_a_value_read_too_late_are_told_of_pairs(
    fault: str, tmp_path: Path
) -> None:
    found = _edits(tmp_path, _turned(is_pair=False), _turned(is_pair=True, fault=fault))

    assert len(found) == len(TURNED[fault])
    assert all(one.startswith(start) for one, start in zip(found, TURNED[fault], strict=True))


def _convolved(order: tuple[str, str] | None = None) -> nn.Module:
    """Convolve each channel, or add up shifted pictures times single elements of the kernel."""

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        picture = x[:, None, :3].expand(-1, 2, -1, -1)
        if order is None:
            return self.inner(picture)
        padded = functional.pad(picture, (1, 1, 1, 1))
        made: Thing = self.inner.bias[:, None, None]
        for i in range(3):
            for j in range(3):
                part = padded[..., i : i + 3, j : j + WIDTH]
                at = {"i": i, "j": j}
                made = made + part * self.inner.weight[:, 0, at[order[0]], at[order[1]], None, None]
        return made

    return net(forward, inner=lambda: nn.Conv2d(2, 2, 3, padding=1, groups=2))


def test_indices_in_another_order_in_all_runs_of_a_line_are_one_argument(tmp_path: Path) -> None:
    right = _edits(tmp_path / "right", _convolved(), _convolved(("i", "j")))
    found = _edits(tmp_path / "wrong", _convolved(), _convolved(("j", "i")))

    assert not right
    assert len(found) == 1
    assert "of __getitem__: [:, 0, 1, 0, none, none] where the reference has" in found[0]


def _whole(self: Thing, x: torch.Tensor) -> Thing:
    query, key, value = (one(x) for one in (self.query, self.key, self.value))
    return x + self.last(functional.scaled_dot_product_attention(query, key, value, is_causal=True))


def _decoded(
    *, root: float = WIDTH**0.5, order: tuple[int, ...] = (0, 1)
) -> Callable[[Thing, torch.Tensor], Thing]:
    """Return a step after the other with a cache, which is empty at first."""

    def forward(self: Thing, x: torch.Tensor) -> Thing:
        keys = values = x[:, :0]
        found = []
        for at in range(TIME):
            one = x[:, at : at + 1]
            query, key, value = self.query(one), self.key(one), self.value(one)
            keys = torch.cat([keys, key], 1)
            values = torch.cat([(values, value)[place] for place in order], 1)
            weights = torch.softmax(query @ keys.mT / root, -1)
            found.append(one + self.last(weights @ values))
        return torch.cat(found, 1)

    return forward


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, []),
        ({"root": 4.0}, ["other of div: 4 where the reference has 2.828427"]),
        ({"order": (1, 0)}, ["cat reads its operands in another order"]),
    ],
)
def test_a_fault_of_each_step_is_told_against_all_at_once(
    given: Change, told: list[str], tmp_path: Path
) -> None:
    layers = dict.fromkeys(("query", "key", "value", "last"), _linear)

    found = _edits(tmp_path, net(_whole, **layers), net(_decoded(**given), **layers))

    assert found == told


def _by_taps(*, is_turned: bool) -> Callable[[Thing, torch.Tensor], Thing]:
    def forward(self: Thing, x: torch.Tensor) -> Thing:
        padded, weight = functional.pad(x[:, None], (1, 1, 1, 1)), self.taps.weight
        total = torch.zeros(1)
        for row in range(3):
            for column in range(3):
                own = (column, row) if is_turned else (row, column)
                total = (
                    total
                    + padded[:, 0, row : row + TIME, column : column + WIDTH]
                    * weight[0, 0, own[0], own[1]]
                )
        return total + self.taps.bias

    return forward


def test_indices_of_each_run_are_exchanged_apart_from_slices_beside_them(tmp_path: Path) -> None:
    layers = {"taps": lambda: nn.Conv2d(1, 1, 3, padding=1)}
    whole = net(lambda self, x: self.taps(x[:, None])[:, 0], **layers)

    (found,) = _edits(tmp_path, whole, net(_by_taps(is_turned=True), **layers))

    assert "of __getitem__: " in found
