"""Every weight rule on the real layers of both frameworks, in both directions, in float64.

Facts to meet: WEIGHT_RULES sections 1 to 3. Values are random, never the defaults; forward and
every parameter gradient agree to 1e-10, a round trip is exact to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import paddle
import pytest
import torch

from padiff.dumper.adapters import load
from padiff.dumper.recording.live import LiveSide
from padiff.dumper.weights.weights import carry_over
from padiff.dumpfile import ConfigError, RecordInfo, Role
from padiff.pairing import carry
from padiff.pairing.weights.plan import plan_weights

if TYPE_CHECKING:
    from padiff.dumper.adapter import Adapter
    from padiff.pairing.weights.weight_plan import WeightPlan
from tests.frameworks.weight_rule_cases import LAYERS, Case, call
from tests.frameworks.weight_rule_composed import COMPOSITES, REPARAMETRISED, SPECTRAL_LAYER

Array = npt.NDArray[Any]
Factory = Callable[[], Any]
pytestmark = [
    pytest.mark.filterwarnings("ignore:When training, we now always track"),
    pytest.mark.filterwarnings("ignore:.*torch.nn.utils.weight_norm.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.nn.utils.spectral_norm.*:FutureWarning"),
]

tn, pn = torch.nn, paddle.nn
norms = tn.utils.parametrizations

TOLERANCE = 1e-10
CASES = {**LAYERS, **COMPOSITES, **REPARAMETRISED}


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    paddle.set_default_dtype("float64")
    yield
    torch.set_default_dtype(torch.float32)
    paddle.set_default_dtype("float32")


def _live(case: Case, framework: str, seed: int) -> tuple[Any, LiveSide]:
    """Build a layer with random values that no framework has by default."""
    model = (case.torch if framework == "torch" else case.paddle)()
    live = LiveSide(model, load(framework))
    rng = np.random.default_rng(seed)
    for record in live.index.records:
        if np.issubdtype(live.array(record).dtype, np.floating):
            is_spread = "var" in record.slot
            values = (
                rng.uniform(0.5, 1.5, record.shape) if is_spread else rng.normal(size=record.shape)
            )
            live.assign(record, np.array(values, np.float64))
    return model, live


def _inputs(case: Case) -> list[Array]:
    rng = np.random.default_rng(9)
    if case.high is not None:
        return [rng.integers(0, case.high, shape) for shape in case.shapes]
    return [rng.normal(size=shape) for shape in case.shapes]


def _forward(case: Case, framework: str, model: object) -> Array:
    """Run forward and backward; the loss weighs every element differently."""
    make: Callable[[Array], Any] = torch.tensor if framework == "torch" else paddle.to_tensor
    inputs = [make(array) for array in _inputs(case)]
    for tensor in inputs if case.high is None else ():
        # Some of Paddle's CPU kernels crash in backward where their input needs no gradient.
        if framework == "torch":
            tensor.requires_grad_()
        else:
            tensor.stop_gradient = False
    output = (case.call or call)(model, *inputs)
    weights = make(np.random.default_rng(3).normal(size=tuple(output.shape)))
    (output * weights).sum().backward()
    found: Array = output.detach().numpy()
    return found


def _error(expected: Array, found: Array, floor: float) -> float:
    assert expected.shape == found.shape
    scale = max(floor, float(np.abs(expected).max(initial=0.0)))
    return float(np.abs(expected - found).max(initial=0.0)) / scale


def _is_settled(plan: WeightPlan) -> bool:
    return not plan.missing and not plan.ambiguous


@pytest.mark.parametrize("source", ["torch", "paddle"])
@pytest.mark.parametrize("name", CASES)
def test_forward_and_gradients_agree_after_moving_the_weights(name: str, source: str) -> None:
    case, target = CASES[name], {"torch": "paddle", "paddle": "torch"}[source]
    model, live = _live(case, source, 1)
    other, other_live = _live(case, target, 2)

    plan = carry_over(live, other_live)

    assert _is_settled(plan)
    outputs = _forward(case, source, model), _forward(case, target, other)
    assert _error(*outputs, 1e-3) <= TOLERANCE
    weights = [pair for pair in plan.pairs if _record(other_live, pair.candidate).requires_grad]
    assert weights or not any(record.requires_grad for record in live.index.records)
    expected, found = [], []
    for pair in weights:
        gradients = [live.gradient(_record(live, one)) for one in pair.reference]
        gradient = other_live.gradient(_record(other_live, pair.candidate))
        assert gradient is not None
        known = [one for one in gradients if one is not None]
        expected.append(pair.rule.apply(known, gradient.shape))
        found.append(gradient)
    largest = max((float(np.abs(one).max(initial=0.0)) for one in expected), default=1.0)
    for one, two in zip(expected, found, strict=True):
        assert _error(one, two, 0.01 * largest) <= TOLERANCE


@pytest.mark.parametrize("name", CASES)
def test_moments_of_an_optimizer_move_by_the_rules_of_their_weights(name: str) -> None:
    case = CASES[name]
    model, live = _live(case, "torch", 1)
    other, other_live = _live(case, "paddle", 2)
    plan = carry_over(live, other_live)
    _forward(case, "torch", model)
    _forward(case, "paddle", other)

    ours, theirs = _moments(model, load("torch")), _moments(other, load("paddle"))

    for one, two in (("exp_avg", "moment1"), ("exp_avg_sq", "moment2")):
        made = carry(plan, live, other_live, ours[one])
        assert made.keys() == theirs[two].keys()
        largest = max((float(np.abs(array).max()) for array in made.values()), default=1.0)
        for weight, array in made.items():
            assert _error(theirs[two][weight], array, 0.01 * largest) <= TOLERANCE


def _moments(model: object, adapter: Adapter) -> dict[str, dict[str, Array]]:
    """Take one step of Adam, and give what it keeps: by its own name, then by weight."""
    weights = {
        f"{path}.{item.name}".removeprefix("."): item.tensor
        for path, module in adapter.named_modules(model)
        for item in adapter.own_tensors(module)
        if item.is_weight and adapter.gradient(item.tensor) is not None
    }
    found: dict[str, dict[str, Array]] = {
        name: {} for name in ("exp_avg", "exp_avg_sq", "moment1", "moment2")
    }
    if not weights:
        return found
    kind = torch.optim.Adam if adapter.name == "torch" else paddle.optimizer.Adam
    optimizer = adapter.trainer.make_optimizer(kind, list(weights.values()), {})
    adapter.trainer.update(optimizer)
    for weight, tensor in weights.items():
        for name, kept in adapter.trainer.state_of(optimizer, tensor):
            found.setdefault(name, {})[weight] = adapter.snapshot(kept)
    return found


@pytest.mark.parametrize("name", CASES)
def test_round_trip_gives_every_bit_back(name: str) -> None:
    case = CASES[name]
    _, first = _live(case, "torch", 1)
    _, between = _live(case, "paddle", 2)
    _, last = _live(case, "torch", 3)

    carry_over(first, between)
    carry_over(between, last)

    for record in first.index.records:
        if record.slot not in case.one_sided:
            assert first.array(record).tobytes() == last.array(record).tobytes(), record.slot


def _record(live: LiveSide, number: int) -> RecordInfo:
    return live.index.records[number]


def test_counters_that_only_torch_keeps_are_dropped_both_ways() -> None:
    _, one = _live(CASES["batch_norm2d"], "torch", 1)
    _, two = _live(CASES["batch_norm2d"], "paddle", 2)

    plans = plan_weights(one, two), plan_weights(two, one)

    for plan in plans:
        assert [alone.is_missing for alone in plan.alone] == [False]
        assert len(plan.pairs) == 4


def test_running_statistics_that_paddle_lacks_are_dropped() -> None:
    one = LiveSide(tn.InstanceNorm2d(4, affine=True, track_running_stats=True), load("torch"))
    two = LiveSide(pn.InstanceNorm2D(4), load("paddle"))

    plan = plan_weights(one, two)

    assert len(plan.pairs) == 2
    assert len(plan.alone) == 3
    assert not plan.missing


def test_statistics_that_torch_does_not_track_are_left_alone() -> None:
    one = LiveSide(tn.BatchNorm2d(4, track_running_stats=False), load("torch"))
    two = LiveSide(pn.BatchNorm2D(4), load("paddle"))

    assert not plan_weights(one, two).missing


def test_batch_norm_statistics_are_buffers_on_both_sides() -> None:
    _, two = _live(CASES["batch_norm2d"], "paddle", 2)

    roles = {record.slot: record.role for record in two.index.records}

    assert roles["._mean"] is roles["._variance"] is Role.BUFFER


SYNC_NORMS: dict[str, tuple[Factory, Factory]] = {
    "both": (lambda: tn.SyncBatchNorm(4), lambda: pn.SyncBatchNorm(4)),
    "torch": (lambda: tn.SyncBatchNorm(4), lambda: pn.BatchNorm2D(4)),
    "paddle": (lambda: tn.BatchNorm2d(4), lambda: pn.SyncBatchNorm(4)),
}


@pytest.mark.parametrize("name", SYNC_NORMS)
def test_sync_batch_norm_moves_by_the_rules_of_batch_norm(name: str) -> None:
    """Paddle's has no kernel on a CPU, so that its forward cannot run here."""
    case = Case(torch=SYNC_NORMS[name][0], paddle=SYNC_NORMS[name][1], shapes=())
    _, first = _live(case, "torch", 1)
    _, between = _live(case, "paddle", 2)
    _, last = _live(case, "torch", 3)
    _, plain = _live(CASES["batch_norm2d"], "paddle", 4)

    plan = carry_over(first, between)
    expected = carry_over(first, plain)
    carry_over(between, last)

    assert [(pair.rule, pair.reference) for pair in plan.pairs] == [
        (pair.rule, pair.reference) for pair in expected.pairs
    ]
    for one, two in zip(between.index.records, plain.index.records, strict=True):
        assert one.slot == two.slot
        assert between.array(one).tobytes() == plain.array(two).tobytes()
    for record in first.index.records:
        if record.slot != ".num_batches_tracked":
            assert first.array(record).tobytes() == last.array(record).tobytes()


@pytest.mark.parametrize("source", ["torch", "paddle"])
def test_vectors_of_a_layer_for_spectral_norm_are_those_of_the_convolution(source: str) -> None:
    target = {"torch": "paddle", "paddle": "torch"}[source]
    model, live = _live(SPECTRAL_LAYER, source, 1)
    other, other_live = _live(SPECTRAL_LAYER, target, 2)
    _, last = _live(SPECTRAL_LAYER, source, 3)

    plan = carry_over(live, other_live)
    carry_over(other_live, last)

    assert _is_settled(plan)
    outputs = _forward(SPECTRAL_LAYER, source, model), _forward(SPECTRAL_LAYER, target, other)
    assert _error(*outputs, 1e-3) <= TOLERANCE
    for record in live.index.records:
        assert live.array(record).tobytes() == last.array(record).tobytes()


def test_layer_for_spectral_norm_divides_by_what_the_vectors_make_of_the_weight() -> None:
    layer = pn.SpectralNorm([4, 4], power_iters=0, dtype="float64")
    live, copy = (LiveSide(one, load("paddle")) for one in (layer, pn.SpectralNorm([4, 4])))
    u, v = (live.array(record) for record in live.index.records)
    weight = np.random.default_rng(2).normal(size=(4, 4))

    plan = plan_weights(live, copy)

    found = layer(paddle.to_tensor(weight)).numpy()
    np.testing.assert_allclose(found, weight / (u @ weight @ v), rtol=TOLERANCE)
    assert [str(pair.rule) for pair in plan.pairs] == ["identity", "identity"]
    assert [pair.reference for pair in plan.pairs] == [(0,), (1,)]


@pytest.mark.parametrize(("is_turned", "rule"), [(False, "transpose"), (True, "identity")])
def test_fused_linear_lies_as_its_attribute_says(rule: str, *, is_turned: bool) -> None:
    one = LiveSide(tn.Linear(4, 4), load("torch"))
    fused = paddle.incubate.nn.FusedLinear(4, 4, transpose_weight=is_turned)

    plan = plan_weights(one, LiveSide(fused, load("paddle")))

    assert [str(pair.rule) for pair in plan.pairs] == [rule, "identity"]
    assert not plan.ambiguous


def test_additional_key_and_value_bias_is_refused() -> None:
    one = LiveSide(tn.MultiheadAttention(8, 2, add_bias_kv=True), load("torch"))
    two = LiveSide(pn.MultiHeadAttention(8, 2), load("paddle"))

    with pytest.raises(ConfigError, match="bias_k"):
        carry_over(one, two)


def test_weight_norm_along_another_axis_is_refused() -> None:
    one = LiveSide(norms.weight_norm(tn.Linear(5, 3)), load("torch"))
    two = LiveSide(pn.utils.weight_norm(pn.Linear(5, 3)), load("paddle"))
    before = [two.array(record) for record in two.index.records]

    with pytest.raises(ConfigError, match="weight_g"):
        carry_over(one, two)

    for record, array in zip(two.index.records, before, strict=True):
        np.testing.assert_array_equal(two.array(record), array)
