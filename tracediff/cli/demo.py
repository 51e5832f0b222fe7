"""`tracediff demo`: the main job on the bundled captures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracediff.cli.say import say
from tracediff.errors import TracediffError

# Name -> what is compared, below the folder of fixtures (a bundle of captures alone holds both sides), and what it shows.
PAIRS: dict[str, tuple[str, str | None, str]] = {
    "gil": ("bundles/hog300", None, "in the candidate the thread that sends responses holds the GIL for 300 us per step"),
    "gc": ("bundles/gc5", None, "the candidate collects garbage in _schedule every 5th step"),
    "fused": ("demo/graph_a", "demo/graph_fused", "the candidate fuses the gate and up projections into one GEMM"),
}  # fmt: skip


@click.command()
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    default=Path("tracediff-report.html"),
    show_default=True,
    help="Where the report goes.",
)
@click.option("-f", "--overwrite", is_flag=True, help="Overwrite the report.")
@click.option(
    "--pair", type=click.Choice(sorted(PAIRS)), default="gil", show_default=True, help="Which bundled pair."
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def demo(html: Path, overwrite: bool, pair: str, quiet: bool) -> None:
    """Compare bundled H200 captures of a TensorRT-LLM shaped serving loop; print the verdict, write the report."""
    from tracediff.cli.compare import finish
    from tracediff.cli.outputs import Output, check
    from tracediff.comparison.gates import Policy
    from tracediff.request import CompareRequest
    from tracediff.session import compare_request

    output = Output(html=html, overwrite=overwrite, quiet=quiet)
    check(output)
    baseline, candidate, what = PAIRS[pair]
    if not quiet:
        say(f"demo: {what}")
    folder = bundled()
    request = CompareRequest(
        baseline=folder / baseline, candidate=folder / candidate if candidate else None, cache=False
    )
    sys.exit(finish(compare_request(request, keep=True), output, Policy()))


def bundled() -> Path:
    """The folder of the captures: inside an installed wheel, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "_fixtures", package.parent / "fixtures"):
        if (folder / "demo").is_dir():
            return folder
    raise TracediffError(
        "demo-missing", "the bundled captures are not installed", fix="install tracediff again"
    )
