"""Steps of a capture without step labels, from the launches that repeat on the launching thread."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracediff.align.repetition import Ints, Launched, Repetition, find_repetition
from tracediff.align.strata import IRREGULAR
from tracediff.load.capture import Capture
from tracediff.load.database import run_sql, sql
from tracediff.model import Note

# Phase of the steps with the ops of the modal repetition. Others (a context, an evaluation) are IRREGULAR.
REGULAR = "step"


@dataclass(frozen=True)
class _Found:
    """The repetition of one process."""

    pid: int
    tid: int
    start_ns: Ints  # of the launching call that begins each repetition
    repetition: Repetition


def infer_steps(capture: Capture) -> str | None:
    """Fill the tables `step` and `step_text`; return the name of the source, None where nothing repeats.

    Adds the warning steps-inferred. Each process with GPU work is looked at by itself; the confidence is the
    lowest of them.
    """
    launches = capture.db.execute(sql("align/step_launch")).fetchnumpy()
    pids = np.asarray(launches["pid"], np.int64)
    edges = [0, *(np.flatnonzero(np.diff(pids)) + 1).tolist(), len(pids)]
    found = []
    for low, high in pairwise(edges):
        if high > low:
            part = {name: np.asarray(values[low:high]) for name, values in launches.items()}
            one = _of_process(capture, part)
            if one is not None:
                found.append(one)
    if not found:
        return None
    _fill(capture, found)
    capture.warnings.append(_note(capture, found))
    return f"inferred (confidence {min(one.repetition.confidence for one in found):.2f})"


def _of_process(capture: Capture, part: dict[str, np.ndarray]) -> _Found | None:
    start = part["start_ns"].astype(np.int64)
    tid = int(part["tid"][0])
    waits = np.asarray(capture.db.execute(sql("align/step_sync"), [tid]).fetchnumpy()["start_ns"], np.int64)
    repetition = find_repetition(
        Launched(
            content=part["content"].astype(np.uint64),
            ops=part["ops"].astype(np.int64),
            graph=part["graph"].astype(np.bool_),
            reads_back=part["reads_back"].astype(np.bool_),
            waits=np.searchsorted(waits, start, side="left").astype(np.int64),
        )
    )
    if repetition is None:
        return None
    return _Found(int(part["pid"][0]), tid, start[repetition.start], repetition)


def _fill(capture: Capture, found: list[_Found]) -> None:
    columns = {
        "pid": np.concatenate([np.full(len(one.start_ns), one.pid, np.int64) for one in found]),
        "tid": np.concatenate([np.full(len(one.start_ns), one.tid, np.int64) for one in found]),
        "start_ns": np.concatenate([one.start_ns for one in found]),
        "regular": np.concatenate([one.repetition.regular for one in found]),
    }
    capture.db.register("inferred", columns)
    run_sql(capture.db, "align/step_inferred", regular=REGULAR, irregular=IRREGULAR)
    capture.db.unregister("inferred")


def _note(capture: Capture, found: list[_Found]) -> Note:
    parts = []
    for one in found:
        what = one.repetition
        parts.append(
            (f"process {one.pid}: " if len(found) > 1 else "")
            + f"{what.equal} of {len(what.start) - 1} repetitions"
            + f" are the same {what.launches} launches of {what.ops} ops"
            + (" (with a CUDA graph)," if what.graph else ",")
            + f" and hold {what.confidence:.0%} of their ops (confidence {what.confidence:.2f})"
        )
    return Note(
        "steps-inferred",
        f"{capture.name}: no step labels; steps were inferred from the launches that repeat:"
        f" {'; '.join(parts)}. Steps with other ops are listed as irregular and not compared",
    )
