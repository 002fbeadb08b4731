"""Models of both frameworks that end badly in their third step, as files for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

_TORCH = """
from torch.nn import Linear
from torch.nn import Module as Base
"""
_PADDLE = """
import paddle
from paddle.nn import Layer as Base
from paddle.nn import Linear
"""
_MODEL = """
import ctypes, os, signal, time


class Last(Base):
    def __init__(self, end):
        super().__init__()
        self.end, self.count = end, 0

    def forward(self, x):
        self.count += 1
        if self.count == 3:
            getattr(self, self.end)(x)
        return x * 2

    def segfault(self, x):
        ctypes.string_at(0)

    def abort(self, x):
        os.abort()

    def leave(self, x):
        os._exit(0)

    def error(self, x):
        raise ValueError("no more")

    def wait(self, x):
        open("waiting", "w").close()
        time.sleep(60)

    def rnn(self, x):
        paddle.nn.LSTM(3, 4, bias_ih_attr=False, bias_hh_attr=False)(x.unsqueeze(0))


class Dying(Base):
    def __init__(self, end):
        super().__init__()
        self.fc = Linear(3, 3)
        self.last = Last(end)

    def forward(self, x):
        return self.last(self.fc(x))
"""


def write_dying_model(folder: Path, framework: str) -> list[str]:
    """Write the model and its input; gives the words that dump five steps of it.

    ``--model-arg end="NAME"`` must be added, a name of a method above.
    """
    text = (_TORCH if framework == "torch" else _PADDLE) + _MODEL
    (folder / "net.py").write_text(text, encoding="utf-8")
    np.save(folder / "x.npy", np.ones((2, 3), np.float32))
    return ["dump", "--model", "net.py:Dying", "--inputs", "x.npy", "--name", "net", "--steps", "5"]
