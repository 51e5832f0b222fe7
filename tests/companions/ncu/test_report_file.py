"""Reports: read by the user's own ncu, by what it prints of them; a stand-in prints it here."""

from __future__ import annotations

import pytest

from tracediff.companions.ncu.read import MAGIC, read
from tracediff.errors import TracediffError

from .counters import raw_csv

PAGE = raw_csv(
    ("quantize(float *)", "(132, 1, 1)", "(256, 1, 1)", {"gpu__time_duration.sum": ("nsecond", "41500")})
)


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(MAGIC + b"whatever ncu makes of it")
    return path


def ncu(folder, monkeypatch, script: str) -> None:
    program = folder / "ncu"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("NCU", str(program))


def test_a_report_is_what_ncu_prints_of_it(tmp_path, monkeypatch, report):
    (tmp_path / "page").write_text(PAGE)
    ncu(tmp_path, monkeypatch, f'echo "$LC_ALL $@" >> {tmp_path}/asked; cat {tmp_path}/page')
    found = read(report)
    assert (found.file, found.source) == ("a.ncu-rep", "report")
    (launch,) = found.launches
    assert (launch.name, launch.grid, launch.values) == (
        "quantize(float *)",
        "132,1,1",
        {"duration_ns": 41_500},
    )
    # a locale with a decimal comma, and units that ncu chooses by size, would be other numbers
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["C", "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo '==ERROR== Failed to open' >&2; exit 1", "Failed to open"),
        ("echo 'No kernels were profiled.'", "no page of kernels"),
        ("kill -9 $$", "no page of kernels"),
    ],
)
def test_what_ncu_cannot_read_is_refused(tmp_path, monkeypatch, report, script, said):
    ncu(tmp_path, monkeypatch, script)
    with pytest.raises(TracediffError) as caught:
        read(report)
    assert caught.value.slug == "ncu-damaged" and said in str(caught.value)


def test_a_page_that_is_cut_short_is_refused(tmp_path, monkeypatch, report):
    (tmp_path / "page").write_text(PAGE.rstrip("\n"))
    ncu(tmp_path, monkeypatch, f"cat {tmp_path}/page")
    with pytest.raises(TracediffError) as caught:
        read(report)
    assert caught.value.slug == "ncu-csv-shape"


def test_without_ncu_the_way_out_is_named(monkeypatch, report):
    monkeypatch.setenv("NCU", "/nowhere/ncu")
    with pytest.raises(TracediffError) as caught:
        read(report)
    assert caught.value.slug == "ncu-missing" and "--csv --page raw" in str(caught.value)
