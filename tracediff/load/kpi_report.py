"""`KpiReport`: what every reader of a benchmark's own figures gives, and how the readers take numbers in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tracediff.model import Note

Kind = Literal[
    "trtllm-bench", "serving-benchmark", "iteration-log", "iteration-stats", "cpp-iteration-log", "emulator"
]
Better = Literal["lower", "higher"]
_LARGEST = 1e15  # no time, rate or count of a benchmark is larger; a file that says so is broken


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a report. Its name says the unit too: `ttft_mean_ms`."""

    value: float
    unit: str
    better: Better


@dataclass(frozen=True, slots=True)
class Iteration:
    """One executor iteration of one rank; None where the format does not say.

    `number` is the number printed. The figures of a record are all of one loop, but releases differ in
    whether that loop's NVTX label carries the printed number or the one before.
    """

    number: int
    rank: int = 0
    scheduled_reqs: int | None = None
    ctx_reqs: int | None = None
    ctx_tokens: int | None = None
    gen_tokens: int | None = None  # requests, where the format counts those: one token each
    host_ms: float | None = None
    device_ms: float | None = None

    @property
    def idle(self) -> bool:
        """Whether it is known to have had nothing to run: its time is waiting for requests."""
        if self.scheduled_reqs is not None:
            return self.scheduled_reqs == 0
        return self.ctx_reqs == 0 and self.gen_tokens == 0

    @property
    def generation(self) -> bool:
        """Whether it only generated."""
        return self.ctx_reqs == 0 and bool(self.gen_tokens) and not self.idle


@dataclass(frozen=True)
class KpiReport:
    """A benchmark's own report of one run.

    `metrics` are by canonical name, the same in every format: `request_throughput_req_s`,
    `output_throughput_tok_s`, `{ttft,tpot,itl,e2e}_{mean,p50,p90,p95,p99}_ms`,
    `{host,device}_step_time_{mean,p50,generation_p50,generation_mean}_ms`, `tokens_per_step`, ... A figure that was
    not measured is absent, never zero. `iterations` are the first ones of the file, `iterations_left_out`
    counts the rest.
    """

    kind: Kind
    source: str  # base name of the file
    metrics: dict[str, Metric]
    iterations: list[Iteration] = field(default_factory=list)
    iterations_left_out: int = 0
    warnings: list[Note] = field(default_factory=list)


def number(value: Any) -> float | None:
    """Return a finite number that is not negative as a float, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 <= value <= _LARGEST:  # also False for nan
        return None
    return float(value)


def count(value: Any) -> int | None:
    """Return a whole number that is not negative, None for anything else."""
    checked = number(value)
    return int(checked) if checked is not None and checked == math.floor(checked) else None


def section(value: Any) -> Mapping[str, Any]:
    """Return a JSON object as it is and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def put(metrics: dict[str, Metric], name: str, value: Any) -> None:
    """Add a figure under its canonical name, whose end says the unit; what is no measurement is left out.

    A latency of 0 is what the benchmarks write without streaming, 0 tokens a step what they write without a
    count: not measured. A throughput of 0 is a result: every request failed.
    """
    checked = number(value)
    unit, better = _unit(name)
    if checked is None or (checked == 0 and unit in ("ms", "tok")):
        return
    metrics[name] = Metric(checked, unit, better)


def _unit(name: str) -> tuple[str, Better]:
    if name.endswith("_ms"):
        return "ms", "lower"
    if name.endswith("_req_s"):
        return "req/s", "higher"
    if name.endswith("_tok_s"):
        return "tok/s", "higher"
    return "tok", "higher"
