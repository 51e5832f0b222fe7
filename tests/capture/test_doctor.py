"""`tracediff doctor` against stand-ins: what is there, what is missing, and the fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.capture.stand_ins import StandIns
from tracediff.capture import doctor
from tracediff.capture.doctor import Check, can_capture, examine, summary
from tracediff.cli.main import cli


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the trial's export is said to hold."""
    seen = {"nvtx": 1, "gil": 40}
    monkeypatch.setattr(doctor, "_seen", lambda export: (seen["nvtx"], seen["gil"]))
    monkeypatch.setattr(doctor, "_binding", lambda said: "nvtx 0.2.12")
    return seen


def test_a_machine_that_can_capture(stand_ins: StandIns, ranges: dict[str, int], tmp_path: Path) -> None:
    checks = by_name(examine(tmp_path))
    assert can_capture(list(checks.values()))
    assert checks["GPU"].message == "1 x NVIDIA H200"
    assert checks["driver"].message == "580.95"
    assert checks["CUDA"].message == "up to 13.0"
    assert checks["export"].message == "sqlite, hdf, text, arrow"
    assert checks["NVTX"].status == checks["GIL trace"].status == "ok"
    assert checks["clocks"].status == "warn"
    assert "nvidia-smi tells nothing of locks: SM 1980 of 1980 MHz" in checks["clocks"].message


def test_locked_clocks(
    stand_ins: StandIns, ranges: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LOCKED", "1")
    assert by_name(examine(tmp_path))["clocks"].status == "ok"


def test_a_range_that_gets_lost(stand_ins: StandIns, ranges: dict[str, int], tmp_path: Path) -> None:
    ranges["nvtx"] = 0
    lost = by_name(examine(tmp_path))["NVTX"]
    assert lost.status == "fail"
    assert "nvtx 0.2.12 got lost" in lost.message
    assert "nvtx<=0.2.10" in lost.fix


def test_an_nsys_without_the_gil_trace(
    stand_ins: StandIns, ranges: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OLD_NSYS", "1")
    checks = by_name(examine(tmp_path))
    assert checks["python-gil"].status == "warn"
    assert "GIL trace" not in checks
    assert can_capture(list(checks.values()))


def test_the_command(stand_ins: StandIns, ranges: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("captures work here\n")
    monkeypatch.setenv("NSYS", "/nowhere/nsys")
    failed = CliRunner().invoke(cli, ["doctor", "--json"])
    assert failed.exit_code == 1
    told = json.loads(failed.stdout)
    assert told["can_capture"] is False
    assert "(nsys)" in told["summary"] and "comparing does" in told["summary"]
    assert told["checks"][0]["name"] == "nsys"
    assert "put nsys on PATH" in told["checks"][0]["fix"]


def test_without_a_gpu(stand_ins: StandIns, ranges: dict[str, int], tmp_path: Path) -> None:
    (stand_ins.folder / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    checks = by_name(examine(tmp_path))
    assert checks["GPU"].status == "fail"
    assert "driver" not in checks
    assert summary(list(checks.values())).startswith("only the host can be captured here")


def test_an_interpreter_that_is_none(stand_ins: StandIns, ranges: dict[str, int], tmp_path: Path) -> None:
    checks = by_name(examine(tmp_path, "/nowhere/python"))
    assert checks["--python"].status == "fail"
    assert "/nowhere/python is no program" in checks["--python"].message
    assert not {"packages", "trial", "NVTX"} & checks.keys()


def test_what_the_interpreter_lacks_is_said(
    stand_ins: StandIns, ranges: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        doctor.machine, "versions", lambda command, env: {"python": "3.12.3", "torch": "2.11.0"}
    )
    said = by_name(examine(tmp_path))["packages"]
    assert said.message == "python 3.12.3, torch 2.11.0; no tensorrt_llm, no nvtx"


def test_a_trial_that_nsys_loses_is_made_once_more(
    stand_ins: StandIns, ranges: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine nsys may say `Local Endpoint is not available`, and works the next time."""
    run, reports = doctor.children.run, ["none", "nsys-rep"]

    def lost_once(command: list[str], *more: object) -> object:
        if command[1:3] == ["profile", "-o"]:
            monkeypatch.setenv("FAKE_REPORT", reports.pop(0))
        return run(command, *more)

    monkeypatch.setattr(doctor.children, "run", lost_once)
    assert by_name(examine(tmp_path))["trial"].status == "ok"
    reports = ["none", "none"]
    failed = by_name(examine(tmp_path))["trial"]
    assert failed.status == "fail" and failed.message.startswith("nsys wrote no report")
