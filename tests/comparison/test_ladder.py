"""By what two sides are compared where they have no step labels in common, and which pairs get no difference at all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import tracediff
from fixtures.builders import TraceBuilder
from tests.tiny import label
from tracediff.comparison.compare import compare as compare_sides
from tracediff.comparison.timeline import Window, read_paired_runs
from tracediff.errors import TracediffError
from tracediff.execution.ladder import as_many, shared
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve
from tracediff.model import Result

MS = 1_000_000


def program() -> TraceBuilder:
    return TraceBuilder().process(100).thread(100, 1).device(0).meta("CAPTURE_EVENT_TYPE", "Cuda")


def launch(trace: TraceBuilder, number: int, at: int, ns: int, name: str) -> None:
    """A launch at `at`, and its kernel 20 ns later."""
    trace.api(1, "cudaLaunchKernel", at, at + 10, corr=number).kernel(number, at + 20, at + 20 + ns, name)


def copies(trace: TraceBuilder, count: int, ns: int = 1000, at: int = 0) -> int:
    """So many copies to the device from `at` on; where the last one ends."""
    for number in range(count):
        begin = at + 2 * ns * number
        trace.api(1, "cudaMemcpy", begin, begin + ns + 30, corr=10_000 + number)
        trace.memcpy(10_000 + number, begin + 20, begin + 20 + ns)
    return at + 2 * ns * count


def compare(tmp_path: Path, *traces: TraceBuilder, **options) -> Result:
    return tracediff.compare(*written(tmp_path, *traces), cache=False, **options).result


def compare_whole(tmp_path: Path, *traces: TraceBuilder) -> Result:
    """As `compare` does where steps are no help: what repeats here would be a step."""
    files = [resolve(str(path)) for path in written(tmp_path, *traces)]
    return compare_sides(*reduce_sides(files, Reading(whole_capture=True)))


def written(tmp_path: Path, *traces: TraceBuilder) -> list[Path]:
    return [trace.write(tmp_path / f"{name}.sqlite") for name, trace in zip("ab", traces, strict=True)]


def loop(
    count: int, gap: int = 1000, text: str = "", names: tuple[str, ...] = ("gemm", "softmax", "sample")
) -> TraceBuilder:
    """Step k at `gap` k: three kernels of 100 ns, and the host waits for the last of them."""
    trace = program()
    for number in range(count):
        begin = gap * number
        if text:
            trace.range(1, text.format(number), begin, begin + 450, domain=None)
        for nth, name in enumerate(names):
            launch(trace, 4 * number + nth, begin + 110 * nth, 100, name)
        trace.api(1, "cudaStreamSynchronize", begin + 240, begin + 410, corr=4 * number + 3)
    return trace


def saxpy(ns: int = 5000, name: str = "saxpy", copied: int = 3) -> TraceBuilder:
    trace = program()
    launch(trace, 1, copies(trace, copied), ns, name)
    return trace


def test_steps_with_labels_and_without_are_inferred_on_both_sides(tmp_path):
    """Steps of 1000 ns and of 1500 ns."""
    result = compare(tmp_path, loop(40), loop(40, 1500, "turn {}"))
    rung = result.verdict_facts.rung
    assert (rung.kind, rung.why) == ("inferred", "labels_missing")
    assert (result.step.baseline_ns, result.step.candidate_ns) == pytest.approx((1000, 1500))
    assert result.comparability.comparable
    assert [note.message for note in result.warnings if note.slug == "compared-by"] == [
        "not all captures have step labels: steps of both sides were inferred from what repeats"
    ]


def test_labels_of_other_names_cut_the_same_work(tmp_path):
    result = compare(tmp_path, loop(40, 1000, "turn {}"), loop(40, 1500, "lap {}"))
    assert result.verdict_facts.rung.why == "other_rules"
    assert (result.step.baseline_ns, result.step.candidate_ns) == pytest.approx((1000, 1500))
    assert result.comparability.comparable
    shown = read_paired_runs(
        [resolve(str(tmp_path / f"{name}.sqlite")) for name in "ab"], Reading(), Window(1, 40, 10_000)
    )
    assert {delta for pair in shown.pairs for delta in pair.deltas().values()} == {500}
    assert "timeline-not-comparable" not in [note.slug for note in shown.warnings]  # as compare says


def answers(count: int, *, whole: bool, every: int = 0) -> TraceBuilder:
    """Step k at 10,000 k and what was added before it: a CUDA graph of 4,000 ns, whose result the host waits for; in every so many steps a kernel of 6,000 ns besides."""
    trace, at = program(), 0
    for number in range(count):
        corr = 3 * number
        trace.api(1, "cudaGraphLaunch", at, at + 500, corr=corr)
        end = at + 5000
        if whole:
            trace.graph(corr, at + 1000, end)
        for node, name in enumerate("" if whole else ("embed", "gemm", "gemm", "head")):
            begin = at + 1000 * (1 + node)
            trace.kernel(corr, begin, begin + 1000, name=name, graph_node=1 + node)
        if every and number % every == every // 2:
            launch(trace, corr + 1, at + 600, 6000, "log")
            end += 6000
        trace.api(1, "cudaMemcpyAsync", at + 700, at + 800, corr=corr + 2)
        trace.memcpy(corr + 2, end, end + 1000, kind="DtoH")
        trace.api(1, "cudaStreamSynchronize", at + 900, end + 1500)
        at = end + 5000
    return trace


@pytest.mark.parametrize("whole", [True, False])
def test_what_one_side_does_in_every_12th_step_makes_no_step_of_twelve(whole, tmp_path):
    """Alone, a cycle of twelve waits is a step of twelve parts, as a check of drafts ends one; the other side shows that it is none."""
    result = compare(tmp_path, answers(120, whole=whole), answers(120, whole=whole, every=12))
    assert result.verdict_facts.rung.kind == "inferred"
    assert result.step.baseline_ns == pytest.approx(10_000)
    assert result.step.candidate_ns == pytest.approx(10_500, abs=25)
    swapped = compare(tmp_path, answers(120, whole=whole, every=12), answers(120, whole=whole))
    assert swapped.step.delta_ns == pytest.approx(-result.step.delta_ns)
    alone = compare(tmp_path, *(answers(120, whole=whole, every=12) for _ in "ab"))
    assert alone.step.baseline_ns == pytest.approx(126_000, abs=10)


def host_loop(count: int, calls: list[tuple[int, str, int]], gap: int) -> TraceBuilder:
    """Step k at `gap` k: CUDA calls (after so many ns, name, ns) of which the GPU work was not recorded."""
    trace = program()
    for number in range(count):
        for nth, (at, name, ns) in enumerate(calls):
            begin = gap * number + at
            trace.api(1, name, begin, begin + ns, corr=10 * number + nth)
    return trace


def test_without_gpu_work_a_step_that_waits_twice_is_not_two_steps(tmp_path):
    """40 steps of two graph launches: with a wait between them they take 1300 ns and not 1000, and a wait for each result is half of one."""
    graph, copy, wait = "cudaGraphLaunch", "cudaMemcpyAsync", "cudaStreamSynchronize"
    once = [(0, graph, 50), (60, copy, 20), (100, graph, 50), (160, copy, 20), (200, wait, 700)]
    twice = [
        (0, graph, 50),
        (60, copy, 20),
        (90, wait, 500),
        (600, graph, 50),
        (660, copy, 20),
        (690, wait, 510),
    ]
    result = compare(tmp_path, host_loop(40, once, 1000), host_loop(40, twice, 1300))
    rung = result.verdict_facts.rung
    assert (rung.kind, rung.why, rung.kernel) == ("rounds", "other_work", graph)
    assert (rung.baseline_rounds, rung.candidate_rounds) == (80, 80)
    # from the first call to the end of the last one: 39 * 1000 + 900 and 39 * 1300 + 1200, by 80 launches
    assert result.step.baseline_ns == pytest.approx(39_900 / 80)
    assert result.step.candidate_ns == pytest.approx(51_900 / 80)


def test_without_gpu_work_steps_of_two_rules_hold_the_same_launches(tmp_path):
    """A copy more in each of 40 steps begins them elsewhere: they are compared."""
    graph, copy, wait = "cudaGraphLaunch", "cudaMemcpyAsync", "cudaStreamSynchronize"
    calls = [(0, graph, 50), (60, copy, 20), (200, wait, 700)]
    result = compare(tmp_path, host_loop(40, calls, 1000), host_loop(40, [*calls, (910, copy, 200)], 1300))
    assert result.comparability.comparable
    assert (result.step.baseline_ns, result.step.candidate_ns) == pytest.approx((1000, 1300))


def test_labels_of_both_sides_are_taken_as_they_are(tmp_path):
    result = compare(tmp_path, loop(8, 1000, "turn {}"), loop(8, 1500, "turn {}"))
    assert (result.verdict_facts.rung.kind, result.verdict_facts.rung.why) == ("labels", "")
    assert "compared-by" not in [note.slug for note in result.warnings]


def test_steps_on_one_side_only_are_rounds_of_the_shared_kernels(tmp_path):
    """Two rounds without a wait in 2 * 1000 ns, where nothing repeats clearly; 40 steps of 1500 ns: per launch of the rarest kernel."""
    few = program()
    for number in range(2):
        for nth, name in enumerate(("gemm", "softmax", "sample")):
            launch(few, 4 * number + nth, 1000 * number + 200 * nth, 100, name)
    result = compare(tmp_path, few, loop(40, 1500, "turn {}"))
    rung = result.verdict_facts.rung
    assert (rung.kind, rung.why, rung.baseline_rounds, rung.candidate_rounds) == (
        "rounds",
        "steps_missing",
        2,
        40,
    )
    # from the first kernel, at 20, to the end of the last, at 1520 and at 39 * 1500 + 340
    assert result.step.baseline_ns == pytest.approx(1500 / 2)
    assert result.step.candidate_ns == pytest.approx((39 * 1500 + 320) / 40)
    assert result.accounting.baseline["compute"] == pytest.approx(300)
    assert result.accounting.candidate["compute"] == pytest.approx(300)
    assert {row.baseline.count_per_step for row in result.kernels if row.baseline} == {1.0}


def test_more_of_the_same_work_is_compared_by_rounds(tmp_path):
    """4 and 12 times the same two kernels, 1000 ns apart."""
    traces = []
    for count in (4, 12):
        trace = program()
        for number in range(count):
            launch(trace, 2 * number, 1000 * number, 400, "one")
            launch(trace, 2 * number + 1, 1000 * number + 500, 300, "two")
        traces.append(trace)
    result = compare_whole(tmp_path, *traces)
    rung = result.verdict_facts.rung
    assert (rung.kind, rung.baseline_rounds, rung.candidate_rounds) == ("rounds", 4, 12)
    assert result.accounting.delta["compute"] == pytest.approx(0)
    assert "work" not in [check.name for check in result.comparability.checks]
    assert result.verdict in ("inconclusive", "no_change")


def test_a_program_of_one_kernel_is_compared_whole_and_has_no_verdict(tmp_path):
    """Three copies and a kernel, at most 4 % apart: seen, and nothing said of a repeat."""
    result = compare(tmp_path, saxpy(5000), saxpy(5200))
    assert result.verdict_facts.rung.kind == "captures"
    assert result.step.delta_ns == 200
    assert result.verdict == "inconclusive"
    (row,) = [row for row in result.launched if "saxpy" in row.baseline.names]
    assert row.per_launch is None  # one launch: too few to say that it is unchanged


def test_one_launch_that_takes_a_factor_is_told(tmp_path):
    """One kernel of 6 s that takes 0.2 s."""
    result = compare(tmp_path, saxpy(6000 * MS, "add"), saxpy(200 * MS, "add"))
    (row,) = [row for row in result.launched if row.baseline.names == ["add"]]
    assert row.per_launch.level == "likely"
    assert row.per_launch.delta_ns == -5800 * MS
    assert row.delta_ns == -5800 * MS


def test_fewer_copies_with_the_same_kernels_are_a_change_of_the_program(tmp_path):
    """200 copies become 3."""
    result = compare(tmp_path, saxpy(copied=200), saxpy(copied=3))
    assert result.comparability.comparable
    assert {"work", "programs"}.isdisjoint(
        check.name for check in result.comparability.checks if check.status != "ok"
    )
    (row,) = [row for row in result.kernels if row.baseline and "memcpy" in row.baseline.names[0]]
    assert (row.baseline.count_per_step, row.candidate.count_per_step) == (200, 3)


def test_a_retuned_kernel_is_a_finding(tmp_path):
    """A histogram of 5,855 us a launch takes 227; ten launches of it, and as many of another kernel."""
    traces = []
    for ns in (5_855_000, 227_000):
        trace = program()
        for number in range(10):
            launch(trace, 2 * number, 10 * MS * number, ns, "calcHistogram")
            launch(trace, 2 * number + 1, 10 * MS * number + 6 * MS, 1000, "reduce")
        traces.append(trace)
    result = compare_whole(tmp_path, *traces)
    assert result.comparability.comparable
    (row,) = [row for row in result.launched if row.baseline.names == ["calcHistogram"]]
    assert (row.per_launch.baseline_ns, row.per_launch.candidate_ns) == (5_855_000, 227_000)
    assert row.per_launch.level == "likely"


def test_a_renamed_kernel_is_the_same_program(tmp_path):
    """The only kernel has another name: it stands at the same place."""
    result = compare(tmp_path, saxpy(1042 * MS, "naive_sum"), saxpy(1_670_000, "tree_reduction"))
    assert result.comparability.comparable
    assert result.step.delta_ns == 1_670_000 - 1042 * MS


def test_other_programs_have_figures_and_no_verdict(tmp_path):
    """A library's GEMM is in both, 4 a step against 1; all other kernels are of one side."""
    other = program()
    for number in range(40):
        begin = 3000 * number
        other.range(1, f"step {number}", begin, begin + 2900, domain=None)
        launch(other, 40 * number, begin + 10, 10, "gemm")
        for nth in range(25):
            launch(
                other, 40 * number + nth + 1, begin + 30 + 100 * nth, 90, f"optimizer_{'abcdefgh'[nth % 8]}"
            )
    engine = program()
    for number in range(40):
        begin = 1000 * number
        engine.range(1, f"step {number}", begin, begin + 900, domain=None)
        for nth in range(4):
            launch(engine, 8 * number + nth, begin + 10 + 110 * nth, 100, "gemm")
        launch(engine, 8 * number + 5, begin + 500, 20, "sample")
    result = compare(tmp_path, engine, other)
    assert result.verdict == "not_comparable"
    assert [check.name for check in result.comparability.checks if check.status == "fail"] == ["programs"]
    assert (result.step.baseline_ns, result.step.candidate_ns) == pytest.approx((1000, 3000))


def stepped(*names: str) -> TraceBuilder:
    """40 steps of these kernels, those with a capital of 900 ns and others of 5, under a label that many programs have."""
    trace = program()
    for number in range(40):
        begin = 20_000 * number
        trace.range(1, f"step {number}", begin, begin + 19_000, domain=None)
        for nth, name in enumerate(names):
            launch(trace, 20 * number + nth, begin + 10 + 1000 * nth, 900 if name.istitle() else 5, name)
    return trace


@pytest.mark.parametrize(("kept", "gemms", "failed"), [(5, 1, []), (5, 9, []), (2, 1, ["programs"])])
def test_most_kernels_alike_are_one_program_where_a_few_hold_the_time(tmp_path, kept, gemms, failed):
    """Two kernels take the place of one, launched twice each: they hold 97 % of the time. 5 of 6 kernels stay, also of 14 launches; or 2 of 6."""
    small = ["norm", "silu", "rope", "argmax", "embed"][:kept]
    mine, theirs = ["ax", "bx", "cx"][kept - 2 :], ["qq", "rr", "ss"][kept - 2 :]
    before = stepped(*["Gemm"] * gemms, *mine, *small)
    after = stepped("Copy", "Softmax", "Copy", "Softmax", *theirs, *theirs, *small)
    checks = compare(tmp_path, before, after).comparability.checks
    assert [check.name for check in checks if check.status == "fail"] == failed
    assert [check.name for check in checks if check.name == "programs"] == failed  # nor are they in doubt


def test_a_side_without_kernels_leads_to_the_host_of_both(tmp_path):
    bare = program()
    for number in range(6):
        bare.range(1, label(number), 2000 * number, 2000 * number + 400)
    full = program()
    for number in range(6):
        full.range(1, label(number), 1000 * number, 1000 * number + 400)
        launch(full, number, 1000 * number + 100, 100, "gemm")
    result = compare(tmp_path, full, bare)
    assert (result.verdict_facts.rung.kind, result.verdict_facts.rung.why) == ("host", "kernels_missing")
    assert (result.step.baseline_ns, result.step.candidate_ns) == (1000, 2000)
    assert result.comparability.comparable


def test_only_os_calls_are_compared_by_call(tmp_path):
    """Five reads of 100 ns, and ten: the captures last from the first to the end of the last."""
    traces = []
    for count in (5, 10):
        trace = TraceBuilder().process(100).thread(100, 1)
        for number in range(count):
            trace.os_call(1, "read", 1000 * number, 1000 * number + 100)
        traces.append(trace)
    result = compare(tmp_path, *traces)
    assert result.verdict_facts.rung.kind == "host"
    (row,) = result.host.rows
    assert (row.kind, row.name, row.baseline.count, row.candidate.count) == ("os_call", "read", 5, 10)
    assert (row.baseline.ns, row.candidate.ns) == (500, 1000)
    assert (result.step.baseline_ns, result.step.candidate_ns) == (4100, 9100)


REASON = "CUPTI could not be initialised: driver is not supported by this build, see /home/somebody/log.txt"


def test_the_recorder_says_why_nothing_was_recorded(tmp_path):
    trace = program().foreign("DIAGNOSTIC_EVENT", timestamp=0, text=REASON)
    trace.foreign("DIAGNOSTIC_EVENT", timestamp=0, text="Profiling has started.")
    with pytest.raises(TracediffError) as raised:
        compare(tmp_path, trace, trace)
    assert raised.value.slug == "nothing-recorded"
    assert "driver is not supported by this build, see log.txt" in raised.value.message
    assert "Profiling has started" not in raised.value.message and "somebody" not in raised.value.message


def test_the_recorder_says_why_there_are_no_kernels(tmp_path):
    traces = [
        program()
        .range(1, "load", 0, 100 * many, domain=None)
        .foreign("DIAGNOSTIC_EVENT", timestamp=0, text=REASON)
        for many in (1, 2)
    ]
    result = compare(tmp_path, *traces)
    assert result.step.delta_ns == 100
    assert any(
        "driver is not supported" in note.message for note in result.warnings if note.slug == "recorder-said"
    )


def test_a_step_that_loads_code_every_time_is_a_step(tmp_path):
    """Each of eight steps makes a CUDA graph anew: all but the first are compared."""
    traces = []
    for gap in (1000, 800):
        trace = loop(9, gap, "turn {}")
        for number in range(9):
            trace.api(1, "cuLibraryLoadData", gap * number + 420, gap * number + 500)
        traces.append(trace)
    result = compare(tmp_path, *traces)
    (phase,) = result.phases
    assert phase.judged and phase.typical.delta_ns == pytest.approx(-200)
    assert phase.start_share == pytest.approx(1 / 8)


def test_show_of_a_capture_without_steps_is_of_all_of_it(tmp_path):
    report = tracediff.show(saxpy().write(tmp_path / "a.sqlite"), cache=False).result
    assert report.rung.kind == "captures"
    assert report.step.all_steps == 1
    assert "steps-not-found" in [note.slug for note in report.warnings]


@pytest.mark.parametrize(
    ("once", "same"), [((1, 1), True), ((1, 0.5), False), ((2, 2), False), ((2, 1), False)]
)
def test_steps_of_more_work_are_the_same_thing_where_what_comes_once_comes_once(once, same):
    """A check of guesses in each step, of 4 guesses and of 8: half as much work again, log 1.5 is 0.41. One kernel alone is no sign."""
    sides = [
        {"gemm": (gemms, 90.0), "sum": (checks, 5.0), "scan": (checks, 5.0)}
        for gemms, checks in zip((8, 12), once, strict=True)
    ]
    found = shared(*sides)
    assert not shared(*({"gemm": side["gemm"], "sum": side["sum"]} for side in sides)).alike
    assert (found.ratio, found.holds, found.alike) == (pytest.approx(1.5), True, same)


def test_what_two_sides_share_by_hand():
    """gemm 10 -> 30 and norm 20 -> 60 tell a ratio of 3; init, once on both sides, is 1 % of the time and no anchor."""
    one = {"gemm": (10.0, 600.0), "norm": (20.0, 390.0), "init": (1.0, 10.0)}
    other = {"gemm": (30.0, 1800.0), "norm": (60.0, 1170.0), "init": (1.0, 30.0)}
    found = shared(one, other)
    assert found.ratio == pytest.approx(3)
    assert found.holds and not found.alike
    assert found.held == pytest.approx(0.99) and found.anchored == pytest.approx((0.99, 0.99))
    assert (found.rarest, found.rounds) == ("gemm", (10, 30))
    assert shared({"a": (1.0, 1.0)}, {"b": (1.0, 1.0)}) is None


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [([10], [10], True), ([12, 11], [12], True), ([12], [14], False), ([9], [9], False), ([24], [12], False)],
)
def test_sides_with_as_many_steps_of_a_rank(before, after, same):
    """One step may be cut off at the ends; of fewer than ten the number says nothing."""

    def exports(counts: list[int]) -> list:
        return [SimpleNamespace(periods=pl.DataFrame({"rank": [0] * count})) for count in counts]

    assert as_many(exports(before), exports(after)) is same
    two_ranks = [SimpleNamespace(periods=pl.DataFrame({"rank": [0, 1] * count})) for count in before]
    assert as_many(two_ranks, exports(after)) is same
