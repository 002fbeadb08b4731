"""The result of a test for a terminal.

``shown`` prints one row of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.report.escape import printable
from padiff.ops.workers import Crash

from .program import program_of

if TYPE_CHECKING:
    from padiff.ops.cases import Case
    from padiff.ops.judging import Finding
    from padiff.ops.searching import Tested
    from padiff.ops.table import Operators, Row


_SHOWN = 200
"""Characters of an error."""


def headline(tested: Tested) -> str:
    """Return the first line: who is wrong about how many operators, of how many cases."""
    cases = sum(one.cases for one in tested.operators)
    new, known = _counted(tested)
    what = f"{len(tested.operators)} operators, {cases} cases"
    if not new and not known:
        return f"AGREE: {what}"
    verdict = "AGREE" if tested.is_candidate_right else "DIFFER"
    return f"{verdict}: {new} findings" + (f", {known} known" if known else "") + f" in {what}"


def _counted(tested: Tested) -> tuple[int, int]:
    buckets = [bucket for one in tested.operators for bucket in one.findings]
    known = sum(tested.reason(bucket) is not None for bucket in buckets)
    return len(buckets) - known, known


def to_text(tested: Tested, table: Operators, *, with_programs: bool = False) -> str:
    """Return the report.

    Args:
        tested: What was found.
        table: Of the operators.
        with_programs: Whether to print the program of each finding.
    """
    frameworks = (tested.reference, tested.candidate)
    names = [f"{one} {tested.versions.get(one, '')}".strip() for one in frameworks]
    lines = [headline(tested), f"  reference  {names[0]}", f"  candidate  {names[1]}"]
    if tested.seed is not None:
        lines.append(f"  seed       {tested.seed}")
    for one in tested.operators:
        for case, finding in one.findings.values():
            lines += ["", *described(tested, case, finding)]
            if with_programs:
                text = program_of(table[case.operator], case, finding, frameworks)
                lines += [f"    {line}".rstrip() for line in text.splitlines()]
    lines += _timed(tested, frameworks)
    lines += _invalid(tested)
    executions = sum(one.executions for one in tested.operators)
    rate = executions / tested.elapsed_s if tested.elapsed_s else 0.0
    lines += ["", f"{executions} cases executed with shrinking, {rate:.0f} a second", ""]
    return "\n".join(printable(line) for line in lines)


def described(tested: Tested, case: Case, finding: Finding) -> list[str]:
    """Return the lines about one finding."""
    lines = said_lines(finding)
    tensors = ", ".join(
        f"{name} {one.dtype}{list(one.shape)} {one.fill} {one.layout}"
        for name, one in case.named_tensors
    )
    held = {id(one) for one in case.tensors}
    others = ", ".join(f"{name}={one!r}" for name, one in case.arguments.items()
                       if id(one) not in held and not isinstance(one, tuple))  # fmt: skip
    lines.append("  " + ", ".join(part for part in (tensors, others) if part))
    reason = tested.reason(finding.bucket)
    if reason is not None:
        lines.append(f"  known: {reason}")
    return lines


def said_lines(finding: Finding) -> list[str]:
    """Return what is wrong, by how much, and what the frameworks said."""
    lines = [finding.bucket.name]
    if finding.roundings is not None:
        told = f"  off by {finding.roundings:.4g} times its rounding"
        if finding.largest is not None:
            told += f", {finding.largest:.4g} at most"
        if finding.reason:
            told += f"; {finding.reason}"
        lines.append(told)
    for name, said in (("reference", finding.reference), ("candidate", finding.candidate)):
        if said is not None:
            text = said.name if isinstance(said, Crash) else f"{said.kind}: {_first(said.text)}"
            lines.append(f"  {name}  {text}")
    return lines


def _first(text: str) -> str:
    lines = [one.strip() for one in text.splitlines() if one.strip()]
    return next((one for one in lines if "Error:" in one), lines[0] if lines else "")[:_SHOWN]


def _timed(tested: Tested, frameworks: tuple[str, str]) -> list[str]:
    """Return what calls take, where they were timed."""
    timed = [one for one in tested.operators if one.seconds]
    if not timed:
        return []
    widest = max(len(one.operator) for one in timed)
    lines = ["", f"{'':<{widest}}  us of a call, median: {', '.join(frameworks)}, ratio"]
    for one in timed:
        reference, candidate = (one.seconds[name] for name in frameworks)
        numbers = f"{1e6 * reference:9.1f} {1e6 * candidate:9.1f} {candidate / reference:8.2f}"
        lines.append(f"{one.operator:<{widest}}  {numbers}")
    return lines


def _invalid(tested: Tested) -> list[str]:
    lines = []
    for one in tested.operators:
        if one.rejected:
            share = 100 * one.rejected / one.cases
            lines.append(f"{one.operator}: both frameworks refuse {share:.0f} % of the cases")
    return ["", *lines] if lines else []


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
