"""How the reference is trained: AdamW, weight decay for matrices alone, cosine schedule."""

import torch
from torch.nn import functional
from transformers.modeling_outputs import CausalLMOutputWithPast


def loss(output: CausalLMOutputWithPast, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of logits (batch, seq, vocabulary) and labels (batch, seq)."""
    return functional.cross_entropy(output.logits.flatten(0, 1), labels.flatten())


def optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Decay matrices by 0.1, and neither biases nor norms."""
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim == 1]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1)


def schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    """Follow a cosine from 0.01 to 0 in 100 steps."""
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
