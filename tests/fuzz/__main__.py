"""Fuzz what is read from others, guided by coverage where Atheris is installed, else by chance.

    python -m tests.fuzz                          all targets in turn, ten minutes
    python -m tests.fuzz pages torch --runs 1000  these, a thousand inputs each (400 of exports, which take longest)
    python -m tests.fuzz --minutes 60 --seed 7

Each target runs in a process of its own, two at a time, each input within 60 s and 2 GiB. An input that ends in anything but a result or
an error of docs/messages.md is made smaller and written to --out; where there is one, the exit status is 1. Once its cause
is mended, it belongs into tests/fuzz/corpus/TARGET/.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

SECONDS, MOST_BYTES = 60, 2 * 2**30
_RENEWED = 2**30  # bytes that a process may hold between two inputs before a new one takes over
_SILENT = 6  # times that long may a process take to begin
_SMALLER_S = 30  # for making one input smaller
_AT_ONCE = 2
CORPUS = Path(__file__).parent / "corpus"


def main() -> int:
    """The command: a row for each target, and what was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument(
        "--minutes", type=float, help="for all targets together [default: 10, without --runs]"
    )
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(tempfile.gettempdir()) / "tracediff-fuzz",
        help="[default: %(default)s]",
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--report", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        _Worker(given.targets[0], given.runs, given.minutes, given.seed, given.out, given.report).run()
    from tests.fuzz.targets import TARGETS

    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"no target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    names = given.targets or list(TARGETS)
    if given.minutes is None and not given.runs:
        given.minutes = 10.0
    minutes = _AT_ONCE * given.minutes / len(names) if given.minutes else None

    def tried(name: str) -> tuple[Counter[str], list[tuple[Path, str]]]:
        return _watched(name, math.ceil(given.runs * TARGETS[name].part), minutes, given.seed, given.out)

    faults = []
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for name, (counts, found) in zip(names, threads.map(tried, names), strict=True):
            faults += found
            said = ", ".join(f"{number} {word}" for word, number in counts.most_common())
            print(f"{name:10} {sum(counts.values()):6} inputs: {said}", flush=True)
    for path, what in faults:
        print(f"\n{path}\n  {what}\n  base64: {base64.b64encode(path.read_bytes()[:3_000]).decode()}")
    how = "guided by coverage" if find_spec("atheris") else "by chance: Atheris is not installed"
    print(f"\n{len(faults)} faults ({how}, seed {given.seed})")
    return bool(faults)


# The process that watches


def _watched(
    name: str, runs: int, minutes: float | None, seed: int, out: Path
) -> tuple[Counter[str], list[tuple[Path, str]]]:
    """Run a target in processes, one after another; how often what came, and the faults with what they are."""
    out = out / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    counts: Counter[str] = Counter()
    faults: list[tuple[Path, str]] = []
    end = time.monotonic() + minutes * 60 if minutes else float("inf")
    while (not runs or counts.total() < runs) and time.monotonic() < end:
        before = counts.total()
        left = (end - time.monotonic()) / 60 if minutes else 1e6
        why = _one_process(name, runs and runs - before, left, seed + before, out, counts, faults)
        if why:
            path = out / f"{why}-{before}"
            shutil.copy(out / "current", path)
            counts[why] += 1
            faults.append((path, f"{why}: see {out / 'log'}"))
        elif counts.total() == before:
            raise SystemExit(f"{name}: nothing was run: see {out / 'log'}")
    return counts, faults


def _one_process(
    name: str,
    runs: int,
    minutes: float,
    seed: int,
    out: Path,
    counts: Counter[str],
    faults: list[tuple[Path, str]],
) -> str:
    """Why the process had to be ended, or ended by itself in the middle of an input; "" where all is well."""
    reading, writing = os.pipe()
    words = [
        name,
        "--one",
        "--runs",
        runs,
        "--minutes",
        minutes,
        "--seed",
        seed,
        "--out",
        out,
        "--report",
        writing,
    ]
    scratch = out / "scratch"  # a process that ends in the middle of an input leaves files
    scratch.mkdir(exist_ok=True)
    with (out / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz", *map(str, words)], env={**os.environ, "TMPDIR": str(scratch)},
            pass_fds=[writing], stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    os.close(writing)
    busy, silent = False, 0
    try:
        for line in _lines(reading, process.pid):
            if line is None:
                silent += 1
                if busy or silent > _SILENT:
                    return "hang" if busy else ""
                continue
            silent = 0
            match json.loads(line):
                case "begin":
                    busy = True
                case ["end", word]:
                    busy = False
                    counts[word] += 1
                case ["fault", path, what]:
                    faults.append((Path(path), what))
                    busy = False
                    counts["fault"] += 1
                case "memory":
                    return "memory"
        return f"ended-{process.wait()}" if busy else ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        os.close(reading)
        shutil.rmtree(scratch, ignore_errors=True)


def _lines(reading: int, pid: int) -> Iterator[str | None]:
    """What the process says; None where it says nothing for too long, or takes more than twice the memory."""
    held, said = b"", time.monotonic()
    while True:
        if select.select([reading], [], [], 1.0)[0]:
            part = os.read(reading, 1 << 16)
            if not part:
                return
            *lines, held = (held + part).split(b"\n")
            said = time.monotonic()
            yield from (line.decode() for line in lines)
        elif time.monotonic() - said > 1.5 * SECONDS:  # it stops by itself after SECONDS, where it can
            said = time.monotonic()
            yield None
        elif _resident(pid) > 2 * MOST_BYTES:
            yield '"memory"'


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


# The process that runs a target


class _Worker:
    """Runs inputs until there were enough of them, and says what came of each."""

    def __init__(self, name: str, runs: int, minutes: float, seed: int, out: Path, report: int) -> None:
        self._name, self._runs, self._seed, self._out = name, runs, seed, out
        self._end = time.monotonic() + minutes * 60
        self._report = os.fdopen(report, "w", buffering=1)
        self._done = 0

    def run(self) -> None:
        """Does not return."""
        try:
            import atheris
        except ImportError:
            self._by_chance()
        with atheris.instrument_imports(include=["tracediff"], enable_loader_override=False):
            import tracediff.cli.main  # noqa: F401
            from tests.fuzz.targets import TARGETS

            self._target = TARGETS[self._name]
            corpus, seeds = self._out / "corpus", self._out / "seeds"
            corpus.mkdir(exist_ok=True)
            seeds.mkdir(exist_ok=True)
            for number, seed in enumerate(self._seeds):
                (seeds / str(number)).write_bytes(seed)
            longest = max(2 * max(map(len, self._seeds)), 1 << 20)
            flags = f"-seed={self._seed + 1} -max_len={longest} -len_control=0 -cross_over=0 -timeout=100000 -report_slow_units=100000 -artifact_prefix={self._out}/ -rss_limit_mb=0 -detect_leaks=0 -print_final_stats=0 -verbosity=0"
            atheris.Setup(
                ["fuzz", *flags.split(), str(corpus), str(seeds)], self._guided, custom_mutator=self._mutated
            )
            atheris.Fuzz()

    @cached_property
    def _seeds(self) -> list[bytes]:
        return [
            *self._target.seeds(),
            *(path.read_bytes() for path in sorted((CORPUS / self._name).glob("*"))),
        ]

    def _by_chance(self) -> None:
        from tests.fuzz.targets import TARGETS

        self._target = TARGETS[self._name]
        rng, seeds = random.Random(self._seed), self._seeds
        while True:
            data = rng.choice(seeds)
            for _ in range(rng.choice((1, 1, 2, 3))):
                data = self._target.change(data, rng)
            self._guided(data)

    def _mutated(self, data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if len(data) < 2 or rng.random() < 0.4:  # most of what was found is refused, and stays so
            data = rng.choice(self._seeds)
        return self._target.change(bytes(data), rng)[:most]

    def _guided(self, data: bytes) -> None:
        data = bytes(data)
        if len(data) < 2:  # what the fuzzer begins with
            return
        before = _resident(os.getpid())
        word, what = self._tried(data)
        if word is not None:
            self._say(["end", word])
        else:
            self._fault(data, what)
        self._done += 1
        peak = _peak()
        if peak > MOST_BYTES and before < _RENEWED:
            self._say("memory")
            os._exit(0)
        if (self._runs and self._done >= self._runs) or time.monotonic() > self._end or peak > _RENEWED:
            os._exit(0)

    def _tried(self, data: bytes) -> tuple[str | None, str]:
        (self._out / "current").write_bytes(data)
        self._say("begin")
        return attempt(self._name, data)

    def _fault(self, data: bytes, what: str) -> None:
        path = self._out / hashlib.sha256(what.encode()).hexdigest()[:8]
        if path.exists():
            self._say(["end", "fault again"])
            return
        path.write_bytes(data)  # whatever happens next
        path.write_bytes(smaller(data, lambda one: self._tried(one)[1] == what))
        self._say(["fault", str(path), what])

    def _say(self, what: object) -> None:
        self._report.write(json.dumps(what) + "\n")


def _peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def attempt(name: str, data: bytes) -> tuple[str | None, str]:
    """What comes of an input; or None, and what went wrong and where."""
    from tests.fuzz.targets import TARGETS

    folder = Path(tempfile.mkdtemp(prefix="tracediff-fuzz-one-"))
    try:
        return TARGETS[name].run(data, folder), ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of a library, or too long
        frames = traceback.extract_tb(error.__traceback__)
        within = [frame for frame in frames if "/tracediff/" in frame.filename or "/tests/" in frame.filename]
        place = within[-1] if within else frames[-1]
        said = str(error).partition("\n")[0][:200] if isinstance(error, AssertionError) else ""
        return (
            None,
            f"{type(error).__name__} {said} in {Path(place.filename).name}:{place.lineno} {place.name}".replace(
                str(folder), ""
            ),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def smaller(data: bytes, still: Callable[[bytes], bool]) -> bytes:
    """A part of the input of which the same comes, as small as was found in half a minute."""
    end = time.monotonic() + _SMALLER_S
    with suppress(ValueError, RecursionError):
        recipe = json.loads(data)
        for key in ("changes", "damage", "answers"):
            at = 0
            while isinstance(recipe, dict) and at < len(recipe.get(key, ())) and time.monotonic() < end:
                less = {**recipe, key: recipe[key][:at] + recipe[key][at + 1 :]}
                if still(json.dumps(less).encode()):
                    recipe = less
                else:
                    at += 1
        if isinstance(recipe, dict) and {"changes", "answers"} & recipe.keys():
            return json.dumps(recipe).encode()
    length = len(data) // 2
    while length and time.monotonic() < end:
        at = 0
        while at < len(data) and time.monotonic() < end:
            less = data[:at] + data[at + length :]
            if still(less):
                data = less
            else:
                at += length
        length //= 2
    return data


if __name__ == "__main__":
    sys.exit(main())
