"""Recording changes nothing and leaves nothing, whatever the framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

import padiff
from padiff.dumpfile import ConfigError, DumpExistsError, RecordError, Role
from tests.frameworks.recorder_cases import run, some
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.recording import Array, Lab, Thing


class SafetyCases:
    """Recording changes nothing and leaves nothing."""

    lab: ClassVar[Lab]

    def network(self) -> Thing:
        def forward(self: Thing, x: Thing) -> Thing:
            h = lab.relu_(self.norm(self.conv(x)))
            h = h + self.again(h)
            return self.head(h.mean([2, 3]))

        lab = self.lab
        lab.seed(7)
        return lab.module(
            forward,
            conv=lab.convolution(3, 4),
            norm=lab.batch_norm(4),
            again=lab.convolution(4, 4),
            head=lab.nn.Linear(4, 2),
        )

    def outcome(self, model: Thing, x: Thing) -> list[Array | None]:
        output = model(x)
        output.mean().backward()
        grads = [self.lab.gradient(item) for item in model.parameters()]
        return [self.lab.array(output), self.lab.gradient(x), *grads]

    @pytest.mark.parametrize("training", [True, False])
    def test_results_are_bit_equal_with_and_without(self, tmp_path: Path, training: bool) -> None:
        plain, recorded = self.network(), self.network()
        for model in (plain, recorded):
            model.train() if training else model.eval()
        inputs = [self.lab.tensor(some(2, 3, 6, 6), requires_grad=True) for _ in range(2)]

        expected = self.outcome(plain, inputs[0])
        with padiff.record(recorded, name="m", out=tmp_path):
            found = self.outcome(recorded, inputs[1])

        assert len(expected) > 8
        for one, other in zip(expected, found, strict=True):
            assert (one is None) == (other is None)
            assert one is None or other is None or one.tobytes() == other.tobytes()

    def test_nothing_is_left_on_the_model(self, tmp_path: Path) -> None:
        model = self.network()
        before = self.traces(model)

        run(model, tmp_path, self.lab.tensor(some(2, 3, 6, 6)))

        assert self.traces(model) == before

    def traces(self, model: Thing) -> list[tuple[str, ...]]:
        """Name all attributes of all modules, and say how long their containers are."""
        found: list[tuple[str, ...]] = []
        for name, module in self.lab.modules(model):
            for key, value in sorted(vars(module).items()):
                size = len(value) if hasattr(value, "__len__") else -1
                found.append((name, key, str(size)))
        return found

    def test_weights_and_buffers_are_those_before_the_first_call(self, tmp_path: Path) -> None:
        model = self.network()
        model.train()
        names = ("running_mean", "_mean")
        mean = next(getattr(model.norm, name) for name in names if hasattr(model.norm, name))
        before = self.lab.array(mean)

        got = run(model, tmp_path, self.lab.tensor(some(2, 3, 6, 6)))

        slot = ".running_mean" if self.lab.name == "torch" else "._mean"
        assert not np.array_equal(self.lab.array(mean), before)
        assert np.array_equal(got.array(Role.BUFFER, "norm", slot), before)

    def test_exception_in_forward_passes_and_leaves_the_previous_dump(self, tmp_path: Path) -> None:
        def forward(self: Thing, x: Thing) -> Thing:
            h = self.f(x)
            if self.broken:
                raise KeyError("the model's own")
            return h

        model = self.lab.module(forward, f=self.lab.nn.Linear(3, 3), broken=False)
        x = self.lab.tensor(some(2, 3))
        earlier = run(model, tmp_path, x)
        before = self.traces(model)
        model.broken = True

        with pytest.raises(KeyError, match="the model's own"):
            run(model, tmp_path, x, overwrite=True)

        assert self.traces(model) == before
        assert Recorded.read(tmp_path / "m").index == earlier.index
        assert [item.name for item in tmp_path.iterdir()] == ["m"]

    def test_exception_that_the_model_catches(self, tmp_path: Path) -> None:
        def fail(_: Thing, x: Thing) -> Thing:
            raise ValueError(str(x.shape))

        def forward(self: Thing, x: Thing) -> Thing:
            try:
                return self.bad(x)
            except ValueError:
                return self.f(x)

        bad = self.lab.module(fail, class_name="Bad")
        model = self.lab.module(forward, bad=bad, f=self.lab.nn.Linear(3, 3))

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        assert got.calls() == ["#0", "bad#0", "f#0"]
        assert [call.parent for call in got.index.calls] == [None, 0, 0]
        assert [call.end is None for call in got.index.calls] == [False, True, False]

    def test_recording_without_a_call_is_an_error(self, tmp_path: Path) -> None:
        model = self.lab.nn.Linear(3, 3)

        with (
            pytest.raises(RecordError, match="found no call"),
            padiff.record(model, name="m", out=tmp_path),
        ):
            pass

        assert not (tmp_path / "m").exists()

    def test_loss_and_named_tensors_stand_at_the_root(self, tmp_path: Path) -> None:
        model = self.lab.module(lambda self, x: self.f(x), f=self.lab.nn.Linear(3, 3))

        with padiff.record(model, name="m", out=tmp_path) as recorder:
            logits = model(self.lab.tensor(some(2, 3)))
            loss = logits.mean()
            recorder.record("logits", logits)
            recorder.loss(loss)
            loss.backward()
        got = Recorded.read(recorder.path)

        assert np.array_equal(got.array(Role.LOSS), self.lab.array(loss))
        assert np.array_equal(got.array(Role.NAMED, "", "['logits']"), self.lab.array(logits))

    def test_selection_limits_calls_and_weights(self, tmp_path: Path) -> None:
        linear = self.lab.nn.Linear
        model = self.lab.module(lambda self, x: self.b(self.a(x)), a=linear(3, 3), b=linear(3, 3))

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)), exclude=["a"])

        assert got.calls() == ["#0", "b#0"]
        assert got.slots(Role.WEIGHT, "a") == []
        assert len(got.index.modules) == 3

    def test_depth_limits_calls_but_not_weights(self, tmp_path: Path) -> None:
        inner = self.lab.nn.Sequential(self.lab.nn.Linear(3, 3))
        model = self.lab.module(lambda self, x: self.s(x), s=inner)

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)), depth=1)

        assert got.calls() == ["#0", "s#0"]
        assert got.slots(Role.WEIGHT, "s.0") == [".weight", ".bias"]

    def test_counts_are_those_of_the_dump(self, tmp_path: Path) -> None:
        model = self.lab.nn.Linear(3, 3)

        with padiff.record(model, out=tmp_path) as recorder:
            model(self.lab.tensor(some(2, 3))).sum().backward()
        got = Recorded.read(recorder.path)

        assert recorder.path == tmp_path / "Linear"
        assert recorder.counts.calls == len(got.index.calls) == 1
        assert recorder.counts.records == len(got.index.records)
        assert recorder.counts.size_bytes == sum(item.size_bytes for item in got.manifest.files)

    def test_existing_dump_is_refused_before_anything_runs(self, tmp_path: Path) -> None:
        model = self.lab.nn.Linear(3, 3)
        earlier = run(model, tmp_path, self.lab.tensor(some(2, 3)))
        before = self.traces(model)

        with pytest.raises(DumpExistsError):
            padiff.record(model, name="m", out=tmp_path).__enter__()

        assert self.traces(model) == before
        assert Recorded.read(tmp_path / "m").index == earlier.index

    @pytest.mark.parametrize(
        "options", [{"name": "a/b"}, {"name": ".."}, {"phase": "update"}, {"depth": -1}]
    )
    def test_wrong_option_is_a_configuration_error(
        self, tmp_path: Path, options: dict[str, Thing]
    ) -> None:
        with pytest.raises(ConfigError):
            padiff.record(self.lab.nn.Linear(3, 3), out=tmp_path, **options).__enter__()

        assert not list(tmp_path.iterdir())

    def test_recorder_is_used_once(self, tmp_path: Path) -> None:
        model = self.lab.nn.Linear(3, 3)
        recorder = padiff.record(model, name="m", out=tmp_path)
        with recorder:
            model(self.lab.tensor(some(2, 3))).sum().backward()

        with pytest.raises(RecordError, match="cannot record twice"):
            recorder.__enter__()
        with pytest.raises(RecordError, match="outside"):
            recorder.loss(self.lab.tensor(some(1)))
