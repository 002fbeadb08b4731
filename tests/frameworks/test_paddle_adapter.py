"""Facts about Paddle on which its adapter stands."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.distributed.fleet.utils.mix_precision_utils import (
    MixPrecisionLayer,
    MixPrecisionOptimizer,
)

import padiff
from padiff.dumper.adapters.paddle import PaddleAdapter
from padiff.dumpfile import ConfigError, Phase, RecordError, Role
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

ADAPTER = PaddleAdapter()
DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def own_names(layer: nn.Layer) -> dict[str, bool]:
    return {
        f"{path}.{owned.name}".lstrip("."): owned.is_weight
        for path, module in ADAPTER.named_modules(layer)
        for owned in ADAPTER.own_tensors(module)
    }


# -- tensors


@pytest.mark.parametrize("name", DTYPES)
def test_small_tensors_are_copied_as_their_elements_are(name: str) -> None:
    values = (np.arange(6).reshape(2, 3) % 2).astype(numpy_dtype(name))
    tensor = ADAPTER.tensor(values, device="cpu", dtype=None)

    assert ADAPTER.small_bytes(tensor, 1 << 16) == (values.tobytes(), name, (2, 3))
    assert ADAPTER.small_bytes(tensor, values.nbytes) is None


def test_what_does_not_lie_as_dumps_write_it_is_not_copied_as_it_is() -> None:
    tensor = paddle.ones([2, 3])

    assert ADAPTER.small_bytes(tensor.transpose([1, 0]), 1 << 16) is None
    assert ADAPTER.small_bytes(paddle.ones([0]), 1 << 16) is None
    assert ADAPTER.small_bytes(tensor.to_sparse_coo(2), 1 << 16) is None


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (300, 100)])
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_and_form_goes_in_and_out_bit_for_bit(
    name: str, shape: tuple[int, ...]
) -> None:
    values = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(numpy_dtype(name))

    tensor = ADAPTER.tensor(values, device="cpu", dtype=None)
    read = ADAPTER.snapshot(tensor)

    assert (read.dtype, read.shape, read.tobytes()) == (values.dtype, shape, values.tobytes())
    assert read.flags.c_contiguous


def test_integers_that_paddle_lacks_are_widened_and_never_taken_for_bfloat16() -> None:
    tensor = ADAPTER.tensor(np.array([16256], np.uint16), device="cpu", dtype=None)

    assert tensor.dtype == paddle.int32
    assert tensor.tolist() == [16256]


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_elements_of_large_tensors_lie_in_their_own_memory(name: str) -> None:
    tensor = ADAPTER.tensor(np.ones((300, 100), numpy_dtype(name)), device="cpu", dtype=None)
    version = tensor.inplace_version

    read = ADAPTER.elements(tensor)

    assert read.ctypes.data == tensor.data_ptr()
    assert tensor.inplace_version == version


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn"])
def test_elements_of_large_views_come_in_reading_order(name: str) -> None:
    values = (np.arange(30_000).reshape(300, 100) % 7).astype(numpy_dtype(name))
    tensor = ADAPTER.tensor(values, device="cpu", dtype=None)

    assert np.array_equal(ADAPTER.elements(tensor.transpose([1, 0])), values.T)
    assert np.array_equal(ADAPTER.elements(tensor[7:250]), values[7:250])


def test_snapshot_is_a_copy_in_reading_order() -> None:
    tensor = paddle.arange(6, dtype="float32").reshape([2, 3])
    turned = tensor.transpose([1, 0])

    read = ADAPTER.snapshot(turned)
    tensor.add_(paddle.ones_like(tensor))

    assert read.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert read.flags.c_contiguous


def test_sparse_rows_gradient_is_made_dense_and_repeated_rows_are_added() -> None:
    layer = nn.Embedding(4, 2, sparse=True)
    layer(paddle.to_tensor([1, 2, 1])).sum().backward()

    gradient = ADAPTER.gradient(layer.weight)

    assert ADAPTER.snapshot(gradient).tolist() == [[0, 0], [2, 2], [1, 1], [0, 0]]


def test_content_key_changes_with_the_content_and_leaves_have_none() -> None:
    source = paddle.ones([2, 2])
    source.stop_gradient = False
    inner = source * 2

    before = ADAPTER.content_key(inner)
    view_before = ADAPTER.content_key(inner[1:])
    view = inner[1:]
    inner.add_(paddle.ones_like(inner))

    assert ADAPTER.content_key(source) is None  # set_value leaves the in-place version alone
    assert before is not None
    assert ADAPTER.content_key(inner) != before
    assert ADAPTER.content_key(view) != view_before


def test_assign_keeps_dtype_also_of_a_parameter_that_was_cast() -> None:
    layer = ADAPTER.place(nn.Linear(2, 2), device=None, dtype="bfloat16")

    ADAPTER.assign(layer.weight, np.full((2, 2), 3.0, np.float64))

    assert layer.weight.dtype == paddle.bfloat16
    assert ADAPTER.snapshot(layer.weight).astype(float).tolist() == [[3, 3], [3, 3]]
    with pytest.raises(ConfigError, match="shape"):
        ADAPTER.assign(layer.weight, np.zeros((2, 3)))


def test_main_grad_comes_before_grad() -> None:
    layer = nn.Linear(2, 2)
    layer(paddle.ones([1, 2])).sum().backward()
    main = paddle.full([2, 2], 7.0)

    layer.weight.main_grad = main

    assert ADAPTER.gradient(layer.weight) is main
    assert ADAPTER.gradient(layer.bias) is not None


def test_integers_never_require_a_gradient() -> None:
    tensor = paddle.to_tensor([1, 2], stop_gradient=False)

    assert not ADAPTER.requires_grad(tensor)


# -- layers


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.SimpleRNN])
def test_recurrent_weights_stand_under_their_cells_alone(kind: Any) -> None:  # noqa: ANN401
    names = own_names(kind(3, 4, num_layers=2, direction="bidirect"))

    assert len(names) == 16
    assert all(".cell_fw." in name or ".cell_bw." in name for name in names)
    assert all(names.values())


def test_batch_norm_statistics_are_buffers() -> None:
    names = own_names(nn.BatchNorm2D(3))

    assert names == {"weight": True, "bias": True, "_mean": False, "_variance": False}


def test_frozen_weight_is_still_a_weight() -> None:
    layer = nn.Linear(2, 2)
    layer.weight.stop_gradient = True

    assert own_names(layer)["weight"]


def test_weights_computed_by_reparametrisation_are_left_out() -> None:
    normed = own_names(nn.utils.weight_norm(nn.Linear(2, 2)))
    spectral = own_names(nn.utils.spectral_norm(nn.Linear(2, 2)))

    assert normed == {"bias": True, "weight_v": True, "weight_g": True}
    assert spectral == {
        "bias": True, "weight_orig": True, "weight_u": False, "weight_v": False,
    }  # fmt: skip


def test_shared_layer_is_met_at_both_paths() -> None:
    shared = nn.Linear(2, 2)

    paths = [path for path, _ in ADAPTER.named_modules(nn.Sequential(shared, nn.ReLU(), shared))]

    assert paths == ["", "0", "1", "2"]


def test_layer_compiled_by_to_static_runs_eagerly_while_it_is_recorded(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    model = paddle.jit.to_static(model)

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(paddle.ones([2, 3])).sum().backward()

    got = Recorded.read(recorder.path)
    assert got.calls() == ["#0", "0#0", "1#0", "1.0#0", "1.1#0"]
    assert any("what to_static compiled ran eagerly" in note for note in got.manifest.notes)
    assert paddle.jit.dy2static.program_translator.ProgramTranslator().enable_to_static


def test_loaded_program_is_refused_with_its_path(tmp_path: Path) -> None:
    spec = [paddle.static.InputSpec([2, 3], "float32")]
    paddle.jit.save(nn.Linear(3, 2), str(tmp_path / "net"), input_spec=spec)
    model = nn.Sequential(nn.ReLU(), paddle.jit.load(str(tmp_path / "net")))

    with pytest.raises(RecordError, match="'1'"):
        ADAPTER.unwrap(model)


def test_main_grad_is_what_is_recorded(tmp_path: Path) -> None:
    inner = nn.Linear(3, 2)
    model: Any = MixPrecisionLayer(inner, dtype="bfloat16")  # type: ignore[no-untyped-call]
    plain = paddle.optimizer.AdamW(0.1, parameters=inner.parameters())
    optimizer: Any = MixPrecisionOptimizer(plain)  # type: ignore[no-untyped-call]

    with padiff.record(model, name="m", out=tmp_path, optimizer=optimizer) as recorder:
        model(paddle.ones([4, 3])).mean().backward()
        assert inner.bias.grad is None
        optimizer.step()

    got = Recorded.read(recorder.path)
    assert got.calls() == ["#0"]
    gradient = got.array(Role.WEIGHT_GRAD, "", ".bias")
    assert gradient.dtype == np.float32
    assert gradient == pytest.approx(0.5)
    assert got.manifest.phase is Phase.UPDATE


@pytest.mark.filterwarnings("ignore:The program will return to single-card")
def test_data_parallel_is_taken_off() -> None:
    inner = nn.Linear(2, 2)

    assert ADAPTER.unwrap(paddle.DataParallel(inner)) is inner


def test_cast_leaves_integer_buffers_alone() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("places", paddle.arange(3))

    ADAPTER.place(model, device="cpu", dtype="float64")

    assert model.places.dtype == paddle.int64
    assert ADAPTER.model_dtype(model) == "float64"


def test_the_dtype_of_a_model_is_real_where_most_of_it_is_complex() -> None:
    model = nn.Linear(2, 2)
    zeros = nn.initializer.Constant(0.0)
    model.spectrum = model.create_parameter([9], None, "complex64", default_initializer=zeros)

    assert ADAPTER.model_dtype(model) == "float32"


@pytest.mark.parametrize(
    "options", [{"device": "tpu9", "dtype": None}, {"device": None, "dtype": "int8"}]
)
def test_unknown_device_or_dtype_is_refused(options: dict[str, str | None]) -> None:
    with pytest.raises(ConfigError):
        ADAPTER.place(nn.Linear(2, 2), device=options["device"], dtype=options["dtype"])


# -- hooks


def test_gradient_is_that_of_the_tensor_before_a_later_change_in_place() -> None:
    source = paddle.ones([2])
    source.stop_gradient = False
    inner = source * 2
    seen: list[list[float]] = []

    ADAPTER.hook_gradient(inner, lambda gradient: seen.append(gradient.tolist()))
    other = inner + 1
    inner.multiply_(paddle.full([2], 10.0))
    (inner.sum() + 5 * other.sum()).backward()

    assert seen == [[15.0, 15.0]]


def test_unused_one_of_several_outputs_gets_a_gradient_of_zeros() -> None:
    # torch gives none; a comparison must not take the two for a difference.
    source = paddle.ones([4, 2])
    source.stop_gradient = False
    used, unused = paddle.split(source, 2)
    seen: list[Any] = []

    ADAPTER.hook_gradient(unused, lambda gradient: seen.append(gradient.tolist()))
    used.sum().backward()

    assert seen == [[[0, 0], [0, 0]]]


def test_clearing_gradients_as_optimizers_do_leaves_zeros() -> None:
    layer = nn.Linear(2, 2)
    layer(paddle.ones([1, 2])).sum().backward()

    layer.clear_gradients()

    gradient = ADAPTER.gradient(layer.weight)
    assert gradient is not None
    assert gradient.tolist() == [[0, 0], [0, 0]]


def test_hooks_see_what_forward_sees_behind_the_users_own() -> None:
    layer = nn.Linear(2, 2)
    # Paddle's annotation says a tensor where its code wants all arguments.
    layer.register_forward_pre_hook(lambda _layer, args: (args[0] * 0,))  # type: ignore[arg-type]
    layer.register_forward_post_hook(lambda _layer, _args, result: result + 100)
    seen: list[Any] = []

    handle = ADAPTER.hook_calls(
        layer, lambda _m, args, _k: seen.append(args[0]), lambda _m, result: seen.append(result)
    )
    layer(paddle.ones([1, 2]))
    handle.remove()
    handle.remove()
    layer(paddle.ones([1, 2]))

    assert len(seen) == 2
    assert float(seen[0].abs().sum()) == 0
    assert float(seen[1].max()) < 100


# -- whole models


def test_recurrent_layer_has_gradients_in_eval_mode(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LSTM(3, 4, num_layers=2))
    x = paddle.rand([2, 5, 3])
    model.eval()
    plain = ADAPTER.snapshot(model(x)[0])
    ADAPTER.set_training(model, training=False)

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        output, _ = model(x)
        ADAPTER.backward(output.mean())
    got = Recorded.read(recorder.path)

    assert got.array(Role.OUTPUT, "1", "[0]").tobytes() == plain.tobytes()
    assert got.slots(Role.WEIGHT_GRAD, "1.1.cell") == [
        ".weight_ih", ".weight_hh", ".bias_ih", ".bias_hh",
    ]  # fmt: skip
    assert got.slots(Role.WEIGHT, "1") == []
    assert any("recurrent" in note and "1" in note for note in got.manifest.notes)


def test_recurrent_layer_with_dropout_is_reported() -> None:
    model = nn.LSTM(3, 4, num_layers=2, dropout=0.5)
    ADAPTER.set_training(model, training=False)

    output, _ = model(paddle.rand([2, 5, 3]))

    assert not model.training
    with pytest.raises(RecordError, match="eval mode"):
        ADAPTER.backward(output.mean())


def test_recomputed_layer_is_recorded_once(tmp_path: Path) -> None:
    from paddle.distributed.fleet.utils import recompute  # noqa: PLC0415 - slow to import

    class Checkpointed(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            return recompute(self.inner, x, use_reentrant=False)

    model = Checkpointed()
    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(paddle.rand([2, 3])).mean().backward()
    got = Recorded.read(recorder.path)

    assert got.calls() == ["#0", "inner#0"]


def test_paddle_posing_as_torch_is_recognised() -> None:
    code = (
        "import paddle\npaddle.enable_compat()\nimport torch\n"
        "from padiff.dumper import adapters\n"
        "print(adapters.find(paddle.nn.Linear(2, 2)).name)\n"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert done.stdout.strip() == "paddle"
