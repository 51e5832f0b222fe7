"""Execute a plan, one run after the other, into a bundle that is complete after every run.

    BUNDLE/manifest.json
    BUNDLE/runs/003-candidate-2/   stdout.log stderr.log report.nsys-rep report_pqtdir or report.sqlite, benchmark's files

A run works in `runs/.NAME.part`, which takes its name when the run is over; an interrupted one goes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import tracediff
from tracediff.capture import machine
from tracediff.capture.launch import Launch, flushes, launch_of, left_out, profile_url
from tracediff.capture.machine import Nsys, import_raw
from tracediff.capture.plan import Plan, SidePlan, Slot
from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats.bundle import (
    MANIFEST,
    PART,
    SIDES,
    Manifest,
    Run,
    SideName,
    Traffic,
    read_manifest,
    write_manifest,
)
from tracediff.formats.children import descendants
from tracediff.formats.contents import looked_into
from tracediff.formats.files import scratch
from tracediff.formats.lost import FLUSH, MOST, calls_lost
from tracediff.formats.reports import export_report

GRACE_S = 20.0  # between asking a process tree to end and killing it; nsys writes its report in it
_MARK = "TRACEDIFF_RUN"  # tells the processes of a run, also those that left its tree


class Child(msgspec.Struct):
    """A started program in a session of its own."""

    process: subprocess.Popen[bytes]
    mark: bytes

    def wait(self, timeout_s: float) -> int | None:
        """The exit code, or None when the time is over."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, first: signal.Signals = signal.SIGTERM, grace_s: float | None = None) -> int:
        """End the program and everything it started; its exit code.

        SIGINT goes to the program's group alone, as from a terminal: nsys's agent is outside of it, and has to live
        until the report is written.
        """
        pids = self._others()
        _signal(self.process.pid, set() if first == signal.SIGINT else pids, first)
        if self.wait(grace_s or GRACE_S) is None and first != signal.SIGTERM:
            _signal(self.process.pid, pids, signal.SIGTERM)
            self.wait(GRACE_S)
        _signal(self.process.pid, self._others() | pids, signal.SIGKILL)
        return self.process.wait()

    def _others(self) -> set[int]:
        return descendants(self.process.pid) | _marked(self.mark)


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


def await_url(url: str, child: Child, timeout_s: float) -> bool:
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
        time.sleep(0.5)
    return False


def post(url: str, body: str, timeout_s: float = 60.0) -> str:
    """Post JSON, or nothing where `body` is '', to a server of ours; '' or why it was refused."""
    kind = {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(url, data=body.encode(), headers=kind, method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s):
            return ""
    except (OSError, ValueError) as error:  # HTTPError and URLError are OSErrors
        return str(error)


def _marked(mark: bytes) -> set[int]:
    """The processes that inherited the mark of a run, whoever their parent is by now."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in entry.read_bytes().split(b"\0"):
                found.add(int(entry.parent.name))
    return found


def _signal(root: int, pids: set[int], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, number)
    for pid in sorted(pids):  # what left the group: a profiler's agent, a worker in a session of its own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != root:
                os.kill(pid, number)


# The manifest. Values of variables are recorded for the names in `machine.RECORDED_VARIABLES` only.


def timestamp(seconds: float) -> str:
    """A time in UTC as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def fingerprint(plan: Plan) -> str:
    """What makes two plans the same for `--resume`. Values of unrecorded variables do not enter it."""
    parts: list[Any] = [_order(plan)]
    for side in (plan.baseline, plan.candidate):
        parts.append([
            machine.recorded_command(side.command), machine.recorded_command(side.client),
            list(side.launcher), side.preset, sorted(side.env), machine.recorded_env(side.env),
        ])  # fmt: skip
    parts.append([plan.steps, plan.graph_trace, plan.gpu_metrics, list(plan.nsys_flags)])
    if plan.same_traffic:
        parts.append("same_traffic")
    if plan.baseline.ref or plan.candidate.ref:
        parts.append([plan.baseline.ref, plan.candidate.ref])
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _order(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in ("order", "seed", "repeats", "warmup", "controls")}


def new_manifest(plan: Plan, nsys: Nsys, notes: list[str], seconds: float) -> Manifest:
    """The manifest of a bundle without runs, begun at a time."""
    recorded = ("steps", "graph_trace", "gpu_metrics", "timeout_s", "same_traffic")
    return Manifest(
        tool=f"tracediff {tracediff.__version__}",
        created=timestamp(seconds),
        plan={
            **_order(plan),
            **{name: getattr(plan, name) for name in recorded},
            "fingerprint": fingerprint(plan),
        },
        host=machine.host(),
        nsys={"version": nsys.version, "notes": notes},
        sides={name: _side(plan.side(name)) for name in SIDES},
        runs=[],
    )


def _side(side: SidePlan) -> dict[str, Any]:
    env = {**os.environ, **side.env}
    return {
        "command": machine.recorded_command(side.command),
        "client": machine.recorded_command(side.client),
        "launcher": machine.recorded_command(side.launcher),
        "preset": side.preset,
        "env": machine.recorded_env(env),
        "versions": machine.versions(side.command, env, side.cwd),
        "git": machine.commit(side.cwd or Path.cwd()),
    }


# The runs

Report = Callable[[Slot, str], None]
Pair = Mapping[SideName, Sequence[Path]]  # the exports of two runs that belong together
# What is known after some pairs, for the manifest, and why no more are needed (None: go on).
Enough = Callable[[Sequence[Pair]], tuple[dict[str, Any], str | None]]


@dataclass
class Runner:
    """Runs the schedule of a plan into a folder.

    `report`: told how each run goes, `note`: what is wrong with one that goes on. `prepare`: called before anything of a side is recorded or run, once the bundle can be written.
    `enough`: asked after every pair once `plan.repeats` are made, where plan.until is set.
    """

    plan: Plan
    bundle: Path
    nsys: Nsys
    env: Mapping[str, str]
    clock: Callable[[], float] = time.time
    report: Report = lambda slot, what: None
    note: Callable[[str], None] = lambda text: None
    prepare: Callable[[], None] = lambda: None
    enough: Enough | None = None
    _data: Manifest = field(init=False)

    def run(self, *, resume: bool = False) -> Manifest:
        """Execute what is not yet done; the manifest at the end.

        Raises `TracediffError`: bundle-exists, bundle-manifest, bundle-version, bundle-not-writable, capture-plan-changed,
        disk-low, capture-run-failed, capture-interrupted.
        """
        self._data = self._open(resume)
        done = {run.folder for run in self._data.runs if run.status == "done"}
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

    # The bundle

    def _open(self, resume: bool) -> Manifest:
        """The manifest to go on with, or a new one in an empty folder."""
        if self._abandoned():  # a first try that came to nothing keeps nothing that a second one would miss
            shutil.rmtree(self.bundle / "runs", ignore_errors=True)
            (self.bundle / MANIFEST).unlink()
        if (self.bundle / MANIFEST).exists():
            return self._resumed(resume)
        if self.bundle.exists() and (
            not self.bundle.is_dir() or any(path.name != PART for path in self.bundle.iterdir())
        ):
            raise TracediffError(
                "bundle-exists", f"{self.bundle.name} exists and is no bundle", fix="-o names another folder"
            )
        try:
            self.bundle.mkdir(parents=True, exist_ok=True)
            if not os.access(self.bundle, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise TracediffError(
                "bundle-not-writable",
                f"{self.bundle.name} cannot be written: {error.strerror or error}",
                fix="-o names a folder that you may write to",
            ) from error
        self._check_disk()
        self.prepare()
        data = new_manifest(self.plan, self.nsys, left_out(self.plan, self.nsys.features), self.clock())
        write_manifest(self.bundle, data)
        return data

    def _abandoned(self) -> bool:
        """Whether the folder is a bundle without a finished run, with none in progress and nothing else in it."""
        if not (self.bundle / MANIFEST).is_file():
            return False
        if any(run.status == "done" for run in read_manifest(self.bundle).runs):
            return False
        running = any((self.bundle / "runs").glob(".*.part"))
        return not running and {path.name for path in self.bundle.iterdir()} <= {MANIFEST, PART, "runs"}

    def _resumed(self, resume: bool) -> Manifest:
        data = read_manifest(self.bundle)
        same = data.plan.get("fingerprint") == fingerprint(self.plan)
        if not resume:
            done, of = sum(run.status == "done" for run in data.runs), len(self.plan.schedule())
            whole = done == of or (data.adaptive or {}).get("stopped")
            then = (
                f"`tracediff compare {self.bundle}` compares them"
                if whole
                else "the same command with --resume goes on"
            )
            plan = "this plan" if same else "another plan"
            raise TracediffError(
                "bundle-exists",
                f"{self.bundle.name} holds {done} of {of} runs of this plan" if same and not whole
                else f"{self.bundle.name} holds {done} runs of {plan}",
                fix=f"{then}; -o names another folder" if same else "-o names another folder",
            )  # fmt: skip
        if not same:
            raise TracediffError(
                "capture-plan-changed",
                f"{self.bundle.name} was begun with another plan",
                fix="resume with the plan and the flags it was begun with, or use another folder",
            )
        self.prepare()
        return data

    def _check_disk(self) -> None:
        free = shutil.disk_usage(self.bundle).free / 2**30
        if free < self.plan.min_free_gib:
            raise TracediffError(
                "disk-low",
                f"{free:.1f} GiB free for the bundle, {self.plan.min_free_gib:g} GiB are wanted",
                fix="free space, or -o on another disk, or lower min_free_gib in the plan; then --resume",
            )

    # Whether more runs are needed (--until)

    def _stops(self, repeats: int) -> bool:
        """Whether enough runs were made, now that so many pairs are whole."""
        if self.enough is None or self.plan.until is None or repeats < self.plan.repeats:
            return False
        pairs = self._pairs(repeats)
        seen, why = self.enough(pairs)
        looks = [one for one in (self._data.adaptive or {}).get("looks", []) if one["pairs"] != seen["pairs"]]
        last = len(pairs) >= self.plan.max_runs
        self._data.adaptive = {
            "until": self.plan.until,
            "max_runs": self.plan.max_runs,
            "looks": sorted([*looks, seen], key=lambda one: one["pairs"]),
            "stopped": why or ("max_runs" if last else None),
        }
        write_manifest(self.bundle, self._data)
        return why is not None

    def _pairs(self, repeats: int) -> list[Pair]:
        """The whole pairs of profiled runs up to a repeat, in order."""
        found: dict[int, dict[SideName, list[Path]]] = {}
        for run in self._data.runs:
            if run.kind == "profiled" and run.status == "done" and run.repeat <= repeats:
                exports = [self.bundle / run.folder / name for name in run.exports]
                found.setdefault(run.repeat, {})[run.side] = exports
        return [pair for _, pair in sorted(found.items()) if len(pair) == len(SIDES)]

    # One run

    def _one(self, slot: Slot) -> None:
        runs = self.bundle / "runs"
        scratch = runs / f".{slot.name}.part"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        launch = launch_of(self.plan, slot, self.nsys, scratch.resolve(), self.env)
        began = self.clock()
        run = Run(
            index=slot.index, side=slot.side, repeat=slot.repeat, kind=slot.kind, folder=f"runs/{slot.name}", status="failed",
            command=launch.recorded(scratch.resolve()), started=timestamp(began), before=machine.gpus(),
        )  # fmt: skip
        seed = self.plan.traffic_seed(slot)
        if seed is not None:
            run.traffic = Traffic(pair=slot.repeat, seed=seed)
        self.report(slot, "running")
        problem: TracediffError | None = None
        started = time.time()  # of the file system, for files that the program leaves elsewhere
        monotonic = time.monotonic()  # a clock may be set while a run goes on
        try:
            run.exit_code = self._execute(launch, scratch)
            run.after = machine.gpus()
            if slot.kind == "profiled":
                self.report(slot, "exporting")
                self._export(scratch, run)
            run.kpi = _kpi_files(launch, scratch, started)
            run.status = "done"
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
            problem = known or error
            run.error = {"slug": problem.slug, "message": problem.message}
        run.seconds = round(time.monotonic() - monotonic, 3)
        shutil.rmtree(runs / slot.name, ignore_errors=True)
        scratch.rename(runs / slot.name)
        others = [one for one in self._data.runs if one.index != slot.index]
        self._data.runs = sorted([*others, run], key=lambda one: one.index)
        write_manifest(self.bundle, self._data)
        self.report(slot, run.status)
        if problem is not None:
            raise TracediffError(
                "capture-run-failed",
                f"run {slot.name} failed: {problem.message} [{problem.slug}] (logs in runs/{slot.name})",
                fix=f"{problem.fix or 'read stderr.log'}; the same command with --resume makes this run again",
            ) from problem

    def _execute(self, launch: Launch, folder: Path) -> int:
        """Run the program, or the server and its client; the exit code, which is 0. Raises `TracediffError` otherwise."""
        main = _start(launch.command, launch, folder)
        try:
            code = self._serve(main, launch, folder) if launch.client else main.wait(self.plan.timeout_s)
        except BaseException:
            main.stop(signal.SIGINT)
            raise
        if code is None:
            if not launch.client:
                main.stop()
            who, what = (
                ("the client was ", "it and the server were")
                if launch.client
                else ("", "it and everything it started was")
            )
            raise TracediffError(
                "capture-timeout",
                f"{who}not finished after {self.plan.timeout_s:g} s; {what} ended",
                fix="--timeout SECONDS, or fewer requests",
            )  # fmt: skip
        if code != 0:
            log, who = ("client-stderr.log", "the client") if launch.client else ("stderr.log", "the program")
            raise exit_error(code, folder / log, who)
        return code

    def _serve(self, server: Child, launch: Launch, folder: Path) -> int | None:
        """The exit code of the client, None where its time was over; the server is stopped."""
        if not await_url(launch.ready_url, server, self.plan.ready_timeout_s):
            raise TracediffError(
                "capture-server-not-ready",
                f"the server did not answer at {launch.ready_url} within {self.plan.ready_timeout_s:g} s",
                fix="read stderr.log; ready_url and ready_timeout_s are set in the plan",
            )
        if launch.start is not None:
            refused = post(profile_url(launch.ready_url, "start"), launch.start)
            if refused:
                raise TracediffError(
                    "capture-profile-refused",
                    f"the server did not begin to profile: {profile_url(launch.ready_url, 'start')}: {refused}",
                    fix="a version of the server that --preset knows (docs/record.md#your-stack); --plan shows what is asked",
                )
        client = _start(launch.client, launch, folder, "client-")
        try:
            return client.wait(self.plan.timeout_s)
        finally:
            client.stop()
            if launch.start is not None:  # it may have stopped by itself: the answer says nothing
                post(profile_url(launch.ready_url, "stop"), "")
            # nsys passes SIGINT on, waits for the server and writes the report: give it time for that.
            server.stop(signal.SIGINT, grace_s=max(60.0, self.plan.timeout_s / 10))

    def _export(self, folder: Path, run: Run) -> None:
        for raw in sorted(folder.glob("report*.qdstrm")):
            import_raw(self.nsys.path, raw)
        reports = sorted(folder.glob("report*.nsys-rep"))
        if not reports:
            ranged = any(word.startswith(("-c", "--capture-range")) for word in run.command)
            text = "the program ended and nsys wrote no report"
            raise TracediffError(
                "nsys-no-report",
                f"{text}: the capture range was never entered" if ranged else text,
                fix="steps that the program reaches (--steps A-B), or cudaProfilerStart in the program; "
                "--preset any captures from beginning to end"
                if ranged
                else "read stderr.log",
            )
        for report in reports:
            export = export_report(report, folder, report.stem, self.plan.export)
            forget_environment(export)
            run.exports.append(export.name)
            self._need_calls(export, run.command)
            if not self.plan.keep_reports:
                report.unlink()
        run.reports = [report.name for report in reports if report.exists()]

    def _need_calls(self, export: Path, command: Sequence[str]) -> None:
        """Look for most calls of a process in an export; the runs to come would lose them as well. Raises `TracediffError` (cuda-calls-lost) where a flag may help."""
        with scratch() as folder, looked_into(export, folder) as seen:
            notes, lost = calls_lost(seen.db, export.name)
        if lost <= MOST:
            return
        if not flushes(command):
            fix = f"begin a new bundle with --nsys-flag={FLUSH}"
            raise TracediffError(notes[0].slug, notes[0].message, fix=fix)
        self.note(f"warning: {notes[0].message}")


def _start(command: list[str], launch: Launch, folder: Path, name: str = "") -> Child:
    try:
        return start(command, cwd=launch.cwd, env=launch.env, logs=folder, name=name)
    except OSError as error:
        if error.errno in (errno.EIO, errno.ENOSPC, errno.EDQUOT):  # of the logs
            raise
        raise TracediffError(
            "capture-no-program",
            f"{Path(command[0]).name} cannot be started: {error.strerror or error}",
            fix="check the command, PATH and the working directory",
        ) from error


def _kpi_files(launch: Launch, folder: Path, began: float) -> list[str]:
    """Benchmark reports of a run: those of its preset, and what the patterns of the plan name."""
    found = {name for name in launch.reports if (folder / name).is_file()}
    for pattern in launch.kpi:
        if Path(pattern).is_absolute():
            continue
        found |= {path.relative_to(folder).as_posix() for path in folder.glob(pattern) if path.is_file()}
        # A pattern is of the run's folder ({run}), or of the working directory, where the file is new.
        for path in sorted((launch.cwd or Path.cwd()).glob(pattern)):
            if (
                path.is_file()
                and path.stat().st_mtime >= began
                and folder.resolve() not in path.resolve().parents
            ):
                found.add(Path(shutil.copy2(path, folder / path.name)).name)
    return sorted(found)


_NO_ENVIRONMENT = "FROM rows WHERE name NOT ILIKE '%ENVIRONMENT%'"


def forget_environment(export: Path) -> None:
    """Remove every process's environment, which nsys writes, from an export; nothing that was measured is touched.

    nsys keeps it in three places: a record per variable, the environment of its agent in one text, and that of
    each process as one string with zero bytes between the variables.
    """
    if export.is_dir():
        columnar.rewrite(
            export,
            {
                "META_DATA_CAPTURE": _NO_ENVIRONMENT,
                "TARGET_INFO_SYSTEM_ENV": _NO_ENVIRONMENT,
                "StringIds": "SELECT * REPLACE (CASE WHEN contains(value, chr(0)) THEN '' ELSE value END AS value) FROM rows",
            },
        )
        return
    try:
        with closing(sqlite3.connect(export)) as db:
            db.execute("PRAGMA secure_delete = ON")  # overwrite, not only unlink
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in {"META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV"} & tables:
                db.execute(f"DELETE FROM {table} WHERE name LIKE '%ENVIRONMENT%'")
            if "StringIds" in tables:
                db.execute("UPDATE StringIds SET value = '' WHERE instr(CAST(value AS BLOB), X'00') > 0")
            db.commit()
            db.execute("VACUUM")  # nsys leaves free pages that hold it too
    except sqlite3.DatabaseError as error:
        raise TracediffError(
            "nsys-export-failed",
            f"{export.name} is no SQLite file: {error}",
            fix="nsys export by hand, to see why",
        ) from error


# Why a run failed

# What nsys says after the program has ended; what the program said last comes before.
_OF_NSYS = (
    "Importer error status", "Unable to retrieve the importer version", "Generating '", "Generated:", "Imported:",
    "The target application terminated",
)  # fmt: skip
_TAIL = 1 << 16  # bytes of a log that are looked at: what ended a program is at its end
# What logs say -> slug, message, fix. The first that fits: what nsys or the driver says is closer to the cause than what a
# program makes of it.
_SIGNS = (
    (r"ERR_NVGPUCTRPERM", "gpu-counters-denied",
     "the driver lets only administrators read the GPU's performance counters (ERR_NVGPUCTRPERM)",
     "leave --gpu-metrics and --ncu out; or load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run as root,"
     " in a container with CAP_SYS_ADMIN"),
    (r"Illegal --gpu-metrics-device|None of the installed GPUs are supported", "gpu-metrics-unsupported",
     "this nsys cannot sample metrics of the GPUs of this machine",
     "leave --gpu-metrics out; `nsys profile --gpu-metrics-device=help` lists the GPUs that it can sample"),
    (r"perf_event_paranoid|perf_event_open.*(?:not permitted|denied)", "perf-events-denied",
     "the kernel does not let nsys sample the CPU (perf_event_paranoid)",
     "leave --sample and --cpuctxsw out of nsys_flags; or, as root, sysctl kernel.perf_event_paranoid=2"),
    (r"Failed to create '.*\.(?:qdstrm|nsys-rep)': Permission denied", "bundle-not-writable",
     "nsys may not write into the bundle",
     "-o on a folder that the user of the program may write to, on every node"),
    (r"Connection to Agent lost", "nsys-agent-lost",
     "nsys lost its agent, the process that collects events (nsys: Connection to Agent lost), and wrote no report",
     "nothing in the plan has to change"),
    (r"nsys: (?:command )?not found|(?:execve|exec|execvp).*nsys.*No such file", "nsys-missing",
     "nsys was not found where a rank was started",
     "have nsys at the same path on every node, or set NSYS to one that all of them see"),
    (r"no CUDA-capable device|No CUDA GPUs are available|Found no NVIDIA driver|no CUDA device"
     r"|libcuda\.so\.1: cannot open|CUDA driver version is insufficient|CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice", "gpu-missing",
     "the program found no GPU that it can use",
     "run where nvidia-smi lists one (in a container: --gpus all; on Slurm: --gres=gpu:1), and look at"
     " CUDA_VISIBLE_DEVICES; `tracediff doctor` tells more"),
)  # fmt: skip


def diagnose(folder: Path) -> TracediffError | None:
    """What the logs of a failed run say of its cause; None where nothing known is in them."""
    said = "\n".join(_end(log) for log in sorted(folder.glob("*.log")))
    return next(
        (TracediffError(slug, message, fix=fix) for pattern, slug, message, fix in _SIGNS if re.search(pattern, said)),
        None,
    )  # fmt: skip


def _end(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        return file.read().decode("utf-8", errors="replace")


def exit_error(code: int, log: Path, who: str) -> TracediffError:
    """What to raise of a program that failed: with the last line of its log."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.is_file() else []
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    # Only the end of the log on the terminal: the whole may be long, and it is kept.
    said = [line for line in lines if not line.startswith(_OF_NSYS)]
    tail = f": {(said or lines)[-1][:200]}" if lines else ""
    return TracediffError("capture-exit-code", f"{who} ended {how}{tail}", fix=f"read {log.name}")
