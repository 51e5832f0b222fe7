"""Two engines compared by what trtexec measured alone: what `tracediff trtexec --json` writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model import Tool, Trtexec

TRTEXEC_VERSION = 1


class TrtexecReport(msgspec.Struct, frozen=True, kw_only=True):
    """The object of `tracediff trtexec`; `trtexec` is the same as in the result of a comparison of steps."""

    format_version: int = TRTEXEC_VERSION
    kind: Literal["trtexec"] = "trtexec"
    tool: Tool
    trtexec: Trtexec


def decode(data: bytes) -> TrtexecReport:
    """Read a report back from JSON; raises `msgspec.ValidationError` where it is not one."""
    return msgspec.json.decode(data, type=TrtexecReport)


def encode(report: TrtexecReport) -> bytes:
    """The report as JSON, keys in the order of the structs: the same report gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
