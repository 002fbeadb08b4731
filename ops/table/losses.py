"""Losses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.ops.cases import Argument, Fill, Tensor

from .row import Row, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .draw import Draw
    from .row import Arguments, Strategy

_LABEL = "target:label"
_REDUCTIONS = ("none", "sum", "mean")
_LOGITS = (Fill.NORMAL, Fill.SMALL, Fill.WIDE)


def _distance(
    names: str = "input target",
    *,
    low: float | None = None,
    high: float | None = None,
    target_low: float | None = None,
    target_high: float | None = None,
    options: dict[str, Sequence[Argument]] | None = None,
) -> Strategy:
    """Draw a value and a target of one shape.

    Args:
        names: Of both arguments; no gradient is asked for by the second.
        low: No element of the first is below.
        high: No element of the first is above.
        target_low: The same of the second.
        target_high: The same of the second.
        options: Further arguments that may be left out, with their values.
    """
    one, other = names.split()

    def drawn(draw: Draw) -> Arguments:
        dtype, shape = draw.float_dtype(), draw.shape(1, 3, smallest=1)
        found: dict[str, Argument] = {
            one: draw.tensor(shape, dtype, low=low, high=high, fills=_LOGITS),
            other: draw.tensor(
                shape, dtype, low=target_low, high=target_high, fills=_LOGITS[:2],
                takes_gradient=False,
            ),
        }  # fmt: skip
        draw.optional(found, "reduction", _REDUCTIONS)
        for name, values in (options or {}).items():
            draw.optional(found, name, values)
        return found

    return drawn


def _signs(draw: Draw, shape: tuple[int, ...], dtype: str) -> Tensor:
    turn = draw.integer(0, 3)
    count = Tensor(shape=shape).count
    elements = tuple(1.0 if (place * 3 + turn) % 5 < 3 else -1.0 for place in range(count))  # noqa: PLR2004
    return Tensor(shape=shape, dtype=dtype, elements=elements, takes_gradient=False)


def _signed(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), draw.shape(1, 3, smallest=1)
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, dtype, fills=_LOGITS[:2]),
        "target": _signs(draw, shape, dtype),
    }
    draw.optional(found, "reduction", _REDUCTIONS)
    return found


def _cross_entropy(draw: Draw) -> Arguments:
    classes, dtype = draw.integer(2, 4), draw.float_dtype()
    rest = draw.shape(0, 2, smallest=1)
    batch = draw.size(1)
    found: dict[str, Argument] = {
        "input": draw.tensor((batch, classes, *rest), dtype, fills=_LOGITS),
        "target": draw.index((batch, *rest), classes),
    }
    draw.optional(found, "reduction", _REDUCTIONS)
    if draw.flag():
        found["weight"] = draw.tensor((classes,), dtype, low=0.5, high=2, takes_gradient=False)
    draw.optional(found, "ignore_index", (0, 1))
    draw.optional(found, "label_smoothing", (0.1,))
    return found


def _nll_loss(draw: Draw) -> Arguments:
    found = dict(_cross_entropy(draw))
    found.pop("label_smoothing", None)
    return found


def _margin_ranking(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), draw.shape(1, 2, smallest=1)
    found: dict[str, Argument] = {
        "input1": draw.tensor(shape, dtype, fills=_LOGITS[:1]),
        "input2": draw.tensor(shape, dtype, fills=_LOGITS[:1]),
        "target": _signs(draw, shape, dtype),
    }
    draw.optional(found, "margin", (0.5,))
    draw.optional(found, "reduction", _REDUCTIONS)
    return found


def _triplet(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), (draw.size(1), draw.size(1))
    names = ("anchor", "positive", "negative")
    found: dict[str, Argument] = {
        name: draw.tensor(shape, dtype, fills=_LOGITS[:1]) for name in names
    }
    draw.optional(found, "margin", (0.5, 2.0))
    draw.optional(found, "swap", (True, False))
    draw.optional(found, "reduction", _REDUCTIONS)
    return found


def _cosine_embedding(draw: Draw) -> Arguments:
    dtype, batch = draw.float_dtype(), draw.size(1)
    shape = (batch, draw.size(2))
    found: dict[str, Argument] = {
        name: draw.tensor(shape, dtype, fills=_LOGITS[:1]) for name in ("input1", "input2")
    }
    found["target"] = _signs(draw, (batch,), dtype)
    draw.optional(found, "margin", (0.3,))
    draw.optional(found, "reduction", _REDUCTIONS)
    return found


def _cosine_similarity(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), draw.shape(1, 3, smallest=2)
    found = {name: draw.tensor(shape, dtype, fills=_LOGITS[:1]) for name in ("x1", "x2")}
    return {**found, "dim": draw.axis(len(shape))}


def _gaussian(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), draw.shape(1, 3, smallest=1)
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, dtype, fills=_LOGITS[:2]),
        "target": draw.tensor(shape, dtype, fills=_LOGITS[:2], takes_gradient=False),
        "var": draw.tensor(shape, dtype, low=0.1),
    }
    draw.optional(found, "full", (True, False))
    draw.optional(found, "reduction", _REDUCTIONS)
    return found


def _multi_margin(draw: Draw) -> Arguments:
    classes, batch, dtype = draw.integer(2, 4), draw.size(1), draw.float_dtype()
    found: dict[str, Argument] = {
        "input": draw.tensor((batch, classes), dtype, fills=_LOGITS[:1]),
        "target": draw.index((batch,), classes),
    }
    draw.optional(found, "p", (1, 2))
    draw.optional(found, "margin", (0.5,))
    draw.optional(found, "reduction", _REDUCTIONS)
    return found


def _multilabel(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), (draw.size(1), draw.integer(1, 4))
    signs = _signs(draw, shape, dtype)
    assert signs.elements is not None
    labels = tuple((one + 1) / 2 for one in signs.elements)
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, dtype, fills=_LOGITS[:2]),
        "target": Tensor(shape=shape, dtype=dtype, elements=labels, takes_gradient=False),
    }
    draw.optional(found, "reduction", _REDUCTIONS)
    return found


def _ctc(draw: Draw) -> Arguments:
    batch, classes, length = draw.integer(1, 2), draw.integer(2, 4), draw.integer(1, 2)
    steps = 2 * length + draw.integer(0, 2)  # enough for a blank between any two labels
    labels = draw.tensor((batch, length), "int32", low=1, high=classes, fills=(Fill.NORMAL,))
    found: dict[str, Argument] = {
        "log_probs": draw.tensor((steps, batch, classes), "float32", fills=(Fill.NORMAL,)),
        "targets": labels,
        "input_lengths": _lengths(batch, steps),
        "target_lengths": _lengths(batch, length),
    }
    draw.optional(found, "reduction", ("none", "sum", "mean"))
    return found


def _lengths(batch: int, length: int) -> Tensor:
    elements = (length,) * batch
    return Tensor(shape=(batch,), dtype="int64", elements=elements, takes_gradient=False)


def _of_logits(one: Row) -> Row:
    """Return a row of which torch is passed logarithms of probabilities, Paddle logits."""
    wrapped = {"log_probs": "x.log_softmax(-1)"}
    torch = replace(one.frameworks["torch"], wrapped=wrapped)
    return replace(one, frameworks={**one.frameworks, "torch": torch})


ROWS: tuple[Row, ...] = (
    _of_logits(
        row(
            "F.ctc_loss",
            "",
            "targets:labels target_lengths:label_lengths",
            _ctc,
            note="Paddle takes logits, torch logarithms of probabilities",
        )
    ),
    row("F.mse_loss", "", _LABEL, _distance()),
    row("F.l1_loss", "", _LABEL, _distance()),
    row(
        "F.smooth_l1_loss",
        "",
        "target:label beta:delta",
        _distance(options={"beta": (0.5, 2.0)}),
        always={"is_huber": False},
        note="Paddle's default is Huber: delta times torch's",
    ),
    row(
        "F.huber_loss",
        "F.smooth_l1_loss",
        _LABEL,
        _distance(options={"delta": (0.5, 2.0)}),
        always={"is_huber": True},
    ),
    row(
        "F.binary_cross_entropy",
        "",
        _LABEL,
        _distance(low=0.01, high=0.99, target_low=0, target_high=1),
    ),
    row(
        "F.binary_cross_entropy_with_logits",
        "",
        "input:logit target:label",
        _distance(target_low=0, target_high=1),
    ),
    row("F.kl_div", "", _LABEL, _distance(target_low=0.01, target_high=1)),
    row(
        "F.poisson_nll_loss",
        "",
        "target:label eps:epsilon",
        _distance(low=0.1, high=3, target_low=0.1, options={"log_input": (True, False)}),
    ),
    row("F.gaussian_nll_loss", "", "target:label var:variance eps:epsilon", _gaussian),
    row("F.soft_margin_loss", "", _LABEL, _signed),
    row("F.hinge_embedding_loss", "", _LABEL, _signed),
    row("F.multilabel_soft_margin_loss", "F.multi_label_soft_margin_loss", _LABEL, _multilabel),
    row("F.multi_margin_loss", "", _LABEL, _multi_margin),
    row("F.margin_ranking_loss", "", "input1:input input2:other target:label", _margin_ranking),
    row("F.triplet_margin_loss", "", "anchor:input", _triplet),
    row("F.cosine_embedding_loss", "", _LABEL, _cosine_embedding),
    row("F.cosine_similarity", "", "dim:axis", _cosine_similarity),
    row(
        "F.cross_entropy",
        "",
        _LABEL,
        _cross_entropy,
        always={"axis": 1},
        note="the axis of classes is 1 in torch and the last one in Paddle",
    ),
    row("F.nll_loss", "", _LABEL, _nll_loss),
)
