"""A result for continuous integration: JUnit XML, annotations of GitHub Actions, github-action-benchmark's JSON."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

from tracediff.comparison.gates import undecided
from tracediff.model import CATEGORIES, GateOutcome, Gates, Phase, PhaseSide, Result, Verdict
from tracediff.report import units, words
from tracediff.report.amounts import TEXT
from tracediff.report.escape import neutral, shorten, visible
from tracediff.report.grammar import say


class _Case(NamedTuple):
    name: str
    kind: str  # the element: failure, error, skipped; system-out of a case that passed
    message: str
    more: str = ""


_GATE_KINDS = {"failed": "failure", "inconclusive": "skipped", "waived": "skipped", "passed": "system-out"}
_PHASE_KINDS: dict[Verdict, str] = {
    "regressed": "failure", "likely_regressed": "failure", "inconclusive": "skipped", "not_comparable": "error",
}  # fmt: skip


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
        _add_case(parent, case, visible(suite))
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
        return _Case(gate.text, "system-out", say("gate_warning", message=gate.message))
    if undecided(gate):
        kind = "skipped"
    return _Case(gate.text, kind, gate.message, result.headline.text if kind == "failure" else "")


def _of_phase(phase: Phase, result: Result) -> _Case:
    """The verdict of a phase; of the one that the headline is of, in its words."""
    name = f"{units.step(phase.phase)} time"
    if not phase.judged or phase.verdict is None:
        return _Case(name, "skipped", f"{words.TOO_FEW}: {_size(phase)}")
    kind = _PHASE_KINDS.get(phase.verdict, "system-out")
    if phase.phase == result.headline.phase and (
        phase.verdict == result.verdict or result.verdict in words.MOVED
    ):
        kind = _PHASE_KINDS.get(result.verdict, "system-out")  # also where rare steps alone have moved
        return _Case(name, kind, result.headline.text, result.verdict_reason)
    return _Case(name, kind, f"{words.verdict(result, phase.verdict, phase.phase).word}: {_size(phase)}.")


def _size(phase: Phase) -> str:
    """`+246 ± 134 us (+5.2 %) per mixed step`."""
    typical = phase.typical
    assert typical is not None
    prose = units.prose([typical.delta_ns])
    size = prose.interval(typical.delta_ns, typical.ci_low_ns, typical.ci_high_ns)
    percent = units.percent(typical.delta_ns, typical.baseline_ns)
    return f"{size} ({percent}) {words.per_step(phase.phase)}"


def _add_case(parent: ElementTree.Element, case: _Case, suite: str) -> None:
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


# Gates as workflow commands of GitHub Actions: `::error title=...::...` on a run's page.


def render_annotations(result: Result) -> list[str]:
    """Return the lines: the verdict as a notice, then what did not pass; failed is an error, the rest warnings."""
    gates = result.gates or Gates([])  # as they are: what would harm a runner is escaped below
    result = neutral(result)
    verdict = words.verdict(result).word
    said = f"{result.headline.text} {result.verdict_reason}".strip()
    lines = [_command("notice", f"tracediff: {verdict}", said)]
    for gate in gates.outcomes:
        if gate.outcome == "passed":
            continue
        error = gate.outcome == "failed" and gate.severity == "error"
        title = f"tracediff gate {shorten(gate.text, 100)}: {gate.outcome}"
        lines.append(_command("error" if error else "warning", title, gate.message))
    return lines + [_command("warning", "tracediff policy", note) for note in gates.notes]


def _command(kind: str, title: str, message: str) -> str:
    """One command; what would end it or begin another is escaped as the runner reads it back."""
    return f"::{kind} title={_escape(title, ':,')}::{_escape(shorten(message, TEXT))}"


def _escape(text: str, more: str = "") -> str:
    text = visible(" ".join(text.split()))
    for char in "%" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


# The candidate's figures for github-action-benchmark (`tool: customSmallerIsBetter`): a chart over commits.


def render_benchmark(result: Result) -> bytes:
    """Return a JSON list of {name, unit, value, range, extra}; times in us per step, all smaller is better."""
    result = neutral(result)
    step, launch = result.step, result.launch.candidate
    ends = (step.delta_ns, step.ci_low_ns, step.ci_high_ns)
    delta, low, high = (units.prose(ends).delta(ns) for ns in ends)
    said = result.headline.text or words.verdict(result).word
    extra = say("benchmark_extra", said=said, delta=delta, low=low, high=high)
    entries: list[dict[str, object]] = [_entry("step time", "us", step.candidate_ns / 1e3, extra=extra)]
    books = result.accounting.candidate
    entries += [_entry(f"step/{key}", "us", books[key] / 1e3) for key in CATEGORIES if key in books]
    for phase in result.phases:
        if phase.candidate:
            entries += _of_side(phase.phase, phase.candidate)
    entries += [
        _entry("launching calls", "per step", launch.calls_per_step),
        _entry("kernels", "per step", launch.kernels_per_step),
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False).encode() + b"\n"


def _of_side(name: str, side: PhaseSide) -> list[dict[str, object]]:
    """Mean over all whole steps with half the spread of the runs' own means, and the tail."""
    means = side.run_means_ns
    spread = {"range": f"± {(max(means) - min(means)) / 2e3:.1f}"} if len(means) > 1 else {}
    return [
        _entry(f"{name} mean", "us", side.mean_ns / 1e3, **spread),
        _entry(f"{name} p50", "us", side.p50_ns / 1e3),
        _entry(f"{name} p99", "us", side.p99_ns / 1e3),
    ]


def _entry(name: str, unit: str, value: float, **more: str) -> dict[str, object]:
    return {"name": name, "unit": unit, "value": round(value, 3), **more}
