"""What users of PaDiff wrote works with the import line as it was, and odd models do too."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff import assign_weight, auto_diff, create_model
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class SimpleLayer(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear1 = paddle.nn.Linear(100, 100)
        self.linear2 = paddle.nn.Linear(100, 10)
        self.act = paddle.nn.ReLU()

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        resid = x
        x = self.linear1(x)
        x = self.act(x)
        x = x + resid
        return self.linear2(x)


class SimpleModule(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear1 = torch.nn.Linear(100, 100)
        self.linear2 = torch.nn.Linear(100, 10)
        self.act = torch.nn.ReLU()

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        resid = x
        x = self.linear1(x)
        x = self.act(x)
        x = x + resid
        return self.linear2(x)


def simple_inputs() -> tuple[dict[str, Any], dict[str, Any]]:
    inp = paddle.rand((100, 100)).numpy().astype("float32")
    return {"x": torch.as_tensor(inp)}, {"x": paddle.to_tensor(inp)}


def paddle_loss(inp: Any, label: Any) -> Any:  # noqa: ANN401
    return ((inp - paddle.to_tensor(label)) ** 2).mean()


def torch_loss(inp: Any, label: Any) -> Any:  # noqa: ANN401
    return ((inp - torch.tensor(label)) ** 2).mean()


@pytest.mark.parametrize("single_step", [False, True])
@pytest.mark.parametrize("mode", ["mean", "strict"])
def test_tutorial_with_loss_optimizers_and_single_step(
    mode: str, single_step: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    module, layer = create_model(SimpleModule()), create_model(SimpleLayer())
    label = np.random.default_rng(0).random(10).astype(np.float32).tolist()

    same = auto_diff(
        module,
        layer,
        simple_inputs(),
        loss_fns=[partial(torch_loss, label=label), partial(paddle_loss, label=label)],
        optimizers=[
            torch.optim.Adam(lr=0.001, params=module.parameters()),  # type: ignore[attr-defined]
            paddle.optimizer.Adam(learning_rate=0.001, parameters=layer.parameters()),  # type: ignore[attr-defined]
        ],
        auto_init=True,
        atol=1e-4,
        rtol=0,
        compare_mode=mode,
        single_step=single_step,
        steps=3,
    )

    assert same, "failed"
    assert capsys.readouterr().out.startswith("MATCH")
    assert [step.step for step in same.comparison.steps] == [0, 1, 2]


def test_tutorial_in_the_spelling_of_the_older_version() -> None:
    layer, module = SimpleLayer(), SimpleModule()
    torch_input, paddle_input = simple_inputs()

    same = auto_diff(
        layer,
        module,
        (paddle_input, torch_input),
        auto_weights=True,
        options={"atol": 1e-4, "rtol": 0, "compare_mode": "strict", "single_step": False},
        loss_fn=(partial(paddle_loss, label=[0.5]), partial(torch_loss, label=[0.5])),
        optimizer=(
            paddle.optimizer.Adam(learning_rate=0.001, parameters=layer.parameters()),
            torch.optim.Adam(lr=0.001, params=module.parameters()),
        ),
        quiet=True,
    )

    assert same


def test_padiff_spelling_judges_by_mean_and_ours_each_element() -> None:
    class Wrong(SimpleModule):
        def forward(self, x: Any) -> Any:  # noqa: ANN401
            found = super().forward(x).clone()
            found[0, 0] += 0.05
            return found

    x = simple_inputs()[0]
    run = partial(auto_diff, SimpleModule(), Wrong(), (x, x), quiet=True, diff_phase="forward")

    assert not run(atol=1e-3, rtol=0)
    assert run(options={"atol": 1e-3, "rtol": 0})
    assert not run(options={"atol": 1e-3, "rtol": 0, "compare_mode": "strict"})


def test_weights_are_assigned_between_wrapped_models() -> None:
    module, layer = create_model(SimpleModule()), create_model(SimpleLayer())

    plan = assign_weight(module, layer)

    assert len(plan.pairs) == 4
    expected = module.linear1.weight.detach().numpy()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(layer.linear1.weight.numpy().T, expected)  # type: ignore[attr-defined]


class Towers(torch.nn.Module):
    """Two equal towers, named and defined in the order that is asked for."""

    def __init__(self, names: tuple[str, str], *, first: str) -> None:
        super().__init__()
        self.names, self.first = names, first
        for name in names:
            setattr(self, name, torch.nn.Linear(4, 4))
        self.extra = torch.nn.Identity()

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        second = next(name for name in self.names if name != self.first)
        return self.extra(getattr(self, self.first)(x)) * getattr(self, second)(x).tanh()


@pytest.mark.parametrize("as_dict", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_layer_map_of_live_modules_decides(*, as_dict: bool, turned: bool) -> None:
    one = Towers(("left", "right"), first="left")
    two = Towers(("gate", "value"), first="value")
    pairs = {one.left: two.value, one.right: two.gate}
    pairs = {value: key for key, value in pairs.items()} if turned else pairs
    x = torch.randn(3, 4)
    chosen: Any = pairs
    if not as_dict:
        chosen = padiff.LayerMap()
        chosen.map = pairs
        chosen.ignore_recursively([one.extra])
        chosen.ignore(two)

    assert auto_diff(one, two, ({"x": x}, {"x": x}), layer_map=chosen, quiet=True)


class Chain(torch.nn.Module):
    """Equal layers that run in the order of their names, not in that of their definition."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, torch.nn.Linear(4, 4))

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        for name in sorted(name for name, _ in self.named_children()):
            layer: Any = getattr(self, name)
            x = layer(x).tanh()
        return x


def test_what_runs_when_tells_layers_apart_that_names_do_not() -> None:
    one, two = Chain("a", "b", "c"), Chain("z", "x", "y")
    x = torch.randn(3, 4)

    assert auto_diff(one, two, ({"x": x}, {"x": x}), quiet=True)

    weights = [dict(model.named_parameters()) for model in (one, two)]
    np.testing.assert_array_equal(weights[0]["b.weight"].detach(), weights[1]["y.weight"].detach())


def test_map_with_a_foreign_module_is_refused() -> None:
    one, two = SimpleModule(), SimpleModule()
    x = simple_inputs()[0]

    with pytest.raises(ConfigError, match="cannot use a map"):
        auto_diff(one, two, (x, x), map={torch.nn.Linear(1, 1): two.linear1})
    with pytest.raises(ConfigError, match="cannot use int as a map"):
        auto_diff(one, two, (x, x), map=3)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"white_list": ["Linear"]}, "include="),
        ({"options": {"black_list": []}}, "exclude="),
        ({"atoll": 1.0}, "atol"),
        ({"loss_fns": True}, "auto_weights=True"),
        ({"options": {"atol": 1.0}, "atol": 2.0}, None),
    ],
)
def test_option_that_is_gone_says_what_to_use(given: dict[str, Any], hint: str | None) -> None:
    x = simple_inputs()[0]

    with pytest.raises(ConfigError) as caught:
        auto_diff(SimpleModule(), SimpleModule(), (x, x), **given)

    assert hint is None or hint in (caught.value.hint or "")


def test_name_that_is_gone_says_what_to_use() -> None:
    with pytest.raises(ImportError, match=r"map file"):
        from padiff import add_special_init  # noqa: F401, PLC0415


def test_include_and_exclude_choose_what_is_compared() -> None:
    class Wrong(SimpleModule):
        def __init__(self) -> None:
            super().__init__()
            self.act = torch.nn.GELU()  # type: ignore[assignment]

    x = simple_inputs()[0]
    run = partial(auto_diff, SimpleModule(), Wrong(), (x, x), quiet=True, diff_phase="forward")

    assert not run()
    assert run(include="linear1")
    assert not run(exclude=["linear2"])


# -- odd models


class Odd(torch.nn.Module):
    """Takes several inputs, changes one of them, and gives a dict."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.table, self.linear = torch.nn.Embedding(10, width), torch.nn.Linear(width, width)

    def forward(self, ids: Any, scale: Any, *, mask: Any = None) -> dict[str, Any]:  # noqa: ANN401
        hidden = self.linear(self.table(ids)) * scale.add_(1.0)
        if mask is not None:
            hidden = hidden.masked_fill(mask, 0.0)
        return {"hidden": hidden, "ids": ids, "parts": [hidden.sum(), None]}


class OddLayer(paddle.nn.Layer):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.table, self.linear = paddle.nn.Embedding(10, width), paddle.nn.Linear(width, width)

    def forward(self, ids: Any, scale: Any, *, mask: Any = None) -> dict[str, Any]:  # noqa: ANN401
        hidden = self.linear(self.table(ids)) * scale.add_(paddle.to_tensor(1.0))
        if mask is not None:
            hidden = paddle.where(mask, paddle.zeros_like(hidden), hidden)
        return {"hidden": hidden, "ids": ids, "parts": [hidden.sum(), None]}


IDS = np.arange(6).reshape(2, 3)
SCALE = np.full((2, 3, 1), 1.5)


@pytest.mark.parametrize("kinds", [(Odd, OddLayer), (OddLayer, Odd), (Odd, Odd)])
@pytest.mark.parametrize("single_step", [False, True])
def test_models_with_several_integer_and_changed_inputs(
    kinds: tuple[type[Any], type[Any]],
    single_step: bool,
) -> None:
    mask = np.zeros((2, 3, 8), bool)
    mask[0, 0] = True
    inputs = {"ids": IDS, "scale": SCALE, "mask": mask}

    result = auto_diff(
        kinds[0](), kinds[1](), (inputs, dict(inputs)), single_step=single_step, quiet=True
    )

    assert result, result.comparison.reasons


def test_tensors_of_the_caller_stay_as_they_are() -> None:
    scale = torch.tensor(SCALE, dtype=torch.float32)
    positional = (torch.tensor(IDS), scale)

    assert auto_diff(Odd(), OddLayer(), (positional, positional), quiet=True)

    np.testing.assert_array_equal(scale.numpy(), SCALE)


def test_frozen_models_have_no_backward_pass() -> None:
    models = SimpleModule(), SimpleModule()
    for parameter in [*models[0].parameters(), *models[1].parameters()]:
        parameter.requires_grad = False
    x = simple_inputs()[0]

    result = auto_diff(*models, (x, x), quiet=True)

    assert result
    assert "no gradient" in " ".join(result.comparison.reference.notes)


def test_half_frozen_models_and_stale_gradients() -> None:
    models = SimpleModule(), SimpleModule()
    for model in models:
        model.linear1.weight.requires_grad = False
    x = simple_inputs()[0]
    models[1](**x).sum().backward()

    for _ in range(2):
        assert auto_diff(*models, (x, x), quiet=True)
    assert models[1].linear2.weight.grad is None


def test_bfloat16_models() -> None:  # Paddle's CPU build multiplies no bfloat16 matrices
    x = np.random.default_rng(0).random((4, 100)).astype(np.float32)

    result = auto_diff(SimpleModule().bfloat16(), SimpleModule().bfloat16(), ([x], [x]), quiet=True)

    assert result, result.comparison.reasons
    assert result.comparison.reference.dtype == "bfloat16"


def test_both_dumps_are_kept_where_they_are_wanted(tmp_path: Path) -> None:
    x = simple_inputs()[0]

    for _ in range(2):
        auto_diff(SimpleModule(), SimpleModule(), (x, x), out=tmp_path, quiet=True)

    assert padiff.open_dump(tmp_path / "reference").files
    assert padiff.open_dump(tmp_path / "candidate").files
