"""All that is read from others, a row each: what mutations start from, how an input is changed, and what is done with it.

An input is bytes. What is done with one ends in a word for what came of it: "result", or the slug of an error that the
documentation lists. Anything else that happens is a fault: a traceback, a hang, too much memory, or a wrong number.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest import mock

import click
import msgspec
import polars as pl

from fixtures.builders import columnar
from fixtures.builders.torch_trace import TorchTrace
from fixtures.builders.whole import whole
from tests.fuzz import mutations
from tests.fuzz.mutations import (
    Change,
    bytes_or,
    changed,
    drawn,
    loose,
    other_lines,
    other_settings,
    other_values,
    wrong_bytes,
)
from tests.fuzz.outcomes import SLUGS, TooLong, bounded, check_result, check_said, numbers, outcome
from tests.kernels import samples
from tests.oracle import load, periods
from tests.oracle.test_random import in_order
from tests.report import sample
from tests.serving import serving
from tests.tiny import FIXTURES
from tracediff.cli import forges
from tracediff.cli.main import COMMANDS, cli
from tracediff.cli.unforeseen import explained
from tracediff.companions.ncu.source import hottest
from tracediff.comparison.compare import compare
from tracediff.errors import TracediffError, printable
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.kernels.names import category, clean, family, is_communication, normalise, short
from tracediff.model import encode
from tracediff.report.markdown import MARKER, render_markdown

CANARY = "canary-7f3a"  # in no output
SAME = "the same"  # the numbers of what was not changed
_LONGEST_QUERY_S = 10


class Target(NamedTuple):
    """One kind of input. `run`: an input, and an empty folder -> what came of it; `part`: of the inputs asked for, where each takes long."""

    seeds: Callable[[], list[bytes]]
    change: Change
    run: Callable[[bytes, Path], str]
    part: float = 1.0


@cache
def place() -> Path:
    """A folder for what all inputs share, until the process ends."""
    import atexit
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="tracediff-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Variables of the environment, for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def command(folder: Path, *words: str | Path, bound: bool = True) -> str:
    """What a command line, run in a folder, ends in. Raises whatever is no error with a slug."""
    said = io.StringIO()
    arguments = [str(word) for word in words]
    with (
        contextlib.chdir(folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said),
        bounded() if bound else contextlib.nullcontext(),
        environment(TRACEDIFF_CACHE=str(place() / "cache")),
    ):  # fmt: skip
        try:
            cli.main(arguments, prog_name="tracediff", standalone_mode=False)
        except SystemExit as done:
            assert done.code in (0, 1, 3, 4), done.code  # 1: `inputs` does not know a file
        except click.ClickException as error:
            check_said(printable(error.format_message()))  # as `main` does
            return "usage"
        except TracediffError as error:
            check_said(str(error))
            assert error.slug in SLUGS, error.slug
            return error.slug
        except (OSError, UnicodeEncodeError, MemoryError) as error:
            known = explained(error, arguments, COMMANDS)
            if known.slug == "internal-error":
                raise
            return known.slug
        finally:
            assert CANARY not in said.getvalue() and "\x1b" not in said.getvalue()
    return "result"


# Exports: an input says what is done to which capture, as JSON

READING = Reading(threads=1)
CAPTURES = {
    name: FIXTURES / f"{path}.sqlite.xz"
    for name, path in {
        "graph": "captures/graph_sleep", "eager": "captures/eager_a1", "ranks": "captures/tp2_a1", "mpi": "system/mpi_one", "gpu": "system/gpu_plain",
    }.items()
}  # fmt: skip


@cache
def capture(name: str) -> Path:
    """The plain file of a capture; `tiny`: one with a row of every kind; `loose`: the same without constraints."""
    path = place() / f"{name}.sqlite"
    if name == "tiny":
        return whole().write(path)
    if name == "loose":
        return loose(capture("tiny"), path)
    path.write_bytes(lzma.decompress(CAPTURES[name].read_bytes()))
    return path


def side(name: str, reduction: object) -> Side:
    return Side(name, [Run(name, [reduction])])


@cache
def intact(name: str) -> Side:
    """A capture as it is."""
    return side("intact", reduce_file(capture(name), READING))


def measured(path: Path, before: Side) -> tuple[str, object]:
    """What comes of a file: "result" and its reduction, checked alone and in a comparison; or a slug and the error."""
    reduction = outcome(lambda: reduce_file(path, READING))
    if isinstance(reduction, TracediffError):
        assert path.name.split(".")[0] in str(reduction) and reduction.fix
        return reduction.slug, reduction
    assert reduction.residual_ns == 0
    result = outcome(lambda: compare(before, side("other", reduction)))
    if isinstance(result, TracediffError):
        return result.slug, reduction
    check_result(result)
    encode(result)
    render_markdown(result)
    return "result", reduction


def differing(one: object, other: object) -> set[str]:
    """The tables and figures in which two reductions differ."""
    left_out = {"name", "fingerprint", "bytes", "warnings", "samples", "sequences"}
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in one.__struct_fields__}
    return {
        name
        for name, (before, after) in pairs.items()
        if name not in left_out and not (before.equals(after) if isinstance(before, pl.DataFrame) else before == after)
    }  # fmt: skip


def export(data: bytes, folder: Path) -> str:
    """Whatever is done to an export: the right numbers, or an error.

    `of`: the capture; `as`: the form that it is read in; `changes`: of it, see mutations.py; `damage`: changes of bytes of
    the file that is read, a packed one or a table of a folder.
    """
    recipe = json.loads(data)
    name, form, changes = recipe["of"], recipe.get("as", "sqlite"), recipe["changes"]
    path = changed(capture(name), folder / "changed.sqlite", changes)
    kinds = {change[0] for change in changes}
    path = _as_form(path, form, recipe.get("damage", []))
    word, reduction = measured(path, intact(name))
    if isinstance(reduction, TracediffError):
        assert not (kinds <= set(mutations.KEPT) and form == "sqlite"), f"refused: {reduction.slug}"
        return word
    if recipe.get("damage"):
        return word
    differs = differing(intact(name).runs[0].parts[0], reduction)
    if not differs:
        return SAME
    if form == "sqlite":
        if differs <= {"meta", "schema_version"} and kinds & set(mutations.PAGES):
            return "other facts, the same numbers"  # of two tables of names and values, which no check can tell apart
        assert not kinds <= {*mutations.KEPT, *mutations.PAGES, *mutations.RUN}, (
            f"another {', '.join(sorted(differs))}"
        )
    if name == "loose" and kinds <= {*mutations.KEPT, *mutations.MODERATE}:
        as_the_oracle(folder / "changed.sqlite", reduction)
    return word


def as_the_oracle(path: Path, reduction: object) -> None:
    """A plain reading of the rows gives the same periods and categories."""
    if "correlation-ids-repeat" in {note.slug for note in reduction.warnings}:  # type: ignore[attr-defined]
        return
    read = load(path)
    sure = in_order(read)
    wanted = {
        (one.pid, one.device, one.number, one.start_ns, one.end_ns): one.categories
        for one in periods(read)
        if one.pid in sure and one.start_ns < one.end_ns
    }
    found = {
        (row["pid"], row["device"], row["number"], row["start_ns"], row["end_ns"]): row
        for row in reduction.periods.iter_rows(named=True)  # type: ignore[attr-defined]
        if row["pid"] in sure
    }
    assert found.keys() == wanted.keys()
    for key, categories in wanted.items():
        assert {name: found[key][name] for name in categories} == categories, key


_PACKED: dict[str, Callable[[bytes], bytes]] = {
    "xz": partial(lzma.compress, preset=0), "gz": partial(gzip.compress, compresslevel=1),
    "zst": lambda content: b"\x28\xb5\x2f\xfd" + content,  # not read at all: a clear word
}  # fmt: skip


def _as_form(path: Path, form: str, damage: list[list[object]]) -> Path:
    """The export as a packed file or as a folder of tables, with wrong bytes."""
    if form in _PACKED:
        packed = path.with_name(f"changed.sqlite.{form}")
        packed.write_bytes(_PACKED[form](path.read_bytes()))
        for where, what, *_ in damage:
            _damaged(packed, where, what)
        return packed
    if form != "sqlite":
        try:
            folder = columnar.to_folder(path, path.with_name("changed_pqtdir"))
        except (sqlite3.Error, TypeError, pl.exceptions.PolarsError, OverflowError, UnicodeDecodeError):
            return path  # no rows that a table could hold
        for where, what, table in damage:
            _damaged(folder / f"{table}.{form}", where, what)
        return folder
    return path


def _damaged(path: Path, where: float, what: str) -> None:
    """Other bytes at a place; with none the file ends there."""
    if path.exists():
        content, new = bytearray(path.read_bytes()), bytes.fromhex(what)
        at = int(where * len(content))
        content[at : at + len(new) if new else None] = new
        path.write_bytes(content)


def other_steps(names: tuple[str, ...], data: bytes, rng: Random) -> bytes:
    """A recipe with one change more, less or another."""
    try:
        recipe = json.loads(data)
        changes = list(recipe["changes"])
    except (ValueError, KeyError, TypeError):
        return data
    if changes and (rng.random() < 0.3 or len(changes) > 4):
        del changes[rng.randrange(len(changes))]
    if not changes or rng.random() < 0.8:
        changes.append(drawn(names, rng))
    recipe["changes"] = changes
    return json.dumps(recipe).encode()


def other_damage(names: tuple[str, ...], data: bytes, rng: Random) -> bytes:
    """Wrong bytes in the file that is read, now and then also other rows in it."""
    recipe = json.loads(other_steps(names, data, rng)) if rng.random() < 0.3 else json.loads(data)
    what = rng.choice(["", "00", "ff" * 8, *(rng.randbytes(rng.randint(1, 9)).hex() for _ in range(4))])
    where = rng.choice(
        [rng.random(), rng.random() ** 8, 1 - rng.random() ** 8]
    )  # headers and footers more often
    damage = [*recipe.get("damage", []), [where, what, rng.choice(list(mutations.COLUMNS))]]
    recipe["damage"] = damage[-4:]
    return json.dumps(recipe).encode()


def recipes(*names: str, **more: object) -> Callable[[], list[bytes]]:
    return lambda: [json.dumps({"of": name, **more, "changes": []}).encode() for name in names]


def of_exports(*changes: tuple[str, ...]) -> Change:
    return partial(other_steps, tuple(name for kind in changes for name in kind))


# Traces of torch.profiler


@cache
def _torch() -> bytes:
    trace = TorchTrace()
    for step in range(5):
        at, corr = 1_000_000 * step, 10 * step
        trace.range(1, f"ProfilerStep#{step}", at, at + 900_000).range(
            1, "aten::mm", at, at + 300_000, cat="cpu_op"
        )
        shapes = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
        trace.event("cpu_op", "aten::mm", at + 310_000, at + 390_000, 100, 1, shapes)
        trace.api(1, "cudaLaunchKernel", at + 320_000, at + 330_000, corr + 3)
        trace.kernel(corr + 3, at + 500_000, at + 700_000, "gemm")
        trace.api(1, "cudaLaunchKernel", at + 100_000, at + 120_000, corr + 1)
        trace.kernel(corr + 1, at + 150_000, at + 400_000, "gemm")
        trace.api(1, "cudaMemcpyAsync", at + 130_000, at + 140_000, corr + 2)
        trace.memcpy(corr + 2, at + 400_000, at + 450_000)
        for held in (1 << 20, 0):
            trace.memory(1, at + 140_000 + held % 7, 4096 + held)
    return trace.write(place() / "intact.json").read_bytes()


def _real_torch() -> bytes:
    """The start of a real trace."""
    whole_trace = json.loads(gzip.decompress((FIXTURES / "torch/loop_a.json.gz").read_bytes()))
    return json.dumps({**whole_trace, "traceEvents": whole_trace["traceEvents"][:150]}).encode()


@cache
def _intact_torch() -> Side:
    _torch()
    return side("torch", reduce_file(place() / "intact.json", READING))


def torch(data: bytes, folder: Path) -> str:
    path = folder / ("changed.json.gz" if data[:2] == b"\x1f\x8b" else "changed.json")
    path.write_bytes(data)
    return measured(path, _intact_torch())[0]


# Files of a command


def of_command(*words: str, suffix: str = "") -> Callable[[bytes, Path], str]:
    """Write the input to a file and run a command in its folder."""

    def run(data: bytes, folder: Path) -> str:
        name = "given" + (suffix or (".json" if data.lstrip()[:1] in (b"{", b"[") else ".txt"))
        (folder / name).write_bytes(data)
        (folder / "good.sqlite").symlink_to(good())
        (folder / "saved.json").symlink_to(saved())
        values = {"FILE": name, "FIXTURES": str(FIXTURES)}
        return command(
            folder, *(re.sub("FILE|FIXTURES", lambda found: values[found[0]], word) for word in words)
        )

    return run


def files(*patterns: str) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for pattern in patterns for path in sorted(FIXTURES.glob(pattern))]


def texts(*values: str) -> Callable[[], list[bytes]]:
    return lambda: [value.encode("utf-8", "surrogateescape") for value in values]


@cache
def good() -> Path:
    return serving(steps=6).write(place() / "good.sqlite")


@cache
def saved() -> Path:
    path = place() / "saved.json"
    path.write_bytes(encode(sample.full()))
    return path


@cache
def _reports() -> list[bytes]:
    """A saved report of every kind."""
    folder = place() / "reports"
    folder.mkdir()
    commands = {
        "show": ("show", good()), "ncu": ("compare", FIXTURES / "ncu/spill255.csv", FIXTURES / "ncu/spill32.csv"),
        "trtexec": ("compare", FIXTURES / "trtexec/fp32", FIXTURES / "trtexec/fp16"),
        "latencies": ("compare", FIXTURES / "latencies/warm", FIXTURES / "latencies/same_1"),
    }  # fmt: skip
    for name, words in commands.items():
        assert command(folder, *words, "--json", f"{name}.json", "-q") == "result", name
    return [
        saved().read_bytes(),
        encode(sample.minimal()),
        *(path.read_bytes() for path in sorted(folder.iterdir())),
    ]


def report(data: bytes, folder: Path) -> str:
    """A saved report is rendered in every format or refused: nothing is written by half."""
    (folder / "given.json").write_bytes(data)
    word = command(
        folder, "report", "given.json", "--html", "page.html", "--md", "page.md", "-q", "--policy", "none"
    )
    written = {path.name for path in folder.iterdir()} - {"given.json"}
    assert written == ({"page.html", "page.md"} if word == "result" else set()), written
    return word


_COMMIT = ("--time", "2026-01-01T12:00:00Z", "--pinned", "v1", "--store", "store")


@cache
def _points() -> list[bytes]:
    """A result to add, and the point that becomes of it."""
    folder = place() / "history"
    folder.mkdir()
    command(folder, "compare", good(), good(), "--json", "result.json", "-q", "--policy", "none")
    assert command(folder, "history", "add", "result.json", "--commit", "1111111", *_COMMIT) == "result"
    (kept,) = (folder / "store").glob("*.json")
    return [(folder / "result.json").read_bytes(), kept.read_bytes()]


def history(data: bytes, folder: Path) -> str:
    """A result is added to a store, or a point lies there under a name that fits; then the whole is read and judged."""
    try:
        point = msgspec.json.decode(data, type=dict[str, msgspec.Raw])["point"]
    except (ValueError, KeyError, RecursionError):
        (folder / "given.json").write_bytes(data)
        word = command(folder, "history", "add", "given.json", "--commit", "2222222", *_COMMIT)
        if word != "result":
            return word
    else:
        (folder / "store").mkdir()
        (folder / "store" / f"{hashlib.sha256(bytes(point)).hexdigest()[:32]}.json").write_bytes(data)
    return command(
        folder, "history", "show", "--store", "store", "--html", "page.html", "--json", "out.json", "-q"
    )


def ncu(data: bytes, folder: Path) -> str:
    """Finite times of kernels on both sides."""
    (folder / "given.csv").write_bytes(data)
    for sides in (("given.csv", INTACT_NCU), (INTACT_NCU, "given.csv")):
        word = command(folder, "compare", *sides, "--json", "out.json", "-q", "-f")
        if word == "result":
            for where, value in numbers(msgspec.json.decode((folder / "out.json").read_bytes())):
                assert abs(value) < float("inf"), where
                assert value >= 0 or not where.endswith("duration_ns"), where
    return word


def ncu_source(data: bytes, folder: Path) -> str:
    """Parts of the samples, of files without their folder."""
    try:
        found = hottest(io.StringIO(data.decode("utf-8", "replace"), newline=""))
    except csv.Error:
        return "refused"
    for line in found.values():
        assert 0 < line.share <= 1 and "/" not in line.file and line.line >= 0
    return "result"


INTACT_NCU = FIXTURES / "ncu" / "gemm_fused.csv"


PLANS = (
    """preset = "emulator"
repeats = 3
order = "abba"
steps = "20-50"
nsys_flags = ["--cuda-graph-trace=node"]
until = "step:2%"
kpi = "*.json"
[baseline]
command = "python serve.py --port 80"
env = { A = "1", B = 2 }
[candidate]
command = ["python", "serve.py"]
preset = "emulator"
""",
    """preset = "trtllm-serve"
client = "python load.py --seed {traffic_seed}"
same_traffic = true
ready_url = "http://localhost:8000/health"
launcher = "mpirun -n 2"
timeout_s = 90.0
gpu_metrics = true
export = "sqlite"
[baseline]
command = "trtllm-serve a"
[candidate]
command = "trtllm-serve b"
cwd = "."
""",
)
POLICY = """fail-on = ["step:+3%", "kernel:gemm:+1%"]
warn-on = ["gc:+1us"]
inconclusive = "pass"
[[waiver]]
measure = "gc"
reason = "known"
expires = 2027-01-31
limit = "+5ms"
"""
LATENCIES = (
    '{"unit": "us", "latencies": [10, 20, 11, 12]}', '[{"iter": 0, "latency_ms": 3}, {"iter": 1, "latency_ms": 4}]', '{"runs": {"decode": {"latency_s": [0.5, 2]}}}',
    '{"results": [{"command": "a", "mean": 0.2, "times": [0.1, 0.3], "exit_codes": [0, 0]}]}', "i\tLatency (ms)\n0\t1\n1\t2\n",
)  # fmt: skip


def _manifest() -> list[bytes]:
    """The manifest of a real bundle, with two of its runs."""
    whole_manifest = json.loads((FIXTURES / "bundles/hog300/manifest.json").read_bytes())
    return [json.dumps({**whole_manifest, "runs": whole_manifest["runs"][:2]}).encode()]


def manifest(data: bytes, folder: Path) -> str:
    bundle = folder / "bundle"
    for run in ("001-baseline-1", "002-candidate-1"):
        (bundle / "runs" / run).mkdir(parents=True)
        (bundle / "runs" / run / "report.sqlite.xz").symlink_to(_packed())
        shutil.copy(FIXTURES / "bundles/hog300/runs" / run / "emulator.json", bundle / "runs" / run)
    (bundle / "manifest.json").write_bytes(data)
    assert command(folder, "inputs", "bundle") in ("result", *SLUGS)
    return command(folder, "compare", "bundle", "-q", "--policy", "none")


@cache
def _packed() -> Path:
    path = place() / "packed.sqlite.xz"
    path.write_bytes(lzma.compress(good().read_bytes(), preset=0))
    return path


OPTIONS = (
    "--fail-on step:+5%", "--warn-on kernel:gemm:+1%", "--fail-on generation.p99:+5us", "--fail-on launches:+10", "--fail-on gc:+1ms", "--steps 2-4",
    "--steps 2-/1-3", "--steps 0.001s-2.5ms", "--steps -1s/1us-", "--ranks 0,3-7", "--top 2", "--kernel gemm*", "--step-regex step (?P<number>\\d+)",
    "--top 3", "--worst 2", "--step 3", "--step 1:2#1", "--run 1,1", "--max-events 500",
)  # fmt: skip


_OF_SHOW, _OF_TIMELINE = ("--step", "--worst"), ("--run", "--max-events")


def options(data: bytes, folder: Path) -> str:
    """One option with a value, as on a command line: it holds no NUL, and may be no UTF-8."""
    name, _, value = data.replace(b"\0", b"").decode("utf-8", "surrogateescape").partition(" ")
    if name not in {option.partition(" ")[0] for option in OPTIONS}:
        name = "--fail-on"
    if name in _OF_SHOW:
        return command(folder, "show", good(), "-q", name, value)
    if name in _OF_TIMELINE:
        return command(folder, "timeline", good(), good(), "-o", "out.json", "-q", name, value)
    return command(folder, "compare", good(), good(), "-q", "--policy", "none", name, value)


def _names() -> list[bytes]:
    """Real names, and what names are made of in any order."""
    real = [name for pair in samples.PAIRS for name in pair]
    real += [one for one in vars(samples).values() if isinstance(one, str) and "\n" not in one]
    rng = Random(0)
    odd = ["".join(rng.choices(samples.PIECES, k=30)) for _ in range(20)]
    return [name.encode() for name in (*real, *odd)]


def other_name(data: bytes, rng: Random) -> bytes:
    """Pieces of names put in; now and then one a thousand times."""
    at = rng.randint(0, len(data))
    piece = rng.choice(samples.PIECES).encode()
    return (
        data[:at]
        + piece * rng.choice((1, 1, 1, 1_000))
        + data[rng.choice((at, at, rng.randint(at, len(data)))) :]
    )


def kernel_names(data: bytes, folder: Path) -> str:
    """Each line is the name of a kernel: a name of the same kind again, and in bounded time."""
    with bounded():
        for name in data.decode("utf-8", "replace").split("\n"):
            template = normalise(clean(name))
            assert isinstance(template, str) and len(short(name)) <= 80
            family(name), category(name), is_communication(name)
    return "result"


def sql(data: bytes, folder: Path) -> str:
    """A query reads the capture: no other file is read or written. How long it takes is up to who writes it."""
    text = data.replace(b"\0", b"").decode("utf-8", "surrogateescape")
    (folder / "secret.csv").write_text(f"word\n{CANARY}\n")
    (folder / "good.sqlite").symlink_to(good())
    try:
        with bounded(_LONGEST_QUERY_S):
            word = command(folder, "query", "good.sqlite", text, bound=False)
    except TooLong:
        word = "broken off"
    left = {path.name for path in folder.iterdir()}
    assert left == {"secret.csv", "good.sqlite"}, left
    return word


SQL = (
    "SELECT kind, count(*), sum(duration_ns) FROM op GROUP BY kind", "PIVOT op ON kind USING count(*)", "SUMMARIZE step", "FROM step LIMIT 1; SELECT 1",
    "CREATE TEMP VIEW seen AS FROM op; SELECT count(*) FROM seen", "SELECT [1, {'a': DATE '1-1-1'}], INTERVAL 1 day, 1::HUGEINT, '2000-01-01'::TIMESTAMP_NS",
    "FROM read_csv('secret.csv')", "COPY op TO 'out'", "SELECT * FROM 'secret.csv'", "ATTACH 'out' AS other", "SET memory_limit = '1GB'", "FROM glob('*')",
    "FROM query('FROM read_text(''secret.csv'')')", "SELECT * FROM range(10) t(i), (SELECT max(i) FROM range(3) u(i))", "EXPLAIN ANALYZE COPY op TO 'out'",
)  # fmt: skip


# A forge: a server that gives these answers, one after another


class _Forge(ThreadingHTTPServer):
    answers: list[list[object]] = []  # noqa: RUF012


class _Answer(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def _give(self) -> None:
        status, headers, body = self.server.answers.pop(0) if self.server.answers else [500, {}, "no more"]  # type: ignore[attr-defined]
        content = (
            body.encode("utf-8", "surrogatepass") if isinstance(body, str) else json.dumps(body).encode()
        )
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_PUT = _give  # noqa: N815


@cache
def _server() -> _Forge:
    server = _Forge(("127.0.0.1", 0), _Answer)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


def forge(data: bytes, folder: Path) -> str:
    """A comment is posted to a forge that answers so."""
    recipe = json.loads(data)
    server = _server()
    server.answers = [list(one) for one in recipe["answers"]]
    url = f"http://127.0.0.1:{server.server_address[1]}"
    values = {
        "GITHUB_TOKEN": CANARY, "GITLAB_TOKEN": CANARY, "GITHUB_API_URL": url, "CI_API_V4_URL": url, "NO_PROXY": "*",
    }  # fmt: skip
    with environment(**values), mock.patch.object(forges, "sleep", lambda _: None):
        return command(folder, "comment", saved(), f"--{recipe['forge']}", "--repo", "a/b", "--pr", "4")


def _answers() -> list[bytes]:
    me = {"login": "me", "id": 7, "type": "Bot"}
    comment = {
        "id": 3,
        "body": f"old\n{MARKER}",
        "user": me,
        "author": me,
        "html_url": "https://forge/c/3",
        "system": False,
    }
    link = {"Link": '<?page=2>; rel="next"'}
    seen = [
        [200, {}, me],
        [200, link, [{"id": 1, "body": None, "user": None}]],
        [200, {}, [comment]],
        [200, {}, comment],
    ]
    created = [[403, {}, {"message": "no"}], [200, {}, []], [201, {}, comment]]
    failed = [[200, {}, me], [429, {"Retry-After": "3"}, {"message": "slow"}]]
    return [
        json.dumps({"forge": name, "answers": answers}).encode()
        for name in ("github", "gitlab")
        for answers in (seen, created, failed)
    ]


def other_answers(data: bytes, rng: Random) -> bytes:
    """Another body, status or header of one answer."""
    recipe = json.loads(data)
    answers = recipe["answers"]
    if not answers or rng.random() < 0.1:
        answers.insert(0, [200, {}, []])
    one = rng.choice(answers)
    match rng.randrange(8):
        case 0:
            one[0] = rng.choice(
                [200, 204, 301, 302, 304, 400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 599]
            )
        case 1:
            value = rng.choice(
                [
                    "",
                    "-1",
                    "1e999",
                    "nan",
                    "0",
                    "9" * 50,
                    "<//else/?p=2>; rel=next",
                    "<>; rel=next",
                    "<http://[>; rel=next",
                    "x" * 5_000,
                    "gzip",
                ]
            )
            one[1] = {
                rng.choice(
                    [
                        "Retry-After",
                        "Link",
                        "X-RateLimit-Remaining",
                        "Content-Encoding",
                        "Content-Type",
                        "Location",
                    ]
                ): value
            }
        case 2:
            del answers[rng.randrange(len(answers))]
        case _:
            body = one[2] if isinstance(one[2], str) else json.dumps(one[2])
            one[2] = other_values(body.encode("utf-8", "surrogatepass"), rng).decode("utf-8", "replace")
    return json.dumps(recipe).encode()


def _arbitrary_packed() -> list[bytes]:
    """Packed files as they are: real ones are given by the recipes."""
    return [
        lzma.compress(b"SQLite format 3\0" + bytes(5_000)),
        gzip.compress(_torch()),
        lzma.compress(bytes(1 << 20)),
        b"\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00x",
    ]


_SLOW = 0.4
TARGETS: dict[str, Target] = {
    "rows": Target(recipes("loose"), of_exports(mutations.ROWS, mutations.MODERATE), export, _SLOW),
    "moderate": Target(recipes("loose"), of_exports(mutations.MODERATE), export, _SLOW),
    "kept": Target(recipes("tiny", *CAPTURES), of_exports(mutations.KEPT), export, _SLOW),
    "metadata": Target(recipes("loose", "graph", "gpu"), of_exports(mutations.METADATA), export, _SLOW),
    "run": Target(recipes("tiny", "graph"), of_exports(mutations.RUN, mutations.KEPT), export, _SLOW),
    "pages": Target(recipes("tiny", *CAPTURES), of_exports(mutations.PAGES), export, _SLOW),
    "bytes": Target(recipes("tiny", *CAPTURES), of_exports(mutations.BYTES), export, _SLOW),
    "packed": Target(lambda: [*recipes("tiny", **{"as": "xz"})(), *recipes("tiny", **{"as": "gz"})(), *recipes("tiny", **{"as": "zst"})()], partial(other_damage, mutations.ROWS), export, _SLOW),
    "parquet": Target(recipes("tiny", "mpi", **{"as": "parquet"}), partial(other_damage, mutations.ROWS), export, _SLOW),
    "unpack": Target(_arbitrary_packed, wrong_bytes, of_command("show", "FILE", "-q", suffix=".sqlite.xz")),
    "torch": Target(lambda: [_torch(), _real_torch(), gzip.compress(_torch())], bytes_or(other_values), torch),
    "manifest": Target(_manifest, bytes_or(other_values), manifest),
    "plan": Target(texts(*PLANS), other_settings, of_command("capture", "FILE", "--plan", suffix=".toml")),
    "policy": Target(texts(POLICY), other_settings, of_command("report", "saved.json", "-q", "--policy", "FILE", suffix=".toml")),
    "saved": Target(_reports, bytes_or(other_values), report),
    "history": Target(_points, bytes_or(other_values), history),
    "ncu": Target(files("ncu/gemm_two.csv", "ncu/spill32.csv"), bytes_or(other_lines), ncu),
    "ncu-source": Target(files("ncu/planted_before_source.csv"), bytes_or(other_lines), ncu_source),
    "trtexec": Target(files("trtexec/fp32/*.*", "trtexec/builds/*.txt"), lambda data, rng: (other_values if data[:1] in b"[{" else other_lines)(data, rng), of_command("compare", "FILE", "FIXTURES/trtexec/fp16", "--html", "page.html", "-q")),
    "latencies": Target(lambda: [*files("latencies/warm/run1.csv")(), *texts(*LATENCIES)(), *files("latencies/*.json")()], lambda data, rng: (other_values if data[:1] in b"[{" else other_lines)(data, rng), of_command("compare", "FILE:us", "FIXTURES/latencies/warm/run2.csv:us", "--html", "page.html", "-q")),
    "kpi": Target(files("kpi/*.json", "kpi/*.log", "kpi/*.txt"), lambda data, rng: (other_values if data[:1] in b"[{" and rng.random() < 0.8 else bytes_or(other_lines))(data, rng), of_command("show", "good.sqlite", "--kpi", "FILE", "-q", "--md", "page.md")),
    "options": Target(texts(*OPTIONS), bytes_or(other_lines), options),
    "names": Target(_names, bytes_or(other_name), kernel_names),
    "forge": Target(_answers, other_answers, forge),
    "sql": Target(texts(*SQL), bytes_or(other_lines), sql),
}  # fmt: skip
