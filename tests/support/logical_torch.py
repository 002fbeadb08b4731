"""Trains one small net in one process and split over several, right and with faults planted.

Run by a launcher, or alone: ``logical_torch.py FOLDER CASE...``. Each case leaves a dump of its
name below ``FOLDER/dumps``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

import padiff
from tests.support import sharded_torch as plain
from tests.support.sharded_torch import Net, Training, batch, cross_entropy

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = frozenset({"one", "tensor", "fsdp", "pipeline_2"})
"""Cases that are trained for two steps, the others for one."""
RATE = 0.5
"""Probability of dropout, where there is one."""


def size() -> int:
    """Return the number of ranks."""
    return dist.get_world_size()


def own(length: int) -> slice:
    """Return this rank's part of an axis."""
    part = length // size()
    return slice(dist.get_rank() * part, (dist.get_rank() + 1) * part)


class Through(torch.autograd.Function):
    """Something forward, something else backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, there: Any, back: Any) -> torch.Tensor:  # noqa: ANN401
        """Do what was asked for."""
        ctx.back = back
        found: torch.Tensor = there(x)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:  # noqa: ANN401
        """Do the other."""
        return ctx.back(grads[0]), None, None


def same(x: torch.Tensor) -> torch.Tensor:
    """Hand a tensor on."""
    return x.view_as(x)


def reduced(x: torch.Tensor) -> torch.Tensor:
    """Sum over all ranks, in place where the memory is contiguous, as Megatron does."""
    x = x.contiguous()
    dist.all_reduce(x)
    return x


def gathered(x: torch.Tensor) -> torch.Tensor:
    """Put the parts of a sequence together."""
    parts = [torch.empty_like(x) for _ in range(size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, 1)


def cut(x: torch.Tensor) -> torch.Tensor:
    """Take the own part of a sequence."""
    return x[:, own(x.shape[1])].contiguous()


def through(x: torch.Tensor, there: Any, back: Any) -> torch.Tensor:  # noqa: ANN401
    """Apply one function forward and another backward."""
    found: torch.Tensor = Through.apply(x, there, back)  # type: ignore[no-untyped-call]
    return found


@dataclass(frozen=True, kw_only=True)
class How:
    """How layers are split, and what is wrong with them."""

    sequence: bool = False
    fault: str = ""


class ColumnParallelLinear(nn.Module):
    """Splits what it gives."""

    def __init__(self, whole: nn.Linear, how: How, *, is_faulty: bool) -> None:
        super().__init__()
        self.sequence_parallel, self.gather_output = how.sequence, False
        self.fault = how.fault if is_faulty else ""
        part = own(whole.out_features)
        if self.fault == "order":
            part = slice(whole.out_features - part.stop, whole.out_features - part.start)
        self.weight = nn.Parameter(whole.weight.detach()[part].clone())
        self.bias = nn.Parameter(whole.bias.detach()[part].clone())

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        """Compute the own columns."""
        if self.sequence_parallel:
            x = through(x, gathered, lambda grad: cut(reduced(grad)))
        else:
            x = through(x, same, same if self.fault == "input_grad" else reduced)
        return nn.functional.linear(x, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """Splits what it takes."""

    def __init__(self, whole: nn.Linear, how: How, *, is_faulty: bool) -> None:
        super().__init__()
        self.sequence_parallel, self.input_is_parallel = how.sequence, True
        self.fault = how.fault if is_faulty else ""
        self.weight = nn.Parameter(whole.weight.detach()[:, own(whole.in_features)].clone())
        self.bias = nn.Parameter(whole.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        """Add up what all ranks have."""
        x = nn.functional.linear(x, self.weight)
        if self.sequence_parallel:
            x = through(x, lambda each: cut(reduced(each)), gathered)
        elif self.fault == "twice":
            x = through(x, lambda each: reduced(reduced(each)), same)
        elif self.fault != "unreduced":
            x = through(x, reduced, same)
        return x + self.bias


class VocabParallelEmbedding(nn.Module):
    """Splits the words."""

    def __init__(self, whole: nn.Embedding, how: How) -> None:
        super().__init__()
        rows = own(whole.num_embeddings)
        self.first = rows.start + (1 if how.fault == "offset" and rows.start else 0)
        self.weight = nn.Parameter(whole.weight.detach()[rows].clone())

    def forward(self, words: torch.Tensor) -> Any:  # noqa: ANN401
        """Look up the own words."""
        mine = (words >= self.first) & (words < self.first + len(self.weight))
        found = nn.functional.embedding((words - self.first) * mine, self.weight)
        return through(found * mine[..., None], reduced, same)


class Sequences(nn.Module):
    """The net whose activations between layers are split along the sequence."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.embedding, self.blocks, self.norm, self.head = (
            net.embedding, net.blocks, net.norm, net.head,
        )  # fmt: skip

    def forward(self, words: torch.Tensor) -> Any:  # noqa: ANN401
        """Compute the logits of all words."""
        x = cut(self.embedding(words))
        for block in self.blocks:
            x = block(x)
        return through(self.head(self.norm(x)), gathered, cut)


class Dropping(Net):
    """The net with dropout behind the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(RATE)

    def forward(self, words: torch.Tensor) -> Any:  # noqa: ANN401
        """Compute the logits."""
        x = self.dropout(self.embedding(words))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def split_by_hand(net: Net, how: How) -> Net:
    """Put layers in that split their weights; what is wrong is so in the second block."""
    block: Any
    for number, block in enumerate(net.blocks):
        place = {"is_faulty": number == 1}
        for name in ("query", "key", "up"):
            faulty = name == "up" and number == 1
            setattr(block, name, ColumnParallelLinear(getattr(block, name), how, is_faulty=faulty))
        block.out = RowParallelLinear(block.out, how, **place)
        block.down = RowParallelLinear(block.down, how, is_faulty=False)
    if not how.sequence:
        net.register_module("embedding", VocabParallelEmbedding(net.embedding, how))
    if how.fault == "replica" and dist.get_rank() == 1:
        with torch.no_grad():
            block.norm.weight += 0.008
    return net


def by_hand(fault: str = "") -> Training:
    """Column- and row-parallel layers written by hand."""
    return plain.trained(split_by_hand(Net(), How(fault=fault)))


def used_partial() -> Training:
    """Tensor parallel by torch; what the second block's last layer gives is not reduced."""
    made = plain.tensor_parallel()
    hooks = made.model.get_submodule("blocks.1.down")._forward_hooks
    for key in list(hooks):
        hooks[key] = lambda _module, _taken, given: given.to_local()
    return made


def seeds(fault: str = "") -> Training:
    """Dropout of the same elements on all ranks, or not."""
    net = split_by_hand(Dropping(), How())
    torch.manual_seed(1 + (dist.get_rank() if fault else 0))
    return plain.trained(net)


def one_with_dropout() -> Training:
    """The same in one process."""
    net = Dropping()
    torch.manual_seed(1)
    return plain.trained(net)


def sequences(fault: str = "") -> Training:
    """Sequence parallel layers by hand: what is not split is summed over the ranks."""
    net = Sequences(split_by_hand(Net(), How(sequence=True)))
    made = plain.trained(net)
    loss = made.loss

    def reduced_loss(step: int) -> torch.Tensor:
        found = loss(step)
        for name, weight in net.named_parameters():
            is_split = any(part in name for part in ("query", "key", "up")) or name.endswith(
                ("out.weight", "down.weight")
            )
            is_left = fault and "blocks.1.norm." in name
            if weight.grad is not None and not is_split and not is_left:
                dist.all_reduce(weight.grad)
        return found

    made.loss = reduced_loss
    return made


def rows(fault: str = "") -> Training:
    """Data parallel by hand."""
    made = plain.trained(Net(), part=plain.own_part())
    loss = made.loss

    def averaged(step: int) -> torch.Tensor:
        found = loss(step)
        for weight in made.model.parameters():
            if weight.grad is not None and fault != "unreduced":
                dist.all_reduce(weight.grad)
                weight.grad /= 1 if fault == "summed" else size()
        return found

    made.loss = averaged
    return made


class Stage(nn.Module):
    """A part of the net that keeps its names."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        first = dist.get_rank() == 0
        self.embedding = net.embedding if first else None
        self.blocks = nn.ModuleDict({str(dist.get_rank()): net.blocks[dist.get_rank()]})
        self.norm = None if first else net.norm
        self.head = None if first else net.head

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        """Compute what this stage does."""
        x = x if self.embedding is None else self.embedding(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None or self.norm is None else self.head(self.norm(x))


def pipeline(microbatches: int = 1) -> Training:
    """Two stages of a pipeline."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe  # noqa: PLC0415

    rank, model = dist.get_rank(), Stage(Net())
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=microbatches, loss_fn=cross_entropy)

    def loss(step: int) -> torch.Tensor:
        words, labels = batch(step)
        if rank == 0:
            schedule.step(words)
            return torch.zeros(())
        losses: list[torch.Tensor] = []
        schedule.step(target=labels, losses=losses)
        return torch.stack(losses).mean()

    return Training(model=model, loss=loss, optimizer=torch.optim.AdamW(model.parameters(), 0.1))


CASES: dict[str, Callable[[], Training]] = {
    "one": lambda: plain.trained(Net()),
    "one_dropout": one_with_dropout,
    **{name: plain.CASES[name] for name in ("ddp", "distributed", "fsdp", "sequence", "tensor")},
    "grid": plain.grid,
    "hand": by_hand,
    "hand_sequence": sequences,
    "hand_rows": rows,
    "hand_dropout": seeds,
    "pipeline": pipeline,
    "pipeline_2": lambda: pipeline(2),
    **{
        f"fault_{fault}": lambda fault=fault: by_hand(fault)  # type: ignore[misc]
        for fault in ("unreduced", "twice", "order", "replica", "offset", "input_grad")
    },
    "fault_partial": used_partial,
    "fault_seeds": lambda: seeds("other"),
    "fault_norm_grad": lambda: sequences("norm"),
    "fault_summed": lambda: rows("summed"),
    "fault_unreduced_rows": lambda: rows("unreduced"),
}


def main() -> None:
    """Train each case, recorded."""
    folder, *cases = sys.argv[1:]
    if "RANK" not in os.environ:
        store: Any = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    else:
        dist.init_process_group("gloo")
    for case in cases:
        torch.manual_seed(0)
        training = CASES[case]()
        with padiff.record(
            training.model,
            name=case,
            out=Path(folder) / "dumps",
            optimizer=training.optimizer,
        ) as recorder:
            for step in range(2 if case in LONG else 1):
                training.loss(step)
                training.optimizer.step()
                training.optimizer.zero_grad()
                recorder.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
