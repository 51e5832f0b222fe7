"""Traces that torch.profiler wrote on an H200: against a reading of their JSON in plain Python, against nsys, against what was planted.

What the files hold: fixtures/torch/README.md.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_right
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path

import msgspec
import pytest

from fixtures.builders.torch_trace import TorchTrace
from tests.comparing import compare
from tests.judging import judge
from tests.tiny import read
from tracediff.accounting.reduction import Reduction
from tracediff.comparison.gates import parse_gate
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve
from tracediff.model import Result
from tracediff.report import words
from tracediff.report.html import render_html

TRACES = Path(__file__).parents[2] / "fixtures" / "torch"
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
COPIES_OF_GRAPHS = "memcpy32_post"  # how CUPTI reports them here; nsys: memcpy


def path(name: str) -> Path:
    return next(TRACES.glob(f"{name}.*"))


@cache
def events(name: str) -> list[dict]:
    """The events, times as integer ns; nothing of the program is used."""
    found = json.loads(gzip.decompress(path(name).read_bytes()), parse_float=Decimal)["traceEvents"]
    for event in found:
        event["begin"] = int(Decimal(event["ts"]) * 1000)
        event["end"] = event["begin"] + int(Decimal(event["dur"]) * 1000)
    return found


def labels(name: str, pattern: str) -> list[tuple[int, int]]:
    """(begin, number) of the step labels, in order."""
    return sorted(
        (event["begin"], int(number[1]))
        for event in events(name)
        if event["cat"] == "user_annotation" and (number := re.match(pattern, event["name"]))
    )


def work(name: str, pattern: str) -> dict[tuple[int, str], list[int]]:
    """(step, kind) -> lengths of the ops whose launching call began after the step's label and before the next."""
    begins = labels(name, pattern)
    calls = {
        event["args"]["correlation"]: event["begin"]
        for event in events(name)
        if event["cat"] in ("cuda_runtime", "cuda_driver")
    }
    found: dict[tuple[int, str], list[int]] = {}
    for event in events(name):
        if event["cat"] in GPU:
            place = bisect_right(begins, (calls[event["args"]["correlation"]], 1 << 30)) - 1
            kind = "gpu_memcpy" if event["name"] == COPIES_OF_GRAPHS else event["cat"]
            found.setdefault((begins[place][1], kind), []).append(event["end"] - event["begin"])
    return found


def reduced(name: str, *, two_profilers: bool = False) -> Reduction:
    return read(path(name), two_profilers=two_profilers)


def by_step(reduction: Reduction) -> dict[tuple[int, str], tuple[int, int]]:
    """(step, kind) -> ops and their ns."""
    kinds = reduction.keys.select("id", "kind")
    rows = reduction.kernels.join(kinds, left_on="key", right_on="id").join(
        reduction.periods.select("period", "number"), on="period"
    )
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for number, kind, count, ns in rows.select("number", "kind", "count", "wall_ns").rows():
        ops, total = found.get((number, GPU[kind]), (0, 0))
        found[number, GPU[kind]] = (ops + count, total + ns)
    return found


@cache
def result(before: str, after: str) -> Result:
    sides = reduce_sides(
        [resolve(str(path(one))) for one in (before, after)], Reading(threads=1, cached=True)
    )
    return compare(sides[0], sides[1])


FORWARD, PROFILER_STEP = r"\[Executor\] _forward_step (\d+):", r"ProfilerStep#(\d+)"


@pytest.mark.parametrize(
    ("name", "pattern", "steps"),
    [
        ("graph_base", FORWARD, range(20, 45)),
        ("graph_more", FORWARD, range(20, 45)),
        ("eager_base", FORWARD, range(20, 45)),
        ("loop_a", PROFILER_STEP, range(4, 15)),
    ],
)
def test_counts_and_times_of_every_step_are_those_of_the_json(name, pattern, steps):
    """Kernels of one stream do not overlap, so that their wall time is the sum of their lengths."""
    expected = {
        key: (len(lengths), sum(lengths)) for key, lengths in work(name, pattern).items() if key[0] in steps
    }
    assert by_step(reduced(name)) == expected
    assert reduced(name).residual_ns == 0


@pytest.mark.parametrize("name", ["graph_base", "eager_base"])
def test_both_profilers_saw_the_same_kernels_and_times_within_two_percent(name):
    nsys, torch = by_step(reduced(f"nsys_{name}")), by_step(reduced(name))
    assert {key: ops for key, (ops, _) in nsys.items()} == {key: ops for key, (ops, _) in torch.items()}
    for key, (_, ns) in nsys.items():
        if key[1] == "kernel":
            assert torch[key][1] == pytest.approx(ns, rel=0.02)
    kernels = [sum(ns for (_, kind), (_, ns) in one.items() if kind == "kernel") for one in (nsys, torch)]
    assert kernels[1] == pytest.approx(kernels[0], rel=0.003)


def test_both_profilers_name_the_kernels_alike():
    """The keys of a step under both: nsys's own short names, and those worked out from demangled ones."""
    found = []
    for name in ("nsys_eager_base", "eager_base"):
        one = reduced(name)
        rows = one.kernels.filter(period=3).join(one.keys, left_on="key", right_on="id")
        counts: Counter[tuple[str, str, str]] = Counter()
        for short, grid, block, count in (
            rows.filter(kind=0).select("short_name", "grid", "block", "count").rows()
        ):
            counts[short, grid, block] += count
        found.append(counts)
    assert found[0] == found[1]
    assert found[0].total() == 149


@pytest.mark.slow
def test_one_program_under_two_profilers_gets_no_verdict():
    for name in ("graph_base", "eager_base"):
        found = result(f"nsys_{name}", name)
        assert found.verdict == "not_comparable"
        assert "nsys and torch.profiler" in found.headline.text
        assert found.verdict_reason.startswith("Baseline: nsys 2023.4.4.54; candidate: torch.profiler")
        assert {one.level for one in found.findings} <= {"within_noise"}
        assert {row.match for row in found.kernels} <= {"exact", "name", "template"}


def test_a_repeat_shows_no_change():
    """One run a side cannot exclude a change of 1 %."""
    found = result("graph_base", "graph_base2")
    assert found.verdict in ("no_change", "inconclusive")
    assert {one.level for one in found.findings} <= {"within_noise"}
    assert all(row.level == "within_noise" for row in found.kernels)


def test_sixteen_more_layer_norms_are_found_first():
    """Their own time, from the JSON: the layer norms of the 24 steps of generation, one side less the other.

    The finding is of typical steps, and theirs are as long as those of the others to 1 %.
    """
    found = result("graph_base", "graph_more")
    first = found.findings[0]
    assert first.cause == "kernel_added"
    assert first.level == "exact"  # their number
    assert "vectorized_layer_norm" in found.headline.text
    assert first.where.holds("vectorized_layer_norm_kernel")
    assert (first.evidence.count_baseline, first.evidence.count_candidate) == (16, 32)
    means = []
    for name in ("graph_base", "graph_more"):
        begins = labels(name, FORWARD)
        generation = {number for _, number in begins[:-1]} - {contexts(name)}
        calls = {
            event["args"]["correlation"]: event["begin"]
            for event in events(name)
            if event["cat"] == "cuda_runtime"
        }
        means.append(
            sum(
                event["end"] - event["begin"]
                for event in events(name)
                if event["cat"] == "kernel" and "layer_norm" in event["name"]
                and begins[bisect_right(begins, (calls[event["args"]["correlation"]], 1 << 30)) - 1][1] in generation
            )
            / len(generation)
        )  # fmt: skip
    (own, gaps) = first.parts  # with the gaps inside the graph that more kernels bring
    assert (own.follows, gaps.cause, gaps.follows) == (False, "graph_internal", True)
    assert own.delta_ns == pytest.approx(means[1] - means[0], rel=0.01)
    assert 0 < own.ci_low_ns < means[1] - means[0] < own.ci_high_ns
    assert first.ci_low_ns > 0 and first.delta_ns == pytest.approx(own.delta_ns + gaps.delta_ns)


def contexts(name: str) -> int:
    """The one step with context requests."""
    (found,) = {
        int(number[1])
        for event in events(name)
        if (number := re.match(FORWARD + " [1-9]\\d* ctx", event["name"]))
        and event["cat"] == "user_annotation"
    }
    return found


@pytest.mark.slow
def test_a_sleep_is_found_first_where_it_is():
    """517.1 us by the program's own clock."""
    first = result("eager_base", "eager_sleep").findings[0]
    assert (first.cause, first.where.range) == ("host_work", "_schedule")
    assert first.delta_ns == pytest.approx(517_095, rel=0.02)


def test_bytes_that_are_not_recorded_are_no_fewer_bytes():
    """Two copies of 128 bytes on the device in each step, which the driver's kernels make where they are nodes of a graph."""
    found = result("graph_base", "eager_base")
    assert [one.name for one in found.structure if one.kind == "copies"] == []
    sides = [(one.baseline, one.candidate) for one in (found.launch, *found.launch.by_phase)]
    assert all(of.copied_bytes_per_step is None for of, _ in sides)
    assert [round(of.copied_bytes_per_step) for _, of in sides[1:]] == [2 * 128 + 128, 2 * 128 + 128 + 4 * 16]
    said = judge(parse_gate("copied_bytes:+1%"), found)
    assert (said.outcome, said.message) == ("inconclusive", "copied_bytes were not captured on both sides")


def test_collections_are_found_first():
    """One of the six is before the first whole step; five fall into the 24 steps of generation, exposed to the ns.

    The mean is that of all 24. Steps that stop are counted among those after the first, whose kernels are new: the five of 23 are five apart.
    """
    found = result("graph_base", "graph_gc")
    assert found.verdict == "inconclusive"  # five stops of one run
    first = found.findings[0]
    assert (first.cause, first.where.range) == ("gc", "_schedule")
    assert "every 5th generation step of the candidate takes 21.7 ms more" in found.headline.what
    begins = labels("graph_gc", FORWARD)
    pauses = [
        event["end"] - event["begin"]
        for event in events("graph_gc")
        if event["name"] == "Python GC" and begins[0][0] < event["begin"] < begins[-1][0]
    ]
    assert len(pauses) == 5
    assert first.part == "mean"
    assert first.delta_ns == pytest.approx(sum(pauses) / 24, abs=1)
    assert "Python GC in _schedule" in found.headline.text


def test_a_loop_with_profiler_steps_finds_the_longer_sleep():
    found = result("loop_a", "loop_b")
    assert found.verdict in ("inconclusive", "likely_regressed")
    # both collect, for 40 and 57 ms: the largest estimate, and nothing of it is sure; the sleep alone is
    (slept,) = (one for one in found.findings if one.where.range == "<built-in function sleep>")
    assert slept.cause == "host_work" and slept.ci_low_ns > 0
    assert [one.rank for one in found.findings if one.ci_low_ns > 0 or one.ci_high_ns < 0] == [slept.rank]
    assert "host work in <built-in function sleep>" in found.headline.why
    sleeps = []
    for name in ("loop_a", "loop_b"):
        numbers = [number for _, number in labels(name, PROFILER_STEP)]
        assert numbers == list(range(4, 16))
        lengths = [
            event["end"] - event["begin"]
            for event in events(name)
            if event["cat"] == "python_function" and event["name"] == "<built-in function sleep>"
        ]
        sleeps.append(sum(lengths) / len(lengths))
    assert slept.delta_ns == pytest.approx(sleeps[1] - sleeps[0], rel=0.02)


@pytest.mark.slow
def test_moments_count_from_the_earliest_event_as_viewers_do():
    """The longest sleep of the candidate lies where the finding says."""
    (slept,) = (
        one for one in result("loop_a", "loop_b").findings if one.where.range == "<built-in function sleep>"
    )
    assert "'<built-in function sleep>'" in slept.evidence.query
    (moment,) = (one for one in slept.evidence.moments if one.side == "candidate")
    earliest = min(event["begin"] for event in events("loop_b"))
    sleeps = [
        (event["begin"] - earliest, event["end"] - earliest)
        for event in events("loop_b")
        if event["name"] == "<built-in function sleep>"
    ]
    assert (moment.start_ns, moment.end_ns) in sleeps


@pytest.mark.slow
def test_reports_of_traces_say_where_to_look_and_what_to_record():
    found = result("graph_base", "graph_base2")
    page = render_html(found)
    assert words.viewer(found) == "Perfetto"
    loop = result("loop_a", "loop_b")
    sure = [
        msgspec.structs.replace(one, level="likely") for one in loop.findings
    ]  # moments are of causes beyond noise
    assert "Open it in Perfetto" in render_html(msgspec.structs.replace(loop, findings=sure))
    assert "not captured on either side. Capture with nsys -t python-gil to see it." in page
    assert "CUPTI_ACTIVITY_KIND" not in page
    assert words.missing(found, "gil").endswith("on either side. Capture with nsys -t python-gil to see it.")
    assert words.missing(found, "gc").endswith("Capture with record_python_gc_info=True to see it.")
    both = result("nsys_graph_base", "graph_base")
    assert words.viewer(both) == "nsys and Perfetto"
    assert words.missing(both, "gil").endswith("on the candidate. Capture with nsys -t python-gil to see it.")


def test_the_memory_of_pytorchs_allocator():
    """The planted 64 Mi floats stand on what the step begins with, and above its other peak."""
    found, before, steady = result("memory_base", "memory_more"), [], set()
    for name in ("memory_base", "memory_more"):
        held = [one["args"] for one in events(name) if one["cat"] == "cpu_instant_event"]
        before.append((max(one["Total Allocated"] for one in held), held[0]["Total Reserved"]))
        steady.add(min(one["Total Allocated"] for one in held))
    allocated, reserved = found.system.memory
    assert [(one.baseline.peak_bytes, one.candidate.peak_bytes) for one in (allocated, reserved)] == list(
        zip(*before, strict=True)
    )
    assert {allocated.baseline.steady_bytes, allocated.candidate.steady_bytes} == steady
    assert allocated.candidate.peak_bytes - allocated.candidate.steady_bytes == 4 * (64 << 20)
    assert (allocated.baseline.allocations_per_step, allocated.candidate.allocations_per_step) == (4, 5)
    assert "PyTorch allocated memory peak 64.0 -> 328 MB" in found.headline.text


def test_odd_events_of_the_allocator_cost_nothing_else(tmp_path):
    """Of the CPU, without totals, with totals that are no numbers, before all else: the level is of what can be read."""
    trace = TorchTrace()
    for step in range(4):
        at = 1_000_000 * step
        trace.range(1, f"ProfilerStep#{step}", at, at + 900_000)
        trace.api(1, "cudaLaunchKernel", at + 100_000, at + 120_000, step + 1)
        trace.kernel(step + 1, at + 150_000, at + 400_000, "gemm")
    trace.memory(1, -5000, 300, change=100).memory(1, 500_000, 800).memory(1, 600_000, 9999, kind=0)
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "ts": 4.0}
    for said in ({}, {"Device Type": 1}, {"Device Type": 1, "Total Allocated": "many", "Bytes": None}):
        trace.raw({**event, "args": said})
    reduction = reduce_file(trace.write(tmp_path / "odd.json"), Reading(threads=1))
    assert reduction.memory_peaks.rows() == [
        ("PyTorch allocated", 800, 300),
        ("PyTorch reserved", 1 << 21, 1 << 21),
    ]


@pytest.mark.parametrize("name", sorted(one.name for one in TRACES.glob("*.json.gz")))
def test_the_fixtures_say_nothing_of_a_machine(name):
    """Every string: no absolute path, no address, no user; files only as torch's own or by their bare name."""
    texts: set[str] = set()

    def gather(value: object) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                texts.add(key)
                gather(one)
        elif isinstance(value, list):
            for one in value:
                gather(one)
        elif isinstance(value, str):
            texts.add(value)

    gather(json.loads(gzip.decompress((TRACES / name).read_bytes())))
    assert "kernel" in texts
    for text in texts:
        assert not re.search(r"(^|[\s'\"=])/|\\|~/|@|://|\d+\.\d+\.\d+\.\d+|0x[0-9a-f]{6}", text), text
        if "/" in text:
            assert re.fullmatch(r"(torch|logging)/[\w/]+\.py\(\d+\): .*", text), text
        assert not re.search(r"\b(host_?name|user_?name|home|environ)\b", text, re.IGNORECASE), text
