"""JSON and JUnit, and where templates are found."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.report import sample
from tracediff.errors import TracediffError
from tracediff.model import decode
from tracediff.report import templates
from tracediff.report.jsonreport import render_json
from tracediff.report.junit import GateResult, render_junit


def test_json_reads_back_to_the_same_result() -> None:
    result = sample.full()
    data = render_json(result)
    assert decode(data) == result
    assert data == render_json(sample.full())


def test_junit() -> None:
    gates = [
        GateResult("step:+5%", False, f"+12.4 % is beyond +5 %\n{''.join(sample.HOSTILE)}"),
        GateResult(f"gc:+1% {sample.CDATA}{sample.ESCAPE}", True, "+0.3 %"),
        GateResult("launch:+5%", None, "inconclusive"),
    ]
    root = ElementTree.fromstring(render_junit(gates))
    assert root.attrib | {"name": ""} == {
        "name": "",
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "skipped": "0",
    }
    cases = list(root.iter("testcase"))
    assert [[child.tag for child in case] for case in cases] == [["failure"], ["system-out"], ["error"]]
    assert cases[1].attrib["name"] == "gc:+1% ]]>\\x1b[31mred"
    assert cases[0][0].attrib["message"] == "+12.4 % is beyond +5 %"
    assert sample.SCRIPT in (cases[0][0].text or "")


def test_junit_without_gates() -> None:
    assert ElementTree.fromstring(render_junit([])).attrib["tests"] == "0"


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
    shutil.copy(templates.folder() / "report.html.j2", packed)
    monkeypatch.setattr(templates, "__file__", str(module))
    assert templates.folder() == packed
