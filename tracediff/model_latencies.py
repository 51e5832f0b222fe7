"""Latencies compared by themselves: what `tracediff latencies --json` writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model import Latencies, Tool

LATENCIES_VERSION = 1


class LatencyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The object of `tracediff latencies`; `latencies` is the same as in the result of a comparison of steps."""

    format_version: int = LATENCIES_VERSION
    kind: Literal["latencies"] = "latencies"
    tool: Tool
    latencies: Latencies


def decode(data: bytes) -> LatencyReport:
    """Read a report back from JSON; raises `msgspec.ValidationError` where it is not one."""
    return msgspec.json.decode(data, type=LatencyReport)


def encode(report: LatencyReport) -> bytes:
    """The report as JSON, keys in the order of the structs: the same report gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
