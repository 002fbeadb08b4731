"""Models of different authors get equal weights without a map file, and then agree."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
import torch

from padiff.dumper.weights.weights import assign_weight
from tests.support.authors import CANDIDATES, REFERENCES, spread

TOLERANCE = 1e-4


@pytest.mark.parametrize("name", REFERENCES)
def test_pair_of_authors_agrees_without_a_map(name: str) -> None:
    reference, candidate = REFERENCES[name](), CANDIDATES[name](num_classes=10)
    spread(reference)
    reference.eval()
    candidate.eval()
    image = np.random.default_rng(0).normal(size=(2, 3, 64, 64)).astype(np.float32)

    plan = assign_weight(reference, candidate)

    assert not plan.ambiguous
    with torch.no_grad(), paddle.no_grad():
        expected = reference(pixel_values=torch.tensor(image)).logits.numpy()
        found = candidate(paddle.to_tensor(image)).numpy()
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
