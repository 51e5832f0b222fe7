"""The evidence of a finding: questions that `tracediff query` answers, to both sides and to one step of a side."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tracediff.comparison.shown import PARTS
from tracediff.formats.database import quoted

_IDLE = "step, phase, place, holder, holder_place, pieces, idle_ns\nFROM idle"
_IN_STEP = """SELECT p.number, p.period_ns, i.cause, i.thread, i.place, i.holder, i.holder_place, i.pieces, i.idle_ns
FROM idle AS i JOIN period AS p USING (capture, "rank", device, step)
WHERE p.start_ns = {begin} AND p.device = {device} AND {where};"""
_OPS_IN_STEP = """SELECT o.start_ns, o.duration_ns, o.short_name, o.grid, o.stream, o.name
FROM op AS o JOIN period AS p USING (capture, pid, device, step)
WHERE p.start_ns = {begin} AND p.device = {device} AND (o.name, coalesce(o.grid, '')) IN ({ops})
ORDER BY o.start_ns;"""
MIX = "SELECT phase, baseline_steps, baseline_mean_ns, candidate_steps, candidate_mean_ns FROM aligned_step;"


class Idle(msgspec.Struct, frozen=True):
    """Idle time of one cause at some places. places: of the launching thread, of a wait for the GIL its holder's; none: any.

    copies: of time in launching calls, those that copy, or the others. with_gil: waits for the GIL are a cause of their own, not
    what the time would be without the GIL's trace.
    """

    cause: str
    thread: str
    places: Sequence[str] = ()
    holder: str = ""
    copies: bool | None = None
    with_gil: bool = True

    def of_steps(self) -> str:
        """The steps of one side that have most of it."""
        return f"SELECT {_IDLE} WHERE {self.where()} ORDER BY idle_ns DESC LIMIT 20;"

    def where(self, of: str = "", *, aligned: bool = False) -> str:
        """Which rows of `idle`, or of `aligned_idle`, which knows whether the GIL counts; `of`: what their columns are called by."""
        cause = "cause" if self.with_gil or aligned else "cause_no_gil"
        tests = [f"{of}{cause} = {quoted(self.cause)}", f"{of}thread = {quoted(self.thread)}"]
        if self.holder:
            tests.append(f"{of}holder = {quoted(self.holder)}")
        if self.cause == "launch_api" and self.copies is not None:
            tests.append(f"{of}copies = {self.copies}")
        column = "holder_place" if self.cause == "gil_wait" else "place"
        return _all(tests, f"{of}{column}", () if self.cause == "gc" else self.places)


def _all(tests: Sequence[str], column: str, values: Sequence[str]) -> str:
    """All of some tests, and that a column is one of some values; none: any."""
    among = [f"{column} IN ({', '.join(map(quoted, values))})"] if values else []
    return " AND ".join([*tests, *among])


def of_both(idle: Sequence[Idle], names: Sequence[str], steps: str) -> str:
    """What both sides have of some idle time and of some kernels: a question to each view, each row in it once.

    steps: of which it is per step, as the views call them.
    """
    asked = []
    if idle:
        rows = " OR ".join(dict.fromkeys(one.where(aligned=True) for one in idle))
        asked.append(f"FROM aligned_idle WHERE steps = {quoted(steps)} AND ({rows});")
    if names:
        wanted = ", ".join(map(quoted, names[:PARTS]))
        asked.append(
            f"FROM aligned_kernel WHERE steps = {quoted(steps)} AND list_has_any(baseline_names || candidate_names, [{wanted}]);"
        )
    return "\n".join(asked)


def idle_of_step(idle: Sequence[Idle], start_ns: int, device: int) -> str:
    """What some idle time has in the step that begins at an instant."""
    rows = [one.where("i.") for one in idle]
    where = rows[0] if len(rows) == 1 else f"({' OR '.join(rows)})"
    return _IN_STEP.format(begin=start_ns, device=device, where=where)


def ops_of_step(ops: Sequence[tuple[str, str]], start_ns: int, device: int) -> str:
    """The ops of a name and grid in the step that begins at an instant."""
    wanted = ", ".join(f"({quoted(name)}, {quoted(grid)})" for name, grid in ops[:PARTS])
    return _OPS_IN_STEP.format(begin=start_ns, device=device, ops=wanted)
