"""The same input gives the same bits, however many threads add it up."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.tiny import ROOT

# A thousand exports with floats that add up to another last bit in another order; polars shares such a sum out among threads.
_CODE = """
import json
import numpy as np
import polars as pl
from tracediff.comparison.tables import StandardisedMeans

rows, random = 1536, np.random.default_rng(7)
where = {"side": np.arange(rows) % 2, "run": np.arange(rows) // 2 % 3, "part": np.arange(rows) // 6, "stratum": np.zeros(rows, int)}
standardised = StandardisedMeans.__new__(StandardisedMeans)
standardised._factor = pl.DataFrame({**where, "phase": "step", "factor": random.random(rows)})
table = pl.DataFrame({**where, "thread": "executor", "ns": random.random(rows) * 1e6})
print(json.dumps(sorted({
    tuple(standardised.weigh(table, by, ["ns"])["ns"].to_list()) for by in ([], ["thread"]) for _ in range(100)
})))
"""


def test_sums_of_many_exports_are_the_same_every_time():
    env = {**os.environ, "POLARS_MAX_THREADS": "16", "PYTHONPATH": str(ROOT)}
    said = subprocess.run([sys.executable, "-c", _CODE], env=env, check=True, capture_output=True, text=True)
    assert len(json.loads(said.stdout)) == 1
