"""Readers of benchmark reports: figures worked out by hand from fixtures/kpi, and hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracediff.companions.bench import read as kpi
from tracediff.companions.bench import read as kpi_log
from tracediff.companions.bench.read import Iteration, KpiReport, Metric, read
from tracediff.errors import TracediffError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "kpi"


def values(report: KpiReport) -> dict[str, float]:
    return {name: metric.value for name, metric in report.metrics.items()}


def slugs(report: KpiReport) -> list[str]:
    return [note.slug for note in report.warnings]


# trtllm-bench


def test_trtllm_bench_with_streaming() -> None:
    report = read(FIXTURES / "bench_streaming.json")
    assert (report.kind, report.source) == ("trtllm-bench", "bench_streaming.json")
    assert values(report) == {
        "request_throughput_req_s": 20.0,
        "output_throughput_tok_s": 5120.0,
        "total_throughput_tok_s": 25600.0,
        "output_throughput_per_gpu_tok_s": 5120.0,
        "output_throughput_per_user_tok_s": 83.25,
        "generation_speed_per_user_tok_s": 92.5,
        "e2e_mean_ms": 3075.0, "e2e_p50_ms": 3060.0, "e2e_p90_ms": 3200.0,
        "e2e_p95_ms": 3250.0, "e2e_p99_ms": 3300.0,
        "ttft_mean_ms": 312.5, "ttft_p50_ms": 300.0, "ttft_p90_ms": 400.0,
        "ttft_p95_ms": 420.0, "ttft_p99_ms": 450.0,
        "tpot_mean_ms": 10.75, "tpot_p50_ms": 10.5, "tpot_p90_ms": 11.5,
        "tpot_p95_ms": 11.75, "tpot_p99_ms": 12.25,
    }  # fmt: skip
    assert report.metrics["ttft_mean_ms"] == Metric(312.5, "ms", "lower")
    assert report.metrics["request_throughput_req_s"] == Metric(20.0, "req/s", "higher")
    assert report.metrics["output_throughput_tok_s"] == Metric(5120.0, "tok/s", "higher")
    assert report.iterations == [] and report.warnings == []


def test_trtllm_bench_without_streaming_has_no_ttft_or_tpot() -> None:
    report = read(FIXTURES / "bench_speculative.json")
    assert not [name for name in report.metrics if name.startswith(("ttft", "tpot", "itl"))]
    assert report.metrics["tokens_per_step"] == Metric(2.5, "tok", "higher")
    assert "e2e_p90_ms" not in report.metrics  # an older release has no p90
    assert report.metrics["e2e_p95_ms"].value == 1000.0


# The emulator


@pytest.mark.parametrize(("profiled", "p50", "mean"), [(True, 0.98, 1.0), (False, 0.87, 0.88)])
def test_the_emulator_times_the_steps_that_the_run_is_of(
    profiled: bool, p50: float, mean: float, tmp_path: Path
) -> None:
    """Inside the profiled window where there is one: 1000 us is 1 ms."""
    inside = '{"mean_us": 1000.0, "median_us": 980.0, "steps": 28}' if profiled else "null"
    path = tmp_path / "emulator.json"
    path.write_text(
        f'{{"emulator": "mini_serve", "profiled": {str(profiled).lower()}, "ranks": [{{"rank": 0, "profiled_step": {inside},'
        ' "unprofiled_step": {"mean_us": 880.0, "median_us": 870.0, "steps": 32}}, {"rank": 1}]}'
    )
    report = read(path)
    assert report.kind == "emulator"
    assert values(report) == {
        "host_step_time_generation_p50_ms": pytest.approx(p50),
        "host_step_time_generation_mean_ms": pytest.approx(mean),
    }
    assert report.metrics["host_step_time_generation_p50_ms"].better == "lower"


def test_an_emulator_without_a_step_is_no_report(tmp_path: Path) -> None:
    path = tmp_path / "emulator.json"
    path.write_text('{"emulator": "mini_serve", "profiled": true, "ranks": []}')
    with pytest.raises(TracediffError) as refused:
        read(path)
    assert refused.value.slug == "kpi-unknown-format"


# The serving benchmark


def test_serving_summary() -> None:
    report = read(FIXTURES / "serving_summary.json")
    assert report.kind == "serving-benchmark"
    assert values(report) == {
        "request_throughput_req_s": 20.0,
        "output_throughput_tok_s": 5120.0,
        "total_throughput_tok_s": 25600.0,
        "request_speed_per_user_tok_s": 83.5,
        "ttft_mean_ms": 250.0, "ttft_p50_ms": 240.0, "ttft_p99_ms": 480.0,
        "tpot_mean_ms": 12.0, "tpot_p50_ms": 11.75, "tpot_p99_ms": 13.5,
        "itl_mean_ms": 11.875, "itl_p50_ms": 11.0, "itl_p99_ms": 40.0, "itl_p99.9_ms": 55.0,
        "e2e_mean_ms": 3060.0, "e2e_p50_ms": 3050.0, "e2e_p99_ms": 3300.0,
    }  # fmt: skip
    assert report.warnings == []


def test_a_detailed_report_of_which_requests_failed() -> None:
    report = read(FIXTURES / "serving_detailed.json")
    figures = values(report)
    assert figures["ttft_mean_ms"] == 200.0 and figures["ttft_p99_ms"] == 299.0
    assert "ttft_p90_ms" not in figures
    assert "request_speed_per_user_tok_s" not in figures  # NaN
    assert slugs(report) == ["kpi-failed-requests"]
    assert "1 of 3 requests failed" in report.warnings[0].message


def test_zero_latency_is_not_measured_and_zero_throughput_is(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(
        '{"request_throughput": 0.0, "output_throughput": 5.0, "mean_ttft_ms": 0.0, "mean_itl_ms": -1}'
    )
    assert values(read(path)) == {"request_throughput_req_s": 0.0, "output_throughput_tok_s": 5.0}


# genai-perf and aiperf


def test_genai_perf() -> None:
    """Its inter token latency is (latency - TTFT) / (tokens - 1) of each request: what others call TPOT."""
    report = read(FIXTURES / "profile_export_genai_perf.json")
    assert report.kind == "genai-perf" and report.warnings == []
    assert values(report) == {
        "request_throughput_req_s": 20.0, "output_throughput_tok_s": 5120.0, "output_throughput_per_user_tok_s": 83.25,
        "e2e_mean_ms": 3075.0, "e2e_p50_ms": 3060.0, "e2e_p90_ms": 3200.0, "e2e_p95_ms": 3250.0, "e2e_p99_ms": 3300.0,
        "ttft_mean_ms": 312.5, "ttft_p50_ms": 300.0, "ttft_p90_ms": 400.0, "ttft_p95_ms": 420.0, "ttft_p99_ms": 450.0,
        "tpot_mean_ms": 10.75, "tpot_p50_ms": 10.5, "tpot_p90_ms": 11.5, "tpot_p95_ms": 11.75, "tpot_p99_ms": 12.25,
    }  # fmt: skip
    assert report.metrics["request_throughput_req_s"] == Metric(20.0, "req/s", "higher")


def test_aiperf_counts_failed_requests_apart() -> None:
    report = read(FIXTURES / "profile_export_aiperf.json")
    figures = values(report)
    assert report.kind == "aiperf" and slugs(report) == ["kpi-failed-requests"]
    assert "2 of 500 requests failed" in report.warnings[0].message
    assert (figures["tpot_mean_ms"], figures["itl_mean_ms"], figures["itl_p99_ms"]) == (12.9, 12.5, 40.0)
    assert (figures["total_throughput_tok_s"], figures["generation_speed_per_user_tok_s"]) == (25600.0, 92.5)


def test_a_block_says_its_unit(tmp_path: Path) -> None:
    path = tmp_path / "profile_export_aiperf.json"
    path.write_text(
        '{"time_to_first_token": {"unit": "sec", "avg": 0.25, "p99": "x"}, "was_cancelled": true,'
        ' "inter_token_latency": {"unit": "fortnights", "avg": 3}, "request_latency": 7}'
    )
    report = read(path)
    assert values(report) == {"ttft_mean_ms": 250.0}
    assert slugs(report) == ["kpi-unknown-unit", "kpi-failed-requests"]
    assert "inter_token_latency in 'fortnights'" in report.warnings[0].message


# Iteration logs of the PyTorch backend


def test_iteration_log() -> None:
    report = read(FIXTURES / "iter_log.log")
    assert report.kind == "iteration-log"
    assert report.iterations == [
        Iteration(10, 0, 2, 2, 0, 40.0, 2048),
        Iteration(10, 1, 2, 2, 0, 42.0, 2048),
        Iteration(11, 0, 2, 0, 2, 10.0, 0),
        Iteration(11, 1, 2, 0, 2, 11.0, 0),  # rank 1's next line is broken
        Iteration(12, 0, 0, 0, 0, 1500.0, 0),  # idle: its states are stale
        Iteration(13, 0, 1, 0, 1, 12.0, 0),  # the last
    ]
    assert values(report) == {
        "host_step_time_mean_ms": pytest.approx((40 + 42 + 10 + 11 + 12) / 5),
        "host_step_time_p50_ms": 12.0,
        "host_step_time_generation_p50_ms": 11.0,  # of 10, 11, 12
        "device_step_time_mean_ms": pytest.approx((38.5 + 39.5 + 9.0) / 3),  # not the idle 1490
        "device_step_time_p50_ms": 38.5,
        "device_step_time_generation_p50_ms": 9.0,
        "kv_cache_used_max_pct": 12.5,
        "kv_cache_used_mean_pct": pytest.approx((12.5 + 12.5 + 6.3) / 3),  # not of the idle one
    }
    assert slugs(report) == ["kpi-malformed-lines", "kpi-idle-iterations"]
    assert "1 iteration lines" in report.warnings[0].message
    assert "1 of 6 iterations" in report.warnings[1].message


def test_iteration_log_of_older_releases() -> None:
    report = read(FIXTURES / "iter_log_older.log")
    assert report.iterations == [Iteration(100, 0, 8, 0, 8, 10.5, 0), Iteration(101, 0, 9, 1, 8, 14.5, 512)]
    # 9.75 ms belong to iteration 99, which the log does not hold: they count all the same.
    assert report.metrics["device_step_time_mean_ms"].value == 10.0
    assert report.metrics["device_step_time_generation_p50_ms"].value == 10.25
    oldest = read(FIXTURES / "iter_log_oldest.log")
    assert oldest.iterations == [Iteration(5, 0, 4, 0, 4, 12.5, 0)]
    assert oldest.warnings == []


@pytest.mark.parametrize(
    "damage",
    [
        ("iter = 5,", "iter = ?,"),
        ("elapsed_time = 0.0125s", "elapsed_time = fast"),
        ("elapsed_time = 0.0125s", "elapsed_time = -0.1s"),
        ("elapsed_time = 0.0125s", "elapsed_time = N/A"),
        ("global_rank = 0", "global_rank = x"),
        ("num_scheduled_requests: 4", "num_scheduled_requests: ?"),
        ("states = ", "iter = 6, states = "),
        ("states = {", "{"),
    ],
)
def test_broken_lines_are_counted(tmp_path: Path, damage: tuple[str, str]) -> None:
    good = (FIXTURES / "iter_log_oldest.log").read_text()
    bad = good.replace(*damage)
    assert bad != good
    path = tmp_path / "log"
    path.write_text(bad + good + bad)
    report = read(path)
    assert len(report.iterations) == 1
    assert [note.message for note in report.warnings] == ["log: 2 iteration lines are broken"]


def test_a_line_of_one_long_word_ends(tmp_path: Path) -> None:
    """200,000 letters: what takes a square of them takes minutes."""
    good = (FIXTURES / "iter_log_oldest.log").read_text()
    path = tmp_path / "log"
    path.write_text(good.replace("num_scheduled_requests: 4", "x" * 200_000) + good)
    assert len(read(path).iterations) == 2


def test_device_time_of_a_far_iteration_is_not_dropped_for_an_idle_one(tmp_path: Path) -> None:
    line = (
        "iter = {}, rank = 0, num_scheduled_requests = {}, host_step_time = 1ms, "
        "prev_device_step_time = {}ms, states = {{}}\n"
    )
    path = tmp_path / "log"
    path.write_text(line.format(100, 0, 7) + line.format(200, 1, 999))
    assert read(path).metrics["device_step_time_mean_ms"].value == 503.0  # both: 100's predecessor is unknown
    path.write_text(line.format(100, 0, 7) + line.format(101, 1, 999))
    assert read(path).metrics["device_step_time_mean_ms"].value == 7.0


# --iteration_log


def test_iteration_stats_with_the_overlap_scheduler() -> None:
    report = read(FIXTURES / "iteration_log.txt")
    assert report.kind == "iteration-stats"
    assert report.iterations == [
        Iteration(0, 0, 1, 1, 0, 30.0, 1024),
        Iteration(1, 0, 4, 0, 4, 10.0, 0),
        Iteration(2, 0, 4, 0, 4, 11.0, 0),
    ]
    assert values(report) == {
        "host_step_time_mean_ms": 17.0,
        "host_step_time_p50_ms": 11.0,
        "host_step_time_generation_p50_ms": 10.5,
        "device_step_time_mean_ms": 19.25,
        "device_step_time_p50_ms": 19.25,
        "device_step_time_generation_p50_ms": 9.5,
        "gpu_forward_time_mean_ms": 8.5,
        "iteration_latency_mean_ms": 34.0,
        "kv_cache_used_max_pct": 100 * 48 / 2048,  # the first alone says it
        "kv_cache_used_mean_pct": 100 * 48 / 2048,
        "kv_cache_free_min_blocks": 2000.0,
    }
    assert slugs(report) == ["kpi-malformed-lines"]


def test_iteration_stats_without_the_overlap_scheduler() -> None:
    report = read(FIXTURES / "iteration_log_no_overlap.txt")
    assert [(one.number, one.scheduled_reqs, one.host_ms) for one in report.iterations] == [
        (20, 4, 12.0),
        (21, 4, 13.0),
        (22, 4, 14.0),
    ]
    assert report.metrics["host_step_time_mean_ms"].value == 13.0


def test_iteration_stats_as_json(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('[TensorRT-LLM][INFO] {"iter": 3, "iterLatencyMS": 5.0, "inflightBatchingStats": null}\n')
    report = read(path)
    assert report.kind == "iteration-stats"
    assert report.iterations == [Iteration(3)]
    path.write_text('{"iter": 3, "iterLatencyMS": 5.0}\n{"iter": 4, "iterLatencyMS": 7.0}\n')
    assert read(path).metrics["iteration_latency_mean_ms"].value == 6.0
    path.write_text('{"iter": 3, "iterLatencyMS": null, "kvCacheStats": {"freeNumBlocks": 4}}\n')
    untimed = read(path)
    assert (values(untimed), slugs(untimed)) == ({"kv_cache_free_min_blocks": 4}, ["kpi-no-times"])


@pytest.mark.parametrize(
    "body",
    [
        "__import__('os').system('true')",
        "[" * 5000,
        "-" * 50_000 + "1",
        "1" + "+1" * 50_000,
        "{[]: 1}",
        "'\\d'",
        "9" * 5000,
    ],
)
def test_a_python_line_is_never_run_and_never_fatal(tmp_path: Path, body: str) -> None:
    path = tmp_path / "log"
    path.write_text(f"{{'iter': 1, 'iterLatencyMS': 1.0}}\n{{'iterLatencyMS': 1.0, 'x': {body}}}\n")
    report = read(path)
    assert len(report.iterations) == 1 and slugs(report) == ["kpi-malformed-lines"]


# Bounds


def test_records_are_bounded_and_figures_are_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kpi_log, "MAX_ITERATIONS", 3)
    path = tmp_path / "log"
    path.write_text("".join(
        f"iter = {n}, rank = 0, num_scheduled_requests = 1, host_step_time = {n}.0ms, "
        f"prev_device_step_time = {n + 100}.0ms, states = {{}}\n" for n in range(9)
    ))  # fmt: skip
    report = read(path)
    assert [(one.number, one.host_ms) for one in report.iterations] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert slugs(report) == ["kpi-iterations-left-out"]
    figures = values(report)
    assert figures["host_step_time_mean_ms"] == 4.0
    assert figures["device_step_time_mean_ms"] == 104.0
    assert figures["host_step_time_p50_ms"] == 4.0


def test_too_long_lines_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kpi_log, "MAX_LINE_BYTES", 100)
    path = tmp_path / "log"
    good = "{'iter': 1, 'iterLatencyMS': 1.0}\n"
    path.write_text(
        "noise" * 100 + "\n" + good + "{'iter': 2, 'iterLatencyMS': 1.0, 'x': '" + "x" * 500 + "'}\n" + good
    )
    report = read(path)
    assert [one.number for one in report.iterations] == [1, 1]
    assert [note.message for note in report.warnings] == ["log: 1 iteration lines are broken"]


def test_too_large_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kpi, "MAX_JSON_BYTES", 100)
    with pytest.raises(TracediffError, match="most that is read") as error:
        read(FIXTURES / "serving_summary.json")
    assert error.value.slug == "kpi-unreadable" and error.value.fix
    path = tmp_path / "log"  # JSON lines are a log, of any size
    path.write_text('{"iter": 3, "iterLatencyMS": 5.0}\n' * 10)
    assert len(read(path).iterations) == 10


# Errors


def test_unreadable(tmp_path: Path) -> None:
    for path, slug in ((tmp_path / "none.json", "not-a-file"), (tmp_path, "kpi-unreadable")):
        with pytest.raises(TracediffError) as error:
            read(path)
        assert error.value.slug == slug
    with pytest.raises(TracediffError):
        read(Path("a\0b"))


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n", b"{", b"[]", b"null", b"\xff\xfe\x00", b"\xef\xbb\xbf{}", b"iter = 5\n", b'{"a": 1}',
        b'{"\xff": 1}',
        b'{"performance": 3}', b'{"performance": {}}', b'{"request_throughput": "fast"}',
        b'{"mean_ttft_ms": 1e400}',
        b'{"request_throughput": NaN}', b'{"request_throughput": ' + b"9" * 5000 + b"}", b'{"x": ' * 9000,
    ],
)  # fmt: skip
def test_unknown_formats(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "report"
    path.write_bytes(content)
    with pytest.raises(TracediffError) as error:
        read(path)
    assert error.value.slug == "kpi-unknown-format"
    assert str(tmp_path) not in error.value.message


def test_byte_order_mark(tmp_path: Path) -> None:
    for name in ("serving_summary.json", "iteration_log.txt"):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + (FIXTURES / name).read_bytes())
        assert read(path) == read(FIXTURES / name)


TEXTS = sorted(path.read_bytes() for path in FIXTURES.iterdir() if path.suffix != ".md")


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        report = read(path)
    except TracediffError as error:
        assert error.slug in ("kpi-unreadable", "kpi-unknown-format")
    else:
        assert all(0 <= metric.value < float("inf") for metric in report.metrics.values())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_random_bytes_raise_nothing_else(tmp_path: Path, content: bytes) -> None:
    check(tmp_path / "f", content)
    check(tmp_path / "f", b'{"' + content)
    check(tmp_path / "f", b"iter = 1, host_step_time" + content)
    check(tmp_path / "f", b"{'iterLatencyMS': " + content)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(TEXTS), st.data())
def test_damaged_files_raise_nothing_else(tmp_path: Path, text: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    check(tmp_path / "f", text[:start] + data.draw(st.binary(max_size=12)) + text[end:])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["performance", "streaming_metrics", "decoding_stats", "request_throughput", "mean_ttft_ms", "ttfts",
        "itls", "e2els", "errors", "num_prompts", "completed", "avg_decoded_tokens_per_iter",
        "tpot_percentiles", "p50", "avg_ttft_ms", "request_throughput_req_s",
        "acceptance_length_percentiles", "average", "iter", "iterLatencyMS", "inflightBatchingStats",
        "numGenRequests", "rank", "hostStepTimeMS"]  # fmt: skip


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(KEYS), json_values | st.dictionaries(st.sampled_from(KEYS), json_values))
)
@pytest.mark.slow
def test_any_value_under_a_known_key(tmp_path: Path, content: dict[str, object]) -> None:
    import json

    check(tmp_path / "f", json.dumps(content).encode())
    check(tmp_path / "f", repr(content).encode("utf-8", "replace"))


# The KV cache


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        # 48 of 2048 blocks; 512 of 2048 where only what is free is said; more than there are is no part
        ("{'iter': 1, 'iterLatencyMS': 5.0, 'kvCacheStats': {'freeNumBlocks': 2000, 'maxNumBlocks': 2048, 'usedNumBlocks': 48}}", (2.34375, 2000)),
        ("{'iter': 1, 'iterLatencyMS': 5.0, 'kvCacheStats': {'freeNumBlocks': 1536, 'maxNumBlocks': 2048}}", (25.0, 1536)),
        ("{'iter': 1, 'iterLatencyMS': 5.0, 'kvCacheStats': {'maxNumBlocks': 10, 'usedNumBlocks': 48}}", (None, None)),
        ("{'iter': 1, 'iterLatencyMS': 5.0, 'kvCacheStats': None}", (None, None)),
        ("iter = 3, kv_cache_util = 0.125, host_step_time = 40.0ms, states = {'num_ctx_requests': 1}", (12.5, None)),
        ("iter = 3, kv_cache_util = 12.5, host_step_time = 40.0ms, states = {'num_ctx_requests': 1}", (None, None)),
        ("iter = 3, kv_cache_util = N/A, host_step_time = 40.0ms, states = {'num_ctx_requests': 1}", (None, None)),
    ],
)  # fmt: skip
def test_use_of_the_kv_cache(line, figures, tmp_path: Path) -> None:
    path = tmp_path / "iterations.log"
    path.write_text(line + "\n")
    metrics = read(path).metrics
    found = [metrics.get(name) for name in ("kv_cache_used_max_pct", "kv_cache_free_min_blocks")]
    assert tuple(one and one.value for one in found) == figures
    assert [one and (one.unit, one.better) for one in found] == [
        one and said for one, said in zip(found, (("%", "lower"), ("blocks", "higher")), strict=True)
    ]
