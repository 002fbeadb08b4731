"""Changes of the attention of a model: its scale, its mask, its heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .changes import Arguments, Options, get, instead

if TYPE_CHECKING:
    from collections.abc import Callable

    from .operators import Change


def with_arguments(function: Callable[[Options, Any], Options]) -> Callable[[Any], Change]:
    """Run attention with other arguments; the function gets them by name, and the size."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")

    def change(size: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
        given = {**dict(zip(names, args, strict=False)), **options}
        return call(**function(given, size))

    return instead(change)


def other_scale(given: Options, size: Any) -> Options:  # noqa: ANN401
    """Scale the scores otherwise, or not at all."""
    usual = given.get("scale") or given["query"].shape[-1] ** -0.5
    return {**given, "scale": 1.0 if size == "none" else usual * (1 + size)}


def exchanged(given: Options, _: Any) -> Options:  # noqa: ANN401
    """Take the queries for keys, and the keys for queries."""
    return {**given, "query": given["key"], "key": given["query"]}


def is_exchangeable(args: Arguments, options: Options) -> bool:
    """Return whether there are as many queries as keys."""
    query, key = get(args, options, 0, "query"), get(args, options, 1, "key")
    return bool(query.shape == key.shape)


def triangle(given: Options, diagonal: int) -> Options:
    """Hide what lies above another diagonal."""
    rows, columns = given["query"].shape[-2], given["key"].shape[-2]
    mask = torch.ones(rows, columns, dtype=torch.bool).tril(diagonal)
    mask[:, 0] = True
    return {**given, "is_causal": False, "attn_mask": mask}


def is_causal(args: Arguments, options: Options) -> bool:
    """Return whether the attention is causal by its argument."""
    return bool(get(args, options, 5, "is_causal"))


def is_open(args: Arguments, options: Options) -> bool:
    """Return whether nothing is hidden from anything."""
    lengths = get(args, options, 0, "query").shape[-2], get(args, options, 1, "key").shape[-2]
    return (
        not is_causal(args, options)
        and get(args, options, 3, "attn_mask") is None
        and lengths[0] == lengths[1]
    )


def one_head(result: Tensor, _: Any) -> Tensor:  # noqa: ANN401
    """Turn the positions of one head around."""
    return torch.cat([result[:, :1], result[:, 1:2].flip(2), result[:, 2:]], 1)


def heads_split(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Cut the features as if the heads came before the positions."""
    right = call(*args, **options)
    batch, length, heads, width = right.shape
    return args[0].reshape(batch, heads, length, width).transpose(1, 2)


def splits_heads(args: Arguments, _: Options) -> bool:
    """Return whether features are cut into heads."""
    shape = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    return (
        isinstance(args[0], Tensor)
        and args[0].ndim == 3
        and len(shape) == 4
        and args[0].is_floating_point()
        and tuple(shape[:2]) == tuple(args[0].shape[:2])
    )


def heads_merged(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Join heads that were not moved back."""
    return args[0].transpose(1, 2).reshape(call(*args, **options).shape)


def merges_heads(args: Arguments, _: Options) -> bool:
    """Return whether heads are joined to features."""
    shape = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    return isinstance(args[0], Tensor) and args[0].ndim == 4 and len(shape) == 3
