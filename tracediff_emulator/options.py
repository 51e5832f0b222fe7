"""The emulator's options: one flag a planted cause, and what the flags may be combined with."""

from __future__ import annotations

import argparse
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tracediff_emulator.traffic import Request, drawn

GENERATED = 128
"""Tokens a request may generate: the cache holds context + GENERATED."""
SEED_VARIABLE = "TRACEDIFF_TRAFFIC_SEED"
"""Tells a program which requests to make; `tracediff capture --same-traffic` sets it."""

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


def _flag(
    group: str,
    default: Any,
    text: str = "",
    metavar: str | None = None,
    choices: Sequence[Any] | None = None,
    type: type | None = None,
) -> Any:
    """A field that is a flag of the same name, of the type of its default unless `type` says otherwise."""
    shown = {"help": text, "metavar": metavar, "choices": choices, "type": type}
    return field(default=default, metadata={"group": group, "shown": shown})


_RUN, _TRAFFIC = "the program", "traffic"
_HOST, _DEVICE = "planted on the host", "planted on the device"
_MODES = {
    "graph": "one CUDA graph for a generation step (default)",
    "eager": "every kernel launched by itself",
    "piecewise": "one CUDA graph for a layer",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What one process run does. Every default is the baseline."""

    mode: str = "graph"
    layers: int = _flag(_RUN, 8)
    hidden: int = _flag(_RUN, 2048, "a multiple of 128 x TP")
    slots: int = _flag(_RUN, 16, "requests in flight, a multiple of 4")
    context: int = _flag(_RUN, 192, "tokens of a new request; of the longest one with --traffic")
    steps: int = _flag(_RUN, 120, "steps in all, warm-up included")
    arrival_every: int = _flag(_RUN, 24, "4 new requests every N steps; not with --traffic", "N")
    label_generation: int = _flag(_RUN, 3, choices=(1, 2, 3))
    label_layers: bool = _flag(_RUN, False, "NVTX ranges around the attention and the MLP of each layer")
    tp: int = _flag(_RUN, 1, "ranks, one GPU and one process each")
    seed: int = _flag(_RUN, 7)
    dry_run: bool = _flag(_RUN, False, "no torch and no GPU: a clock plays the device")
    cpu: bool = _flag(_RUN, False, "torch on the CPU: to try the model without a GPU")
    dry_gpu_us: int = _flag(_RUN, 700, metavar="US")
    report: str | None = _flag(_RUN, None, "write the JSON report here as well as on stdout", "FILE")
    torch_profile: str | None = _flag(
        _RUN, None, "record the steps of TLLM_PROFILE_START_STOP with torch.profiler, not nsys: trace.json or .json.gz, one"
        " per rank", "FILE",
    )  # fmt: skip
    traffic: bool = _flag(
        _TRAFFIC,
        False,
        "Poisson arrivals, lognormal prompts and outputs; each request ends at its own length",
    )
    traffic_rate: float = _flag(_TRAFFIC, 0.4, "new requests per step on average", "R")
    traffic_seed: int | None = _flag(
        _TRAFFIC, None, "the same seed draws the same requests in every step; without it TRACEDIFF_TRAFFIC_SEED,"
        " else another one in each run. The report names it", "N", type=int,
    )  # fmt: skip
    work_us: int = _flag(_HOST, 0, "Python work with the GIL held", "US")
    work_in: str = _flag(_HOST, "_schedule", choices=PLACES)
    sleep_us: int = _flag(_HOST, 0, "sleep, the GIL released", "US")
    sleep_in: str = _flag(_HOST, "_schedule", choices=PLACES)
    gc_every: int = _flag(_HOST, 0, "full collection every N steps", "N")
    gc_objects: int = _flag(_HOST, 120_000, "its size, roughly", "N")
    gc_in: str = _flag(_HOST, "_schedule", choices=PLACES)
    gil_hog_us: int = _flag(
        _HOST, 0, "the await-response thread holds the GIL in `serialize_responses`", "US"
    )
    gil_hog_when: str = _flag(
        _HOST,
        "exposed",
        "from the end of the GPU's work on, or while the GPU works",
        choices=("exposed", "hidden"),
    )
    other_thread_work_us: int = _flag(_HOST, 0, "slower detokeniser in the other process", "US")
    straggler_us: int = _flag(_HOST, 0, "one rank is late", "US")
    straggler_rank: int = _flag(_HOST, 1, metavar="R")
    fuse_gate_up: bool = _flag(_DEVICE, False, "gate and up GEMM become one")
    split_kernel: bool = _flag(_DEVICE, False, "the QKV GEMM becomes three")
    slow_kernel: int = _flag(_DEVICE, 1, "attention over an F times longer cache: same kernel and grid", "F")
    replace_kernel: str | None = _flag(
        _DEVICE, None, "silu by a Triton kernel (other name), by another functor (other template argument), attention by"
        " another library's kernel", choices=("silu", "functor", "attention"),
    )  # fmt: skip
    more_kernels: int = _flag(_DEVICE, 0, "N more layer norms per step, spread over the layers", "N")
    sync_per_layer: bool = _flag(_DEVICE, False, "with --eager or --piecewise")
    h2d_bytes: int = _flag(_DEVICE, 0, "copied to the GPU each step", "N")
    h2d_overlap: bool = _flag(_DEVICE, False, "on a stream of its own")
    alloc_bytes: int = _flag(
        _DEVICE, 0, "allocated on the GPU and freed again in each step (cudaMalloc, cudaFree)", "N"
    )

    def profile_windows(self) -> list[tuple[int, int]]:
        """First and last profiled step of each window of TLLM_PROFILE_START_STOP (`A-B,C-D`), both inclusive."""
        value = os.environ.get("TLLM_PROFILE_START_STOP", "")
        found = [re.fullmatch(r"(\d+)-(\d+)", word.strip()) for word in value.split(",")]
        return [(int(match[1]), int(match[2])) for match in found if match]

    def requests(self) -> list[Request] | None:
        """The traffic of the run, by the seed; None without traffic."""
        if self.traffic_seed is None:
            return None
        return drawn(self.traffic_seed, self.traffic_rate, self.steps, self.context, GENERATED)

    def label(self, step: int, ctx_reqs: int, ctx_tokens: int, gen_reqs: int) -> str:
        """Write the label of a step in the chosen generation of TensorRT-LLM's wording."""
        if self.label_generation == 1:
            return f"[Executor] _forward_step: {ctx_reqs} ctx reqs, {gen_reqs} gen reqs"
        if self.label_generation == 2:
            return f"[Executor] _forward_step {step}: {ctx_reqs} ctx reqs, {gen_reqs} gen reqs"
        return (
            f"[Executor] _forward_step {step}: {ctx_reqs} ctx reqs, {ctx_tokens} ctx tokens,"
            f" {gen_reqs} gen reqs"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tracediff_emulator",
        description="An emulator of a TensorRT-LLM serving loop: random weights, no requests, no network. "
        "Each flag of the two groups `planted` plants one cause for a slower (or faster) step.",
    )
    groups = {name: parser.add_argument_group(name) for name in (_RUN, _TRAFFIC, _HOST, _DEVICE)}
    mode = groups[_RUN].add_mutually_exclusive_group()
    for name, text in _MODES.items():
        mode.add_argument(
            f"--{name}", dest="mode", action="store_const", const=name, default="graph", help=text
        )
    for one in fields(Options):
        if one.metadata:
            shown = {name: value for name, value in one.metadata["shown"].items() if value}
            if one.default is False:
                shown |= {"action": "store_true"}
            else:
                shown = {
                    "type": type(one.default) if one.default is not None else str,
                    "default": one.default,
                } | shown
            groups[one.metadata["group"]].add_argument(f"--{one.name.replace('_', '-')}", **shown)
    return parser


def parse(argv: list[str] | None = None) -> Options:
    """Read the flags; a combination that cannot plant its cause is a usage error."""
    parser = _parser()
    o = Options(**vars(parser.parse_args(argv)))
    refused = {
        "--sync-per-layer needs --eager or --piecewise: a graph cannot wait inside itself": o.sync_per_layer
        and o.mode == "graph",
        "--straggler-rank names no rank of --tp": o.straggler_us and not 0 <= o.straggler_rank < o.tp,
        "--slots must be a multiple of 4": o.slots % 4 or o.slots < 4,
        "--hidden must be a multiple of 128 x --tp": o.tp < 1 or o.hidden % (128 * o.tp),
        "--dry-run has one rank": o.dry_run and o.tp > 1,
        "--torch-profile needs torch and TLLM_PROFILE_START_STOP=A-B": o.torch_profile
        and (o.dry_run or len(o.profile_windows()) != 1),
        "--cpu goes with --eager and one rank": o.cpu and (o.mode != "eager" or o.tp > 1 or o.dry_run),
        "--alloc-bytes needs a GPU": o.alloc_bytes and (o.cpu or o.dry_run),
        "--arrival-every, --slow-kernel and --layers start at 1": min(
            o.arrival_every, o.slow_kernel, o.layers
        )
        < 1,
        "--traffic-rate is more than 0": o.traffic_rate <= 0,
        "--traffic-seed goes with --traffic": not o.traffic and o.traffic_seed is not None,
    }
    for why, wrong in refused.items():
        if wrong:
            parser.error(why)
    if not o.traffic:
        return o
    try:
        return replace(o, traffic_seed=_traffic_seed(o.traffic_seed))
    except ValueError as error:
        parser.error(f"{SEED_VARIABLE}: {error}")


def _traffic_seed(given: int | None) -> int:
    """The seed of the command line, else of the environment, else one that no other run has."""
    if given is not None:
        return given
    named = os.environ.get(SEED_VARIABLE)
    return int(named) if named else secrets.randbelow(2**32)
