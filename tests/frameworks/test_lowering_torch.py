"""Every row of torch's table computes what torch computes, in float64."""

from __future__ import annotations

import warnings
import zlib
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
import torch

from padiff.program import TABLES
from tests.support.lowering_torch import CASES
from tests.support.operators import Frame, Recorded, Recorder, computed, difference, recorded_row

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = TABLES["torch"]


def elements_of(tensor: torch.Tensor) -> Any:
    if tensor.dtype is torch.bfloat16:
        return tensor.float().numpy().astype(ml_dtypes.bfloat16)
    return tensor.numpy()


FRAME = Frame(
    name="torch",
    is_tensor=lambda each: isinstance(each, torch.Tensor),
    numpy=lambda tensor: elements_of(tensor.detach().resolve_conj().resolve_neg()),
    clone=lambda tensor: tensor.clone(),
    dtype_name=lambda each: (
        str(each).removeprefix("torch.") if isinstance(each, torch.dtype) else None
    ),
)
WRITTEN = {
    "_fused_adam_": (0, 2, 3, 4, 5),
    "_fused_adamw_": (0, 2, 3, 4, 5),
    "_fused_adagrad_": (0, 2, 3),
    "_fused_sgd_": (0, 2),
    "_amp_foreach_non_finite_check_and_unscale_": (0, 1),
}
"""The arguments that operators change which return nothing, unless it is the first."""
NEEDS_A_DEVICE = {"torch.Tensor.cuda", "torch.Tensor.pin_memory"}


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def rounding_of(dtype: np.dtype[Any]) -> float:
    if dtype == ml_dtypes.bfloat16:
        return 2**-7
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


class Draws:
    """The tensors of one case, from a seed."""

    def __init__(self, text: str) -> None:
        self.generator = np.random.default_rng(zlib.crc32(text.encode()))

    def f(self, *shape: int) -> torch.Tensor:
        return torch.tensor(self.generator.standard_normal(shape))

    def p(self, *shape: int) -> torch.Tensor:
        return torch.tensor(self.generator.uniform(0.1, 2, shape))

    def u(self, *shape: int) -> torch.Tensor:
        return torch.tensor(self.generator.uniform(0.05, 0.95, shape))

    def i(self, high: int, *shape: int) -> torch.Tensor:
        return torch.tensor(self.generator.integers(0, high, shape))

    def b(self, *shape: int) -> torch.Tensor:
        return torch.tensor(self.generator.random(shape) < 0.5)

    def c(self, *shape: int) -> torch.Tensor:
        return torch.complex(self.f(*shape), self.f(*shape))


def arguments_of(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draws = Draws(text)
    names = {name: getattr(draws, name) for name in "fpuibc"}
    collect = lambda *args, **kwargs: (args, kwargs)  # noqa: E731
    return eval(f"collect({text})", {**names, "collect": collect, "torch": torch})  # type: ignore[no-any-return]


def is_in_place(name: str) -> bool:
    last = name.rpartition(".")[2]
    plain = last.endswith("_") and not last.endswith("__")
    return (
        plain
        or (last.startswith("__i") and last not in {"__invert__", "__iter__"})
        or last in {"__setitem__", "__set__"}
    )


def function_of(name: str) -> Any:
    if name == "torch.pad_sequence":  # the name of a builtin that torch does not hand out
        return torch._C._nn.pad_sequence
    function: Any = torch.ops.aten if name.startswith("aten.") else torch
    for part in name.split(".")[1:]:
        function = getattr(function, part)
    return function if callable(function) else function.__get__


def record(name: str, text: str) -> Recorded | None:
    """Record a call; None where torch does not take these arguments under this name."""
    arguments, keywords = arguments_of(text)
    if name == "torch.Tensor.requires_grad_":
        arguments = arguments[:1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Recorder(FRAME).call(
                name,
                function_of(name),
                arguments,
                keywords,
                in_place=is_in_place(name),
                written=WRITTEN.get(name.rpartition(".")[2], (0,)),
            )
    except (AssertionError, AttributeError, IndexError, RuntimeError, TypeError) as error:
        reasons[name, text] = str(error)
        return None


reasons: dict[tuple[str, str], str] = {}


def test_every_row_has_a_case() -> None:
    missing = [entry.names[0] for entry in TABLE.rows if not CASES.get(entry.names[0])]

    assert missing == []
    assert len(TABLE.names) >= 300


def test_every_case_belongs_to_a_row() -> None:
    assert set(CASES) <= {entry.names[0] for entry in TABLE.rows}


def test_torch_knows_every_name() -> None:
    for name in TABLE.names:
        function_of(name)


@pytest.mark.parametrize("entry", TABLE.rows, ids=[entry.names[0] for entry in TABLE.rows])
def test_row_computes_what_torch_computes(entry: Any) -> None:
    cases, names = CASES.get(entry.names[0], ()), [*map(TABLE.full_name, entry.names)]
    for call, found in recorded_row(names, cases, record, reasons=reasons, absent=NEEDS_A_DEVICE):
        for result, expected in computed(call, found):
            rounding = rounding_of(expected.dtype)
            assert difference(result, expected) <= max(entry.tolerance, rounding), call
