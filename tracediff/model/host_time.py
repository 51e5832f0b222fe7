"""Host time by CUDA call and by NVTX range: what captures without GPU kernels are compared by."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import ABSENT, Evidence


class HostSide(msgspec.Struct, frozen=True):
    """One side of a row: calls, or ranges, and their time, of a step or of a capture (`HostTime.per`)."""

    count: float
    ns: float
    mean_ns: float  # of one call or range


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A CUDA function on all threads, or an NVTX range (numbers masked) on a thread role; children included.

    ci_low_ns, ci_high_ns: of delta_ns, over runs; None with one run on a side. mean_ci_*: of the change of one call, over runs, or with
    one run on a side over its calls, where nothing says how much runs differ. level: never surer than likely, and within_noise
    with one run on a side.
    """

    kind: Literal["call", "range"]
    name: str
    domain: str = ""
    thread: str = ""
    baseline: HostSide | None
    candidate: HostSide | None = ABSENT
    delta_ns: float = ABSENT
    ci_low_ns: float | None = None
    ci_high_ns: float | None = None
    mean_delta_ns: float | None = ABSENT  # None: on one side only
    mean_ci_low_ns: float | None = None
    mean_ci_high_ns: float | None = None
    level: Evidence = ABSENT


class HostTime(msgspec.Struct, frozen=True):
    """All rows, the largest change first (of one side the longest). Steps: all whole ones, whatever their workload."""

    per: Literal["step", "capture"]
    rows: list[HostRow]
