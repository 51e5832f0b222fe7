"""companions: inputs that stand beside traces. Each reads, compares, models and renders its own.

Importing this package lets the core recognise their files.
"""

from tracediff.companions import bench, latencies, ncu, trtexec
from tracediff.formats.recognise import register

# ncu-csv before what would take any table; latencies last: many files hold numbers
register((*ncu.KINDS, *trtexec.KINDS, *bench.KINDS, *latencies.KINDS))
