"""A disk that fails at any write of a command: one clear error, nothing half-written, and the next run succeeds."""

from __future__ import annotations

import errno
import sys

import pytest

from tests.failing import failing
from tests.serving import serving
from tracediff.cli.main import main
from tracediff.formats import bounds

OUTPUTS = {
    "--html": "report.html", "--md": "report.md", "--json": "result.json", "--junit": "tests.xml", "--postmortem": "mortem.md",
    "--tables": "tables", "--pictures": "pictures",
}  # fmt: skip


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bounds, "last_resort", None)
    monkeypatch.setenv("TRACEDIFF_CACHE", str(tmp_path / "disk" / "cache"))
    (tmp_path / "disk").mkdir()

    def command(*words) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tracediff", *map(str, words)])
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        return status, capsys.readouterr().err

    return command


@pytest.fixture
def commands(tmp_path):
    """Commands, and what each writes into the folder `disk`."""
    one = serving(steps=6).write(tmp_path / "one.sqlite")
    two = serving(steps=6, kernel_us=300).write(tmp_path / "two.sqlite")
    disk = tmp_path / "disk"
    every = [word for option, name in OUTPUTS.items() for word in (option, disk / name)]
    return {
        "compare": ("compare", one, two, "-q", "-f", *every),
        "scrub": ("scrub", one, disk / "scrubbed.sqlite", "-f"),
        "query": ("query", one, "SELECT * FROM op", "--csv", "-o", disk / "rows.csv", "-f"),
    }


def content(folder) -> dict[str, bytes]:
    """Every file below a folder but those of the cache, which are whole or not believed."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "scrub", "query"])
def test_a_failure_of_any_write(name, run, commands, tmp_path):
    disk, words = tmp_path / "disk", commands[name]
    status, said = run(*words)
    assert status == 0, said
    before = content(disk)
    with failing(disk, 0, errno.EIO) as counted:
        assert run(*words)[0] == 0
    assert counted.changes
    # Of a command that changes hundreds of files alike, one in so many: drawing all its pictures for each would take half an hour.
    for turn, nth in enumerate(range(1, counted.changes + 1, 1 + counted.changes // 80)):
        with failing(disk, nth, (errno.EIO, errno.ENOSPC)[turn % 2]) as failed:
            status, said = run(*words)
        assert failed.changes >= nth and "Traceback" not in said and "internal-error" not in said
        if status:  # of the cache no failure is an error
            assert status == 1 and any(
                slug in said for slug in ("[output-not-writable]", "[disk-full]", "[io-error]")
            ), said
        assert content(disk).keys() == before.keys(), nth
    assert run(*words)[0] == 0 and content(disk).keys() == before.keys()
