"""What torch's operators drop on their way: weights of attention, values between recurrent layers.

What they return does not tell what was dropped. On a CPU they draw as dropouts of the same shape
do, so another generator draws once more from the state that theirs had before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

__all__ = ["kept_inside"]

Drops: TypeAlias = tuple[float, int, tuple[int, ...]]
"""The share that is dropped, how often, and the shape of what it is dropped from."""


def _attention(given: Mapping[str, Any]) -> Drops:
    """Return what is dropped of the weights (…, head, query, key)."""
    query, key = given["query"].shape, given["key"].shape
    batch: torch.Size = torch.broadcast_shapes(query[:-3], key[:-3])  # type: ignore[no-untyped-call]
    return given.get("dropout_p", 0.0), 1, (*batch, *query[-3:-1], key[-2])


def _multi_head(given: Mapping[str, Any]) -> Drops:
    """Return what is dropped of the weights (batch, head, query, key)."""
    query, key = given["query"].shape, given["key"].shape
    batch = query[1] if len(query) > 2 else 1  # noqa: PLR2004
    more = (given["bias_k"] is not None) + bool(given["add_zero_attn"])
    return given["dropout_p"], 1, (batch, given["num_heads"], query[0], key[0] + more)


def _layers(given: Mapping[str, Any]) -> Drops:
    """Return what is dropped between layers, of (position, batch, feature) or (row, feature)."""
    state, rows = given["hx"], given["input"].shape[:-1]
    state = state if isinstance(state, torch.Tensor) else state[0]
    width = state.shape[-1] * (2 if given["bidirectional"] else 1)
    rows = rows[::-1] if given.get("batch_first") else rows
    return given["dropout"], given["num_layers"] - 1, (*rows, width)


_QUERY = "query key value"
_MULTI_HEAD = (
    f"{_QUERY} embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v "
    "add_zero_attn dropout_p"
)
_RECURRENT = "hx params has_biases num_layers dropout train bidirectional"
_DROPPING: dict[str, tuple[str, Callable[[Mapping[str, Any]], Drops]]] = {
    "scaled_dot_product_attention": (f"{_QUERY} attn_mask dropout_p", _attention),
    "multi_head_attention_forward": (_MULTI_HEAD, _multi_head),
    **dict.fromkeys(
        ("lstm", "gru", "rnn_tanh", "rnn_relu"), (f"input {_RECURRENT} batch_first", _layers)
    ),
}
"""The first arguments of operators by their last names, and what they drop."""
_PACKED = f"input batch_sizes {_RECURRENT}"
"""The arguments of recurrent layers over rows of several lengths."""


def kept_inside(
    name: str, given: tuple[tuple[Any, ...], Mapping[str, Any]], before: Hashable
) -> torch.Tensor | None:
    """Return which elements an operator kept of what it made on its way.

    Args:
        name: Of the operator.
        given: What it was called with.
        before: The states of all generators before, the CPU's alone or first.

    Returns:
        Bool; several dropouts stand behind each other on one more axis in front. None for an
        operator that drops nothing inside, and where the generator would be left in another state.
    """
    names, drops_of = _DROPPING.get(name.rpartition(".")[2], ("", None))
    state = before[0] if isinstance(before, tuple) else before  # beside those of other devices
    if drops_of is None or not isinstance(state, bytes):
        return None
    args, kwargs = given
    if drops_of is _layers and len(args) > 1 and not torch.is_floating_point(args[1][0]):
        names = _PACKED
    told = {**dict(zip(names.split(), args, strict=False)), **kwargs}
    first = told[names.split()[0]]
    if first.device.type != "cpu" or first.is_nested:
        return None
    share, count, shape = drops_of(told)
    generator = torch.Generator()
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    drawn = [
        torch.empty(shape, device="cpu").bernoulli_(1 - share, generator=generator)
        for _ in range(count)
    ]
    if not torch.equal(generator.get_state(), torch.default_generator.get_state()):
        return None
    return (drawn[0] if count == 1 else torch.stack(drawn)) != 0
