"""ResNet-18 as ``paddle.vision`` wrote it; its weights come from the reference's dump."""

import paddle
from paddle.vision.models import resnet18


def build(classes: int = 100) -> paddle.nn.Layer:
    """Build the model with Paddle's own initialisation."""
    return resnet18(num_classes=classes)


def build_faulty(classes: int = 100) -> paddle.nn.Layer:
    """Build the model with one planted fault: the epsilon of one BatchNorm is 1e-3, not 1e-5."""
    model = build(classes)
    model.layer3[0].bn2._epsilon = 1e-3
    return model
