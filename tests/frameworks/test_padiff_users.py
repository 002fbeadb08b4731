"""What users of PaDiff wrote works with the import line as it was, and odd models do too."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff import assign_weight, auto_diff, create_model
from padiff.dumpfile import ConfigError


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Draw the same weights and inputs in each run.

    With a bare ``atol`` nothing is excused: where a ReLU's input is within rounding of zero, one
    side alone lets it through, and gradients, their norm and then the weights are apart by more.
    """
    torch.manual_seed(0)
    paddle.seed(0)


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
    assert [step.step for step in same.steps] == [0, 1, 2]


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


def test_tutorial_with_losses_of_the_frameworks_and_ten_steps() -> None:
    layer, module = SimpleLayer(), SimpleModule()
    torch_input, paddle_input = simple_inputs()
    label = np.random.default_rng(0).random((100, 10)).astype(np.float32)

    same = auto_diff(
        layer,
        module,
        (paddle_input, torch_input),
        auto_weights=True,
        steps=10,
        options={"atol": 1e-4},
        loss_fn=[
            partial(paddle.nn.MSELoss(), label=paddle.to_tensor(label)),
            partial(torch.nn.MSELoss(), target=torch.tensor(label)),
        ],
        optimizer=[
            paddle.optimizer.Adam(learning_rate=0.001, parameters=layer.parameters()),
            torch.optim.Adam(lr=0.001, params=module.parameters()),
        ],
        quiet=True,
    )

    assert same, same.reasons
    assert len(same.steps) == 10


def stack(base: Any, nn: Any, relu: Any, *, is_sequential: bool) -> Any:  # noqa: ANN401
    """Make four equal layers, in a list with functional activations or in a sequence."""

    class Stack(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            layers = [nn.Linear(100, 100) for _ in range(4)]
            if is_sequential:
                self.net = nn.Sequential(*[part for one in layers for part in (one, nn.ReLU())])
            else:
                self.layers = (nn.LayerList if nn is paddle.nn else nn.ModuleList)(layers)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            if is_sequential:
                return self.net(x)
            for layer in self.layers:
                x = relu(layer(x))
            return x

    return Stack()


@pytest.mark.parametrize("single_step", [False, True])
@pytest.mark.parametrize("is_sequential", [False, True])
@pytest.mark.parametrize("mode", ["mean", "strict"])
def test_layers_in_lists_and_sequences_are_partners(
    mode: str, *, is_sequential: bool, single_step: bool
) -> None:
    functional = paddle.nn.functional.relu
    layer = stack(paddle.nn.Layer, paddle.nn, functional, is_sequential=is_sequential)
    module = stack(torch.nn.Module, torch.nn, torch.relu, is_sequential=False)
    torch_input, paddle_input = simple_inputs()

    same = auto_diff(
        create_model(layer),
        create_model(module),
        (paddle_input, torch_input),
        auto_init=True,
        atol=1e-4,
        rtol=0,
        compare_mode=mode,
        single_step=single_step,
        quiet=True,
    )

    assert same, same.reasons


class Nothing(paddle.nn.Layer):
    def forward(self, x: Any) -> Any:  # noqa: ANN401
        return x


@pytest.mark.parametrize("how", ["ignore", "ignore_recursivly", "ignore_class", "map"])
def test_layer_map_of_the_tutorial_is_taken(how: str) -> None:
    class Wrapped(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.nop, self.linear = Nothing(), paddle.nn.Linear(100, 10)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            return self.linear(self.nop(x))

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(100, 10)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            return self.linear(x)

    layer, module, chosen = Wrapped(), Plain(), padiff.LayerMap()
    if how == "map":
        chosen.map = {layer.linear: module.linear}
    elif how == "ignore_class":
        chosen.ignore_class(layer, Nothing)
    else:
        getattr(chosen, how)(layer.nop)
    torch_input, paddle_input = simple_inputs()

    assert auto_diff(
        layer,
        module,
        (paddle_input, torch_input),
        auto_weights=True,
        layer_map=chosen,
        options={"atol": 1e-4},
        quiet=True,
    )


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

    assert len(list(plan.rows())) == 4
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


@pytest.mark.parametrize("make", [SimpleModule, SimpleLayer])
def test_methods_of_padiffs_wrapper_say_what_replaces_them(make: Any) -> None:  # noqa: ANN401
    model: Any = create_model(make())

    for name, instead in (
        ("try_dump", "recorder.step"),
        ("update_black_list", "exclude="),
        ("update_white_list_with_class", "include="),
        ("auto_layer_map", "map="),
    ):
        with pytest.raises(ConfigError, match=f"no '{name}'") as caught:
            getattr(model, name)([])
        assert instead in str(caught.value.hint)
    assert type(copy.deepcopy(model)) is make
    assert create_model(model) is model


def test_lists_by_instance_leave_modules_out() -> None:
    module, layer = SimpleModule(), SimpleLayer()
    first, second = simple_inputs()

    found = auto_diff(
        module, layer, (first, second), exclude=[module.linear2], atol=1e-4, quiet=True
    )

    assert found
    assert "linear2" not in set(found.to_dataframe().module)
