"""A small text encoder out of ``torch.nn.TransformerEncoder``."""

import torch
from torch import nn


class Encoder(nn.Module):
    """Token and position embeddings, two post-norm encoder layers, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(100, 32)
        self.positions = nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 100)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map ids of shape (batch, seq) to logits of shape (batch, seq, 100)."""
        places = torch.arange(ids.shape[1])
        return self.head(self.encoder(self.tokens(ids) + self.positions(places)))


def build() -> nn.Module:
    """Build the model with seeded weights, biases and norms included."""
    torch.manual_seed(0)
    model = Encoder()
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            nn.init.normal_(parameter, mean=1.0 if name.endswith("weight") else 0.0, std=0.1)
    return model
