"""``padiff audit`` finds, in one dump, what operators and gradients have wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import padiff
from padiff.comparer.auditing import Answers, Audit, Check, Soundness, audit
from padiff.comparer.auditing.result import Reason
from padiff.comparer.proving import questions
from padiff.dumpfile import CompareError
from tests.support.planted_authors import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.comparer.auditing.forward import Measured


Thing = Any


class _Net(nn.Module):
    """Two layers around a function that a test plants."""

    def __init__(self, between: Callable[[Any], Any] = torch.tanh) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.one, self.norm, self.two = nn.Linear(16, 24), nn.LayerNorm(24), nn.Linear(24, 8)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.two(self.between(self.norm(self.one(x))))
        return y


def audited(
    model: nn.Module, folder: Path, inputs: dict[str, Any] | None = None, **options: Thing
) -> Audit:
    """Record a model and audit its only step."""
    torch.manual_seed(0)
    inputs = inputs or {"x": torch.randn(5, 16).to(next(model.parameters()).dtype)}
    with padiff.record(model, name="model", out=folder, **options) as recorder:
        result = model(**inputs)
        first = result if isinstance(result, torch.Tensor) else result[0]
        first.float().square().mean().backward()
    return padiff.audit(recorder.path)["step 0"]


@pytest.mark.parametrize(("is_training", "dtype"), [(True, "float32"), (False, "bfloat16")])
@pytest.mark.parametrize("name", MODELS)
def test_clean_models_are_sound(
    name: str,
    is_training: bool,
    dtype: str,
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    kind = getattr(torch, dtype)
    inputs = {key: one.to(kind) if one.is_floating_point() else one for key, one in inputs.items()}

    found = audited(model.to(kind).train(is_training), tmp_path, inputs)

    assert found.unsound == ()
    assert found.opaque == {}
    assert found.count(Check.FORWARD, Soundness.SOUND) > 30
    assert found.count(Check.GRADIENT, Soundness.SOUND) > 30


def test_the_gradient_of_what_a_draw_has_the_shape_of_is_audited(tmp_path: Path) -> None:
    found = audited(_Net(lambda x: torch.randn_like(x) * x), tmp_path)

    sound = {one.operator for one in found.values if one.soundness is Soundness.SOUND
             and one.check is Check.GRADIENT}  # fmt: skip
    assert "torch.nn.functional.layer_norm" in sound


def test_numbers_that_kernels_take_in_float32_are_sound(tmp_path: Path) -> None:
    """Next to nothing is left of 0.1: what float32 rounds of it is all that can be seen."""
    found = audited(_Net(lambda x: (0.1 - (x * 1e-7 + 0.1)).sigmoid() * x), tmp_path,
                    content="operators")  # fmt: skip

    assert found.unsound == ()


@pytest.mark.parametrize("size", [1e-36, 1e-40, 1e-43])
def test_gradients_below_the_smallest_normal_number_are_sound(size: float, tmp_path: Path) -> None:
    model, x = _Net(), torch.randn(64, 16, generator=torch.Generator().manual_seed(2))

    with padiff.record(model, name="model", out=tmp_path) as recorder:
        (model(x).square().mean() * size).backward()
    found = padiff.audit(recorder.path)["step 0"]

    assert found.unsound == ()
    assert found.count(Check.GRADIENT, Soundness.SOUND) > 5


def test_numbers_near_zero_that_kernels_flush_are_sound(tmp_path: Path) -> None:
    torch.set_flush_denormal(True)
    try:
        found = audited(_Net(lambda y: y * 1e-39), tmp_path)
    finally:
        torch.set_flush_denormal(False)

    assert found.unsound == ()
    assert found.count(Check.FORWARD, Soundness.SOUND) > 3


class _WrongKernel(TorchDispatchMode):
    """Lets one kernel of torch give something else, below all that is recorded."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.change = change

    def __torch_dispatch__(
        self, func: Thing, types: Thing, args: Thing = (), kwargs: Thing = None
    ) -> Thing:
        made = func(*args, **(kwargs or {}))
        is_second = func is torch.ops.aten.addmm.default and tuple(args[2].shape) == (24, 8)
        return self.change(made) if is_second else made


def _with_wrong_kernel(change: Callable[[torch.Tensor], torch.Tensor], folder: Path) -> Audit:
    """Audit a model whose last linear is computed by a kernel with a fault."""
    with _WrongKernel(change):
        return audited(_Net(), folder)


KERNELS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Reason]] = {
    "a cast that was lost": (lambda made: made.bfloat16().float(), Reason.COARSE),
    "scaled by 1.00003": (lambda made: made * 1.00003, Reason.SCALED),
    "negated": (lambda made: -made, Reason.OPPOSITE),
    "zero": (torch.zeros_like, Reason.ZERO),
    "not a number": (lambda made: made.clone().fill_(torch.nan), Reason.NONFINITE),
    "TF32": (lambda made: made + 1e-4 * made.abs().mean() * torch.ones_like(made).cumsum(0).sin(),
             Reason.LOW_PRECISION),
    "one element": (lambda made: made.index_fill(0, torch.tensor([2]), 9.0), Reason.OTHER),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_kernel_is_found_at_its_module(name: str, tmp_path: Path) -> None:
    change, reason = KERNELS[name]

    found = _with_wrong_kernel(change, tmp_path)

    first = found.unsound[0]
    assert (first.check, first.module, first.class_name) == (Check.FORWARD, "two", "Linear")
    assert first.reason is reason
    forward = [one for one in found.unsound if one.check is Check.FORWARD]
    assert len(forward) == 1 or name == "not a number"
    if reason is Reason.SCALED:
        assert first.factor == pytest.approx(1.00003, abs=1e-7)


def test_origins_of_audits_are_the_unsound_values(tmp_path: Path) -> None:
    found = _with_wrong_kernel(torch.zeros_like, tmp_path)

    audits = padiff.Audits({"step 0": found})

    assert [one.value for one in audits.origins] == [one.value for one in found.unsound]
    assert audits.first == audits.origins[0]


class _Scaled(torch.autograd.Function):
    """Hands its input on; its backward pass does something else than that."""

    @staticmethod
    def forward(ctx: Thing, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x * 1.5

    @staticmethod
    def backward(ctx: Thing, *gradients: torch.Tensor) -> Thing:
        return gradients[0] * 1.5 * ctx.factor, None


def _scaled(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def apply(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = _Scaled.apply(x, factor)  # type: ignore[no-untyped-call]
        return made

    return apply


@pytest.mark.parametrize(
    ("factor", "reason"),
    [(1.001, Reason.SCALED), (-1.0, Reason.OPPOSITE), (0.0, Reason.ZERO),
     (torch.nan, Reason.NONFINITE)],
)  # fmt: skip
def test_a_wrong_backward_of_a_function_is_found(
    factor: float, reason: Reason, tmp_path: Path
) -> None:
    found = audited(_Net(_scaled(factor)), tmp_path)

    assert {one.check for one in found.unsound} == {Check.GRADIENT}
    assert len(found.unsound) == 1  # what follows from a wrong gradient is none of itself
    assert found.unsound[0].module == "norm"
    assert found.unsound[0].reason is reason
    assert [reader.module for reader in found.unsound[0].readers] == [""]


def test_a_right_backward_of_a_function_is_sound(tmp_path: Path) -> None:
    found = audited(_Net(_scaled(1.0)), tmp_path)

    assert found.unsound == ()


@pytest.mark.parametrize(("dtype", "factor"), [("float32", 1.00001), ("bfloat16", 1.25)])
def test_a_factor_of_a_gradient_is_found_whatever_the_direction(
    dtype: str, factor: float, tmp_path: Path
) -> None:
    found = []
    for seed in range(8):
        x = torch.randn(5, 16, generator=torch.Generator().manual_seed(seed))
        kind = getattr(torch, dtype)
        model = _Net(_scaled(factor)).to(kind)
        found.append(audited(model, tmp_path / str(seed), {"x": x.to(kind)}).unsound)

    assert all(unsound and unsound[0].module == "norm" for unsound in found)


def test_what_runs_without_a_graph_is_not_blamed(tmp_path: Path) -> None:
    def between(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = x.abs().mean()
        return x / scale

    found = audited(_Net(between), tmp_path)

    assert found.unsound == ()


def test_kinks_are_not_blamed(tmp_path: Path) -> None:
    def between(x: torch.Tensor) -> torch.Tensor:
        flat = functional.relu(x - 1.0)
        return functional.max_pool1d(flat.unsqueeze(1), 3, 1, 1).squeeze(1)

    found = audited(_Net(between), tmp_path)

    assert found.unsound == ()


def _shared_by_copies(x: torch.Tensor) -> torch.Tensor:
    copied = x[:]
    return copied.tanh() + x.sin()


def _masked(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def apply(x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((x.shape[-1],), value)
        mask[:4] = 0
        return ((x * 1.5 + mask).softmax(-1) * 2).tanh()

    return apply


def _nearly_at_kinks(x: torch.Tensor) -> torch.Tensor:
    """Put elements where a step beyond the kink of a ReLU is short by less than a hundredth."""
    at = torch.ones(24).index_fill(0, torch.tensor([23]), 2.91e-5)
    return functional.relu(x * 1e-9 + at)


def _beside_a_large_number(x: torch.Tensor) -> torch.Tensor:
    return ((x * 1e-8 * 1.5 + 0.5) * 2).tanh()


def _next_to_nothing(x: torch.Tensor) -> torch.Tensor:
    return (x * 1e-12).sigmoid() * x


def _of_two_rows(x: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x[:2] * 1.5, None, None, training=True) * 2


def _in_groups(x: torch.Tensor) -> torch.Tensor:
    matrices = torch.linspace(-1, 1, 3 * 24 * 24).reshape(3, 24, 24).sin()
    ends = torch.tensor([1, 1, 5], dtype=torch.int32)
    return functional.grouped_mm(x * 1.5, matrices, offs=ends).tanh()


def _nearly_singular(x: torch.Tensor) -> torch.Tensor:
    matrices = x[:, :16].reshape(-1, 4, 4) * 1e-3 + 1
    made: torch.Tensor = x * 1.5 + torch.linalg.slogdet(matrices)[1].unsqueeze(1)
    return made


def _at_multiples(x: torch.Tensor) -> torch.Tensor:
    """Divide multiples of a number that float32 holds as another one."""
    return (x * 1.5 + torch.remainder(torch.arange(24) * 0.3, 0.3)).tanh()


def _written_through_a_view(x: torch.Tensor) -> torch.Tensor:
    """Read a view that was written, and another one of the same tensor."""
    made = x * 1.5
    parts = made.view(-1, 3, 8)
    left, right = parts[..., :3], parts[..., 3:]
    left /= 2
    return torch.cat([left.exp(), right.sin()], -1).flatten(1) + made.tanh()


class _Assigned(torch.autograd.Function):
    """Write into a tensor past autograd's counter, as solvers of differential equations do."""

    @staticmethod
    def forward(ctx: Thing, whole: torch.Tensor, part: torch.Tensor, at: int) -> torch.Tensor:
        ctx.at = at
        whole.data[at] = part
        return whole

    @staticmethod
    def backward(ctx: Thing, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        (gradient,) = gradients
        return gradient, gradient[ctx.at], None


_assign: Callable[..., torch.Tensor] = _Assigned.apply


def _assigned(x: torch.Tensor) -> torch.Tensor:
    whole = torch.empty(2, *x.shape)
    whole = _assign(whole, x * 1.5, 0)
    whole = _assign(whole, (whole[0] * 2).tanh(), 1)
    return whole.sum(0)


def _triangles(x: torch.Tensor) -> torch.Tensor:
    """Solve by a factor whose other half gets a gradient, too."""
    root = torch.linalg.cholesky(x @ x.mT + 9 * torch.eye(len(x)))
    return torch.cholesky_solve(x * 1.5, root)


def _factors(x: torch.Tensor) -> torch.Tensor:
    """Factorise a symmetric matrix: kernels read one half of it, and both get a gradient."""
    rows = torch.cat([(x * scale).sin() for scale in range(1, 9)])
    roots = [
        torch.linalg.cholesky(rows @ rows.mT + size * torch.eye(len(rows)), upper=upper)
        for size, upper in ((1, False), (2, True))
    ]
    made: torch.Tensor = (roots[0] * roots[1]) @ rows
    return made


PLACES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "a copy and what it is copied from": (_shared_by_copies, "operators"),
    "masked by -inf": (_masked(-torch.inf), "operators"),
    "masked by -1e9": (_masked(-1e9), "operators"),
    "masked by the least number": (_masked(torch.finfo(torch.float32).min), "operators"),
    "nearly at kinks": (_nearly_at_kinks, "operators"),
    "added to a much larger number": (_beside_a_large_number, "operators"),
    "next to nothing in a sigmoid": (_next_to_nothing, "operators"),
    "groups with a matrix each": (_in_groups, "operators"),
    "logarithms of determinants near zero": (_nearly_singular, "operators"),
    "remainders of multiples": (_at_multiples, "operators"),
    "written through a view": (_written_through_a_view, "operators"),
    "written unseen": (_assigned, "operators"),
    "triangles": (_triangles, "operators"),
    "norms of two rows, whose gradients cancel": (_of_two_rows, "full"),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_is_right_is_not_blamed(name: str, tmp_path: Path) -> None:
    between, content = PLACES[name]

    found = audited(_Net(between), tmp_path, content=content)

    assert found.unsound == ()
    assert found.count(Check.GRADIENT, Soundness.SOUND) > 4


def test_gradients_of_matrices_that_are_factorised_are_audited(tmp_path: Path) -> None:
    found = audited(_Net(_factors), tmp_path, content="operators")

    assert found.unsound == ()
    assert found.count(Check.GRADIENT, Soundness.NOT_AUDITED) == 0


@pytest.mark.parametrize("name", PLACES)
def test_a_wrong_gradient_in_such_a_place_is_found(name: str, tmp_path: Path) -> None:
    between, content = PLACES[name]

    found = audited(_Net(lambda x: between(_scaled(1.01)(x))), tmp_path, content=content)

    assert {one.check for one in found.unsound} == {Check.GRADIENT}


def test_gradients_added_in_a_coarse_dtype_are_not_blamed(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 4)).bfloat16()
    found = audited(model, tmp_path, {"input": torch.randn(2000, 16).bfloat16()})

    assert found.unsound == ()


def test_sums_of_a_few_terms_that_cancel_are_not_blamed(tmp_path: Path) -> None:
    def between(x: torch.Tensor) -> torch.Tensor:
        rows = x[:3].repeat(1, 400) + torch.rand(3, 9600)
        return torch.cat((rows, -rows.sum(0, keepdim=True))).sum(0, keepdim=True)[:, :24]

    found = audited(_Net(between), tmp_path, content="operators")

    assert found.unsound == ()


def test_norms_by_running_statistics_are_as_coarse_as_their_offset(tmp_path: Path) -> None:
    """Kernels multiply and add: near the mean that is coarser than the difference from it."""
    torch.manual_seed(1)
    norm = nn.BatchNorm1d(16)
    norm.running_mean.fill_(1000.0)  # type: ignore[union-attr]
    model = nn.Sequential(norm, nn.Linear(16, 4)).eval()

    found = audited(model, tmp_path, {"input": 1000 + torch.randn(64, 16)})

    assert found.unsound == ()


class _Block(nn.Module):
    """A residual block: its result is read through its layer and beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.layer(x))


def test_what_two_dumps_recorded_alike_is_executed_once(tmp_path: Path) -> None:
    answers: Answers[Measured] = Answers()
    x = torch.randn(5, 16)
    counts, found = [], []
    for name, between in (("a", torch.tanh), ("b", torch.tanh), ("c", torch.sigmoid)):
        model = _Net(between)
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(x)
        with padiff.open_dump(recorder.path).open(0, 0) as file:
            found.append(audit(file, answers))
        counts.append(len(answers))

    assert found[0].values == found[1].values
    assert 0 < counts[0] == counts[1] < counts[2] < 2 * counts[0]


def test_a_reference_is_audited_once_for_all_that_is_compared_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Answers[Measured] = Answers(is_brief=True)
    monkeypatch.setattr(questions, "_ANSWERS", answers)
    x = torch.randn(5, 16)
    paths, counts = [], []
    for name, between in (("a", torch.tanh), ("b", torch.sigmoid), ("c", torch.relu)):
        model = _Net(between)
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(x)
        paths.append(recorder.path)
        counts.append(len(answers))
        padiff.compare(paths[0], recorder.path)

    own = counts[1]
    assert 0 < own < counts[2] < 2 * own
    assert len(answers) - counts[2] == counts[2] - own


@pytest.mark.parametrize("name", MODELS)
def test_brief_audits_say_the_same(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        model(**inputs)
    with padiff.open_dump(recorder.path).open(0, 0) as file:
        whole, brief = (audit(file, Answers(is_brief=is_brief)) for is_brief in (False, True))

    errors = [
        (one.error, two.error)
        for one, two in zip(whole.values, brief.values, strict=True)
        if one.error is not None and two.error is not None
    ]
    assert errors
    assert all(one <= math.sqrt(3) * two for one, two in errors)
    assert [one.soundness for one in whole.values] == [one.soundness for one in brief.values]


def test_readers_that_read_each_other_are_not_counted_twice(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(_Block(), _Block(), nn.Linear(16, 4))
    found = audited(model, tmp_path, {"input": torch.randn(5, 16)})

    assert found.count(Check.GRADIENT, Soundness.SOUND) > 4
    assert found.unsound == ()


class _Given(nn.Module):
    """Gives what lies in the middle beside its result: it is recorded, and read by others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two, self.pool = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        middle = torch.cat((x[:0], self.one(x).tanh()))
        hidden = middle.sin()
        return self.two(hidden), {"hidden": hidden, "middle": middle, "pooled": self.pool(hidden)}


def test_what_a_model_gives_beside_its_result_is_not_blamed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = _Given(), torch.randn(5, 16)
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        result, others = model(x)
        (result.sum() + (others["hidden"] * 3).sum() + others["pooled"].square().sum()).backward()

    found = padiff.audit(recorder.path)["step 0"]

    assert found.count(Check.GRADIENT, Soundness.SOUND) > 2
    assert found.unsound == ()


def test_unseen_computation_is_a_hole_and_not_blamed(tmp_path: Path) -> None:
    def between(x: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            unseen = x * 3
        return unseen.tanh()

    found = audited(_Net(between), tmp_path)

    assert found.holes == 1
    assert found.unsound == ()


def test_content_operators_audits_each_operator_by_itself(tmp_path: Path) -> None:
    sparse = audited(_Net(lambda x: x.exp().log().tanh()), tmp_path / "borders")
    full = audited(_Net(lambda x: x.exp().log().tanh()), tmp_path / "full", content="operators")

    answers = [each.reason for each in full.values if each.check is Check.FORWARD]
    assert Reason.NO_ELEMENTS in [each.reason for each in sparse.values]
    assert Reason.NO_ELEMENTS not in answers
    assert all(each.operators <= 1 for each in full.values)


def test_a_dump_without_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompareError, match="no program"):
        audited(_Net(), tmp_path, program=False)


def test_running_statistics_are_known_and_not_audited(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    found = audited(model, tmp_path, {"input": torch.randn(5, 8)}, content="operators")

    made = [
        (one.soundness, one.reason)
        for one in found.values
        if one.operator.endswith("batch_norm") and one.check is Check.FORWARD
    ]
    kept = Soundness.NOT_AUDITED, Reason.KEPT
    assert made == [(Soundness.SOUND, Reason.NONE), kept, kept]


class _Token(nn.Module):
    """Normalises a token of zeros, as before training: over steps of 1e-6 that is no line."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.token, self.linear = nn.Parameter(torch.zeros(1, 16)), nn.Linear(16, 16)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.cat([_scaled(self.factor)(self.token), self.linear(x)])
        normed = functional.layer_norm(rows, (16,), eps=1e-12) @ self.linear.weight
        made: torch.Tensor = torch.special.i0(normed + 0.5) + rows
        return made


def test_a_token_of_zeros_before_a_norm_is_sound(tmp_path: Path) -> None:
    right, wrong = (audited(_Token(factor), tmp_path / str(factor)) for factor in (1.0, 1.01))

    assert right.unsound == ()
    assert [one.operator for one in wrong.unsound] == ["token"]


class _NormedTwice(nn.Module):
    """Normalises by a function that torch's layer calls below itself; it notes statistics, too."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(16, 4), nn.BatchNorm1d(4)
        self.function = getattr(torch, name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm, more = self.norm, (True,) if self.function is torch.batch_norm else ()
        made: torch.Tensor = self.linear(x)
        for _ in range(2):
            found = self.function(
                *(made, norm.weight, norm.bias, norm.running_mean, norm.running_var),
                *(True, 0.1, 1e-5, *more),
            )
            made = found if more else found[0]
        return made


@pytest.mark.parametrize("name", ["batch_norm", "native_batch_norm"])
def test_functions_below_a_norm_note_running_statistics(name: str, tmp_path: Path) -> None:
    found = audited(_NormedTwice(name), tmp_path, content="operators")

    assert found.unsound == ()
    assert found.opaque == {}
    noted = [one for one in found.values if one.shape == (4,) and one.check is Check.FORWARD]
    assert len(noted) >= 4  # of each call a mean and a variance


class _ByGroup(nn.Module):
    """Puts rows together that have a label in common, with as many of each."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two, self.factor = nn.Linear(16, 8), nn.Linear(8, 8), factor

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        order = labels.topk(len(labels), largest=False)[1]
        y = self.two(_scaled(self.factor)(self.one(x))[order] * 2).tanh()
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        found: torch.Tensor = y[back]
        return found


@pytest.mark.parametrize("content", ["full", "operators"])
def test_the_order_of_equal_elements_is_not_blamed(content: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    inputs = {"x": torch.randn(66, 16), "labels": torch.randint(0, 4, (66,)).float()}
    assert not torch.equal(
        inputs["labels"].topk(66, largest=False)[1], inputs["labels"].argsort(stable=True)
    )

    found = audited(_ByGroup(), tmp_path / "right", inputs, content=content)
    wrong = audited(_ByGroup(1.01), tmp_path / "wrong", inputs, content=content)

    assert found.unsound == ()
    assert Reason.TIED in {one.reason for one in found.values}
    assert wrong.soundness is Soundness.UNSOUND


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_gradients_of_results_are_audited_from_the_loss_back(factor: float, tmp_path: Path) -> None:
    model = _Net()
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        result = model(torch.randn(5, 16))
        _scaled(factor)(result).square().sum(1).mean().backward()  # type: ignore[no-untyped-call]

    found = padiff.audit(recorder.path)["step 0"]

    (last,) = [
        one
        for one in found.values
        if one.check is Check.GRADIENT and one.module == "two" and one.shape == (5, 8)
    ]
    assert last.soundness is (Soundness.SOUND if factor == 1 else Soundness.UNSOUND)
