"""A straightforward script, for comparison: sqlite3 and pandas, time and count by kernel name, and their difference.

`python totals_script.py BASELINE CANDIDATE`, in a Python with pandas. It answers one question of many: no steps, no idle time, no
causes, no statistics.
"""

import sqlite3
import sys

import pandas

TOTALS = """
SELECT name.value AS kernel, total.calls, total.ns
FROM (
    SELECT demangledName AS id, count(*) AS calls, sum("end" - start) AS ns
    FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY demangledName
) AS total JOIN StringIds AS name USING (id)
"""


def totals(path: str) -> pandas.DataFrame:
    """Kernel name -> calls, ns."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return pandas.read_sql_query(TOTALS, db).groupby("kernel").sum()


if __name__ == "__main__":
    both = (
        totals(sys.argv[1])
        .join(totals(sys.argv[2]), how="outer", lsuffix="_before", rsuffix="_after")
        .fillna(0)
    )
    both["delta_ns"] = both["ns_after"] - both["ns_before"]
    print(both.sort_values("delta_ns", key=abs, ascending=False).to_string())
