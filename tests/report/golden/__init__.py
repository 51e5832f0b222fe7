"""Expected outputs. `TRACEDIFF_UPDATE_GOLDEN=1 pytest tests/report` writes them anew; read the difference."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent


def check(name: Path, actual: str) -> None:
    expected = HERE / name
    if os.environ.get("TRACEDIFF_UPDATE_GOLDEN"):
        expected.write_text(actual, encoding="utf-8")
    assert actual == expected.read_text(encoding="utf-8"), f"{name} differs from what is produced"
