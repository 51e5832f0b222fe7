"""What must hold of every comparison: with itself, with the sides exchanged, of its sums and rows."""

from __future__ import annotations

import pytest

from tests import comparing
from tests.comparing import compare
from tests.judging import judge
from tests.serving import runs_of
from tests.swapping import TEXTS, close, plain, signed_fields, swapped
from tests.tiny import PROGRAMS
from tracediff.comparison import tables
from tracediff.comparison.gates import parse_gate
from tracediff.execution.sides import Side

BUSY = ("compute", "comm", "memcpy")
GRAPH = ("graph_a1", "graph_a2", "graph_a3")
FUSED = ("graph_fused_1", "graph_fused_2", "graph_fused_3")
EAGER = ("eager_a1", "eager_a2")
PAIRS = [
    (GRAPH, FUSED),
    (GRAPH, "graph_gc"),
    ("graph_a1", "graph_sleep"),
    (EAGER, GRAPH),
    ("eager_a1", "graph_a1"),
    ("graph_a1", "graph_a2"),
    ("tp2_a1", "tp2_a1"),
]


def name_of(one) -> str:
    return one if isinstance(one, str) else "+".join(one)


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{name_of(pair[0])}-{name_of(pair[1])}")
def pair(request):
    return request.param


# A file against itself


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_file_against_itself_has_not_changed(name, compared):
    result = compared(name, name)
    assert result.verdict == "no_change"
    moved = {path: value for path, value in signed_fields(plain(result)).items() if value}
    moved = {path: value for path, value in moved.items() if ".ci_" not in path}  # an interval has a width
    assert moved == {}
    assert [finding.title for finding in result.findings if finding.level != "within_noise"] == []
    assert all(row.match == "exact" for row in result.kernels)
    assert all(row.score == 1 for row in result.threads)
    one, other = result.accounting.baseline, result.accounting.candidate
    assert one == other and result.accounting.residual_ns == 0


# The sides exchanged


def sorted_rows(table):
    """Rows of a table in an order that does not depend on the sides: by their text, without numbers."""

    def key(value):
        if isinstance(value, dict):
            return [
                key(one) for name, one in sorted(value.items()) if name not in TEXTS and name != "evidence"
            ]
        if isinstance(value, list):
            return [key(one) for one in value]
        return value if isinstance(value, str) else ""

    return sorted(table, key=lambda row: repr((key(row), repr(row.get("start_ns")), row.get("number"))))


def without_texts(value):
    """Leave out sentences, ranks, and places to jump to: they may name the other side first."""
    if isinstance(value, dict):
        left_out = (*TEXTS, "moments", "inputs", "rank_order")
        return {
            key: sorted(one) if key == "odd" else without_texts(one)  # runs of either side, by name
            for key, one in value.items()
            if key not in left_out
        }
    return [without_texts(one) for one in value] if isinstance(value, list) else value


def unranked(content: dict) -> dict:
    """A plain result without sentences and ranks, tables in an order of their own."""
    content = without_texts(content)
    for finding in content["findings"]:
        del finding["rank"]
        for one in (finding, *finding["parts"]):
            if kernels := one["where"]["kernels"]:  # a replaced by b, or b by a
                one["where"]["kernels"] = sorted(kernels.values())
    return {
        key: sorted_rows(value) if isinstance(value, list) and value and isinstance(value[0], dict) else value
        for key, value in content.items()
    }


def test_swapping_the_sides_negates_every_delta(pair, compared):
    one = unranked(plain(compared(*pair)))
    other = unranked(swapped(plain(compared(*pair[::-1]))))
    for key in one:
        assert close(one[key], other[key]) == [], key


def test_a_swapped_headline_says_the_opposite(compared):
    forward, backward = compared("graph_a1", "graph_sleep"), compared("graph_sleep", "graph_a1")
    assert forward.headline.what.startswith("Likely slower with ")
    assert backward.headline.what.startswith("Likely faster with ")
    assert forward.observed.delta_ns == -backward.observed.delta_ns > 2e6
    assert forward.findings[0].title == backward.findings[0].title


# Rows sum to totals


def test_rows_sum_to_their_totals(pair, compared):
    result = compared(*pair)
    books, step = result.accounting, result.step
    for side, total in (
        ("baseline", step.baseline_ns),
        ("candidate", step.candidate_ns),
        ("delta", step.delta_ns),
    ):
        assert sum(getattr(books, side).values()) == pytest.approx(total, abs=1e-3)
    for side in ("baseline", "candidate"):
        busy = sum(getattr(books, side)[name] for name in BUSY)
        rows = sum(getattr(row, side).ns_per_step for row in result.kernels if getattr(row, side))
        assert rows == pytest.approx(busy, rel=1e-9)
    kernel_delta = sum(row.delta_ns for row in result.kernels)
    assert kernel_delta == pytest.approx(sum(books.delta[name] for name in BUSY), abs=1e-3)
    # as measured: what a slower host may explain is a part of a change, never taken out of it
    assert step.delta_ns == pytest.approx(step.candidate_ns - step.baseline_ns, abs=1e-3)
    for name, delta in books.delta.items():
        apart = books.candidate.get(name, 0.0) - books.baseline.get(name, 0.0)
        assert delta == pytest.approx(apart, abs=1e-3), name


def test_phases_sum_to_the_step(pair, compared):
    """Typical, tail and start of every phase, each as often as it occurs."""
    result = compared(*pair)
    compared_phases = [one for one in result.phases if one.share]
    assert sum(one.share for one in compared_phases) == pytest.approx(1)
    for field in ("baseline_ns", "candidate_ns", "delta_ns"):
        total = 0.0
        for one in compared_phases:
            usual = (1 - one.start_share) * getattr(one.typical, field) + getattr(one.tail, field)
            first = getattr(one.start, field) if one.start else 0.0
            total += one.share * (usual + one.start_share * first)
        assert total == pytest.approx(getattr(result.step, field), abs=1e-3), field


def test_gap_rows_sum_to_the_idle_time(pair, compared):
    result = compared(*pair)
    sums = {side: {} for side in ("baseline", "candidate")}
    for row in result.gaps:
        for side, books in sums.items():
            if getattr(row, side):
                books[row.cause] = books.get(row.cause, 0.0) + getattr(row, side).ns_per_step
    for side, books in sums.items():
        wanted = {
            name: ns for name, ns in getattr(result.accounting, side).items() if name not in BUSY and ns
        }
        if result.gaps_left_out:
            assert len(result.gaps) == tables.ROWS
            assert all(books.get(name, 0.0) <= ns * (1 + 1e-9) for name, ns in wanted.items())
        else:
            assert books == pytest.approx(wanted, rel=1e-9)


def test_gap_rows_that_are_left_out_are_counted(side_of, monkeypatch):
    sides = side_of("graph_a1"), side_of("graph_sleep")
    whole = compare(*sides)
    monkeypatch.setattr(tables, "ROWS", 10)
    monkeypatch.setattr(comparing, "_MADE", {})
    result = compare(*sides)
    assert (whole.gaps_left_out, result.gaps_left_out) == (0, len(whole.gaps) - 10)
    assert result.gaps == whole.gaps[:10]
    assert result.accounting == whole.accounting


def test_findings_are_parts_of_the_change(pair, compared):
    """Nothing is in two of them: together they are the step's change, but for what is too small to say and for first steps."""
    result = compared(*pair)
    often = {one.phase: one.share * (1 - one.start_share) for one in result.phases if one.share}
    total = 0.0
    for one in result.findings:
        if one.cause == "batch_mix" or one.where.rank is not None:
            continue
        total += often[one.where.phase] * one.delta_ns
        total += sum(often[other.phase] * other.delta_ns for other in one.phases)
        if one.parts:
            assert sum(part.delta_ns for part in one.parts) == pytest.approx(one.delta_ns, abs=1e-3)
    change = sum(result.accounting.delta.values())
    assert abs(total - change) <= 0.05 * max(result.step.baseline_ns, result.step.candidate_ns)


# Order of runs


NUMBERS = (
    "verdict",
    "step",
    "accounting",
    "findings",
    "kernels",
    "gaps",
    "ranges",
    "strata",
    "mix",
    "launch",
    "gil",
)


def differ(one, other, keys=NUMBERS) -> list[str]:
    one, other = (sans_runs(unranked(plain(result))) for result in (one, other))
    return [text for key in keys for text in close(one[key], other[key], 1e-9, key)]


def test_the_order_of_runs_is_irrelevant(side_of, compared):
    again = compare(side_of(*(GRAPH[i] for i in (1, 2, 0))), side_of(*(FUSED[i] for i in (2, 1, 0))))
    assert differ(compared(GRAPH, FUSED), again, (*NUMBERS, "ranks", "response_path")) == []


@pytest.mark.slow
def test_the_order_of_runs_that_launch_differently_is_irrelevant(tmp_path):
    """Two runs of three launch three kernels a step and one four; which of them comes first says nothing."""
    three, four = (runs_of(tmp_path, name, (100, 101), kernels=count) for name, count in (("b", 3), ("d", 4)))
    other = runs_of(tmp_path, "c", (100, 100, 101), kernels=2, kernel_name="conv")
    runs = [*three.runs, four.runs[0]]
    results = [
        compare(Side("b", [runs[i] for i in order]), other) for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0))
    ]
    assert differ(results[0], results[1]) == differ(results[0], results[2]) == []


def sans_runs(value):
    """One value a run comes in the order of the runs."""
    if isinstance(value, dict):
        return {
            key: sorted(one) if key.startswith("run") and isinstance(one, list) else sans_runs(one)
            for key, one in value.items()
        }
    return [sans_runs(one) for one in value] if isinstance(value, list) else value


# The same program


@pytest.mark.parametrize(("baseline", "candidate"), [GRAPH[:2], GRAPH[1:], EAGER, (GRAPH[:1], GRAPH[1:])])
def test_the_same_program_never_changed(baseline, candidate, compared):
    result = compared(baseline, candidate)
    assert result.verdict in ("no_change", "inconclusive")
    sure = [one for one in result.findings if one.level != "within_noise" and one.share is not None]
    assert [one.title for one in sure if abs(one.delta_ns) > 0.01 * result.step.baseline_ns] == []


# Known changes


@pytest.mark.parametrize("baseline", ["graph_a1", GRAPH])
def test_garbage_collection_is_found(baseline, compared, reduction_of):
    first = compared(baseline, "graph_gc").findings[0]
    assert (first.cause, first.where.range, first.where.thread) == ("gc", "_schedule", "executor")
    # the baseline never collects, the candidate in six of thirty steps: what it gains is the mean of all generation steps
    steps = reduction_of("graph_gc").periods.sort("start_ns").filter(phase="generation")
    assert (first.where.phase, first.part) == ("generation", "mean")
    assert first.delta_ns == pytest.approx(steps["gc"].mean())


@pytest.mark.parametrize("baseline", ["graph_a1", GRAPH])
def test_a_cause_has_one_size_and_one_level_wherever_it_is_said(baseline, compared):
    """The first sentence, the accounting of its step, the cause and gates on it speak of the mean generation step."""
    result = compared(baseline, "graph_gc")
    (part, *_), first = result.observed.parts, result.findings[0]
    phase = next(one for one in result.phases if one.phase == "generation")
    books = phase.mean_accounting
    assert (result.observed.of, phase.verdict_of, part.finding) == ("mean", "mean", first.rank)
    assert first.delta_ns == part.delta_ns == pytest.approx(books.delta["gc"])
    assert phase.mean.delta_ns == result.observed.delta_ns > first.delta_ns
    assert first.level == books.level["gc"] == result.accounting.level["gc"] == "likely"
    for gate in (
        "gc:+5us",
        "generation.gc:+5us",
        "generation.gc@executor:+5us",
        "generation:+5%",
        "step:+5%",
    ):
        judged = judge(parse_gate(gate), result)
        assert judged.outcome == "failed", judged.message
    assert judge(parse_gate("generation.gc:+5us"), result).delta == pytest.approx(first.delta_ns)
    assert any(row.kind == "collections" and row.phase == "generation" for row in result.structure)


def test_repeats_of_the_baseline_make_a_large_change_no_less_sure(compared):
    """Sixteen times slower: knowing the baseline's own noise must not make it less sure."""
    alone, repeated = (compared(baseline, "graph_gc").phases[0] for baseline in ("graph_a1", GRAPH))
    assert alone.phase == repeated.phase == "generation"
    assert repeated.tail.p_value <= alone.tail.p_value


@pytest.mark.parametrize("baseline", ["graph_a1", GRAPH])
def test_sleeping_is_found(baseline, compared):
    """Two milliseconds more; part of that is called the host's, which slept and was slow in every call after it."""
    result = compared(baseline, "graph_sleep")
    first = result.findings[0]
    assert (first.cause, first.where.range) == ("host_work", "_schedule")
    assert 2.0e6 < first.delta_ns < 2.2e6
    assert 0 < first.ci_low_ns < 2.0e6 < first.ci_high_ns
    assert result.verdict == "likely_regressed"


def test_eager_to_graph_is_explained_by_launching_and_the_host(compared):
    result = compared(EAGER, GRAPH)
    assert result.step.delta_ns < -2e6
    host = sum(
        result.accounting.delta[name]
        for name in ("launch_api", "launch_latency", "host_work", "host_api", "host_sync")
    )
    assert host / result.step.delta_ns > 0.95
    assert result.verdict in ("improved", "likely_improved")


def test_fusion_is_found(compared):
    """Eight layers: two GEMMs become one. What follows them lost its vectorised kernels, so that the block gains next to nothing."""
    (fused,) = [one for one in compared(GRAPH, FUSED).findings if one.cause == "kernel_fused"]
    assert (fused.level, fused.where.phase) == ("exact", "generation")
    assert (fused.evidence.count_baseline, fused.evidence.count_candidate) == pytest.approx((16, 8))
    rows = [part for part in fused.parts if not part.follows]
    assert [(part.match, part.delta_ns > 0) for part in rows] == [
        ("fused", False),
        ("sequence", True),
        ("sequence", True),
    ]
    (gaps,) = [part for part in fused.parts if part.follows]  # eight nodes fewer, some 0.6 us of gap each
    assert gaps.cause == "graph_internal" and -8_000 < gaps.delta_ns < 0
    assert sum(part.delta_ns for part in fused.parts) == pytest.approx(fused.delta_ns)
    (split,) = [one for one in compared(FUSED, GRAPH).findings if one.cause == "kernel_split"]
    assert (split.evidence.count_baseline, split.evidence.count_candidate) == pytest.approx((8, 16))


@pytest.mark.parametrize(("baseline", "candidate"), [(GRAPH, FUSED), ("graph_a2", "graph_fused_3")])
def test_fused_kernels_are_a_row_of_the_table(baseline, candidate, compared):
    rows = compared(baseline, candidate).kernels
    fused = [row for row in rows if row.match == "fused"]
    assert fused and all(
        row.baseline.count_per_step == pytest.approx(2 * row.candidate.count_per_step) for row in fused
    )
    kernels = [
        sum(getattr(row, side).count_per_step for row in rows if getattr(row, side))
        for side in ("baseline", "candidate")
    ]
    # a generation step launches 8 GEMMs fewer, the one mixed step of 30 fuses 32 more
    assert kernels[0] - kernels[1] == pytest.approx((29 * 8 + 8 + 32) / 30)
    generation = [one for row in fused for one in row.phases if one.phase == "generation"]
    counted = [(one.baseline_count, one.candidate_count) for one in generation]
    assert counted == [(16, 8)]


def test_what_is_launched_is_told_though_its_time_is_within_noise(compared):
    """Of one run a side, too, the number of launches is certain."""
    (fused,) = [one for one in compared("graph_a2", "graph_fused_3").findings if one.cause == "kernel_fused"]
    assert fused.level == "exact"
    assert (fused.evidence.count_baseline, fused.evidence.count_candidate) == pytest.approx((16, 8))
    assert not [one for one in compared("graph_a1", "graph_a2").findings if one.level == "exact"]
