"""Copies from a GPU to host memory that the GPU makes beside its work."""

from __future__ import annotations

from typing import Any, Protocol

import ml_dtypes
import torch

from padiff.dumper.adapter import Transfer

_FLOAT8 = {
    name: getattr(ml_dtypes, name)
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
}
AS_BITS: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    **{
        getattr(torch, name): (torch.uint8, dtype)
        for name, dtype in _FLOAT8.items()
        if hasattr(torch, name)
    },
}
"""Dtypes that numpy lacks: read as integers of the same width, then reinterpreted."""


class Event(Protocol):
    """A place in the work of a GPU."""

    def synchronize(self) -> None:
        """Wait until the work has come there."""


class Streams(Protocol):
    """A GPU's queues of work: the current one, and another for copies."""

    def takes(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor is in the GPU's memory."""

    def copy(self, source: torch.Tensor) -> tuple[torch.Tensor, Event]:
        """Queue a copy to host memory, behind everything that is in the current queue by now.

        Args:
            source: Contiguous; nobody changes it, and its memory is not used for anything else
                before the copy is made, even if it dies.

        Returns:
            A tensor in host memory, and what tells when the elements are there.
        """


class CudaStreams:
    """Those of CUDA, and of ROCm under the same names."""

    def __init__(self) -> None:
        """Make no stream yet."""
        self._copying: dict[torch.device, torch.cuda.Stream] = {}

    def takes(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor is on a CUDA device."""
        return tensor.is_cuda

    def copy(self, source: torch.Tensor) -> tuple[torch.Tensor, Event]:
        """Queue a copy to pinned memory; torch uses that again once copy and tensor are done."""
        device = source.device
        if device not in self._copying:
            self._copying[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream = self._copying[device]
        stream.wait_stream(torch.cuda.current_stream(device))
        host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        with torch.cuda.stream(stream):
            host.copy_(source, non_blocking=True)
            event = stream.record_event()
        source.record_stream(stream)
        return host, event


class TorchTransfers:
    """Copies tensors as they are now, without waiting for that.

    The model may change a tensor in place right after its hook. So it is copied on the GPU
    first, in the order of the model's own work, and that copy goes to the host.
    """

    def __init__(self, streams: Streams | None = None) -> None:
        """Use these streams; None takes CUDA's."""
        self._streams = streams or CudaStreams()

    def takes(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor is one that ``begin`` can copy."""
        return (
            self._streams.takes(tensor)
            and tensor.layout is torch.strided
            and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        )

    def begin(self, tensor: torch.Tensor) -> Transfer:
        """Queue the copies."""
        with torch.no_grad():
            source = tensor.detach().clone(memory_format=torch.contiguous_format)
            bits = AS_BITS.get(source.dtype)
            host, event = self._streams.copy(source if bits is None else source.view(bits[0]))
        array = host.numpy()
        return Transfer(
            array=array if bits is None else array.view(bits[1]), wait=event.synchronize
        )
