"""Layers: the operator that each is, and what both frameworks call its arguments and weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.ops.cases import Argument, Case

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .row import Arguments, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A class of ``torch.nn`` and its twin of ``paddle.nn``."""

    name: str
    paddle: str
    operator: str
    """Its row."""
    arguments: tuple[str, ...] = ()
    """Of torch's class, in order; those with a star are not the operator's."""
    inputs: tuple[str, ...] = ("input",)
    """What it is called with, by the operator's names."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Paddle's attribute by torch's; elements that lie otherwise are reshaped."""
    buffers: Mapping[str, str] = field(default_factory=dict)
    transposed: tuple[str, ...] = ()
    """Parameters whose axes are in reverse order in Paddle."""
    defaults: Arguments = field(default_factory=dict)
    """Those that are not the operator's, or not Paddle's."""
    values: Mapping[str, Callable[[Argument], Argument]] = field(default_factory=dict)
    """What the operator takes for an argument of the class."""

    def bound(self, positional: tuple[Argument, ...], keywords: Arguments) -> dict[str, Argument]:
        """Return the arguments of a call of the class by name.

        Raises:
            ConfigError: There is no such argument.
        """
        names = [one.rstrip("*") for one in self.arguments]
        found = {**self.defaults, **dict(zip(names, positional, strict=False)), **keywords}
        if len(positional) > len(names) or not set(found) <= set(names):
            raise ConfigError(
                f"cannot build torch.nn.{self.name}: expected arguments among {names}, found "
                f"{[*positional]} and {sorted(keywords)}",
                hint="the table of layers knows only these",
            )
        return found

    def of_operator(self, arguments: Arguments, *, is_training: bool) -> dict[str, Argument]:
        """Return what the operator takes of the class's arguments."""
        own = {one.rstrip("*") for one in self.arguments if one[-1] == "*"}
        found = {
            name: self.values[name](one) if name in self.values else one
            for name, one in arguments.items()
            if name not in own
        }
        return {**found, "training": is_training} if self.buffers else found

    def of_paddle(self, arguments: Arguments, row: Row) -> dict[str, Argument]:
        """Return the arguments of Paddle's class."""
        taken = {one for one in self.arguments if one[-1] != "*"}
        case = Case(
            operator=self.operator,
            arguments={name: one for name, one in arguments.items() if name in taken},
        )
        found = dict(row.frameworks["paddle"].call(case).keywords)
        for name, one in arguments.items():
            if name in _SWITCHES:
                found.update({} if one else dict.fromkeys(_SWITCHES[name], False))
            elif name == "momentum":
                assert isinstance(one, float)
                found[name] = 1 - one
            elif name not in taken:
                found[name] = one
        return found

    def state(self, arguments: Arguments) -> dict[str, str]:
        """Return the attributes that hold its parameters, then its buffers."""
        is_off = {
            f"{one.removesuffix('_attr')}"
            for name, attributes in _SWITCHES.items()
            if arguments.get(name) is False
            for one in attributes
        }
        held = {name: one for name, one in self.parameters.items() if name not in is_off}
        return {**held, **self.buffers}


_SWITCHES = {
    "bias": ("bias_attr",),
    "affine": ("weight_attr", "bias_attr"),
    "elementwise_affine": ("weight_attr", "bias_attr"),
}
"""Arguments without which there is no parameter, and what Paddle takes as False then."""
_OWN = {"weight": "weight", "bias": "bias"}


def _plain(name: str, operator: str, arguments: str = "", paddle: str = "") -> Layer:
    """Build a layer without weights."""
    return Layer(
        name=name,
        paddle=paddle or name.replace("1d", "1D").replace("2d", "2D").replace("3d", "3D"),
        operator=operator,
        arguments=tuple(arguments.split()),
    )


def _loss(name: str, operator: str, arguments: str = "reduction") -> Layer:
    return Layer(
        name=name,
        paddle=name,
        operator=operator,
        arguments=tuple(arguments.split()),
        inputs=("input", "target"),
    )


def _spatial(axes: int) -> list[Layer]:
    """Return the layers for images of some axes."""
    convolution = "in_channels* out_channels* kernel_size* stride padding"
    return [
        Layer(
            name=f"Conv{axes}d",
            paddle=f"Conv{axes}D",
            operator=f"conv{axes}d",
            arguments=(*convolution.split(), "dilation", "groups", "bias*"),
            parameters=_OWN,
        ),
        Layer(
            name=f"ConvTranspose{axes}d",
            paddle=f"Conv{axes}DTranspose",
            operator=f"conv_transpose{axes}d",
            arguments=(*convolution.split(), "output_padding", "groups", "bias*", "dilation"),
            parameters=_OWN,
        ),
        Layer(
            name=f"BatchNorm{axes}d",
            paddle=f"BatchNorm{axes}D",
            operator="batch_norm",
            arguments=("num_features*", "eps", "momentum*", "affine*"),
            parameters=_OWN,
            buffers={"running_mean": "_mean", "running_var": "_variance"},
        ),
        Layer(
            name=f"InstanceNorm{axes}d",
            paddle=f"InstanceNorm{axes}D",
            operator="instance_norm",
            arguments=("num_features*", "eps", "momentum*", "affine*"),
            parameters={"weight": "scale", "bias": "bias"},
            defaults={"affine": False},
        ),
        _plain(f"MaxPool{axes}d", f"max_pool{axes}d", "kernel_size stride padding ceil_mode"),
        _plain(
            f"AvgPool{axes}d",
            f"avg_pool{axes}d",
            "kernel_size stride padding ceil_mode count_include_pad"
            + (" divisor_override" if axes > 1 else ""),
        ),
        _plain(f"AdaptiveAvgPool{axes}d", f"adaptive_avg_pool{axes}d", "output_size"),
        _plain(f"AdaptiveMaxPool{axes}d", f"adaptive_max_pool{axes}d", "output_size"),
    ]


_ROWS = (
    Layer(
        name="Linear",
        paddle="Linear",
        operator="linear",
        arguments=("in_features*", "out_features*", "bias*"),
        parameters=_OWN,
        transposed=("weight",),
    ),
    *(one for axes in (1, 2, 3) for one in _spatial(axes)),
    Layer(
        name="LayerNorm",
        paddle="LayerNorm",
        operator="layer_norm",
        arguments=("normalized_shape", "eps", "elementwise_affine*"),
        parameters=_OWN,
        values={"normalized_shape": lambda one: (one,) if isinstance(one, int) else one},
    ),
    Layer(
        name="GroupNorm",
        paddle="GroupNorm",
        operator="group_norm",
        arguments=("num_groups", "num_channels*", "eps", "affine*"),
        parameters=_OWN,
    ),
    Layer(
        name="Embedding",
        paddle="Embedding",
        operator="embedding",
        arguments=("num_embeddings*", "embedding_dim*"),
        parameters={"weight": "weight"},
    ),
    Layer(
        name="PReLU",
        paddle="PReLU",
        operator="prelu",
        arguments=("num_parameters*",),
        parameters={"weight": "_weight"},
    ),
    *(
        _plain(name, name.lower())
        for name in (
            *("ReLU", "ReLU6", "SELU", "Mish", "Softsign", "Tanhshrink"),
            *("Hardsigmoid", "Hardswish", "Sigmoid", "Tanh"),
        )
    ),
    _plain("SiLU", "silu", paddle="Silu"),
    _plain("LogSigmoid", "logsigmoid"),
    _plain("GELU", "gelu", "approximate"),
    _plain("LeakyReLU", "leaky_relu", "negative_slope"),
    _plain("ELU", "elu", "alpha"),
    _plain("CELU", "celu", "alpha"),
    _plain("Softplus", "softplus", "beta threshold"),
    _plain("Hardtanh", "hardtanh", "min_val max_val"),
    _plain("Softshrink", "softshrink", "lambd"),
    _plain("Hardshrink", "hardshrink", "lambd"),
    _plain("GLU", "glu", "dim"),
    _plain("Softmax", "softmax", "dim"),
    _plain("LogSoftmax", "log_softmax", "dim"),
    Layer(
        name="Flatten",
        paddle="Flatten",
        operator="flatten",
        arguments=("start_dim", "end_dim"),
        defaults={"start_dim": 1},
    ),
    _loss("MSELoss", "mse_loss"),
    _loss("L1Loss", "l1_loss"),
    _loss("SmoothL1Loss", "smooth_l1_loss", "reduction beta"),
    _loss("BCELoss", "binary_cross_entropy"),
    _loss("BCEWithLogitsLoss", "binary_cross_entropy_with_logits"),
    _loss("KLDivLoss", "kl_div"),
    _loss("NLLLoss", "nll_loss", "ignore_index reduction"),
    _loss("CrossEntropyLoss", "cross_entropy", "ignore_index reduction label_smoothing"),
)
LAYERS: Mapping[str, Layer] = {one.name: one for one in _ROWS}
