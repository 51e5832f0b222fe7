"""Gates as JUnit XML, one test case a gate."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass

from tracediff.report.escape import visible


@dataclass(frozen=True)
class GateResult:
    """One gate and how it went; `passed` is None where it could not be judged."""

    name: str
    passed: bool | None
    message: str


def render_junit(gates: Sequence[GateResult], suite: str = "tracediff") -> bytes:
    """Return the gates as a JUnit test suite: not passed is a failure, not judged is an error."""
    failed = sum(gate.passed is False for gate in gates)
    unjudged = sum(gate.passed is None for gate in gates)
    counts = {"tests": str(len(gates)), "failures": str(failed), "errors": str(unjudged), "skipped": "0"}
    root = ElementTree.Element("testsuites", {"name": visible(suite), **counts})
    cases = ElementTree.SubElement(root, "testsuite", {"name": visible(suite), **counts})
    for gate in gates:
        name, message = visible(gate.name), visible(gate.message, keep="\n\t")
        case = ElementTree.SubElement(
            cases, "testcase", {"classname": visible(suite), "name": name, "time": "0"}
        )
        if gate.passed:
            ElementTree.SubElement(case, "system-out").text = message
        else:
            kind = "failure" if gate.passed is False else "error"
            first = message.splitlines()[0] if message else kind
            ElementTree.SubElement(case, kind, {"message": first, "type": "gate"}).text = message
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"
