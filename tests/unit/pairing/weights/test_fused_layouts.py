"""Orders that names spell, and the layouts in which parts can lie."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.pairing.result import SideName
from padiff.pairing.weights.fused_layouts import Parts, heads_around, layouts_of
from padiff.pairing.weights.inventory import Inventory, inventory_of
from tests.support.dumps import DumpBuilder

QKV, KV, GATED = ("q", "k", "v"), ("k", "v"), ("gate", "up")


def _inventory(*, rows: tuple[int, ...] = (8, 8, 8)) -> Inventory:
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    builder.module("attn", "Own", class_path="user.Own")
    for name, count in zip("qkv", rows, strict=False):
        builder.module(f"attn.{name}", "Linear", class_path="torch.nn.Linear")
        builder.tensor(f"attn.{name}", "weight", np.ones((count, 3), np.float32))
    return inventory_of(builder.side(), SideName.REFERENCE)


def _parts(roles: tuple[str, ...], *, rows: tuple[int, ...] = (8, 8, 8)) -> Parts:
    return Parts(units=_inventory(rows=rows).units[: len(roles)], roles=roles)


@pytest.mark.parametrize(
    ("leaf", "roles", "order"),
    [
        ("qkv", QKV, (0, 1, 2)),
        ("Wqkv", QKV, (0, 1, 2)),
        ("to_qkv", QKV, (0, 1, 2)),
        ("kqv_proj", QKV, (1, 0, 2)),
        ("query_key_value", QKV, (0, 1, 2)),
        ("value_key_query", QKV, (2, 1, 0)),
        ("to_kv", KV, (0, 1)),
        ("gate_up_proj", GATED, (0, 1)),
        ("up_gate_proj", GATED, (1, 0)),
        ("c_attn", QKV, None),
        ("W_pack", QKV, None),
        ("in_proj", QKV, None),
        ("kv", QKV, None),
        ("fc1", GATED, None),
    ],
)
def test_order_is_what_the_name_spells(
    leaf: str, roles: tuple[str, ...], order: tuple[int, ...] | None
) -> None:
    assert _parts(roles).spelled(leaf) == order


def test_nothing_is_spelled_where_parts_have_no_known_names() -> None:
    assert Parts(units=_parts(QKV).units).spelled("qkv") is None


@pytest.mark.parametrize(
    ("leaf", "order", "is_usual"),
    [
        ("qkv", (0, 1, 2), True),
        ("qkv", (1, 0, 2), False),
        ("kqv", (1, 0, 2), True),
        ("kqv", (0, 1, 2), False),
        ("c_attn", (0, 1, 2), True),
        ("c_attn", (2, 1, 0), False),
    ],
)
def test_an_order_against_the_name_is_not_usual(
    leaf: str, order: tuple[int, ...], *, is_usual: bool
) -> None:
    assert _parts(QKV).is_usual(order, leaf) is is_usual


def test_either_order_of_gate_and_up_is_usual_unless_one_is_spelled() -> None:
    parts = _parts(GATED)

    assert parts.is_usual((1, 0), "fc1")
    assert not parts.is_usual((1, 0), "gate_up_proj")
    assert parts.is_usual((0, 1), "up_gate_proj")


def test_blocks_come_first_then_the_numbers_of_heads_that_modules_state() -> None:
    parts = _parts(QKV)

    found = layouts_of(parts, "qkv", heads={4})

    assert [layout.groups for layout in found[:4]] == [1, 4, 2, 8]
    assert [layout.label(parts) for layout in found[:2]] == [
        "q, k, v in blocks",
        "q, k, v for each head",
    ]


def test_groups_divide_the_rows_of_all_parts() -> None:
    found = layouts_of(_parts(QKV, rows=(12, 4, 4)), "c_attn")

    assert {layout.groups for layout in found} == {1, 2, 4}
    assert len({layout.order for layout in found}) == 6


def test_heads_are_read_from_the_modules_around() -> None:
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    builder.module(
        "attn",
        "Own",
        class_path="user.Own",
        attributes={"num_heads": 4, "head_dim": 16, "is_head": True},
    )
    builder.module("attn.qkv", "Linear", class_path="torch.nn.Linear")
    builder.tensor("attn.qkv", "weight", np.ones((6, 3), np.float32))
    side = inventory_of(builder.side(), SideName.REFERENCE)

    assert heads_around(side, side.units[0]) == {4}
