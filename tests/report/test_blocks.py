"""Tables as data: each path of columns.txt leads to a field of the rows, and each renderer writes any name as text."""

from __future__ import annotations

import dataclasses
import io
import types
import typing
from typing import Any

import msgspec
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from tests.report import sample
from tests.report.tags import tags
from tracediff.model import Result
from tracediff.model.common import Change
from tracediff.model.host import CommCallRow, MemoryRow, MemorySide, System
from tracediff.model.show import Show
from tracediff.report import blocks, fields, sections, templates, units, values
from tracediff.report import page as pages
from tracediff.report.blocks import Cell, Code, Head, Items, Line, Link, Listing, Row, Section, Table
from tracediff.report.console import print_section

SPECS = sections.LISTED
HARMFUL = (
    "<script>alert(1)</script>", "](https://evil.example) @everyone #1", "`a|b`\\|c", "{{7*7}} {% raw %}", "[bold]x[/]",
    "a\x1b[31mred", "\u202egpj.exe", "line\nbreak", "$(id) <!--", "'\"><img src=x onerror=y>",
)  # fmt: skip


def members(of: Any) -> dict[str, Any]:
    """The fields of a struct or dataclass with their types."""
    known = (
        of.__struct_fields__
        if issubclass(of, msgspec.Struct)
        else [one.name for one in dataclasses.fields(of)]
    )
    hints = typing.get_type_hints(of)
    return {name: hints[name] for name in known}


def classes(of: Any) -> list[type]:
    """The structs and dataclasses that a type holds, in lists or beside None."""
    if isinstance(of, type) and not typing.get_args(of):
        return [of] if issubclass(of, msgspec.Struct) or dataclasses.is_dataclass(of) else []
    return [one for part in typing.get_args(of) for one in classes(part)]


def leads(of: list[type], path: str) -> list[Any]:
    """The types that a path of fields leads to, from any of these."""
    found: list[Any] = list(of)
    for part in path.split("."):
        holders = [one for each in found for one in classes(each)]
        found = [members(one)[part] for one in holders if part in members(one)]
    return found


def rows_of(spec: values.Spec) -> list[type]:
    """What the rows of a table are."""
    if spec.name in fields.ROWS:
        return [fields.ROWS[spec.name]]
    return [
        one for report in (Result, Show) for found in leads([report], spec.field) for one in classes(found)
    ]


@pytest.mark.parametrize("name", SPECS)
def test_every_path_leads_to_a_field(name: str) -> None:
    spec = SPECS[name]
    rows = rows_of(spec)
    assert rows, spec.field
    for column in spec.columns:
        for path in column.paths:
            for part in path.split(".."):
                if part.startswith("="):
                    assert part[1:] in fields.VALUES
                else:
                    assert leads(rows, part), (name, part)


def test_every_value_is_listed_and_every_listed_table_is_in_a_section() -> None:
    used = {
        path[1:]
        for spec in SPECS.values()
        for column in spec.columns
        for path in column.paths
        if path[0] == "="
    }
    assert used == set(fields.VALUES)
    report = templates.folder().parent / "tracediff" / "report"
    source = "".join(
        (report / f"{name}.py").read_text(encoding="utf-8")
        for name in ("sections", "findings", "drawn", "postmortem")
    )
    assert [name for name in SPECS if f'"{name}"' not in source] == []


@pytest.mark.parametrize("line", ["no table", "[a] A\nhead  nothing  path", "[a] A\nhead"])
def test_a_line_that_is_none_of_a_table_is_an_error(tmp_path, line: str) -> None:
    file = tmp_path / "columns.txt"
    file.write_text(line)
    with pytest.raises(ValueError, match=line.splitlines()[-1]):
        values.listed(file)


@dataclasses.dataclass(frozen=True)
class One:
    """A row."""

    name: str
    time: Change | types.SimpleNamespace
    count: float | None = None


def made(rows: list[One], *, two: bool = True) -> Table:
    columns = (
        values.Column("Name", "name", ("name",)),
        values.Column("{} {per}", "times", ("time.baseline_ns", "time.candidate_ns")),
        values.Column("Count", "count", ("count",)),
    )
    spec = values.Spec("t", "where", "Title of a {step}", columns)
    return values.table(spec, rows, values.Context(None, two, {}, "capture", "per capture"), 2)


def test_cells_of_both_sides_share_a_unit_and_have_their_difference() -> None:
    found = made(
        [
            One("a", Change(20_000.0, 30_000.0, 0.0)),
            One("b", Change(0.0, 5_000.0, 0.0)),
            One("c", Change(1.0, 1.0, 0.0)),
        ]
    )
    assert found.caption == "Title of a capture"
    assert [(head.group, head.part) for head in found.heads] == [
        ("", ""), ("{} per capture", "baseline"), ("{} per capture", "candidate"), ("{} per capture", "delta"), ("", "change"),
    ]  # fmt: skip
    assert [each for each in found.over if each[0]] == [("{} per capture", 3, "us")]
    assert [[cell.text for cell in row.cells] for row in found.rows] == [
        ["a", "20.00", "30.00", "+10.00", "+50.0 %"], ["b", "0", "5.00", "+5.00", "new"],
    ]  # fmt: skip
    assert (found.unit, found.left, found.total) == ("us", 1, 3)
    assert [cell.value for cell in found.rows[0].cells] == [None, 20_000.0, 30_000.0, 10_000.0, 50.0]


def test_columns_of_a_unit_of_their_own_have_it_over_both_sides() -> None:
    """Means of 20 and 30 ms beside a table without times that share a unit."""
    columns = (
        values.Column("Name", "name", ("name",)),
        values.Column("mean, {}", "each", ("time.baseline_ns", "time.candidate_ns")),
    )
    spec = values.Spec("t", "where", "Title", columns)
    row = One("a", Change(2e7, 3e7, 0.0))
    found = values.table(spec, [row], values.Context(None, True, {}), 2)
    assert found.over[1] == ("mean, {}", 2, "ms")
    assert [cell.text for cell in found.rows[0].cells] == ["a", "20.00", "30.00"]
    page = pages.document([Section("", "Title", [found])])
    assert "mean, ms" in page and "mean, ns" not in page


def test_a_column_without_values_is_left_out_and_one_side_has_no_difference() -> None:
    assert [head.text for head in made([One("a", Change(1.0, 2.0, 0.0))]).heads] == ["Name", "", "", "", ""]
    assert [head.text for head in made([One("a", Change(1.0, 2.0, 0.0), 3.0)], two=False).heads] == [
        "Name",
        "{} per capture",
        "Count",
    ]


@pytest.mark.parametrize(
    ("before", "after", "level", "said"),
    [
        (5_000.0, 0.0, None, "gone"), (0.0, 5_000.0, None, "new"), (5_000.0, 0.0, "within_noise", "~"),
        (1_000.0, 12_000.0, None, "12x"), (1_000.0, 900.0, "likely", "-10.0 %"),
    ],
)  # fmt: skip
def test_a_difference_is_a_part_of_what_there_was(
    before: float, after: float, level: str | None, said: str
) -> None:
    scale = units.scale_for([before, after])
    assert values.difference(before, after, after - before, scale, level)[1].text == said


def test_text_formats_join_both_sides() -> None:
    flat = blocks.flattened(
        made([One("a", Change(20_000.0, 30_000.0, 0.0)), One("b", Change(5_000.0, 5_000.0, 0.0))]), 9
    )
    assert [head.text for head in flat.heads] == ["Name", "us per capture", "Delta", "Change"]
    assert [[cell.text for cell in row.cells] for row in flat.rows] == [
        ["a", "20.00 -> 30.00", "+10.00", "+50.0 %"],
        ["b", "5.00", "0", ""],
    ]


def page(name: str) -> Section:
    """Every block with a name in each of its places."""
    cells = [
        Cell(name, code=True, title=name, more=[Line([name])]),
        Cell(name, 1.0, small=name),
        Cell(name, mark="lv", link="part"),
    ]
    table = Table(
        name,
        name,
        [Head(name), Head(name, group=name, right=True), Head(name)],
        [Row(cells), Row(cells)],
        field="f",
        left=3,
    )
    facts = Table("facts", "", [Head("")] * 2, [Row([Cell(name), Cell(name, code=True)])], look="facts")
    lines = [
        Line([name, Code(name), blocks.Strong(name), blocks.Fill(name), Link(name, "part")]),
        Items([[name]], "warn"),
    ]
    part = Section("part", name, [table, facts], depth=1)
    return Section("whole", name, [*lines, Listing(name, "sql"), part], depth=1, gist=name, menu=name)


def rendered(name: str) -> str:
    template = '{% import "blocks.html.j2" as b with context %}{{ b.menu([one]) }}{{ b.fold(one) }}'
    return templates.html_environment().from_string(template).render(one=page(name), **pages.helpers())


@pytest.mark.parametrize("name", HARMFUL)
def test_a_name_adds_no_element_to_a_page(name: str) -> None:
    assert tags(rendered(name)) == tags(rendered("x" * len(name)))
    assert "49" not in rendered(name)


@pytest.mark.parametrize("name", HARMFUL)
def test_a_name_adds_no_element_to_a_comment(name: str) -> None:
    template = '{% import "blocks.md.j2" as b %}{{ b.fold(one.title, all, 9, 80)|ready }}'
    environment = templates.markdown_environment()

    def shape(of: str) -> list[str]:
        found = page(of)
        text = environment.from_string(template).render(one=found, all=blocks.printed(found, 1))
        return [
            token.type
            for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
            if token.type != "inline"
        ]

    assert shape(name) == shape("x" * 12)
    text = environment.from_string(template).render(one=page(name), all=blocks.printed(page(name), 1))
    assert "<script" not in MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


@pytest.mark.parametrize("name", HARMFUL)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_name_is_no_markup_of_a_terminal(name: str, width: int) -> None:
    out = io.StringIO()
    shown = (
        name.replace("\x1b", "\\x1b").replace("\u202e", "").replace("\n", " ")
    )  # as escape.neutral leaves it
    print_section(Console(file=out, width=width, color_system=None), page(shown), 9)
    assert shown.split(" ")[0][:8] in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_depth_says_what_text_formats_have() -> None:
    deep = Section(
        "s",
        "S",
        [Line(["lead"], "lead"), Section("", "T", [Line(["said"])], depth=2), Line(["note"], "note")],
    )
    assert [one.spans for one in blocks.printed(deep, 1) if isinstance(one, Line)] == [["note"]]
    assert [one.spans for one in blocks.printed(deep, 2) if isinstance(one, Line)] == [["said"], ["note"]]


def test_a_lone_table_of_what_the_system_recorded_has_its_own_title() -> None:
    calls = [CommCallRow("NCCL", "ncclAllReduce", "executor", 2.0, 50_000.0, 2.0, 40_000.0)]
    side = MemorySide(1.0, 64.0, 0.0, 0.0, 64, 64)
    for system, title, parts in (
        (System(comm_calls=calls), "Calls of MPI and NCCL", 0),
        (System(comm_calls=calls, memory=[MemoryRow("device", side, side)]), "OS calls, communication, ", 2),
    ):
        made = sections._system(msgspec.structs.replace(sample.full(), system=system))
        assert made.title.startswith(title) and made.id == "system"
        assert sum(isinstance(one, Section) for one in made.blocks) == parts
