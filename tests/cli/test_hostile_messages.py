"""Whatever is in a name or a text: messages are harmless, of bounded length, and never a traceback."""

from __future__ import annotations

import ast
import errno
import io
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.checks import expect_error
from tests.tiny import FIXTURES, ROOT
from tracediff.cli import main as command_line
from tracediff.cli.say import say
from tracediff.errors import TracediffError, printable
from tracediff.model import Note
from tracediff.report.console import print_warnings
from tracediff.report.escape import neutral

pytestmark = pytest.mark.usefixtures("no_cache")

HOSTILE = (
    "\x1b]0;title\x07 \x1b[2J \x9b31m \x08\x08 \r over \u202e txt.exe \u2066 \u200b \u2028 \ufeff \ufff9 \U000e0041 \x00 \udcff"
    " ##[error]no ##vso[x]y ##teamcity[z]\n  fix: rm -rf\nerror: of another\n::error::no\n" + "x" * 100_000
)
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]")  # fmt: skip
DOCUMENTED = re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs/messages.md").read_text(encoding="utf-8"), re.M)  # fmt: skip


def check_harmless(text: str, begins: tuple[str, ...]) -> None:
    """Nothing unseen, no line that a name could have begun, no command to a runner of CI, a bounded length."""
    assert UNSEEN.search(text) is None
    assert all(line.startswith(begins) for line in text.splitlines())
    assert re.search(r"##\w*\[", text) is None
    assert len(text) < 10_000


def failing(monkeypatch, error: BaseException) -> None:
    """Have every command fail with an error."""

    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(command_line.cli, "main", fail)


def test_there_are_slugs():
    assert len(DOCUMENTED) > 150


def test_every_slug_with_hostile_text(run, monkeypatch):
    for slug in DOCUMENTED:
        failing(monkeypatch, TracediffError(slug, HOSTILE, fix=HOSTILE))
        err = expect_error(run("show"), slug)
        check_harmless(err, ("error: ", "  | ", "  fix: "))
        assert err.count("\n  fix: ") == 1


def test_every_warning_with_hostile_text(capsys):
    for slug in DOCUMENTED:
        say(f"warning: {HOSTILE} [{slug}]")
        check_harmless(capsys.readouterr().err, ("warning: ", "  | "))
        said = io.StringIO()
        note = neutral(Note(slug, HOSTILE[:500]))
        print_warnings([note], [], Console(file=said, width=10_000, force_terminal=False))
        assert UNSEEN.search(said.getvalue()) is None and slug in said.getvalue()


def test_a_message_keeps_what_can_be_read():
    assert printable("caf\u00e9 \u6838 a\tb") == "caf\u00e9 \u6838 a\tb"
    assert printable("one\n  two") == "one\n  | two"
    assert printable("\x1b[0m\U000e0041") == "\\x1b[0m\\U000e0041"
    assert printable("y" * 1_001) == "y" * 1_000 + " ..."
    assert (
        printable("\n".join("abc" * 20)).splitlines()[-1] == "  | ... and 11 more lines"
    )  # 60 lines, 49 shown


def test_an_error_shows_itself_harmless():
    """In a notebook and in a traceback as well."""
    check_harmless(str(TracediffError("not-a-file", HOSTILE, fix=HOSTILE)), ("\\x1b", "  | ", "  fix: "))


@pytest.mark.parametrize(
    "words", [("\x1b[31mx",), ("show", "--\x1b[31mx"), ("show", "a", "--top", "\x1b[31m")]
)
def test_what_click_says(run, words):
    code, _, err = run(*words)
    assert code == 2 and "\\x1b[31m" in err
    assert UNSEEN.search(err) is None


@pytest.mark.slow
def test_messages_are_printed_in_one_place():
    """Reports and data are printed with `nl=False`, escaped in their own way."""
    found = []
    for path in (ROOT / "tracediff").rglob("*.py"):
        if path.name == "say.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            data = any(one.arg == "nl" for one in node.keywords)
            if called in ("print", "sys.stderr.write", "sys.stdout.write", "click.secho") or (
                called == "click.echo" and not data
            ):
                found.append(f"{path.name}:{node.lineno} {called}")
    # processes whose stdout is read
    assert [one for one in found if not one.startswith(("report_file.py", "apart.py"))] == []


# What nobody foresaw


SECRET = "kernel_of_a_secret_model"


def attached(err: str) -> Path:
    return Path(re.search(r"report it with (\S+) attached", err)[1])


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """Where files to attach go."""
    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


class Panic(BaseException):
    """As a library in Rust raises."""


@pytest.mark.parametrize("kind", [ValueError, KeyError, AssertionError, RecursionError, Panic])
def test_a_mistake_is_one_message_and_a_file(run, monkeypatch, kept, good, kind):
    monkeypatch.setenv("SOME_TOKEN", "value-of-the-environment")
    failing(monkeypatch, kind(SECRET))
    err = expect_error(
        run("query", good, f"SELECT '{SECRET}'", f"--label={SECRET}", "--csv"), "internal-error"
    )
    check_harmless(err, ("error: ", "  fix: "))
    assert SECRET not in err
    (file,) = kept.iterdir()
    assert attached(err) == file and file.stat().st_mode & 0o077 == 0
    text = file.read_text()
    assert "tracediff query 'good.sqlite' ... --label=... --csv" in text
    assert kind.__name__ in text and "main.py" in text and "duckdb" in text
    for word in (SECRET, "value-of-the-environment", "SOME_TOKEN", str(good.parent), socket.gethostname(), os.sep + "site-packages"):  # fmt: skip
        assert word not in text


def test_a_mistake_in_another_process_names_its_place(run, monkeypatch, kept):
    class RemoteError(Exception):
        tb = f'Traceback:\n  File "{ROOT}/tracediff/stats/x.py", line 7, in f\n    x = "{SECRET}"\nValueError: {SECRET}'

    error = ValueError(SECRET)
    error.__cause__ = RemoteError()
    failing(monkeypatch, error)
    text = attached(expect_error(run("show"), "internal-error")).read_text()
    assert "  tracediff/stats/x.py:7 f\n" in text and SECRET not in text


def test_the_traceback_is_there_for_who_asks(run, monkeypatch):
    monkeypatch.setenv("TRACEDIFF_DEBUG", "1")
    failing(monkeypatch, ZeroDivisionError("x"))
    with pytest.raises(ZeroDivisionError):
        run("show")


def test_without_a_place_for_the_file_it_is_still_one_message(run, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    failing(monkeypatch, ValueError(SECRET))
    assert "report it;" in expect_error(run("show"), "internal-error")


@pytest.mark.parametrize(
    ("error", "slug", "says"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "disk-full", "the output"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out.html"), "disk-full", "out.html"),
        (RuntimeError(f"Could not write file: {os.strerror(errno.ENOSPC)}"), "disk-full", "the output"),
        (OSError(errno.EIO, "Input/output error", "a.sqlite"), "io-error", "a.sqlite"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a" * 5_000), "io-error", "aaa ..."),
        (PermissionError(errno.EACCES, "Permission denied", "a.sqlite"), "no-permission", "a.sqlite"),
        (MemoryError(), "out-of-memory", "memory"),
        (UnicodeEncodeError("utf-8", "ATTACH '/home/me/k\udcffx.sqlite'", 17, 18, "surrogates not allowed"), "name-not-utf8", "UTF-8: k\\udcffx.sqlite ["),
    ],
)  # fmt: skip
def test_what_the_machine_is_to_blame_for(run, monkeypatch, error, slug, says):
    failing(monkeypatch, error)
    assert says in expect_error(run("show"), slug)


# For real


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TRACEDIFF_CACHE": "off", "TRACEDIFF": f"{sys.executable} -m tracediff"}  # fmt: skip
    return subprocess.run(["sh", "-c", command], capture_output=True, cwd=folder, env=env, timeout=60, check=False)  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
@pytest.mark.parametrize("words", ["--help", "show good.sqlite", "query good.sqlite 'FROM period' --csv"])
@pytest.mark.slow
def test_a_full_disk_behind_stdout(good, words):
    done = shell(f"$TRACEDIFF {words} > /dev/full", good.parent)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: the output could not be written") and b"[disk-full]" in done.stderr
    assert done.stderr.count(b"\n") == 2


@pytest.mark.slow
def test_closed_streams(good):
    assert shell("$TRACEDIFF show good.sqlite >&-", good.parent).returncode == 0
    assert b"good" in shell("$TRACEDIFF show good.sqlite 2>&-", good.parent).stdout
    assert shell("$TRACEDIFF show nowhere.sqlite 2>&-", good.parent).returncode == 1


def test_names_that_are_not_utf8(good):
    good.rename(good.with_name(os.fsdecode(b"\xff.sqlite")))
    done = shell(r"$TRACEDIFF show $(printf '\377').sqlite", good.parent)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 2)
    assert b"\\udcff.sqlite: its name" in done.stderr and b"[name-not-utf8]" in done.stderr


def test_a_terminal_without_the_letters(good):
    good.rename(good.with_name("\u6838.sqlite"))
    done = shell("PYTHONIOENCODING=ascii $TRACEDIFF show \u6838.sqlite", good.parent)
    assert done.returncode == 0 and b"\\u6838" in done.stdout


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        ("report pipe.json", "not-a-file"),
        ("comment pipe.json --dry-run", "not-a-file"),
        ("compare ncu.csv pipe.csv", "ncu-no-file"),
        ("compare good.sqlite good.sqlite --policy pipe.toml", "policy-unreadable"),
        ("capture pipe.toml", "plan-unreadable"),
        ("scrub pipe.json out.json", "not-a-file"),
    ],
)
def test_a_pipe_is_not_waited_for(good, words, slug):
    for name in ("pipe.json", "pipe.csv", "pipe.toml"):
        os.mkfifo(good.parent / name)
    shutil.copy(FIXTURES / "ncu" / "spill32.csv", good.parent / "ncu.csv")
    done = shell(f"$TRACEDIFF {words}", good.parent)
    assert done.returncode in (1, 2) and f"[{slug}]".encode() in done.stderr


def test_a_full_disk_is_not_called_damage(good):
    """A limit on the size of files stands for a full disk: 8 blocks of 512 bytes."""
    done = shell(
        "ulimit -f 8; PYTHONDONTWRITEBYTECODE=1 $TRACEDIFF scrub good.sqlite out.sqlite", good.parent
    )
    assert done.returncode == 1 and b"out.sqlite could not be written" in done.stderr, done.stderr
    assert b"[disk-full]" in done.stderr
    assert [one.name for one in good.parent.iterdir()] == ["good.sqlite"]


def test_a_pipe_or_device_is_not_replaced_by_a_scrubbed_export(run, good):
    pipe = good.with_name("pipe.sqlite")
    os.mkfifo(pipe)
    expect_error(run("scrub", good, pipe, "-f"), "output-not-writable")
    assert pipe.is_fifo()
