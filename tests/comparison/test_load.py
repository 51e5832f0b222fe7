"""Sides that ran batches of other sizes: what the load may explain is no change of the program."""

from __future__ import annotations

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare as compare_sides
from tests.judging import judge
from tests.serving import serving
from tests.tiny import reduced
from tracediff import compare
from tracediff.comparison.gates import parse_gate
from tracediff.execution.sides import Run, Side
from tracediff.report.first import headline


def runs(folder, batch: int, schedule_us: int, many: int = 2):
    """Captures whose generation steps have so many requests, and so much host work."""
    folder.mkdir()
    for number in range(many):
        trace = serving(steps=24, schedule_us=schedule_us + number, gen=batch)
        trace.write(folder / f"run{number}.sqlite")
    return folder


@pytest.mark.parametrize(("batch", "verdict"), [(2, "likely_regressed"), (16, "inconclusive")])
def test_eight_times_the_requests_explain_a_step_of_twice_the_time(batch, verdict, tmp_path):
    found = compare(runs(tmp_path / "a", 2, 100), runs(tmp_path / "b", batch, 900)).result
    assert found.verdict == verdict
    if batch == 16:
        assert "other work: 2 -> 16 requests and tokens per generation step" in headline(found).text
    else:
        assert found.verdict_facts.load is None


@pytest.mark.parametrize(("tokens", "told"), [(448, True), (66, False)])
def test_other_work_of_a_phase_that_is_not_the_first_is_told(tokens, told, tmp_path):
    """Every second step has a context of 64 tokens, or of others: 64 + 4 and 448 + 4; of 66 it is little more."""
    sides = []
    for name, count, us in (("a", 64, 400), ("b", tokens, 480)):
        trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
        for number in range(41):
            mixed = number % 2
            took = us if mixed else 100
            text = (
                f"[Executor] _forward_step {number}: {mixed} ctx reqs, {count * mixed} ctx tokens, 4 gen reqs"
            )
            trace.range(1, text, now, now + 5_000)
            trace.api(1, "cudaLaunchKernel", now, now + 4_000, corr=number + 1)
            # other shapes of the prompt's kernels, so that no workload is that of the other side
            trace.kernel(
                number + 1, now + 5_000, now + took * 1_000, name="gemm", grid=(1 + count * mixed, 1, 1)
            )
            now += took * 1_000 + number % 3 * 500
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name)])]))
    found = compare_sides(*sides)
    load = found.verdict_facts.load
    assert (load and (round(load.baseline), round(load.candidate), load.phase)) == (
        (68, 452, "mixed") if told else None
    )
    assert (
        "he steps did other work: 68 -> 452 requests and tokens per mixed step" in found.headline.why
    ) == told


def test_more_time_than_the_load_explains_is_a_change(tmp_path):
    """Twice the requests, more than four times the time: 100 -> 2,500 us of host work beside 607 us."""
    found = compare(runs(tmp_path / "a", 16, 100), runs(tmp_path / "b", 32, 2_500)).result
    assert found.step.candidate_ns > 4 * found.step.baseline_ns
    assert found.verdict == "likely_regressed"


@pytest.mark.slow
def test_a_gate_does_not_fail_for_what_the_load_may_explain(tmp_path):
    found = compare(runs(tmp_path / "a", 2, 100, 5), runs(tmp_path / "b", 16, 900, 5)).result
    first = judge(parse_gate("generation:+3%"), found)
    assert first.outcome == "inconclusive"
    assert judge(parse_gate("compute:+3%"), found).outcome == "passed"


@pytest.mark.parametrize(
    ("names", "verdict", "status"),
    [(("gemm", "gemm"), "no_change", None), (("gemm", "convolve"), "inconclusive", "warn")],
)
def test_programs_that_share_no_kernel_may_be_others_though_their_steps_are_called_alike(
    names, verdict, status, tmp_path
):
    for side, name in enumerate(names):
        serving(steps=24, kernel_name=name).write(tmp_path / f"{side}.sqlite")
    found = compare(tmp_path / "0.sqlite", tmp_path / "1.sqlite").result
    assert found.verdict == verdict
    check = next((one for one in found.comparability.checks if one.name == "programs"), None)
    assert (check.status if check else None) == status
    if check:
        assert (check.baseline, check.candidate) == ("0 % of kernel time shared", "0 % of kernel time shared")
