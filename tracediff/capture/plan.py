"""What is to be captured: a TOML plan or the flags of the command line -> `Plan`."""

from __future__ import annotations

import random
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tracediff.capture.presets import check_steps, preset, rank_suffix
from tracediff.errors import TracediffError

SideName = Literal["baseline", "candidate"]
Kind = Literal["warmup", "profiled", "control"]
SIDES: tuple[SideName, SideName] = ("baseline", "candidate")
ORDERS = ("abba", "random", "sequential")


@dataclass(frozen=True)
class SidePlan:
    """One side: what runs, where, with which environment."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    preset: str = "any"
    kpi: tuple[str, ...] = ()
    client: tuple[str, ...] = ()
    ready_url: str = "http://localhost:8000/health"
    launcher: tuple[str, ...] = ()
    rank_variable: str | None = None


@dataclass(frozen=True)
class Slot:
    """One run of the schedule."""

    index: int
    side: SideName
    kind: Kind
    repeat: int

    @property
    def name(self) -> str:
        """The folder of the run."""
        tail = "" if self.kind == "profiled" else f"-{self.kind}"
        return f"{self.index:03d}-{self.side}-{self.repeat}{tail}"


@dataclass(frozen=True)
class Plan:
    """Both sides and how often, in which order and how they are run."""

    baseline: SidePlan
    candidate: SidePlan
    repeats: int = 5
    order: str = "abba"
    seed: int = 0
    warmup: int = 0
    controls: int = 0
    steps: str | None = None
    timeout_s: float = 1800.0
    ready_timeout_s: float = 900.0
    nsys_flags: tuple[str, ...] = ()
    graph_trace: str = "node"
    gpu_metrics: bool = False
    keep_reports: bool = False  # a .nsys-rep holds the whole environment of the programs
    min_free_gib: float = 2.0
    until: str | None = (
        None  # how narrow the interval of the step's change is to be; `repeats` are made anyway
    )
    max_runs: int = 20  # profiled runs a side at most, with `until`

    def side(self, name: SideName) -> SidePlan:
        """Return the plan of a side."""
        return self.baseline if name == "baseline" else self.candidate

    def schedule(self) -> list[Slot]:
        """Return every run in order: warm-ups, then profiled runs with the controls spread among them.

        With `until`, the runs beyond `repeats` come last, and are made only while it is not reached.
        """
        runs: list[tuple[SideName, Kind, int]] = [
            (side, "warmup", number + 1) for number in range(self.warmup) for side in SIDES
        ]
        total = max(self.max_runs, self.repeats) if self.until else self.repeats
        every = _ordered("profiled", total, self.order, self.seed)
        profiled, more = every[: 2 * self.repeats], every[2 * self.repeats :]
        controls = _ordered("control", self.controls, self.order, self.seed + 1)
        # After the k-th part of the profiled runs comes the k-th pair of controls.
        taken = 0
        for place, run in enumerate(profiled, 1):
            runs.append(run)
            due = 2 * (self.controls * place // len(profiled))
            runs += controls[taken:due]
            taken = due
        runs += more
        return [Slot(index, side, kind, repeat) for index, (side, kind, repeat) in enumerate(runs, 1)]


def _ordered(kind: Kind, repeats: int, order: str, seed: int) -> list[tuple[SideName, Kind, int]]:
    if order == "sequential":
        return [(side, kind, number + 1) for side in SIDES for number in range(repeats)]
    rng = random.Random(seed)
    pairs = []
    for number in range(repeats):
        flip = rng.random() < 0.5 if order == "random" else number % 2 == 1
        first, second = SIDES[::-1] if flip else SIDES
        pairs += [(first, kind, number + 1), (second, kind, number + 1)]
    return pairs


_SIDE_KEYS = {
    "command", "env", "cwd", "preset", "kpi", "client", "ready_url", "launcher", "rank_variable",
}  # fmt: skip
_PLAN_KEYS = {
    "repeats", "order", "seed", "warmup", "controls", "steps", "timeout_s", "ready_timeout_s", "nsys_flags",
    "graph_trace", "gpu_metrics", "keep_reports", "min_free_gib", "until", "max_runs",
}  # fmt: skip


def read_plan(path: Path, **flags: Any) -> Plan:
    """Read a plan from TOML; flags of the command line that are given win.

    Raises `TracediffError`: plan-unreadable, plan-invalid, plan-steps, plan-preset, plan-launcher.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TracediffError(
            "plan-unreadable", f"{path.name}: {error}", fix="see docs/capture.md for a plan"
        ) from error
    return plan_from(data, path.parent, flags)


def plan_from(data: Mapping[str, Any], base: Path, flags: Mapping[str, Any] | None = None) -> Plan:
    """Check the parts of a plan. What both sides share (command apart) may stand at the top level."""
    merged = {**data, **{name: value for name, value in (flags or {}).items() if value not in (None, ())}}
    shared = {name: merged[name] for name in _SIDE_KEYS - {"env"} if name in merged}
    unknown = sorted(set(merged) - _PLAN_KEYS - _SIDE_KEYS - set(SIDES))
    if unknown:
        raise _invalid(f"unknown key {unknown[0]!r}", f"known are {', '.join(sorted(_PLAN_KEYS))}")
    sides = {}
    for name in SIDES:
        own = merged.get(name, {})
        if not isinstance(own, Mapping):
            raise _invalid(f"[{name}] is not a table", f"[{name}]\ncommand = '...'")
        env = {**_table(merged, "env"), **_table(own, "env")}
        sides[name] = _side(name, {**shared, **own, "env": env}, base)
    values = {name: merged[name] for name in _PLAN_KEYS if name in merged}
    return _checked(Plan(sides["baseline"], sides["candidate"], **_typed(values)))


def _side(name: str, data: Mapping[str, Any], base: Path) -> SidePlan:
    unknown = sorted(set(data) - _SIDE_KEYS)
    if unknown:
        raise _invalid(
            f"[{name}] has an unknown key {unknown[0]!r}", f"known are {', '.join(sorted(_SIDE_KEYS))}"
        )
    if not data.get("command"):
        raise _invalid(f"the {name} has no command", f"--{name} 'COMMAND', or command under [{name}]")
    cwd = (base / str(data["cwd"])).resolve() if data.get("cwd") else None
    if cwd is not None and not cwd.is_dir():
        raise _invalid(f"the working directory of the {name} does not exist: {data['cwd']}", "create it")
    side = SidePlan(
        command=_words(data["command"], f"{name}.command"),
        env=data["env"],
        cwd=cwd,
        preset=str(data.get("preset", "any")),
        kpi=_strings(data.get("kpi", ()), f"{name}.kpi"),
        client=_words(data.get("client", ()), f"{name}.client"),
        ready_url=str(data.get("ready_url", SidePlan.ready_url)),
        launcher=_words(data.get("launcher", ()), f"{name}.launcher"),
        rank_variable=data.get("rank_variable"),
    )
    kind = preset(side.preset)
    rank_suffix(side.launcher, side.rank_variable)
    if kind.server != bool(side.client):
        need = "needs a client that loads the server" if kind.server else "runs no client"
        raise _invalid(
            f"the {name}: preset {kind.name} {need}", "client = '...' goes with preset trtllm-serve"
        )
    if not side.ready_url.startswith(("http://", "https://")):
        raise _invalid(
            f"the {name}: ready_url is no http address", "ready_url = 'http://localhost:8000/health'"
        )
    return side


def _words(value: Any, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise _invalid(f"{where}: {error}", "quote it as for a POSIX shell, or give a list") from error
    return _strings(value, where)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, Sequence) or not all(
        isinstance(word, str) and "\0" not in word for word in value
    ):
        raise _invalid(f"{where} is not a list of strings", f"{where} = ['...', '...']")
    return tuple(value)


def _table(data: Mapping[str, Any], name: str) -> dict[str, str]:
    value = data.get(name, {})
    if not isinstance(value, Mapping) or any(isinstance(one, dict | list) for one in value.values()):
        raise _invalid(f"{name} is not a table of strings", f"{name} = {{ NAME = 'value' }}")
    return {str(key): str(one) for key, one in value.items()}


_TYPES: dict[str, type | tuple[type, ...]] = {
    "repeats": int, "seed": int, "warmup": int, "controls": int, "order": str, "steps": str,
    "until": str, "max_runs": int,
    "graph_trace": str,
    "timeout_s": (int, float), "ready_timeout_s": (int, float), "min_free_gib": (int, float),
    "gpu_metrics": bool, "keep_reports": bool,
}  # fmt: skip


def _typed(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        wanted = _TYPES.get(name)
        if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
            raise _invalid(f"{name} = {value!r} is of the wrong type", "see docs/capture.md for a plan")
    if "nsys_flags" in values:
        values["nsys_flags"] = _strings(values["nsys_flags"], "nsys_flags")
    return values


def _checked(plan: Plan) -> Plan:
    if plan.repeats < 1 or min(plan.warmup, plan.controls) < 0:
        raise _invalid("repeats start at 1, warmup and controls at 0", "-n 5")
    if plan.until is not None:
        until_of(plan.until)
        if plan.order == "sequential":
            raise _invalid("until needs pairs of runs, and order is sequential", "--order abba")
        if plan.max_runs < plan.repeats:
            raise _invalid(f"max_runs is {plan.max_runs}, repeats are {plan.repeats}", "-n 5 --max-runs 20")
    if plan.order not in ORDERS:
        raise _invalid(f"there is no order {plan.order!r}", f"one of {', '.join(ORDERS)}")
    if plan.graph_trace not in ("node", "graph"):
        raise _invalid(f"graph_trace is {plan.graph_trace!r}", "node (kernels of graphs are seen) or graph")
    if plan.timeout_s <= 0 or plan.ready_timeout_s <= 0 or plan.min_free_gib < 0:
        raise _invalid("a time limit is not positive", "--timeout 1800")
    if plan.steps is not None:
        check_steps(plan.steps)
        for name in SIDES:
            if preset(plan.side(name).preset).steps_variable is None:
                raise TracediffError(
                    "plan-steps",
                    f"preset {plan.side(name).preset} has no step range: the program decides",
                    fix="leave --steps out, or choose a preset that knows the program (--preset emulator)",
                )
    return plan


_UNTIL = re.compile(r"step:(?:±|\+-)?(\d+(?:\.\d+)?)\s*(%|ns|us|µs|ms)\Z")
_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6}


def until_of(text: str) -> tuple[float, bool]:
    """Return the half-width that `until` asks for: (a share of the baseline's step, True) or (ns, False).

    Raises `TracediffError`: plan-invalid.
    """
    match = _UNTIL.match(text)
    if match is None or float(match[1]) <= 0:
        raise _invalid(f"until is {text!r}", "--until step:2% (or step:50us): the half-width of the interval")
    value, unit = float(match[1]), match[2]
    return (value / 100, True) if unit == "%" else (value * _NS[unit], False)


def _invalid(message: str, fix: str) -> TracediffError:
    return TracediffError("plan-invalid", message, fix=fix)
