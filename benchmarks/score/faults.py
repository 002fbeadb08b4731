"""The kinds of faults that are planted: a table, each with its sizes and its right words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import attentionchanges as attention
from . import changes as operator
from . import modulechanges as layer

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KINDS", "Kind"]

SCALE = 0.25, 0.01, 1e-3, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6
"""By how much a factor is not 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault: in which operators it can be, and what is right to say of it."""

    operators: tuple[str, ...] = ()
    """Names of the operators; empty if a module is changed."""
    change: Callable[[Any], Any]
    """Makes, of a size, the change of an operator, or the change of a module in place."""
    applies: Callable[..., bool] = lambda *_: True
    """Gets the arguments and options of an operator, or a module."""
    sizes: tuple[Any, ...] = (None,)
    """From large to small."""
    words: str
    """Regular expression over the evidence that names the cause."""
    backward: bool = False
    """Whether only gradients are wrong."""
    beside: tuple[str, ...] = ()
    """Children of the changed module of which each is exact, too."""


NORMS = "layer_norm", "batch_norm", "group_norm"
ACTIVATIONS = "gelu", "relu", "silu", "hardtanh", "tanh", "sigmoid"
LAYERS = "linear", "conv2d", "conv1d", "addmm", "layer_norm", "batch_norm", "gelu", "silu"
KINDS: dict[str, Kind] = {
    "epsilon": Kind(
        applies=layer.has_attribute("eps", "variance_epsilon"),
        change=layer.attribute("eps", "variance_epsilon"),
        sizes=(1e-2, 1e-3, 1e-4, 3e-5, 2e-5),
        words=r"\beps|epsilon",
    ),
    "epsilon of a norm": Kind(
        operators=("layer_norm",),
        change=operator.option(4, "eps", lambda _, size: size),
        sizes=(1e-2, 1e-3, 1e-4, 3e-5, 2e-5),
        words=r"\beps|epsilon",
    ),
    "weight of the norm left out": Kind(
        operators=("layer_norm",),
        applies=operator.has(2, "weight"),
        change=operator.option(2, "weight", lambda *_: None),
        words=r"weight.*left out|without .*weight",
    ),
    "norm left out": Kind(
        operators=NORMS,
        change=operator.instead(lambda _, call, args, options: args[0]),
        words=r"left out|no norm|identity|unchanged",
    ),
    "mean not taken off": Kind(
        operators=("layer_norm",),
        applies=operator.has(2, "weight"),
        change=operator.instead(operator.centred),
        words="mean",
    ),
    "bias left out": Kind(
        operators=("linear", "conv2d"),
        applies=operator.has(2, "bias"),
        change=operator.option(2, "bias", lambda *_: None),
        words=r"bias.*left out|without .*bias",
    ),
    "weight transposed": Kind(
        operators=("linear",),
        applies=operator.is_square,
        change=operator.instead(operator.transposed),
        words="transposed",
    ),
    "another activation": Kind(
        operators=ACTIVATIONS,
        change=operator.instead(operator.activation),
        sizes=("relu", "silu", "gelu", "relu6", "quick gelu", "tanh gelu"),
        words=r"gelu|relu|silu|swish|tanh|sigmoid",
    ),
    "attention scale": Kind(
        operators=("scaled_dot_product_attention",),
        change=attention.with_arguments(attention.other_scale),
        sizes=("none", 0.2, 1e-2, 1e-3, 1e-4, 1e-5),
        words="scale",
    ),
    "causal mask left out": Kind(
        operators=("scaled_dot_product_attention",),
        applies=attention.is_causal,
        change=attention.with_arguments(lambda given, _: {**given, "is_causal": False}),
        words="causal|mask|hid",
    ),
    "causal mask added": Kind(
        operators=("scaled_dot_product_attention",),
        applies=attention.is_open,
        change=attention.with_arguments(lambda given, _: {**given, "is_causal": True}),
        words="causal|mask|hid",
    ),
    "mask left out": Kind(
        operators=("scaled_dot_product_attention",),
        applies=operator.has(3, "attn_mask"),
        change=attention.with_arguments(lambda given, _: {**given, "attn_mask": None}),
        words="mask|hid|bias",
    ),
    "mask off by one": Kind(
        operators=("scaled_dot_product_attention",),
        applies=attention.is_causal,
        change=attention.with_arguments(attention.triangle),
        sizes=(1, -1),
        words="mask|hid|causal",
    ),
    "queries and keys exchanged": Kind(
        operators=("scaled_dot_product_attention",),
        applies=attention.is_exchangeable,
        change=attention.with_arguments(attention.exchanged),
        words="queries|keys|operands in another order",
    ),
    "one head wrong": Kind(
        operators=("scaled_dot_product_attention",),
        change=operator.after(attention.one_head),
        words=r"\bhead|feature|channel|flip",
    ),
    "axis of softmax": Kind(
        operators=("softmax",),
        applies=operator.has_axis,
        change=operator.option(1, "dim", lambda axis, _: -2),
        words=r"over the queries|axis|dim of",
    ),
    "heads split in another order": Kind(
        operators=("view", "reshape"),
        applies=attention.splits_heads,
        change=operator.instead(attention.heads_split),
        words=r"\bheads?\b|view|reshape|transpose|permute",
    ),
    "heads merged in another order": Kind(
        operators=("view", "reshape"),
        applies=attention.merges_heads,
        change=operator.instead(attention.heads_merged),
        words=r"\bheads?\b|view|reshape|transpose|permute",
    ),
    "rotary base": Kind(
        applies=layer.has_attribute("inv_freq"),
        change=layer.theta,
        sizes=(9.0, 0.5, 1e-2, 1e-3, 1e-4, 1e-5),
        words="inv_freq|theta|base|frequenc|rotary",
    ),
    "parts joined in another order": Kind(
        operators=("cat",),
        applies=operator.is_cat,
        change=operator.instead(operator.cat_turned),
        words="order|moved|halves|rotary|exchang|permut",
    ),
    "parts cut in another order": Kind(
        operators=("split", "chunk"),
        applies=operator.gives_alike,
        change=operator.after(operator.turned),
        words="order|exchang|queries|gate|chunk|split|reads",
    ),
    "projections exchanged": Kind(
        applies=layer.has_both,
        change=layer.exchange_projections,
        words="it holds what is|exchang|swap",
        beside=("q_proj", "k_proj", "query", "key"),
    ),
    "layers exchanged": Kind(
        applies=layer.are_layers,
        change=layer.exchange_layers,
        words="it holds what is|exchang|order",
        beside=("0", "0.*"),
    ),
    "term of a sum left out": Kind(
        operators=("add",),
        applies=operator.are_alike,
        change=operator.instead(lambda size, call, args, options: args[1 - size]),
        sizes=(0, 1),
        words="left out|the candidate|residual",
    ),
    "term of a sum scaled": Kind(
        operators=("add",),
        applies=operator.are_alike,
        change=operator.instead(
            lambda size, call, args, options: call(args[0], args[1] * (1 + size))
        ),
        sizes=SCALE,
        words=r"\* |times|factor|scale",
    ),
    "scale left out": Kind(
        operators=("mul", "div"),
        applies=operator.is_number,
        change=operator.instead(lambda size, call, args, options: args[0]),
        words=r"times|factor|scale|\* ",
    ),
    "extra scale": Kind(
        operators=LAYERS,
        change=operator.after(lambda result, size: result * (1 + size)),
        sizes=SCALE,
        words=r"times|factor",
    ),
    "extra offset": Kind(
        operators=LAYERS,
        change=operator.after(lambda result, size: result + size),
        sizes=(0.1, 1e-2, 1e-3, 1e-4),
        words=r"plus|offset|minus",
    ),
    "sign": Kind(
        operators=("linear", "conv2d"),
        change=operator.after(lambda result, _: -result),
        words="sign|-1 times",
    ),
    "one channel wrong": Kind(
        operators=("linear", "conv2d"),
        change=operator.after(operator.one_channel),
        sizes=SCALE,
        words=r"channel|feature|index|entr|__setitem__",
    ),
    "results limited": Kind(
        operators=("linear", "gelu", "conv2d"),
        change=operator.after(lambda result, size: result.clamp(-size, size)),
        sizes=(0.5, 1.0, 2.0),
        words="limit|clamp|clip|cut off|saturat",
    ),
    "short precision inside": Kind(
        operators=("linear", "conv2d", "layer_norm"),
        change=operator.instead(operator.short),
        sizes=("bfloat16", "float16"),
        words="bfloat16|float16|precision",
    ),
    "dropout active": Kind(
        operators=("linear", "layer_norm"),
        change=operator.instead(
            lambda size, call, args, options: operator.dropped(
                size, call, (call(*args, **options),), {}
            )
        ),
        words="dropout",
    ),
    "dropout in training mode": Kind(
        applies=layer.is_dropout,
        change=layer.train,
        words="dropout|training",
    ),
    "norm in training mode": Kind(
        applies=layer.is_batch_norm,
        change=layer.train,
        words="training",
    ),
    "indices off by one": Kind(
        operators=("embedding",),
        change=operator.instead(operator.later),
        words="off by one|moved|shift|plus 1",
    ),
    "another token taken": Kind(
        operators=("getitem",),
        applies=operator.is_first_token,
        change=operator.instead(lambda size, call, args, _: args[0][:, size]),
        sizes=(-1, 1),
        words="token|position|index|moved|off by one|along axis|__getitem__|roll",
    ),
    "border repeated": Kind(
        operators=("conv2d",),
        applies=operator.is_small,
        change=operator.instead(operator.conv(mode="replicate")),
        words="border|padding|replicate",
    ),
    "border on one side": Kind(
        operators=("conv2d",),
        applies=operator.is_small,
        change=operator.instead(operator.conv(side=True)),
        words=r"off by one|border|padding|moved|\bpad\b",
    ),
    "dilation": Kind(
        operators=("conv2d",),
        applies=operator.is_small,
        change=operator.instead(operator.conv(dilation=2, padding=2)),
        words="dilation",
    ),
    "another pooling": Kind(
        operators=("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"),
        change=operator.instead(operator.other_pool),
        words="pool|max|average",
    ),
    "recurrent weights": Kind(
        operators=("lstm", "gru", "lstm_cell", "gru_cell"),
        change=operator.instead(operator.recurrent),
        sizes=("gates", "bias", "1e-2", "1e-3", "1e-4"),
        words="gate|bias|weight|recurren",
    ),
    "stored weight": Kind(
        applies=layer.has_matrix,
        change=layer.stored,
        sizes=("one element", "bfloat16", "float16", 1e-3, 1e-4, 1e-5, 3e-6),
        words=r"\bweight\b",
    ),
    "tied weight": Kind(
        applies=layer.is_tied,
        change=layer.doubled_at_last,
        sizes=(0.01, 1e-3, 1e-4, 1e-5),
        words=r"\bweight\b",
    ),
    "gradient scaled": Kind(
        operators=LAYERS,
        applies=operator.needs_gradient,
        change=operator.after(operator.gradient),
        sizes=(2.0, 0.5, 1.01, 1.001, 1.0001, 1.00001),
        words="times|factor",
        backward=True,
    ),
    "gradient of another sign": Kind(
        operators=LAYERS,
        applies=operator.needs_gradient,
        change=operator.after(lambda result, _: operator.gradient(result, -1.0)),
        words="sign|-1 times",
        backward=True,
    ),
    "branch detached": Kind(
        operators=("add",),
        applies=operator.are_alike,
        change=operator.instead(operator.detached),
        sizes=(0, 1),
        words="cut|detach|no gradient",
        backward=True,
    ),
}
"""By name."""
