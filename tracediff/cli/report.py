"""`tracediff report`: any format from a saved result, without the traces."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracediff.cli.outputs import output_options
from tracediff.errors import TracediffError


@click.command(epilog="Example: tracediff report result.json --html report.html --md comment.md")
@click.argument("result", type=click.Path(path_type=Path))
@output_options
@click.option(
    "--fail-on", "gates", multiple=True, metavar="METRIC:+LIMIT", help="Gate, as in compare; repeatable."
)
def report(
    result: Path, outputs: dict[str, Path], overwrite: bool, top: int, quiet: bool, gates: tuple[str, ...]
) -> None:
    """Render RESULT, the JSON that `tracediff compare --json` wrote."""
    from tracediff.cli.compare import finish
    from tracediff.measure.gates import parse_gate
    from tracediff.report.write import check_outputs

    parsed = [parse_gate(text) for text in gates]
    check_outputs(outputs.values(), overwrite)
    sys.exit(finish(_read(result), outputs, parsed, overwrite=overwrite, top=top, quiet=quiet))


def _read(path: Path):  # type: ignore[no-untyped-def]
    import msgspec

    from tracediff.model import FORMAT_VERSION, decode

    try:
        data = path.read_bytes()
    except OSError as error:
        raise TracediffError("not-a-file", f"{path}: {error.strerror}") from error
    try:
        result = decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise TracediffError(
            "not-a-result",
            f"{path.name} is not a result of tracediff: {error}",
            fix="tracediff compare A B --json FILE",
        ) from error
    if result.format_version != FORMAT_VERSION:
        raise TracediffError(
            "result-version",
            f"{path.name} has format {result.format_version}, this tracediff reads {FORMAT_VERSION}",
            fix="run the comparison again with this version",
        )
    return result
