"""Arguments for every row of Paddle's table, as they are written in a call.

``f``, ``p``, ``u``, ``i``, ``b`` and ``c`` draw tensors: floats, positive floats, floats between
0 and 1, integers below the first argument, bools, complex numbers. ``t`` writes a tensor down.
"""

# ruff: noqa: E501, SIM905

from __future__ import annotations

__all__ = ["CASES", "GRADED", "OPAQUE", "OTHER_GRADIENTS"]

UNARY = ("f(3, 4)", "f()", "p(2, 3, 4)")
BINARY = ("f(3, 4), f(3, 4)", "f(3, 4), f(4)", "f(2, 3), p(2, 1)")
WHOLE = ("i(9, 3, 4), i(5, 3, 4) + 1", "i(9, 3, 4) - 4, t(3)")
NUMBERS = ("f(3, 4), 2.5", "f(3), 2", "i(9, 5), 2", "i(9, 5), 2.5", "f(3), True")
REDUCED = (
    "f(3, 4), [], False",
    "f(3, 4), [1], False",
    "f(2, 3, 4), [0, -1], True",
    "f(3, 4), [], True",
)

_SINGLE, _PER_FEATURE = "f(3, 4).astype('float32')", "f(4).astype('float32')"
_UNQUANTISED = "-1.0, 0, 0.0, 0.0"
CASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "exp expm1 sqrt sin cos tan atan sinh cosh tanh asinh sigmoid erf abs floor ceil trunc rint "
            "i0e i1e .__neg__ sign rsqrt reciprocal square isnan isinf isfinite relu relu6 silu "
            "logsigmoid softsign tanh_shrink hardswish"
        ).split(),
        UNARY,
    ),
    **dict.fromkeys("log log1p log2 log10 digamma lgamma".split(), ("p(3, 4)", "p()", "p(5) * 20")),
    **dict.fromkeys("asin acos atanh erfinv".split(), ("u(3, 4)", "-u(5)")),
    "acosh": ("p(3, 4) + 1",),
    "round": ("f(3, 4)", "f(4) * 3, 1", "t([0.5, 1.5, 2.5, -0.5], 'float64')"),
    "add": (*BINARY, *WHOLE, *NUMBERS, "c(3), c(3)"),
    "subtract": (*BINARY, *WHOLE, *NUMBERS),
    "multiply": (*BINARY, *WHOLE, *NUMBERS, "c(3), c(3)"),
    "divide": (*BINARY, *WHOLE, *NUMBERS),
    "floor_divide": (*BINARY, *WHOLE, *NUMBERS),
    "remainder": (*BINARY, *WHOLE, *NUMBERS),
    **dict.fromkeys(
        ".__rsub__ .__rdiv__ .__rfloordiv__ .__rmod__".split(),
        ("p(3, 4), 2.5", "i(9, 5) + 1, 7", "p(3, 4), p(4)", "i(9, 5) + 1, 7.5"),
    ),
    "trunc_divide": ("i(19, 3, 4) - 9, i(5, 3, 4) + 1",),
    ".__rpow__": ("f(3, 4), 2.5", "i(5, 6), 2"),
    **dict.fromkeys("maximum minimum fmax fmin".split(), (*BINARY, *WHOLE)),
    "atan2": ("f(3, 4), f(3, 4)", "f(5), f(5)"),
    "copysign": BINARY,
    "elementwise_pow": ("p(3, 4), f(4)", "i(4, 3), i(3, 3)", "f(3), 2", "f(3), 3.0"),
    "pow": ("f(3, 4), 2", "f(3), 3.0", "p(3, 4), -0.5", "i(4, 3), 2", "p(3), 2.5"),
    "scale": (
        "f(3, 4), 2.5, 0.5, True",
        "f(3), 2.5, 0.5, False",
        "i(5, 3), 2.0, 1.0, True",
        "f(3), t(2.0, 'float64'), 0.0, True",
    ),
    "increment_": ("f(1), 2.5", "i(5, 1), 1.0"),
    "add_n": ("[f(3, 4), f(3, 4), f(3, 4)]",),
    "clip": (
        "f(3, 4), -0.5, 0.25",
        "f(3, 4), -0.5, 0.25",
        "i(9, 5), 2, 5",
        "f(3), t(-0.5, 'float64'), 0.5",
    ),
    "lerp": ("f(3, 4), f(3, 4), u(3, 4)", "f(3), f(3), t(0.3, 'float64')"),
    **dict.fromkeys(
        "equal not_equal less_than less_equal greater_than greater_equal".split(),
        (*BINARY, "i(3, 3, 4), i(3, 3, 4)", "b(3, 4), b(3, 4)", "f(3), 0.5", "i(3, 5), 1"),
    ),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), ("b(3, 4), b(4)", "f(3), f(3)")),
    "logical_not": ("b(3, 4)", "i(2, 5)"),
    **dict.fromkeys(
        "bitwise_and bitwise_or bitwise_xor".split(),
        ("b(3, 4), b(4)", "i(9, 4), i(9, 4)", "i(9, 4), 3"),
    ),
    "bitwise_not": ("b(3, 4)", "i(9, 4)"),
    **dict.fromkeys(
        ["bitwise_left_shift", "bitwise_right_shift"],
        ("i(9, 4), i(3, 4), True",),
    ),
    "isclose": (
        "f(3, 4), f(3, 4)",
        "f(3, 4), f(3, 4), rtol=0.5, atol=0.5",
        "f(3, 4), f(3, 4), 0.5, 0.5, False",
    ),
    "where": ("b(3, 4), f(3, 4), f(3, 4)", "b(3), i(9, 3), i(9, 3)"),
    "masked_fill": ("f(3, 4), b(3, 4), f()", "f(3, 4), b(4), t(-2.5, 'float64')"),
    "cast": (
        "f(3, 4) * 9, paddle.int64",
        "i(3, 4), paddle.float64",
        "f(3), paddle.bool",
        "f(3), paddle.float32",
    ),
    "assign": ("f(3, 4)", "i(4, 3)"),
    "memcpy_d2h": ("f(3, 4), 0",),
    "copy_to": ("f(3, 4), place, True",),
    ".set_value": ("f(3, 4), f(3, 4)",),
    "assign_out_": ("f(3, 4), f(3, 4)",),
    ".copy_": ("f(3, 4), f(3, 4), True",),
    "gammaln": ("p(3, 4)", "p(5) * 20"),
    "polygamma": ("p(3, 4), 1", "p(5) * 9, 3"),
    **dict.fromkeys(["i0", "i1"], UNARY),
    "heaviside": ("f(3, 4), f(3, 4)", "t([0.0, 1.0, -1.0], 'float64'), f(3)"),
    "rrelu": ("f(3, 4), 0.125, 0.25, True", "f(3, 4), 0.125, 0.25, False"),
    "gumbel_softmax": (
        "f(3, 4), 0.75, False, -1",
        "f(3, 4, 2), 0.5, False, 1",
        "f(3, 4, 2), 0.5, True, 1",
        "f(2, 3, 4), 2.0, True, -1",
    ),
    "label_smooth": ("u(3, 4), None, 0.25", "u(3, 4), u(1, 4), 0.25"),
    "affine_channel": (
        "f(2, 3, 4, 5), f(3), f(3), 'NCHW'",
        "f(2, 4, 5, 3), f(3), f(3), 'NHWC'",
    ),
    "fused_softmax_mask": ("f(2, 3, 8, 32), f(2, 1, 8, 32)",),
    "allclose": (
        "f(3, 4), f(3, 4), 0.5, 0.5, False",
        "f(3, 4), f(3, 4), 9.0, 9.0, False",
        "t([1.0, float('nan')], 'float64'), t([1.0, float('nan')], 'float64'), 1e-5, 1e-8, True",
    ),
    "equal_all": ("i(3, 4), i(3, 4)", "t([1, 2]), t([1, 2])", "t([1, 2]), t([1, 2, 3])"),
    "add_position_encoding": ("f(2, 3, 8), 0.5, 2.0",),
    "fill": ("f(3, 4), 2.5", "i(5, 3), 2"),
    "real": ("c(3, 4)",),
    "imag": ("c(3, 4)",),
    "conj": ("c(3, 4)", "f(3)"),
    "complex": ("f(3, 4), f(3, 4)",),
    "angle": ("c(3, 4)", "f(3, 4)"),
    "gaussian": ("[2, 3], 0.5, 0.0, 0, paddle.float64, paddle.CPUPlace()",),
    "gaussian_inplace_": ("f(3, 4), 0.5, 0.0, 0",),
    "uniform": ("[2, 3], paddle.float64, 0.5, 0.5, 0, paddle.CPUPlace()",),
    "uniform_inplace_": ("f(0, 3, 2), -1.0, 0.5, 0, 0, 0, 1.0",),
    "exponential_": ("f(3, 4), float('inf')",),
    "dropout": (
        "f(3, 4), None, 0.3, True, 'upscale_in_train', 0, False",
        "f(3, 4), None, 0.3, True, 'downgrade_in_infer', 0, False",
    ),
    "mish": ("f(3, 4), 20.0",),
    "hardsigmoid": ("f(3, 4), 0.25, 0.5", "f(3, 4), 1 / 6, 0.5"),
    "gelu": (
        "f(3, 4), True, None",
        "f(3, 4), approximate=True",
        "input=f(3, 4)",
        "f(3, 4), False",
        "f(3, 4), True",
    ),
    "hardtanh": ("f(3, 4), -0.5, 0.25",),
    "softplus": ("f(3, 4), 2.0", "f(3, 4)", "f(3, 4), 1.0, 20.0", "f(3, 4) * 9, 0.5, 2.0"),
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
    "softmax": (
        "f(3, 4), -1",
        "f(3, 4, 2), 1",
        "f(), -1",
        "t([[0.0, 99.0, float('-inf')]], 'float64'), -1",
    ),
    "log_softmax": ("f(3, 4), -1", "f(3, 4, 2), 1", "f(), -1"),
    "swiglu": ("f(3, 4), f(3, 4)", "f(3, 8), None"),
    "logit": ("u(3, 4), 0.25", "u(3, 4), 0.0"),
    "sum": (
        "f(3, 4), 1, 'float64'",
        "i(9, 3, 4), axis=0, dtype='float64', keepdim=True",
        "f(3, 4)",
        "input=f(3, 4), dim=[0]",
        "f(3, 4), None, None, False, None",
        "f(3, 4), [], None, False",
        "f(3, 4), [1], None, True",
        "i(9, 3, 4), [0], None, False",
        "b(3, 4), [0], paddle.int64, False",
    ),
    **dict.fromkeys("mean max min".split(), REDUCED),
    "mean_all": ("f(3)", "f(3, 4)", "f()"),
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
    "cumprod": ("f(3, 4), 1, False, False", "f(3, 4), 0, False, True"),
    "logcumsumexp": ("f(3, 4), 1, False, False, False",),
    **dict.fromkeys(["cummax", "cummin"], ("f(3, 4), 1, paddle.int64",)),
    "logsumexp": (
        "f(3, 4), 1, True",
        "f(3, 4)",
        "f(3, 4), axis=[0], keepdim=True",
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
    ".__rmatmul__": ("f(4, 5), f(3, 4)",),
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
    "fused_rms_norm_quant": (
        f"{_SINGLE}, None, None, {_PER_FEATURE}, None, 2.0**-10, 1, {_UNQUANTISED}",
        f"{_SINGLE}, {_PER_FEATURE}, {_SINGLE}, {_PER_FEATURE}, {_PER_FEATURE}, 2.0**-10, 1, {_UNQUANTISED}",
    ),
    "fused_bias_residual_layernorm": (
        f"{_SINGLE}, None, None, {_PER_FEATURE}, {_PER_FEATURE}, 2.0**-10, 1.0, 1, {_UNQUANTISED}",
        f"{_SINGLE}, {_PER_FEATURE}, {_SINGLE}, {_PER_FEATURE}, {_PER_FEATURE}, 2.0**-10, 0.5, 1, {_UNQUANTISED}",
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
    "paddle.to_tensor": (
        "[[1.5, 2], [3, -4]]",
        "[1, 2], paddle.float64",
        "True",
        "2.5, paddle.int64, place",
        "f(3, 4), paddle.float32",
        "i(9, 5), stop_gradient=False",
        "[f(1), [2.5]]",
        "[[f(), 1], [f(), f()]]",
    ),
    "full_like": ("f(3, 4), 2.5, paddle.float64, place", "f(3, 4), 2, paddle.int64, place"),
    **dict.fromkeys(["zeros", "ones"], ("[3, 4], paddle.float64, place",)),
    **dict.fromkeys(
        ["zeros_like", "ones_like"], ("f(3, 4), paddle.float64, place", "f(3), paddle.int64, place")
    ),
    "empty": ("[3, 4], paddle.float64, place",),
    "empty_like": ("f(3, 4), paddle.float64, place",),
    "arange": (
        "t(2), t(11), t(3), paddle.int64, place",
        "t(0.5, 'float64'), t(3.0, 'float64'), t(0.75, 'float64'), paddle.float64, place",
    ),
    "meshgrid": ("[f(3), f(4)]", "[f(2), f(3), f(4)]"),
    "flip": ("f(3, 4), [1]", "f(3, 4), [0, -1]"),
    "roll": (
        "f(3, 4), 1, 0",
        "f(3, 4), 5",
        "f(3, 4), shifts=[1, 2], axis=[0, 1]",
        "f(3, 4), [1], [0]",
        "f(3, 4), [1, -2], [0, 1]",
        "f(3, 4), [5], []",
    ),
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
        "f(5, 6), (slice(None, None, -1), slice(4, 0, -2))",
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
        "f(3, 5), t([[0, 2], [1, 3], [4, 0]]), f(3, 2), 1, 'amax', True",
        "f(3, 5), i(5, 3, 4), f(3, 4), 1, 'amin', True",
    ),
    "index_put": (
        "f(5, 4), [t([0, 3])], f(2, 4), False",
        "f(5, 4), [i(5, 6), i(4, 6)], f(6), True",
    ),
    "index_add": ("f(5, 4), i(5, 6), f(6, 4), 0", "f(5, 4), i(4, 6), f(5, 6), 1"),
    "sequence_mask": (
        "i(5, 3) + 1, -1, paddle.int64",
        "i(5, 2, 3), 7, paddle.float64",
        "i(5, 3), paddle.to_tensor(6, 'int32'), paddle.bool",
    ),
    "masked_select": ("f(3, 4), b(3, 4)",),
    "one_hot": ("i(5, 3, 4), 5",),
    "cross_entropy_with_softmax": (
        "f(6, 5), i(5, 6, 1), False, True, True, -100, -1",
        "f(6, 5), i(5, 6, 1), False, True, True, 2, -1",
        "f(2, 5, 3), i(5, 2, 1, 3), False, True, True, -100, 1",
        "f(6, 5), u(6, 5), True, True, True, -100, -1",
        "f(6, 5), paddle.nn.functional.softmax(f(6, 5)), True, True, True, -100, -1",
        "u(6, 5), i(5, 6, 1), False, False, True, 2, -1",
        "u(6, 5), u(6, 5), True, False, True, -100, -1",
        "f(2, 5, 3), u(2, 5, 3), True, True, True, -100, 1",
    ),
    "huber_loss": ("f(3, 4), f(3, 4), 0.5",),
    "bce_loss": ("u(3, 4), u(3, 4)",),
    "sigmoid_cross_entropy_with_logits": (
        "f(3, 4), u(3, 4), None, False, -100",
        "f(3, 4), u(3, 4), p(3, 4), False, -100",
        "f(3, 4), t([[0, 1, 1, 0]], 'float64').expand([3, 4]), None, True, 1",
    ),
    "batch_norm": (
        "f(1, 3, 1, 1), f(3), p(3), f(3), f(3), False, 0.9, 2.0**-10, 'NCHW', False, False",
        "f(4, 3, 5), f(3), p(3), f(3), f(3), False, 0.9, 2.0**-10, 'NCHW', False, False",
        "f(4, 3, 5), f(3), p(3), f(3), f(3), True, 0.75, 2.0**-10, 'NCHW', False, False",
        "f(4, 3, 5, 2), f(3), p(3), f(3), f(3), False, 0.75, 2.0**-10, 'NCHW', False, False",
        "f(4, 5, 2, 3), f(3), p(3), f(3), f(3), False, 0.75, 2.0**-10, 'NHWC', False, False",
        "f(4, 3), f(3), p(3), None, None, False, 0.75, 2.0**-10, 'NCHW', False, False",
        "f(4, 3, 2), f(3), p(3), f(3), f(3), False, 0.75, 2.0**-10, 'NCHW', True, False",
        "f(4, 3, 2, 2, 3), f(3), p(3), f(3), f(3), True, 0.75, 2.0**-10, 'NCHW', False, True",
    ),
    "conv2d": (
        "f(2, 4, 6, 7), f(6, 4, 3, 3), [1, 1], [0, 0], 'EXPLICIT', [1, 1], 1, 'NCHW'",
        "f(2, 4, 8, 7), f(6, 2, 3, 2), [2, 1], [1, 2], 'EXPLICIT', [2, 1], 2, 'NCHW'",
        "f(2, 4, 8, 7), f(6, 4, 3, 2), [2, 1], [1, 0, 2, 1], 'EXPLICIT', [1, 2], 1, 'NCHW'",
        "f(2, 4, 8, 7), f(6, 4, 3, 2), [2, 3], [0, 0], 'SAME', [1, 1], 1, 'NCHW'",
        "f(2, 4, 8, 7), f(6, 4, 3, 2), [2, 1], [1, 1], 'VALID', [1, 1], 1, 'NCHW'",
        "f(2, 8, 7, 4), f(6, 2, 3, 3), [2, 1], [1, 1], 'EXPLICIT', [1, 1], 2, 'NHWC'",
        "f(2, 8, 7, 4), f(6, 4, 3, 3), [3, 1], [0, 0], 'SAME', [1, 1], 1, 'NHWC'",
    ),
    "depthwise_conv2d": (
        "f(2, 4, 6, 7), f(8, 1, 3, 3), [2, 1], [1, 1], 'EXPLICIT', 4, [1, 2], 'NCHW'",
        "f(2, 4, 6, 7), f(4, 1, 3, 3), [1, 1], [0, 0], 'SAME', 4, [1, 1], 'NCHW'",
    ),
    "conv3d": (
        "f(2, 4, 5, 6, 7), f(6, 2, 3, 2, 3), [1, 2, 1], [1, 0, 1], 'EXPLICIT', 2, [1, 1, 2], 'NCDHW'",
        "f(2, 4, 5, 6, 7), f(6, 4, 3, 2, 3), [2, 2, 1], [0, 0, 0], 'SAME', 1, [1, 1, 1], 'NCDHW'",
        "f(2, 5, 6, 7, 4), f(6, 4, 3, 2, 3), [1, 2, 1], [1, 0, 0, 1, 2, 1], 'EXPLICIT', 1, [1, 1, 1], 'NDHWC'",
    ),
    "conv2d_transpose": (
        "f(2, 4, 5, 6), f(4, 3, 3, 2), [2, 3], [1, 0], [], [], 'EXPLICIT', 1, [1, 1], 'NCHW'",
        "f(2, 4, 5, 6), f(4, 3, 3, 2), [2, 3], [1, 0], [1, 2], [], 'EXPLICIT', 2, [1, 2], 'NCHW'",
        "f(2, 4, 5, 6), f(4, 3, 3, 2), [2, 3], [1, 0], [], [10, 18], 'EXPLICIT', 1, [1, 1], 'NCHW'",
        "f(2, 4, 5, 6), f(4, 3, 3, 2), [2, 3], [1, 0, 0, 1], [], [], 'EXPLICIT', 1, [1, 1], 'NCHW'",
        "f(2, 4, 5, 6), f(4, 3, 3, 2), [2, 1], [0, 0], [], [], 'SAME', 1, [1, 1], 'NCHW'",
        "f(2, 5, 6, 4), f(4, 3, 3, 2), [2, 1], [0, 0], [], [], 'VALID', 1, [1, 1], 'NHWC'",
        "f(2, 4, 5, 6), f(4, 1, 3, 3), [2, 2], [1, 1], [1, 1], [], 'EXPLICIT', 4, [1, 1], 'NCHW'",
    ),
    "conv3d_transpose": (
        "f(2, 4, 3, 4, 5), f(4, 3, 3, 2, 2), [2, 1, 2], [1, 0, 0], [1, 0, 1], [], 'EXPLICIT', 1, [1, 1, 1], 'NCHW'",
        "f(2, 4, 3, 4, 5), f(4, 3, 3, 2, 2), [1, 1, 2], [0, 0, 0], [], [], 'EXPLICIT', 2, [1, 2, 1], 'NCHW'",
    ),
    "pool2d": (
        "f(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], False, True, 'NCHW', 'max', False, False, 'EXPLICIT'",
        "f(2, 3, 7, 8), [3, 3], [2, 2], [0, 0], True, True, 'NCHW', 'max', False, False, 'EXPLICIT'",
        "f(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], False, True, 'NCHW', 'avg', False, False, 'EXPLICIT'",
        "f(2, 3, 7, 8), [3, 3], [2, 2], [0, 1], True, False, 'NCHW', 'avg', False, False, 'EXPLICIT'",
        "f(2, 3, 7, 8), [3, 4], [2, 3], [1, 0, 1, 1], True, True, 'NCHW', 'avg', False, False, 'EXPLICIT'",
        "f(2, 7, 8, 3), [3, 2], [2, 3], [1, 1], False, True, 'NHWC', 'avg', False, False, 'EXPLICIT'",
        "f(2, 3, 7, 8), [3, 2], [2, 3], [0, 0], False, True, 'NCHW', 'avg', False, False, 'SAME'",
        "f(2, 3, 7, 8), [3, 2], [2, 3], [0, 0], False, True, 'NCHW', 'max', False, False, 'VALID'",
        "f(2, 3, 7, 8), [1, 1], [1, 1], [0, 0], False, True, 'NCHW', 'avg', True, False, 'EXPLICIT'",
        "f(2, 3, 7, 8), [3, 5], [1, 1], [0, 0], False, True, 'NCHW', 'avg', False, True, 'EXPLICIT'",
        "f(2, 3, 7, 8), [1, 1], [1, 1], [0, 0], False, True, 'NCHW', 'avg', False, True, 'EXPLICIT'",
    ),
    "pool3d": (
        "f(2, 3, 5, 7, 8), [3, 2, 3], [2, 2, 1], [1, 0, 1], False, True, 'NCDHW', 'max', False, False, 'EXPLICIT'",
        "f(2, 3, 5, 7, 8), [3, 2, 3], [2, 2, 1], [1, 0, 1], True, True, 'NCDHW', 'avg', False, False, 'EXPLICIT'",
        "f(2, 5, 7, 8, 3), [3, 2, 3], [2, 2, 1], [1, 0, 1], False, False, 'NDHWC', 'avg', False, False, 'EXPLICIT'",
        "f(2, 3, 5, 7, 8), [2, 3, 4], [1, 1, 1], [0, 0, 0], False, True, 'NCDHW', 'avg', False, True, 'EXPLICIT'",
    ),
    "max_pool2d_with_index": (
        "f(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], False, False, False",
        "f(2, 3, 7, 8), [3, 2], [2, 2], [0, 0], False, False, True",
        "f(2, 3, 7, 8), [3, 5], [1, 1], [0, 0], False, True, False",
        "f(2, 3, 7, 8), [1, 1], [1, 1], [0, 0], True, False, False",
    ),
    "max_pool3d_with_index": (
        "f(2, 3, 5, 7, 8), [3, 2, 3], [2, 2, 1], [1, 0, 1], False, False, False",
        "f(2, 3, 5, 7, 8), [2, 3, 3], [1, 1, 1], [0, 0, 0], False, True, False",
    ),
    "lp_pool2d": (
        "p(2, 3, 7, 8), [3, 3], [2, 2], [0, 0], False, True, 'NCHW', 'lp', False, False, 'EXPLICIT', 2.0",
        "p(2, 3, 7, 8), [3, 2], [2, 2], [0, 0], True, True, 'NCHW', 'lp', False, False, 'EXPLICIT', 3.0",
    ),
    "unpool": (
        "f(1, 2, 2, 2), t([[[[0, 3], [9, 15]], [[5, 6], [8, 11]]]], 'int32'), [2, 2], [2, 2], [0, 0], [4, 4], 'NCHW'",
    ),
    "unpool3d": (
        "f(1, 1, 2, 2, 2), t([[[[[0, 3], [9, 15]], [[17, 22], [41, 60]]]]], 'int32'), [2, 2, 2], [2, 2, 2], [0, 0, 0], [4, 4, 4], 'NCDHW'",
    ),
    "unfold": (
        "f(2, 3, 6, 7), [3, 2], [1, 2], [1, 0, 1, 0], [1, 1]",
        "f(2, 3, 6, 7), [3, 2], [2, 1], [1, 0, 2, 1], [1, 2]",
    ),
    "fold": (
        "f(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0, 0, 0], [1, 1]",
        "f(2, 12, 9), [4, 5], [2, 2], [2, 2], [1, 1, 1, 1], [1, 1]",
    ),
    "maxout": ("f(2, 6, 3, 4), 2, 1", "f(2, 3, 4, 6), 3, -1"),
    "temporal_shift": ("f(6, 8, 2, 3), 3, 0.25, 'NCHW'", "f(6, 2, 3, 8), 2, 0.125, 'NHWC'"),
    "linear_interp": (
        "f(2, 3, 5), None, None, None, 'NCHW', -1, -1, 8, [], 'linear', False, 0",
        "f(2, 3, 5), None, None, None, 'NCHW', -1, -1, 8, [], 'linear', True, 0",
        "f(2, 5, 3), None, None, None, 'NHWC', -1, -1, 9, [], 'linear', False, 1",
        "f(2, 3, 5), None, None, None, 'NCHW', -1, -1, -1, [1.6], 'linear', False, 0",
    ),
    "bilinear_interp": (
        "f(2, 3, 5, 6), None, None, None, 'NCHW', -1, 8, 4, [], 'bilinear', False, 0",
        "f(2, 3, 5, 6), None, None, None, 'NCHW', -1, 8, 4, [], 'bilinear', True, 1",
        "f(2, 3, 5, 6), None, None, None, 'NCHW', -1, 8, 4, [], 'bilinear', False, 1",
        "f(2, 5, 6, 3), None, None, None, 'NHWC', -1, -1, -1, [2.0, 1.5], 'bilinear', False, 0",
        "f(2, 3, 5, 6), t([8, 4], 'int32'), None, None, 'NCHW', -1, -1, -1, [], 'bilinear', False, 0",
    ),
    "trilinear_interp": (
        "f(2, 3, 3, 5, 4), None, None, None, 'NCHW', 5, 8, 3, [], 'trilinear', False, 0",
        "f(2, 3, 3, 5, 4), None, None, None, 'NCHW', 5, 8, 3, [], 'trilinear', True, 0",
        "f(2, 3, 5, 4, 3), None, None, None, 'NHWC', -1, -1, -1, [2.0, 2.0, 1.5], 'trilinear', False, 1",
    ),
    "bicubic_interp": (
        "f(2, 3, 5, 6), None, None, None, 'NCHW', -1, 8, 4, [], 'bicubic', False, 0",
        "f(2, 3, 5, 6), None, None, None, 'NCHW', -1, 8, 4, [], 'bicubic', True, 0",
        "f(2, 5, 6, 3), None, None, None, 'NHWC', -1, -1, -1, [2.0, 1.5], 'bicubic', False, 1",
    ),
    "nearest_interp": (
        "f(2, 3, 5, 6), None, None, None, 'NCHW', -1, 8, 4, [], 'nearest', False, 0",
        "f(2, 3, 5, 6), None, None, None, 'NCHW', -1, 9, 4, [], 'nearest', True, 1",
        "f(2, 5, 6, 3), None, None, None, 'NHWC', -1, -1, -1, [2.0, 1.5], 'nearest', False, 0",
        "f(2, 3, 3, 5, 4), None, None, None, 'NCHW', 5, 8, 3, [], 'nearest', False, 0",
    ),
    "grid_sample": (
        *(
            f"f(2, 3, 5, 6), f(2, 4, 3, 2), '{mode}', '{padding}', {aligned}"
            for mode in ("bilinear", "nearest")
            for padding in ("zeros", "border", "reflection")
            for aligned in (True, False)
        ),
        "f(2, 3, 4, 5, 6), f(2, 2, 4, 3, 3), 'bilinear', 'reflection', False",
    ),
    "affine_grid": (
        "f(2, 2, 3), [2, 3, 4, 5], True",
        "f(2, 2, 3), [2, 3, 4, 5], False",
        "f(2, 3, 4), [2, 3, 4, 5, 2], False",
    ),
    "rnn": (
        "f(5, 2, 3), [f(1, 2, 4), f(1, 2, 4)], [f(16, 3), f(16, 4), f(16), f(16)], None, t(0, 'uint8'), 0.0, False, 3, 4, 1, 'LSTM', 0, False",
        "f(5, 2, 3), [f(4, 2, 4), f(4, 2, 4)], [f(16, 3), f(16, 4), f(16, 3), f(16, 4), f(16, 8), f(16, 4), f(16, 8), f(16, 4), f(16), f(16), f(16), f(16), f(16), f(16), f(16), f(16)], None, t(0, 'uint8'), 0.0, True, 3, 4, 2, 'LSTM', 0, True",
        "f(5, 2, 3), [f(2, 2, 4)], [f(12, 3), f(12, 4), f(12, 3), f(12, 4), f(12), f(12), f(12), f(12)], t([3, 5], 'int32'), t(0, 'uint8'), 0.0, True, 3, 4, 1, 'GRU', 0, False",
        "f(5, 2, 3), [f(2, 2, 4)], [f(4, 3), f(4, 4), f(4, 4), f(4, 4), f(4), f(4), f(4), f(4)], None, t(0, 'uint8'), 0.0, False, 3, 4, 2, 'RNN_TANH', 0, False",
        "f(5, 2, 3), [f(1, 2, 4)], [f(4, 3), f(4, 4), f(4), f(4)], t([2, 5], 'int32'), t(0, 'uint8'), 0.0, False, 3, 4, 1, 'RNN_RELU', 0, False",
    ),
    "einsum": (
        "[f(3, 4), f(4, 5)], 'ij,jk->ik'",
        "[f(2, 3, 4), f(2, 5, 4)], 'bij,bkj->bik'",
    ),
    "kron": ("f(3, 4), f(2, 2)", "f(2, 3, 4), f(2, 2)"),
    "cross": ("f(4, 3), f(4, 3), 1", "f(2, 3), f(2, 3), 9"),
    "multi_dot": ("[f(3, 4), f(4, 5), f(5, 2)]",),
    "bilinear": ("f(3, 4), f(3, 5), f(2, 4, 5), f(1, 2)", "f(3, 4), f(3, 5), f(2, 4, 5), None"),
    **dict.fromkeys(["det", "inverse", "slogdet", "slogdet_v2"], ("f(3, 3)", "f(2, 4, 4)")),
    "matrix_power": ("f(3, 3), 3", "f(2, 3, 3), -2", "f(3, 3), 0"),
    "solve": ("f(3, 3), f(3, 2)", "f(3, 3), f(3)", "f(2, 3, 3), f(2, 3, 2)"),
    "triangular_solve": tuple(
        f"f(3, 3), f(3, 2), {upper}, {turned}, {unit}"
        for upper in (True, False)
        for turned in (True, False)
        for unit in (True, False)
    ),
    "cholesky": (
        "paddle.eye(3, dtype='float64') * 9 + p(3, 1) * 0.1, False",
        "paddle.eye(3, dtype='float64') * 9 + p(1, 3) * 0.1, True",
    ),
    "cholesky_solve": ("f(3, 2), f(3, 3), True", "f(3, 2), f(3, 3), False"),
    "eigvalsh": ("f(4, 4), 'L', False", "f(2, 3, 3), 'U', False", "f(3, 3), 'L', True"),
    "svdvals": ("f(3, 5)",),
    "fft_c2c": tuple(
        f"c(3, 6), [{axes}], '{norm}', {forward}"
        for axes in ("1", "0, 1")
        for norm in ("backward", "forward", "ortho")
        for forward in (True, False)
    ),
    "fft_r2c": tuple(
        f"f(3, 6), [{axes}], '{norm}', {forward}, {onesided}"
        for axes, onesided in (("1", True), ("0, 1", True), ("1", False))
        for norm in ("backward", "forward", "ortho")
        for forward in (True, False)
    ),
    "fft_c2r": tuple(
        f"c(3, 4), [{axes}], '{norm}', {forward}, {size}"
        for axes in ("1", "0, 1")
        for norm in ("backward", "forward", "ortho")
        for forward in (True, False)
        for size in (0, 7)
    ),
    "stft": ("f(2, 16), f(4), 4, 2, False, True", "f(2, 16), f(4), 4, 3, True, True"),
    "full_": ("f(3, 4), [3, 4], 2.5, paddle.float64, place",),
    "strided_slice": (
        "f(5, 6), [0, 1], [0, 1], [5, 6], [2, 3]",
        "f(5, 6), [1], [5], [0], [-2]",
        "f(5, 6), [1], [-1], [-4], [-1]",
    ),
    "crop": ("f(5, 6), [2, 3], [1, 2]", "f(5, 6), [2, -1], [1, 2]"),
    "diag": ("f(3), 1, 0.5", "f(4), -2, 0.0", "f(3, 4), 1, 0.0"),
    "diag_embed": ("f(2, 3), 0, -2, -1", "f(2, 3), -1, 0, 2", "f(2, 3), 2, -1, -2"),
    **dict.fromkeys(
        ["diagonal", "trace"], ("f(3, 4), 0, 0, 1", "f(3, 4, 5), 1, 0, 2", "f(3, 4, 5), -1, 1, 2")
    ),
    "fill_diagonal": (
        "f(3, 4), 1.5, 0, False",
        "f(4, 3), 1.5, 1, False",
        "i(9, 3, 3), 2, -1, False",
    ),
    "fill_diagonal_tensor": (
        "f(3, 4), f(3), 0, 0, 1",
        "f(3, 4), f(1, 3), 0, 0, 1",
        "f(3, 4, 5), f(4, 3), 1, 0, 2",
    ),
    "broadcast_tensors": ("[f(3, 1), f(4)]", "[f(2, 1, 3), f(4, 1), f(1)]"),
    "repeat_interleave": (
        "f(3, 4), 2, 0, -1",
        "f(3, 4), 3, 1, -1",
        "f(3, 4), t([2, 0, 1]), 0, -1",
    ),
    "frame": ("f(16), 4, 2, -1", "f(2, 16), 4, 3, -1", "f(16, 2), 4, 2, 0", "f(16), 4, 2, 0"),
    "overlap_add": ("f(4, 3), 2, -1", "f(2, 4, 3), 2, -1", "f(3, 4, 2), 3, 0", "f(3, 4), 2, 0"),
    "view_shape": ("f(3, 4), [2, 6]", "f(3, 4), [4, 3]"),
    "tensor_unfold": ("f(3, 8), 1, 3, 2", "f(3, 8), 0, 2, 1"),
    "._slice": ("f(5, 4), 1, 3",),
    "index_select_strided": ("f(3, 4), 1, 0", "f(3, 4), 2, 1"),
    "eye": ("3, 4, paddle.float64, place", "3, 3, paddle.int64, place"),
    **dict.fromkeys(
        ["tril_indices", "triu_indices"],
        ("3, 4, 0, paddle.int64, place", "4, 3, -1, paddle.int64, place"),
    ),
    "linspace": (
        "t(0.5, 'float64'), t(3.0, 'float64'), t(7, 'int32'), paddle.float64, place",
        "t(0.5, 'float64'), t(3.0, 'float64'), t(1, 'int32'), paddle.float64, place",
    ),
    "logspace": (
        "t(0.5, 'float64'), t(3.0, 'float64'), t(7, 'int32'), t(10.0, 'float64'), paddle.float64, place",
    ),
    "full_with_tensor": ("f(), [3, 4], paddle.float64",),
    "full_batch_size_like": ("f(3, 4), [1, 5], paddle.float64, 2.5, 0, 0, place",),
    "full_int_array": ("[3, 4], paddle.int64, place",),
    "assign_value_": ("f(2, 2), [2, 2], paddle.float64, [1.0, 2.5, -3.0, 4.0], place",),
    "numel": ("f(3, 4)",),
    "shape": ("f(3, 4)",),
    "is_empty": ("f(3, 4)",),
    "partial_concat": ("[f(3, 4), f(3, 4)], 1, 2", "[f(3, 4), f(3, 4)], 0, -1"),
    "partial_sum": ("[f(3, 4), f(3, 4)], 1, 2", "[f(3, 4), f(3, 4)], 0, -1"),
    "pixel_shuffle": ("f(2, 12, 3, 4), 2, 'NCHW'", "f(2, 3, 4, 12), 2, 'NHWC'"),
    "pixel_unshuffle": ("f(2, 3, 4, 6), 2, 'NCHW'", "f(2, 4, 6, 3), 2, 'NHWC'"),
    "channel_shuffle": ("f(2, 6, 3, 4), 3, 'NCHW'", "f(2, 3, 4, 6), 2, 'NHWC'"),
    "as_complex": ("f(3, 4, 2)",),
    "as_real": ("c(3, 4)",),
    **dict.fromkeys(
        ["var", "std"],
        (
            "f(3, 4), [1], False, True, 1.0",
            "f(3, 4), [], True, False, 0.0",
            "f(2, 3, 4), [0, 2], True, True, 1.0",
            "f(3, 4), [0], False, True, 2.0",
        ),
    ),
    "median": (
        "f(3, 5), [1], False, 'avg'",
        "f(3, 4), [1], True, 'avg'",
        "f(3, 4), [], False, 'avg'",
        "f(3, 4), [1], False, 'min'",
        "t([[1.0, float('nan'), 2.0]], 'float64'), [1], False, 'avg'",
    ),
    "nanmedian": (
        "f(3, 5), [1], False, 'avg'",
        "f(3, 4), [], True, 'avg'",
        "f(2, 3, 4), [0, 2], False, 'avg'",
        "t([[1.0, float('nan'), 2.0, 5.0, 9.0, -1.0]], 'float64'), [1], False, 'avg'",
        "t([[1.0, float('nan'), 2.0, 5.0, 9.0, -1.0]], 'float64'), [1], False, 'min'",
    ),
    "mode": ("f(3, 4), -1, False", "i(3, 4, 9), 1, True", "i(3, 9, 4), 0, False"),
    "nansum": (
        "f(3, 4), [1], None, False",
        "t([[1.0, float('nan'), 2.0]], 'float64'), [1], None, True",
    ),
    "reduce_as": ("f(3, 4), f(4)", "f(2, 3, 4), f(3, 1)"),
    "unique": (
        "i(5, 9), False, False, False, [], paddle.int64",
        "i(5, 9), False, True, True, [], paddle.int64",
        "i(5, 3, 4), False, True, False, [], paddle.int64",
    ),
    "searchsorted": (
        "paddle.sort(f(5)), f(3, 4), False, True",
        "paddle.sort(f(3, 5)), f(3, 4), False, False",
        "paddle.sort(f(5)), f(3), True, False",
    ),
    "bincount": ("i(5, 9), None, 0", "i(5, 9), f(9), 7"),
    "histogram": (
        "f(30), None, 7, 0.0, 0.0, False",
        "f(30), None, 7, -1.0, 1.5, False",
        "i(9, 3, 5), None, 4, 0.0, 8.0, False",
    ),
    "nonzero": ("b(3, 4)", "i(2, 9)"),
    "identity_loss": ("f(3, 4), 0", "f(3, 4), 1", "f(3, 4), 2"),
    "l1_norm": ("f(3, 4).astype('float32')",),
    "norm": ("f(3, 4), 1, 2.0**-30, False", "f(2, 3, 4), -1, 2.0**-30, True"),
    "renorm": ("f(3, 4), 2.0, 0, 1.0", "f(3, 4, 2), 1.0, 1, 2.5"),
    "clip_by_norm": ("f(3, 4).astype('float32'), 1.0", "f(3, 4).astype('float32'), 100.0"),
    "scatter": (
        "f(5, 4), t([3, 0]), f(2, 4), True",
        "f(5, 4), t([3, 0, 3]), f(3, 4), False",
        "f(5, 4), t([[3], [1]]), f(2, 4), True",
    ),
    "scatter_nd_add": ("f(5, 4), i(5, 6, 1), f(6, 4)", "f(5, 4), i(4, 6, 2), f(6)"),
    "set_value": (
        "f(5, 4), [0], [2], [1], [0], [], [], [1], [2.5]",
        "f(5, 4), [1, 0], [4, 4], [2, 1], [0, 1], [], [], [1, 4], [1.0, 2.0, 3.0, 4.0]",
        "f(5, 4), [2], [3], [1], [0], [0], [], [1], [2.5]",
        "i(9, 5, 4), [0], [2], [1], [1], [], [], [1], [7]",
    ),
    "set_value_with_tensor": (
        "f(5, 4), f(2, 4), [0], [2], [1], [0], [], []",
        "f(5, 4), f(4), [2], [3], [1], [0], [0], []",
        "f(5, 4), f(1), [1], [5], [2], [0], [], []",
    ),
    "multiplex": ("[f(3, 4), f(3, 4)], t([[0], [1], [0]], 'int32')",),
    "shard_index": ("i(20, 6, 1), 20, 2, 1, -1", "i(20, 6, 1), 20, 3, 0, -1"),
    "segment_pool": tuple(
        f"f(5, 3), t([0, 0, 1, 3, 3]), '{how}'" for how in ("SUM", "MEAN", "MAX", "MIN")
    ),
    "send_u_recv": tuple(
        f"f(4, 3), t([0, 1, 3, 3]), t([1, 1, 3, 0]), '{how}', [0]"
        for how in ("SUM", "MEAN", "MAX", "MIN")
    ),
    "send_ue_recv": tuple(
        f"f(4, 3), f(4, {width}), t([0, 1, 3, 3]), t([1, 1, 3, 0]), '{how}', '{reduce}', [0]"
        for width, how, reduce in ((3, "ADD", "SUM"), (3, "MUL", "MAX"), (1, "MUL", "MEAN"))
    ),
    "send_uv": tuple(
        f"f(4, 3), f(5, 3), t([0, 1, 3, 3]), t([1, 4, 3, 0]), '{how}'" for how in ("ADD", "MUL")
    ),
    # with an ignored class, or places, means and sums of Paddle 3.3 write beyond their memory
    "nll_loss": (
        "f(6, 4), i(4, 6), None, -100, 'mean'",
        "f(6, 4), i(4, 6), p(4), -100, 'mean'",
        "f(6, 4), i(4, 6), p(4), -100, 'sum'",
        "f(6, 4), i(4, 6), None, 1, 'none'",
        "f(2, 4, 3, 5), i(4, 2, 3, 5), p(4), -100, 'mean'",
    ),
    "kldiv_loss": tuple(
        f"f(3, 4), {target}, '{how}', {logs}"
        for target, logs in (("u(3, 4)", False), ("u(3, 4) - 0.5", False), ("f(3, 4)", True))
        for how in ("none", "mean", "sum", "batchmean")
    ),
    "log_loss": ("u(5, 1).astype('float32'), u(5, 1).astype('float32'), 1e-4",),
    "hinge_loss": ("f(5, 1).astype('float32'), t([[0.0], [1.0], [1.0], [0.0], [1.0]], 'float32')",),
    "warpctc": (
        "f(6, 2, 5), t([[1, 2], [3, 3]], 'int32'), t([6, 5]), t([2, 2]), 0, False",
        "f(7, 3, 4), t([[1, 2, 0], [0, 0, 0], [2, 1, 1]], 'int32'), t([7, 4, 6]), t([2, 1, 3]), 3, False",
    ),
    **dict.fromkeys(
        ["legacy.relu", "legacy.relu6", "legacy.sigmoid", "legacy.tanh", "legacy.swish"],
        ("f(3, 4)", "f(3, 4), 'use_cudnn', False"),
    ),
    "legacy.gelu": ("f(3, 4)", "f(3, 4), 'approximate', True"),
    "legacy.softmax": ("f(3, 4)", "f(3, 4, 2), 'axis', 1"),
    "legacy.elementwise_add": ("f(3, 4), f(4)", "f(2, 3, 4), f(3), 'axis', 1"),
}


_MOMENTS = "f(3, 4), f(3, 4), p(1), f(3, 4), p(3, 4), {}, t([0.81], 'float64'), t([0.998], 'float64'), None, None, 0.9, 0.999, 1e-3"
_MERGED = (
    "[f(3, 4), f(5)], [f(3, 4), f(5)], [p(1), p(1)], [f(3, 4), f(5)], [p(3, 4), p(5)], {}, "
    "[t([0.81], 'float64'), t([0.9], 'float64')], [t([0.998], 'float64'), t([0.999], 'float64')], "
    "None, 0.9, 0.999, 1e-3, False"
)
CASES |= {
    "sgd_": ("f(3, 4), p(1), f(3, 4), None, False",),
    "merged_momentum_": (
        (
            "[f(3, 4), f(5)], [f(3, 4), f(5)], [f(3, 4), f(5)], [p(1), p(1)], None, 0.875, True, "
            "['', 'l2_decay'], [0.0, 0.25], False, 1.0"
        ),
    ),
    "merged_adam_": (
        f"{_MERGED.format('None')}, False, False",
        f"{_MERGED.format('[p(3, 4), p(5)]')}, True, True",
    ),
    "momentum_": (
        "f(3, 4), f(3, 4), f(3, 4), p(1), None, 0.875, False, '', 0.0, False, 1.0",
        "f(3, 4), f(3, 4), f(3, 4), p(1), None, 0.875, True, 'l2_decay', 0.25, False, 1.0",
    ),
    "adam_": (
        f"{_MOMENTS.format('None')}, False, 1000, False, False, False",
        f"{_MOMENTS.format('p(3, 4)')}, False, 1000, False, True, True",
    ),
    "adamw_": (
        f"{_MOMENTS.format('None')}, 1.0, 0.25, True, False, 1000, False, False, False",
        f"{_MOMENTS.format('p(3, 4)')}, 1.0, 0.25, True, False, 1000, False, False, True",
        f"{_MOMENTS.format('None')}, 1.0, 0.25, False, False, 1000, False, False, False",
    ),
    "rmsprop_": (
        "f(3, 4), p(3, 4), f(3, 4), f(3, 4), p(1), f(3, 4), None, 2**-10, 0.875, 0.0, False, False",
        "f(3, 4), p(3, 4) + 1, f(3, 4), f(3, 4), p(1), u(3, 4), None, 2**-10, 0.875, 0.5, True, False",
    ),
    "adagrad_": ("f(3, 4), f(3, 4), p(3, 4), p(1), None, 2**-10, False",),
    "adadelta_": ("f(3, 4), f(3, 4), p(3, 4), p(3, 4), p(1), None, 0.875, 2**-10, False",),
    "adamax_": (
        "f(3, 4), f(3, 4), p(1), f(3, 4), p(3, 4), t([0.5], 'float64'), None, 0.875, 0.5, 0.25, False",
    ),
    "nadam_": (
        "f(3, 4), f(3, 4), p(1), p(3, 4), u(3, 4), u(3, 4), f(3, 4), p(3, 4), None, 0.875, 0.75, 2**-10, 0.5, False",
    ),
    "radam_": tuple(
        f"f(3, 4), f(3, 4), p(1), (p(3, 4) * 0 + 1) * {powers[0]}, (p(3, 4) * 0 + 1) * {powers[1]}, (p(3, 4) * 0 + 1) * {rho}, "
        "f(3, 4), p(3, 4), None, 0.875, 0.96875, 2**-10, False"
        for powers, rho in (((0.875, 0.96875), 1.0), ((0.3, 0.72), 9.0))
    ),
    "rprop_": (
        "f(3, 4), f(3, 4), f(3, 4), p(3, 4), None, t([0.5, 0.75], 'float64'), t([0.5, 1.25], 'float64'), False",
    ),
    "asgd_": ("f(3, 4), f(3, 4), p(1), f(3, 4), f(3, 4), t([2.0], 'float64'), None, False",),
    "lamb_": tuple(
        "f(3, 4), f(3, 4), p(1), f(3, 4), p(3, 4), t([0.75], 'float64'), t([0.875], 'float64'), "
        f"None, None, {decay}, 0.75, 0.875, 2**-10, {always}, False"
        for decay, always in ((0.25, False), (0.0, False), (0.0, True))
    ),
}
"""Whole updates. Numbers that kernels take as float32 are chosen such that they are."""
GRADED = {"batch_norm": (0,), "norm": (0,), "cross_entropy_with_softmax": (1,)}
"""The outputs whose gradients Paddle passes on, of operators with others that it drops."""
OTHER_GRADIENTS = (
    ("masked_fill", "", "no gradient arrives at the value"),
    ("group_norm", "None, None", "wrong without scale and bias"),
    ("triangular_solve", "False, True, True", "the diagonal that stands for ones gets a gradient"),
    ("triangular_solve", "False, False, True", "the diagonal that stands for ones gets a gradient"),
    ("cholesky", "", "by convention spread over both triangles"),
    ("cholesky_solve", "", "the triangle that is not read gets a gradient"),
    ("eigvalsh", "", "by convention spread over both triangles"),
    (
        "rnn",
        "t([3, 5], 'int32'), t(0, 'uint8'), 0.0, True",
        "wrong backward, rows of other lengths",
    ),
    ("rnn", "0, True", "none in test mode"),
    ("tensor_unfold", "", "raises"),
    ("batch_norm", "False, True", "as if the statistics of the batch were constants"),
    ("cross_entropy_with_softmax", "u(6, 5), True, True", "right where labels add up to one"),
    ("cross_entropy_with_softmax", "u(2, 5, 3), True", "right where labels add up to one"),
    ("norm", "True", "none in test mode"),
    ("tan", "p(2, 3, 4)", "too near a pole for differences"),
    ("round", "t([", "a step"),
    ("heaviside", "t([", "a step"),
)
"""Rows whose gradients in Paddle 3.3 are not the derivatives: name, part of the case, reason."""

OPAQUE = (
    ("momentum_", "f(3, 4), f(3, 4), f(3, 4), p(1), None, 0.875, False, '', 0.0, False, 0.5"),
    (
        "adamw_",
        f"{_MOMENTS.format('None')}, 0.5, 0.25, True, False, 1000, False, False, False",
    ),
    (
        "pool2d",
        "f(1, 2, 7, 8), [3, 5], [1, 1], [0, 0], False, True, 'NCHW', 'max', False, True, 'EXPLICIT'",
    ),
    (
        "pool2d",
        "f(1, 2, 7, 8), [3, 2], [2, 3], [1, 1], True, False, 'NCHW', 'avg', False, False, 'EXPLICIT'",
    ),
    (
        "conv2d_transpose",
        "f(1, 2, 5, 5), f(2, 3, 3, 3), [2, 2], [0, 0], [], [], 'SAME', 1, [2, 2], 'NCHW'",
    ),
    (
        "trilinear_interp",
        "f(2, 3, 3, 5, 4), None, None, None, 'NCDHW', 5, 8, 3, [], 'trilinear', True, 0",
    ),
    ("set_value", "f(5, 4), [0], [2], [1], [0], [], [0], [1], [2.5]"),
    ("fill_diagonal", "f(6, 3), 1.5, 0, True"),
    ("unique", "i(5, 9), True, True, True, [], paddle.int64"),
    ("histogram", "f(30), None, 7, 0.0, 0.0, True"),
    ("cumsum", "f(3, 4), 1, False, True, False"),
    ("dropout", "f(3, 4), None, 0.3, False, 'upscale_in_train', 0, False"),
)
"""Forms of arguments that rows do not cover."""
