"""`python -m benchmarks.steps FILE...`: steps inferred without labels, held against the labels of the same captures.

The labels of a capture are the truth. They are taken out of its tables, not out of the file, and steps are inferred from
what is left. A boundary is right where it cuts the launches of the GPU's work at the place of a label, give or take 5 % of
the ops of a step. A capture is ok with a precision and a recall of 0.97.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracediff.arrays import Ints
from tracediff.errors import TracediffError
from tracediff.formats.capture import Capture, load_capture
from tracediff.trace.inference import infer_steps
from tracediff.trace.steps import find_steps

GOOD = 0.97
TOLERANCE = 0.05  # of the ops of the median step
_LAUNCHES = """
    WITH call AS (
        SELECT pid, (pid::BIGINT << 32) + corr AS launch, min(start_ns) AS called_ns FROM api_call GROUP BY ALL
    )
    SELECT call.pid, called_ns AS start_ns, count(*) AS ops
    FROM op_row JOIN call USING (launch)
    GROUP BY call.pid, launch, called_ns ORDER BY call.pid, called_ns
"""


@dataclass(frozen=True)
class Score:
    """Boundaries of one process."""

    truth: int
    found: int
    precision: float
    recall: float

    @property
    def ok(self) -> bool:
        """Good enough to stand for labels."""
        return min(self.precision, self.recall) >= GOOD


def score(found: Ints, truth: Ints, start: Ints, ops: Ints) -> Score:
    """Compare boundaries, ns of the host, by the ops launched before each.

    `start`: ns of each launch, in order; `ops`: of each. What is found before the first or behind the last label does not count, nor
    does a label before all launches: nothing tells where a capture began.
    """
    before = np.append(0, np.cumsum(ops))
    places = [np.unique(before[np.searchsorted(start, np.sort(one))]) for one in (found, truth)]
    mine, right = places
    tolerance = max(TOLERANCE * float(np.median(np.diff(right))), 3.0)
    inside = mine[(mine >= right[0] - tolerance) & (mine <= right[-1] + tolerance)]
    return Score(
        len(truth), len(found), _near(inside, right, tolerance), _near(right[right > 0], mine, tolerance)
    )


def _near(one: Ints, other: Ints, tolerance: float) -> float:
    """Share of places that have one of the others nearby."""
    if not len(one) or not len(other):
        return 0.0
    at = np.searchsorted(other, one)
    beside = [other[np.clip(at - back, 0, len(other) - 1)] for back in (0, 1)]
    return float(np.mean(np.min([np.abs(one - place) for place in beside], axis=0) <= tolerance))


def measured(path: Path, truth: Path | None, regex: str | None) -> Iterator[str]:
    """One line for each process of a capture."""
    with tempfile.TemporaryDirectory(prefix="tracediff-steps-") as scratch:
        capture = load_capture(path, Path(scratch))
        known = _truth(capture, path, truth, regex)
        launches = _arrays(capture, _LAUNCHES)
        capture.db.execute("DELETE FROM range")
        inference = infer_steps(capture)
        if inference.source is None:
            yield f"{path.stem:28} refused ({inference.refusal}), {len(inference.levels)} levels, {_count(known)} labelled"
            return
        found = _arrays(capture, "SELECT pid, start_ns FROM step ORDER BY pid, start_ns")
        for pid in np.unique(found["pid"]).tolist():
            mine = {name: one[launches["pid"] == pid] for name, one in launches.items()}
            starts = found["start_ns"][found["pid"] == pid]
            line = f"{inference.event}, confidence {inference.confidence:.2f}"
            if known is None or pid not in known:
                yield f"{path.stem:28} {len(starts):5} found, no labels; {line}"
                continue
            one = score(starts, known[pid], mine["start_ns"], mine["ops"])
            yield (
                f"{path.stem:28} {'ok   ' if one.ok else 'WRONG'} precision {one.precision:.3f} recall {one.recall:.3f},"
                f" {one.truth} labelled, {one.found} found; {line}"
            )


def _truth(capture: Capture, path: Path, folder: Path | None, regex: str | None) -> dict[int, Ints] | None:
    """Starts of the known steps by process, ns; None where nothing says them."""
    told = folder / f"{path.name.split('.')[0]}.json" if folder else None
    if told is not None and told.exists():
        row = json.loads(told.read_text())
        starts = np.array(row.get("program_starts_ns") or row["starts_ns"], np.int64)
        (process,) = capture.db.execute("SELECT DISTINCT pid FROM op_descriptor").fetchone() or (0,)
        return {int(process): starts} if len(starts) > 1 else None
    try:
        if find_steps(capture, regex).inferred:
            return None
    except TracediffError:
        return None
    rows = _arrays(capture, "SELECT pid, start_ns FROM step ORDER BY pid, start_ns")
    known = {pid: rows["start_ns"][rows["pid"] == pid] for pid in np.unique(rows["pid"]).tolist()}
    return {pid: starts for pid, starts in known.items() if len(starts) > 1} or None


def _arrays(capture: Capture, query: str) -> dict[str, Ints]:
    found = capture.db.execute(query).fetchnumpy()
    return {name: np.asarray(values, np.int64) for name, values in found.items()}


def _count(known: dict[int, Ints] | None) -> int:
    return sum(len(starts) for starts in (known or {}).values())


def main() -> None:
    """Print a line for each capture, and how many are right."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--step-regex", help="the labels, where the program does not know them")
    parser.add_argument(
        "--truth", type=Path, help="a folder of NAME.json with starts_ns of the steps, before labels"
    )
    chosen = parser.parse_args()
    lines = []
    for path in chosen.files:
        for line in measured(path, chosen.truth, chosen.step_regex):
            lines.append(line)
            print(line, flush=True)
    right, wrong = (sum(f" {word}" in line for line in lines) for word in ("ok   ", "WRONG"))
    refused = sum(" refused (" in line for line in lines)
    print(f"{right} right, {wrong} wrong, {refused} refused of {len(lines)}")


if __name__ == "__main__":
    main()
