"""Wholes are made of parts as torch and Paddle cut them."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.comparer.sharding.assembling import assembled, coordinates, own_region
from padiff.dumpfile import Layout, Mesh

WHOLE = np.arange(48.0, dtype=np.float32).reshape(8, 6)


def layout(*placements: str, sizes: tuple[int, ...], shape: tuple[int, ...] = (8, 6)) -> Layout:
    ranks = tuple(range(int(np.prod(sizes))))
    dims = ("dp", "tp")[-len(sizes) :]
    return Layout(
        mesh=Mesh(dims=dims, sizes=sizes, ranks=ranks), placements=placements, shape=shape
    )


@pytest.mark.parametrize(
    ("lie", "parts"),
    [
        (layout("S(0)", sizes=(2,)), [WHOLE[:4], WHOLE[4:]]),
        (layout("S(1)", sizes=(3,)), [WHOLE[:, :2], WHOLE[:, 2:4], WHOLE[:, 4:]]),
        # uneven: as many as fit, then what is left, then nothing
        (layout("S(1)", sizes=(4,)), [WHOLE[:, :2], WHOLE[:, 2:4], WHOLE[:, 4:], WHOLE[:, 6:]]),
        (layout("R", sizes=(2,)), [WHOLE, np.zeros_like(WHOLE)]),
        (layout("S(0;2)", sizes=(2,)), [WHOLE[[0, 1, 4, 5]], WHOLE[[2, 3, 6, 7]]]),
        (
            layout("S(0)", "S(1)", sizes=(2, 2)),
            [WHOLE[:4, :3], WHOLE[:4, 3:], WHOLE[4:, :3], WHOLE[4:, 3:]],
        ),
        # FSDP2 over tensor parallel: data ranks cut what tensor ranks have
        (layout("S(0;2)", "S(0)", sizes=(2, 2)), [WHOLE[:2], WHOLE[4:6], WHOLE[2:4], WHOLE[6:]]),
        (layout("P(sum)", sizes=(2,)), [WHOLE - 1, np.ones_like(WHOLE)]),
        (layout("P(avg)", sizes=(2,)), [WHOLE - 1, WHOLE + 1]),
        (layout("P(max)", sizes=(2,)), [WHOLE - 1, WHOLE]),
        (layout("P(min)", sizes=(2,)), [WHOLE + 1, WHOLE]),
    ],
)
def test_whole_is_made_of_its_parts(lie: Layout, parts: list[np.ndarray]) -> None:
    found = assembled(lie, lambda rank: parts[rank], np.dtype(np.float32))

    np.testing.assert_array_equal(found, WHOLE)
    assert found.dtype == np.float32


def test_sums_are_rounded_once() -> None:
    parts = [np.full((8, 6), value, np.float32) for value in (1e8, 1.0, -1e8)]

    found = assembled(layout("P(sum)", sizes=(3,)), lambda rank: parts[rank], np.dtype(np.float32))

    np.testing.assert_array_equal(found, 1.0)


def test_regions_of_runs_are_no_copies_of_the_whole() -> None:
    lie = layout("S(0)", sizes=(2,))

    regions = [own_region(lie, coordinate) for _, coordinate in coordinates(lie)]

    assert regions == [(slice(0, 4), slice(0, 6)), (slice(4, 8), slice(0, 6))]
