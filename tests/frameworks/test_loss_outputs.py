"""The default loss takes what both sides return; what one returns besides is left out and said."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import padiff
from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumper import RecordSettings
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import ConfigError, Role, open_dump

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from padiff.comparing import Comparison

TORCH = """
from torch import nn
import torch as framework
Base, add = nn.Module, framework.add
def turned(x): return x.transpose(1, 2)
"""
PADDLE = """
from paddle import nn
import paddle as framework
Base, add = nn.Layer, framework.add
def turned(x): return x.transpose([0, 2, 1])
"""
MODEL = """
class Net(Base):
    def __init__(self, form):
        super().__init__()
        self.form = form
        self.embed, self.k, self.v = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 7)

    def forward(self, ids):
        x = self.norm(self.embed(ids))
        k, v = self.k(x), self.v(x)
        hidden = add(x, nn.functional.softmax(k @ turned(k), -1) @ v)
        out = self.head(hidden)
        if self.form == "plain":
            return out
        if self.form == "hidden":
            return {"logits": out, "hidden": hidden}
        if self.form == "tuple":
            return out, (turned(k), turned(v)), hidden
        if self.form == "wrong":
            return {"logits": out * 2, "cache": (turned(k), turned(v)), "hidden": hidden}
        return {"logits": out, "cache": (turned(k), turned(v)), "hidden": hidden}

def plain(): return Net("plain")
def with_hidden(): return Net("hidden")
def with_caches(): return Net("dict")
def with_tuple(): return Net("tuple")
def wrong(): return Net("wrong")
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "models"
    folder.mkdir()
    for name, imports in (("torch_outputs", TORCH), ("paddle_outputs", PADDLE)):
        (folder / f"{name}.py").write_text(imports + MODEL)
    np.save(tmp_path / "ids.npy", np.arange(10).reshape(2, 5))
    monkeypatch.syspath_prepend(folder)
    yield tmp_path
    for name in ("torch_outputs", "paddle_outputs"):
        sys.modules.pop(name, None)


def dumped(
    models: Path, target: str, name: str, *, like: str = "", outputs: tuple[str, ...] = ()
) -> Path:
    folder = models / "dumps"
    inputs = () if like else (parse_input(str(models / "ids.npy")),)
    return run(
        RunSettings(
            model=parse_target(target, {}),
            inputs=inputs,
            inputs_from=folder / like if like else None,
            weights_from=folder / like if like else None,
            record=RecordSettings(out=folder, name=name),
            train=TrainSettings(outputs=outputs),
        )
    )


def test_outputs_of_other_names_are_paired_by_shape_before_size(models: Path) -> None:
    reference = dumped(models, "torch_outputs:with_hidden", "reference")

    candidate = dumped(models, "paddle_outputs:with_tuple", "candidate", like="reference")

    found = compare(reference, candidate, CompareSettings())
    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())


@pytest.mark.parametrize("target", ["torch_outputs:with_caches", "paddle_outputs:with_caches"])
def test_caches_that_only_the_candidate_returns_are_left_out(target: str, models: Path) -> None:
    reference = dumped(models, "torch_outputs:plain", "reference")

    candidate = dumped(models, target, "candidate", like="reference")

    found = compare(reference, candidate, CompareSettings())
    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())
    note = (
        "loss: the mean of output['logits'], without output['cache'][0], output['cache'][1], "
        "output['hidden'], which 'reference' does not give"
    )
    assert note in open_dump(candidate).manifest.notes
    assert f"candidate: {note}" in found.notes
    assert sum(pair.reason.startswith("the loss leaves it out") for pair in found.steps[0].pairs)


@pytest.mark.parametrize("target", ["torch_outputs:plain", "paddle_outputs:plain"])
def test_gradients_of_a_loss_that_takes_more_are_not_compared(target: str, models: Path) -> None:
    reference = dumped(models, "torch_outputs:with_caches", "reference")

    candidate = dumped(models, target, "candidate", like="reference")

    found = compare(reference, candidate, CompareSettings())
    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())
    assert (
        "loss and backward phase are not compared: the loss of the reference takes outputs that "
        "the other does not give"
    ) in found.steps[0].notes
    assert any("name what both give with --outputs" in note for note in found.notes)


@pytest.mark.parametrize("names", [("logits",), ("0",)])
def test_outputs_are_chosen_by_name(names: tuple[str, ...], models: Path) -> None:
    form = "with_caches" if names == ("logits",) else "with_tuple"
    reference = dumped(models, f"torch_outputs:{form}", "reference", outputs=names)

    candidate = dumped(models, "paddle_outputs:plain", "candidate", like="reference")

    found = compare(reference, candidate, CompareSettings())
    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())
    assert not any("not compared" in note for note in found.steps[0].notes)


def test_what_both_return_in_other_containers_is_all_taken(models: Path) -> None:
    reference = dumped(models, "torch_outputs:with_caches", "reference")

    candidate = dumped(models, "paddle_outputs:with_tuple", "candidate", like="reference")

    assert "loss_outputs" not in open_dump(candidate).manifest.settings
    assert compare(reference, candidate, CompareSettings()).verdict is Verdict.MATCH


def test_wrong_result_beside_left_out_caches_diverges(models: Path) -> None:
    reference = dumped(models, "torch_outputs:plain", "reference")

    candidate = dumped(models, "torch_outputs:wrong", "candidate", like="reference")

    found = compare(reference, candidate, CompareSettings())
    assert found.verdict is Verdict.DIVERGED
    assert found.origins[0].pair.reference is not None
    assert found.origins[0].pair.reference.address.module == ""


def test_name_that_is_no_output_is_refused(models: Path) -> None:
    with pytest.raises(ConfigError, match="cannot take the output 'logit' for the loss") as error:
        dumped(models, "torch_outputs:with_caches", "reference", outputs=("logit",))

    assert error.value.hint == "it gives logits, cache.0, cache.1, hidden"


def test_names_and_a_loss_of_ones_own_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="cannot use --outputs with --loss"):
        TrainSettings(outputs=("logits",), loss=parse_target("a:b", {}, noun="loss"))


def both(models: Path, *names: str, **options: Any) -> Comparison:  # noqa: ANN401
    del models  # the files that are imported
    made = []
    for name in names:
        module, _, attribute = name.partition(":")
        made.append(getattr(importlib.import_module(module), attribute)())
    ids = np.arange(10).reshape(2, 5)
    return padiff.auto_diff(made[0], made[1], ((ids,), (ids,)), quiet=True, **options)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("plain", ["torch_outputs:plain", "paddle_outputs:plain"])
def test_live_models_are_compared_by_what_both_return(
    plain: str, models: Path, *, is_turned: bool
) -> None:
    names = ["torch_outputs:with_caches", plain]

    found = both(models, *(names[::-1] if is_turned else names))

    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())
    roles = {pair.reference.address.role for pair in found.steps[0].pairs if pair.reference}
    assert Role.WEIGHT_GRAD in roles
    assert not any("not compared" in note for note in found.steps[0].notes)


def test_outputs_of_live_models_are_chosen_by_name(models: Path) -> None:
    names = ["torch_outputs:with_caches"] * 2

    found = both(models, *names, outputs="logits")

    assert found.verdict is Verdict.MATCH
    assert any("as --outputs says" in note for note in found.reference.notes)


def test_names_and_losses_of_ones_own_are_refused(models: Path) -> None:
    with pytest.raises(ConfigError, match="cannot use outputs with loss_fns"):
        both(
            models, "torch_outputs:plain", "torch_outputs:plain", outputs="0",
            loss_fns=(lambda out: out.mean(), lambda out: out.mean()),
        )  # fmt: skip
