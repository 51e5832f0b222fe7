"""Reports: read by the user's own ncu, by what it prints of them; a stand-in prints it here."""

from __future__ import annotations

import pytest

from tracediff.companions.ncu.compare import compare_ncu
from tracediff.companions.ncu.read import MAGIC, read
from tracediff.companions.ncu.source import SourceLine
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
    asked, source = (line.split() for line in (tmp_path / "asked").read_text().splitlines())
    assert source[:3] == ["C", "--import", str(report)] and source[-2:] == ["--print-source", "cuda,sass"]
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


# The page of the source


SOURCE = """"File Path","/home/someone/k.cu"
"Function Name","quantize(float *)"
"Line No","Source","Address","Source","# Samples","stall_long_sb","stall_selected","stall_wait"
"7","inlined","-","-","60","50","9","1"
"","","0xa0","LDG","60","50","9","1"
"9","call","-","-","90","50","9","31"
"","","0xa0","LDG","60","50","9","1"
"","","0xa1","FADD","30","0","0","30"
"12","loop","-","-","10","0","10","0"
"","","0xa2","BRA","10","0","10","0"
"File Path","/opt/header.h"
"Function Name","quantize(float *)"
"Line No","Source","Address","Source","# Samples","stall_long_sb","stall_selected","stall_wait"
"700","load","-","-","60","50","9","1"
"""


def pages(folder, monkeypatch, source: str) -> None:
    (folder / "raw").write_text(PAGE)
    (folder / "source").write_text(source)
    ncu(
        folder, monkeypatch, f'case "$*" in *"page source"*) cat {folder}/source;; *) cat {folder}/raw;; esac'
    )


def test_the_line_with_the_most_stalls_is_the_innermost_of_the_kernels_own_file(
    tmp_path, monkeypatch, report
):
    """Of 100 samples of three instructions line 9 has 90, with line 7 that it calls: 60 of them, most of it in the load."""
    pages(tmp_path, monkeypatch, SOURCE)
    profile = read(report)
    assert profile.lines == {"quantize(float *)": SourceLine("k.cu", 7, 0.6, "long scoreboard")}
    (row,) = compare_ncu(profile, profile).rows
    place = "k.cu:7 (60 % of the samples, long scoreboard)"
    assert row.note.startswith(f"most stalls: baseline {place}, candidate {place}")


def test_another_launch_of_a_kernel_counts_once(tmp_path, monkeypatch, report):
    pages(tmp_path, monkeypatch, SOURCE + SOURCE)
    assert read(report).lines["quantize(float *)"].share == 0.6


@pytest.mark.parametrize(
    "source",
    [
        "", "==ERROR== Unknown option --print-source\n", SOURCE.replace('"# Samples"', '"Samples"'), SOURCE.replace("0xa", "-"),
        SOURCE.replace('"60"', '"n/a"').replace('"90"', '"-5"').replace('"10"', '"1e9"'), '"Line No"\n"1"\n"File Path"\n' + '"\x00' * 9,
    ],
)  # fmt: skip
def test_a_report_without_source_lines_is_read_all_the_same(tmp_path, monkeypatch, report, source):
    pages(tmp_path, monkeypatch, source)
    profile = read(report)
    assert profile.lines == {} and len(profile.launches) == 1
