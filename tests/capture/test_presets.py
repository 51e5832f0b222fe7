"""Each preset: the command line and the environment that the program gets, as stand-ins see them."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

import tracediff
from tests.capture.stand_ins import StandIns, manifest_of
from tracediff.capture.launch import additions, left_out, nsys_flags, shown, with_flags, with_reports, wrap
from tracediff.capture.machine import Features, Nsys, need_nsys
from tracediff.capture.plan import FUNCTIONS, PRESETS, plan_from, preset
from tracediff.capture.runner import Runner
from tracediff.errors import TracediffError
from tracediff.trace.labels import PRESETS as LABELS

BENCH = "trtllm-bench --model M --model_path P"


def capture(bundle: Path, command: str, **more: Any) -> dict[str, Any]:
    sides = {name: {"command": f"{command} {name}"} for name in ("baseline", "candidate")}
    plan = plan_from({**sides, "repeats": 1, "min_free_gib": 0, **more}, Path())
    Runner(plan, bundle, need_nsys(), os.environ).run()
    return manifest_of(bundle)


def flags(call: dict) -> list[str]:
    """The words for nsys, the output's name and the program left out."""
    words = call["args"][call["args"].index("-f") :]
    end = next(
        at
        for at, word in enumerate(words)
        if word.startswith(("trtllm", "gpt", "trtexec", "program", "mpirun", "vllm", "sglang"))
    )
    return words[:end]


TRTLLM = [
    "-f", "true", "-t", "cuda,nvtx,python-gil", "-c", "cudaProfilerApi", "--capture-range-end=stop",
    "--cuda-graph-trace=node", "--trace-fork-before-exec=true", "--sample=none", "--cpuctxsw=none",
    "-e", "TLLM_PROFILE_RECORD_GC=1,TLLM_LLMAPI_ENABLE_NVTX=1",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sub", "files"),
    [
        ("trtllm-bench-throughput", "throughput", ["iterations.log", "report.json"]),
        ("trtllm-bench-latency", "latency", ["report.json"]),
    ],
)
def test_trtllm_bench(name: str, sub: str, files: list[str], stand_ins: StandIns, tmp_path: Path) -> None:
    data = capture(tmp_path / "b", f"{BENCH} {sub}", preset=name, steps="100-150", controls=1)
    profiled, _ = stand_ins.calls("nsys")
    assert flags(profiled) == TRTLLM
    programs = stand_ins.calls("trtllm-bench")
    assert programs[0]["env"] == {
        "TLLM_PROFILE_START_STOP": "100-150", "TLLM_PROFILE_RECORD_GC": "1", "TLLM_LLMAPI_ENABLE_NVTX": "1",
    }  # fmt: skip
    assert programs[2]["env"] == {}  # a control is the plain command
    assert "--report_json" in programs[2]["args"]
    assert [run["kpi"] for run in data["runs"]] == [files] * 4
    assert all((tmp_path / "b" / data["runs"][0]["folder"] / file).is_file() for file in files)


@pytest.mark.slow
def test_trtexec_leaves_its_figures_and_layers_beside_the_trace(stand_ins: StandIns, tmp_path: Path) -> None:
    """The engine fp32 takes 0.81 ms of GPU time per query, fp16 0.61: fixtures/trtexec/README.md."""
    plan = {
        "baseline": {"command": "trtexec --loadEngine=fp32.engine"},
        "candidate": {"command": "trtexec --loadEngine=fp16-candidate.engine --exportTimes={run}/mine.json"},
        "preset": "trtexec", "repeats": 2, "min_free_gib": 0,
    }  # fmt: skip
    Runner(plan_from(plan, Path()), tmp_path / "b", need_nsys(), os.environ).run()
    first, second = (call["args"] for call in stand_ins.calls("trtexec")[:2])
    run = tmp_path / "b" / "runs" / ".001-baseline-1.part"
    assert first[1:] == [
        "--useSpinWait", "--separateProfileRun", "--profilingVerbosity=detailed", f"--exportTimes={run}/times.json",
        f"--exportProfile={run}/profile.json", f"--exportLayerInfo={run}/layers.json",
    ]  # fmt: skip
    (times,) = (word for word in second if word.startswith("--exportTimes"))
    assert times.endswith("candidate-1.part/mine.json")  # what is given is left alone
    result = tracediff.compare(tmp_path / "b").result
    assert result.trtexec is not None and result.kpi is None
    compute = result.trtexec.figures[0]
    assert (compute.metric, compute.baseline["mean"], compute.candidate["mean"]) == (
        "gpu_compute", pytest.approx(0.81e6), pytest.approx(0.61e6),
    )  # fmt: skip
    assert len(result.trtexec.baseline.runs) == 2 and result.trtexec.baseline.layers == 6


def test_the_emulator_writes_its_step_times_in_every_run() -> None:
    kind = preset("emulator")
    command = ["python", "-m", "tracediff_emulator", "--graph"]
    assert with_reports(kind, command, "RUN") == [*command, "--report", "RUN/emulator.json"]
    assert with_reports(kind, [*command, "--report=mine"], "RUN") == [*command, "--report=mine"]
    assert additions(kind, None) == {"TLLM_PROFILE_RECORD_GC": "1", "TLLM_PROFILE_START_STOP": "20-50"}


def test_reports_that_the_user_asks_for_stay(stand_ins: StandIns, tmp_path: Path) -> None:
    command = f"{BENCH} throughput --report_json {{run}}/mine.json"
    data = capture(tmp_path / "b", command, preset="trtllm-bench-throughput", kpi="mine.json")
    assert data["runs"][0]["kpi"] == ["iterations.log", "mine.json"]
    assert stand_ins.calls("trtllm-bench")[0]["args"].count("--report_json") == 1


@pytest.mark.slow
def test_trtllm_serve_is_started_loaded_and_stopped(stand_ins: StandIns, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = capture(
        tmp_path / "b", f"trtllm-serve P --port {port}", preset="trtllm-serve", client="client --out {run}/x",
        ready_url=f"http://127.0.0.1:{port}/health", timeout_s=60,
    )  # fmt: skip
    assert [run["status"] for run in data["runs"]] == ["done", "done"]
    assert [call["what"] for call in stand_ins.calls()] == [
        "nsys", "trtllm-serve", "client", "trtllm-serve-stopped",
    ] * 2  # fmt: skip
    assert flags(stand_ins.calls("nsys")[0]) == TRTLLM
    assert stand_ins.calls("client")[0]["args"][1].endswith(".001-baseline-1.part/x")


def test_a_server_that_never_answers(stand_ins: StandIns, tmp_path: Path) -> None:
    with pytest.raises(TracediffError, match="did not answer"):
        capture(
            tmp_path / "b", "program serve", preset="trtllm-serve", client="client",
            ready_url="http://127.0.0.1:9/health", ready_timeout_s=2,
        )  # fmt: skip
    assert stand_ins.calls("client") == []
    error = manifest_of(tmp_path / "b")["runs"][0]["error"]
    assert error["slug"] == "capture-server-not-ready"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def windowed(*extra: str) -> list[str]:
    """The words for nsys where the program opens and closes the capture."""
    return [
        "-f", "true", "-t", "cuda,nvtx,python-gil", "-c", "cudaProfilerApi", "--capture-range-end=stop",
        "--cuda-graph-trace=node", "--trace-fork-before-exec=true", "--sample=none", "--cpuctxsw=none", *extra,
    ]  # fmt: skip


@pytest.mark.slow
def test_vllm_benchmarks_profile_a_window_of_iterations(stand_ins: StandIns, tmp_path: Path) -> None:
    capture(tmp_path / "b", "vllm bench latency --model M", preset="vllm", steps="20-60", controls=1)
    assert flags(stand_ins.calls("nsys")[0]) == windowed("-e", "VLLM_WORKER_MULTIPROC_METHOD=spawn")
    profiled, _, control, _ = stand_ins.calls("stack")
    plain = ["bench", "latency", "--model", "M", "baseline"]
    assert profiled["args"] == [
        *plain, "--profile", "--profiler-config.profiler=cuda", "--profiler-config.delay_iterations=20",
        "--profiler-config.max_iterations=40",
    ]  # fmt: skip
    assert profiled["env"] == {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
    assert (control["args"], control["env"]) == (plain, {})


@pytest.mark.parametrize(
    ("name", "added", "posted"),
    [
        (
            "vllm",
            ["--profiler-config.profiler=cuda", "--profiler-config.delay_iterations=20",
             "--profiler-config.max_iterations=40"],
            "",
        ),
        ("sglang", [], '{"activities": ["CUDA_PROFILER"], "start_step": 20, "num_steps": 40}'),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_a_server_is_asked_to_profile(
    name: str, added: list[str], posted: str, stand_ins: StandIns, tmp_path: Path
) -> None:
    port = free_port()
    data = capture(
        tmp_path / "b", f"{name} serve M --port {port}", preset=name, client="client", steps="20-60", controls=1,
        ready_url=f"http://127.0.0.1:{port}/health", timeout_s=60,
    )  # fmt: skip
    assert [run["status"] for run in data["runs"]] == ["done"] * 4
    profiled = ["nsys", "stack", "post", "client", "post", "stack-stopped"]
    assert [call["what"] for call in stand_ins.calls()] == profiled * 2 + [
        "stack",
        "client",
        "stack-stopped",
    ] * 2
    assert stand_ins.calls("stack")[0]["args"][4:] == ["baseline", *added]
    started, stopped = stand_ins.calls("post")[:2]
    assert (started["path"], started["body"], stopped["path"]) == ("/start_profile", posted, "/stop_profile")


def test_a_server_that_does_not_profile(
    stand_ins: StandIns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NO_PROFILER", "1")
    port = free_port()
    with pytest.raises(TracediffError, match="404"):
        capture(
            tmp_path / "b", f"sglang serve --port {port}", preset="sglang", client="client",
            ready_url=f"http://127.0.0.1:{port}/health", timeout_s=60,
        )  # fmt: skip
    assert manifest_of(tmp_path / "b")["runs"][0]["error"]["slug"] == "capture-profile-refused"
    assert stand_ins.calls("client") == []


def test_a_profiler_that_the_user_configures_is_left_alone() -> None:
    own = ["vllm", "serve", "M", "--profiler-config", '{"profiler": "cuda"}']
    assert with_flags(preset("vllm"), own, None) == own
    bench = ["vllm", "bench", "throughput", "--profiler-config.profiler=cuda"]
    assert with_flags(preset("vllm"), bench, None) == [*bench, "--profile"]
    assert with_flags(preset("vllm"), ["python", "mine.py"], None) == ["python", "mine.py"]


def test_a_plan_shows_what_a_server_is_asked() -> None:
    side = {"command": "python -m sglang.launch_server --model-path M", "client": "load", "preset": "sglang"}
    plan = plan_from({"baseline": side, "candidate": side, "repeats": 1, "steps": "20-60"}, Path())
    lines = shown(plan, Nsys(Path("nsys"), None, Features()), Path("/b"))
    assert lines[2:5] == [
        "#   when http://localhost:30000/health answers:",
        '#   POST http://localhost:30000/start_profile {"activities": ["CUDA_PROFILER"], "start_step": 20, "num_steps": 40}',
        "SGLANG_ENABLE_NVTX_SCHEDULER=1 load",
    ]


def test_functions_of_transformers_are_labelled_by_nsys() -> None:
    words = nsys_flags(preset("hf"), Features(), output="o")
    assert f"--python-functions-trace={FUNCTIONS}" in words
    assert "-c" not in words
    older = nsys_flags(preset("hf"), Features(functions_flag="--python-nvtx-annotations"), output="o")
    assert f"--python-nvtx-annotations={FUNCTIONS}" in older
    assert str(FUNCTIONS) not in " ".join(nsys_flags(preset("hf"), Features(functions_flag=None), output="o"))
    side = {"command": "python generate.py", "preset": "hf"}
    plan = plan_from({"baseline": side, "candidate": side}, Path())
    assert left_out(plan, Features(functions_flag=None)) == [
        "this nsys cannot label Python functions: steps are inferred from the launches"
    ]


def test_every_label_of_transformers_is_a_function_that_nsys_is_given() -> None:
    given = [
        f"{one['module']}.{name}" for one in json.loads(FUNCTIONS.read_text()) for name in one["functions"]
    ]
    for label in (one for one in LABELS if one.name.startswith("hf-")):
        assert any(re.search(label.pattern, name) for name in given), label.name


@pytest.mark.slow
def test_the_benchmark_of_the_batch_manager(stand_ins: StandIns, tmp_path: Path) -> None:
    capture(tmp_path / "b", "gptManagerBenchmark --engine_dir E", preset="gptManagerBenchmark", steps="10-20")
    words = flags(stand_ins.calls("nsys")[0])
    assert "--capture-range-end=stop" in words
    assert "-e" not in words
    assert stand_ins.calls("gptManagerBenchmark")[0]["env"] == {"TLLM_GPTM_PROFILE_START_STOP": "10-20"}
    data = capture(
        tmp_path / "s", "gptManagerBenchmark --engine_dir E", preset="gptManagerBenchmark", steps="0,1"
    )
    assert stand_ins.calls("gptManagerBenchmark")[2]["env"] == {"TLLM_GPTM_PROFILE_START_STOP": "0,1"}
    assert "--capture-range-end=repeat" in flags(stand_ins.calls("nsys")[2])
    assert data["runs"][0]["exports"] == ["report.1.sqlite", "report.2.sqlite"]


@pytest.mark.slow
def test_windows_that_the_environment_of_a_side_sets_are_all_captured(
    stand_ins: StandIns, tmp_path: Path
) -> None:
    windows = {"TLLM_PROFILE_START_STOP": "5-9,20-25"}
    data = capture(tmp_path / "b", f"{BENCH} latency", preset="trtllm-bench-latency", env=windows)
    assert "--capture-range-end=repeat" in flags(stand_ins.calls("nsys")[0])
    assert data["runs"][1]["exports"] == ["report.1.sqlite", "report.2.sqlite"]


@pytest.mark.slow
def test_one_report_a_rank(stand_ins: StandIns, tmp_path: Path) -> None:
    data = capture(
        tmp_path / "b", f"{BENCH} throughput", preset="trtllm-bench-throughput",
        launcher="mpirun 2 trtllm-llmapi-launch",
    )  # fmt: skip
    assert data["runs"][0]["exports"] == ["report.rank0.sqlite", "report.rank1.sqlite"]
    assert [call["what"] for call in stand_ins.calls()][:5] == [
        "mpirun", "nsys", "trtllm-bench", "nsys", "trtllm-bench",
    ]  # fmt: skip
    assert "trtllm-llmapi-launch" in stand_ins.calls("nsys")[0]["args"]


def test_one_rank_of_many_is_profiled_with_its_own_gpu_sampled(stand_ins: StandIns, tmp_path: Path) -> None:
    data = capture(
        tmp_path / "b", f"{BENCH} throughput", preset="trtllm-bench-throughput", launcher="mpirun 2", only_rank=1,
        gpu_metrics=True, gpu_metrics_frequency=100_000, env={"OMPI_COMM_WORLD_LOCAL_RANK": "1"},
    )  # fmt: skip
    assert [run["exports"] for run in data["runs"]] == [["report.rank1.sqlite"]] * 2
    (nsys, _), benches = stand_ins.calls("nsys"), stand_ins.calls("trtllm-bench")
    assert len(benches) == 4  # both ranks of both sides ran
    assert {"--gpu-metrics-devices=1", "--gpu-metrics-frequency=100000"} <= set(nsys["args"])
    assert nsys["args"][nsys["args"].index("-e") + 1].endswith(",NSYS_MPI_STORE_TEAMS_PER_RANK=1")
    names = {"TLLM_PROFILE_START_STOP", "TLLM_PROFILE_RECORD_GC"}
    assert all(names <= set(call["env"]) for call in benches if "nsys" not in call)


def test_one_rank_needs_a_launcher() -> None:
    with pytest.raises(TracediffError, match="there is no launcher") as caught:
        plan_from({"baseline": {"command": "a"}, "candidate": {"command": "b"}, "only_rank": 0}, Path())
    assert caught.value.slug == "plan-invalid"


@pytest.mark.slow
def test_ranks_that_slurm_starts(stand_ins: StandIns, tmp_path: Path) -> None:
    data = capture(
        tmp_path / "b", f"{BENCH} throughput", preset="trtllm-bench-throughput",
        launcher="srun -n 2 trtllm-llmapi-launch",
    )  # fmt: skip
    assert data["runs"][0]["exports"] == ["report.rank0.sqlite", "report.rank1.sqlite"]
    nsys = stand_ins.calls("nsys")[0]["args"]
    assert nsys[nsys.index("-o") + 1].endswith("/report.rank%q{SLURM_PROCID}")
    assert [call["what"] for call in stand_ins.calls()][:3] == ["srun", "nsys", "trtllm-bench"]


def test_an_older_tensorrt_llm_has_another_name_for_debug_ranges(stand_ins: StandIns, tmp_path: Path) -> None:
    """Versions differ in TLLM_NVTX_DEBUG and TLLM_LLMAPI_ENABLE_NVTX: what the plan sets is kept beside the preset's."""
    capture(
        tmp_path / "b", f"{BENCH} latency", preset="trtllm-bench-latency",
        env={"TLLM_NVTX_DEBUG": "1", "TLLM_PROFILE_START_STOP": "5-9"},
    )  # fmt: skip
    assert stand_ins.calls("trtllm-bench")[0]["env"] == {
        "TLLM_NVTX_DEBUG": "1", "TLLM_PROFILE_START_STOP": "5-9", "TLLM_PROFILE_RECORD_GC": "1",
        "TLLM_LLMAPI_ENABLE_NVTX": "1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("launcher", "words"),
    [
        ([], "N P"),
        (["srun", "-n", "2"], "srun -n 2 N P"),
        (["srun", "-n", "2", "trtllm-llmapi-launch"], "srun -n 2 N trtllm-llmapi-launch P"),
        (["trtllm-llmapi-launch"], "N trtllm-llmapi-launch P"),
    ],
)
def test_each_rank_gets_an_nsys_of_its_own(launcher: list[str], words: str) -> None:
    assert " ".join(wrap(launcher, ["N"], ["P"])) == words


def test_any_and_torch() -> None:
    everything = nsys_flags(preset("any"), Features(), output="o")
    assert "-c" not in everything
    assert "--cuda-flush-interval=1000" in everything
    own = nsys_flags(preset("any"), Features(), output="o", extra=["--cuda-flush-interval=50"])
    assert [word for word in own if "flush" in word] == ["--cuda-flush-interval=50"]
    older = nsys_flags(preset("any"), Features(flush_interval=False), output="o")
    assert not [word for word in older if "flush" in word]
    ranged = nsys_flags(preset("torch"), Features(), output="o", graph_trace="graph", extra=["--stats=true"])
    assert ranged[ranged.index("-c") + 1] == "cudaProfilerApi"
    assert "--cuda-flush-interval=1000" not in ranged
    assert "--cuda-graph-trace=graph" in ranged
    assert ranged[-1] == "--stats=true"


@pytest.mark.parametrize("name", PRESETS)
def test_os_runtime_is_never_traced_and_nothing_needs_permissions(name: str) -> None:
    words = nsys_flags(preset(name), Features(), output="o")
    assert words[words.index("-t") + 1] == "cuda,nvtx,python-gil"
    assert {"--sample=none", "--cpuctxsw=none"} <= set(words)


def test_gpu_metrics_by_the_flag_that_this_nsys_has(stand_ins: StandIns) -> None:
    features = need_nsys().features
    assert "--gpu-metrics-devices=all" in nsys_flags(preset("any"), features, output="o", gpus="all")
    assert not [word for word in nsys_flags(preset("any"), features, output="o") if "metrics" in word]


def test_an_old_nsys_is_asked_for_what_it_can(stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_OLD_NSYS", "1")
    features = need_nsys().features
    words = nsys_flags(preset("any"), features, output="o")
    assert words[words.index("-t") + 1] == "cuda,nvtx"
    side = {"command": "x"}
    plan = plan_from({"baseline": side, "candidate": side}, Path())
    assert left_out(plan, features) == ["this nsys cannot trace python-gil"]
