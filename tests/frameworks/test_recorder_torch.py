"""Recording torch models: the facts that hold for every framework."""

from __future__ import annotations

from tests.frameworks.checkpoint_cases import CheckpointCases
from tests.frameworks.recorder_cases import CallCases
from tests.frameworks.recorder_gradient_cases import GradientCases
from tests.frameworks.recorder_safety_cases import SafetyCases
from tests.frameworks.training_recorder_cases import TrainingCases
from tests.support.torch_lab import TorchLab


class TestTorch(CallCases, GradientCases, SafetyCases, TrainingCases, CheckpointCases):
    lab = TorchLab()
