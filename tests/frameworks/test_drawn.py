"""What dropouts drew is a leaf of both programs: the candidate's keep what the reference's kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from padiff.comparer import Verdict
from padiff.comparer.auditing import Soundness
from padiff.comparer.proving import Answer, EditKind, Unknown
from padiff.comparer.report.fault_words import worded_edit
from padiff.dumper.adapters.torch_operators import TorchOperators

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.comparer.proving import FunctionComparison

X = torch.randn(4, 6, 16, generator=torch.Generator().manual_seed(0))


_BY_HAND: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "bernoulli": lambda x, p: x * torch.empty_like(x).bernoulli_(1 - p).div_(1 - p),
    "compared": lambda x, p: x * (torch.rand_like(x) >= p) / (1 - p),
    "rounded down": lambda x, p: x / (1 - p) * torch.floor(1 - p + torch.rand(x.shape)),
}
"""Dropouts that are written out."""


class _Net(nn.Module):
    """Two branches with a dropout each; the one's elements are zero for a half."""

    def __init__(self, form: str = "modules", **options: Any) -> None:  # noqa: ANN401
        super().__init__()
        torch.manual_seed(3)
        self.norm, self.last = nn.LayerNorm(16), nn.LayerNorm(16)
        self.into, self.out = nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm.eps = options.get("eps", 1e-5)
        self.share = options.get("share", 0.25)
        self.one = nn.Dropout(self.share, inplace=form == "in place")
        self.two = nn.Dropout(0.1)
        self.act: Callable[[torch.Tensor], torch.Tensor] = options.get("act", functional.relu)
        self.scale: float = options.get("scale", 0.5)
        self.form, self.first = form, options.get("first", "one")
        self.left_out: str = options.get("left_out", "")

    def drop(self, x: torch.Tensor, name: str) -> torch.Tensor:
        share = self.share if name == "one" else 0.1
        if self.left_out == name:
            return x
        if self.form in _BY_HAND:
            return _BY_HAND[self.form](x, share)
        dropped: torch.Tensor = (
            functional.dropout(x, share) if self.form == "functions" else getattr(self, name)(x)
        )
        return dropped

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        branches = {
            "one": lambda: self.drop(self.act(self.into(self.norm(x))), "one"),
            "two": lambda: self.drop(self.out(x) * self.scale, "two"),
        }
        made = {name: branches[name]() for name in sorted(branches, key=self.first.__ne__)}
        result: torch.Tensor = self.last(x + made["one"] + made["two"])
        return result


def recorded(folder: Path, name: str, model: nn.Module, seed: int) -> Path:
    torch.manual_seed(seed)
    with padiff.record(model.train(), name=name, out=folder) as recorder:
        model(X).pow(3).mean().backward()  # a norm's square is the same for all
    return recorder.path


def compared(folder: Path, reference: nn.Module, candidate: nn.Module) -> padiff.Comparison:
    paths = [
        recorded(folder, name, model, seed)
        for seed, (name, model) in enumerate([("reference", reference), ("candidate", candidate)])
    ]
    return padiff.compare(paths[0], paths[1])


def function_of(result: padiff.Comparison) -> FunctionComparison:
    (step,) = result.steps
    assert step.executed is not None
    return step.executed.function


@pytest.mark.parametrize("form", ["modules", "functions", "in place"])
@pytest.mark.parametrize("first", ["one", "two"])
def test_other_draws_are_no_difference(form: str, first: str, tmp_path: Path) -> None:
    act = functional.gelu  # whose gradient does not read what a dropout in place overwrites
    result = compared(tmp_path, _Net(act=act), _Net(form, first=first, act=act))

    assert result.verdict is Verdict.MATCH
    function = function_of(result)
    assert (function.answer, function.tolerated) == (Answer.SAME, 0)


def test_functions_that_draw_in_another_order_are_the_same(tmp_path: Path) -> None:
    result = compared(tmp_path, _Net("functions"), _Net("functions", first="two"))

    assert result.verdict is Verdict.MATCH
    assert function_of(result).constructed == 2


@pytest.mark.parametrize("form", ["modules", "functions"])
@pytest.mark.parametrize(
    ("options", "words", "module"),
    [
        ({"eps": 1e-2}, "eps of layer_norm: 0.01 where the reference has 1e-05", "norm"),
        ({"act": functional.leaky_relu}, "leaky_relu where the reference has relu", ""),
        ({"scale": 0.6}, "other of mul: 0.6 where the reference has 0.5", ""),
        ({"share": 0.5}, "p of dropout: 0.5 where the reference has 0.25", None),
        ({"left_out": "one"}, "left out: dropout(0.25)", None),
    ],
)
def test_faults_around_a_dropout_are_proved_and_measured(
    form: str, options: dict[str, Any], words: str, module: str | None, tmp_path: Path
) -> None:
    result = compared(tmp_path, _Net(form), _Net(form, **options))

    assert result.verdict is Verdict.DIVERGED
    (edit,) = function_of(result).edits
    assert worded_edit(edit) == words
    assert edit.influence is not None
    assert edit.influence.relative_l2 is not None
    assert edit.influence.relative_l2 > 1e-4
    if module is not None:
        assert edit.candidate is not None
        assert edit.candidate.module == module


def test_a_dropout_too_much_is_named(tmp_path: Path) -> None:
    result = compared(tmp_path, _Net(left_out="two"), _Net())

    (edit,) = function_of(result).edits
    assert (edit.kind, worded_edit(edit)) == (EditKind.EXTRA, "too much: dropout(0.1)")


def test_a_fault_before_a_dropout_moves_the_result_as_it_does_behind_its_draw(
    tmp_path: Path,
) -> None:
    """The influence is that of a model that drops the same elements and has that fault alone."""
    reference, drawn = _Net(), dict[str, torch.Tensor]()
    for name, layer in {"one": reference.one, "two": reference.two}.items():

        def note(
            _: nn.Module, taken: tuple[torch.Tensor], made: torch.Tensor, name: str = name
        ) -> None:
            drawn[name] = (made / taken[0]).detach().nan_to_num(0.0).double()

        layer.register_forward_hook(note)
    result = compared(tmp_path, reference, _Net(scale=0.6, eps=1e-2))

    found = {}
    for edit in function_of(result).edits:
        assert edit.influence is not None
        found[worded_edit(edit)] = edit.influence.relative_l2

    def made(**options: Any) -> torch.Tensor:  # noqa: ANN401
        model = _Net(**options).double()
        model.drop = lambda x, name: x * drawn[name]  # type: ignore[method-assign]
        with torch.no_grad():
            result: torch.Tensor = model(X.double())
        return result

    known = made()
    moved = [
        float((made(**one) - known).norm() / known.norm())
        for one in ({"scale": 0.6}, {"eps": 1e-2})
    ]
    assert sorted(one or 0.0 for one in found.values()) == pytest.approx(sorted(moved), rel=1e-4)


@pytest.mark.parametrize("form", _BY_HAND)
def test_dropouts_by_hand_keep_what_the_references_kept(form: str, tmp_path: Path) -> None:
    result = compared(tmp_path, _Net(), _Net(form))

    assert function_of(result).answer is Answer.SAME
    assert function_of(result).tolerated == 0


@pytest.mark.parametrize("form", _BY_HAND)
def test_a_fault_before_a_dropout_by_hand_is_proved(form: str, tmp_path: Path) -> None:
    result = compared(tmp_path, _Net(), _Net(form, eps=1e-2))

    assert result.verdict is Verdict.DIVERGED
    words = [worded_edit(one) for one in function_of(result).edits]
    assert words == ["eps of layer_norm: 0.01 where the reference has 1e-05"]


@pytest.mark.parametrize("p", [0.2, 0.3])
def test_alpha_dropouts_are_products_with_their_draw(p: float, tmp_path: Path) -> None:
    def net(p: float) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 16), nn.SELU(), nn.AlphaDropout(p), nn.Linear(16, 16))

    result = compared(tmp_path, net(0.3), net(p))

    function = function_of(result)
    words = [worded_edit(one) for one in function.edits]
    assert words == (["p of alpha_dropout: 0.2 where the reference has 0.3"] if p == 0.2 else [])
    assert (result.verdict is Verdict.MATCH) == (p == 0.3)
    (step,) = result.steps
    assert step.executed is not None
    assert step.executed.soundness == (Soundness.SOUND, Soundness.SOUND)


class _Gumbel(nn.Module):
    """Choices of one of several, by noise: as torch has them, or written out."""

    def __init__(self, tau: float, *, is_hard: bool, by_hand: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out = nn.Linear(16, 8), nn.Linear(8, 4)
        self.tau, self.is_hard, self.by_hand = tau, is_hard, by_hand

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        if not self.by_hand:
            x = functional.gumbel_softmax(x, tau=self.tau, hard=self.is_hard)
        else:
            noise = torch.empty_like(x).exponential_().log()
            x = ((x - noise) / self.tau).softmax(-1)
        found: torch.Tensor = self.out(x)
        return found


@pytest.mark.parametrize("is_hard", [False, True])
def test_choices_by_gumbel_noise_are_functions_of_the_noise(is_hard: bool, tmp_path: Path) -> None:
    """A hard choice hands back the gradients of the soft one; both sides have other seeds."""
    nets = [_Gumbel(0.7, is_hard=is_hard, by_hand=not (is_hard or k == 0)) for k in (0, 1)]
    result = compared(tmp_path, *nets)

    assert result.verdict is Verdict.MATCH
    assert function_of(result).answer is Answer.SAME
    (step,) = result.steps
    assert step.executed is not None
    assert step.executed.soundness == (Soundness.SOUND, Soundness.SOUND)


def test_another_temperature_of_gumbel_noise_is_told(tmp_path: Path) -> None:
    known, found = (_Gumbel(tau, is_hard=False, by_hand=False) for tau in (0.7, 0.8))

    (edit,) = function_of(compared(tmp_path, known, found)).edits

    assert worded_edit(edit) == "other of div: 0.8 where the reference has 0.7"


def test_what_attention_drops_unseen_is_taken_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU nothing tells what one operator drew before its last product."""
    monkeypatch.setattr(TorchOperators, "drawn_inside", lambda *_: None)

    class Net(nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.into, self.scale = nn.Linear(16, 16), scale

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.into(x) * self.scale
            return functional.scaled_dot_product_attention(x, x, x, dropout_p=0.25)

    (edit,) = function_of(compared(tmp_path, Net(1.5), Net(1.6))).edits

    assert worded_edit(edit) == "other of mul: 1.6 where the reference has 1.5"
    assert edit.influence is not None
    assert edit.influence.relative_l2 is None


# -- across frameworks


def paddled(model: nn.Module, *layers: Any) -> Any:  # noqa: ANN401
    """Return a model of Paddle with the weights of one of torch."""
    found = paddle.nn.Sequential(*layers)
    linear = [one for one in found if isinstance(one, paddle.nn.Linear)]
    known = [one for one in model.children() if isinstance(one, nn.Linear)]
    for one, other in zip(linear, known, strict=True):
        one.weight.set_value(other.weight.detach().numpy().T.copy())
        one.bias.set_value(other.bias.detach().numpy())
    return found


def ported(
    folder: Path,
    *between: Any,  # noqa: ANN401
    known: tuple[nn.Module, ...] = (nn.ReLU(), nn.Dropout(0.3)),
) -> padiff.Comparison:
    """Compare a model of torch with one of Paddle that has other layers in the middle."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), *known, nn.Linear(16, 4))
    other = paddled(model, paddle.nn.Linear(16, 16), *between, paddle.nn.Linear(16, 4))
    reference = recorded(folder, "reference", model, 1)
    x = paddle.to_tensor(np.asarray(X))
    paddle.seed(5)
    with padiff.record(other.train() or other, name="candidate", out=folder) as recorder:
        other(x).pow(3).mean().backward()
    return padiff.compare(reference, recorder.path)


def test_a_port_in_training_mode_matches_without_a_tolerance(tmp_path: Path) -> None:
    result = ported(tmp_path, paddle.nn.ReLU(), paddle.nn.Dropout(0.3))

    assert result.verdict is Verdict.MATCH
    function = function_of(result)
    assert (function.answer, function.unknown) == (Answer.SAME, Unknown.NONE)
    assert (function.constructed, function.tolerated) == (2, 0)


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            (paddle.nn.ReLU, 0.4, "upscale_in_train"),
            "p of dropout: 0.4 where the reference has 0.3",
        ),
        ((paddle.nn.ReLU, 0.3, "downscale_in_infer"), "left out: mul in dropout"),
        ((paddle.nn.GELU, 0.3, "upscale_in_train"), "gelu where the reference has relu"),
    ],
)
def test_a_port_with_a_fault_in_training_mode_is_named(
    layers: tuple[Any, float, Any], words: str, tmp_path: Path
) -> None:
    act, share, mode = layers

    result = ported(tmp_path, act(), paddle.nn.Dropout(share, mode=mode))

    assert result.verdict is Verdict.DIVERGED
    assert [worded_edit(one) for one in function_of(result).edits] == [words]


class _Dropped(nn.Module):
    """Stochastic depth, as timm draws it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.new_empty((len(x), 1, 1)).bernoulli_(0.7).div_(0.7)


class _DroppedInPaddle(paddle.nn.Layer):
    """The same, as PaddleClas draws it."""

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        kept = paddle.floor(paddle.to_tensor(0.7) + paddle.rand((len(x), 1, 1)))
        return x.divide(paddle.to_tensor(0.7)) * kept


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ([nn.SELU(), nn.AlphaDropout(0.3)], [paddle.nn.SELU(), paddle.nn.AlphaDropout(0.3)]),
        ([nn.Dropout1d(0.3)], [paddle.nn.Dropout(0.3, axis=[0, 1])]),
        ([_Dropped()], [_DroppedInPaddle()]),
    ],
)
def test_what_paddle_writes_out_is_the_same_function(
    known: list[nn.Module], found: list[Any], tmp_path: Path
) -> None:
    result = ported(tmp_path, *found, known=tuple(known))

    assert result.verdict is Verdict.MATCH
    function = function_of(result)
    assert (function.answer, function.tolerated) == (Answer.SAME, 0)


class _Noisy(nn.Module):
    """Adds noise of two kinds, in one order or in the other."""

    def __init__(self, first: float, second: float, *, is_turned: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out = nn.Linear(16, 8), nn.Linear(8, 4)
        self.deviations, self.is_turned = (first, second), is_turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        drawn = {
            place: torch.empty(4, 6, 8).normal_(0, self.deviations[place])
            for place in ((1, 0) if self.is_turned else (0, 1))
        }
        made: torch.Tensor = self.out((self.into(x) + drawn[0]).tanh() + drawn[1])
        return made


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (_Noisy(0.1, 0.5), set()),
        (_Noisy(0.1, 0.5, is_turned=True), set()),
        (_Noisy(0.1, 0.6), {("std", 0.5, 0.6)}),
    ],
)
def test_partners_draw_from_the_same_distribution(
    candidate: _Noisy, expected: set[tuple[str, float, float]], tmp_path: Path
) -> None:
    result = compared(tmp_path, _Noisy(0.1, 0.5), candidate)

    edits = function_of(result).edits
    assert {(one.name, one.known, one.found) for edit in edits for one in edit.changes} == expected
    assert (result.verdict is Verdict.DIVERGED) == bool(expected)


class _Sampling(nn.Module):
    """Adds rows of a table that are drawn."""

    def __init__(self, draw: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.table, self.draw = nn.Linear(16, 8), nn.Embedding(12, 8), draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.into(x) + self.table(self.draw())
        return made


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda: torch.randint(0, 10, (6,)), set()),
        (lambda: torch.randint(10, size=(6,)), set()),
        (lambda: torch.randint(10, (6,)), set()),
        (lambda: torch.randint(12, (6,)), {("high", 10, 12)}),
        (lambda: torch.randint(2, 10, (6,)), {("low", 0, 2)}),
    ],
)
def test_partners_draw_between_the_same_bounds(
    draw: Callable[[], torch.Tensor], expected: set[tuple[str, int, int]], tmp_path: Path
) -> None:
    reference = _Sampling(lambda: torch.randint(10, (6,)))

    edits = function_of(compared(tmp_path, reference, _Sampling(draw))).edits

    assert {(one.name, one.known, one.found) for edit in edits for one in edit.changes} == expected


def _shifted(x: torch.Tensor, share: float) -> torch.Tensor:
    return x * (torch.empty(4, 6, 1).uniform_(-1, 1) < 2 * share - 1)


_KEPT: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "of a tensor": lambda x, share: x * torch.bernoulli(torch.full((4, 6, 1), share)),
    "in place": lambda x, share: x * torch.empty(4, 6, 1).bernoulli_(share),
    "below": lambda x, share: x * (torch.rand(4, 6, 1) < share),
    "rounded down": lambda x, share: x * torch.floor(torch.rand(4, 6, 1) + share),
    "shifted": _shifted,
    "left out": lambda x, share: x.masked_fill(torch.rand(4, 6, 1) >= share, 0.0),
    "chosen": lambda x, share: torch.where(torch.rand(4, 6, 1) < share, x, torch.zeros(())),
}
"""Ways to keep a share of rows."""


class _Keeping(nn.Module):
    def __init__(self, form: str, share: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out, self.form, self.share = nn.Linear(16, 8), nn.Linear(8, 4), form, share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.out(_KEPT[self.form](self.into(x), self.share))
        return made


@pytest.mark.parametrize("share", [0.75, 0.5])
@pytest.mark.parametrize(
    ("known", "found"),
    [
        *((one, "in place") for one in _KEPT if one not in ("in place", "left out")),
        ("in place", "rounded down"),
        ("in place", "left out"),
    ],
)
def test_masks_that_are_drawn_in_two_ways_keep_the_same_share(
    known: str, found: str, share: float, tmp_path: Path
) -> None:
    result = compared(tmp_path, _Keeping(known, 0.75), _Keeping(found, share))

    told = [one for edit in function_of(result).edits for one in edit.changes]
    assert (result.verdict is Verdict.MATCH) == (share == 0.75)
    assert [(one.known, one.found) for one in told] == [
        pytest.approx((0.75, 0.5)) for _ in range(share != 0.75)
    ]


@pytest.mark.parametrize(
    ("known", "found"),
    [("below", "rounded down"), ("chosen", "rounded down"), ("rounded down", "below")],
)
def test_one_draw_makes_a_mask_by_two_formulas(known: str, found: str, tmp_path: Path) -> None:
    same = compared(tmp_path / "same", _Keeping(known, 0.75), _Keeping(found, 0.75))
    other = compared(tmp_path / "other", _Keeping(known, 0.75), _Keeping(found, 0.5))

    assert (same.verdict, other.verdict) == (Verdict.MATCH, Verdict.DIVERGED)


class _Attending(nn.Module):
    """Drops shares of attention inside the operator, and scales what it is not asked to."""

    def __init__(self, scale: float | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.scale = nn.Linear(16, 16), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.into(x)
        return functional.scaled_dot_product_attention(y, y, y, dropout_p=0.1, scale=self.scale)


@pytest.mark.parametrize(("scale", "is_other"), [(None, False), (0.25, False), (0.3, True)])
def test_the_scale_beside_a_dropout_of_its_own_is_compared(
    scale: float | None, is_other: bool, tmp_path: Path
) -> None:
    result = compared(tmp_path, _Attending(None), _Attending(scale))

    assert ("scale" in str(function_of(result).edits)) == is_other
