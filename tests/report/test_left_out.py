"""What is said of workloads that were not compared: how much of the step time no verdict speaks of."""

from __future__ import annotations

from io import StringIO

import msgspec
from rich.console import Console

from tests.comparing import compare
from tests.report import sample
from tests.serving import US, serving
from tests.tiny import label, reduced
from tracediff.execution.sides import Run, Side
from tracediff.model import Mix, Note, Pair, Result, Shares, Stratum
from tracediff.report.html import render_html
from tracediff.report.markdown import render_markdown
from tracediff.report.terminal import render_terminal
from tracediff.report.workloads import left_out, mix_note


def stratum(steps: tuple[int, int], shares: tuple[float, float], reason: str) -> Stratum:
    return Stratum(
        phase="mixed", ctx_reqs="4", ctx_tokens="768", gen_reqs="12", level="exact", baseline_steps=steps[0],
        candidate_steps=steps[1], baseline_ns=1e6, candidate_ns=1e6, delta_ns=0.0, weight=0.0, compared=not reason,
        reason=reason, baseline_share=shares[0], candidate_share=shares[1],
    )  # fmt: skip


def with_strata(*strata: Stratum) -> Result:
    return msgspec.structs.replace(sample.full(), strata=list(strata))


def test_nothing_is_said_where_all_was_compared() -> None:
    assert left_out(with_strata(stratum((3, 3), (1.0, 1.0), ""))) == []


def test_all_compared_is_one_line() -> None:
    result = with_strata(stratum((3, 3), (1.0, 1.0), ""))
    step = msgspec.structs.replace(result.step, time_share=Shares(1.0, 1.0))
    said = "All step time of both sides is compared."
    assert said in render_html(msgspec.structs.replace(result, step=step))
    without = [Note("rank-without-steps", "...")]  # a process that is in no step time
    assert said not in render_html(msgspec.structs.replace(result, step=step, warnings=without))


def test_the_largest_come_first_and_the_others_are_summed_up() -> None:
    sizes = ((0.01, 0.02), (0.3, 0.0), (0.05, 0.05), (0.01, 0.01), (0.02, 0.004))
    texts = left_out(with_strata(*(stratum((10, 20), shares, "none_typical") for shares in sizes)))
    assert texts[0] == (
        "Not compared: 30 % of the baseline's and 0 % of the candidate's step time, 10 + 20 steps (mixed step, "
        "4 context requests with 768 tokens and 12 generation requests), of whose workload a side has no typical step."
    )
    assert "5.0 % of both sides' step time" in texts[1]
    assert len(texts) == 4
    # left over: 2 % and 1 % of the baseline, 0.4 % and 1 % of the candidate
    assert texts[3] == (
        "Not compared: 3.0 % of the baseline's and 1.4 % of the candidate's step time, "
        "20 + 40 steps of 2 more workloads."
    )


def test_what_is_small_is_one_line() -> None:
    small = [stratum((6, 0), (0.006, 0.0), "baseline_only"), stratum((6, 4), (0.005, 0.004), "none_typical")]
    assert left_out(with_strata(*small)) == [
        "Not compared: 1.1 % of the baseline's and 0.4 % of the candidate's step time, 12 + 4 steps of workloads that "
        "one side lacks."
    ]
    (one_reason,) = left_out(with_strata(small[0], small[0]))
    assert one_reason.endswith("12 steps of workloads that the candidate never ran.")
    (alone,) = left_out(with_strata(small[0]))
    assert "(mixed step, 4 context requests" in alone


def noted(mix: Mix, many: tuple[int, int] = (40, 40)) -> str:
    """The note on a baseline of 10 ms; at equal work the candidate takes `speed_ns` more."""
    result = with_strata(stratum((3, 3), (1.0, 1.0), ""))
    equal = {"baseline_ns": 10e6, "candidate_ns": 10e6 + mix.speed_ns, "steps": Pair(*many)}
    return mix_note(
        msgspec.structs.replace(result, mix=mix, step=msgspec.structs.replace(result.step, **equal))
    )


def test_what_the_raw_means_differ_by() -> None:
    """In the unit of the page, which is that of its step: us."""

    def note(*parts: float) -> str:
        mix, speed, left = (part * 1e6 for part in parts)
        return noted(Mix(10e6, 10e6 + mix + speed + left, mix, speed, left))

    assert note(1.32, 2.35, 0) == (
        "Means are at equal work (+2,350 us). As recorded they are 10,000 -> 13,670 us (+3,670 us), "
        "with +1,320 us from a different batch mix."
    )
    assert note(-1, 3, 0.5) == (
        "Means are at equal work (+3,000 us). As recorded they are 10,000 -> 12,500 us (+2,500 us), "
        "with -1,000 us from a different batch mix, +500 us from steps that were not compared."
    )
    assert note(0.09, 3, 0).endswith(", with +90.0 us from a different batch mix.")
    assert note(0.009, 3, 0) == ""  # 13.0 ms, recorded and at equal work


def test_first_uses_are_told() -> None:
    found = Mix(10e6, 12e6, 0.0, 0.5e6, first_uses_ns=1.5e6, starts=Pair(3, 9))
    assert noted(found, (40, 41)) == (
        "Means are at equal work (+500 us). As recorded they are 10,000 -> 12,000 us (+2,000 us), "
        "with +1,500 us from warm-up (first launches of kernels)."
    )


def test_every_report_says_it() -> None:
    said = "Not compared: 32 % of the baseline's step time, 5 steps"
    out = StringIO()
    render_terminal(sample.full(), Console(file=out, width=300))
    assert said in out.getvalue()
    assert said in render_markdown(sample.full())
    assert said.replace(" %", "\u202f%") in sample.page().replace("&#39;", "'")


def test_shares_of_the_step_time(tmp_path) -> None:
    """Only the candidate has steps of 1,200 us with 8 requests: its shares say how much of it is not compared."""
    sides = []
    for name, more in (("one", 0), ("other", 5)):
        trace = serving(steps=10, schedule_us=93, kernel_us=500, kernels=1)
        now = 10 * 600 * US
        for number in range(
            11, 11 + more
        ):  # the label at 10 begins the first of them: it keeps its 4 requests
            now = _step(trace, number, now + 600 * US if number == 11 else now)
        place = tmp_path / name
        place.mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, place)])]))
    found = compare(*sides)
    (text,) = left_out(found)
    assert text.endswith("which the baseline never ran.")
    (row,) = [one for one in found.strata if not one.compared]
    others = [one for one in found.strata if one.compared]
    for side in ("baseline", "candidate"):
        assert (
            abs(getattr(row, f"{side}_share") + sum(getattr(one, f"{side}_share") for one in others) - 1)
            < 1e-12
        )
    assert abs(row.candidate_ns - 1_200 * US) < 1
    whole = sum(one.candidate_steps * one.candidate_ns for one in found.strata)
    assert row.candidate_share == row.candidate_steps * row.candidate_ns / whole and row.baseline_share == 0


def _step(trace, number: int, begin: int) -> int:
    """One step of 1,200 us with 8 requests, made like those of `serving`."""
    launched, end = begin + 98 * US, begin + 1_200 * US
    trace.range(1, "_schedule", begin, begin + 93 * US)
    trace.api(1, "cudaGraphLaunch", begin + 93 * US, launched, corr=100 + number)
    trace.kernel(100 + number, launched + 2 * US, end, name="gemm_0", graph_node=100)
    trace.api(1, "cudaStreamSynchronize", launched, end)
    trace.range(1, label(number, gen=8), begin, end)
    return end
