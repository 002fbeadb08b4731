"""What is torch's own: dtypes, wrappers, content keys, checkpoints, fused paths."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import padiff
from padiff.dumper import Recorder, RecordSettings, adapters
from padiff.dumper.adapters.torch import TorchAdapter
from padiff.dumper.adapters.torch_operators import TorchOperators
from padiff.dumpfile import ConfigError, Role, open_dump
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

ADAPTER = TorchAdapter()


@pytest.mark.parametrize(
    "name", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "complex64", "int8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_snapshot_and_tensor_are_inverse(name: str, shape: tuple[int, ...]) -> None:
    source = torch.ones(shape).to(getattr(torch, name))

    array = ADAPTER.snapshot(source)
    back = ADAPTER.tensor(array, device="cpu", dtype=None)

    assert (array.shape, array.dtype.name) == (shape, name)
    assert (back.dtype, back.shape) == (source.dtype, source.shape)
    assert torch.equal(
        back.float() if "float8" in name else back,
        source.to(torch.float32 if "float8" in name else source.dtype),
    )


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e5m2", "complex64", "bool"])
def test_small_tensors_are_copied_as_their_elements_are(name: str) -> None:
    source = torch.tensor([[1, 0, 3], [0, 5, 6]]).to(getattr(torch, name))
    parts = source, source[1], source[:, 1:].contiguous()

    for part in parts:
        copied = ADAPTER.small_bytes(part, 1 << 16)

        assert copied == (ADAPTER.snapshot(part).tobytes(), name, part.shape)


def test_a_small_tensor_is_copied_in_the_order_of_its_axes() -> None:
    source = torch.arange(6.0).reshape(2, 3).requires_grad_()

    for part in (source.t(), source[:, ::2], source.expand(2, 2, 3)):
        assert ADAPTER.small_bytes(part, 64) == (
            ADAPTER.snapshot(part).tobytes(),
            "float32",
            part.shape,
        )


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, 3, dtype=torch.bfloat16).t(),
        torch.ones(0),
        torch.ones(64),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
    ],
    ids=["transposed", "empty", "large", "conjugate", "negative", "sparse", "meta"],
)
def test_what_does_not_lie_as_dumps_write_it_is_not_copied_as_it_is(tensor: torch.Tensor) -> None:
    assert ADAPTER.small_bytes(tensor, 64) is None


def test_snapshot_shares_no_memory() -> None:
    source = torch.zeros(3)

    array = ADAPTER.snapshot(source)
    source.add_(1)

    assert not array.any()
    assert array.flags.c_contiguous


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e5m2", "bool", "complex64"])
def test_elements_lie_in_the_tensors_own_memory(name: str) -> None:
    source = torch.ones(3, 4).to(getattr(torch, name))

    assert ADAPTER.elements(source).ctypes.data == source.data_ptr()
    assert ADAPTER.elements(source.t()).flags.c_contiguous


def test_snapshot_resolves_lazy_conjugation_and_sparse_layout() -> None:
    value = torch.tensor([1 + 2j])

    assert ADAPTER.snapshot(value.conj())[0] == 1 - 2j
    assert np.array_equal(ADAPTER.snapshot(torch.eye(2).to_sparse()), np.eye(2))


def test_content_key_changes_with_content_and_form() -> None:
    tensor = torch.zeros(2, 3)
    key = ADAPTER.content_key(tensor)

    assert ADAPTER.content_key(tensor.detach()) == key
    assert ADAPTER.content_key(tensor.t()) != key
    assert ADAPTER.content_key(tensor.view(3, 2)) != key
    assert ADAPTER.content_key(tensor.view(torch.int32)) != key
    tensor.add_(1)
    assert ADAPTER.content_key(tensor) != key


def test_inference_tensors_have_no_content_key() -> None:
    with torch.inference_mode():
        assert ADAPTER.content_key(torch.zeros(2)) is None


def test_wrappers_are_taken_off() -> None:
    model = nn.Linear(2, 2)

    assert ADAPTER.unwrap(nn.DataParallel(model)) is model
    compiled: Any = torch.compile(model, backend="eager")
    assert ADAPTER.unwrap(compiled) is model


def test_unknown_device_and_dtype_are_configuration_errors() -> None:
    with pytest.raises(ConfigError):
        ADAPTER.place(nn.Linear(2, 2), device="nowhere", dtype=None)
    with pytest.raises(ConfigError):
        ADAPTER.place(nn.Linear(2, 2), device=None, dtype="float7")


def test_default_loss_is_the_mean_of_means_in_float32() -> None:
    outputs = [torch.tensor([1.0, 3.0]).half(), torch.tensor([[10.0]]).double()]

    loss = ADAPTER.mean_loss(outputs)

    assert loss.dtype is torch.float32
    assert loss.item() == 6.0


def test_adapter_is_found_by_the_model() -> None:
    assert adapters.find(nn.Linear(2, 2)).name == "torch"
    with pytest.raises(ConfigError, match="cannot record"):
        adapters.find(object())
    for home, way_out in (("keras.src.layers.layer", "=torch"), ("flax.linen.linear", "ToNNX")):
        with pytest.raises(ConfigError) as refused:
            adapters.find(type("Layer", (), {"__module__": home})())
        assert way_out in (refused.value.hint or "")
    with pytest.raises(ConfigError, match="cannot load framework"):
        adapters.load("abacus")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.reentrant = False

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_calls_are_not_counted_twice(tmp_path: Path, reentrant: bool) -> None:
    model = Block()
    model.reentrant = reentrant

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(torch.ones(2, 3, requires_grad=True)).sum().backward()
    got = Recorded.read(recorder.path)

    assert got.calls() == ["#0", "inner#0", "inner.0#0", "inner.1#0"]
    assert got.find(Role.WEIGHT_GRAD, "inner.0", ".weight").value is not None
    assert any("checkpointing" in note for note in got.manifest.notes)


def test_wrapped_model_is_recorded_by_its_module(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    wrapped = nn.DataParallel(model)

    with padiff.record(wrapped, name="m", out=tmp_path) as recorder:
        wrapped(torch.ones(2, 3)).sum().backward()

    assert Recorded.read(recorder.path).calls() == ["#0", "0#0", "1#0"]


def test_compiled_model_runs_eagerly_while_it_is_recorded(tmp_path: Path) -> None:
    compiled: Any = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), backend="eager")
    compiled(torch.ones(2, 3))

    with padiff.record(compiled, name="m", out=tmp_path) as recorder:
        compiled(torch.ones(2, 3)).sum().backward()
    got = Recorded.read(recorder.path)

    assert got.calls() == ["#0", "0#0", "1#0"]
    assert any("OptimizedModule" in note for note in got.manifest.notes)


def test_lazy_parameters_are_left_out_and_noted(tmp_path: Path) -> None:
    model = nn.Sequential(nn.LazyLinear(3))

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(torch.ones(2, 4)).sum().backward()
    got = Recorded.read(recorder.path)

    assert got.calls() == ["#0", "0#0"]
    assert any("lazy parameters" in note for note in got.manifest.notes)


def test_call_inside_vmap_is_recorded_without_its_tensors(tmp_path: Path) -> None:
    class Mapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
            return torch.func.vmap(self.inner)(x)

    model = Mapped()

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(torch.ones(2, 3)).sum().backward()
    got = Recorded.read(recorder.path)

    assert got.calls() == ["#0", "inner#0"]
    assert got.index.calls[1].literals == {
        "input[0]": "<torch.Tensor>",
        "output": "<torch.Tensor>",
    }


def test_fused_inference_path_is_stated_in_the_manifest(tmp_path: Path) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()

    with padiff.record(layer, name="m", out=tmp_path) as recorder, torch.no_grad():
        layer(torch.ones(1, 3, 4))
    got = Recorded.read(recorder.path)

    assert any("fused inference path" in note for note in got.manifest.notes)
    assert "self_attn#0" in got.calls()


def test_user_hooks_stand_outside_the_recorder(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    model[0].register_forward_hook(lambda _, __, output: output * 10)
    x = torch.ones(1, 3)

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(x).sum().backward()
    got = Recorded.read(recorder.path)

    assert np.array_equal(got.array(Role.INPUT, "0", "[0]"), x.numpy() * 2)
    found = got.array(Role.OUTPUT, "0")
    assert np.allclose(got.array(Role.OUTPUT, ""), found * 10)


def test_several_backward_passes_are_noted(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3))

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        loss = model(torch.ones(1, 3)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    got = Recorded.read(recorder.path)

    assert any("more than once" in note for note in got.manifest.notes)
    assert len(got.slots(Role.GRAD_OUTPUT, "0")) == 1


def test_gradients_from_before_are_noted(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    model(torch.ones(1, 3)).sum().backward()

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(torch.ones(1, 3)).sum().backward()

    notes = Recorded.read(recorder.path).manifest.notes
    assert any("before recording began" in note for note in notes)


def test_recorded_tensors_are_released(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    with padiff.record(model, name="m", out=tmp_path):
        output = model(torch.ones(1, 3))
        output.sum().backward()
    alive = weakref.ref(output)

    del output
    gc.collect()

    assert alive() is None


def test_calls_in_threads_have_parents_of_their_own_thread(tmp_path: Path) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
            barrier.wait(timeout=30)
            return self.inner(x)

    barrier = threading.Barrier(2)
    model = Outer()

    with (
        padiff.record(model, name="m", out=tmp_path, phase="forward") as recorder,
        ThreadPoolExecutor(2) as pool,
    ):
        list(pool.map(model, [torch.full((1, 3), float(at)) for at in range(2)]))
    got = Recorded.read(recorder.path)

    assert sorted(got.calls()) == ["#0", "#1", "inner#0", "inner#1"]
    inputs = {item.call: item.value for item in got.index.records if item.role is Role.INPUT}
    for call in got.index.calls:
        if call.module == 1:
            assert call.parent is not None
            assert inputs[call.id] == inputs[call.parent]


def test_the_dtype_of_a_model_is_real_where_most_of_it_is_complex() -> None:
    model = nn.Linear(2, 2)
    model.spectrum = nn.Parameter(torch.zeros(9, dtype=torch.complex64))

    assert ADAPTER.model_dtype(model) == "float32"


def _missing(_: object) -> None:
    raise AttributeError


class _PlainlessOperators(TorchOperators):
    """Operators of which no adapter says which ones are plain."""

    is_plain: Any = property(_missing)


class _SlowAdapter(TorchAdapter):
    """An adapter without what only makes recording faster."""

    operators = _PlainlessOperators()
    small_bytes: Any = property(_missing)


def test_adapter_without_what_is_only_faster_records_the_same(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True)).eval()
    files = []

    for name, adapter in (("fast", ADAPTER), ("slow", _SlowAdapter())):
        model.zero_grad()
        with Recorder(model, RecordSettings(out=tmp_path, name=name), adapter) as recorder:
            model(torch.ones(2, 3)).mean().backward()
        files.append((recorder.path / open_dump(recorder.path).files[0].path).read_bytes())

    assert files[0] == files[1]
