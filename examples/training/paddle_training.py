"""The same training in Paddle; in its first version the weight decay reaches all weights."""

import paddle
from paddle.nn import functional


def loss(logits: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
    """Return the mean cross-entropy of logits (batch, seq, vocabulary) and labels (batch, seq)."""
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def optimizer(model: paddle.nn.Layer) -> paddle.optimizer.Optimizer:
    """Decay matrices by 0.1, and neither biases nor norms."""
    matrices = {weight.name for weight in model.parameters() if weight.ndim > 1}
    return paddle.optimizer.AdamW(
        0.01,
        parameters=model.parameters(),
        weight_decay=0.1,
        apply_decay_param_fun=lambda name: name in matrices,
    )


def optimizer_faulty(model: paddle.nn.Layer) -> paddle.optimizer.Optimizer:
    """Decay everything: the planted fault."""
    return paddle.optimizer.AdamW(0.01, parameters=model.parameters(), weight_decay=0.1)


def schedule(optimizer: paddle.optimizer.Optimizer) -> paddle.optimizer.lr.LRScheduler:
    """Follow a cosine from 0.01 to 0 in 100 steps."""
    del optimizer
    return paddle.optimizer.lr.CosineAnnealingDecay(0.01, T_max=100)
