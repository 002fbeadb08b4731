"""Reference models: small configurations of transformers' BERT, GPT-2 and ViT, seeded."""

from __future__ import annotations

import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, ViTConfig, ViTModel


def _spread(model: torch.nn.Module) -> torch.nn.Module:
    """Give every parameter values that a wrong weight mapping cannot survive."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_gain = parameter.dim() == 1 and name.endswith("weight")
            scale = 0.1 if parameter.dim() == 1 else parameter.shape[-1] ** -0.5
            parameter.copy_(noise * scale + (1.0 if is_gain else 0.0))
    return model.eval()


def bert() -> torch.nn.Module:
    """Build a two-layer BERT with pooler; hidden 32, 4 heads."""
    config = BertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=24,
        pad_token_id=None,
    )
    return _spread(BertModel(config))


def gpt2() -> torch.nn.Module:
    """Build a two-layer GPT-2 with tied head; hidden 32, 4 heads, fused qkv as ``Conv1D``."""
    config = GPT2Config(
        vocab_size=60,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=24,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
    )
    return _spread(GPT2LMHeadModel(config))


def vit() -> torch.nn.Module:
    """Build a two-layer ViT on 16x16 images in patches of 4; hidden 32, 4 heads."""
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=16,
        patch_size=4,
    )
    return _spread(ViTModel(config, add_pooling_layer=False))
