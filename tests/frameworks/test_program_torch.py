"""Every operator of a torch model's forward pass and loss is in its program."""

from __future__ import annotations

import copy
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import padiff
from benchmarks.score.architectures import ARCHITECTURES
from padiff.dumper.adapters.torch_operators import TorchOperators
from padiff.dumpfile import ConfigError, LeafKind, Mode, open_dump
from tests.support.clean_models import record_torch
from tests.support.command import run_python
from tests.support.oracles import TorchOracle
from tests.support.planted_authors import MODELS
from tests.support.programs import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable


Thing = Any
ROOT = Path(__file__).parents[2]


class _Wrapped(nn.Module):
    """A module around a function."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Thing) -> Thing:
        return self.function(self, *args)


def recorded(
    model: nn.Module, *inputs: Thing, folder: Path, backward: bool = True, **named: Thing
) -> tuple[Recorded, Any]:
    with padiff.record(model, name="model", out=folder) as recorder:
        result = model(*inputs, **named)
        if backward:
            result.mean().backward()
    return Recorded.read(recorder.path), result


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.asarray])
def test_an_array_that_becomes_a_tensor_in_a_step_is_an_input(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    """Data of numpy is no part of what is computed, as long as no module makes it."""
    model, array = nn.Linear(3, 2), np.arange(6.0, dtype=np.float32).reshape(2, 3)
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        loss = (model(make(array)) - make(array[:, :2] + 1)) * make(0.5)
        loss.mean().backward()

    found = Recorded.read(recorder.path)

    assert found.names == ["linear", "sub", make.__name__, "mul", "mean"]
    assert len(found.leaves(LeafKind.INPUT)) == 2


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_no_forward_computation_is_outside_the_program(name: str, tmp_path: Path) -> None:
    oracle = TorchOracle()

    found = Recorded.read(record_torch(name, tmp_path, oracle=oracle))

    assert oracle.seen > 50
    assert oracle.missed == []
    assert found.leaves(LeafKind.HOLE) == []
    assert found.leaves(LeafKind.PARAMETER)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_others_has_no_hole(name: str, tmp_path: Path) -> None:
    model, inputs = MODELS[name]()
    with padiff.record(model.eval(), name="model", out=tmp_path) as recorder:
        model(**inputs)

    found = Recorded.read(recorder.path)

    assert found.leaves(LeafKind.HOLE) == []
    assert found.leaves(LeafKind.PARAMETER)


@pytest.mark.parametrize("name", MODELS)
def test_recording_changes_no_bit(name: str, tmp_path: Path) -> None:
    plain, inputs = MODELS[name]()
    watched_model = copy.deepcopy(plain)
    runs = []
    for model, is_recorded in ((plain.train(), False), (watched_model.train(), True)):
        torch.manual_seed(3)
        with ExitStack() as exits:
            if is_recorded:
                exits.enter_context(padiff.record(model, name="model", out=tmp_path))
            output = model(**inputs)[0]
            output.mean().backward()
        gradients = [one.grad for one in model.parameters()]
        runs.append((output, gradients, torch.random.get_rng_state()))

    assert torch.equal(runs[0][0], runs[1][0])
    assert torch.equal(runs[0][2], runs[1][2])
    for plain_gradient, gradient in zip(runs[0][1], runs[1][1], strict=True):
        assert (plain_gradient is None) is (gradient is None)
        assert gradient is None or torch.equal(plain_gradient, gradient)


def test_values_flow_from_operator_to_operator(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: torch.relu(self.one(x)) * 2, one=nn.Linear(3, 4))

    found, _ = recorded(model, torch.randn(2, 3), folder=tmp_path)

    assert found.names == ["linear", "relu", "mul", "mean"]
    assert found.inputs(1) == found.outputs(0)
    assert found.inputs(2) == found.outputs(1)
    given = found.inputs(0)
    assert given[0] in found.leaves(LeafKind.INPUT)
    assert set(given[1:]) == set(found.leaves(LeafKind.PARAMETER))
    calls = [found.index.modules[found.index.calls[one].module].path
             for one in found.program.operator_call[:3]]  # fmt: skip
    assert calls == ["one", "", ""]
    assert int(found.program.operator_call[3]) == -1


def test_operators_name_the_users_line(tmp_path: Path) -> None:
    model = _Wrapped(lambda _, x: x.tanh())

    found, _ = recorded(model, torch.randn(2), folder=tmp_path, backward=False)

    site = int(found.program.operator_site[0])
    assert found.program.strings[int(found.program.site_file[site])].endswith(
        "test_program_torch.py"
    )


def test_an_operator_in_place_makes_a_new_value(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        z = y.mul(2)
        y.add_(1)
        return y + z

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path, backward=False)

    changed = found.position("add_")
    assert found.has_mode(changed, Mode.IN_PLACE)
    assert found.outputs(changed) != found.inputs(changed)
    assert found.inputs(found.position("add"))[0] == found.outputs(changed)[0]


def test_a_view_of_a_changed_tensor_is_taken_again(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        row = y.select(0, 0)
        y.mul_(3)
        return row.exp()

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path, backward=False)

    assert found.names[:5] == ["clone", "select", "mul_", "select", "exp"]
    assert found.inputs(3) == found.outputs(2)
    assert found.inputs(4) == found.outputs(3)


def test_a_tensor_changed_through_its_view_is_a_new_value(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.select(0, 0).zero_()
        return y.exp()

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path, backward=False)

    assert found.names[:5] == ["clone", "select", "zero_", "overwrite", "exp"]
    assert found.inputs(3) == [*found.outputs(0), *found.outputs(2)]
    assert found.inputs(4) == found.outputs(3)


def test_setting_items_is_an_operator(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(2, 3)
        y[:, 1:] = x
        return y.exp()

    found, _ = recorded(_Wrapped(function), torch.randn(2, 2), folder=tmp_path, backward=False)

    written = found.position("__setitem__")
    assert found.has_mode(written, Mode.IN_PLACE)
    assert found.inputs(found.position("exp")) == found.outputs(written)


def test_a_tensor_that_its_own_view_is_written_into_is_no_view_of_it(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0] = y[1]  # a change of y by a view of y
        first = y[0]
        y.mul_(2)
        return first + y[1]

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path, backward=False)

    assert found.names.count("__setitem__") == 1
    assert found.inputs(found.position("mul_")) == found.outputs(found.position("__setitem__"))


def test_functions_have_their_public_names(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        first, second = torch.split(x, 1)
        return torch.einsum("ij,ij->i", first, second)

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path, backward=False)

    strings = found.program.strings
    names = {strings[one] for one in found.program.operator_name}
    assert {"torch.split", "torch.einsum"} <= names


def test_outcomes_of_a_generator_of_ones_own_are_random(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(3, generator=torch.Generator().manual_seed(1))

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path, backward=False)

    assert found.leaves(LeafKind.RANDOM) == found.outputs(found.position("randn"))


def test_random_outcomes_are_leaves_with_elements(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: self.drop(x) + torch.rand(3), drop=nn.Dropout(0.5))

    found, _ = recorded(model.train(), torch.randn(2, 3), folder=tmp_path, backward=False)

    drawn = found.leaves(LeafKind.RANDOM)
    assert drawn == [
        *found.outputs(found.position("dropout")),
        *found.outputs(found.position("rand")),
    ]
    assert {str(found.content(one).content) for one in drawn} == {"full"}


def test_dropout_in_eval_mode_draws_nothing(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: self.drop(x), drop=nn.Dropout(0.5))

    found, _ = recorded(model.eval(), torch.randn(2, 3), folder=tmp_path, backward=False)

    assert found.leaves(LeafKind.RANDOM) == []


def test_numbers_read_into_python_are_operators(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > -1e9 else x

    found, _ = recorded(_Wrapped(function), torch.randn(2), folder=tmp_path, backward=False)

    assert found.names == ["sum", "item", "mul"]


def test_a_value_that_nothing_recorded_made_is_a_hole(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            unseen = x * 3
        return unseen.exp()

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path, backward=False)

    assert len(found.leaves(LeafKind.HOLE)) == 1


def test_every_value_has_its_gradient(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: torch.relu(self.one(x)), one=nn.Linear(3, 4))

    found, _ = recorded(model, torch.randn(2, 3), folder=tmp_path)

    made = [found.outputs(at)[0] for at in range(3)]
    assert all(found.program.value_gradient[one] >= 0 for one in made)


def test_a_tensor_that_wants_a_gradient_only_later_has_one(tmp_path: Path) -> None:
    def function(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        scale = torch.full((3,), 2.0)
        without = x * scale
        again = x * scale
        return without + again + x * scale.requires_grad_()

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path)

    full, *products = (at for at, name in enumerate(found.names) if name.endswith(("full", "mul")))
    (scale,) = found.outputs(full)
    assert [scale in found.inputs(at) for at in products] == [True] * 3
    assert found.program.value_gradient[scale] >= 0
    assert all(found.program.value_gradient[found.outputs(at)[0]] < 0 for at in products[:2])


def test_an_output_that_nothing_uses_has_no_gradient(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: self.one(x).chunk(2, -1)[0].tanh(), one=nn.Linear(3, 4))

    found, _ = recorded(model, torch.randn(2, 3), folder=tmp_path)

    used, unused = found.outputs(found.position("chunk"))
    assert found.program.value_gradient[used] >= 0
    assert found.program.value_gradient[unused] == -1


def _checkpointed(reentrant: bool) -> Callable[..., Any]:
    return lambda self, x: checkpoint(self.one, x, use_reentrant=reentrant).tanh()


def _autocast(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return self.one(x).float()  # type: ignore[no-any-return, operator]


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Thing, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Thing, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] * 2


PROGRAMS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "checkpoint": (_checkpointed(reentrant=False), ["linear", "tanh"]),
    "reentrant checkpoint": (_checkpointed(reentrant=True), ["linear", "tanh"]),
    "autocast": (_autocast, ["linear", "float"]),
    "functional_call": (
        lambda self, x: torch.func.functional_call(
            self.one, {"weight": self.one.weight * 2, "bias": self.one.bias}, (x,)
        ),
        ["mul", "linear"],
    ),
    "fx": (lambda self, x: torch.fx.symbolic_trace(self.one)(x), ["linear"]),
    "autograd function": (lambda _, x: _Doubled.apply(x).tanh(), ["mul", "tanh"]),  # type: ignore[no-untyped-call]
    "attention": (lambda self, x: self.attention(x, x, x)[0], ["multi_head_attention_forward"]),
    "lstm": (lambda self, x: self.lstm(x)[0], ["lstm"]),
    "compiled": (lambda self, x: torch.compile(self.one, backend="eager")(x), ["linear"]),  # type: ignore[no-untyped-call]
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_every_way_to_call_torch(name: str, tmp_path: Path) -> None:
    function, expected = PROGRAMS[name]
    model = _Wrapped(
        function,
        one=nn.Linear(4, 4),
        attention=nn.MultiheadAttention(4, 2, batch_first=True),
        lstm=nn.LSTM(4, 4),
    )

    found, _ = recorded(model, torch.randn(2, 3, 4, requires_grad=True), folder=tmp_path)

    names = [one for one in found.names if one in expected]
    assert names == expected
    assert found.leaves(LeafKind.HOLE) == []


def test_inference_mode_is_recorded(tmp_path: Path) -> None:
    model = _Wrapped(lambda self, x: self.one(x).tanh(), one=nn.Linear(3, 3))

    with torch.inference_mode():
        found, _ = recorded(model, torch.randn(2, 3), folder=tmp_path, backward=False)

    assert found.names == ["linear", "tanh"]
    assert found.has_mode(0, Mode.NO_GRAD)


def _scripted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * 3) + y


def _twice(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function its argument under a keyword, too."""
    return lambda x: function(x, y=x)


def _quiet(make: Callable[..., Any], *args: Thing) -> Any:  # noqa: ANN401
    """Let TorchScript work, which warns that it is of yesterday, and that jvp needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(*args)


UNSEEN: dict[str, tuple[Callable[[], Any], str]] = {
    "scripted function": (
        lambda: _twice(_quiet(torch.jit.script, _scripted)),
        "torch.jit._scripted",
    ),
    "traced function": (
        lambda: _quiet(torch.jit.trace, torch.tanh, torch.ones(2, 4)),
        "torch.jit.tanh",
    ),
    "scripted module": (
        lambda: _quiet(torch.jit.script, nn.Linear(4, 4)),
        "torch.jit.Linear.forward",
    ),
    "traced module": (
        lambda: _quiet(torch.jit.trace, nn.Linear(4, 4), torch.ones(2, 4)),
        "torch.jit.Linear.forward",
    ),
    "frozen module": (
        lambda: _quiet(torch.jit.freeze, _quiet(torch.jit.script, nn.Linear(4, 4).eval())),
        "torch.jit.Linear.forward",
    ),
    "vmap": (lambda: torch.func.vmap(lambda row: row.exp().cumsum(0)), "torch.vmap"),
    "vmap of a module": (lambda: torch.func.vmap(nn.Linear(4, 4)), "torch.vmap"),
    "grad": (lambda: torch.func.grad(lambda x: x.exp().sum()), "torch.func.grad"),
    "jacobian": (
        lambda: lambda x: torch.func.jacrev(torch.tanh)(x).sum((0, 1)),
        "torch.vmap",
    ),
    "jvp": (
        lambda: lambda x: _quiet(torch.func.jvp, torch.tanh, (x,), (x,))[1],
        "torch.func.jvp",
    ),
    "cond": (
        lambda: lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
        "torch.cond",
    ),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_function_modes_do_not_see_is_one_operator(name: str, tmp_path: Path) -> None:
    make, operator = UNSEEN[name]
    function = make()
    x = torch.randn(2, 4)
    expected = function(x.sin()).cos()

    model = _Wrapped(lambda _, x: function(x.sin()).cos())
    found, result = recorded(model, x, folder=tmp_path, backward=False)

    texts, sites = found.program.strings, found.program.operator_site.tolist()
    at = next(at for at, one in enumerate(found.program.operator_name) if texts[one] == operator)
    assert found.names[0] == "sin"
    assert found.names[-1] == "cos"
    assert set(found.outputs(0)) <= set(found.inputs(at)) or "jacobian" in name
    assert found.leaves(LeafKind.HOLE) == []
    assert texts[found.program.site_file[sites[at]]].endswith("test_program_torch.py")
    assert torch.allclose(result, expected)


OVERLAPPING = """
import sys, torch
from padiff.dumper.adapters.torch_unseen import force_eager

def stance():
    return torch._dynamo.eval_frame._stance.stance

one, two = force_eager(), force_eager()
before = torch.compile
one.__enter__()
two.__enter__()
kept = torch.compile
assert "torch._dynamo" not in sys.modules
torch.compile(torch.nn.ReLU(), backend="eager")
print(stance(), end=" ")
if sys.argv[1] == "nested":
    one, two = two, one
one.__exit__(None, None, None)
print(stance(), end=" ")
two.__exit__(None, None, None)
kept(torch.nn.ReLU(), backend="eager")
assert torch.compile is before
print(stance())
"""


@pytest.mark.parametrize("order", ["nested", "crossed"])
def test_what_is_compiled_after_recording_is_compiled(order: str) -> None:
    done = run_python("-c", OVERLAPPING, order, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["force_eager", "force_eager", "default"]


LAZY = """
import sys, torch, padiff
from pathlib import Path
from torch import nn
from tests.support.programs import Recorded

class Net(nn.Module):
    def forward(self, x):
        return torch.compile(lambda y: torch.tanh(y * 2), backend="eager")(x).exp()

assert "torch._dynamo" not in sys.modules
before = torch.compile
model = Net()
with padiff.record(model, name="model", out=Path(sys.argv[1])) as recorder:
    model(torch.ones(2))
assert torch.compile is before
print(*Recorded.read(recorder.path).names)
"""


def test_what_is_compiled_within_a_step_runs_eagerly(tmp_path: Path) -> None:
    done = run_python("-c", LAZY, tmp_path, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ones", "mul", "tanh", "exp"]


def test_a_scripted_model_is_one_operator(tmp_path: Path) -> None:
    model = _quiet(torch.jit.script, nn.Linear(3, 4))

    found, _ = recorded(model, torch.randn(2, 3), folder=tmp_path)

    assert found.forward_names == ["forward", "mean"]
    assert found.inputs(1) == found.outputs(0)


def test_what_a_model_returns_and_nothing_recorded_made_is_a_hole(tmp_path: Path) -> None:
    def function(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            return x * 3

    found, _ = recorded(_Wrapped(function), torch.randn(2, 3), folder=tmp_path, backward=False)

    assert len(found.leaves(LeafKind.HOLE)) == 1


def test_a_loss_and_its_labels_are_in_the_program(tmp_path: Path) -> None:
    model = nn.Linear(3, 5)
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        loss = functional.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 2, 3]))
        recorder.loss(loss)
        loss.backward()  # type: ignore[no-untyped-call]

    found = Recorded.read(recorder.path)

    assert found.names[-1] == "cross_entropy"
    loss_record = next(one.id for one in found.index.records if str(one.role) == "loss")
    borders = dict(zip(found.program.border_record.tolist(), found.program.border_value.tolist(),
                       strict=True))  # fmt: skip
    assert borders[loss_record] == found.outputs(len(found.names) - 1)[0]


def test_the_optimizer_and_clipping_are_no_part_of_the_forward_program(tmp_path: Path) -> None:
    model = nn.Linear(3, 5)
    optimizer = torch.optim.Adam(model.parameters())
    with padiff.record(model, name="model", out=tmp_path, optimizer=optimizer) as recorder:
        for _ in range(2):
            model(torch.randn(4, 3)).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()

    for step in range(2):
        names = Recorded.read(recorder.path, step).forward_names
        assert [one for one in names if one != "randn"] == ["linear", "square", "mean"]


def test_program_none_records_none(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    with padiff.record(model, name="model", out=tmp_path, program=False) as recorder:
        model(torch.randn(2, 3))

    with open_dump(recorder.path).open(0, 0) as step:
        assert step.program() is None


def test_a_word_for_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected True or False"):
        padiff.record(nn.Linear(3, 3), name="model", out=tmp_path, program="none")  # type: ignore[arg-type]


def test_what_cannot_be_recorded_ends_the_program_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object, name: str) -> bool:
        raise ValueError(f"no {name}")

    monkeypatch.setattr(TorchOperators, "may_draw", fail)
    model = _Wrapped(lambda _, x: x + 1)
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        result = model(torch.zeros(2))

    dump = open_dump(recorder.path)
    assert torch.equal(result, torch.ones(2))
    assert any(note.startswith("no program was recorded") for note in dump.manifest.notes)
    with dump.open(0, 0) as step:
        assert step.program() is None


def _patched() -> list[object]:
    places = (
        (torch._C.ScriptFunction, "__call__"),
        (torch._functorch.apis, "vmap_impl"),
        (torch, "compile"),
    )
    return [vars(holder)[name] for holder, name in places]


def test_nothing_stays_installed(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    before = _patched()

    recorded(model, torch.randn(2, 3), folder=tmp_path)

    assert _patched() == before
    assert (
        torch.overrides._len_torch_function_stack() == 0
        if hasattr(torch.overrides, "_len_torch_function_stack")
        else torch._C._len_torch_function_stack() == 0
    )
