"""ResNet-18 as ``transformers`` wrote it, small weights, no checkpoint."""

import torch
from transformers import ResNetConfig, ResNetForImageClassification


def build(classes: int = 100) -> torch.nn.Module:
    """Build the model with seeded weights and BatchNorm statistics that are not 0 and 1."""
    torch.manual_seed(0)
    config = ResNetConfig(
        layer_type="basic",
        depths=[2, 2, 2, 2],
        hidden_sizes=[64, 128, 256, 512],
        embedding_size=64,
        num_labels=classes,
    )
    model = ResNetForImageClassification(config)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, std=0.1)
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model
