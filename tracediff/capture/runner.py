"""Execute a plan, one run after the other, into a bundle that is complete after every run.

    BUNDLE/manifest.json
    BUNDLE/runs/003-candidate-2/   stdout.log stderr.log report.nsys-rep report.sqlite, benchmark's files

A run works in `runs/.NAME.part`, which takes its name when the run is over; an interrupted one goes.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracediff.capture import machine, manifest
from tracediff.capture.commands import Launch, launch_of, left_out
from tracediff.capture.diagnose import diagnose
from tracediff.capture.forget import forget_environment
from tracediff.capture.manifest import RunRecord
from tracediff.capture.nsys import export_sqlite
from tracediff.capture.nsys_features import Nsys, import_raw
from tracediff.capture.plan import SIDES, Plan, SideName, Slot
from tracediff.capture.processes import Child, await_url, start
from tracediff.errors import TracediffError

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
