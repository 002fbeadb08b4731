"""The result of a test as JUnit XML: a case for each operator, a failure for what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from padiff.comparer.report.escape import printable

from .program import program_of
from .text import described

if TYPE_CHECKING:
    from padiff.ops.searching import Searched, Tested
    from padiff.ops.table import Operators


def to_junit(tested: Tested, table: Operators) -> str:
    """Return the XML document."""
    cases = [_case(tested, table, one) for one in tested.operators]
    failures = sum(case.find("failure") is not None for case in cases)
    suite = ET.Element("testsuite", name="operators", tests=str(len(cases)), errors="0")
    suite.set("failures", str(failures))
    suite.extend(cases)
    root = ET.Element("testsuites", name="padiff", tests=str(len(cases)), errors="0")
    root.set("failures", str(failures))
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(tested: Tested, table: Operators, searched: Searched) -> ET.Element:
    name = f"padiff.operators.{tested.reference}.{tested.candidate}"
    case = ET.Element("testcase", name=searched.operator, classname=name)
    new = [
        (each, finding)
        for bucket, (each, finding) in searched.findings.items()
        if finding.is_candidates and tested.reason(bucket) is None
    ]
    if new:
        frameworks = (tested.reference, tested.candidate)
        texts = [
            "\n".join(described(tested, each, finding))
            + "\n\n"
            + program_of(table[each.operator], each, finding, frameworks)
            for each, finding in new
        ]
        failure = ET.SubElement(case, "failure", message=printable(new[0][1].bucket.name))
        lines = "\n\n".join(texts).splitlines()
        failure.text = "\n".join(printable(line) for line in lines)
    return case
