"""`tracediff scrub BUNDLE OUT`: a bundle that can be shared, and compares like the one it is of."""

from __future__ import annotations

import json
import lzma
import os
import platform
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.capture.stand_ins import StandIns, manifest_of
from tests.capture.test_scrub import SECRETS, private_trace
from tracediff.capture.machine import need_nsys
from tracediff.capture.plan import plan_from
from tracediff.capture.runner import Runner
from tracediff.capture.scrub import scrub_bundle
from tracediff.cli.main import cli
from tracediff.errors import TracediffError
from tracediff.formats.bundle import read_bundle


@pytest.fixture
def bundle(stand_ins: StandIns, tmp_path: Path) -> Path:
    """Two runs whose exports and commands tell everything, with a benchmark report each."""
    sides = {
        name: {"command": f"trtllm-bench --model /home/alice/llama-secret throughput {name}"}
        for name in ("baseline", "candidate")
    }
    plan = plan_from({**sides, "repeats": 1, "min_free_gib": 0, "preset": "trtllm-bench-throughput"}, Path())
    path = tmp_path / "bundle"
    Runner(plan, path, need_nsys(), os.environ).run()
    for number, export in enumerate(sorted(path.rglob("report.sqlite"))):
        (tmp_path / str(number)).mkdir()
        shutil.copyfile(private_trace(tmp_path / str(number) / "in.sqlite"), export)
        (export.parent / "stdout.log").write_text("printed by alice")
    return path


def contents(folder: Path) -> bytes:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return b"\n".join(
        lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes() for path in files
    )


def test_a_bundle_is_shared_without_its_owner(bundle: Path, tmp_path: Path) -> None:
    assert all(secret.encode() in contents(bundle) for secret in SECRETS if secret != "corp.example")
    done = CliRunner().invoke(cli, ["scrub", str(bundle), str(tmp_path / "out")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    out = tmp_path / "out"
    assert manifest_of(out)["host"]["kernel"] in (None, ".".join(platform.release().split(".")[:2]))
    text = contents(out)
    assert [secret for secret in SECRETS if secret.encode() in text] == []
    assert b"/home" not in text
    assert sorted(path.name for path in (out / "runs" / "001-baseline-1").iterdir()) == ["report.sqlite.xz"]
    held = read_bundle(out)
    assert held.profiled["baseline"][0].exports == (out / "runs/001-baseline-1/report.sqlite.xz",)
    data = manifest_of(out)
    assert data["sides"]["baseline"]["command"] == data["runs"][0]["command"] == []
    assert data["host"]["gpus"][0]["name"] == "NVIDIA H200"
    assert data["runs"][0]["before"][0]["sm_clock_mhz"] == 1980
    assert "2 exports" in done.stderr
    assert "left out: 4 benchmark reports" in done.stderr
    assert not list(tmp_path.glob(".*.part"))


def test_benchmark_reports_are_kept_when_asked(bundle: Path, tmp_path: Path) -> None:
    report = scrub_bundle(bundle, tmp_path / "out", keep_kpi=True)
    assert (report.exports, report.left_out) == (2, [])
    (run,) = read_bundle(tmp_path / "out").profiled["baseline"]
    assert [path.name for path in run.kpi] == ["iterations.log", "report.json"]


def test_nothing_is_overwritten_and_nothing_left_half_done(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(TracediffError) as refused:
        scrub_bundle(bundle, tmp_path / "there")
    assert refused.value.slug == "output-exists"
    next(bundle.rglob("report.sqlite")).write_bytes(b"damaged")
    with pytest.raises(TracediffError):
        scrub_bundle(bundle, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".*.part"))


def test_a_run_outside_the_bundle_is_refused(bundle: Path, tmp_path: Path) -> None:
    data = manifest_of(bundle)
    data["runs"][0]["folder"] = "../elsewhere"
    (bundle / "manifest.json").write_text(json.dumps(data))
    with pytest.raises(TracediffError) as refused:
        scrub_bundle(bundle, tmp_path / "out")
    assert refused.value.slug == "bundle-manifest"
