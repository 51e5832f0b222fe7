"""What a share and a number of runs mean, wherever a rule says so."""

from __future__ import annotations

import math

MOSTLY = 0.5  # what is most of something: only one part can hold more
NEARLY = 0.75  # what is nearly all of something: two such parts have at least half in common
LITTLE = 0.1  # of something: a smaller part explains nothing of it, and stands for nothing
MATERIAL = 0.001  # of a step: less is no finding, and no row that says what differs
NEAR_PEAK = 0.6  # of what the hardware can do: as in Nsight Compute's rule SOLBottleneck
OUTLIER = 3.5  # robust standard deviations, from which one of many is called one
ENOUGH = 20  # steps, launches or samples, from which their own scatter says something: a standard deviation is known to 16 %
LEAST = 4  # alike things, from which the one that differs from the others tells itself apart: of three the other two may
RUNS_TELL = 3  # runs a side from which their own scatter decides: with three, the usual one held 0 in 55 of 60 null pairs
# runs a side, and pairs, from which dealing them out anew can reach that: 2 of 70 ways, 2 of 128
PERMUTE, PAIRS = (4, 7)
# Of the log of a CPU's speed to that of the other runs: one that differs by more is left out, whatever its steps take.
OTHER_CPU = math.log1p(MOSTLY)
MOST_RUNS = 50  # beyond which no number of runs is advised: `runs_for` gives one more
