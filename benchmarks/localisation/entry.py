"""Build a model with or without a fault; what ``padiff dump`` is pointed at."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.localisation.faults import plant
from benchmarks.localisation.models import LAYERS, WIDTH, Block, Layer, Net, Recurrent
from benchmarks.localisation.parts import restyle


def build(
    kind: str, *, seed: int = 0, fault: str = "", depth: int = 0, style: str = ""
) -> nn.Module:
    """Build a model with seeded weights.

    Args:
        kind: ``cnn``, ``transformer`` or ``rnn``.
        seed: Of the weights.
        fault: Name of a planted fault, see ``faults``; empty for none.
        depth: Block that holds it.
        style: Name of another correct form of all layers; empty for torch's.
    """
    torch.manual_seed(seed)
    if kind == "cnn":
        blocks: list[nn.Module] = [Block() for _ in range(LAYERS)]
        model = Net(nn.Conv2d(3, 16, 3, padding=1), blocks, nn.Linear(16, 10))
    else:
        blocks = [Layer() if kind == "transformer" else Recurrent() for _ in range(LAYERS)]
        model = Net(nn.Linear(WIDTH, WIDTH), blocks, nn.Linear(WIDTH, 10))
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and tensor.ndim == 1:
            near_one = name.endswith(("var", "weight"))
            nn.init.uniform_(tensor.data, 0.5 if near_one else -0.3, 1.5 if near_one else 0.3)
    if style:
        restyle(model, style)
    if fault:
        plant(model.blocks[depth], fault)
    return model.eval()
