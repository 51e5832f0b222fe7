"""Two sides of trtexec compared: percentiles by its rule, sums that close, and what can be said of a change."""

from __future__ import annotations

import json
import math
import random

import msgspec
import numpy as np
import pytest

from fixtures.builders import trtexec as made
from tracediff.companions.trtexec.compare import compare_trtexec, percentile, summarise
from tracediff.companions.trtexec.read import read

SAMPLE = [str(made.ROOT / side) for side in ("fp32", "fp16")]


def compare(one, other):
    return compare_trtexec(read(str(one)), read(str(other)))


def figure(found, metric):
    return next(one for one in found.figures if one.metric == metric)


def slugs(found) -> set[str]:
    return {note.slug for note in found.warnings}


@pytest.fixture
def sample():
    return compare(*SAMPLE)


# Percentiles: sampleReporting.cpp computes the number of values above in float32


@pytest.mark.parametrize(
    ("count", "percent", "place"),
    [(10, 90, 8), (10, 95, 9), (10, 99, 9), (100, 90, 89), (100, 95, 94), (100, 99, 99), (200, 99, 198), (1000, 99, 990),
     (1, 99, 0), (7, 0, 0), (7, 100, 6), (3, 50, 1)],
)  # fmt: skip
def test_percentiles_by_hand(count, percent, place):
    """1 - 0.99 is 0.00999999 in float32: of 100 iterations none lies above the 99th percentile; 1 - 0.9 is 0.100000024."""
    assert percentile(np.arange(float(count)), percent) == place


def test_figures_of_a_few_iterations():
    found = summarise(np.array([3.0, 1.0, 2.0, 4.0]))
    assert found == {"mean": 2.5, "min": 1.0, "max": 4.0, "median": 2.5, "p90": 4.0, "p95": 4.0, "p99": 4.0}


# The sample: fixtures/trtexec/README.md has the sums


def test_the_figures_of_the_sample(sample):
    compute = figure(sample, "gpu_compute")
    # 8.10 / 10 and 6.10 / 10 ms; of ten the 90th percentile is the ninth
    assert compute.baseline == pytest.approx(
        {"mean": 810e3, "min": 790e3, "max": 880e3, "median": 800e3, "p90": 820e3, "p95": 880e3, "p99": 880e3}
    )  # fmt: skip
    assert compute.candidate["mean"] == pytest.approx(610e3) and compute.delta["p90"] == pytest.approx(-200e3)
    assert figure(sample, "latency").candidate["mean"] == pytest.approx(680e3)
    through = figure(sample, "throughput")
    assert (through.baseline, through.candidate) == ({"mean": 1005.03}, {"mean": 1257.86})
    assert through.source == ["log", "log"] and compute.source == ["times", "times"]
    assert figure(sample, "layers").delta["mean"] == pytest.approx(-192e3)
    # two runs are assumed to differ by 2 % of 810 us, a run to scatter by 16.2 / (1.96 sqrt 2) = 5.844 us; with one run a side
    # 2.571 (t of 5 degrees of freedom) * 1.65 * 5.844 = 24.79: as factors, 25.17 and 24.29 downwards, 24.41 and 25.30 upwards
    assert (
        compute.noise_ns
        == pytest.approx((math.hypot(25.17e3, 24.29e3) + math.hypot(24.41e3, 25.30e3)) / 2, rel=1e-3)
        and compute.level == "likely"
        and compute.p_value is None
    )
    assert sample.verdict == "likely_improved" and "one run per side" in sample.verdict_reason
    assert figure(sample, "enqueue").level == "within_noise"


def test_the_layers_of_the_sample(sample):
    rows = {row.match: row for row in sample.rows}
    assert rows["fused"].sentence == "2 layers became 1, 410 -> 300 us (-26.8 %)"
    assert rows["split"].sentence == "1 layer became 2, 100 -> 90.0 us (-10.0 %)"
    conv = next(row for row in sample.rows if row.baseline and row.baseline.names[0].startswith("/conv1"))
    assert conv.sentence == "precision FP32 -> FP16, other tactic, 210 -> 120 us (-42.9 %)"
    assert [(one.what, one.before, one.after) for one in conv.changes] == [
        ("precision", "FP32", "FP16"),
        ("tactic", "sm80_xmma_fprop_f32f32_tilesize128x64", "sm80_xmma_fprop_f16f16_tilesize256x128"),
    ]
    added = [row for row in sample.rows if row.match == "added"]
    assert [row.delta_ns for row in added] == pytest.approx([15e3, 8e3]) and all(
        row.reformat for row in added
    )
    assert (sample.candidate.reformats, sample.candidate.reformat_ns) == (2, pytest.approx(23e3))
    assert [row.match for row in sample.rows] == [
        "fused",
        "exact",
        "added",
        "split",
        "added",
        "normalised",
        "exact",
    ]


def test_sums_close(sample):
    assert sample.baseline.total_ns == pytest.approx(810e3) and sample.candidate.total_ns == pytest.approx(
        618e3
    )
    for side in ("baseline", "candidate"):
        total = getattr(sample, side).total_ns
        times = [getattr(row, side).time_ns for row in sample.rows if getattr(row, side)]
        assert sum(times) == pytest.approx(total)
        for kind in ("type", "precision"):
            groups = [one for one in sample.groups if one.kind == kind]
            assert sum(getattr(one, f"{side}_ns") for one in groups) == pytest.approx(total)
            assert sum(getattr(one, f"{side}_layers") for one in groups) == getattr(sample, side).layers
    delta = sample.candidate.total_ns - sample.baseline.total_ns
    assert sum(row.delta_ns for row in sample.rows) == pytest.approx(delta)
    by_type = {one.name: (one.baseline_ns, one.candidate_ns) for one in sample.groups if one.kind == "type"}
    assert by_type["Convolution"] == pytest.approx((510e3, 420e3))
    assert by_type["Reformat"] == pytest.approx((0.0, 23e3))
    by_precision = {one.name: one.candidate_ns for one in sample.groups if one.kind == "precision"}
    assert by_precision == pytest.approx({"FP32": 8e3, "FP16": 610e3})


def test_swapping_the_sides_negates(sample):
    back = compare(*reversed(SAMPLE))
    for one in sample.figures:
        other = figure(back, one.metric)
        assert other.delta == pytest.approx({key: -value for key, value in one.delta.items()})
        assert (other.level, other.ci_low_ns, other.ci_high_ns) == (
            one.level,
            pytest.approx(-one.ci_high_ns),
            pytest.approx(-one.ci_low_ns),
        )
    assert back.verdict == "likely_regressed"
    assert sorted(-row.delta_ns for row in back.rows) == pytest.approx(
        sorted(row.delta_ns for row in sample.rows)
    )
    mirrored = {"fused": "split", "split": "fused", "added": "removed"}
    assert sorted(row.match for row in back.rows) == sorted(
        mirrored.get(row.match, row.match) for row in sample.rows
    )


def test_a_side_and_itself_are_no_change():
    found = compare(SAMPLE[0], SAMPLE[0])
    assert found.verdict == "no_change" and "every figure is the same" in found.verdict_reason
    assert all(value == 0 for one in found.figures for value in one.delta.values())
    assert [row.delta_ns for row in found.rows] == [0.0] * 6
    assert {row.match for row in found.rows} == {"exact"} and not any(row.changes for row in found.rows)
    assert {one.level for one in found.figures} == {"within_noise"}


def test_the_order_of_rows_in_the_files_does_not_matter(sample, tmp_path):
    rng = random.Random(3)
    for side in ("fp32", "fp16"):
        texts = made.sample(side)
        entries = json.loads(texts["profile"])
        infos = json.loads(texts["layers"])
        for rows in (entries, infos["Layers"]):
            rng.shuffle(rows)
        made.write(
            tmp_path / side,
            **texts
            | {"profile": json.dumps([{"count": 100}, *(one for one in entries if "name" in one)])}
            | {"layers": json.dumps(infos)},
        )
    found = compare(tmp_path / "fp32", tmp_path / "fp16")
    assert [msgspec.structs.replace(row, baseline=None, candidate=None) for row in found.rows] == [
        msgspec.structs.replace(row, baseline=None, candidate=None) for row in sample.rows
    ]
    assert found.figures == sample.figures and found.verdict == sample.verdict


# The log against the times


def run(folder, compute, log=None, every=1.0, **options):
    texts = {"times": made.times(compute, every=every, **options)}
    return made.write(folder, **texts, **({"log": log} if log else {}))


def test_a_log_of_another_run_is_told(tmp_path):
    other = made.SUMMARY["fp32"] | {"gpu_compute": made.SUMMARY["fp32"]["gpu_compute"] | {"90": 0.85}}
    one = run(tmp_path / "one", made.COMPUTE["fp32"], made.log(other, throughput=1005.03))
    found = compare(one, SAMPLE[1])
    (told,) = [note.message for note in found.warnings if note.slug == "trtexec-log-differs"]
    assert "GPU compute time, p90: 850 us in the log, 820 us from the times" in told
    assert figure(found, "gpu_compute").baseline["p90"] == pytest.approx(820e3)
    # of such a log nothing is taken: 10 / 9.95 ms
    assert figure(found, "throughput").source[0] == "times"
    assert figure(found, "throughput").baseline["mean"] == pytest.approx(10 / 9.95e-3)


def test_the_sample_and_its_log_agree(sample):
    assert "trtexec-log-differs" not in slugs(sample)


def test_warm_ups_of_old_versions_are_left_out_by_the_log(tmp_path):
    log = made.log(made.SUMMARY["fp32"], throughput=1005.03, warmups=3)
    values = [5.0, 5.0, 5.0, *made.COMPUTE["fp32"]]
    one = run(tmp_path / "one", values, log, first=197.0, end_to_end=True)
    found = compare(one, SAMPLE[1])
    assert figure(found, "gpu_compute").baseline["mean"] == pytest.approx(810e3)
    assert found.baseline.runs[0].iterations == 10
    assert not {"trtexec-log-differs", "trtexec-warmups"} & slugs(found)
    # without it they cannot be told apart: (15 + 8.1) / 13
    found = compare(run(tmp_path / "alone", values, end_to_end=True), SAMPLE[1])
    assert figure(found, "gpu_compute").baseline["mean"] == pytest.approx(23.1e6 / 13)
    assert "trtexec-warmups" in slugs(found)


def test_logs_that_differ_in_more_than_the_engine(tmp_path):
    logs = [
        made.log(
            made.SUMMARY["fp32"], throughput=1005.03, device=device, options={"CUDA Graph": graph}, profile_in=apart
        )
        for device, graph, apart in (("NVIDIA H200", "Disabled", "Enabled"), ("NVIDIA A100", "Enabled", "Disabled"))
    ]  # fmt: skip
    sides = [made.write(tmp_path / str(number), log=log) for number, log in enumerate(logs)]
    found = compare(*sides)
    assert slugs(found) == {"trtexec-devices-differ", "trtexec-options-differ", "trtexec-profiled"}
    assert "CUDA Graph Disabled -> Enabled" in " ".join(note.message for note in found.warnings)
    # a log alone has no iterations: the interval is that of the assumed noise
    assert found.verdict == "no_change"


def test_a_log_alone_gives_a_verdict(tmp_path):
    sides = [
        made.write(tmp_path / side, log=made.log(made.SUMMARY[side], throughput=made.THROUGHPUT[side]))
        for side in ("fp32", "fp16")
    ]
    found = compare(*sides)
    compute = figure(found, "gpu_compute")
    assert found.verdict == "likely_improved" and compute.source == ["log", "log"]
    assert (compute.ci_low_ns, compute.ci_high_ns) == (
        pytest.approx(-200e3 - math.hypot(25.17e3, 24.29e3), rel=1e-3),
        pytest.approx(-200e3 + math.hypot(24.41e3, 25.30e3), rel=1e-3),
    )


# Several runs a side


def runs(folder, means, spread=0.01):
    for number, mean in enumerate(means):
        values = [mean * (1 + spread * math.sin(step)) for step in range(40)]
        run(folder / f"run{number}", values)
    return folder


def test_several_runs_a_side_confirm(tmp_path):
    before = runs(tmp_path / "before", (0.80, 0.81, 0.79, 0.80, 0.802))
    after = runs(tmp_path / "after", (0.60, 0.61, 0.59, 0.60, 0.602))
    found = compare(before, after)
    compute = figure(found, "gpu_compute")
    assert found.verdict == "improved" and compute.level == "confirmed"
    assert compute.p_value is not None and compute.p_value == pytest.approx(
        2 / 252
    )  # of all ways to deal out ten runs
    assert len(found.baseline.runs) == 5
    again = compare(before, runs(tmp_path / "same", (0.801, 0.809, 0.791, 0.80, 0.799)))
    assert again.verdict == "no_change"


def test_two_runs_a_side_are_at_most_likely(tmp_path):
    found = compare(runs(tmp_path / "a", (0.80, 0.81)), runs(tmp_path / "b", (0.60, 0.61)))
    assert found.verdict == "likely_improved" and "too few runs" in found.verdict_reason


def test_profiles_of_several_runs_are_averaged_and_other_engines_left_out(tmp_path):
    for number, us in enumerate((100.0, 120.0)):
        made.write(tmp_path / "a" / f"r{number}", profile=made.profile(10, [("x", us), ("y", 50.0)]))
    made.write(tmp_path / "a" / "r2", profile=made.profile(10, [("x + y", 900.0)]))
    made.write(tmp_path / "b", profile=made.profile(10, [("y", 50.0), ("x", 110.0)]))
    found = compare(tmp_path / "a", tmp_path / "b")
    assert {row.baseline.names[0]: row.baseline.time_ns for row in found.rows} == pytest.approx(
        {"x": 110e3, "y": 50e3}
    )
    assert [row.delta_ns for row in found.rows] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert "trtexec-runs-differ" in slugs(found)


# What is not in the files


def test_layer_info_with_names_only_and_no_profile(tmp_path):
    sides = [
        made.write(tmp_path / str(number), layers=made.layers(list(names)))
        for number, names in enumerate((("a", "b"), ("a + b", "c")))
    ]
    found = compare(*sides)
    assert {(row.match, row.delta_ns, row.level) for row in found.rows} == {
        ("fused", None, None),
        ("added", None, None),
    }
    assert found.rows[0].baseline.time_ns is None and found.baseline.total_ns is None
    assert found.groups == [] and found.verdict == "inconclusive"
    same = compare(sides[0], sides[0])
    assert same.verdict == "no_change" and same.figures == []


def test_a_layer_that_the_profile_does_not_have_has_no_time(tmp_path):
    info = made.layers(
        [made.layer("a", "Convolution", ("Half", "Half")), made.layer("n", "NoOp", ("Half", "Half"))]
    )
    side = made.write(tmp_path / "x", profile=made.profile(10, [("a", 10.0)]), layers=info)  # fmt: skip
    found = compare(side, side)
    assert {row.baseline.names[0]: (row.baseline.time_ns, row.delta_ns, row.level) for row in found.rows} == {
        "a": (pytest.approx(10e3), 0.0, "within_noise"),
        "n": (None, None, None),
    }
    assert found.baseline.total_ns == pytest.approx(10e3) and found.baseline.layers == 2


def test_sides_with_nothing_in_common(tmp_path):
    one = made.write(tmp_path / "a", profile=made.profile(10, [("a", 10.0)]))
    other = made.write(tmp_path / "b", times=made.times([0.8, 0.9]))
    found = compare(one, other)
    assert found.verdict == "inconclusive" and "No figure" in found.verdict_reason
    assert "trtexec-layers-one-side" in slugs(found) and found.rows == []
    assert all(one.level is None and one.delta == {} for one in found.figures)
    apart = compare(one, made.write(tmp_path / "c", profile=made.profile(10, [("z", 10.0)])))
    assert "trtexec-nothing-paired" in slugs(apart)


def test_layers_without_time_do_not_divide_by_it(tmp_path):
    side = made.write(
        tmp_path / "x", profile=made.profile(10, [("a", 0.0)]), times=made.times([0.0, 0.0], h2d=0, d2h=0)
    )
    assert compare(side, side).verdict == "no_change"
    other = made.write(
        tmp_path / "y", profile=made.profile(10, [("a", 5.0)]), times=made.times([0.5], h2d=0, d2h=0)
    )
    found = compare(side, other)
    assert found.rows[0].delta_ns == pytest.approx(5e3) and found.rows[0].sentence == "0 -> 5.00 us"


def test_sides_of_one_name_are_told_apart(tmp_path):
    sides = [made.write(tmp_path / one / "trt", times=made.times([0.8])) for one in ("a", "b")]
    found = compare(*sides)
    assert found.baseline.label != found.candidate.label
