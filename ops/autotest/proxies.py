"""What the user's code sees: a framework, its layers and tensors, of which there are none here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from padiff.dumpfile import DTYPE_NAMES, ConfigError, Dtype, Slice
from padiff.ops.table import LAYERS
from padiff.program import ValueRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from padiff.program import Argument

    from .trace import Trace


class _Nothing:
    """An argument that is left out."""

    def __repr__(self) -> str:
        return "nothing()"


_NOTHING = _Nothing()


def nothing() -> Any:  # noqa: ANN401 -- stands for an argument of any type
    """Return what stands for an argument that is left out."""
    return _NOTHING


class Framework:
    """Stands for ``torch`` or a part of it; a call of a function runs in both frameworks."""

    def __init__(self, trace: Trace, name: str = "torch") -> None:
        """Name a part, such as ``torch.nn.functional``."""
        self._trace, self._name = trace, name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- a part, a layer or a dtype
        """Return a part, the class of a layer, or a dtype."""
        if self._name == "torch" and name in DTYPE_NAMES:
            return Dtype(name=name)
        if self._name == "torch.nn" and name[:1].isupper():
            if name not in LAYERS:
                raise ConfigError(
                    f"cannot build torch.nn.{name} in both frameworks: the table has no such layer",
                    hint=f"one of {', '.join(LAYERS)}; or write it with functions",
                )
            return lambda *positional, **keywords: Module(self._trace, name, positional, keywords)
        return Framework(self._trace, f"{self._name}.{name}")

    def __call__(self, *positional: object, **keywords: object) -> Any:  # noqa: ANN401 -- tensors
        """Call the function of that name."""
        return _called(self._trace, self._name, positional, keywords)


class Module:
    """Stands for a layer of ``torch.nn`` and its twin, which share their weights."""

    def __init__(
        self, trace: Trace, name: str, positional: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        """Build it in both frameworks."""
        self._trace = trace
        arguments = tuple(one for one in positional if one is not _NOTHING)
        passed = {key: one for key, one in keywords.items() if one is not _NOTHING}
        self._held = trace.build(name, arguments, passed)

    def __call__(self, *inputs: Traced) -> Traced:
        """Call it."""
        return Traced(
            self._trace, self._trace.call_layer(self._held, [one.value for one in inputs])
        )

    def __getattr__(self, name: str) -> Traced:
        """Return a parameter or buffer."""
        values = self._trace.layers[self._held].values
        if name not in values:
            raise AttributeError(f"the layer has no parameter {name!r}, only {sorted(values)}")
        return Traced(self._trace, values[name])

    def train(self, mode: bool = True) -> Module:
        """Let it train, or not."""
        self._trace.set_mode(self._held, is_training=mode)
        return self

    def eval(self) -> Module:
        """Let it not train."""
        return self.train(mode=False)


def _method(name: str) -> Callable[..., Any]:
    """Return what runs a method of that name."""

    def called(self: Traced, *others: object) -> Any:  # noqa: ANN401 -- a tensor
        return _called(self._trace, f"torch.Tensor.{name}", (self, *others), {})

    return called


class Traced:
    """Stands for a tensor in each framework; shape, dtype and elements are the reference's."""

    __hash__ = object.__hash__

    def __init__(self, trace: Trace, value: int) -> None:
        """Name a value of the program."""
        self._trace, self.value = trace, value

    @property
    def shape(self) -> tuple[int, ...]:
        """How long each axis is."""
        return self._trace.values[self.value].shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def dtype(self) -> Dtype:
        """Its dtype."""
        return Dtype(name=self._trace.values[self.value].dtype)

    def size(self, dim: int | None = None) -> Any:  # noqa: ANN401 -- as in torch
        """Return the shape, or the length of an axis."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Return how many axes it has."""
        return self.ndim

    def item(self) -> Any:  # noqa: ANN401 -- as in torch
        """Return the only element, in the reference."""
        return self._trace.elements[self._trace.pair.reference][self.value].item()

    def __bool__(self) -> bool:
        """Return whether the only element is true, in the reference."""
        return bool(self.item())

    def __len__(self) -> int:
        """Return the length of the first axis."""
        return self.shape[0]

    def __iter__(self) -> Iterator[Traced]:
        """Yield the parts along the first axis."""
        return (self[place] for place in range(len(self)))

    def __getitem__(self, index: object) -> Traced:
        """Take a part."""
        found: Traced = _called(self._trace, "torch.Tensor.__getitem__", (self, index), {})
        return found

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- a method
        """Return a method."""
        if name.startswith("_") or name.endswith("_"):
            raise AttributeError(f"no method {name!r} that runs in both frameworks")
        called = f"torch.Tensor.{name}"
        return lambda *arguments, **keywords: _called(
            self._trace, called, (self, *arguments), keywords
        )

    __add__ = _method("__add__")
    __sub__ = _method("__sub__")
    __mul__ = _method("__mul__")
    __truediv__ = _method("__truediv__")
    __floordiv__ = _method("__floordiv__")
    __mod__ = _method("__mod__")
    __pow__ = _method("__pow__")
    __matmul__ = _method("__matmul__")
    __neg__ = _method("__neg__")
    __abs__ = _method("__abs__")
    __invert__ = _method("__invert__")
    __eq__ = _method("__eq__")
    __ne__ = _method("__ne__")
    __lt__ = _method("__lt__")
    __le__ = _method("__le__")
    __gt__ = _method("__gt__")
    __ge__ = _method("__ge__")
    __and__ = _method("__and__")
    __or__ = _method("__or__")
    __xor__ = _method("__xor__")

    def __radd__(self, other: float) -> Traced:
        """Add to a number."""
        found: Traced = self + other
        return found

    def __rmul__(self, other: float) -> Traced:
        """Multiply by a number."""
        found: Traced = self * other
        return found

    def __rsub__(self, other: float) -> Traced:
        """Subtract from a number; ``-x + 1`` is ``1 - x`` bit by bit."""
        found: Traced = -self + other
        return found

    def __rtruediv__(self, other: float) -> Traced:
        """Divide a number, as torch does: by the reciprocal."""
        found: Traced = self.reciprocal() * other
        return found


def _called(
    trace: Trace, name: str, positional: tuple[object, ...], keywords: dict[str, object]
) -> Any:  # noqa: ANN401 -- a tensor, or several
    """Run a call in both frameworks."""
    arguments = [_argument(one) for one in positional if one is not _NOTHING]
    passed = {key: _argument(one) for key, one in keywords.items() if one is not _NOTHING}
    is_one, values = trace.call(name, arguments, passed)
    found = tuple(None if one is None else Traced(trace, one) for one in values)
    return found[0] if is_one else found


def _argument(one: Any) -> Argument:  # noqa: ANN401 -- whatever a user passes
    if isinstance(one, Traced):
        return ValueRef(id=one.value)
    if isinstance(one, slice):
        return Slice(start=one.start, stop=one.stop, step=one.step)
    if isinstance(one, list | tuple):
        return tuple(map(_argument, one))
    if one is None or one is ... or isinstance(one, bool | int | float | str | Dtype):
        return one
    raise ConfigError(
        f"cannot pass {one!r} to both frameworks: expected a tensor, a number, a text or a dtype"
    )
