"""The JSON Schema of the result, generated from its structs."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tracediff.model import FORMAT_VERSION, Result


def build_schema() -> dict[str, Any]:
    """Return the schema (2020-12); unknown keys are allowed, for a later version may add some."""
    schema = msgspec.json.schema(Result)
    schema["$defs"]["Result"]["properties"]["format_version"] = {"const": FORMAT_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracediff result, format_version {FORMAT_VERSION}",
        **schema,
    }


def render_schema() -> bytes:
    """Return the schema as text."""
    return json.dumps(build_schema(), indent=1, ensure_ascii=False).encode() + b"\n"
