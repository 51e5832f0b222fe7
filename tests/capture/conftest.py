"""Stand-ins for nsys and the programs, on PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.capture.stand_ins import StandIns

SECRET = "hunter2hunter2"


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    made = StandIns(tmp_path / "bin",
        [f"base_{number}" for number in range(1, 5)], [f"work95_{number}" for number in range(1, 5)],
    )  # fmt: skip
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("NSYS", raising=False)
    monkeypatch.setenv("API_TOKEN", SECRET)
    monkeypatch.chdir(tmp_path)
    return made
