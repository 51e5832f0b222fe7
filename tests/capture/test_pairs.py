"""The captures of fixtures: those of pairs listed and small, all scrubbed; and what the list says of them."""

import lzma
import re
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures"
FOLDER = FIXTURES / "pairs"
LISTED: dict[str, Any] = tomllib.loads((FOLDER / "pairs.toml").read_text(encoding="utf-8"))
FILES = sorted(FOLDER.glob("*.sqlite.xz"))
VERDICTS = {"improved", "regressed", "no_change", "not_comparable"}
PRIVATE = re.compile(rb"/(?:home|root|tmp|work|opt|usr|mnt)/|TOKEN|HOSTNAME|WORKING_DIR|ENVIRONMENT_VARIABLE")
WHOSE = re.compile(
    r"/home/|/root\b|/Users/|\b\d{1,3}(\.\d{1,3}){3}\b|@[a-z]+\.|PASSWORD|TOKEN=|ssh-|ENVIRONMENT_VARIABLE"
)


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


def test_a_pair_says_what_it_is_for() -> None:
    for pair in LISTED["pair"]:
        assert pair["verdict"] in VERDICTS, pair["name"]
        assert pair["note"], pair["name"]
        assert not set(pair["baseline"]) & set(pair["candidate"]), pair["name"]
        if pair["verdict"] in {"improved", "regressed"}:
            assert pair["cause"], pair["name"]
            assert pair["place"], pair["name"]
            sign = 1 if pair["verdict"] == "regressed" else -1
            assert sign * pair["program_delta_ns"] > 0, pair["name"]
            assert sign * pair.get("expected_ns", sign) > 0, pair["name"]
        if "expected_ns" in pair:
            assert pair["expected_from"] in {"program", "sql"}, pair["name"]


def opened(content: bytes) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    db.deserialize(content)
    return db


def test_the_captures_are_scrubbed_and_whole() -> None:
    for path in FILES:
        content = lzma.decompress(path.read_bytes())
        assert PRIVATE.search(content) is None, path.name
        with closing(opened(content)) as db:
            assert db.execute("PRAGMA quick_check").fetchone() == ("ok",), path.name
            kernels, processes, streams = (
                db.execute(query).fetchall()
                for query in (
                    "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL",
                    "SELECT DISTINCT name FROM PROCESSES",
                    "SELECT count(*) FROM ProcessStreams",
                )
            )
            assert kernels[0][0] > 400, path.name
            assert processes == [("python3",)], path.name
            assert streams == [(0,)], path.name


def test_no_capture_says_whose_it_is() -> None:
    """No home folder, no environment variable, no address in any text of a capture."""
    others = [*FIXTURES.glob("demo/*/*.sqlite.xz"), *FIXTURES.glob("captures/*.sqlite.xz")]
    others += FIXTURES.glob("system/*.sqlite.xz")
    assert len(others) > 20
    found = []
    for path in others:
        with closing(opened(lzma.decompress(path.read_bytes()))) as db:
            tables = [table for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = (row for table in tables for row in db.execute(f'SELECT * FROM "{table}"'))
            texts = {value for row in rows for value in row if isinstance(value, str)}
        assert texts, path.name
        found += [(path.name, text) for text in texts if WHOSE.search(text)]
    assert found == []
