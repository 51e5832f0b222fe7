"""Steps replayed with changes, on traces whose answer a reader works out: docs/method.md#replay has the rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.builders import TraceBuilder
from tests.oracle import random_traces
from tests.tiny import CAPTURES, PROGRAMS, label, plain, reduced
from tracediff.accounting.reduction import EventGraph
from tracediff.comparison.what_if import parse_edits
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading
from tracediff.model.causes import CATEGORIES
from tracediff.whatif.graph import GIL, MOST_OPS, stretches
from tracediff.whatif.replay import GRAPH_GAP_NS, GRAPH_LAUNCH_NS, GRAPH_NODE_NS, edited, project, replay

US = 1000
STEPS = 8


def loop(
    step: Callable[[TraceBuilder, int, int], int], *, trace: TraceBuilder | None = None, tid: int = 1
) -> TraceBuilder:
    """Steps of a thread, one after the other. `step` adds what happens from an instant on and returns when it ends."""
    trace = trace or TraceBuilder().process(100).device(0).thread(100, tid)
    now = 0
    for number in range(STEPS + 1):
        end = step(trace, now, number)
        trace.range(tid, label(number), now, end)
        now = end
    return trace


def after(trace: TraceBuilder, folder, **edits) -> tuple[set[int], set[int]]:
    """Step times before and after, us. Steps are alike, so each is one number."""
    steps = project(reduced(trace, folder, graph="all"), [one.edit for one in parse_edits(**edits)])
    return set((steps.before // US).tolist()), set((steps.after // US).tolist())


def sampled(trace: TraceBuilder, now: int, number: int) -> int:
    """300 us: the kernel runs from 12 to 212, the thread samples from 10 to 160, waits until 220 and works until 300.

    thread |launch 0-10|sample 10-160|  sync 160-220  |plan 220-300|
    device      |12 -------- kernel -------- 212|
    """
    trace.api(1, "cudaLaunchKernel", now, now + 10 * US, corr=number + 1)
    trace.kernel(number + 1, now + 12 * US, now + 212 * US, name="gemm")
    trace.range(1, "sample", now + 10 * US, now + 160 * US)
    trace.api(1, "cudaStreamSynchronize", now + 160 * US, now + 220 * US)
    trace.range(1, "plan", now + 220 * US, now + 300 * US)
    return now + 300 * US


@pytest.mark.parametrize(
    ("edit", "us"),
    [
        ({"without": ["host_work@plan"]}, 220),  # it was on the way: all of it is gained
        ({"without": ["host_work@sample"]}, 300),  # the GPU worked meanwhile: the thread waits instead
        ({"without": ["host_work@sample", "host_work@plan"]}, 220),
        ({"scale": ["gemm=0.9"]}, 280),  # the wait is 20 us shorter
        # 50 us of kernel end at 62, but the thread samples until 160. Its call for a wait that is over takes 3 us
        ({"scale": ["gemm=0.25"]}, 243),
        ({"scale": ["gemm=0.25"], "without": ["host_work@sample"]}, 150),  # 12 + 50 + 8 us to return + 80
        ({"scale": ["gemm=2"]}, 500),
        ({"scale": ["gemm=1"]}, 300),
        ({"without": ["host_sync"]}, 240),  # nobody waits: 10 + 150 + 80, and the kernel of 200 us fits into that
        ({"without": ["host_sync", "host_work"]}, 201),  # the GPU is never done: 200 us, and 1 us from a kernel to the next
    ],
)  # fmt: skip
def test_a_wait_that_was_hidden_comes_out(tmp_path, edit, us):
    assert after(loop(sampled), tmp_path, **edit) == ({300}, {us})


def test_the_host_runs_a_step_ahead(tmp_path):
    """The thread takes 10 + 150 + 80 us of its own and 3 us for a wait that is over, the GPU 200 us: 243 us."""
    assert after(loop(sampled), tmp_path, ahead=True) == ({300}, {243})
    assert after(loop(sampled), tmp_path, ahead=True, scale=["gemm=1.5"]) == (
        {300},
        {301},
    )  # 1 us from a kernel to the next


def test_a_kernel_that_begins_late_on_an_idle_gpu_waited_for_no_other(tmp_path):
    """110 us: 100 us of work, 10 us launch; the kernel runs from 140 to 150. Without the work it follows the one before it by 1 us."""

    def step(trace: TraceBuilder, now: int, number: int) -> int:
        trace.range(1, "plan", now, now + 100 * US)
        trace.api(1, "cudaLaunchKernel", now + 100 * US, now + 110 * US, corr=number + 1)
        trace.kernel(number + 1, now + 140 * US, now + 150 * US)
        return now + 110 * US

    assert after(loop(step), tmp_path, without=["host_work"]) == ({110}, {11})


def test_what_decides_a_step_sums_to_it(tmp_path):
    steps = project(
        reduced(loop(sampled), tmp_path, graph="all"),
        [one.edit for one in parse_edits(without=["host_work@plan"])],
    )
    assert (steps.deciding.sum(axis=2) == [steps.before, steps.after]).all()
    # start after the launch, return of the wait, launch, plan, kernel
    assert set(steps.deciding[0].max(axis=0).tolist()) == {0, 2 * US, 8 * US, 10 * US, 80 * US, 200 * US}
    assert set(steps.deciding[1].max(axis=0).tolist()) == {0, 2 * US, 8 * US, 10 * US, 200 * US}


def held(*, send: int) -> TraceBuilder:
    """A loop of 200 us: 20 us in `plan`, 50 us of wait for the GIL, 10 us launch, 120 us until the GPU is done. Thread 2 holds it from 5 to 68 us, in `send` from `send` us on."""

    def step(trace: TraceBuilder, now: int, number: int) -> int:
        trace.gil(2, "hold", now + 5 * US, now + 68 * US).range(2, "send", now + send * US, now + 66 * US)
        trace.range(1, "plan", now, now + 20 * US).gil(1, "wait", now + 20 * US, now + 70 * US)
        trace.api(1, "cudaLaunchKernel", now + 70 * US, now + 80 * US, corr=number + 1)
        trace.kernel(number + 1, now + 85 * US, now + 195 * US)
        trace.api(1, "cudaStreamSynchronize", now + 80 * US, now + 200 * US)
        return now + 200 * US

    return loop(step, trace=TraceBuilder().process(100).device(0).thread(100, 1).thread(100, 2))


def test_a_wait_for_the_gil_ends_when_the_holder_lets_go(tmp_path):
    """200 us: 20 us of work, 50 us of wait for the GIL that thread 2 holds in `send`, 10 us launch, 120 us until the GPU is done."""

    trace = held(send=6)
    assert after(trace, tmp_path, without=["gil_wait@send"]) == ({200}, {150})
    assert after(trace, tmp_path, scale=["gil_wait=0.5"]) == ({200}, {175})
    # the holder began after `plan` had: it lets go no sooner for the work that is gone
    assert after(trace, tmp_path, without=["host_work@plan"]) == ({200}, {200})


def test_kernels_launched_one_by_one_become_a_graph(tmp_path):
    """10 kernels of 5 us, each launched by 30 us of host: 300 us, a wait of 10 us, and 40 us of work that stays."""

    def step(trace: TraceBuilder, now: int, number: int) -> int:
        for one in range(10):
            call = now + 30 * US * one
            trace.api(1, "cudaLaunchKernel", call + 20 * US, call + 30 * US, corr=100 * number + one + 1)
            trace.kernel(100 * number + one + 1, call + 28 * US, call + 33 * US)
        trace.api(1, "cudaStreamSynchronize", now + 300 * US, now + 310 * US)
        return now + 350 * US

    launch = GRAPH_LAUNCH_NS + 10 * GRAPH_NODE_NS
    # the 20 us before the first launch stay; the kernels follow the call that launches them; the wait takes its 7 us to return
    on_gpu = 10 * 5 * US + 9 * GRAPH_GAP_NS
    steps = project(reduced(loop(step), tmp_path, graph="all"), [one.edit for one in parse_edits(graph=True)])
    assert set(steps.after.tolist()) == {20 * US + launch + on_gpu + 7 * US + 40 * US}
    decided = dict(zip(CATEGORIES, steps.deciding[1].T.tolist(), strict=True))
    assert set(decided["graph_internal"]) == {9 * GRAPH_GAP_NS} and set(decided["dependency"]) == {0}


def test_kernels_that_become_one_lose_a_launch(tmp_path):
    """Host-bound: 40 us per kernel, of which 30 us prepare and 10 us launch. Two kernels per step."""

    def step(trace: TraceBuilder, now: int, number: int) -> int:
        for one, name in enumerate(("up", "gate")):
            corr, call = 10 * number + one + 1, now + 40 * US * one + 30 * US
            trace.api(1, "cudaLaunchKernel", call, call + 10 * US, corr=corr)
            trace.kernel(corr, call + 12 * US, call + 20 * US, name=name)
        trace.api(1, "cudaStreamSynchronize", now + 80 * US, now + 95 * US)
        return now + 100 * US

    # 30 + 10 to launch; the kernel of 16 us begins 2 us later, and the wait takes 5 us to return and 5 us follow
    assert after(loop(step), tmp_path, fuse=["up+gate"]) == ({100}, {30 + 12 + 16 + 5 + 5})
    assert after(loop(step), tmp_path, fuse=["up+gate=0.5"]) == ({100}, {30 + 12 + 8 + 5 + 5})


def test_a_collective_ends_after_its_last_rank(tmp_path):
    """Rank 1 plans 100 us before it launches; rank 0 waits in the collective. Without the planning both steps are 100 us shorter."""
    trace = TraceBuilder()
    for rank, plan in ((0, 0), (1, 100 * US)):
        pid, tid = 100 + rank, 1 + rank
        trace.process(pid).device(rank).thread(pid, tid)
        for number in range(STEPS + 1):
            now, corr = 250 * US * number, number + 1
            if plan:
                trace.range(tid, "plan", now, now + plan)
            trace.api(tid, "cudaLaunchKernel", now + plan, now + plan + 10 * US, corr=corr)
            trace.kernel(
                corr,
                now + plan + 12 * US,
                now + 200 * US,
                name="ncclDevKernel_AllReduce",
                device=rank,
                pid=pid,
            )
            trace.api(tid, "cudaStreamSynchronize", now + plan + 10 * US, now + 210 * US)
            trace.range(tid, label(number), now, now + 250 * US)
    assert after(trace, tmp_path, without=["host_work@plan"]) == ({250}, {150})


def test_a_long_capture_is_replayed_in_stretches():
    """1,000 ops in 100 steps: of 200 ops four stretches of 5 steps, the first at the start, the last at the end."""
    unit = SimpleNamespace(step=np.zeros(100), start=np.arange(1000), bounds=np.arange(0, 1001, 10))
    assert stretches([unit], 1000) == [(0, 100)]
    assert stretches([unit], 200) == [(0, 5), (31, 36), (63, 68), (95, 100)]
    assert stretches([unit], 1) == [(0, 1), (33, 34), (66, 67), (99, 100)]


def test_a_stretch_is_exact_and_ends_with_its_last_step(monkeypatch):
    monkeypatch.setitem(MOST_OPS, "all", 400)
    graph = reduce_file(CAPTURES["graph_sleep"], Reading(threads=1, graph="all")).events
    assert (replay(graph) == graph.time).all()
    assert len(np.unique(graph.stretch)) == 4 and len(graph.period) == 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_changes_every_event_keeps_its_time(name):
    graph = reduce_file(CAPTURES[name], Reading(threads=1, graph="all")).events
    assert (graph.source < graph.target).all() and (np.diff(graph.target) >= 0).all()
    assert (replay(graph) == graph.time).all()
    names = [""] * (int(graph.key.max()) + 1)
    same = [one.edit for one in parse_edits(scale=["compute=1", "host_work=1", "gil_wait=1", "launch_api=1"])]
    assert (replay(edited(graph, names, same).graph) == graph.time).all()
    # taking more away makes no event later
    earlier = graph.time
    for count in range(1, 5):
        less = parse_edits(without=["gc", "gil_wait", "host_work", "memcpy"][:count])
        now = replay(edited(graph, names, [one.edit for one in less]).graph)
        assert (now <= earlier).all()
        earlier = now


def test_what_the_holder_worked_before_it_was_asked_for_the_gil_is_no_wait(tmp_path):
    """Thread 2 holds the GIL from 5 to 68 us, the thread asks for it at 20 and gets it at 70: 50 us of wait, 20 us of work before."""

    trace = held(send=1)
    steps = project(reduced(trace, tmp_path, graph="all"), [])
    decided = {name: set(ns.tolist()) for name, ns in zip(CATEGORIES, steps.deciding[0].T, strict=True)}
    assert decided["gil_wait"] == {50 * US} and decided["host_work"] == {20 * US}


def waits(path: Path) -> list[tuple[int, int]]:
    """All waits for the GIL by an export's own rows, (start, end); those of a thread that touch are one."""
    with sqlite3.connect(path) as export:
        rows = export.execute(
            'SELECT n.globalTid, n.start, n."end" FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId'
            " WHERE coalesce(n.text, s.value) = 'Waiting for GIL' ORDER BY 1, 2"
        ).fetchall()
    found: list[tuple[int, int, int]] = []
    for tid, start, end in rows:
        if found and found[-1][0] == tid and found[-1][2] >= start:
            start, end = found[-1][1], max(end, found.pop()[2])
        found.append((tid, start, end))
    return [(start, end) for _, start, end in found]


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]
)
def test_no_more_is_charged_to_the_gil_than_was_waited(tmp_path, seed):
    path = random_traces.trace(seed).write(tmp_path / "trace.sqlite")
    within_waits(path, reduce_file(path, Reading(threads=1, graph="all")).events)


@pytest.mark.parametrize("name", ["graph_a1", "eager_a1", "tp2_a1"])
def test_nor_in_a_capture(tmp_path, name):
    within_waits(plain(name, tmp_path), reduce_file(CAPTURES[name], Reading(threads=1, graph="all")).events)


def within_waits(path: Path, graph: EventGraph) -> None:
    """Whatever decides a step passes through such an edge: all of its time lies within a wait."""
    known = waits(path)
    edges = np.flatnonzero(graph.kind == GIL)
    ends = graph.time[graph.target[edges]]
    assert len(edges) or not known
    for begin, end in zip((ends - graph.lag[edges]).tolist(), ends.tolist(), strict=True):
        assert any(start <= begin and end <= stop for start, stop in known), (begin, end)
