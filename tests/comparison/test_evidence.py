"""The evidence of a finding: its SQL runs on the export itself, its moments are there, its numbers agree."""

from __future__ import annotations

import sqlite3

import pytest

from fixtures.builders import HOSTILE_NAMES, TraceBuilder
from tests.comparing import compare
from tests.tiny import label, plain, reduced
from tracediff.comparison.evidence import idle_sql, kernel_sql, range_sql
from tracediff.execution.sides import Run, Side

PAIRS = [
    ("graph_a1", "graph_gc"),
    ("graph_a1", "graph_sleep"),
    ("graph_a1", "graph_fused_1"),
    ("eager_a1", "graph_a1"),
    ("graph_a1", "eager_a1"),
    ("eager_a1", "tp2_a1"),
]


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Name of a bundled capture -> a connection to its plain export, read only."""
    folder = tmp_path_factory.mktemp("exports")
    opened = {}

    def connect(name: str) -> sqlite3.Connection:
        if name not in opened:
            opened[name] = sqlite3.connect(f"file:{plain(name, folder)}?mode=ro", uri=True)
        return opened[name]

    yield connect
    for one in opened.values():
        one.close()


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_sql_runs_on_the_exports_and_finds_something(pair, compared, exports):
    findings = compared(*pair).findings
    assert findings
    for finding in findings:
        rows = [exports(name).execute(finding.evidence.sql).fetchall() for name in pair]
        assert any(rows), f"{finding.title}: {finding.evidence.sql}"


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_moments_lie_in_the_capture_that_they_name(pair, compared, exports, reduction_of):
    for finding in compared(*pair).findings:
        for moment in finding.evidence.moments:
            name = pair[0] if moment.side == "baseline" else pair[1]
            assert moment.run == name
            assert moment.start_ns < moment.end_ns
            periods = reduction_of(name).periods
            inside = (periods["start_ns"] <= moment.start_ns) & (moment.end_ns <= periods["end_ns"])
            assert inside.any(), finding.title


def test_the_moment_of_the_collection_is_one(compared, exports):
    """The longest piece of idle time in `gc` lies inside a `Python GC` range of the export."""
    first = compared("graph_a1", "graph_gc").findings[0]
    (moment,) = [one for one in first.evidence.moments if one.side == "candidate"]
    query = (
        "SELECT count(*) FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
        " WHERE coalesce(n.text, s.value) LIKE 'Python GC%' AND n.start <= ? AND n.\"end\" >= ?"
    )
    assert exports("graph_gc").execute(query, (moment.start_ns, moment.end_ns)).fetchone()[0] >= 1


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_numbers_of_a_finding_agree_with_each_other(pair, compared):
    result = compared(*pair)
    assert [one.rank for one in result.findings] == list(range(1, len(result.findings) + 1))
    for one in result.findings:
        # what got slower comes with advice; what got faster only where the work may have gone missing
        advised = one.delta_ns > 0 or one.cause in ("kernel_fused", "kernel_removed", "batch_mix")
        assert bool(one.next) == (advised and result.verdict != "not_comparable"), one.title
        if one.share is None:
            continue
        (phase,) = [phase for phase in result.phases if phase.phase == one.where.phase]
        changed = phase.typical if one.part == "typical" else phase.tail
        if one.where.rank is None:  # else it is of that rank, and the phase of the mean one
            assert one.delta_ns == pytest.approx(one.candidate_ns - one.baseline_ns, abs=1e-6)  # as measured
            assert one.share == pytest.approx(one.delta_ns / changed.delta_ns)
        assert one.ci_low_ns <= one.delta_ns <= one.ci_high_ns
        runs = one.evidence.runs_baseline_ns + one.evidence.runs_candidate_ns
        assert runs == pytest.approx([one.baseline_ns, one.candidate_ns])  # one run a side


# Names taken from a trace into SQL


def sqlite_knows(sql: str) -> None:
    db = sqlite3.connect(":memory:")
    db.execute('CREATE TABLE NVTX_EVENTS (start, "end", text, textId, eventType)')
    db.execute("CREATE TABLE StringIds (id, value)")
    db.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, "end", demangledName, gridX, gridY, gridZ)')
    db.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, "end", nameId)')
    db.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, "end", copyKind, bytes)')
    for statement in sql.split(";\n"):
        db.execute(statement)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    assert "StringIds" in tables
    db.close()


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if "\x00" not in name])
@pytest.mark.parametrize("cause", ["host_work", "gil_wait", "gc", "host_sync"])
def test_hostile_names_stay_inside_their_quotes(name, cause):
    for sql in (range_sql(name), kernel_sql([name, name + "2"]), idle_sql(cause, name, name)):
        sqlite_knows(sql)


def test_a_range_with_numbers_is_found_again(tmp_path):
    """A place is masked; its SQL finds every number, and `%` and `_` in a name are what they are."""
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(4):
        begin = 10_000 * number
        trace.range(1, label(number), begin, begin + 9_000).range(
            1, f"layer {number} of 4", begin + 100, begin + 200
        )
        trace.api(1, "cudaLaunchKernel", begin + 300, begin + 310, corr=number).kernel(
            number, begin + 400, begin + 500
        )
    path = trace.write(tmp_path / "t.sqlite")
    with sqlite3.connect(path) as db:
        found = db.execute(range_sql("layer N of N")).fetchall()
        labels = db.execute(range_sql("[Executor] _forward_step")).fetchall()
    db.close()
    assert {row[3] for row in found} == {f"layer {number} of 4" for number in range(4)}
    assert len(labels) == 4


def test_kernels_with_hostile_names_are_compared_and_found_again(tmp_path):
    names = [name for name in HOSTILE_NAMES if "\x00" not in name and len(name) < 200]
    sides = []
    for side, length in (("one", 1_000), ("other", 9_000)):
        trace = TraceBuilder().process(100).thread(100, 1)
        now, corr = 0, 0
        for number in range(5):
            trace.range(1, label(number), now, now + 10)
            for name in names:
                corr += 1
                trace.api(1, "cudaLaunchKernel", now + 10, now + 20, corr=corr)
                trace.kernel(corr, now + 30, now + 30 + length, name=name)
                now += length + 100
        (tmp_path / side).mkdir()
        sides.append(Side(side, [Run(side, [reduced(trace, tmp_path / side)])]))
    result = compare(*sides)
    assert {row.match for row in result.kernels} == {"exact"}
    assert len(result.kernels) == len(names)
    with sqlite3.connect(tmp_path / "other" / "trace.sqlite") as db:
        for finding in result.findings:
            if finding.where.kernel is not None:
                assert db.execute(finding.evidence.sql).fetchall(), finding.evidence.sql
    db.close()
