"""The same text encoder out of ``paddle.nn.TransformerEncoder``."""

import paddle
from paddle import nn


class Encoder(nn.Layer):
    """Token and position embeddings, two post-norm encoder layers, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(100, 32)
        self.positions = nn.Embedding(16, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 100)

    def forward(self, ids: paddle.Tensor) -> paddle.Tensor:
        """Map ids of shape (batch, seq) to logits of shape (batch, seq, 100)."""
        places = paddle.arange(ids.shape[1])
        return self.head(self.encoder(self.tokens(ids) + self.positions(places)))


def build() -> nn.Layer:
    """Build the model with Paddle's own initialisation."""
    return Encoder()


def build_faulty() -> nn.Layer:
    """Build the model with one planted fault: tanh GELU in the second layer."""
    model = build()
    layer = model.encoder.layers[1]
    layer.activation = lambda hidden: nn.functional.gelu(hidden, approximate=True)
    return model
