"""Small decoder LLMs as transformers has them, with weights that hide no wrong mapping."""

from __future__ import annotations

from typing import Any

import torch
import transformers

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
}

PREFIXES = {"llama": "Llama", "phi3": "Phi3", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def build(name: str = "llama", vocab: int = 48, *, tied: bool = False) -> Any:  # noqa: ANN401 - untyped library
    """Build one of ``PREFIXES``; every weight is random, none a default."""
    torch.manual_seed(1)
    prefix = PREFIXES[name]
    config = getattr(transformers, f"{prefix}Config")(
        **SIZES, vocab_size=vocab, tie_word_embeddings=tied
    )
    model = getattr(transformers, f"{prefix}ForCausalLM")(config)
    with torch.no_grad():
        for path, weight in model.named_parameters():
            spread = weight.shape[-1] ** -0.5 if weight.ndim > 1 else 0.1
            weight.normal_(1.0 if "norm" in path else 0.0, spread)
    return model.eval()
