"""Paddle's optimizers, each a single operator.

Formulas of ``paddle/phi/kernels`` (``adam_kernel``, ``adamw_kernel``, ``momentum_kernel``,
``rmsprop_kernel``, ``adagrad_kernel``, ``sgd_kernel``), version 3.3. Kernels hold their settings in
the dtype of the weight. With half-precision weights they change a float32 copy, the last argument
of the tensors, and round it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites.shaping import reshape
from padiff.program.lowering.composites.updates import Moments, adam, momentum, rounded
from padiff.program.lowering.rules import Arguments, Row, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.program.lowering.rules import Rule

__all__ = ["ROWS"]

_Update = tuple[Term, list[Term]]
"""A weight after its update, and what is kept of it."""


def _whole(
    build: Callable[[Builder, Arguments, Term, Term], _Update],
) -> Callable[[Builder, Arguments], list[Term]]:
    """Return a rule that changes the float32 copy where there is one, and rounds it."""

    def rule(b: Builder, a: Arguments) -> list[Term]:
        start = a.param if a.master_param is None else a.master_param
        weight, kept = build(b, a, start, reshape(b, a.learning_rate, ()))
        return [weight, *kept, *([] if a.master_param is None else [weight])]

    return rule


def _merged(rule: Callable[[Builder, Arguments], list[Term]]) -> Rule:
    """Return the rule of an operator that updates many weights, by that for one.

    Args:
        rule: For one weight; each of its results stands in a list of all weights'.
    """

    def merged(b: Builder, a: Arguments) -> list[Term]:
        every = [rule(b, a.at(place, skip_update=None)) for place in range(len(a.param))]
        return [term for terms in zip(*every, strict=True) for term in terms]

    return merged


def _sgd(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    del b
    return weight - a.grad * rate, []


def _momentum(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    if a.rescale_grad != 1:
        raise NotLoweredError("a factor of the gradient, which Paddle's kernel for CPUs leaves out")
    gradient = a.grad
    if a.regularization_method == "l2_decay":
        gradient = gradient + weight * rounded(b, a.regularization_coeff)
    elif a.regularization_method:
        raise NotLoweredError(f"regularization {a.regularization_method!r}")
    weight, velocity = momentum(
        weight,
        gradient,
        a.velocity,
        rate=rate,
        factor=rounded(b, a.mu),
        nesterov=bool(a.use_nesterov),
    )
    return weight, [velocity]


def _adam(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    if a.skip_update is not None:
        raise NotLoweredError("an update that a tensor may forbid")
    before = Moments(mean=a.moment1, square=a.moment2, largest=a.moment2_max if a.amsgrad else None)
    betas = rounded(b, a.beta1), rounded(b, a.beta2)
    powers = a.beta1_pow, a.beta2_pow
    weight, after = adam(
        b,
        weight,
        a.grad,
        before,
        rate=rate,
        betas=betas,
        epsilon=rounded(b, a.epsilon),
        powers=(reshape(b, powers[0], ()), reshape(b, powers[1], ())),
    )
    largest = a.moment2_max if after.largest is None else after.largest
    if not a.use_global_beta_pow:
        powers = powers[0] * betas[0], powers[1] * betas[1]
    return weight, [
        after.mean, after.square, *([] if largest is None else [largest]), *powers,
    ]  # fmt: skip


def _adamw(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    if a.lr_ratio != 1:
        raise NotLoweredError(
            "a factor of the rate, which Paddle's kernel for CPUs half leaves out"
        )
    if a.with_decay:
        weight = weight - weight * (rate * rounded(b, a.coeff))
    return _adam(b, a, weight, rate)


def _rmsprop(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    decay = rounded(b, a.decay)
    square = a.mean_square * decay + a.grad * a.grad * (1.0 - decay)
    under, mean = square, a.mean_grad
    if a.centered:
        mean = a.mean_grad * decay + a.grad * (1.0 - decay)
        under = square - mean * mean
    moment = a.grad * rate / b("sqrt", under + rounded(b, a.epsilon))
    if a.momentum:
        moment = a.moment * rounded(b, a.momentum) + moment
    return weight - moment, [moment, square, *([] if mean is None else [mean])]


def _adagrad(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    moment = a.moment + a.grad * a.grad
    return weight - a.grad * rate / (b("sqrt", moment) + rounded(b, a.epsilon)), [moment]


_MOMENTS = (
    "param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow, beta2_pow, "
    "master_param, skip_update, beta1, beta2, epsilon"
)
_LAZY = (
    "lazy_mode=False, min_row_size_to_use_multithread=1000, multi_precision=False, "
    "use_global_beta_pow=False, amsgrad=False"
)
ROWS: tuple[Row, ...] = (
    row("sgd_", "param, learning_rate, grad, master_param, multi_precision=False", _whole(_sgd)),
    row(
        "momentum_",
        "param, grad, velocity, learning_rate, master_param, mu, use_nesterov=False, "
        "regularization_method='', regularization_coeff=0.0, multi_precision=False, "
        "rescale_grad=1.0",
        _whole(_momentum),
    ),
    row(
        "merged_momentum_",
        "param, grad, velocity, learning_rate, master_param, mu, use_nesterov, "
        "regularization_method, regularization_coeff, multi_precision=False, rescale_grad=1.0",
        _merged(_whole(_momentum)),
    ),
    row("adam_", f"{_MOMENTS}, {_LAZY}", _whole(_adam)),
    row(
        "merged_adam_",
        "param, grad, learning_rate, moment1, moment2, moment2_max, beta1_pow, beta2_pow, "
        "master_param, beta1, beta2, epsilon, multi_precision=False, use_global_beta_pow=False, "
        "amsgrad=False",
        _merged(_whole(_adam)),
    ),
    row("adamw_", f"{_MOMENTS}, lr_ratio, coeff, with_decay, {_LAZY}", _whole(_adamw)),
    row(
        "rmsprop_",
        "param, mean_square, grad, moment, learning_rate, mean_grad, master_param, epsilon, "
        "decay, momentum, centered=False, multi_precision=False",
        _whole(_rmsprop),
    ),
    row(
        "adagrad_",
        "param, grad, moment, learning_rate, master_param, epsilon, multi_precision=False",
        _whole(_adagrad),
    ),
)
