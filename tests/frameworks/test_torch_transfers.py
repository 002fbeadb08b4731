"""Copies from a GPU, with streams that make every copy as late as they may."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumper import Recorder, RecordSettings
from padiff.dumper.adapters.torch import TorchAdapter
from padiff.dumper.adapters.torch_transfers import TorchTransfers
from padiff.dumpfile import DumpWriter, Keep, validate, valuestore

if TYPE_CHECKING:
    from pathlib import Path


class LateEvent:
    """Makes the copy when it is waited for, and not before."""

    def __init__(self, streams: LateStreams, host: torch.Tensor, source: torch.Tensor) -> None:
        self._streams, self._host, self._source = streams, host, source

    def synchronize(self) -> None:
        with torch._C.DisableTorchFunction():
            self._host.copy_(self._source)
        self._streams.waited_in.add(threading.current_thread().name)
        with self._streams.lock:
            self._streams.waiting_bytes -= self._host.nbytes


class LateStreams:
    """Stands in for a GPU's streams: takes every tensor for one in the GPU's memory."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting_bytes = self.most_bytes = self.copies = 0
        self.waited_in: set[str] = set()

    def takes(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == "cpu"

    def copy(self, source: torch.Tensor) -> tuple[torch.Tensor, LateEvent]:
        with torch._C.DisableTorchFunction():  # a stream's own work is no operator of the model
            host = torch.full_like(source, 77)  # what stands there until the copy is made
        with self.lock:
            self.copies += 1
            self.waiting_bytes += host.nbytes
            self.most_bytes = max(self.most_bytes, self.waiting_bytes)
        return host, LateEvent(self, host, source)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.relu = torch.nn.ReLU(inplace=True)
        self.head = torch.nn.Linear(8 * 64, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.relu(self.norm(self.conv(images)))
        result: torch.Tensor = self.head(hidden.flatten(1))
        result += 1.0
        return result


class OnDevice(TorchAdapter):
    """The adapter of tensors that are all in the GPU's memory, none in the host's."""

    def small_bytes(self, tensor: torch.Tensor, limit: int) -> None:
        del tensor, limit


def dump(
    out: Path, name: str, streams: LateStreams | None, content: str, dtype: torch.dtype
) -> Path:
    adapter = TorchAdapter() if streams is None else OnDevice(TorchTransfers(streams))
    model = Net().to(dtype).train()
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.linspace(-1, 1, 2 * 3 * 64).reshape(2, 3, 8, 8).to(dtype)
    settings = RecordSettings(out=out, name=name, content=Keep.parse(content))
    with Recorder(model, settings, adapter, optimizers=[optimizer]) as recorder:
        model(images).float().square().mean().backward()
        optimizer.step()
    return recorder.path


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("content", ["full", "sample=16", "stats", "digest"])
def test_late_copies_make_the_same_dump(content: str, dtype: torch.dtype, tmp_path: Path) -> None:
    streams = LateStreams()
    at_once = dump(tmp_path, "at_once", None, content, dtype)
    late = dump(tmp_path, "late", streams, content, dtype)

    files = [next(path.rglob("*.h5")).read_bytes() for path in (at_once, late)]
    assert files[0] == files[1]
    assert streams.copies > 20
    assert streams.waiting_bytes == 0
    assert streams.waited_in == {"padiff-writer-0-0"}
    assert validate(late, deep=True) == []
    assert compare(at_once, late, CompareSettings()).verdict is Verdict.MATCH


def test_copies_under_way_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valuestore, "_QUEUE_BYTES", 4 << 20)
    streams = LateStreams()
    transfers = TorchTransfers(streams)

    with DumpWriter(tmp_path / "net") as writer:
        step = writer.step(0)
        for number in range(60):
            transfer = transfers.begin(torch.full((1 << 18,), float(number)))
            step.store(transfer.array, arrival=transfer.wait)
        step.flush()

    assert streams.most_bytes <= (4 + 1 + 1) << 20  # and one copy before, one behind the queue


def test_a_transfer_is_of_the_moment_when_it_began() -> None:
    tensor = torch.zeros(3, 4).t()
    transfer = TorchTransfers(LateStreams()).begin(tensor)

    tensor.add_(1)
    transfer.wait()

    assert not transfer.array.any()
    assert transfer.array.flags.c_contiguous
    assert transfer.array.shape == (4, 3)


def test_tensors_without_plain_elements_are_not_transferred() -> None:
    transfers = TorchTransfers(LateStreams())

    assert transfers.takes(torch.zeros(2))
    assert not transfers.takes(torch.eye(2).to_sparse())
    assert not transfers.takes(torch.tensor([1 + 2j]).conj())


def test_host_tensors_are_not_transferred() -> None:
    assert TorchAdapter().transfer(torch.zeros(2)) is None


def test_an_error_of_the_device_ends_the_recording(tmp_path: Path) -> None:
    def lost() -> None:
        raise RuntimeError("device lost")

    with DumpWriter(tmp_path / "net") as writer:
        step = writer.step(0)
        step.store(np.zeros(1 << 20, np.float32), arrival=lost)

        with pytest.raises(OSError, match="device lost"):
            step.flush()
