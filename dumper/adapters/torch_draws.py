"""What torch's operators draw on their way: what attention and recurrent layers drop, slopes.

What they return does not tell what was dropped. On a CPU they draw as dropouts of the same shape
do, so another generator draws once more from the state that theirs had before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

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


def drawn_inside(
    name: str, given: tuple[tuple[Any, ...], Mapping[str, Any]], before: Hashable
) -> torch.Tensor | None:
    """Return what an operator drew on its way, in the form in which its row of the table takes it.

    Args:
        name: Of the operator.
        given: What it was called with.
        before: The states of all generators before, the CPU's alone or first.

    Returns:
        Which elements were kept, as bool; several dropouts stand behind each other on one more axis
        in front. Of slopes where each lies between its bounds, from 0 to 1. None for an operator
        that draws nothing inside, and where the generator would be left in another state.
    """
    state = before[0] if isinstance(before, tuple) else before  # beside those of other devices
    draw = _DRAWING.get(name.rpartition(".")[2])
    if draw is None or not isinstance(state, bytes):
        return None
    generator = torch.Generator()
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    drawn = draw(name, given, generator)
    is_same = torch.equal(generator.get_state(), torch.default_generator.get_state())
    return drawn if is_same else None


def _slopes(
    _name: str, given: tuple[tuple[Any, ...], Mapping[str, Any]], generator: torch.Generator
) -> torch.Tensor | None:
    """Return where between the two bounds the slope of each element up to zero lies, else 0."""
    names = "input lower upper training inplace"
    defaults = {"lower": 1 / 8, "upper": 1 / 3, "inplace": False}
    told = {**defaults, **dict(zip(names.split(), given[0], strict=False)), **given[1]}
    x, low, high = told["input"], told["lower"], told["upper"]
    if told["inplace"] or x.device.type != "cpu":
        return None
    with torch.no_grad():
        is_below = x <= 0
        made = torch.rrelu(1.0 - 2.0 * is_below.to(x.dtype), low, high, True, generator=generator)  # noqa: FBT003
        places = (-made - low) / max(high - low, 1e-30)
        return torch.where(is_below, places.clamp(0.0, 1.0), 0.0)


def _kept(
    name: str, given: tuple[tuple[Any, ...], Mapping[str, Any]], generator: torch.Generator
) -> torch.Tensor | None:
    """Return which elements an operator keeps of what it makes on its way."""
    names, drops_of = _DROPPING[name.rpartition(".")[2]]
    args, kwargs = given
    if drops_of is _layers and len(args) > 1 and not torch.is_floating_point(args[1][0]):
        names = _PACKED
    told = {**dict(zip(names.split(), args, strict=False)), **kwargs}
    first = told[names.split()[0]]
    if first.device.type != "cpu" or first.is_nested:
        return None
    share, count, shape = drops_of(told)
    drawn = [
        torch.empty(shape, device="cpu").bernoulli_(1 - share, generator=generator)
        for _ in range(count)
    ]
    return (drawn[0] if count == 1 else torch.stack(drawn)) != 0


_DRAWING = {**dict.fromkeys(_DROPPING, _kept), "rrelu": _slopes}
"""What operators draw on their way, by their last names."""
