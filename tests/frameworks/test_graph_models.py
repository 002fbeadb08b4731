"""Models that torch has compiled to a graph: scripted, traced, exported, quantised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.dumpfile import Role
from tests.support.located import compare_dumps
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GIVEN = torch.linspace(-1.0, 1.0, 32).reshape(4, 8)


class Scaled(nn.Module):
    """A class of the user's own, with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def plain(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), Scaled(), nn.LayerNorm(8))


def scripted() -> Any:  # noqa: ANN401 - untyped
    return torch.jit.script(plain(1))


def traced() -> Any:  # noqa: ANN401
    return torch.jit.trace(plain(1), GIVEN)  # type: ignore[no-untyped-call]


def exported() -> nn.Module:
    made: nn.Module = torch.export.export(plain(1), (GIVEN,)).module()
    return made


def integers() -> nn.Module:
    class Rounds(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
            return Lost.apply(self.f(x))  # type: ignore[no-untyped-call]

        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(8, 8)

    return Rounds()


class Lost(torch.autograd.Function):
    """Has no backward pass, like kernels of quantised layers."""

    @staticmethod
    def forward(_context: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return x.round()


def dumped(folder: Path, make: Callable[[], Any], *more: str) -> tuple[int, Path]:
    np.save(folder / "x.npy", GIVEN.numpy())
    arguments = ["dump", "--model", f"{__name__}:{make.__name__}", "--name", make.__name__]
    arguments += ["--inputs", str(folder / "x.npy"), "--out", str(folder), *more]
    return main(arguments), folder / make.__name__


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("make", [scripted, traced])
def test_scripted_model_takes_weights_and_is_one_call(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    reference = dumped(tmp_path, plain)[1]

    status, path = dumped(tmp_path, make, "--weights-from", str(reference))

    got, wanted = Recorded.read(path), Recorded.read(reference)
    assert status == 0
    assert [module.class_name for module in got.index.modules] == [
        module.class_name for module in wanted.index.modules
    ]
    assert np.array_equal(got.array(Role.OUTPUT, ""), wanted.array(Role.OUTPUT, ""))
    assert main(["compare", str(reference), str(path)]) == 0


def test_exported_program_is_recorded(tmp_path: Path) -> None:
    status, path = dumped(tmp_path, exported)

    got = Recorded.read(path)
    assert status == 0
    assert not any(module.training for module in got.index.modules)
    assert np.array_equal(got.array(Role.OUTPUT, ""), plain(1).eval()(GIVEN).detach().numpy())


def test_model_without_a_backward_pass_says_how_to_record_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = dumped(tmp_path, integers)

    said = capsys.readouterr().err
    assert status == 2
    assert "cannot run backward: it raised NotImplementedError" in said
    assert "hint: --phase forward" in said
    assert dumped(tmp_path, integers, "--phase", "forward")[0] == 0


class Activated(nn.Module):
    """Two layers with an activation between them, which may have a parameter."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.activation, self.last = nn.Linear(8, 8), activation, nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.activation(self.first(x)))
        return out


def first_origin(folder: Path, *models: nn.Module) -> tuple[str, str]:
    """Record the forward passes and name the first origin."""
    paths = []
    for number, model in enumerate(models):
        with padiff.record(model, name=str(number), out=folder, phase="forward") as recorder:
            model(GIVEN)
        paths.append(recorder.path)
    end = compare_dumps(*paths).origins[0].pair.reference
    assert end is not None
    return end.address.module, str(end.address.role)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantised_layer_is_the_partner_of_the_layer_at_its_place(tmp_path: Path) -> None:
    model = Activated(nn.GELU()).eval()
    quantised = torch.ao.quantization.quantize_dynamic(model)  # type: ignore[no-untyped-call]

    found = first_origin(tmp_path, model, quantised)

    assert found == ("first", "output")


@pytest.mark.parametrize("turned", [False, True])
def test_activation_that_lost_its_parameter_is_the_origin(turned: bool, tmp_path: Path) -> None:
    models = Activated(nn.PReLU()), Activated(nn.ReLU())

    found = first_origin(tmp_path, *(models[::-1] if turned else models))

    assert found[0] == "activation"
