"""Whether the sides can be compared, and which traces each holds."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Captured


class Check(msgspec.Struct, frozen=True):
    """One comparability check with both values."""

    name: str
    status: Literal["ok", "warn", "fail"]
    baseline: str
    candidate: str
    message: str


class Comparability(msgspec.Struct, frozen=True):
    """Whether the two sides can be compared at all; any `fail` says no unless forced."""

    comparable: bool
    checks: list[Check]


class Coverage(msgspec.Struct, frozen=True):
    """Which kinds of trace each side holds."""

    baseline: dict[str, Captured]
    candidate: dict[str, Captured]
