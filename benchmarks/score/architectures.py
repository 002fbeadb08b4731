"""The models of the corpus: small seeded configurations of real architectures, in a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn

from tests.support import planted_authors

from .case import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ARCHITECTURES", "Architecture", "seeded"]

Tensors = dict[str, torch.Tensor]
VOCABULARY = 100
WIDE: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 2}
"""What most transformers' configurations call their sizes."""
SIZES: dict[str, Any] = {**WIDE, "num_attention_heads": 4, "intermediate_size": 96}
TEXT: dict[str, Any] = {**SIZES, "max_position_embeddings": 40}
CAUSAL: dict[str, Any] = {**TEXT, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1,
                          "eos_token_id": 2}  # fmt: skip
IMAGE: dict[str, Any] = {"num_labels": 7}


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def _ids(name: str = "input_ids", length: int = 11) -> Callable[[], Tensors]:
    return lambda: {name: torch.randint(3, VOCABULARY, (3, length), generator=_generator())}


def _both() -> Tensors:
    """Draw the tokens of an encoder and those of its decoder."""
    return _ids()() | _ids("decoder_input_ids", 7)()


def _floats(name: str, *shape: int) -> Callable[[], Tensors]:
    return lambda: {name: torch.randn(*shape, generator=_generator())}


_image = _floats("pixel_values", 3, 3, 32, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One model of somebody's: how it is built and what it is called with."""

    family: Family
    model: str = ""
    """Name of the class in transformers; its configuration is named alike."""
    config: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the configuration."""
    inputs: Callable[[], Tensors]
    """Draws the inputs, by argument name."""
    make: Callable[[], nn.Module] | None = None
    """Builds a model that is not of transformers."""

    def build(self, **options: Any) -> Any:  # noqa: ANN401 - untyped library
        """Build the model with seeded weights, in evaluation mode.

        Args:
            **options: More options of its configuration.
        """
        torch.manual_seed(0)
        if self.make is not None:
            return seeded(self.make())
        config = getattr(transformers, f"{self.config}Config")(**{**self.options, **options})
        return seeded(getattr(transformers, self.model)(config))


def seeded(model: Any) -> Any:  # noqa: ANN401 - untyped library
    """Fill with values of which none is trivial, so that no wrong weight can hide."""
    return planted_authors.spread(model)


class _Recurrent(nn.Module):
    """Two recurrent layers of the framework between an embedding and a head."""

    def __init__(self, kind: type[nn.LSTM | nn.GRU], *, bidirectional: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 24)
        self.first = kind(24, 32, batch_first=True, bidirectional=bidirectional)
        self.norm = nn.LayerNorm(64 if bidirectional else 32)
        self.second = kind(64 if bidirectional else 32, 24, batch_first=True)
        self.head = nn.Linear(24, 9)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.first(self.words(input_ids))
        hidden, _ = self.second(self.norm(hidden))
        logits: torch.Tensor = self.head(hidden)
        return logits


class _Cells(nn.Module):
    """A cell that is called once for each time step."""

    def __init__(self, kind: type[nn.LSTMCell | nn.GRUCell]) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 24)
        self.cell = kind(24, 32)
        self.head = nn.Linear(32, 9)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        state: Any = None
        hidden = []
        for token in self.words(input_ids).unbind(1):
            state = self.cell(token, state)
            hidden.append(state[0] if isinstance(state, tuple) else state)
        logits: torch.Tensor = self.head(torch.stack(hidden, 1))
        return logits


def _of_tests(name: str, family: Family) -> Architecture:
    """Take a model that the tests have, too."""
    make = planted_authors.MODELS[name]
    return Architecture(family=family, make=lambda: make()[0], inputs=lambda: make()[1])


def _own(family: Family, make: Callable[[], nn.Module]) -> Architecture:
    return Architecture(family=family, make=make, inputs=_ids())


def _of(
    family: Family, config: str, model: str, inputs: Callable[[], Tensors], **options: object
) -> Architecture:
    return Architecture(
        family=family, config=config, model=config + model, inputs=inputs, options=options
    )


def _cnn(config: str, model: str = "ForImageClassification", **options: object) -> Architecture:
    return _of(Family.CNN, config, model, _image, **IMAGE, **options)


def _vision(config: str, **options: object) -> Architecture:
    return _of(Family.VISION, config, "ForImageClassification", _image, **IMAGE, **options)


def _encoder(config: str, model: str = "Model", **options: object) -> Architecture:
    return _of(Family.ENCODER, config, model, _ids(), **options)


def _decoder(config: str, model: str = "ForCausalLM", **options: object) -> Architecture:
    return _of(Family.DECODER, config, model, _ids(), **options)


HALF: dict[str, Any] = {"num_key_value_heads": 2}
PATCHES: dict[str, Any] = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                           "intermediate_size": 96, "image_size": 32, "patch_size": 8}  # fmt: skip
ARCHITECTURES: dict[str, Architecture] = {
    "resnet": _of_tests("resnet", Family.CNN),
    "convnext": _cnn("ConvNext", hidden_sizes=[16, 24], depths=[1, 2], num_stages=2, patch_size=2),
    "convnext_v2": _cnn(
        "ConvNextV2", hidden_sizes=[16, 24], depths=[1, 2], num_stages=2, patch_size=2
    ),
    "mobilenet_v1": _cnn("MobileNetV1", depth_multiplier=0.25, min_depth=8, tf_padding=False),
    "mobilenet_v2": _cnn("MobileNetV2", depth_multiplier=0.25, tf_padding=False),
    "regnet": _cnn(
        "RegNet", embedding_size=8, hidden_sizes=[16, 24], depths=[1, 2], groups_width=8,
        layer_type="y",
    ),
    "poolformer": _cnn(
        "PoolFormer", hidden_sizes=[16, 24], depths=[1, 2], num_encoder_blocks=2,
        patch_sizes=[3, 3], strides=[2, 2], padding=[1, 1],
    ),
    "bert": _encoder("Bert", **TEXT),
    "roberta": _encoder("Roberta", **TEXT, pad_token_id=1),
    "distilbert": _encoder(
        "DistilBert", "ForSequenceClassification", vocab_size=VOCABULARY, dim=48, n_layers=2,
        n_heads=4, hidden_dim=96, max_position_embeddings=40, num_labels=3,
    ),
    "electra": _encoder("Electra", "Model", **TEXT, embedding_size=32),
    "deberta": _encoder(
        "DebertaV2", "Model", **TEXT, relative_attention=True, position_buckets=8,
        pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", share_att_key=True,
    ),
    "albert": _encoder("Albert", "Model", **TEXT, embedding_size=32),
    "wav2vec2": _of(
        Family.ENCODER, "Wav2Vec2", "Model", _floats("input_values", 2, 640), hidden_size=48,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, conv_dim=[16, 24],
        conv_stride=[5, 4], conv_kernel=[10, 4], num_feat_extract_layers=2, layerdrop=0.0,
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4,
        mask_time_prob=0.0, apply_spec_augment=False,
    ),
    "gpt2": _decoder(
        "GPT2", "LMHeadModel", vocab_size=VOCABULARY, n_embd=48, n_layer=2, n_head=4,
        n_positions=40, use_cache=False, bos_token_id=1, eos_token_id=2,
    ),
    "llama": _of_tests("llama", Family.DECODER),
    "mistral": _decoder("Mistral", **CAUSAL, **HALF, sliding_window=6),
    "qwen2": _decoder("Qwen2", **CAUSAL, **HALF),
    "gemma": _decoder("Gemma", **CAUSAL, **HALF, head_dim=12),
    "opt": _decoder(
        "OPT", **WIDE, num_attention_heads=4, ffn_dim=96, max_position_embeddings=40,
        word_embed_proj_dim=48, use_cache=False,
    ),
    "phi": _decoder("Phi", **CAUSAL),
    "falcon": _decoder(
        "Falcon", **WIDE, num_attention_heads=4, use_cache=False, new_decoder_architecture=False,
        bos_token_id=1, eos_token_id=2,
    ),
    "gpt_neox": _decoder("GPTNeoX", **CAUSAL),
    "bloom": _decoder(
        "Bloom", vocab_size=VOCABULARY, hidden_size=48, n_layer=2, n_head=4, use_cache=False,
        bos_token_id=1, eos_token_id=2,
    ),
    "mixtral": _decoder(
        "Mixtral", **CAUSAL, **HALF, num_local_experts=4,
        num_experts_per_tok=2, experts_implementation="eager",
    ),
    "qwen2, eager": _decoder("Qwen2", **CAUSAL, **HALF, attn_implementation="eager"),
    "t5": _of_tests("t5", Family.DECODER),
    "bart": _of(
        Family.DECODER, "Bart", "ForConditionalGeneration", _both, vocab_size=VOCABULARY,
        d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
        max_position_embeddings=40, use_cache=False, forced_eos_token_id=None,
    ),
    "whisper": _of_tests("whisper", Family.DECODER),
    "bert, eager": _encoder("Bert", **TEXT, attn_implementation="eager"),
    "deit, eager": _vision("DeiT", **PATCHES, attn_implementation="eager"),
    "vit": _of_tests("vit", Family.VISION),
    "deit": _vision("DeiT", **PATCHES),
    "beit": _vision("Beit", **PATCHES, use_relative_position_bias=True),
    "dinov2": _vision(
        "Dinov2", hidden_size=48, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2,
        image_size=32, patch_size=8,
    ),
    "swin": _vision(
        "Swin", image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
        window_size=4,
    ),
    "segformer": _vision(
        "Segformer", num_encoder_blocks=2, depths=[1, 2], sr_ratios=[2, 1], hidden_sizes=[16, 32],
        patch_sizes=[3, 3], strides=[2, 2], num_attention_heads=[2, 4], mlp_ratios=[2, 2],
    ),
    "lstm": _own(Family.RECURRENT, lambda: _Recurrent(nn.LSTM)),
    "two-way gru": _own(Family.RECURRENT, lambda: _Recurrent(nn.GRU, bidirectional=True)),
    "lstm cell": _own(Family.RECURRENT, lambda: _Cells(nn.LSTMCell)),
    "gru cell": _own(Family.RECURRENT, lambda: _Cells(nn.GRUCell)),
    "mamba": _of(
        Family.RECURRENT, "Mamba", "ForCausalLM", _ids(), **WIDE, state_size=8, use_cache=False
    ),
    "rwkv": _of(
        Family.RECURRENT, "Rwkv", "ForCausalLM", _ids(), **WIDE, attention_hidden_size=48,
        intermediate_size=96, context_length=40, use_cache=False,
    ),
}  # fmt: skip
"""By name; every one is seeded and runs in a tenth of a second."""
