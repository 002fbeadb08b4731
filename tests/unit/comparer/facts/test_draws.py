"""Which modules count as drawing random numbers."""

from __future__ import annotations

import pytest

from padiff.comparer.facts.draws import _is_random
from padiff.dumpfile import JSON, ModuleInfo


@pytest.mark.parametrize(
    ("class_name", "attributes", "expected"),
    [
        ("Dropout", {"p": 0.5}, True),
        ("Dropout", {"p": 0.0}, False),
        ("DropPath", {"drop_prob": 0.1}, True),
        ("StochasticDepth", {"p": 0.0}, False),
        ("GumbelSoftmax", {}, True),
        ("MultiheadAttention", {"dropout": 0.1, "num_heads": 4}, True),
        ("MultiheadAttention", {"dropout": 0.0, "num_heads": 4}, False),
        ("SelfAttention", {"attention_dropout": 0.1}, True),
        ("LSTM", {"dropout": 0.2, "num_layers": 2}, True),
        ("Sampler", {"drop_last": True}, False),
        ("Linear", {"in_features": 3}, False),
    ],
)
def test_random_layers_are_known_by_class_or_share(
    class_name: str, attributes: dict[str, JSON], expected: bool
) -> None:
    module = ModuleInfo(
        id=0,
        path="a",
        class_name=class_name,
        class_path=f"net.{class_name}",
        bases=(),
        parent=None,
        training=True,
        attributes=attributes,
        source=None,
    )

    assert _is_random(module) is expected
