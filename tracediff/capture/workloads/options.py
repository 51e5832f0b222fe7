"""The emulator's options: one flag a planted cause, and what the flags may be combined with."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass, fields

PLACES = (
    "_fetch_new_requests",
    "_schedule",
    "_prepare_inputs",
    "_sample_async",
    "_update_requests",
    "_handle_responses",
    "none",
)
"""Where host work can be planted: a range of the executor loop, or `none`, between two ranges.

`_sample_async` runs while the GPU is busy, so work planted there is hidden; everywhere else it is exposed.
"""


@dataclass(frozen=True, slots=True)
class Options:
    """What one process run does. Every default is the baseline."""

    mode: str = "graph"
    layers: int = 8
    hidden: int = 2048
    slots: int = 16
    context: int = 192
    steps: int = 120
    arrival_every: int = 24
    label_generation: int = 3
    tp: int = 1
    seed: int = 7
    dry_run: bool = False
    cpu: bool = False
    dry_gpu_us: int = 700
    report: str | None = None
    torch_profile: str | None = None
    # host causes
    work_us: int = 0
    work_in: str = "_schedule"
    sleep_us: int = 0
    sleep_in: str = "_schedule"
    gc_every: int = 0
    gc_objects: int = 120_000
    gc_in: str = "_schedule"
    gil_hog_us: int = 0
    gil_hog_when: str = "exposed"
    other_thread_work_us: int = 0
    straggler_us: int = 0
    straggler_rank: int = 1
    # device causes
    fuse_gate_up: bool = False
    split_kernel: bool = False
    slow_kernel: int = 1
    replace_kernel: str | None = None
    more_kernels: int = 0
    trtllm_kernel: bool = False
    sync_per_layer: bool = False
    h2d_bytes: int = 0
    h2d_overlap: bool = False
    alloc_bytes: int = 0

    def profile_window(self) -> tuple[int, int] | None:
        """First and last profiled step of TLLM_PROFILE_START_STOP (`A-B`), both inclusive."""
        value = os.environ.get("TLLM_PROFILE_START_STOP", "")
        match = re.fullmatch(r"(\d+)-(\d+)", value.split(",")[0].strip())
        return (int(match[1]), int(match[2])) if match else None

    def label(self, step: int, ctx_reqs: int, gen_reqs: int) -> str:
        """Write the label of a step in the chosen generation of TensorRT-LLM's wording."""
        if self.label_generation == 1:
            return f"[Executor] _forward_step: {ctx_reqs} ctx reqs, {gen_reqs} gen reqs"
        if self.label_generation == 2:
            return f"[Executor] _forward_step {step}: {ctx_reqs} ctx reqs, {gen_reqs} gen reqs"
        return (
            f"[Executor] _forward_step {step}: {ctx_reqs} ctx reqs, {ctx_reqs * self.context} ctx tokens,"
            f" {gen_reqs} gen reqs"
        )


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="mini_serve",
        description="An emulator of a TensorRT-LLM serving loop: random weights, no requests, no network. "
        "Each flag of the second and third group plants one cause for a slower (or faster) step.",
    )
    d = Options()
    run = p.add_argument_group("the program")
    mode = run.add_mutually_exclusive_group()
    for name, text in (
        ("graph", "one CUDA graph for a generation step (default)"),
        ("eager", "every kernel launched by itself"),
        ("piecewise", "one CUDA graph for a layer"),
    ):
        mode.add_argument(f"--{name}", dest="mode", action="store_const", const=name, help=text)
    p.set_defaults(mode=d.mode)
    run.add_argument("--layers", type=int, default=d.layers)
    run.add_argument("--hidden", type=int, default=d.hidden, help="a multiple of 128 x TP")
    run.add_argument("--slots", type=int, default=d.slots, help="requests in flight, a multiple of 4")
    run.add_argument("--context", type=int, default=d.context, help="tokens of a new request")
    run.add_argument("--steps", type=int, default=d.steps, help="steps in all, warm-up included")
    run.add_argument("--arrival-every", type=int, default=d.arrival_every, metavar="N",
                     help="4 new requests every N steps")  # fmt: skip
    run.add_argument("--label-generation", type=int, default=d.label_generation, choices=(1, 2, 3))
    run.add_argument("--tp", type=int, default=d.tp, help="ranks, one GPU and one process each")
    run.add_argument("--seed", type=int, default=d.seed)
    run.add_argument("--dry-run", action="store_true", help="no torch and no GPU: a clock plays the device")
    run.add_argument("--cpu", action="store_true", help="torch on the CPU: to try the model without a GPU")
    run.add_argument("--dry-gpu-us", type=int, default=d.dry_gpu_us, metavar="US")
    run.add_argument("--report", metavar="FILE", help="write the JSON report here as well as on stdout")
    run.add_argument("--torch-profile", metavar="FILE",
                     help="record the steps of TLLM_PROFILE_START_STOP with torch.profiler, not nsys: trace.json "
                     "or .json.gz, one a rank")  # fmt: skip

    host = p.add_argument_group("planted on the host")
    host.add_argument("--work-us", type=int, default=0, metavar="US", help="Python work with the GIL held")
    host.add_argument("--work-in", default=d.work_in, choices=PLACES)
    host.add_argument("--sleep-us", type=int, default=0, metavar="US", help="sleep, the GIL released")
    host.add_argument("--sleep-in", default=d.sleep_in, choices=PLACES)
    host.add_argument("--gc-every", type=int, default=0, metavar="N", help="full collection every N steps")
    host.add_argument("--gc-objects", type=int, default=d.gc_objects, metavar="N", help="its size, roughly")
    host.add_argument("--gc-in", default=d.gc_in, choices=PLACES)
    host.add_argument("--gil-hog-us", type=int, default=0, metavar="US",
                      help="the await-response thread holds the GIL in `serialize_responses`")  # fmt: skip
    host.add_argument("--gil-hog-when", default=d.gil_hog_when, choices=("exposed", "hidden"),
                      help="from the end of the GPU's work on, or while the GPU works")  # fmt: skip
    host.add_argument("--other-thread-work-us", type=int, default=0, metavar="US",
                      help="slower detokeniser in the other process")  # fmt: skip
    host.add_argument("--straggler-us", type=int, default=0, metavar="US", help="one rank is late")
    host.add_argument("--straggler-rank", type=int, default=d.straggler_rank, metavar="R")

    device = p.add_argument_group("planted on the device")
    device.add_argument("--fuse-gate-up", action="store_true", help="gate and up GEMM become one")
    device.add_argument("--split-kernel", action="store_true", help="the QKV GEMM becomes three")
    device.add_argument("--slow-kernel", type=int, default=1, metavar="F",
                        help="attention over an F times longer cache: same kernel and grid")  # fmt: skip
    device.add_argument("--replace-kernel", choices=("silu", "functor", "attention"),
                        help="silu by a Triton kernel (other name), by another functor (other template "
                        "argument), attention by another library's kernel")  # fmt: skip
    device.add_argument("--more-kernels", type=int, default=0, metavar="N",
                        help="N more layer norms a step, spread over the layers")  # fmt: skip
    device.add_argument("--trtllm-kernel", action="store_true",
                        help="a genuine TensorRT-LLM kernel in each layer: fp8_quantize_1x128, of the package "
                        "trtllm_kernel (pip install tokenspeed-trtllm-kernel)")  # fmt: skip
    device.add_argument("--sync-per-layer", action="store_true", help="with --eager or --piecewise")
    device.add_argument("--h2d-bytes", type=int, default=0, metavar="N", help="copied to the GPU each step")
    device.add_argument("--h2d-overlap", action="store_true", help="on a stream of its own")
    device.add_argument("--alloc-bytes", type=int, default=0, metavar="N",
                        help="allocated on the GPU and freed again in each step (cudaMalloc, cudaFree)")  # fmt: skip
    return p


def parse(argv: list[str] | None = None) -> Options:
    """Read the flags; a combination that cannot plant its cause is a usage error."""
    parser = _parser()
    space = parser.parse_args(argv)
    options = Options(**{f.name: getattr(space, f.name) for f in fields(Options)})
    if options.sync_per_layer and options.mode == "graph":
        parser.error("--sync-per-layer needs --eager or --piecewise: a graph cannot wait inside itself")
    if options.straggler_us and not 0 <= options.straggler_rank < options.tp:
        parser.error("--straggler-rank names no rank of --tp")
    if options.slots % 4 or options.slots < 4:
        parser.error("--slots must be a multiple of 4")
    if options.hidden % (128 * options.tp):
        parser.error("--hidden must be a multiple of 128 x --tp")
    if options.dry_run and options.tp > 1:
        parser.error("--dry-run has one rank")
    if options.torch_profile and (options.dry_run or options.profile_window() is None):
        parser.error("--torch-profile needs torch and TLLM_PROFILE_START_STOP=A-B")
    if options.cpu and (options.mode != "eager" or options.tp > 1 or options.dry_run):
        parser.error("--cpu goes with --eager and one rank")
    if options.trtllm_kernel and (options.cpu or options.dry_run):
        parser.error("--trtllm-kernel needs a GPU")
    if options.alloc_bytes and (options.cpu or options.dry_run):
        parser.error("--alloc-bytes needs a GPU")
    if min(options.arrival_every, options.slow_kernel, options.layers) < 1:
        parser.error("--arrival-every, --slow-kernel and --layers start at 1")
    return options
