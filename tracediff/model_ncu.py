"""Kernels compared by their hardware counters alone: what `tracediff ncu --json` writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model import Ncu, Tool

NCU_VERSION = 1


class NcuReport(msgspec.Struct, frozen=True, kw_only=True):
    """The object of `tracediff ncu`; `ncu` is the same as in the result of a comparison of steps."""

    format_version: int = NCU_VERSION
    kind: Literal["ncu"] = "ncu"
    tool: Tool
    ncu: Ncu


def decode(data: bytes) -> NcuReport:
    """Read a report back from JSON; raises `msgspec.ValidationError` where it is not one."""
    return msgspec.json.decode(data, type=NcuReport)


def encode(report: NcuReport) -> bytes:
    """The report as JSON, keys in the order of the structs: the same report gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
