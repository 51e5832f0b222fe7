"""JSON reports: trtllm-bench, the serving benchmark, and the emulator of `tracediff.capture.workloads`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from tracediff.load.kpi_report import KpiReport, Metric, number, put, section
from tracediff.model import Note

MAX_VALUE_BYTES = 64 << 20  # a longer list of single requests' values is not looked at
_MAX_LENIENT_BYTES = 64 << 20  # the slower reader, which takes NaN
_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)
_Get = Callable[[str], Any]

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
_LISTS = {"ttfts": "ttft", "itls": "itl", "e2els": "e2e"}  # of single requests, in seconds


def read_json(data: bytes, source: str) -> KpiReport | None:
    """Return the report in a JSON file's content, None where it is none of these."""
    parsed = _top_level(data)
    if parsed is None:
        return None
    keys, get = parsed
    if "performance" in keys:
        return _trtllm_bench(get, source)
    if "request_throughput" in keys or any(_LATENCY.match(key) for key in keys):
        return _serving(keys, get, source)
    if "emulator" in keys and "ranks" in keys:
        return _emulator(get, source)
    return None


def _top_level(data: bytes) -> tuple[list[str], _Get] | None:
    """Return the keys of an object and a function that decodes the value of one when asked.

    Lists of single requests, which make up nearly all of a detailed report, stay undecoded.
    """
    try:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        return list(raw), lambda key: _decoded(raw.get(key))
    except _FAILURES:
        pass
    # Python's json module writes NaN and Infinity, which are no JSON: a benchmark without a request has them.
    if len(data) > _MAX_LENIENT_BYTES or not (b"NaN" in data or b"Infinity" in data):
        return None
    try:
        whole = json.loads(data)
    except _FAILURES:
        return None
    return (list(whole), whole.get) if isinstance(whole, dict) else None


def _decoded(raw: msgspec.Raw | None) -> Any:
    if raw is None or len(memoryview(raw)) > MAX_VALUE_BYTES:
        return None
    try:
        return msgspec.json.decode(raw)
    except _FAILURES:
        return None


def _trtllm_bench(get: _Get, source: str) -> KpiReport | None:
    metrics: dict[str, Metric] = {}
    performance, streaming = section(get("performance")), section(get("streaming_metrics"))
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
    accepted = section(section(get("decoding_stats")).get("acceptance_length_percentiles"))
    put(metrics, "tokens_per_step", accepted.get("average"))
    return KpiReport("trtllm-bench", source, metrics) if metrics else None


def _serving(keys: list[str], get: _Get, source: str) -> KpiReport | None:
    metrics: dict[str, Metric] = {}
    for key, name in _THROUGHPUTS.items():
        put(metrics, name, get(key))
    for key in keys:
        found = _LATENCY.match(key)
        if found:
            statistic = {"median": "p50"}.get(found[1], found[1])
            put(metrics, f"{'e2e' if found[2] == 'e2el' else found[2]}_{statistic}_ms", get(key))
    put(metrics, "tokens_per_step", section(get("avg_decoded_tokens_per_iter")).get("mean"))
    for key, name in _LISTS.items():
        if key in keys and f"{name}_mean_ms" not in metrics:
            _from_list(metrics, name, get(key), get("errors"))
    return KpiReport("serving-benchmark", source, metrics, warnings=_failed(get, source)) if metrics else None


def _from_list(metrics: dict[str, Metric], name: str, values: Any, errors: Any) -> None:
    """Add mean and percentiles of a latency that the report has only request by request."""
    if not isinstance(values, list):
        return
    if isinstance(errors, list) and len(errors) == len(values):
        values = [value for value, error in zip(values, errors, strict=True) if not error]
    flat: Iterable[Any] = chain.from_iterable(row if isinstance(row, list) else (row,) for row in values)
    checked = (number(value) for value in flat)
    seconds = np.fromiter((value for value in checked if value is not None), dtype=np.float64)
    if not len(seconds):
        return
    put(metrics, f"{name}_mean_ms", 1000 * float(np.mean(seconds)))
    for percentile in (50, 90, 95, 99):
        put(metrics, f"{name}_p{percentile}_ms", 1000 * float(np.percentile(seconds, percentile)))


def _failed(get: _Get, source: str) -> list[Note]:
    asked, completed = number(get("num_prompts")), number(get("completed"))
    if asked is None or completed is None or completed >= asked:
        return []
    return [
        Note(
            "kpi-failed-requests",
            f"{source}: {asked - completed:.0f} of {asked:.0f} requests failed; the figures are of the rest",
        )
    ]


def _emulator(get: _Get, source: str) -> KpiReport | None:
    """Host step times of generation steps: of the profiled ones, or, in a run without the profiler, of all."""
    metrics: dict[str, Metric] = {}
    ranks = get("ranks")
    first = section(ranks[0]) if isinstance(ranks, list) and ranks else {}
    times = section(first.get("profiled_step" if get("profiled") is True else "unprofiled_step"))
    for key, name in (("median_us", "generation_p50"), ("mean_us", "generation_mean")):
        value = number(times.get(key))
        put(metrics, f"host_step_time_{name}_ms", None if value is None else value / 1000)
    return KpiReport("emulator", source, metrics) if metrics else None
