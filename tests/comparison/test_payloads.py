"""Numbers that NVTX ranges carry, and bytes of NCCL's calls, on traces whose numbers a reader works out and on recorded programs."""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from io import StringIO

import polars as pl
import pytest
from rich.console import Console

from fixtures.builders import TraceBuilder
from tests.comparing import compare, show
from tests.serving import US, serving
from tests.tiny import FIXTURES, one_gap, reduced
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.report.html import render_html
from tracediff.report.show import render_show_html, render_show_markdown, render_show_terminal
from tracediff.report.terminal import render_terminal

SIZE = "Message size [bytes]"
COLUMNS = ("thread", "place", "count", "sum", "low", "high")


def rows(reduction) -> list[tuple]:
    values = pl.col("count", "sum").sum(), pl.col("low").min(), pl.col("high").max()
    return reduction.payloads.group_by(COLUMNS[:2], maintain_order=True).agg(values).rows()


def test_each_column_is_read(tmp_path):
    cases = [
        ("int64Value", -3, -3.0),
        ("uint64Value", -1, 2.0**64),  # 2^64 - 1, as SQLite holds it; the nearest double
        ("uint32Value", 4_294_967_295, 4_294_967_295.0),
        ("int32Value", -7, -7.0),
        ("doubleValue", 0.25, 0.25),
        ("floatValue", 1.5, 1.5),
        ("int64Value", 0, 0.0),  # zero is a value, not a lack of one
    ]
    trace = one_gap()
    for at, (column, value, _) in enumerate(cases):
        trace.range(1, "abcdefg"[at], 200 + 20 * at, 210 + 20 * at, payload={column: value})
    # what cannot be summed is passed over
    for at, value in enumerate([float("inf"), -float("inf"), 1e300]):
        trace.range(1, "odd", 400 + 20 * at, 410 + 20 * at, payload={"doubleValue": value})
    assert sorted(rows(reduced(trace, tmp_path))) == [
        ("executor", "abcdefg"[at], 1, *[expected] * 3) for at, (*_, expected) in enumerate(cases)
    ]


def test_the_number_of_a_domain_is_the_gil_trace_in_another_process_alone(tmp_path):
    trace = one_gap().range(1, "x", 200, 210, payload={"int64Value": 5})
    path = trace.process(77).gil(771, "wait", 200, 210).write(tmp_path / "domains.sqlite")
    with closing(sqlite3.connect(path)) as db:
        sql = "SELECT DISTINCT domainId FROM NVTX_EVENTS WHERE eventType = 59 AND (globalTid >> 24 & 16777215) = ?"
        assert db.execute(sql, (100,)).fetchall() == db.execute(sql, (77,)).fetchall()
    assert rows(reduce_file(path, Reading())) == [("executor", "x", 1, 5.0, 5.0, 5.0)]


def test_counts_and_bounds_by_range_within_the_steps(tmp_path):
    """The step's window on the host runs from -200 to 850, where another range begins; one carries nothing."""
    trace = one_gap().range(1, "x", 300, 310)
    for start, value in ((200, 4), (400, 10), (600, 1), (850, 1000)):
        trace.range(1, "x", start, start + 10, payload={"int64Value": value})
    assert rows(reduced(trace, tmp_path)) == [("executor", "x", 3, 15.0, 1.0, 10.0)]


def test_values_of_another_type_cost_the_payloads_and_nothing_else(tmp_path):
    trace = one_gap().range(1, "x", 200, 210, payload={"int64Value": "a number"})
    reduction = reduced(trace, tmp_path)
    assert "payloads-unreadable" in {note.slug for note in reduction.warnings} and rows(reduction) == []
    assert reduction.periods.equals(reduced(one_gap().range(1, "x", 200, 210), tmp_path).periods)


def said(reduction) -> list[tuple]:
    return reduction.comm_calls.select("call", "count", "sized", "bytes").rows()


def nccl(trace: TraceBuilder, start: int, payload: dict | None) -> TraceBuilder:
    return trace.range(1, "ncclAllReduce", start, start + 10, domain="NCCL", payload=payload)


def test_bytes_of_nccl_from_json(tmp_path):
    """As NCCL's schema of an all-reduce names the entries; the text may be in the row or be a registered string."""
    text = f'{{"NCCL communicator ID": 9105882389443550251, "{SIZE}": 2097152, "Reduction operation": 0}}'
    trace = nccl(nccl(one_gap(), 200, {"jsonText": text}), 300, {"jsonText": f'{{"{SIZE}": "100"}}'})
    assert said(reduced(nccl(trace, 400, None), tmp_path)) == [("ncclAllReduce", 3, 2, 2097252)]


def test_json_that_says_no_size_is_not_zero(tmp_path):
    texts = [
        "",
        "{",
        "[]",
        "null",
        "{}",
        f'{{"{SIZE}": -1}}',
        f'{{"{SIZE}": 1e30}}',
        f'{{"{SIZE}": [1]}}',
        "\\" * 999,
    ]
    trace = one_gap()
    for at, text in enumerate(texts):
        nccl(trace, 200 + 20 * at, {"jsonText": text})
    assert said(reduced(trace, tmp_path)) == [("ncclAllReduce", 9, 0, 0)]


def test_json_of_another_domain_is_not_nccl(tmp_path):
    trace = nccl(one_gap(), 200, None)
    trace.range(1, "ncclAllReduce", 200, 210, domain="mine", payload={"jsonText": f'{{"{SIZE}": 5}}'})
    assert said(reduced(trace, tmp_path)) == [("ncclAllReduce", 1, 0, 0)]


def stepping(batch: int, size: int | None) -> TraceBuilder:
    """serving(); each step has two ranges `forward` of `batch` and batch + 2, and two calls of NCCL."""
    trace = serving(schedule_us=100)
    step = int((100 + 5 + 2 + 3 * 200) * US)
    for number in range(13):
        for call in range(2):
            begin = number * step + int((10 + 20 * call) * US)
            trace.range(1, "forward", begin, begin + 5000, payload={"int64Value": batch + 2 * call})
            payload: dict = {} if size is None else {"jsonText": f'{{"{SIZE}": {size}}}'}
            trace.range(1, "ncclAllReduce", begin + 6000, begin + 7000, domain="NCCL", payload=payload)
    return trace


def side(name: str, trace: TraceBuilder, folder) -> Side:
    (folder / name).mkdir(exist_ok=True)
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def terminal(render, report) -> str:
    console = Console(file=StringIO(), width=140, record=True)
    render(report, console)
    return console.export_text()


def test_both_sides_in_every_report(tmp_path):
    result = compare(side("a", stepping(32, 1000), tmp_path), side("b", stepping(64, 3000), tmp_path))
    (row,) = result.system.payloads
    assert (row.range, row.thread, row.delta_mean) == ("forward", "executor", 32)
    assert (row.baseline.mean, row.baseline.min, row.baseline.max) == (33, 32, 34)
    assert (row.candidate.count_per_step, row.candidate.sum_per_step, row.candidate.mean) == pytest.approx(
        (2, 130, 65)
    )
    (call,) = result.system.comm_calls
    assert (call.baseline_bytes, call.candidate_bytes) == pytest.approx((2000, 6000))
    assert (call.baseline_bytes_per_call, call.candidate_bytes_per_call) == pytest.approx((1000, 3000))
    text = terminal(render_terminal, result)
    (line,) = [one for one in text.splitlines() if one.startswith("  forward ")]
    assert " ".join(line.split()) == "forward executor 33 -> 65 +32 32 -> 64 34 -> 66 66 -> 130 2"
    assert "2.0 kB -> 6.0 kB" in text and "1.0 kB -> 3.0 kB" in text and "--include-json" not in text
    assert 'data-name="payloads"' in render_html(result)


def test_missing_bytes_and_payloads_are_said_and_never_zero(tmp_path):
    plain = serving(schedule_us=100)
    result = compare(side("a", plain, tmp_path), side("b", stepping(64, None), tmp_path))
    (row,) = result.system.payloads
    assert row.baseline is None and row.delta_mean is None
    (call,) = result.system.comm_calls
    assert (call.baseline_bytes, call.candidate_bytes) == (None, None)
    for text in (terminal(render_terminal, result), render_html(result)):
        assert "nsys export --include-json=true" in " ".join(text.split())
    (line,) = [one for one in terminal(render_terminal, result).splitlines() if one.startswith("  forward ")]
    assert " ".join(line.split()) == "forward executor - -> 65 - -> 64 - -> 66 - -> 130 - -> 2"


def test_one_side_shows_them(tmp_path):
    report = show(side("a", stepping(32, 1000), tmp_path))
    (row,) = report.system.payloads
    assert (row.range, row.baseline.mean, row.baseline.sum_per_step) == ("forward", 33, pytest.approx(66))
    lines = [" ".join(one.split()) for one in terminal(render_show_terminal, report).splitlines()]
    assert "forward executor 33 32 34 66 2" in lines
    markdown = render_show_markdown(report)
    assert (
        "| `forward` | executor | 33 | 32 | 34 | 66 | 2 |" in markdown and "| 2.0 kB | 1.0 kB |" in markdown
    )
    assert 'data-name="payloads"' in render_show_html(report)


# Recorded on an H200: fixtures/system/README.md


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    found = {}
    for name in ("gpu_plain", "gpu_sleep"):
        path = tmp_path_factory.mktemp("payloads") / f"{name}.sqlite"
        path.write_bytes(lzma.decompress((FIXTURES / f"system/{name}.sqlite.xz").read_bytes()))
        found[name] = reduce_file(path, Reading(threads=1)), path
    return found


@pytest.mark.parametrize("name", ["gpu_plain", "gpu_sleep"])
def test_recorded_numbers_are_those_of_the_export(recorded, name):
    reduction, path = recorded[name]
    with sqlite3.connect(path) as db:
        starts = [row[0] for row in db.execute(
            "SELECT n.start FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
            " WHERE coalesce(n.text, s.value) LIKE '%_forward_step%' ORDER BY 1")]  # fmt: skip
        wanted: dict = {}
        for start, value, text in db.execute(
            "SELECT n.start, n.int64Value, coalesce(n.text, s.value) FROM NVTX_EVENTS n"
            " LEFT JOIN StringIds s ON s.id = n.textId WHERE n.int64Value IS NOT NULL"
        ):
            if starts[0] <= start < starts[-1]:
                count, total = wanted.get(text, (0, 0))
                wanted[text] = (count + 1, total + value)
    assert {row[1]: row[2:4] for row in rows(reduction)} == wanted
    assert wanted["forward"] == ((99, 99 * 32) if name == "gpu_plain" else (99, 99 * 332))


def test_the_planted_sleep_on_a_gpu_machine_is_named(recorded):
    """steps.cu: 300 us of usleep in the range `pause`, whose payload says so; a sleep ends late."""
    sides = [Side(name, [Run(name, [recorded[name][0]])]) for name in ("gpu_plain", "gpu_sleep")]
    result = compare(*sides)
    first = result.findings[0]
    assert (first.cause, first.where.range, first.where.os_call) == ("host_work", "pause", "usleep")
    assert 300_000 < first.delta_ns < 450_000
    payload = {row.range: row for row in result.system.payloads}
    assert payload["pause"].baseline is None and payload["pause"].candidate.mean == 300
    assert payload["forward"].delta_mean == 300 and payload["ask"].delta_mean == 0
    for name in ("baseline", "candidate"):
        total = sum(getattr(row, f"{name}_ns") for row in result.system.host_work)
        assert total == pytest.approx(getattr(result.accounting, name)["host_work"])
