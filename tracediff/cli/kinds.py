"""The kinds of report that `--json` saves, an entry each: what reads it, what renders it, in which formats.

Structs and renderers are named here and imported where they are used: a command pays for its own kind alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

    from tracediff.companions.model import LatencyReport, NcuReport, TrtexecReport
    from tracediff.history.model import History
    from tracediff.model import Result
    from tracediff.model.bisect import Bisect
    from tracediff.model.show import Show
    from tracediff.model.what_if import WhatIf

    Report = Result | Show | NcuReport | TrtexecReport | LatencyReport | WhatIf | Bisect | History


class Kind(NamedTuple):
    """One kind. Names are MODULE:NAME in the package."""

    name: str  # `kind` in the saved file
    struct: str
    says: str  # what a file of it does, as messages put it
    short: str  # the same in the title of the JSON Schema
    page: str  # where its JSON is described
    renderers: dict[str, str]  # of the formats of one file, json apart
    terminal: str
    tables: bool = False  # every table as CSV and Parquet, and pictures
    cut: bool = True  # long tables are cut in Markdown and in the terminal: --top

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats, in the order of the options."""
        also = ("json", "tables", "pictures") if self.tables else ("json",)
        return (*self.renderers, *also)


# A comparison of steps is the kind that says none. It has formats of several files too: see cli/outputs.py.
COMPARISON = Kind(
    "", "companions.model:Result", "compares steps", "", "docs/result.md",
    {
        "html": "report.html:render_html", "md": "report.markdown:render_markdown",
        "junit": "report.ci:render_junit", "benchmark-json": "report.ci:render_benchmark",
    },
    "report.terminal:render_terminal", tables=True,
)  # fmt: skip
_COMPANION = {"html": "companions.words:render_html", "md": "companions.words:render_markdown"}
ALONE = (
    Kind(
        "show", "model.show:Show", "is the report of one capture", "one capture", "docs/result.md",
        {"html": "report.show:render_show_html", "md": "report.show:render_show_markdown"},
        "report.show:render_show_terminal", tables=True,
    ),
    Kind(
        "ncu", "companions.model:NcuReport", "compares kernels by their counters", "counters", "docs/ncu.md",
        _COMPANION,
        "companions.words:render_terminal",
    ),
    Kind(
        "trtexec", "companions.model:TrtexecReport", "compares engines by trtexec", "trtexec", "docs/trtexec.md",
        _COMPANION,
        "companions.words:render_terminal",
    ),
    Kind(
        "latencies", "companions.model:LatencyReport", "compares latencies", "latencies", "docs/latencies.md",
        _COMPANION,
        "companions.words:render_terminal", cut=False,
    ),
    Kind(
        "what-if", "model.what_if:WhatIf", "says what a step would take", "what a step would take", "docs/what-if.md",
        {"html": "report.what_if:render_what_if_html", "md": "report.what_if:render_what_if_markdown"},
        "report.what_if:render_what_if_terminal", cut=False,
    ),
    Kind(
        "bisect", "model.bisect:Bisect", "is a search for a commit", "a search for a commit", "docs/bisect.md",
        {"md": "report.bisect:render_bisect_markdown"}, "report.bisect:render_bisect_terminal", cut=False,
    ),
    Kind(
        "history", "history.model:History", "is a history", "a history", "docs/history.md",
        {"html": "report.history:render_html", "md": "report.history:markdown"}, "report.history:render_terminal", cut=False,
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
