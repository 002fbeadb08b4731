"""Layers of torch: linear, norms, attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites.activations import dropout
from padiff.program.lowering.composites.attention import attention
from padiff.program.lowering.composites.shaping import moments, reshape, squeeze, swap
from padiff.program.lowering.rules import Arguments, Result, Row, row

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term


def _linear(b: Builder, a: Arguments) -> Term:
    x, weight = a.input, a.weight
    if weight.ndim == 1:
        weight = reshape(b, weight, (1, -1))
    flat = reshape(b, x, (1, -1)) if x.ndim == 1 else x
    result = flat @ swap(b, weight, 0, 1)
    shape = (*x.shape[:-1], *a.weight.shape[:-1])
    result = reshape(b, result, shape)
    return result if a.bias is None else result + a.bias


def _layer_norm(b: Builder, a: Arguments) -> Term:
    affine = (a.weight, a.bias)
    return norms.layer_norm(b, a.input, len(a.normalized_shape), affine, a.eps)


def _with_moments(b: Builder, a: Arguments) -> Result:
    """Return a layer norm with the mean and the reciprocal of the deviation that it used."""
    axes = tuple(range(a.input.ndim - len(a.normalized_shape), a.input.ndim))
    mean, _, variance = moments(b, a.input, axes)
    return _layer_norm(b, a), mean, _reciprocal_root(b, variance, a.eps)


def _group_norm(b: Builder, a: Arguments) -> Term:
    return norms.group_norm(b, a.input, a.num_groups, (a.weight, a.bias), a.eps)


def _group_norm_with_moments(b: Builder, a: Arguments) -> Result:
    inner = reshape(b, a.input, (a.N, a.num_groups, -1))
    mean, _, variance = moments(b, inner, (2,))
    root = _reciprocal_root(b, variance, a.eps)
    return _group_norm(b, a), squeeze(b, mean, (2,)), squeeze(b, root, (2,))


def _reciprocal_root(b: Builder, variance: Term, epsilon: float) -> Term:
    return 1.0 / b("sqrt", variance + float(epsilon))


def _rms_norm(b: Builder, a: Arguments) -> Term:
    """Normalise; without an epsilon it is that of the dtype that kernels compute in."""
    epsilon = a.eps
    if epsilon is None:
        epsilon = 2.0**-52 if b.dtype == "float64" else 2.0**-23
    return norms.rms_norm(b, a.input, len(a.normalized_shape), (a.weight, None), epsilon)


def _batch_norm(b: Builder, a: Arguments) -> Result:
    """Normalise each channel; running statistics that were written are results, too."""
    statistics = None if a.training else (a.running_mean, a.running_var)
    result = norms.batch_norm(b, a.input, statistics, (a.weight, a.bias), a.eps)
    if len(b.expected) == 1 or not a.training:
        return result
    return (result, *_running(b, a, *norms.channel_moments(b, a.input)))


def _batch_norm_with_moments(b: Builder, a: Arguments) -> Result:
    """Return a batch norm, what its backward pass reads, and running statistics behind it."""
    result = norms.batch_norm(
        b,
        a.input,
        None if a.training else (a.running_mean, a.running_var),
        (a.weight, a.bias),
        a.eps,
    )
    rest = len(b.expected) - 3
    if not a.training:
        return [result, None, None, *(None for _ in range(rest))]
    mean, variance = norms.channel_moments(b, a.input)
    found: list[Term | None] = [result, mean, _reciprocal_root(b, variance, a.eps)]
    if rest:
        found += [None] * (rest - 2) + [*_running(b, a, mean, variance)]
    return found


def _running(b: Builder, a: Arguments, mean: Term, variance: Term) -> tuple[Term, Term]:
    """Return running statistics after a batch; the variance that goes in is the unbiased one."""
    count = a.input.spec.count // a.input.shape[1]
    share = float(a.momentum)
    unbiased = variance * (count / (count - 1))
    return (
        mean * share + a.running_mean * (1 - share),
        unbiased * share + a.running_var * (1 - share),
    )


def _instance_norm(b: Builder, a: Arguments) -> Result:
    x, affine = a.input, (a.weight, a.bias)
    if not a.use_input_stats:
        return norms.batch_norm(b, x, (a.running_mean, a.running_var), affine, a.eps)
    result = norms.group_norm(b, x, x.shape[1], affine, a.eps)
    extra: list[Term | None] = [None] * (len(b.expected) - 1)
    return [result, *extra]


def _weight_norm(b: Builder, a: Arguments) -> Term:
    """Return v with the length g along one axis, or as a whole; torch says -1 for that."""
    axes = tuple(axis for axis in range(a.v.ndim) if a.dim == -1 or axis != a.dim)
    return a.v * (a.g / norms.vector_norm(b, a.v, 2, axes, keepdims=True))


def _attention_with_sums(b: Builder, a: Arguments) -> Result:
    return [_attention(b, a), *(None for _ in b.expected[1:])]


def _attention(b: Builder, a: Arguments) -> Term:
    def drop(weights: Term) -> Term:
        return dropout(b, weights, a.drawn, a.dropout_p) if a.dropout_p else weights

    return attention(
        b,
        (a.query, a.key, a.value),
        a.attn_mask,
        causal=a.is_causal,
        scale=a.scale,
        grouped=a.enable_gqa,
        drop=drop,
    )


ROWS: tuple[Row, ...] = (
    row("F.linear", "input, weight, bias=None", _linear),
    row("F.layer_norm", "input, normalized_shape, weight=None, bias=None, eps=1e-05", _layer_norm),
    row(
        "layer_norm",
        "input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True",
        _layer_norm,
    ),
    row("F.rms_norm rms_norm", "input, normalized_shape, weight=None, eps=None", _rms_norm),
    row(
        "F.group_norm",
        "input, num_groups, weight=None, bias=None, eps=1e-05",
        _group_norm,
    ),
    row(
        "group_norm",
        "input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True",
        _group_norm,
    ),
    row("native_layer_norm", "input, normalized_shape, weight, bias, eps", _with_moments),
    row(
        "native_group_norm",
        "input, weight, bias, N, C, HxW, num_groups, eps",
        _group_norm_with_moments,
    ),
    row(
        "batch_norm",
        "input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled",
        _batch_norm,
    ),
    row(
        "native_batch_norm _native_batch_norm_legit aten._native_batch_norm_legit_functional",
        "input, weight, bias, running_mean, running_var, training, momentum, eps",
        _batch_norm_with_moments,
    ),
    row(
        "aten._native_batch_norm_legit.no_stats",
        "input, weight, bias, training, momentum, eps, *, running_mean=None, running_var=None",
        _batch_norm_with_moments,
    ),
    row(
        "_native_batch_norm_legit_no_training",
        "input, weight, bias, running_mean, running_var, momentum, eps, *, training=False",
        _batch_norm_with_moments,
    ),
    row(
        "F.batch_norm",
        "input, running_mean, running_var, weight=None, bias=None, "
        "training=False, momentum=0.1, eps=1e-05",
        _batch_norm,
    ),
    row(
        "F.instance_norm",
        "input, running_mean=None, running_var=None, weight=None, bias=None, "
        "use_input_stats=True, momentum=0.1, eps=1e-05",
        _instance_norm,
    ),
    row(
        "instance_norm",
        "input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, "
        "cudnn_enabled",
        _instance_norm,
    ),
    row(
        "F.local_response_norm",
        "input, size, alpha=0.0001, beta=0.75, k=1.0",
        lambda b, a: norms.local_response_norm(b, a.input, a.size, a.alpha, a.beta, a.k),
    ),
    row(
        "F.normalize",
        "input, p=2.0, dim=1, eps=1e-12",
        lambda b, a: norms.normalize(b, a.input, a.p, a.dim, a.eps),
    ),
    row("_weight_norm", "v, g, dim=0", _weight_norm),
    row(
        "F.scaled_dot_product_attention",
        "query, key, value, attn_mask=None, dropout_p=0.0, "
        "is_causal=False, scale=None, enable_gqa=False, *, drawn=None",
        _attention,
    ),
    row(
        "_scaled_dot_product_flash_attention_for_cpu",
        "query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None, "
        "enable_gqa=False, drawn=None",
        _attention_with_sums,
    ),
)
