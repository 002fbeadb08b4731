"""Arguments for every row of Paddle's table, as they are written in a call.

``f``, ``p``, ``u``, ``i``, ``b`` and ``c`` draw tensors: floats, positive floats, floats between
0 and 1, integers below the first argument, bools, complex numbers. ``t`` writes a tensor down.
"""

# ruff: noqa: E501, SIM905

from __future__ import annotations

__all__ = ["CASES"]

UNARY = ("f(3, 4)", "f()", "p(2, 3, 4)")
BINARY = ("f(3, 4), f(3, 4)", "f(3, 4), f(4)", "f(2, 3), p(2, 1)")
WHOLE = ("i(9, 3, 4), i(5, 3, 4) + 1", "i(9, 3, 4) - 4, t(3)")
REDUCED = (
    "f(3, 4), [], False",
    "f(3, 4), [1], False",
    "f(2, 3, 4), [0, -1], True",
    "f(3, 4), [], True",
)

CASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "exp expm1 sqrt sin cos tan atan sinh cosh tanh asinh sigmoid erf abs abs_ floor ceil "
            "trunc floor_ ceil_ trunc_ sign rsqrt reciprocal square isnan isinf isfinite relu relu6 silu "
            "logsigmoid softsign tanh_shrink hardswish"
        ).split(),
        UNARY,
    ),
    **dict.fromkeys("log log1p log2 log10 digamma lgamma".split(), ("p(3, 4)", "p()", "p(5) * 20")),
    **dict.fromkeys("asin acos atanh erfinv".split(), ("u(3, 4)", "-u(5)")),
    "acosh": ("p(3, 4) + 1",),
    "round": ("f(3, 4)", "f(4) * 3, 1", "t([0.5, 1.5, 2.5, -0.5], 'float64')"),
    "add": (*BINARY, *WHOLE, "c(3), c(3)"),
    "subtract": (*BINARY, *WHOLE),
    "multiply": (*BINARY, *WHOLE, "c(3), c(3)"),
    "divide": (*BINARY, *WHOLE),
    "floor_divide": (*BINARY, *WHOLE),
    "remainder": (*BINARY, *WHOLE),
    **dict.fromkeys("maximum minimum fmax fmin".split(), (*BINARY, *WHOLE)),
    "atan2": ("f(3, 4), f(3, 4)", "f(5), f(5)"),
    "copysign": BINARY,
    "elementwise_pow": ("p(3, 4), f(4)", "i(4, 3), i(3, 3)"),
    "pow": ("f(3, 4), 2", "f(3), 3.0", "p(3, 4), -0.5", "i(4, 3), 2", "p(3), 2.5"),
    "scale": (
        "f(3, 4), 2.5, 0.5, True",
        "f(3), 2.5, 0.5, False",
        "i(5, 3), 2.0, 1.0, True",
        "f(3), t(2.0, 'float64'), 0.0, True",
    ),
    "increment_": ("f(1), 2.5", "i(5, 1), 1.0"),
    "add_n": ("[f(3, 4), f(3, 4), f(3, 4)]",),
    "clip": ("f(3, 4), -0.5, 0.25", "i(9, 5), 2, 5", "f(3), t(-0.5, 'float64'), 0.5"),
    "lerp": ("f(3, 4), f(3, 4), u(3, 4)", "f(3), f(3), t(0.3, 'float64')"),
    **dict.fromkeys(
        "equal not_equal less_than less_equal greater_than greater_equal".split(),
        (*BINARY, "i(3, 3, 4), i(3, 3, 4)", "b(3, 4), b(3, 4)"),
    ),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), ("b(3, 4), b(4)", "f(3), f(3)")),
    "logical_not": ("b(3, 4)", "i(2, 5)"),
    **dict.fromkeys(
        "bitwise_and bitwise_or bitwise_xor".split(), ("b(3, 4), b(4)", "i(9, 4), i(9, 4)")
    ),
    "bitwise_not": ("b(3, 4)", "i(9, 4)"),
    "isclose": ("f(3, 4), f(3, 4), 0.5, 0.5, False",),
    "where": ("b(3, 4), f(3, 4), f(3, 4)", "b(3), i(9, 3), i(9, 3)"),
    "masked_fill": ("f(3, 4), b(3, 4), f()", "f(3, 4), b(4), t(-2.5, 'float64')"),
    "cast": (
        "f(3, 4) * 9, paddle.int64",
        "i(3, 4), paddle.float64",
        "f(3), paddle.bool",
        "f(3), paddle.float32",
    ),
    "assign": ("f(3, 4)", "i(4, 3)"),
    "share_data": ("f(3, 4)",),
    "real": ("c(3, 4)",),
    "imag": ("c(3, 4)",),
    "conj": ("c(3, 4)", "f(3)"),
    "complex": ("f(3, 4), f(3, 4)",),
    "angle": ("c(3, 4)", "f(3, 4)"),
    "dropout": (
        "f(3, 4), None, 0.3, True, 'upscale_in_train', 0, False",
        "f(3, 4), None, 0.3, True, 'downgrade_in_infer', 0, False",
    ),
    "mish": ("f(3, 4), 20.0",),
    "hardsigmoid": ("f(3, 4), 0.25, 0.5", "f(3, 4), 1 / 6, 0.5"),
    "gelu": ("f(3, 4), False", "f(3, 4), True"),
    "hardtanh": ("f(3, 4), -0.5, 0.25",),
    "softplus": ("f(3, 4), 1.0, 20.0", "f(3, 4) * 9, 0.5, 2.0"),
    "softshrink": ("f(3, 4), 0.5",),
    "hardshrink": ("f(3, 4), 0.5",),
    "thresholded_relu": ("f(3, 4), 0.5, -0.25",),
    "leaky_relu": ("f(3, 4), 0.25", "f(3, 4), 0.01"),
    "elu": ("f(3, 4), 0.5",),
    "celu": ("f(3, 4), 0.5",),
    "selu": ("f(3, 4), 1.0507009873554805, 1.6732632423543772",),
    "stanh": ("f(3, 4), 0.5, 1.75",),
    "prelu": (
        "f(3, 4), p(1), 'NCHW', 'all'",
        "f(2, 3, 4, 5), p(3), 'NCHW', 'channel'",
        "f(2, 4, 5, 3), p(3), 'NHWC', 'channel'",
    ),
    **dict.fromkeys(["softmax", "log_softmax"], ("f(3, 4), -1", "f(3, 4, 2), 1", "f(), -1")),
    "swiglu": ("f(3, 4), f(3, 4)", "f(3, 8), None"),
    "logit": ("u(3, 4), 0.25", "u(3, 4), 0.0"),
    "sum": (
        "f(3, 4), [], None, False",
        "f(3, 4), [1], None, True",
        "i(9, 3, 4), [0], None, False",
        "b(3, 4), [0], paddle.int64, False",
    ),
    **dict.fromkeys("mean max min".split(), REDUCED),
    "mean_all": ("f(3, 4)", "f()"),
    "prod": ("f(3, 4), [], False, True", "f(3, 4), [1], True, False"),
    **dict.fromkeys(["all", "any"], ("b(3, 4)", "b(3, 4), [1]", "b(2, 3, 4), [0, 2], True")),
    **dict.fromkeys(
        ["argmax", "argmin"],
        (
            "f(3, 4), 1, False, paddle.int64",
            "f(3, 4), 0, True, paddle.int32",
            "f(3, 4), None, False, paddle.int64",
            "f(3, 4), None, True, paddle.int64",
        ),
    ),
    "cumsum": (
        "f(3, 4), 1, False, False, False",
        "f(3, 4), -1, True, False, False",
        "f(3, 4), 0, False, False, True",
    ),
    "cumprod": ("f(3, 4), 1, False, False",),
    "logcumsumexp": ("f(3, 4), 1, False, False, False",),
    **dict.fromkeys(["cummax", "cummin"], ("f(3, 4), 1, paddle.int64",)),
    "logsumexp": (
        "f(3, 4), [1], False, False",
        "f(3, 4), [], False, True",
        "f(3, 4), [0], True, False",
    ),
    "argsort": ("f(3, 4), 1, False, False", "f(3, 4), 0, True, False"),
    "topk": ("f(3, 9), 3, 1, True, True", "f(9, 3), 2, 0, False, True"),
    "kthvalue": ("f(3, 9), 3, 1, False", "f(3, 9), 3, 1, True"),
    "p_norm": (
        "f(3, 4), 2.0, 1, 1e-12, False, False",
        "f(3, 4), 1.0, 0, 1e-12, True, False",
        "f(3, 4), 3.0, -1, 1e-12, False, True",
        "f(3, 4), float('inf'), 1, 1e-12, False, False",
    ),
    "frobenius_norm": ("f(3, 4), [0, 1], False, False", "f(2, 3, 4), [1, 2], True, False"),
    "squared_l2_norm": ("f(3, 4)",),
    "dist": ("f(3, 4), f(3, 4), 2.0", "f(3, 4), f(3, 4), 1.0"),
    "matmul": (
        "f(3, 4), f(4, 5), False, False",
        "f(2, 4, 3), f(2, 4, 5), True, False",
        "f(2, 3, 4), f(5, 4), False, True",
        "f(4), f(4), False, False",
        "f(2, 3, 4), f(4), False, False",
    ),
    "linear": ("f(3, 4), f(4, 5), f(5)", "f(2, 3, 4), f(4, 5), f(5)"),
    "bmm": ("f(2, 3, 4), f(2, 4, 5)",),
    "mv": ("f(3, 4), f(4)",),
    "dot": ("f(4), f(4)", "f(3, 4), f(3, 4)"),
    "addmm": (
        "f(3, 5), f(3, 4), f(4, 5), 0.5, 1.5",
        "f(2, 3, 5), f(2, 3, 4), f(2, 4, 5), 0.5, 1.5",
    ),
    "layer_norm": (
        "f(3, 4, 5), f(5), f(5), 2.0**-10, 2",
        "f(3, 4, 5), None, None, 2.0**-10, 1",
        "f(3, 4, 5), f(20), f(20), 2.0**-10, 1",
    ),
    "group_norm": (
        "f(2, 6, 5), f(6), f(6), 1e-5, 3, 'NCHW'",
        "f(2, 6, 4, 5), None, None, 1e-5, 2, 'NCHW'",
        "f(2, 4, 5, 6), f(6), f(6), 1e-5, 2, 'NHWC'",
    ),
    "instance_norm": ("f(2, 3, 4, 5), f(3), f(3), 2.0**-10",),
    "reshape": ("f(3, 4), [2, 6]", "f(3, 4), [-1, 2]", "f(3, 4), [0, 2, 2]"),
    "transpose": ("f(2, 3, 4), [2, 0, 1]",),
    "concat": ("[f(3, 4), f(3, 2)], 1", "[f(3, 4), f(2, 4)], 0", "[f(3, 4), f(3, 2)], -1"),
    "split": ("f(3, 6), [2, 4], 1", "f(6, 3), [1, -1], 0"),
    "split_with_num": ("f(3, 6), 3, 1", "f(6, 3), 2, 0"),
    "slice": (
        "f(5, 6), [0, 1], [1, -3], [4, 100], [1, 1], []",
        "f(5, 6), [0], [2], [3], [1], [0]",
    ),
    "squeeze": ("f(3, 1, 4, 1), [1]", "f(3, 1, 4, 1), []", "f(3, 1, 4, 1), [0, -1]"),
    "unsqueeze": ("f(3, 4), [1]", "f(3, 4), [0, -1]", "f(3, 4), [1, 2]"),
    "flatten": ("f(2, 3, 4), 1, 2", "f(2, 3, 4), 0, -1"),
    "expand": ("f(3, 1), [2, 3, 4]", "f(3, 1), [-1, 4]"),
    "expand_as": ("f(3, 1), f(2, 3, 4), [2, 3, 4]",),
    "tile": ("f(3, 4), [2, 3]", "f(3, 4), [2, 1, 3]", "f(3, 4), [2]"),
    "stack": ("[f(3, 4), f(3, 4)], 0", "[f(3, 4), f(3, 4)], -1"),
    "unbind": ("f(3, 4), 0", "f(3, 4), 1"),
    "unstack": ("f(3, 4), 0, 3", "f(3, 4), -1, 4"),
    "full": (
        "[3, 4], 2.5, paddle.float64, place",
        "[3], 2, paddle.int64, place",
        "[], True, paddle.bool, place",
    ),
    "full_like": ("f(3, 4), 2.5, paddle.float64, place", "f(3, 4), 2, paddle.int64, place"),
    **dict.fromkeys(["zeros", "ones"], ("[3, 4], paddle.float64, place",)),
    **dict.fromkeys(
        ["zeros_like", "ones_like"], ("f(3, 4), paddle.float64, place", "f(3), paddle.int64, place")
    ),
    "arange": (
        "t(2), t(11), t(3), paddle.int64, place",
        "t(0.5, 'float64'), t(3.0, 'float64'), t(0.75, 'float64'), paddle.float64, place",
    ),
    "meshgrid": ("[f(3), f(4)]", "[f(2), f(3), f(4)]"),
    "flip": ("f(3, 4), [1]", "f(3, 4), [0, -1]"),
    "roll": ("f(3, 4), [1], [0]", "f(3, 4), [1, -2], [0, 1]", "f(3, 4), [5], []"),
    **dict.fromkeys(["tril", "triu"], ("f(3, 4), 0", "f(2, 4, 3), -1", "f(3, 4), 1")),
    "pad": ("f(3, 4), [1, 2, 0, 3], 0.5",),
    "pad3d": (
        "f(2, 3, 4, 5, 6), [1, 2, 0, 1, 2, 0], 'constant', 0.5, 'NCDHW'",
        "f(2, 3, 4, 5, 6), [1, 2, 0, 1, 2, 0], 'reflect', 0.0, 'NCDHW'",
        "f(2, 3, 4, 5, 6), [1, 2, 0, 1, 2, 0], 'replicate', 0.0, 'NCDHW'",
        "f(2, 4, 5, 6, 3), [1, 2, 0, 1, 2, 0], 'circular', 0.0, 'NDHWC'",
    ),
    ".__getitem__": (
        "f(5, 6), 2",
        "f(5, 6), (slice(1, 4), slice(None, None, 2))",
        "f(5, 6, 7), (..., -1)",
        "f(5, 6), (None, slice(None), 1)",
        "f(5, 6), i(5, 3)",
        "f(5, 6, 7), (slice(None), i(6, 3), i(7, 3))",
        "f(5, 6), b(5, 6)",
    ),
    ".__setitem__": (
        "f(5, 6), 2, 1.5",
        "f(5, 6), (slice(1, 4), slice(None, None, 2)), f(3, 3)",
        "f(5, 6), t([0, 3]), f(2, 6)",
        "f(5, 6), b(5, 6), 0.5",
    ),
    "embedding": ("i(5, 3, 4), f(5, 2), -1, False", "i(5, 3, 4), f(5, 2), 2, False"),
    "gather": ("f(5, 4), i(5, 3), 0", "f(5, 4), i(4, 3), 1"),
    "index_select": ("f(5, 4), i(5, 3), 0", "f(5, 4), i(4, 3), 1"),
    "gather_nd": ("f(5, 4), i(4, 3, 2)", "f(4, 5, 6), i(4, 3, 2)"),
    "index_sample": ("f(3, 5), i(5, 3, 2)",),
    "take_along_axis": ("f(3, 5), i(5, 3, 2), 1", "f(3, 5), i(3, 2, 5), 0"),
    "put_along_axis": (
        "f(3, 5), t([[0, 2], [1, 3], [4, 0]]), f(3, 2), 1, 'assign', True",
        "f(3, 5), i(5, 3, 4), f(3, 4), 1, 'add', True",
        "f(3, 5), i(5, 3, 4), f(3, 4), 1, 'mul', True",
    ),
    "index_put": (
        "f(5, 4), [t([0, 3])], f(2, 4), False",
        "f(5, 4), [i(5, 6), i(4, 6)], f(6), True",
    ),
    "index_add": ("f(5, 4), i(5, 6), f(6, 4), 0", "f(5, 4), i(4, 6), f(5, 6), 1"),
    "masked_select": ("f(3, 4), b(3, 4)",),
    "one_hot": ("i(5, 3, 4), 5",),
    "cross_entropy_with_softmax": (
        "f(6, 5), i(5, 6, 1), False, True, True, -100, -1",
        "f(6, 5), i(5, 6, 1), False, True, True, 2, -1",
        "f(2, 5, 3), i(5, 2, 1, 3), False, True, True, -100, 1",
        "f(6, 5), u(6, 5), True, True, True, -100, -1",
    ),
    "huber_loss": ("f(3, 4), f(3, 4), 0.5",),
    "bce_loss": ("u(3, 4), u(3, 4)",),
    "sigmoid_cross_entropy_with_logits": ("f(3, 4), u(3, 4), None, False, -100",),
}
