"""The captures of fixtures/pairs: listed, small, scrubbed, and what the list says of them."""

import lzma
import re
import sqlite3
import tomllib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "fixtures" / "pairs"
LISTED: dict[str, Any] = tomllib.loads((FOLDER / "pairs.toml").read_text(encoding="utf-8"))
FILES = sorted(FOLDER.glob("*.sqlite.xz"))
VERDICTS = {"improved", "regressed", "no_change", "not_comparable"}
PRIVATE = re.compile(rb"/(?:home|root|tmp|work|opt|usr|mnt)/|TOKEN|HOSTNAME|WORKING_DIR|ENVIRONMENT_VARIABLE")


def test_every_file_is_listed_and_used() -> None:
    names = {path.name for path in FILES}
    assert {capture["file"] for capture in LISTED["capture"]} == names
    assert {
        file for pair in LISTED["pair"] for side in ("baseline", "candidate") for file in pair[side]
    } == names
    assert len({pair["name"] for pair in LISTED["pair"]}) == len(LISTED["pair"])


def test_they_are_small() -> None:
    assert max(path.stat().st_size for path in FILES) <= 400 * 1024
    assert sum(path.stat().st_size for path in FILES) <= 8 * 1024 * 1024


@pytest.mark.parametrize("pair", LISTED["pair"], ids=lambda pair: str(pair["name"]))
def test_a_pair_says_what_it_is_for(pair: dict[str, Any]) -> None:
    assert pair["verdict"] in VERDICTS
    assert pair["note"]
    assert not set(pair["baseline"]) & set(pair["candidate"])
    if pair["verdict"] in {"improved", "regressed"}:
        assert pair["cause"]
        assert pair["place"]
        sign = 1 if pair["verdict"] == "regressed" else -1
        assert sign * pair["program_delta_ns"] > 0
        assert sign * pair.get("expected_ns", sign) > 0
    if "expected_ns" in pair:
        assert pair["expected_from"] in {"program", "sql"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_a_capture_is_scrubbed_and_whole(path: Path) -> None:
    data = lzma.decompress(path.read_bytes())
    assert PRIVATE.search(data) is None
    db = sqlite3.connect(":memory:")
    db.deserialize(data)
    assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
    assert db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0] > 400
    assert {name for (name,) in db.execute("SELECT name FROM PROCESSES")} == {"python3"}
    assert db.execute("SELECT count(*) FROM ProcessStreams").fetchone()[0] == 0
