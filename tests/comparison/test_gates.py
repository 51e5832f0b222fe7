"""Gates: what they accept, and when they pass (0), fail (3) or cannot say (4)."""

from __future__ import annotations

import time
from datetime import date
from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.comparing import compare
from tests.comparison.test_compare_repeats import CALM, ONE_HOST
from tests.judging import judge, judge_all
from tests.serving import runs_of
from tracediff.comparison.gates import Policy, parse_gate
from tracediff.errors import TracediffError
from tracediff.execution.sides import Side
from tracediff.model import (
    CATEGORIES,
    ApiRow,
    Check,
    Comparability,
    Coverage,
    KernelRow,
    KernelSide,
    Pair,
    VerdictFacts,
)
from tracediff.model.kernels import LaunchPhase, LaunchSide

# Words


@pytest.mark.parametrize(
    ("text", "metric", "limit", "percent"),
    [
        ("step:+5%", "step", 0.05, True),
        ("step:5%", "step", 0.05, True),
        ("step:+0%", "step", 0.0, True),
        ("step:+2.5%", "step", 0.025, True),
        ("gc:+200us", "gc", 200_000, False),
        ("launch_api:+1ms", "launch_api", 1e6, False),
        ("host_work:+10ns", "host_work", 10, False),
        ("idle:+1s", "idle", 1e9, False),
        (" step:+5% ", "step", 0.05, True),
        ("generation.p99:+10%", "generation.p99", 0.1, True),
        ("mixed.p50:+1us", "mixed.p50", 1000, False),
        ("launches:+10", "launches", 10, False),
        ("launches:+2%", "launches", 0.02, True),
        ("graph_launches:0", "graph_launches", 0, False),
        ("kernels:+1.5", "kernels", 1.5, False),
        ("syncs:+1", "syncs", 1, False),
        ("gil_wait:+50us", "gil_wait", 50_000, False),
        ("kernel:nvjet:+5%", "kernel:nvjet", 0.05, True),
        ("kernel:void at::native::<f(int)>:+20us", "kernel:void at::native::<f(int)>", 20_000, False),
        ("kernel:a*b c:+1ms", "kernel:a*b c", 1e6, False),
    ],
)
def test_gates_that_are_understood(text, metric, limit, percent):
    gate = parse_gate(text)
    assert (gate.metric, gate.percent, gate.text) == (metric, percent, text)
    assert gate.limit == pytest.approx(limit)


@pytest.mark.parametrize("name", CATEGORIES)
def test_every_category_may_be_gated(name):
    assert parse_gate(f"{name}:+1%").metric == name


@given(st.text(max_size=20))
def test_no_text_is_anything_but_a_gate_or_refused(text):
    try:
        gate = parse_gate(text)
    except TracediffError as error:
        assert error.slug in ("bad-gate", "bad-measure")
    else:
        assert gate.limit >= 0


# Judgement, on sides whose numbers are known: a step of 707 us with 100 us of `_schedule`


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Five calm runs against five: the same, 30 us more, 30 us less; and one run a side 30 us more."""
    folder = tmp_path_factory.mktemp("gates")
    base = runs_of(folder, "b", CALM)
    others = {"same": ("s", 0), "slower": ("c", 30), "faster": ("f", -30)}
    found = {
        name: compare(base, runs_of(folder, runs, [one + more for one in CALM]), ONE_HOST)
        for name, (runs, more) in others.items()
    }
    single = [runs_of(folder, name, (length,)) for name, length in (("one", 100), ("other", 130))]
    return found | {"single": compare(*single)}


@pytest.mark.parametrize(
    ("name", "gate", "outcome"),
    [
        ("same", "step:+5%", "passed"),
        ("slower", "step:+5%", "passed"),  # 30 of 707 us are 4.2 %
        ("slower", "step:+4%", "failed"),
        ("slower", "step:+29us", "failed"),
        ("slower", "step:+31us", "passed"),
        ("slower", "host_work:+20%", "failed"),  # 30 of 100 us
        ("slower", "host_work:+40%", "passed"),
        ("slower", "idle:+20us", "failed"),
        ("slower", "compute:+1us", "passed"),
        ("slower", "generation.p50:+20us", "failed"),
        ("slower", "generation.p50:+40us", "passed"),
        ("faster", "step:+0%", "passed"),
        ("faster", "idle:+0us", "passed"),
        (
            "single",
            "step:+1%",
            "inconclusive",
        ),  # more than the limit, but one run a side and 30 us may be noise
        ("single", "step:+10%", "passed"),
        ("slower", "gc:+1us", "inconclusive"),  # not captured
        ("slower", "context.p99:+1us", "inconclusive"),  # there is no such step
    ],
)
def test_outcomes(name, gate, outcome, results):
    judged = judge(parse_gate(gate), results[name])
    assert judged.outcome == outcome, judged.message
    assert judged.message


def test_what_is_not_comparable_is_inconclusive(results):
    comparability = Comparability(False, [Check("gpu", "fail", "A", "B", "the GPUs differ")])
    result = msgspec.structs.replace(results["slower"], verdict="not_comparable", comparability=comparability)
    judged = judge(parse_gate("step:+1%"), result)
    assert (judged.outcome, judged.message) == ("inconclusive", "not comparable: the GPUs differ")


def said(result, **fields):
    """The result with another change in its first sentence, ns."""
    return msgspec.structs.replace(result, observed=msgspec.structs.replace(result.observed, **fields))


@pytest.mark.parametrize(("delta", "outcome"), [(30_000.0, "passed"), (30_001.0, "failed")])
def test_a_limit_is_a_limit_and_not_a_promise_of_noise(delta, outcome, results):
    """A delta exactly at the limit passes; one above it does not."""
    assert judge(parse_gate("step:+30us"), said(results["slower"], delta_ns=delta)).outcome == outcome


def test_idle_fails_only_by_what_is_more_than_noise(results):
    """A sure but small category does not vouch for the noise of another."""
    result = results["same"]
    delta = dict.fromkeys(result.accounting.delta, 0.0) | {"launch_api": 1000.0, "host_work": 100_000.0}
    level = dict.fromkeys(result.accounting.level, "within_noise") | {"launch_api": "confirmed"}
    books = msgspec.structs.replace(result.accounting, delta=delta, level=level)
    shaky = msgspec.structs.replace(result, accounting=books)
    assert judge(parse_gate("idle:+50us"), shaky).outcome == "inconclusive"
    sure = msgspec.structs.replace(books, level=level | {"host_work": "likely"})
    assert (
        judge(parse_gate("idle:+50us"), msgspec.structs.replace(result, accounting=sure)).outcome == "failed"
    )


METRICS = [
    "step",
    "idle",
    "launches",
    "graph_launches",
    "kernels",
    "syncs",
    "kernel:*",
    "kernel:nvjet",
    "kernel:elementwise",
    *CATEGORIES,
    *(f"{p}.{q}" for p in ("generation", "context") for q in ("p50", "p90", "p99")),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [("graph_a1", "graph_a2", "graph_a3"), ("eager_a1", "eager_a2")], ids=["graph", "eager"]
)
def test_no_gate_fails_for_the_same_program(names, compared):
    failed = [
        (one, other, metric)
        for one, other in permutations(names, 2)
        for metric in METRICS
        if judge(parse_gate(f"{metric}:+1%"), compared(one, other)).outcome == "failed"
    ]
    assert failed == []


def test_a_tail_fails_where_all_runs_of_three_are_slower(tmp_path):
    base, slow = runs_of(tmp_path, "b", (100, 101, 99)), runs_of(tmp_path, "s", (130, 131, 129))
    gate = parse_gate("generation.p99:+10us")
    assert judge(gate, compare(base, slow)).outcome == "failed"
    mixed = Side("m", [*slow.runs[:2], base.runs[0]])  # one of three is as fast as ever
    assert judge(gate, compare(base, mixed)).outcome == "inconclusive"


# Kernels by name, and counts


def kernel(name, before, after, level, other=None):
    sides = [
        None if ns is None else KernelSide([one], 1, ns, ns)
        for one, ns in ((name, before), (other or name, after))
    ]
    delta = (after or 0) - (before or 0)
    return KernelRow(
        match="exact",
        confidence=1.0,
        category="gemm",
        family="x",
        baseline=sides[0],
        candidate=sides[1],
        delta_ns=delta,
        ci_low_ns=delta - 1,
        ci_high_ns=delta + 1,
        level=level,
    )


@pytest.mark.parametrize(
    ("gate", "outcome"),
    [
        ("kernel:gemm:+5%", "failed"),  # 100 + 50 us became 120 + 51: 14 %
        ("kernel:gemm:+25us", "passed"),  # 21 us more
        ("kernel:gemm_a:+10%", "failed"),  # 20 %
        ("kernel:gemm_b:+1%", "inconclusive"),  # 2 %, within noise
        ("kernel:new<int>:+1%", "failed"),  # 9 us where nothing was
        ("kernel:gone:+0%", "passed"),
        ("kernel:before:+1us", "failed"),  # replaced by a slower one: named by either side
        ("kernel:after:+1us", "failed"),
        ("kernel:ge*_a:+10%", "failed"),
        ("kernel:ge*_a:+30%", "passed"),
        ("kernel:new<f, char>:+1%", "failed"),  # as a report shortens `void new<int>::f(char *)`
    ],
)
def test_kernels_by_name(gate, outcome, results):
    judged = judge(parse_gate(gate), msgspec.structs.replace(results["same"], kernels=_rows()))
    assert judged.outcome == outcome, judged.message


def _rows():
    return [
        kernel("gemm_a", 100_000.0, 120_000.0, "confirmed"),
        kernel("gemm_b", 50_000.0, 51_000.0, "within_noise"),
        kernel("void new<int>::f(char *)", None, 9_000.0, "exact"),
        kernel("gone", 7_000.0, None, "exact"),
        kernel("before", 5_000.0, 8_000.0, "likely", "after"),
    ]


@pytest.mark.parametrize(
    ("gate", "slug", "near"),
    [
        ("kernel:.*_a:+0%", "no-such-kernel", ""),  # a dot is a dot
        ("kernel:new<char, f>:+1%", "no-such-kernel", ""),  # not in this order
        ("kernel:gemn_a:+1%", "no-such-kernel", "did you mean gemm_a?"),
        ("kernel:softmax:+1%", "no-such-kernel", ""),
        ("host@nosuch:+3us", "no-such-place", ""),
        ("host@schedul_e:+3us", "no-such-place", "did you mean '_schedule'?"),
    ],
)
def test_a_name_that_is_nowhere_is_an_error_whatever_the_policy_lets_through(gate, slug, near, results):
    """Else a misspelt gate of a policy with `inconclusive = "pass"` would pass for ever."""
    policy = Policy((parse_gate(gate),), pass_inconclusive=True)
    result = msgspec.structs.replace(results["same"], kernels=_rows())
    with pytest.raises(TracediffError) as refused:
        judge_all(policy, result, date(2026, 1, 1))
    assert (refused.value.slug, refused.value.exit_code) == (slug, 2)
    assert refused.value.message.endswith(near)


def test_a_name_without_idle_time_of_its_cause_is_no_misspelt_one(results):
    """`_schedule` is a range of both sides: that nothing was collected there is for the next runs to say."""
    assert judge(parse_gate("sync@_schedule:+1us"), results["same"]).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("gate", "outcome"),
    [
        ("launches:+10", "passed"),
        ("launches:+9", "failed"),
        ("launches:+50%", "passed"),  # 20 became 30
        ("launches:+49%", "failed"),
        ("graph_launches:+0", "passed"),
        ("kernels:+0", "passed"),  # 100 became 90
        ("syncs:+1", "passed"),
        ("syncs:+0.5", "failed"),  # one more
    ],
)
def test_counts(gate, outcome, results):
    launch = results["same"].launch
    sides = [
        msgspec.structs.replace(
            launch.baseline, calls_per_step=calls, graph_launches_per_step=1.0, kernels_per_step=ops
        )
        for calls, ops in ((20.0, 100.0), (30.0, 90.0))
    ]
    apis = [
        ApiRow(
            api="cudaStreamSynchronize",
            kind="sync",
            baseline_calls=1,
            candidate_calls=2,
            baseline_ns=0,
            candidate_ns=0,
            delta_ns=0,
        ),
        ApiRow(
            api="cudaLaunchKernel",
            kind="launch",
            baseline_calls=20,
            candidate_calls=30,
            baseline_ns=0,
            candidate_ns=0,
            delta_ns=0,
        ),
        ApiRow(
            api="cudaMemcpy",
            kind="sync",
            baseline_calls=1,
            candidate_calls=1,
            baseline_ns=0,
            candidate_ns=0,
            delta_ns=0,
        ),
    ]
    changed = msgspec.structs.replace(launch, baseline=sides[0], candidate=sides[1], apis=apis)
    judged = judge(parse_gate(gate), msgspec.structs.replace(results["same"], launch=changed))
    assert judged.outcome == outcome, judged.message
    assert "us" not in judged.message
    assert "per step" in judged.message and "in the mean of all steps" in judged.message


def test_counts_of_a_phase_are_of_its_mean_step(results):
    """Prompts launch more, and seldom: the mean of all steps is neither's."""
    launch = results["same"].launch
    sides = [LaunchSide(20.0, 1.0, kernels, *[0.0] * 6) for kernels in (149.0, 165.0)]
    phase = LaunchPhase("generation", *sides, [])
    changed = msgspec.structs.replace(
        results["same"], launch=msgspec.structs.replace(launch, by_phase=[phase])
    )
    judged = judge(parse_gate("generation.kernels:+15"), changed)
    assert judged.outcome == "failed"
    assert judged.message == (
        "generation.kernels +16 per step (+10.7 %) in the mean generation step exceeds 15 per step"
    )
    assert judge(parse_gate("generation.kernels:+16"), changed).outcome == "passed"


def test_a_gate_says_in_which_step_it_counted(results):
    said = {
        text: judge(parse_gate(f"{text}:+1us"), results["slower"]).message
        for text in ("host", "generation.host")
    }
    assert "in the mean of all steps" in said["host"]
    assert "in the typical generation step" in said["generation.host"]


def test_a_long_name_takes_no_longer_than_it_has_to(results):
    """Wildcards of a gate meet names of a trace, which may be hostile: no backtracking."""
    rows = [kernel("a" * 10_000, 1.0, 2.0, "confirmed")]
    gate = parse_gate(f"kernel:{'a*' * 40}b:+1%")
    begin = time.perf_counter()
    with pytest.raises(TracediffError, match="no-such-kernel"):
        judge(gate, msgspec.structs.replace(results["same"], kernels=rows))
    assert time.perf_counter() - begin < 1


def test_a_gate_that_could_not_have_seen_its_limit_says_so(results):
    """Half of the interval: a change within it may not show."""
    blind = said(results["same"], delta_ns=0.0, ci_low_ns=-70_000.0, ci_high_ns=70_000.0)
    assert "a change below 70.0 us may not show" in judge(parse_gate("step:+50us"), blind).message
    assert "may not show" not in judge(parse_gate("step:+80us"), blind).message


def test_of_one_run_a_side_a_gate_fails_where_a_repeat_would_exceed_it(results):
    """+70 us, and 10 to 130 in a repeat: with one run a side a limit of 9 us fails and one of 11 us does not; with five runs both do."""
    wide = {"delta_ns": 70_000.0, "ci_low_ns": 10_000.0, "ci_high_ns": 130_000.0}
    five = said(results["slower"], **wide)
    lone = said(results["single"], **wide)
    lone = msgspec.structs.replace(lone, verdict="likely_regressed")
    found = {
        (name, limit): judge(parse_gate(f"step:+{limit}us"), result)
        for name, result in (("five", five), ("lone", lone))
        for limit in (9, 11)
    }
    outcomes = {key: one.outcome for key, one in found.items()}
    assert outcomes == {
        ("five", 9): "failed", ("five", 11): "failed", ("lone", 9): "failed", ("lone", 11): "inconclusive",
    }  # fmt: skip
    assert found["lone", 11].message.endswith("exceeds 11.0 us, but a repeat may show only +10.0 us")


@pytest.mark.parametrize(
    ("share", "text"), [(1.4945, "+149 %"), (0.1, "+10.0 %"), (-0.0004, "0.0 %"), (0.0006, "+0.1 %")]
)
def test_percentages_are_rounded_once(share, text, results):
    """149.45 is 149, though 149.5 would be 150."""
    result = said(results["same"], baseline_ns=1e6, delta_ns=share * 1e6)
    assert f"({text})" in judge(parse_gate("step:+9s"), result).message


def test_a_gate_has_one_unit(results):
    """52.26 ms beyond 5 % of 81 ms, and beyond 5 us; below 10 ms all are us."""
    long = said(
        results["slower"],
        delta_ns=52.26e6,
        baseline_ns=81e6,
        candidate_ns=133.26e6,
        ci_low_ns=50e6,
        ci_high_ns=54e6,
    )
    for limit, text in (("5%", "4.050 ms"), ("5us", "0.005 ms")):
        message = judge(parse_gate(f"step:+{limit}"), long).message
        assert message.startswith(f"step +52.260 ms (+64.5 %) exceeds {text}")


def test_the_gate_of_the_step_is_of_the_first_sentence_whatever_the_mean_does(results):
    """The typical step takes 30 us of 707 more, the mean of all steps 50 us less: first uses, or rarer prompts."""
    step = msgspec.structs.replace(results["slower"].step, delta_ns=-50_000.0)
    slower = msgspec.structs.replace(results["slower"], step=step)
    judged = judge(parse_gate("step:+3%"), slower)
    assert (judged.outcome, judged.baseline) == ("failed", pytest.approx(707_000, rel=1e-3))
    assert judged.message.startswith(f"step +{judged.delta / 1000:.1f} us (+4.2 %) exceeds 21.2 us")
    assert judge(parse_gate("step:+5%"), slower).outcome == "passed"
    unsaid = msgspec.structs.replace(slower, verdict="inconclusive")
    assert judge(parse_gate("step:+3%"), unsaid).outcome == "inconclusive"


@pytest.mark.parametrize(
    "gate", ["copies:+0", "copied_bytes:+0", "kernels:+0", "launches:+0", "kernel:nvjet:+1us", "compute:+1%"]
)
def test_graphs_without_nodes_pass_no_gate_on_what_they_may_hold(gate, results):
    """Some kernels and copies were recorded, but none of those in CUDA graphs; calls were."""
    same = results["same"]
    bare = msgspec.structs.replace(
        same, coverage=Coverage(same.coverage.baseline, {**same.coverage.candidate, "graphs": "not_captured"})
    )
    told = judge(parse_gate(gate), bare)
    assert (told.outcome, told.delta) == ("inconclusive", None)
    assert "CUDA graphs: not captured on the candidate. Capture with --cuda-graph-trace=node" in told.message
    assert judge(parse_gate("syncs:+0"), bare).outcome == "passed"


@pytest.mark.parametrize(("runs", "outcome"), [(1, "inconclusive"), (2, "failed")])
def test_causes_that_carry_the_verdict_fail_no_gate_of_one_run(runs, outcome, results):
    """The step takes 60 us more, 50 of them by a likely cause, and a repeat would show -5 us or more."""
    slower = said(results["single"], delta_ns=60_000.0, ci_low_ns=-5_000.0, ci_high_ns=125_000.0)
    carried = msgspec.structs.replace(
        slower,
        verdict="likely_regressed",
        verdict_facts=VerdictFacts("part", slower.observed.phase, carried_ns=50_000.0),
        step=msgspec.structs.replace(slower.step, runs=Pair(runs, runs)),
    )
    told = judge(parse_gate("step:+20us"), carried)
    assert told.outcome == outcome
    last = {1: "but a repeat may show only -5.0 us", 2: "+50.0 us of it more than noise"}
    assert told.message.endswith(last[runs])


def test_a_policy_that_lets_noise_pass_says_so(results):
    policy = Policy((parse_gate("step:+1%"),), pass_inconclusive=True, source="tracediff.toml")
    (told,) = judge_all(policy, results["single"], date(2026, 1, 1)).outcomes
    assert told.outcome == "inconclusive"
    assert told.message.endswith('; tracediff.toml lets it pass (inconclusive = "pass")')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("step:+3%,copies:+1", "it holds several gates"),
        ("kernel:gemm:+3%, step:+1%", "it holds several gates"),
        ("step:+3", "step is a time, and '+3' has no unit"),
        ("kernels:+1us", "kernels is a count, and '+1us' a time"),
        ("step:-3%", "'-3%' is no limit"),
    ],
)
def test_what_is_wrong_in_a_gate_is_said(text, why):
    with pytest.raises(TracediffError) as refused:
        parse_gate(text)
    assert refused.value.slug == "bad-gate" and why in str(refused.value)
