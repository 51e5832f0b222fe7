"""Words and small structs that several sections use."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal[
    "improved",
    "regressed",
    "likely_improved",
    "likely_regressed",
    "no_change",
    "inconclusive",
    "not_comparable",
]

# How far a delta can be believed. `exact`: a counted quantity, no test needed. `confirmed`: run-level test and
# CI agree after correction. `likely`: beyond the noise known or assumed, too few runs to confirm.
# `within_noise`: not to be told from run-to-run noise.
Evidence = Literal["exact", "confirmed", "likely", "within_noise"]

Captured = Literal["captured", "not_captured"]

Outcome = Literal["passed", "failed", "inconclusive", "waived"]

Severity = Literal["error", "warning"]

Cause = Literal[
    "kernel_time", "kernel_fused", "kernel_split", "kernel_added", "kernel_removed", "comm", "memcpy",
    "launch_api", "launch_latency", "dependency", "graph_internal", "host_sync", "host_api", "gc", "gil_wait",
    "host_work", "unattributed", "batch_mix",
]  # fmt: skip


class Tool(msgspec.Struct, frozen=True):
    """What made the result."""

    name: str
    version: str


class Note(msgspec.Struct, frozen=True):
    """A warning carried as data; its slug is explained in docs/messages.md."""

    slug: str
    message: str


class Pair(msgspec.Struct, frozen=True):
    """A count on both sides."""

    baseline: int
    candidate: int


def encode(report: msgspec.Struct) -> bytes:
    """A report as JSON, keys in the order of the structs: the same report gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
