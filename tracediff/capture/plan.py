"""What is to be captured: a TOML plan or the flags of the command line -> `Plan`; and what each stack needs for it (presets)."""

from __future__ import annotations

import random
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from tracediff.errors import TracediffError, UsageError
from tracediff.formats.bundle import SIDES, RunKind, SideName
from tracediff.formats.files import missing, read_toml
from tracediff.formats.reports import PARQUET_FIRST, Form


class Preset(msgspec.Struct, frozen=True):
    """How one kind of program is captured."""

    name: str
    steps_variable: str | None = None
    """The variable that makes the program call cudaProfilerStart and cudaProfilerStop around iterations."""
    default_steps: str | None = None
    takes: str = "A-B"
    """How the program is told its iterations: `A-B` one range, `A-B,C-D` several, `A-B,N` or single ones."""
    capture_range: bool = True
    """Capture between cudaProfilerStart and cudaProfilerStop only (`-c cudaProfilerApi`)."""
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    fork: bool = True
    program: str | None = None
    """The program whose command line `reports` go on."""
    subcommand: str | None = None
    reports: tuple[tuple[str, str], ...] = ()
    """Flags that make the program write its own figures, and the file in the run's folder."""
    server: bool = False
    """The command is a server: wait for it, run the client, stop it."""
    serving: tuple[str, ...] = ()
    """Words that make a command a server where other commands of the preset are none."""
    ready_url: str = "http://localhost:8000/health"
    flags: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Word of a command -> flags that its profiled runs get; {first} and {count} are of the step range, {run} is the run's folder."""
    start: str | None = None
    """JSON that is posted to the server's /start_profile before its client runs, with the same two; '' is no body."""
    script: Path | None = None
    """A program of this package that runs where the command, if it is one, names the Python, and else holds its options."""
    functions: bool = False
    """nsys puts a range around the functions that `FUNCTIONS` names."""

    def serves(self, command: Sequence[str]) -> bool:
        """Whether a command is a server, which needs a client."""
        return self.server or any(PurePath(word).name in self.serving for word in command)


_TRTLLM: dict[str, Any] = {
    "steps_variable": "TLLM_PROFILE_START_STOP",
    "default_steps": "100-150",
    "takes": "A-B,C-D",
    "env": {"TLLM_PROFILE_RECORD_GC": "1", "TLLM_LLMAPI_ENABLE_NVTX": "1"},
}
_EMULATOR = "tracediff_emulator"
_JSON, _LOG = ("--report_json", "report.json"), ("--iteration_log", "iterations.log")
# vllm-project/vllm vllm/config/profiler.py: a window of engine iterations after start_profile
_VLLM_WINDOW = (
    "--profiler-config.profiler=cuda",
    "--profiler-config.delay_iterations={first}",
    "--profiler-config.max_iterations={count}",
)
_SGLANG_WINDOW = '{"activities": ["CUDA_PROFILER"], "start_step": {first}, "num_steps": {count}}'

FUNCTIONS, LLMAPI = (Path(__file__).with_name(name) for name in ("functions.json", "llmapi.py"))
"""Functions of transformers that begin a step, in nsys's form."""

_ROWS = (
    # any command, from beginning to end
    Preset("any", capture_range=False, fork=False),
    # a program that calls torch.cuda.profiler.start() and stop() itself
    Preset("torch"),
    # python -m tracediff_emulator
    Preset("emulator", "TLLM_PROFILE_START_STOP", "20-50", "A-B,C-D", env={"TLLM_PROFILE_RECORD_GC": "1"}, fork=False,
           program=_EMULATOR, reports=(("--report", "emulator.json"),)),
    Preset("trtllm-bench-throughput", program="trtllm-bench", subcommand="throughput", reports=(_JSON, _LOG), **_TRTLLM),
    Preset("trtllm-bench-latency", program="trtllm-bench", subcommand="latency", reports=(_JSON,), **_TRTLLM),
    # a program of this package, see llmapi.py; it generates for some 140 iterations
    Preset("trtllm-llmapi", program=LLMAPI.name, reports=(("--report", "report.json"),), script=LLMAPI, **{**_TRTLLM, "default_steps": "50-100"}),
    # with a client that loads it
    Preset("trtllm-serve", program="trtllm-serve", server=True, **_TRTLLM),
    # vllm-project/vllm docs/contributing/profiling.md; --profile of `vllm bench` calls start_profile
    # (vllm/benchmarks/latency.py, throughput.py), a server is asked by /start_profile
    Preset("vllm", default_steps="50-150", env={"VLLM_WORKER_MULTIPROC_METHOD": "spawn"},
           serving=("serve", "vllm.entrypoints.openai.api_server"), start="",
           flags={"latency": ("--profile", *_VLLM_WINDOW), "throughput": ("--profile", *_VLLM_WINDOW),
                  "serve": _VLLM_WINDOW, "vllm.entrypoints.openai.api_server": _VLLM_WINDOW}),
    # sgl-project/sglang docs/developer_guide/benchmark_and_profiling.md, layer-wise NVTX profiling, method 1;
    # the ranges of the scheduler by python/sglang/srt/environ.py
    Preset("sglang", default_steps="50-150", env={"SGLANG_ENABLE_NVTX_SCHEDULER": "1"},
           serving=("serve", "sglang.launch_server"), ready_url="http://localhost:30000/health", start=_SGLANG_WINDOW),
    # samples/common/sampleInference.cpp and sampleOptions.cpp of NVIDIA/TensorRT: it calls cudaProfilerStart around what it measures
    Preset("trtexec", fork=False, flags={"trtexec": (
        "--useSpinWait", "--separateProfileRun", "--profilingVerbosity=detailed", "--exportTimes={run}/times.json",
        "--exportProfile={run}/profile.json", "--exportLayerInfo={run}/layers.json")}),
    # a script that uses transformers, from beginning to end
    Preset("hf", capture_range=False, fork=False, functions=True),
    # the C++ benchmark of the batch manager (populateIterationIndexes of cudaProfilerUtils: numbers and ranges)
    Preset("gptManagerBenchmark", "TLLM_GPTM_PROFILE_START_STOP", "100-150", "A-B,N", program="gptManagerBenchmark"),
)  # fmt: skip
PRESETS: dict[str, Preset] = {row.name: row for row in _ROWS}

# Launcher -> the variable that tells a process its rank.
RANK_VARIABLES = {
    "mpirun": "OMPI_COMM_WORLD_RANK",
    "mpiexec": "OMPI_COMM_WORLD_RANK",
    "orterun": "OMPI_COMM_WORLD_RANK",
    "mpiexec.hydra": "PMI_RANK",
    "srun": "SLURM_PROCID",
}
LLMAPI_LAUNCH = "trtllm-llmapi-launch"


def preset(name: str) -> Preset:
    """The preset of that name. Raises `TracediffError`: plan-preset."""
    if name not in PRESETS:
        raise UsageError("plan-preset", f"there is no preset {name!r}", fix=f"one of {', '.join(PRESETS)}")
    return PRESETS[name]


_TAKES = {
    "A-B": (r"R", "one range A-B with A below B", "--steps 100-150"),
    "A-B,C-D": (r"R(,R)*", "ranges A-B,C-D that rise", "--steps 100-150,300-350 (newer TensorRT-LLM rejects single numbers)"),
    "A-B,N": (r"(R|N)(,(R|N))*", "ranges A-B or single iterations that rise", "--steps 0,63,127 or 1-4,7-8"),
}  # fmt: skip
"""`Preset.takes` -> its grammar, with R a range and N a number; what it is called; an example."""


def windows_of(text: str, takes: str = "A-B") -> list[tuple[int, int]]:
    """First and last iteration of each window; TensorRT-LLM reads the last as the one after it, by version.

    Raises `TracediffError` (plan-steps) where a program that `takes` another form would not read them so.
    """
    grammar, what, fix = _TAKES[takes]
    pattern = grammar.replace("R", "N-N").replace("N", r"\d{1,9}")
    numbers = [int(number) for number in re.findall(r"\d{1,9}", text)]
    if not re.fullmatch(pattern, text, re.ASCII) or numbers != sorted(set(numbers)):
        raise TracediffError("plan-steps", f"steps {text!r} are not {what}", fix=fix)
    ends = [word.partition("-") for word in text.split(",")]
    return [(int(first), int(last or first)) for first, _, last in ends]


def rank_suffix(launcher: Sequence[str], variable: str | None = None) -> str:
    """What a report's name needs for one report per rank: `` for one process, else `.rank%q{VARIABLE}`.

    Raises `TracediffError`: plan-launcher.
    """
    return f".rank%q{{{rank_variable(launcher, variable)}}}" if launcher else ""


def rank_variable(launcher: Sequence[str], variable: str | None = None) -> str:
    """The variable that holds the rank of a process. Raises `TracediffError`: plan-launcher."""
    name = PurePath(launcher[0]).name
    # trtllm-llmapi-launch without a launcher of its own runs inside an srun step
    known = variable or RANK_VARIABLES.get("srun" if name == LLMAPI_LAUNCH else name)
    if known is None:
        raise TracediffError(
            "plan-launcher",
            f"{launcher[0]}: which variable holds the rank is not known",
            fix=f"set rank_variable in the plan; known are {', '.join(RANK_VARIABLES)}",
        )
    return known


# Plans


TRAFFIC_SEEDS = 1000
"""Traffic seeds that belong to one `seed` of a plan, so that another one gives all pairs other requests."""

_Part = TypeVar("_Part", bound=msgspec.Struct)
RUN = "{run}"
"""In a command, a client or an environment value: the folder of the run."""
TRAFFIC_SEED = "{traffic_seed}"
"""In the same places: the seed of the run's requests, with `same_traffic`."""
SEED_VARIABLE = "TRACEDIFF_TRAFFIC_SEED"
"""What tells a program that seed."""

_Words = tuple[Annotated[str, msgspec.Meta(pattern=r"\A[^\0]*\Z")], ...]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Limit = Annotated[float, msgspec.Meta(gt=0)]  # seconds


class SidePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One side: what runs, where, with which environment."""

    command: _Words
    env: dict[str, str] = {}
    cwd: Path | None = None
    preset: str = "any"
    kpi: _Words = ()
    client: _Words = ()
    ready_url: Annotated[str, msgspec.Meta(pattern=r"\Ahttps?://")] | None = None
    launcher: _Words = ()
    rank_variable: str | None = None
    only_rank: _Count | None = None  # that nsys profiles; None: each
    model: str | None = None  # of a preset that has a program of its own
    ref: str | None = None  # a revision: the side runs in a checkout of its own, after `build`
    build: str | None = None  # for a shell, at the top of that checkout


class Slot(msgspec.Struct, frozen=True):
    """One run of the schedule."""

    index: int
    side: SideName
    kind: RunKind
    repeat: int

    @property
    def name(self) -> str:
        """The folder of the run."""
        tail = "" if self.kind == "profiled" else f"-{self.kind}"
        return f"{self.index:03d}-{self.side}-{self.repeat}{tail}"


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Both sides and how often, in which order and how they are run."""

    baseline: SidePlan
    candidate: SidePlan
    repeats: Annotated[int, msgspec.Meta(ge=1)] = 5
    order: Literal["abba", "random", "sequential"] = "abba"
    seed: int = 0
    warmup: _Count = 0
    controls: _Count = 0
    steps: str | None = None
    timeout_s: _Limit = 1800.0
    ready_timeout_s: _Limit = 900.0
    nsys_flags: _Words = ()
    graph_trace: Literal["node", "graph"] = "node"
    gpu_metrics: bool = False
    gpu_metrics_frequency: Annotated[int, msgspec.Meta(ge=10, le=200_000)] | None = None  # Hz
    export: Form = PARQUET_FIRST
    keep_reports: bool = False  # a .nsys-rep holds the whole environment of the programs
    min_free_gib: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    until: str | None = (
        None  # how narrow the interval of a measure's change is to be; `repeats` are made anyway
    )
    max_runs: int = 20  # profiled runs a side at most, with `until`
    same_traffic: bool = False  # both runs of a pair are given one traffic seed

    def side(self, name: SideName) -> SidePlan:
        """The plan of a side."""
        return self.baseline if name == "baseline" else self.candidate

    def traffic_seed(self, slot: Slot) -> int | None:
        """The seed of a run's requests, the same for both sides of a pair; None where runs choose theirs."""
        return TRAFFIC_SEEDS * self.seed + slot.repeat if self.same_traffic else None

    def schedule(self) -> list[Slot]:
        """Every run in order: warm-ups, then profiled runs with the controls spread among them.

        With `until`, the runs beyond `repeats` come last, and are made only while it is not reached.
        """
        runs: list[tuple[SideName, RunKind, int]] = [
            (side, "warmup", number + 1) for number in range(self.warmup) for side in SIDES
        ]
        total = max(self.max_runs, self.repeats) if self.until else self.repeats
        every = _ordered("profiled", total, self.order, self.seed)
        profiled, more = every[: 2 * self.repeats], every[2 * self.repeats :]
        controls = _ordered("control", self.controls, self.order, self.seed + 1)
        # After the k-th part of the profiled runs comes the k-th pair of controls.
        taken = 0
        for place, run in enumerate(profiled, 1):
            due = 2 * (self.controls * place // len(profiled))
            runs += [run, *controls[taken:due]]
            taken = due
        return [
            Slot(index, side, kind, repeat) for index, (side, kind, repeat) in enumerate([*runs, *more], 1)
        ]


def _ordered(kind: RunKind, repeats: int, order: str, seed: int) -> list[tuple[SideName, RunKind, int]]:
    if order == "sequential":
        return [(side, kind, number + 1) for side in SIDES for number in range(repeats)]
    rng = random.Random(seed)
    pairs = []
    for number in range(repeats):
        flip = rng.random() < 0.5 if order == "random" else number % 2 == 1
        pairs += [(side, kind, number + 1) for side in (SIDES[::-1] if flip else SIDES)]
    return pairs


def read_plan(path: Path, **flags: Any) -> Plan:
    """Read a plan from TOML; flags of the command line that are given win.

    Raises `TracediffError`: not-a-file, plan-unreadable, plan-invalid, plan-steps, plan-preset, plan-launcher.
    """
    try:
        data = read_toml(path)
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, ValueError) as error:
        raise TracediffError(
            "plan-unreadable", f"{path.name}: {error}", fix="see docs/record.md for a plan"
        ) from error
    return plan_from(data, path.parent, flags)


def plan_from(data: Mapping[str, Any], base: Path, flags: Mapping[str, Any] | None = None) -> Plan:
    """Check the parts of a plan. What both sides share (command apart) may stand at the top level.

    Raises `TracediffError`: plan-invalid, plan-steps, plan-preset, plan-launcher.
    """
    given = {name: value for name, value in (flags or {}).items() if value not in (None, ())}
    refs = {name: given.pop(f"{name}_ref", None) for name in SIDES}
    values = {**data, **given}
    shared = {name: values.pop(name) for name in SidePlan.__struct_fields__ if name in values}
    sides: dict[str, SidePlan] = {
        name: _side(name, _values(name, values.get(name, {}), shared, base, refs[name])) for name in SIDES
    }
    if isinstance(values.get("nsys_flags"), str):
        values["nsys_flags"] = [values["nsys_flags"]]
    plan = _converted({**values, **sides}, Plan, "the plan")
    _no_nul("plan", *plan.nsys_flags)
    if not plan.same_traffic and any(
        TRAFFIC_SEED in word
        for side in sides.values()
        for word in (*side.command, *side.client, *side.env.values())
    ):
        raise _invalid(f"{TRAFFIC_SEED} stands for nothing without same_traffic", "--same-traffic")
    if plan.until is not None:
        until_of(plan.until)
        if plan.order == "sequential":
            raise _invalid("until needs pairs of runs, and order is sequential", "--order abba")
        if plan.max_runs < plan.repeats:
            raise _invalid(f"max_runs is {plan.max_runs}, repeats are {plan.repeats}", "-n 5 --max-runs 20")
    if plan.steps is not None:
        for side in (plan.baseline, plan.candidate):
            kind = preset(side.preset)
            if kind.default_steps is not None:
                windows_of(plan.steps, kind.takes)
            else:
                raise TracediffError(
                    "plan-steps",
                    f"preset {side.preset} has no step range: the program decides",
                    fix="leave --steps out, or choose a preset that knows the program (--preset emulator)",
                )
    return plan


def _values(name: str, own: Any, shared: dict[str, Any], base: Path, ref: object) -> dict[str, Any]:
    """What a plan says of a side, command lines as words and its folder as a path."""
    if not isinstance(own, Mapping):
        raise _invalid(f"[{name}] is not a table", f"[{name}]\ncommand = '...'")
    values = {**shared, **own, **({"ref": ref} if ref else {})}
    if values.get("model"):
        values.setdefault("command", "")
    elif not values.get("command"):
        raise _invalid(f"the {name} has no command", f"--{name} 'COMMAND', or command under [{name}]")
    for key in ("command", "client", "launcher", "kpi"):
        if isinstance(values.get(key), str):
            values[key] = [values[key]] if key == "kpi" else _split(values[key], f"{name}.{key}")
    tables = [one.get("env", {}) for one in (shared, own)]
    if all(isinstance(table, Mapping) for table in tables):  # numbers are no strings in TOML
        env = [item for table in tables for item in table.items()]
        values["env"] = {key: str(value) if isinstance(value, int | float) else value for key, value in env}
    if where := values.pop("cwd", None):
        _no_nul(name, str(where))
        values["cwd"] = (base / str(where)).resolve()
        if not values.get("ref") and not values["cwd"].is_dir():
            raise _invalid(f"the working directory of the {name} does not exist: {where}", "create it")
    return values


def _side(name: str, values: dict[str, Any]) -> SidePlan:
    side = _scripted(name, _converted(values, SidePlan, f"[{name}]"))
    _no_nul(name, *side.command, *side.client, *side.launcher, *side.kpi, *side.env, *side.env.values())
    kind = preset(side.preset)
    rank_suffix(side.launcher, side.rank_variable)
    if side.only_rank is not None and not side.launcher:
        raise _invalid(f"the {name} has one rank alone: there is no launcher", "--launcher 'mpirun -n 8'")
    if kind.serves(side.command) and not side.client:
        raise _invalid(
            f"the {name} is a server: preset {kind.name} needs a client that loads it", "--client 'COMMAND'"
        )
    if side.client and not (kind.server or kind.serving):
        servers = ", ".join(one.name for one in PRESETS.values() if one.server or one.serving)
        raise _invalid(f"the {name}: preset {kind.name} runs no client", f"client goes with {servers}")
    return side


def _scripted(name: str, side: SidePlan) -> SidePlan:
    """The side with the program of its preset, where that has one."""
    script = preset(side.preset).script
    if script is None:
        if side.model:
            raise _invalid(f"the {name}: preset {side.preset} runs a command of yours, no model", "--preset trtllm-llmapi --model M")  # fmt: skip
        return side
    words = list(side.command)
    python = words.pop(0) if words and not words[0].startswith("-") else sys.executable
    model = ["--model", side.model] if side.model else []
    return msgspec.structs.replace(side, command=(python, str(script), *model, *words))


def _no_nul(name: str, *texts: str) -> None:
    if any("\0" in text for text in texts):
        raise _invalid(
            f"the {name}: a text holds the character NUL, which no program can be given", "leave it out"
        )


def _converted(values: dict[str, Any], kind: type[_Part], where: str) -> _Part:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        known = ", ".join(sorted({*kind.__struct_fields__, *SidePlan.__struct_fields__}))
        raise _invalid(f"{where}: {error}", f"known are {known}; see docs/record.md for a plan") from error


def _split(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise _invalid(f"{where}: {error}", "quote it as for a POSIX shell, or give a list") from error


_HALF_WIDTH = re.compile(r"(?:±|\+-)?(\d+(?:\.\d+)?)\s*(%|ns|us|µs|ms)\Z")
_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6}


def until_of(text: str) -> tuple[str, float, bool]:
    """What `until` asks for: a measure, and the half-width of its interval: (a share of the baseline, True) or (ns, False).

    Raises `TracediffError`: plan-invalid. What a measure is, the comparison knows: capturing does without.
    """
    measure, _, width = text.rpartition(":")
    match = _HALF_WIDTH.match(width)
    if not measure or match is None or float(match[1]) <= 0:
        raise _invalid(
            f"until is {text!r}",
            "--until step:2% (or host_work@_schedule:10us): the half-width of the interval",
        )
    value, unit = float(match[1]), match[2]
    return (measure, value / 100, True) if unit == "%" else (measure, value * _NS[unit], False)


def _invalid(message: str, fix: str) -> TracediffError:
    return TracediffError("plan-invalid", message, fix=fix)
