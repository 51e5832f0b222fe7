"""Options and writing that every command with a `Result` shares: any number of formats in one run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracediff.errors import TracediffError
from tracediff.report.kinds import BY_NAME, COMPARISON, Kind, kind_of, named, print_report, render, version

if TYPE_CHECKING:
    from rich.console import Console

    from tracediff.model import Result
    from tracediff.report.kinds import Report


_FORMATS = {
    "html": ("FILE", "One offline page."),
    "md": ("FILE", "Markdown for a pull-request comment."),
    "json": ("FILE", "The result itself (see docs/result.md)."),
    "postmortem": ("FILE", "A post-mortem to finish: .md (with a figure beside it) or .html."),
    "tables": ("DIR", "Every table as CSV and Parquet."),
    "junit": ("FILE", "JUnit XML of the gates."),
    "benchmark-json": ("FILE", "The candidate's figures for github-action-benchmark."),
}
_TOP = click.option(
    "--top",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Rows of a table in the terminal and the comment.",
)
_ALONE = {"md": ("FILE", "Markdown.")}  # of a report that compares no steps


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --html, --md, ... -f, --top and -q; the command gets `outputs`, `overwrite`, `top`, `quiet`."""
    return _options(command, _FORMATS)


def output_options_of(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same with the formats of another kind of report; without `top` where no table is ever cut."""
    kind = BY_NAME[name]
    words = _FORMATS | _ALONE | {"json": ("FILE", f"The report itself (see {kind.page}).")}
    formats = {form: words[form] for form in kind.formats}
    return lambda command: _options(command, formats, top=kind.cut)


def _options(
    command: Callable[..., None], formats: dict[str, tuple[str, str]], *, top: bool = True
) -> Callable[..., None]:
    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        outputs = {name: arguments.pop(f"out_{name.replace('-', '_')}") for name in formats}
        command(outputs={name: path for name, path in outputs.items() if path is not None}, **arguments)

    decorated: Callable[..., None] = wrapped
    options = [
        *(
            click.option(
                f"--{name}",
                f"out_{name.replace('-', '_')}",
                type=click.Path(path_type=Path),  # what is there already is judged by `check`, with a slug
                metavar=metavar,
                help=text,
            )
            for name, (metavar, text) in formats.items()
        ),
        click.option("-f", "--overwrite", is_flag=True, help="Overwrite output files."),
        *([_TOP] if top else []),
        click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and gates."),
    ]
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def check(outputs: dict[str, Path], overwrite: bool, kind: Kind = COMPARISON) -> None:
    """Raise now for what would stop a file of a report of this kind from being written after the work is done."""
    from tracediff.report.write import check_folder, check_outputs

    if "tables" in outputs:
        check_folder(outputs["tables"])
    check_outputs((path for name in outputs for path in _files(name, outputs[name], kind)), overwrite)


def _files(name: str, path: Path, kind: Kind) -> Iterable[Path]:
    """Every file that an output consists of; of tables in a folder that does not exist yet, none."""
    if name == "tables":
        from tracediff.report.tables import file_names

        return [path / file for file in file_names(named(kind.struct))] if path.is_dir() else []
    if name == "postmortem":
        from tracediff.report.postmortem import file_names as parts

        return parts(path)
    return [path]


def write_outputs(
    report: Report, outputs: dict[str, Path], *, overwrite: bool, quiet: bool, top: int = 10
) -> None:
    """Render everything first, then write: a failure in one format leaves no other half done."""
    from tracediff.report.write import make_folder, write_atomically

    rendered = {name: _render(name, path, report, top) for name, path in outputs.items()}
    for name, files in rendered.items():
        if name == "tables":
            make_folder(outputs[name])
        for file, data in files.items():
            write_atomically(file, data, overwrite)
    if quiet:
        return
    print_guarded(lambda console: print_report(report, console, top=top))
    for name, path in outputs.items():
        click.echo(f"wrote {path} ({name})", err=True)


def print_guarded(render: Callable[[Console], None]) -> None:
    """Print a report; a runner of GitHub Actions must not take a name in it for a command."""
    from rich.console import Console

    from tracediff.report.annotations import guard

    console = Console()
    if os.environ.get("GITHUB_ACTIONS") != "true":
        render(console)
        return
    with console.capture() as printed:
        render(console)
    click.echo(guard(printed.get()), nl=False)


def _render(name: str, path: Path, report: Report, top: int) -> dict[Path, bytes]:
    from tracediff.model import Result
    from tracediff.model.show import Show

    if name == "tables":
        from tracediff.report.tables import files

        assert isinstance(report, Result | Show)
        return {path / file: data for file, data in files(report)}
    if name == "postmortem":
        from tracediff.report.postmortem import render_postmortem

        assert isinstance(report, Result)
        return render_postmortem(report, path)
    return {path: render(report, name, top=top)}


def read_result(path: Path) -> Result:
    """Read what `tracediff compare --json` wrote. Raises `TracediffError`: one-capture, and those of `read_saved`."""
    from tracediff.model import Result
    from tracediff.model.show import Show

    found = read_saved(path)
    if isinstance(found, Result):
        return found
    if isinstance(found, Show):
        raise TracediffError(
            "one-capture",
            f"{path.name} is the report of one capture: it compares nothing",
            fix="tracediff compare A B --json FILE",
            exit_code=2,
        )
    raise TracediffError(
        "not-a-result",
        f"{path.name} {kind_of(found).says}, not steps",
        fix="tracediff compare A B --json FILE",
    )


def read_saved(path: Path) -> Report:
    """Read what `--json` wrote. Raises `TracediffError`: not-a-file, not-a-result, result-version."""
    import msgspec

    class Versioned(msgspec.Struct):
        format_version: int
        kind: str = ""

    try:
        data = path.read_bytes()
    except OSError as error:
        raise TracediffError("not-a-file", f"{path}: {error.strerror}") from error
    try:
        found = msgspec.json.decode(data, type=Versioned)
        kind = BY_NAME.get(found.kind, COMPARISON)
        known = version(kind)
        if found.format_version == known:
            report: Report = msgspec.json.decode(data, type=named(kind.struct))
            return report
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TracediffError(
            "not-a-result",
            f"{path.name} is not a result of tracediff: {error}",
            fix="tracediff compare A B --json FILE",
        ) from error
    raise TracediffError(
        "result-version",
        f"{path.name} has format {found.format_version}, this tracediff reads {known}",
        fix=f"run the {'report' if found.kind == 'show' else 'comparison'} again with this version",
    )
