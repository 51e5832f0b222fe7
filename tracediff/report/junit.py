"""Gates as JUnit XML, one test case a gate."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tracediff.model import Result
from tracediff.report.escape import visible

# A gate that only warns is a passed test case, whatever it says.
_ELEMENTS = {"passed": "system-out", "failed": "failure", "inconclusive": "error", "waived": "skipped"}


def render_junit(result: Result, suite: str = "tracediff") -> bytes:
    """Return the gates as a JUnit test suite: failed is a failure, inconclusive an error, waived skipped.

    Where the policy lets inconclusive gates pass they are skipped: a test that fails would say what the exit status does not.
    """
    gates = result.gates.outcomes if result.gates else []
    let_pass = result.gates and result.gates.pass_inconclusive and result.verdict != "not_comparable"
    known = _ELEMENTS | ({"inconclusive": "skipped"} if let_pass else {})
    elements = [known[gate.outcome] if gate.severity == "error" else "system-out" for gate in gates]
    counts = {"tests": str(len(gates))}
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        counts[plural] = str(elements.count(kind))
    root = ElementTree.Element("testsuites", {"name": visible(suite), **counts})
    cases = ElementTree.SubElement(root, "testsuite", {"name": visible(suite), **counts})
    for gate, kind in zip(gates, elements, strict=True):
        name, message = visible(gate.text), visible(gate.message, keep="\n\t")
        case = ElementTree.SubElement(
            cases, "testcase", {"classname": visible(suite), "name": name, "time": "0"}
        )
        if kind == "system-out":
            warned = gate.outcome in ("failed", "inconclusive")
            ElementTree.SubElement(case, kind).text = f"warning: {message}" if warned else message
            continue
        first = message.splitlines()[0] if message else kind
        attributes = {"message": first} | ({} if kind == "skipped" else {"type": "gate"})
        ElementTree.SubElement(case, kind, attributes).text = message
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"
