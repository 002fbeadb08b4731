"""A model on a GPU is recorded as one on the CPU is. Not run where there is no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from padiff import record
from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumpfile import open_dump

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="GPU tests not run: no CUDA device on this machine"
)


def build() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(inplace=True),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 64, 5),
    ).eval()


def dump(device: str, out: Path, dtype: torch.dtype = torch.float32) -> Path:
    model = build().to(device=device, dtype=dtype)
    inputs = torch.linspace(-1, 1, 2 * 3 * 64).reshape(2, 3, 8, 8).to(device=device, dtype=dtype)
    with record(model, name=device, out=out) as recorder:
        model(inputs).mean().backward()
    return recorder.path


def test_gpu_dump_matches_cpu_dump(tmp_path: Path) -> None:
    reference = dump("cpu", tmp_path, torch.float64)
    candidate = dump("cuda", tmp_path, torch.float64)

    assert compare(reference, candidate, CompareSettings()).verdict is Verdict.MATCH


def test_gpu_dump_states_its_device(tmp_path: Path) -> None:
    assert open_dump(dump("cuda", tmp_path)).manifest.device.startswith("cuda")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_recording_leaves_gpu_results_bit_equal(tmp_path: Path, dtype: torch.dtype) -> None:
    inputs = torch.ones(2, 3, 8, 8, device="cuda", dtype=dtype)
    plain = build().to(device="cuda", dtype=dtype)
    plain(inputs).mean().backward()
    recorded = build().to(device="cuda", dtype=dtype)

    with record(recorded, name="net", out=tmp_path):
        recorded(inputs).mean().backward()

    for one, two in zip(plain.parameters(), recorded.parameters(), strict=True):
        assert one.grad is not None
        assert two.grad is not None
        assert torch.equal(one.grad, two.grad)


def test_values_changed_in_place_right_after_a_call_are_those_of_the_call(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Linear(2048, 2048)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(20):
                x = self.body(x)
                x.mul_(0.5)
            return x

    made = {}
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = Net().double()
        x = torch.randn(512, 2048, dtype=torch.float64)
        with record(model.to(device), name=device, out=tmp_path) as recorder:
            model(x.to(device)).mean().backward()
        made[device] = recorder.path

    assert compare(made["cpu"], made["cuda"], CompareSettings()).verdict is Verdict.MATCH


def test_a_long_recording_holds_little_of_the_gpus_memory(tmp_path: Path) -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(8))).to("cuda")
    x = torch.randn(4096, 4096, device="cuda")
    model(x).mean().backward()
    torch.cuda.reset_peak_memory_stats()
    model.zero_grad()
    model(x).mean().backward()
    plain = torch.cuda.max_memory_allocated()
    model.zero_grad()

    with record(model, name="net", out=tmp_path):
        model(x).mean().backward()

    assert torch.cuda.max_memory_allocated() - plain < 512 << 20
