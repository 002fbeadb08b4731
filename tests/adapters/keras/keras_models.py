"""Models of Keras; ``torch_models.py`` has the same in torch."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

Tensor = Any


def convolutions() -> keras.Model:
    """Build a functional model of convolutions with a branch."""
    image = layers.Input((8, 8, 3), name="image")
    x = layers.Conv2D(6, 3, padding="same", name="conv")(image)
    x = layers.BatchNormalization(name="bn")(x)
    x = layers.ReLU(name="act")(x)
    x = layers.Add(name="sum")([x, layers.Conv2D(6, 1, name="skip")(image)])
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(image, layers.Dense(5, name="head")(x))


def perceptron(epsilon: float = 1e-3) -> keras.Model:
    """Build a chain of layers, one of them square."""
    return keras.Sequential(
        [
            layers.Input((16,)),
            layers.Dense(16, activation="relu", name="up"),
            layers.LayerNormalization(epsilon=epsilon, name="norm"),
            layers.Dense(4, name="down"),
        ]
    )


class Block(layers.Layer):
    """An attention with what stands around it."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.attention = layers.MultiHeadAttention(num_heads=2, key_dim=4)
        self.norm = layers.LayerNormalization(epsilon=1e-5)
        self.up = layers.Dense(16, activation="gelu")
        self.down = layers.Dense(8)

    def call(self, x: Tensor) -> Tensor:
        """Run the block."""
        x = x + self.attention(x, x)
        return x + self.down(self.up(self.norm(x)))


class Encoder(keras.Model):
    """A model that holds its blocks in a list; its weights are there after a first call."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = layers.Embedding(20, 8)
        self.blocks = [Block(f"block{number}") for number in range(2)]

    def call(self, ids: Tensor) -> Tensor:
        """Run the model."""
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return x


def encoder() -> keras.Model:
    """Build an encoder and its weights."""
    made = Encoder()
    made(keras.ops.zeros((1, 5), "int32"))
    return made
