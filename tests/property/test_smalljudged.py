"""Small pairs judged as columns are as each judged by itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from padiff.comparer import CompareSettings, Mode, ToleranceRule, compare
from padiff.comparer.judging import judge
from padiff.comparer.judging.measured import Measurements
from padiff.comparer.judging.smallpairs import Counted
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import Role
from tests.support.drawing import draw
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Metrics

Array = npt.NDArray[Any]

SETTINGS = st.sampled_from(
    [
        CompareSettings(),
        CompareSettings(atol=1e-3),
        CompareSettings(rtol=1e-2),
        CompareSettings(mode=Mode.MEAN),
        CompareSettings(mode=Mode.QUANTILE, quantile=0.5),
        CompareSettings(rules=(ToleranceRule.parse("fc*:atol=1e-2,role=weight"),)),
    ]
)
DTYPES = st.sampled_from([np.float32, np.float64, np.float16])
BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOISES = st.lists(st.sampled_from([0.0, 1e-7, 1e-4, 0.3]), min_size=5, max_size=5)


def network(
    path: Path,
    seed: int,
    dtype: type[np.floating[Any]],
    noises: list[float],
    *,
    has_nan: bool,
    is_port: bool = False,
) -> Path:
    """Write two products, an activation and a loss, with gradients; some hold the same value.

    A port is Paddle's: weights lie the other way round.
    """
    random = np.random.default_rng(seed)

    def made(*shape: int, noise: float = 0.0) -> Array:
        array = random.standard_normal(shape).astype(dtype)
        return (array * (1 + noise)).astype(dtype)

    def laid(array: Array) -> Array:
        return np.ascontiguousarray(array.T) if is_port else array

    space = "paddle.nn" if is_port else "torch.nn"
    built = DumpBuilder(framework=space.partition(".")[0]).module("", "Net")
    for name, kind in (("fc1", "Linear"), ("act", "ReLU"), ("fc2", "Linear")):
        built.module(name, kind, class_path=f"{space}.{kind}")
    x, weights = made(4, 6), (made(5, 6), made(3, 5))
    hidden, active = made(4, 5, noise=noises[0]), made(4, 5, noise=noises[1])
    output, gradient = made(4, 3, noise=noises[2]), made(4, 3, noise=noises[3])
    if has_nan:
        hidden[1, 2] = np.nan
    built.tensor("fc1", "weight", laid(weights[0])).tensor("fc2", "weight", laid(weights[1]))
    built.enter("", inputs=[x]).call("fc1", inputs=[x], outputs=[hidden])
    built.call("act", inputs=[hidden], outputs=[active])
    built.call("fc2", inputs=[active], outputs=[output]).leave(outputs=[output])
    built.record("", Role.LOSS, made(noise=noises[4]))
    built.record("fc2", Role.GRAD_OUTPUT, gradient)
    built.record("fc2", Role.GRAD_INPUT, made(4, 5, noise=noises[3]), slot="[0]")
    built.record("fc2", Role.WEIGHT_GRAD, laid(made(3, 5, noise=noises[4])), slot=".weight")
    return built.write(path)


def assert_alike(one: Any, other: Any) -> None:  # noqa: ANN401 -- any JSON
    """Compare two reports; sums differ in their last digits, and hulls in points on their lines."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one.keys() - {"hull"}:
            assert_alike(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for each in zip(one, other, strict=True):
            assert_alike(*each)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
    else:
        assert one == other


@settings(BUSY, max_examples=40)
@given(st.integers(0, 99), DTYPES, NOISES, SETTINGS, st.booleans(), st.booleans())
def test_columns_say_what_each_pair_by_itself_says(
    seed: int,
    dtype: type[np.floating[Any]],
    noises: list[float],
    options: CompareSettings,
    has_nan: bool,
    is_port: bool,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = (
            network(Path(folder) / "known", seed, dtype, [0.0] * 5, has_nan=has_nan),
            network(Path(folder) / "found", seed, dtype, noises, has_nan=False, is_port=is_port),
        )
        together = compare(*paths, options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judge, "SMALL", 0)  # no pair is small enough for a batch
            alone = compare(*paths, options)

    drawn = draw(together)
    assert_alike(to_json(together), to_json(alone))
    assert drawn == draw(together), "the report was drawn from columns, and is drawn from pairs"


def test_equal_pairs_share_what_was_measured(tmp_path: Path) -> None:
    noises = [1e-7] * 5
    paths = (
        network(tmp_path / "known", 0, np.float32, [0.0] * 5, has_nan=False),
        network(tmp_path / "found", 0, np.float32, noises, has_nan=False),
    )

    pairs = compare(*paths, CompareSettings()).steps[0].pairs

    hidden = [pair for pair in pairs if pair.reference and pair.reference.shape == (4, 5)]
    measured = {id(pair.metrics) for pair in hidden if pair.metrics is not None}
    assert len(measured) == 3
    assert len([pair for pair in hidden if pair.metrics is not None]) == 5
    assert {pair.metrics.max_abs for pair in pairs if pair.metrics} != {None}
    assert all(pair.metrics.hull for pair in pairs if pair.metrics and pair.metrics.max_abs)


def test_pairs_that_diverge_are_looked_at_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    metrics = Counted.metrics

    def counting(
        self: Counted, rows: Array, shapes: Sequence[tuple[int, ...]], *, mean: bool
    ) -> list[Metrics]:
        made.append(len(shapes))
        return metrics(self, rows, shapes, mean=mean)

    monkeypatch.setattr(Counted, "metrics", counting)
    paths = (
        network(tmp_path / "known", 0, np.float32, [0.0] * 5, has_nan=False),
        network(tmp_path / "found", 0, np.float32, [0.3] * 5, has_nan=False),
    )

    assert compare(*paths, CompareSettings()).verdict == "diverged"
    assert max(made) == 7
    assert len(made) <= 3


@pytest.mark.parametrize("noise", [1e-7, 0.3])
def test_one_pair_asked_for_is_the_one_among_all(tmp_path: Path, noise: float) -> None:
    paths = (
        network(tmp_path / "known", 1, np.float32, [0.0] * 5, has_nan=True),
        network(tmp_path / "found", 1, np.float32, [noise] * 5, has_nan=True),
    )
    one, every = (compare(*paths, CompareSettings()).steps[0].pairs for _ in range(2))

    assert [one[place] for place in reversed(range(len(one)))][::-1] == list(every)


def test_weights_that_lie_the_other_way_round_are_measured_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[object] = []
    monkeypatch.setattr(Measurements, "of", lambda _, *given, **__: looked_at.append(given))
    paths = (
        network(tmp_path / "known", 0, np.float32, [0.0] * 5, has_nan=False),
        network(tmp_path / "found", 0, np.float32, [1e-7] * 5, has_nan=False, is_port=True),
    )

    pairs = compare(*paths, CompareSettings()).steps[0].pairs

    assert not looked_at, "no pair was read by itself"
    turned = [pair for pair in pairs if pair.layout == "transpose"]
    assert len(turned) == 3
    assert all(pair.metrics and (pair.metrics.max_abs or 0.0) < 1e-5 for pair in turned)
