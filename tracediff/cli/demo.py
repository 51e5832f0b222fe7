"""`tracediff demo`: the main job on the bundled captures."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from tracediff.cli.options import Grouped, takes
from tracediff.cli.outputs import Output, check
from tracediff.cli.say import say
from tracediff.errors import TracediffError

# Name -> what is compared, below the folder of fixtures (a bundle of captures alone holds both sides), and what it shows.
PAIRS: dict[str, tuple[str, str | None, str]] = {
    "gil": ("bundles/hog300", None, "in the candidate the thread that sends responses holds the GIL for 300 us per step"),
    "gc": ("bundles/gc5", None, "the candidate collects garbage in _schedule every 5th step"),
    "fused": ("demo/graph_a", "demo/graph_fused", "the candidate fuses the gate and up projections into one GEMM"),
}  # fmt: skip


REPORT = Path("tracediff-report.html")


@click.command(cls=Grouped)
@click.option(
    "--pair", type=click.Choice(sorted(PAIRS)), default="gil", show_default=True, help="Which bundled pair."
)
@takes(output=Output)
def demo(pair: str, output: Output) -> None:
    """Compare bundled H200 captures of a TensorRT-LLM shaped serving loop; print the verdict, and write what is asked for as `compare` does.

    Without an output file, the page goes to tracediff-report.html.
    """
    from tracediff.cli.compare import finish
    from tracediff.comparison.gates import Policy
    from tracediff.request import CompareRequest
    from tracediff.session import compare_request

    output = output if output.files else replace(output, html=REPORT)
    check(output)
    baseline, candidate, what = PAIRS[pair]
    if not output.quiet:
        say(f"demo: {what}")
    folder = bundled()
    request = CompareRequest(
        baseline=folder / baseline, candidate=folder / candidate if candidate else None, cache=False
    )
    sys.exit(finish(compare_request(request, keep=output.draws_steps), output, Policy()))


def bundled() -> Path:
    """The folder of the captures: inside an installed wheel, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "_fixtures", package.parent / "fixtures"):
        if (folder / "demo").is_dir():
            return folder
    raise TracediffError(
        "demo-missing", "the bundled captures are not installed", fix="install tracediff again"
    )
