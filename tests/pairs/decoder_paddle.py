"""The same decoder LLMs as paddleformers has them; the weights come from the other side."""

from __future__ import annotations

from typing import Any

import paddle
from paddleformers import transformers

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-6,
    "head_dim": 8,
    "pad_token_id": 0,
    "fuse_rms_norm": False,  # has no kernel on a CPU
}

PREFIXES = {"llama": "Llama", "phi3": "Phi3", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def build(name: str = "llama", vocab: int = 48, *, tied: bool = False, fused: bool = False) -> Any:  # noqa: ANN401 - untyped library
    """Build one of ``PREFIXES``, ``qwen2`` perhaps with fused projections."""
    paddle.seed(2)
    prefix = PREFIXES[name]
    config = getattr(transformers, f"{prefix}Config")(
        **SIZES, vocab_size=vocab, tie_word_embeddings=tied
    )
    # The constructor of this version ignores both words.
    config.fuse_attention_qkv = config.fuse_attention_ffn = fused
    model = getattr(transformers, f"{prefix}ForCausalLM")(config)
    model.eval()
    return model
