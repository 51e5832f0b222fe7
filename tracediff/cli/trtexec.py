"""`tracediff trtexec`: two TensorRT engines compared by what trtexec measured."""

from __future__ import annotations

import click

from tracediff.cli.options import complete_files, takes
from tracediff.cli.outputs import BY_NAME, Output, check, not_of, write_outputs


@click.command(
    epilog="""
\b
Examples:
  tracediff trtexec runs/fp32 runs/fp16 --html engines.html
  tracediff trtexec before.log,before_profile.json after.log,after_profile.json
  tracediff compare main.sqlite pr.sqlite --with baseline=trt/main --with candidate=trt/pr

\b
Record a side, in a folder of its own (docs/trtexec.md):
  trtexec --loadEngine=E --exportTimes=times.json --exportProfile=profile.json
  --exportLayerInfo=layers.json --separateProfileRun --profilingVerbosity=detailed > log.txt

\b
Exit status: 0 done, 1 error, 2 usage.
"""
)
@click.argument("baseline", shell_complete=complete_files)
@click.argument("candidate", shell_complete=complete_files)
@takes(output=Output, omit=not_of("trtexec"))
def trtexec(baseline: str, candidate: str, output: Output) -> None:
    """Compare two engines by what trtexec measured: throughput, latencies, and which layers changed and how.

    A side is a folder with the files of one run, a folder of such folders (several runs), a file, or files with commas
    between them. Files are known by what they hold: log, --exportTimes, --exportProfile, --exportLayerInfo. label=PATH names a side.
    """
    import tracediff
    from tracediff.companions.model import TrtexecReport
    from tracediff.companions.trtexec.compare import compare_trtexec
    from tracediff.companions.trtexec.read import read
    from tracediff.model import Tool

    check(output, BY_NAME["trtexec"])
    found = compare_trtexec(read(baseline), read(candidate))
    report = TrtexecReport(tool=Tool("tracediff", tracediff.__version__), trtexec=found)
    write_outputs(report, output)
