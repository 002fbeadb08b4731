"""The operators of torch.

Short forms of names: ``add`` is ``torch.add``, ``.add`` is ``torch.Tensor.add`` and ``F.relu`` is
``torch.nn.functional.relu``. Operators that write into their first argument stand beside the
others: the new value is what the functional form returns. An operator of ATen, which exported
programs call, is recorded as the function of torch that it is; ``aten.slice`` is one that has none
of its signature.
"""

from __future__ import annotations

from padiff.program.lowering.rules import Table

from . import (
    elementwise,
    indexing,
    layers,
    linear,
    losses,
    networks,
    recurrence,
    reductions,
    shapes,
    updates,
)
from .elementwise import MADE

__all__ = ["TORCH"]

TORCH = Table(
    framework="torch",
    prefixes={
        "": "torch.",
        ".": "torch.Tensor.",
        "F.": "torch.nn.functional.",
        "aten.": "aten.",
    },
    rows=tuple(
        entry
        for room in (
            elementwise,
            networks,
            shapes,
            reductions,
            indexing,
            linear,
            layers,
            recurrence,
            losses,
            updates,
        )
        for entry in room.ROWS
    ),
    drawing={
        ".log_normal_": "input, mean=1.0, std=2.0, *, generator=None",
        ".cauchy_": "input, median=0.0, sigma=1.0, *, generator=None",
        ".geometric_": "input, p, *, generator=None",
        ".bernoulli_": "input, p=0.5, *, generator=None",
        "multinomial .multinomial": "input, num_samples, replacement=False, *, generator=None",
        "randint": f"low, high, size, *, {MADE} | high, size, *, low=0, {MADE}",
        "randint_like": f"input, low, high, *, {MADE} | input, high, *, low=0, {MADE}",
        ".random_": "input, low, high, *, generator=None | input, high, *, low=0, generator=None",
        "F.scaled_dot_product_attention": "query, key, value, attn_mask=None, dropout_p=0.0, "
        "is_causal=False, scale=None, enable_gqa=False",
    },
    derived={
        ("torch.nn.functional.scaled_dot_product_attention", "scale"): (
            lambda shapes: float(shapes["query"][-1] ** -0.5)
        ),
    },
    aliases={
        "x": ("input",),
        "self": ("input",),
        "x2": ("other",),
        "x1": ("input",),
        "axis": ("dim", "dims"),
        "axes": ("dim", "dims"),
        "keepdims": ("keepdim",),
        "size": ("shape",),
        "A": ("input",),
        "mat2": ("other",),
        "vec": ("other",),
        "tensor": ("other", "input"),
        "from": ("low",),
        "to": ("high",),
        "split_size_or_sections": ("split_size",),
    },
)
