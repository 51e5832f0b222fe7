"""Threads that changed without touching the step: worth a note, not a finding."""

from __future__ import annotations

from tracediff.model import Finding, Note, RangeRow, ThreadRow

_RATIO = 1.6  # host time of one program differs by this from run to run (see assumed_noise.py)
_LEAST_NS = 50_000.0


def off_path_notes(
    threads: list[ThreadRow], ranges: list[RangeRow], launching: set[str], findings: list[Finding]
) -> list[Note]:
    """One note for each thread role that launches nothing and whose ranges changed beyond host noise.

    None for a thread that a finding names as the holder of the GIL: what it did to the step is told there.
    """
    holders = {one.where.holder_thread for one in findings if one.level != "within_noise"}
    notes = []
    for thread in threads:
        if thread.role in holders:
            continue
        one, other = thread.baseline_range_ns, thread.candidate_range_ns
        if thread.role in launching or not one or not other:
            continue
        if abs(other - one) < _LEAST_NS or max(one, other) < _RATIO * min(one, other):
            continue
        most = next((row for row in ranges if row.thread == thread.role), None)  # largest change first
        where = f", most of it in {most.range}" if most else ""
        notes.append(
            Note(
                "off-path-change",
                f"the {thread.role} thread spends {one / 1e3:,.1f} -> {other / 1e3:,.1f} us a step in its ranges{where};"
                " it launches no GPU work, so this changes the step only through what waits for it",
            )
        )
    return notes
