"""Comparisons that are killed, find no room, or find inputs that others write to: real processes, nothing half-done afterwards."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.serving import serving
from tests.tiny import ROOT
from tracediff.execution import cache
from tracediff.execution.cache import unpack
from tracediff.formats import files as scratch

# The command line, which ends itself without a word when it comes to some place.
KILLED = """
import os, signal, sys
def end(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)
{place}
from tracediff.cli.main import main
sys.argv = ["tracediff", *sys.argv[1:]]
main()
"""
PLACES = {
    "while the export is reduced": "import tracediff.accounting.reduce as reduce; reduce.reduce_capture = end",
    "while a cache entry is written": (
        "import pathlib; write = pathlib.Path.write_bytes\n"
        "pathlib.Path.write_bytes = lambda path, raw: write(path, raw[: len(raw) // 2]) and end()"
    ),
    "before a cache entry is named": "import tracediff.execution.cache as cache; cache.Path.replace = end",
    "while the sides are compared": "from tracediff.comparison import compare; compare.compare = end",
    "before an output is on disk": "import os; os.fsync = end",
    "before an output is named": (
        "import pathlib, tracediff.write as w; real = pathlib.Path.replace\n"
        "pathlib.Path.replace = lambda path, to: end() if path.suffix == '.tmp' else real(path, to)"
    ),
}


@pytest.fixture
def pair(tmp_path):
    one = serving(steps=6).write(tmp_path / "one.sqlite")
    return [str(one), str(serving(steps=6, kernel_us=300).write(tmp_path / "two.sqlite"))]


@pytest.fixture
def env(tmp_path):
    """Scratch and cache in folders of the test."""
    (tmp_path / "scratch").mkdir()
    places = {"TMPDIR": str(tmp_path / "scratch"), "TRACEDIFF_CACHE": str(tmp_path / "cache")}
    return {**os.environ, **places, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def compare(*words, env) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracediff", "compare", *map(str, words), "-q"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


def content(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def only_whole_entries(folder: Path) -> int:
    entries = list(folder.glob("*.arrow")) if folder.exists() else []
    for entry in entries:
        unpack(entry.read_bytes(), entry.stem)  # raises where it is damaged
    return len(entries)


@pytest.mark.slow
def test_killed_in_the_middle(pair, env, tmp_path):
    """At each place in turn; what one of them leaves is there for the next one."""
    expected, out = tmp_path / "expected.json", tmp_path / "out.json"
    assert compare(*pair, "--json", expected, env={**env, "TRACEDIFF_CACHE": "off"}).returncode == 0
    for place, change in PLACES.items():
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        out.write_text("what was there before")
        killed = subprocess.run(
            [sys.executable, "-c", KILLED.format(place=change), "compare", *pair, "--json", out, "-f", "-q"],
            env=env,
            timeout=300,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, place
        assert out.read_text() == "what was there before", place
        only_whole_entries(tmp_path / "cache")
        again = compare(*pair, "--json", out, "-f", env=env)
        assert again.returncode == 0, (place, again.stderr)
        assert content(out) == content(expected), place
        assert only_whole_entries(tmp_path / "cache") == 2, place


# The command line, which says when its work begins: before, an interrupt is Python's own affair.
TOLD = """
import sys
from tracediff.cli.main import cli, main
real = cli.main
cli.main = lambda *args, **options: (print("begun", flush=True), real(*args, **options))
sys.argv = ["tracediff", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ended_at_any_moment(number, pair, env, tmp_path):
    """Moments spread over the time that a whole comparison takes."""
    expected, out = tmp_path / "expected.json", tmp_path / "out.json"
    began = time.monotonic()
    assert compare(*pair, "--json", expected, env=env).returncode == 0
    took = time.monotonic() - began
    ended = 0
    for part in (0.0, 0.2, 0.4, 0.6, 0.8):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        out.unlink(missing_ok=True)
        child = subprocess.Popen(
            [sys.executable, "-c", TOLD, "compare", *pair, "--json", str(out), "-q"],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdout is not None and child.stdout.readline() == "begun\n"
        time.sleep(part * took)
        child.send_signal(number)
        _, errors = child.communicate(timeout=120)
        # Python itself drops an interrupt that meets a callback of its own, says so and goes on
        assert "Traceback" not in errors or "Exception ignored in" in errors, errors
        # an interrupt is answered with 130, or after the work with the signal's own end
        statuses = (0, -signal.SIGKILL) if number == signal.SIGKILL else (0, 130, -signal.SIGINT)
        assert child.returncode in statuses, (part, errors)
        ended += child.returncode != 0
        if out.exists():
            assert content(out) == content(expected)
        only_whole_entries(tmp_path / "cache")
    assert ended >= 1
    assert compare(*pair, "--json", out, "-f", env=env).returncode == 0
    assert content(out) == content(expected)


@pytest.mark.slow
def test_what_a_killed_process_leaves_is_removed_by_the_next_one(pair, env, tmp_path):
    code = KILLED.format(place=PLACES["while the export is reduced"])
    subprocess.run([sys.executable, "-c", code, "compare", *pair], env=env, timeout=300, check=False)
    (left, *_) = left_over = list((tmp_path / "scratch").iterdir())
    mine = tmp_path / "scratch" / "tracediff-mine"
    mine.mkdir()
    held = tmp_path / "scratch" / f"{scratch._PREFIX}held"
    held.mkdir()
    old = time.time() - 2 * scratch._MADE_JUST_NOW_S
    for folder in (*left_over, mine, held):
        os.utime(folder, (old, old))
    with scratch._locked(held) as locked:  # as if its process were alive
        assert locked
        assert compare(*pair, env=env).returncode == 0
    assert not left.exists()
    assert sorted((tmp_path / "scratch").iterdir()) == [mine, held] or set(
        (tmp_path / "scratch").iterdir()
    ) == {mine, held}


@pytest.mark.slow
def test_parts_of_entries_that_nobody_writes_any_more_are_removed(pair, env, tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    old, new = folder / ".old.arrow.part", folder / ".new.arrow.part"
    for part in (old, new):
        part.write_bytes(b"half")
    before = time.time() - 2 * cache._WRITTEN_WITHIN_S
    os.utime(old, (before, before))
    assert compare(*pair, env=env).returncode == 0
    assert not old.exists() and new.exists()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.getuid() != 0:
        pytest.skip("only root mounts a file system")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_outputs_on_a_full_disk(pair, env, small_disk):
    out = small_disk / "report.html"
    (small_disk / "filler").write_bytes(bytes(200 << 10))
    done = compare(*pair, "--html", out, env=env)
    assert done.returncode == 1
    assert "[output-not-writable]" in done.stderr and "No space left" in done.stderr
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_cache_on_a_full_disk_keeps_nothing_and_is_no_error(pair, env, small_disk, tmp_path):
    (small_disk / "filler").write_bytes(bytes(248 << 10))
    done = compare(
        *pair, "--json", tmp_path / "out.json", env={**env, "TRACEDIFF_CACHE": str(small_disk / "cache")}
    )
    assert done.returncode == 0, done.stderr
    assert list((small_disk / "cache").glob("*")) + list((small_disk / "cache").glob(".*")) == []


def test_scratch_on_a_full_disk(pair, env, small_disk, tmp_path):
    packed = tmp_path / "two.sqlite.xz"
    packed.write_bytes(lzma.compress(Path(pair[1]).read_bytes()))
    (small_disk / "filler").write_bytes(bytes(100 << 10))
    done = compare(pair[0], packed, env={**env, "TMPDIR": str(small_disk)})
    assert done.returncode == 1
    assert "[disk-full]" in done.stderr and "TMPDIR" in done.stderr
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


@pytest.fixture
def without_root() -> list[str]:
    """What a command begins with that may read only what its user may: root otherwise reads everything."""
    if os.getuid() != 0:
        return []
    program = shutil.which("setpriv")
    if program is None:
        pytest.skip("root needs setpriv to give up its rights")
    return [program, "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


@pytest.mark.slow
def test_an_export_that_may_not_be_read(pair, tmp_path, env, without_root):
    """One rank of two."""
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for rank in (0, 1):
        shutil.copy(pair[1], ranks / f"run_rank{rank}.sqlite")
    (ranks / "run_rank1.sqlite").chmod(0)
    command = [*without_root, sys.executable, "-m", "tracediff", "compare", str(ranks), str(ranks), "-q"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "run_rank1.sqlite" in done.stderr and "Traceback" not in done.stderr
    assert "[no-permission]" in done.stderr
    out = tmp_path / "out.json"
    done = subprocess.run(
        [*command, "--skip-unreadable", "--json", str(out)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (left_out,) = [note["message"] for note in content(out)["warnings"] if note["slug"] == "exports-left-out"]
    assert "run_rank1.sqlite" in left_out and "run_rank0.sqlite" not in left_out


def _writer(path: Path, statements: list[str]) -> None:
    """Run SQL in a process that is then killed, in the middle of whatever it had begun."""
    code = (
        "import os, signal, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for one in sys.argv[2:]: db.execute(one).fetchall()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path), *statements], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_packed_export_that_was_in_wal_mode_is_read(pair, env, tmp_path):
    kernels = _kernel_ns(pair[0], env, tmp_path / "before.json")
    with closing(sqlite3.connect(pair[0])) as db:
        db.execute("PRAGMA journal_mode = WAL")
    (tmp_path / "run.sqlite.xz").write_bytes(lzma.compress(Path(pair[0]).read_bytes()))
    assert _kernel_ns(str(tmp_path / "run.sqlite.xz"), env, tmp_path / "packed.json") == kernels
    assert list((tmp_path / "scratch").iterdir()) == []


def _kernel_ns(path: str, env: dict[str, str], out: Path) -> dict[str, float]:
    done = compare(path, path, "--json", out, env=env)
    assert done.returncode == 0, done.stderr
    return {row["baseline"]["names"][0]: row["baseline"]["mean_ns"] for row in content(out)["kernels"]}


def test_an_export_whose_writer_was_killed_is_refused_and_left_alone(pair, env, tmp_path):
    """A rollback journal lies beside it: what is in the file is neither the old state nor the new one."""
    path = Path(pair[1])
    grow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO big SELECT randomblob(500) FROM n"
    statements = [
        "PRAGMA cache_size = 5",
        "BEGIN",
        "CREATE TABLE big (x)",
        'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = "end" + 7',
        grow,
    ]
    _writer(path, statements)
    journal = path.with_name("two.sqlite-journal")
    before = path.read_bytes(), journal.read_bytes()
    done = compare(*pair, "--json", tmp_path / "out.json", env=env)
    assert done.returncode == 1 and "two.sqlite" in done.stderr
    assert "[truncated]" in done.stderr and "export it again" in done.stderr
    assert not (tmp_path / "out.json").exists()
    assert (path.read_bytes(), journal.read_bytes()) == before


@pytest.mark.slow
def test_an_export_that_is_still_being_copied_is_cut_short(pair, env, tmp_path):
    """A process writes it block by block; the comparison comes in between."""
    code = (
        "import sys, time; raw = open(sys.argv[1], 'rb').read(); out = open(sys.argv[2], 'wb', buffering=0)\n"
        "for at in range(0, len(raw), 1 << 16):\n"
        "    out.write(raw[at : at + (1 << 16)]); print(at, flush=True); at and sys.stdin.readline()"
    )
    part = tmp_path / "part.sqlite"
    child = subprocess.Popen(
        [sys.executable, "-c", code, pair[1], str(part)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        while int(child.stdout.readline()) < 1 << 16:
            pass
        done = compare(pair[0], part, env=env)
        assert done.returncode == 1 and "[truncated]" in done.stderr and "cut short" in done.stderr
        child.communicate("\n" * 1000, timeout=60)
    finally:
        child.kill()
    assert compare(pair[0], part, env=env).returncode == 0


@pytest.mark.slow
def test_two_at_once_share_cache_and_output(pair, env, tmp_path):
    expected, out = tmp_path / "expected.json", tmp_path / "out.json"
    assert compare(*pair, "--json", expected, env={**env, "TRACEDIFF_CACHE": "off"}).returncode == 0
    command = [sys.executable, "-m", "tracediff", "compare", *pair, "--json", str(out), "-f", "-q"]
    running = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for child in running:
        _, errors = child.communicate(timeout=300)
        assert child.returncode == 0, errors
    assert content(out) == content(expected)
    assert only_whole_entries(tmp_path / "cache") == 2
    assert list((tmp_path / "scratch").iterdir()) == []
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


@pytest.mark.slow
def test_an_export_that_changes_between_two_runs_is_read_anew(pair, env, tmp_path):
    out = tmp_path / "out.json"
    assert compare(*pair, "--json", out, env=env).returncode == 0
    first = content(out)
    with sqlite3.connect(pair[1]) as db:
        db.execute('UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = "end" - 1000')
    db.close()
    assert compare(*pair, "--json", out, "-f", env=env).returncode == 0
    means = [
        {row["baseline"]["names"][0]: row["candidate"]["mean_ns"] for row in one["kernels"]}
        for one in (first, content(out))
    ]
    assert {name: means[0][name] - means[1][name] for name in means[0]} == pytest.approx(
        dict.fromkeys(means[0], 1000)
    )


def ended_by(code: str, pair, env) -> tuple[int, str]:
    """Exit status and what is said, of a comparison that `code` breaks off."""
    command = f"{code}\nfrom tracediff.cli.main import main; import sys; sys.argv = ['tracediff', *sys.argv[1:]]; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "compare", *pair, "-q"],
        env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.strip()


def test_an_interrupt_before_click_listens_is_one(pair, env):
    """click finds out the program's name before it minds interrupts."""
    code = (
        "def broken(*args, **options): raise KeyboardInterrupt\n"
        "import click.core; click.core._detect_program_name = broken"
    )
    assert ended_by(code, pair, env) == (130, "aborted")


def test_an_interrupt_that_a_library_turns_into_another_error_is_one(pair, env):
    """As numpy and DuckDB do when it comes while they are imported."""
    code = (
        "def broken(*args, **options):\n"
        "    try: raise KeyboardInterrupt\n"
        "    except KeyboardInterrupt as error: raise ImportError('cannot load') from error\n"
        "import tracediff.accounting.reduce as reduce; reduce.reduce_capture = broken"
    )
    assert ended_by(code, pair, env) == (130, "aborted")
