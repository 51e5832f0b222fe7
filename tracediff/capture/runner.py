"""Execute a plan, one run after the other, into a bundle that is complete after every run.

    BUNDLE/manifest.json
    BUNDLE/runs/003-candidate-2/   stdout.log stderr.log report.nsys-rep report.sqlite, benchmark's files

A run works in `runs/.NAME.part`, which takes its name when the run is over; an interrupted one goes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shlex
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracediff.capture import machine, manifest
from tracediff.capture.doctor import diagnose
from tracediff.capture.manifest import RunRecord
from tracediff.capture.nsys import Nsys, import_raw
from tracediff.capture.plan import SIDES, Plan, SideName, Slot
from tracediff.capture.presets import (
    TRACES,
    Features,
    additions,
    nsys_flags,
    preset,
    rank_suffix,
    with_reports,
    wrap,
)
from tracediff.errors import TracediffError
from tracediff.formats.unpack import export_sqlite

# Child processes with a time limit: whatever they started is gone when a run ends.

GRACE_S = 20.0  # between asking a process tree to end and killing it; nsys writes its report in it

_MARK = "TRACEDIFF_RUN"  # tells the processes of a run, also those that left its tree


@dataclass
class Child:
    """A started program in a session of its own."""

    process: subprocess.Popen[bytes]
    mark: bytes

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, or None when the time is over."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, first: signal.Signals = signal.SIGTERM, grace_s: float = GRACE_S) -> int:
        """End the program and everything it started; its exit code."""
        pids = self._others()
        _signal(self.process.pid, pids, first)
        if self.wait(grace_s) is None and first != signal.SIGTERM:
            _signal(self.process.pid, pids, signal.SIGTERM)
            self.wait(GRACE_S)
        _signal(self.process.pid, self._others() | pids, signal.SIGKILL)
        return self.process.wait()

    def _others(self) -> set[int]:
        return _tree(self.process.pid) | _marked(self.mark)


def start(
    command: Sequence[str], *, cwd: Path | None, env: Mapping[str, str], logs: Path, name: str = ""
) -> Child:
    """Start a command with its output in `{name}stdout.log` and `{name}stderr.log` of a folder.

    Raises OSError where the program does not exist or may not be run.
    """
    mark = secrets.token_hex(8)
    with (logs / f"{name}stdout.log").open("wb") as out, (logs / f"{name}stderr.log").open("wb") as err:
        process = subprocess.Popen(
            list(command), cwd=cwd, env={**env, _MARK: mark}, stdin=subprocess.DEVNULL,
            stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
    return Child(process, f"{_MARK}={mark}".encode())


def await_url(url: str, child: Child, timeout_s: float, poll_s: float = 0.5) -> bool:
    """Wait until a URL answers with success; False when the server ended or the time is over."""
    end = time.monotonic() + timeout_s
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is ours: no proxy
    while time.monotonic() < end:
        if child.process.poll() is not None:
            return False
        with (
            contextlib.suppress(urllib.error.URLError, OSError, ValueError),
            opener.open(url, timeout=5) as answer,
        ):
            if 200 <= answer.status < 300:
                return True
        time.sleep(poll_s)
    return False


def _marked(mark: bytes) -> set[int]:
    """Return the processes that inherited the mark of a run, whoever their parent is by now."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in entry.read_bytes().split(b"\0"):
                found.add(int(entry.parent.name))
    return found


def _tree(root: int) -> set[int]:
    """Return every descendant of a process at this moment."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else []:
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {root}


def _signal(root: int, pids: set[int], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, number)
    # What left the group (a profiler's agent, a worker in a session of its own).
    for pid in sorted(pids):
        try:
            if os.getpgid(pid) != root:
                os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


# A run of the plan -> the command line, the environment and the folders of it.

RUN = "{run}"  # in a command, a client or an environment value: the folder of the run


@dataclass(frozen=True)
class Launch:
    """Everything that a run is started with."""

    command: list[str]
    env: dict[str, str]
    added: dict[str, str]
    cwd: Path | None
    client: list[str]
    ready_url: str
    kpi: tuple[str, ...]
    reports: tuple[tuple[str, str], ...]
    began: float

    def recorded(self, run: Path) -> list[str]:
        """Return the command line for the manifest: the run's folder by its placeholder."""
        return [word.replace(str(run), RUN) for word in self.command]


def launch_of(plan: Plan, slot: Slot, nsys: Nsys, run: Path, base: Mapping[str, str]) -> Launch:
    """Return how a run is started. Warm-ups and controls run the plain command, as users do."""
    side = plan.side(slot.side)
    kind = preset(side.preset)
    folder = str(run)
    command = with_reports(kind, [word.replace(RUN, folder) for word in side.command], folder)
    added = {name: value.replace(RUN, folder) for name, value in side.env.items()}
    if slot.kind == "profiled":
        added |= {name: value for name, value in additions(kind, plan.steps).items() if name not in side.env}
        words = [str(nsys.path), *nsys_flags(
            kind, nsys.features, output=f"{folder}/report{rank_suffix(side.launcher, side.rank_variable)}",
            graph_trace=plan.graph_trace, gpu_metrics=plan.gpu_metrics and not side.launcher,
            extra=plan.nsys_flags,
        )]  # fmt: skip
        command = wrap(side.launcher, words, command)
    else:
        command = wrap(side.launcher, [], command)
    return Launch(
        command=command,
        env={**base, **added},
        added=added,
        cwd=side.cwd,
        client=[word.replace(RUN, folder) for word in side.client],
        ready_url=side.ready_url,
        kpi=side.kpi,
        reports=kind.reports,
        began=time.time(),
    )


def left_out(plan: Plan, features: Features) -> list[str]:
    """Return what the plan asks for and this nsys cannot do."""
    notes = [f"this nsys cannot trace {name}" for name in TRACES if name not in features.traces]
    if not features.graph_trace:
        notes.append("this nsys knows no --cuda-graph-trace")
    if plan.gpu_metrics and not features.gpu_metrics_flag:
        notes.append("this nsys cannot sample GPU metrics")
    if plan.gpu_metrics and any(plan.side(name).launcher for name in SIDES):
        notes.append("GPU metrics are not sampled with a launcher: a GPU can be sampled by one nsys only")
    if any(preset(plan.side(name).preset).fork for name in SIDES) and not features.fork_before_exec:
        notes.append("this nsys knows no --trace-fork-before-exec: child processes may be missing")
    return notes


def shown(plan: Plan, nsys: Nsys, bundle: Path) -> list[str]:
    """Return the whole schedule as lines of a shell, for `--plan`; values of unrecorded variables masked."""
    lines = []
    for slot in plan.schedule():
        launch = launch_of(plan, slot, nsys, bundle / "runs" / slot.name, {})
        extra = plan.until is not None and slot.kind == "profiled" and slot.repeat > plan.repeats
        lines.append(f"# {slot.name}{f' (only while {plan.until} is not reached)' if extra else ''}")
        where = f"cd {shlex.quote(str(launch.cwd))} && " if launch.cwd else ""
        env = "".join(
            f"{name}={shlex.quote(value) if _public(name) else '...'} "
            for name, value in sorted(launch.added.items())
        )
        lines.append(f"{where}{env}{shlex.join(machine.recorded_command(launch.command))}")
        if launch.client:
            lines.append(f"#   when {launch.ready_url} answers:")
            lines.append(f"{where}{env}{shlex.join(machine.recorded_command(launch.client))}")
    return lines


def _public(name: str) -> bool:
    return name in machine.RECORDED_VARIABLES


# The environment of the traced programs, which nsys writes into every export, is removed from it.


def forget_environment(export: Path) -> None:
    """Remove every process's environment from an export; nothing that was measured is touched.

    nsys keeps it in three places: a record a variable, the environment of its agent in one text, and that of
    each process as one string with zero bytes between the variables.
    """
    database = sqlite3.connect(export)
    try:
        database.execute("PRAGMA secure_delete = ON")  # overwrite, not only unlink
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in ("META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV"):
            if table in tables:
                database.execute(f"DELETE FROM {table} WHERE name LIKE '%ENVIRONMENT%'")
        if "StringIds" in tables:
            database.execute("UPDATE StringIds SET value = '' WHERE instr(CAST(value AS BLOB), X'00') > 0")
        database.commit()
        database.execute("VACUUM")  # nsys leaves free pages that hold it too
    except sqlite3.DatabaseError as error:
        raise TracediffError(
            "nsys-export-failed",
            f"{export.name} is no SQLite file: {error}",
            fix="nsys export by hand, to see why",
        ) from error
    finally:
        database.close()


Report = Callable[[Slot, str], None]
Pair = Mapping[SideName, Sequence[Path]]  # the exports of two runs that belong together
# What is known after some pairs, for the manifest, and why no more are needed (None: go on).
Enough = Callable[[Sequence[Pair]], tuple[dict[str, Any], str | None]]


def _silent(slot: Slot, what: str) -> None:
    """Say nothing."""


@dataclass
class Runner:
    """Runs the schedule of a plan into a folder."""

    plan: Plan
    bundle: Path
    nsys: Nsys
    env: Mapping[str, str]
    clock: Callable[[], float] = time.time
    report: Report = _silent
    enough: Enough | None = (
        None  # asked after every pair once `plan.repeats` are made, where plan.until is set
    )
    _data: dict[str, Any] = field(default_factory=dict)

    def run(self, *, resume: bool = False) -> dict[str, Any]:
        """Execute what is not yet done; the manifest at the end.

        Raises `TracediffError`: bundle-exists, bundle-manifest, bundle-version, capture-plan-changed,
        disk-low, capture-run-failed, capture-interrupted.
        """
        self._data = self._open(resume)
        done = {run["folder"] for run in self._data["runs"] if run["status"] == "done"}
        schedule = self.plan.schedule()
        second = {slot.repeat: slot.index for slot in schedule if slot.kind == "profiled"}
        ended = False
        for slot in schedule:
            if ended and slot.kind == "profiled":
                break  # what is left of the controls came before
            if f"runs/{slot.name}" in done:
                self.report(slot, "finished before")
            else:
                self._check_disk()
                self._one(slot)
            if slot.kind == "profiled" and slot.index == second[slot.repeat]:
                ended = self._stops(slot.repeat)
        return self._data

    def _stops(self, repeats: int) -> bool:
        """Whether enough runs were made, now that so many pairs are whole."""
        if self.enough is None or self.plan.until is None or repeats < self.plan.repeats:
            return False
        pairs = self._pairs(repeats)
        seen, why = self.enough(pairs)
        record = self._data.setdefault("adaptive", {})
        looks = [one for one in record.get("looks", []) if one["pairs"] != seen["pairs"]]
        last = len(pairs) >= self.plan.max_runs
        record |= {
            "until": self.plan.until,
            "max_runs": self.plan.max_runs,
            "looks": sorted([*looks, seen], key=lambda one: one["pairs"]),
            "stopped": why or ("max_runs" if last else None),
        }
        manifest.write(self.bundle, self._data)
        return why is not None

    def _pairs(self, repeats: int) -> list[Pair]:
        """The whole pairs of profiled runs up to a repeat, in order."""
        found: dict[int, dict[SideName, list[Path]]] = {}
        for run in self._data["runs"]:
            if run["kind"] == "profiled" and run["status"] == "done" and run["repeat"] <= repeats:
                exports = [self.bundle / run["folder"] / name for name in run["exports"]]
                found.setdefault(run["repeat"], {})[run["side"]] = exports
        return [pair for _, pair in sorted(found.items()) if len(pair) == len(SIDES)]

    def _abandoned(self) -> bool:
        """Whether the folder is a bundle without a finished run, with none in progress and nothing else in it."""
        if not (self.bundle / manifest.NAME).is_file():
            return False
        if any(run["status"] == "done" for run in manifest.read(self.bundle)["runs"]):
            return False
        running = any((self.bundle / "runs").glob(".*.part"))
        return not running and {path.name for path in self.bundle.iterdir()} <= {manifest.NAME, "runs"}

    def _open(self, resume: bool) -> dict[str, Any]:
        if self._abandoned():  # a first try that came to nothing keeps nothing that a second one would miss
            shutil.rmtree(self.bundle / "runs", ignore_errors=True)
            (self.bundle / manifest.NAME).unlink()
        if (self.bundle / manifest.NAME).exists():
            if not resume:
                raise TracediffError(
                    "bundle-exists",
                    f"{self.bundle.name}: there is a bundle already",
                    fix="--resume goes on with it; -o names another folder",
                )
            data = manifest.read(self.bundle)
            if data.get("plan", {}).get("fingerprint") != manifest.fingerprint(self.plan):
                raise TracediffError(
                    "capture-plan-changed",
                    f"{self.bundle.name} was begun with another plan",
                    fix="resume with the plan and the flags it was begun with, or use another folder",
                )
            return data
        if self.bundle.exists() and (not self.bundle.is_dir() or any(self.bundle.iterdir())):
            raise TracediffError(
                "bundle-exists", f"{self.bundle.name} exists and is no bundle", fix="-o names another folder"
            )
        try:
            self.bundle.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(self.bundle, error) from error
        if not os.access(self.bundle, os.W_OK | os.X_OK):
            raise _not_writable(self.bundle, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        self._check_disk()
        notes = left_out(self.plan, self.nsys.features)
        data = manifest.new(self.plan, self.nsys, notes, self.clock)
        manifest.write(self.bundle, data)
        return data

    def _check_disk(self) -> None:
        free = shutil.disk_usage(self.bundle).free / 2**30
        if free < self.plan.min_free_gib:
            raise TracediffError(
                "disk-low",
                f"{free:.1f} GiB free for the bundle, {self.plan.min_free_gib:g} GiB are wanted",
                fix="free space, or -o on another disk, or lower min_free_gib in the plan; then --resume",
            )

    def _one(self, slot: Slot) -> None:
        runs = self.bundle / "runs"
        scratch = runs / f".{slot.name}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        launch = launch_of(self.plan, slot, self.nsys, scratch.resolve(), self.env)
        began = self.clock()
        record = RunRecord(slot, "failed", launch.recorded(scratch.resolve()), manifest.timestamp(began), 0.0)
        record.before = machine.gpus()
        self.report(slot, "running")
        problem: TracediffError | None = None
        try:
            record.exit_code = self._execute(launch, scratch)
            record.after = machine.gpus()
            if slot.kind == "profiled":
                self.report(slot, "exporting")
                self._collect(scratch, record)
            record.kpi = _kpi_files(launch, scratch)
            record.status = "done"
        except KeyboardInterrupt:
            shutil.rmtree(scratch, ignore_errors=True)
            raise TracediffError(
                "capture-interrupted",
                f"interrupted in {slot.name}; the runs before it are kept",
                fix="--resume goes on from there",
                exit_code=130,
            ) from None
        except TracediffError as error:
            # What the logs say of a GPU or a permission is the cause; the exit code is what came of it.
            known = diagnose(scratch) if error.slug in ("capture-exit-code", "nsys-no-report") else None
            problem = error = known or error
            record.error = {"slug": error.slug, "message": error.message}
        record.seconds = self.clock() - began
        self._keep(scratch, runs / slot.name, record)
        self.report(slot, record.status)
        if problem is not None:
            raise TracediffError(
                "capture-run-failed",
                f"run {slot.name} failed: {problem.message} [{problem.slug}] (logs in runs/{slot.name})",
                fix=f"{problem.fix or 'read stderr.log'}; then --resume goes on with this run",
            ) from problem

    def _keep(self, scratch: Path, final: Path, record: RunRecord) -> None:
        shutil.rmtree(final, ignore_errors=True)
        scratch.rename(final)
        others = [run for run in self._data["runs"] if run["index"] != record.slot.index]
        self._data["runs"] = sorted([*others, record.as_json()], key=lambda run: run["index"])
        manifest.write(self.bundle, self._data)

    def _execute(self, launch: Launch, folder: Path) -> int:
        main = self._start(launch.command, launch, folder)
        try:
            if launch.client:
                return self._serve(main, launch, folder)
            code = main.wait(self.plan.timeout_s)
        except BaseException:
            main.stop(signal.SIGINT)
            raise
        if code is None:
            main.stop()
            raise TracediffError(
                "capture-timeout",
                f"not finished after {self.plan.timeout_s:g} s; it and everything it started was ended",
                fix="--timeout SECONDS, or fewer requests",
            )
        if code != 0:
            raise _exit_error(code, folder / "stderr.log", "the program")
        return code

    def _serve(self, server: Child, launch: Launch, folder: Path) -> int:
        if not await_url(launch.ready_url, server, self.plan.ready_timeout_s):
            server.stop(signal.SIGINT)
            raise TracediffError(
                "capture-server-not-ready",
                f"the server did not answer at {launch.ready_url} within {self.plan.ready_timeout_s:g} s",
                fix="read stderr.log; ready_url and ready_timeout_s are set in the plan",
            )
        client = self._start(launch.client, launch, folder, "client-")
        try:
            code = client.wait(self.plan.timeout_s)
        finally:
            client.stop()
            # nsys passes SIGINT on, waits for the server and writes the report: give it time for that.
            server.stop(signal.SIGINT, grace_s=max(60.0, self.plan.timeout_s / 10))
        if code is None:
            raise TracediffError(
                "capture-timeout",
                f"the client was not finished after {self.plan.timeout_s:g} s; it and the server were ended",
                fix="--timeout SECONDS, or fewer requests",
            )
        if code != 0:
            raise _exit_error(code, folder / "client-stderr.log", "the client")
        return code

    def _start(self, command: list[str], launch: Launch, folder: Path, name: str = "") -> Child:
        try:
            return start(command, cwd=launch.cwd, env=launch.env, logs=folder, name=name)
        except OSError as error:
            raise TracediffError(
                "capture-no-program",
                f"{Path(command[0]).name} cannot be started: {error.strerror or error}",
                fix="check the command, PATH and the working directory",
            ) from error

    def _collect(self, folder: Path, record: RunRecord) -> None:
        for raw in sorted(folder.glob("report*.qdstrm")):
            import_raw(self.nsys.path, raw)
        reports = sorted(folder.glob("report*.nsys-rep"))
        if not reports:
            raise TracediffError(
                "nsys-no-report",
                "the program ended and nsys wrote no report: the capture range was never entered",
                fix="steps that the program reaches (--steps A-B), or cudaProfilerStart in the program; "
                "--preset any captures from beginning to end",
            )
        for report in reports:
            export = report.with_suffix(".sqlite")
            if not export.is_file():
                export_sqlite(report, export)
            forget_environment(export)
            record.exports.append(export.name)
            if not self.plan.keep_reports:
                report.unlink()
        record.reports = [report.name for report in reports if report.exists()]


def _not_writable(bundle: Path, error: OSError) -> TracediffError:
    return TracediffError(
        "bundle-not-writable",
        f"{bundle.name} cannot be written: {error.strerror or error}",
        fix="-o names a folder that you may write to",
    )


# What nsys says after the program has ended; what the program said last comes before.
_OF_NSYS = (
    "Importer error status", "Unable to retrieve the importer version", "Generating '", "Generated:", "Imported:",
    "The target application terminated",
)  # fmt: skip


def _exit_error(code: int, log: Path, who: str) -> TracediffError:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.is_file() else []
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    # Only the end of the log on the terminal: the whole may be long, and it is kept.
    said = [line for line in lines if not line.startswith(_OF_NSYS)]
    tail = f": {(said or lines)[-1][:200]}" if lines else ""
    return TracediffError("capture-exit-code", f"{who} ended {how}{tail}", fix=f"read {log.name}")


def _kpi_files(launch: Launch, folder: Path) -> list[str]:
    found = [path for _, name in launch.reports if (path := folder / name).is_file()]
    for pattern in launch.kpi:
        # A pattern is of the run's folder ({run}) or of the working directory, where the file is new.
        for base, newer in ((folder, False), (launch.cwd or Path.cwd(), True)):
            for path in sorted(base.glob(pattern)) if not Path(pattern).is_absolute() else []:
                if not path.is_file() or path in found:
                    continue
                if newer and path.stat().st_mtime < launch.began:
                    continue
                if newer:
                    path = Path(shutil.copy2(path, folder / path.name))
                found.append(path)
    return sorted({path.relative_to(folder).as_posix() for path in found})
