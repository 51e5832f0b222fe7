"""Tables of companions as data: each path of their columns.txt leads to a field of the rows, or to a value of their module."""

from __future__ import annotations

import pytest

from tests.report.test_blocks import leads
from tracediff.companions import model
from tracediff.companions.bench import render as bench
from tracediff.companions.latencies import render as latencies
from tracediff.companions.ncu import render as ncu
from tracediff.companions.render import LISTED
from tracediff.companions.trtexec import render as trtexec
from tracediff.model import Check

ROWS = {
    "benchmark figures": (model.KpiRow, bench.VALUES),
    "latencies": (model.LatencyRow, latencies.VALUES),
    "checks of latencies": (Check, {}),
    "runs of latencies": (latencies.Run, latencies.VALUES),
    "ncu": (model.NcuRow, ncu.VALUES),
    "ncu figures": (ncu.Figure, ncu.VALUES),
    "trtexec": (trtexec.Figure, trtexec.VALUES),
    "trtexec layers": (model.TrtexecRow, trtexec.VALUES),
    "trtexec changes": (trtexec.Changed, trtexec.VALUES),
    "trtexec groups": (model.TrtexecGroup, trtexec.VALUES),
}


def test_every_table_is_known_here() -> None:
    assert list(ROWS) == list(LISTED)


@pytest.mark.parametrize("name", ROWS)
def test_every_path_leads_to_a_field(name: str) -> None:
    row, known = ROWS[name]
    paths = [part for column in LISTED[name].columns for path in column.paths for part in path.split("..")]
    assert paths
    for path in paths:
        assert path[1:] in known if path.startswith("=") else leads([row], path), path
