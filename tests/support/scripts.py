"""Training scripts that know nothing of padiff: one text for both frameworks, and running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from padiff.dumper.recording.recordsettings import RecordSettings, StepPlan
from padiff.dumper.runs.script import ScriptSettings, run_script
from padiff.dumper.runs.scriptmodel import Choice
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from pathlib import Path

FRAMEWORKS = ("torch", "paddle")

TORCH = """
import torch
from torch import nn

torch.manual_seed(0)
no_grad = torch.no_grad

def ones(*shape):
    return torch.ones(shape)

def sgd(*models, rate=0.1):
    return torch.optim.SGD([p for m in models for p in m.parameters()], lr=rate, momentum=0.9)

def clear(optimizer):
    optimizer.zero_grad()

def note(path, text):
    with open(path, "a") as file:
        file.write(text)

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.a = nn.Linear(3, width)
        self.b = nn.Linear(width, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))

class Other(Net):
    pass
"""

PADDLE = (
    TORCH.replace("torch.manual_seed", "paddle.seed")
    .replace("torch.optim.SGD([", "paddle.optimizer.Momentum(parameters=[")
    .replace("lr=rate, momentum=0.9", "learning_rate=rate, momentum=0.9")
    .replace("zero_grad", "clear_grad")
    .replace("torch.relu", "nn.functional.relu")
    .replace("nn.Module", "nn.Layer")
    .replace("torch", "paddle")
)

PRELUDE = {"torch": TORCH, "paddle": PADDLE}


def script(folder: Path, framework: str, body: str) -> Path:
    """Write a script that has a ``Net``, ``sgd``, ``clear``, ``ones`` and ``no_grad``."""
    path = folder / f"train_{framework}.py"
    path.write_text(PRELUDE[framework] + body)
    return path


def recorded(
    path: Path,
    *arguments: str,
    steps: tuple[int, ...] | None = None,
    name: str = "m",
    phase: Phase = Phase.BACKWARD,
    class_name: str | None = None,
    variable: str | None = None,
    **more: Any,  # noqa: ANN401 - fields of ScriptSettings
) -> Path:
    """Run a script in this process under the recorder and give the dump."""
    plan = StepPlan(steps=None if steps is None else frozenset(steps))
    return run_script(
        ScriptSettings(
            script=path,
            arguments=arguments,
            record=RecordSettings(out=path.parent / "dumps", name=name, plan=plan, phase=phase),
            choice=Choice(class_name=class_name, variable=variable),
            **more,
        )
    )
