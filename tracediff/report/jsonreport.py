"""The result as JSON."""

from __future__ import annotations

from tracediff.model import Result, encode


def render_json(result: Result) -> bytes:
    """Return the result as JSON: the same result gives the same bytes."""
    return encode(result)
