"""Weights loaded into live models: dumps and checkpoint files of both frameworks, and refusals."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from safetensors.numpy import save_file

import padiff
from padiff.dumper.adapters import load
from padiff.dumper.recording.live import LiveSide
from padiff.dumper.weights.checkpoint import read_arrays, write_arrays
from padiff.dumper.weights.weights import assign_weight, load_weights
from padiff.dumpfile import ConfigError, open_dump
from padiff.pairing import carry, plan_weights

if TYPE_CHECKING:
    from pathlib import Path


class _Torch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, bias=False)
        self.bn = torch.nn.BatchNorm2d(4)
        self.embed = torch.nn.Embedding(6, 8)
        self.up_proj = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 5)


class _Paddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.conv = paddle.nn.Conv2D(3, 4, 3, bias_attr=False)
        self.bn = paddle.nn.BatchNorm2D(4)
        self.embed = paddle.nn.Embedding(6, 8)
        self.up_proj = paddle.nn.Linear(4, 4)
        self.head = paddle.nn.Linear(4, 5)


def _torch_model() -> _Torch:
    torch.manual_seed(3)
    model = _Torch()
    with torch.no_grad():
        for tensor in (*model.parameters(), model.bn.running_mean, model.bn.running_var):
            assert tensor is not None
            tensor.uniform_(0.5, 1.5)
    return model


def _arrays_of(model: _Torch) -> dict[str, Any]:
    return {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}


def _assert_equal(reference: _Torch, candidate: Any) -> None:  # noqa: ANN401 - untyped framework
    state = candidate.state_dict()
    for name, array in _arrays_of(reference).items():
        other = {"bn.running_mean": "bn._mean", "bn.running_var": "bn._variance"}.get(name, name)
        if name == "bn.num_batches_tracked":
            continue
        expected = array.T if name in {"up_proj.weight", "head.weight"} else array
        np.testing.assert_array_equal(state[other].numpy(), expected)


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_checkpoint_of_torch_loads_into_paddle(tmp_path: Path, suffix: str) -> None:
    reference, candidate = _torch_model(), _Paddle()
    path = tmp_path / f"weights.{suffix}"
    if suffix == "pth":
        torch.save(reference.state_dict(), path)
    else:
        save_file(_arrays_of(reference), path)
    identity = id(candidate.head.weight)

    load_weights(candidate, load("paddle"), path)

    _assert_equal(reference, candidate)
    assert id(candidate.head.weight) == identity


def test_checkpoint_of_paddle_loads_into_torch(tmp_path: Path) -> None:
    reference, between, candidate = _torch_model(), _Paddle(), _Torch()
    assign_weight(reference, between)
    path = tmp_path / "weights.pdparams"
    paddle.save(between.state_dict(), str(path))

    load_weights(candidate, load("torch"), path)

    for name, array in _arrays_of(reference).items():
        if name != "bn.num_batches_tracked":
            np.testing.assert_array_equal(candidate.state_dict()[name].numpy(), array)


def test_two_live_models_are_made_equal() -> None:
    reference, candidate = _torch_model(), _Paddle()

    plan = assign_weight(reference, candidate)

    _assert_equal(reference, candidate)
    assert not plan.missing


def test_dtype_of_the_target_stays() -> None:
    reference, candidate = _torch_model().double(), _Paddle()

    assign_weight(reference, candidate)

    assert candidate.head.weight.dtype == paddle.float32


def test_all_problems_are_listed_and_nothing_is_changed() -> None:
    reference, candidate = _torch_model(), _Paddle()
    candidate.head = paddle.nn.Linear(4, 7)
    candidate.extra = paddle.nn.Linear(9, 9)
    before = {name: tensor.numpy().copy() for name, tensor in candidate.state_dict().items()}

    with pytest.raises(ConfigError) as caught:
        assign_weight(reference, candidate)

    text = str(caught.value)
    assert all(name in text for name in ("head.weight", "head.bias", "extra.weight", "extra.bias"))
    for name, tensor in candidate.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), before[name])


@pytest.mark.parametrize("is_used", [False, True])
def test_a_weight_that_no_result_needs_may_lack_a_partner(tmp_path: Path, *, is_used: bool) -> None:
    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.pooler = torch.nn.Linear(4, 5), torch.nn.Linear(5, 7)
            self.mask = torch.nn.Parameter(torch.ones(9))

        def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
            made = self.body(x)
            pooled = self.pooler(made)
            return (made, pooled) if is_used else made

    reference, candidate = Pooled(), paddle.nn.Sequential(paddle.nn.Linear(4, 5))
    with padiff.record(reference, name="reference", out=tmp_path, phase="forward"):
        reference(torch.ones(2, 4))
    with open_dump(tmp_path / "reference").open(0) as file:
        plan = plan_weights(file, LiveSide(candidate, load("paddle")))

    lone = {file.index.records[one.record].slot for one in plan.alone if one.is_missing}
    assert lone == ({".weight", ".bias"} if is_used else set())
    assert ("mask" in plan.notes[-1], "pooler.bias" in plan.notes[-1]) == (True, not is_used)


def test_what_fits_is_loaded_when_not_strict() -> None:
    reference, candidate = _torch_model(), _Paddle()
    candidate.extra = paddle.nn.Linear(9, 9)

    assign_weight(reference, candidate, strict=False)

    _assert_equal(reference, candidate)


class _Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, ("1/0",)


@pytest.mark.parametrize("suffix", ["pdparams", "pth"])
def test_pickle_that_is_no_state_dict_is_refused_and_not_executed(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"weights.{suffix}"
    path.write_bytes(pickle.dumps({"weight": _Bomb()}))

    with pytest.raises(ConfigError, match="expected"):
        load_weights(_Paddle(), load("paddle"), path)


def test_whole_model_in_a_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save(_torch_model(), path)

    with pytest.raises(ConfigError, match="expected a state dict") as caught:
        load_weights(_Paddle(), load("paddle"), path)

    assert "state_dict()" in (caught.value.hint or "")


@pytest.mark.parametrize("suffix", ["pdparams", "pth", "safetensors"])
def test_truncated_checkpoint_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights.{suffix}"
    write_arrays(path, _arrays_of(_torch_model()))
    path.write_bytes(path.read_bytes()[:-40])

    with pytest.raises(ConfigError, match="cannot read weights"):
        load_weights(_Paddle(), load("paddle"), path)


@pytest.mark.parametrize("suffix", ["pdparams", "pth", "safetensors"])
def test_written_checkpoint_reads_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"weights.{suffix}"
    arrays = _arrays_of(_torch_model())

    write_arrays(path, arrays)

    found, _ = read_arrays(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape


def test_paddle_loads_the_written_pdparams(tmp_path: Path) -> None:
    path = tmp_path / "weights.pdparams"
    write_arrays(path, {"weight": np.ones((2, 3), np.float32)})

    state = paddle.load(str(path))

    assert isinstance(state["weight"], paddle.Tensor)


def test_wrong_direction_of_a_users_rule_is_refused(tmp_path: Path) -> None:
    path, map_file = tmp_path / "weights.pth", tmp_path / "map.toml"
    torch.save(_torch_model().state_dict(), path)
    map_file.write_text(
        '[[weight]]\nreference = "head.weight"\ncandidate = "head.weight"\nrule = "identity"\n'
    )

    with pytest.raises(ConfigError, match=r"head\.weight"):
        load_weights(_Paddle(), load("paddle"), path, map_file=map_file)


@pytest.mark.parametrize(("dim", "is_same"), [(1, True), (0, False)])
def test_weight_norm_of_a_square_linear_is_loaded_only_along_the_same_axis(
    dim: int, *, is_same: bool
) -> None:
    reference = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4))
    candidate = paddle.nn.utils.weight_norm(paddle.nn.Linear(4, 4), dim=dim)
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    with torch.no_grad():
        reference.parametrizations.weight.original0.uniform_(1.0, 2.0)

    if not is_same:
        with pytest.raises(ConfigError, match="another function"):
            assign_weight(reference, candidate)
        return
    assign_weight(reference, candidate)

    expected = reference(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(candidate(paddle.to_tensor(x)).numpy(), expected, atol=1e-5)


def test_moments_of_an_optimizer_are_carried_by_the_rules_of_the_weights() -> None:
    reference, candidate = _torch_model(), _Paddle()
    plan = assign_weight(reference, candidate)
    x = np.random.default_rng(4).normal(size=(3, 4)).astype(np.float32)
    ours = torch.optim.Adam(reference.parameters(), lr=0.1)
    theirs = paddle.optimizer.Adam(0.1, parameters=candidate.parameters())

    reference.head(reference.up_proj(torch.tensor(x))).square().sum().backward()
    candidate.head(candidate.up_proj(paddle.to_tensor(x))).square().sum().backward()
    ours.step()
    theirs.step()

    sides = LiveSide(reference, load("torch")), LiveSide(candidate, load("paddle"))
    kept = theirs.state_dict()
    for one, two in (("exp_avg", "moment1"), ("exp_avg_sq", "moment2")):
        moments = {
            name: ours.state[parameter][one].numpy()
            for name, parameter in reference.named_parameters()
            if parameter in ours.state
        }
        made = carry(plan, *sides, moments)
        assert sorted(made) == ["head.bias", "head.weight", "up_proj.bias", "up_proj.weight"]
        for name, array in made.items():
            stored = kept[f"{candidate.state_dict()[name].name}_{two}_0"].numpy()
            np.testing.assert_allclose(stored, array, rtol=1e-4, atol=1e-5)
