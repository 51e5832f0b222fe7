"""The result of a comparison with the sections of companions: what `tracediff compare --json` writes and every report reads.

The core fills and reads `tracediff.model.Result`, where a companion's part is some `Section`. Here the parts have their types.
"""

from __future__ import annotations

import msgspec

from tracediff import model
from tracediff.companions.bench.model import Kpi
from tracediff.companions.latencies.model import Latencies
from tracediff.companions.ncu.model import Ncu
from tracediff.companions.trtexec.model import Trtexec


class Result(model.Result, frozen=True, kw_only=True):
    """Everything a report needs."""

    kpi: Kpi | None  # where a benchmark's reports were given, or are in the bundle
    ncu: Ncu | None = None  # where files of Nsight Compute were given
    trtexec: Trtexec | None = None  # where files of trtexec were given
    latencies: Latencies | None = None  # where latencies without a profiler were given


def complete(result: model.Result) -> Result:
    """The same result with room for the sections of companions."""
    return Result(**{name: getattr(result, name) for name in result.__struct_fields__})


def decode(data: bytes) -> Result:
    """Read a result back from JSON; raises `msgspec.ValidationError` where it is not one."""
    return msgspec.json.decode(data, type=Result)
