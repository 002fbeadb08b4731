"""A small Qwen2 as ``transformers`` wrote it: 3 layers, grouped queries, no checkpoint."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM


def build() -> torch.nn.Module:
    """Build the model with seeded weights, large enough that every layer matters."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=200,
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=2,
        initializer_range=0.1,
        use_cache=False,
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    return Qwen2ForCausalLM(config)
