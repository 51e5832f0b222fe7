"""The runner against a stand-in for nsys: order, failures, resuming, time limits, and what is written."""

from __future__ import annotations

import errno
import json
import lzma
import os
import platform
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fixtures.builders import BROKEN
from tests.capture.conftest import SECRET
from tests.capture.stand_ins import StandIns, manifest_of
from tests.failing import failing
from tracediff.capture.machine import import_raw, need_nsys, recorded_command, versions
from tracediff.capture.plan import Plan, plan_from
from tracediff.capture.runner import Runner, forget_environment
from tracediff.cli.main import cli
from tracediff.errors import TracediffError
from tracediff.formats.bundle import is_bundle, read_bundle


def plan(**more: Any) -> Plan:
    sides = {"baseline": {"command": "program baseline"}, "candidate": {"command": "program candidate"}}
    return plan_from({**sides, "repeats": 2, "min_free_gib": 0, **more}, Path())


def clock() -> Any:
    ticks: Iterator[int] = iter(range(1_800_000_000, 1_900_000_000, 10))
    return lambda: float(next(ticks))


def capture(one: Plan, bundle: Path, **how: Any) -> dict[str, Any]:
    Runner(one, bundle, need_nsys(), os.environ, clock=clock()).run(**how)
    return manifest_of(bundle)


def statuses(bundle: Path) -> dict[str, str]:
    return {run["folder"]: run["status"] for run in manifest_of(bundle)["runs"]}


def test_a_clock_that_is_set_back_makes_no_negative_time(stand_ins: StandIns, tmp_path: Path) -> None:
    ticks = iter(range(1_900_000_000, 1_800_000_000, -3600))
    Runner(
        plan(repeats=1), tmp_path / "bundle", need_nsys(), os.environ, clock=lambda: float(next(ticks))
    ).run()
    assert all(0 < run["seconds"] < 600 for run in manifest_of(tmp_path / "bundle")["runs"])


def test_runs_are_interleaved_and_kept(stand_ins: StandIns, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    capture(plan(warmup=1, controls=1), bundle)
    assert [call["args"][0] for call in stand_ins.calls("program")] == [
        "baseline", "candidate", "baseline", "candidate", "candidate", "baseline", "baseline", "candidate",
    ]  # fmt: skip
    assert len(stand_ins.calls("nsys")) == 4  # warm-ups and controls are not profiled
    data = manifest_of(bundle)
    assert [run["kind"] for run in data["runs"]] == ["warmup"] * 2 + ["profiled"] * 4 + ["control"] * 2
    assert {run["status"] for run in data["runs"]} == {"done"}
    assert sorted(path.name for path in (bundle / "runs" / "003-baseline-1").iterdir()) == [
        "report.sqlite", "stderr.log", "stdout.log",
    ]  # fmt: skip
    assert data["created"] == "2027-01-15T08:00:00+00:00"
    assert data["host"]["gpus"][0]["name"] == "NVIDIA H200"
    assert data["host"]["gpus"][0]["power_w"] == 412.5
    assert data["host"]["cuda"] == "13.0"
    assert data["nsys"]["version"].startswith("2025.3.1")
    assert data["runs"][2]["before"][0]["sm_clock_mhz"] == 1980
    assert data["runs"][2]["command"][-2:] == ["program", "baseline"]
    assert "{run}/report" in data["runs"][2]["command"]
    assert not list(bundle.rglob(".*"))


@pytest.mark.slow
def test_a_failed_run_is_kept_and_resuming_runs_only_what_is_missing(
    stand_ins: StandIns, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    stand_ins.mode("fail-3")
    with pytest.raises(TracediffError) as failed:
        capture(plan(), bundle)
    assert failed.value.slug == "capture-run-failed"
    assert "exit code 7: CUDA out of memory" in failed.value.message
    assert "--resume" in str(failed.value.fix)
    assert statuses(bundle) == {
        "runs/001-baseline-1": "done", "runs/002-candidate-1": "done", "runs/003-candidate-2": "failed",
    }  # fmt: skip
    assert "out of memory" in (bundle / "runs/003-candidate-2/stderr.log").read_text()
    assert manifest_of(bundle)["runs"][2]["error"]["slug"] == "capture-exit-code"
    with pytest.raises(
        TracediffError, match=r"(?s)holds 2 of 4 runs of this plan.*same command with --resume"
    ):
        capture(plan(), bundle)
    stand_ins.mode("")
    capture(plan(), bundle, resume=True)
    assert set(statuses(bundle).values()) == {"done"}
    assert len(stand_ins.calls("program")) == 5
    assert (bundle / "runs/003-candidate-2/report.sqlite").is_file()


@pytest.mark.slow
def test_a_failure_of_any_write_leaves_a_bundle_that_can_be_gone_on_with(
    stand_ins: StandIns, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    with failing(whole, 0, errno.EIO) as disk:
        capture(plan(repeats=1), whole)
    assert disk.changes >= 2 * 6  # of each run: a folder, two logs, a name, and a manifest
    for nth in range(1, disk.changes + 1):
        bundle, number = tmp_path / str(nth), (errno.EIO, errno.ENOSPC)[nth % 2]
        with failing(bundle, nth, number), pytest.raises((OSError, TracediffError)) as failed:
            capture(plan(repeats=1), bundle)
        assert os.strerror(number) in str(failed.value) and "capture-no-program" not in str(failed.value)
        if (bundle / "manifest.json").exists():
            assert set(statuses(bundle).values()) <= {"done"}  # it is whole
        capture(plan(repeats=1), bundle, resume=True)
        assert set(statuses(bundle).values()) == {"done"}
        assert sorted(path.name for path in bundle.rglob("*")) == sorted(
            path.name for path in whole.rglob("*")
        )


@pytest.mark.parametrize("resume", [False, True])
def test_a_first_try_that_came_to_nothing_stands_in_no_ones_way(
    resume: bool, stand_ins: StandIns, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    stand_ins.mode("fail-1")
    with pytest.raises(TracediffError, match="capture-run-failed"):
        capture(plan(repeats=2), bundle)
    assert set(statuses(bundle).values()) == {"failed"}
    stand_ins.mode("")
    capture(plan(repeats=1), bundle, resume=resume)  # another plan, too
    assert set(statuses(bundle).values()) == {"done"} and len(statuses(bundle)) == 2


def test_a_try_that_came_to_nothing_is_kept_where_other_files_are(
    stand_ins: StandIns, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    stand_ins.mode("fail-1")
    with pytest.raises(TracediffError, match="capture-run-failed"):
        capture(plan(), bundle)
    (bundle / "notes.txt").touch()
    with pytest.raises(TracediffError, match="bundle-exists"):
        capture(plan(), bundle)
    assert (bundle / "notes.txt").exists() and (bundle / "manifest.json").exists()


def test_a_bundle_is_neither_overwritten_nor_resumed_with_another_plan(
    stand_ins: StandIns, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    capture(plan(repeats=1), bundle)
    for one, how, slug in (
        (plan(repeats=1), {}, r"2 runs of this plan \[bundle-exists\].*`tracediff compare"),
        (plan(repeats=2), {}, r"2 runs of another plan \[bundle-exists\]"),
        (plan(repeats=2), {"resume": True}, "capture-plan-changed"),
    ):
        with pytest.raises(TracediffError, match=f"(?s){slug}"):
            capture(one, bundle, **how)
    assert len(stand_ins.calls("program")) == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(TracediffError, match="bundle-exists"):
        capture(plan(), tmp_path / "other")


@pytest.mark.slow
def test_an_interrupted_run_leaves_nothing_of_itself(stand_ins: StandIns, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (stand_ins.folder / "runner.pid").write_text(str(os.getpid()))
    stand_ins.mode("interrupt-2")
    with pytest.raises(TracediffError) as stopped:
        capture(plan(), bundle)
    assert (stopped.value.slug, stopped.value.exit_code) == ("capture-interrupted", 130)
    assert statuses(bundle) == {"runs/001-baseline-1": "done"}
    assert [path.name for path in (bundle / "runs").iterdir()] == ["001-baseline-1"]
    stand_ins.mode("")
    capture(plan(), bundle, resume=True)
    assert len(statuses(bundle)) == 4


@pytest.mark.slow
def test_a_run_that_hangs_is_ended_with_everything_it_started(
    stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracediff.capture.runner.GRACE_S", 2.0)
    stand_ins.mode("hang")
    began = time.monotonic()
    with pytest.raises(TracediffError, match="not finished after 2 s"):
        capture(plan(timeout_s=2), tmp_path / "bundle")
    assert time.monotonic() - began < 30
    pid = int((stand_ins.folder / "hanging").read_text())
    assert not Path(f"/proc/{pid}/fd").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()
    orphans = [
        path for path in Path("/proc").glob("[0-9]*/cmdline")
        if _read(path).endswith(b"time.sleep(600)\0") and _parent(path.parent) == 1
    ]  # fmt: skip
    assert orphans == []
    assert manifest_of(tmp_path / "bundle")["runs"][0]["error"]["slug"] == "capture-timeout"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_no_secret_is_written(stand_ins: StandIns, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    env = {"HF_TOKEN": SECRET, "CUDA_VISIBLE_DEVICES": "0"}
    sides = {
        "baseline": {"command": f"program baseline --api-key {SECRET}"},
        "candidate": {"command": f"sh -c 'program candidate --auth={SECRET}'"},
    }
    capture(plan(env=env, **sides), bundle)
    for path in bundle.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    data = manifest_of(bundle)
    assert data["sides"]["baseline"]["env"]["CUDA_VISIBLE_DEVICES"] == "0"
    assert "HF_TOKEN" not in json.dumps(data)


def test_the_environment_is_removed_from_an_export(tmp_path: Path) -> None:
    export = tmp_path / "a.sqlite"
    db = sqlite3.connect(export)
    db.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
    db.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)")
    db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    db.execute("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)", (f"A={SECRET}",))
    db.execute(
        "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('DeviceEnvironment', ?), ('OsVersion', '12')", (SECRET,)
    )
    db.execute("INSERT INTO StringIds VALUES (1, ?), (2, 'a kernel')", (f"A=1\0B={SECRET}\0",))
    db.execute("PRAGMA secure_delete = OFF")  # a page that was freed keeps what was in it
    db.execute("CREATE TABLE gone AS SELECT ? AS text", (f"{SECRET} " * 1000,))
    db.commit()
    db.execute("DROP TABLE gone")
    db.commit()
    db.close()
    assert export.read_bytes().count(SECRET.encode()) > 500
    forget_environment(export)
    assert SECRET.encode() not in export.read_bytes()
    db = sqlite3.connect(export)
    assert db.execute("SELECT * FROM StringIds").fetchall() == [(1, ""), (2, "a kernel")]
    assert db.execute("SELECT * FROM TARGET_INFO_SYSTEM_ENV").fetchall() == [("OsVersion", "12")]


@pytest.mark.parametrize(
    ("words", "recorded"),
    [
        (
            ["a", "--max_num_tokens", "8192", "--tokenizer", "t"],
            ["a", "--max_num_tokens", "8192", "--tokenizer", "t"],
        ),
        (["a", "--hf-token", "x", "b"], ["a", "--hf-token", "(not recorded)", "b"]),
        (["curl", "-H", "Authorization: Bearer x"], ["curl", "-H", "Authorization:(not recorded)"]),
        (["a", "http://u:p@h/x"], ["a", "http://h/x"]),
        (["PASSWORD=x", "a"], ["PASSWORD=(not recorded)", "a"]),
    ],
)
def test_values_of_secret_arguments_are_not_recorded(words: list[str], recorded: list[str]) -> None:
    assert recorded_command(words) == recorded


@pytest.mark.parametrize(
    "words",
    [
        ['--kwargs={"token":"HUNTER2"}'], ['--kwargs={"a": 1, "api_token": "x HUNTER2"}'], [r'{\"token\": \"HUNTER2\"}'], ["--header", "X-Api-Key:HUNTER2"],
        ["--password", "-HUNTER2"], ["--password", "--HUNTER2"], ["--set", "a=1,token=HUNTER2"], ["https://h/x?a=1&sig=HUNTER2"],
        ["hf_HUNTER2HUNTER2"], ["a=hf_HUNTER2HUNTER2"], ["bash", "-c", 'HF_TOKEN="a HUNTER2" python x'], ["HF_TOKEN=a HUNTER2"],
        ["sh", "-c", "python x --api-key HUNTER2 --tp 2"], ["sh", "-c", "python x --api-key 'a HUNTER2' y"], ["sh", "-c", "curl -u 'x' -H 'Cookie: HUNTER2"],
        ["--model=s3://AKIAHUNTER2HUNTER21:x@h/y"], ["ghp_HUNTER2HUNTER21"], ["--auth", "https://u:HUNTER2@h/"], ["export PGPASSWORD = HUNTER2"],
    ],
)  # fmt: skip
def test_no_secret_is_recorded_however_it_is_given(words: list[str]) -> None:
    assert "HUNTER2" not in " ".join(recorded_command(words))


def test_what_is_no_secret_stays() -> None:
    words = [
        "--max-tokens=5",
        "--tokenizer",
        "t",
        "--signal=2",
        "design=1",
        "task-12345678",
        "https://h:80/x?a=1",
        "bash",
        "-c",
        "a --tp 2; b",
    ]
    assert recorded_command(words) == words


def test_no_program_gets_a_token_of_the_job(
    stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither build nor program, nor the Python that is asked for versions; what the plan itself sets stays."""
    for name in ("GITHUB_TOKEN", "GITLAB_TOKEN", "CI_JOB_TOKEN"):
        monkeypatch.setenv(name, "of-the-job")
    said = tmp_path / "said"
    script = tmp_path / "program.sh"
    script.write_text(f"#!/bin/sh\nenv >> {said}\n")
    script.chmod(0o755)
    (tmp_path / "plan.toml").write_text(
        f'command = "{script}"\nrepeats = 1\nmin_free_gib = 0\n[baseline]\n[candidate]\nenv = {{ GH_TOKEN = "of the plan" }}\n'
    )
    done = CliRunner().invoke(cli, ["capture", str(tmp_path / "plan.toml"), "-o", str(tmp_path / "bundle")])
    assert done.exit_code == 0, done.output
    assert "of-the-job" not in said.read_text() and said.read_text().count("GH_TOKEN=of the plan") == 1


@pytest.mark.parametrize(("report", "slug"), [("none", "nsys-no-report"), ("qdstrm", "nsys-import-failed")])
def test_an_nsys_that_leaves_no_report(
    report: str, slug: str, stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_REPORT", report)
    with pytest.raises(TracediffError, match="capture-run-failed"):
        capture(plan(), tmp_path / "bundle")
    assert manifest_of(tmp_path / "bundle")["runs"][0]["error"]["slug"] == slug


def test_an_nsys_that_loses_calls_ends_the_capture_at_its_first_run(
    stand_ins: StandIns, tmp_path: Path
) -> None:
    """Where it flushes already, as with preset `any`, nothing else is known to help."""
    packed = tmp_path / "lost.sqlite.xz"
    packed.write_bytes(lzma.compress(BROKEN["calls_lost"](tmp_path / "lost.sqlite").read_bytes(), preset=0))
    captures = {"baseline": [str(packed)], "candidate": [str(packed)]}
    (stand_ins.folder / "captures.json").write_text(json.dumps(captures))
    with pytest.raises(TracediffError, match="of 60,000 by their numbers") as failed:
        capture(plan(preset="torch"), tmp_path / "bundle")
    assert "--nsys-flag=--cuda-flush-interval=1000;" in failed.value.fix
    assert list(statuses(tmp_path / "bundle").values()) == ["failed"]
    said: list[str] = []
    Runner(plan(repeats=1), tmp_path / "other", need_nsys(), os.environ, note=said.append).run()
    assert ["of 60,000 by their numbers" in text for text in said] == [True, True]


def test_a_qdstrm_is_imported_where_the_importer_is(
    stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer = stand_ins.folder / "QdstrmImporter"
    importer.write_text('#!/bin/sh\ncp "$2" "$4"\n')
    importer.chmod(0o755)
    monkeypatch.setenv("FAKE_REPORT", "qdstrm")
    capture(plan(repeats=1, keep_reports=True), tmp_path / "bundle")
    names = {path.name for path in (tmp_path / "bundle/runs/001-baseline-1").iterdir()}
    assert {"report.nsys-rep", "report.sqlite"} <= names
    assert "report.qdstrm" not in names


def test_too_little_disk(stand_ins: StandIns, tmp_path: Path) -> None:
    with pytest.raises(TracediffError, match="disk-low"):
        capture(plan(min_free_gib=10**9), tmp_path / "bundle")
    assert stand_ins.calls("program") == []


def test_a_program_that_does_not_exist(stand_ins: StandIns, tmp_path: Path) -> None:
    with pytest.raises(TracediffError, match="cannot be started"):
        capture(plan(warmup=1, baseline={"command": "no-such-program"}), tmp_path / "bundle")


def test_reports_hold_the_environment_and_are_kept_only_when_asked(
    stand_ins: StandIns, tmp_path: Path
) -> None:
    capture(plan(repeats=1, keep_reports=True), tmp_path / "kept")
    assert len(list((tmp_path / "kept").rglob("*.nsys-rep"))) == 2
    assert manifest_of(tmp_path / "kept")["runs"][0]["reports"] == ["report.nsys-rep"]
    capture(plan(repeats=1), tmp_path / "bundle")
    assert not list((tmp_path / "bundle").rglob("*.nsys-rep"))
    assert manifest_of(tmp_path / "bundle")["runs"][0]["exports"] == ["report.sqlite"]


def test_what_a_bundle_holds(stand_ins: StandIns, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    assert not is_bundle(bundle)
    capture(plan(controls=1), bundle)
    held = read_bundle(bundle)
    assert [len(held.profiled[side]) for side in ("baseline", "candidate")] == [2, 2]
    assert held.profiled["baseline"][0].exports == (bundle / "runs/001-baseline-1/report.sqlite",)
    assert [len(held.controls[side]) for side in ("baseline", "candidate")] == [1, 1]


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        (lambda data: data.update(tracediff_bundle=2), "bundle-version"),
        (lambda data: data.update(runs=None), "bundle-manifest"),
        (lambda data: data.update(runs=data["runs"][:1]), "bundle-incomplete"),
        (lambda data: data["runs"][0].update(folder="../elsewhere"), "bundle-manifest"),
        (lambda data: data["runs"][0].update(exports=["gone.sqlite"]), "bundle-incomplete"),
    ],
)
def test_a_bundle_that_is_not_whole(change: Any, slug: str, stand_ins: StandIns, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    data = capture(plan(repeats=1), bundle)
    change(data)
    (bundle / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(TracediffError) as refused:
        read_bundle(bundle)
    assert refused.value.slug == slug


TARGET, HOST = "target-linux-x64", "host-linux-x64"  # the folders of a package


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (f"opt/nsight/{TARGET}", "opt/nsight"),
        (f"usr/lib/ARCHITECTURE/nsight-systems/{TARGET}", "usr/lib/nsight-systems"),
        ("bin", "usr/lib/nsight-systems"),
    ],
)
def test_the_importer_is_found_where_packages_put_it(target: str, host: str, tmp_path: Path) -> None:
    """Debian's packages as they are installed, and unpacked into a folder with nsys in its `bin`. Libraries lie beside nsys."""
    nsys = f"{target}/nsys"
    importer = f"{host}/{HOST}/QdstrmImporter"
    of_nsys = tmp_path.joinpath(target).parent / "lib"
    script = f'#!/bin/sh\nenv | grep -q "^LD_L.*_PATH={of_nsys}" && cp "$2" "$4"\n'
    for name, body in ((nsys, ""), (importer, script)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(body)
        path.chmod(0o755)
    raw = tmp_path / "report.qdstrm"
    raw.write_text("raw")
    assert import_raw(tmp_path / nsys, raw) == tmp_path / "report.nsys-rep"
    assert not raw.exists()


def test_versions_are_of_the_python_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of packages that come by PYTHONPATH; a module in the working directory is not run."""
    metadata = tmp_path / "site" / "nvtx-9.9.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: nvtx\nVersion: 9.9\n")
    (tmp_path / "json.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "site")}
    found = versions([sys.executable, "serve.py"], env)
    assert found["nvtx"] == "9.9"
    assert found["python"] == platform.python_version()


def test_both_runs_of_a_pair_get_one_traffic_seed(stand_ins: StandIns, tmp_path: Path) -> None:
    sides = {
        "baseline": {
            "command": "program baseline --seed={traffic_seed}",
            "env": {"SIDE_SEED": "{traffic_seed}"},
        },
        "candidate": {"command": "program candidate"},
    }
    capture(plan(**sides, same_traffic=True, seed=3, controls=1), tmp_path / "bundle")
    calls = [(call["args"], call["env"]) for call in stand_ins.calls("program")]
    baseline = (["baseline", "--seed=3001"], {"SIDE_SEED": "3001", "TRACEDIFF_TRAFFIC_SEED": "3001"})
    assert calls[:2] == [baseline, (["candidate"], {"TRACEDIFF_TRAFFIC_SEED": "3001"})]
    assert [env["TRACEDIFF_TRAFFIC_SEED"] for _, env in calls] == [
        "3001",
        "3001",
        "3002",
        "3002",
        "3001",
        "3001",
    ]
    data = manifest_of(tmp_path / "bundle")
    assert data["plan"]["same_traffic"] is True
    assert [run["traffic"] for run in data["runs"]][1:3] == [
        {"pair": 1, "seed": 3001},
        {"pair": 2, "seed": 3002},
    ]
    bundle = read_bundle(tmp_path / "bundle")
    pairs = {
        side: {one.traffic.seed for one in runs if one.traffic} for side, runs in bundle.profiled.items()
    }
    assert pairs == {"baseline": {3001, 3002}, "candidate": {3001, 3002}}


def test_without_same_traffic_nothing_is_said_of_it(stand_ins: StandIns, tmp_path: Path) -> None:
    capture(plan(repeats=1), tmp_path / "bundle")
    assert all("TRACEDIFF_TRAFFIC_SEED" not in call["env"] for call in stand_ins.calls("program"))
    assert all("traffic" not in run for run in manifest_of(tmp_path / "bundle")["runs"])
    assert read_bundle(tmp_path / "bundle").profiled["baseline"][0].traffic is None
    with pytest.raises(TracediffError, match="begun with another plan"):
        capture(plan(repeats=1, same_traffic=True), tmp_path / "bundle", resume=True)


def test_a_seed_that_nothing_sets_is_refused() -> None:
    with pytest.raises(TracediffError, match="stands for nothing without same_traffic"):
        plan(candidate={"command": "program candidate {traffic_seed}"})
