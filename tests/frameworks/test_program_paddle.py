"""Every operator of a Paddle model's forward pass and loss is in its program."""

from __future__ import annotations

import copy
import sys
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute
from paddle.nn import functional
from paddle.vision.models import mobilenet_v2, resnet18

import padiff
from benchmarks.gpt_paddle import GPT
from padiff.dumper.adapters.paddle_operators import PaddleOperators, _Bindings
from padiff.dumpfile import LeafKind, Mode, open_dump
from tests.support.programs import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Paddle says so at each training-mode BatchNorm whose ``track_running_stats`` was never named.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")

Thing = Any


class _Wrapped(nn.Layer):
    """A layer around a function."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Layer) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Thing) -> Thing:
        return self.function(self, *args)


def _encoder() -> tuple[nn.Layer, Thing]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
    return nn.TransformerEncoder(layer, 2), paddle.randn([2, 5, 16])


def _gpt() -> tuple[nn.Layer, Thing]:
    model = GPT(layers=2, width=16, heads=2, vocabulary=30)
    return model, paddle.to_tensor(np.arange(12).reshape(2, 6))


def _lstm() -> tuple[nn.Layer, Thing]:
    return nn.LSTM(6, 8, num_layers=2, direction="bidirect"), paddle.randn([2, 5, 6])


def _image(build: Callable[..., nn.Layer]) -> Callable[[], tuple[nn.Layer, Thing]]:
    return lambda: (build(num_classes=5), paddle.randn([1, 3, 32, 32]))


MODELS: dict[str, Callable[[], tuple[nn.Layer, Thing]]] = {
    "resnet18": _image(resnet18),
    "mobilenet_v2": _image(mobilenet_v2),
    "encoder": _encoder,
    "lstm": _lstm,
    "gpt": _gpt,
}


def _first(output: Thing) -> paddle.Tensor:
    first: paddle.Tensor = output[0] if isinstance(output, tuple) else output
    return first


def recorded(
    model: nn.Layer, *inputs: Thing, folder: Path, backward: bool = True
) -> tuple[Recorded, Any]:
    with padiff.record(model, name="model", out=folder) as recorder:
        result = model(*inputs)
        if backward:
            _first(result).mean().backward()
    return Recorded.read(recorder.path), result


def test_an_array_that_becomes_a_tensor_in_a_step_is_an_input(tmp_path: Path) -> None:
    model, array = nn.Linear(3, 2), np.arange(6.0, dtype=np.float32).reshape(2, 3)
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        loss = model(paddle.to_tensor(array)) - paddle.to_tensor(array[:, :2] + 1)
        loss.mean().backward()

    found = Recorded.read(recorder.path)

    assert found.names == ["linear", "__sub__", "mean"]
    assert len(found.leaves(LeafKind.INPUT)) == 2


def _drops() -> tuple[nn.Layer, Thing]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.3)
    return nn.TransformerEncoder(layer, 2), paddle.randn([2, 5, 16])


def _drops_between_steps() -> tuple[nn.Layer, Thing]:
    return nn.GRU(6, 8, num_layers=2, dropout=0.4), paddle.randn([2, 5, 6])


def _bfloat16() -> tuple[nn.Layer, Thing]:
    """Return a model of the few operators that have a kernel for bfloat16 on CPUs."""

    def function(self: Thing, x: Thing) -> Thing:
        y = self.drop(x.astype("bfloat16") * self.one.weight.astype("bfloat16"))
        return y.sum(axis=1).astype("float32")

    model = _Wrapped(function, drop=nn.Dropout(0.4), one=nn.Linear(128, 128))
    return model, paddle.randn([128, 128])


DRAWING = {"drops": _drops, "drops between steps": _drops_between_steps, "bfloat16": _bfloat16}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", [*MODELS, *DRAWING])
def test_recording_changes_no_bit(name: str, training: bool, tmp_path: Path) -> None:
    plain, given = (MODELS | DRAWING)[name]()
    is_recurrent = isinstance(plain, nn.LSTM | nn.GRU)  # without backward in eval mode
    runs = []
    for model, is_recorded in ((copy.deepcopy(plain), False), (plain, True)):
        model.train() if training else model.eval()
        paddle.seed(3)
        with ExitStack() as exits:
            if is_recorded:
                exits.enter_context(padiff.record(model, name="model", out=tmp_path))
            loss = _first(model(given)).square().mean()
            if training or not is_recurrent:
                loss.backward()
        buffers = [one.numpy().tobytes() for one in model.buffers()]
        runs.append((_bytes(loss), _gradients(model), buffers, _random_state()))

    assert runs[0] == runs[1]
    assert any(runs[0][1]) is (training or not is_recurrent)


def _bytes(tensor: paddle.Tensor) -> bytes:
    return bytes(tensor.numpy().tobytes())


def _gradients(model: nn.Layer) -> list[bytes]:
    found: Thing = [one.grad for one in model.parameters()]
    return [b"" if one is None else _bytes(one) for one in found]


def _random_state() -> bytes:
    """Return what Paddle draws next, which the generator's own words do not show."""
    return _bytes(paddle.rand([4]))


def test_values_flow_from_operator_to_operator(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: functional.relu(self.one(x)) * 2, one=nn.Linear(3, 4))

    found, _ = recorded(model, paddle.randn([2, 3]), folder=tmp_path)

    strings = found.program.strings
    assert [strings[one] for one in found.program.operator_name] == [
        "paddle._C_ops.linear",
        "paddle._C_ops.relu",
        "paddle.Tensor.__mul__",
        "paddle._C_ops.mean",
    ]
    assert found.inputs(1) == found.outputs(0)
    assert found.inputs(2) == found.outputs(1)
    assert found.inputs(0)[0] in found.leaves(LeafKind.INPUT)
    assert set(found.inputs(0)[1:]) == set(found.leaves(LeafKind.PARAMETER))


def test_operators_name_the_users_line(tmp_path: Path) -> None:
    model = _Wrapped(lambda _, x: x.tanh())

    found, _ = recorded(model, paddle.randn([2]), folder=tmp_path, backward=False)

    site = int(found.program.operator_site[0])
    file = found.program.strings[int(found.program.site_file[site])]
    assert file.endswith("test_program_paddle.py")


def test_an_operator_in_place_makes_a_new_value(tmp_path: Path) -> None:
    def function(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        y = x.clone()
        z = y * 2
        y.add_(paddle.ones([3]))
        return y + z

    found, _ = recorded(_Wrapped(function), paddle.randn([2, 3]), folder=tmp_path, backward=False)

    changed = found.position("add_")
    assert found.has_mode(changed, Mode.IN_PLACE)
    assert found.outputs(changed)[0] not in found.inputs(changed)
    assert found.inputs(found.position("__add__"))[0] == found.outputs(changed)[0]


def test_a_reshape_in_place_makes_a_new_value(tmp_path: Path) -> None:
    def function(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        y = x.clone()
        y.reshape_([6])
        return y.exp()

    found, _ = recorded(_Wrapped(function), paddle.randn([2, 3]), folder=tmp_path, backward=False)

    changed = found.position("reshape_")
    assert found.inputs(found.position("exp")) == found.outputs(changed)[:1]
    assert found.outputs(changed)[0] not in found.inputs(changed)


WRITES: dict[str, Callable[[Any, paddle.Tensor], object]] = {
    "set_value": lambda y, x: y.set_value(x),
    "copy_": lambda y, x: y.copy_(x, True),  # noqa: FBT003
    "exponential_": lambda y, _: y.exponential_(),
    "assign_out_": lambda y, x: paddle.assign(x, y),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("is_in_graph", [True, False])
def test_a_change_that_raises_no_version_makes_a_new_value(
    name: str, is_in_graph: bool, tmp_path: Path
) -> None:
    def function(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        y = x * 2
        with paddle.no_grad():
            WRITES[name](y, x)
        return y.tanh()

    given = paddle.randn([2, 3])
    given.stop_gradient = not is_in_graph
    found, _ = recorded(_Wrapped(function), given, folder=tmp_path, backward=False)

    written = found.position(name)
    assert found.has_mode(written, Mode.IN_PLACE)
    (taken,) = found.inputs(found.position("tanh"))
    assert taken in found.outputs(written)
    assert taken not in found.outputs(found.position("__mul__"))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_makes_new_running_statistics(training: bool, tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: self.norm(self.norm(x)), norm=nn.BatchNorm1D(3))
    model.train() if training else model.eval()

    found, _ = recorded(model, paddle.randn([4, 3]), folder=tmp_path, backward=False)

    assert found.names == ["batch_norm", "batch_norm"]
    statistics = [found.inputs(one)[1:3] for one in range(2)]
    assert bool(set(statistics[0]) & set(statistics[1])) is not training
    assert not training or set(statistics[1]) <= set(found.outputs(0))
    assert [found.has_mode(one, Mode.IN_PLACE) for one in range(2)] == [training] * 2


def test_a_gradient_that_the_model_asks_for_is_an_operator(tmp_path: Path) -> None:
    def function(_: nn.Layer, x: paddle.Tensor) -> Thing:
        x = x.detach()
        x.stop_gradient = False
        (gradient,) = paddle.grad(x.square().sum(), x, create_graph=True)
        return gradient * 2

    found, _ = recorded(_Wrapped(function), paddle.randn([2, 3]), folder=tmp_path, backward=False)

    assert found.names == ["detach", "square", "sum", "grad", "__mul__"]
    assert found.leaves(LeafKind.HOLE) == []


def test_setting_items_is_an_operator(tmp_path: Path) -> None:
    def function(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        y = paddle.zeros([2, 3])
        y[:, 1:] = x
        return y.exp()

    found, _ = recorded(_Wrapped(function), paddle.randn([2, 2]), folder=tmp_path, backward=False)

    written = found.position("__setitem__")
    assert found.has_mode(written, Mode.IN_PLACE)
    assert found.inputs(found.position("exp")) == found.outputs(written)


def test_random_outcomes_are_leaves_with_elements(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: self.drop(x) + paddle.rand([3]), drop=nn.Dropout(0.5))

    found, _ = recorded(model, paddle.randn([2, 3]), folder=tmp_path, backward=False)

    drawn = found.leaves(LeafKind.RANDOM)
    assert set(drawn) == {
        *found.outputs(found.position("dropout")),
        *found.outputs(found.position("uniform")),
    }
    assert {str(found.content(one).content) for one in drawn} == {"full"}


def test_dropout_in_eval_mode_draws_nothing(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: self.drop(x), drop=nn.Dropout(0.5))
    model.eval()

    found, _ = recorded(model, paddle.randn([2, 3]), folder=tmp_path, backward=False)

    assert found.leaves(LeafKind.RANDOM) == []


def test_numbers_read_into_python_are_operators(tmp_path: Path) -> None:
    def function(_: nn.Layer, x: Thing) -> Thing:
        return x * 2 if x.sum().item() > -1e9 else x

    found, _ = recorded(_Wrapped(function), paddle.randn([2]), folder=tmp_path, backward=False)

    assert found.names == ["sum", "item", "__mul__"]


def test_a_value_that_nothing_recorded_made_is_a_hole(tmp_path: Path) -> None:
    def function(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        unseen = paddle.base.core.eager.Tensor(value=np.arange(3, dtype=np.float32))
        return (x * unseen).exp()

    found, _ = recorded(_Wrapped(function), paddle.randn([2, 3]), folder=tmp_path, backward=False)

    assert len(found.leaves(LeafKind.HOLE)) == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_what_padiff_asks_of_paddle_is_no_operator(dtype: str, tmp_path: Path) -> None:
    inner = _Wrapped(lambda _, x: x * 2)  # padiff reads large bfloat16 values as a view of int16
    model = _Wrapped(lambda self, x: self.inner(x.flatten()) * 2, inner=inner)

    given = paddle.cast(paddle.ones([64, 256]), getattr(paddle, dtype))
    found, _ = recorded(model, given, folder=tmp_path, backward=False)

    assert found.names == ["flatten", "__mul__", "__mul__"]


def test_every_value_has_its_gradient(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: functional.relu(self.one(x)), one=nn.Linear(3, 4))

    found, _ = recorded(model, paddle.randn([2, 3]), folder=tmp_path)

    made = [found.outputs(at)[0] for at in range(3)]
    assert all(found.program.value_gradient[one] >= 0 for one in made)


class _Doubled(PyLayer):
    @staticmethod
    def forward(ctx: Thing, x: paddle.Tensor) -> paddle.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Thing, gradient: paddle.Tensor) -> paddle.Tensor:
        return gradient * 2


_doubled: Callable[..., Any] = _Doubled.apply

_static: Callable[..., Any] = paddle.jit.to_static(lambda x: (x * 2).exp())


def _through_numpy(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
    return paddle.to_tensor(np.sin(x.detach().numpy())).tanh()


def _through_views(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
    y = x * 1
    y.flatten()[:4].multiply_(paddle.full([4], 2.0))
    return y.tanh()


PROGRAMS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "recompute": (lambda self, x: recompute(self.one, x).tanh(), ["linear", "tanh"]),
    "reentrant recompute": (
        lambda self, x: recompute(self.one, x, use_reentrant=True).tanh(),
        ["linear", "tanh"],
    ),
    "PyLayer": (lambda _, x: _doubled(x).tanh(), ["__mul__", "tanh"]),
    "data": (lambda _, x: x + paddle.to_tensor([1.0, 2, 3, 4]), ["to_tensor", "__add__"]),
    "norm": (lambda self, x: self.norm(x), ["layer_norm"]),
    "to_static": (lambda _, x: _static(x).tanh(), ["__mul__", "exp", "tanh"]),
    "sort": (lambda _, x: paddle.sort(x).cumsum(-1), ["argsort", "cumsum"]),
    "einsum": (lambda _, x: paddle.einsum("bij,bkj->bik", x, x), ["einsum"]),
    "fft": (lambda _, x: paddle.fft.rfft(x).abs(), ["fft_r2c", "abs"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_every_way_to_call_paddle(name: str, tmp_path: Path) -> None:
    function, expected = PROGRAMS[name]
    model = _Wrapped(function, one=nn.Linear(4, 4), norm=nn.LayerNorm(4))
    given = paddle.randn([2, 3, 4])
    given.stop_gradient = False

    found, _ = recorded(model, given, folder=tmp_path)

    assert found.names == [*expected, "mean"]
    assert found.leaves(LeafKind.HOLE) == []
    for one, following in zip(range(len(expected)), range(1, len(expected)), strict=False):
        assert set(found.outputs(one)) & set(found.inputs(following))


def test_a_value_through_numpy_is_data_and_no_hole(tmp_path: Path) -> None:
    found, _ = recorded(
        _Wrapped(_through_numpy), paddle.randn([2, 3]), folder=tmp_path, backward=False
    )

    assert found.names == ["detach", "numpy", "to_tensor", "tanh"]
    assert found.leaves(LeafKind.HOLE) == []
    (made,) = found.outputs(2)
    assert found.inputs(3) == [made]
    assert str(found.content(made).content) == "full"


def test_a_change_through_a_view_of_a_view_makes_a_new_value(tmp_path: Path) -> None:
    found, _ = recorded(
        _Wrapped(_through_views), paddle.randn([2, 3]), folder=tmp_path, backward=False
    )

    (before,), (taken,) = found.outputs(0), found.inputs(found.position("tanh"))
    assert taken != before
    assert found.outputs(found.position("overwrite")) == [taken]
    assert found.leaves(LeafKind.HOLE) == []


@pytest.mark.parametrize("name", ["_run_custom_op", "_run_python_op", "matmul", "dropout"])
def test_operators_of_others_are_replaced_while_a_step_is_recorded(name: str) -> None:
    plain = getattr(paddle._C_ops, name)

    with PaddleOperators().watch(lambda _, function, args, kwargs: function(*args, **kwargs)):
        replaced = getattr(paddle._C_ops, name)

    assert replaced is not plain
    assert replaced.__wrapped__ is plain
    assert getattr(paddle._C_ops, name) is plain


class _Library:
    """What cffi puts among the modules: says that it is one, and takes no weak references."""

    __slots__ = ()
    __class__ = property(lambda _: ModuleType)


def test_what_only_says_that_it_is_a_module_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library: Any = _Library()
    assert isinstance(library, ModuleType)
    monkeypatch.setitem(sys.modules, "library", library)

    found, _ = recorded(nn.Linear(3, 2), paddle.randn([2, 3]), folder=tmp_path)

    assert "linear" in found.names


def test_an_error_while_operators_are_replaced_leaves_none_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operators, before = PaddleOperators(), _bindings()

    def run(
        _: object,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        return function(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr("padiff.dumper.adapters.paddle_operators._modules", lambda: iter([object()]))
        with pytest.raises(TypeError), operators.watch(run):
            pass

    assert _bindings() == before
    with operators.watch(run):
        assert _bindings() != before


def test_a_replacement_that_somebody_keeps_is_searched_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operators, module = PaddleOperators(), ModuleType("library")
    monkeypatch.setitem(sys.modules, "library", module)
    searched: list[bool] = []
    kept: list[object] = []
    put_back = _Bindings._put_back

    def counted(bindings: _Bindings, names: dict[str, object]) -> None:
        searched.append(names is vars(module))
        put_back(bindings, names)

    monkeypatch.setattr(_Bindings, "_put_back", counted)
    for is_kept in (True, False, False):
        with operators.watch(lambda _, function, args, kwargs: function(*args, **kwargs)):
            kept += [paddle._C_ops.abs] * is_kept
    assert sum(searched) == 1

    with operators.watch(lambda _, function, args, kwargs: function(*args, **kwargs)):
        vars(module)["abs"] = paddle._C_ops.abs
    assert vars(module)["abs"] is paddle._C_ops.abs is not kept[0]


def test_operators_without_a_graph_say_so(tmp_path: Path) -> None:
    def function(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        with paddle.no_grad():
            x = x.exp()
        return x.tanh()

    found, _ = recorded(_Wrapped(function), paddle.randn([2]), folder=tmp_path, backward=False)

    assert found.has_mode(found.position("exp"), Mode.NO_GRAD)
    assert not found.has_mode(found.position("tanh"), Mode.NO_GRAD)


def test_the_optimizer_is_no_part_of_the_forward_program(tmp_path: Path) -> None:
    model = nn.Linear(3, 5)
    optimizer = paddle.optimizer.Adam(parameters=model.parameters())
    given = paddle.randn([4, 3])
    with padiff.record(model, name="model", out=tmp_path, optimizer=optimizer) as recorder:
        for _ in range(2):
            model(given).square().mean().backward()
            optimizer.step()
            optimizer.clear_grad()
            recorder.step()

    for step in range(2):
        assert Recorded.read(recorder.path, step).forward_names == ["linear", "square", "mean"]


def test_zeros_that_an_optimizer_begins_with_are_no_bias(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))
    optimizer = paddle.optimizer.Adam(parameters=model.parameters())

    with padiff.record(model, name="model", out=tmp_path, optimizer=optimizer) as recorder:
        model(paddle.randn([2, 4])).mean().backward()
        optimizer.step()

    found = Recorded.read(recorder.path)
    taken = [found.inputs(at) for at, name in enumerate(found.names) if name == "adam_"]
    weights = set(found.leaves(LeafKind.PARAMETER))
    assert [len(weights.intersection(one)) for one in taken] == [1] * 4


def test_program_none_records_none(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    with padiff.record(model, name="model", out=tmp_path, program=False) as recorder:
        model(paddle.randn([2, 3]))

    with open_dump(recorder.path).open(0, 0) as step:
        assert step.program() is None


def test_what_cannot_be_recorded_ends_the_program_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object, name: str) -> bool:
        raise ValueError(f"no {name}")

    monkeypatch.setattr(PaddleOperators, "may_draw", fail)
    model = _Wrapped(lambda _, x: x + 1)
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        result = model(paddle.zeros([2]))

    dump = open_dump(recorder.path)
    assert result.tolist() == [1, 1]
    assert any(note.startswith("no program was recorded") for note in dump.manifest.notes)
    with dump.open(0, 0) as step:
        assert step.program() is None


def _bindings() -> dict[tuple[str, str], int]:
    found = {
        (owner, name): id(thing)
        for owner, module in list(sys.modules.items())
        if owner.startswith("paddle") and isinstance(module, ModuleType)
        for name, thing in vars(module).items()
        if callable(thing)
    }
    tensor = vars(paddle.Tensor).items()
    return found | {("paddle.Tensor", name): id(thing) for name, thing in tensor}


_THERE = ModuleType("module_that_was_there")


def test_nothing_stays_installed(tmp_path: Path) -> None:
    before = _bindings()
    late = ModuleType("late_module")
    vars(_THERE)["matmul"] = None

    def function(_: nn.Layer, x: paddle.Tensor) -> paddle.Tensor:
        vars(late)["matmul"] = vars(_THERE)["matmul"] = paddle._C_ops.matmul
        sys.modules["late_module"] = late
        assert _bindings() != before
        raise ValueError("a bug of the model")

    sys.modules["module_that_was_there"] = _THERE
    try:
        for _ in range(2):
            with pytest.raises(ValueError, match="a bug"):
                recorded(_Wrapped(function), paddle.randn([2, 3]), folder=tmp_path)
            assert _bindings() == before
            assert vars(late)["matmul"] is vars(_THERE)["matmul"] is paddle._C_ops.matmul
    finally:
        del sys.modules["late_module"], sys.modules["module_that_was_there"]


def test_operators_of_one_watch_stay_seen_while_another_ends() -> None:
    seen: list[str] = []

    def run(name: str, function: Thing, args: Thing, kwargs: Thing) -> Thing:
        seen.append(name)
        return function(*args, **kwargs)

    operators = PaddleOperators()
    x = paddle.ones([2])
    first, second = operators.watch(run), operators.watch(lambda _, f, a, k: f(*a, **k))
    before = _bindings()
    first.__enter__()
    second.__enter__()
    second.__exit__(None, None, None)
    x.exp()
    first.__exit__(None, None, None)

    assert seen == ["paddle._C_ops.exp"]
    assert _bindings() == before


def test_what_takes_all_of_a_tensor_has_its_gradient_once(tmp_path: Path) -> None:
    """Paddle gives a slice of everything the tensor's own place in the graph."""
    paddle.seed(0)

    def forward(self: Thing, x: Thing) -> Thing:
        logits = self.linear(x)
        return paddle.concat([logits, self.table(logits[:, -1:].argmax(-1))], 1)

    model = _Wrapped(forward, linear=nn.Linear(4, 4), table=nn.Embedding(4, 4))
    with padiff.record(model, name="model", out=tmp_path):
        model(paddle.randn([2, 1, 4])).square().mean().backward()

    found = padiff.audit(tmp_path / "model")

    assert found
    assert not found.origins
