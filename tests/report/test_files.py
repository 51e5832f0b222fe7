"""JSON, JUnit, annotations and benchmark figures, and where templates are found."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest

from tests.report import sample
from tracediff.companions.model import decode
from tracediff.errors import TracediffError
from tracediff.model import GateOutcome, Gates, Headline, Outcome, Result, Severity, encode
from tracediff.report import templates
from tracediff.report.ci import render_annotations, render_benchmark, render_junit


def test_json_reads_back_to_the_same_result() -> None:
    result = sample.full()
    data = encode(result)
    assert decode(data) == result
    assert data == encode(sample.full())


def gate(text: str, outcome: Outcome, message: str, severity: Severity = "error") -> GateOutcome:
    return GateOutcome(text=text, metric="step", severity=severity, outcome=outcome, message=message)


def gated(*outcomes: GateOutcome, notes: tuple[str, ...] = ()) -> Result:
    return msgspec.structs.replace(sample.full(), gates=Gates(list(outcomes), list(notes)))


GATES = [
    gate("step:+5%", "failed", f"+12.4 % is beyond +5 %\n{''.join(sample.HOSTILE)}"),
    gate(f"kernel:{sample.CDATA}{sample.ESCAPE}:+1%", "passed", "+0.3 %"),
    gate("launches:+5%", "inconclusive", "may be noise"),
    gate("gc:+1us", "waived", "waived until 2027-01-31: known"),
    gate("idle:+1us", "failed", "only told", "warning"),
]


def test_junit() -> None:
    root = ElementTree.fromstring(render_junit(gated(*GATES)))
    assert {key: root.attrib[key] for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "0",
        "skipped": "2",
    }
    cases = list(root.iter("testcase"))
    assert [child.tag for case in cases for child in case] == [
        "failure", "system-out", "skipped", "skipped", "system-out",
    ]  # fmt: skip
    assert cases[1].attrib["name"] == "kernel:]]>\\x1b[31mred:+1%"
    assert cases[0][0].attrib["message"] == "+12.4 % is beyond +5 %"
    assert sample.SCRIPT in (cases[0][0].text or "")
    assert cases[4][0].text == "warning: only told"


def runner(line: str) -> tuple[str, dict[str, str], str]:
    """What the runner of GitHub Actions reads from a line: command, properties, message."""
    assert "\n" not in line and "\r" not in line and "##[" not in line
    head, _, message = line.removeprefix("::").partition("::")
    command, _, properties = head.partition(" ")

    def plain(text: str) -> str:
        for code, char in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
            text = text.replace(code, char)
        return text

    pairs = dict(one.split("=", 1) for one in properties.split(",") if one)
    return command, {key: plain(value) for key, value in pairs.items()}, plain(message)


def test_annotations() -> None:
    lines = [runner(line) for line in render_annotations(gated(*GATES, notes=("a waiver is not needed",)))]
    assert [line[0] for line in lines] == ["notice", "error", "warning", "warning", "warning", "warning"]
    assert lines[0][2].startswith(
        "Slower with pr <script>alert(1)</script>: generation step 1,035 -> 1,140 us (+106 us, +10.2 %)."
    )
    assert lines[1][1] == {"title": "tracediff gate step:+5%: failed"}
    assert lines[1][2].startswith("+12.4 % is beyond +5 % ")
    assert lines[3][1]["title"].endswith("waived") and "2027-01-31: known" in lines[3][2]


def test_a_name_cannot_give_the_runner_a_command() -> None:
    name = "x\n::add-mask::y\r\n##[stop-commands]z ##vso[task] 100% a:b,c=d"
    (_, line) = render_annotations(gated(gate(f"kernel:{name}:+1%", "failed", name)))
    command, properties, message = runner(line)
    assert command == "error" and set(properties) == {"title"}
    assert message == "x ::add-mask::y # #[stop-commands]z # #vso[task] 100% a:b,c=d"


def test_benchmark_figures() -> None:
    entries = {entry["name"]: entry for entry in json.loads(render_benchmark(sample.full()))}
    assert entries["step time"]["value"] == pytest.approx(1167.9) and entries["step time"]["unit"] == "us"
    assert entries["step/gc"]["value"] == 27.5 and entries["kernels"]["value"] == 141
    # the runs' means lie at 97.6 to 102.4 % of 1167.9
    assert entries["generation mean"]["range"] == "± 28.0"
    assert all(set(entry) <= {"name", "value", "unit", "range", "extra"} for entry in entries.values())
    parts = [entry["value"] for name, entry in entries.items() if name.startswith("step/")]
    assert sum(parts) == pytest.approx(entries["step time"]["value"])
    only = {entry["name"] for entry in json.loads(render_benchmark(sample.minimal()))}
    assert "step/gc" not in only  # not captured is no zero


def test_junit_of_sides_that_are_not_comparable_is_one_error() -> None:
    headline = Headline("Not comparable: other GPUs (gpu).", "", 0.0, "within_noise", "")
    for gates, cases in ((None, ["error"]), (Gates([GATES[2]]), ["error", "skipped"])):
        result = msgspec.structs.replace(
            sample.full(),
            gates=gates,
            verdict="not_comparable",
            headline=headline,
            verdict_reason="gpu: A against B.",
        )
        root = ElementTree.fromstring(render_junit(result))
        found = [child for case in root.iter("testcase") for child in case]
        assert [child.tag for child in found] == cases and root.attrib["errors"] == "1"
        assert found[0].attrib["message"] == "Not comparable: other GPUs (gpu)."


def test_a_gate_that_noise_lets_pass_is_skipped() -> None:
    """Of a limit of 10 us: an interval up to 9 us passes, one up to 11 us may hide a failure."""
    for high, kind in ((9_000.0, "system-out"), (11_000.0, "skipped")):
        one = msgspec.structs.replace(
            gate("step:+10us", "passed", "+1"), limit=10_000.0, delta=1_000.0, ci_high=high
        )
        root = ElementTree.fromstring(render_junit(gated(one)))
        assert [child.tag for case in root.iter("testcase") for child in case] == [kind]


def test_junit_without_gates_has_a_case_for_each_phase() -> None:
    """The sample's generation steps regressed; too few of its context steps were compared to judge them."""
    whole = sample.full()
    one = whole.phases[1]
    assert one.typical is not None
    other = msgspec.structs.replace(one, phase="mixed", verdict="inconclusive")
    few = msgspec.structs.replace(one, phase="context", judged=False, verdict=None)
    root = ElementTree.fromstring(render_junit(msgspec.structs.replace(whole, phases=[one, other, few])))
    cases = {case.attrib["name"]: case[0] for case in root.iter("testcase")}
    assert {name: child.tag for name, child in cases.items()} == {
        "generation step time": "failure", "mixed step time": "skipped", "context step time": "skipped",
    }  # fmt: skip
    assert cases["generation step time"].attrib["message"] == whole.headline.text
    # 105.8 us of 1,034.6 are 10.2 %
    assert cases["mixed step time"].attrib["message"] == "Unclear: +106 ± 18 us (+10.2 %) per mixed step."
    assert cases["context step time"].attrib["message"].startswith("too few similar steps")


def test_rare_steps_alone_fail_the_case_of_their_phase() -> None:
    whole = sample.full()
    phases = [msgspec.structs.replace(one, verdict="no_change") for one in whole.phases if one.typical]
    root = ElementTree.fromstring(render_junit(msgspec.structs.replace(whole, phases=phases)))
    assert [child.tag for case in root.iter("testcase") for child in case] == ["failure"]


def test_templates_are_found_in_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "site" / "tracediff" / "report" / "templates.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr(templates, "__file__", str(module))
    with pytest.raises(TracediffError) as caught:
        templates.folder()
    assert caught.value.slug == "templates-missing"
    packed = tmp_path / "site" / "tracediff" / "_templates"
    packed.mkdir()
    monkeypatch.undo()
    shutil.copy(templates.folder() / "page.html.j2", packed)
    monkeypatch.setattr(templates, "__file__", str(module))
    assert templates.folder() == packed
