"""Which exports of a side are read, what number their ranks have, and what a result says of the rest."""

from __future__ import annotations

import importlib
import shutil
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tracediff.errors import TracediffError, no_permission, some, visible
from tracediff.execution.cache import Cache, key_of, opened
from tracediff.execution.executors import Workers, alone, explain, worker_died, workers
from tracediff.execution.sides import Reading
from tracediff.formats.bundle import SideName
from tracediff.formats.capture import load_capture
from tracediff.formats.database import connect
from tracediff.formats.files import scratch
from tracediff.formats.inputs import WINDOWS, RunFiles, SideFiles, one_run
from tracediff.formats.kineto import is_trace_name
from tracediff.formats.reports import Form
from tracediff.formats.selection import Selection, spell_ranks, spell_steps
from tracediff.formats.unpack import unpack
from tracediff.model import LeftOut, Note
from tracediff.model.common import NO_STEPS

if TYPE_CHECKING:
    from tracediff.accounting.reduce import StepSampler
    from tracediff.accounting.reduction import Reduction
    from tracediff.execution.ladder import Shared
    from tracediff.execution.sides import Run, Side, Why


NAMED = 5  # exports that a warning names; the rest are counted
MOST_NAMED = 20  # the same of an error


class _Job(msgspec.Struct):
    """One export to read: which of its run's exports it is, how it is read and what messages call it; then what came of it."""

    path: Path
    place: int
    reading: Reading
    name: str = ""
    key: str | None = None  # in the cache
    exported: Path | None = None  # what a report was exported to, until it is read
    reduction: Reduction | None = None
    error: TracediffError | None = None

    @property
    def done(self) -> bool:
        return self.reduction is not None or self.error is not None

    def recall(self, cache: Cache) -> None:
        """Take what was kept of it."""
        self.key = key_of(self.path, self.reading)
        self.reduction = cache.get(self.key) if self.key is not None else None

    def settle(self, future: Future[Any], cache: Cache | None) -> None:
        """Note what came of reading, and keep it. Raises what is no fault of the export alone."""
        try:
            self.reduction = reduction = future.result()
        except PermissionError as error:
            self.error = no_permission(error.filename)
        except TracediffError as error:
            error.rename(self.path.name, self.name)
            if error.slug in _OF_ALL or error.slug.startswith("scheduler-"):
                raise
            self.error = error
        except BaseException as error:
            known = explain(error, self.name)
            if known is None:
                raise
            if known.slug != "worker-died":
                raise known from error
            self.error = known
        else:
            # not where the export changed while it was read
            if cache is not None and self.key is not None and key_of(self.path, self.reading) == self.key:
                cache.put(self.key, reduction)


def _jobs_of(side: SideFiles, run: RunFiles, reading: Reading) -> list[_Job]:
    """The exports of a run that are read: of a run with exports by rank those of the ranks that are asked for.

    Raises `TracediffError`: nothing-selected where the run has none of these.
    """
    if not any(run.places):
        return [_Job(path, place, replace(reading, only=side.only)) for place, path in enumerate(run.files)]
    ranks = run.ranks or tuple(range(len(run.files)))
    inside = replace(reading, only=side.only._replace(ranks=None))
    found = [
        _Job(path, place, inside)
        for place, (path, rank) in enumerate(zip(run.files, ranks, strict=True))
        if side.only.has_rank(rank)
    ]
    if not found:
        raise TracediffError(
            "nothing-selected",
            f"{side.label}, run {run.name}: none of its {len(set(ranks))} ranks is selected",
            fix=f"--ranks: ranks {min(ranks)} to {max(ranks)} are there",
        )
    return found


def _run_of(files: RunFiles, jobs: Sequence[_Job], only: Selection) -> Run | None:
    """A run of the reductions of its jobs, each with the number of its first rank; None where nothing could be read.

    Raises `TracediffError`: ranks-unclear, where exports hold several ranks and not all of them were read.
    """
    from tracediff.execution.sides import Run  # not before the database reads, as in `reduce_file`

    read = [(job, job.reduction) for job in jobs if job.reduction is not None]
    if not read:
        return None
    counts = [part.measured.all_ranks for _, part in read]
    places = files.places
    several, unread = any(places), len(set(places)) - len({places[job.place] for job, _ in read})
    if several and unread and max(counts) > 1 and (len(set(counts)) > 1 or only.ranks is not None):
        raise TracediffError(
            "ranks-unclear",
            f"{read[counts.index(max(counts))][0].path.name}: one of several exports of a run, it holds {max(counts)} ranks: which ranks"
            " are in the exports that were not read is not known",
            fix="an export a rank, named rank<N>; or read all of them",
        )
    if several and files.ranks is not None and max(counts) == 1:
        firsts = [files.ranks[job.place] for job, _ in read]
    elif len(set(counts)) == 1:
        firsts = [places[job.place] * counts[0] for job, _ in read]
    else:
        firsts = [sum(counts[:place]) if several else 0 for place in range(len(read))]
    sources = tuple((job.path, job.reading) for job, _ in read)
    # the captures of a bundle are all called alike, and their folders are their runs
    named = [
        replace(part, name=f"{files.name}/{part.name}") if job.path.parent.name == files.name else part
        for job, part in read
    ]
    return Run(files.name, named, tuple(firsts), sources, unread, files.traffic)


def _repeats(run: Run) -> list[Run]:
    """The run; or a run for each of its exports, where these were taken for windows of one process, and no process is in two of them."""
    pids = [part.periods["pid"].unique().to_list() for part in run.parts]
    if run.windows < max(len(pids), 2) or len(set(chain(*pids))) < sum(map(len, pids)):
        return [run]
    one = replace(run, first_ranks=(), unread=0)
    parts = zip(run.parts, run.sources, strict=True)
    return [replace(one, name=part.name, parts=[part], sources=(source,)) for part, source in parts]


def _side_of(side: SideFiles, jobs: Sequence[Sequence[_Job]], notes: Sequence[Note], why: Why) -> Side:
    """A side of what could be read of it; `jobs`: of each run. Raises the errors in one where nothing could be read, ranks-unclear."""
    from tracediff.execution.clocks import ranks_of_one
    from tracediff.execution.sides import Side

    found = [_run_of(files, mine, side.only) for files, mine in zip(side.runs, jobs, strict=True)]
    read = [run for run in found if run is not None]
    apart = list(chain(*map(_repeats, read)))
    runs, joined = ranks_of_one(apart)
    errors = [(job.name, job.error) for mine in jobs for job in mine if job.error is not None]
    if not runs:
        raise one_error(errors, len(errors))
    # visible: a name that is not UTF-8 is no text of JSON
    left_out = [
        LeftOut(visible(name), error.slug, visible(error.message, keep="\n")) for name, error in errors
    ]
    unread = sum(
        len(set(files.places)) - len({files.places[job.place] for job in mine})
        for files, mine in zip(side.runs, jobs, strict=True)
    )
    given = [one for one in side.notes if len(apart) == len(read) or one.slug != WINDOWS]
    said = (*notes, *given, *joined, *_notes_of(side, runs, left_out, unread))
    return Side(side.label, runs, said, tuple(left_out), why)


def _notes_of(side: SideFiles, runs: Sequence[Run], failed: Sequence[LeftOut], unread: int) -> list[Note]:
    """What a result must say of a side that was not measured whole. `unread`: exports whose ranks were not asked for."""
    notes = []
    only = side.only
    measured = [part.measured for run in runs for part in run.parts]
    ranks = sum(run.by_rank(lambda part: part.measured.ranks) for run in runs)
    all_ranks = sum(run.by_rank(lambda part: part.measured.all_ranks) for run in runs) + unread
    if only.ranks is not None and ranks < all_ranks:
        text = (
            f"{all_ranks - ranks} of {all_ranks} ranks of all runs are left out (--ranks {spell_ranks(only)})"
        )
        notes.append(Note("ranks-left-out", f"{side.label}: {text}"))
    steps, all_steps = sum(one.steps for one in measured), sum(one.all_steps for one in measured)
    if only.cuts_steps and steps < all_steps:
        of = " of the ranks kept" if only.ranks is not None else ""
        text = f"{all_steps - steps} of {all_steps} whole steps{of} are left out (--steps {spell_steps(only)}); every figure is of the steps kept"
        notes.append(Note("steps-left-out", f"{side.label}: {text}"))
    if failed:
        named = some([f"{one.name}: {one.slug}" for one in failed], NAMED, "; and ", "; ")
        text = f"{len(failed)} of {len(measured) + len(failed)} exports could not be read and are left out ({named})"
        notes.append(Note("exports-left-out", f"{side.label}: {text}"))
    return notes


def one_error(errors: Sequence[tuple[str, TracediffError]], exports: int) -> TracediffError:
    """Say in one error which exports could not be read; `errors`: name and error of each, at least one."""
    first = errors[0][1]
    alone = len(errors) == 1
    left = "it" if alone else "them"
    fix = f"read what is there without {left}: --skip-unreadable"
    # where nothing would be left, leaving out is no help; one of two is all that a side has
    helps = exports > 2 if alone else len(errors) < exports
    if len({error.slug for _, error in errors}) == 1:
        message = first.message
        if not alone:
            also = some([name for name, _ in errors[1:]], MOST_NAMED)
            message += f"; the same of {also} ({len(errors)} of {exports} exports)"
        said = [one for one in (first.fix, fix if helps else None) if one]
        return TracediffError(first.slug, message, fix="; ".join(said) or None, exit_code=first.exit_code)
    lines = [f"{error.message} [{error.slug}]" for _, error in errors[:MOST_NAMED]]
    lines += [f"and {len(errors) - MOST_NAMED} more"] if len(errors) > MOST_NAMED else []
    return TracediffError(
        "exports-unreadable",
        f"{len(errors)} of {exports} exports cannot be read:" + "".join(f"\n    {line}" for line in lines),
        fix=fix if helps else "mend or replace them",
    )


# The files of the sides -> reduced runs.


# Errors of the machine or of the command, whatever the export: going on without it would not help.
_OF_ALL = ("bad-limit", "bad-step-regex", "scanner-missing", "nsys-missing", "out-of-memory")


def export_task(path: Path, folder: Path, form: Form) -> Path:
    """Export a report under a new `folder`; what will read it is imported in the meantime. Raises what `unpack` raises."""
    threading.Thread(
        target=importlib.import_module, args=("tracediff.accounting.reduce",), daemon=True
    ).start()
    folder.mkdir()
    return unpack(path, folder, export=form)


def reduce_file(
    path: Path, reading: Reading, sampler: StepSampler | None = None, exported: Path | None = None
) -> Reduction:
    """One export, in a scratch folder of its own that is gone afterwards. Where no steps can be found in it, the whole of it is one step.

    `sampler`: which steps are sampled, where it is not for the page; `exported`: what a report was exported to.
    """
    try:
        return _reduce_file(path, reading, sampler, exported)
    except TracediffError as error:
        asked = reading.step_regex is not None or reading.only.cuts_steps
        if error.slug not in _WITHOUT_STEPS or asked:
            raise
        why = Note(NO_STEPS, f"{error.message}. {error.fix}")
    found = _reduce_file(path, replace(reading, whole_capture=True), sampler, exported)
    return replace(found, warnings=[why, *found.warnings])


_WITHOUT_STEPS = ("no-steps", "one-step", "no-whole-step")


class Reduced(msgspec.Struct):
    """Runs that are made one after another; each export is read once."""

    reading: Reading = msgspec.field(default_factory=Reading)
    _known: dict[Path, Reduction] = msgspec.field(default_factory=dict)

    def side(self, name: SideName, runs: Sequence[Sequence[Path]]) -> Side:
        """A side of runs, each of them its exports. Raises `TracediffError`, see `reduce_file`."""
        from tracediff.execution.sides import Run, Side

        for path in (path for run in runs for path in run if path not in self._known):
            self._known[path] = reduce_file(path, self.reading)
        files = [one_run(run[0].parent.name, run) for run in runs]
        return Side(
            name, [Run(one.name, [self._known[path] for path in one.files], one.ranks or ()) for one in files]
        )


def _reduce_file(
    path: Path, reading: Reading, sampler: StepSampler | None, exported: Path | None
) -> Reduction:
    with scratch() as folder:
        capture = load_capture(
            path,
            folder,
            memory_limit=reading.memory_limit,
            threads=reading.threads,
            annotations_only=reading.two_profilers,
            export=reading.export,
            exported=exported,
        )
        try:
            # not before the database reads: it needs no interpreter, which imports what comes after it in the meantime
            from tracediff.accounting.reduce import is_host_only, reduce_capture, reduce_host
            from tracediff.steps.sample import FOR_THE_PAGE
            from tracediff.whatif.graph import record

            measure = (
                reduce_host
                if (reading.host_only or is_host_only(capture)) and sampler is None
                else partial(
                    reduce_capture,
                    sampler=sampler or (FOR_THE_PAGE if reading.keep else None),
                    recorder=partial(record, of=reading.graph) if reading.graph else None,
                )
            )
            reduction = capture.bounded(
                lambda: measure(
                    capture,
                    step_regex=reading.step_regex,
                    whole_capture=reading.whole_capture,
                    infer=reading.infer,
                    only=reading.only,
                )
            )
        except BaseException:
            capture.close()
            raise
        capture.release()
    return _without_domains(reduction) if reading.two_profilers else reduction


def _without_domains(reduction: Reduction) -> Reduction:
    """NVTX domains are nothing that torch.profiler knows: with them no range would meet its like."""
    import polars as pl

    keys = ["stratum", "thread", "place", "domain"]
    ranges = (
        reduction.ranges.with_columns(domain=pl.lit(""))
        .group_by(keys)
        .agg(pl.col("count", "ns", "squares", "outer_ns", "wait_ns", "call_ns", "after_ns").sum())
    )
    return replace(reduction, ranges=ranges.sort(keys))


def reduce_sides(
    sides: Sequence[SideFiles],
    reading: Reading,
    progress: Callable[[str], None] = lambda _: None,
    on_started: Callable[[], None] = lambda: None,
) -> list[Side]:
    """Load and reduce every export of some sides, several at once where memory allows; the order is that of the files.

    `progress` gets each file's name when its turn comes, `on_started` is called when reading has begun. Exports that cannot be read
    are all named in one error, or left out (`reading.skip_unreadable`), and the side says so. Raises what reading raises,
    exports-unreadable, nothing-selected, ranks-unclear.
    """
    jobs = [[_jobs_of(side, run, reading) for run in side.runs] for side in sides]
    all_jobs = [job for side_jobs in jobs for run in side_jobs for job in run]
    if reading.memory_limit is not None:
        # a limit that is none is an error, whatever is kept
        connect(memory_limit=reading.memory_limit).close()
    two_profilers = len({is_trace_name(job.path) for job in all_jobs}) > 1
    several = Counter(path.name for path in {job.path for job in all_jobs})
    for job in all_jobs:
        path = job.path
        job.name = path.name if several[path.name] == 1 else f"{path.parent.name}/{path.name}"
        job.reading = replace(job.reading, two_profilers=two_profilers)
    notes = _reduce_all(all_jobs, reading, progress, on_started)
    jobs = [
        [_with_steps(run, mine) for run, mine in zip(side.runs, side_jobs, strict=True)]
        for side, side_jobs in zip(sides, jobs, strict=True)
    ]
    all_jobs = [job for side_jobs in jobs for run in side_jobs for job in run]
    why = _same_steps([[job for run in side_jobs for job in run] for side_jobs in jobs], reading, progress)
    failed = [(job.name, job.error) for job in all_jobs if job.error is not None]
    if failed and not reading.skip_unreadable:
        raise one_error(failed, len(all_jobs))
    # what the cache says is said once
    return [
        _side_of(side, mine, [] if number else notes, why)
        for number, (side, mine) in enumerate(zip(sides, jobs, strict=True))
    ]


def _with_steps(run: RunFiles, jobs: list[_Job]) -> list[_Job]:
    """Without the windows of a process in which no step is selected, where another window of it has some."""
    had = {run.places[job.place] for job in jobs if job.reduction is not None}
    return [
        job
        for job in jobs
        if job.error is None or job.error.slug != "nothing-selected" or run.places[job.place] not in had
    ]


def _reduce_all(
    jobs: list[_Job], reading: Reading, progress: Callable[[str], None], on_started: Callable[[], None]
) -> list[Note]:
    """Settle every job, from the cache or by reading; what is to be said of the cache."""
    cache, notes = opened() if reading.cached else (None, [])
    if cache is not None:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda job: job.recall(cache), jobs))
    unread = [job for job in jobs if not job.done]
    if not unread:
        on_started()
    while unread:
        with workers([job.path for job in unread], reading) as using:
            lost = _read(unread, using, cache, progress, on_started)
        for job in lost:  # which of them ended the process, reading each alone shows
            with alone() as using:
                if _read([job], using, cache, progress, on_started):
                    job.error = worker_died(job.name)
        unread = [job for job in unread if not job.done]
    for job in jobs:
        if job.reduction is not None:
            named = [
                Note(note.slug, note.message.replace(job.path.name, job.name))
                for note in job.reduction.warnings
            ]
            job.reduction = replace(job.reduction, warnings=named)
    return notes


def _same_steps(sides: list[list[_Job]], reading: Reading, progress: Callable[[str], None]) -> Why:
    """Have all exports measured by one rule, the best that holds for all: by label, by inferred steps, or whole; on the host alone where kernels are missing.

    What was asked for stays as it is.
    """
    jobs = [job for side in sides for job in side if job.reduction is not None]
    host: Why = "kernels_missing" if _on_the_host(sides, reading, progress) else ""
    cut = any(job.reading.only.cuts_steps for job in jobs)
    if cut or reading.step_regex is not None or reading.whole_capture:
        return host
    if len({_reduction(job).coverage["kernels"] for job in jobs}) > 1:
        return ""
    _by_one_label(jobs, reading, progress)
    rules = [_reduction(job).step_rule for job in jobs]
    one_rule = len({rule.rule for rule in rules}) == 1
    # a label closes a step where it occurs once, and begins the next one elsewhere
    if one_rule and not rules[0].inferred:
        return host
    rest = [job for job, rule in zip(jobs, rules, strict=True) if rule.rule != WHOLE]
    if len(rest) == len(jobs):
        if one_rule and _steps_alike(sides) is not False:
            return host
        some_labelled = len({rule.inferred for rule in rules}) > 1
        if _alike_by_inference(sides, jobs, reading, progress):
            return host or ("labels_missing" if some_labelled else "other_rules")
    if not rest or not _again(rest, reading, progress, whole_capture=True):
        return host
    return host or ("steps_missing" if len(rest) < len(jobs) else "other_work")


def _alike_by_inference(
    sides: list[list[_Job]], jobs: Sequence[_Job], reading: Reading, progress: Callable[[str], None]
) -> bool:
    """Have what labels cut cut by inference as the rest is, where steps are alike so; whether they are, or are as they were."""

    def fits() -> bool:
        return all(_reduction(job).step_rule.inferred for job in jobs) and bool(_steps_alike(sides))

    labelled = [job for job in jobs if not _reduction(job).step_rule.inferred]
    if labelled and _again(labelled, reading, progress, fits, infer="cycle"):
        return True
    return bool(_steps_alike(sides)) or _alike_by_parts(sides, reading, progress)


def _alike_by_parts(sides: list[list[_Job]], reading: Reading, progress: Callable[[str], None]) -> bool:
    """Have the side whose inferred steps hold more cut at each part of their cycle, where a step of one then does as much as one of the other; whether it does.

    What a program does in every 12th step makes a cycle of it, as the check of drafts does: the other side tells them apart.
    """

    def fits() -> bool:
        cut = _shared(sides)
        return cut is not None and cut.holds and cut.as_much

    found = _shared(sides)
    if found is None:
        return False
    larger = [job for job in sides[found.ratio > 1] if job.reduction is not None]
    inferred = all(_reduction(job).step_rule.inferred for job in larger)
    return inferred and _again(larger, reading, progress, fits, infer="part")


def _on_the_host(sides: list[list[_Job]], reading: Reading, progress: Callable[[str], None]) -> bool:
    """Have the host of all exports measured, where one side lacks kernels that the other has: all, or those of CUDA graphs.

    A side that has some is measured as it is: an export without may be one that went wrong.
    """
    from tracediff.execution.ladder import graphs_apart

    jobs = [job for side in sides for job in side if job.reduction is not None]
    with_kernels = [job for job in jobs if _reduction(job).coverage["kernels"] == "captured"]
    lacking = any(not any(job in with_kernels for job in side) for side in sides)
    if not with_kernels or not (lacking or graphs_apart(_parts(sides))):
        return False
    return _again(with_kernels, reading, progress, host_only=True)


WHOLE = "whole-capture"  # the rule of trace/steps.py, which is not imported before the database reads


def _reduction(job: _Job) -> Reduction:
    assert job.reduction is not None
    return job.reduction


def _parts(sides: Sequence[Sequence[_Job]]) -> list[list[Reduction]]:
    """What was measured of the first two sides."""
    return [[job.reduction for job in side if job.reduction is not None] for side in sides[:2]]


def _steps_alike(sides: Sequence[Sequence[_Job]]) -> bool | None:
    """Whether steps of both sides are the same thing: as many of them, or the same work in each; None where that cannot be told."""
    from tracediff.execution.ladder import as_many

    parts = _parts(sides)
    if len(parts) > 1 and as_many(*parts):
        return True
    found = _shared(sides)
    return found.alike if found is not None and found.holds else None


def _shared(sides: Sequence[Sequence[_Job]]) -> Shared | None:
    """What the steps of the first two sides both launch; None where there is nothing, or one side."""
    from tracediff.execution.ladder import launched, shared

    parts = _parts(sides)
    return shared(*map(launched, parts)) if len(parts) > 1 else None


def _again(
    jobs: Sequence[_Job],
    reading: Reading,
    progress: Callable[[str], None],
    fits: Callable[[], bool] = lambda: True,
    **changes: object,
) -> bool:
    """Read exports again in another way, and take that where all can be read so and what they say then fits."""
    found = [_Job(job.path, job.place, replace(job.reading, **changes), job.name) for job in jobs]
    _reduce_all(found, reading, progress, lambda: None)
    if any(job.reduction is None for job in found):
        return False
    before = [(job.reading, job.reduction) for job in jobs]
    for job, one in zip(jobs, found, strict=True):
        job.reading, job.reduction = one.reading, one.reduction
    if fits():
        return True
    for job, (how, reduction) in zip(jobs, before, strict=True):
        job.reading, job.reduction = how, reduction
    return False


def _by_one_label(jobs: list[_Job], reading: Reading, progress: Callable[[str], None]) -> None:
    """Cut exports that no label cuts by the label of the others, where all have it.

    The evidence for a label may be just enough in some runs of a program, and just not in others.
    """
    rules = [(job, _reduction(job).step_rule) for job in jobs]
    without = [job for job, rule in rules if rule.inferred or rule.rule == WHOLE]
    labels = {rule for _, rule in rules if not rule.inferred and rule.rule != WHOLE}
    if not without or len(labels) != 1:
        return
    (label,) = labels
    if not label.regex or label.rule != label.source:  # a label that occurs once ends its step
        return
    if _again(without, reading, progress, step_regex=label.regex):
        for job in without:
            job.reduction = replace(_reduction(job), step_rule=label)


def _read(
    jobs: list[_Job],
    using: Workers,
    cache: Cache | None,
    progress: Callable[[str], None],
    on_started: Callable[[], None],
) -> list[_Job]:
    """Have every job done by workers. Reports are exported ahead of being read; what was exported is gone afterwards.

    Where a worker process ends in the middle, those that were being read are returned, and of the others some are not done.
    """
    ahead = [using.exports > 0 and job.path.suffix == ".nsys-rep" for job in jobs]
    to_export = deque(enumerate(compress(jobs, ahead)))
    to_read = deque(job for job, first in zip(jobs, ahead, strict=True) if not first)
    exporting: dict[Future[Any], _Job] = {}
    reading: dict[Future[Any], _Job] = {}
    # a few wait for those that run, where all workers read
    most = using.at_once if to_export else 2 * using.at_once

    lost: list[_Job] = []

    def start(among: dict[Future[Any], _Job], job: _Job, what: Callable[..., Any], *given: object) -> None:
        try:
            among[using.executor.submit(what, *given)] = job
        except BrokenExecutor:
            lost.append(job)

    def submit(folder: Path) -> None:
        while to_read and len(reading) < most:
            job = to_read.popleft()
            if job.exported is None:
                progress(job.name)
            how = replace(job.reading, threads=job.reading.threads or using.threads)
            start(reading, job, reduce_file, using.path(job.path), how, None, job.exported)
        while to_export and len(exporting) + sum(job.exported is not None for job in to_read) < using.exports:
            number, job = to_export.popleft()
            progress(job.name)
            start(exporting, job, export_task, job.path, folder / str(number), job.reading.export)

    with scratch() as folder:
        submit(folder)
        on_started()
        while exporting or reading:
            # in turns: polars takes over Ctrl-C in a way that a wait without an end never hears of it
            done, _ = wait([*exporting, *reading], timeout=0.2, return_when=FIRST_COMPLETED)
            using.check()
            for future in done:
                job = exporting.pop(future, None)
                error = None if future.cancelled() else future.exception()
                if job is not None and error is None:
                    job.exported = future.result()
                    to_read.append(job)
                    continue
                job = job or reading.pop(future)
                if isinstance(error, BrokenExecutor):
                    lost.append(job)
                else:
                    job.settle(future, cache)
                    if job.exported is not None:
                        shutil.rmtree(job.exported.parent, ignore_errors=True)
            if not lost:
                submit(folder)
    for job in jobs:
        job.exported = None
    return lost
