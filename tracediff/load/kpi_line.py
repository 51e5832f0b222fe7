"""One line of an iteration log -> `Line`, for each of the formats.

PyTorch backend, log line (fields in this or the older order, `elapsed_time` in seconds in the oldest):
    iter = 7, global_rank = 0, rank = 0, num_scheduled_requests = 8, kv_cache_util = 0.125,
    currank_total_requests = 0/0, host_step_time = 9.8ms, prev_device_step_time = 9.5ms, timestamp = ...,
    states = {'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 8}
    iter = 7, ..., prev_device_step_time = 9.5ms, timestamp = ..., num_scheduled_requests: 8, states = {...}
`prev_device_step_time` comes from the pair of CUDA events of the loop before: reading those never waits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tracediff.load.kpi_report import Iteration, Kind, count, number, section

_FAILURES = (msgspec.MsgspecError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


@dataclass(frozen=True, slots=True)
class Line:
    """A record, and what belongs to another one or is a figure of its own.

    `earlier_device_ms` is the device time of the loop `device_lag` before.
    """

    iteration: Iteration
    earlier_device_ms: float | None = None
    device_lag: int = 1
    latency_ms: float | None = None  # of the batch; with the overlap scheduler it spans two loops
    forward_ms: float | None = None  # GPU time of the forward pass of this batch


@dataclass(frozen=True, slots=True)
class Format:
    """A format of lines: which it claims as its own, and how to read one (None: malformed)."""

    kind: Kind
    claims: Callable[[str], bool]
    parse: Callable[[str], Line | None]


# PyTorch backend, log line

_ITER = re.compile(r"(?<!\w)iter = (\d{1,15})(?=,)")
_FIELD = re.compile(r"(\w+)(?: = |: )([^,]*)")
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{0,20})?(?:e[+-]?\d{1,2})?)(ms|s)\Z")
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
        ctx_tokens=states.get("num_ctx_tokens"),
        gen_tokens=states.get("num_generation_tokens"),
        host_ms=host,
    )
    return Line(iteration, earlier_device_ms=device)


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


# Statistics of an iteration: a Python dict in a --iteration_log file, JSON in a log of the C++ runtime


def _claims_stats(text: str) -> bool:
    return "{" in text and "iterLatencyMS" in text


def _parse_stats(text: str) -> Line | None:
    stats = _mapping(text)
    printed = count(stats.get("iter"))
    if printed is None:
        return None
    batch = section(stats.get("inflightBatchingStats"))
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
        ctx_tokens=count(batch.get("numCtxTokens")),
        gen_tokens=gen,
        host_ms=number(stats.get("hostStepTimeMS")) if overlap else latency,
    )
    return Line(
        iteration,
        earlier_device_ms=number(stats.get("prevDeviceStepTimeMS")),
        device_lag=1 if overlap else 2,
        latency_ms=latency,
        forward_ms=number(stats.get("gpuForwardTimeMS")),
    )


# C++ runtime of 2023 and 2024 (gptManagerBenchmark --log_iteration_data, Triton backend)


def _claims_cpp(text: str) -> bool:
    return '"Active Request Count"' in text


def _parse_cpp(text: str) -> Line | None:
    stats = _mapping(text)
    printed = count(stats.get("Iteration Counter"))
    if printed is None:
        return None
    return Line(
        Iteration(
            number=printed,
            scheduled_reqs=count(stats.get("Scheduled Requests")),
            ctx_reqs=count(stats.get("Context Requests")),
            ctx_tokens=count(stats.get("Total Context Tokens")),
            gen_tokens=count(stats.get("Generation Requests")),
        )
    )


def _mapping(text: str) -> Mapping[str, Any]:
    """Return the dict at the end of a line, in JSON or Python notation; an empty one where there is none."""
    text = text[text.find("{") :]
    try:
        if text.startswith('{"'):
            return section(msgspec.json.decode(text))
        return section(ast.literal_eval(text))
    except _FAILURES:
        return {}


FORMATS: tuple[Format, ...] = (
    Format("iteration-log", _claims_log_line, _parse_log_line),
    Format("iteration-stats", _claims_stats, _parse_stats),
    Format("cpp-iteration-log", _claims_cpp, _parse_cpp),
)
MARKERS = (b"iter = ", b"iterLatencyMS", b'"Active Request Count"')
"""What a line of one of the formats holds at least: the others are skipped undecoded."""
