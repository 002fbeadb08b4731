"""Recording paddle models: the facts that hold for every framework."""

from __future__ import annotations

import pytest

from tests.frameworks.checkpoint_cases import CheckpointCases
from tests.frameworks.recorder_cases import CallCases
from tests.frameworks.recorder_gradient_cases import GradientCases
from tests.frameworks.recorder_safety_cases import SafetyCases
from tests.frameworks.training_recorder_cases import TrainingCases
from tests.support.paddle_lab import PaddleLab


# Paddle says so at each training-mode BatchNorm whose ``track_running_stats`` was never named.
@pytest.mark.filterwarnings("ignore:When training, we now always track")
class TestPaddle(CallCases, GradientCases, SafetyCases, TrainingCases, CheckpointCases):
    lab = PaddleLab()
