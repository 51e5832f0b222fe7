"""`tracediff what-if`: what a step would take if something were different."""

from __future__ import annotations

import click

from tracediff.cli.options import Grouped, progress, takes
from tracediff.cli.outputs import BY_NAME, Output, check, not_of, write_outputs
from tracediff.request import WhatIfRequest


@click.command(
    "what-if",
    cls=Grouped,
    epilog="""
\b
Examples:
  tracediff what-if run.sqlite --without gc
  tracediff what-if runs/main --without gil_wait@await_response --scale 'fmha*=0.5'
  tracediff what-if run.sqlite --fuse 'gate*+up*' --md what-if.md
  tracediff what-if eager.sqlite --graph

\b
Exit status: 0 done, 1 error, 2 usage.
""",
)
@takes(output=Output, request=WhatIfRequest, omit=not_of("what-if"))
def what_if(request: WhatIfRequest, output: Output) -> None:
    """Say what a step of CAPTURE would take if something were different, and what would decide it then.

    Every event of the steps is replayed: host threads in order, CUDA calls, launches, streams, synchronisation, waits for
    the GIL, collectives. All changes apply together. What was hidden behind the time that goes comes out, so a step rarely
    gains all of it. CAPTURE is what `tracediff show` takes: an export, a report, or a folder of repeated runs.
    """
    from tracediff.session import what_if_request

    check(output, BY_NAME["what-if"], [request.capture])
    write_outputs(what_if_request(request, progress=progress(output.quiet)), output)
