"""Which files a side was taken from is said wherever they may be mistaken: repeats in the head, names in messages."""

from __future__ import annotations

import pytest

from tests.cli.checks import expect_error
from tests.serving import serving


@pytest.fixture
def sides(tmp_path):
    """Two folders of two runs, each a folder with a report.sqlite."""
    for side, schedule in (("main", 100), ("pr", 130)):
        for run in ("one", "other"):
            place = tmp_path / side / f"{run}`{side}"
            place.mkdir(parents=True)
            trace = serving(schedule_us=schedule, jitter_us=2, seed=len(side + run))
            trace.write(place / "report.sqlite")
    return tmp_path


@pytest.mark.slow
def test_every_head_lists_the_runs(run, sides):
    code, out, err = run("compare", "main", "pr", "--md", "c.md", "--html", "r.html")
    assert code == 0, err
    assert "baseline main: one`main, other`main" in out
    assert "Runs of the candidate: ``one`pr``, ``other`pr``" in (sides / "c.md").read_text()
    page = (sides / "r.html").read_text()
    assert all(f">{name}<" in page for name in ("one`main", "other`main", "one`pr", "other`pr"))


def test_a_single_run_is_not_listed(run, sides):
    _, out, _ = run("compare", "main/one`main/report.sqlite", "pr")
    assert "candidate pr: one`pr, other`pr" in out and "\n  baseline report\n" in out


def test_an_error_names_the_folder_of_a_file_that_is_not_the_only_one_of_its_name(run, sides):
    (sides / "pr" / "other`pr" / "report.sqlite").write_bytes(b"no database at all" * 100)
    assert "other`pr/report.sqlite" in expect_error(run("compare", "main", "pr", "-q"), "not-sqlite")


def test_a_name_that_is_the_only_one_stays_as_it_is(run, sides):
    (sides / "bad.sqlite").write_bytes(b"no database at all" * 100)
    said = expect_error(run("compare", "main", "bad.sqlite", "-q"), "not-sqlite")
    assert "bad.sqlite" in said and "/bad.sqlite" not in said
