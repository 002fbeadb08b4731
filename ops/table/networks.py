"""Layers: convolutions, pools, norms, attention, images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.ops.cases import Argument, Fill, Tensor

from .row import Row, row

if TYPE_CHECKING:
    from .draw import Draw
    from .row import Arguments, Strategy

_NORMAL = (Fill.NORMAL, Fill.SMALL)
_X = "input:x"


def _convolution(axes: int, *, is_transposed: bool = False) -> Strategy:
    """Draw an image of some axes and a weight that fits."""

    def drawn(draw: Draw) -> Arguments:
        dtype, groups = draw.float_dtype(), draw.integer(1, 2)
        out, inside = groups * draw.integer(1, 2), draw.integer(1, 2)
        kernel = tuple(draw.integer(1, 3) for _ in range(axes))
        image = tuple(draw.integer(4, 6) for _ in range(axes))
        channels = inside * groups
        weight = (channels, out // groups) if is_transposed else (out, inside)
        found: dict[str, Argument] = {
            "input": draw.tensor((draw.integer(1, 2), channels, *image), dtype, fills=_NORMAL),
            "weight": draw.tensor((*weight, *kernel), dtype, fills=_NORMAL),
        }
        if draw.flag():
            found["bias"] = draw.tensor((out,), dtype, fills=_NORMAL)
        draw.optional(found, "stride", (1, 2))
        paddings: tuple[Argument, ...] = (0, 1)
        if not is_transposed and "stride" not in found:
            paddings = (0, 1, "same", "valid")
        draw.optional(found, "padding", paddings)
        dilation = draw.integer(1, 2)
        if dilation > 1 and all(
            dilation * (one - 1) < size for one, size in zip(kernel, image, strict=True)
        ):
            found["dilation"] = dilation
        if groups > 1:
            found["groups"] = groups
        return found

    return drawn


def _image(draw: Draw, axes: int, *, least: int = 4) -> Tensor:
    shape = (draw.integer(1, 2), draw.integer(1, 3), *(draw.integer(least, 6) for _ in range(axes)))
    return draw.tensor(shape, draw.float_dtype(), fills=(Fill.NORMAL,))


def _pool(axes: int, *, is_average: bool = False, has_divisor: bool = False) -> Strategy:
    def drawn(draw: Draw) -> Arguments:
        kernel = draw.integer(1, 3)
        found: dict[str, Argument] = {"input": _image(draw, axes), "kernel_size": kernel}
        if not is_average and draw.flag():
            tensor = found["input"]
            assert isinstance(tensor, Tensor)
            found["input"] = draw.tensor(tensor.shape, tensor.dtype)
        draw.optional(found, "stride", (1, 2))
        if kernel > 1:
            draw.optional(found, "padding", (1, 0))
        draw.optional(found, "ceil_mode", (True, False))
        if is_average:
            draw.optional(found, "count_include_pad", (False, True))
        if has_divisor:
            draw.optional(found, "divisor_override", (3,))
        return found

    return drawn


def _adaptive(axes: int) -> Strategy:
    def drawn(draw: Draw) -> Arguments:
        size = draw.integer(1, 4) if axes == 1 else tuple(draw.integer(1, 4) for _ in range(axes))
        return {"input": _image(draw, axes), "output_size": size}

    return drawn


def _lp_pool(draw: Draw) -> Arguments:
    return {
        "input": draw.tensor((1, draw.integer(1, 2), 4, 5), draw.float_dtype(), low=0.1),
        "norm_type": draw.choice((2.0, 1.0, 3.0)),
        "kernel_size": draw.integer(1, 3),
        "stride": draw.integer(1, 2),
    }


def _weights(draw: Draw, found: dict[str, Argument], shape: tuple[int, ...], dtype: str) -> None:
    """Add a weight and a bias, or neither, or one of them."""
    for name in ("weight", "bias"):
        if draw.flag():
            found[name] = draw.tensor(shape, dtype, fills=_NORMAL)


def _layer_norm(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), (draw.size(1), *draw.shape(1, 3, smallest=2))
    normalized = shape[draw.integer(1, len(shape) - 1) :]
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, dtype, fills=(Fill.NORMAL,)),
        "normalized_shape": normalized,
    }
    _weights(draw, found, normalized, dtype)
    draw.optional(found, "eps", (1e-5, 1e-3))
    return found


def _group_norm(draw: Draw) -> Arguments:
    dtype, groups = draw.float_dtype(), draw.integer(1, 3)
    channels = groups * draw.integer(1, 2)
    shape = (draw.integer(1, 2), channels, *draw.shape(1, 2, smallest=2))
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, dtype, fills=(Fill.NORMAL,)),
        "num_groups": groups,
    }
    _weights(draw, found, (channels,), dtype)
    draw.optional(found, "eps", (1e-3, 1e-5))
    return found


def _instance_norm(draw: Draw) -> Arguments:
    dtype, channels = draw.float_dtype(), draw.integer(1, 3)
    shape = (draw.integer(1, 2), channels, *draw.shape(1, 2, smallest=2))
    found: dict[str, Argument] = {"input": draw.tensor(shape, dtype, fills=(Fill.NORMAL,))}
    _weights(draw, found, (channels,), dtype)
    draw.optional(found, "eps", (1e-3, 1e-5))
    return found


def _batch_norm(draw: Draw) -> Arguments:
    dtype, channels = draw.float_dtype(), draw.integer(1, 3)
    shape = (draw.integer(2, 3), channels, *draw.shape(0, 2, smallest=2))
    own = (channels,)
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, dtype, fills=(Fill.NORMAL,)),
        "running_mean": draw.tensor(own, dtype, fills=_NORMAL, takes_gradient=False),
        "running_var": draw.tensor(own, dtype, low=0.1, takes_gradient=False),
    }
    _weights(draw, found, own, dtype)
    draw.optional(found, "training", (True, False))
    draw.optional(found, "eps", (1e-3, 1e-5))
    return found


def _rms_norm(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), (draw.size(1), *draw.shape(1, 2, smallest=2))
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, dtype, fills=(Fill.NORMAL,)),
        "normalized_shape": shape[1:],
        "eps": 1e-5,
    }
    if draw.flag():
        found["weight"] = draw.tensor(shape[1:], dtype, fills=_NORMAL)
    return found


def _local_response(draw: Draw) -> Arguments:
    found: dict[str, Argument] = {"input": _image(draw, 2), "size": draw.integer(1, 4)}
    draw.optional(found, "alpha", (0.1,))
    draw.optional(found, "beta", (0.5,))
    draw.optional(found, "k", (2.0,))
    return found


def _normalize(draw: Draw) -> Arguments:
    shape = draw.shape(1, 3, smallest=2)
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, draw.float_dtype(), fills=(Fill.NORMAL,)),
        "dim": draw.axis(len(shape)),
    }
    draw.optional(found, "p", (2.0, 1.0, 3.0))
    return found


def _interpolate(draw: Draw) -> Arguments:
    mode = draw.choice(("nearest", "bilinear", "bicubic", "area"))
    found: dict[str, Argument] = {
        "input": _image(draw, 2, least=2),
        "size": (draw.integer(1, 6), draw.integer(1, 6)),
        "mode": mode,
    }
    if mode.startswith("bi"):
        draw.optional(found, "align_corners", (True, False))
    return found


def _grid_sample(draw: Draw) -> Arguments:
    image = _image(draw, 2, least=2)
    shape = (image.shape[0], draw.integer(1, 3), draw.integer(1, 3), 2)
    found: dict[str, Argument] = {
        "input": image,
        "grid": draw.tensor(shape, image.dtype, low=-1.2, high=1.2, fills=(Fill.NORMAL,)),
        "align_corners": draw.flag(),
    }
    draw.optional(found, "mode", ("bilinear", "nearest"))
    draw.optional(found, "padding_mode", ("zeros", "border", "reflection"))
    return found


def _affine_grid(draw: Draw) -> Arguments:
    batch = draw.integer(1, 2)
    return {
        "theta": draw.tensor((batch, 2, 3), draw.float_dtype(), fills=_NORMAL),
        "size": (batch, 1, draw.integer(1, 4), draw.integer(1, 4)),
        "align_corners": draw.flag(),
    }


def _unfold(draw: Draw) -> Arguments:
    found: dict[str, Argument] = {"input": _image(draw, 2), "kernel_size": draw.integer(1, 3)}
    draw.optional(found, "padding", (1, 0))
    draw.optional(found, "stride", (2, 1))
    return found


def _fold(draw: Draw) -> Arguments:
    kernel, high, wide = draw.integer(1, 2), draw.integer(2, 4), draw.integer(2, 4)
    count = (high - kernel + 1) * (wide - kernel + 1)
    shape = (draw.integer(1, 2), draw.integer(1, 2) * kernel * kernel, count)
    tensor = draw.tensor(shape, draw.float_dtype(), fills=_NORMAL)
    return {"input": tensor, "output_size": (high, wide), "kernel_size": kernel}


def _attention(draw: Draw) -> Arguments:
    batch, heads, queries, keys, width = (draw.integer(1, 3) for _ in range(5))
    causal = draw.flag()
    keys = queries if causal else keys
    found: dict[str, Argument] = {
        name: draw.tensor((batch, heads, length, width), "float32", fills=_NORMAL)
        for name, length in (("query", queries), ("key", keys), ("value", keys))
    }
    if causal:
        found["is_causal"] = True
    elif draw.flag():
        shape = (batch, heads, queries, keys)
        found["attn_mask"] = draw.tensor(shape, "float32", fills=_NORMAL, takes_gradient=False)
    return found


def _dropout(draw: Draw) -> Arguments:
    return {
        "input": draw.tensor(draw.shape(), draw.float_dtype(), fills=_NORMAL),
        "p": draw.choice((0.0, 0.5)),
        "training": False,
    }


def _nothing_counted(one: Argument) -> Argument:
    return not one


def _pooled(arguments: dict[str, Argument]) -> dict[str, Argument]:
    """Count padding as torch does where nothing else is said."""
    return {"count_include_pad": True, **arguments}


_TURNED = "x.transpose([0, 2, 1, 3])"

ROWS: tuple[Row, ...] = (
    *(row(f"F.conv{axes}d", "", _X, _convolution(axes)) for axes in (1, 2, 3)),
    *(
        row(
            f"F.conv_transpose{axes}d",
            f"F.conv{axes}d_transpose",
            _X,
            _convolution(axes, is_transposed=True),
            note="groups and dilation stand in another order: names only",
        )
        for axes in (1, 2, 3)
    ),
    *(
        row(f"F.max_pool{axes}d", "", _X, _pool(axes), note="Paddle has no dilation")
        for axes in (1, 2, 3)
    ),
    *(
        row(
            f"F.avg_pool{axes}d",
            "",
            "input:x count_include_pad:exclusive",
            _pool(axes, is_average=True, has_divisor=axes > 1),
            values={"count_include_pad": _nothing_counted},
            changes=_pooled,
            note="Paddle leaves padding out of the mean, torch counts it",
        )
        for axes in (1, 2, 3)
    ),
    *(row(f"F.adaptive_avg_pool{axes}d", "", _X, _adaptive(axes)) for axes in (1, 2, 3)),
    *(row(f"F.adaptive_max_pool{axes}d", "", _X, _adaptive(axes)) for axes in (1, 2, 3)),
    row("F.lp_pool2d", "", _X, _lp_pool),
    row(
        "F.layer_norm",
        "",
        "input:x eps:epsilon",
        _layer_norm,
        wrapped={"weight": "x.flatten()", "bias": "x.flatten()"},
        note="weight and bias have one axis in Paddle",
    ),
    row("F.group_norm", "", "input:x eps:epsilon", _group_norm),
    row("F.instance_norm", "", _X, _instance_norm),
    row(
        "F.batch_norm",
        "",
        "input:x eps:epsilon",
        _batch_norm,
        note="momentum is 1 - momentum; the running variance is biased in Paddle",
    ),
    row("F.rms_norm", "", "", _rms_norm),
    row("F.local_response_norm", "", _X, _local_response),
    row("F.normalize", "", "input:x dim:axis", _normalize),
    row("F.interpolate", "", _X, _interpolate),
    row("F.grid_sample", "", _X, _grid_sample),
    row("F.affine_grid", "", "size:out_shape", _affine_grid),
    row(
        "F.unfold",
        "",
        "input:x kernel_size:kernel_sizes dilation:dilations padding:paddings stride:strides",
        _unfold,
    ),
    row("F.fold", "", "input:x output_size:output_sizes kernel_size:kernel_sizes", _fold),
    row(
        "F.scaled_dot_product_attention",
        "",
        "",
        _attention,
        wrapped={"query": _TURNED, "key": _TURNED, "value": _TURNED},
        paddle_taken="out.transpose([0, 2, 1, 3])",
        note="heads before the sequence in torch, behind it in Paddle",
    ),
    row("F.dropout", "", _X, _dropout, note="only where it does nothing"),
)
