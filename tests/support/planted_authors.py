"""Models that transformers' authors wrote, small, and faults to plant into one of their layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS: dict[str, Any] = {"num_labels": 7}
START: dict[str, Any] = {"decoder_start_token_id": 0}


def _draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _ids(*shape: int) -> torch.Tensor:
    return torch.randint(3, 100, shape, generator=torch.Generator().manual_seed(1))


def vit() -> tuple[Any, dict[str, torch.Tensor]]:
    """Build the model and its inputs."""
    config = transformers.ViTConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
        image_size=32, patch_size=8, **LABELS,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config), {"pixel_values": _draw(3, 3, 32, 32)}


def llama() -> tuple[Any, dict[str, torch.Tensor]]:
    """Build the model and its inputs."""
    config = transformers.LlamaConfig(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2,
        intermediate_size=128, vocab_size=100, max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), {"input_ids": _ids(3, 12)}


def t5() -> tuple[Any, dict[str, torch.Tensor]]:
    """Build the model and its inputs."""
    config = transformers.T5Config(
        d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, vocab_size=100,
        use_cache=False, **START,
    )  # fmt: skip
    inputs = {"input_ids": _ids(3, 14), "decoder_input_ids": _ids(3, 9)}
    return transformers.T5ForConditionalGeneration(config), inputs


def whisper() -> tuple[Any, dict[str, torch.Tensor]]:
    """Build the model and its inputs."""
    config = transformers.WhisperConfig(
        d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, num_mel_bins=20,
        max_source_positions=30, max_target_positions=20, vocab_size=100, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, use_cache=False,
    )  # fmt: skip
    inputs = {"input_features": _draw(2, 20, 60), "decoder_input_ids": _ids(2, 9)}
    return transformers.WhisperForConditionalGeneration(config), inputs


def resnet() -> tuple[Any, dict[str, torch.Tensor]]:
    """Build the model and its inputs."""
    config = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 24], depths=[2, 2], layer_type="basic", **LABELS
    )
    return transformers.ResNetForImageClassification(config), {"pixel_values": _draw(3, 3, 32, 32)}


MODELS: dict[str, Callable[[], tuple[Any, dict[str, torch.Tensor]]]] = {
    "vit": vit, "llama": llama, "t5": t5, "whisper": whisper, "resnet": resnet,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One fault, and where it must be found."""

    model: str
    module: str
    """Path of the module that is changed."""
    change: Callable[[Any], None]
    is_proved: bool = True
    """Whether execution tells the cause: it does not where a side detaches a value of its own."""
    expected: str | None = None
    """Module that must be named, the changed one unless it is given."""


def spread(model: Any) -> Any:  # noqa: ANN401 - untyped library
    """Fill with values of a size that keeps signals alive, none of them trivial."""
    torch.manual_seed(5)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point():
                continue
            if "running_var" in name:
                tensor.uniform_(0.5, 1.5)
            elif tensor.ndim > 1:
                tensor.normal_(0.0, 0.5 if "embed" in name else tensor[0].numel() ** -0.5)
            else:
                near_one = name.endswith("weight")
                tensor.uniform_(0.5 if near_one else -0.3, 1.5 if near_one else 0.3)
    return model.eval()


def _set(**values: object) -> Callable[[Any], None]:
    def change(module: Any) -> None:  # noqa: ANN401 - untyped library
        for name, value in values.items():
            setattr(module, name, value)

    return change


def _forward(function: Callable[..., Any]) -> Callable[[Any], None]:
    """Replace the forward; the function gets that of before, the layer and what it is given."""

    def change(module: Any) -> None:  # noqa: ANN401 - untyped library
        base = type(module)

        def forward(self: Any, *given: Any, **named: Any) -> Any:  # noqa: ANN401
            return function(base.forward, self, *given, **named)

        names = {"forward": forward, "__module__": base.__module__}
        module.__class__ = type(base.__name__, (base,), names)

    return change


def _given(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], None]:
    """Change the first thing that a layer is given, without a trace outside it."""
    return _forward(lambda base, self, x, *more, **named: base(self, change(x), *more, **named))


def _made(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], None]:
    """Change what a layer gives."""
    return _forward(lambda base, self, *given, **named: change(base(self, *given, **named)))


def _swap(first: str, second: str) -> Callable[[Any], None]:
    def change(module: Any) -> None:  # noqa: ANN401 - untyped library
        one, other = getattr(module, first), getattr(module, second)
        setattr(module, first, other)
        setattr(module, second, one)

    return change


def _roll(module: Any) -> None:  # noqa: ANN401 - untyped library
    """Let positions be off by one where they are added, not where they are kept."""
    base = type(module)

    def forward(self: Any, pixel_values: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:  # noqa: ANN401
        patches = self.patch_embeddings(pixel_values)
        tokens = torch.cat((self.cls_token.expand(len(patches), -1, -1), patches), dim=1)
        result: torch.Tensor = self.dropout(tokens + self.position_embeddings.roll(1, 1))
        return result

    names = {"forward": forward, "__module__": base.__module__}
    module.__class__ = type(base.__name__, (base,), names)


def _gate(base: Any, self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    result: torch.Tensor = self.down_proj(self.act_fn(self.up_proj(x)) * self.gate_proj(x))
    return result


def _centred(base: Any, self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    return functional.layer_norm(x, x.shape[-1:], self.weight, None, self.variance_epsilon)


def _short(base: Any, self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    return functional.linear(x.bfloat16(), self.weight.bfloat16()).float()


def _transposed(base: Any, self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    return functional.linear(x, self.weight.T, self.bias)


def _cut(base: Any, self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    result: torch.Tensor = self.activation(self.layer(x) + self.shortcut(x).detach())
    return result


def _padded(module: nn.Conv1d) -> None:
    module.padding_mode, module._reversed_padding_repeated_twice = "replicate", [1, 1]


BLOCK = "resnet.encoder.stages.1.layers.0"
FAULTS = {
    "epsilon": Planted(
        model="vit", module="vit.layers.1.layernorm_before", change=_set(eps=1e-3),
    ),
    "missing scale": Planted(
        model="vit", module="vit.layers.1.attention", change=_set(scaling=1.0),
    ),
    "swapped projections": Planted(
        model="vit", module="vit.layers.1.attention", change=_swap("q_proj", "k_proj"),
        expected="vit.layers.1.attention.q_proj",
    ),
    "positions off by one": Planted(
        model="vit", module="vit.embeddings", change=_roll,
    ),
    "transposed weight": Planted(
        model="vit", module="vit.layers.1.attention.o_proj", change=_forward(_transposed),
    ),
    "gate and value swapped": Planted(
        model="llama", module="model.layers.1.mlp", change=_forward(_gate),
    ),
    "bfloat16 in one layer": Planted(
        model="llama", module="model.layers.1.mlp.down_proj", change=_forward(_short),
    ),
    "norm that takes the mean off": Planted(
        model="t5", module="decoder.block.1.layer.2.layer_norm", change=_forward(_centred),
    ),
    "dropout active": Planted(
        model="t5", module="encoder.block.1.layer.1.dropout", change=lambda one: one.train(),
    ),
    "padding of a line": Planted(
        model="whisper", module="model.encoder.conv2", change=_padded,
    ),
    "keys off by one": Planted(
        model="whisper", module="model.decoder.layers.1.encoder_attn.k_proj",
        change=_given(lambda x: x.roll(1, 1)),
    ),
    "BatchNorm in training mode": Planted(
        model="resnet", module=f"{BLOCK}.layer.0.normalization", change=lambda one: one.train(),
    ),
    "shortcut detached": Planted(
        model="resnet", module=BLOCK, change=_forward(_cut),
    ),
    "gradient scaled": Planted(
        model="resnet", module=f"{BLOCK}.layer.1.convolution",
        change=_made(lambda x: 1.25 * x - (0.25 * x).detach()), is_proved=False,
    ),
}  # fmt: skip
"""Faults by name."""
