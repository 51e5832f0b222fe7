"""What OS calls, context switches and CUDA's memory add to findings: where the time lay, never why."""

from __future__ import annotations

import re

import msgspec

from tracediff.model import Finding, HostWorkRow, MemoryRow, System

_PART = 0.1  # of a finding's delta: what moved less is not worth a word
_MOST = 0.5  # of it: the OS call is the finding's place
_WORDS = 3
_ALLOCATES = re.compile(r"Malloc|Free|^cuMem(Alloc|Create|Map|Unmap|Release)")


def with_system(findings: list[Finding], system: System | None) -> list[Finding]:
    """Findings of host work with the OS calls that they lie in, those of allocating calls with what was allocated."""
    if system is None:
        return findings
    return [_host_work(_memory(one, system.memory), system.host_work) for one in findings]


def _host_work(finding: Finding, rows: list[HostWorkRow]) -> Finding:
    where = finding.where
    if finding.cause != "host_work" or where.rank is not None or not finding.delta_ns:
        return finding
    moved: list[tuple[float, HostWorkRow]] = []
    for row in rows:
        if row.thread != (where.thread or "") or row.range != (where.range or "") or row.kind == "rest":
            continue
        if row.baseline_ns is None or row.candidate_ns is None:
            continue
        part = (row.candidate_ns - row.baseline_ns) / finding.delta_ns
        if part >= _PART:
            moved.append((part, row))
    if not moved:
        return finding
    moved.sort(key=lambda one: -one[0])
    said = "; ".join(_said(row) for _, row in moved[:_WORDS])
    part, first = moved[0]
    if part >= _MOST and first.kind == "os_call":
        where = msgspec.structs.replace(where, os_call=first.call)
    return msgspec.structs.replace(
        finding, where=where, note=f"{finding.note} A step, of this idle time: {said}.".strip()
    )


def _said(row: HostWorkRow) -> str:
    assert row.baseline_ns is not None
    assert row.candidate_ns is not None
    what = f"in {row.call}" if row.call else "on no CPU and in no recorded OS call"
    return f"{row.baseline_ns / 1e3:.1f} -> {row.candidate_ns / 1e3:.1f} us {what}"


def _memory(finding: Finding, rows: list[MemoryRow]) -> Finding:
    if (
        finding.cause not in ("host_api", "host_sync")
        or finding.delta_ns <= 0
        or finding.level == "within_noise"
    ):
        return finding
    if finding.where.api and not _ALLOCATES.search(finding.where.api):
        return finding
    said = []
    for row in rows:
        if row.baseline is None or row.candidate is None:
            continue
        one, other = row.baseline, row.candidate
        if other.allocations_per_step > one.allocations_per_step:
            said.append(
                f"{one.allocations_per_step:.2f} -> {other.allocations_per_step:.2f} allocations of {row.kind} memory"
                f" ({one.bytes_per_step / 1e6:.1f} -> {other.bytes_per_step / 1e6:.1f} MB)"
            )
    if not said:
        return finding
    return msgspec.structs.replace(finding, note=f"{finding.note} Also in a step: {'; '.join(said)}.".strip())
