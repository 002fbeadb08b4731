"""Operators of torch that optimizers and clipping run: over lists of tensors, and whole updates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites.shaping import filled, reshape
from padiff.program.lowering.composites.updates import Moments, adam, momentum
from padiff.program.lowering.rules import Arguments, Row, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.program.lowering.rules import Rule


# -- Lists of tensors


def _each(build: Callable[..., Term], *names: str) -> Rule:
    """Return a rule that builds for each tensor of a list.

    Args:
        build: Gets the builder, the tensor, and the other arguments by position.
        names: Of those; each is one thing for all tensors, or a list with one for each.
    """

    def rule(b: Builder, a: Arguments) -> list[Term]:
        others = [getattr(a, name) for name in names]
        return [
            build(b, one, *(part[at] if isinstance(part, tuple) else part for part in others))
            for at, one in enumerate(a.input)
        ]

    return rule


def _primitive(name: str) -> Callable[..., Term]:
    return lambda b, *operands: b(name, *operands)


def _scaled(name: str) -> Callable[..., Term]:
    return lambda b, x, other, alpha: b(name, x, other if alpha == 1 else b("mul", other, alpha))


def _added(name: str) -> Callable[..., Term]:
    return lambda b, x, first, second, value: x + b(name, first, second) * value


def _norm(b: Builder, x: Term, order: Any, dtype: Any) -> Term:
    if dtype is not None:
        raise NotLoweredError("a norm in another dtype")
    return norms.vector_norm(b, x, order, tuple(range(x.ndim)), keepdims=False)


def _unscaled(b: Builder, a: Arguments) -> list[Term]:
    """Build what a gradient scaler does: gradients times a factor, and whether all are finite."""
    found = a.found_inf
    for one in a.input:
        bad = b("or", b("isnan", one), b("isinf", one))
        any_bad = b("any", reshape(b, bad, (one.spec.count,)), axes=(0,), keepdims=False)
        found = b("maximum", found, reshape(b, b("cast", any_bad, kind="float"), found.shape))
    return [*(one * reshape(b, a.inv_scale, ()) for one in a.input), found]


# -- Whole updates: what is changed comes in the order of the arguments, steps as they were.


def _gradient(b: Builder, a: Arguments, at: int) -> Term:
    """Build the gradient that counts.

    Raises:
        NotLoweredError: A scaler's factor or finding is handed to the kernel.
    """
    if a.grad_scale is not None or a.found_inf is not None:
        raise NotLoweredError("a gradient scaler inside the kernel")
    gradient: Term = a.grads[at]
    return b("neg", gradient) if a.maximize else gradient


def _fused_adam(b: Builder, a: Arguments, *, is_decoupled: bool) -> list[Term]:
    """Build ``torch.optim.Adam`` and ``AdamW``, see ``torch/optim/adam.py``."""
    weights, kept = [], []
    for at, start in enumerate(a.input):
        weight, gradient = start, _gradient(b, a, at)
        if a.weight_decay and is_decoupled:
            weight = weight * (1.0 - a.lr * a.weight_decay)
        elif a.weight_decay:
            gradient = gradient + weight * a.weight_decay
        count = reshape(b, a.state_steps[at], ())
        before = Moments(
            mean=a.exp_avgs[at],
            square=a.exp_avg_sqs[at],
            largest=a.max_exp_avg_sqs[at] if a.amsgrad else None,
        )
        weight, after = adam(
            b,
            weight,
            gradient,
            before,
            rate=a.lr,
            betas=(a.beta1, a.beta2),
            epsilon=a.eps,
            powers=(b("pow", float(a.beta1), count), b("pow", float(a.beta2), count)),
        )
        weights.append(weight)
        kept.append(after)
    return [
        *weights,
        *(one.mean for one in kept),
        *(one.square for one in kept),
        *(one.largest for one in kept if one.largest is not None),
        *a.state_steps,
    ]


def _fused_sgd(b: Builder, a: Arguments) -> list[Term]:
    """Build ``torch.optim.SGD``, see ``torch/optim/sgd.py``."""
    weights, velocities = [], []
    for at, weight in enumerate(a.input):
        gradient = _gradient(b, a, at)
        if a.weight_decay:
            gradient = gradient + weight * a.weight_decay
        if not a.momentum:
            weights.append(weight - gradient * a.lr)
            continue
        if a.dampening and not a.is_first_step:
            raise NotLoweredError("a damped velocity")
        before = a.momentum_buffer_list[at]
        if a.is_first_step:  # memory that nobody wrote
            before = filled(b, before.shape, 0.0, before.kind)
        moved, velocity = momentum(
            weight, gradient, before, rate=a.lr, factor=a.momentum, nesterov=a.nesterov
        )
        weights.append(moved)
        velocities.append(velocity)
    return [*weights, *velocities]


def _fused_adagrad(b: Builder, a: Arguments) -> list[Term]:
    """Build ``torch.optim.Adagrad``, see ``torch/optim/adagrad.py``."""
    weights, sums = [], []
    for at, weight in enumerate(a.input):
        gradient = _gradient(b, a, at)
        if a.weight_decay:
            gradient = gradient + weight * a.weight_decay
        total = a.state_sums[at] + gradient * gradient
        count = reshape(b, a.state_steps[at], ())
        rate = b("div", a.lr, (count - 1.0) * float(a.lr_decay) + 1.0)
        weights.append(weight - gradient / (b("sqrt", total) + a.eps) * rate)
        sums.append(total)
    return [*weights, *sums, *a.state_steps]


_SCALER = "grad_scale=None, found_inf=None"
_ADAM = (
    "input, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *, lr, beta1, beta2, "
    f"weight_decay, eps, amsgrad, maximize, {_SCALER}"
)


def _foreach(name: str, signature: str, build: Callable[..., Term], *others: str) -> Row:
    return row(f"_foreach_{name} _foreach_{name}_", signature, _each(build, *others))


ROWS: tuple[Row, ...] = (
    *(
        _foreach(name, "input, other, alpha=1", _scaled(name), "other", "alpha")
        for name in ("add", "sub")
    ),
    *(
        _foreach(name, "input, other", _primitive(primitive), "other")
        for name, primitive in {
            "mul": "mul", "div": "div", "pow": "pow", "maximum": "maximum", "minimum": "minimum",
            "clamp_min": "maximum", "clamp_max": "minimum",
        }.items()
    ),
    *(
        _foreach(name, "input", _primitive(name))
        for name in ("sqrt", "neg", "abs", "exp", "sign")
    ),
    _foreach("reciprocal", "input", lambda b, x: b("div", 1.0, x)),
    _foreach("rsqrt", "input", lambda b, x: b("div", 1.0, b("sqrt", x))),
    *(
        _foreach(
            f"addc{name}", "input, tensor1, tensor2, value=1", _added(name),
            "tensor1", "tensor2", "value",
        )
        for name in ("mul", "div")
    ),
    _foreach(
        "lerp", "input, end, weight", lambda b, x, end, weight: x + (end - x) * weight,
        "end", "weight",
    ),
    row("_foreach_norm", "input, ord=2, dtype=None", _each(_norm, "ord", "dtype")),
    row("_foreach_zero_", "input", _each(lambda b, x: filled(b, x.shape, 0.0, x.kind))),
    row(
        "_foreach_copy_", "input, source, non_blocking=False",
        _each(lambda b, x, source: b("cast", source, kind=x.kind.value), "source"),
    ),
    row(
        "_amp_foreach_non_finite_check_and_unscale_", "input, found_inf, inv_scale", _unscaled
    ),
    row("_fused_adam_", _ADAM, partial(_fused_adam, is_decoupled=False)),
    row("_fused_adamw_", _ADAM, partial(_fused_adam, is_decoupled=True)),
    row(
        "_fused_sgd_",
        "input, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, "
        f"maximize, is_first_step, {_SCALER}",
        _fused_sgd,
    ),
    row(
        "_fused_adagrad_",
        "input, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, eps, maximize, "
        f"{_SCALER}",
        _fused_adagrad,
    ),
)  # fmt: skip
