"""Interpolation and sampling at places between elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.primitives import Kind

from .shaping import as_float, as_kind, expand, positions, reshape, stack, transpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """How positions of the result map to positions of the value, along one axis."""

    axis: int
    size: int
    mode: str
    """``nearest`` (the element before), ``nearest-exact``, ``nearest-up`` (the closest one, of two
    the one behind), ``linear`` or ``cubic``."""
    align_corners: bool = False
    step: float | None = None
    """Elements of the value for each of the result; None: from the sizes."""
    cubic: float = -0.75
    """The coefficient of the cubic."""
    half_pixel: bool = True
    """Whether elements are areas whose centres are mapped, unless corners are aligned."""


def _sources(b: Builder, how: Resampling, size: int) -> Term:
    places = as_kind(b, positions(b, how.size), Kind.FLOAT)
    if how.align_corners:
        return places * ((size - 1) / (how.size - 1) if how.size > 1 else 0.0)
    step = size / how.size if how.step is None else how.step
    if how.mode == "nearest" or not how.half_pixel:
        return places * step
    return (places + 0.5) * step if how.mode == "nearest-exact" else (places + 0.5) * step - 0.5


def resample(b: Builder, x: Term, how: Resampling) -> Term:
    """Interpolate along one axis."""
    x, size = as_float(b, x), x.shape[how.axis]
    source = _sources(b, how, size)
    if how.mode.startswith("nearest"):
        half_up = how.mode == "nearest-up"
        rule = b("round", source) if how.align_corners else b("floor", source)
        rule = b("floor", source + 0.5) if half_up else rule
        return b("take", x, _index(b, rule, size), axis=how.axis)
    if how.mode == "linear":
        source = b("maximum", source, 0.0)
        taps: Sequence[int] = (0, 1)
    elif how.mode == "cubic":
        taps = (-1, 0, 1, 2)
    else:
        raise NotLoweredError(f"interpolation {how.mode!r}")
    start = b("floor", source)
    rest = source - start
    weights = (1.0 - rest, rest) if how.mode == "linear" else cubic_weights(b, rest, how.cubic)
    shape = (how.size, *[1] * (x.ndim - how.axis - 1))
    result: Term | None = None
    for tap, weight in zip(taps, weights, strict=True):
        part = b("take", x, _index(b, start + float(tap), size), axis=how.axis)
        part = part * reshape(b, weight, shape)
        result = part if result is None else result + part
    assert result is not None
    return result


def _index(b: Builder, place: Term, size: int) -> Term:
    within = b("minimum", b("maximum", place, 0.0), float(size - 1))
    return as_kind(b, within, Kind.INT)


def cubic_weights(b: Builder, rest: Term, a: float) -> tuple[Term, ...]:
    """Return the weights of four neighbours (Keys, 1981)."""

    def near(t: Term) -> Term:
        return ((t * (a + 2) - (a + 3)) * t) * t + 1.0

    def far(t: Term) -> Term:
        return ((t * a - 5 * a) * t + 8 * a) * t - 4 * a

    del b
    return far(rest + 1.0), near(rest), near(1.0 - rest), far(2.0 - rest)


def affine_grid(b: Builder, theta: Term, size: Sequence[int], *, align_corners: bool) -> Term:
    """Return the sampling grid of affine maps: (batch, *spatial, coordinate)."""
    spatial = tuple(size[2:])
    axes = []
    for axis, count in enumerate(spatial):
        place = as_kind(b, positions(b, count, len(spatial), axis), Kind.FLOAT)
        if align_corners:
            place = place * (2 / (count - 1)) - 1.0 if count > 1 else place * 0.0
        else:
            place = (place * 2.0 + 1.0) / float(count) - 1.0
        axes.append(expand(b, place, spatial))
    one = b("full", shape=spatial, value=1.0, kind="float")
    base = stack(b, [*axes[::-1], one], len(spatial))
    flat = reshape(b, base, (1, -1, len(spatial) + 1))
    result = flat @ transpose(b, theta, (0, 2, 1))
    return reshape(b, result, (size[0], *spatial, len(spatial)))


def grid_sample(
    b: Builder, x: Term, grid: Term, *, mode: str, padding: str, align_corners: bool
) -> Term:
    """Sample at coordinates from -1 to 1; x (batch, channel, *spatial)."""
    sizes = x.shape[2:]
    flat = reshape(b, grid, (x.shape[0], -1, len(sizes)))
    places = []
    for axis, size in enumerate(sizes):
        last = len(sizes) - 1 - axis
        place = b("slice", flat, axis=2, start=last, stop=last + 1, step=1)
        place = reshape(b, place, flat.shape[:2])
        if align_corners:
            place = (place + 1.0) * ((size - 1) / 2)
        else:
            place = ((place + 1.0) * float(size) - 1.0) * 0.5
        if mode != "bicubic":
            place = _kept_inside(b, place, size, padding, align_corners=align_corners)
        places.append(place)
    how = _Lookup(padding=padding, align_corners=align_corners)
    result = _SAMPLERS[mode](b, x, places, how)
    return reshape(b, result, (*x.shape[:2], *grid.shape[1:-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lookup:
    padding: str
    align_corners: bool


def _kept_inside(b: Builder, place: Term, size: int, padding: str, *, align_corners: bool) -> Term:
    if padding == "zeros":
        return place
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span <= 0:
            place = place * 0.0
        else:
            apart = b("abs", place - low)
            turns = b("floor", apart / span)
            extra = apart - turns * span
            even = b("equal", b("modulo", turns, 2.0), 0.0)
            place = b("where", even, extra + low, span - extra + low)
    return b("minimum", b("maximum", place, 0.0), size - 1.0)


def _look_up(b: Builder, x: Term, index: Sequence[Term]) -> Term:
    """Return elements at whole coordinates (batch, place); zero outside."""
    sizes = x.shape[2:]
    flat: Term | None = None
    inside: Term | None = None
    for place, size in zip(index, sizes, strict=True):
        fits = b("and", place >= 0.0, place <= size - 1.0)
        inside = fits if inside is None else b("and", inside, fits)
        whole = _index(b, place, size)
        flat = whole if flat is None else flat * size + whole
    assert flat is not None
    assert inside is not None
    batch, channels = x.shape[:2]
    index_ = expand(b, reshape(b, flat, (batch, 1, -1)), (batch, channels, flat.shape[1]))
    found = b("gather", reshape(b, x, (batch, channels, math.prod(sizes))), index_, axis=2)
    return b("where", reshape(b, inside, (batch, 1, -1)), found, 0.0)


def _nearest(b: Builder, x: Term, places: Sequence[Term], _: _Lookup) -> Term:
    return _look_up(b, x, [b("round", place) for place in places])


def _bilinear(b: Builder, x: Term, places: Sequence[Term], _: _Lookup) -> Term:
    starts = [b("floor", place) for place in places]
    rests = [place - start for place, start in zip(places, starts, strict=True)]
    result: Term | None = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        index = [
            start + float(far) if far else start for start, far in zip(starts, corner, strict=True)
        ]
        weight: Term | None = None
        for rest, far in zip(rests, corner, strict=True):
            part = rest if far else 1.0 - rest
            weight = part if weight is None else weight * part
        assert weight is not None
        found = _look_up(b, x, index) * reshape(b, weight, (x.shape[0], 1, -1))
        result = found if result is None else result + found
    assert result is not None
    return result


def _bicubic(b: Builder, x: Term, places: Sequence[Term], how: _Lookup) -> Term:
    starts = [b("floor", place) for place in places]
    weights = [
        cubic_weights(b, place - start, -0.75) for place, start in zip(places, starts, strict=True)
    ]
    result: Term | None = None
    for taps in itertools.product(range(4), repeat=len(places)):
        index = []
        weight: Term | None = None
        for axis, tap in enumerate(taps):
            place = _kept_inside(b, starts[axis] + float(tap - 1), x.shape[2 + axis], how.padding,
                                 align_corners=how.align_corners)  # fmt: skip
            index.append(place)
            part = weights[axis][tap]
            weight = part if weight is None else weight * part
        assert weight is not None
        found = _look_up(b, x, index) * reshape(b, weight, (x.shape[0], 1, -1))
        result = found if result is None else result + found
    assert result is not None
    return result


_SAMPLERS = {"nearest": _nearest, "bilinear": _bilinear, "bicubic": _bicubic}
