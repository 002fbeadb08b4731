"""Walking Paddle layers: what is inside, what is owned, what cannot be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import paddle
from paddle import nn

from padiff.dumpfile import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATISTICS: Final = ("_mean", "_variance")
_POWER_VECTORS: Final = ("weight_u", "weight_v")


def walk(layer: nn.Layer, path: str, inside: tuple[int, ...]) -> Iterator[tuple[str, nn.Layer]]:
    """Yield a layer and what it contains at every path; a layer inside itself is not followed."""
    yield path, layer
    for name, child in layer._sub_layers.items():  # named_sublayers skips shared ones
        if child is not None and id(child) not in inside:
            below = f"{path}.{name}" if path else name
            yield from walk(child, below, (*inside, id(layer)))


def refuse_compiled(path: str, layer: nn.Layer) -> None:
    """Refuse a layer whose forward is a compiled program.

    Raises:
        RecordError: It was compiled by ``to_static`` or loaded from a compiled program.
    """
    compiled = isinstance(
        vars(layer).get("forward"), paddle.jit.dy2static.program_translator.StaticFunction
    )
    if compiled or isinstance(layer, paddle.jit.TranslatedLayer):
        raise RecordError(
            f"cannot record module {path or '(root)'!r}: expected an eager layer, found a compiled "
            f"{type(layer).__name__}, whose inner calls cannot be seen",
            hint="record the layer before paddle.jit.to_static, or call "
            "paddle.jit.enable_to_static(False) before it is compiled",
        )


def folded_names(layer: nn.Layer) -> frozenset[str]:
    """Name the tensors of a layer that are another's alias, derived, or a kernel's own state."""
    own = layer._parameters
    folded = {
        name[: -len(suffix)]
        for suffix in ("_orig", "_v")
        for name in own
        if name.endswith(suffix) and (suffix == "_orig" or f"{name[:-2]}_g" in own)
    }  # weight_norm and spectral_norm keep the weight they compute as a buffer
    if isinstance(layer, nn.layer.rnn.RNNBase):
        cells = {
            id(parameter) for child in layer.sublayers() for parameter in child._parameters.values()
        }
        folded |= {name for name, parameter in own.items() if id(parameter) in cells}
        folded.add("_dropout_state")
    return frozenset(folded)


def is_statistic(layer: nn.Layer, name: str) -> bool:
    """Tell whether a layer keeps what others call a buffer as a parameter of this name."""
    if isinstance(layer, nn.SpectralNorm):
        return name in _POWER_VECTORS
    norms = (nn.layer.norm._BatchNormBase, nn.BatchNorm)  # the common base
    return isinstance(layer, norms) and name in _STATISTICS


def unlisted(layer: nn.Layer) -> Iterator[tuple[str, paddle.Tensor]]:
    """Yield parameters that a layer keeps in plain lists, where Paddle itself does not see them."""
    if isinstance(layer, nn.AdaptiveLogSoftmaxWithLoss):
        for number, tail in enumerate(layer.tail_weights):
            for place, tensor in enumerate(tail):
                yield f"tail_weights.{number}.{place}", tensor
