"""Causes as people read them: one row each, for every row of model/causes.py.

Four hues, one a group, in three shades each: GPU busy (blue, of which moving data is violet), GPU waiting on the
device, GPU waiting for CUDA calls, GPU waiting for Python. Shades of a group differ in lightness, for who cannot tell hues.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CauseWords:
    """Words and colours of a cause.

    label: on charts. name: in prose. light, dark: the colour of a category in both themes. title: what a finding of it is
    called, with the fields that report/titles.py fills. next: what to do about it.
    """

    key: str
    label: str
    name: str
    group: str = ""
    light: str = ""
    dark: str = ""
    meaning: str = ""
    title: str = ""
    next: str = ""


_BUSY, _DEVICE, _CALLS, _HOST = "GPU busy", "GPU waits: device", "GPU waits: CUDA calls", "GPU waits: host"
CAUSES: dict[str, CauseWords] = {
    row.key: row
    for row in (
        CauseWords("compute", "compute", "compute", _BUSY, "#27548f", "#7fb0ee",
                   "A compute kernel was running."),
        CauseWords("comm", "exposed comm", "exposed communication", _BUSY, "#2f2a75", "#cdc9fb",
                   "Only communication kernels (NCCL, all-reduce) were running.",
                   "communication {kernel}: {numbers}",
                   "compare ranks: time in a collective is mostly waiting for the rank that comes last"),
        CauseWords("memcpy", "exposed copies", "exposed copies", _BUSY, "#a496cf", "#7f73ad",
                   "Only copies or memory sets were running.",
                   "{kernel}: {numbers}",
                   "find the copy's launching range; make it asynchronous from pinned memory, overlap it, or drop it"),
        CauseWords("launch_latency", "launch latency", "launch latency", _DEVICE, "#1c6e6a", "#6cc4bd",
                   "The launch had returned, nothing else was in the way, and the op had not started.",
                   "launch latency {place}",
                   "the GPU was empty when the work came: launch earlier (overlap scheduler) or use CUDA graphs"),
        CauseWords("dependency", "dependency", "dependency wait", _DEVICE, "#45958f", "#499f98",
                   "The op had been launched; it waited for work before it in its stream or another, an event, a device or a rank.",
                   "launched work waits {waits} {place}",
                   "look at what the op waited for: the work before it, another stream, an event, a peer"),
        CauseWords("graph_internal", "inside graphs", "inside graphs", _DEVICE, "#7bb3ae", "#347670",
                   "Between two nodes of one graph launch.",
                   "gaps inside CUDA graphs launched {place}",
                   "fewer nodes, or programmatic dependent launch, shorten the gaps inside a graph"),
        CauseWords("launch_api", "launch calls", "launch calls", _CALLS, "#8f5b0c", "#e3b463",
                   "The host was inside the launching call.",
                   "{launching}{called} {place}",
                   "count the launches per step: CUDA graphs or fewer, larger kernels cut this time"),
        CauseWords("host_sync", "sync calls", "sync calls", _CALLS, "#b57f2e", "#bd8b3c",
                   "The host was inside a synchronising call that outlasted the GPU's work.",
                   "{synchronising}{called} {place}",
                   "find the call {place} and remove the synchronisation or move it off the step's path"),
        CauseWords("host_api", "other CUDA calls", "other CUDA calls", _CALLS, "#cfa460", "#8d672a",
                   "The host was inside another CUDA call: allocation, event, query.",
                   "other CUDA calls{called} {place}",
                   "find the call (allocation, event, query) {place} and take it out of the step"),
        CauseWords("gc", "Python GC", "Python GC", _HOST, "#74264e", "#e58fb6",
                   "The launching thread was in a garbage-collection pause.",
                   "Python GC {place}",
                   "freeze or disable the collector in the executor (gc.freeze, TRTLLM_WORKER_DISABLE_GC=1),"
                   " or collect between batches"),
        CauseWords("gil_wait", "GIL wait", "GIL wait", _HOST, "#a04b77", "#bd6892",
                   "The launching thread was waiting for the GIL.",
                   "{idle}{thread} waits for the GIL, held by {holder}",
                   "move the holder's work to another process, or release the GIL in it"),
        CauseWords("host_work", "host work", "host work", _HOST, "#c383a3", "#8b4a6a",
                   "The launching thread was doing anything else, named by its innermost range.",
                   "host work {place}",
                   "profile the host code {place} (for Python: py-spy), or add finer ranges there"),
        CauseWords("unattributed", "unattributed", "unattributed", "unknown", "#858c96", "#7c848f",
                   "No launch row, or that kind of trace was not captured.",
                   "idle time without a recorded launching call {place}",
                   "capture the CUDA API as well (nsys -t cuda, ProfilerActivity.CUDA) so that idle time finds its cause"),
        CauseWords("kernel_time", "kernel time", "kernel time",
                   title="kernel replaced: {kernel}, {times}",
                   next="profile this kernel with Nsight Compute on both sides (ncu -k) and compare occupancy and traffic"),
        CauseWords("kernel_fused", "kernels fused", "kernels fused",
                   title="kernels fused: {kernel}, {numbers}",
                   next="check that the fused kernel does the same work; compare it in Nsight Compute with the sum of the others"),
        CauseWords("kernel_split", "kernel split", "kernel split",
                   title="kernel split: {kernel}, {numbers}",
                   next="find out why one kernel became several (a fusion pass that no longer fires, a changed shape)"),
        CauseWords("kernel_added", "kernels added", "kernels added",
                   title="more launches of {kernel}: {numbers}",
                   next="find who launches it: its range and the launching call are in the kernel table"),
        CauseWords("kernel_removed", "kernels removed", "kernels removed",
                   title="fewer launches of {kernel}: {numbers}",
                   next="check that its work is done elsewhere, or was not needed"),
        CauseWords("batch_mix", "batch mix", "batch mix",
                   title="different batch mix ({shares})",
                   next="run both sides with the same requests and arrival times before comparing totals"),
    )
}  # fmt: skip
