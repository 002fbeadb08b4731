"""MindSpore's optimizers and schedules, as padiff sees them.

MindSpore facts that shape this file: an optimizer is a Cell that is called with the gradients; the
older ones (``nn.Momentum``) hold everything as attributes, the newer ones (``mint.optim``) in
parameter groups as torch does; a schedule of the older ones is a Cell of the step's number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mindspore
from mindspore import nn, ops

from padiff.dumper.trainer import Trainer

from .mindspore_watch import is_optimizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from padiff.dumper.adapter import Handle, Model, Tensor
    from padiff.dumper.trainer import Optimizer
    from padiff.dumpfile import JSON

    from .mindspore_calls import CallHooks
    from .mindspore_tape import Tape

_WORDS = {
    "beta1": "beta1",
    "beta2": "beta2",
    "eps": "eps",
    "epsilon": "eps",
    "momentum": "momentum",
    "use_nesterov": "nesterov",
    "nesterov": "nesterov",
    "dampening": "dampening",
    "use_amsgrad": "amsgrad",
    "centered": "centered",
}
"""Attributes of the older optimizers, and what torch calls them."""
_DECOUPLED = ("AdamWeightDecay", "AdamW", "Lamb")
_NO_OPTIONS = frozenset({"lr", "initial_lr", "params", "foreach", "fused"})
_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, mindspore.mint.nn.Dropout)


class _HandOn(nn.Cell):  # type: ignore[misc]
    """Has the value of one tensor and passes its gradient to another."""

    def construct(self, own: Tensor, wanted: Tensor) -> Tensor:
        """Return a new tensor."""
        del own
        return wanted.copy()

    def bprop(self, own: Tensor, wanted: Tensor, out: Tensor, gradient: Tensor) -> tuple[Any, ...]:
        """Pass the gradient on as it is."""
        del own, out
        return gradient, ops.zeros_like(wanted)


class MindSporeTrainer(Trainer):
    """The training side of ``mindspore``."""

    def __init__(self, tape: Tape, calls: CallHooks) -> None:
        """Take gradients from the tape, and hook updates as all Cells."""
        self._tape, self._calls = tape, calls

    def is_optimizer(self, thing: object) -> bool:
        """Return whether this is one of MindSpore's optimizers."""
        return is_optimizer(thing)

    def is_optimizer_class(self, thing: object) -> bool:
        """Return whether this is an optimizer class."""
        return isinstance(thing, type) and issubclass(
            thing, (nn.Optimizer, mindspore.experimental.optim.Optimizer)
        )

    def make_optimizer(
        self, kind: type[Any], parameters: Sequence[Tensor], arguments: Mapping[str, JSON]
    ) -> Optimizer:
        """Make an optimizer of a class for these parameters."""
        return kind(list(parameters), **arguments)

    def parameters(self, model: Model) -> list[Tensor]:
        """List the parameters that require a gradient."""
        found = list(model.trainable_params())
        self._tape.want(found)
        return found

    def hook_update(self, optimizer: Optimizer, before: Callable[[], None]) -> Handle:
        """Call back before each call of the optimizer."""
        return self._calls.entered(optimizer, before)

    def gradient_scale(self, optimizer: Optimizer) -> float:
        """Return what an older optimizer divides gradients by."""
        return float(getattr(optimizer, "loss_scale", 1.0) or 1.0)

    def trained(self, optimizer: Optimizer) -> list[Tensor]:
        """List the parameters that the optimizer changes."""
        return list(optimizer.parameters)

    def state_of(self, optimizer: Optimizer, parameter: Tensor) -> Iterator[tuple[str, Any]]:
        """Yield ``moments``, ``moment1``, ``exp_avg`` …, which stand in the order of parameters."""
        place = next((at for at, one in enumerate(optimizer.parameters) if one is parameter), None)
        for name, kept in vars(optimizer).items():
            is_kept = isinstance(kept, mindspore.ParameterTuple) and place is not None
            if is_kept and len(kept) == len(optimizer.parameters) and kept[place] is not parameter:
                yield name.lstrip("_"), kept[place]

    def learning_rates(self, optimizer: Optimizer) -> list[float]:
        """Return the learning rate in force of each parameter group."""
        if hasattr(optimizer, "param_groups"):
            return [_number(group["lr"]) for group in optimizer.param_groups]
        rates = optimizer.get_lr()
        each = rates if isinstance(rates, (tuple, list)) else (rates,)
        return list(dict.fromkeys(_number(rate) for rate in each))

    def options(self, optimizer: Optimizer) -> Iterator[tuple[Tensor, dict[str, JSON]]]:
        """Yield each parameter with the options of its update."""
        if hasattr(optimizer, "param_groups"):
            for group in optimizer.param_groups:
                found = _of_group(group) | _decoupled(optimizer)
                for parameter in group["params"]:
                    yield parameter, found
            return
        held = vars(optimizer)
        named = {word: _plain(held[name]) for name, word in _WORDS.items() if name in held}
        decay = optimizer.get_weight_decay()
        for place, parameter in enumerate(optimizer.parameters):
            own = decay[place] if isinstance(decay, (tuple, list)) else decay
            yield parameter, named | {"weight_decay": _plain(own)} | _decoupled(optimizer)

    def clip(self, parameters: Sequence[Tensor], largest_norm: float) -> None:
        """Scale all gradients so that their total L2 norm is at most this."""
        found = [self._tape.gradient(one) for one in parameters]
        total = sum(float((one**2).sum()) for one in found if one is not None) ** 0.5
        self._tape.scale(parameters, min(1.0, largest_norm / (total + 1e-6)))

    def update(self, optimizer: Optimizer) -> None:
        """Call the optimizer with the gradients, zeros where there are none."""
        found = ((one, self._tape.gradient(one)) for one in optimizer.parameters)
        optimizer(tuple(ops.zeros_like(one) if grad is None else grad for one, grad in found))

    def clear(self, optimizer: Optimizer) -> None:
        """Forget the gradients."""
        del optimizer
        self._tape.clear()

    def clear_model(self, model: Model) -> None:
        """Forget the gradients, and compute those of this model from now on."""
        self._tape.want(model.trainable_params())
        self._tape.clear()

    def make_scheduler(
        self, found: Callable[..., Any], optimizer: Optimizer, arguments: Mapping[str, JSON]
    ) -> object:
        """Call the class or function with the optimizer, as the newer schedules want it."""
        made: object = found(optimizer, **arguments)
        return made

    def forget_dropout(self, model: Model) -> list[str]:
        """Set every dropout probability to 0."""
        found = []
        for path, cell in model.cells_and_names():
            if isinstance(cell, _DROPOUTS) and cell.p:
                cell.p, cell.keep_prob = 0.0, 1.0
                found.append(path)
        return found

    def feed_output(self, module: Model, replace: Callable[[object], object]) -> Handle:
        """Put another result in the place of each, after the hooks that record it."""
        return self._calls.replaced(module, replace)

    def fed(
        self, own: Tensor, wanted: Tensor | None, gradient: Callable[[], Tensor | None] | None
    ) -> Tensor:
        """Return a tensor of the wanted value through which gradients reach the Cell's own."""
        if own._requires_grad and gradient is not None:
            own.register_hook(lambda _: gradient())
        if wanted is None:
            return own
        return _HandOn()(own, wanted) if own._requires_grad else wanted

    def make_deterministic(self) -> None:
        """Ask for deterministic kernels."""
        mindspore.set_deterministic(True)


def _plain(thing: Any) -> JSON:  # noqa: ANN401 - a number, or a tensor of one
    return thing if isinstance(thing, (bool, int, float, str, type(None))) else _number(thing)


def _number(thing: Any) -> float:  # noqa: ANN401
    """Return the number in a tensor, rounded to the shortest that float32 holds."""
    if isinstance(thing, mindspore.Tensor):
        value = thing.asnumpy().reshape(-1)[0]
        return float(str(value))
    return float(thing)


def _of_group(group: Mapping[str, Any]) -> dict[str, JSON]:
    found = {
        name: _plain(value)
        for name, value in group.items()
        if name not in _NO_OPTIONS and isinstance(value, (bool, int, float, mindspore.Tensor))
    }
    betas = enumerate(group.get("betas", ()), start=1)
    return found | {f"beta{place}": _number(beta) for place, beta in betas}


def _decoupled(optimizer: Optimizer) -> dict[str, JSON]:
    return {"decoupled": True} if type(optimizer).__name__ in _DECOUPLED else {}
