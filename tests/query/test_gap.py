"""The table of gaps on a trace that a reader adds up by hand."""

from __future__ import annotations

from tests.tiny import one_gap
from tracediff.formats.inputs import resolve
from tracediff.query.tables import Tables


def test_a_gap_is_between_the_op_that_ended_last_and_the_next_one(tmp_path):
    """Device 0: first 0-100, long 300-700 with short 400-450 inside it, second 1000-1100. Process 200 has its own gaps."""
    trace = one_gap()
    trace.api(1, "cudaLaunchKernel", 120, 130, corr=3).kernel(3, 300, 700, name="long")
    trace.kernel(4, 400, 450, name="short", stream=8)  # launched by nobody
    one_gap(trace, pid=200, tid=9)
    path = trace.write(tmp_path / "trace.sqlite")
    with Tables([resolve(str(path))]) as tables:
        (answer,) = tables.run(
            "SELECT start_ns, end_ns, duration_ns, previous, next, launch_api, launch_start_ns, step FROM gap WHERE pid = 100"
        )
        (other,) = tables.run("SELECT start_ns, end_ns, previous, thread FROM gap WHERE pid = 200")
    assert answer.frame.rows() == [
        (100, 300, 200, "first", "long", "cudaLaunchKernel", 120, 0),
        (700, 1000, 300, "long", "second", "cudaLaunchKernel", 900, 1),
    ]
    assert other.frame.rows() == [(100, 1000, "first", "executor")]
