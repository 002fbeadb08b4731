"""The parts of an adapter that are about training and scripts, as far as JAX has them.

A training step of JAX is a function of gradients, weights and state, which nothing can be hooked
to: updates and scripts are not recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

from padiff.dumper.watch import Handles
from padiff.dumpfile import ConfigError

from .jax_calls import feed
from .jax_modules import children
from .jax_tape import TAPE, quiet
from .walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.adapter import Handle, Model, Module, Tensor

_RATES = ("rate", "dropout_rate")


class _Refusing:
    """Refuses what it lacks."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        raise ConfigError(
            "cannot record updates or scripts of jax: a training step of JAX is a function, which "
            "nothing can be hooked to",
            hint="record one forward and backward pass: padiff dump --model net.py:build",
        )


class JaxTrainer(_Refusing):
    """The training side of ``jax``: gradients, but no updates."""

    def is_optimizer(self, thing: object) -> bool:
        """Return False: no optimizer is watched."""
        del thing
        return False

    is_optimizer_class = is_optimizer

    def clear_model(self, model: Model) -> None:
        """Forget all gradients."""
        del model
        TAPE.gradients.clear()

    def make_deterministic(self) -> None:
        """Do nothing: there is no switch for it."""

    def forget_dropout(self, model: Model) -> list[str]:
        """Set the rates of dropout layers and of attention to zero."""
        found = []
        for path, module in walk(model, children):
            for name in _RATES:
                if isinstance(vars(module).get(name), float) and vars(module)[name] > 0:
                    setattr(module, name, 0.0)
                    found.append(path)
        return found

    def feed_output(self, module: Module, replace: Callable[[object], object]) -> Handle:
        """Replace what a module hands on."""
        return feed(module, replace)

    def fed(
        self, own: Tensor, wanted: Tensor | None, gradient: Callable[[], Tensor | None] | None
    ) -> Tensor:
        """Hand on other elements, and another gradient, as told."""
        with quiet():
            made = jax.numpy.array(own if wanted is None else wanted, own.dtype, copy=True)

        def back(_: None, arrived: Any) -> tuple[Any]:  # noqa: ANN401
            told = None if gradient is None else gradient()
            return (arrived if told is None else told,)

        handed = jax.custom_vjp(lambda _: made)
        handed.defvjp(lambda _: (made, None), back)
        TAPE.note(lambda given: [handed(*given)], [own], [made])
        return made


class JaxWatch(_Refusing):
    """What happens anywhere in the process: nothing that could be watched."""

    def rehearsals(self, around: Callable[[], object]) -> Handle:
        """Watch nothing: JAX never tries a model by itself."""
        del around
        return Handles()

    def updates(self, before: Callable[[Any], None], after: Callable[[Any, bool], None]) -> Handle:
        """Watch nothing: an update is a function of gradients, weights and state."""
        del before, after
        return Handles()

    def losses(self, before: Callable[[Tensor], None], after: Callable[[], None]) -> Handle:
        """Watch nothing: a loss is a number that a function gives."""
        del before, after
        return Handles()

    def handed(self, after: Callable[[Tensor, Tensor], None]) -> Handle:
        """Watch nothing: gradients that a script computes belong to functions."""
        del after
        return Handles()

    def records_gradients(self) -> bool:
        """Return True: the tape keeps what a backward pass needs."""
        return True
