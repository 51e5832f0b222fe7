"""What the tables add up to: the period exactly, and the numbers of `compare`."""

from __future__ import annotations

import pytest

from tests.tiny import PROGRAMS
from tracediff.model import CATEGORIES, Pair

BUSY = ("compute", "comm", "memcpy")
COUNTED = "phase <> 'irregular'"  # of a capture compared with itself, every such step counts alike


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_categories_of_a_period_add_up_to_it(ask, name):
    total = " + ".join(f"{one}_ns" for one in CATEGORIES)
    frame = ask(
        f"SELECT count(*) AS periods, count(*) FILTER ({total} <> period_ns) AS open FROM period", name
    )
    assert frame["periods"].item() > 0 and frame["open"].item() == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_idle_adds_up_to_the_categories_of_each_period(ask, name):
    idle = [one for one in CATEGORIES if one not in BUSY]
    keys = "capture, run, rank, device, step"
    pieces = ", ".join(f"coalesce(sum(idle_ns) FILTER (cause = '{one}'), 0) AS {one}" for one in idle)
    differs = " OR ".join(f"p.{one}_ns <> coalesce(i.{one}, 0)" for one in idle)
    for table in ("idle", "idle_by_step"):
        frame = ask(
            f"WITH i AS (SELECT {keys}, {pieces} FROM {table} GROUP BY ALL)"
            f" SELECT count(*) AS wrong FROM period AS p LEFT JOIN i USING ({keys}) WHERE {differs}",
            name,
        )
        assert frame["wrong"].item() == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_gaps_add_up_to_the_idle_time_of_each_period(ask, name):
    """The gaps come from the rows of ops alone; the idle categories of a period from the accounting."""
    busy = " + ".join(f"p.{one}_ns" for one in BUSY)
    frame = ask(
        f"SELECT p.period_ns - ({busy}) AS idle, coalesce(sum(g.duration_ns), 0) AS gaps FROM period AS p"
        " LEFT JOIN gap AS g ON g.pid = p.pid AND g.device = p.device AND g.start_ns >= p.start_ns AND g.start_ns < p.end_ns"
        f" GROUP BY p.pid, p.device, p.step, p.period_ns, {busy}",
        name,
    )
    assert frame.height == ask("FROM period", name).height
    assert frame["idle"].to_list() == frame["gaps"].to_list() and sum(frame["idle"]) > 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_shares_of_kernels_add_up_to_busy_time(ask, name):
    frame = ask(
        "WITH k AS (SELECT rank, device, step, sum(share_ns) AS ns FROM kernel_by_step GROUP BY ALL)"
        " SELECT max(abs(k.ns - p.compute_ns - p.comm_ns - p.memcpy_ns)) AS off, count(*) AS rows FROM period AS p"
        " JOIN k USING (rank, device, step)",
        name,
    )
    assert frame["rows"].item() == ask("FROM period", name).height
    assert frame["off"].item() < 1e-3  # shares of a nanosecond: floats


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_by_step_are_the_ops_that_start_in_the_period(ask, name):
    """Two ways to the same sums: the sweep of arrays behind `kernel_by_step`, and a join of the rows themselves."""
    found = ask(
        "SELECT rank, step, name, grid, block, ops, wall_ns FROM kernel_by_step WHERE ops > 0 ORDER BY ALL",
        name,
    )
    joined = ask(
        "SELECT p.rank, p.step, o.name, o.grid, o.block, count(*) AS ops, sum(o.duration_ns) AS wall_ns"
        " FROM op AS o JOIN period AS p ON p.pid = o.pid AND p.device = o.device"
        " AND o.start_ns >= p.start_ns AND o.start_ns < p.end_ns GROUP BY ALL ORDER BY ALL",
        name,
    )
    assert found.height > 100
    assert found.equals(joined)


@pytest.mark.parametrize("name", ["graph_a1", "graph_gc", "graph_fused_1", "eager_a1", "tp2_a1"])
def test_the_numbers_of_compare(ask, compared, name):
    result = compared(name, name)
    assert all(one.compared for one in result.strata)
    # tp2_a1 begins with a step of 1 and of 19 ms on its ranks, which is in no mean
    assert result.mix.begins == (Pair(2, 2) if name == "tp2_a1" else Pair(0, 0))
    counted = COUNTED + " AND step > 0" * (name == "tp2_a1")

    def mean(expression, table, where=counted):
        text = f"SELECT {expression} / (SELECT count(*) FROM period WHERE {counted}) AS x FROM {table} WHERE {where}"
        return ask(text, name)["x"].item() or 0.0

    assert mean("sum(period_ns)", "period") == pytest.approx(result.step.baseline_ns, rel=1e-12)
    for category, value in result.accounting.baseline.items():
        assert mean(f"sum({category}_ns)", "period") == pytest.approx(value, rel=1e-9, abs=1e-6)
    for row in result.kernels:
        names = ", ".join("'" + one.replace("'", "''") + "'" for one in row.baseline.names)
        grids = ", ".join(f"'{one}'" for one in row.baseline.grids) or "''"
        where = f"{counted} AND name IN ({names}) AND coalesce(grid, '') IN ({grids})"
        if row.match != "exact":
            continue
        assert mean("sum(share_ns)", "kernel_by_step", where) == pytest.approx(
            row.baseline.ns_per_step, rel=1e-9
        )
        assert mean("sum(ops)", "kernel_by_step", where) == pytest.approx(
            row.baseline.count_per_step, rel=1e-9, abs=1e-9
        )
    assert mean("count(*)", "kernel_by_step") > 0


@pytest.mark.parametrize("name", ["graph_a1", "graph_gc", "eager_a1"])
def test_the_host_tables_of_compare(ask, compared, name):
    """One rank: there every role works in every step, and the sums of a step are plain means."""
    result = compared(name, name)
    steps = ask(f"SELECT count(*) AS n FROM period WHERE {COUNTED}", name)["n"].item()

    ranges = ask(
        f"SELECT thread, place, domain, sum(ranges) / {steps} AS count, sum(wall_ns) / {steps} AS ns FROM range_by_step"
        f" WHERE {COUNTED} GROUP BY ALL ORDER BY ALL",
        name,
    )
    expected = sorted(
        (one.thread, one.range, one.domain, one.baseline.count_per_step, one.baseline.ns_per_step)
        for one in result.ranges
    )
    assert len(expected) > 3
    assert [row[:3] for row in ranges.rows()] == [row[:3] for row in expected]
    assert [row[3:] for row in ranges.rows()] == [pytest.approx(row[3:], rel=1e-9) for row in expected]

    apis = ask(
        f"SELECT api, sum(calls) / {steps} AS calls, sum(wall_ns) / {steps} AS ns FROM api_by_step WHERE {COUNTED}"
        " GROUP BY ALL ORDER BY api",
        name,
    )
    expected = sorted((one.api, one.baseline_calls, one.baseline_ns) for one in result.launch.apis)
    assert [row[0] for row in apis.rows()] == [row[0] for row in expected]
    assert [row[1:] for row in apis.rows()] == [pytest.approx(row[1:], rel=1e-9) for row in expected]

    waits = ask(
        f"SELECT thread, phase, sum(wait_ns) / {steps} AS wait, sum(exposed_ns) / {steps} AS exposed FROM gil_wait_by_step"
        f" WHERE {COUNTED} GROUP BY ALL HAVING wait > 0 ORDER BY thread, phase",
        name,
    )
    expected = sorted(
        (one.thread, one.phase, one.baseline_wait_ns, one.baseline_exposed_ns or 0.0)
        for one in result.gil.rows
        if one.baseline_wait_ns
    )
    assert [row[:2] for row in waits.rows()] == [row[:2] for row in expected]
    assert [row[2:] for row in waits.rows()] == [pytest.approx(row[2:], rel=1e-9) for row in expected]

    launches = ask(
        f"SELECT count(*) / {steps} AS calls, sum(kernels) / {steps} AS kernels, count(*) FILTER (graph) / {steps} AS graphs"
        f" FROM launch JOIN period USING (capture, pid, step) WHERE {COUNTED}",
        name,
    )
    side = result.launch.baseline
    assert launches.row(0) == pytest.approx(
        (side.calls_per_step, side.kernels_per_step, side.graph_launches_per_step), rel=1e-9
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_op_is_there_once(ask, name):
    frame = ask(
        "SELECT (SELECT count(*) FROM op) AS ops, (SELECT sum(ops) FROM process) AS of_processes,"
        " (SELECT sum(ops) FROM launch) + (SELECT count(*) FROM op WHERE launch_start_ns IS NULL) AS launched",
        name,
    )
    assert frame["ops"].item() == frame["of_processes"].item() == frame["launched"].item() > 0


def test_both_sides_are_what_each_is_alone(ask):
    for name in ("op", "idle", "kernel_by_step", "gil"):
        both = ask(f"SELECT (SELECT count(*) FROM baseline.{name}) AS b, (SELECT count(*) FROM candidate.{name}) AS c",
                   "graph_a1", "graph_gc")  # fmt: skip
        alone = [
            ask(f"SELECT count(*) AS n FROM {name}", one)["n"].item() for one in ("graph_a1", "graph_gc")
        ]
        assert list(both.row(0)) == alone
