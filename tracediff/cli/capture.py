"""`tracediff capture --until`: asked after every pair of runs whether the change of a measure is known well enough."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracediff.capture.plan import until_of
from tracediff.cli.options import takes
from tracediff.cli.say import say
from tracediff.cli.windows import proposed, steps_of
from tracediff.errors import TracediffError, UsageError, printable, visible
from tracediff.formats.bundle import SIDES
from tracediff.formats.recognise import counted
from tracediff.formats.reports import FORMS
from tracediff.request import option

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tracediff.capture.machine import Nsys
    from tracediff.capture.plan import Plan, Slot
    from tracediff.capture.runner import Pair
    from tracediff.comparison.measures import Measure
    from tracediff.comparison.sequential import Look
    from tracediff.execution.run import Reduced


@dataclass
class Adaptive:
    """What the runner asks after every pair. Each export is read once."""

    until: str
    max_runs: int
    tell: Callable[[str], None]
    reduced: Reduced

    def __call__(self, pairs: Sequence[Pair]) -> tuple[dict[str, Any], str | None]:
        """Return the look for the manifest, and why no more runs are needed (None: go on).

        Raises `TracediffError` where an export has no steps to be timed.
        """
        from tracediff.comparison import sequential

        measure, wanted, relative = wanted_of(self.until)
        baseline, candidate = (self.reduced.side(name, [pair[name] for pair in pairs]) for name in SIDES)
        times = sequential.run_values(measure, baseline, candidate)
        seen = sequential.look(*times, wanted=wanted, relative=relative)
        self.tell(estimate(seen, measure.text, last=seen.pairs >= self.max_runs))
        return seen.recorded(seen.wanted_ns, sequential.ALPHA), seen.answer


def wanted_of(until: str) -> tuple[Measure, float, bool]:
    """The measure and the half-width of its interval: see `until_of`. Raises `TracediffError`: bad-measure, measure-by-run."""
    from tracediff.comparison.measures import by_run, parse

    text, wanted, relative = until_of(until)
    return by_run(parse(text)), wanted, relative


def estimate(seen: Look, name: str = "step", *, last: bool = False) -> str:
    """Return the running estimate of a measure as a line; `last`: no more runs may be made."""
    relative = name == "step"
    scale, unit, digits = (100 / seen.baseline_ns, "%", 2) if relative else (1e-3, "us", 1)
    wanted = f"wanted +-{seen.wanted_ns * scale:.2g} {unit}"
    change = f"after {seen.pairs} pairs: {name} {seen.delta_ns * scale:+.{digits}f} {unit}"
    onward = "--max-runs reached" if last else "going on"
    if not math.isfinite(seen.half_ns):
        return f"{change}, too few pairs for an interval; {wanted}: {onward}"
    low, high = (bound * scale for bound in (seen.low_ns, seen.high_ns))
    interval = f"interval {low:+.{digits}f} to {high:+.{digits}f} {unit}, {wanted}"
    ends = {"changed": f"{name} changed: enough", "narrow": "narrow enough", None: onward}
    return f"{change}, {interval}: {ends[seen.answer]}"


# `tracediff capture`: paired runs of a baseline and a candidate under nsys.


_PATH = click.Path(path_type=Path)


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What a plan may say as well, and what is done with it."""

    baseline: str | None = option(None, "Command of the baseline.", metavar="CMD")
    candidate: str | None = option(None, "Command of the candidate.", metavar="CMD")
    baseline_ref: str | None = option(
        None, "Run the baseline in a checkout of this revision; REF... is its merge base with the candidate.", metavar="REF"
    )  # fmt: skip
    candidate_ref: str | None = option(
        None, "The same for the candidate.  [default: as it lies here]", metavar="REF"
    )
    build: str | None = option(None, "Shell command that builds a checkout, run at its top.", metavar="CMD")
    checkouts: Path | None = option(
        None, "Where checkouts are made, kept and taken again.  [default: BUNDLE-checkouts]", metavar="DIR", type=_PATH
    )  # fmt: skip
    repeats: int | None = option(
        None, "Profiled runs per side.  [default: 5]", name="-n --repeats", metavar="N", type=int
    )
    until: str | None = option(
        None, "After -n runs per side go on, pair by pair, until the interval of the change is +- that narrow or excludes 0: step:2%, gil@_schedule:10us.",
        metavar="MEASURE:WIDTH",
    )  # fmt: skip
    max_runs: int | None = option(
        None, "Profiled runs per side at most, with --until.  [default: 20]", metavar="N", type=int
    )
    preset: str | None = option(
        None, "What the program needs to be captured.  [default: any]", metavar="NAME"
    )
    model: str | None = option(
        None,
        "Model of --preset trtllm-llmapi: no command is needed, and those given are its options.",
        metavar="M",
    )
    steps: str | None = option(None, "Iterations to capture, for presets that know how.", metavar="A-B")
    windows: Path | None = option(
        None, "The --steps that `tracediff windows LOG` proposes.", metavar="LOG", type=_PATH
    )
    order: str | None = option(
        None, "A B B A, so that drift hits both sides alike; pairs in drawn orders; or one side after the other. [default: abba]",
        choices=("abba", "random", "sequential"),
    )  # fmt: skip
    seed: int | None = option(None, "Seed of --order random and of --same-traffic.", type=int)
    same_traffic: bool = option(
        False,
        "Give both runs of a pair one traffic seed: TRACEDIFF_TRAFFIC_SEED, and {traffic_seed} in a command.",
    )
    warmup: int | None = option(None, "Unprofiled runs per side before all others.", metavar="N", type=int)
    controls: int | None = option(None, "Unprofiled runs per side among the others.", metavar="N", type=int)
    timeout_s: float | None = option(
        None, "Seconds that a run may take.", name="--timeout", metavar="S", type=float
    )
    client: str | None = option(
        None, "The client that loads a server: trtllm-serve, vllm, sglang.", metavar="CMD"
    )
    ready_url: str | None = option(
        None, "What answers once the server is ready.  [default: /health on the preset's port]", metavar="URL"
    )
    launcher: str | None = option(
        None, "mpirun or srun with its arguments: one report per rank.", metavar="WORDS"
    )
    kpi: tuple[str, ...] = option((), "Benchmark reports of a run; repeatable.", metavar="GLOB")
    graph_trace: str | None = option(
        None, "CUDA graphs by node, or as a whole. [default: node]", choices=("node", "graph")
    )
    only_rank: int | None = option(None, "Profile this rank of a launcher alone.", metavar="N", type=int)
    gpu_metrics: bool = option(False, "Sample GPU metrics too; with a launcher, those of --only-rank.")
    gpu_metrics_frequency: int | None = option(
        None, "How often.  [default: nsys's own, 10000]", metavar="HZ", type=int
    )
    ncu: str | None = option(
        None, "In place of nsys: profile one launch of the kernel that this regular expression fits, with Nsight Compute, on both sides.",
        metavar="KERNEL",
    )  # fmt: skip
    export: str | None = option(
        None, "What nsys exports its reports to.  [default: parquet, where it can]", choices=FORMS
    )
    keep_reports: bool = option(False, "Keep the .nsys-rep files. They hold the programs' environment.")
    nsys_flags: tuple[str, ...] = option(
        (), "One more word for nsys profile.", name="--nsys-flag", metavar="FLAG"
    )
    output: Path | None = option(
        None, "[default: tracediff-bundle]", name="-o --output", metavar="BUNDLE", type=_PATH
    )
    only_plan: bool = option(False, "Print every command line and run nothing.", name="--plan")
    resume: bool = option(False, "Go on with a bundle: finished runs are kept, others replaced.")

    def of_plan(self) -> dict[str, object]:
        """What is said of the plan, by its names there; None where it is not."""
        given = {name: value for name, value in vars(self).items() if name not in _NOT_OF_PLAN}
        return {name: None if value is False else value for name, value in given.items()}


_NOT_OF_PLAN = ("baseline", "candidate", "checkouts", "windows", "ncu", "output", "only_plan", "resume")


@click.command(
    epilog="""
\b
Examples:
  tracediff capture --baseline 'python serve.py' --candidate 'python serve.py --new' -n 5
  tracediff capture plan.toml --plan
  tracediff capture plan.toml -o pr-123 && tracediff compare pr-123 --html report.html
  tracediff capture plan.toml -o pr-123 --resume
  tracediff capture plan.toml -n 5 --until step:2% --max-runs 20
  tracediff capture plan.toml --baseline-ref main... --candidate-ref HEAD --build 'make'
  tracediff capture --ncu fmha --baseline './bench' --candidate './bench --new' -o fmha

\b
Try it without a GPU (the host is real, a clock plays the GPU; pip install 'nvtx<=0.2.10'):
  E='python -m tracediff_emulator --dry-run --steps 60'
  tracediff capture -n 2 --baseline "$E" --candidate "$E --gil-hog-us 3000" -o first

\b
In a command, {run} stands for the folder of the run, {traffic_seed} for the seed of --same-traffic.
Presets: any, torch, emulator, hf, vllm, sglang, trtllm-bench-throughput, trtllm-bench-latency,
trtllm-llmapi, trtllm-serve, trtexec, gptManagerBenchmark.
"""
)
@click.argument("plan_file", metavar="[PLAN.toml]", required=False, type=click.Path(path_type=Path))
@takes(flags=Flags)
def capture(plan_file: Path | None, flags: Flags) -> None:
    """Record paired runs of BASELINE and CANDIDATE, interleaved, into a bundle for `tracediff compare`.

    The sides come from a plan (TOML) or from --baseline and --candidate; flags win over the plan.
    """
    from tracediff.capture.checkout import check_out, located
    from tracediff.capture.launch import left_out, need_packages, shown
    from tracediff.capture.machine import forget_tokens, gpus
    from tracediff.capture.runner import Runner
    from tracediff.execution.run import Reduced

    forget_tokens()
    if flags.windows is not None:
        if flags.steps:
            raise click.UsageError("give --steps or --windows")
        flags = replace(flags, steps=steps_of(proposed(flags.windows)))
    bundle = flags.output or Path("tracediff-bundle")
    folder = flags.checkouts or bundle.with_name(f"{bundle.name}-checkouts")
    plan = located(_plan(plan_file, flags), folder)
    if flags.ncu is not None:
        _kernel(plan, flags.ncu, flags.output or Path("tracediff-ncu"), flags.only_plan)
        return
    if plan.until:
        wanted_of(plan.until)  # refused before anything runs
    nsys = _nsys(flags.only_plan)
    for note in left_out(plan, nsys.features):
        say(f"warning: {note}")
    if gpus() is None:
        say("warning: nvidia-smi lists no GPU: no kernels will be captured here")
    if flags.only_plan:
        for line in shown(plan, nsys, bundle.resolve()):
            click.echo(visible(f"{line}\n", keep="\n\t"), nl=False)  # to be pasted into a shell
        return
    need_packages(plan, os.environ)
    with _Progress(plan) as progress:
        enough = Adaptive(plan.until, plan.max_runs, progress.note, Reduced()) if plan.until else None
        runner = Runner(
            plan, bundle, nsys, os.environ, report=progress.slot, note=progress.note, enough=enough,
            prepare=lambda: check_out(plan, bundle, folder, progress.note),
        )  # fmt: skip
        manifest = runner.run(resume=flags.resume)
    seconds = sum(run.seconds for run in manifest.runs)
    say(f"{bundle}: {counted(len(manifest.runs), 'run')}, {seconds:.0f} s")
    if plan.keep_reports:
        say("  its .nsys-rep files hold the environment of the programs: do not share them")
    say(f"  next: tracediff compare {bundle}")


def _kernel(plan: Plan, kernel: str, folder: Path, only_plan: bool) -> None:
    from tracediff.capture.kernel import kernel_commands, profile_kernel
    from tracediff.capture.machine import recorded_command

    if only_plan:
        for command in kernel_commands(plan, kernel, folder).values():
            click.echo(visible(f"{shlex.join(recorded_command(command))}\n", keep="\n\t"), nl=False)
        return
    reports = profile_kernel(plan, kernel, folder, os.environ)
    say(f"  next: tracediff compare {' '.join(map(str, reports))}")


def _nsys(only_plan: bool) -> Nsys:
    """The nsys of this machine; for a plan that is only shown, one that can do everything stands for a missing one."""
    from tracediff.capture.machine import Features, Nsys, need_nsys

    try:
        return need_nsys()
    except TracediffError as error:
        if not only_plan or error.slug != "nsys-missing":
            raise
        say("warning: there is no nsys here: what yours cannot do is left out when the plan runs")
        return Nsys(Path("nsys"), None, Features())


def _plan(file: Path | None, flags: Flags) -> Plan:
    from tracediff.capture.plan import plan_from, read_plan

    baseline, candidate, given = flags.baseline, flags.candidate, flags.of_plan()
    if file is not None:
        if baseline or candidate:
            raise click.UsageError("give a plan, or --baseline and --candidate")
        return read_plan(file, **given)
    if not flags.model and (not baseline or not candidate):
        absent = "--candidate is missing" if baseline else "--baseline is missing"
        raise UsageError(
            "plan-missing",
            absent if baseline or candidate else "nothing to capture",
            fix="tracediff capture PLAN.toml, or --baseline 'CMD' --candidate 'CMD'",
        )
    sides = {"baseline": baseline, "candidate": candidate}
    return plan_from({name: {"command": command or ""} for name, command in sides.items()}, Path(), given)


class _Progress:
    """A bar on a terminal, a line a run elsewhere; both on stderr."""

    def __init__(self, plan: Plan) -> None:
        self._total = len(plan.schedule())
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                console=Console(stderr=True),
            )  # fmt: skip
            self._task = self._bar.add_task("capture", total=self._total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def slot(self, slot: Slot, what: str) -> None:
        """Say how a run goes."""
        if self._bar is None or self._task is None:
            say(f"[{slot.index}/{self._total}] {slot.name}: {what}")
            return
        self._bar.start()  # not before: a build prints to the same screen
        over = what in ("done", "failed", "finished before")
        self._bar.update(self._task, description=f"{slot.name}: {what}", completed=slot.index - (not over))

    def note(self, text: str) -> None:
        """Say something that stays on the screen."""
        if self._bar is None:
            say(text)
        else:
            self._bar.console.print(printable(text), markup=False, highlight=False)
