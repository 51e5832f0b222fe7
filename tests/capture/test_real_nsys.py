"""The whole way with a real nsys and no GPU: capture the emulator, compare its host, find what was planted.

NVTX, the GIL trace and garbage collections are real here, kernels there are none. `.ci/install-nsys` gets nsys; the
Python that runs the emulator ($TRACEDIFF_TEST_PYTHON, else this one) needs the package nvtx.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.capture.stand_ins import manifest_of
from tracediff.capture.plan import PRESETS
from tracediff.cli.main import cli
from tracediff.errors import TracediffError
from tracediff.formats.reports import find_nsys

PYTHON = os.environ.get("TRACEDIFF_TEST_PYTHON", sys.executable)
ROOT = Path(__file__).parents[2]
SECRET = "hunter2hunter2"


def why_not() -> str:
    """Why nothing can be captured here, or nothing."""
    if find_nsys() is None:
        return "no nsys on PATH, in $NSYS or under /opt/nvidia: .ci/install-nsys gets one"
    if subprocess.run([PYTHON, "-c", "import nvtx"], capture_output=True, check=False).returncode:
        return "the Python of the emulator has no nvtx: pip install nvtx==0.2.10"
    return ""


WHY_NOT = why_not()
pytestmark = [pytest.mark.nsys, pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]


def plan(folder: Path, planted: str, always: str = "") -> Path:
    program = f"{PYTHON} -m tracediff_emulator --dry-run --steps 60 --report {{run}}/emulator.json {always}"
    path = folder / "plan.toml"
    path.write_text(
        f'repeats = 2\ncontrols = 1\nkpi = "emulator.json"\nmin_free_gib = 0\ntimeout_s = 120\n'
        f'env = {{ TLLM_PROFILE_RECORD_GC = "1", PYTHONPATH = "{ROOT}" }}\n'
        f'[baseline]\ncommand = "{program}"\n[candidate]\ncommand = "{program} {planted}"\n'
    )
    return path


def run(*words: object) -> None:
    try:
        done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    except TracediffError as error:
        # a crash of nsys itself, once in some hundred runs: what it advises makes the run again
        if "nsys-agent-lost" not in str(error) or "--resume" in words:
            raise
        run(*words, "--resume")
    else:
        assert done.exit_code == 0, done.output


def captured(folder: Path, planted: str) -> tuple[dict[str, Any], Path]:
    """Capture both sides and compare them; the result and the bundle."""
    bundle = folder / "bundle"
    run("capture", plan(folder, planted), "-o", bundle)
    run("compare", bundle, "--json", folder / "result.json", "--html", folder / "report.html", "--quiet")
    return json.loads((folder / "result.json").read_text()), bundle


def told(bundle: Path, side: str) -> list[dict[str, Any]]:
    """What the program itself says of its first rank, in the profiled runs of a side."""
    return [
        json.loads((bundle / one["folder"] / "emulator.json").read_text())["ranks"][0]
        for one in manifest_of(bundle)["runs"]
        if one["kind"] == "profiled" and one["side"] == side
    ]


def planted_ns(bundle: Path, name: str) -> float:
    """What the planted cause took a step."""
    return statistics.fmean(1000 * one["planted"][name]["us_per_step"] for one in told(bundle, "candidate"))


def grown_ns(bundle: Path) -> float:
    """By how much the candidate's median step is longer, by the program's own clock."""
    before, after = (
        statistics.fmean(1000 * one["unprofiled_step"]["median_us"] for one in told(bundle, side))
        for side in ("baseline", "candidate")
    )
    return after - before


def test_a_planted_holder_of_the_gil_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", SECRET)
    result, bundle = captured(tmp_path, "--gil-hog-us 3000")
    assert result["verdict"] in {"regressed", "likely_regressed"}
    first = result["findings"][0]
    assert first["cause"] == "gil_wait"
    assert first["where"]["thread"] == "executor"
    assert first["where"]["holder_thread"] == "await-response"
    assert first["where"]["holder_range"] == "serialize_responses"
    # Not all of the hold is waited for: it begins while the executor still waits for its tokens. What is, makes the step longer.
    grown = grown_ns(bundle)
    assert 0.75 <= first["delta_ns"] / grown <= 1.25
    assert grown <= 1.2 * planted_ns(bundle, "gil_hog")
    assert result["coverage"]["baseline"]["kernels"] == "not_captured"
    assert "compute" not in result["accounting"]["baseline"]
    assert "Cost of profiling: baseline host_step_time_generation_p50" in result["kpi"]["note"]
    # nsys knows the whole environment of the program, and what is kept of its files does not
    files = [path for path in bundle.rglob("*") if path.is_file()]
    assert (
        sum(path.name == "StringIds.parquet" and path.parent.name == "report_pqtdir" for path in files) == 4
    )
    assert sum(path.name == "META_DATA_CAPTURE.parquet" for path in files) == 4
    assert not [path.name for path in files if path.suffix in (".nsys-rep", ".qdstrm")]
    assert not [path.name for path in files if SECRET.encode() in path.read_bytes()]


def test_a_planted_garbage_collection_is_found(tmp_path: Path) -> None:
    result, bundle = captured(tmp_path, "--gc-every 2")
    assert result["verdict"] in {"regressed", "likely_regressed"}
    first = result["findings"][0]
    assert (first["cause"], first["where"]["range"]) == ("gc", "_schedule")
    assert 0.6 <= first["delta_ns"] / planted_ns(bundle, "gc") <= 1.4


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A report of each side, of one recording; the environment holds a secret."""
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("API_TOKEN", SECRET)
        run(
            "capture", plan(folder, "--gc-every 2"), "-n", 1, "--controls", 0, "--keep-reports", "-o", folder / "b",
        )  # fmt: skip
    found = sorted((folder / "b").rglob("*.nsys-rep"))
    assert len(found) == 2
    return found


def export(report: Path, form: str, to: Path) -> Path:
    """As nsys itself exports it."""
    words = [str(find_nsys()), "export", "--type", form, "-o", str(to), str(report)]
    subprocess.run(words, check=True, capture_output=True)
    return to


def test_a_real_export_is_scrubbed_and_stays_the_same(reports: list[Path], tmp_path: Path) -> None:
    """Also the raw one: the environment is in three places of it."""
    raw, clean = export(reports[0], "sqlite", tmp_path / "raw.sqlite"), tmp_path / "clean.sqlite"
    assert raw.read_bytes().count(SECRET.encode()) >= 3
    run("scrub", raw, clean)
    assert SECRET.encode() not in clean.read_bytes()
    assert b"API_TOKEN" not in clean.read_bytes()
    run("compare", raw, clean, "--json", tmp_path / "same.json", "--quiet")
    same = json.loads((tmp_path / "same.json").read_text())
    assert same["step"]["delta_ns"] == 0
    assert set(same["accounting"]["delta"].values()) == {0}


def test_all_exports_of_a_report_give_the_same_result(reports: list[Path], tmp_path: Path) -> None:
    """What nsys itself writes as Parquet, against its SQLite without what it does not write there."""
    found = {}
    for form in ("sqlite", "parquetdir"):
        sides = [tmp_path / form / str(side) / "run" for side, _ in enumerate(reports)]
        for report, side in zip(reports, sides, strict=True):
            side.parent.mkdir(parents=True)
            export(report, form, side)
            if form == "sqlite":
                with sqlite3.connect(side) as db:
                    db.execute("DROP TABLE META_DATA_CAPTURE")
                db.close()
        out = tmp_path / f"{form}.json"
        run("compare", *sides, "--force", "--json", out, "--quiet")
        found[form] = {name: part for name, part in json.loads(out.read_text()).items() if name != "inputs"}
    assert found["sqlite"]["accounting"]["delta"]["gc"] > 0
    assert found["parquetdir"] == found["sqlite"]


def test_a_report_gives_the_same_bytes_as_parquet_and_as_sqlite(reports: list[Path], tmp_path: Path) -> None:
    """Both with META_DATA_CAPTURE, which nsys itself leaves out of Parquet."""
    found = []
    for form in ("parquet", "sqlite"):
        out = tmp_path / f"{form}.json"
        run("compare", *reports, "--json", out, "--quiet")
        found.append(out.read_bytes())
    assert found[0] == found[1]
    assert json.loads(found[0])["accounting"]["delta"]["gc"] > 0


def test_the_doctor_sees_ranges_and_the_gil() -> None:
    done = CliRunner().invoke(cli, ["doctor", "--json", "--python", PYTHON])
    checks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert checks["trial"]["status"] == "ok", checks["trial"]
    assert checks["NVTX"]["status"] == "ok", checks["NVTX"]
    assert checks["GIL trace"]["status"] == "ok", checks["GIL trace"]


def labels_of(folder: Path) -> list[str]:
    """The step labels in the export of a run, in order."""
    tables = folder / "report_pqtdir"
    texts = pl.read_parquet(tables / "StringIds.parquet").with_columns(textId=pl.col("id").cast(pl.Int64))
    rows = pl.read_parquet(tables / "NVTX_EVENTS.parquet").join(texts, on="textId", how="left").sort("start")
    label = pl.coalesce("text", "value")
    return rows.filter(label.str.contains("_forward_step")).select(label).to_series().to_list()


def test_the_same_traffic_gives_both_runs_of_a_pair_the_same_steps(tmp_path: Path) -> None:
    run(
        "capture",
        plan(tmp_path, "--work-us 200", always="--traffic"),
        "-o",
        tmp_path / "bundle",
        "--same-traffic",
    )
    runs = {
        (one["side"], one["repeat"]): labels_of(tmp_path / "bundle" / one["folder"])
        for one in manifest_of(tmp_path / "bundle")["runs"]
        if one["kind"] == "profiled"
    }
    assert len(runs["baseline", 1]) > 20
    assert runs["baseline", 1] == runs["candidate", 1]
    assert runs["baseline", 2] == runs["candidate", 2]
    assert runs["baseline", 1] != runs["baseline", 2]


@pytest.mark.parametrize(("stack", "generating"), [("vllm", 36), ("sglang", None)])
def test_the_steps_of_a_server_that_is_asked_to_profile(
    stack: str, generating: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iterations 20 to 60 of a stand-in with the ranges of the stack; each tenth one has a prompt.

    Without a GPU nothing calls cudaProfilerStart: the whole run is captured.
    """
    monkeypatch.setitem(PRESETS, stack, replace(PRESETS[stack], capture_range=False))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = f"{PYTHON} {Path(__file__).with_name('stand_in_engine.py')} {stack} serve --port {port}"
    run(
        "capture", "--preset", stack, "--steps", "20-60", "-n", 1, "--baseline", server, "--candidate", server,
        "--client", "true", "--ready-url", f"http://127.0.0.1:{port}/health",
        "-o", tmp_path / "bundle",
    )  # fmt: skip
    run("compare", tmp_path / "bundle", "--json", tmp_path / "result.json", "--quiet")
    result = json.loads((tmp_path / "result.json").read_text())
    # The last of 40 has no next one. On a loaded machine the first may be long; then it begins the run and is no step.
    begins = result["mix"]["begins"] or {"baseline": 0, "candidate": 0}
    for side, steps in result["step"]["steps"].items():
        assert steps + begins[side] == 39
    assert [one["phase"] for one in result["phases"]] == (
        ["step"] if generating is None else ["generation", "mixed"]
    )
