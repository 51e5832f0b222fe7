"""Options and writing that every command with a `Result` shares: any number of formats in one run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracediff.errors import TracediffError

if TYPE_CHECKING:
    from rich.console import Console

    from tracediff.model import Result
    from tracediff.model.latencies import LatencyReport
    from tracediff.model.ncu import NcuReport
    from tracediff.model.show import Show
    from tracediff.model.trtexec import TrtexecReport

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
OF_ONE = ("html", "md", "json", "tables")  # formats of the report of one capture
OF_NCU = ("html", "md", "json")  # of the report of kernels by their counters, and of engines by trtexec
OF_LATENCIES = ("html", "md", "json")  # of the report of latencies


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --html, --md, ... -f, --top and -q; the command gets `outputs`, `overwrite`, `top`, `quiet`."""
    return _options(command, _FORMATS)


def show_output_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same with the formats of the report of one capture."""
    words = {"md": ("FILE", "Markdown."), "json": ("FILE", "The report itself (see docs/result.md).")}
    return _options(command, {name: (_FORMATS | words)[name] for name in OF_ONE})


def ncu_output_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same with the formats of the report of kernels by their counters."""
    return _alone_options(command, "docs/ncu.md")


def trtexec_output_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same for the report of engines by trtexec."""
    return _alone_options(command, "docs/trtexec.md")


def _alone_options(command: Callable[..., None], page: str) -> Callable[..., None]:
    words = {"md": ("FILE", "Markdown."), "json": ("FILE", f"The report itself (see {page}).")}
    return _options(command, {name: (_FORMATS | words)[name] for name in OF_NCU})


def latency_output_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same with the formats of the report of latencies, which has no tables to cut: no --top."""
    words = {"md": ("FILE", "Markdown."), "json": ("FILE", "The report itself (see docs/latencies.md).")}
    return _options(command, {name: (_FORMATS | words)[name] for name in OF_LATENCIES}, top=False)


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


def check(outputs: dict[str, Path], overwrite: bool, *, of_one: bool = False) -> None:
    """Raise now for what would stop a file from being written after the work is done; `of_one`: of one capture."""
    from tracediff.report.write import check_folder, check_outputs

    if "tables" in outputs:
        check_folder(outputs["tables"])
    check_outputs((path for name in outputs for path in _files(name, outputs[name], of_one)), overwrite)


def _files(name: str, path: Path, of_one: bool) -> Iterable[Path]:
    """Every file that an output consists of; of tables in a folder that does not exist yet, none."""
    if name == "tables":
        from tracediff.model import Result
        from tracediff.model.show import Show
        from tracediff.report.tables import file_names

        return [path / file for file in file_names(Show if of_one else Result)] if path.is_dir() else []
    if name == "postmortem":
        from tracediff.report.postmortem_files import file_names as parts

        return parts(path)
    return [path]


def write_outputs(
    result: Result | Show, outputs: dict[str, Path], *, overwrite: bool, top: int, quiet: bool
) -> None:
    """Render everything first, then write: a failure in one format leaves no other half done."""
    from tracediff.report.write import make_folder, write_atomically

    rendered = {name: _render(name, path, result, top) for name, path in outputs.items()}
    for name, files in rendered.items():
        if name == "tables":
            make_folder(outputs[name])
        for file, data in files.items():
            write_atomically(file, data, overwrite)
    if not quiet:
        _print(result, top)
    for name, path in outputs.items():
        click.echo(f"wrote {path} ({name})", err=True)


def write_alone(
    rendered: dict[str, bytes],
    outputs: dict[str, Path],
    show: Callable[[Console], None],
    *,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write and print a report that is no `Result`, already rendered in each format."""
    from tracediff.report.write import write_atomically

    for name, data in rendered.items():
        write_atomically(outputs[name], data, overwrite)
    if not quiet:
        print_guarded(show)
    for name, path in outputs.items():
        click.echo(f"wrote {path} ({name})", err=True)


def _print(result: Result | Show, top: int) -> None:
    from tracediff.model import Result
    from tracediff.report.show_terminal import render_show_terminal
    from tracediff.report.terminal import render_terminal

    def render(console: Console) -> None:
        if isinstance(result, Result):
            render_terminal(result, console, top=top)
        else:
            render_show_terminal(result, console, top=top)

    print_guarded(render)


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


def _render(name: str, path: Path, result: Result | Show, top: int) -> dict[Path, bytes]:
    if name == "tables":
        from tracediff.report.tables import files

        return {path / file: data for file, data in files(result)}
    from tracediff.model import Result

    if not isinstance(result, Result):
        return {path: _of_one(name, result, top)}
    if name == "postmortem":
        from tracediff.report.postmortem_files import render_postmortem

        return render_postmortem(result, path)
    return {path: _one_file(name, result, top)}


def _one_file(name: str, result: Result, top: int) -> bytes:
    if name == "html":
        from tracediff.report.html import render_html

        return render_html(result).encode()
    if name == "md":
        from tracediff.report.markdown import render_markdown

        return render_markdown(result, top=top).encode()
    if name == "junit":
        from tracediff.report.junit import render_junit

        return render_junit(result)
    if name == "benchmark-json":
        from tracediff.report.benchmark import render_benchmark

        return render_benchmark(result)
    from tracediff.report.jsonreport import render_json

    return render_json(result)


def _of_one(name: str, report: Show, top: int) -> bytes:
    if name == "html":
        from tracediff.report.show_html import render_show_html

        return render_show_html(report).encode()
    if name == "md":
        from tracediff.report.show_markdown import render_show_markdown

        return render_show_markdown(report, top=top).encode()
    from tracediff.model.show import encode

    return encode(report)


def read_result(path: Path) -> Result:
    """Read what `tracediff compare --json` wrote. Raises `TracediffError`: one-capture, and those of `read_saved`."""
    from tracediff.model import Result
    from tracediff.model.latencies import LatencyReport
    from tracediff.model.ncu import NcuReport
    from tracediff.model.trtexec import TrtexecReport

    found = read_saved(path)
    names: dict[type[object], str] = {
        NcuReport: "kernels by their counters",
        TrtexecReport: "engines by trtexec",
        LatencyReport: "latencies",
    }
    if what := names.get(type(found)):
        raise TracediffError(
            "not-a-result",
            f"{path.name} compares {what}, not steps",
            fix="tracediff compare A B --json FILE",
        )
    if not isinstance(found, Result):
        raise TracediffError(
            "one-capture",
            f"{path.name} is the report of one capture: it compares nothing",
            fix="tracediff compare A B --json FILE",
            exit_code=2,
        )
    return found


def read_saved(path: Path) -> Result | Show | NcuReport | TrtexecReport | LatencyReport:
    """Read what `--json` wrote. Raises `TracediffError`: not-a-file, not-a-result, result-version."""
    import msgspec

    from tracediff.model import FORMAT_VERSION, decode, latencies, ncu, show, trtexec

    class Versioned(msgspec.Struct):
        format_version: int
        kind: str = ""

    # what is no comparison of steps: kind -> its version, and what reads it
    forms: dict[str, tuple[int, Callable[[bytes], Result | Show | NcuReport | TrtexecReport | LatencyReport]]]
    forms = {
        "show": (show.SHOW_VERSION, show.decode),
        "ncu": (ncu.NCU_VERSION, ncu.decode),
        "trtexec": (trtexec.TRTEXEC_VERSION, trtexec.decode),
        "latencies": (latencies.LATENCIES_VERSION, latencies.decode),
    }
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TracediffError("not-a-file", f"{path}: {error.strerror}") from error
    try:
        found = msgspec.json.decode(data, type=Versioned)
        version = found.format_version
        known, read = forms.get(found.kind, (FORMAT_VERSION, decode))
        if version == known:
            return read(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TracediffError(
            "not-a-result",
            f"{path.name} is not a result of tracediff: {error}",
            fix="tracediff compare A B --json FILE",
        ) from error
    raise TracediffError(
        "result-version",
        f"{path.name} has format {version}, this tracediff reads {known}",
        fix=f"run the {'report' if found.kind == 'show' else 'comparison'} again with this version",
    )
