"""Walking Paddle layers: what is inside, what is owned, what cannot be seen."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import paddle
from paddle import nn
from paddle.jit.pir_translated_layer import PirTranslatedLayer

from padiff.dumpfile import RecordError

from .walk import walk as walk_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLEET: Final = "paddle.distributed.fleet"
_WRAPPERS: Final = {
    "paddle.distributed.parallel.DataParallel": "_layers",
    f"{_FLEET}.meta_parallel.meta_parallel_base.MetaParallelBase": "_layers",
    f"{_FLEET}.utils.mix_precision_utils.MixPrecisionLayer": "_layers",
    f"{_FLEET}.meta_parallel.sharding.group_sharded_stage2.GroupShardedStage2": "_layer",
    f"{_FLEET}.meta_parallel.sharding.group_sharded_stage3.GroupShardedStage3": "_layer",
}
"""Wrappers, and the only name that each has for what it wraps."""
_STATISTICS: Final = ("_mean", "_variance")
_POWER_VECTORS: Final = ("weight_u", "weight_v")


def walk(layer: nn.Layer) -> Iterator[tuple[str, nn.Layer]]:
    """Yield a layer and what it contains at every path; a layer inside itself is not followed."""
    # named_sublayers skips shared ones
    return walk_modules(layer, lambda one: one._sub_layers.items())


def parameters_of(layer: nn.Layer) -> Iterator[paddle.Tensor]:
    """Yield each parameter once, of a tree of any depth; Paddle's own iterator recurses."""
    seen: set[int] = set()
    for _, one in walk(layer):
        for parameter in one._parameters.values():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                yield parameter


def inside(layer: nn.Layer) -> nn.Layer | None:
    """Return the layer inside a wrapper for devices or mixed precision; None if it is none."""
    for kind in type(layer).__mro__:
        name = _WRAPPERS.get(f"{kind.__module__}.{kind.__qualname__}")
        found = None if name is None else getattr(layer, name, None)
        if isinstance(found, nn.Layer):
            return found
    return None


def refuse_compiled(path: str, layer: nn.Layer) -> None:
    """Refuse a layer that is nothing but a compiled program.

    Raises:
        RecordError: It was loaded from one.
    """
    if isinstance(layer, paddle.jit.TranslatedLayer | PirTranslatedLayer):
        raise RecordError(
            f"cannot record module {path or '(root)'!r}: expected an eager layer, found a compiled "
            f"{type(layer).__name__}, whose inner calls cannot be seen",
            hint="record the layer that the program was made of",
        )


def is_compiled(layer: nn.Layer) -> bool:
    """Return whether ``to_static`` has compiled a layer's forward."""
    kind = paddle.jit.dy2static.program_translator.StaticFunction
    return isinstance(vars(layer).get("forward"), kind)


@contextmanager
def eagerly() -> Iterator[None]:
    """Run what ``to_static`` has compiled eagerly: inside a program no layer calls back."""
    translator = paddle.jit.dy2static.program_translator.ProgramTranslator()
    before = translator.enable_to_static
    paddle.jit.enable_to_static(False)  # noqa: FBT003
    try:
        yield
    finally:
        paddle.jit.enable_to_static(before)


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
    """Return whether a layer keeps what others call a buffer as a parameter of this name."""
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
