"""A straightforward script, for comparison: sqlite3 and a dictionary, total time by kernel name, nothing else."""

from __future__ import annotations

import sqlite3
import sys

if __name__ == "__main__":
    for path in sys.argv[1:]:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            names = dict(db.execute("SELECT id, value FROM StringIds"))
            totals: dict[str, list[int]] = {}
            for start, end, name in db.execute(
                "SELECT start, end, demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL"
            ):
                entry = totals.setdefault(names[name], [0, 0])
                entry[0] += 1
                entry[1] += end - start
