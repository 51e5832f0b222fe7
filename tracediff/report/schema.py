"""The JSON Schema of the result of a comparison and of the other reports, generated from their structs."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tracediff.model import FORMAT_VERSION, Result
from tracediff.model.latencies import LATENCIES_VERSION, LatencyReport
from tracediff.model.ncu import NCU_VERSION, NcuReport
from tracediff.model.show import SHOW_VERSION, Show
from tracediff.model.trtexec import TRTEXEC_VERSION, TrtexecReport


def build_schema() -> dict[str, Any]:
    """Return the schema (2020-12); unknown keys are allowed, for a later version may add some."""
    (result, show, ncu, trtexec, latencies), structs = msgspec.json.schema_components(
        [Result, Show, NcuReport, TrtexecReport, LatencyReport], ref_template="#/$defs/{name}"
    )
    structs["Result"]["properties"]["format_version"] = {"const": FORMAT_VERSION}
    structs["Show"]["properties"]["format_version"] = {"const": SHOW_VERSION}
    structs["Show"]["properties"]["kind"] = {"const": "show"}
    structs["NcuReport"]["properties"]["format_version"] = {"const": NCU_VERSION}
    structs["NcuReport"]["properties"]["kind"] = {"const": "ncu"}
    structs["TrtexecReport"]["properties"]["format_version"] = {"const": TRTEXEC_VERSION}
    structs["TrtexecReport"]["properties"]["kind"] = {"const": "trtexec"}
    structs["LatencyReport"]["properties"]["format_version"] = {"const": LATENCIES_VERSION}
    structs["LatencyReport"]["properties"]["kind"] = {"const": "latencies"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracediff result, format_version {FORMAT_VERSION}; of one capture, {SHOW_VERSION}; of counters, {NCU_VERSION};"
        f" of trtexec, {TRTEXEC_VERSION}; of latencies, {LATENCIES_VERSION}",
        "if": {"properties": {"kind": {"const": "show"}}, "required": ["kind"]},
        "then": show,
        "else": {
            "if": {"properties": {"kind": {"const": "ncu"}}, "required": ["kind"]},
            "then": ncu,
            "else": {
                "if": {"properties": {"kind": {"const": "trtexec"}}, "required": ["kind"]},
                "then": trtexec,
                "else": {
                    "if": {"properties": {"kind": {"const": "latencies"}}, "required": ["kind"]},
                    "then": latencies,
                    "else": result,
                },
            },
        },
        "$defs": dict(sorted(structs.items())),
    }


def render_schema() -> bytes:
    """Return the schema as text."""
    return json.dumps(build_schema(), indent=1, ensure_ascii=False).encode() + b"\n"
