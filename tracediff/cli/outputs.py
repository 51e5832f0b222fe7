"""What a command with a report writes and prints: the kinds of report, any number of formats in one run, and results saved before."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import click

from tracediff.cli.options import web_address
from tracediff.cli.say import say
from tracediff.errors import TracediffError, UsageError, guard
from tracediff.request import option

if TYPE_CHECKING:
    from rich.console import Console

    from tracediff.companions.model import LatencyReport, NcuReport, TrtexecReport
    from tracediff.history.model import History
    from tracediff.model import Result
    from tracediff.model.bisect import Bisect
    from tracediff.model.result import WhatIf
    from tracediff.model.show import Show

    Report = Result | Show | NcuReport | TrtexecReport | LatencyReport | WhatIf | Bisect | History


# Structs and renderers are named and imported where they are used: a command pays for its own kind alone.


class Kind(NamedTuple):
    """One kind. Names are MODULE:NAME in the package."""

    name: str  # `kind` in the saved file
    struct: str
    says: str  # what a file of it does, as messages put it
    short: str  # the same in the title of the JSON Schema
    renderers: dict[str, str]  # of the formats of one file, json apart
    terminal: str
    tables: bool = False  # every table as CSV and Parquet, and pictures
    cut: bool = True  # long tables are cut in Markdown and in the terminal: --top

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats, in the order of the options."""
        also = ("json", "tables", "pictures") if self.tables else ("json",)
        return (*self.renderers, *also)


# A comparison of steps is the kind that says none. It has formats of several files too.
COMPARISON = Kind(
    "", "companions.model:Result", "compares steps", "",
    {
        "html": "report.html:render_html", "md": "report.markdown:render_markdown",
        "junit": "report.ci:render_junit", "benchmark-json": "report.ci:render_benchmark",
    },
    "report.terminal:render_terminal", tables=True,
)  # fmt: skip
_COMPANION = {"html": "companions.render:render_html", "md": "companions.render:render_markdown"}
ALONE = (
    Kind(
        "show", "model.show:Show", "is the report of one capture", "one capture",
        {"html": "report.show:render_show_html", "md": "report.show:render_show_markdown"},
        "report.show:render_show_terminal", tables=True,
    ),
    Kind(
        "ncu", "companions.model:NcuReport", "compares kernels by their counters", "counters",
        _COMPANION, "companions.render:render_terminal",
    ),
    Kind(
        "trtexec", "companions.model:TrtexecReport", "compares engines by trtexec", "trtexec",
        _COMPANION, "companions.render:render_terminal",
    ),
    Kind(
        "latencies", "companions.model:LatencyReport", "compares latencies", "latencies",
        _COMPANION, "companions.render:render_terminal", cut=False,
    ),
    Kind(
        "what-if", "model.result:WhatIf", "says what a step would take", "what a step would take",
        {"html": "report.document:render_html", "md": "report.document:render_markdown"}, "report.document:render_terminal", cut=False,
    ),
    Kind(
        "bisect", "model.bisect:Bisect", "is a search for a commit", "a search for a commit",
        {"md": "report.document:render_markdown"}, "report.document:render_terminal", cut=False,
    ),
    Kind(
        "history", "history.model:History", "is a history", "a history",
        {"html": "report.history:render_html", "md": "report.document:render_markdown"}, "report.document:render_terminal", cut=False,
    ),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in (COMPARISON, *ALONE)}


def named(name: str) -> Any:
    """What MODULE:NAME of the package is."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(f"tracediff.{module}"), attribute)


def version(kind: Kind) -> int:
    """The format version that this tracediff writes and reads."""
    import msgspec

    fields = msgspec.structs.fields(named(kind.struct))
    found = next(field.default for field in fields if field.name == "format_version")
    assert isinstance(found, int)
    return found


def kind_of(report: Report) -> Kind:
    """The kind of a report."""
    return BY_NAME[getattr(report, "kind", "")]


def render(report: Report, form: str, *, top: int) -> bytes:
    """Return a report in a format of one file; `top`: rows of a table in Markdown."""
    if form == "json":
        from tracediff.model import encode

        return encode(report)
    kind = kind_of(report)
    options = {"top": top} if form == "md" and kind.cut else {}
    text: str | bytes = named(kind.renderers[form])(report, **options)
    return text.encode() if isinstance(text, str) else text


def print_report(report: Report, console: Console, *, top: int) -> None:
    """Print a report for reading; `top`: rows of a table."""
    kind = kind_of(report)
    named(kind.terminal)(report, console, **({"top": top} if kind.cut else {}))


# What is written: any number of formats in one run

_FORMATS = ("html", "md", "json", "postmortem", "tables", "pictures", "junit", "benchmark-json")
_FOLDERS = {"tables", "pictures"}  # formats of many files


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where a report goes, and how much of it is printed."""

    GROUP: ClassVar[str] = "Output"
    html: Path | None = option(None, "One offline page.", metavar="FILE", path=True)
    md: Path | None = option(None, "Markdown, as for a pull-request comment.", metavar="FILE", path=True)
    json: Path | None = option(
        None, "The result itself (docs/result.md), which `tracediff report` renders again.", metavar="FILE", path=True
    )  # fmt: skip
    postmortem: tuple[Path, ...] = option(
        (),
        "A post-mortem to finish: .md (with pictures beside it) or .html; repeatable.",
        metavar="FILE",
        path=True,
    )
    tables: Path | None = option(None, "Every table as CSV and Parquet.", metavar="DIR", path=True)
    pictures: Path | None = option(
        None, "Pictures as SVG and PNG, as for a comment, with an index.", metavar="DIR", path=True
    )
    junit: Path | None = option(None, "JUnit XML of the gates.", metavar="FILE", path=True)
    benchmark_json: Path | None = option(
        None, "The candidate's figures for github-action-benchmark.", metavar="FILE", path=True
    )
    link: str = option(
        "", "Where the HTML report can be read, for --md: in .html, each cause is linked.", metavar="URL", callback=web_address
    )  # fmt: skip
    pictures_at: str = option(
        "", "Where the files of --pictures can be read: --md shows the waterfall. [default: beside --link in .html]", metavar="URL",
        callback=web_address,
    )  # fmt: skip
    overwrite: bool = option(False, "Overwrite output files.", name="-f --overwrite")
    top: int = option(10, "Rows of a table in the terminal and the comment.", minimum=1)
    quiet: bool = option(False, "Print nothing but errors and gates.", name="-q --quiet")

    @property
    def outputs(self) -> list[tuple[str, Path]]:
        """The formats that were asked for, and where each goes; a post-mortem may go to several files."""
        given = {name: getattr(self, name.replace("-", "_")) for name in _FORMATS}
        several = {name: one if isinstance(one, tuple) else (one,) for name, one in given.items()}
        return [(name, path) for name, paths in several.items() for path in paths if path is not None]

    @property
    def files(self) -> dict[str, Path]:
        """The same by format."""
        return dict(self.outputs)

    @property
    def draws_steps(self) -> bool:
        """Whether the events of some steps are in any of the outputs."""
        return bool({"html", "json", "tables", "pictures", "postmortem"} & self.files.keys())


def not_of(name: str) -> set[str]:
    """The fields of `Output` that a kind of report does not have."""
    kind = BY_NAME[name]
    formats = {one.replace("-", "_") for one in _FORMATS if one not in kind.formats}
    if kind is not COMPARISON:
        formats |= {"link", "pictures_at"}
    return formats if kind.cut else formats | {"top"}


def check(
    output: Output, kind: Kind = COMPARISON, inputs: Sequence[str | os.PathLike[str] | None] = ()
) -> None:
    """Raise now for what would stop a file of a report of this kind from being written after the work is done.

    `inputs`: what the command reads, as it was given.
    """
    from tracediff.write import check_folder, check_outputs

    for name in _FOLDERS & output.files.keys():
        check_folder(output.files[name])
    files = (path for name, given in output.outputs for path in _files(name, given, kind))
    check_outputs(files, output.overwrite, [one for one in inputs if one is not None])


def _files(name: str, path: Path, kind: Kind) -> Iterable[Path]:
    """Every file that an output consists of; in a folder that does not exist yet, none."""
    if name in _FOLDERS and not path.is_dir():
        return []
    if name == "tables":
        from tracediff.report.tables import file_names

        return [path / file for file in file_names(named(kind.struct))]
    if name == "pictures":
        from tracediff.report.pictures import FILES

        return [path / file for file in FILES]
    if name == "postmortem":
        from tracediff.report.postmortem import file_names as parts

        return parts(path)
    return [path]


def write_outputs(report: Report, output: Output) -> None:
    """Render everything first, then write: a failure in one format leaves no other half done."""
    from tracediff.write import make_folder, write_all

    outputs = output.outputs
    rendered = [_render(name, path, report, output) for name, path in outputs]
    folders = [path for name, path in outputs if name in _FOLDERS]
    new = [path for path in folders if not path.exists()]
    try:
        for path in folders:
            make_folder(path)
        written = {file: data for files in rendered for file, data in files.items()}
        others = [file for name, path in outputs for file in _files(name, path, kind_of(report))]
        write_all(written, output.overwrite, others)
    except TracediffError:
        for path in new:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
    if output.quiet:
        return
    print_guarded(lambda console: print_report(report, console, top=output.top))
    for name, path in outputs:
        say(f"wrote {path} ({name})")


def print_guarded(render: Callable[[Console], None], *, highlight: bool = True) -> None:
    """Print a report; no runner of CI may take a name in it for a command, and which runner this is it need not say."""
    from rich.console import Console

    console = Console(highlight=highlight)
    with console.capture() as printed:
        render(console)
    text = guard(printed.get()).encode(console.encoding, "backslashreplace").decode(console.encoding)
    click.echo(text, nl=False)  # click would write UTF-8 to a terminal that has no more than ASCII


def _render(name: str, path: Path, report: Report, output: Output) -> dict[Path, bytes]:
    from tracediff.model import Result
    from tracediff.model.show import Show

    if name == "tables":
        from tracediff.report.tables import files

        assert isinstance(report, Result | Show)
        return {path / file: data for file, data in files(report)}
    if name == "pictures":
        from tracediff.report.pictures import files as drawn

        assert isinstance(report, Result | Show)
        return {path / file: data for file, data in drawn(report).items()}
    if name == "postmortem":
        from tracediff.report.postmortem import render_postmortem

        assert isinstance(report, Result)
        return render_postmortem(report, path)
    if name == "md" and (output.link or output.pictures_at):
        from tracediff.report.markdown import render_markdown

        assert isinstance(report, Result)
        text = render_markdown(report, top=output.top, link=output.link, picture=_picture(output))
        return {path: text.encode()}
    return {path: render(report, name, top=output.top)}


def _picture(output: Output) -> str:
    """Where the waterfall can be read: at --pictures-at, else in the folder of pictures beside the page; empty where neither is known."""
    from urllib.parse import quote

    from tracediff.report.markdown import page_of
    from tracediff.report.pictures import FIRST

    folder = output.pictures_at
    if not folder and output.pictures and page_of(output.link):
        folder = f"{output.link.rpartition('/')[0]}/{quote(output.pictures.name)}"
    return f"{folder.rstrip('/')}/{FIRST}" if folder else ""


def read_result(path: Path) -> Result:
    """Read what `tracediff compare --json` wrote. Raises `TracediffError`: one-capture, and those of `read_saved`."""
    from tracediff.model import Result
    from tracediff.model.show import Show

    found = read_saved(path)
    if isinstance(found, Result):
        return found
    if isinstance(found, Show):
        raise UsageError(
            "one-capture",
            f"{path.name} is the report of one capture: it compares nothing",
            fix="tracediff compare A B --json FILE",
        )
    raise TracediffError(
        "not-a-result",
        f"{path.name} {kind_of(found).says}, not steps",
        fix=f"tracediff report {path} --md FILE writes it as Markdown",
    )


def read_saved(path: Path) -> Report:
    """Read what `--json` wrote. Raises `TracediffError`: not-a-file, not-a-result, result-version."""
    import msgspec

    from tracediff.formats.files import MOST_RESULT, missing, read_regular

    class Versioned(msgspec.Struct):
        format_version: int
        kind: str = ""

    try:
        data = read_regular(path, MOST_RESULT)
    except FileNotFoundError as error:
        raise missing(path) from error
    except OSError as error:
        raise TracediffError("not-a-file", f"{path}: {error.strerror}") from error
    try:
        found = msgspec.json.decode(data, type=Versioned)
        kind = BY_NAME.get(found.kind, COMPARISON)
        known = version(kind)
        if found.format_version == known:
            report: Report = msgspec.json.decode(data, type=named(kind.struct))
            if kind is COMPARISON and report.coverage.candidate is msgspec.UNSET:  # type: ignore[union-attr]
                raise msgspec.ValidationError("the candidate has no coverage")
            return report
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TracediffError(
            "not-a-result",
            f"{path.name} is not a result of tracediff: {error}",
            fix="tracediff compare A B --json FILE",
        ) from error
    what = "report" if found.kind == "show" else "comparison"
    raise TracediffError(
        "result-version",
        f"{path.name} has format {found.format_version}, this tracediff reads {known}",
        fix=f"run the {what} again with this version",
    )
