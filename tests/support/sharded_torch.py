"""Trains small models that torch shards over processes, with and without recording them.

Run by a launcher: ``python -m torch.distributed.run --standalone --nproc-per-node 2
sharded_torch.py FOLDER CASE...``. Each rank leaves ``FOLDER/RANK.json``: by case the losses of both
runs, how many collectives each of them started, and where the dump is. Of ``CASE:broken`` the
recorder fails on rank 1 after a while.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import padiff
from padiff.dumper.adapters.torch import TorchAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from padiff.dumper import Recorder

STEPS = 3
WORDS, WIDTH, LENGTH, BATCH = 12, 8, 4, 4


class Block(nn.Module):
    """A norm, attention of two heads, and a small network, with a residual around each."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        """Compute the block."""
        y = self.norm(x)
        x = x + self.out(torch.tanh(self.query(y)) * self.key(y))
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class Net(nn.Module):
    """An embedding, two blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: torch.Tensor) -> Any:  # noqa: ANN401
        """Compute the logits."""
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Stage(nn.Module):
    """A part of the net."""

    def __init__(self, net: Net, rank: int) -> None:
        super().__init__()
        self.embedding = net.embedding if rank == 0 else None
        self.block = net.blocks[rank]
        self.head = nn.Sequential(net.norm, net.head) if rank == 1 else None

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        """Compute what this stage does."""
        x = x if self.embedding is None else self.embedding(x)
        x = self.block(x)
        return x if self.head is None else self.head(x)


class Reduce(torch.autograd.Function):
    """Sums over all ranks in the forward pass, as Megatron's row-parallel layers do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        """Sum in place."""
        del ctx
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        """Hand the gradient on."""
        del ctx
        return grads[0]


class Copy(torch.autograd.Function):
    """Sums over all ranks in the backward pass, as Megatron's column-parallel layers do."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        """Hand the value on."""
        del ctx
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        """Sum in place."""
        del ctx
        gradient = grads[0].contiguous()
        dist.all_reduce(gradient)
        return gradient


class MegatronMlp(nn.Module):
    """A column-parallel and a row-parallel layer written by hand."""

    def __init__(self) -> None:
        super().__init__()
        part = slice(dist.get_rank() * WIDTH, (dist.get_rank() + 1) * WIDTH)
        whole = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        with torch.no_grad():
            self.up.weight.copy_(whole[0].weight[part])
            self.up.bias.copy_(whole[0].bias[part])
            self.down.weight.copy_(whole[1].weight[:, part])

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        """Compute both layers."""
        copied = Copy.apply(x)  # type: ignore[no-untyped-call]
        return Reduce.apply(self.down(torch.relu(self.up(copied))))  # type: ignore[no-untyped-call]


@dataclass(kw_only=True)
class Training:
    """A model that is trained."""

    model: nn.Module
    loss: Callable[[int], torch.Tensor]
    """Runs forward and backward of a step; returns the loss."""
    optimizer: torch.optim.Optimizer


def batch(step: int, part: slice = slice(None)) -> tuple[torch.Tensor, torch.Tensor]:
    """Make words and the words that follow them."""
    drawn = torch.Generator().manual_seed(step)
    words = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=drawn)[part]
    return words[:, :-1], words[:, 1:]


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Measure the mean over all words."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def own_part() -> slice:
    """Return the samples of this rank."""
    share = BATCH // dist.get_world_size()
    return slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)


def trained(
    model: nn.Module,
    *,
    part: slice = slice(None),
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = cross_entropy,
) -> Training:
    """Train a model on words by AdamW."""

    def loss(step: int) -> torch.Tensor:
        words, labels = batch(step, part)
        found = loss_of(model(words), labels)
        torch.autograd.backward(found)
        return found

    return Training(model=model, loss=loss, optimizer=torch.optim.AdamW(model.parameters(), 0.1))


def mesh_of(name: str) -> DeviceMesh:
    """Make the mesh of all ranks."""
    return init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=(name,))


def tensor_parallel() -> Training:
    """Column- and row-parallel layers, activations whole between them."""
    net, mesh = Net(), mesh_of("tp")
    for block in net.blocks:
        plan = {
            "query": ColwiseParallel(),
            "key": ColwiseParallel(),
            "out": RowwiseParallel(),
            "up": ColwiseParallel(),
            "down": RowwiseParallel(),
        }
        parallelize_module(block, mesh, plan)
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    return trained(parallelize_module(net, mesh, plan))


def sequence_parallel() -> Training:
    """The same, with activations between layers split along the sequence, and the loss by words."""
    net, mesh = Net(), mesh_of("tp")
    for block in net.blocks:
        plan = {
            "norm": SequenceParallel(),
            "query": ColwiseParallel(input_layouts=Shard(1)),
            "key": ColwiseParallel(input_layouts=Shard(1)),
            "out": RowwiseParallel(output_layouts=Shard(1)),
            "norm2": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1)),
        }
        parallelize_module(block, mesh, plan)
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
        ),
    }
    made = trained(parallelize_module(net, mesh, plan))
    loss = made.loss

    def by_words(step: int) -> torch.Tensor:
        with loss_parallel():
            return loss(step)

    made.loss = by_words
    return made


def distributed_tensors() -> Training:
    """Weights distributed by hand, activations that are distributed tensors from end to end."""
    net, mesh = Net(), mesh_of("tp")
    for module in net.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                is_split = isinstance(module, nn.Linear) and parameter.ndim == 2
                placements = [Shard(0)] if is_split else [Replicate()]
                spread = distribute_tensor(parameter.data, mesh, placements)
                module.register_parameter(name, nn.Parameter(spread))
    made = trained(net)

    def loss(step: int) -> torch.Tensor:
        words, labels = (distribute_tensor(one, mesh, [Replicate()]) for one in batch(step))
        found = cross_entropy(net(words), labels)
        torch.autograd.backward(found)
        assert isinstance(found, DTensor)
        return found.full_tensor()

    made.loss = loss
    return made


def fully_sharded(policy: MixedPrecisionPolicy | None = None) -> Training:
    """FSDP2, each block by itself."""
    net = Net()
    policy = policy or MixedPrecisionPolicy()
    for block in net.blocks:
        fully_shard(block, mesh=mesh_of("fsdp"), mp_policy=policy)
    fully_shard(net, mesh=mesh_of("fsdp"), mp_policy=policy)
    return trained(net, part=own_part())


def grid() -> Training:
    """Tensor parallel layers of which FSDP2 splits the weights further, over four processes."""
    net, mesh = Net(), init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    for block in net.blocks:
        plan = {
            "query": ColwiseParallel(),
            "key": ColwiseParallel(),
            "out": RowwiseParallel(),
            "up": ColwiseParallel(),
            "down": RowwiseParallel(),
        }
        parallelize_module(block, mesh["tp"], plan)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(net, mesh=mesh["dp"])
    share = BATCH // 2
    own = mesh.get_local_rank("dp")
    return trained(net, part=slice(own * share, (own + 1) * share))


def mixed_sharded() -> Training:
    """FSDP2 with weights that are cast."""
    kind = torch.bfloat16
    policy = MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32, output_dtype=kind)
    return fully_sharded(policy)


def data_parallel() -> Training:
    """DDP."""
    return trained(DistributedDataParallel(Net()), part=own_part())


def pipeline(kind: type[Any] = ScheduleGPipe) -> Training:
    """Two stages of a pipeline, two microbatches."""
    rank, cpu = dist.get_rank(), torch.device("cpu")
    model = Stage(Net(), rank)
    schedule = kind(PipelineStage(model, rank, 2, cpu), n_microbatches=2, loss_fn=cross_entropy)

    def loss(step: int) -> torch.Tensor:
        words, labels = batch(step)
        if rank == 0:
            schedule.step(words)
            return torch.zeros(())
        losses: list[torch.Tensor] = []
        schedule.step(target=labels, losses=losses)
        return torch.stack(losses).mean()

    return Training(model=model, loss=loss, optimizer=torch.optim.AdamW(model.parameters(), 0.1))


def interleaved() -> Training:
    """Four stages of a pipeline on two ranks, two microbatches."""
    rank, cpu = dist.get_rank(), torch.device("cpu")
    net = Net()
    stages = [net.embedding, *net.blocks, nn.Sequential(net.norm, net.head)]
    model = nn.ModuleList(stages[rank::2])
    pipes: list[Any] = [PipelineStage(one, rank + 2 * at, 4, cpu) for at, one in enumerate(model)]
    schedule = ScheduleInterleaved1F1B(pipes, n_microbatches=2, loss_fn=cross_entropy)

    def loss(step: int) -> torch.Tensor:
        words, labels = batch(step)
        if rank == 0:
            schedule.step(words)
            return torch.zeros(())
        losses: list[torch.Tensor] = []
        schedule.step(target=labels, losses=losses)
        return torch.stack(losses).mean()

    return Training(model=model, loss=loss, optimizer=torch.optim.AdamW(model.parameters(), 0.1))


def megatron() -> Training:
    """Layers that split their weights by hand and reduce in place."""
    net = Net()
    for block in net.blocks:
        block.up, block.down = MegatronMlp(), nn.Identity()
        torch.manual_seed(7)
    return trained(net)


CASES: dict[str, Callable[[], Training]] = {
    "ddp": data_parallel,
    "distributed": distributed_tensors,
    "fsdp": fully_sharded,
    "fsdp_mixed": mixed_sharded,
    "grid": grid,
    "interleaved": interleaved,
    "megatron": megatron,
    "pipeline": pipeline,
    "pipeline_1f1b": lambda: pipeline(Schedule1F1B),
    "sequence": sequence_parallel,
    "tensor": tensor_parallel,
}


def started() -> int:
    """Count the collectives that the group of all ranks has started."""
    group: Any = dist.group.WORLD
    return int(group._get_backend(torch.device("cpu"))._get_sequence_number_for_group())


@contextmanager
def broken(*, after: int) -> Iterator[None]:
    """Let the recorder of rank 1 fail when it has read so many tensors."""
    read, count = TorchAdapter.elements, 0

    def elements(adapter: TorchAdapter, tensor: torch.Tensor) -> Any:  # noqa: ANN401
        nonlocal count
        count += 1
        if count > after and dist.get_rank() == 1:
            raise ZeroDivisionError("planted")
        return read(adapter, tensor)

    with mock.patch.object(TorchAdapter, "elements", elements):
        yield


def run(case: str, recorder: Callable[[Training], Recorder | None]) -> dict[str, Any]:
    """Train a case for some steps."""
    torch.manual_seed(0)
    training = CASES[case]()
    before, losses = started(), []
    made = recorder(training)
    with made or torch.enable_grad() as recording:
        for step in range(STEPS):
            loss = training.loss(step)
            training.optimizer.step()
            training.optimizer.zero_grad()
            losses.append(float(loss.detach().item()).hex())
            if isinstance(recording, padiff.Recorder):
                recording.step()
    found = {"losses": losses, "collectives": started() - before}
    if made is not None:
        try:
            path = str(made.path)
        except padiff.PadiffError as error:
            path = f"none: {error}"
        found["dump"] = path
    return found


def main() -> None:
    """Train each case twice."""
    folder, *cases = sys.argv[1:]
    dist.init_process_group("gloo")
    found = {}
    for case in cases:
        name, _, how = case.partition(":")

        def recorded(training: Training, dump: str = name + how) -> Recorder:
            out = Path(folder) / "dumps"
            return padiff.record(training.model, name=dump, out=out, optimizer=training.optimizer)

        with broken(after=300) if how else nullcontext():
            found[case] = {"plain": run(name, lambda _: None), "recorded": run(name, recorded)}
    Path(folder, f"{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
