"""Paddle's optimizers, each a single operator.

Formulas of ``paddle/phi/kernels`` (``adam_kernel``, ``adamw_kernel``, ``momentum_kernel``,
``rmsprop_kernel``, ``adagrad_kernel``, ``sgd_kernel``, ``adadelta_kernel``, ``adamax_kernel``,
``nadam_kernel``, ``radam_kernel``, ``rprop_kernel``, ``asgd_kernel``, ``lamb_kernel``), version
3.3. Kernels hold their settings in
the dtype of the weight. With half-precision weights they change a float32 copy, the last argument
of the tensors, and round it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites.shaping import reshape, unbind
from padiff.program.lowering.composites.updates import Moments, adam, momentum
from padiff.program.lowering.rules import Arguments, Row, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.program.lowering.rules import Rule

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
        gradient = gradient + weight * a.regularization_coeff
    elif a.regularization_method:
        raise NotLoweredError(f"regularization {a.regularization_method!r}")
    weight, velocity = momentum(
        weight,
        gradient,
        a.velocity,
        rate=rate,
        factor=a.mu,
        nesterov=bool(a.use_nesterov),
    )
    return weight, [velocity]


def _adam(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    if a.skip_update is not None:
        raise NotLoweredError("an update that a tensor may forbid")
    before = Moments(mean=a.moment1, square=a.moment2, largest=a.moment2_max if a.amsgrad else None)
    betas = a.beta1, a.beta2
    powers = a.beta1_pow, a.beta2_pow
    weight, after = adam(
        b,
        weight,
        a.grad,
        before,
        rate=rate,
        betas=betas,
        epsilon=a.epsilon,
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
        weight = weight - weight * (rate * a.coeff)
    return _adam(b, a, weight, rate)


def _rmsprop(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    decay = b.term(a.decay)
    square = a.mean_square * decay + a.grad * a.grad * (1.0 - decay)
    under, mean = square, a.mean_grad
    if a.centered:
        mean = a.mean_grad * decay + a.grad * (1.0 - decay)
        under = square - mean * mean
    moment = a.grad * rate / b("sqrt", under + a.epsilon)
    if a.momentum:
        moment = a.moment * a.momentum + moment
    return weight - moment, [moment, square, *([] if mean is None else [mean])]


def _adagrad(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    moment = a.moment + a.grad * a.grad
    return weight - a.grad * rate / (b("sqrt", moment) + a.epsilon), [moment]


def _adadelta(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    rho, epsilon = b.term(a.rho), a.epsilon
    squares = a.avg_squared_grad * rho + a.grad * a.grad * (1.0 - rho)
    ratio = (a.avg_squared_update + epsilon) / (squares + epsilon)
    update = a.grad * b("sqrt", ratio)
    moved = a.avg_squared_update * rho + update * update * (1.0 - rho)
    return weight - update * rate, [squares, moved]


def _averages(b: Builder, a: Arguments) -> tuple[Term, Term]:
    """Build the moving averages of the gradient and of its square."""
    first, second = b.term(a.beta1), b.term(a.beta2)
    mean = a.moment1 * first + a.grad * (1.0 - first)
    return mean, a.moment2 * second + a.grad * a.grad * (1.0 - second)


def _adamax(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    first = b.term(a.beta1)
    mean = a.moment * first + a.grad * (1.0 - first)
    before = a.inf_norm * a.beta2 + a.epsilon
    largest = b("maximum", b("abs", a.grad), before)
    rate = rate / (1.0 - reshape(b, a.beta1_pow, ()))
    return weight - mean / largest * rate, [mean, largest]


_NADAM_DECAY = 0.96
"""Source: Dozat, Incorporating Nesterov Momentum into Adam, section 3; a constant of the kernel."""


def _nadam(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    """Build the update; powers and products are kept for each element, all the same."""
    first, decay = b.term(a.beta1), _NADAM_DECAY
    decays = a.momentum_decay_pow * decay
    squares = a.beta2_pow * a.beta2
    share = b("pow", decays, a.momentum_decay) * 0.5
    now = first * (1.0 - share)
    following = first * (1.0 - share * b("pow", decay, a.momentum_decay))
    product = a.mu_product * now
    mean, square = _averages(b, a)
    ahead = mean * (following / (1.0 - product * following))
    ahead = ahead + a.grad * ((1.0 - now) / (1.0 - product))
    below = b("sqrt", square / (1.0 - squares)) + a.epsilon
    return weight - ahead / below * rate, [decays, squares, product, mean, square]


_RECTIFIED_FROM = 5.0
"""Source: Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, as frameworks have
it: the paper says 4."""


def _radam(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    """Build the update; powers and lengths are kept for each element, all the same."""
    second = b.term(a.beta2)
    firsts, squares = a.beta1_pow * a.beta1, a.beta2_pow * second
    rho = (a.rho * (second - squares) + squares) / (1.0 - squares)
    limit = 2.0 / (1.0 - second) - 1.0
    mean, square = _averages(b, a)
    unbiased = mean / (1.0 - firsts)
    length = limit - rho * 2.0
    share = (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length)
    is_rectified = length > _RECTIFIED_FROM
    root = b("sqrt", b("where", is_rectified, share * (1.0 - squares), 1.0))
    scale = b("where", is_rectified, root / (b("sqrt", square) + a.epsilon), 1.0)
    return weight - unbiased * scale * rate, [firsts, squares, rho, mean, square]


def _rprop(b: Builder, a: Arguments) -> list[Term]:
    start = a.param if a.master_param is None else a.master_param
    least, most = unbind(b, reshape(b, a.learning_rate_range, (2,)), 0)
    smaller, larger = unbind(b, reshape(b, a.etas, (2,)), 0)
    both = a.grad * a.prev
    turned, kept = both < 0, both > 0
    rate = a.learning_rate * b("where", turned, smaller, b("where", kept, larger, 1.0))
    rate = b("minimum", b("maximum", rate, least), most)
    gradient = b("where", turned, 0.0, a.grad)
    weight = start - b("sign", gradient) * rate
    return [weight, gradient, rate, *([] if a.master_param is None else [weight])]


def _asgd(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    summed = a.d - a.y + a.grad
    return weight - summed * (rate / reshape(b, a.n, ())), [summed, a.grad * 1.0]


def _lamb(b: Builder, a: Arguments, weight: Term, rate: Term) -> _Update:
    if a.skip_update is not None:
        raise NotLoweredError("an update that a tensor may forbid")
    mean, square = _averages(b, a)
    corrections = [1.0 - reshape(b, power, ()) for power in (a.beta1_pow, a.beta2_pow)]
    root = b("sqrt", square / corrections[1]) + a.epsilon
    update = mean / corrections[0] / root + weight * a.weight_decay
    if a.weight_decay > 0 or a.always_adapt:
        axes = tuple(range(len(weight.spec.shape)))
        sizes = [
            b("sqrt", b("sum", one * one, axes=axes, keepdims=False)) for one in (weight, update)
        ]
        is_there = b("and", sizes[0] > 0, sizes[1] > 0)
        rate = rate * b("where", is_there, sizes[0] / sizes[1], 1.0)
    powers = [a.beta1_pow * a.beta1, a.beta2_pow * a.beta2]
    return weight - update * rate, [mean, square, *powers]


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
    row(
        "adadelta_",
        "param, grad, avg_squared_grad, avg_squared_update, learning_rate, master_param, rho, "
        "epsilon, multi_precision=False",
        _whole(_adadelta),
    ),
    row(
        "adamax_",
        "param, grad, learning_rate, moment, inf_norm, beta1_pow, master_param, beta1, beta2, "
        "epsilon, multi_precision=False",
        _whole(_adamax),
    ),
    row(
        "nadam_",
        "param, grad, learning_rate, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2, "
        "master_param, beta1, beta2, epsilon, momentum_decay, multi_precision=False",
        _whole(_nadam),
    ),
    row(
        "radam_",
        "param, grad, learning_rate, beta1_pow, beta2_pow, rho, moment1, moment2, master_param, "
        "beta1, beta2, epsilon, multi_precision=False",
        _whole(_radam),
    ),
    row(
        "rprop_",
        "param, grad, prev, learning_rate, master_param, learning_rate_range, etas, "
        "multi_precision=False",
        _rprop,
    ),
    row(
        "asgd_",
        "param, grad, learning_rate, d, y, n, master_param, multi_precision=False",
        _whole(_asgd),
    ),
    row(
        "lamb_",
        "param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow, master_param, "
        "skip_update, weight_decay, beta1, beta2, epsilon, always_adapt=False, "
        "multi_precision=False",
        _whole(_lamb),
    ),
)
