"""Divide each period of each device among the categories, to the nanosecond."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from tests.oracle.capture import FOREVER, Call, Capture, Op, Range, mask_numbers, process_of
from tests.oracle.steps import WHOLE_CAPTURE, Step, find_steps, step_of_ops

BUSY = ("compute", "comm", "memcpy")
DEVICE_IDLE = ("launch_latency", "dependency", "graph_internal", "unattributed")
HOST_IDLE = ("launch_api", "host_sync", "host_api", "gc", "gil_wait", "host_work")
CATEGORIES = BUSY + DEVICE_IDLE + HOST_IDLE
LAUNCHES = re.compile(r"cu(da)?(LaunchKernel|LaunchCooperative|GraphLaunch|Mem(cpy|set).*Async)")

Span = Op | Call | Range
Part = tuple[str, str, int]  # category, innermost range with its numbers masked or '', ns


@dataclass(frozen=True)
class Gap:
    """An idle stretch of the device, the op that ends it, and where its time went."""

    start: int
    end: int
    op: Op
    parts: list[Part]


@dataclass(frozen=True)
class ThreadTime:
    """Time (ns) that one thread held the GIL, waited for it, and spent in the garbage collector."""

    hold: int
    wait: int
    gc: int


@dataclass
class Period:
    """One step as one device saw it."""

    rank: int
    device: int
    number: int
    ctx_reqs: int | None
    ctx_tokens: int | None
    gen_reqs: int | None
    phase: str
    start_ns: int
    end_ns: int
    categories: dict[str, int]  # gc and gil_wait are absent where they were not captured
    gil: dict[int, ThreadTime]  # of every thread of the process, inside [start_ns, end_ns)
    host_gil: dict[int, ThreadTime]  # the same inside the step's host window
    places: dict[tuple[str, str], int] = field(default_factory=dict)
    kernels: dict[str, tuple[int, int, Fraction]] = field(default_factory=dict)  # count, wall ns, share
    gaps: list[Gap] = field(default_factory=list, repr=False)

    @property
    def pid(self) -> int:
        return self.rank >> 24 & 0xFFFFFF

    @property
    def period_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def busy_ns(self) -> int:
        return sum(self.categories[name] for name in BUSY)

    @property
    def idle_ns(self) -> int:
        return sum(gap.end - gap.start for gap in self.gaps)

    @property
    def kernel_count(self) -> int:
        return sum(count for count, _, _ in self.kernels.values())

    @property
    def kernel_wall_ns(self) -> int:
        return sum(wall for _, wall, _ in self.kernels.values())

    @property
    def residual_ns(self) -> int:
        """What the categories leave over: always 0."""
        return self.period_ns - sum(self.categories.values())


def call_class(capture: Capture, call: Call) -> str:
    """Classify a call as launch_api, host_sync or host_api, by its name and by the ops it owns."""
    owned = capture.ops_of.get(call.launch, [])
    blocking = "Async" not in call.name or any(op.blocking_copy for op in owned)
    if call.name.endswith("Synchronize") or (re.match(r"cu(da)?Memcpy", call.name) and blocking):
        return "host_sync"
    return "launch_api" if owned or LAUNCHES.match(call.name) else "host_api"


def _pieces(items: Iterable[Span], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut [start, end) at every instant where an item starts or ends."""
    cuts = {instant for item in items for instant in (item.start, item.end) if start < instant < end}
    instants = sorted({start, end} | cuts)
    return pairwise(instants)


def walk_thread(capture: Capture, launch: Call, start: int, end: int) -> list[Part]:
    """Say what the launching thread did in [start, end), which ends no later than the launch call."""

    def near(items: Sequence[Span]) -> list[Span]:
        return [item for item in items if item.start < end and item.end > start]

    places = near(capture.ranges_on[launch.thread, "place"])
    states = {what: near(capture.ranges_on[launch.thread, what]) for what in ("gc", "gil_wait")}
    states |= {"launch_api": [launch], "host_sync": [], "host_api": []}
    for call in near(capture.calls_on[launch.thread]):
        states[call_class(capture, call)].append(call)
    parts = []
    for left, right in _pieces([*places, *(item for items in states.values() for item in items)], start, end):

        def holds(item: Span, instant: int = left) -> bool:
            return item.start <= instant < item.end

        category = next((what for what, items in states.items() if any(map(holds, items))), "host_work")
        inside = [item for item in places if holds(item)]
        innermost = max(inside, key=lambda item: (item.start, -item.end, item.row), default=None)
        parts.append((category, mask_numbers(innermost.text) if innermost else "", right - left))
    return parts


def attribute(capture: Capture, op: Op, start: int, end: int) -> list[Part]:
    """Say where the gap [start, end) that `op` ends came from."""
    call = capture.launching_call.get(op.launch)
    if call is None:
        return [("unattributed", "", end - start)]
    if op.node is not None and any(other.start < op.start for other in capture.ops_of[op.launch]):
        return [("graph_internal", "", end - start)]
    if call.end <= start:
        return [("dependency", "", end - start)]
    launched = min(call.end, end)
    waits = "dependency" if others_work(capture, op, launched, end) else "launch_latency"
    latency = [(waits, "", end - launched)] if launched < end else []
    return walk_thread(capture, call, start, launched) + latency


def others_work(capture: Capture, op: Op, start: int, end: int) -> bool:
    """Whether other devices of the process work on more than communication for most of [start, end)."""
    others = [
        one
        for (rank, device), ops in capture.ops_on.items()
        if rank == op.rank and device != op.device
        for one in ops
        if not one.comm
    ]
    busy = sum(
        right - left
        for left, right in _pieces(others, start, end)
        if any(one.start <= left and right <= one.end for one in others)
    )
    return 2 * busy > end - start


def thread_totals(
    capture: Capture, rank: int, start: int = -FOREVER, end: int = FOREVER
) -> dict[int, ThreadTime]:
    """GIL and GC time inside [start, end) of every thread of the process that has any ranges."""

    def time_in(thread: int, what: str) -> int:
        total, reached = 0, start  # where ranges overlap, time counts once
        near = [item for item in capture.ranges_on[thread, what] if item.start < end and item.end > start]
        for item in sorted(near, key=lambda item: item.start):
            left, right = max(item.start, reached), min(item.end, end)
            if right > left:
                total, reached = total + right - left, right
        return total

    threads = sorted(
        {thread for (thread, _), some in capture.ranges_on.items() if some and process_of(thread) == rank}
    )
    return {t: ThreadTime(*(time_in(t, what) for what in ("gil_hold", "gil_wait", "gc"))) for t in threads}


def _order(op: Op) -> tuple[int, int]:
    """Order ops that start together: lowest correlation id, then lowest node; those without one last."""
    return tuple(FOREVER if key is None else key for key in (op.correlation, op.node))  # type: ignore[return-value]


def _account(capture: Capture, period: Period, ops: list[Op]) -> Period:
    """Sweep the period: fill in its categories, places, gaps and kernels."""
    start, end = period.start_ns, period.end_ns
    capture = capture.around(start, end)
    ops = [op for op in ops if op.start <= end and op.end >= start]
    kernels: dict[str, tuple[int, int, Fraction]] = defaultdict(lambda: (0, 0, Fraction(0)))

    def add(name: str, count: int, wall: int, share: Fraction) -> None:
        so_far = kernels[name]
        kernels[name] = so_far[0] + count, so_far[1] + wall, so_far[2] + share

    for left, right in _pieces(ops, start, end):
        running = [op for op in ops if op.start <= left and right <= op.end]
        comm = [op for op in running if op.comm]
        compute = [op for op in running if op.kind in ("kernel", "graph") and op not in comm]
        if running:
            period.categories["compute" if compute else "comm" if comm else "memcpy"] += right - left
            for op in compute or comm:
                add(op.name, 0, 0, Fraction(right - left, len(compute or comm)))
            continue
        first = min((op for op in ops if op.start == right), key=_order)
        gap = Gap(left, right, first, attribute(capture, first, left, right))
        period.gaps.append(gap)
        for category, place, ns in gap.parts:
            period.categories[category] += ns
            period.places[category, place] = period.places.get((category, place), 0) + ns
    for op in ops:
        if op.kind == "kernel" and start <= op.start < end:
            add(op.name, 1, op.end - op.start, Fraction(0))
    period.kernels = dict(kernels)
    return period


def periods(capture: Capture) -> list[Period]:
    """Find and account for every whole period of every device of every process, in order."""
    captured = {"gil_wait": capture.gil_captured, "gc": capture.gc_captured}
    names = [name for name in CATEGORIES if captured.get(name, True)]
    result = []
    for rank, device in sorted({(op.rank, op.device) for op in capture.ops}):
        ops = [op for op in capture.ops if (op.rank, op.device) == (rank, device)]
        ops.sort(key=lambda op: (op.start, op.end))
        starts: list[tuple[int, Step]] = []
        for op, step in zip(ops, step_of_ops(capture, ops, find_steps(capture, rank)), strict=True):
            if step is not None and step not in [known for _, known in starts]:
                starts.append((op.start, step))
        ends = [start for start, _ in starts[1:]]
        if [step for _, step in starts] == [WHOLE_CAPTURE]:
            ends = [max(op.end for op in ops)]
        for (start, step), end in zip(starts, ends, strict=False):  # the last step has no end: not whole
            period = Period(
                rank=rank,
                device=device,
                number=step.number,
                ctx_reqs=step.ctx_reqs,
                ctx_tokens=step.ctx_tokens,
                gen_reqs=step.gen_reqs,
                phase=step.phase,
                start_ns=start,
                end_ns=end,
                categories=dict.fromkeys(names, 0),
                gil=thread_totals(capture, rank, start, end),
                host_gil=thread_totals(capture, rank, step.start, step.end),
            )
            result.append(_account(capture, period, ops))
    return result
