"""Planted faults and the module that must be named for each; shared by both candidates."""

from __future__ import annotations

FORWARD = [
    ("cnn", "block2", "eps", "block2.bn1"),
    ("cnn", "block1", "stride", "block1.conv1"),
    ("cnn", "pool", "stride", "pool"),
    ("cnn", "block1.conv2", "weight", "block1.conv2"),
    ("cnn", "head", "weight", "head"),
    ("transformer", "blocks.1", "eps", "blocks.1.norm2"),
    ("transformer", "blocks.1", "gelu", "blocks.1.act"),
    ("transformer", "blocks.1", "functional gelu", "blocks.1"),
    ("transformer", "blocks.2.attention.value", "weight", "blocks.2.attention.value"),
    ("transformer", "blocks.0", "scale", "blocks.0.attention"),
]
"""Model, where, what, and the module to name."""

BACKWARD = [
    ("cnn", "block1", "detached branch", "block1"),
    ("cnn", "block2", "detached skip", "block2"),
    ("transformer", "blocks.1", "detached branch", "blocks.1"),
    ("transformer", "blocks.0", "detached value", "blocks.0.attention"),
    ("transformer", "blocks.1", "detached skip", "blocks.1"),
]
"""Faults that leave the forward pass as it is."""
