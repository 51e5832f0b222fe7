"""Traces made by chance: processes of a few hundred ns each, with all that a host thread and a device can do.

Times are so short that everything touches, overlaps and ends together: whatever order of equal instants,
nesting or sharing the accounting gets wrong shows up in a few hundred of them.
"""

from __future__ import annotations

import random

from fixtures.builders import TraceBuilder
from tests.tiny import label

LAST = 200  # ns: when the host of a process ends
KINDS = ("kernel",) * 4 + ("graph", "copy", "copy to pageable", "synchronous copy", "memset", "wait", "other")
NAMES = ("gemm", "norm", "ncclDevKernel_AllReduce")
THREADS = 3


def trace(seed: int, processes: int = 12) -> TraceBuilder:
    """Processes 100, 101, ... that have nothing in common but their correlation ids, which are the same."""
    rng = random.Random(seed)
    built = TraceBuilder()
    for pid in range(100, 100 + processes):
        _Process(built, rng, pid).fill()
    return built


class _Process:
    def __init__(self, built: TraceBuilder, rng: random.Random, pid: int) -> None:
        self.trace, self.rng, self.corr, self.node = built.process(pid), rng, 0, 1000
        self.threads = [10 * pid + number for number in range(THREADS)]
        for thread in self.threads:
            built.thread(pid, thread)
        self.executor = self.threads[0]
        self.alone = pid % 3 > 0  # one device, not two

    def fill(self) -> None:
        self._labels()
        for thread in self.threads:
            self._nested(thread, 0, LAST, depth=2)
        if self.rng.random() < 0.3:  # a range of another domain, which may overlap those without nesting
            self.trace.range(self.executor, "other domain", *self._span(), domain="NCCL")
        # one call before the first label: the capture did not begin inside the first step
        self.trace.api(self.executor, "cudaEventQuery", -5, -4)
        at = self.rng.randint(0, 20)
        while at < LAST - 5:
            thread = self.executor if self.rng.random() < 0.8 else self.rng.choice(self.threads)
            end = at + self.rng.choice([0, 1, 3, 5, 10, 30])
            self._call(thread, at, end)
            at = end + self.rng.choice([0, 0, 1, 2, 8, 20])
        if self.rng.random() < 0.7:
            self._gil()
        for _ in range(self.rng.randint(0, 3)):
            start, end = self._span()
            self.trace.gc(
                self.rng.choice(self.threads), start, min(end, start + 20), self.rng.choice([None, 2])
            )

    def _span(self, low: int = 0, high: int = LAST) -> tuple[int, int]:
        one, other = sorted((self.rng.randint(low, high), self.rng.randint(low, high)))
        return one, other

    def _labels(self) -> None:
        steps = sorted(self.rng.sample(range(10, LAST), self.rng.randint(2, 4)))
        for number, (start, end) in enumerate(zip(steps, [*steps[1:], LAST], strict=True)):
            text = label(number, ctx=self.rng.randint(0, 1), gen=self.rng.randint(0, 2))
            self.trace.range(self.executor, text, start, self.rng.randint(start, end))

    def _nested(self, thread: int, low: int, high: int, depth: int) -> None:
        if depth and high - low > 2:
            start, end = self._span(low, high)
            self.trace.range(thread, f"{self.rng.choice('AB')} {self.rng.randint(0, 3)}", start, end)
            self._nested(thread, start, end, depth - 1)
            self._nested(thread, end, high, depth - 1)

    def _call(self, thread: int, start: int, end: int) -> None:
        rng, trace = self.rng, self.trace
        kind = rng.choice(KINDS)
        self.corr += 1
        corr, stream, length = self.corr, rng.choice([7, 7, 7, 8]), rng.choice([0, 1, 2, 5, 20, 40])
        begin = max(end - rng.choice([0, 0, 2, 3]) + rng.choice([0, 0, 1, 5, 20, 60]), start)
        calls = {
            "kernel": "cudaLaunchKernel",
            "graph": "cudaGraphLaunch",
            "copy": "cudaMemcpyAsync",
            "copy to pageable": "cudaMemcpyAsync",
            "synchronous copy": "cudaMemcpy",
            "memset": "cudaMemsetAsync",
            "wait": "cudaStreamSynchronize",
            "other": rng.choice(["cudaMalloc", "cudaEventQuery", "cudaFree"]),
        }
        trace.api(thread, calls[kind], start, end, corr=corr)
        if kind == "kernel":
            if rng.random() < 0.3:  # the driver's call under it
                trace.api(thread, "cuLaunchKernelEx", *self._span(start, end), corr=corr)
            device = 0 if self.alone or rng.random() < 0.7 else 1
            trace.kernel(corr, begin, begin + length, name=rng.choice(NAMES), stream=stream, device=device)
        elif kind == "graph":
            self._graph(corr, begin, length)
        elif kind == "memset":
            trace.memset(corr, begin, begin + length, stream=stream)
        elif kind == "copy to pageable":
            trace.memcpy(corr, begin, begin + length, kind="DtoH", dst="pageable", stream=stream)
        elif kind in ("copy", "synchronous copy"):
            trace.memcpy(corr, begin, begin + length, stream=stream)

    def _graph(self, corr: int, at: int, length: int) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.node += 1
            if self.rng.random() < 0.8:
                stream = self.rng.choice([7, 8])
                self.trace.kernel(
                    corr, at, at + length, name=self.rng.choice(NAMES), stream=stream, graph_node=self.node
                )
            else:
                self.trace.memcpy(corr, at, at + length, kind="DtoD", graph_node=self.node)
            at = max(at + length + self.rng.choice([-2, 0, 1, 3]), 0)

    def _gil(self) -> None:
        for thread in self.threads:
            at = 0
            while at < LAST:
                start = at + self.rng.choice([5, 20, 40])
                at = start + self.rng.choice([1, 5, 20])
                self.trace.gil(thread, self.rng.choice(["hold", "wait"]), start, at)
