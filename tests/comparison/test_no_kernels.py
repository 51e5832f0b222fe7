"""Captures in which kinds of trace are missing: host time by call and range, or a refusal whose advice leads out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from itertools import combinations

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label, reduced
from tracediff.comparison.host_time import host_time
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.request import CompareRequest, ShowRequest
from tracediff.session import compare_request, show_request

KINDS = ("kernels", "memcpy", "runtime", "nvtx", "gil", "sync", "graph")
ADVICE = {
    "--host-only": {"host_only": True},
    "--whole-capture": {"whole_capture": True},
    "--step-regex": {"step_regex": r"work (\d+)"},
}


def program(
    kinds: Collection[str], launch: int = 50, *, steps: int = 6, labels: bool = False, os_calls: bool = True
) -> TraceBuilder:
    """Steps of 1000 ns: a launch call at 100, 500 ns later its kernel of 200; a copy; a synchronising call."""
    trace = TraceBuilder().process(100).thread(100, 1).thread(100, 2)
    if os_calls:
        trace.os_call(1, "poll", 10, 2000)
    for number in range(steps):
        at = 1000 * number
        if "nvtx" in kinds:
            trace.range(1, label(number) if labels else f"work {number}", at, at + 90)
            trace.range(1, "_schedule", at + 100, at + 400)
        if "gil" in kinds:
            trace.gil(1, "hold", at + 10, at + 20)
        if "runtime" in kinds:
            trace.api(1, "cudaLaunchKernel", at + 100, at + 100 + launch, corr=3 * number)
            trace.api(1, "cudaMemcpyAsync", at + 300, at + 320, corr=3 * number + 1)
            trace.api(1, "cudaStreamSynchronize", at + 400, at + 900, corr=3 * number + 2)
        if "kernels" in kinds:
            trace.kernel(3 * number, at + 600, at + 800)
        if "memcpy" in kinds:
            trace.memcpy(3 * number + 1, at + 800, at + 850, kind="DtoH")
        if "graph" in kinds:
            trace.graph(3 * number, at + 600, at + 800)
        if "sync" in kinds:
            trace.sync(3 * number + 2, at + 400, at + 900)
    return trace


def ends(request: Callable[..., object], **options: object) -> tuple[int, list[TracediffError]]:
    """Follow the advice of every refusal: how many results come of it, and the refusals that advise nothing more."""
    try:
        request(**options)
    except TracediffError as error:
        said = {word for word in re.findall(r"--[a-z-]+", error.fix or "") if word in ADVICE}
        new = [ADVICE[word] for word in sorted(said) if not ADVICE[word].keys() <= options.keys()]
        found = [ends(request, **options, **one) for one in new]
        return sum(one for one, _ in found), [last for _, many in found for last in many] if new else [error]
    return 1, []


def covering(most: int = 3) -> list[frozenset[str]]:
    """Sets of kinds in which any three kinds are there, and missing, in every way."""
    sets = [frozenset(chosen) for many in range(len(KINDS) + 1) for chosen in combinations(KINDS, many)]
    shown = {kinds: {(three, kinds & {*three}) for three in combinations(KINDS, most)} for kinds in sets}
    left, found = set().union(*shown.values()), []
    while left:
        found.append(max(sets, key=lambda kinds: len(shown[kinds] & left)))
        left -= shown[found[-1]]
    return found


@pytest.mark.parametrize("kinds", covering(), ids=lambda kinds: "+".join(sorted(kinds)) or "nothing")
def test_every_capture_has_a_result_or_a_refusal_that_leads_out(kinds: frozenset[str], tmp_path):
    path = program(kinds, os_calls=False).write(tmp_path / "run.sqlite")
    results, refused = ends(lambda **options: reduce_file(path, Reading(threads=1, **options)))
    assert bool(results) == bool(kinds & {"kernels", "runtime", "nvtx", "graph"})
    if not results:
        (refusal,) = refused
        assert refusal.slug == "nothing-recorded"
        assert ("it holds" in refusal.message) == bool(kinds) and "-t cuda,nvtx" in refusal.fix
    else:
        assert all("-t cuda" not in error.fix for error in refused if "runtime" in kinds)
        assert all("-t nvtx" not in error.fix for error in refused if "nvtx" in kinds)


@pytest.mark.parametrize(
    ("kinds", "labels"),
    [(("runtime",), False), (("nvtx",), False), (("nvtx",), True), (("runtime", "nvtx", "gil"), True)],
)
def test_host_time_is_given_without_being_asked_for(kinds: tuple[str, ...], labels: bool, tmp_path):
    paths = [
        program(kinds, launch, labels=labels).write(tmp_path / f"{launch}.sqlite") for launch in (50, 60)
    ]
    result = compare_request(CompareRequest(*paths, cache=False))
    # by labels, or by what calls repeat
    steps = "runtime" in kinds or labels
    assert result.host is not None and result.host.per == ("step" if steps else "capture")
    assert "host-only" in [note.slug for note in result.warnings]
    assert {row.kind for row in result.host.rows} == {
        {"runtime": "call", "nvtx": "range"}[one] for one in kinds if one in ("runtime", "nvtx")
    }
    if "runtime" in kinds:
        assert show_request(ShowRequest(paths[0], cache=False)).host is not None


def rows(*sides: Side):
    found = host_time(sides)
    assert found is not None
    return {row.name: row for row in found.rows}


def side(name: str, tmp_path, *launches: int, **options) -> Side:
    runs = []
    for number, launch in enumerate(launches):
        folder = tmp_path / f"{name}{number}"
        folder.mkdir()
        trace = program(("runtime", "nvtx"), launch, **options)
        runs.append(Run(folder.name, [reduced(trace, folder, whole_capture="labels" not in options)]))
    return Side(name, runs)


def test_a_launch_call_that_takes_ten_longer(tmp_path):
    """Six calls of 50 and of 60 in the capture: 300 -> 360 ns, one call +10; too few calls for an interval of one run."""
    row = rows(side("a", tmp_path, 50), side("b", tmp_path, 60))["cudaLaunchKernel"]
    assert (row.baseline.count, row.baseline.ns, row.baseline.mean_ns) == (6, 300, 50)
    assert (row.candidate.count, row.candidate.ns, row.candidate.mean_ns) == (6, 360, 60)
    assert (row.delta_ns, row.mean_delta_ns) == (60, 10)
    assert (row.ci_low_ns, row.mean_ci_low_ns, row.level) == (None, None, "within_noise")


def test_per_step_where_there_are_labels(tmp_path):
    """Five whole steps (the sixth label has no next one), one call in each."""
    row = rows(side("a", tmp_path, 50, labels=True), side("b", tmp_path, 60, labels=True))["cudaLaunchKernel"]
    assert (row.baseline.count, row.baseline.ns, row.candidate.ns, row.delta_ns) == (1, 50, 60, 10)


def test_an_interval_over_runs(tmp_path):
    """Totals of 6 calls: 294, 300, 306 and 354, 360, 366. Variances of 36, so the error of +60 is sqrt(2 * 36 / 3); t(4) is 2.776."""
    row = rows(side("a", tmp_path, 49, 50, 51), side("b", tmp_path, 59, 60, 61))["cudaLaunchKernel"]
    half = 2.7764 * math.sqrt(24)
    assert (row.ci_low_ns, row.ci_high_ns) == (
        pytest.approx(60 - half, abs=0.01),
        pytest.approx(60 + half, abs=0.01),
    )
    assert row.level == "likely"
    assert (
        rows(side("c", tmp_path, 49, 50, 51), side("d", tmp_path, 50, 49, 51))["cudaLaunchKernel"].level
        == "within_noise"
    )


def test_an_interval_over_the_calls_of_one_run(tmp_path):
    """20 calls a side that all take as long: the interval has no width, and with one run a side it is no proof."""
    row = rows(side("a", tmp_path, 50, steps=20), side("b", tmp_path, 60, steps=20))["cudaLaunchKernel"]
    assert (row.mean_ci_low_ns, row.mean_ci_high_ns) == (10, 10)
    assert row.level == "within_noise"


def test_a_call_of_one_side_alone(tmp_path):
    one = Side("a", [Run("a", [reduced(program(("runtime",)), tmp_path, whole_capture=True)])])
    (tmp_path / "b").mkdir()
    other = Side("b", [Run("b", [reduced(program(("nvtx",)), tmp_path / "b")])])
    row = rows(one, other)["cudaStreamSynchronize"]
    assert row.candidate is None and row.mean_delta_ns is None
    assert row.delta_ns == -3000  # six of 500


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("runtime",), "CUPTI gave none of the work"),
        (
            ("nvtx",),
            "No CUDA calls were recorded either. Where the program uses a GPU, capture with nsys profile -t cuda,nvtx",
        ),
    ],
)
def test_why_kernels_may_be_missing(kinds: tuple[str, ...], said: str, tmp_path):
    one = Side("a", [Run("a", [reduced(program(kinds), tmp_path)])])
    (note,) = [note for note in compare(one, one).warnings if note.slug == "host-only"]
    assert said in note.message
    assert "runtime" not in kinds or "-t cuda" not in note.message


def test_calls_that_launch_nothing(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(3):
        trace.api(1, "cudaMalloc", 100 * number, 100 * number + 40, corr=number)
    one = Side("a", [Run("a", [reduced(trace, tmp_path)])])
    (note,) = [note for note in compare(one, one).warnings if note.slug == "host-only"]
    assert "none that launches work" in note.message and "-t cuda" not in note.message


def test_kernels_on_one_side_lead_to_the_host_of_both(tmp_path):
    paths = [
        program(kinds, labels=True).write(tmp_path / f"{len(kinds)}.sqlite")
        for kinds in (("runtime", "nvtx"), ("runtime", "nvtx", "kernels"))
    ]
    result = compare_request(CompareRequest(*paths, cache=False))
    assert (result.verdict_facts.rung.kind, result.verdict_facts.rung.why) == ("host", "kernels_missing")
    # the host of both is the same to the nanosecond
    assert result.verdict == "no_change"
    assert [row.delta_ns for row in result.host.rows] == [0] * len(result.host.rows)


def graphs(mode: str, *, labels: bool) -> TraceBuilder:
    """Twelve steps of 1000 ns: a kernel of its own, a graph of two kernels by mode (node, graph, or none: no rows), a copy, a wait."""
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    trace.meta("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node" if mode == "node" else "Graph")
    for step in range(12):
        at, corr = 1000 * step, 3 * step + 1
        if labels:
            trace.range(1, label(step), at - 10, at + 900)
        trace.api(1, "cudaLaunchKernel", at, at + 20, corr=corr).kernel(
            corr, at + 30, at + 60, name="prepare"
        )
        trace.api(1, "cudaGraphLaunch", at + 50, at + 90, corr=corr + 1)
        if mode == "node":
            for node in (0, 1):
                begin = at + 100 + 300 * node
                trace.kernel(corr + 1, begin, begin + 290, name=f"node {node}", graph_node=node + 1)
        elif mode == "graph":
            trace.graph(corr + 1, at + 100, at + 690)
        trace.api(1, "cudaMemcpyAsync", at + 100, at + 120, corr=corr + 2)
        trace.memcpy(corr + 2, at + 700, at + 720, kind="DtoH", bytes=64)
        trace.api(1, "cudaStreamSynchronize", at + 130, at + 750)
    return trace


@pytest.mark.parametrize(("mode", "labels"), [("graph", True), ("none", False)])
def test_graphs_by_node_against_graphs_as_a_whole(mode: str, labels: bool, tmp_path):
    """Steps are timed on the host of both sides, whether labels or calls tell them; the tracing of nodes costs time, so there is no verdict."""
    traces = {"node": graphs("node", labels=True), mode: graphs(mode, labels=labels)}
    paths = [trace.write(tmp_path / f"{name}.sqlite") for name, trace in traces.items()]
    result = compare_request(CompareRequest(*paths, cache=False))
    assert (result.verdict_facts.rung.kind, result.verdict_facts.rung.why) == ("host", "kernels_missing")
    assert [one.name for one in result.comparability.checks if one.status == "fail"] == ["graph_mode"]
    assert (result.step.baseline_ns, result.step.candidate_ns) == pytest.approx((1000, 1000))
    assert {(row.name, row.delta_ns) for row in result.host.rows if row.name.startswith("cudaGraph")} == {
        ("cudaGraphLaunch", 0)
    }
    assert [note.slug for note in result.warnings].count("graph-kernels-missing") == (mode == "none")


def test_a_graph_as_a_whole_is_gpu_time(tmp_path):
    """Of a step of 1000 ns: the kernel takes 30, the graph 590, the copy 20."""
    reduction = reduced(graphs("graph", labels=False), tmp_path)
    assert reduction.periods.select("compute", "memcpy").rows() == [(620, 20)] * 11


def test_a_kernel_asked_for_where_one_side_has_none(tmp_path):
    whole, without = ({"kernels", "runtime", "nvtx", "memcpy"}, {"runtime", "nvtx"})
    paths = []
    for name, kinds in (("a", whole), ("b", without)):
        paths.append(tmp_path / f"{name}.sqlite")
        program(kinds, labels=True).write(paths[-1])
    with pytest.raises(TracediffError, match="kernels were not recorded on both sides") as error:
        compare_request(CompareRequest(*paths, kernel="k", cache=False))
    assert error.value.slug == "no-such-kernel"
