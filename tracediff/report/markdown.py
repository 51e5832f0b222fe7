"""The result as a pull-request comment: verdict first, the rest folded, always within GitHub's limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tracediff.model import Finding, GapRow, KernelRow, RangeRow, Result
from tracediff.report import (
    host_words,
    launch_words,
    names,
    phase_table,
    rank_words,
    sections,
    system_words,
    units,
    waterfall,
    words,
)
from tracediff.report.document import Block, Code, Number, Paragraph, Span, Table, markdown
from tracediff.report.escape import (
    Markdown,
    markdown_cell,
    markdown_code,
    markdown_figure,
    markdown_prose,
    neutral,
)
from tracediff.report.tables import gap_order, kernel_order, range_order
from tracediff.report.templates import markdown_environment
from tracediff.report.words import left_out

LIMIT = 65_536  # characters of a GitHub comment
_TRUNCATED = "\n\n_Truncated: the comment reached its limit. The HTML report and the JSON hold everything._\n"
_SMALL = 0.001  # of a step: idle gaps and ranges that changed less are counted, not listed
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass(frozen=True)
class _Budget:
    """How much a comment shows; each later one is smaller."""

    findings: int
    rows: int  # of each folded table
    width: int  # of a name
    unit: str = "step"  # that times are of


def marker(key: str = "") -> str:
    """Return the first line of a comment, by which a bot finds its own again; a key keeps several apart.

    Raises `ValueError` for a key that is more than letters, digits, dots, dashes and underscores.
    """
    if key and not _KEY.match(key):
        raise ValueError(key)
    return f"<!-- tracediff:{key} -->" if key else "<!-- tracediff -->"


MARKER = marker()


def length(text: str) -> int:
    """Count as GitHub may at worst: a character beyond the basic plane as two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def render_markdown(result: Result, top: int = 10, key: str = "", link: str = "") -> str:
    """Return the comment; `top` is how many findings and unfolded kernel rows it shows.

    `link` is the address of the HTML report, already checked by `report_link`.
    """
    result = neutral(result)
    text = ""
    for rows, width in ((100, 160), (50, 160), (20, 120), (10, 80), (5, 60)):
        shown = min(top, 10 * rows)
        budget = _Budget(min(shown, max(10, rows)), rows, width, words.unit(result))
        text = _render(result, budget, min(shown, max(5, rows)), marker(key), link)
        if length(text) < LIMIT:
            return text
    return cut_to_limit(text)


def report_link(address: str) -> str:
    """Return the address where it is one that a comment may link to. Raises `ValueError`."""
    if not re.fullmatch(r"https?://[^\s<>()\[\]\\`\"']{1,2000}", address) or not address.isascii():
        raise ValueError(address)
    return address


def cut_to_limit(text: str) -> str:
    """Cut at a line, close what is folded and say so; only a result with huge prose comes here."""
    shown = text
    while length(shown) > LIMIT - len(_TRUNCATED) - 200:
        shown = shown[: min(len(shown) - 1, LIMIT - len(_TRUNCATED) - 200) * 9 // 10]
    shown = shown[: shown.rfind("\n")]
    shown += "\n\n</details>" * (shown.count("\n<details>") - shown.count("\n</details>"))
    return shown + _TRUNCATED


def _render(result: Result, budget: _Budget, top: int, first: str, link: str) -> str:
    figure = waterfall.build(result)
    phases = phase_table.table(result)
    gates = result.gates.outcomes if result.gates else []
    sure = [finding for finding in result.findings if finding.level != "within_noise"]
    more = sure[budget.findings :] + [f for f in result.findings if f.level == "within_noise"]
    scale = words.finding_scale(result.findings)
    small = _SMALL * result.step.baseline_ns
    gaps, small_gaps = _worth(sorted(result.gaps, key=gap_order), small)
    ranges, small_ranges = _worth(sorted(result.ranges, key=range_order), small)
    kernels = sorted(result.kernels, key=kernel_order)
    changed = [row for row in kernels if row.level != "within_noise"]
    first_rows = 0 if launch_words.by_launch(result) else top  # told by name there
    first_kernels = (changed or kernels)[:first_rows]
    others = changed[first_rows:] + [row for row in kernels if row.level == "within_noise"]
    others = others if changed else others[first_rows:]
    template = markdown_environment(words.unit(result)).get_template("comment.md.j2")
    return template.render(
        r=result,
        marker=Markdown(first),
        link=Markdown(f"[HTML report]({link})") if link else "",
        verdict=words.VERDICTS[result.verdict],
        phases=phases,
        comparable=result.verdict != "not_comparable",
        adjusted=any(row.host_speed for row in phases.rows),
        mix=words.mix_note(result),
        left_out=left_out(result),
        gates=gates[:50],
        gates_left=max(0, len(gates) - 50),
        figure=waterfall.text_figure(figure),
        figure_of=figure.of_what,
        unchanged=", ".join(bar.label for bar in figure.unchanged),
        noisy=any(bar.level == "within_noise" for bar in figure.shown),
        sure=_findings(result, sure[: budget.findings], scale),
        more=_findings(result, more[: budget.rows], scale),
        more_left=max(0, len(more) - budget.rows),
        kernels=_kernels(first_kernels, budget),
        kernels_noise=_kernels(others[: budget.rows], budget, len(others) - budget.rows),
        kernels_sure=bool(changed),
        kernels_more_sure=len(changed) > top,
        judged=any(phase.judged for phase in result.phases),
        launches=launch_words.table(result, top, budget.width),
        folds=[
            *(
                (table.title, [table.first(budget.rows)])
                for table in host_words.tables(result.host, two=True)
            ),
            ("Idle gaps of the GPU by cause", _gaps(gaps, budget)),
            ("NVTX ranges (host time, children included)", _ranges(ranges, budget)),
            ("Step time by phase: mean and tails", _phases(result, budget.rows)),
            (f"{len(result.ranks)} ranks", _ranks(result, budget.rows)),
            ("Launch overhead", _launch(result)),
            ("GIL and Python GC", _python(result, budget)),
            (
                "OS calls, communication, scheduling, CUDA's memory, GPU metrics, payloads",
                _system(result, budget.rows),
            ),
        ],
        hidden=_hidden(small_gaps, small_ranges, small, budget.unit),
        top=top,
        rows=budget.rows,
        problems=[f"{status}: {text}" for status, text in words.problems(result)[: budget.rows]],
        missing=words.all_missing(result) + system_words.missing(result),
        units=units,
        words=words,
        kpi_rows=_kpi(result, budget.rows),
        **sections.context(result),
        written=lambda blocks: markdown(blocks, budget.width),
        figure_cell=markdown_figure,
        line=lambda cells: Markdown(f"| {' | '.join(cells)} |"),
        code=lambda value: markdown_code(value, budget.width),
        cell=lambda value: markdown_cell(value, budget.width),
    )


def _worth(rows: list[_Row], least_ns: float) -> tuple[list[_Row], int]:
    """The rows that changed by at least so much, and how many did not."""
    large = [row for row in rows if abs(row.delta_ns) >= least_ns]
    return large, len(rows) - len(large)


def _hidden(gaps: int, ranges: int, small_ns: float, unit: str) -> list[str]:
    least = units.scale_for([small_ns]).time(small_ns)
    parts = [(gaps, "idle gaps"), (ranges, "NVTX ranges")]
    return [
        f"{count} {what} that changed by less than {least} per {unit} (0.1 %)"
        for count, what in parts
        if count
    ]


def _kpi(result: Result, most: int) -> list[list[Markdown]]:
    """Write a benchmark's figures; those that the step time explains come first."""
    rows = sections.renderer(result.kpi).rows(result.kpi)[:most] if result.kpi else []
    return [[markdown_prose(text, 200) for text in texts] for texts in rows]


def _findings(result: Result, findings: list[Finding], scale: units.Scale) -> list[dict[str, object]]:
    return [
        {
            "finding": one,
            "size": words.size(one, scale, words.unit(result)),
            "level": "" if one.level == "within_noise" else words.LEVELS[one.level][0],
            "facts": [
                text
                for text in (
                    "" if one.level == "within_noise" else words.held(result, one),
                    words.explains(one),
                    words.both_sides(one, scale, "→"),
                )
                if text
            ],
            "parts": words.parts(one, scale),
            "elsewhere": words.elsewhere(one, scale),
            "place": words.places(one),
        }
        for one in findings
    ]


_Row = TypeVar("_Row", bound=KernelRow | GapRow | RangeRow)


def _more(left: int, what: str, field: str) -> list[Span]:
    """Say what a table leaves out."""
    return [f"Truncated: {left} {what} are in the JSON (", Code(field), ")."] if left > 0 else []


def _matched(
    heads: Sequence[str],
    rows: Sequence[_Row],
    cells: Callable[[_Row], list[Span]],
    budget: _Budget,
    note: Sequence[Span] = (),
) -> list[Block]:
    """A table of the cells that name each row, then counts, times and the change on one scale."""
    if not rows:
        return []
    scale = words.matched_scale(rows)
    header = [
        *heads,
        f"Count per {budget.unit}",
        *(f"{name}, {scale.unit}" for name in ("Baseline", "Candidate", "Delta")),
        "Change",
    ]
    found = [[*cells(row), *map(Number, words.matched_figures(row, scale, " → "))] for row in rows]
    return [Table(header, found, note)]


def _kernels(rows: list[KernelRow], budget: _Budget, left: int = 0) -> list[Block]:
    called = {id(row): name for row, name in zip(rows, names.kernels(rows, width=budget.width), strict=True)}

    def cells(row: KernelRow) -> list[Span]:
        sure = row.match in ("exact", "added", "removed")
        return [
            Code(called[id(row)]),
            row.match if sure else f"{row.match} {row.confidence:.2f}",
        ]

    note = _more(left, "rows with smaller changes", "kernels")
    return _matched(("Kernel", "Match"), rows, cells, budget, note)


def _ranges(rows: list[RangeRow], budget: _Budget) -> list[Block]:
    note = _more(len(rows) - budget.rows, "rows with smaller changes", "ranges")
    return _matched(
        ("Range", "Thread"),
        rows[: budget.rows],
        lambda row: [Code(row.range), Code(row.thread)],
        budget,
        note,
    )


def _gaps(rows: list[GapRow], budget: _Budget) -> list[Block]:
    def cells(row: GapRow) -> list[Span]:
        around = f"{names.short(row.previous)} → {names.short(row.next)}"
        return [Code(words.cause(row.cause)), Code(row.range or row.thread or "-"), Code(around)]

    note = _more(len(rows) - budget.rows, "rows with smaller changes", "gaps")
    return _matched(("Cause", "Range", "Kernels around"), rows[: budget.rows], cells, budget, note)


def _both(values: Iterable[float | None], write: Callable[[float], str]) -> Number:
    return Number(" → ".join("-" if value is None else write(value) for value in values))


def _phases(result: Result, most: int) -> list[Block]:
    rows = [phase for phase in result.phases if phase.baseline or phase.candidate][:most]
    if not rows:
        return []
    sides = [(row.baseline, row.candidate) for row in rows]
    scale = units.scale_for([side.p99_ns for both in sides for side in both if side])
    cells: list[list[Span]] = [
        [
            Code(row.phase),
            _both((getattr(side, "steps", None) for side in both), str),
            *(
                _both((getattr(side, name, None) for side in both), scale.number)
                for name in ("mean_ns", "p50_ns", "p99_ns")
            ),
        ]
        for row, both in zip(rows, sides, strict=True)
    ]
    header = ("Phase", "Steps", *(f"{name}, {scale.unit}" for name in ("Mean", "p50", "p99")))
    note = "All whole steps of each phase, whatever their workload; the table above compares matching steps."
    return [Table(header, cells, [note])]


def _ranks(result: Result, most: int) -> list[Block]:
    if len(result.ranks) < 2:
        return []
    scale = units.scale_for([ns for row in result.ranks for ns in (row.baseline_ns, row.candidate_ns)])
    heads = ("Baseline", "Candidate", "Delta", "Own time, delta")
    header = (
        "Rank",
        *(f"{name}, {scale.unit}" for name in heads),
        "Last in",
        f"Waiting for peers, {scale.unit}",
    )
    rows = [
        [
            Number(str(row.rank)), _both([row.baseline_ns], scale.number), _both([row.candidate_ns], scale.number),
            _both([row.delta_ns], scale.signed), _both([row.delta_own_ns], scale.signed),
            _both((row.baseline_last, row.candidate_last), units.share),
            _both((row.baseline_comm_wait_ns, row.candidate_comm_wait_ns), scale.number),
        ]
        for row in rank_words.ordered(result.ranks)[:most]
    ]  # fmt: skip
    note = _more(len(result.ranks) - most, "more ranks", "ranks")
    return [*(Paragraph([text]) for text in rank_words.outliers(result)), Table(header, rows, note)]


def _launch(result: Result) -> list[Block]:
    both = (result.launch.baseline, result.launch.candidate)
    if not any(side.kernels_per_step for side in both):
        return []
    scale = units.scale_for([ns for side in both for ns in (side.api_ns_per_step, side.exposed_ns_per_step)])
    rows: list[list[Span]] = [
        [name, *(Number(write(getattr(side, field))) for side in both)]
        for name, field, write in (
            ("launching calls", "calls_per_step", units.count),
            ("graph launches", "graph_launches_per_step", units.count),
            ("kernels", "kernels_per_step", units.count),
            ("kernels launched by graphs", "graph_coverage", units.share),
            ("host time in launching calls", "api_ns_per_step", scale.time),
            ("of it, GPU idle for it", "exposed_ns_per_step", scale.time),
        )
    ]
    return [Table(("Per step", "Baseline", "Candidate"), rows)]


def _python(result: Result, budget: _Budget) -> list[Block]:
    """Waits for the GIL and pauses of the garbage collector, by thread."""

    def cells(write: Callable[[float], str], *values: float | None) -> list[Number]:
        return [Number(system_words.NOT_CAPTURED if value is None else write(value)) for value in values]

    blocks: list[Block] = []
    if result.gil.rows:
        time = units.scale_for(
            [ns for row in result.gil.rows for ns in (row.baseline_wait_ns, row.candidate_wait_ns)]
        ).time
        waits = (
            f"{name}, {side}"
            for name in ("GIL wait", "GPU idle for it")
            for side in ("baseline", "candidate")
        )
        rows: list[list[Span]] = [
            [
                Markdown(f"{markdown_cell(row.thread, budget.width)} {markdown_prose(row.phase)}"),
                *cells(
                    time,
                    row.baseline_wait_ns,
                    row.candidate_wait_ns,
                    row.baseline_exposed_ns,
                    row.candidate_exposed_ns,
                ),
            ]
            for row in result.gil.rows[: budget.rows]
        ]
        blocks.append(Table(("Thread", *waits), rows))
    if result.gc.rows:
        time = units.scale_for(
            [ns for row in result.gc.rows for ns in (row.baseline_ns, row.candidate_ns)]
        ).time
        rows = [
            [
                Code(row.thread), row.generation, *cells(units.count, row.baseline_count, row.candidate_count),
                *cells(time, row.baseline_ns, row.candidate_ns),
            ]
            for row in result.gc.rows[: budget.rows]
        ]  # fmt: skip
        header = (
            "Thread",
            "GC generation",
            "Pauses per step, baseline",
            "candidate",
            "Time, baseline",
            "candidate",
        )
        blocks.append(Table(header, rows))
    return blocks


def _system(result: Result, most: int) -> list[Block]:
    if result.system is None:
        return []
    blocks: list[Block] = [*system_words.tables(result.system, most)]
    metrics = system_words.metrics(result.system, most)
    if metrics:
        parts = (part.capitalize() for part in system_words.METRIC_PARTS.values())
        rows = [[Code(metric), device, *map(Number, values)] for metric, device, values in metrics]
        blocks.append(Table(("GPU metric, means of samples", "Device", *parts), rows))
    return blocks + [Paragraph([f"{text}."]) for text in system_words.sampling(result.system)[:most]]
