"""`tracediff demo`: the main job on the bundled captures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracediff.errors import TracediffError

PAIRS = {
    "gc": ("graph_a", "graph_gc", "the candidate collects garbage in _schedule every 5th step"),
    "fused": ("graph_a", "graph_fused", "the candidate fuses the gate and up projections into one GEMM"),
}


@click.command()
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("tracediff-report.html"),
    show_default=True,
    help="Where the report goes.",
)
@click.option("-f", "--overwrite", is_flag=True, help="Overwrite the report.")
@click.option(
    "--pair", type=click.Choice(sorted(PAIRS)), default="gc", show_default=True, help="Which bundled pair."
)
def demo(html: Path, overwrite: bool, pair: str) -> None:
    """Compare two bundled H200 captures of a TensorRT-LLM shaped serving loop; print the verdict, write the report."""
    from tracediff.cli.compare import finish
    from tracediff.cli.gating import Gating
    from tracediff.cli.outputs import check
    from tracediff.load.inputs import resolve
    from tracediff.measure.compare import compare
    from tracediff.measure.policy import Policy
    from tracediff.measure.run import Reading, reduce_sides

    check({"html": html}, overwrite)
    folder = bundled()
    baseline, candidate, what = PAIRS[pair]
    click.echo(f"demo: {what}", err=True)
    sides = reduce_sides([resolve(str(folder / name)) for name in (baseline, candidate)], Reading(keep=True))
    result = compare(sides[0], sides[1])
    sys.exit(finish(result, {"html": html}, Gating(Policy()), overwrite=overwrite, top=10, quiet=False))


def bundled() -> Path:
    """The folder of the demo captures: inside an installed wheel, or at the top of a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "_fixtures" / "demo", package.parent / "fixtures" / "demo"):
        if folder.is_dir():
            return folder
    raise TracediffError(
        "demo-missing", "the bundled captures are not installed", fix="pip install tracediff-gpu again"
    )
