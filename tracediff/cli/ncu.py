"""`tracediff ncu`: kernels compared by their hardware counters."""

from __future__ import annotations

import click

from tracediff.cli.options import complete_files, takes
from tracediff.cli.outputs import BY_NAME, Output, check, not_of, write_outputs


@click.command(
    epilog="""
\b
Examples:
  tracediff ncu before.ncu-rep after.ncu-rep
  tracediff ncu before.csv after.csv --html kernels.html --md kernels.md
  tracediff compare main.sqlite pr.sqlite --with baseline=main.ncu-rep --with candidate=pr.ncu-rep

\b
A file is a report (.ncu-rep, with the package of `pip install 'tracediff-gpu[ncu]'`), or its CSV:
  ncu --import FILE.ncu-rep --csv --page raw > FILE.csv

\b
Exit status: 0 done, 1 error, 2 usage.
"""
)
@click.argument("baseline", shell_complete=complete_files)
@click.argument("candidate", shell_complete=complete_files)
@takes(output=Output, omit=not_of("ncu"))
def ncu(baseline: str, candidate: str, output: Output) -> None:
    """Compare two profiles of Nsight Compute: which kernels got faster or slower, and by which rule why.

    Duration, throughput, occupancy and what limits it, stalls, traffic, instructions; what was not collected is said,
    with the option of ncu that collects it. label=FILE names a side.
    """
    import tracediff
    from tracediff.companions.model import NcuReport
    from tracediff.companions.ncu.compare import compare_ncu
    from tracediff.companions.ncu.read import read_named
    from tracediff.model import Tool

    check(output, BY_NAME["ncu"])
    found = compare_ncu(read_named(baseline), read_named(candidate))
    report = NcuReport(tool=Tool("tracediff", tracediff.__version__), ncu=found)
    write_outputs(report, output)
