"""TraceDiff of Holistic Trace Analysis on two folders of traces: `python hta_script.py BASELINE CANDIDATE`, where it is installed.

As it comes: the first rank and the first `ProfilerStep` of each side.
"""

import sys

from hta.trace_diff import TraceDiff

if __name__ == "__main__":
    print(TraceDiff.compare_traces(sys.argv[1], sys.argv[2]).sort_values("diff_duration").to_string())
