"""An EMULATOR of a TensorRT-LLM serving loop, to capture and to plant causes in. It is not TensorRT-LLM.

Two processes, as in TensorRT-LLM's PyTorch backend. The worker (one a rank) has the executor loop thread
and the await-response thread; the main process has the dispatch thread and the detokeniser thread. The NVTX
domain, the range names and the step labels are TensorRT-LLM's, of the newest generation unless
`--label-generation` says otherwise. Weights are random, requests are made up, nothing is served. Four requests of
one length arrive every 24 steps; `--traffic` has them arrive and differ as they do at a server.

    TLLM_PROFILE_START_STOP=20-50 TLLM_PROFILE_RECORD_GC=1 \
    nsys profile -o OUT -t cuda,nvtx,python-gil -c cudaProfilerApi --capture-range-end=stop \
      --cuda-graph-trace=node --sample=none --cpuctxsw=none \
      python -m tracediff_emulator --graph --work-us 95 --work-in _schedule

The JSON report on stdout holds the host's own step times inside and outside the profiled steps, and what each
planted cause really took a step.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import multiprocessing
import os
import queue
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracediff_emulator.model import Device, make_device
from tracediff_emulator.options import GENERATED, Options, parse
from tracediff_emulator.ranges import Ranges, gc_ranges
from tracediff_emulator.traffic import Traffic

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ARRIVING = 4


# How causes are planted: time that is really spent, and a record of what it took.


def busy(ns: int) -> None:
    """Run Python bytecode for `ns`, the GIL held."""
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:
        pass


def precise_sleep() -> None:
    """Ask the kernel for 1 ns timer slack on this thread, so that short sleeps end on time."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK


@dataclass(slots=True)
class Planted:
    """What the planted causes really took, ns per step in which they acted."""

    taken: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def timed(self, name: str, step: int, act: Callable[[], object]) -> None:
        """Do it and note how long it took."""
        start = time.perf_counter_ns()
        act()
        self.taken.setdefault(name, []).append((step, time.perf_counter_ns() - start))

    def summary(self, first: int, last: int) -> dict[str, dict[str, float]]:
        """Mean time of each cause over all steps first..last, those without it counted as zero."""
        result = {}
        for name, taken in self.taken.items():
            inside = [ns for step, ns in taken if first <= step <= last]
            if inside:
                steps = last - first + 1
                result[name] = {
                    "us_per_step": round(sum(inside) / steps / 1e3, 3),
                    "times": len(inside),
                    "us_each": round(statistics.fmean(inside) / 1e3, 3),
                }
        return result


class Requests:
    """Which slots hold which request; four of them are replaced at each arrival. `Traffic` takes its place."""

    def __init__(self, options: Options) -> None:
        self._o = options
        self._started: list[int | None] = [None] * options.slots
        self._next = 0

    def arrivals(self, step: int) -> dict[int, int]:
        """Tokens of the prompts that start in this step, by slot."""
        filling = step < self._o.slots // ARRIVING
        oldest = self._started[self._next]
        finished = oldest is not None and step - oldest >= GENERATED - 1
        due = step % self._o.arrival_every == self._o.arrival_every // 2
        if not (filling or due or finished):
            return {}
        slots = [(self._next + i) % self._o.slots for i in range(ARRIVING)]
        self._next = (self._next + ARRIVING) % self._o.slots
        for slot in slots:
            self._started[slot] = step
        return dict.fromkeys(slots, self._o.context)

    @property
    def serving(self) -> set[int]:
        """The slots that hold a request."""
        return {slot for slot, start in enumerate(self._started) if start is not None}


class Executor:
    """The executor loop of one rank."""

    def __init__(
        self, options: Options, rank: int, device: Device, ranges: Ranges, responses: queue.SimpleQueue[Any]
    ) -> None:
        self._o = options
        self._rank = rank
        self._device = device
        self._ranges = ranges
        self._responses = responses
        requests = options.requests()
        self._requests = Requests(options) if requests is None else Traffic(requests, options.slots)
        self._history: list[list[dict[str, Any]]] = [[] for _ in range(options.slots)]
        self.planted = Planted()
        self.began: list[tuple[int, int, int]] = []
        """(step, ctx_reqs, ns) at the start of each iteration."""

    def run(self) -> None:
        """Run all steps."""
        precise_sleep()
        windows = self._o.profile_windows()
        for step in range(self._o.steps):
            if step in {last + 1 for _, last in windows}:
                self._device.profiler(False)
            if step in {first for first, _ in windows}:
                self._device.profiler(True)
            self._iteration(step)
        if any(first < self._o.steps <= last + 1 for first, last in windows):
            self._device.profiler(False)

    def _iteration(self, step: int) -> None:
        o, device, ranges, plant = self._o, self._device, self._ranges, self._plant
        began = time.perf_counter_ns()
        with ranges.range("_fetch_new_requests"):
            prompts = self._requests.arrivals(step)
            plant("_fetch_new_requests", step)
        serving = self._requests.serving
        if not serving:
            return  # nothing to run: a server waits here for the next request
        self.began.append((step, len(prompts), began))
        with ranges.range("_schedule"):
            generating = len(serving) - len(prompts)
            plant("_schedule", step)
            if o.straggler_us and self._rank == o.straggler_rank:
                self.planted.timed("straggler", step, lambda: busy(o.straggler_us * 1000))
        plant("none", step)
        with ranges.once(o.label(step, len(prompts), sum(prompts.values()), generating)):
            with ranges.range("_prepare_inputs"):
                device.prepare()
                plant("_prepare_inputs", step)
            if o.gil_hog_us and o.gil_hog_when == "hidden":
                self._responses.put((step, None))
            device.forward(prompts)
        with ranges.range("_sample_async"):
            device.sample()
            plant("_sample_async", step)
        with ranges.range("_update_requests"):
            if o.gil_hog_us and o.gil_hog_when == "exposed":
                self._responses.put((step, None))
            tokens = device.wait()
            plant("_update_requests", step)
            # Kept, as a server keeps its requests' state: now and then that sets off a young collection.
            batch = []
            for slot in sorted(serving):
                batch.append({"slot": slot, "token": tokens[slot], "text": []})
                self._history[slot].append(batch[-1])
        with ranges.range("_handle_responses"):
            if self._rank == 0:
                self._responses.put((step, batch))
            plant("_handle_responses", step)

    def _plant(self, place: str, step: int) -> None:
        o = self._o
        if o.work_us and o.work_in == place:
            self.planted.timed("work", step, lambda: busy(o.work_us * 1000))
        if o.sleep_us and o.sleep_in == place:
            self.planted.timed("sleep", step, lambda: time.sleep(o.sleep_us / 1e6))
        if o.gc_every and o.gc_in == place and step % o.gc_every == 0:
            self.planted.timed("gc", step, gc.collect)


def await_responses(
    options: Options,
    device: Device,
    ranges: Ranges,
    responses: queue.SimpleQueue[Any],
    out: Connection | None,
    planted: Planted,
) -> None:
    """Take finished steps from the executor and send them to the main process; a step of None ends it."""
    while True:
        step, batch = responses.get()
        if step is None:
            break
        if batch is None:
            hold_gil(options, device, ranges, planted, step)
            continue
        with ranges.once(f"await_response-{step}", category="Worker"):
            items = [(response["slot"], response["token"]) for response in batch]
        if out is not None:
            with ranges.range("send"):
                out.send((step, items))
    if out is not None:
        out.send(None)


def hold_gil(options: Options, device: Device, ranges: Ranges, planted: Planted, step: int) -> None:
    """Hold the GIL in `serialize_responses`: from the moment the tokens are there, or at once."""
    if options.gil_hog_when == "exposed":
        with ranges.once(f"await_response-{step}", category="Worker"):
            while not device.done():
                pass
    with ranges.range("serialize_responses"):
        planted.timed("gil_hog", step, lambda: busy(options.gil_hog_us * 1000))


def step_times(began: list[tuple[int, int, int]], first: int, last: int) -> dict[str, float] | None:
    """Step times of the generation steps first..last-1, us, from the host's clock."""
    times = [
        (b[2] - a[2]) / 1e3
        for a, b in itertools.pairwise(began)
        if first <= a[0] < last and not a[1] and b[0] == a[0] + 1
    ]
    if not times:
        return None
    return {
        "steps": len(times),
        "mean_us": round(statistics.fmean(times), 2),
        "median_us": round(statistics.median(times), 2),
    }


def worker(options: Options, rank: int, rendezvous: str, out: Connection) -> None:
    """Run one rank: the executor loop and the await-response thread, each on a thread of its own."""
    ranges = Ranges(use_torch=not (options.dry_run or options.cpu), kineto=options.torch_profile is not None)
    responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ready = threading.Event()
    held: dict[str, Any] = {}

    def executor_loop() -> None:
        try:
            device = held["device"] = make_device(options, rank, rendezvous)
            executor = held["executor"] = Executor(options, rank, device, ranges, responses)
            # Only the ballast is left for collections to walk: their length is then --gc-objects.
            gc.collect()
            gc.freeze()
            held["ballast"] = [[[], i] for i in range(options.gc_objects // 2)]
            ready.set()
            with gc_ranges(ranges):
                executor.run()
        finally:
            ready.set()
            responses.put((None, None))

    loop = threading.Thread(target=executor_loop, name="executor_loop")
    loop.start()
    ready.wait()
    if "executor" in held:
        awaiting = threading.Thread(
            target=await_responses,
            name="await_response_thread",
            args=(
                options,
                held["device"],
                ranges,
                responses,
                out if rank == 0 else None,
                held["executor"].planted,
            ),
        )
        awaiting.start()
        awaiting.join()
    loop.join()
    executor: Executor | None = held.get("executor")
    if executor is None:
        raise SystemExit(1)
    if rank == 0 or rank == options.straggler_rank:
        out.send(summary(options, rank, executor, ranges))
    out.close()
    held["device"].close()


def summary(options: Options, rank: int, executor: Executor, ranges: Ranges) -> dict[str, Any]:
    """Put together the report of one rank: its first window, and the steps after the last one."""
    windows = options.profile_windows()
    window = windows[0] if windows else None
    first, last = window or (min(20, options.steps // 2), options.steps - 1)
    free_from = windows[-1][1] + 5 if windows else first
    return {
        "rank": rank,
        "nvtx": ranges.backend,
        "window": [first, last] if window else None,
        "profiled_step": step_times(executor.began, first + 1, last) if window else None,
        "unprofiled_step": step_times(executor.began, free_from, options.steps),
        "context_steps_in_window": sum(1 for s, ctx, _ in executor.began if ctx and first <= s <= last),
        "planted": executor.planted.summary(first, last),
    }


def dispatch(source: Connection, ranges: Ranges, out: queue.SimpleQueue[Any]) -> None:
    """Take batches from the worker and hand their responses on (main process)."""
    while True:
        message = source.recv()
        if message is None:
            break
        with ranges.range("handle_response"):
            step, items = message
            out.put((step, dict(items)))
    out.put(None)


def detokenise(options: Options, ranges: Ranges, source: queue.SimpleQueue[Any]) -> None:
    """Turn tokens into text (main process), as slowly as `--other-thread-work-us` says."""
    texts: dict[int, list[str]] = {}
    while True:
        message = source.get()
        if message is None:
            break
        with ranges.range("decode_incrementally"):
            for slot, token in message[1].items():
                pieces = texts.setdefault(slot, [])
                pieces.append(chr(97 + token % 26) * (1 + token % 7))
                " ".join(pieces[-32:]).encode()
            if options.other_thread_work_us:
                busy(options.other_thread_work_us * 1000)


def serve(options: Options) -> dict[str, Any]:
    """Start the workers, take their responses, and return the report."""
    context = multiprocessing.get_context("spawn")
    ranges = Ranges(use_torch=False)
    if (
        ranges.backend == "none"
        and (options.dry_run or options.cpu)
        and "NSYS_PROFILING_SESSION_ID" in os.environ
    ):
        raise SystemExit("mini_serve: nsys records, and this Python has no nvtx: pip install 'nvtx<=0.2.10'")
    with ExitStack() as stack:
        meet = str(Path(stack.enter_context(tempfile.TemporaryDirectory()), "ranks"))
        pipes = [context.Pipe(duplex=False) for _ in range(options.tp)]
        workers = [
            context.Process(target=worker, name=f"worker-{rank}", args=(options, rank, meet, pipes[rank][1]))
            for rank in range(options.tp)
        ]
        for process, (_, send) in zip(workers, pipes, strict=True):
            process.start()
            send.close()
        decoding: queue.SimpleQueue[Any] = queue.SimpleQueue()
        failed: list[BaseException] = []

        def dispatching() -> None:
            try:
                dispatch(pipes[0][0], ranges, decoding)
            except EOFError as error:
                failed.append(error)
                decoding.put(None)

        threads = [
            threading.Thread(target=dispatching, name="proxy_dispatch_result_thread"),
            threading.Thread(target=detokenise, name="detokenizer", args=(options, ranges, decoding)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ranks = []
        for receive, _ in pipes:
            try:
                ranks.append(receive.recv())
            except EOFError:
                continue
        for process in workers:
            process.join(30)
            if process.is_alive():
                process.terminate()
                print("mini_serve: a worker did not end by itself", file=sys.stderr)
                process.join()
    if failed or not ranks:
        raise SystemExit("mini_serve: a worker failed")
    return {
        "emulator": "mini_serve",
        "mode": options.mode,
        "profiled": bool(options.profile_windows()),
        **({"traffic": traffic(options)} if options.traffic else {}),
        "ranks": ranks,
    }


def traffic(options: Options) -> dict[str, Any]:
    """What arrived, for the report: the seed (None: a file was replayed), and means over the requests."""
    requests = options.requests() or []
    return {
        "seed": options.traffic_seed,
        "requests": len(requests),
        "prompt_tokens": round(statistics.fmean(one.prompt_tokens for one in requests), 1) if requests else 0,
        "output_tokens": round(statistics.fmean(one.output_tokens for one in requests), 1) if requests else 0,
    }


def main(argv: list[str] | None = None) -> None:
    """Run the emulator and print its report."""
    options = parse(argv)
    print("mini_serve: an emulator of a TensorRT-LLM serving loop, not TensorRT-LLM", file=sys.stderr)
    text = json.dumps(serve(options), sort_keys=True)
    print(text)
    if options.report:
        target = Path(options.report)
        partial = target.with_name(target.name + ".part")
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(target)
