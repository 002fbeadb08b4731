"""Facts about recorded gradients that hold whatever the framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

import padiff
from padiff.dumpfile import Phase, RecordError, Role
from tests.frameworks.recorder_cases import run, some
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.recording import Lab, Thing


class GradientCases:
    """Which gradients are recorded."""

    lab: ClassVar[Lab]

    def test_gradient_of_a_tensor_used_twice_is_the_total(self, tmp_path: Path) -> None:
        def forward(self: Thing, x: Thing) -> Thing:
            h = self.f(x)
            return self.a(h) * 2 + self.b(h) * 3

        identity = self.lab.nn.Identity
        model = self.lab.module(forward, f=self.lab.nn.Linear(3, 3), a=identity(), b=identity())

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        records = [
            got.find(Role.GRAD_OUTPUT, "f"),
            got.find(Role.GRAD_INPUT, "a", "[0]"),
            got.find(Role.GRAD_INPUT, "b", "[0]"),
        ]
        assert len({(item.value, item.order) for item in records}) == 1
        assert np.array_equal(got.array(Role.GRAD_OUTPUT, "f"), np.full((2, 3), 5, "float32"))

    def test_gradients_arrive_in_reverse_order(self, tmp_path: Path) -> None:
        linear = self.lab.nn.Linear
        model = self.lab.module(lambda self, x: self.b(self.a(x)), a=linear(3, 3), b=linear(3, 3))

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        last, first = got.find(Role.GRAD_OUTPUT, "b"), got.find(Role.GRAD_OUTPUT, "a")
        assert got.find(Role.OUTPUT, "b").order < last.order < first.order
        assert first.order < got.find(Role.WEIGHT_GRAD, "a", ".weight").order

    def test_output_that_needs_no_gradient_has_no_gradient_record(self, tmp_path: Path) -> None:
        frozen = self.lab.nn.Linear(3, 3)
        self.lab.freeze(frozen.weight)
        self.lab.freeze(frozen.bias)
        model = self.lab.module(
            lambda self, x: self.g(self.f(x)), f=frozen, g=self.lab.nn.Linear(3, 3)
        )

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        assert not got.find(Role.OUTPUT, "f").requires_grad
        assert got.find(Role.OUTPUT, "g").requires_grad
        assert got.slots(Role.GRAD_OUTPUT, "f") == []
        assert got.slots(Role.WEIGHT_GRAD, "f") == []

    def test_region_without_gradients(self, tmp_path: Path) -> None:
        def forward(self: Thing, x: Thing) -> Thing:
            with lab.no_grad():
                h = self.f(x)
            return self.g(h)

        lab = self.lab
        model = lab.module(forward, f=lab.nn.Linear(3, 3), g=lab.nn.Linear(3, 3))

        got = run(model, tmp_path, lab.tensor(some(2, 3)))

        assert got.slots(Role.GRAD_OUTPUT, "f") == []
        assert got.find(Role.WEIGHT_GRAD, "f", ".weight").value is None
        assert got.find(Role.WEIGHT_GRAD, "g", ".weight").value is not None

    def test_gradient_that_never_arrives_is_recorded_as_none(self, tmp_path: Path) -> None:
        def forward(self: Thing, x: Thing) -> Thing:
            self.lost(x)
            return self.f(x)

        linear = self.lab.nn.Linear
        model = self.lab.module(forward, f=linear(3, 3), lost=linear(3, 3))

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        record = got.find(Role.GRAD_OUTPUT, "lost")
        assert (record.value, record.shape) == (None, (2, 3))
        assert got.find(Role.WEIGHT_GRAD, "lost", ".bias").value is None

    def test_phase_forward_records_no_gradient(self, tmp_path: Path) -> None:
        model = self.lab.module(lambda self, x: self.f(x), f=self.lab.nn.Linear(3, 3))
        x = self.lab.tensor(some(2, 3), requires_grad=True)

        got = run(model, tmp_path, x, phase="forward")

        assert {item.phase for item in got.index.records} == {Phase.FORWARD}
        assert got.manifest.phase is Phase.FORWARD

    def test_without_backward_pass_the_dump_says_so(self, tmp_path: Path) -> None:
        model = self.lab.module(lambda self, x: self.f(x), f=self.lab.nn.Linear(3, 3))

        with padiff.record(model, name="m", out=tmp_path) as recorder:
            model(self.lab.tensor(some(2, 3)))
        got = Recorded.read(recorder.path)

        assert got.manifest.phase is Phase.FORWARD
        assert any("no gradient arrived" in note for note in got.manifest.notes)

    def test_gradients_cleared_too_early_are_an_error(self, tmp_path: Path) -> None:
        model = self.lab.module(lambda self, x: self.f(x), f=self.lab.nn.Linear(3, 3))

        def script() -> None:
            with padiff.record(model, name="m", out=tmp_path):
                model(self.lab.tensor(some(2, 3))).sum().backward()
                self.lab.clear_gradients(model)

        with pytest.raises(RecordError, match="cannot record weight gradients"):
            script()

        assert not (tmp_path / "m").exists()

    def test_gradient_that_a_script_takes_of_the_models_input_is_recorded(
        self, tmp_path: Path
    ) -> None:
        """A gradient penalty: the first gradient is the one that the penalty is of."""
        model = self.lab.module(lambda self, x: self.f(x), f=self.lab.nn.Linear(3, 1))
        x = self.lab.tensor(some(2, 3), requires_grad=True)

        with padiff.record(model, name="m", out=tmp_path) as recorder:
            made = model(x).sum()
            (gradient,) = self.lab.gradients(made, [x], create_graph=True)
            ((gradient**2).sum() + made).backward()
        got = Recorded.read(recorder.path)

        weight = self.lab.array(model.f.weight).reshape(1, 3)
        for path in ("f", ""):
            found = got.array(Role.GRAD_INPUT, path, "[0]")
            np.testing.assert_allclose(found, np.repeat(weight, 2, axis=0), rtol=1e-6)

    def test_gradients_of_weights_that_a_script_takes_and_keeps_itself_are_recorded(
        self, tmp_path: Path
    ) -> None:
        model = self.lab.module(lambda self, x: self.f(x), f=self.lab.nn.Linear(3, 1))

        with padiff.record(model, name="m", out=tmp_path) as recorder:
            loss = model(self.lab.tensor(some(2, 3))).sum()
            self.lab.gradients(loss, [model.f.weight, model.f.bias])
        got = Recorded.read(recorder.path)

        assert got.array(Role.WEIGHT_GRAD, "f", ".bias") == pytest.approx(2)
        found = got.array(Role.WEIGHT_GRAD, "f", ".weight").reshape(-1)
        np.testing.assert_allclose(found, some(2, 3).sum(0), rtol=1e-6)
        assert any("2 weights have no gradient of their own" in one for one in got.manifest.notes)

    def test_a_gradient_of_its_own_counts_and_not_the_one_that_a_script_took_before(
        self, tmp_path: Path
    ) -> None:
        model = self.lab.module(lambda self, x: self.f(x), f=self.lab.nn.Linear(3, 1))

        with padiff.record(model, name="m", out=tmp_path) as recorder:
            made = model(self.lab.tensor(some(2, 3))).sum()
            (gradient,) = self.lab.gradients(made, [model.f.bias], create_graph=True)
            (made * 3 + gradient.sum() * 0).backward()
        got = Recorded.read(recorder.path)

        assert got.array(Role.WEIGHT_GRAD, "f", ".bias") == pytest.approx(6)
        assert not any("of their own" in one for one in got.manifest.notes)
