"""What the command line says, a case a command: golden/*.txt. `python -m pytest tests/cli/test_golden.py --update-golden` writes them anew.

    -- policy.toml                       a file of the folder that the cases of the page run in, up to the next `--` or `$`
    fail_on = []
    $ tracediff report full.json -q      a command; words before it are set in the environment, `< FILE` is its input
    2                                    its exit status, where it is not 0
    | ...                                stdout
    ! ...                                stderr

Besides files of their own, the cases of a page have those that `workspace` makes, and `fixtures`. What a page leaves behind at its end is
part of it: a refused command writes nothing.
"""

from __future__ import annotations

import difflib
import io
import lzma
import re
import shlex
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.builders import BROKEN, TraceBuilder, two_steps
from tests.cli.test_outputs import bundle
from tests.report import sample
from tests.serving import serving
from tests.tiny import FIXTURES, ROOT, label
from tracediff.cli.main import main
from tracediff.model import encode

PAGES = sorted((Path(__file__).parent / "golden").glob("*.txt"))
SLOW = ("query", "inputs")
# Slugs of errors that take more than a command and a few files: Python, a driver, a full disk, a forge, a cluster, a run under nsys, ...
ELSEWHERE = re.compile(
    r"(bad-arguments|bisect-(changed|damaged|end|exists|no-commits|plan|running)|bundle-(exists|not-writable)|capture|checkout|closed|demo-missing|disk|forge|git|gpu|internal|io-error|kineto|locked|measure-by|name-not"
    r"|ncu-(csv|damaged)|no-(permission|process|such|typical)|not-(plain|rendered)"
    r"|nsys-(agent|broken|import|no-report)|out-of-memory|outside-root|output-not-writable|perf-events|policy-twice|query-too-long|ranks-unclear|\w+-(package-)?missing"
    r"|scheduler-(lost|no|other)|scrub-changed|step-(numbers?|of)|still-running|read-too|too-many|trtexec-large|unpacks|worker)\b"
)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory):
    """A folder with small exports, good and bad, and saved results."""
    folder = tmp_path_factory.mktemp("golden")
    for name, schedule_us in (("good", 100), ("other", 130)):
        serving(steps=6, schedule_us=schedule_us).write(folder / f"{name}.sqlite")
    serving(steps=6).device(0, "B200").write(folder / "b200.sqlite")
    for name, make in BROKEN.items():
        make(folder / f"{name}.sqlite")
    (folder / "damaged.sqlite.xz").write_bytes(b"\xfd7zXZ\x00 and then nothing of the kind")
    (folder / "damaged.json.gz").write_bytes(b"\x1f\x8b\x08 and then nothing of the kind")
    (folder / "packed.sqlite.xz").write_bytes(lzma.compress((folder / "truncated.sqlite").read_bytes()))
    (folder / "wal.sqlite").write_bytes(b"SQLite format 3\0\x10\0\2\2" + bytes(80))
    (folder / "run.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2023@4@4@54")
    (folder / "picture.nsys-rep").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (folder / "empty").mkdir()
    for name, files in {"runs": 2, "ranks": 2}.items():
        (folder / name).mkdir()
        for number in range(files):
            serving(steps=6, seed=number).write(
                folder / name / f"{'run_rank' if name == 'ranks' else 'run_'}{number}.sqlite"
            )
    (folder / "mixed").mkdir()
    (folder / "mixed" / "a.sqlite").write_text("no database " * 100)
    (folder / "mixed" / "b.sqlite").write_bytes(b"")
    (folder / "uneven").mkdir()
    bundle(folder / "bundle", [("baseline", "b1"), ("candidate", "c1"), ("candidate", "c2")])
    # exports in which one thing is missing
    trace = TraceBuilder().process(100).thread(100, 1)
    trace.api(1, "cudaLaunchKernel", 0, 5, corr=1).kernel(1, 10, 20).write(folder / "unlabelled.sqlite")
    trace = TraceBuilder().process(100).thread(100, 1).range(1, label(1), 0, 50)
    trace.api(1, "cudaLaunchKernel", 1, 5, corr=1).kernel(1, 10, 20).write(folder / "one_label.sqlite")
    trace = TraceBuilder().process(100).thread(100, 1).range(1, label(1), 0, 50)
    trace.api(1, "cudaLaunchKernel", 60, 65, corr=1).kernel(1, 70, 80).write(folder / "idle_label.sqlite")
    two_steps().without("CUPTI_ACTIVITY_KIND_RUNTIME").write(folder / "no_calls.sqlite")
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(6):
        begin = 1000 * number
        trace.range(1, label(number, ctx=2, tokens=100, gen=0), begin, begin + 90)
        trace.api(1, "cudaLaunchKernel", begin + 10, begin + 20, corr=number).kernel(
            number, begin + 30, begin + 400
        )
    trace.write(folder / "context.sqlite")
    for name in ("good", "context"):
        shutil.copy(folder / f"{name}.sqlite", folder / "uneven")
    for name, value in (("bad_column", "'soon'"), ("bad_time", str(2**62))):
        shutil.copy(folder / "good.sqlite", folder / f"{name}.sqlite")
        with closing(sqlite3.connect(folder / f"{name}.sqlite")) as db:
            db.execute(f'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = {value} WHERE rowid = 3')
            db.commit()
    # saved results
    for name in ("full", "minimal"):
        (folder / f"{name}.json").write_bytes(encode(getattr(sample, name)()))
    return folder


def _unpacked(page: Path, folder: Path) -> list[str | tuple[str, list[str]]]:
    """Write the files of a page; its cases, and the lines between them."""
    found: list[str | tuple[str, list[str]]] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    while lines:
        line = lines.pop(0)
        if line.startswith("-- "):
            until = next(
                (n for n, one in enumerate(lines) if one.startswith(("-- ", "$ ", "# "))), len(lines)
            )
            path = folder / line[3:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([*lines[:until], ""]), encoding="utf-8")
            found += [line, *lines[:until]]
            lines = lines[until:]
        elif line.startswith("$ "):
            found.append((line[2:], []))
        elif not re.match(r"\d+$|\||!|= ", line):
            found.append(line)
    return found


def _run(command: str, monkeypatch, capsys) -> list[str]:
    """The lines below a command: exit status, stdout, stderr."""
    words = shlex.split(command)
    with monkeypatch.context() as patch:
        while "=" in words[0]:
            patch.setenv(*words.pop(0).split("=", 1))
        if "<" in words:
            patch.setattr(sys, "stdin", io.StringIO(Path(words.pop()).read_text(encoding="utf-8")))
            words.remove("<")
        patch.setattr(sys, "argv", words)
        try:
            main()
            code = 0
        except SystemExit as done:
            code = int(done.code or 0)
    printed = capsys.readouterr()
    said = [f"| {line}".rstrip() for line in printed.out.splitlines()]
    said += [f"! {line}".rstrip() for line in printed.err.splitlines()]
    said = [line for line in said if not re.match("! Usage:|! Try '|!$", line)]  # of every error of usage
    return [*([str(code)] if code else []), *map(_scrubbed, said)]


def _scrubbed(line: str) -> str:
    line = line.replace(str(Path.cwd()), "FOLDER").replace(str(ROOT), "ROOT")
    line = re.sub(r"(times|tables)( in the schemas .*?)?: \w+, \w+, [^;]*(; counts: .*)?", r"\1\2: ...", line)
    return re.sub(r"[\d.]+ MiB", "N MiB", line)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in SLOW else [])
        for page in PAGES
    ],
)
def test_the_command_line_says_what_the_page_says(page, workspace, tmp_path, monkeypatch, capsys, request):
    folder = tmp_path / "w"
    shutil.copytree(workspace, folder)
    (folder / "fixtures").symlink_to(FIXTURES)
    monkeypatch.chdir(folder)
    for name in (
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "GITLAB_TOKEN",
        "GITHUB_ACTIONS",
        "GITLAB_CI",
        "GITHUB_REPOSITORY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    cases = _unpacked(page, folder)
    before = {path.name for path in folder.iterdir()}
    lines = []
    for case in cases:
        lines += [f"$ {case[0]}", *_run(case[0], monkeypatch, capsys)] if isinstance(case, tuple) else [case]
    made = sorted({path.name for path in folder.iterdir()} - before)
    lines.append(f"= made: {', '.join(made) or 'nothing'}")
    text = "\n".join([*lines, ""])
    if request.config.getoption("--update-golden"):
        page.write_text(text, encoding="utf-8")
    diff = difflib.unified_diff(
        page.read_text(encoding="utf-8").splitlines(), lines, "expected", "said", lineterm=""
    )
    assert not (found := list(diff)), "\n".join(found)


def test_every_slug_of_an_error_is_on_a_page():
    """But for those that take more than a command line and a few files."""
    errors, _ = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8").split("## Warnings")
    slugs = set(re.findall(r"^\| `([a-z0-9-]+)` \|", errors, re.MULTILINE))
    said = set(
        re.findall(
            r"\[([a-z0-9-]+)\]$", "\n".join(page.read_text(encoding="utf-8") for page in PAGES), re.MULTILINE
        )
    )
    assert {one for one in slugs - said if not ELSEWHERE.match(one)} == set()
