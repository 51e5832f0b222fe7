"""docs/sql.md and the headers that it is made from say what the tables are."""

from __future__ import annotations

import re

import pytest

from tests.tiny import ROOT
from tracediff.query.reference import MEASURED, table, tables
from tracediff.report.query import render_reference

NAMES = [one.name for one in tables()]


def test_the_page_is_up_to_date():
    """To update it: python -m tracediff query --schema > docs/sql.md."""
    assert (ROOT / "docs" / "sql.md").read_bytes() == render_reference()


@pytest.mark.parametrize("names", [("graph_a1",), ("graph_a1", "graph_gc")], ids=len)
def test_the_columns_are_as_documented(ask, tables_of, names):
    for schema in tables_of(*names).schemas:
        for one in tables():
            frame = ask(f"DESCRIBE {schema}.{one.name}", *names)
            said = [(column.name, column.type) for column in one.columns]
            assert list(frame.select("column_name", "column_type").iter_rows()) == said, one.name


@pytest.mark.parametrize("name", NAMES)
def test_every_time_says_its_unit(name):
    for column in table(name).columns:
        if column.type in ("BIGINT", "DOUBLE") and re.search(
            r"start|end|duration|wait_|wall|share|idle|delay", column.name
        ):
            assert column.name.endswith("_ns"), column


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_header_is_read(name):
    """A line that is no column and no comment of one would vanish from the page."""
    header = table(name).sql.partition("\nSELECT")[0].partition("\nWITH")[0].splitlines()
    columns = [line for line in header if re.match(r"--   \w", line)]
    names = [one.strip() for line in columns for one in re.match(r"--   ((?:\w+, )*\w+)", line)[1].split(",")]
    assert [column.name for column in table(name).columns] == names
    page = render_reference().decode().replace("\\", "")
    for line in header:
        words = line.removeprefix("--").split()
        assert not words or " ".join(words[-2:]) in page or words[-1] in page


def test_tables_are_listed_and_linked():
    page = render_reference().decode()
    for one in tables():
        assert f"[`{one.name}`](#{one.name})" in page and f"\n## {one.name}\n" in page
        assert one.text and one.measured == (one.name in MEASURED)


def test_names_are_found_whatever_their_case():
    assert table("OP") is table("op") is not None
    assert table("nothing") is None
