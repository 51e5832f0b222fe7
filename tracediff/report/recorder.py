"""Which profiler recorded what a report is of, and what follows from it: what to capture with, where to look."""

from __future__ import annotations

from tracediff.model import Result
from tracediff.model.show import Show

# Kind of trace -> what to add to the capture, as a command-line flag of nsys or a variable of the program.
CAPTURE_WITH: dict[str, str] = {
    "kernels": "-t cuda", "cuda_api": "-t cuda", "memcpy": "-t cuda", "sync": "-t cuda", "nvtx": "-t nvtx",
    "gil": "-t python-gil", "gc": "TLLM_PROFILE_RECORD_GC=1", "graphs": "--cuda-graph-trace=node",
    "os_calls": "-t osrt", "context_switches": "--cpuctxsw=process-tree", "gpu_memory": "--cuda-memory-usage=true",
    "gpu_metrics": "--gpu-metrics-devices=all (before nsys 2024.6: --gpu-metrics-device=all)",
    "mpi": "-t mpi", "nccl": "-t nvtx",
}  # fmt: skip
# The same where torch.profiler recorded all.
_WITH_TORCH: dict[str, str] = {
    **dict.fromkeys(("kernels", "cuda_api", "memcpy", "sync", "graphs"), "ProfilerActivity.CUDA"),
    "nvtx": "record_function", "gil": "nsys -t python-gil", "gc": "record_python_gc_info=True",
    "os_calls": "nsys -t osrt", "context_switches": "nsys --cpuctxsw=process-tree",
    "gpu_memory": "nsys --cuda-memory-usage=true", "gpu_metrics": "nsys --gpu-metrics-devices=all",
    "mpi": "nsys -t mpi", "nccl": "nsys -t nvtx",
}  # fmt: skip
_TORCH = "torch.profiler"


def capture_with(report: Result | Show, kind: str) -> str:
    """What to record with so that a kind of trace is there."""
    found = CAPTURE_WITH
    if by_torch(report):
        found = _WITH_TORCH
    elif kind == "gil" and any(note.slug == "torch-profiler" for note in report.warnings):
        found = _WITH_TORCH  # one side has it from nsys
    return found.get(kind, "a wider -t")


def absent(report: Result | Show, kind: str, where: str = "") -> str:
    """Say that a kind of trace is not there (`where`: on which side), and how it would be.

    Collections and NCCL's ranges leave no trace where none ran, so that one cannot be told from the other.
    """
    at = f" {where}" if where else ""
    how = capture_with(report, kind)
    if kind not in ("gc", "nccl"):
        return f"not captured{at}. Capture with {how} to see it."
    program = " (in TensorRT-LLM)" if kind == "gc" and not by_torch(report) else ""
    return f"none seen{at}: none ran, or none was recorded. Capture with {how}{program} to see it."


def by_torch(report: Result | Show) -> bool:
    """Whether torch.profiler recorded everything: then there is no export of nsys, nor SQL on one."""
    values = _versions(report)
    return bool(values) and all(value.startswith(_TORCH) for value in values)


def viewer(report: Result | Show) -> str:
    """The program that shows the moments of a trace, by their ns from its start."""
    if by_torch(report):
        return "Perfetto"
    return "nsys and Perfetto" if any(value.startswith(_TORCH) for value in _versions(report)) else "nsys"


def _versions(report: Result | Show) -> list[str]:
    """What both sides, or the one, say of their profiler; several of one side are one text."""
    if isinstance(report, Show):
        said = [fact.value for fact in report.machine if fact.name == "nsys"]
    else:
        said = [
            text
            for one in report.comparability.checks
            if one.name == "nsys"
            for text in (one.baseline, one.candidate)
        ]
    return [value for text in said for value in text.split(" | ")]
