"""Facts about recording a training script that hold whatever the framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

import padiff
from padiff.comparer import Verdict
from padiff.dumpfile import ConfigError, Phase, RecordError, Role, open_dump
from tests.frameworks.recorder_cases import some
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.recording import Lab, Thing


class TrainingCases:
    """What ``padiff.record`` makes of a training loop."""

    lab: ClassVar[Lab]

    def model(self) -> Thing:
        return self.lab.module(lambda self, x: self.f(x), f=self.lab.nn.Linear(3, 2))

    def loop(  # noqa: PLR0913
        self,
        tmp_path: Path,
        *,
        count: int = 4,
        steps: list[int] | None = None,
        every: int | None = None,
        passes: int = 1,
        clear: bool = True,
        rate: float | None = None,
        is_named: bool = True,
    ) -> Path:
        """Train a Linear with momentum, whose optimizer is named to the recorder or not."""
        model = self.model()
        optimizer = self.lab.optimizer(model, rate=0.1)
        named = optimizer if is_named else None
        with padiff.record(
            model, name="m", out=tmp_path, optimizer=named, steps=steps, every=every
        ) as recorder:
            for _ in range(count):
                for _ in range(passes):
                    loss = self.lab.mean(model(self.lab.tensor(some(4, 3))))
                    loss.backward()
                optimizer.step()
                if clear:
                    self.lab.clear_gradients(model)
                recorder.step(loss=loss, lr=rate)
        return recorder.path

    def test_only_the_chosen_steps_are_recorded(self, tmp_path: Path) -> None:
        path = self.loop(tmp_path, steps=[0, 2])

        assert [info.step for info in open_dump(path).files] == [0, 2]
        assert not list(open_dump(path).problems())

    def test_every_second_step_is_recorded(self, tmp_path: Path) -> None:
        path = self.loop(tmp_path, every=2)

        assert [info.step for info in open_dump(path).files] == [0, 2]

    def test_outside_recorded_steps_the_model_has_no_hooks(self, tmp_path: Path) -> None:
        model = self.model()
        optimizer = self.lab.optimizer(model, rate=0.1)
        seen = []
        with padiff.record(
            model, name="m", out=tmp_path, optimizer=optimizer, steps=[1]
        ) as recorder:
            for _ in range(3):
                self.lab.mean(model(self.lab.tensor(some(4, 3)))).backward()
                optimizer.step()
                seen.append(self.lab.has_hooks(model))
                recorder.step()

        assert seen == [False, True, False]
        assert not self.lab.has_hooks(model)

    def test_gradients_cleared_after_the_update_are_recorded(self, tmp_path: Path) -> None:
        got = Recorded.read(self.loop(tmp_path, count=1))

        expected = np.broadcast_to(some(4, 3).mean(0) / 2, (2, 3))
        found = got.array(Role.WEIGHT_GRAD, "f", ".weight")
        found = found if found.shape == (2, 3) else found.T
        assert np.allclose(found, expected)

    def test_several_backward_passes_add_up(self, tmp_path: Path) -> None:
        once = Recorded.read(self.loop(tmp_path / "a", count=1))
        twice = Recorded.read(self.loop(tmp_path / "b", count=1, passes=2))

        one, two = (got.array(Role.WEIGHT_GRAD, "f", ".weight") for got in (once, twice))
        assert np.allclose(2 * one, two)
        assert twice.calls() == ["#0", "f#0", "#1", "f#1"]

    def test_update_holds_weights_rate_and_state(self, tmp_path: Path) -> None:
        got = Recorded.read(self.loop(tmp_path, count=1))

        after = {
            f"{item.role}{item.slot}": got.arrays[item.id]
            for item in got.index.records
            if item.phase is Phase.UPDATE
        }
        before = got.arrays[next(item.id for item in got.index.records if item.role is Role.WEIGHT)]
        gradient = got.array(Role.WEIGHT_GRAD, "f", ".weight")
        assert np.allclose(after["weight.weight"], before - 0.1 * gradient, atol=1e-6)
        assert after["lr"] == pytest.approx(0.1)
        norms = [got.array(Role.WEIGHT_GRAD, "f", slot) for slot in (".weight", ".bias")]
        total = np.sqrt(sum((norm.astype(np.float64) ** 2).sum() for norm in norms))
        assert after["named['gradient_norm']"] == pytest.approx(total)
        states = [key for key in after if key.startswith("optimizer_state.weight")]
        assert len(states) == 1
        assert np.allclose(after[states[0]], gradient)
        assert got.manifest.phase is Phase.UPDATE

    def test_given_rate_takes_the_place_of_the_optimizers(self, tmp_path: Path) -> None:
        got = Recorded.read(self.loop(tmp_path, count=1, rate=0.25))

        assert got.array(Role.LR) == 0.25

    def test_an_optimizer_that_nobody_named_is_found(self, tmp_path: Path) -> None:
        paths = (
            self.loop(tmp_path / word, count=2, is_named=word == "named")
            for word in ("named", "found")
        )
        named, found = ([Recorded.read(path, step) for step in range(2)] for path in paths)

        for one, two in zip(named, found, strict=True):
            records = [(record.role, record.phase, record.slot) for record in one.index.records]
            assert records == [(item.role, item.phase, item.slot) for item in two.index.records]
            assert one.manifest.phase is two.manifest.phase is Phase.UPDATE

    def test_an_optimizer_of_another_model_is_left_alone(self, tmp_path: Path) -> None:
        model, other = self.model(), self.model()
        optimizer = self.lab.optimizer(other, rate=0.1)
        with padiff.record(model, name="m", out=tmp_path) as recorder:
            self.lab.mean(model(self.lab.tensor(some(4, 3)))).backward()
            optimizer.step()

        assert open_dump(recorder.path).manifest.phase is Phase.BACKWARD

    def test_gradients_that_were_not_cleared_are_noted(self, tmp_path: Path) -> None:
        notes = open_dump(self.loop(tmp_path, count=2, clear=False)).manifest.notes

        assert any(note.startswith("step 1: some weights had a gradient") for note in notes)

    def test_paused_calls_and_calls_after_the_last_step_are_left_out(self, tmp_path: Path) -> None:
        model, x = self.model(), self.lab.tensor(some(4, 3))
        with padiff.record(model, name="m", out=tmp_path) as recorder:
            self.lab.mean(model(x)).backward()
            with recorder.pause():
                model(x)
            recorder.step()
            model(x)
        got = Recorded.read(recorder.path)

        assert got.calls() == ["#0", "f#0"]
        assert any("after the last recorder.step()" in note for note in got.manifest.notes)

    def test_numbers_are_recorded_under_their_names(self, tmp_path: Path) -> None:
        model, x = self.model(), self.lab.tensor(some(4, 3))
        with padiff.record(model, name="m", out=tmp_path) as recorder:
            self.lab.mean(model(x)).backward()
            recorder.record("accuracy", 0.75)
            recorder.step(loss=2.5)
        got = Recorded.read(recorder.path)

        assert got.array(Role.NAMED, "", "['accuracy']") == 0.75
        assert got.array(Role.LOSS) == 2.5

    def test_what_backward_passes_begin_at_are_the_losses(self, tmp_path: Path) -> None:
        model, x = self.model(), self.lab.tensor(some(4, 3))
        with padiff.record(model, name="m", out=tmp_path) as recorder:
            self.lab.mean(model(x)).backward()
            self.lab.mean(model(x) * 2).backward()
        got = Recorded.read(recorder.path)

        mean = got.array(Role.OUTPUT).mean()
        assert got.array(Role.LOSS, "", "[0]") == pytest.approx(mean, rel=1e-5)
        assert got.array(Role.LOSS, "", "[1]") == pytest.approx(2 * mean, rel=1e-5)

    def test_another_loss_that_nobody_named_is_proved(self, tmp_path: Path) -> None:
        model, x = self.model(), self.lab.tensor(some(4, 3))
        for name, factor in (("known", 3.0), ("found", 3.5)):
            with padiff.record(model, name=name, out=tmp_path):
                (self.lab.mean(model(x)) * factor).backward()

        result = padiff.compare(tmp_path / "known", tmp_path / "found")

        assert result.verdict is Verdict.DIVERGED
        assert "3.5 where the reference has 3" in str(result)

    def test_step_without_a_call_is_an_error(self, tmp_path: Path) -> None:
        def script() -> None:
            with padiff.record(self.model(), name="m", out=tmp_path) as recorder:
                recorder.step()

        with pytest.raises(RecordError, match="cannot record step 0"):
            script()

        assert not (tmp_path / "m").exists()

    def test_run_that_ends_too_early_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(RecordError, match="the run ended after 2"):
            self.loop(tmp_path, count=2, steps=[7])

    def test_what_is_no_optimizer_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="expected an optimizer"):
            padiff.record(self.model(), out=tmp_path, optimizer=object())
