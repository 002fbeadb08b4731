"""Models that give something else than tensors: it is recorded by its attributes, and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.comparing import Comparison

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)


class Posterior:
    def __init__(self, mean: Any) -> None:  # noqa: ANN401
        self.mean = mean

    @property
    def std(self) -> object:
        raise AssertionError("a property was read")


class TorchNet(torch.nn.Module):
    def __init__(self, make: Callable[[Any], object], factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(8, 8)
        self.makes = {make: factor}

    def forward(self, x: torch.Tensor) -> object:
        ((make, factor),) = self.makes.items()
        return make(self.fc(x) * factor)


class PaddleNet(paddle.nn.Layer):
    def __init__(self, make: Callable[[Any], object], factor: float) -> None:
        super().__init__()
        self.fc = paddle.nn.Linear(8, 8)
        known = TorchNet(make, factor).fc
        self.fc.weight.set_value(known.weight.detach().numpy().T)
        self.fc.bias.set_value(known.bias.detach().numpy())
        self.makes = {make: factor}

    def forward(self, x: Any) -> object:  # noqa: ANN401
        ((make, factor),) = self.makes.items()
        return make(self.fc(x) * factor)


def normal(mean: Any) -> object:  # noqa: ANN401
    kind = torch.distributions if isinstance(mean, torch.Tensor) else paddle.distribution
    return kind.Normal(mean, mean * 0 + 1)


MAKERS: dict[str, Callable[[Any], object]] = {
    "an object": Posterior,
    "a distribution": normal,
    "an array": lambda mean: mean.detach().numpy(),
    "a number": lambda mean: float(mean.detach().sum()),
    "text": lambda mean: {"label": "above" if float(mean.detach().max()) > 2 else "below"},
    "a set of text": lambda mean: (1, {"a", "b" if float(mean.detach().max()) > 2 else "c"}),
    "a set of numbers": lambda mean: {"ids": {7, float(mean.detach().max()) > 2}},
    "bytes": lambda mean: b"above" if float(mean.detach().max()) > 2 else b"below",
    "a list of objects": lambda mean: [Posterior(mean), {"size": 8}],
}


def compared(folder: Path, *models: Any) -> Comparison:  # noqa: ANN401
    paths = []
    for number, model in enumerate(models):
        given = torch.from_numpy(X) if isinstance(model, torch.nn.Module) else paddle.to_tensor(X)
        with padiff.record(model, name=str(number), out=folder) as recorder:
            model(given)
        paths.append(recorder.path)
    return padiff.compare(paths[0], paths[1])


@pytest.mark.parametrize("kind", [TorchNet, PaddleNet])
@pytest.mark.parametrize("name", MAKERS)
def test_a_result_that_is_no_tensor_is_judged(name: str, kind: Any, tmp_path: Path) -> None:  # noqa: ANN401
    make = MAKERS[name]
    reference = TorchNet(make, 1.0)

    same = compared(tmp_path / "same", reference, kind(make, 1.0))
    other = compared(tmp_path / "other", reference, kind(make, 3.0))

    assert (same.verdict, other.verdict) == ("match", "diverged")
    (origin, *_) = other.origins
    assert origin.pair.reference is not None
    assert origin.pair.reference.address.role == "result"


@dataclass
class Routed:
    hidden: Any
    capacity: int


BESIDE: dict[str, tuple[Callable[[Any, float], object], str]] = {
    "a number": (lambda h, factor: (h, 2 * factor), "inner[1] is 2.0 on the reference, 6.0 on"),
    "a count": (lambda h, factor: (h, int(factor)), "inner[1] is 1 on the reference, 3 on"),
    "a few numbers": (
        lambda h, factor: {"h": h, "sizes": [1, int(factor)]},
        "inner['sizes'] is [1, 1] on the reference, [1, 3] on",
    ),
    "a dataclass": (
        lambda h, factor: Routed(h, int(factor)),
        "inner.capacity is 1 on the reference, 3 on",
    ),
    "a computed number": (
        lambda h, factor: (h, float(h.detach().sum()) * factor),
        "on the reference, ",
    ),
}
"""What a module inside gives beside a tensor, and what the report says where it differs."""


class Nested(torch.nn.Module):
    """Uses nothing of what the module inside it gives but the tensor."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> object:
        return tensor_of(self.inner(x))


class NestedLayer(paddle.nn.Layer):
    def __init__(self, inner: Any) -> None:  # noqa: ANN401
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> object:  # noqa: ANN401
        return tensor_of(self.inner(x))


def tensor_of(given: Any) -> object:  # noqa: ANN401
    if isinstance(given, Routed):
        return given.hidden
    return given["h"] if isinstance(given, dict) else given[0]


def said_of(comparison: Comparison) -> str:
    """Return the report in one line."""
    return " ".join(comparison.report().split())


def nested(kind: Any, give: Callable[[Any, float], object], factor: float) -> object:  # noqa: ANN401
    inner = kind(lambda h: give(h, factor), 1.0)
    return (Nested if kind is TorchNet else NestedLayer)(inner)


@pytest.mark.parametrize("kind", [TorchNet, PaddleNet])
@pytest.mark.parametrize("name", BESIDE)
def test_what_an_inner_module_gives_beside_tensors_is_compared(
    name: str,
    kind: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    give, said = BESIDE[name]
    reference = nested(TorchNet, give, 1.0)

    same = compared(tmp_path / "same", reference, nested(kind, give, 1.0))
    other = compared(tmp_path / "other", reference, nested(kind, give, 3.0))

    assert (same.verdict, other.verdict) == ("match", "match")
    assert said in said_of(other)
    assert "inner modules" not in said_of(same)


def test_text_that_an_inner_module_gives_is_compared_within_one_framework(tmp_path: Path) -> None:
    def give(h: Any, factor: float) -> object:  # noqa: ANN401
        return h, "one" if factor == 1.0 else "three"

    found = compared(tmp_path, nested(TorchNet, give, 1.0), nested(TorchNet, give, 3.0))

    assert "inner[1] is 'one' on the reference, 'three' on" in said_of(found)


@pytest.mark.parametrize("kind", [TorchNet, PaddleNet])
def test_objects_that_an_inner_module_gives_are_said_not_to_be_judged(
    kind: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    def give(h: Any, factor: float) -> object:  # noqa: ANN401
        return h, normal(h * factor)

    found = compared(tmp_path, nested(TorchNet, give, 1.0), nested(kind, give, 3.0))

    assert found.verdict == "match"
    assert "are not judged: inner[1] (Normal)" in said_of(found)


def test_an_object_that_the_model_gives_as_well_is_judged_there(tmp_path: Path) -> None:
    class Outer(Nested):
        def forward(self, x: torch.Tensor) -> object:
            return self.inner(x)

    def give(h: Any) -> object:  # noqa: ANN401
        return h, Posterior(h)

    found = compared(tmp_path, *(Outer(TorchNet(give, 1.0)) for _ in range(2)))

    assert found.verdict == "match"
    assert "not judged" not in said_of(found)


class Unseen:
    """Keeps its tensor where no attribute shows it."""

    __slots__ = ("_get",)

    def __init__(self, mean: object) -> None:
        self._get = lambda: mean


def test_a_result_that_cannot_be_seen_is_inconclusive(tmp_path: Path) -> None:
    found = compared(tmp_path, TorchNet(Unseen, 1.0), TorchNet(Unseen, 3.0))

    assert found.verdict == "inconclusive"


def test_attributes_that_one_side_alone_gives_are_no_divergence(tmp_path: Path) -> None:
    class Cached(Posterior):
        def __init__(self, mean: Any) -> None:  # noqa: ANN401
            super().__init__(mean)
            self.cache = mean + 1

    found = compared(tmp_path, TorchNet(Cached, 1.0), TorchNet(Posterior, 1.0))

    assert found.verdict == "match"
    assert "only the reference gives it, and it is no tensor" in found.report()
