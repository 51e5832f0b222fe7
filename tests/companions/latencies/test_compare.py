"""Latencies of two sides: figures worked out by hand and by plain Python, what chance gives, and the checks."""

from __future__ import annotations

import math
import statistics

import msgspec
import numpy as np
import pytest

from tests.swapping import close, plain, swapped
from tests.tiny import ROOT
from tracediff.companions.latencies.checks import find_warm_up, outlying
from tracediff.companions.latencies.compare import _traced, beside, compare_latencies
from tracediff.companions.latencies.read import LatencyFile, read_side
from tracediff.companions.verdict import related

FIXTURES = ROOT / "fixtures/latencies"
MS = 1e6


def run(values, name="run1.csv") -> LatencyFile:
    """A file of latencies, ns; its digest is that of its values."""
    values = np.asarray(values, dtype=np.float64)
    return LatencyFile(
        name, "csv", "latency_ms", "ms", "the name latency_ms", str(hash(values.tobytes())), values
    )


def noisy(rng, runs=5, n=60, cv=0.05, between=0.01, factor=1.0, related=0.0) -> list[LatencyFile]:
    """Runs of about 10 ms an iteration; `related`: correlation of neighbours."""
    made = []
    for number in range(runs):
        shocks = rng.normal(size=n)
        for at in range(1, n):
            shocks[at] = related * shocks[at - 1] + math.sqrt(1 - related**2) * shocks[at]
        values = 10 * MS * factor * np.exp(cv * shocks) * (1 + between * rng.normal())
        made.append(run(values, f"run{number + 1}.csv"))
    return made


def row(found, statistic):
    return next(one for one in found.rows if one.statistic == statistic)


def check(found, name):
    return next(one for one in found.checks if one.name == name)


# Figures


def test_figures_worked_out_by_hand():
    """1..10 ms against 2..20 ms. Linear interpolation: the median is between the 5th and 6th, p90 at place 0.9 * 9 = 8.1."""
    found = compare_latencies([run(np.arange(1, 11) * MS)], [run(np.arange(2, 21, 2) * MS)])
    expected = {"mean": 5.5, "median": 5.5, "p90": 9.1, "p99": 9.91, "min": 1.0}
    for name, ms in expected.items():
        one = row(found, name)
        assert one.baseline_ns == pytest.approx(ms * MS, rel=1e-12)
        assert one.candidate_ns == pytest.approx(2 * ms * MS, rel=1e-12)
        assert one.delta_ns == pytest.approx(ms * MS, rel=1e-12)
    (only,) = found.baseline.runs
    assert (only.iterations, only.trimmed, only.min_ns, only.max_ns) == (10, 0, MS, 10 * MS)
    assert found.step.runs == msgspec.convert({"baseline": 1, "candidate": 1}, type(found.step.runs))
    assert (found.baseline.quantiles_ns[0], found.baseline.quantiles_ns[100], found.baseline.quantiles_ns[-1]) == (
        MS, 5.5 * MS, 10 * MS,
    )  # fmt: skip


def plain_quantile(values, part):
    """Hyndman and Fan's 7th definition, in plain Python."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def test_figures_of_measured_runs_against_plain_python():
    sides = [read_side([FIXTURES / name]) for name in ("same_1", "more_5")]
    found = compare_latencies(*sides)
    for side, files in zip(("baseline", "candidate"), sides, strict=True):
        values = [file.ns[find_warm_up(file.ns).length :].tolist() for file in files]
        for name, of in (
            ("mean", statistics.fmean), ("median", statistics.median), ("min", min),
            ("p90", lambda one: plain_quantile(one, 0.9)), ("p99", lambda one: plain_quantile(one, 0.99)),
        ):  # fmt: skip
            expected = statistics.fmean([of(one) for one in values])
            assert getattr(row(found, name), f"{side}_ns") == pytest.approx(expected, rel=1e-12)


def test_known_changes_that_were_measured():
    """Twice the work is found; one program against itself is not; 5 % are beyond what so noisy a machine can tell."""
    same = read_side([FIXTURES / "same_1"])
    double = compare_latencies(same, read_side([FIXTURES / "double"]))
    assert double.verdict == "regressed"
    assert 0.8 < double.step.delta_ns / double.step.baseline_ns < 1.2
    assert double.step.ci_low_ns > 0
    for other in ("same_2", "more_5", "warm"):
        found = compare_latencies(same, read_side([FIXTURES / other]))
        assert found.verdict in ("no_change", "inconclusive"), other
        assert (found.step.min_detectable_ns or 0) > 0.05 * found.step.baseline_ns


def test_the_warm_up_that_was_measured_is_trimmed():
    """fixtures/latencies/warm: the first twelve iterations of each run do three times the work."""
    found = compare_latencies(read_side([FIXTURES / "same_1"]), read_side([FIXTURES / "warm"]))
    assert all(10 <= one.trimmed <= 15 for one in found.candidate.runs), [
        one.trimmed for one in found.candidate.runs
    ]


# Chance


@pytest.mark.slow
def test_one_program_against_itself_is_rarely_called_changed():
    rng = np.random.default_rng(1)
    verdicts = [compare_latencies(noisy(rng), noisy(rng)).verdict for _ in range(80)]
    changed = sum(one in ("improved", "regressed") for one in verdicts)
    assert changed <= 9  # of a binomial with 5 %: more than 9 once in a hundred times
    assert sum(one.startswith("likely") for one in verdicts) == 0


def test_a_single_run_a_side_is_at_most_likely_and_rarely_that():
    rng = np.random.default_rng(2)
    for factor, expected in ((1.0, {"no_change", "inconclusive"}), (1.2, {"likely_regressed"})):
        found = [compare_latencies(noisy(rng, 1, 120), noisy(rng, 1, 120, factor=factor)) for _ in range(25)]
        verdicts = [one.verdict for one in found]
        assert sum(one not in expected for one in verdicts) <= 1, verdicts
        assert all(one.step.p_value is None and not any(line.q_value for line in one.rows) for one in found)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_intervals_within_a_run_cover(correlation):
    """Of a program that does not differ from run to run, the interval excludes no change one time in twenty."""
    rng = np.random.default_rng(3)
    missed = np.zeros(4)
    repeats = 60
    for _ in range(repeats):
        sides = [noisy(rng, 1, 200, between=0.0, related=correlation) for _ in range(2)]
        found = compare_latencies(*sides)
        missed += [one.ci_low_ns > 0 or one.ci_high_ns < 0 for one in found.rows[:4]]
    often = 0.17 if correlation else 0.12  # blocks of n^(1/3) cover related neighbours in part
    assert (missed[:3] <= often * repeats).all(), missed  # mean, median, p90
    assert missed[3] <= 0.2 * repeats  # p99 of 200 iterations is two of them


def test_a_change_is_found_with_its_size():
    rng = np.random.default_rng(4)
    found = compare_latencies(noisy(rng), noisy(rng, factor=1.1))
    assert found.verdict == "regressed"
    assert found.step.ci_low_ns < 1 * MS < found.step.ci_high_ns
    assert row(found, "median").level == "confirmed" and row(found, "median").q_value < 0.05
    assert row(found, "mean").level == "confirmed" and row(found, "mean").q_value is None


# Properties


@pytest.mark.parametrize("runs", [(5, 5), (1, 1), (1, 4), (3, 2)])
def test_exchanged_sides_negate_everything(runs):
    rng = np.random.default_rng(6)
    one, other = noisy(rng, runs[0], 80), noisy(rng, runs[1], 120, factor=1.04)
    there, back = compare_latencies(one, other), compare_latencies(other, one)
    there, back = plain(there), plain(back)
    for found in (there, back):
        del (
            found["verdict_reason"],
            found["step"]["power_note"],
            found["step"]["runs_advised"],
            found["baseline"]["label"],
            found["candidate"]["label"],
        )
    assert close(swapped(there), back) == []


def test_a_side_against_itself_is_no_change_with_zeros():
    for runs in (1, 3, 5):
        side = noisy(np.random.default_rng(7), runs)
        found = compare_latencies(side, side)
        assert found.verdict == "no_change"
        assert [one.delta_ns for one in found.rows] == [0.0] * 5
        assert all(one.level == "within_noise" for one in found.rows)
        assert found.verdict_reason == "Mean and quantiles are the same on both sides."
        assert check(found, "copies").status == "warn"


def test_the_order_of_runs_is_irrelevant():
    side, other = noisy(np.random.default_rng(8), 4), noisy(np.random.default_rng(9), 4, factor=1.03)
    one, again = compare_latencies(side, other), compare_latencies(side[::-1], other)
    assert (one.step, one.verdict) == (again.step, again.verdict)
    for name in ("ci_low_ns", "ci_high_ns", "p_value"):
        assert [getattr(line, name) for line in one.rows] == pytest.approx(
            [getattr(line, name) for line in again.rows]
        )


def test_another_unit_gives_the_same_verdict():
    rng = np.random.default_rng(10)
    one, other = noisy(rng, 5), noisy(rng, 5, factor=1.05)
    small = [[run(file.ns / 1000, file.name) for file in side] for side in (one, other)]
    large, tiny = compare_latencies(one, other), compare_latencies(*small)
    assert large.verdict == tiny.verdict
    assert tiny.step.delta_ns == pytest.approx(large.step.delta_ns / 1000)
    assert [row.level for row in tiny.rows] == [row.level for row in large.rows]


# Checks


def test_copies_count_once():
    side = noisy(np.random.default_rng(11), 1)
    copies = [LatencyFile(f"run{n}.csv", "csv", "x", "ms", "", side[0].digest, side[0].ns) for n in range(5)]
    other = noisy(np.random.default_rng(12), 5, factor=2.0)
    found = compare_latencies(copies, other)
    assert len(found.baseline.runs) == 1 and found.verdict == "likely_regressed"
    assert check(found, "copies").status == "warn"
    assert check(found, "copies").baseline == "4 counted once: run1.csv, run2.csv, run3.csv, run4.csv"
    assert check(found, "runs").status == "warn"


def test_warm_up_by_the_rule():
    flat = np.tile([10.0, 10.1, 9.9, 10.05, 9.95], 40)
    assert find_warm_up(flat).length == 0
    slow = flat.copy()
    slow[:7] += [50, 20, 10, 8, 6, 5, 4]
    assert find_warm_up(slow).length == 7
    first = flat.copy()
    first[0] = 40.0
    assert find_warm_up(first).length == 1
    fast = flat.copy()
    fast[:7] -= 5
    assert find_warm_up(fast).length == 0  # faster is no warm-up
    late = flat.copy()
    late[100] = 500.0
    assert find_warm_up(late).length == 0  # an outlier is none
    never = np.linspace(40.0, 10.0, 200)
    assert (find_warm_up(never).steady, find_warm_up(never).length) == (False, 0)
    assert find_warm_up(slow[:19]).length == 0  # too few


def test_how_much_is_trimmed_is_said():
    slow = np.tile([10.0, 10.1, 9.9, 10.05, 9.95], 40) * MS
    slow[:10] *= 3
    plain_one = run(np.tile([10.0, 10.1, 9.9, 10.05, 9.94], 40) * MS, "b.csv")
    auto = compare_latencies([run(slow)], [plain_one])
    assert [one.trimmed for one in (*auto.baseline.runs, *auto.candidate.runs)] == [10, 0]
    assert (
        check(auto, "warm_up").baseline.startswith("10 of 200 trimmed")
        and check(auto, "warm_up").status == "ok"
    )


def test_outliers_are_counted_listed_and_kept():
    """19 values 10 to 10.9 and 11 apart: median 10, spread small; 40 and 0.1 are far out."""
    values = np.array([9.9, 10.0, 10.1] * 13) * MS
    values[20], values[30] = 40 * MS, 0.1 * MS
    assert np.flatnonzero(outlying(values)).tolist() == [20, 30]
    found = compare_latencies([run(values)], [run(values[::-1])])
    (one,) = found.baseline.runs
    assert one.outliers == 2 and [(far.iteration, far.ns) for far in one.largest] == [
        (21, 40 * MS),
        (31, 0.1 * MS),
    ]
    assert one.mean_ns == pytest.approx(values.mean())
    assert check(found, "outliers").status == "warn" and check(found, "outliers").baseline.startswith(
        "2 of 39 (5.1 %)"
    )
    assert outlying(np.array([5.0] * 20 + [5.2])).tolist()[-1] > 0  # no scatter: 1 % and more is far


def test_related_neighbours():
    rng = np.random.default_rng(14)
    assert abs(related(rng.normal(size=2000))) < 0.1
    walk = np.cumsum(rng.normal(size=2000))
    assert related(walk) > 0.9
    found = compare_latencies([run(10 * MS + 1e4 * walk)], [run(rng.normal(10 * MS, 1e5, 200))])
    assert check(found, "autocorrelation").status == "warn"


def test_few_iterations_and_queued_calls_that_move_the_mean():
    """Launches that return at once until the queue is full: most iterations take 20 us, one in twenty 20 ms."""
    queued = np.full(200, 0.02) * MS
    queued[19::20] = 20 * MS
    few = run(np.linspace(9, 11, 12) * MS)
    found = compare_latencies([run(queued)], [few])
    assert check(found, "outliers").status == "warn"
    assert check(found, "outliers").baseline.startswith("10 of 200 (5.0 %)")
    assert check(found, "iterations").status == "warn" and check(found, "iterations").candidate == "12"
    assert row(found, "p99").ci_low_ns is None  # of twelve iterations


def test_sides_that_are_far_apart_may_be_timed_in_two_ways():
    """One kernel of 19.75 ms: 1.59 ms where only its launch is timed."""
    waited, queued = (run(np.linspace(0.99, 1.01, 40) * ms * MS) for ms in (19.75, 1.59))
    found = check(compare_latencies([waited], [queued]), "ratio")
    assert (found.status, found.baseline, found.candidate) == ("warn", "19.8 ms", "1.59 ms")
    assert "12x apart" in found.message  # 19.75 / 1.59 = 12.4
    near = compare_latencies([waited], [run(np.linspace(0.99, 1.01, 40) * 4 * MS)])  # 4.9x
    assert "ratio" not in [each.name for each in near.checks]


def test_every_check_is_always_there():
    one = compare_latencies(noisy(np.random.default_rng(16)), noisy(np.random.default_rng(17)))
    assert [each.name for each in one.checks] == [
        "warm_up", "outliers", "autocorrelation", "iterations", "runs", "odd_runs", "copies", "columns",
    ]  # fmt: skip
    assert all(each.baseline and each.candidate and each.message for each in one.checks)
    crowded = compare_latencies(read_side([FIXTURES / "crowded"]), read_side([FIXTURES / "same_1"]))
    assert {"outliers"} <= {each.name for each in crowded.checks if each.status == "warn"}


@pytest.mark.parametrize("values", [[5.0], [5.0, 6.0], [0.0, 0.0, 0.0], [0.0], [1e15] * 30])
def test_any_number_of_iterations_gives_an_answer(values):
    found = compare_latencies([run(values)], [run([*values, values[0]])])
    assert found.verdict in ("no_change", "inconclusive")
    assert all(math.isfinite(one.delta_ns) for one in found.rows)


# Beside traces


@pytest.fixture(scope="module")
def traces():
    from tracediff.request import CompareRequest
    from tracediff.session import compare_request

    demo = ROOT / "fixtures/pairs"
    return compare_request(CompareRequest(demo / "base_1.sqlite.xz", demo / "gc5_1.sqlite.xz"))


def flat(step_ns: float, part: float, runs=2) -> list[LatencyFile]:
    """Runs whose mean is that part of a step of the trace."""
    return [
        run(part * step_ns * np.tile([0.99, 1.01, 1.0 + 0.001 * number], 40), f"{number}.csv")
        for number in range(runs)
    ]


def test_profiling_cost_beside_a_trace(traces):
    step = traces.step
    found = compare_latencies(flat(step.baseline_ns, 0.8), flat(step.candidate_ns, 0.8))
    together = beside(found, traces)
    for one, side in zip(together.traced, ("baseline", "candidate"), strict=True):
        assert one.side == side and one.corresponds
        unprofiled = getattr(found.step, f"{side}_ns")
        assert one.unprofiled_ns == unprofiled and one.traced_ns == getattr(step, f"{side}_ns")
        assert one.cost_ns == pytest.approx(one.traced_ns - unprofiled) and one.share == pytest.approx(
            0.25, abs=0.01
        )


def test_a_run_that_is_left_out_is_not_in_the_cost_of_profiling(traces):
    """Five runs of 0.8 of a step, one of them of 8: with it, the interval of the cost would reach below zero."""
    step = traces.step
    runs = [
        *flat(step.baseline_ns, 0.8, 4),
        run(8 * step.baseline_ns * np.tile([0.99, 1.01, 1.0], 40), "odd.csv"),
    ]
    found = compare_latencies(runs, flat(step.candidate_ns, 0.8, 5))
    assert [one.left_out for one in found.baseline.runs] == [False] * 4 + [True]
    one, other = (_traced(found, traces, side) for side in ("baseline", "candidate"))
    assert one.cost_ns == pytest.approx(0.2 * step.baseline_ns, rel=0.01)
    kept = compare_latencies(runs[:4], flat(step.candidate_ns, 0.8, 5))
    same = _traced(kept, traces, "baseline")
    assert (one.ci_low_ns, one.ci_high_ns) == (same.ci_low_ns, same.ci_high_ns)
    assert other.corresponds


def test_iterations_that_are_no_steps(traces):
    step = traces.step
    found = beside(compare_latencies(flat(step.baseline_ns, 30), flat(step.candidate_ns, 30)), traces)
    assert [one.corresponds for one in found.traced] == [False, False]
    assert [one.cost_ns for one in found.traced] == [None, None]
    assert "is not a step of the trace" in found.note
    short = beside(compare_latencies(flat(step.baseline_ns, 0.01), flat(step.candidate_ns, 0.01)), traces)
    assert "or did not wait for the GPU" in short.note and "did not wait" not in found.note


def test_what_both_say_together(traces):
    step = traces.step
    assert step.delta_ns > 0
    opposite = compare_latencies(flat(step.candidate_ns, 0.9, 3), flat(step.candidate_ns, 0.6, 3))
    if traces.verdict.endswith("regressed"):
        assert beside(opposite, traces).note.endswith("They contradict one another.")
    same = beside(
        compare_latencies(flat(step.baseline_ns, 0.95, 3), flat(step.candidate_ns, 0.95, 3)), traces
    )
    assert "without the profiler +" in same.note


def test_a_step_that_became_long_does_not_hide_a_contradiction(traces):
    """The candidate's step takes 1.78 of the baseline's, and its iteration 0.8 of it: 2.2 apart, by the change alone."""
    step = traces.step
    found = compare_latencies(flat(step.baseline_ns, 0.95, 5), flat(step.baseline_ns, 0.8, 5))
    assert found.verdict == "improved" and step.candidate_ns > 2 * found.step.candidate_ns
    likely = msgspec.structs.replace(traces, verdict="likely_regressed")
    together = beside(found, likely)
    assert [one.corresponds for one in together.traced] == [True, False]
    assert "They contradict one another." in together.note
    assert together.note.endswith("what profiling costs there is not known.")


def test_without_an_interval_nothing_is_claimed():
    found = compare_latencies([run([5.0 * MS])], [run([5.5 * MS])])
    assert row(found, "mean").ci_low_ns is None and found.verdict == "inconclusive"
    assert "fewer than 5 iterations" in found.verdict_reason
    assert all(one.level == "within_noise" for one in found.rows)


@pytest.mark.parametrize("few", [1, 4])
def test_repeats_of_one_side_do_not_speak_for_a_few_iterations_of_the_other(few):
    """Five runs of 200 iterations around 5 ms, and one run of 6 ms, 20 % more: its own scatter is not known."""
    rng = np.random.default_rng(3)
    repeats = [run(rng.normal(5 * MS, 0.05 * MS, 200).tolist(), f"run{number}.csv") for number in range(5)]
    lone = [run([6.0 * MS, 6.01 * MS, 5.99 * MS, 6.02 * MS][:few], "lone.csv")]
    for sides in ((lone, repeats), (repeats, lone)):
        found = compare_latencies(*sides)
        assert found.verdict == "inconclusive" and "fewer than 5 iterations" in found.verdict_reason
        assert all(one.level == "within_noise" and one.ci_low_ns is None for one in found.rows)
    enough = compare_latencies(repeats, [run(rng.normal(6 * MS, 0.05 * MS, 5).tolist(), "five.csv")])
    assert enough.verdict == "likely_regressed"


def test_columns_of_other_names_are_warned_of():
    def side(column):
        return [LatencyFile("a.csv", "csv", column, "ms", "", column, np.linspace(9, 11, 40) * MS)]

    for one, other, status in (
        ("ttft_ms", "latency_ms", "warn"),
        ("latency_us", "Latency (ms)", "ok"),
        ("latency_ms", "", "ok"),
    ):
        found = check(compare_latencies(side(one), side(other)), "columns")
        assert (found.status, found.baseline, found.candidate) == (status, one, other or "no name")


def test_a_run_that_lies_apart_is_left_out_and_named() -> None:
    """Of 100, 101, 102, 103, 1,000 us the last is left out: 101.5; of 120 to 124 nothing is: 122. With it the change is -159 us."""
    scatter = np.tile([-500.0, 0.0, 500.0], 20)
    sides = [
        [run(scatter + 1e3 * mean, f"{side}{mean}") for mean in means]
        for side, means in (("b", (100, 101, 102, 103, 1000)), ("c", (120, 121, 122, 123, 124)))
    ]
    found = compare_latencies(*sides)
    one = row(found, "median")
    assert (one.baseline_ns, one.candidate_ns, one.delta_ns) == pytest.approx((101.5e3, 122e3, 20.5e3))
    assert found.verdict == "regressed" and one.level == "confirmed"
    assert [each.left_out for each in found.baseline.runs] == [False] * 4 + [True]
    assert check(found, "odd_runs").status == "warn"
    assert check(found, "odd_runs").baseline == "b1000, mean 1.00 ms"
    assert check(found, "odd_runs").candidate == "none"
    two = compare_latencies([*sides[0][:3], run(scatter + 900e3, "b900"), sides[0][4]], sides[1])
    assert not any(each.left_out for each in two.baseline.runs)  # of two in five nobody can say which are odd
