"""What the tests of odd exports share: edits of a written trace, and what two steps of it spend."""

from __future__ import annotations

import sqlite3

from fixtures.builders import two_steps
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading

KERNEL, RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
MEMCPY, SYNC = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
# fixtures/builders/samples.py: of every step 300 ns kernel, 40 copy, 60 in the synchronising call after it,
# then 500 of the host until the next launch call of 50, and 50 from its return to the kernel
TWO_STEPS = {
    "compute": 300,
    "memcpy": 40,
    "host_sync": 60,
    "host_work": 500,
    "launch_api": 50,
    "launch_latency": 50,
}


def reduce(path, **reading):
    return reduce_file(path, Reading(threads=1, **reading))


def edit(path, *statements: str):
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()
    return path


def written(tmp_path, trace=None):
    return (trace or two_steps()).write(tmp_path / "trace.sqlite")
