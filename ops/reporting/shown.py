"""One row of the table for a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.ops.table import Row


def shown(row: Row, topic: str) -> str:
    """Return what is known of an operator: names, arguments, differences by design."""
    lines = [f"{row.name}  ({topic})"]
    for framework, one in row.frameworks.items():
        lines.append(f"  {framework:<8}{one.name}")
        facts = [f"{name} -> {other}" for name, other in one.names.items()]
        facts += [f"{name}: {text}" for name, text in one.wrapped.items()]
        facts += [f"{name}={value!r} always" for name, value in one.always.items()]
        facts += [f"{name}: another value" for name in one.values]
        if one.changes is not None:
            facts.append("arguments rewritten")
        if one.slots is not None:
            facts.append(f"outputs {list(one.slots)} compared")
        if one.taken:
            facts.append(f"compared: {one.taken}")
        lines += [f"          {fact}" for fact in facts]
    if row.note:
        lines.append(f"  by design: {row.note}")
    return "\n".join([*lines, ""])
