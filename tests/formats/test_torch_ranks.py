"""Traces of torch.profiler of two ranks, a file each: the second one made from the first, a tenth slower and on another clock."""

from __future__ import annotations

import gzip
import json
import re
from decimal import Decimal

import pytest
from msgspec.structs import replace

from tests.comparing import compare, show
from tests.tiny import FIXTURES
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve
from tracediff.formats.selection import Selection

TRACE = FIXTURES / "torch" / "loop_a.json.gz"


def rank(number: int, tenths: int) -> bytes:
    """The trace as of another rank: process, device and clock are others, and all of it takes tenths / 10 of the time."""
    text = gzip.decompress(TRACE.read_bytes()).decode()
    begin = min(Decimal(one) for one in re.findall(r'"ts":([\d.]+)', text))

    def longer(value: str, origin: Decimal) -> str:
        return str((origin + (Decimal(value) - origin) * tenths / 10).quantize(Decimal("0.001")))

    text = re.sub(
        r'"ts":([\d.]+)', lambda found: f'"ts":{Decimal(longer(found[1], begin)) + 10**9 * number}', text
    )
    text = re.sub(r'"dur":([\d.]+)', lambda found: f'"dur":{longer(found[1], Decimal(0))}', text)
    text = text.replace('"pid":1106', f'"pid":{1106 + 1101 * number}').replace(
        '"device":0', f'"device":{number}'
    )
    head = json.dumps({"rank": number, "world_size": 2, "backend": "nccl"})
    return gzip.compress(text.replace("{", f'{{"distributedInfo":{head},', 1).encode())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    # names as TensorBoard's handler gives them: in their order rank 1 comes first
    (tmp_path / "run" / "node_0100.1790857026.pt.trace.json.gz").write_bytes(rank(1, 11))
    (tmp_path / "run" / "node_0200.1790857026.pt.trace.json.gz").write_bytes(rank(0, 10))
    return tmp_path / "run"


def test_each_rank_has_its_own_steps(folder):
    (both,) = reduce_sides([resolve(str(folder))], Reading(threads=1))
    (run,) = both.runs
    assert [part.name for part in run.parts] == [
        f"run/node_0{name}00.1790857026.pt.trace.json.gz" for name in (2, 1)
    ]
    assert run.firsts() == (0, 1)
    one, other = (part.periods for part in run.parts)
    assert one["number"].to_list() == other["number"].to_list() and len(one) >= 5  # ProfilerStep#N
    for first, second in zip(one.iter_rows(named=True), other.iter_rows(named=True), strict=True):
        # both bounds are rounded to a ns where the trace is written anew
        assert second["end_ns"] - second["start_ns"] == pytest.approx(
            1.1 * (first["end_ns"] - first["start_ns"]), abs=2
        )
    plain = reduce_sides([resolve(str(TRACE))], Reading(threads=1))[0].parts[0].periods
    assert one.select("start_ns", "end_ns", "compute").equals(plain.select("start_ns", "end_ns", "compute"))


@pytest.mark.slow
def test_the_table_of_ranks_and_a_rank_alone(folder):
    whole = resolve(str(folder))
    alone = replace(whole, only=Selection(ranks=((1, 1),)))
    (both, second) = (reduce_sides([one], Reading(threads=1))[0] for one in (whole, alone))
    rows = show(both).ranks
    assert [row.rank for row in rows] == [0, 1]
    assert rows[1].baseline_ns == pytest.approx(1.1 * rows[0].baseline_ns, rel=1e-5)
    assert [row.baseline_last for row in rows] == [
        0,
        1,
    ]  # nothing is communicated: the longer step is the later one
    assert rows[1].baseline_behind_ns == pytest.approx(
        (rows[1].baseline_ns - rows[0].baseline_ns) / 2, rel=1e-3
    )  # the median is between the two
    (row,) = show(second).ranks
    assert (row.rank, row.baseline_ns) == (1, pytest.approx(rows[1].baseline_ns))
    assert "ranks-left-out" in {note.slug for note in show(second).warnings}
    result = compare(both, both)
    assert result.inputs.baseline.runs[0].ranks == 2
    # a tenth of its largest kernel, some 20 us, is less than a thousandth of a step of 5 ms
    assert result.kernel_ranks == [] and result.kernel_ranks_left_out == 0
