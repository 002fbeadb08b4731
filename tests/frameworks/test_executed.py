"""``padiff compare --execute`` asks for function, leaves and soundness, and none of a tolerance."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import paddle
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import padiff
from padiff.cli.main import main
from padiff.comparer import Verdict
from padiff.comparer.auditing import Soundness
from padiff.comparer.proving import Answer, Execution, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/report.schema.json").read_text())
X = np.random.default_rng(0).standard_normal((2, 6, 16)).astype(np.float32)


class _Attention(nn.Module):
    def __init__(self, scale: float = 0.25, *, is_written_out: bool = True) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.scale, self.is_written_out = scale, is_written_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.is_written_out:
            mixed = torch.softmax((q @ k.mT) * self.scale, -1) @ v
        else:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, scale=self.scale)
        result: torch.Tensor = x + mixed
        return result


class _Net(nn.Module):
    def __init__(self, second: nn.Module | None = None, between: Any = None) -> None:  # noqa: ANN401
        super().__init__()
        torch.manual_seed(3)
        self.first = _Attention()
        self.second: nn.Module = _Attention()
        self.norm = nn.LayerNorm(16)
        if second is not None:
            second.load_state_dict(self.second.state_dict())
            self.second = second
        self.between = between or (lambda x: x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(self.second(self.between(self.first(x))))
        return y


def recorded(folder: Path, name: str, model: nn.Module, **options: Any) -> Path:  # noqa: ANN401
    with padiff.record(model, name=name, out=folder, **options) as recorder:
        x = torch.from_numpy(X).to(next(model.parameters()).dtype)
        model(x).float().square().mean().backward()
    assert recorder.path is not None
    return recorder.path


def executed(folder: Path, reference: nn.Module, candidate: nn.Module) -> Execution:
    """Record both models, compare, and return what executing their only step says."""
    paths = recorded(folder, "reference", reference), recorded(folder, "candidate", candidate)
    (step,) = padiff.compare(paths[0], paths[1], execute=True).steps
    assert step.executed is not None
    return step.executed


def test_equal_programs_are_the_same_by_construction(tmp_path: Path) -> None:
    found = executed(tmp_path, _Net(), _Net())

    assert found.answer is Answer.SAME
    assert (found.function.constructed, found.function.executed) == (2, 0)
    assert found.function.leaves == 15
    assert found.function.lone == (0, 0)


def test_a_right_rewrite_is_the_same_function(tmp_path: Path) -> None:
    found = executed(tmp_path, _Net(), _Net(_Attention(is_written_out=False)))

    assert found.answer is Answer.SAME
    assert (found.function.constructed, found.function.executed) == (2, 0)


def test_another_expression_of_the_same_function_is_executed(tmp_path: Path) -> None:
    found = executed(tmp_path, _Net(), _Net(between=lambda x: torch.stack([x, x]).mean(0)))

    assert found.answer is Answer.SAME
    assert (found.function.constructed, found.function.executed) == (0, 2)
    assert found.function.largest is not None
    assert found.function.largest < 1e-12


class _Masked(nn.Module):
    """Attention that is given its mask, makes the same one itself, or has no use for it."""

    def __init__(self, *, is_read: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.q, self.k, self.v, self.is_read = *(nn.Linear(16, 16) for _ in range(3)), is_read

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if mask is None or not self.is_read:
            mask = torch.full((6, 6), -1e9).triu(1)
        scores = self.q(x) @ self.k(x).mT * 0.25 + mask
        result: torch.Tensor = x + torch.softmax(scores, -1) @ self.v(x)
        return result


@pytest.mark.parametrize("is_candidate", [False, True])
@pytest.mark.parametrize(
    ("mask", "is_read", "verdict"),
    [
        (torch.full((6, 6), -1e9).triu(1), True, Verdict.MATCH),
        (torch.zeros(6, 6), True, Verdict.DIVERGED),
        (torch.zeros(6, 6), False, Verdict.MATCH),
    ],
)
def test_an_input_that_one_side_alone_is_given_is_judged_by_the_function(
    mask: torch.Tensor, is_read: bool, verdict: Verdict, is_candidate: bool, tmp_path: Path
) -> None:
    dumps = []
    for given in ((), (mask,)):
        model = _Masked(is_read=is_read)
        with padiff.record(model, name=f"m{len(given)}", out=tmp_path) as one:
            model(torch.from_numpy(X), *given).square().mean().backward()
        dumps.append(one.path)

    reference, candidate = dumps[:: 1 if is_candidate else -1]
    found = padiff.compare(reference, candidate)

    assert found.verdict is verdict


def test_the_question_does_not_depend_on_the_dtype(tmp_path: Path) -> None:
    written_out = _Net(_Attention(is_written_out=False))

    found = executed(tmp_path, _Net().bfloat16(), written_out.bfloat16())

    assert found.function.answer is Answer.SAME


def test_a_factor_that_no_tolerance_sees_is_another_function(tmp_path: Path) -> None:
    reference = recorded(tmp_path, "reference", _Net(_Attention(0.25)))
    candidate = recorded(tmp_path, "candidate", _Net(_Attention(0.2500001)))

    result = padiff.compare(reference, candidate, execute=True)

    assert result.verdict is Verdict.MATCH
    found = result.steps[0].executed
    assert found is not None
    assert found.function.answer is Answer.HIDDEN
    for place in (found.function.reference, found.function.candidate):
        assert place is not None
        assert (place.operator, place.module) == ("torch.Tensor.mul", "second")
        assert place.site is not None
        assert place.site.file.endswith("test_executed.py")


@pytest.mark.parametrize(
    ("between", "operator"),
    [
        (lambda x: x.flip(1), "torch.Tensor.flip"),
        (lambda x: x.roll(1, 0), "torch.Tensor.roll"),
        (lambda x: x.mT.reshape(x.shape), "torch.Tensor.reshape"),
        (lambda x: x + 1e-6, "torch.Tensor.add"),
    ],
    ids=["other order of places", "other order of samples", "transposed", "tiny bias"],
)
def test_a_step_that_only_the_candidate_makes_is_named(
    between: Callable[[Any], Any], operator: str, tmp_path: Path
) -> None:
    function = executed(tmp_path, _Net(), _Net(between=between)).function

    assert function.answer is Answer.DIFFERENT
    assert function.candidate is not None
    assert (function.candidate.operator, function.candidate.module) == (operator, "")


def test_a_weight_that_is_no_copy_is_a_leaf_and_no_function(tmp_path: Path) -> None:
    candidate = _Net()
    with torch.no_grad():
        candidate.first.k.weight[3, 4] *= 1 + 2**-20

    found = executed(tmp_path, _Net(), candidate)

    assert found.answer is Answer.DIFFERENT
    assert found.function.answer is Answer.SAME
    (one,) = found.function.differences
    assert (one.candidate, one.kind, one.elements) == ("first.k.weight", "parameter", 1)


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return x.tanh()

    @staticmethod
    def backward(_: Any, *gradients: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return gradients[0] * 2


def test_a_wrong_backward_is_unsound_on_its_side_alone(tmp_path: Path) -> None:
    right, wrong = _Net(between=torch.tanh), _Net(between=_Doubled.apply)

    found = executed(tmp_path, right, wrong)

    assert found.soundness == (Soundness.SOUND, Soundness.UNSOUND)
    assert found.answer is Answer.DIFFERENT


class _WrongTanh(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets the kernel of tanh give something else, below all that is recorded."""

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: Any = (),  # noqa: ANN401
        kwargs: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        made = func(*args, **(kwargs or {}))
        return made * 1.01 if func is torch.ops.aten.tanh.default else made


@pytest.mark.parametrize("scale", [0.25, 0.2501])
def test_a_wrong_kernel_is_unsound_and_hides_no_other_function(
    scale: float, tmp_path: Path
) -> None:
    reference = recorded(tmp_path, "reference", _Net(between=torch.tanh))
    with _WrongTanh():  # type: ignore[no-untyped-call]
        model = _Net(_Attention(scale), between=torch.tanh)
        candidate = recorded(tmp_path, "candidate", model)

    result = padiff.compare(reference, candidate)

    assert result.verdict is Verdict.DIVERGED
    found = result.steps[0].executed
    assert found is not None
    assert found.soundness == (Soundness.SOUND, Soundness.UNSOUND)
    is_same = found.function.answer is Answer.SAME
    assert is_same is (scale == 0.25)


def test_draws_of_the_reference_stand_for_the_candidates(tmp_path: Path) -> None:
    models = [_Net(between=nn.Dropout(0.5)).train() for _ in range(2)]
    paths = []
    for seed, model in enumerate(models):
        torch.manual_seed(seed)
        paths.append(recorded(tmp_path, f"seed{seed}", model))

    (step,) = padiff.compare(paths[0], paths[1], execute=True).steps

    assert step.executed is not None
    assert step.executed.function.answer is Answer.SAME


def test_a_fault_before_a_draw_is_found_behind_it_all_the_same(tmp_path: Path) -> None:
    def with_dropout(scale: float) -> nn.Module:
        return nn.Sequential(_Attention(scale), nn.Dropout(0.5), nn.Linear(16, 4)).train()

    found = []
    for scale in (0.25, 0.26):
        torch.manual_seed(3)
        found.append(with_dropout(scale))

    function = executed(tmp_path, found[0], found[1]).function

    assert function.answer is Answer.DIFFERENT
    assert function.candidate is not None
    assert function.candidate.module == "0"


def test_a_gradient_that_reaches_one_side_only_is_a_difference(tmp_path: Path) -> None:
    def detached(x: torch.Tensor) -> torch.Tensor:
        return x.detach()

    function = executed(tmp_path, _Net(), _Net(between=detached)).function

    assert function.answer is Answer.SAME
    assert {one.kind for one in function.differences} == {"gradient"}
    assert {one.candidate for one in function.differences} >= {"first.q.weight", "first.v.bias"}


class _Branch(nn.Module):
    def __init__(self, cut: Callable[[Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.one, self.two, self.cut = nn.Linear(16, 16), nn.Linear(16, 16), cut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.one(x)
        result: torch.Tensor = self.cut(y) + torch.tanh(self.two(y))
        return result


def test_a_small_part_that_is_detached_is_told_at_its_operator(tmp_path: Path) -> None:
    """Next to all that a parameter before it learns in another way, it learns nothing."""

    class Net(_Branch):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.one(x)
            result: torch.Tensor = y + self.cut(self.two(y) * 1e-4)
            return result

    models = Net(lambda y: y), Net(lambda y: y.detach())

    function = executed(tmp_path, *models).function

    assert "torch.Tensor.mul of (root)" in {one.candidate for one in function.differences}


def test_a_branch_that_is_detached_is_a_difference(tmp_path: Path) -> None:
    """All parameters learn all the same: what reaches ``one`` is another gradient."""
    models = _Branch(lambda y: y), _Branch(lambda y: y.detach())

    function = executed(tmp_path, *models).function

    assert function.answer is Answer.SAME
    (one,) = function.differences
    assert (one.kind, one.candidate) == ("gradient", "torch.nn.functional.linear of one")
    assert one.place is not None
    assert (one.place.operator, one.place.module) == ("torch.Tensor.detach", "")


def _turned(y: torch.Tensor, *, is_late: bool) -> torch.Tensor:
    """Take a detached factor behind a transpose that both sides have."""
    turned = y.mT
    factor = turned.detach() if is_late else y.detach().mT
    return (turned * factor).mT


def test_a_value_detached_ahead_of_a_transpose_or_behind_it_is_one_beside_a_fault(
    tmp_path: Path,
) -> None:
    models = (
        _Branch(lambda y: _turned(y, is_late=False)),
        _Branch(lambda y: _turned(y, is_late=True) * 2),
    )

    function = executed(tmp_path, *models).function

    assert function.answer is Answer.DIFFERENT
    assert function.differences == ()


def _in_part(y: torch.Tensor) -> torch.Tensor:
    return torch.cat([y[..., :4].detach(), y[..., 4:]], -1)


def _sloped(y: torch.Tensor, *, is_kept: bool) -> torch.Tensor:
    (slope,) = torch.autograd.grad(torch.tanh(y).sum(), y, create_graph=is_kept)
    return y * slope


@pytest.mark.parametrize(
    ("right", "wrong", "operator"),
    [
        (lambda y: y, _in_part, "torch.Tensor.detach"),
        (torch.tanh, torch.no_grad()(torch.tanh), "torch.tanh"),
        (lambda y: y / y.norm(), lambda y: y / y.norm().item(), "torch.Tensor.item"),
        (partial(_sloped, is_kept=True), partial(_sloped, is_kept=False), "torch.grad"),
    ],
    ids=["a part", "no_grad", "a number", "a graph that is not kept"],
)
def test_what_cuts_a_gradient_off_is_named(
    tmp_path: Path,
    right: Callable[[Any], Any],
    wrong: Callable[[Any], Any],
    operator: str,
) -> None:
    function = executed(tmp_path, _Branch(right), _Branch(wrong)).function

    assert function.answer is Answer.SAME
    (one,) = function.differences
    assert one.place is not None
    assert (one.kind, one.place.operator, one.place.module) == ("gradient", operator, "")
    assert one.is_without_gradients is (operator == "torch.tanh")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_part_in_a_coarser_dtype_is_lost_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    found = executed(tmp_path, _Net(), _Net(between=lambda x: x.to(dtype).float()))

    assert found.function.answer is Answer.SAME
    assert found.answer is Answer.DIFFERENT
    coarser = found.function.coarser
    assert coarser is not None
    assert (coarser.reference, f"torch.{coarser.candidate}") == ("float32", str(dtype))
    assert (coarser.place.operator, coarser.place.module) == ("torch.Tensor.to", "")


def test_a_model_in_another_dtype_has_lost_nothing(tmp_path: Path) -> None:
    found = executed(tmp_path, _Net(), _Net().to(torch.bfloat16))

    assert found.function.coarser is None


def test_more_precision_than_the_reference_is_no_loss(tmp_path: Path) -> None:
    found = executed(tmp_path, _Net(between=lambda x: x.bfloat16().float()), _Net())

    assert found.function.coarser is None


def test_what_may_be_detached_is_no_difference(tmp_path: Path) -> None:
    def stable(x: torch.Tensor, most: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x - most, -1)

    models = [
        _Net(between=lambda x: stable(x, x.amax(-1, keepdim=True))),
        _Net(between=lambda x: stable(x, x.amax(-1, keepdim=True).detach())),
    ]

    function = executed(tmp_path, models[0], models[1]).function

    assert function.answer is Answer.SAME
    assert function.differences == ()


def test_without_a_program_there_is_no_answer(tmp_path: Path) -> None:
    with_one = recorded(tmp_path, "reference", _Net())
    without = recorded(tmp_path, "candidate", _Net(), program=False)

    (step,) = padiff.compare(with_one, without, execute=True).steps

    assert step.executed is not None
    assert step.executed.answer is Answer.UNKNOWN
    assert step.executed.function.unknown is Unknown.NO_PROGRAM


class _Paddle(paddle.nn.Layer):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.into, self.out = paddle.nn.Linear(16, 32), paddle.nn.Linear(32, 16)
        self.norm = paddle.nn.LayerNorm(16, epsilon=epsilon)

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        return self.norm(x + self.out(paddle.nn.functional.gelu(self.into(x))))


class _Torch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.into, self.out, self.norm = nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.norm(self.out(nn.functional.gelu(self.into(x))) + x)
        return y


@pytest.mark.parametrize(
    ("epsilon", "answer"), [(1e-5, Answer.SAME), (1e-6, Answer.DIFFERENT)], ids=["right", "wrong"]
)
def test_a_port_to_another_framework(epsilon: float, answer: Answer, tmp_path: Path) -> None:
    original, port = _Torch(), _Paddle(epsilon)
    padiff.assign_weight(original, port)
    reference = recorded(tmp_path, "reference", original)
    with padiff.record(port, name="candidate", out=tmp_path) as recorder:
        port(paddle.to_tensor(X)).square().mean().backward()
    assert recorder.path is not None

    (step,) = padiff.compare(reference, recorder.path, execute=True).steps

    assert step.executed is not None
    function = step.executed.function
    assert function.answer is answer
    assert function.differences == ()
    if answer is Answer.DIFFERENT:
        assert function.candidate is not None
        assert function.candidate.module == "norm"


class _Normed(nn.Module):
    """A norm in the middle, of values whose variance is about 90."""

    def __init__(self, norm: nn.Module, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.into, self.norm, self.out = nn.Linear(16, 16), norm, nn.Linear(16, 8)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.into(x).flatten(0, -2) * 16.0) * self.scale
        result: torch.Tensor = self.out(nn.functional.gelu(y))
        return result


_FINDINGS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module], Answer]] = {
    "epsilon of a layer norm": (
        lambda: _Normed(nn.LayerNorm(16, eps=1e-12)),
        lambda: _Normed(nn.LayerNorm(16, eps=1e-6)),
        Answer.HIDDEN,
    ),
    "epsilon of a batch norm": (
        lambda: _Normed(nn.BatchNorm1d(16, eps=1e-12)),
        lambda: _Normed(nn.BatchNorm1d(16, eps=1e-6)),
        Answer.HIDDEN,
    ),
    "a scale of 1 and 3e-8": (
        lambda: _Normed(nn.LayerNorm(16)),
        lambda: _Normed(nn.LayerNorm(16), 1 + 3e-8),
        Answer.HIDDEN,
    ),
    "a scale of 1.00001": (
        lambda: _Normed(nn.LayerNorm(16)),
        lambda: _Normed(nn.LayerNorm(16), 1.00001),
        Answer.DIFFERENT,
    ),
    "a scale of 1.001": (
        lambda: _Normed(nn.LayerNorm(16)),
        lambda: _Normed(nn.LayerNorm(16), 1.001),
        Answer.DIFFERENT,
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", _FINDINGS)
def test_what_rounding_hides_is_a_finding_with_a_proof(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    reference, candidate, answer = _FINDINGS[name]

    found = executed(tmp_path, reference().to(dtype), candidate().to(dtype))

    is_hidden = answer is Answer.HIDDEN
    assert found.function.answer is answer
    assert found.answer is (Answer.SAME if is_hidden else Answer.DIFFERENT)
    assert found.answer_with(strict=True) is Answer.DIFFERENT
    assert found.is_hidden is is_hidden
    assert found.function.edits
    assert found.function.effect is not None
    assert (found.function.effect.share <= 1) is is_hidden


def test_float64_hides_less(tmp_path: Path) -> None:
    reference, candidate, _ = _FINDINGS["epsilon of a layer norm"]

    found = executed(tmp_path, reference().double(), candidate().double())

    assert found.function.answer is Answer.DIFFERENT


class _Spotted(nn.Module):
    """One of 192 elements may be off."""

    def __init__(self, error: float) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.into, self.error = nn.Linear(16, 16), error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.into(x)
        spot = torch.zeros_like(y)
        spot[0, 0, 0] = self.error
        result: torch.Tensor = y + spot * y
        return result


def test_one_element_is_enough_for_a_difference(tmp_path: Path) -> None:
    """On the whole the difference is as small as what rounding makes of all elements."""
    found = executed(tmp_path, _Spotted(0.0), _Spotted(4e-6))

    assert found.function.answer is Answer.DIFFERENT


def test_a_leaf_beside_a_finding_is_a_difference(tmp_path: Path) -> None:
    reference, candidate, _ = _FINDINGS["epsilon of a layer norm"]
    other = candidate()
    with torch.no_grad():
        other.get_parameter("out.weight")[3, 4] *= 1 + 2**-20

    found = executed(tmp_path, reference(), other)

    assert found.function.answer is Answer.HIDDEN
    assert found.answer is Answer.DIFFERENT


def test_reports_tell_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, candidate, _ = _FINDINGS["epsilon of a layer norm"]
    paths = recorded(tmp_path, "a", reference()), recorded(tmp_path, "b", candidate())
    report = tmp_path / "report.json"

    main(["compare", *map(str, paths), "--execute", "--strict", "--json", str(report)])

    said = " ".join(capsys.readouterr().out.split())
    assert "same function? no, but rounding hides it: 2 executed; largest error " in said
    assert "of layer_norm: 1e-06 where the reference has 1e-12" in said
    data = json.loads(report.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    found = data["steps"][0]["executed"]
    assert (found["answer"], found["is_hidden"]) == ("same", True)
    assert found["function"]["effect"]["is_hidden"]
    assert (data["settings"]["execute"], data["settings"]["strict"]) == (True, True)
    assert "strict yes" in said
    assert "execute yes" not in said


def test_report_and_json_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [
        recorded(tmp_path, name, _Net(_Attention(scale)))
        for name, scale in (("reference", 0.25), ("candidate", 0.25001))
    ]
    report = tmp_path / "report.json"

    main(["compare", *map(str, paths), "--execute", "--json", str(report)])

    said = " ".join(capsys.readouterr().out.split())  # lines are folded where they are long
    assert "BY EXECUTION" in said
    assert re.search(
        "same function\\? no: 2 executed; largest error .* where rounding makes ", said
    )
    assert "other of mul: 0.25001 where the reference has 0.25" in said
    assert "candidate at torch.Tensor.mul of second (_Attention), " in said
    data = json.loads(report.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert data["steps"][0]["executed"]["function"]["candidate"]["module"] == "second"
    assert (data["settings"]["execute"], data["settings"]["strict"]) == (True, False)


class _Read(nn.Module):
    """Reads what a linear layer makes in float64, by an operator without a rule or written out."""

    def __init__(self, *, is_written_out: bool, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.is_written_out, self.scale = nn.Linear(16, 8), is_written_out, scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).double() * self.scale
        if self.is_written_out:
            written: torch.Tensor = (y * y).exp() * torch.special.erfc(y)
            return written
        found: torch.Tensor = torch.special.erfcx(y)
        return found


def test_an_outcome_without_a_rule_is_as_coarse_as_what_it_was_made_of(tmp_path: Path) -> None:
    reference = _Read(is_written_out=True)
    right, wrong = (
        executed(tmp_path / str(scale), reference, _Read(is_written_out=False, scale=scale))
        for scale in (1.0, 1.01)
    )

    assert right.function.unknown is Unknown.BEHIND
    assert wrong.answer is Answer.DIFFERENT
