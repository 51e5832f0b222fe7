"""Figures of two sides, the share that the step explains, the cost of profiling; all worked out by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judging import judge
from tests.report import sample
from tracediff.companions.bench.compare import (
    NO_CHANGE,
    compare_kpi,
    profiling_cost,
    show_kpi,
    with_bundle_kpi,
    with_kpi,
)
from tracediff.companions.bench.read import Kind, KpiReport, Metric, read
from tracediff.companions.bench.render import VALUES, first
from tracediff.companions.model import Kpi, KpiRow
from tracediff.comparison.gates import parse_gate
from tracediff.formats.bundle import Bundle, BundleRun
from tracediff.formats.inputs import SideFiles
from tracediff.session import _found

FIXTURES = Path(__file__).parents[3] / "fixtures" / "kpi"
MS = 1e6


def figures(values: dict[str, float]) -> dict[str, Metric]:
    units = {
        name: "ms" if name.endswith("_ms") else "tok/s" if name.endswith("_s") else "tok" for name in values
    }
    return {
        name: Metric(value, units[name], "lower" if units[name] == "ms" else "higher")
        for name, value in values.items()
    }


def report(*, kind: Kind = "serving-benchmark", source: str = "r.json", **values: float) -> KpiReport:
    return KpiReport(kind, source, figures(values))


def alike(names: list[str], value: float) -> KpiReport:
    return KpiReport("serving-benchmark", "r.json", figures(dict.fromkeys(names, value)))


def compare(
    baseline: KpiReport, candidate: KpiReport, before: float = 10 * MS, after: float = 11 * MS
) -> Kpi:
    return compare_kpi([baseline], [candidate], {"": (before, after), "generation": (before, after)})


def test_the_worked_example() -> None:
    """Step 10 -> 11 ms, TPOT 12 -> 13.25 ms: the step explains 1 of 1.25 ms."""
    kpi = compare(report(tpot_mean_ms=12.0), report(source="c.json", tpot_mean_ms=13.25))
    assert kpi == Kpi(
        source_baseline="r.json",
        source_candidate="c.json",
        rows=[KpiRow("tpot_mean_ms", "ms", "lower", 12.0, 13.25, 1.25, 0.8)],
        named=("tpot_mean_ms",),
    )
    assert first(kpi) == (
        "Unclear: TPOT 12 -> 13.25 ms (10.4 % worse). How much repeats differ is not known: give two reports per side."
        " The step time explains 80 % of the change of TPOT."
    )


def test_which_figures_the_step_can_explain() -> None:
    per_step = ["tpot_mean_ms", "itl_mean_ms", "host_step_time_mean_ms", "host_step_time_generation_mean_ms",
                "device_step_time_mean_ms"]  # fmt: skip
    others = ["tpot_p50_ms", "host_step_time_generation_p50_ms", "ttft_mean_ms", "e2e_mean_ms", "tpot_p99_ms", "itl_p99_ms", "output_throughput_tok_s",
              "iteration_latency_mean_ms", "gpu_forward_time_mean_ms"]  # fmt: skip
    names = per_step + others
    kpi = compare(alike(names, 10.0), alike(names, 12.0))
    assert {row.metric: row.explained for row in kpi.rows} == {
        **dict.fromkeys(per_step, 0.5),
        **dict.fromkeys(others, None),
    }


def test_a_figure_of_generation_steps_is_explained_by_those() -> None:
    """All steps 1.30 -> 1.79 ms, generation 0.98 -> 1.38 ms: a figure of generation of +0.40 ms is explained whole."""
    before, after = ({"host_step_time_generation_mean_ms": one, "itl_mean_ms": one} for one in (1.0, 1.4))
    steps = {"": (1.30 * MS, 1.80 * MS), "generation": (0.98 * MS, 1.38 * MS)}
    kpi = compare_kpi([report(**before)], [report(**after)], steps)
    assert {row.metric: row.explained for row in kpi.rows} == {
        "host_step_time_generation_mean_ms": pytest.approx(1.0),
        "itl_mean_ms": pytest.approx(1.25),
    }
    (row,) = compare_kpi([report(host_step_time_generation_mean_ms=1.0)], [report(host_step_time_generation_mean_ms=1.4)], {"": steps[""]}).rows  # fmt: skip
    assert row.explained is None  # the trace has no such steps


def test_speculative_decoding_yields_several_tokens_a_step() -> None:
    """2 tokens a step: a step slower by 1 ms makes a token slower by 0.5 ms, and an arrival by 1 ms."""
    before = report(tpot_mean_ms=5.0, itl_mean_ms=10.0, tokens_per_step=2.0)
    after = report(tpot_mean_ms=5.5, itl_mean_ms=11.0, tokens_per_step=4.0)  # the baseline's count is used
    explained = {row.metric: row.explained for row in compare(before, after).rows}
    assert explained == {"tpot_mean_ms": 1.0, "itl_mean_ms": 1.0, "tokens_per_step": None}


def test_improvement_and_opposite_moves() -> None:
    before, after = report(tpot_mean_ms=12.0), report(tpot_mean_ms=11.0)
    assert compare(before, after, 11 * MS, 10 * MS).rows[0].explained == pytest.approx(1.0)
    assert compare(before, after, 10 * MS, 11 * MS).rows[0].explained == pytest.approx(-1.0)
    assert compare(before, after, 10 * MS, 10 * MS).rows[0].explained == 0.0


def test_no_share_of_no_change() -> None:
    before = report(tpot_mean_ms=1000.0)
    assert compare(before, report(tpot_mean_ms=1000.0)).rows[0].explained is None
    within = 1000.0 * (1 + NO_CHANGE)  # 1005: 5 of 1005 is less than 0.5 %
    assert compare(before, report(tpot_mean_ms=within)).rows[0].explained is None
    assert compare(before, report(tpot_mean_ms=1010.0)).rows[0].explained == pytest.approx(0.1)


def test_no_share_without_a_step() -> None:
    kpi = compare(report(tpot_mean_ms=10.0), report(tpot_mean_ms=12.0), math.nan, 11 * MS)
    assert kpi.rows[0].delta == 2.0 and kpi.rows[0].explained is None


def test_means_of_several_reports_and_their_kinds() -> None:
    """TPOT 10 and 12 against 13: 11 -> 13. The iteration log is a report beside them."""
    baseline = [
        report(source="1.json", tpot_mean_ms=10.0),
        report(source="2.json", tpot_mean_ms=12.0),
        report(kind="iteration-log", source="3.log", host_step_time_p50_ms=9.0),
    ]
    candidate = [report(source="4.json", tpot_mean_ms=13.0, itl_mean_ms=1.0)]
    kpi = compare_kpi(baseline, candidate, {"": (10 * MS, 11 * MS)})
    assert (kpi.source_baseline, kpi.source_candidate) == ("1.json, 2.json, 3.log", "4.json")
    assert [(row.metric, row.baseline, row.candidate, row.explained) for row in kpi.rows] == [
        ("tpot_mean_ms", 11.0, 13.0, 0.5)
    ]
    assert kpi.note == (
        "The sides come from different tools (iteration-log, serving-benchmark and serving-benchmark),"
        " which may measure a figure of the same name differently."
        " Means of 3 baseline and 1 candidate reports."
        " Only in the baseline: host_step_time_p50_ms. Only in the candidate: itl_mean_ms."
    )


def test_order_of_rows() -> None:
    expected = [
        "output_throughput_tok_s",
        "ttft_p50_ms",
        "tpot_mean_ms",
        "itl_mean_ms",
        "itl_p50_ms",
        "itl_p99_ms",
        "itl_p99.9_ms",
        "e2e_mean_ms",
        "host_step_time_p50_ms",
        "tokens_per_step",
    ]
    for order in (expected[::2] + expected[1::2], expected[::-1]):
        one = alike(order, 1.0)
        assert [row.metric for row in compare(one, one).rows] == expected


def test_rows_are_called_by_what_they_are() -> None:
    named = {
        "e2e_mean_ms": "request latency mean, ms",
        "e2e_p99_ms": "request latency p99, ms",
        "ttft_p99_ms": "TTFT p99, ms",
        "total_throughput_tok_s": "total throughput, tok/s",
    }
    one = alike([*named], 1.0)
    assert {row.metric: VALUES["figure"](row, None) for row in compare(one, one).rows} == named


def test_without_reports() -> None:
    kpi = compare_kpi([], [report(tpot_mean_ms=1.0)], {"": (1.0, 1.0)})
    assert kpi.rows == [] and kpi.source_baseline == ""
    assert kpi.note == "Only in the candidate: tpot_mean_ms."


def test_two_real_formats_together() -> None:
    """trtllm-bench against the serving benchmark: TPOT 10.75 -> 12, step 10 -> 11: 1 of 1.25 ms."""
    kpi = compare(read(FIXTURES / "bench_streaming.json"), read(FIXTURES / "serving_summary.json"))
    rows = {row.metric: row for row in kpi.rows}
    assert rows["tpot_mean_ms"].explained == 0.8
    assert rows["request_throughput_req_s"].delta == 0.0
    assert "different tools (trtllm-bench and serving-benchmark)" in kpi.note


positive = st.floats(1e-6, 1e9)


@given(positive, positive, st.floats(0, 1e12), st.floats(0, 1e12))
def test_explained_times_delta_is_the_step_delta(
    before: float, after: float, step: float, then: float
) -> None:
    row = compare(report(itl_mean_ms=before), report(itl_mean_ms=after), step, then).rows[0]
    if row.explained is None:
        assert abs(row.delta) <= NO_CHANGE * max(before, after)
    else:
        assert row.explained * row.delta == pytest.approx((then - step) / MS)


# Profiling


def test_profiling_cost_of_one_run() -> None:
    cost = profiling_cost([11 * MS], [10 * MS])
    assert cost is not None
    assert cost.cost_ns == 1 * MS and cost.share == pytest.approx(0.1)
    assert cost.ci_low_ns is None and cost.ci_high_ns is None


def test_profiling_cost_of_several_runs() -> None:
    """Means 11 and 10, each of variance 0.02 / 2; Welch's df is 2, its t 4.3027: 1 +- 4.3027 * sqrt(0.02)."""
    cost = profiling_cost([10.9, 11.1], [9.9, 10.1])
    assert cost is not None and cost.ci_low_ns is not None and cost.ci_high_ns is not None
    assert cost.cost_ns == pytest.approx(1.0)
    assert cost.ci_low_ns == pytest.approx(1 - 0.6085, abs=1e-4)
    assert cost.ci_high_ns == pytest.approx(1 + 0.6085, abs=1e-4)


def test_one_outlying_run_does_not_decide_the_cost() -> None:
    cost = profiling_cost([11.0, 11.1, 10.9, 11.0, 50.0], [10.0, 10.1, 9.9, 10.0, 10.0])
    assert cost is not None and cost.ci_low_ns is not None and cost.ci_high_ns is not None
    assert cost.profiled_ns == pytest.approx((11.0 + 11.1 + 11.0) / 3)  # without 10.9 and 50
    assert cost.ci_low_ns < cost.cost_ns < cost.ci_high_ns < 2


@pytest.mark.parametrize("profiled", [[], [math.nan], [0.0], [-1.0], [math.inf, 1.0]])
def test_no_cost_without_runs(profiled: list[float]) -> None:
    assert profiling_cost(profiled, [1.0]) is None
    assert profiling_cost([1.0], profiled) is None


def test_benchmark_figures_are_means_of_the_reports() -> None:
    reports = [
        KpiReport("serving-benchmark", name, {"ttft_mean_ms": Metric(value, "ms", "lower")})
        for name, value in (("a.json", 10.0), ("b.json", 14.0))
    ]
    kpi = show_kpi(reports)
    assert kpi is not None and kpi.source == "a.json, b.json"
    assert [(row.metric, row.value) for row in kpi.rows] == [("ttft_mean_ms", 12.0)]


# Bundles


def bundle_of(folder: Path, reports: dict[str, list[dict]]) -> Bundle:
    """Name of a side, or of its runs without the profiler (`baseline-control`), -> the report of each run."""
    found: dict[str, tuple[BundleRun, ...]] = {}
    for name, texts in reports.items():
        paths = [folder / f"{name}{number}.json" for number in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(json.dumps(text))
        found[name] = tuple(BundleRun(path.stem, (), (path,)) for path in paths)
    sides = ("baseline", "candidate")
    return Bundle(
        {side: found.get(side, ()) for side in sides},
        {side: found.get(f"{side}-control", ()) for side in sides},
    )


def served(tpot_ms: float) -> dict:
    return {"mean_ttft_ms": 9.0, "mean_tpot_ms": tpot_ms, "mean_itl_ms": tpot_ms, "completed": 3}


def emulated(profiled: bool, median: float) -> dict:
    times = {"mean_us": median + 5, "median_us": median, "steps": 28}
    without = {**times, "median_us": 1.0} if profiled else times
    rank = {"rank": 0, "profiled_step": times if profiled else None, "unprofiled_step": without}
    return {"emulator": "mini_serve", "profiled": profiled, "ranks": [rank]}


@pytest.mark.parametrize(
    ("profiled", "control", "told"),
    [
        (
            [served(11.0), served(11.2)],
            [served(10.0), served(10.2)],
            "baseline itl_mean 10.100 ms without and 11.100 ms with the profiler: +1.000 ms, +9.9 %",
        ),
        (
            [emulated(True, 990.0), emulated(True, 1010.0)],
            [emulated(False, 840.0), emulated(False, 860.0)],
            "baseline host_step_time_generation_p50 0.850 ms without and 1.000 ms with the profiler",
        ),
    ],
    ids=["serving benchmark", "emulator"],
)
def test_the_profiling_cost_of_a_bundle(profiled, control, told, tmp_path, compared) -> None:
    bundle = bundle_of(tmp_path, {"baseline": profiled, "baseline-control": control})
    result = with_bundle_kpi(compared("graph_a1", "graph_a2"), bundle)
    assert result.kpi is not None and told in result.kpi.note


def test_latencies_of_controls_are_compared_and_what_is_no_report_is_told_once(tmp_path, compared) -> None:
    """40 latencies a run, 10 us without the profiler and 12 us with it, 2 us more in the candidate."""
    runs = []
    for number, latency in enumerate((12, 14, 12, 14, 10, 12)):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        (folder / "lat.csv").write_text("latency_us\n" + f"{latency}\n" * 40)
        (folder / "notes.txt").write_text("none\n")
        runs.append(BundleRun(folder.name, (), (folder / "lat.csv", folder / "notes.txt")))
    profiled = {"baseline": (runs[0], runs[2]), "candidate": (runs[1], runs[3])}
    controls = {"baseline": (runs[4],), "candidate": (runs[5],)}
    result, told = compared("graph_a1", "graph_a2"), []
    with_bundle_kpi(result, Bundle(profiled, controls), told.append)
    unknown = "was left out: not a report of a benchmark that is known here"
    assert told == [f"notes.txt of run0 and 5 more runs {unknown}"]
    told.clear()
    with_bundle_kpi(result, Bundle(profiled, dict.fromkeys(controls, ())), told.append)
    assert told == [
        "lat.csv of run0 and 3 more runs was left out: latencies are compared of runs without a profiler: tracediff capture --controls 2",
        f"notes.txt of run0 and 3 more runs {unknown}",
    ]
    files = [SideFiles(side, ()) for side in controls]
    (add,), notes = _found(files, ["none", "none"], {"kpi", "latencies"}, controls)
    latencies = add(result).latencies
    assert latencies is not None and not notes
    assert (latencies.step.baseline_ns, latencies.step.delta_ns) == (10_000, 2_000)


# Several reports a side


def sides(**values: tuple[list[float], list[float]]) -> Kpi:
    """A report for each value of both sides."""
    reports = [
        [report(**{name: both[side][run] for name, both in values.items()}) for run in range(len(next(iter(values.values()))[side]))]
        for side in (0, 1)
    ]  # fmt: skip
    return compare_kpi(reports[0], reports[1], {})


def test_with_repeats_a_figure_has_an_interval_and_a_level() -> None:
    """10 and 12 against 20 and 22: 10 +- 4.303 (t, 2 degrees of freedom) x sqrt(2/2 + 2/2)."""
    (row,) = sides(ttft_mean_ms=([10.0, 12.0], [20.0, 22.0])).rows
    assert (row.baseline, row.candidate, row.delta) == (11.0, 21.0, 10.0)
    assert row.ci_low == pytest.approx(10 - 4.30265 * math.sqrt(2), abs=1e-3)
    assert row.ci_high == pytest.approx(10 + 4.30265 * math.sqrt(2), abs=1e-3)
    assert row.level == "likely"  # of two runs a side
    (row,) = sides(ttft_mean_ms=([10.0, 12.0], [11.0, 13.0])).rows
    assert row.level == "within_noise"
    (row,) = sides(ttft_mean_ms=([10.0, 11.0, 12.0, 11.0], [20.0, 21.0, 22.0, 21.0])).rows
    assert row.level == "confirmed"


def test_a_verdict_on_what_users_notice_names_each_figure_once() -> None:
    """TTFT 11 -> 21 ms, its p99 30 +- 10 -> 40 +- 10; TPOT and ITL tell the same, output and request throughput too."""
    kpi = sides(
        ttft_mean_ms=([10.0, 12.0], [20.0, 22.0]), ttft_p99_ms=([30.0, 50.0], [40.0, 60.0]),
        tpot_mean_ms=([10.0, 10.1], [12.0, 12.1]), tpot_p99_ms=([20.0, 20.2], [30.0, 30.2]), itl_mean_ms=([10.0, 10.1], [12.0, 12.1]),
        output_throughput_tok_s=([1000.0, 1002.0], [800.0, 802.0]), request_throughput_req_s=([10.0, 10.1], [8.0, 8.1]),
    )  # fmt: skip
    assert kpi.verdict == "likely_regressed"
    assert first(kpi) == (
        "Likely slower: TTFT 11 -> 21 ms (90.9 % worse); TPOT 10.05 -> 12.05 ms (19.9 % worse), p99 20.1 -> 30.1 ms (49.8 % worse);"
        " output throughput 1,001 -> 801 tok/s (20.0 % worse)."
    )


def test_figures_that_moved_both_ways_are_mixed() -> None:
    kpi = sides(
        ttft_mean_ms=([10.0, 10.2, 10.1, 10.1], [8.0, 8.2, 8.1, 8.1]),
        itl_p99_ms=([10.0, 10.2, 10.1, 10.1], [20.0, 20.2, 20.1, 20.1]),
    )
    assert kpi.verdict == "mixed"
    assert first(kpi) == "Mixed: TTFT 10.1 -> 8.1 ms (19.8 % better); ITL p99 10.1 -> 20.1 ms (99.0 % worse)."
    better = sides(ttft_mean_ms=([10.0, 10.2, 10.1, 10.1], [8.0, 8.2, 8.1, 8.1]))
    assert (better.verdict, first(better)) == ("improved", "Faster: TTFT 10.1 -> 8.1 ms (19.8 % better).")


def test_figures_that_did_not_move() -> None:
    same = sides(ttft_mean_ms=([100.0, 101.0], [100.1, 101.1]), e2e_mean_ms=([10.0, 12.0], [100.0, 102.0]))
    assert same.verdict == "no_change"
    assert first(same) == "Same: TTFT 100.5 -> 100.6 ms (+0.1 %, within noise)."
    noisy = sides(ttft_mean_ms=([10.0, 12.0], [11.0, 13.0]))
    assert (noisy.verdict, first(noisy)) == (
        "inconclusive",
        "Unclear: TTFT 11 -> 12 ms (+9.1 %, within noise).",
    )


def test_an_iteration_log_alone_is_judged_by_its_steps() -> None:
    kpi = compare_kpi(
        [report(host_step_time_generation_mean_ms=1.0)], [report(host_step_time_generation_mean_ms=1.5)],
        {"generation": (1.0 * MS, 1.6 * MS)},
    )  # fmt: skip
    assert first(kpi) == (
        "Unclear: host step time generation 1 -> 1.5 ms (50.0 % worse). How much repeats differ is not known: give two reports per side."
        " The step time of the trace changed by more than host step time generation."
    )
    assert first(compare_kpi([], [], {})) == ""


def test_what_is_odd_in_a_report_is_a_warning(compared) -> None:
    reports = [read(FIXTURES / "profile_export_aiperf.json")]
    result = with_kpi(compared("graph_a1", "graph_a2"), reports, reports)
    assert [note.slug for note in result.warnings].count("kpi-failed-requests") == 2
    assert result.kpi is not None and result.kpi.verdict == "no_change"


def test_one_report_a_side_has_none() -> None:
    (row,) = compare(report(ttft_mean_ms=10.0), report(ttft_mean_ms=20.0)).rows
    assert (row.ci_low, row.ci_high, row.level) == (None, None, None)


def gated(text: str, kpi: Kpi) -> tuple[str, float | None]:
    outcome = judge(parse_gate(text), msgspec.structs.replace(sample.full(), kpi=kpi))
    return outcome.outcome, outcome.delta


def test_gates_limit_a_benchmarks_own_figures() -> None:
    kpi = sides(
        ttft_mean_ms=([10.0, 12.0], [20.0, 22.0]), ttft_p99_ms=([30.0, 50.0], [40.0, 60.0]),
        output_throughput_tok_s=([1000.0, 1002.0], [800.0, 802.0]),
    )  # fmt: skip
    assert gated("ttft:+10%", kpi) == ("failed", pytest.approx(10 * MS))
    assert gated("ttft:+11ms", kpi)[0] == "passed"
    assert gated("ttft.p99:+5%", kpi) == ("inconclusive", pytest.approx(10 * MS))  # 10 +- 60.8
    # 1001 -> 801 tokens a second: 999.0 -> 1248.4 us per token
    assert gated("throughput:+20%", kpi) == ("failed", pytest.approx(1e9 / 801 - 1e9 / 1001))
    assert gated("throughput:+30%", kpi)[0] == "passed"
    assert gated("tpot:+5%", kpi) == ("inconclusive", None)  # in no report


def test_of_one_report_a_side_a_gate_says_nothing() -> None:
    kpi = compare(report(ttft_mean_ms=10.0), report(ttft_mean_ms=20.0))
    assert gated("ttft:+10%", kpi)[0] == "inconclusive"
