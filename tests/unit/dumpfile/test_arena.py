"""Tests of the memory that tensors wait in."""

from __future__ import annotations

import random

from padiff.dumpfile.arena import Arena, Piece


def taken(arena: Arena, size_bytes: int, owner: object = None) -> Piece:
    piece = arena.take(size_bytes, owner)
    assert piece is not None
    return piece


def test_pieces_in_use_never_overlap_whatever_comes_back_first() -> None:
    draw = random.Random(0)
    arena = Arena(1000 * 64)
    used: list[tuple[Piece, int]] = []
    refused = wrapped = 0

    for number in range(20_000):
        if used and draw.random() < 0.5:
            piece, mark = used.pop(draw.randrange(min(len(used), 3)))
            assert (piece.data == mark).all()
            arena.give_back(piece)
            continue
        new = arena.take(draw.randrange(0, 20_000), None)
        if new is None:
            refused += 1
            continue
        new.data[:] = number % 251
        wrapped += bool(used) and new.start < used[-1][0].start
        used.append((new, number % 251))

    assert refused > 100
    assert wrapped > 100


def test_memory_that_came_back_is_used_again() -> None:
    arena = Arena(1 << 20)
    first = taken(arena, 1000)
    place = first.data.ctypes.data

    arena.give_back(first)

    assert taken(arena, 500).data.ctypes.data == place


def test_a_piece_larger_than_the_arena_is_refused() -> None:
    assert Arena(640).take(641, None) is None


def test_what_an_owner_leaves_behind_is_room_again() -> None:
    arena = Arena(640)
    taken(arena, 320, "gone")
    taken(arena, 320, "gone")

    arena.clear("another")
    assert arena.take(640, "next") is None
    arena.clear("gone")

    assert taken(arena, 640, "next").data.size == 640
