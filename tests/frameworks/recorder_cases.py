"""Facts about recording that hold whatever the framework; each framework's file inherits them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

import padiff
from padiff.dumpfile import Role
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.recording import Array, Lab, Thing


def some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def run(
    model: Thing, out: Path, *args: Thing, grad_of: str | None = None, **options: Thing
) -> Recorded:
    """Record one forward and backward pass; the loss is the sum of the (first) output."""
    with padiff.record(model, name="m", out=out, **options) as recorder:
        output = model(*args)
        if grad_of is not None:
            output = output[grad_of]
        output = output[0] if isinstance(output, tuple) else output
        if recorder_wants_backward(output, options):
            output.sum().backward()
    return Recorded.read(recorder.path)


def recorder_wants_backward(output: Thing, options: dict[str, Any]) -> bool:
    if options.get("phase") == "forward" or output is None:
        return False
    return bool(getattr(output, "requires_grad", not getattr(output, "stop_gradient", True)))


@dataclasses.dataclass
class Answer:
    logits: Thing
    hidden: tuple[Any, ...] = ()
    extra: object = None


class CallCases:
    """Which calls and which values are recorded."""

    lab: ClassVar[Lab]

    def test_module_called_twice_has_two_calls(self, tmp_path: Path) -> None:
        model = self.lab.module(lambda self, x: self.f(self.f(x)), f=self.lab.nn.Linear(3, 3))

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        assert got.calls() == ["#0", "f#0", "f#1"]
        first = got.array(Role.OUTPUT, "f", call=0)
        assert np.array_equal(first, got.array(Role.INPUT, "f", "[0]", call=1))
        assert [call.parent for call in got.index.calls] == [None, 0, 0]

    def test_shared_module_is_one_module_with_an_alias(self, tmp_path: Path) -> None:
        shared = self.lab.nn.Linear(3, 3)
        model = self.lab.module(lambda self, x: self.b(self.a(x)), a=shared, b=shared)

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        assert [item.path for item in got.index.modules] == ["", "a"]
        assert got.index.modules[1].aliases == ("b",)
        assert got.calls() == ["#0", "a#0", "a#1"]

    def test_tied_parameter_is_one_value_under_both_names(self, tmp_path: Path) -> None:
        first, second = self.lab.nn.Linear(3, 3), self.lab.nn.Linear(3, 3)
        second.weight = first.weight
        model = self.lab.module(lambda self, x: self.b(self.a(x)), a=first, b=second)

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        at_a, at_b = (got.find(Role.WEIGHT, path, ".weight") for path in "ab")
        assert (at_a.value, at_a.tensor) == (at_b.value, at_b.tensor)
        assert at_a.tensor != got.find(Role.WEIGHT, "a", ".bias").tensor
        grad_a, grad_b = (got.find(Role.WEIGHT_GRAD, path, ".weight") for path in "ab")
        assert grad_a.value is not None
        assert grad_a.value == grad_b.value

    @pytest.mark.parametrize("rows", [4, 9000])  # large tensors are read without a copy
    def test_input_changed_in_place_keeps_its_earlier_value(
        self, rows: int, tmp_path: Path
    ) -> None:
        relu = self.lab.module(lambda _, x: self.lab.relu_(x), class_name="InPlace")
        model = self.lab.module(
            lambda self, x: self.r(self.f(x)), f=self.lab.nn.Linear(3, 3), r=relu
        )

        got = run(model, tmp_path, self.lab.tensor(some(rows, 3)))

        before = got.array(Role.OUTPUT, "f")
        assert (before < 0).any()
        assert np.array_equal(got.array(Role.INPUT, "r", "[0]"), before)
        assert np.array_equal(got.array(Role.OUTPUT, "r"), np.maximum(before, 0))
        assert np.array_equal(got.array(Role.GRAD_OUTPUT, "r"), np.ones((rows, 3), "float32"))
        assert np.array_equal(
            got.array(Role.GRAD_INPUT, "r", "[0]"), (before > 0).astype("float32")
        )
        assert np.array_equal(got.array(Role.GRAD_OUTPUT, "f"), (before > 0).astype("float32"))

    def test_gradient_of_a_linear_of_three_axes_that_is_changed_in_place(
        self, tmp_path: Path
    ) -> None:
        relu = self.lab.module(lambda _, x: self.lab.relu_(x), class_name="InPlace")
        model = self.lab.module(
            lambda self, x: self.r(self.f(x)), f=self.lab.nn.Linear(3, 3), r=relu
        )

        got = run(model, tmp_path, self.lab.tensor(some(2, 4, 3)))

        passed = (got.array(Role.OUTPUT, "f") > 0).astype("float32")
        assert not passed.all()
        assert np.array_equal(got.array(Role.GRAD_OUTPUT, "r"), np.ones((2, 4, 3), "float32"))
        assert np.array_equal(got.array(Role.GRAD_INPUT, "r", "[0]"), passed)
        assert np.array_equal(got.array(Role.GRAD_OUTPUT, "f"), passed)

    def test_gradient_of_a_view_with_swapped_axes_that_is_changed_in_place(
        self, tmp_path: Path
    ) -> None:
        one = self.lab.tensor(np.array([1.0], "float32"))
        turn = self.lab.module(lambda _, x: (x * one).transpose(*self.lab.swap), class_name="Turn")
        factor = self.lab.tensor(some(3, 2))

        def forward(self: Any, x: Any) -> Any:  # noqa: ANN401
            turned = self.t(self.f(x))
            turned *= factor
            return turned

        model = self.lab.module(forward, f=self.lab.nn.Linear(3, 3), t=turn)

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        assert np.array_equal(got.array(Role.GRAD_OUTPUT, "t"), some(3, 2))

    def test_plain_input_changed_in_place_by_the_call_itself(self, tmp_path: Path) -> None:
        inner = self.lab.module(lambda _, x: x.add_(self.lab.tensor(np.array([1.0], "float32"))))
        model = self.lab.module(lambda self, x: self.g(x), g=inner)
        given = some(3)

        got = run(model, tmp_path, self.lab.tensor(given))

        assert np.array_equal(got.array(Role.INPUT, "g", "[0]"), given)
        assert np.array_equal(got.array(Role.INPUT, "", "[0]"), given)
        assert np.array_equal(got.array(Role.OUTPUT, "g"), given + 1)

    def test_augmented_addition_after_a_call_does_not_change_its_output(
        self, tmp_path: Path
    ) -> None:
        def forward(self: Thing, x: Thing) -> Thing:
            h = self.f(x)
            h += x
            return self.g(h)

        linear = self.lab.nn.Linear
        model = self.lab.module(forward, f=linear(3, 3), g=linear(3, 3))
        given = some(2, 3)

        got = run(model, tmp_path, self.lab.tensor(given))

        kept, fed = got.array(Role.OUTPUT, "f"), got.array(Role.INPUT, "g", "[0]")
        assert np.array_equal(kept + given, fed)
        assert not np.array_equal(kept, fed)

    def test_view_is_recorded_with_its_own_shape(self, tmp_path: Path) -> None:
        view = self.lab.module(lambda _, x: x.reshape([3, 2]), class_name="View")
        model = self.lab.module(
            lambda self, x: self.v(self.f(x)), f=self.lab.nn.Linear(3, 3), v=view
        )

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        source, made = got.find(Role.OUTPUT, "f"), got.find(Role.OUTPUT, "v")
        assert (source.shape, made.shape) == ((2, 3), (3, 2))
        assert source.value == made.value

    def test_output_that_is_the_input(self, tmp_path: Path) -> None:
        model = self.lab.module(lambda self, x: self.i(x), i=self.lab.nn.Identity())
        given = some(2, 3)

        got = run(model, tmp_path, self.lab.tensor(given, requires_grad=True))

        assert np.array_equal(got.array(Role.OUTPUT, "i"), given)
        assert np.array_equal(got.array(Role.GRAD_INPUT, "i", "[0]"), np.ones_like(given))
        assert np.array_equal(got.array(Role.GRAD_OUTPUT, "i"), np.ones_like(given))

    def test_module_never_called_is_in_the_tree(self, tmp_path: Path) -> None:
        linear = self.lab.nn.Linear
        model = self.lab.module(lambda self, x: self.f(x), f=linear(3, 3), unused=linear(3, 3))

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        assert [item.path for item in got.index.modules] == ["", "f", "unused"]
        assert got.calls() == ["#0", "f#0"]
        assert got.find(Role.WEIGHT_GRAD, "unused", ".weight").value is None

    def test_nested_results_and_arguments_have_slots(self, tmp_path: Path) -> None:
        def forward(self: Thing, x: Thing, *, extra: Thing, flag: bool) -> Thing:
            h = self.f(x)
            return {"answer": Answer(logits=h, hidden=(h, [extra["m"], None])), "flag": flag}

        model = self.lab.module(forward, f=self.lab.nn.Linear(3, 3))
        x, mask = self.lab.tensor(some(2, 3)), self.lab.tensor(np.array([True, False]))

        with padiff.record(model, name="m", out=tmp_path) as recorder:
            model(x, extra={"m": mask}, flag=True)["answer"].logits.sum().backward()
        got = Recorded.read(recorder.path)

        assert got.slots(Role.INPUT) == ["[0]", "['extra']['m']"]
        assert got.slots(Role.OUTPUT) == [
            "['answer'].logits",
            "['answer'].hidden[0]",
            "['answer'].hidden[1][0]",
        ]
        call = got.index.calls[0]
        assert call.literals == {
            "input['flag']": True,
            "output['answer'].hidden[1][1]": None,
            "output['answer'].extra": None,
            "output['flag']": True,
        }
        assert call.containers == {"output['answer']": "Answer"}

    def test_none_output(self, tmp_path: Path) -> None:
        nothing = self.lab.module(lambda _, __: None)
        model = self.lab.module(lambda self, x: self.n(x), n=nothing)

        got = run(model, tmp_path, self.lab.tensor(some(2)))

        assert got.index.calls[1].literals == {"output": None}
        assert got.slots(Role.OUTPUT) == []

    @pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool", "float64", "complex64"])
    def test_dtypes_pass_unchanged(self, tmp_path: Path, dtype: str) -> None:
        given = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
        if dtype == "complex64":
            given = given * (1 + 2j)
        given = given.astype(dtype)
        model = self.lab.module(lambda self, x: self.i(x), i=self.lab.nn.Identity())

        got = run(model, tmp_path, self.lab.tensor(given))

        found = got.array(Role.OUTPUT, "i")
        assert found.dtype == given.dtype
        assert np.array_equal(found, given)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_short_floats_keep_their_bits(self, tmp_path: Path, dtype: str) -> None:
        given = np.array([1.5, -0.0, 3.140625, 65280.0], "float32")
        model = self.lab.module(lambda self, x: self.i(x), i=self.lab.nn.Identity())

        got = run(model, tmp_path, self.lab.cast(self.lab.tensor(given), dtype))

        found = got.array(Role.OUTPUT, "i")
        assert found.dtype.name == dtype
        assert np.array_equal(found.astype("float32"), given)

    @pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
    def test_scalars_and_empty_tensors(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        model = self.lab.module(lambda self, x: self.i(x), i=self.lab.nn.Identity())

        got = run(model, tmp_path, self.lab.tensor(np.full(shape, 2.5, "float32")))

        assert got.find(Role.OUTPUT, "i").shape == shape
        assert got.array(Role.OUTPUT, "i").shape == shape

    def test_non_contiguous_tensor_is_recorded_in_reading_order(self, tmp_path: Path) -> None:
        turn = self.lab.module(lambda _, x: x.transpose(*self.lab.swap), class_name="Turn")
        model = self.lab.module(lambda self, x: self.t(x), t=turn)
        given = some(2, 3)

        got = run(model, tmp_path, self.lab.tensor(given))

        assert np.array_equal(got.array(Role.OUTPUT, "t"), given.T)

    def test_call_site_is_the_line_of_the_model(self, tmp_path: Path) -> None:
        def forward(self: Thing, x: Thing) -> Thing:
            return self.f(x)

        model = self.lab.module(forward, f=self.lab.nn.Sequential(self.lab.nn.Linear(3, 3)))

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        line = forward.__code__.co_firstlineno + 1
        sites = {got.calls()[call.id]: call.site for call in got.index.calls}
        for name in ("f#0", "f.0#0"):
            site = sites[name]
            assert site is not None
            assert (site.file.endswith("recorder_cases.py"), site.line) == (True, line)
            assert not site.file.startswith("/")

    def test_class_and_configuration_are_recorded(self, tmp_path: Path) -> None:
        model = self.lab.module(
            lambda self, x: self.n(self.f(x)),
            f=self.lab.nn.Linear(3, 4),
            n=self.lab.nn.LayerNorm(4, 1e-3),
        )

        got = run(model, tmp_path, self.lab.tensor(some(2, 3)))

        linear, norm = got.index.modules[1:]
        assert (linear.class_name, norm.class_name) == ("Linear", "LayerNorm")
        assert linear.attributes["bias"] is True
        assert 1e-3 in (norm.attributes.get("eps"), norm.attributes.get("epsilon"))
        assert norm.source is not None
        assert norm.source.file.endswith("norm.py") or "normalization" in norm.source.file
