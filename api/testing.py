"""``padiff.testing``: a conformance kit for adapters of other frameworks.

A package that brings an adapter (docs/frameworks.md) runs it with pytest::

    from padiff.testing import Nets, adapter_suite

    TestAdapter = adapter_suite("myframework", Nets(nested=…, shared=…, failing=…, catching=…))

No other framework is needed: values are held against a run without padiff, gradients against
differences of the loss, and the program against what was recorded.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.comparer.auditing import Soundness
from padiff.dumper import Recorder, RecordSettings, adapters
from padiff.dumper.recording.live import LiveSide
from padiff.dumper.weights.weights import load_weights
from padiff.dumpfile import LeafKind, RecordError, Role, numpy_dtype, open_dump
from padiff.program import TABLES, lower, read_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Model
    from padiff.dumpfile import RecordInfo
    from padiff.dumpfile.stepfile import StepFile
    from padiff.program import RecordedProgram

Array = Any
INPUT = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
"""What every net is fed, cast to float64: shape (2, 3)."""
NESTED = [("", ""), ("inner", ""), ("inner.first", "inner"), ("inner.act", "inner"),
          ("inner.second", "inner")]  # fmt: skip
"""The calls of ``Nets.nested`` in the order in which they begin, each with the one around it."""
STEP = 1e-4
"""Distance of the two losses whose difference is held against a gradient, in float64."""
CLOSE = 1e-6
"""How far the two may differ, relative to gradient and direction; the difference itself is exact to
STEP squared."""
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nets:
    """Small models of the framework, each built anew at every call.

    All take one array of shape (2, 3). ``Linear`` stands for the framework's layer with weight
    and bias; each holds weights of its own, drawn at random.
    """

    nested: Callable[[], Model]
    """``inner``, a module that calls its ``first`` (Linear 3 to 4), ``act`` (a module that computes
    a tanh) and ``second`` (Linear 4 to 2), one behind the other."""
    shared: Callable[[], Model]
    """Calls ``one`` (Linear 3 to 3), then ``other``, which is the same module."""
    failing: Callable[[], Model]
    """Calls ``good`` (Linear 3 to 3), then ``bad``, which raises ``ValueError("planted")``."""
    catching: Callable[[], Model]
    """Calls ``bad``, which raises that, catches it, and returns what ``good`` makes of the same."""
    writing: Callable[[], Model] | None = None
    """Calls ``good`` (Linear 3 to 3), adds 1 to what that returned *in place*, and returns it times
    2; None if the framework has no operators that write in place."""
    dtypes: tuple[str, ...] = DTYPES
    """Those that the framework has."""


class NestedSuite:
    """The rules that need nothing but a dump of ``Nets.nested``."""

    def nested(self, tmp_path: Path) -> StepFile:
        """Record that net; returns what was recorded."""
        raise NotImplementedError

    def test_what_a_module_returns_is_what_the_next_one_takes(self, tmp_path: Path) -> None:
        recorded = self.nested(tmp_path)
        value = self.program(recorded).borders
        for before, after in (("first", "act"), ("act", "second")):
            made = self.records(recorded, f"inner.{before}", Role.OUTPUT)[0]
            taken = self.records(recorded, f"inner.{after}", Role.INPUT)[0]
            assert value[made.id] == value[taken.id]
        made, whole = (
            self.records(recorded, path, Role.OUTPUT)[0] for path in ("inner.second", "")
        )
        assert value[made.id] == value[whole.id]

    def test_calls_are_nested_as_they_ran(self, tmp_path: Path) -> None:
        recorded = self.nested(tmp_path)

        assert self.calls(recorded) == NESTED

    def test_the_program_is_whole(self, tmp_path: Path) -> None:
        recorded = self.nested(tmp_path)
        whole = self.program(recorded)

        lowered = lower(whole.program, TABLES[recorded.framework], contents=whole.elements)

        assert whole.program.operators
        assert not lowered.opaque, dict(lowered.opaque)
        assert not [value for value in whole.program.values if value.kind is LeafKind.HOLE]
        result = whole.borders[self.records(recorded, "", Role.OUTPUT)[0].id]
        assert result in {value for one in whole.program.operators for value in one.outputs}

    def test_the_program_computes_what_was_recorded(self, tmp_path: Path) -> None:
        from padiff.audits import audit  # noqa: PLC0415 - as users have it

        recorded = self.nested(tmp_path)

        found = audit(recorded.path.parents[1])

        assert found.soundness is Soundness.SOUND, found.first

    # -- what the rules use

    def records(self, recorded: StepFile, path: str, role: Role) -> list[RecordInfo]:
        """Return the records of a module's first call, or of its weights."""
        index = recorded.index
        return [
            one
            for one in index.records
            if index.modules[one.module].path == path
            and one.role is role
            and (one.call is None or index.calls[one.call].index == 0)
        ]

    def only(self, recorded: StepFile, path: str, role: Role) -> Array:
        """Return the elements of the one record of a module's first call."""
        found = self.records(recorded, path, role)
        assert len(found) == 1, f"expected one {role} of {path!r}, found {len(found)}"
        assert found[0].value is not None, f"the {role} of {path!r} has no elements"
        return recorded.array(found[0])

    def program(self, recorded: StepFile) -> RecordedProgram:
        """Return the program of what was recorded."""
        found = read_program(recorded)
        assert found is not None, "no program was recorded"
        return found

    def calls(self, recorded: StepFile) -> list[tuple[str, str]]:
        """Return the paths of calls and of those around them, in the order in which they begin."""
        index = recorded.index
        paths = [index.modules[call.module].path for call in index.calls]
        around = ["" if call.parent is None else paths[call.parent] for call in index.calls]
        return list(zip(paths, around, strict=True))


class AdapterSuite(NestedSuite):
    """The rules; ``adapter_suite`` makes the class of one adapter."""

    adapter: Adapter
    nets: Nets

    # -- values

    def test_recording_changes_no_result(self, tmp_path: Path) -> None:
        model = self.build(self.nets.nested)
        before = self.plain(model)

        recorded = self.record(model, tmp_path)

        assert np.array_equal(before, self.only(recorded, "", Role.OUTPUT))
        assert np.array_equal(before, self.plain(model))

    def test_inputs_and_weights_are_those_of_the_model(self, tmp_path: Path) -> None:
        model = self.build(self.nets.nested)
        side = LiveSide(model, self.adapter)
        held = {_name(side, one): side.array(one) for one in side.index.records}

        recorded = self.record(model, tmp_path)

        assert np.array_equal(self.only(recorded, "", Role.INPUT), self.input())
        found = {
            _name(recorded, one): recorded.array(one)
            for one in recorded.index.records
            if one.role is Role.WEIGHT
        }
        assert len(found) == 4, "two layers with weight and bias"
        assert all(np.array_equal(held[name], found[name]) for name in found)

    def test_a_snapshot_stays_what_it_was(self) -> None:
        model = self.build(self.nets.nested)
        side = LiveSide(model, self.adapter)
        record = side.index.records[0]
        before = side.array(record)
        kept = before.copy()

        side.assign(record, before + 1)

        assert np.array_equal(before, kept)
        assert np.array_equal(side.array(record), kept + 1)

    def test_every_dtype_and_shape_survives(self) -> None:
        for name in self.nets.dtypes:
            for shape in ((), (0, 2), (1,), (2, 3)):
                array = np.arange(int(np.prod(shape))).reshape(shape).astype(numpy_dtype(name))
                tensor = self.adapter.tensor(array, device="cpu", dtype=None)
                found = self.adapter.snapshot(tensor)
                assert found.dtype == array.dtype, name
                assert found.shape == shape, f"{name}: expected shape {shape}, found {found.shape}"
                assert found.tobytes() == array.tobytes(), name

    def test_what_is_written_in_place_is_recorded_as_it_was(self, tmp_path: Path) -> None:
        if self.nets.writing is None:
            return
        recorded = self.record(self.build(self.nets.writing), tmp_path)

        made = self.only(recorded, "good", Role.OUTPUT)

        assert np.allclose((made + 1) * 2, self.only(recorded, "", Role.OUTPUT), rtol=1e-12)

    # -- calls

    def test_a_shared_module_is_one_with_two_calls(self, tmp_path: Path) -> None:
        recorded = self.record(self.build(self.nets.shared), tmp_path)
        index = recorded.index

        (shared,) = [module for module in index.modules if module.path]
        calls = [call.index for call in index.calls if call.module == shared.id]
        gradients = self.records(recorded, shared.path, Role.WEIGHT_GRAD)

        assert (shared.path, shared.aliases) == ("one", ("other",))
        assert calls == [0, 1]
        assert len(gradients) == 2, "weight and bias, each once"
        self.check_weight_gradients(self.nets.shared, tmp_path / "again")

    def test_an_exception_leaves_nothing_behind(self, tmp_path: Path) -> None:
        model = self.build(self.nets.failing)
        for _ in range(2):
            try:
                self.record(model, tmp_path)
            except ValueError as error:
                assert "planted" in str(error)  # noqa: PT017 - the adapter may not swallow it
            else:
                raise AssertionError("the exception of the model was lost")
        assert not list(tmp_path.rglob("manifest.json"))
        recorded = self.record(self.build(self.nets.nested), tmp_path)
        assert self.calls(recorded) == NESTED

    def test_a_call_that_raised_holds_none_of_the_later_ones(self, tmp_path: Path) -> None:
        recorded = self.record(self.build(self.nets.catching), tmp_path)

        assert self.calls(recorded) == [("", ""), ("bad", ""), ("good", "")]

    def test_other_threads_are_left_alone(self, tmp_path: Path) -> None:
        other = self.build(self.nets.nested)
        model = self.build(self.nets.nested)
        before = self.plain(model)

        def meanwhile() -> None:
            thread = threading.Thread(target=self.plain, args=(other,))
            thread.start()
            thread.join()

        recorded = self.record(model, tmp_path, meanwhile=meanwhile)

        assert self.calls(recorded) == NESTED
        assert np.array_equal(before, self.only(recorded, "", Role.OUTPUT))

    def test_nothing_is_recorded_after_the_end(self, tmp_path: Path) -> None:
        model = self.build(self.nets.nested)
        heard: list[object] = []
        handle = self.adapter.hook_calls(
            model, lambda *given: heard.append(given), lambda *given: heard.append(given)
        )
        self.plain(model)
        assert len(heard) == 2, "before and after"
        handle.remove()

        self.plain(model)

        assert len(heard) == 2

    # -- gradients

    def test_gradients_of_weights_are_those_of_the_loss(self, tmp_path: Path) -> None:
        self.check_weight_gradients(self.nets.nested, tmp_path)

    def test_the_gradient_of_a_bias_is_that_of_the_output_summed(self, tmp_path: Path) -> None:
        recorded = self.record(self.build(self.nets.nested), tmp_path)
        for layer in ("inner.first", "inner.second"):
            output = self.only(recorded, layer, Role.GRAD_OUTPUT).sum(axis=0)
            found = self.records(recorded, layer, Role.WEIGHT_GRAD)
            (bias,) = [one for one in found if len(one.shape) == 1]
            assert np.allclose(output, recorded.array(bias), rtol=CLOSE, atol=1e-12)

    def test_gradients_agree_along_the_way(self, tmp_path: Path) -> None:
        recorded = self.record(self.build(self.nets.nested), tmp_path)
        for before, after in (("first", "act"), ("act", "second")):
            made = self.only(recorded, f"inner.{before}", Role.GRAD_OUTPUT)
            assert np.array_equal(made, self.only(recorded, f"inner.{after}", Role.GRAD_INPUT))

    # -- weights

    def test_weights_can_be_carried_into_another_model(self, tmp_path: Path) -> None:
        model, other = self.build(self.nets.nested), self.build(self.nets.nested)
        side, fresh = LiveSide(model, self.adapter), LiveSide(other, self.adapter)
        for one in side.index.records:
            side.assign(one, 2 * side.array(one) + 1)
        before = {_name(fresh, one): fresh.array(one) for one in fresh.index.records}
        recorded = self.record(model, tmp_path)

        load_weights(other, self.adapter, tmp_path / "net")

        held = {_name(fresh, one): fresh.array(one) for one in fresh.index.records}
        for one in recorded.index.records:
            if one.role is Role.WEIGHT:
                name = _name(recorded, one)
                assert np.array_equal(held[name], recorded.array(one)), name
                assert not np.array_equal(held[name], before[name]), name

    # -- what the rules use

    def nested(self, tmp_path: Path) -> StepFile:
        """Record the net of the same name."""
        return self.record(self.build(self.nets.nested), tmp_path)

    def build(self, make: Callable[[], Model]) -> Model:
        """Build a model in float64, in evaluation mode."""
        self.adapter.seed(0)
        model = self.adapter.place(make(), device=None, dtype="float64")
        self.adapter.set_training(model, training=False)
        return model

    def input(self) -> Array:
        """Return what a model is fed."""
        return INPUT.astype(np.float64)

    def run(self, model: Model) -> Any:  # noqa: ANN401
        """Run a model once."""
        return model(self.adapter.tensor(self.input(), device="cpu", dtype=None))

    def plain(self, model: Model) -> Array:
        """Return what a model computes without a recorder."""
        return self.adapter.snapshot(self.run(model))

    def loss(self, model: Model) -> float:
        """Return the loss of a model without a recorder: the sum of squares of its output.

        Summed in float64: the mean of padiff's own loss is one of float32.
        """
        return float((self.plain(model) ** 2).sum())

    def record(
        self, model: Model, out: Path, *, meanwhile: Callable[[], None] | None = None
    ) -> StepFile:
        """Record a forward and a backward pass from the sum of squares of the output."""
        settings = RecordSettings(out=out, name="net", overwrite=True)
        with Recorder(model, settings, self.adapter) as recorder:
            if meanwhile is not None:
                meanwhile()
            output = self.run(model)
            loss = (output * output).sum()
            recorder.loss(loss)
            self.adapter.backward(loss)
        self.adapter.trainer.clear_model(model)
        if not recorder.counts.records:
            raise RecordError("nothing was recorded")
        return open_dump(out / "net").open(0, 0)

    def check_weight_gradients(self, make: Callable[[], Model], out: Path) -> None:
        """Hold the gradient of each weight against the difference of two losses."""
        model = self.build(make)
        recorded = self.record(model, out)
        side = LiveSide(model, self.adapter)
        held = {_name(side, one): one for one in side.index.records}
        gradients = [one for one in recorded.index.records if one.role is Role.WEIGHT_GRAD]
        assert gradients, "no gradient of a weight was recorded"
        for one in gradients:
            weight = held[_name(recorded, one)]
            before, gradient = side.array(weight), recorded.array(one)
            way = np.random.default_rng(one.id).standard_normal(before.shape)
            losses = []
            for sign in (1, -1):
                side.assign(weight, before + sign * STEP * way)
                losses.append(self.loss(model))
            side.assign(weight, before)
            expected, found = (losses[0] - losses[1]) / (2 * STEP), float((gradient * way).sum())
            size = float(np.linalg.norm(gradient) * np.linalg.norm(way))
            assert abs(expected - found) <= CLOSE * size, _name(recorded, one)


def adapter_suite(adapter: Adapter | str, nets: Nets) -> type[AdapterSuite]:
    """Return a class of tests for one adapter, to be bound to a name that pytest collects.

    Args:
        adapter: The adapter, or the name of one that is registered.
        nets: Small models of its framework.

    Raises:
        ConfigError: No adapter has that name, or its framework is not installed.
    """

    class TestAdapter(AdapterSuite):
        """The rules, for one adapter."""

    TestAdapter.adapter = adapters.load(adapter) if isinstance(adapter, str) else adapter
    TestAdapter.nets = nets
    return TestAdapter


def graph_suite(record: Callable[[Path], tuple[Path, Array]]) -> type[NestedSuite]:
    """Return a class of tests for what reads graph files, to be bound to a name.

    Args:
        record: Exports ``Nets.nested`` of any framework into a folder and records the file; returns
            the dump, and the output of the net that was exported.
    """

    class TestGraph(NestedSuite):
        """The rules for one format."""

        def nested(self, tmp_path: Path) -> StepFile:
            dump, _ = record(tmp_path)
            return open_dump(dump).open(0, 0)

        def test_the_output_is_that_of_the_exported_net(self, tmp_path: Path) -> None:
            dump, expected = record(tmp_path)
            with open_dump(dump).open(0, 0) as recorded:
                found = self.only(recorded, "", Role.OUTPUT)
            assert np.allclose(found, expected, rtol=CLOSE, atol=CLOSE)

    return TestGraph


def _name(side: LiveSide | StepFile, record: RecordInfo) -> str:
    """Return the full name of a weight, or of the weight that a gradient belongs to."""
    return f"{side.index.modules[record.module].path}{record.slot}".removeprefix(".")
