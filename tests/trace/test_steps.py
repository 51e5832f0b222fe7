"""Which ranges are step labels, and which steps of a capture are whole."""

from __future__ import annotations

import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import STEP, label, reduced, spent
from tracediff.errors import TracediffError
from tracediff.formats.capture import load_capture
from tracediff.trace.steps import find_steps

COLUMNS = ("number", "phase", "ctx_reqs", "ctx_tokens", "gen_reqs")


def labelled(*texts: str, kernels=None, tid: int = 1) -> TraceBuilder:
    """Step k has its label at 1000 k .. 1000 k + 400, a launch at + 100 .. + 110, a kernel at + 200 .. + 300.

    `kernels`: which steps launch one (all of them unless said).
    """
    trace = TraceBuilder().process(100).thread(100, 1)
    for step, text in enumerate(texts):
        begin = 1000 * step
        trace.range(tid, text, begin, begin + 400)
        if kernels is None or step in kernels:
            trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=step + 1)
            trace.kernel(step + 1, begin + 200, begin + 300)
    return trace


def steps(reduction) -> list[tuple]:
    return reduction.periods.select(COLUMNS).rows()


def bounds(reduction) -> list[tuple[int, int]]:
    return reduction.periods.select("start_ns", "end_ns").rows()


# Generations of the label


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # the newest: number, requests, context tokens
        (
            [label(7, ctx=2, tokens=192, gen=3), label(8, gen=5), label(9, gen=5)],
            [(7, "mixed", 2, 192, 3), (8, "generation", 0, 0, 5)],
        ),
        # before it: no token count
        (
            [f"{STEP} 7: 2 ctx reqs, 0 gen reqs", *(f"{STEP} {n}: 0 ctx reqs, 5 gen reqs" for n in (8, 9))],
            [(7, "context", 2, None, 0), (8, "generation", 0, None, 5)],
        ),
        # the oldest: no number either
        (
            [f"{STEP}: 2 ctx reqs, 0 gen reqs", *[f"{STEP}: 0 ctx reqs, 5 gen reqs"] * 2],
            [(None, "context", 2, None, 0), (None, "generation", 0, None, 5)],
        ),
        # PyTorch's profiler schedule
        ([f"ProfilerStep#{n}" for n in (3, 4, 5)], [(n, "step", None, None, None) for n in (3, 4)]),
    ],
)  # fmt: skip
def test_labels(texts, expected, tmp_path):
    reduction = reduced(labelled(*texts), tmp_path)
    assert steps(reduction) == expected  # the last has no next one: it is not whole
    assert bounds(reduction) == [(200, 1200), (1200, 2200)]


def test_the_source_is_named(tmp_path):
    assert reduced(labelled(*map(label, range(3))), tmp_path).step_source == "tensorrt-llm"
    assert (
        reduced(labelled(*(f"ProfilerStep#{n}" for n in range(3))), tmp_path).step_source == "profiler-step"
    )


def test_tensorrt_llm_labels_win_over_profiler_steps(tmp_path):
    trace = labelled(*map(label, range(4)))
    for number in range(2):
        trace.range(1, f"ProfilerStep#{number}", 2000 * number, 2000 * number + 1900)
    assert reduced(trace, tmp_path).periods["number"].to_list() == [0, 1, 2]


# --step-regex


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        (r"^iter (\d+)", (5, "step", None, None, None)),  # a lone group is the number
        (r"^iter \d+", (None, "step", None, None, None)),
        (
            r"iter (?P<number>\d+) prefill (?P<ctx>\d+)/(?P<tokens>\d+) decode (?P<gen>\d+)",
            (5, "mixed", 1, 64, 3),
        ),
        (r"decode (?P<gen>\d+)", (None, "mixed", None, None, 3)),
        (
            r"iter (\d+) prefill (?P<ctx>\d+)",
            (None, "mixed", 1, None, None),
        ),  # named groups: unnamed ones are not guessed
    ],
)
def test_step_regex(regex, expected, tmp_path):
    texts = [f"iter {number} prefill 1/64 decode 3" for number in (5, 6)]
    reduction = reduced(labelled(*texts), tmp_path, step_regex=regex)
    if expected[1] == "mixed" and (expected[2] is None or expected[4] is None):
        expected = (
            expected[0],
            steps(reduction)[0][1],
            *expected[2:],
        )  # the phase of half a label is not specified
    assert steps(reduction) == [expected]
    assert reduction.step_source == f"step-regex:{regex}"


def test_step_regex_wins_over_known_labels(tmp_path):
    trace = labelled(*map(label, range(6)))
    for number in range(3):
        trace.range(1, f"pair {number}", 2000 * number - 10, 2000 * number + 1900)
    reduction = reduced(trace, tmp_path, step_regex=r"^pair (\d+)$")
    assert bounds(reduction) == [(200, 2200), (2200, 4200)]  # two launches each


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """Three steps of the newest label, loaded."""
    folder = tmp_path_factory.mktemp("labels")
    found = load_capture(labelled(*map(label, range(3))).write(folder / "trace.sqlite"), folder)
    yield found
    found.close()


@pytest.mark.parametrize(
    "regex", ["(", "[a-", "(?P<number", "*x", "(?P<number>a)(?P<number>b)", r"(?=step)", r"(a)\1"]
)
def test_a_regex_that_cannot_be_used_is_refused(regex, capture):
    with pytest.raises(TracediffError) as raised:
        find_steps(capture, regex)
    assert raised.value.slug == "bad-step-regex" and "(?P<number>" in raised.value.fix
    assert repr(regex) in raised.value.message


@pytest.mark.parametrize("regex", [".*", ".", "^.+$", "(.*)", ".{3,}", "step|"])
def test_a_regex_that_matches_any_name_is_refused(regex, capture):
    with pytest.raises(TracediffError) as raised:
        find_steps(capture, regex)
    assert raised.value.slug == "bad-step-regex" and "any name" in raised.value.message


@pytest.mark.parametrize("regex", [r"\d+", "[a-z]", "_forward_step .*", r"^\W\w+"])
def test_a_regex_that_matches_many_names_is_not(regex, capture):
    assert find_steps(capture, regex).source == f"step-regex:{regex}"


def test_a_regex_that_matches_nothing(tmp_path):
    with pytest.raises(TracediffError) as raised:
        reduced(labelled(label(0), label(1)), tmp_path, step_regex="nothing like it")
    assert raised.value.slug == "no-steps"


@pytest.mark.parametrize("regex", ["'", "''; DROP TABLE step; --", "{{number}}", "%s {0} $1", "\\d'"])
def test_a_hostile_regex_is_only_a_regex(regex, capture):
    with pytest.raises(TracediffError) as raised:
        find_steps(capture, regex)
    assert raised.value.slug in ("no-steps", "bad-step-regex")


# Which steps are whole


def test_the_last_step_is_dropped(tmp_path):
    assert reduced(labelled(*map(label, range(3))), tmp_path).periods["number"].to_list() == [0, 1]


# One label


def test_a_label_that_occurs_once_is_one_step(tmp_path):
    """From the first op launched inside the label to the end of the last one."""
    trace = labelled(label(7, gen=3))  # the label is at 0 .. 400, its kernel at 200 .. 300
    trace.api(1, "cudaLaunchKernel", 120, 130, corr=2).kernel(2, 320, 450)
    trace.api(1, "cudaLaunchKernel", 500, 510, corr=3).kernel(3, 700, 800)  # after the label
    reduction = reduced(trace, tmp_path)
    assert (bounds(reduction), steps(reduction)) == ([(200, 450)], [(7, "generation", 0, 0, 3)])
    assert reduction.residual_ns == 0
    assert spent(reduction) == {"compute": 230, "dependency": 20}  # the second was launched before 300
    assert (reduction.step_source, reduction.step_rule.rule) == (
        "tensorrt-llm", "tensorrt-llm, one step per run"
    )  # fmt: skip
    assert [note.slug for note in reduction.warnings] == ["one-step-per-run"]


def test_what_repeats_inside_the_only_label_is_not_looked_at(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1).range(1, label(7), 0, 9000)
    for layer in range(8):
        begin = 1000 * layer
        trace.range(1, f"inner step {layer}", begin, begin + 900)
        trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=layer).kernel(
            layer, begin + 200, begin + 300
        )
    assert bounds(reduced(trace, tmp_path)) == [(200, 7300)]


def test_the_only_label_of_each_process(tmp_path):
    """Two ranks in one export, each with one label."""
    trace = labelled(label(7))
    trace.process(200).thread(200, 21).range(21, label(7), 50, 450)
    trace.api(21, "cudaLaunchKernel", 150, 160, corr=1).kernel(1, 250, 390, device=1)
    reduction = reduced(trace, tmp_path)
    assert reduction.periods.select("rank", "start_ns", "end_ns").rows() == [(0, 200, 300), (1, 250, 390)]


def test_one_label_around_little_of_the_work_is_one_step_too(tmp_path):
    trace = labelled(label(0))  # one launch inside
    for number in range(2):
        at = 1000 * number + 600
        trace.api(1, "cudaLaunchKernel", at, at + 10, corr=10 + number).kernel(
            10 + number, at + 100, at + 200
        )
    reduction = reduced(trace, tmp_path)
    assert bounds(reduction) == [(200, 300)]
    (note,) = reduction.warnings
    assert "33% of the GPU work" in note.message


def test_one_label_of_many_steps_leaves_it_to_inference(tmp_path):
    """One of eight iterations carries a label; every one ends with a copy that the host waits for."""
    trace = iterations(8).range(1, label(3), 3000, 3900)
    assert reduced(trace, tmp_path).step_rule.inferred


def test_inferred_steps_inside_the_only_label_are_parts(tmp_path):
    """The label spans two of the twelve parts that repeat: a step is no shorter than its label."""
    trace = iterations(12).range(1, label(3), 3000, 4900)
    assert bounds(reduced(trace, tmp_path)) == [(3200, 4600)]
    assert not any(note.slug == "steps-inferred" for note in reduced(trace, tmp_path).warnings)


def iterations(count: int) -> TraceBuilder:
    """Iteration k: a launch at 1000 k + 100 (kernel + 200 .. + 300), a copy to the host at + 400 (+ 500 .. + 600), a wait at + 700."""
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(count):
        begin, corr = 1000 * number, 10 * number
        trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=corr + 1)
        trace.kernel(corr + 1, begin + 200, begin + 300)
        trace.api(1, "cudaMemcpyAsync", begin + 400, begin + 410, corr=corr + 2)
        trace.memcpy(corr + 2, begin + 500, begin + 600, kind="DtoH")
        trace.api(1, "cudaStreamSynchronize", begin + 700, begin + 800, corr=corr + 3)
    return trace


def test_one_label_without_gpu_work_is_refused(tmp_path):
    trace = labelled("mine", kernels=()).api(1, "cudaLaunchKernel", 500, 510, corr=9).kernel(9, 600, 700)
    with pytest.raises(TracediffError) as raised:
        reduced(trace, tmp_path, step_regex="mine")
    assert raised.value.slug == "one-step"
    assert "--step-regex" in raised.value.fix


def is_whole(reduction) -> bool:
    """One step, with the reason."""
    assert "steps-not-found" in [note.slug for note in reduction.warnings]
    return len(reduction.periods) == 1 and reduction.step_source == "whole-capture"


def test_one_label_that_opened_before_the_profiler_is_cut(tmp_path):
    assert is_whole(reduced(labelled(label(0)).api(1, "cudaProfilerStart", 50, 60), tmp_path))


def test_labels_without_gpu_work(tmp_path):
    assert is_whole(reduced(labelled(*map(label, range(4)), kernels={2}), tmp_path))


def test_a_step_without_ops_gives_its_time_to_the_step_before(tmp_path):
    # step 1 launches nothing: the device never sees it; step 0 lasts until step 2's kernel
    reduction = reduced(labelled(*map(label, range(4)), kernels={0, 2, 3}), tmp_path)
    assert reduction.periods["number"].to_list() == [0, 2]
    assert bounds(reduction) == [(200, 2200), (2200, 3200)]
    assert reduction.residual_ns == 0


def test_a_first_step_that_the_capture_cut_is_dropped(tmp_path):
    """The profiler was started inside step 4: what that step launched before is missing."""
    trace = TraceBuilder().process(100).thread(100, 1).range(1, label(4), -5000, 50)
    trace.api(1, "cudaLaunchKernel", 10, 20, corr=99).kernel(99, 30, 40)
    for number in range(5, 8):
        begin = 1000 * (number - 5) + 100
        trace.range(1, label(number), begin, begin + 400)
        trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=number)
        trace.kernel(number, begin + 200, begin + 300)
    assert reduced(trace, tmp_path).periods["number"].to_list() == [
        4,
        5,
        6,
    ]  # nothing says that step 4 was cut
    cut = reduced(trace.api(1, "cudaProfilerStart", 5, 8), tmp_path)
    assert cut.periods["number"].to_list() == [5, 6] and cut.by_program
    assert bounds(cut) == [(300, 1300), (1300, 2300)]


def test_ops_launched_before_the_first_label_belong_to_no_step(tmp_path):
    trace = (
        labelled(*map(label, range(3)))
        .api(1, "cudaLaunchKernel", -200, -190, corr=50)
        .kernel(50, -100, -50, name="early")
    )
    reduction = reduced(trace, tmp_path)
    assert bounds(reduction) == [(200, 1200), (1200, 2200)]
    counted = reduction.kernels["count"].sum()
    assert counted == 2


# Labels in odd places


def test_a_label_inside_itself_is_one_step(tmp_path):
    """A wrapper and the wrapped function may both be labelled."""
    trace = labelled(*map(label, range(3)))
    for number in range(3):
        trace.range(1, label(number), 1000 * number + 50, 1000 * number + 350)
    reduction = reduced(trace, tmp_path)
    assert reduction.periods["number"].to_list() == [0, 1]
    assert bounds(reduction) == [(200, 1200), (1200, 2200)]


def test_the_thread_with_most_labels_is_the_executor(tmp_path):
    trace = labelled(*map(label, range(4)))
    trace.range(2, label(17), 150, 160).range(
        2, label(18), 2150, 2160
    )  # a helper that logs labels now and then
    reduction = reduced(trace, tmp_path)
    assert reduction.periods["number"].to_list() == [0, 1, 2]
    assert {thread.role for thread in reduction.threads if thread.tid & 0xFFFFFF == 1} == {"executor"}


def test_another_thread_may_launch(tmp_path):
    # thread 2 launches inside the windows of thread 1's labels: 0-1000 is step 0's, 1000-2000 step 1's
    trace = TraceBuilder().process(100).thread(100, 1).thread(100, 2)
    for number in range(3):
        begin = 1000 * number
        trace.range(1, label(number), begin, begin + 100)
        trace.api(2, "cudaLaunchKernel", begin + 500, begin + 510, corr=number).kernel(
            number, begin + 600, begin + 700
        )
    reduction = reduced(trace, tmp_path)
    assert bounds(reduction) == [(600, 1600), (1600, 2600)]
    # gap 700-1600: host_work of thread 2 until 1500, its call, latency
    assert spent(reduction) == {"compute": 100, "host_work": 800, "launch_api": 10, "launch_latency": 90}


def test_start_end_ranges_may_be_labels(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(3):
        begin = 1000 * number
        trace.range(1, f"ProfilerStep#{number}", begin, begin + 999, kind="start_end", registered=False)
        trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=number).kernel(
            number, begin + 200, begin + 300
        )
    assert reduced(trace, tmp_path).periods["number"].to_list() == [0, 1]


def test_a_process_without_labels_is_left_out_and_said(tmp_path):
    trace = labelled(*map(label, range(3)))
    trace.process(200).thread(200, 21).api(21, "cudaLaunchKernel", 500, 510, corr=1).kernel(
        1, 600, 700, device=1
    )
    reduction = reduced(trace, tmp_path)
    assert reduction.periods["pid"].unique().to_list() == [100]
    assert "rank-without-steps" in [note.slug for note in reduction.warnings]


def test_the_whole_capture_as_one_step(tmp_path):
    trace = (
        TraceBuilder().process(100).thread(100, 1).api(1, "cudaLaunchKernel", 0, 5, corr=1).kernel(1, 10, 20)
    )
    trace.api(1, "cudaLaunchKernel", 30, 35, corr=2).kernel(2, 40, 70)
    reduction = reduced(trace, tmp_path, whole_capture=True)
    # 10-20 busy, 20-30 host, 30-35 the call, 35-40 latency, 40-70 busy
    assert (bounds(reduction), reduction.periods["phase"].to_list()) == ([(10, 70)], ["step"])
    assert spent(reduction) == {"compute": 40, "host_work": 10, "launch_api": 5, "launch_latency": 5}
    assert reduction.step_source == "whole-capture"
