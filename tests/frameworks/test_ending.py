"""An error in recording ends the recording with a message; the training it records goes on."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import padiff
from padiff.cli.main import main
from padiff.dumper import adapters
from padiff.dumpfile import RecordError, open_dump
from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

PLACES = (
    "hook_gradient",
    "layout",
    "elements",
    "small_bytes",
    "is_training",
    "content_key",
    "requires_grad",
)
"""What the recorder asks an adapter in hooks before, within and behind calls, and in updates."""
STEPS = 3


def train(framework: str, recorder: Any = None) -> list[float]:  # noqa: ANN401
    """Train a small model; gives the losses."""
    recording: Any
    losses = []
    if framework == "torch":
        import torch  # noqa: PLC0415

        torch.manual_seed(0)
        model: Any = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        optimizer: Any = torch.optim.SGD(model.parameters(), 0.1)
        ones: Any = torch.ones(2, 3)
    else:
        import paddle  # noqa: PLC0415

        paddle.seed(0)
        model = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.ReLU())
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        ones = paddle.ones([2, 3])
    with nullcontext() if recorder is None else recorder(model, optimizer) as recording:
        for step in range(STEPS):
            loss = model(ones * (step + 1)).square().mean()
            loss.backward()
            optimizer.step()
            (optimizer.zero_grad if framework == "torch" else optimizer.clear_grad)()
            losses.append(float(loss.detach()))
            if recording is not None:
                recording.step(loss=loss)
    hooks = [vars(one) for one in [model, *model.children()]]
    assert not any(one["_forward_pre_hooks"] for one in hooks)
    return losses


@pytest.mark.parametrize("framework", ["torch", "paddle"])
@pytest.mark.parametrize("place", PLACES)
def test_training_goes_on_where_the_recorder_fails(
    framework: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = train(framework)
    kind = type(adapters.load(framework))
    asked, right = 0, getattr(kind, place)
    made: list[Any] = []

    def recorder(model: Any, optimizer: Any) -> Any:  # noqa: ANN401
        options: Any = {"out": tmp_path, "optimizer": optimizer, "overwrite": True}
        made.append(padiff.record(model, name="m", **options))
        return made[-1]

    def count(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        nonlocal asked
        asked += 1
        return right(*args, **kwargs)

    monkeypatch.setattr(kind, place, count)
    train(framework, recorder)
    whole = asked
    assert whole >= STEPS
    assert open_dump(made.pop().path).files

    def fail(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        nonlocal asked
        asked += 1
        if asked > least:
            raise ZeroDivisionError("planted")
        return right(*args, **kwargs)

    monkeypatch.setattr(kind, place, fail)
    for share in (0.4, 0.65, 0.9):
        asked, least = 0, int(share * whole)
        losses = train(framework, recorder)

        assert losses == expected
        said = capsys.readouterr().err
        assert said.count("padiff: the recording of 'm' has ended") == 1
        assert "ZeroDivisionError: planted" in said
        with pytest.raises(RecordError, match="the recording has ended"):
            _ = made.pop().path
    assert "planted" in open_dump(tmp_path / "m.incomplete").manifest.incomplete  # of whole steps


SCRIPT = """
import torch

from padiff.dumper.adapters.torch import TorchAdapter

read, count = TorchAdapter.small_bytes, 0


def small_bytes(adapter, tensor, limit):
    global count
    count += 1
    if count > 40:
        raise ZeroDivisionError("planted")
    return read(adapter, tensor, limit)


TorchAdapter.small_bytes = small_bytes
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    model(torch.ones(2, 3)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained to the end", count > 40)
"""


def test_script_is_run_to_its_end_where_the_recorder_fails(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)

    done = run_padiff("dump", "--script", "train.py", "--steps", "0,1,2,3", cwd=tmp_path)

    assert "trained to the end True" in done.stdout
    assert done.returncode == 2
    assert "the run goes on: ZeroDivisionError: planted" in done.stderr
    assert "error: cannot name the dump: the recording has ended" in done.stderr


def test_run_that_is_made_for_the_recording_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RecordError("planted")

    monkeypatch.setattr(type(adapters.load("torch")), "small_bytes", fail)

    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    words = ["--inputs", str(tmp_path / "x.npy"), "--out", str(tmp_path)]

    status = main(["dump", "--model", "torch.nn:Identity", *words])

    assert status == 2
    assert "error: planted" in capsys.readouterr().err
