"""`tracediff compare`: the main job."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tracediff.cli.options import Gating, Grouped, judge, print_gates, progress, takes
from tracediff.cli.outputs import BY_NAME, Kind, Output, check, write_outputs
from tracediff.cli.say import say
from tracediff.errors import UsageError
from tracediff.request import CompareRequest

if TYPE_CHECKING:
    from tracediff.comparison.gates import Policy
    from tracediff.model import Result


@click.command(
    cls=Grouped,
    first=("html", "md", "json", "fail_on", "steps", "kernel"),
    epilog="""
\b
Examples:
  tracediff compare before.sqlite after.sqlite
  tracediff compare main=runs/main pr=runs/pr --html report.html --md comment.md
  tracediff compare runs/main runs/pr --fail-on step:+3% --fail-on launches:+10 --junit gate.xml
  tracediff compare runs/main runs/pr --json result.json --postmortem incident.md
  tracediff compare tracediff-bundle --html report.html
  tracediff compare runs/main runs/pr --steps 100-150 --ranks 0,3-7
  tracediff compare before.ncu-rep after.ncu-rep
  tracediff compare before.csv:decode:ms after.csv:decode:ms

\b
Exit status: 0 done, 1 error, 2 usage, 3 a gate failed, 4 not comparable, or a gate that noise decides.
""",
)
@takes(output=Output, gating=Gating, request=CompareRequest)
def compare(request: CompareRequest, output: Output, gating: Gating) -> None:
    """Compare BASELINE with CANDIDATE: what changed in the time of a step, and why.

    Each side is an nsys export (.sqlite, .sqlite.xz, parquetdir), a report (.nsys-rep, with nsys at hand), or a
    trace of torch.profiler (.json, .json.gz). A folder of these is a side with repeats, and so is a quoted pattern
    ('new_*.sqlite'). label=PATH names a side. A bundle of `tracediff capture` holds both sides and stands alone.

    Benchmark reports, latencies, files of trtexec and a profile of Nsight Compute that lie in the folders of both sides are
    compared too. Two such files, or folders of them, are compared without traces: profiles kernel by kernel, engines
    layer by layer, latencies as FILE:COLUMN:UNIT where the file leaves either open.
    """
    from tracediff.companions.files import alone, report_alone
    from tracediff.session import compare_request

    policy = gating.read()
    words = os.fspath(request.baseline), os.fspath(request.candidate or "")
    inputs = [
        *filter(None, words),
        *(path for paths in request.given().values() for path in paths),
        gating.policy,
    ]
    if request.candidate and (found := alone(*words)):
        kind = BY_NAME[found]
        refuse_without_steps(words[0], output, gating, kind, request.of_steps())
        check(output, kind, inputs)
        write_outputs(report_alone(found, *words), output)
        return
    check(output, inputs=inputs)
    result = compare_request(
        request,
        keep=output.draws_steps,
        progress=progress(output.quiet),
        warn=lambda text: say(f"warning: {text}"),
    )
    sys.exit(finish(result, output, policy))


def refuse_without_steps(
    name: str, output: Output, gating: Gating, kind: Kind, options: Sequence[str] = ()
) -> None:
    """Raise `TracediffError` (one-capture) for an option that only a comparison of steps has; `options`: more of these that were given."""
    given = [f"--{one}" for one in output.files if one not in kind.formats]
    given += [
        option for option, value in (("--fail-on", gating.fail_on), ("--warn-on", gating.warn_on)) if value
    ]
    if given := [*given, *options]:
        raise UsageError(
            "one-capture",
            f"{name} {kind.says}: only a comparison of steps has {', '.join(given)}",
            fix="leave that out, or compare traces: tracediff compare A B",
        )


def finish(result: Result, output: Output, policy: Policy) -> int:
    """Judge the gates, write and print every output; the exit status."""
    from tracediff.comparison.gates import exit_code

    result = judge(policy, result)
    write_outputs(result, output)
    print_gates(result)
    if output.quiet and result.verdict == "not_comparable" and not result.gates:
        say(result.headline.text)
    return exit_code(result)
