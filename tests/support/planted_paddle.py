"""The same faults as in ``planted_torch`` for the bundled paddle examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paddle.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    import paddle


def behave(module: Any, **methods: Callable[..., Any]) -> None:  # noqa: ANN401
    """Give one module other methods without a trace in its name or attributes."""
    kind = type(module)
    module.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, **methods})


def with_gradient_of(value: paddle.Tensor, other: paddle.Tensor) -> paddle.Tensor:
    """Give a value bit by bit, but let the gradient flow through another one."""
    return value.detach() + (other - other.detach())


def _epsilon(model: Any) -> None:  # noqa: ANN401
    model.layer3[0].bn2._epsilon = 1e-3


def _epsilon_backward(model: Any) -> None:  # noqa: ANN401
    def forward(self: Any, x: paddle.Tensor) -> paddle.Tensor:  # noqa: ANN401
        state = (self._mean, self._variance, self.weight, self.bias)
        right = functional.batch_norm(x, *state, epsilon=1e-5)
        return with_gradient_of(right, functional.batch_norm(x, *state, epsilon=1e-2))

    behave(model.layer3[0].bn2, forward=forward)


def _conv_weight(model: Any) -> None:  # noqa: ANN401
    _nudge(model.layer2[1].conv1.weight, (5, 3, 1, 1))


def _nudge(weight: paddle.Tensor, index: tuple[int, ...]) -> None:
    array = weight.numpy().copy()
    array[index] += 0.05
    weight.set_value(array)


def _padding(model: Any) -> None:  # noqa: ANN401
    def forward(self: Any, x: paddle.Tensor) -> paddle.Tensor:  # noqa: ANN401
        return functional.conv2d(x, self.weight, stride=2, padding=[0, 1, 0, 1])

    behave(model.layer3[0].conv1, forward=forward)


def _stride(model: Any) -> None:  # noqa: ANN401
    block = model.layer3[0]
    block.conv1._stride, block.conv2._stride = [1, 1], [2, 2]


def _detached_shortcut(model: Any) -> None:  # noqa: ANN401
    def forward(self: Any, x: paddle.Tensor) -> paddle.Tensor:  # noqa: ANN401
        hidden = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        result: paddle.Tensor = self.relu(hidden + self.downsample(x).detach())
        return result

    behave(model.layer2[0], forward=forward)


def _norm_epsilon(model: Any) -> None:  # noqa: ANN401
    model.encoder.layers[1].norm1._epsilon = 1e-3


def _tanh_gelu(model: Any) -> None:  # noqa: ANN401
    def activation(hidden: paddle.Tensor) -> paddle.Tensor:
        return functional.gelu(hidden, approximate=True)

    model.encoder.layers[1].activation = activation


def _tanh_gelu_backward(model: Any) -> None:  # noqa: ANN401
    def activation(hidden: paddle.Tensor) -> paddle.Tensor:
        return with_gradient_of(functional.gelu(hidden), functional.gelu(hidden, approximate=True))

    model.encoder.layers[1].activation = activation


def _linear_weight(model: Any) -> None:  # noqa: ANN401
    _nudge(model.encoder.layers[0].linear2.weight, (11, 7))


def _attention(layer: int, change: Callable[..., tuple[Any, ...]]) -> Callable[[Any], None]:
    """Change q, k and v of one attention, of shape (batch, heads, seq, head width)."""

    def plant(model: Any) -> None:  # noqa: ANN401
        attention = model.encoder.layers[layer].self_attn
        prepare = type(attention)._prepare_qkv

        def prepared(self: Any, *args: Any) -> tuple[Any, ...]:  # noqa: ANN401
            return change(*prepare(self, *args))

        behave(attention, _prepare_qkv=prepared)

    return plant


def _detached_attention(model: Any) -> None:  # noqa: ANN401
    def forward(self: Any, src: paddle.Tensor, src_mask: Any = None) -> paddle.Tensor:  # noqa: ANN401
        attended = self.dropout1(self.self_attn(src, src, src, src_mask))
        src = self.norm1(src + attended.detach())
        hidden = self.linear2(self.dropout(self.activation(self.linear1(src))))
        result: paddle.Tensor = self.norm2(src + self.dropout2(hidden))
        return result

    behave(model.encoder.layers[1], forward=forward)


FAULTS: dict[str, dict[str, Callable[[Any], None]]] = {
    "resnet": {
        "none": lambda _: None,
        "epsilon": _epsilon,
        "epsilon, backward only": _epsilon_backward,
        "weight": _conv_weight,
        "padding": _padding,
        "stride": _stride,
        "detached branch": _detached_shortcut,
    },
    "transformer": {
        "none": lambda _: None,
        "epsilon": _norm_epsilon,
        "tanh GELU": _tanh_gelu,
        "tanh GELU, backward only": _tanh_gelu_backward,
        "weight": _linear_weight,
        "missing scale": _attention(0, lambda q, k, v: (q * q.shape[-1] ** 0.5, k, v)),
        "query gradient": _attention(0, lambda q, k, v: (with_gradient_of(q, 3 * q), k, v)),
        "detached value": _attention(1, lambda q, k, v: (q, k, v.detach())),
        "detached branch": _detached_attention,
    },
}
"""By example and name: what to do to the model."""
