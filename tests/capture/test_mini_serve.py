"""The emulator's flags, and its loop on a clock instead of a GPU."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracediff_emulator.options import PLACES, Options, parse
from tracediff_emulator.ranges import Ranges, gc_ranges
from tracediff_emulator.serve import Planted, Requests, main, serve, step_times

ROOT = Path(__file__).parents[2]
LABEL = re.compile(r"step(?:\s+(\d+))?:\s+(\d+) ctx reqs,(?:\s+(\d+) ctx tokens,)?\s+(\d+) gen reqs")


def run(*flags: str, window: str | None = None, gc: bool = False) -> dict[str, Any]:
    """Run the emulator on its clock; the report of its only rank."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("TLLM_")}
    env["PYTHONPATH"] = str(ROOT)
    if window:
        env["TLLM_PROFILE_START_STOP"] = window
    if gc:
        env["TLLM_PROFILE_RECORD_GC"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "tracediff_emulator", "--dry-run", *flags],
        env=env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "an emulator" in done.stderr
    report = json.loads(done.stdout)
    assert report["emulator"] == "mini_serve"
    rank: dict[str, Any] = report["ranks"][0]
    return rank


def test_the_defaults_are_the_baseline() -> None:
    options = parse([])
    assert options == Options()
    assert (options.mode, options.label_generation, options.tp) == ("graph", 3, 1)


def test_every_cause_has_a_flag() -> None:
    flags = (
        "--eager --work-us 95 --work-in _schedule --sleep-us 500 --sleep-in none --gc-every 5"
        " --gil-hog-us 300 --gil-hog-when hidden --other-thread-work-us 7 --fuse-gate-up --split-kernel"
        " --slow-kernel 3"
        " --replace-kernel silu --more-kernels 16 --sync-per-layer --h2d-bytes 1024 --h2d-overlap"
        " --alloc-bytes 4096"
        " --arrival-every 12 --tp 2 --straggler-us 300 --straggler-rank 1 --label-generation 1"
    )
    options = parse(flags.split())
    assert (options.mode, options.work_us, options.sleep_in) == ("eager", 95, "none")
    assert (options.gil_hog_when, options.replace_kernel, options.straggler_us) == ("hidden", "silu", 300)
    assert options.alloc_bytes == 4096


@pytest.mark.parametrize(
    "flags",
    [
        "--sync-per-layer",
        "--straggler-us 5",
        "--graph --eager",
        "--slots 6",
        "--hidden 100",
        "--dry-run --tp 2",
        "--cpu",
        "--arrival-every 0",
        "--alloc-bytes 1 --dry-run",
        "--work-in somewhere",
    ],
)
def test_what_cannot_plant_its_cause_is_refused(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(flags.split())
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(("generation", "groups"), [(1, 2), (2, 3), (3, 4)])
def test_labels_of_three_generations(generation: int, groups: int) -> None:
    match = LABEL.search(Options(label_generation=generation).label(20, 4, 768, 12))
    assert match is not None
    assert sum(group is not None for group in match.groups()) == groups


@pytest.mark.parametrize(
    ("value", "windows"),
    [("20-50", [(20, 50)]), ("20-50,70-80", [(20, 50), (70, 80)]), ("", []), ("20", []), ("x-y", [])],
)
def test_the_profiled_steps(
    value: str, windows: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLLM_PROFILE_START_STOP", value)
    assert Options().profile_windows() == windows


def test_requests_arrive_fill_and_finish() -> None:
    requests = Requests(Options(arrival_every=1000))
    arrivals = {step: slots for step in range(200) if (slots := requests.arrivals(step))}
    assert [min(arrivals[step]) for step in range(4)] == [0, 4, 8, 12]
    assert set(arrivals[0].values()) == {192}
    assert requests.serving == set(range(16))
    assert list(arrivals)[4:] == [127, 128, 129, 130]  # full after 128 tokens, whatever the arrival rate


def test_step_times_leave_out_context_steps_and_neighbours_that_are_missing() -> None:
    began = [(0, 0, 0), (1, 0, 1_000_000), (2, 4, 3_000_000), (3, 0, 9_000_000), (4, 0, 9_500_000)]
    assert step_times(began, 0, 5) == {"steps": 3, "mean_us": 1166.67, "median_us": 1000.0}
    assert step_times(began, 5, 9) is None


def test_planted_time_is_told_per_step_and_per_time() -> None:
    planted = Planted({"gc": [(19, 9), (20, 3000), (25, 5000)]})
    assert planted.summary(20, 27) == {"gc": {"us_per_step": 1.0, "times": 2, "us_each": 4.0}}


def test_the_loop_runs_without_a_gpu(tmp_path: Path) -> None:
    rank = run("--steps", "40", "--report", str(tmp_path / "r.json"), window="20-30")
    assert rank["window"] == [20, 30]
    assert rank["profiled_step"]["steps"] == 9
    assert rank["profiled_step"]["mean_us"] > 700
    assert rank["planted"] == {}
    assert json.loads((tmp_path / "r.json").read_text())["ranks"] == [rank]
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("place", PLACES)
def test_work_is_planted_where_it_is_asked_for(place: str) -> None:
    rank = run("--steps", "12", "--work-us", "200", "--work-in", place, "--dry-gpu-us", "50")
    assert rank["planted"]["work"]["times"] == 6
    assert 200 <= rank["planted"]["work"]["us_each"] < 2000


def test_causes_combine() -> None:
    rank = run(
        "--steps", "30", "--sleep-us", "300", "--gc-every", "5", "--gil-hog-us", "200",
        "--other-thread-work-us", "50", gc=True,
    )  # fmt: skip
    planted = rank["planted"]
    assert set(planted) == {"sleep", "gc", "gil_hog"}
    assert planted["gc"]["times"] == 3
    assert planted["gil_hog"]["us_each"] >= 200


def test_without_torch_a_gpu_run_ends_with_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("click")
    if any((Path(folder) / "torch").is_dir() for folder in sys.path):
        pytest.skip("torch is installed")
    with pytest.raises(SystemExit, match="a worker failed"):
        main(["--steps", "5"])


def test_collections_are_recorded_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc

    before = len(gc.callbacks)
    monkeypatch.delenv("TLLM_PROFILE_RECORD_GC", raising=False)
    with gc_ranges(Ranges(use_torch=False)):
        assert len(gc.callbacks) == before
    monkeypatch.setenv("TLLM_PROFILE_RECORD_GC", "1")
    with gc_ranges(Ranges(use_torch=False)):
        assert len(gc.callbacks) == before + 1
        gc.collect()
    assert len(gc.callbacks) == before


def test_what_nsys_cannot_record_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)  # as where it is not installed
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    with pytest.raises(SystemExit, match="this Python has no nvtx: pip install"):
        serve(parse(["--dry-run"]))
