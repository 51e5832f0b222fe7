"""What one capture advises, on steps whose answer a reader works out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import show
from tests.serving import US, serving
from tests.tiny import label, reduced
from tracediff.execution.sides import Run, Side
from tracediff.model.show import Advice, Show
from tracediff.report.phrases import with_titles
from tracediff.whatif.graph import MOST_OPS

STEPS = 8
Kernel = tuple[str, int]  # name, us


def eager(
    kernels: Sequence[Kernel], *, ahead: bool = False, context: Sequence[Kernel] = (), steps: int = STEPS
) -> TraceBuilder:
    """Each kernel is launched in a call of 10 us, 10 us of host work follow; it begins 2 us after its call. The step ends with a wait.

    ahead: the calls and the work take 1 us each, so that the GPU is never done. context: of every second step, which is then one of context.
    """
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    every = (1 if ahead else 10) * US
    now, corr = 0, 0
    for number in range(steps + 1):
        begin, free = now, 0
        first = context if number % 2 else ()
        for name, us in first or kernels:
            corr += 1
            trace.api(1, "cudaLaunchKernel", now, now + every, corr=corr)
            start = max(now + every + 2 * US, free)
            free = start + us * US
            trace.kernel(corr, start, free, name=name)
            now += 2 * every
        end = max(now, free) + 5 * US
        trace.api(1, "cudaStreamSynchronize", now, end)
        trace.range(1, label(number, *((1, 100, 0) if first else ())), begin, end)
        now = end
    return trace


def shown(trace: TraceBuilder, folder) -> Show:
    return with_titles(show(Side("a", [Run("a", [reduced(trace, folder, graph="some")])])))


def of_kind(report: Show, kind: str) -> list[Advice]:
    return [one for one in report.advice if one.kind == kind]


def test_launches_one_by_one_are_advised_to_be_a_graph(tmp_path):
    """Ten kernels of 3 us: 200 us of host, and 5 us until the wait returns. As a graph: one call of 20 + 10 x 0.7 us, ten kernels, 5 us."""
    report = shown(eager([("sm90_gemm", 3)] * 10), tmp_path)
    (graphs,) = of_kind(report, "graphs")
    assert graphs.before_ns == pytest.approx(205 * US) and graphs.count_per_step == 10
    assert graphs.share == pytest.approx(30 / 205)
    assert graphs.after_ns == pytest.approx(
        (27 + 30 + 5) * US, abs=8 * US
    )  # and up to 0.5 us between kernels
    assert graphs.low_ns < graphs.after_ns < graphs.high_ns < graphs.before_ns
    assert "15 % of the step, and 10 kernels per step are launched one by one" in graphs.text
    assert (
        "takes an estimated " in graphs.text and "205" not in graphs.text
    )  # the mean of all steps is another


def test_stretches_that_share_events_count_and_change_each_step_once(tmp_path, monkeypatch):
    """Of 9 steps 0 and 1, 2 and 3, 4 and 5, 7 and 8 are replayed, each pair with the events of the step after it."""
    monkeypatch.setitem(MOST_OPS, "some", 80)
    kernels = [*[("sm90_gemm", 3)] * 8, ("add_elementwise_kernel", 3), ("rms_norm_kernel", 3)]
    report = shown(eager(kernels, steps=9), tmp_path)
    (fuse,) = of_kind(report, "fuse")
    assert fuse.count_per_step == 1 and fuse.ns == pytest.approx(6 * US)
    (graphs,) = of_kind(report, "graphs")
    assert graphs.before_ns == pytest.approx(205 * US)
    assert graphs.after_ns == pytest.approx((27 + 30 + 5) * US, abs=8 * US)


def test_a_busy_gpu_is_not_advised_a_graph(tmp_path):
    assert not of_kind(shown(eager([("sm90_gemm", 30)] * 10, ahead=True), tmp_path), "graphs")


def test_small_kernels_in_a_row_are_advised_to_be_one(tmp_path):
    """Of a GEMM, two small kernels, a GEMM: the second small one costs its call and 10 us of host work."""
    chain = [("add_elementwise_kernel", 3), ("rms_norm_kernel", 4)]
    report = shown(eager([("sm90_gemm", 8), *chain, ("sm90_gemm", 8)]), tmp_path)
    (fuse,) = of_kind(report, "fuse")
    assert fuse.kernels == [name for name, _ in chain] and fuse.count_per_step == 1
    assert fuse.ns == pytest.approx(7 * US)
    assert fuse.before_ns - fuse.after_ns == pytest.approx(20 * US, abs=US)
    assert fuse.text.startswith("Fuse add_elementwise_kernel, rms_norm_kernel in [Executor] _forward_step: ")
    assert "1 times" not in fuse.text
    assert "saves the launches of 1 kernel per step, with the host's work for them" in fuse.text
    assert "an estimated 20.0 us (" in fuse.text


def test_a_chain_that_is_a_part_of_a_longer_one_is_not_advised_too(tmp_path):
    """Norm and cast follow one another four times a step, three of them after an add: the replay of the pair would make all four one."""
    pair, gemm = [("rms_norm_kernel", 4), ("copy_kernel_cuda", 3)], ("sm90_gemm", 8)
    long = [("add_elementwise_kernel", 3), *pair]
    report = shown(eager([gemm, *pair, *[*([gemm, *long] * 3), gemm]]), tmp_path)
    (fuse,) = of_kind(report, "fuse")
    assert fuse.kernels == [name for name, _ in long] and fuse.count_per_step == 3
    assert fuse.ns == pytest.approx(30 * US)
    assert fuse.before_ns - fuse.after_ns == pytest.approx(3 * 2 * 20 * US, abs=US)


def test_a_chain_is_counted_in_the_phase_that_is_replayed(tmp_path):
    """Steps of context hold the chain three times and take most of the time, those of generation hold it once."""
    one = [("sm90_gemm", 8), ("add_elementwise_kernel", 3), ("rms_norm_kernel", 4)]
    (fuse,) = of_kind(shown(eager(one, context=one * 3), tmp_path), "fuse")
    assert fuse.phase == "context" and fuse.count_per_step == 3
    assert fuse.ns == pytest.approx(21 * US)


def test_a_chain_is_counted_where_a_longer_one_holds_it(tmp_path):
    """Norm and cast follow one another four times a step, once of them after an add: the replay makes all four one."""
    pair, gemm = [("rms_norm_kernel", 4), ("copy_kernel_cuda", 3)], ("sm90_gemm", 8)
    once = [gemm, ("add_elementwise_kernel", 3), *pair]
    report = shown(eager([*once, *([gemm, *pair] * 3), gemm]), tmp_path)
    (fuse,) = of_kind(report, "fuse")
    assert fuse.kernels == [name for name, _ in pair] and fuse.count_per_step == 4
    assert fuse.ns == pytest.approx(28 * US)
    assert fuse.before_ns - fuse.after_ns == pytest.approx(4 * 20 * US, abs=US)


@pytest.mark.parametrize("between", ["sm90_gemm", "fmha_kernel"])
def test_small_kernels_with_another_between_them_are_not(tmp_path, between):
    kernels = [("add_elementwise_kernel", 3), (between, 8), ("rms_norm_kernel", 4), (between, 8)]
    assert not of_kind(shown(eager(kernels), tmp_path), "fuse")


def test_long_kernels_in_a_row_are_not(tmp_path):
    kernels = [("sm90_gemm", 8), ("add_elementwise_kernel", 30), ("rms_norm_kernel", 40)]
    assert not of_kind(shown(eager(kernels), tmp_path), "fuse")


def test_a_kernel_that_takes_as_long_as_a_gemm_is_named(tmp_path):
    report = shown(eager([("sm90_gemm", 8), ("scale_1x128_kernel", 12), ("sm90_gemm", 8)]), tmp_path)
    (long,) = of_kind(report, "long_kernel")
    assert long.kernels == ["scale_1x128_kernel", "sm90_gemm"] and long.category == "quantisation"
    assert (long.ns, long.other_ns) == (pytest.approx(12 * US), pytest.approx(8 * US))
    assert long.text.startswith("scale_1x128_kernel (quantisation) takes 12.0 us per launch")
    assert "takes 8.00 us. A kernel of this kind is limited by its bytes" in long.text  # no GEMM is
    quick = shown(eager([("sm90_gemm", 8), ("scale_1x128_kernel", 7), ("sm90_gemm", 8)]), tmp_path)
    assert not of_kind(quick, "long_kernel")


def waiting(wait_us: int) -> TraceBuilder:
    """Steps of `serving` whose 100 us of `_schedule` hold a wait for the GIL and 30 us of a CUDA call, 10 us of them during the wait."""
    trace = serving(steps=STEPS, gil=False)
    for number in range(STEPS + 1):
        begin = number * 707 * US
        trace.gil(1, "wait", begin + 5 * US, begin + (5 + wait_us) * US)
        trace.api(1, "cudaEventQuery", begin + (wait_us - 5) * US, begin + (wait_us + 25) * US)
    return trace


def test_a_range_is_its_own_work_and_what_it_waited_for(tmp_path):
    report = shown(waiting(60), tmp_path)
    (row,) = [one for one in report.ranges if one.range == "_schedule"]
    assert row.baseline.ns_per_step == pytest.approx(100 * US)
    assert row.baseline.gil_wait_ns == pytest.approx(60 * US)
    assert row.baseline.calls_ns == pytest.approx(20 * US)  # of 30, 10 are within the wait
    (waits,) = of_kind(report, "range_waits")
    assert waits.text == (
        "_schedule on the executor thread takes 100 us per step: 60.0 us waiting for the GIL, 20.0 us in CUDA calls, 20.0 us its own work."
        " Move the work of the thread that holds it to another process, or release the GIL there."
    )


def test_a_short_wait_is_no_advice_and_without_a_trace_nothing_is_known(tmp_path):
    assert not of_kind(shown(waiting(20), tmp_path), "range_waits")
    (row,) = [one for one in shown(serving(steps=STEPS), tmp_path).ranges if one.range == "_schedule"]
    assert row.baseline.gil_wait_ns is None and row.baseline.calls_ns == 0
