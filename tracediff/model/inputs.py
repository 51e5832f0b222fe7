"""What was compared: the files of both sides, and the options that change numbers."""

from __future__ import annotations

from typing import Any

import msgspec


class RunInput(msgspec.Struct, frozen=True):
    """One capture of a side. `name` is the file's base name: no directory of the machine enters a result."""

    name: str
    fingerprint: str  # of the file's content, see load/unpack.py
    bytes: int
    duration_ns: int
    ranks: int
    steps: int  # whole steps, before strata
    step_source: (
        str  # tensorrt-llm | vllm | ... | step-regex:... | inferred (confidence 0.93) | whole-capture
    )


class LeftOut(msgspec.Struct, frozen=True):
    """An export of a side that was left out: it could not be read, and the comparison was to go on without it."""

    name: str
    slug: str  # docs/messages.md
    message: str


class SideInput(msgspec.Struct, frozen=True):
    """One side: its label and its runs."""

    label: str
    runs: list[RunInput]
    left_out: list[LeftOut] = []


class Inputs(msgspec.Struct, frozen=True):
    """Both sides' inputs and the options that change numbers."""

    baseline: SideInput
    candidate: SideInput
    options: dict[str, Any] = {}
