"""A thread beside the step's path: what it works, whether that changed, and whether it is done before the next step."""

from __future__ import annotations

import msgspec
import pytest

from tests.comparing import compare, show
from tests.comparison.test_ranks import STEPS, US, ranks
from tests.judging import judge
from tests.report import sample
from tests.serving import serving
from tests.tiny import reduced
from tracediff.comparison.gates import parse_gate
from tracediff.comparison.insights import off_path
from tracediff.execution.sides import Run, Side
from tracediff.model import Evidence, Result, ThreadRow
from tracediff.report.phrases import remarks, with_words

BUSIER = ThreadRow(
    role="await-response",
    process="worker",
    score=1.0,
    baseline_ranges=[],
    candidate_ranges=[],
    baseline_range_ns=30_000.0,
    candidate_range_ns=500_000.0,
    delta_ns=470_000.0,
    ci_low_ns=300_000.0,
    ci_high_ns=600_000.0,
    level="likely",
)


def remarked(holder: str | None, level: Evidence = "confirmed") -> bool:
    full = sample.full()
    one = full.findings[0]
    where = msgspec.structs.replace(one.where, holder_thread=holder)
    finding = msgspec.structs.replace(one, where=where, level=level)
    return bool(off_path([BUSIER], [], full.step, [finding]))


@pytest.mark.parametrize("holder", [None, "detokenizer"])
def test_a_thread_that_no_finding_names_is_told_of(holder):
    assert remarked(holder)


def test_the_holder_of_a_finding_is_told_there():
    assert not remarked("await-response")


def test_a_holder_within_noise_explains_nothing():
    assert remarked("await-response", "within_noise")


def compared(folder, *candidate_us: int) -> Result:
    """Steps of 1000 us, in which a thread of another process detokenises for 100 us; the candidate for other times, a run each."""
    sides = []
    for name, runs in (("before", [100] * len(candidate_us)), ("after", candidate_us)):
        parts = []
        for number, us in enumerate(runs):
            (folder / f"{name}{number}").mkdir()
            parts.append(reduced(ranks(1, detokenise_us=us), folder / f"{name}{number}"))
        sides.append(Side(name, [Run(f"run{number}", [part]) for number, part in enumerate(parts)]))
    return compare(*sides)


@pytest.mark.parametrize(
    ("us", "kind"), [(104, None), (400, "off_path"), (950, "falls_behind"), (3000, "falls_behind")]
)
def test_what_a_thread_works_per_step(us, kind, tmp_path):
    result = compared(tmp_path, us, us)
    kinds = [one.kind for one in result.insights if one.thread == "detokenizer"]
    assert kinds == ([kind] if kind else [])
    (row,) = [one for one in result.threads if one.role == "detokenizer"]
    assert row.baseline_range_ns == pytest.approx(100 * US)
    if us < 1000:
        assert row.candidate_range_ns == pytest.approx(us * US)
    assert row.ci_low_ns <= row.delta_ns <= row.ci_high_ns
    (stage,) = [one for one in result.response_path if one.thread == "detokenizer"]
    assert (stage.keeps_up_baseline, stage.keeps_up_candidate) == (True, us < 900)


def test_a_gate_limits_the_response_path_and_one_thread_of_it(tmp_path):
    result = compared(tmp_path, 400, 400)
    # 100 -> 400 us, the only thread that hands responses on
    for text in ("response:+250us", "host@detokenizer:+250us", "host@DETOK:+200%"):
        outcome = judge(parse_gate(text), result)
        assert (outcome.outcome, outcome.baseline, outcome.delta) == (
            "failed",
            pytest.approx(100 * US),
            pytest.approx(300 * US),
        )
    assert judge(parse_gate("response:+350us"), result).outcome == "passed"


def test_runs_that_differ_as_much_are_no_change(tmp_path):
    result = compared(tmp_path, 60, 200)
    assert not [one for one in result.insights if one.thread]
    assert judge(parse_gate("response:+10%"), result).outcome == "inconclusive"


def test_without_a_thread_of_the_response_path_a_gate_says_so():
    outcome = judge(parse_gate("response:+5%"), msgspec.structs.replace(sample.full(), threads=[]))
    assert outcome.outcome == "inconclusive" and "no thread that hands responses on" in outcome.message


def test_the_executor_sets_the_pace_and_is_not_said_to_keep_up_or_not(tmp_path):
    """It works in 960 of 1000 us, and hands responses on for 10 of them: no response waits for that."""
    trace = ranks(1, detokenise_us=100)
    for number in range(STEPS + 1):
        begin = 1000 * US * number
        trace.range(1000, "_handle_responses", begin + 90 * US, begin + 100 * US)
        trace.range(1000, "_schedule", begin + 100 * US, begin + 960 * US)
    report = show(Side("one", [Run("run", [reduced(trace, tmp_path)])]))
    assert {one.range: one.keeps_up_baseline for one in report.response_path} == {
        "_handle_responses": None,
        "decode_incrementally": True,
    }


def test_a_range_inside_another_is_not_counted_twice(tmp_path):
    """post-processor 0-300, and decode_incrementally 0-100 inside it: 300 us of one thread."""
    trace = ranks(1, detokenise_us=100)
    for number in range(STEPS + 1):
        trace.range(9001, "chat_stream_post_processor", 1000 * US * number, (1000 * number + 300) * US)
    both = Side("one", [Run("run", [reduced(trace, tmp_path)])])
    result = compare(both, both)
    assert {row.range: row.baseline.ns_per_step for row in result.ranges if row.thread == "detokenizer"} == {
        "chat_stream_post_processor": pytest.approx(300 * US),
        "decode_incrementally": pytest.approx(100 * US),
    }
    (row,) = [one for one in result.threads if one.role == "detokenizer"]
    assert row.baseline_range_ns == pytest.approx(300 * US)


def in_bursts(folder, every: int, us: int, sends: int = 1) -> Side:
    """Two runs of 30 whole steps of 707 us; in every n-th of them the await-response thread works for `us`, and sends within it."""
    runs = []
    for number in range(2):
        trace = serving(steps=31).thread(100, 2)
        for step in range(0, 32, every):
            at = 707 * US * step
            trace.range(2, "await_response-4", at, at + us * US)
            for one in range(sends):
                trace.range(2, "send", at + 20 * US * one, at + 20 * US * (one + 1))
        place = folder / f"{every}-{us}-{sends}-{number}"
        place.mkdir()
        runs.append(Run(f"run{number}", [reduced(trace, place)]))
    return Side(f"every{every}", runs)


@pytest.mark.parametrize(
    ("us", "keeps_up", "second"),
    [
        (1000, True, "The await-response thread works 100 us per step (300 us before)"),
        # more than nine tenths of the 7,070 us until the next responses
        (6800, False, "The await-response thread works 680 us per step of 707 us (300 us before): it is not done before the next responses"),
    ],
)  # fmt: skip
def test_responses_in_every_tenth_step_are_compared_with_ten_steps(us, keeps_up, second, tmp_path):
    result = with_words(compare(in_bursts(tmp_path, 1, 300), in_bursts(tmp_path, 10, us)))
    (row,) = [one for one in result.threads if one.role == "await-response"]
    assert (row.baseline_every, row.candidate_every) == (None, 10)
    # bursts in periods 0, 10, 20 and 30 of 31: four in 31 steps are still one in ten
    assert row.candidate_burst_ns == pytest.approx(us * US)
    assert {one.keeps_up_candidate for one in result.response_path} == {keeps_up}
    (said,) = remarks(result)
    work = "1.00 ms" if us == 1000 else "6.80 ms"
    assert said.startswith(
        f"Responses come to the await-response thread every 10th step: {work} of work in 10 steps of 707 us. {second}"
    )
    assert "await_response-N in 100 % -> 10 % of steps" in result.headline.text


def test_work_at_no_one_distance_is_no_rhythm(tmp_path):
    trace = serving(steps=31).thread(100, 2)
    for step in (0, 1, 5, 6, 13, 15, 16, 24, 30):
        trace.range(2, "await_response-4", 707 * US * step, 707 * US * step + 100 * US)
    shown = show(Side("a", [Run("a", [reduced(trace, tmp_path)])]))
    (row,) = [one for one in shown.threads if one.role == "await-response"]
    assert row.baseline_every is None and row.baseline_burst_ns is None


def test_a_result_that_is_serialised_twice_is_seen_by_count(tmp_path):
    result = with_words(compare(in_bursts(tmp_path, 1, 300), in_bursts(tmp_path, 1, 300, sends=2)))
    assert "range send entered 1 -> 2 times per step" in result.headline.text
    (stage,) = [one for one in result.response_path if one.stage == "serialise and send"]
    assert (stage.baseline_count, stage.candidate_count) == pytest.approx((1, 2))


def test_submitting_requests_is_on_the_path_before_the_executor(tmp_path):
    """In each step of 707 us another thread tokenises for 50 us, puts a request into the queue for 10, and detokenises for 20."""
    trace = serving(steps=8).thread(100, 2)
    for number in range(9):
        at = number * 707 * US
        for name, us in (("tokenize prompt", 50), ("request_queue.put", 10), ("decode_incrementally", 20)):
            trace.range(2, name, at, at + us * US)
            at += us * US
    path = show(Side("a", [Run("a", [reduced(trace, tmp_path)])])).response_path
    found = [(one.stage, round(one.baseline_ns / US)) for one in path]
    assert found == [("submit: tokenise", 50), ("submit: queue", 10), ("detokenise", 20)]
