"""PaddlePaddle's optimizers and schedules, as padiff sees them.

Paddle facts that shape this file: what an optimizer keeps is found by the parameter's unique name
(``linear_0.w_0``); a group's ``learning_rate`` is a factor of the optimizer's; an optimizer made
with ``grad_clip`` may clip ``parameter.grad`` in place, and clips each parameter group by itself;
schedules live inside the optimizer.

What they do anywhere in the process is watched, too. Optimizers have no hooks, and each class may
bring its own ``step`` or ``minimize``: all classes that there are get a patch, later ones when the
first optimizer of them is made.
"""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager
from inspect import getattr_static
from typing import TYPE_CHECKING, Any

import paddle
from paddle import nn
from paddle.amp.grad_scaler import AmpScaler, GradScaler
from paddle.distributed.fleet.meta_parallel.pipeline_parallel import PipelineParallel
from paddle.distributed.fleet.utils.mix_precision_utils import MixPrecisionOptimizer
from paddle.optimizer.lr import LRScheduler

from padiff.dumper.trainer import Trainer
from padiff.dumper.watch import Handles, Patch, ScaledLosses, Watch, watch_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Handle, Model, Module, Tensor
    from padiff.dumper.trainer import Optimizer
    from padiff.dumpfile import JSON


_UPDATES = ("step", "minimize")
"""The methods by which an optimizer changes parameters."""

_WORDS = {
    "beta1": "beta1",
    "beta2": "beta2",
    "epsilon": "eps",
    "momentum": "momentum",
    "use_nesterov": "nesterov",
    "rho": "alpha",
    "centered": "centered",
    "amsgrad": "amsgrad",
    "momentum_decay": "momentum_decay",
}
"""Options of Paddle's optimizers, and what torch calls them."""

_DROPOUTS = (nn.Dropout, nn.Dropout2D, nn.Dropout3D, nn.AlphaDropout)


class _Wrapped:
    """Methods of one optimizer that call back first; Paddle's optimizers have no hooks."""

    def __init__(self, optimizer: Optimizer, before: Callable[[], None]) -> None:
        self._optimizer = optimizer
        self._busy = False
        self._before = before
        self._earlier = {
            name: vars(optimizer)[name] for name in _UPDATES if name in vars(optimizer)
        }
        for name in _UPDATES:
            if hasattr(optimizer, name):
                setattr(optimizer, name, self._wrapped(getattr(optimizer, name)))

    def remove(self) -> None:
        for name in _UPDATES:
            self._optimizer.__dict__.pop(name, None)
        self._optimizer.__dict__.update(self._earlier)

    def _wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            if self._busy:  # one of them calls the other
                return method(*args, **kwargs)
            self._busy = True
            try:
                self._before()
                return method(*args, **kwargs)
            finally:
                self._busy = False

        return called


class _HandOn(paddle.autograd.PyLayer):
    """Has the value of one tensor and passes its gradient to another."""

    @staticmethod
    def forward(ctx: object, own: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """Return a new tensor; ``make`` hides its source, which takes no gradient."""
        del ctx, own
        return make()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        """Pass the gradient on as it is."""
        del ctx
        return gradient


class PaddleTrainer(Trainer):
    """The training side of ``paddle``."""

    def is_optimizer(self, thing: object) -> bool:
        """Return whether this is a ``paddle.optimizer.Optimizer``, or fleet's wrapper of one."""
        while hasattr(thing, "_inner_opt"):
            thing = thing._inner_opt
        return isinstance(thing, paddle.optimizer.Optimizer)

    def is_optimizer_class(self, thing: object) -> bool:
        """Return whether this is an optimizer class."""
        return isinstance(thing, type) and issubclass(thing, paddle.optimizer.Optimizer)

    def make_optimizer(
        self, kind: type[Any], parameters: Sequence[Tensor], arguments: Mapping[str, JSON]
    ) -> Optimizer:
        """Make an optimizer of a class for these parameters."""
        return kind(parameters=list(parameters), **arguments)

    def parameters(self, model: Model) -> list[Tensor]:
        """List the parameters that require a gradient."""
        return [parameter for parameter in model.parameters() if not parameter.stop_gradient]

    def hook_update(self, optimizer: Optimizer, before: Callable[[], None]) -> Handle:
        """Call back before each ``optimizer.step()`` and ``optimizer.minimize()``."""
        return _Wrapped(optimizer, before)

    def trained(self, optimizer: Optimizer) -> list[Tensor]:
        """List the parameters of all groups."""
        return [parameter for group in _groups(optimizer) for parameter in group["params"]]

    def state_of(self, optimizer: Optimizer, parameter: Tensor) -> Iterator[tuple[str, Any]]:
        """Yield ``moment1``, ``velocity`` …, and the float32 copy of a half-precision weight."""
        for name, kept in optimizer._accumulators.items():
            value = kept.get(parameter.name)
            if value is not None:
                yield str(name), value
        master = getattr(optimizer, "_master_weights", {}).get(parameter.name)
        if master is not None:
            yield "master_weight", master

    def learning_rates(self, optimizer: Optimizer) -> list[float]:
        """Return the learning rate of each parameter group, its factor included."""
        base = float(optimizer.get_lr())
        return [base * _factor(group) for group in _groups(optimizer)]

    def options(self, optimizer: Optimizer) -> Iterator[tuple[Tensor, dict[str, JSON]]]:
        """Yield each parameter with the options of its group, decay as it applies to it."""
        while hasattr(optimizer, "_inner_opt"):
            optimizer = optimizer._inner_opt
        for group in _groups(optimizer):
            found: dict[str, JSON] = {}
            for name, word in _WORDS.items():
                value = group.get(name, getattr(optimizer, f"_{name}", None))
                if isinstance(value, bool | int | float):
                    found[word] = value
            for parameter in group["params"]:
                yield parameter, found | _decay(optimizer, group, parameter)

    def clipped(
        self, optimizer: Optimizer, parameters: Sequence[Tensor]
    ) -> list[tuple[Tensor, Tensor]]:
        """Return each parameter with its gradient after the optimizer's ``grad_clip``."""
        wanted = {id(parameter) for parameter in parameters}
        found: list[tuple[Tensor, Tensor]] = []
        for group in _groups(optimizer):
            clip = group.get("grad_clip", optimizer._grad_clip)
            if clip is None:
                continue
            grads = [(parameter, _gradient(parameter)) for parameter in group["params"]]
            with paddle.no_grad():  # copies: the clip may work in place
                given = [(parameter, grad.clone()) for parameter, grad in grads if grad is not None]
                found += [pair for pair in clip(given) if id(pair[0]) in wanted]
        return found

    def clip(self, parameters: Sequence[Tensor], largest_norm: float) -> None:
        """Scale all gradients in place so that their total norm is at most this."""
        nn.utils.clip_grad_norm_(parameters, largest_norm)

    def update(self, optimizer: Optimizer) -> None:
        """Change the parameters once."""
        optimizer.step()

    def clear(self, optimizer: Optimizer) -> None:
        """Call ``clear_grad``."""
        optimizer.clear_grad()

    def clear_model(self, model: Model) -> None:
        """Clear all gradients of a model."""
        for parameter in model.parameters():
            parameter.clear_gradient(set_to_zero=False)

    def make_scheduler(
        self, found: Callable[..., Any], optimizer: Optimizer, arguments: Mapping[str, JSON]
    ) -> Any:  # noqa: ANN401 - a schedule, or whatever the function gave
        """Call a function with the optimizer, and a class of Paddle's without."""
        is_ours = isinstance(found, type) and issubclass(found, LRScheduler)
        return found(**arguments) if is_ours else found(optimizer, **arguments)

    def scheduler_of(self, optimizer: Optimizer, scheduler: Any) -> Any:  # noqa: ANN401
        """Put a schedule into the optimizer, or give the one that is in it."""
        inside = getattr(optimizer, "_learning_rate", None)
        if scheduler is None:
            return inside if isinstance(inside, LRScheduler) else None
        if scheduler is not inside and isinstance(scheduler, LRScheduler):
            optimizer.set_lr_scheduler(scheduler)
        return scheduler

    def forget_dropout(self, model: Model) -> list[str]:
        """Set every dropout probability to 0, in attention and recurrent layers too."""
        found = []
        for path, layer in model.named_sublayers(include_self=True):
            if isinstance(layer, _DROPOUTS) and layer.p:
                layer.p = 0.0
            elif isinstance(rate := getattr_static(layer, "dropout", None), float) and rate:
                layer.dropout = 0.0
            else:
                continue
            found.append(path)
        return found

    def feed_output(self, module: Model, replace: Callable[[object], object]) -> Handle:
        """Put another result in the place of each, after the hooks that record it."""

        def post(_layer: object, _args: object, output: object) -> object:
            return replace(output)

        handle: Handle = module.register_forward_post_hook(post)
        return handle

    def fed(
        self, own: Tensor, wanted: Tensor | None, gradient: Callable[[], Tensor | None] | None
    ) -> Tensor:
        """Return a tensor of the wanted value through which gradients reach the layer's own."""
        if not own.stop_gradient and gradient is not None:
            own.register_hook(lambda _: gradient())
        if wanted is None:
            return own
        if own.stop_gradient or not paddle.is_grad_enabled():
            return wanted
        return _HandOn.apply(own, wanted.clone)  # type: ignore[no-untyped-call]

    def make_deterministic(self) -> None:
        """Set Paddle's flags for deterministic kernels."""
        flags = {"FLAGS_cudnn_deterministic": True, "FLAGS_embedding_deterministic": 1}
        known = paddle.get_flags([name for name in flags if _has_flag(name)])
        paddle.set_flags({name: flags[name] for name in known})


def _has_flag(name: str) -> bool:
    """Return whether this build knows a flag; builds without CUDA lack some."""
    try:
        paddle.get_flags(name)
    except ValueError:
        return False
    return True


def _groups(optimizer: Optimizer) -> list[dict[str, Any]]:
    """Return the parameter groups; a plain list of parameters is one."""
    groups = optimizer._param_groups
    if groups and isinstance(groups[0], dict):
        return list(groups)
    return [{"params": list(groups)}]


def _factor(group: dict[str, Any]) -> float:
    """Return a group's factor of the learning rate, which Paddle writes on its parameters."""
    first = next(iter(group["params"]), None)
    attributes = getattr(first, "optimize_attr", None) or {}
    factor = attributes.get("learning_rate", 1.0)
    return float(factor) if isinstance(factor, int | float) else 1.0


def _decay(optimizer: Optimizer, group: dict[str, Any], parameter: Tensor) -> dict[str, JSON]:
    """Return the weight decay of one parameter, and whether it is decoupled from the gradient."""
    if isinstance(optimizer, paddle.optimizer.AdamW):
        chosen = optimizer._apply_decay_param_fun
        applies = chosen is None or chosen(parameter.name)
        decay = group.get("weight_decay", optimizer._weight_decay)
        return {"weight_decay": float(decay) if applies else 0.0, "decoupled": True}
    if isinstance(optimizer, paddle.optimizer.Lamb):
        excluded = optimizer._exclude_from_weight_decay_fn
        is_out = excluded is not None and excluded(parameter)
        return {"weight_decay": 0.0 if is_out else float(optimizer._lamb_weight_decay)}
    decay = getattr(parameter, "regularizer", None) or group.get("weight_decay")
    decay = optimizer.regularization if decay is None else decay
    decay = getattr(optimizer, "_regularization_coeff", 0.0) if decay is None else decay
    coefficient = getattr(decay, "_coeff", decay)
    if not isinstance(coefficient, int | float):
        return {}
    return {"weight_decay": float(coefficient), "decoupled": False}


def _gradient(parameter: Tensor) -> Tensor | None:
    main = getattr(parameter, "main_grad", None)
    return parameter.grad if main is None else main


_TRAINS = "train_batch"
_PASSES = ("run_backward", "run_partial_grad")
"""What runs all backward passes of Paddle: those of losses, and ``paddle.grad``."""


class PaddleWatch(Watch):
    """The calls, backward passes and updates of ``paddle``."""

    def calls(
        self, kind: type | None, around: Callable[[Module], AbstractContextManager[object]]
    ) -> Handle:
        """Watch ``__call__``, and ``train_batch`` of pipelines, which call no layer as a whole."""
        if kind is not None:
            names = [name for name in ("__call__", _TRAINS) if hasattr(kind, name)]
            return Handles(*(watch_calls(kind, around, name) for name in names))
        pipelines = [base for base in _with_subclasses(PipelineParallel) if _TRAINS in vars(base)]
        return Handles(
            watch_calls(nn.Layer, around),
            *(watch_calls(base, around, _TRAINS) for base in pipelines),
        )

    def updates(
        self,
        before: Callable[[Optimizer], None],
        after: Callable[[Optimizer, bool], None],
    ) -> Handle:
        """Watch ``step`` and ``minimize`` of every class of optimizers."""
        return _Updates(before, after)

    def losses(self, before: Callable[[Tensor], None], after: Callable[[], None]) -> Handle:
        """Watch both ways into a backward pass."""
        scaled = ScaledLosses(before, after)
        return Handles(
            Patch(AmpScaler, "scale", scaled.wrap_scale),
            Patch(paddle.Tensor, "backward", scaled.wrap_backward),
            Patch(paddle.autograd, "backward", scaled.wrap_backward),
        )

    def handed(self, after: Callable[[Tensor, Tensor], None]) -> Handle:
        """Watch what ``paddle.grad`` runs."""

        def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
            def called(outputs: object, inputs: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                result = run(outputs, inputs, *args, **kwargs)
                for tensor, gradient in zip(inputs, result, strict=True):
                    if gradient is not None:
                        after(tensor, gradient)
                return result

            return called

        return Patch(paddle.base.core.eager, "run_partial_grad", wrap)

    def records_gradients(self) -> bool:
        """Return whether operations of this thread become part of a graph."""
        return bool(paddle.is_grad_enabled())


class BackwardPasses(threading.local):
    """Counts the backward passes that run in a thread.

    Paddle's own flag goes down when a pass inside another ends, as each ``recompute`` makes one.
    """

    depth = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count while a ``with`` block runs."""

        def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                self.depth += 1
                try:
                    return run(*args, **kwargs)
                finally:
                    self.depth -= 1

            return called

        patches = [Patch(paddle.base.core.eager, name, wrap) for name in _PASSES]
        try:
            yield
        finally:
            for patch in reversed(patches):
                patch.remove()


class _Updates:
    """The patches of all classes of optimizers met so far."""

    def __init__(
        self,
        before: Callable[[Optimizer], None],
        after: Callable[[Optimizer, bool], None],
    ) -> None:
        self._before, self._after = before, after
        self._count = 0
        self._is_inside = False
        self._patched: set[type] = set()
        self._patches = [
            Patch(paddle.optimizer.Optimizer, "__init__", self._wrap_init),
            Patch(GradScaler, "step", self._wrap_scaler),
            Patch(AmpScaler, "minimize", self._wrap_scaler),
            Patch(MixPrecisionOptimizer, "step", self._wrap_update),
        ]
        for kind in _with_subclasses(paddle.optimizer.Optimizer):
            self._patch(kind)

    def remove(self) -> None:
        """Put everything back."""
        for patch in reversed(self._patches):
            patch.remove()

    def _patch(self, kind: type) -> None:
        for base in kind.__mro__:
            if issubclass(base, paddle.optimizer.Optimizer) and base not in self._patched:
                self._patched.add(base)
                names = [name for name in _UPDATES if name in vars(base)]
                self._patches += [Patch(base, name, self._wrap_update) for name in names]

    def _wrap_init(self, init: Callable[..., None]) -> Callable[..., None]:
        def called(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            init(optimizer, *args, **kwargs)
            self._patch(type(optimizer))

        return called

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        def called(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            if self._is_inside:  # minimize calls step, and a class its base's
                return update(optimizer, *args, **kwargs)
            self._is_inside = True
            try:
                self._before(optimizer)
                result = update(optimizer, *args, **kwargs)
            finally:
                self._is_inside = False
            self._count += 1
            self._after(optimizer, True)  # noqa: FBT003 - the callback's second argument
            return result

        return called

    def _wrap_scaler(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def called(scaler: object, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            known = self._count
            result = step(scaler, optimizer, *args, **kwargs)
            if self._count == known:
                self._after(optimizer, False)  # noqa: FBT003
            return result

        return called


def _with_subclasses(kind: type[Any]) -> Iterator[type]:
    yield kind
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)
