"""Trains a small model that Paddle shards over processes, with and without recording it.

Run by ``paddle.distributed.launch``; each rank leaves ``FOLDER/RANK.json`` with the losses. With a
second argument it trains in one process, recorded.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import paddle
import paddle.distributed as dist
from paddle import nn

import padiff

STEPS = 3
WIDTH = 4


class Net(nn.Layer):
    """A column-parallel and a row-parallel layer by placements, with a norm before them."""

    def __init__(self, *, is_spread: bool) -> None:
        super().__init__()
        self.mesh = dist.ProcessMesh([0, 1], dim_names=["tp"]) if is_spread else None
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias_attr=False)
        for layer, name, place in (
            (self.norm, "weight", dist.Replicate()),
            (self.norm, "bias", dist.Replicate()),
            (self.up, "weight", dist.Shard(1)),
            (self.up, "bias", dist.Shard(0)),
            (self.down, "weight", dist.Shard(0)),
        ):
            if self.mesh is not None:
                spread = dist.shard_tensor(getattr(layer, name), self.mesh, [place])
                setattr(layer, name, spread)

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        """Compute both layers, with a residual around them."""
        if self.mesh is not None:
            x = dist.shard_tensor(x, self.mesh, [dist.Replicate()])
        y = self.down(nn.functional.relu(self.up(self.norm(x))))
        return x + (y if self.mesh is None else dist.reshard(y, self.mesh, [dist.Replicate()]))


def run(folder: Path, *, is_recorded: bool, is_spread: bool = True) -> list[str]:
    """Train for some steps; gives the losses, exactly."""
    paddle.seed(0)
    model = Net(is_spread=is_spread)
    name = "tensor" if is_spread else "one"
    optimizer = paddle.optimizer.AdamW(0.1, parameters=model.parameters())
    losses = []
    recorder = padiff.record(model, name=name, out=folder / "dumps", optimizer=optimizer)
    with recorder if is_recorded else nullcontext() as recording:
        for step in range(STEPS):
            x = paddle.arange(2.0 * WIDTH).reshape([2, WIDTH]) / (step + 7)
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss).hex())
            if recording is not None:
                recording.step()
    return losses


def main() -> None:
    """Train twice."""
    folder = Path(sys.argv[1])
    if sys.argv[2:]:
        run(folder, is_recorded=True, is_spread=False)
        return
    dist.init_parallel_env()
    found = {
        "plain": run(folder, is_recorded=False),
        "recorded": run(folder, is_recorded=True),
    }
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
