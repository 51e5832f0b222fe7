"""How the program that recorded a trace records what the trace lacks: the words of advice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracediff.formats.kineto import PRODUCT


@dataclass(frozen=True)
class Recording:
    """Words of one recorder. kernels: where they would be; range: what its ranges are called; the others say how to record something."""

    kernels: str
    range: str
    ranges: str
    labels: str
    more: str
    gpu_work: str
    not_collected: str  # why work that was launched may be missing
    not_inside: str  # why nothing was launched


_NSYS = Recording(
    kernels="table CUPTI_ACTIVITY_KIND_KERNEL is missing or empty",
    range="NVTX range",
    ranges="record it with -t nvtx",
    labels="label the steps and record them with -t nvtx (TensorRT-LLM labels them by itself)",
    more="capture more iterations, for example TLLM_PROFILE_START_STOP=100-150",
    gpu_work="capture with nsys profile -t cuda,nvtx,python-gil",
    not_collected="the driver is newer than this nsys, the machine forbids it (WSL 2, a virtual GPU, a container), another profiler held"
    " the GPU, or the program was killed before CUPTI wrote its buffers (nsys --cuda-flush-interval=1000). nsys says which under Diagnostics",
    not_inside="the recorded time holds no GPU work (--capture-range, --delay, --duration), or another process does it (nsys"
    " --trace-fork-before-exec=true; start nsys before the server)",
)
_TORCH = Recording(
    kernels="no event is of category kernel",
    range="range of record_function",
    ranges="put record_function around parts of the program",
    labels="call profile.step() after each iteration, or put record_function around it",
    more="profile more iterations: schedule(wait=1, warmup=3, active=20), and profile.step() after each",
    gpu_work="record with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])",
    not_collected="the driver is newer than the CUPTI of this PyTorch, the machine forbids it (WSL 2, a virtual GPU, a container), or"
    " another profiler held the GPU",
    not_inside="the profiled iterations hold no GPU work, or another process does it",
)


def recording(versions: Iterable[str]) -> Recording:
    """The words of the recorder that calls itself so (EXPORT_PRODUCT_VERSION)."""
    return _TORCH if any(version.startswith(PRODUCT) for version in versions) else _NSYS
