"""Gates as JUnit XML, a test case each; without gates a case for each phase's verdict."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

from tracediff.comparison.gates import undecided
from tracediff.model import GateOutcome, Phase, Result, Verdict
from tracediff.report import units, words
from tracediff.report.escape import visible


class _Case(NamedTuple):
    name: str
    kind: str  # the element: failure, error, skipped; system-out of a case that passed
    message: str
    more: str = ""


_GATE_KINDS = {"failed": "failure", "inconclusive": "skipped", "waived": "skipped", "passed": "system-out"}
_PHASE_KINDS: dict[Verdict, str] = {
    "regressed": "failure", "likely_regressed": "failure", "inconclusive": "skipped", "not_comparable": "error",
}  # fmt: skip
_MOVED = ("regressed", "likely_regressed", "improved", "likely_improved")


def render_junit(result: Result, suite: str = "tracediff") -> bytes:
    """Return a JUnit test suite that is never empty.

    Failed is a failure; what noise decides is skipped with the reason, never passed; sides that are not comparable are one error.
    """
    cases = _cases(result)
    kinds = [case.kind for case in cases]
    counts = {"tests": str(len(cases))}
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        counts[plural] = str(kinds.count(kind))
    root = ElementTree.Element("testsuites", {"name": visible(suite), **counts})
    parent = ElementTree.SubElement(root, "testsuite", {"name": visible(suite), **counts})
    for case in cases:
        _add(parent, case, visible(suite))
    ElementTree.indent(root)
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _cases(result: Result) -> list[_Case]:
    found = [_Case("comparable", "error", result.headline.text, result.verdict_reason)]
    gates = [_of_gate(gate, result) for gate in (result.gates.outcomes if result.gates else [])]
    if result.verdict == "not_comparable":
        return found + gates
    phases = [_of_phase(phase, result) for phase in result.phases if phase.typical]
    return (
        gates
        or phases
        or [_Case("step time", _PHASE_KINDS.get(result.verdict, "system-out"), result.headline.text)]
    )


def _of_gate(gate: GateOutcome, result: Result) -> _Case:
    kind = _GATE_KINDS[gate.outcome]
    if kind == "failure" and gate.severity == "warning":
        return _Case(gate.text, "system-out", f"warning: {gate.message}")
    if undecided(gate):
        kind = "skipped"
    return _Case(gate.text, kind, gate.message, result.headline.text if kind == "failure" else "")


def _of_phase(phase: Phase, result: Result) -> _Case:
    """The verdict of a phase; of the one that the headline is of, in its words."""
    name = "step time" if phase.phase == "step" else f"{phase.phase} step time"
    if not phase.judged or phase.verdict is None:
        return _Case(name, "skipped", f"{words.TOO_FEW}: {_change(phase)}")
    kind = _PHASE_KINDS.get(phase.verdict, "system-out")
    if phase.phase == result.headline.phase and (phase.verdict == result.verdict or result.verdict in _MOVED):
        kind = _PHASE_KINDS.get(result.verdict, "system-out")  # also where rare steps alone have moved
        return _Case(name, kind, result.headline.text, result.verdict_reason)
    return _Case(name, kind, f"{words.VERDICTS[phase.verdict].word}: {_change(phase)}.")


def _change(phase: Phase) -> str:
    """`+246 ± 134 us (+5.2 %) per mixed step`."""
    typical = phase.typical
    assert typical is not None
    half = (typical.ci_high_ns - typical.ci_low_ns) / 2
    size = units.prose([typical.delta_ns]).interval(typical.delta_ns, half)
    percent = units.percent(typical.delta_ns, typical.baseline_ns)
    return f"{size} ({percent}) {words.per_step(phase.phase)}"


def _add(parent: ElementTree.Element, case: _Case, suite: str) -> None:
    message = visible(case.message, keep="\n\t")
    text = "\n".join(one for one in (message, visible(case.more, keep="\n\t")) if one)
    own = ElementTree.SubElement(
        parent, "testcase", {"classname": suite, "name": visible(case.name), "time": "0"}
    )
    if case.kind == "system-out":
        ElementTree.SubElement(own, case.kind).text = text
        return
    attributes = {"message": message.splitlines()[0] if message else case.kind}
    if case.kind != "skipped":
        attributes["type"] = "comparability" if case.kind == "error" else "gate"
    ElementTree.SubElement(own, case.kind, attributes).text = text
