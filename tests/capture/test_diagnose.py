"""What is said where a GPU or a permission is missing: the words of real programs and drivers, through a whole run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.capture.stand_ins import StandIns, manifest_of
from tracediff.capture import doctor
from tracediff.capture.launch import launch_of, left_out
from tracediff.capture.machine import need_nsys
from tracediff.capture.plan import Plan, plan_from
from tracediff.capture.runner import Runner, diagnose
from tracediff.errors import TracediffError

COUNTERS = (
    "Illegal --gpu-metrics-device arguments.\nNone of the installed GPUs are supported:\n"
    "NVIDIA H200: Insufficient privilege, see https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)


def plan(**more: object) -> Plan:
    sides = {"baseline": {"command": "program baseline"}, "candidate": {"command": "program candidate"}}
    return plan_from({**sides, "repeats": 1, "min_free_gib": 0, **more}, Path())


def check_of(name: str, folder: Path) -> doctor.Check:
    return next(check for check in doctor.examine(folder, "no-python") if check.name == name)


def failure(bundle: Path, **more: object) -> TracediffError:
    with pytest.raises(TracediffError) as failed:
        Runner(plan(**more), bundle, need_nsys(), os.environ).run()
    return failed.value


@pytest.mark.parametrize(
    ("said", "slug", "fix"),
    [
        ("RuntimeError: No CUDA GPUs are available", "gpu-missing", "--gpus all"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "gpu-missing", "nvidia-smi"),
        ("ImportError: libcuda.so.1: cannot open shared object file", "gpu-missing", "doctor"),
        (
            "mini_serve: no CUDA device (use --dry-run, or --cpu --eager)",
            "gpu-missing",
            "CUDA_VISIBLE_DEVICES",
        ),
        ("srun: error: execve(): nsys: No such file or directory", "nsys-missing", "every node"),
        (
            "Connection to Agent lost. This is most likely a bug. Internal reason: 'End of file'.",
            "nsys-agent-lost",
            "the same command with --resume makes this run again",
        ),
        ("ValueError: something else", "capture-exit-code", "stderr.log"),
    ],
)
def test_what_a_program_says(said: str, slug: str, fix: str, stand_ins: StandIns, tmp_path: Path) -> None:
    stand_ins.mode(f"say {said}")
    error = failure(tmp_path / "b")
    assert error.slug == "capture-run-failed"
    assert f"[{slug}]" in error.message
    assert fix in (error.fix or "")
    assert manifest_of(tmp_path / "b")["runs"][0]["error"]["slug"] == slug


@pytest.mark.parametrize(
    ("said", "slug"),
    [
        (COUNTERS, "gpu-counters-denied"),
        ("Illegal --gpu-metrics-device arguments.\nNone of the installed GPUs are supported.", "gpu-metrics-unsupported"),
        ("sampling needs a perf_event_paranoid level of 2 or less", "perf-events-denied"),
    ],
)  # fmt: skip
def test_what_nsys_says(
    said: str, slug: str, stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NSYS_SAYS", said)
    failure(tmp_path / "b", gpu_metrics=True)
    assert manifest_of(tmp_path / "b")["runs"][0]["error"]["slug"] == slug


def test_a_report_that_nsys_may_not_write(tmp_path: Path) -> None:
    """nsys says so and ends with success."""
    (tmp_path / "stdout.log").write_text("Failed to create '/x/report.qdstrm': Permission denied.\n")
    found = diagnose(tmp_path)
    assert found is not None
    assert found.slug == "bundle-not-writable"


def test_only_the_end_of_a_log_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_bytes(b"No CUDA GPUs are available\n" + b"x" * 70_000)
    assert diagnose(tmp_path) is None
    (tmp_path / "stderr.log").write_bytes(b"\xff\xfe" * 50_000 + b"\nNo CUDA GPUs are available\n")
    assert diagnose(tmp_path) is not None


def test_a_folder_that_cannot_be_made(stand_ins: StandIns, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert failure(tmp_path / "file" / "bundle").slug == "bundle-not-writable"


def test_a_folder_without_write_access(
    stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "access", lambda path, how: Path(path).name != "bundle"
    )  # root may write anywhere
    assert failure(tmp_path / "bundle").slug == "bundle-not-writable"
    assert stand_ins.calls("program") == []
    disk = check_of("disk", tmp_path / "bundle")
    assert (disk.status, disk.fix) == ("fail", "--folder, and -o of tracediff capture")


@pytest.mark.parametrize(
    ("admin_only", "user", "status"), [("1", 1000, "warn"), ("0", 1000, "ok"), ("1", 0, "ok")]
)
def test_who_may_read_gpu_counters(
    admin_only: str,
    user: int,
    status: str,
    stand_ins: StandIns,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    params = tmp_path / "params"
    params.write_text(f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {admin_only}\n")
    monkeypatch.setattr(doctor, "_DRIVER", params)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    check = check_of("GPU counters", tmp_path)
    assert check.status == status
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in check.fix) == (status == "warn")


def test_gpu_metrics_of_ranks(stand_ins: StandIns, tmp_path: Path) -> None:
    """A GPU can be sampled by one nsys only, and with a launcher there is one for each rank."""
    nsys = need_nsys()
    alone, ranks = plan(gpu_metrics=True), plan(gpu_metrics=True, launcher="mpirun 2")
    commands = [launch_of(one, one.schedule()[0], nsys, tmp_path, {}).command for one in (alone, ranks)]
    assert ["--gpu-metrics-devices=all" in command for command in commands] == [True, False]
    assert left_out(alone, nsys.features) == []
    assert left_out(ranks, nsys.features) == [
        "GPU metrics are sampled by one nsys only: with a launcher, of --only-rank"
    ]
