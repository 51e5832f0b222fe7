"""What a file is and what is in it: what `tracediff inputs --json` writes.

Every field is taken from an allow-list: nothing of environment, host, user or command line can be in it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model import Note, Tool

INPUTS_VERSION = 1


class Problem(msgspec.Struct, frozen=True):
    """Why a file cannot be read. `slug`: docs/messages.md."""

    slug: str
    message: str
    fix: str | None = None


class Table(msgspec.Struct, frozen=True):
    """A table of an export and its rows; -1 where they are not counted."""

    name: str
    rows: int


class Trace(msgspec.Struct, frozen=True):
    """A kind of trace: how many of it there are, and where there are none, what would record it."""

    name: str
    captured: bool
    count: int
    unit: str
    flag: str


class Device(msgspec.Struct, frozen=True):
    """A GPU with work in the capture; `model` is '' where the capture does not say."""

    device: int
    model: str


class Domain(msgspec.Struct, frozen=True):
    """An NVTX domain and its ranges; the name of the default domain is ''."""

    name: str
    ranges: int


class Steps(msgspec.Struct, frozen=True):
    """Step labels: by which rule (docs/method.md), how many on the thread that has most of them, of how many processes."""

    rule: str
    labels: int
    processes: int
    phases: bool


class Answer(msgspec.Struct, frozen=True):
    """What a comparison could say of it, or why not."""

    question: str
    yes: bool
    reason: str


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What is in an export of nsys or a trace of torch.profiler. Times in ns from the start of the session."""

    recorder: str
    recorder_version: str
    schema_version: str
    driver_version: str
    start_ns: int | None
    end_ns: int | None
    devices: list[Device]
    processes: int
    traces: list[Trace]
    domains: list[Domain]
    graph_mode: str
    steps: Steps | None
    tables: list[Table]
    answers: list[Answer]


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One file or folder.

    `facts`: short words on kinds that hold no trace; `members`: what a folder holds; `warnings`: how a folder was read, what an export lost;
    `next`: commands, with the path as it was given.
    """

    name: str
    kind: str
    title: str
    bytes: int
    known: bool
    facts: list[str] = []
    contents: Contents | None = None
    members: list[Input] = []
    warnings: list[Note] = []
    problem: Problem | None = None
    next: str = ""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The object of `tracediff inputs --json`."""

    format_version: int = INPUTS_VERSION
    kind: Literal["inputs"] = "inputs"
    tool: Tool
    inputs: list[Input]
