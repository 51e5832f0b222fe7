"""Both sides side by side for `tracediff query`: the questions of docs/sql.md, and the tables that they are asked of."""

from __future__ import annotations

import re
import shlex
from functools import cache
from itertools import takewhile

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import FIXTURES, ROOT
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import SideFiles, resolve
from tracediff.query.apart import generous
from tracediff.query.reference import ALIGNED, aligned
from tracediff.query.tables import Tables, check, needs_aligning, needs_events

QUESTIONS = [
    words[-1]
    for block in re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "sql.md").read_text(), re.DOTALL)
    if "pr.sqlite" in (words := shlex.split(block))
]
KERNELS, RANGES, GIL, CALLS, STRUCTURE, COPIES = QUESTIONS  # in the order of the page


def sides_of(*names: str) -> list[SideFiles]:
    return [resolve(str(FIXTURES / "pairs" / f"{name}.sqlite.xz")) for name in names]


@pytest.fixture(scope="module")
def pair():
    """A question -> its rows, asked of the program as it is and with one planted change."""
    opened = []

    @cache
    def tables(candidate: str, baseline: str) -> Tables:
        opened.append(Tables(sides_of(baseline, candidate), events=False))
        return opened[-1]

    def ask(text: str, candidate: str, baseline: str = "base_1") -> list[dict]:
        assert not needs_events(text)
        (answer,) = tables(candidate, baseline).run(text)
        # Even where a word of it is also the name of a table of one side, as in cause = 'gc'.
        assert tables(candidate, baseline).remarks(text) == []
        return answer.frame.to_dicts()

    yield ask
    for one in opened:
        one.close()


@pytest.mark.parametrize("text", ["FROM baseline.launch", "FROM aligned_call"])
def test_calls_that_were_lost_are_said(text: str, tmp_path):
    """Of the candidate's 20,010 calls by their numbers 20,000 were not recorded."""
    sides = []
    for lost in (0, 20_000):
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        for number in range(10):
            begin, corr = 1_000_000 * number, number + 1 + lost * (number >= 5)
            trace.api(1, "cudaLaunchKernel", begin, begin + 5_000, corr=corr)
            trace.kernel(corr, begin + 10_000, begin + 905_000)
        sides.append(resolve(str(trace.write(tmp_path / f"{lost}.sqlite"))))
    with Tables(sides, events=needs_events(text)) as tables:
        tables.run(text)
        said = tables.remarks(text)
    lost_calls = [one for one in said if one.endswith("[cuda-calls-lost]")]
    assert len(lost_calls) == 1 and "20,000 of 20,010" in lost_calls[0]


@pytest.mark.slow
def test_idle_time_of_a_cause_that_is_also_a_table(pair):
    """Every fifth step of gc5 collects garbage; base_1 does not."""
    (row,) = pair("SELECT sum(delta_ns) AS more FROM aligned_idle WHERE cause = 'gc'", "gc5_1")
    assert row["more"] > 0


@pytest.mark.slow
def test_kernels_that_are_new(pair):
    """Of eight layers each, two GEMMs became one (fixtures/pairs/README.md: gate and up GEMM fused)."""
    rows = pair(KERNELS, "fused_1")
    fused = [row for row in rows if row["match"] == "fused"]
    assert (fused[0]["baseline_count"], fused[0]["candidate_count"]) == (16, 8)
    assert all(len(row["baseline_names"]) == len(row["candidate_names"]) == 1 for row in fused)
    assert {row["match"] for row in rows} == {"fused", "sequence"}  # how the halves are read changed with it


@pytest.mark.slow
def test_ranges_that_take_longer(pair):
    """95.7 us of Python work in `_schedule`, as the program itself measured."""
    rows = pair(RANGES, "work95_1")
    (schedule,) = [row for row in rows if row["place"] == "_schedule"]
    assert schedule["thread"] == "executor"
    assert schedule["candidate_us"] - schedule["baseline_us"] == pytest.approx(95.7, rel=0.15)


def test_who_holds_the_gil(pair):
    """The await-response thread holds the GIL for 301 us a generation step more."""
    first = pair(GIL, "hog300_1")[0]
    assert first["thread"] == "await-response"
    assert first["candidate_ns"] - first["baseline_ns"] > 300_000


def test_calls_that_a_step_makes_more_often(pair):
    """A stream synchronisation after each of eight layers."""
    rows = {row["api"]: row for row in pair(CALLS, "eager_sync_1", "eager_1")}
    sync = rows["cudaStreamSynchronize"]
    assert sync["candidate_calls"] - sync["baseline_calls"] == pytest.approx(8, abs=0.1)


def test_what_a_step_launches(pair):
    """149 kernels a generation step, launched one by one or by one graph."""
    of_generation = STRUCTURE.replace("steps = ''", "steps = 'generation'")
    rows = {row["what"]: row for row in pair(of_generation, "base_1", "eager_1")}
    assert (rows["kernels"]["baseline"], rows["kernels"]["candidate"]) == (149, 149)
    assert (rows["graph_launches"]["baseline"], rows["graph_launches"]["candidate"]) == (0, 1)
    assert rows["launch_calls"]["baseline"] > 149 > rows["launch_calls"]["candidate"]


def test_questions_have_answers_where_labels_tell_no_phases(tmp_path):
    """A kernel and a copy of 4,096 bytes in each step; of the candidate two copies and another kernel, on a thread that holds the GIL."""

    def written(name: str, copies: int) -> SideFiles:
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        for number in range(8):
            now = 1_000_000 * number
            trace.range(1, f"ProfilerStep#{number}", now, now + 1_000_000).range(
                1, "plan", now, now + 10_000 * copies
            )
            trace.gil(1, "hold", now, now + 10_000 * copies)
            for at in range(1 + copies):
                corr, begin = 10 * number + at + 1, now + 50_000 * (at + 1)
                trace.api(1, "cudaMemcpyAsync" if at else "cudaLaunchKernel", begin, begin + 5_000, corr=corr)
                if at:
                    trace.memcpy(corr, begin + 6_000, begin + 9_000, src="pinned")
                else:
                    trace.kernel(corr, begin + 6_000, begin + 40_000, name=f"kernel_of_{name}")
        trace.write(tmp_path / f"{name}.sqlite")
        return resolve(str(tmp_path / f"{name}.sqlite"))

    opened = Tables([written("main", 1), written("pr", 2)], events=False)
    answers = {text: answer.frame.to_dicts() for text in QUESTIONS for answer in opened.run(text)}
    opened.close()
    assert all(answers.values())
    (copies,) = answers[COPIES]
    assert tuple(copies.values()) == ("[memcpy HtoD]", 1, 4096, "pinned", 2, 8192, "pinned")
    launched = {row["what"]: (row["baseline"], row["candidate"]) for row in answers[STRUCTURE]}
    assert launched["copies"] == (1, 2) and launched["kernels"] == (1, 1) and launched["memsets"] == (0, 0)


def test_the_columns_are_as_documented_and_rows_add_up_to_what_compare_says(pair):
    for one in aligned():
        found = [(row["column_name"], row["column_type"]) for row in pair(f"DESCRIBE {one.name}", "hog300_1")]
        assert found == [(column.name, column.type) for column in one.columns], one.name
        keys = ", ".join(takewhile(lambda name: "baseline" not in name, (name for name, _ in found)))
        distinct = f"SELECT DISTINCT {keys} FROM {one.name}" if keys else f"FROM {one.name} LIMIT 1"
        (rows,) = pair(
            f"SELECT (SELECT count(*) FROM {one.name}) AS n, (SELECT count(*) FROM ({distinct})) AS keys",
            "hog300_1",
        )
        assert rows["n"] == rows["keys"], one.name
    result = compare(*reduce_sides(sides_of("base_1", "hog300_1"), Reading(cached=True)))
    (step,) = pair("SELECT sum(baseline_ns) AS ns FROM aligned_kernel WHERE steps = ''", "hog300_1")
    busy = [result.accounting.baseline.get(name, 0.0) for name in ("compute", "comm", "memcpy")]
    assert step["ns"] == pytest.approx(sum(busy), rel=1e-9)
    ranges = pair("SELECT place, thread, delta_ns FROM aligned_range", "hog300_1")
    assert [tuple(row.values()) for row in ranges] == [
        (row.range, row.thread, row.delta_ns) for row in result.ranges
    ]


@pytest.mark.slow
def test_the_sides_own_tables_are_there_beside(pair):
    text = (
        "SELECT (SELECT count(*) FROM baseline.period) AS b, (SELECT count(*) FROM candidate.period) AS c,"
        " (SELECT baseline_steps FROM aligned_step WHERE phase = 'generation') AS steps"
    )
    assert needs_aligning(text) and needs_events(text)
    with Tables(sides_of("base_1", "hog300_1")) as tables:
        (answer,) = tables.run(text)
        assert {*ALIGNED} < {*tables.names()}
    (row,) = answer.frame.to_dicts()
    assert row["b"] > row["steps"] > 20 and row["c"] > 20


def test_one_capture_has_no_other_side(pair):
    with pytest.raises(TracediffError) as raised:
        check("FROM aligned_gil", 1, generous(None, 1))
    assert raised.value.slug == "bad-sql"
    assert "tracediff query BASELINE CANDIDATE" in str(raised.value.fix)
    with pytest.raises(TracediffError) as raised:
        check("SELECT holds_ns FROM aligned_gil", 2, generous(None, 1))
    assert "baseline_hold_ns" in str(raised.value.fix)
