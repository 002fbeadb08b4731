"""``padiff compare --execute`` asks of each step whether the updates are the same function."""

from __future__ import annotations

import copy
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.comparer import Verdict
from padiff.comparer.proving import Answer, Edit, Execution, Unknown
from padiff.comparer.report.fault_words import worded_edit
from padiff.dumpfile import Phase, Role, open_dump
from padiff.program import LeafKind, read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Make = Callable[[Any], Any]

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/report.schema.json").read_text())
STEPS = 3


def torch_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def adam(**options: Any) -> Make:  # noqa: ANN401
    return lambda p: torch.optim.Adam(p, **{"lr": 0.01, **options})


def adamw(**options: Any) -> Make:  # noqa: ANN401
    return lambda p: torch.optim.AdamW(p, **{"lr": 0.01, **options})


def sgd(**options: Any) -> Make:  # noqa: ANN401
    return lambda p: torch.optim.SGD(p, **{"lr": 0.1, "momentum": 0.9, **options})


def clip(limit: float) -> Callable[[nn.Module], None]:
    return lambda model: _ignore(torch.nn.utils.clip_grad_norm_(model.parameters(), limit))


def clip_without_epsilon(limit: float) -> Callable[[nn.Module], None]:
    """Divide by the norm of all gradients alone, as other frameworks do."""

    def clipped(model: nn.Module) -> None:
        grads = [one.grad for one in model.parameters() if one.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack([*map(torch.linalg.vector_norm, grads)]))
        for grad in grads:
            grad.mul_(torch.clamp(limit / norm, max=1.0))

    return clipped


def _ignore(_: object) -> None:
    return None


def batch(step: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(step).standard_normal((5, 6)).astype(np.float32)


def trained(
    folder: Path,
    name: str,
    make: Make,
    *,
    before: Callable[[Any], object] = _ignore,
    after: Callable[[Any], object] = _ignore,
    between: Callable[[Any], object] = _ignore,
    steps: tuple[int, ...] | None = None,
) -> Path:
    """Record a training of torch.

    Args:
        folder: Where the dump goes.
        name: Of the dump.
        make: Makes the optimizer of the parameters.
        before: Called ahead of the update.
        after: Called behind it.
        between: Called behind the step.
        steps: Which are recorded.
    """
    model = torch_model()
    optimizer = make(model.parameters())
    with padiff.record(model, name=name, out=folder, optimizer=optimizer, steps=steps) as recorder:
        for step in range(STEPS):
            loss = model(torch.from_numpy(batch(step))).square().mean()
            loss.backward()
            before(model)
            optimizer.step()
            after(model)
            optimizer.zero_grad()
            recorder.step(loss=loss)
            between(model)
    assert recorder.path is not None
    return recorder.path


def trained_paddle(folder: Path, make: Make) -> Path:
    source: Any = torch_model()
    model = paddle.nn.Sequential(paddle.nn.Linear(6, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 3))
    for place in (0, 2):
        model[place].weight.set_value(source[place].weight.detach().numpy().T)
        model[place].bias.set_value(source[place].bias.detach().numpy())
    optimizer = make(model.parameters())
    with padiff.record(model, name="paddle", out=folder, optimizer=optimizer) as recorder:
        for step in range(STEPS):
            loss = model(paddle.to_tensor(batch(step))).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            recorder.step(loss=loss)
    assert recorder.path is not None
    return recorder.path


def halved_paddle(folder: Path, name: str, factor: float) -> Path:
    """Record a step of Paddle behind which a weight is copied into."""
    paddle.seed(0)
    model: Any = paddle.nn.Linear(6, 3)
    optimizer = paddle.optimizer.SGD(0.1, model.parameters())
    with padiff.record(model, name=name, out=folder, optimizer=optimizer) as recorder:
        loss = model(paddle.to_tensor(batch(0))).square().mean()
        loss.backward()
        optimizer.step()
        with paddle.no_grad():
            other: Any = model.weight.sum(0)
            model.bias.copy_(other * factor, blocking=False)
        recorder.step(loss=loss)
    assert recorder.path is not None
    return recorder.path


def executed(reference: Path, candidate: Path) -> list[Execution]:
    found = [step.executed for step in padiff.compare(reference, candidate, execute=True).steps]
    return [one for one in found if one is not None]


def answers(found: list[Execution]) -> list[Answer]:
    return [one.answer for one in found]


@pytest.mark.parametrize("make", [adam, adamw, sgd], ids=["Adam", "AdamW", "SGD"])
@pytest.mark.parametrize("form", ["foreach", "fused"])
def test_another_form_of_an_optimizer_is_the_same_update(
    make: Callable[..., Make], form: str, tmp_path: Path
) -> None:
    reference = trained(tmp_path, "reference", make(foreach=False), before=clip(0.1))
    candidate = trained(tmp_path, "candidate", make(**{form: True}), before=clip(0.1))

    found = executed(reference, candidate)

    assert answers(found) == [Answer.SAME] * STEPS


class _ByHand(torch.optim.Optimizer):
    """AdamW as one writes it; the steps are counted in a number of Python."""

    def __init__(self, weights: Iterable[Any], weight_decay: float) -> None:
        super().__init__(weights, {"lr": 0.01, "decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights."""
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state |= {"n": 0, "m": torch.zeros_like(weight), "v": torch.zeros_like(weight)}
                state["n"] += 1
                weight.mul_(1 - group["lr"] * group["decay"])
                state["m"].mul_(0.9).add_(weight.grad, alpha=0.1)
                state["v"].mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
                mean, square = state["m"] / (1 - 0.9 ** state["n"]), state["v"]
                root = (square / (1 - 0.999 ** state["n"])).sqrt()
                weight.sub_(group["lr"] * mean / (root + 1e-8))


@pytest.mark.parametrize("form", ["foreach", "fused"])
def test_a_count_that_one_side_keeps_as_a_number_is_no_other_update(
    form: str, tmp_path: Path
) -> None:
    reference = trained(tmp_path, "reference", adamw(weight_decay=0.1, **{form: True}))
    candidate = trained(tmp_path, "candidate", lambda p: _ByHand(p, 0.1))
    wrong = trained(tmp_path, "wrong", lambda p: _ByHand(p, 0.2))

    assert padiff.compare(reference, candidate).verdict is Verdict.MATCH
    assert padiff.compare(candidate, reference).verdict is Verdict.MATCH
    update = executed(reference, wrong)[0].function.update
    assert update is not None
    (edit,) = update.edits
    assert worded_edit(edit).endswith("0.998 where the reference has 0.999")


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (adam(), lambda p: paddle.optimizer.Adam(0.01, parameters=p)),
        (
            adamw(weight_decay=0.1),
            lambda p: paddle.optimizer.AdamW(0.01, parameters=p, weight_decay=0.1),
        ),
        (sgd(), lambda p: paddle.optimizer.Momentum(0.1, parameters=p)),
        (
            sgd(momentum=0.0, weight_decay=0.1),
            lambda p: paddle.optimizer.SGD(0.1, parameters=p, weight_decay=0.1),
        ),
        (
            lambda p: torch.optim.Adadelta(p, lr=0.1, rho=0.95),
            lambda p: paddle.optimizer.Adadelta(0.1, parameters=p),
        ),
        (
            lambda p: torch.optim.RAdam(p, lr=0.01, betas=(0.875, 0.96875)),
            lambda p: paddle.optimizer.RAdam(0.01, beta1=0.875, beta2=0.96875, parameters=p),
        ),
        (
            lambda p: torch.optim.Rprop(p, lr=0.01, step_sizes=(1e-5, 50)),
            lambda p: paddle.optimizer.Rprop(0.01, parameters=p),
        ),
    ],
    ids=["Adam", "AdamW", "momentum", "SGD", "Adadelta", "RAdam", "Rprop"],
)
def test_weights_of_a_right_port_are_results_of_updates_and_no_copies(
    reference: Make, candidate: Make, tmp_path: Path
) -> None:
    known, found = trained(tmp_path, "torch", reference), trained_paddle(tmp_path, candidate)

    result = executed(known, found)

    assert answers(result) == [Answer.SAME] * STEPS
    for one in result:
        assert one.function.update is not None
        assert (one.function.update.largest or 0.0) < 1e-12


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weight_decay": 0.11}, ("0.11", "times 0.999")),
        ({"weight_decay": 0.1, "epsilon": 1e-4}, ("0.0001", "1e-08")),
    ],
    ids=["decay", "epsilon"],
)
def test_a_fault_of_an_update_in_another_form_is_one_edit(
    options: dict[str, Any], words: tuple[str, str], tmp_path: Path
) -> None:
    """Paddle writes in one operator what torch writes in ten: no other edit is needed."""
    known = trained(tmp_path, "torch", adamw(weight_decay=0.1))
    found = trained_paddle(
        tmp_path, lambda p: paddle.optimizer.AdamW(0.01, parameters=p, **options)
    )

    for one in executed(known, found):
        assert one.function.update is not None
        (edit,) = one.function.update.edits
        own, theirs = worded_edit(edit).split(" where the reference has ")
        assert words[0] in own
        assert words[1] in theirs


@pytest.mark.parametrize("epsilon", [1e-8, 1e-4])
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_rate_is_told_with_both_numbers_whatever_form_the_update_has(
    epsilon: float, is_turned: bool, tmp_path: Path
) -> None:
    known = trained(tmp_path, "torch", adamw(weight_decay=0.1))
    found = trained_paddle(
        tmp_path,
        lambda p: paddle.optimizer.AdamW(0.02, parameters=p, weight_decay=0.1, epsilon=epsilon),
    )

    update = executed(*((found, known) if is_turned else (known, found)))[0].function.update

    assert update is not None
    rates = (0.01, 0.02) if is_turned else (0.02, 0.01)
    words = [worded_edit(one) for one in update.edits]
    assert words[0] == f"learning rate: {rates[0]} where the reference has {rates[1]}"
    assert len(words) == 1 + (epsilon > 1e-8)


def test_a_rate_stands_for_all_numbers_that_follow_from_it(tmp_path: Path) -> None:
    known = trained(tmp_path, "known", adamw(weight_decay=0.1))
    found = trained(tmp_path, "found", adamw(weight_decay=0.1, lr=0.02))

    update = executed(known, found)[0].function.update

    assert update is not None
    (edit,) = update.edits
    assert worded_edit(edit) == "learning rate: 0.02 where the reference has 0.01"
    assert edit.times == 2


def test_an_epsilon_inside_a_root_is_told_by_the_order_of_what_is_computed(tmp_path: Path) -> None:
    known = trained(tmp_path, "torch", lambda p: torch.optim.RMSprop(p, alpha=0.95, eps=1e-6))
    found = trained_paddle(tmp_path, lambda p: paddle.optimizer.RMSProp(0.01, parameters=p))

    update = executed(known, found)[0].function.update

    assert update is not None
    assert [worded_edit(edit) for edit in update.edits] == [
        "add, sqrt in rmsprop_ where the reference has sqrt, add_, plus 1e-06"
    ]


@pytest.mark.parametrize(
    ("reference", "candidate", "argument"),
    [
        (adam(), adam(lr=0.0100001), ("addcdiv", 0.01, 0.0100001)),
        (adam(), adam(betas=(0.8, 0.999)), ("lerp", 0.1, 0.2)),
        (adam(), adam(betas=(0.9, 0.99)), ("mul", 0.999, 0.99)),
        (adam(), adam(eps=1e-7), ("add", 1e-8, 1e-7)),
        (adamw(weight_decay=0.1), adamw(weight_decay=0.11), ("mul", 0.999, 0.9989)),
        (sgd(), sgd(lr=0.1000001), ("add", 0.1, 0.1000001)),
    ],
    ids=["rate", "beta1", "beta2", "epsilon", "decay", "rate of SGD"],
)
def test_a_wrong_setting_is_another_update_and_named_with_its_weight(
    reference: Make, candidate: Make, argument: tuple[str, float, float], tmp_path: Path
) -> None:
    known, had = (
        trained(tmp_path, name, make)
        for name, make in (("reference", reference), ("candidate", candidate))
    )

    found = executed(known, had)[0]

    assert found.answer is Answer.DIFFERENT
    assert found.function.answer is Answer.SAME
    assert found.function.update is not None
    first = found.function.update.differences[0]
    assert first.candidate.startswith("0.weight")
    told = {
        edit.candidate.operator.rpartition(".")[2].rstrip("_"): edit.changes[0]
        for edit in found.function.update.edits
        if edit.candidate is not None
    }
    change = told[argument[0]]
    assert (change.known, change.found) == pytest.approx(argument[1:])


def test_what_is_wrong_of_moments_and_of_weights_is_told_at_once(tmp_path: Path) -> None:
    """In the first step Adam moves no weight by its first beta, nor a moment by the decay."""
    known = trained(tmp_path, "reference", adamw(weight_decay=0.1))
    had = trained(tmp_path, "candidate", adamw(weight_decay=0.2, betas=(0.8, 0.999)))

    found = executed(known, had)[0]

    assert found.function.update is not None
    assert {worded_edit(one) for one in found.function.update.edits} == {
        "other of mul_: 0.998 where the reference has 0.999",
        "weight of lerp_: 0.2 where the reference has 0.1",
    }


def test_an_update_that_goes_by_masks_is_judged_and_explained(tmp_path: Path) -> None:
    """Rprop sets its rates where gradients keep, or change, their sign."""
    makes: dict[str, Make] = {
        "reference": torch.optim.Rprop,
        "candidate": lambda p: torch.optim.Rprop(p, etas=(0.4, 1.2)),
    }
    known, had = (trained(tmp_path, name, make) for name, make in makes.items())

    found = executed(known, had)[1]

    assert found.function.update is not None
    assert {worded_edit(one) for one in found.function.update.edits} == {
        "value of __setitem__: 0.4 where the reference has 0.5"
    }


def test_of_two_faults_of_an_update_the_larger_is_told_first(tmp_path: Path) -> None:
    reference = trained(tmp_path, "reference", adam(foreach=False), before=clip(0.01))
    make = adam(foreach=False, betas=(0.8, 0.999))
    candidate = trained(tmp_path, "candidate", make, before=clip_without_epsilon(0.01))

    update = executed(reference, candidate)[0].function.update

    assert update is not None
    words = [worded_edit(edit) for edit in update.edits]
    assert words[-1] == "left out: add, plus 1e-06"
    assert "0.2 where the reference has 0.1" in words[0]


def test_a_rate_is_off_in_units_of_the_update_and_not_of_the_weight(tmp_path: Path) -> None:
    """The rates move weights of 0.3 by some 1e-8 otherwise: few are written with other bits."""
    reference = trained(tmp_path, "reference", sgd(lr=1e-4, momentum=0.0))
    candidate = trained(tmp_path, "candidate", sgd(lr=1.001e-4, momentum=0.0))

    found = executed(reference, candidate)[0]

    assert found.answer is Answer.DIFFERENT


@pytest.mark.parametrize("make", [sgd, adamw])
def test_a_rate_that_is_off_by_less_than_rounding_is_a_finding(
    make: Callable[..., Make], tmp_path: Path
) -> None:
    reference = trained(tmp_path, "reference", make(lr=0.01))
    candidate = trained(tmp_path, "candidate", make(lr=0.01 * (1 + 3e-8)))

    found = executed(reference, candidate)

    assert answers(found) == [Answer.SAME] * STEPS
    assert [one.answer_with(strict=True) for one in found] == [Answer.DIFFERENT] * STEPS
    update = found[0].function.update
    assert update is not None
    assert update.answer is Answer.HIDDEN
    assert update.edits


def test_a_weight_that_is_one_number_gets_another_update(tmp_path: Path) -> None:
    def scaled(name: str, rate: float) -> Path:
        torch.manual_seed(0)
        model: Any = nn.Linear(6, 3)
        model.scale = nn.Parameter(torch.tensor(2.0))
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        with padiff.record(model, name=name, out=tmp_path, optimizer=optimizer) as recorder:
            loss = (model(torch.from_numpy(batch(0))) * model.scale).square().mean()
            loss.backward()
            optimizer.step()
            recorder.step(loss=loss)
        assert recorder.path is not None
        return recorder.path

    result = padiff.compare(scaled("reference", 0.01), scaled("candidate", 0.02))

    assert result.verdict is Verdict.DIVERGED


def test_updates_that_cannot_be_weighed_are_different(tmp_path: Path) -> None:
    """With random errors some places in a table are too large, whichever weight is weighed.

    The places of the two sides are not the same, so that errors may turn them.
    """

    def pick(model: Any, *, count: int) -> None:  # noqa: ANN401
        table = torch.full((3, 64), 1.0)
        with torch.no_grad():
            for parameter in model.parameters():
                places = torch.full((count,), 2.9999998)
                for _ in range(8):
                    places = places * (1.0 + 0.0 * parameter.grad.sum())
                parameter.grad.mul_(table[places.long()].mean())

    reference = trained(tmp_path, "reference", sgd(), before=partial(pick, count=64))
    other = sgd(lr=0.1 * (1 + 3e-8))
    candidate = trained(tmp_path, "candidate", other, before=partial(pick, count=65))

    update = executed(reference, candidate)[0].function.update

    assert update is not None
    assert update.answer is Answer.DIFFERENT
    assert len(update.differences) > 1
    assert {one.effect for one in update.differences} == {None}


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (adam(), lambda p: paddle.optimizer.Adam(0.0100001, parameters=p)),
        (adam(), lambda p: paddle.optimizer.Adam(0.01, beta2=0.9991, parameters=p)),
        (adam(), lambda p: paddle.optimizer.Adam(0.01, epsilon=1e-7, parameters=p)),
        (
            adamw(weight_decay=0.1),
            lambda p: paddle.optimizer.Adam(0.01, weight_decay=0.1, parameters=p),
        ),
        (
            lambda p: torch.optim.Adadelta(p, lr=0.1, rho=0.95),
            lambda p: paddle.optimizer.Adadelta(0.1, rho=0.9, parameters=p),
        ),
    ],
    ids=["rate", "beta2", "epsilon", "coupled", "rho"],
)
def test_a_wrong_setting_of_a_port_is_another_update(
    make: Make, wrong: Make, tmp_path: Path
) -> None:
    """In the first step Paddle's second beta, a float32, hides a rate that is off by 1e-5."""
    known, had = trained(tmp_path, "torch", make), trained_paddle(tmp_path, wrong)

    found = executed(known, had)

    assert found[0].answer_with(strict=True) is Answer.DIFFERENT
    assert Answer.DIFFERENT in answers(found)
    assert padiff.compare(known, had).verdict is Verdict.DIVERGED


def _doubled(model: Any) -> None:  # noqa: ANN401
    for parameter in model.parameters():
        parameter.grad = parameter.grad * 2.0


@pytest.mark.parametrize(
    ("before", "made_by"),
    [
        (clip(0.01), "torch._foreach_mul_"),
        (clip_without_epsilon(0.01), "torch.Tensor.mul_"),
        (_doubled, "torch.Tensor.mul"),
        (_ignore, None),
    ],
    ids=["clipped", "written in place", "put in its place", "as it arrived"],
)
def test_a_recorded_gradient_is_the_value_that_the_last_operator_on_it_made(
    before: Callable[[Any], object], made_by: str | None, tmp_path: Path
) -> None:
    path = trained(tmp_path, "changed", sgd(), before=before, steps=(0,))

    with open_dump(path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        gradients = [one.id for one in file.index.records if one.role is Role.WEIGHT_GRAD]
        held = [recorded.borders[one] for one in gradients if one in recorded.borders]
        program = recorded.program
        makers = {program.values[value].producer for value in held} - {None}
        names = {program.operators[one].name for one in makers if one is not None}

    assert names == ({made_by} if made_by else set())
    assert len(held) == (len(gradients) if made_by else 0)


class _Clipping(torch.optim.Optimizer):
    """Plain descent that clips what it takes, and leaves the gradients as they are."""

    def __init__(self, params: Any, decay: float) -> None:  # noqa: ANN401
        super().__init__(params, {"lr": 0.1, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:  # noqa: ANN401
        """Take a step with gradients of norm 0.01."""
        weights = self.param_groups[0]["params"]
        norm = torch.sqrt(sum((one.grad**2).sum() for one in weights))
        for one in weights:
            keep = 1 - 0.1 * self.param_groups[0]["decay"]
            one.copy_(one * keep - 0.1 * one.grad * torch.clamp(0.01 / (norm + 1e-6), max=1.0))
        return closure


def test_gradients_that_one_side_clips_in_its_update_do_not_begin_what_the_update_does_wrong(
    tmp_path: Path,
) -> None:
    """Its gradients are recorded as they arrive, the other side's are clipped already."""
    make = sgd(momentum=0, weight_decay=0.05)
    reference = trained(tmp_path, "reference", make, before=clip(0.01))

    right, wrong = (
        padiff.compare(reference, trained(tmp_path, name, partial(_Clipping, decay=d)))
        for name, d in (("right", 0.05), ("wrong", 0.0))
    )

    assert right.verdict is Verdict.MATCH
    assert wrong.first is not None
    assert wrong.first.phase is Phase.UPDATE


def _paddles_adam(parameters: Any, **options: Any) -> Any:  # noqa: ANN401
    return paddle.optimizer.Adam(0.01, parameters=parameters, **options)


def test_another_clip_of_an_optimizer_of_paddle_begins_at_the_gradients(tmp_path: Path) -> None:
    limits = {"reference": 0.02, "candidate": 0.013}
    for name, limit in limits.items():
        options: dict[str, Any] = {"grad_clip": paddle.nn.ClipGradByGlobalNorm(limit)}
        trained_paddle(tmp_path / name, partial(_paddles_adam, **options))

    reference, candidate = (tmp_path / name / "paddle" for name in limits)
    found = padiff.compare(reference, candidate)

    assert found.first is not None
    assert found.first.pair.end.address.role is Role.WEIGHT_GRAD
    assert found.first.pair.end.address.phase is Phase.UPDATE
    assert "divide reads constant 0.013 where the reference has constant 0.02" in {
        worded_edit(one) for one in found.first.faults if isinstance(one, Edit)
    }


@pytest.mark.parametrize(
    "change",
    [
        {"before": clip(0.011)},
        {},
        {"after": clip(0.01)},
        {"before": lambda model: [p.grad.mul_(2) for p in model.parameters()]},
        {"before": clip(0.01), "after": lambda model: model[2].bias.data.mul_(0.9)},
    ],
    ids=["limit", "left out", "behind", "scaled", "a weight is changed behind it"],
)
def test_what_is_done_around_the_update_is_part_of_it(
    change: dict[str, Any], tmp_path: Path
) -> None:
    reference = trained(tmp_path, "reference", sgd(), before=clip(0.01))
    candidate = trained(tmp_path, "candidate", sgd(), **change)

    found = executed(reference, candidate)

    assert Answer.SAME not in answers(found)


def test_rates_of_more_groups_are_counted(tmp_path: Path) -> None:
    def in_groups(p: Any) -> Any:  # noqa: ANN401
        one, *others = p
        groups = [{"params": [one], "lr": 0.2}, {"params": others}]
        return torch.optim.SGD(groups, lr=0.1)

    reference = trained(tmp_path, "reference", lambda p: torch.optim.SGD(p, lr=0.1))
    candidate = trained(tmp_path, "candidate", in_groups)

    first = padiff.compare(reference, candidate).first

    assert first is not None
    assert "learning rates: 1 recorded by the reference, 2 by the candidate" in first.evidence


def test_gradients_that_are_not_cleared_are_named(tmp_path: Path) -> None:
    def forgetful(p: Any) -> Any:  # noqa: ANN401
        optimizer = torch.optim.SGD(p, lr=0.1)
        optimizer.zero_grad = lambda: None  # type: ignore[method-assign,assignment,misc]
        return optimizer

    reference = trained(tmp_path, "reference", lambda p: torch.optim.SGD(p, lr=0.1))
    candidate = trained(tmp_path, "candidate", forgetful)

    found = executed(reference, candidate)

    assert answers(found)[:2] == [Answer.SAME, Answer.DIFFERENT]
    assert {one.kind for one in found[1].function.differences} == {"gradient"}


def _averaged(share: float, *, by_data: bool = False) -> Callable[[Any], object]:
    """Move one weight a share of the way to another one."""

    def move(model: Any) -> None:  # noqa: ANN401
        own, other = model[2].bias, model[0].bias[:3]
        with torch.no_grad():
            if by_data:
                own.data.mul_(1 - share).add_(share * other.data)
            else:
                own.copy_(own * (1 - share) + other * share)

    return move


@pytest.mark.parametrize("by_data", [False, True], ids=["copied", "through data"])
@pytest.mark.parametrize("where", ["after", "between"])
def test_a_weight_that_the_script_moves_itself_is_followed(
    where: str, tmp_path: Path, *, by_data: bool
) -> None:
    moved: dict[str, Any] = {where: _averaged(0.25)}
    reference = trained(tmp_path, "reference", sgd(), **moved)

    right, wrong = (
        padiff.compare(
            reference,
            trained(tmp_path, name, sgd(), **{**moved, where: _averaged(share, by_data=by_data)}),
        )
        for name, share in (("right", 0.25), ("wrong", 0.5))
    )

    assert right.verdict is Verdict.MATCH
    assert wrong.first is not None
    assert "0.5 where the reference has 0.75" in str(wrong.first.cause)


def test_a_weight_of_paddle_that_the_script_copies_into_is_followed(tmp_path: Path) -> None:
    half, quarter = (halved_paddle(tmp_path, str(factor), factor) for factor in (0.5, 0.25))

    found = padiff.compare(half, quarter)

    assert found.first is not None
    assert "0.25 where the reference has 0.5" in str(found.first.cause)


def test_what_a_weight_was_before_the_script_moved_it_has_its_name(tmp_path: Path) -> None:
    path = trained(tmp_path, "moved", sgd(), between=_averaged(0.25), steps=(0, 1))

    with open_dump(path).open(1, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        leaves = [one for one in recorded.program.values if one.kind is LeafKind.PARAMETER]

    assert sorted(one.name for one in leaves) == ["0.bias", "0.weight", "2.bias", "2.weight"]


def test_a_weight_that_one_side_changes_between_the_steps_is_no_copy(tmp_path: Path) -> None:
    def change(model: Any) -> None:  # noqa: ANN401
        model[0].weight.numpy(force=True)[:] *= 1.001

    reference = trained(tmp_path, "reference", adam())
    candidate = trained(tmp_path, "candidate", adam(), between=change)

    found = executed(reference, candidate)

    assert answers(found)[:2] == [Answer.SAME, Answer.DIFFERENT]
    assert [one.candidate for one in found[1].function.differences] == ["0.weight"]


def test_weights_behind_steps_that_were_not_recorded_are_not_judged(tmp_path: Path) -> None:
    known = trained(tmp_path, "torch", adam(), steps=(0, 2))
    had = trained(tmp_path, "other", adam(lr=0.0101), steps=(0, 2))

    found = executed(known, had)

    assert found[1].function.unjudged
    assert found[1].function.update is not None
    assert found[1].function.update.answer is Answer.DIFFERENT


def test_an_unknown_operator_of_the_update_makes_it_unknown(tmp_path: Path) -> None:
    def rotate(model: Any) -> None:  # noqa: ANN401
        for parameter in model.parameters():
            parameter.grad.copy_(torch.special.bessel_j0(parameter.grad))

    reference = trained(tmp_path, "reference", sgd(), before=rotate)
    candidate = trained(tmp_path, "candidate", sgd())

    found = executed(reference, candidate)[0]

    assert found.answer is Answer.UNKNOWN
    assert found.function.answer is Answer.SAME
    assert found.function.update is not None
    assert found.function.update.unknown is Unknown.BEHIND


def test_reports_name_the_update(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = trained(tmp_path, "reference", adam())
    candidate = trained(tmp_path, "candidate", adam(eps=1e-6))
    command = ["compare", str(reference), str(candidate), "--execute"]

    main(command)
    text = " ".join(capsys.readouterr().out.split())  # long lines are folded
    main([*command, "--json", "-"])
    data = json.loads(capsys.readouterr().out)

    assert "same update? no: " in text
    assert "of add_: 1e-06 where the reference has 1e-08" in text
    jsonschema.validate(data, SCHEMA)
    update = copy.deepcopy(data["steps"][0]["executed"]["function"]["update"])
    assert update["answer"] == "different"
    assert update["edits"][0]["changes"][0]["found"] == 1e-6


@pytest.mark.parametrize(("momentum", "answer"), [(0.1, Answer.SAME), (0.2, Answer.DIFFERENT)])
def test_running_statistics_are_left_by_a_step(
    momentum: float, answer: Answer, tmp_path: Path
) -> None:
    paths = []
    for name, share in (("reference", 0.1), ("candidate", momentum)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, momentum=share), nn.Linear(6, 2))
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(torch.randn(8, 6)).square().mean().backward()
        assert recorder.path is not None
        paths.append(recorder.path)

    (step,) = padiff.compare(paths[0], paths[1], execute=True).steps

    assert step.executed is not None
    assert step.executed.function.answer is Answer.SAME
    assert step.executed.function.update is not None
    assert step.executed.function.update.answer is answer
    names = {one.candidate for one in step.executed.function.update.differences}
    assert names == ({"1.running_mean", "1.running_var"} if answer is Answer.DIFFERENT else set())


def normed(framework: str, *, momentum: float = 0.1) -> Any:  # noqa: ANN401
    """Make two layers with a norm between, whose batches have 12 elements per channel."""
    if framework == "torch":
        torch.manual_seed(5)
        return nn.Sequential(nn.Conv2d(2, 4, 1), nn.BatchNorm2d(4, momentum=momentum))
    return paddle.nn.Sequential(
        paddle.nn.Conv2D(2, 4, 1), paddle.nn.BatchNorm2D(4, momentum=1 - momentum)
    )


def trained_norm(folder: Path, framework: str, model: Any) -> Path:  # noqa: ANN401
    images = [np.random.default_rng(step).normal(size=(3, 2, 2, 2)) for step in range(STEPS)]
    optimizer: Any
    if framework == "torch":
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
    else:
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    with padiff.record(model, name=framework, out=folder, optimizer=optimizer) as r:
        for image in images:
            wide = image.astype(np.float32)
            x: Any = torch.from_numpy(wide) if framework == "torch" else paddle.to_tensor(wide)
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            (optimizer.zero_grad if framework == "torch" else optimizer.clear_grad)()
            r.step(loss=loss)
    assert r.path is not None
    return r.path


@pytest.mark.filterwarnings("ignore:When training, we now always track")
@pytest.mark.parametrize("reference", ["torch", "paddle"])
@pytest.mark.parametrize("momentum", [0.1, 0.12])
def test_running_variances_are_proved_although_one_takes_the_unbiased_one(
    momentum: float, reference: str, tmp_path: Path
) -> None:
    """No tolerance has to hide how far apart two trainings are after some steps."""
    models = {"torch": normed("torch"), "paddle": normed("paddle", momentum=momentum)}
    padiff.assign_weight(models["torch"], models["paddle"])
    paths = {name: trained_norm(tmp_path, name, model) for name, model in models.items()}
    other = "paddle" if reference == "torch" else "torch"

    for one in executed(paths[reference], paths[other]):
        update = one.function.update
        assert update is not None
        variance = "1._variance" if other == "paddle" else "1.running_var"
        assert (variance in update.proven) is (momentum == 0.1)
        assert (variance in {each.candidate for each in update.differences}) is (momentum != 0.1)
