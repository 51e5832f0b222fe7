"""A file with a benchmark's own figures of one run -> `KpiReport`. The format is recognised by its content.

    trtllm-bench        `trtllm-bench throughput|latency --report_json FILE`
    serving-benchmark   `benchmark_serving.py --save-result`, of TensorRT-LLM and of vLLM
    genai-perf, aiperf  `profile_export_genai_perf.json`, `profile_export_aiperf.json`
    iteration-log       log lines `iter = N, ...` of TensorRT-LLM's PyTorch backend (`print_iter_log: true`)
    iteration-stats     `trtllm-bench --iteration_log FILE`: an iteration's statistics a line
    emulator            `--report FILE` of the emulator in `tracediff_emulator`

Logs of any size are read line by line in bounded memory; lines that cannot be read are counted, not fatal.
"""

from __future__ import annotations

import ast
import json
import math
import re
import statistics
import warnings
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from tracediff.errors import TracediffError
from tracediff.formats.files import missing
from tracediff.model import Note

Kind = Literal[
    "trtllm-bench", "serving-benchmark", "genai-perf", "aiperf",
    "iteration-log", "iteration-stats", "emulator",
]  # fmt: skip
Better = Literal["lower", "higher"]
_LARGEST = 1e15  # no time, rate or count of a benchmark is larger; a file that says so is broken


class Metric(msgspec.Struct, frozen=True):
    """One figure of a report. Its name says the unit too: `ttft_mean_ms`."""

    value: float
    unit: str
    better: Better


class Iteration(msgspec.Struct, frozen=True):
    """One executor iteration of one rank; None where the format does not say.

    `number` is the number printed. The figures of a record are all of one loop, but releases differ in
    whether that loop's NVTX label carries the printed number or the one before.
    """

    number: int
    rank: int = 0
    scheduled_reqs: int | None = None
    ctx_reqs: int | None = None
    gen_tokens: int | None = None  # requests, where the format counts those: one token each
    host_ms: float | None = None
    ctx_tokens: int | None = None

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


class KpiReport(msgspec.Struct, frozen=True):
    """A benchmark's own report of one run.

    `metrics` are by canonical name, the same in every format: `request_throughput_req_s`,
    `output_throughput_tok_s`, `{ttft,tpot,itl,e2e}_{mean,p50,p90,p95,p99}_ms`,
    `{host,device}_step_time_{mean,p50,generation_p50,generation_mean}_ms`, `tokens_per_step`, `kv_cache_{used_max,used_mean}_pct`,
    `kv_cache_free_min_blocks`, ... A figure that was
    not measured is absent, never zero. `iterations` are the first ones of the file.
    """

    kind: Kind
    source: str  # base name of the file
    metrics: dict[str, Metric]
    iterations: list[Iteration] = msgspec.field(default_factory=list)
    warnings: list[Note] = msgspec.field(default_factory=list)


MAX_JSON_BYTES = 256 << 20  # a JSON report has to be read as a whole
_JSON_OBJECT = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"')


def read(path: Path) -> KpiReport:
    """Return the report in a file.

    Raises `TracediffError`: not-a-file, kpi-unreadable (no permission, too large), kpi-unknown-format.
    """
    try:
        if not path.is_file():
            if not path.exists():
                raise missing(path)
            raise TracediffError("kpi-unreadable", f"{path} is no file", fix="name the report itself")
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ast warns of odd escapes in lines that are not Python
            report = _read(file, path)
    except OSError as error:
        raise TracediffError("kpi-unreadable", f"{path.name}: cannot be read: {error}") from error
    if report is None:
        raise TracediffError(
            "kpi-unknown-format",
            f"{path.name}: not a report of a benchmark that is known here",
            fix="give a trtllm-bench --report_json file, a serving benchmark's --save-result file,"
            " a profile_export_*.json of genai-perf or aiperf, or a log of TensorRT-LLM with print_iter_log: true",
        )
    return report


def _read(file: BinaryIO, path: Path) -> KpiReport | None:
    looks_like_json = _JSON_OBJECT.match(file.read(4096)) is not None
    size = file.seek(0, 2)
    file.seek(0)
    if looks_like_json and size <= MAX_JSON_BYTES:
        report = read_json(file.read().removeprefix(b"\xef\xbb\xbf"), path.name)
        if report is not None:
            return report
        file.seek(0)
    report = read_log(file, path.name)
    if report is None and looks_like_json and size > MAX_JSON_BYTES:
        raise TracediffError(
            "kpi-unreadable",
            f"{path.name}: {size} bytes of JSON, the most that is read is {MAX_JSON_BYTES}",
            fix="save the report without its lists of single requests (no --save-detailed)",
        )
    return report


# JSON reports: trtllm-bench, the serving benchmark, genai-perf and aiperf, and the emulator of `tracediff_emulator`.

_MAX_VALUE_BYTES = 1 << 20
_MAX_LENIENT_BYTES = 64 << 20  # the slower reader, which takes NaN
_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)
_NOT_PYTHON = (*_FAILURES, SyntaxError, TypeError, MemoryError)

# trtllm-bench: key under `performance` or `streaming_metrics` -> canonical name.
_PERFORMANCE = {
    "request_throughput_req_s": "request_throughput_req_s",
    "system_output_throughput_tok_s": "output_throughput_tok_s",
    "system_total_throughput_tok_s": "total_throughput_tok_s",
    "output_throughput_per_gpu_tok_s": "output_throughput_per_gpu_tok_s",
    "output_throughput_per_user_tok_s": "output_throughput_per_user_tok_s",
    "avg_request_latency_ms": "e2e_mean_ms",
}
_STREAMING = {
    "token_output_speed_tok_s": "generation_speed_per_user_tok_s",
    "avg_ttft_ms": "ttft_mean_ms",
    "avg_tpot_ms": "tpot_mean_ms",
}
_PERCENTILES = ("p50", "p90", "p95", "p99")

# The serving benchmark.
_THROUGHPUTS = {
    "request_throughput": "request_throughput_req_s",
    "output_throughput": "output_throughput_tok_s",
    "total_token_throughput": "total_throughput_tok_s",
    "user_throughput": "request_speed_per_user_tok_s",
}
_LATENCY = re.compile(r"(mean|median|p\d{1,2}(?:\.\d{1,4})?)_(ttft|tpot|itl|e2el)_ms\Z")

# genai-perf and aiperf: a block of statistics each. Their inter token latency is a mean over a request, elsewhere called TPOT.
_BLOCKS = {
    "request_throughput": "request_throughput_req_s",
    "output_token_throughput": "output_throughput_tok_s",
    "total_token_throughput": "total_throughput_tok_s",
    "output_token_throughput_per_user": "generation_speed_per_user_tok_s",
    "output_token_throughput_per_request": "output_throughput_per_user_tok_s",
    "time_to_first_token": "ttft",
    "inter_token_latency": "tpot",
    "inter_chunk_latency": "itl",
    "request_latency": "e2e",
}
_BLOCK_UNITS = {"ms": 1.0, "sec": 1e3, "s": 1e3, "us": 1e-3, "ns": 1e-6,
                "requests/sec": 1.0, "tokens/sec": 1.0, "tokens/sec/user": 1.0}  # fmt: skip


def read_json(data: bytes, source: str) -> KpiReport | None:
    """Return the report in a JSON file's content, None where it is none of these."""
    found = _top_level(data)
    if "performance" in found:
        return _trtllm_bench(found, source)
    if any("unit" in section(found.get(name)) for name in _BLOCKS):
        return _blocks(found, source)
    if "request_throughput" in found or any(_LATENCY.match(key) for key in found):
        return _serving(found, source)
    if "emulator" in found and "ranks" in found:
        return _emulator(found, source)
    return None


def _top_level(data: bytes) -> Mapping[str, Any]:
    """Return an object, empty where it is none, without its long lists: those of single requests, nearly all of a detailed report."""
    try:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        short = {key: value for key, value in raw.items() if len(memoryview(value)) <= _MAX_VALUE_BYTES}
        return {key: msgspec.json.decode(value) for key, value in short.items()}
    except _FAILURES:
        pass
    # Python's json module writes NaN and Infinity, which are no JSON: a benchmark without a request has them.
    if len(data) > _MAX_LENIENT_BYTES or not (b"NaN" in data or b"Infinity" in data):
        return {}
    try:
        return section(json.loads(data))
    except _FAILURES:
        return {}


def _trtllm_bench(found: Mapping[str, Any], source: str) -> KpiReport | None:
    metrics: dict[str, Metric] = {}
    performance, streaming = section(found.get("performance")), section(found.get("streaming_metrics"))
    for values, names in ((performance, _PERFORMANCE), (streaming, _STREAMING)):
        for key, name in names.items():
            put(metrics, name, values.get(key))
    for values, key, name in (
        (performance, "request_latency_percentiles_ms", "e2e"),
        (streaming, "ttft_percentiles", "ttft"),
        (streaming, "tpot_percentiles", "tpot"),
    ):
        for percentile in _PERCENTILES:
            put(metrics, f"{name}_{percentile}_ms", section(values.get(key)).get(percentile))
    accepted = section(section(found.get("decoding_stats")).get("acceptance_length_percentiles"))
    put(metrics, "tokens_per_step", accepted.get("average"))
    return KpiReport("trtllm-bench", source, metrics) if metrics else None


def _serving(found: Mapping[str, Any], source: str) -> KpiReport | None:
    metrics: dict[str, Metric] = {}
    for key, name in _THROUGHPUTS.items():
        put(metrics, name, found.get(key))
    for key, value in found.items():
        if latency := _LATENCY.match(key):
            statistic, what = (
                "p50" if latency[1] == "median" else latency[1],
                latency[2].replace("e2el", "e2e"),
            )
            put(metrics, f"{what}_{statistic}_ms", value)
    put(metrics, "tokens_per_step", section(found.get("avg_decoded_tokens_per_iter")).get("mean"))
    asked, completed = number(found.get("num_prompts")), number(found.get("completed"))
    failed = []
    if asked is not None and completed is not None and completed < asked:
        what = f"{asked - completed:.0f} of {asked:.0f} requests failed; the figures are of the rest"
        failed = [Note("kpi-failed-requests", f"{source}: {what}")]
    return KpiReport("serving-benchmark", source, metrics, warnings=failed) if metrics else None


def _blocks(found: Mapping[str, Any], source: str) -> KpiReport | None:
    metrics: dict[str, Metric] = {}
    strange = []
    for key, name in _BLOCKS.items():
        block = section(found.get(key))
        scale = _BLOCK_UNITS.get(str(block.get("unit", "ms")))
        if scale is None:
            strange.append(f"{key} in {block['unit']!r:.40}")
            continue
        latency = "_" not in name
        for statistic, label in {"mean": "avg", **{one: one for one in _PERCENTILES if latency}}.items():
            value = number(block.get(label))
            put(
                metrics,
                f"{name}_{statistic}_ms" if latency else name,
                None if value is None else value * scale,
            )
    done, failed = (
        number(section(found.get(f"{one}request_count")).get("avg")) or 0 for one in ("", "error_")
    )
    notes = (
        (strange, Note("kpi-unknown-unit", f"{source}: left out, its unit is not known: {', '.join(strange)}")),
        (failed, Note("kpi-failed-requests",
         f"{source}: {failed:.0f} of {done + failed:.0f} requests failed; the figures are of the rest")),
        (found.get("was_cancelled") is True, Note("kpi-failed-requests",
         f"{source}: the benchmark was cancelled; the figures are of the requests that had ended")),
    )  # fmt: skip
    warned = [note for there, note in notes if there]
    kind: Kind = "aiperf" if "aiperf_version" in found else "genai-perf"
    return KpiReport(kind, source, metrics, warnings=warned) if metrics or strange else None


def _emulator(found: Mapping[str, Any], source: str) -> KpiReport | None:
    """Host step times of generation steps: of the profiled ones, or, in a run without the profiler, of all."""
    metrics: dict[str, Metric] = {}
    ranks = found["ranks"]
    first = section(ranks[0]) if isinstance(ranks, list) and ranks else {}
    times = section(first.get("profiled_step" if found.get("profiled") is True else "unprofiled_step"))
    for key, name in (("median_us", "generation_p50"), ("mean_us", "generation_mean")):
        value = number(times.get(key))
        put(metrics, f"host_step_time_{name}_ms", None if value is None else value / 1000)
    return KpiReport("emulator", source, metrics) if metrics else None


# One line of an iteration log -> `Line`, for each of the formats.


class Line(msgspec.Struct, frozen=True):
    """A record, and what belongs to another one or is a figure of its own.

    `earlier_device_ms` is the device time of the loop `device_lag` before.
    """

    iteration: Iteration
    earlier_device_ms: float | None = None
    device_lag: int = 1
    latency_ms: float | None = None  # of the batch; with the overlap scheduler it spans two loops
    forward_ms: float | None = None  # GPU time of the forward pass of this batch
    kv_used_pct: float | None = None  # of the KV cache's blocks
    kv_free: int | None = None  # blocks


class Format(msgspec.Struct, frozen=True):
    """A format of lines: which it claims as its own, and how to read one (None: malformed)."""

    kind: Kind
    claims: Callable[[str], bool]
    parse: Callable[[str], Line | None]


# A log line of the PyTorch backend.

_ITER = re.compile(r"(?<!\w)iter = (\d{1,15})(?=,)")
# Only from where a word begins, and never back: a line of one long word takes no square of its length.
_FIELD = re.compile(r"(?<!\w)(\w++)(?: = |: )([^,]*)")
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{0,20})?(?:e[+-]?\d{1,2})?)(ms|s)\Z")
_FRACTION = re.compile(r"0(?:\.\d{1,20})?|1(?:\.0{1,20})?")
# A release printed tensor(256) here, so the states are not always a literal.
_STATE = re.compile(r"'(num_ctx_requests|num_ctx_tokens|num_generation_tokens)': (?:tensor\()?(\d{1,12})\b")


def _claims_log_line(text: str) -> bool:
    return "iter = " in text and any(
        name in text for name in ("host_step_time", "elapsed_time", "num_scheduled_requests")
    )


def _parse_log_line(text: str) -> Line | None:
    found = _ITER.search(text)
    # Ranks that write to one pipe can cut each other's lines: two records in one line, or half of one.
    if found is None or text.count("iter = ") != 1:
        return None
    head, states_found, tail = text[found.start() :].partition("states = ")
    fields: dict[str, str] = {name: value.strip() for name, value in _FIELD.findall(head)}
    try:
        host = _milliseconds(fields.get("host_step_time", fields.get("elapsed_time", "")))
        device = _milliseconds(fields.get("prev_device_step_time", "N/A"))
        rank = _whole(fields.get("global_rank", fields.get("rank", "0")))
        scheduled = _whole(fields["num_scheduled_requests"]) if "num_scheduled_requests" in fields else None
    except ValueError:
        return None
    if not states_found or host is None:
        return None
    states = {name: int(value) for name, value in _STATE.findall(tail)}
    if scheduled == 0:
        states = dict.fromkeys(states, 0)  # nothing ran: they are still those of the iteration before
    iteration = Iteration(
        number=int(found[1]),
        rank=rank,
        scheduled_reqs=scheduled,
        ctx_reqs=states.get("num_ctx_requests"),
        gen_tokens=states.get("num_generation_tokens"),
        host_ms=host,
        ctx_tokens=states.get("num_ctx_tokens"),
    )
    used = _FRACTION.fullmatch(fields.get("kv_cache_util", ""))
    return Line(
        iteration, earlier_device_ms=device, kv_used_pct=None if used is None else 100 * float(used[0])
    )


def _kv(used: int | None, free: int | None, most: int | None) -> dict[str, Any]:
    """The blocks of the KV cache, as fields of `Line`; of more than there are, nothing."""
    if most and used is None and free is not None:
        used = most - free
    part = 100 * used / most if used is not None and most and 0 <= used <= most else None
    return {"kv_used_pct": part, "kv_free": free}


def _milliseconds(text: str) -> float | None:
    if text == "N/A":
        return None
    found = _DURATION.match(text)
    value = number(float(found[1])) if found else None
    if found is None or value is None:
        raise ValueError
    return value * 1000 if found[2] == "s" else value


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise ValueError
    return int(text)


def _parse_stats(text: str) -> Line | None:
    """Statistics of an iteration: a Python dict in a --iteration_log file, JSON in a log of the C++ runtime."""
    stats = _mapping(text)
    printed = count(stats.get("iter"))
    if printed is None:
        return None
    batch, blocks = section(stats.get("inflightBatchingStats")), section(stats.get("kvCacheStats"))
    ctx, gen = count(batch.get("numContextRequests")), count(batch.get("numGenRequests"))
    scheduled = count(batch.get("numScheduledRequests"))
    latency = number(stats.get("iterLatencyMS"))
    # The times in it are of the last loop that had ended. With the overlap scheduler a batch's record is made
    # one loop later, so that is its own; without, it is the one before, but there the latency is the loop's.
    overlap = stats.get("schedulerMode") != "non_overlap"
    iteration = Iteration(
        number=printed,
        rank=count(stats.get("rank", stats.get("attentionDpRank"))) or 0,
        scheduled_reqs=scheduled if scheduled is not None or ctx is None or gen is None else ctx + gen,
        ctx_reqs=ctx,
        gen_tokens=gen,
        host_ms=number(stats.get("hostStepTimeMS")) if overlap else latency,
        ctx_tokens=count(batch.get("numCtxTokens")),
    )
    return Line(
        iteration,
        earlier_device_ms=number(stats.get("prevDeviceStepTimeMS")),
        device_lag=1 if overlap else 2,
        latency_ms=latency,
        forward_ms=number(stats.get("gpuForwardTimeMS")),
        **_kv(*(count(blocks.get(f"{one}NumBlocks")) for one in ("used", "free", "max"))),
    )


def _mapping(text: str) -> Mapping[str, Any]:
    """Return the dict at the end of a line, in JSON or Python notation; an empty one where there is none."""
    text = text[text.find("{") :]
    try:
        if text.startswith('{"'):
            return section(msgspec.json.decode(text))
        return section(ast.literal_eval(text))
    except _NOT_PYTHON:
        return {}


FORMATS: tuple[Format, ...] = (
    Format("iteration-log", _claims_log_line, _parse_log_line),
    Format("iteration-stats", lambda text: "{" in text and "iterLatencyMS" in text, _parse_stats),
)
MARKERS = (b"iter = ", b"iterLatencyMS")
"""What a line of one of the formats holds at least: the others are skipped undecoded."""

# Logs: from their lines to the figures of a run, in one pass.

MAX_ITERATIONS = 100_000  # records kept; the figures are of all
MAX_LINE_BYTES = 256 << 10
_MAX_RANKS = 4096


def read_log(file: BinaryIO, source: str) -> KpiReport | None:
    """Return the figures of a log, None where no line of it is of a known format.

    The first line that can be read decides the format; lines of others are then not looked at.
    """
    formats = FORMATS
    malformed: Counter[str] = Counter()
    collector = _Collector()
    for text, whole in _lines(file):
        for form in formats:
            if not form.claims(text):
                continue
            line = form.parse(text) if whole else None
            if line is None:
                malformed[form.kind] += 1
            else:
                formats = (form,)
                collector.add(line)
            break
    if not collector.count:
        return None
    return collector.report(formats[0], source, malformed[formats[0].kind])


def _lines(file: BinaryIO) -> Iterator[tuple[str, bool]]:
    """Yield the lines that may be of interest and whether they are whole; longer ones are cut."""
    while raw := file.readline(MAX_LINE_BYTES):
        whole = len(raw) < MAX_LINE_BYTES or raw.endswith(b"\n")
        if any(marker in raw for marker in MARKERS):
            yield raw.decode("utf-8", "replace").strip().removeprefix("\ufeff"), whole
        while not whole and raw and not raw.endswith(b"\n"):
            raw = file.readline(MAX_LINE_BYTES)


class _Collector:
    """Takes the records of a log one by one.

    The device time that a record prints was measured in an earlier loop (`Line.device_lag`): it is left out of the figures where
    that loop had nothing to run. Where the log does not hold that record (cut, or sampled) the time still counts: dropping real
    work is the worse error.
    """

    def __init__(self) -> None:
        self.count = 0
        self._idle = 0
        self._iterations: list[Iteration] = []
        self._last: dict[int, deque[Iteration]] = {}  # rank -> its last two records
        self._values: dict[str, array[float]] = defaultdict(lambda: array("d"))

    def add(self, line: Line) -> None:
        one = line.iteration
        self._keep_device_time(line)
        if self.count < MAX_ITERATIONS:
            self._iterations.append(one)
        self.count += 1
        if len(self._last) < _MAX_RANKS or one.rank in self._last:
            self._last.setdefault(one.rank, deque(maxlen=2)).append(one)
        if one.idle:
            self._idle += 1
            return
        self._keep("kv_used", line.kv_used_pct)
        self._keep("kv_free", line.kv_free)
        self._keep("host_step_time", one.host_ms)
        if one.generation:
            self._keep("host_step_time_generation", one.host_ms)
        self._keep("iteration_latency", line.latency_ms)
        self._keep("gpu_forward_time", line.forward_ms)

    def _keep_device_time(self, line: Line) -> None:
        number = line.iteration.number - line.device_lag
        last = self._last.get(line.iteration.rank, ())
        owner = next((one for one in last if one.number == number), None)
        if owner is None or not owner.idle:
            self._keep("device_step_time", line.earlier_device_ms)
        if owner is not None and owner.generation:
            self._keep("device_step_time_generation", line.earlier_device_ms)

    def _keep(self, name: str, value: float | None) -> None:
        if value is not None:
            self._values[name].append(value)

    def report(self, form: Format, source: str, malformed: int) -> KpiReport:
        metrics: dict[str, Metric] = {}
        for name, mean, median in (
            ("host_step_time", True, True), ("host_step_time_generation", False, True),
            ("device_step_time", True, True), ("device_step_time_generation", False, True),
            ("gpu_forward_time", True, False), ("iteration_latency", True, False),
        ):  # fmt: skip
            if values := self._values.get(name):
                put(metrics, f"{name}_mean_ms", sum(values) / len(values) if mean else None)
                put(metrics, f"{name}_p50_ms", statistics.median(values) if median else None)
        timed = bool(metrics)
        if used := self._values.get("kv_used"):
            put(metrics, "kv_cache_used_max_pct", max(used))
            put(metrics, "kv_cache_used_mean_pct", sum(used) / len(used))
        if free := self._values.get("kv_free"):
            put(metrics, "kv_cache_free_min_blocks", min(free))
        kept, all_ = len(self._iterations), self.count
        notes = (
            (malformed, Note("kpi-malformed-lines", f"{source}: {malformed} iteration lines are broken")),
            (self._idle and timed, Note("kpi-idle-iterations",
             f"{source}: {self._idle} of {all_} iterations had no request and do not count")),
            (kept < all_, Note("kpi-iterations-left-out",
             f"{source}: the first {kept} of {all_} iterations are kept one by one; the figures are of all")),
            (not timed, Note("kpi-no-times", f"{source}: no iteration has both work and a time: batch sizes only")),
        )  # fmt: skip
        warned = [note for there, note in notes if there]
        return KpiReport(form.kind, source, metrics, self._iterations, warned)


# Numbers of a report.


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
    if name.startswith("kv_cache_"):
        return ("%", "lower") if name.endswith("_pct") else ("blocks", "higher")
    return "req/s" if name.endswith("_req_s") else "tok/s" if name.endswith("_tok_s") else "tok", "higher"
