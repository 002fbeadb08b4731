"""What counts as a module's configuration."""

from __future__ import annotations

import json
from typing import Any

from padiff.dumper.recording.tree import MAX_ATTRIBUTES, attributes_of, framework_names


class Base:
    def __init__(self) -> None:
        self.training = True
        self._hooks: dict[str, object] = {}
        self.call_name = "base"


class Norm(Base):
    def __init__(self, **values: Any) -> None:  # noqa: ANN401
        super().__init__()
        self.__dict__.update(values)


def test_scalars_sequences_functions_and_underscored_names_are_kept() -> None:
    norm = Norm(_epsilon=1e-5, stride=(2, 2), approximate="tanh", act=len, p=None, items=object())

    found = attributes_of(norm, framework_names((Norm, Base)))

    assert found == {
        "epsilon": 1e-5,
        "stride": [2, 2],
        "approximate": "tanh",
        "act": "<builtins.len>",
        "p": None,
    }


def test_public_name_wins_over_the_underscored_one() -> None:
    norm = Norm(_eps=1.0, eps=2.0)

    assert attributes_of(norm, framework_names((Norm, Base))) == {"eps": 2.0}


def test_absent_bias_is_stated() -> None:
    class Sparse(Base):
        bias = None

    assert attributes_of(Sparse(), framework_names((Sparse, Base))) == {"bias": False}
    assert attributes_of(Norm(bias=None), framework_names((Norm, Base))) == {"bias": False}


def test_number_of_attributes_is_bounded() -> None:
    norm = Norm(**{f"a{index}": index for index in range(500)})

    assert len(attributes_of(norm, framework_names((Norm, Base)))) == MAX_ATTRIBUTES


def test_result_is_strict_json() -> None:
    norm = Norm(a=float("nan"), b=float("inf"), c=2**70, d=("x", None))

    found = attributes_of(norm, framework_names((Norm, Base)))

    json.dumps(found, allow_nan=False)
    assert found["a"] == "nan"
