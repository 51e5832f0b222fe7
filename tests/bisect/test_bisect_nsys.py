"""`tracediff bisect` with a real nsys and no GPU: a small program whose commits change how long its ranges take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.bisect.histories import repository
from tests.capture.test_real_nsys import PYTHON, WHY_NOT
from tracediff.cli.main import cli

pytestmark = [pytest.mark.nsys, pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

PROGRAM = """
import time
import nvtx

def work(name, ms):
    with nvtx.annotate(name):
        time.sleep(ms / 1e3)  # a busy loop would measure who else is on the machine

for step in range(60):
    with nvtx.annotate(f"[Executor] _forward_step {step}: 0 ctx reqs, 0 ctx tokens, 4 gen reqs"):
        work("_schedule", SCHEDULE)
        work("_prepare", PREPARE)
        work("_sample", SAMPLE)
"""


def program(schedule_ms: float, prepare_ms: float = 6.0, sample_ms: float = 1.0) -> dict[str, str]:
    values = {"SCHEDULE": schedule_ms, "PREPARE": prepare_ms, "SAMPLE": sample_ms}
    text = PROGRAM
    for name, value in values.items():
        text = text.replace(name, str(value))
    return {"serve.py": text}


def test_the_commit_that_made_a_range_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoy, commit 2, moves 5 ms from `_prepare` to `_sample`; the culprit, commit 4, adds 5 ms to `_schedule`."""
    (tmp_path / "r").mkdir()
    monkeypatch.chdir(tmp_path / "r")
    decoy = {"prepare_ms": 1.0, "sample_ms": 6.0}
    every = [program(2), program(2), program(2, **decoy), program(2, **decoy), *3 * [program(7, **decoy)]]
    hashes = repository(Path(), [{**one, "number": str(number)} for number, one in enumerate(every)])
    words = ["--cause", "host_work@_schedule", "--capture", f"{PYTHON} serve.py", "-o", "../out"]
    done = CliRunner().invoke(cli, ["bisect", hashes[0], "main", *words], catch_exceptions=False)
    print(done.output)
    assert done.exit_code == 0
    found = json.loads(Path("../out/bisect.json").read_text())
    assert [one["commit"] for one in found["culprits"]] == [hashes[4]]
    assert found["parent"]["delta_ns"] == pytest.approx(5e6, rel=0.3)
