"""Models that are copied or saved while they are recorded."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.recording import Recorded
from tests.support.scripts import FRAMEWORKS, recorded, script

if TYPE_CHECKING:
    from pathlib import Path

COPIED = """
import copy
model = Net()
optimizer = sgd(model)
for step in range(2):
    loss = model(ones(4, 3)).mean()
    average = copy.deepcopy(model)
    average(ones(9, 3))
    loss.backward()
    optimizer.step()
    clear(optimizer)
"""
SAVED = """
model = nn.Sequential(nn.Linear(3, 2))
optimizer = sgd(model)
for step in range(2):
    model(ones(4, 3)).mean().backward()
    torch.save(model, WHOLE)
    torch.save(model.state_dict(), WHOLE + ".state")
    optimizer.step()
    clear(optimizer)
"""
LOAD = """
import sys
import torch

model = torch.load(sys.argv[1], weights_only=False)
assert model(torch.ones(4, 3)).shape == (4, 2)
assert not [name for name in sys.modules if name.startswith("padiff")]
"""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_calls_of_a_copy_are_not_the_models(tmp_path: Path, framework: str) -> None:
    path = recorded(script(tmp_path, framework, COPIED))

    for number in range(2):
        assert Recorded.read(path, number).calls() == ["#0", "a#0", "b#0"]


def test_model_saved_whole_loads_without_padiff(tmp_path: Path) -> None:
    whole = tmp_path / "model.pt"

    recorded(script(tmp_path, "torch", SAVED.replace("WHOLE", repr(str(whole)))))

    done = subprocess.run(
        [sys.executable, "-c", LOAD, whole], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
